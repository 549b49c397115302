/* cost.h: batch totals -> nanoseconds. One seam, several models (roofline, linear, constant, profiled). A model is created once
 * per run and asked once per step: it must answer in a few nanoseconds for a decode-only batch, so whatever depends only on the
 * number of tokens is computed once and kept. */
#ifndef SIM_COST_H
#define SIM_COST_H

#include <stdint.h>

#include "core/backend.h"
#include "core/batch.h"

struct cost_time {
	int64_t device_ns; /* the kernels */
	int64_t host_ns; /* scheduling, launch and sampling overhead of the host */
	double outside; /* how far the query lies outside what was measured: 0 = inside, 1 = twice the largest */
};

struct cost;

struct cost_ops {
	const char *name;
	void (*step)(const struct cost *c, const struct batch *b, struct cost_time *out);
	void (*destroy)(struct cost *c);
	/* Runs the decode-only batch b up to `most` times in a row from start_ns, as long as each run begins before
	 * b->until_ns and its host part and `outside` are the first one's: end_ns[i] is when the i-th ends. Every time must be what `step` gives for it. *all is what the runs have in common (device_ns: the last one's). Returns how many. NULL: `step` is asked for each. */
	int64_t (*run)(const struct cost *c, const struct batch *b, int64_t start_ns, int64_t *end_ns, int64_t most,
		       struct cost_time *all);
	/* Where b's device time goes: they add up to device_ns (rounding apart). NULL: the model knows no parts. */
	void (*parts)(const struct cost *c, const struct batch *b, double part_ns[STEP_PARTS]);
};

/* Each model embeds this first. */
struct cost {
	const struct cost_ops *ops;
};

static inline void cost_step(const struct cost *c, const struct batch *b, struct cost_time *out)
{
	c->ops->step(c, b, out);
}

/* ops->run, or what it stands for. */
int64_t cost_run(const struct cost *c, const struct batch *b, int64_t start_ns, int64_t *end_ns, int64_t most,
		 struct cost_time *all);

void cost_free(struct cost *c); /* NULL is fine */

#endif
