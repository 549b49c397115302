#include "sim/router.h"

static int32_t choose(struct router *r, int32_t req)
{
	(void)req;
	return (int32_t)rng_below(&r->rng, (uint64_t)r->n);
}

const struct router_desc route_random = {"random", "each as likely", NULL, choose, NULL};
