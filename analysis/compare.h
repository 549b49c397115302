/* compare.h: runs side by side: metric rows, the best of each marked, ratios against the first run. */
#ifndef ANALYSIS_COMPARE_H
#define ANALYSIS_COMPARE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "analysis/metrics.h"

struct err;
struct run_result;
struct run_settings;

struct compare_cell {
	double value; /* NAN = not defined */
	double ratio; /* value / the first run's; NAN for the first run or where that is 0 or not defined */
	bool best; /* of its row, only where the row has a better side and the runs differ */
	bool thin; /* a percentile of too few samples */
};

struct compare_table {
	int32_t n_runs, n_rows;
	struct metric_value *rows; /* [n_rows]: key, label, unit, better (value is unused) */
	struct compare_cell *cells; /* [n_rows][n_runs] */
	char **names; /* [n_runs] column headings */
	bool different_input; /* the workload hashes differ: said above the table */
};

/* all = every metric, else the headline ones. */
int compare_build(struct compare_table *t, const struct run_settings *const *s, const struct run_result *const *r,
		  int32_t n_runs, bool all, struct err *e);
/* The same of metrics that are at hand: lists [n_runs][METRICS_MAX_VALUES], of which lengths[k] are there. */
int compare_build_lists(struct compare_table *t, const char *const *names, const struct metric_value *lists,
			const int32_t *lengths, int32_t n_runs, bool all, struct err *e);
void compare_free(struct compare_table *t);

/* Aligned text, at most `width` columns (100 when 0): as many runs side by side as fit, the rest in further blocks, each
 * beginning with the first run again. Best values carry a '*', thin percentiles a '~'. With bold, ANSI bold too. */
int compare_print(const struct compare_table *t, FILE *f, int width, bool bold, struct err *e);

/* One run as text: what `lockstep replay` prints. */
int compare_print_run(FILE *f, const struct run_settings *s, const struct run_result *r, struct err *e);

#endif
