#include "analysis/run_replicas.h"

#include "analysis/plugin.h"
#include "analysis/run_policy.h"
#include "core/err.h"
#include "core/mem.h"
#include "policies/registry.h"
#include "sim/backend.h"
#include "sim/cluster.h"
#include "sim/router.h"

struct replica {
	struct policy policy;
	struct backend backend;
	struct backend before; /* what run_io put before it; else zero */
};

struct run_replicas {
	struct source *source;
	struct router router;
	struct replica *replicas; /* [n] */
	struct cluster_member *members; /* [n] */
	int32_t n;
};

/* Replicas are numbered kind after kind. */
static const struct run_replica_kind *kind_of(const struct run_replicas_setup *s, int32_t m)
{
	const struct run_replica_kind *k = s->kinds;
	for (; m >= k->count; k++)
		m -= k->count;
	return k;
}

static int open_replica(struct run_replicas *r, int32_t m, const struct run_replicas_setup *s, struct err *e)
{
	const struct run_replica_kind *k = kind_of(s, m);
	struct engine_config c = *k->config;
	struct replica *x = &r->replicas[m];
	struct cluster_member *member = &r->members[m];
	c.replica = (int16_t)m;
	/* Random policies need not do the same everywhere. */
	c.seed = m ? rng_mix(c.seed + (uint64_t)m) : c.seed;
	int rc = run_policy_open(&x->policy, k->settings, &c, NULL, e);
	if (rc == ERR_NONE)
		rc = sim_backend_create(&x->backend, k->cost, e);
	if (rc == ERR_NONE && k->links)
		sim_backend_links(&x->backend, k->links);
	if (rc == ERR_NONE)
		rc = source_create_inbox(&member->inbox, s->source, e);
	member->backend = &x->backend;
	if (rc == ERR_NONE && s->io->stand_before) {
		struct backend b = x->backend;
		rc = s->io->stand_before(s->io->ctx, &b, e);
		if (rc == ERR_NONE)
			x->before = b;
		member->backend = &x->before;
	}
	return rc ? rc
		  : engine_create(&member->engine, &c, s->workload, s->requests, member->inbox, &x->policy,
				  &s->recorder, e);
}

int run_replicas_open(struct run_replicas **out, const struct run_replicas_setup *s, struct err *e)
{
	struct run_replicas *r = mem_zalloc(1, sizeof *r);
	*out = NULL;
	if (!r)
		return err_no_memory(e, "replicas");
	r->source = s->source;
	int rc = router_open(&r->router, s->settings->router, s->workload, s->settings->replicas, s->settings->seed,
			     s->settings->router_stale_ns, e);
	if (rc == ERR_NONE) {
		r->replicas = mem_zalloc((size_t)s->settings->replicas, sizeof *r->replicas);
		r->members = mem_zalloc((size_t)s->settings->replicas, sizeof *r->members);
		rc = r->replicas && r->members ? ERR_NONE : err_no_memory(e, "replicas");
	}
	while (rc == ERR_NONE && r->n < s->settings->replicas) {
		r->n++; /* what was opened of it is closed with the others */
		rc = open_replica(r, r->n - 1, s, e);
	}
	if (rc) {
		run_replicas_close(r);
		return rc;
	}
	*out = r;
	return ERR_NONE;
}

void run_replicas_close(struct run_replicas *r)
{
	if (!r)
		return;
	for (int32_t m = 0; m < r->n; m++) {
		engine_free(r->members[m].engine);
		source_free(r->members[m].inbox);
		if (r->replicas[m].before.ops)
			r->replicas[m].before.ops->close(r->replicas[m].before.self);
		if (r->replicas[m].backend.ops)
			sim_backend_free(&r->replicas[m].backend);
		policy_close(&r->replicas[m].policy);
	}
	router_close(&r->router);
	mem_free(r->replicas);
	mem_free(r->members);
	mem_free(r);
}

int run_replicas_loop(struct run_replicas *r, const struct run_hooks *hooks, struct err *e)
{
	const struct cluster_router router = {&r->router, router_route, router_ended};
	return cluster_run(r->members, r->n, r->source, &router, hooks, e);
}

int run_replicas_end(struct run_replicas *r, struct err *e)
{
	int rc = ERR_NONE;
	for (int32_t m = 0; rc == ERR_NONE && m < r->n; m++)
		rc = plugin_policy_end(&r->replicas[m].policy, e);
	return rc;
}

void run_replicas_stats(const struct run_replicas *r, struct engine_stats *out)
{
	engine_stats(r->members[0].engine, out);
	for (int32_t m = 1; m < r->n; m++) {
		struct engine_stats one;
		engine_stats(r->members[m].engine, &one);
		engine_stats_add(out, &one);
	}
}

void run_replicas_glance(const struct run_replicas *r, struct engine_glance *out)
{
	engine_glance(r->members[0].engine, out);
	for (int32_t m = 1; m < r->n; m++) {
		struct engine_glance one;
		engine_glance(r->members[m].engine, &one);
		engine_glance_add(out, &one);
	}
}

const struct engine *run_replicas_engine(const struct run_replicas *r, int32_t replica)
{
	return r->members[replica].engine;
}
