/* recall.h: a stored run's workload and settings, had again by reading its command line and its trace once more. */
#ifndef CLI_RECALL_H
#define CLI_RECALL_H

#include <stdint.h>

#include "analysis/run.h"
#include "analysis/store.h"
#include "cli/run_opts.h"
#include "cli/run_session.h"
#include "sim/profile.h"

struct err;

struct recalled {
	struct store_recipe recipe;
	char **words, **argv; /* [n_words] its command line, and the same as parsing left it; options point into both */
	int n_words;
	struct run_opts opts;
	struct arms arms;
	struct loaded loaded;
	struct tape tape; /* empty of a simulation */
	struct profile profile; /* of a simulation with measured times; else zero */
	struct run_settings settings; /* ready for rerun_execute; its label is the run's */
	bool cluster; /* several replicas will do */
};

/* Whatever is needed to run it again, checked: its workload must be what it was. dataset_path: where the trace is now; NULL:
 * where it was. ERR_INPUT. Release with recall_free, also after an error. */
int recall(struct recalled *r, struct store *s, int64_t run_id, const char *dataset_path, struct err *e);
/* recall of the run that `text` names: its number, or "latest". */
int recall_named(struct recalled *r, struct store *s, const char *text, const char *dataset_path, struct err *e);
/* The same for those who can tell replicas apart: the two above refuse a run of several. */
int recall_cluster(struct recalled *r, struct store *s, const char *text, const char *dataset_path, struct err *e);
void recall_free(struct recalled *r);

#endif
