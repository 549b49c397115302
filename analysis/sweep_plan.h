/* sweep_plan.h: from an experiment file to its points. A point is a command line of `lockstep replay`; docs/sweep.md
 * describes the file. */
#ifndef ANALYSIS_SWEEP_PLAN_H
#define ANALYSIS_SWEEP_PLAN_H

#include <stdbool.h>
#include <stdint.h>

struct err;

#define SWEEP_POINTS_MAX 1000000

struct sweep_point {
	char **words; /* [n_words] "--policy", "chunked", "--goodput", "ttft:500", "tpot:50" */
	int32_t n_words;
	/* Digest of what decides its result: the flags in alphabetical order, the trace's bytes, the program's version. Equal
	 * points are done once, wherever they stand and whatever the experiment is called. */
	uint64_t key;
};

struct sweep_plan {
	char *name, *about; /* about may be NULL */
	char *text; /* the experiment as JSON in one line */
	struct sweep_point *points; /* [n] */
	int64_t n, cap;
	char **varied; /* [n_varied] flags that differ between points, without dashes */
	int64_t n_varied, cap_varied;
};

/* ERR_INPUT names the file, the key and what is wrong with it. Release with sweep_plan_free, also after an error. */
int sweep_plan_load(struct sweep_plan *out, const char *path, struct err *e);
int sweep_plan_parse(struct sweep_plan *out, const char *text, const char *where, struct err *e);
void sweep_plan_free(struct sweep_plan *p);

/* Fills each point's key; reads the traces. */
int sweep_plan_keys(struct sweep_plan *p, struct err *e);

/* The value of a flag of a point ("" where it stands alone), NULL when it is not given. Several words: joined into buf. */
const char *sweep_point_value(const struct sweep_point *p, const char *flag, char *buf, int64_t size);

#endif
