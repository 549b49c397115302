#include "sim/router.h"

static int32_t choose(struct router *r, int32_t req)
{
	(void)req;
	return route_least(r, true);
}

const struct router_desc route_least_tokens = {"least_tokens", "the fewest prompt tokens of requests not yet ended",
					       NULL, choose, NULL};
