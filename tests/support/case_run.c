#include "tests/support/case_run.h"

#include "core/err.h"
#include "core/source.h"
#include "policies/registry.h"
#include "sim/backend.h"
#include "sim/cost_models.h"

struct machine {
	struct source *source;
	struct policy policy;
	struct cost *cost;
	struct backend sim, outer;
	struct engine *engine;
};

static int set_up(struct machine *m, const struct random_case *c, const struct workload *w,
		  const struct case_watch *watch, struct request *requests, struct err *e)
{
	struct engine_config cfg = c->cfg;
	struct policy_setup setup;
	int rc = engine_config_resolve(&cfg, e);
	engine_policy_setup(&cfg, &setup);
	if (!rc)
		rc = policy_open(&m->policy, c->policy, c->values, &setup, e);
	if (!rc)
		rc = source_create(&m->source, w, cfg.max_concurrency, e);
	if (!rc)
		rc = cost_linear_create(&m->cost, (double)c->cost_a, (double)c->cost_b, (double)c->cost_c,
					(double)c->cost_d, e);
	if (!rc)
		rc = sim_backend_create(&m->sim, m->cost, e);
	if (!rc) {
		sim_backend_links(&m->sim, &c->links);
		m->outer = m->sim;
	}
	if (!rc && watch->stand_before)
		rc = watch->stand_before(watch->ctx, &m->outer, e);
	if (!rc)
		rc = engine_create(&m->engine, &cfg, w, requests, m->source, &m->policy, &watch->recorder, e);
	return rc;
}

int case_run(const struct random_case *c, const struct workload *w, const struct case_watch *watch,
	     struct request *requests, struct err *e)
{
	struct machine m = {0};
	int rc = set_up(&m, c, w, watch, requests, e);
	if (!rc && watch->engine)
		watch->engine(watch->ctx, m.engine);
	if (!rc)
		rc = engine_run(m.engine, &m.outer, NULL, e);
	engine_free(m.engine);
	if (m.outer.ops && m.outer.self != m.sim.self)
		m.outer.ops->close(m.outer.self);
	sim_backend_free(&m.sim);
	cost_free(m.cost);
	source_free(m.source);
	policy_close(&m.policy);
	return rc;
}
