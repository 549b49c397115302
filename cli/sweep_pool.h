/* sweep_pool.h: who runs the points of a sweep: processes of this machine, or the ranks of an MPI job. Each has one point
 * at a time and gets the next when it has answered, so slow points delay nobody. */
#ifndef CLI_SWEEP_POOL_H
#define CLI_SWEEP_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/sweep_work.h"

struct err;

enum pool_event {
	POOL_ANSWER, /* *answer is worker's */
	POOL_CRASHED, /* it is gone, and answer->index is the point it had; a new one took its place, or error */
	POOL_LOST, /* it is gone with its point, and nobody took its place: it must not be given another */
	POOL_NOTHING, /* no answer within the time */
};

struct pool_ops {
	/* Gives worker (0 .. n-1, idle) a point. */
	int (*give)(void *self, int32_t worker, int64_t index, struct err *e);
	/* Waits for any of those that have one; for so long (-1: as long as it takes). What is known of a point that was
	 * lost, beyond that, is in answer->text. */
	int (*take)(void *self, int32_t timeout_ms, int32_t *worker, enum pool_event *event,
		    struct sweep_answer *answer, struct err *e);
	void (*close)(void *self);
};

struct pool {
	const struct pool_ops *ops;
	void *self;
	int32_t n;
};

/* So many processes, forked from this one. They end when it does. */
int pool_fork(struct pool *out, const struct sweep_plan *p, int32_t n, const volatile int *stop, struct err *e);

#endif
