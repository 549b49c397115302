/* cost.h: batch totals -> nanoseconds. One seam, several models (roofline, linear, constant; profiled comes with the
 * executor). A model is created once per run and asked once per step: it must answer in a few nanoseconds for
 * a decode-only batch, so whatever depends only on the number of tokens is computed once and kept. */
#ifndef SIM_COST_H
#define SIM_COST_H

#include <stdint.h>

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
};

/* Each model embeds this first. */
struct cost {
	const struct cost_ops *ops;
};

static inline void cost_step(const struct cost *c, const struct batch *b, struct cost_time *out)
{
	c->ops->step(c, b, out);
}

void cost_free(struct cost *c); /* NULL is fine */

#endif
