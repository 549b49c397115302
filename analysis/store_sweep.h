/* store_sweep.h: experiments in the database: which of their points are done, and what came of them. */
#ifndef ANALYSIS_STORE_SWEEP_H
#define ANALYSIS_STORE_SWEEP_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct err;
struct store;
struct sweep_plan;
struct sweep_point;

/* The experiment's row, made when there is none with the same name and content. */
int store_sweep_begin(struct store *s, const struct sweep_plan *p, int64_t started_unix_s, int64_t *sweep_id,
		      struct err *e);

/* A point of any experiment whose run is complete and still there. */
struct sweep_known {
	uint64_t key;
	int64_t run_id;
	double wall_s;
};
/* All of them by key, one for each; *list to be released with mem_free. */
int store_sweep_known(struct store *s, struct sweep_known **list, int64_t *n, struct err *e);
const struct sweep_known *sweep_known_find(const struct sweep_known *list, int64_t n, uint64_t key);

/* What came of the point at that position (from 1), in place of what stood there. run_id 0: there is none. */
struct sweep_outcome {
	int64_t run_id;
	const char *status; /* "complete", "failed", "crashed" */
	const char *text; /* why it failed; NULL */
	double wall_s;
};
int store_sweep_point(struct store *s, int64_t sweep_id, int64_t position, const struct sweep_point *p,
		      const struct sweep_outcome *o, struct err *e);

/* Of all points, in order: how many are complete and how many failed. */
int store_sweep_count(struct store *s, int64_t sweep_id, int64_t *complete, int64_t *failed, struct err *e);
/* One line for each point: position, the varied flags, status, its text, then every figure of its run ("" = not defined).
 * A first line of names. */
int store_sweep_csv(struct store *s, int64_t sweep_id, const struct sweep_plan *p, FILE *f, struct err *e);
/* A figure of a run by its name in `metrics`; NAN where it is not there. */
int store_sweep_metric(struct store *s, int64_t sweep_id, int64_t position, const char *key, double *value,
		       struct err *e);
/* Why the first `most` that failed did: "point 3: ..." into each of lines[most]; returns how many through *n. */
int store_sweep_failures(struct store *s, int64_t sweep_id, char lines[][300], int32_t most, int32_t *n, struct err *e);

#endif
