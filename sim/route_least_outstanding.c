#include "sim/router.h"

static int32_t choose(struct router *r, int32_t req)
{
	(void)req;
	return route_least(r, false);
}

const struct router_desc route_least_outstanding = {"least_outstanding", "the fewest requests not yet ended", NULL,
						    choose, NULL};
