/* case_run.h: one random case on the simulator, with whatever recorder: for tests of those who listen to a run. */
#ifndef TESTS_SUPPORT_CASE_RUN_H
#define TESTS_SUPPORT_CASE_RUN_H

#include "core/engine.h"
#include "tests/support/random_case.h"

struct err;

struct case_watch {
	struct recorder recorder;
	void *ctx; /* of the next two, which may be NULL */
	void (*engine)(void *ctx, const struct engine *g); /* before the first step */
	int (*stand_before)(void *ctx, struct backend *b, struct err *e); /* as run_io.stand_before */
};

/* requests: [w->n], zeroed. ERR_INPUT: its settings do not go together. */
int case_run(const struct random_case *c, const struct workload *w, const struct case_watch *watch,
	     struct request *requests, struct err *e);

#endif
