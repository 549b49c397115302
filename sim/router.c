#include "sim/router.h"

#include <string.h>

#include "core/err.h"
#include "core/mem.h"
#include "core/near.h"

static const struct router_desc *const routers[] = {
	&route_round_robin,  &route_random,          &route_least_outstanding, &route_least_tokens,
	&route_power_of_two, &route_prefix_affinity, &route_session_affinity,
};
enum { N_ROUTERS = sizeof routers / sizeof *routers };

const char *const router_names =
	"round_robin|random|least_outstanding|least_tokens|power_of_two|prefix_affinity|session_affinity";

const struct router_desc *router_at(int32_t i)
{
	return i >= 0 && i < N_ROUTERS ? routers[i] : NULL;
}

static int find(const struct router_desc **d, const char *name, struct err *e)
{
	struct near_match m;
	char near[256];
	near_begin(&m, name);
	for (int i = 0; i < N_ROUTERS; i++) {
		*d = routers[i];
		if (strcmp(name, routers[i]->name) == 0)
			return ERR_NONE;
		near_offer(&m, routers[i]->name);
	}
	return err_set(e, ERR_INPUT, "unknown router \"%.60s\"%s (there are %s)", name,
		       near_text(&m, near, sizeof near), router_names);
}

int router_open(struct router *r, const char *name, const struct workload *w, int32_t n, uint64_t seed,
		int64_t stale_ns, struct err *e)
{
	*r = (struct router){.workload = w, .n = n, .stale_ns = stale_ns, .looked_ns = INT64_MIN};
	if (n < 1 || n > ROUTER_REPLICAS_MAX)
		return err_set(e, ERR_INPUT, "between 1 and %d replicas can be routed to, not %d", ROUTER_REPLICAS_MAX,
			       n);
	int rc = find(&r->desc, name, e);
	if (rc)
		return rc;
	rng_init(&r->rng, seed, UINT64_C(0x726f75746572)); /* a stream of its own */
	r->load = mem_zalloc((size_t)n, sizeof *r->load);
	r->seen = mem_zalloc((size_t)n, sizeof *r->seen);
	if (!r->load || !r->seen)
		rc = err_no_memory(e, "a router");
	if (rc == ERR_NONE && r->desc->open)
		rc = r->desc->open(r, e);
	if (rc)
		router_close(r);
	return rc;
}

void router_close(struct router *r)
{
	if (r->desc && r->desc->close && r->self)
		r->desc->close(r);
	mem_free(r->load);
	mem_free(r->seen);
	*r = (struct router){0};
}

int32_t route_least(const struct router *r, bool tokens)
{
	int32_t best = 0;
	for (int32_t m = 1; m < r->n; m++) {
		int64_t a = tokens ? r->seen[m].tokens : r->seen[m].requests;
		int64_t b = tokens ? r->seen[best].tokens : r->seen[best].requests;
		if (a < b)
			best = m;
	}
	return best;
}

static void add(struct route_load *l, const struct spec *s, int64_t sign)
{
	l->requests += sign;
	l->tokens += sign * s->prompt_tokens;
}

int32_t router_route(void *ctx, int32_t req, int64_t now_ns)
{
	struct router *r = ctx;
	const struct spec *s = &r->workload->specs[req];
	if (r->looked_ns == INT64_MIN || now_ns - r->looked_ns >= r->stale_ns) {
		memcpy(r->seen, r->load, (size_t)r->n * sizeof *r->seen);
		r->looked_ns = now_ns;
	}
	int32_t m = r->desc->choose(r, req);
	add(&r->load[m], s, 1);
	add(&r->seen[m], s, 1); /* what it did itself it knows */
	return m;
}

void router_ended(void *ctx, int32_t replica, int32_t req)
{
	struct router *r = ctx;
	add(&r->load[replica], &r->workload->specs[req], -1);
}
