#include "sim/router.h"

#include "core/err.h"
#include "core/mem.h"

static int open_turns(struct router *r, struct err *e)
{
	r->self = mem_zalloc(1, sizeof(int32_t));
	return r->self ? ERR_NONE : err_no_memory(e, "a router");
}

static int32_t choose(struct router *r, int32_t req)
{
	int32_t *next = r->self, m = *next;
	(void)req;
	*next = m + 1 < r->n ? m + 1 : 0;
	return m;
}

static void close_turns(struct router *r)
{
	mem_free(r->self);
}

const struct router_desc route_round_robin = {"round_robin", "one after the other", open_turns, choose, close_turns};
