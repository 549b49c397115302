/* timeline_fill.h: phases and steps for a timeline, from where they can be had. */
#ifndef CLI_TIMELINE_FILL_H
#define CLI_TIMELINE_FILL_H

#include <stdbool.h>

struct err;
struct store;
struct timeline;

/* The run is made again from its command line and its trace (dataset_path: where that is now, or NULL). With `totals`, or where
 * that cannot be, which is said on stderr: what the database has. t comes from timeline_read. */
int timeline_fill(struct timeline *t, struct store *s, const char *dataset_path, bool totals, struct err *e);

#endif
