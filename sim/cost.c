#include "sim/cost.h"

/* Asked step by step. */
static int64_t run_singly(const struct cost *c, struct batch b, int64_t start_ns, int64_t *end_ns, int64_t most,
			  struct cost_time *all)
{
	int64_t n = 0, t = start_ns;
	do {
		struct cost_time one;
		cost_step(c, &b, &one);
		if (n && (one.host_ns != all->host_ns || one.outside != all->outside))
			break;
		*all = one;
		t += one.host_ns + one.device_ns;
		end_ns[n++] = t;
		b.decode_ctx += b.decodes;
		b.decode_ctx_window += b.window_growing;
	} while (n < most && t < b.until_ns);
	return n;
}

int64_t cost_run(const struct cost *c, const struct batch *b, int64_t start_ns, int64_t *end_ns, int64_t most,
		 struct cost_time *all)
{
	if (most <= 1 || b->n_chunks) { /* a batch with prompt pieces is run once */
		cost_step(c, b, all);
		end_ns[0] = start_ns + all->host_ns + all->device_ns;
		return 1;
	}
	return c->ops->run ? c->ops->run(c, b, start_ns, end_ns, most, all)
			   : run_singly(c, *b, start_ns, end_ns, most, all);
}

void cost_free(struct cost *c)
{
	if (c)
		c->ops->destroy(c);
}
