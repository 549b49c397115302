/* report_pairs.h: two runs of the same workload, request by request: each request's time in one against its own time in the
 * other, so that what requests differ in by themselves is gone. */
#ifndef ANALYSIS_REPORT_PAIRS_H
#define ANALYSIS_REPORT_PAIRS_H

#include <stdint.h>

struct err;
struct jout;
struct store_request;

enum { PAIR_FIGURES = 3 }; /* TTFT, TPOT, E2E: report_requests.c has them */

/* One side: milliseconds, NAN where the request has none. */
struct report_side {
	int64_t run_id;
	char hash[24]; /* of the workload */
	int64_t n;
	double *ms[PAIR_FIGURES]; /* [n] by request */
};
/* ERR_MEMORY. Release with report_side_free, also after an error. */
int report_side_fill(struct report_side *s, int64_t run_id, const char *hash, const struct store_request *list,
		     int64_t n, struct err *e);
void report_side_free(struct report_side *s);

/* "pairs": differences b - a. The two have the same workload. */
int report_put_pairs(struct jout *j, const struct report_side *a, const struct report_side *b, int32_t at_most,
		     struct err *e);

/* The mean of n values and its 95 % interval, mean - *half to mean + *half, from the means of 20 batches of neighbours, since
 * neighbours depend on each other (Law, Simulation Modeling and Analysis, section 9.5.3). *half is NAN below 40 values. */
double report_batch_mean(const double *values, int64_t n, double *half);

#endif
