/* compare_stored.h: runs that are in the database already, held against each other. */
#ifndef CLI_COMPARE_STORED_H
#define CLI_COMPARE_STORED_H

#include <stdbool.h>

#include "analysis/metrics.h"

struct err;

struct compare_stored {
	const char *db;
	const char *const *runs; /* [n] numbers, or "latest" */
	int n;
	struct percentiles percentiles;
	bool all, json;
	int width; /* columns; 0 = not known */
	bool bold;
};
/* Runs of one configuration (all settings but the seed) make one side; the first run's is what the others are held against.
 * Prints. ERR_INPUT: a run that is not there, or not complete. */
int compare_stored(const struct compare_stored *c, struct err *e);

#endif
