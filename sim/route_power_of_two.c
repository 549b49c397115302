/* Of two drawn at random the less loaded (Mitzenmacher, 2001): nearly as even as looking at all of them, and with stale
 * views it does not send everybody to the one that was the emptiest. */
#include "sim/router.h"

static int32_t choose(struct router *r, int32_t req)
{
	(void)req;
	if (r->n == 1)
		return 0;
	int32_t a = (int32_t)rng_below(&r->rng, (uint64_t)r->n), b = (int32_t)rng_below(&r->rng, (uint64_t)r->n - 1);
	b += b >= a;
	return r->seen[b].requests < r->seen[a].requests ? b : a;
}

const struct router_desc route_power_of_two = {"power_of_two", "of two drawn at random the one with fewer requests",
					       NULL, choose, NULL};
