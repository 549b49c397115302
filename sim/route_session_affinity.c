/* A session stays where its first request went: there its context is cached. */
#include "sim/router.h"

#include "core/err.h"
#include "core/mem.h"

static int open_sessions(struct router *r, struct err *e)
{
	int32_t most = -1;
	for (int64_t i = 0; i < r->workload->n; i++)
		if (r->workload->specs[i].session > most)
			most = r->workload->specs[i].session;
	int32_t *home = r->self = mem_alloc(((size_t)most + 2) * sizeof *home);
	if (!home)
		return err_no_memory(e, "a router");
	for (int32_t i = 0; i <= most; i++)
		home[i] = -1;
	return ERR_NONE;
}

static int32_t choose(struct router *r, int32_t req)
{
	int32_t *home = r->self, session = r->workload->specs[req].session;
	if (session < 0)
		return route_least(r, false);
	if (home[session] < 0)
		home[session] = route_least(r, false);
	return home[session];
}

static void close_sessions(struct router *r)
{
	mem_free(r->self);
}

const struct router_desc route_session_affinity = {
	"session_affinity", "where the session's first request went; new ones: least_outstanding", open_sessions,
	choose, close_sessions};
