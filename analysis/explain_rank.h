/* explain_rank.h: what the slowest requests of a run have in common. */
#ifndef ANALYSIS_EXPLAIN_RANK_H
#define ANALYSIS_EXPLAIN_RANK_H

#include "analysis/explain.h"
#include "core/request.h"

struct err;

enum explain_metric { EXPLAIN_TTFT, EXPLAIN_TPOT, EXPLAIN_E2EL, EXPLAIN_METRICS };
extern const char *const explain_metric_names[]; /* "ttft", "tpot", "e2el", NULL */
extern const char *const explain_metric_labels[]; /* "TTFT", "TPOT", "E2E latency" */

enum { EXPLAIN_SLOWEST = 5 };

/* Of finished requests that have the metric; nanoseconds, for TPOT per token after the first. */
struct explain_rank {
	int64_t n;
	int64_t slow; /* the slowest: from the percentile on (nearest rank), itself included */
	double at_ns; /* the percentile */
	double all_ns, slow_ns; /* means */
	double all_by[CAUSES], slow_by[CAUSES]; /* means by cause: they add up to these */
	int32_t order[CAUSES]; /* causes, the largest of slow_by first */
	int32_t slowest[EXPLAIN_SLOWEST]; /* the slowest first */
	int32_t n_slowest;
};

/* n = 0 where no request has it. percentile in (0, 100). ERR_MEMORY. */
int explain_rank(const struct explain *x, const struct request *requests, enum explain_metric metric, double percentile,
		 struct explain_rank *out, struct err *e);

#endif
