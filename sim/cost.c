#include "sim/cost.h"

int64_t cost_run(const struct cost *c, struct batch *b, int64_t start_ns, int64_t *end_ns, int64_t most,
		 struct cost_time *all)
{
	if (c->ops->run && !b->n_chunks)
		return c->ops->run(c, b, start_ns, end_ns, most, all);
	int64_t n = 0, t = start_ns;
	do {
		struct cost_time one;
		cost_step(c, b, &one);
		if (n && (one.host_ns != all->host_ns || one.outside != all->outside))
			break;
		*all = one;
		t += one.host_ns + one.device_ns;
		end_ns[n++] = t;
		b->decode_ctx += b->decodes;
		b->decode_ctx_window += b->window_growing;
	} while (n < most && t < b->until_ns);
	return n;
}

void cost_free(struct cost *c)
{
	if (c)
		c->ops->destroy(c);
}
