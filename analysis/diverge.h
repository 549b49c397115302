/* diverge.h: where two stored runs part. Both are run again, once to find the first step that differs (a few numbers are
 * kept of each step), and once more to see that step in both.
 *
 * Decisions are compared without their times: two runs on real kernels never take the same nanoseconds. Arrivals are not
 * decisions either, since when one is noticed depends on the clock; they are told as a reason. */
#ifndef ANALYSIS_DIVERGE_H
#define ANALYSIS_DIVERGE_H

#include <stdbool.h>
#include <stdint.h>

#include "analysis/run.h"
#include "analysis/store.h"

struct err;

/* One side: what rerun_execute takes. */
struct diverge_run {
	const struct store_recipe *recipe;
	const struct run_settings *settings;
	const struct workload *workload;
};

/* What counts beside decisions as such. */
struct diverge_scope {
	bool times; /* clock readings */
	bool any_block; /* which block is given does not count, only that one is */
};

#define DIVERGE_STATE 768

/* One side of the step that differs. */
struct diverge_side {
	bool ended; /* it had no such step: the run was over */
	struct event *events; /* [n] of the step, arrivals noticed before it included */
	int64_t n, cap;
	int64_t arrived; /* requests, by then */
	char before[DIVERGE_STATE]; /* engine_describe, before the first of the events */
};

struct divergence {
	bool differs;
	int64_t step; /* where decisions first differ; if they do not, how many steps there were */
	int64_t decisions; /* alike before that */
	struct diverge_side side[2];
	/* The first step whose start or end differs, up to there; -1: none. */
	int64_t clock_step;
	int64_t start_ns[2], end_ns[2];
};

/* ERR_NONE whether they differ or not. An error of a run (it decides otherwise than it did) names the run. Release with
 * divergence_free. */
int diverge(const struct diverge_run run[2], struct diverge_scope scope, const volatile int *stop, struct divergence *d,
	    struct err *e);
void divergence_free(struct divergence *d);

/* Does the event count, and are two of them the same decision? */
bool diverge_decides(const struct event *ev);
bool diverge_same(const struct event *a, const struct event *b, struct diverge_scope scope);

#endif
