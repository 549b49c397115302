/* Every allocation of making and running an engine fails once, for every policy and for what costs memory of its own: prefix
 * caching, preemption, priorities, parents, asynchronous scheduling, a decision log. Nothing may leak, and the error says
 * that memory ran out. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/err.h"
#include "core/mem.h"
#include "policies/registry.h"
#include "sim/backend.h"
#include "sim/cluster.h"
#include "sim/cost_models.h"
#include "tests/support/failing_mem.h"
#include "tests/support/suite.h"

struct world {
	const char *policy, *params;
	bool caching, priority, async, parents, log, cluster, tree;
	int32_t budget; /* 0 = 12: prompts are computed in pieces */
	enum queue_order order; /* other than by priority */
};

static void ignore(void *ctx, const struct event *ev)
{
	(void)ctx, (void)ev;
}

static int make_workload(struct workload *w, const struct world *c, struct err *e)
{
	const int32_t parent[] = {0, 0, 3}, child[] = {7, 8, 9};
	int rc = ERR_NONE;
	workload_init(w);
	for (int i = 0; i < 10 && !rc; i++) {
		struct spec s = {.arrival_ns = i < 7 ? 3 * i : 5, .name_at = -1, .prompt_tokens = 6 + i, .session = -1};
		s.output_tokens = i == 4 ? 0 : 9;
		s.max_tokens = 10;
		s.row = i + 1;
		s.priority = c->priority ? i % 3 : 0;
		s.hash_at = w->n_hash_ids;
		s.n_hashes = 1;
		rc = workload_add_segment(w, 1 + (uint64_t)(i % 2), 6, e);
		if (!rc)
			rc = workload_add(w, &s, e);
	}
	return !rc && c->parents ? workload_link(w, parent, child, 3, e) : rc;
}

static int32_t to_the_only_one(void *ctx, int32_t req, int64_t now_ns)
{
	(void)ctx, (void)req, (void)now_ns;
	return 0;
}

static int serve(const struct world *c, const struct workload *w, struct err *e)
{
	static struct request requests[16];
	const struct recorder rec = {.event = c->log ? ignore : NULL};
	const struct policy_desc *d = policy_find(c->policy);
	union policy_value values[32];
	struct engine_config cfg;
	struct policy policy = {0};
	struct source *source = NULL, *inbox = NULL;
	struct cost *cost = NULL;
	struct backend backend = {0};
	struct engine *engine = NULL;
	memset(requests, 0, sizeof requests);
	engine_config_default(&cfg);
	cfg.block_size = 4;
	cfg.num_blocks = 12;
	cfg.max_num_seqs = 4;
	cfg.max_num_batched_tokens = c->budget ? c->budget : 12;
	cfg.prefix_caching = c->caching;
	cfg.prefix_cache = c->tree ? PREFIX_RADIX : PREFIX_OFF;
	cfg.async_scheduling = c->async;
	cfg.queue_order = c->priority ? QUEUE_PRIORITY : c->order;
	cfg.predictor.kind = PREDICT_MEAN;
	cfg.order.quantum = 16;
	cfg.check = true;
	int rc = engine_config_resolve(&cfg, e);
	struct policy_setup setup;
	engine_policy_setup(&cfg, &setup);
	if (!rc)
		rc = policy_parse_params(d, c->params, values, e);
	if (!rc)
		rc = policy_open(&policy, d, values, &setup, e);
	if (!rc)
		rc = source_create(&source, w, 0, e);
	if (!rc && c->cluster)
		rc = source_create_inbox(&inbox, source, e);
	if (!rc)
		rc = cost_linear_create(&cost, 10, 1, 1, 0, e);
	if (!rc)
		rc = sim_backend_create(&backend, cost, e);
	if (!rc)
		rc = engine_create(&engine, &cfg, w, requests, inbox ? inbox : source, &policy, &rec, e);
	if (!rc && c->cluster) {
		struct cluster_member member = {engine, inbox, &backend};
		rc = cluster_run(&member, 1, source, &(struct cluster_router){.route = to_the_only_one}, NULL, e);
	} else if (!rc) {
		rc = engine_run(engine, &backend, NULL, e);
	}
	for (int i = 0; i < 10 && !rc; i++)
		if (requests[i].state != REQUEST_FINISHED)
			rc = err_set(e, ERR_INVARIANT, "request %d is %s", i,
				     request_state_name((enum request_state)requests[i].state));
	engine_free(engine);
	sim_backend_free(&backend);
	cost_free(cost);
	source_free(inbox);
	source_free(source);
	policy_close(&policy);
	return rc;
}

static int once(void *ctx, char text[1024])
{
	struct workload w;
	struct err e = {0};
	int rc = make_workload(&w, ctx, &e);
	if (!rc)
		rc = serve(ctx, &w, &e);
	workload_free(&w);
	snprintf(text, 1024, "%s", e.text);
	return rc;
}

static void every_allocation(const struct world *c)
{
	struct world copy = *c;
	int64_t tried = failing_mem_each(once, &copy, 0);
	printf("  %s %s: %lld allocations failed\n", c->policy, c->params, (long long)tried);
	CU_ASSERT(tried > 20);
	CHECK_INT(failing_mem_held(), 0);
}

static void every_policy_with_its_defaults(void)
{
	for (int32_t i = 0; i < policy_count(); i++)
		every_allocation(&(struct world){.policy = policy_at(i)->name, .params = "", .budget = 48});
}

static void blocks_on_demand(void)
{
	every_allocation(&(struct world){.policy = "naive", .params = "reserve=off", .log = true});
	every_allocation(&(struct world){.policy = "continuous", .params = "paged=on"});
}

static void prefix_caching(void)
{
	every_allocation(&(struct world){.policy = "chunked", .params = "", .caching = true});
	every_allocation(&(struct world){.policy = "chunked", .params = "", .caching = true, .log = true});
	every_allocation(&(struct world){.policy = "continuous", .params = "paged=on", .caching = true});
	every_allocation(&(struct world){.policy = "chunked", .params = "", .caching = true, .tree = true});
	every_allocation(
		&(struct world){.policy = "chunked", .params = "", .caching = true, .tree = true, .log = true});
}

static void priorities_and_parents(void)
{
	every_allocation(&(struct world){.policy = "chunked", .params = "", .priority = true, .parents = true});
}

static void other_orders(void)
{
	every_allocation(&(struct world){.policy = "chunked", .params = "", .order = QUEUE_SJF});
	every_allocation(&(struct world){.policy = "chunked", .params = "", .order = QUEUE_FAIR});
	every_allocation(&(struct world){.policy = "chunked", .params = "", .order = QUEUE_MLFQ});
}

static void asynchronous_scheduling(void)
{
	every_allocation(&(struct world){.policy = "chunked", .params = "", .async = true, .caching = true});
}

static void an_event_heap(void)
{
	every_allocation(&(struct world){.policy = "chunked", .params = "", .parents = true, .cluster = true});
}

int main(void)
{
	static const struct test tests[] = {
		{"every_policy_with_its_defaults", every_policy_with_its_defaults},
		{"blocks_on_demand", blocks_on_demand},
		{"prefix_caching", prefix_caching},
		{"priorities_and_parents", priorities_and_parents},
		{"other_orders", other_orders},
		{"asynchronous_scheduling", asynchronous_scheduling},
		{"an_event_heap", an_event_heap},
	};
	return SUITE_RUN("core_engine", tests);
}
