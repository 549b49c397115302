/* report_pairs.h: two runs against each other; of the same workload request by request: each request's time in one against its
 * own time in the other, so that what requests differ in by themselves is gone. */
#ifndef ANALYSIS_REPORT_PAIRS_H
#define ANALYSIS_REPORT_PAIRS_H

#include <stdint.h>

#include "analysis/effects.h"

struct err;
struct jout;
struct store;
struct store_report_run;
struct store_request;

enum { PAIR_FIGURES = 3 }; /* TTFT, TPOT, E2E: report_requests.c has them */

/* One side: milliseconds, NAN where the request has none. */
struct report_side {
	int64_t run_id; /* 0: none */
	char label[200];
	int64_t n;
	double *ms[PAIR_FIGURES]; /* [n] by request */
	struct effects_run run;
};
/* ERR_MEMORY, or the store's. Release with report_side_free, also after an error. */
int report_side_fill(struct report_side *x, struct store *s, const struct store_report_run *r,
		     const struct store_request *list, int64_t n, struct err *e);
void report_side_free(struct report_side *x);

/* "pairs": what b does to a, in words and with intervals as `compare` has them, and, if both had the same workload, the
 * differences b - a of each request. */
int report_put_pairs(struct jout *j, const struct report_side *a, const struct report_side *b, int32_t at_most,
		     struct err *e);

#endif
