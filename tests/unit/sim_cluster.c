/* Many engines from one event heap, and one engine either way: the same schedule, event for event. */
#include <string.h>

#include "core/err.h"
#include "core/mem.h"
#include "core/rng.h"
#include "policies/registry.h"
#include "sim/backend.h"
#include "sim/cluster.h"
#include "sim/cost_models.h"
#include "tests/support/suite.h"

enum { MOST_EVENTS = 1 << 18, MEMBERS = 3 };

struct log {
	struct event *at;
	int64_t n;
};

static void keep_event(void *ctx, const struct event *ev)
{
	struct log *l = ctx;
	if (l->n < MOST_EVENTS)
		l->at[l->n++] = *ev;
}

/* Bursts and idle gaps, a few children, prompts up to a few hundred tokens. */
static void make_workload(struct workload *w, int32_t n, uint64_t seed)
{
	struct rng r;
	struct err e = {0};
	int32_t parents[64], children[64];
	int64_t links = 0, t = 0;
	rng_init(&r, seed, 1);
	workload_init(w);
	for (int32_t i = 0; i < n; i++) {
		t += rng_below(&r, 4) ? 0 : (int64_t)rng_below(&r, 200) * NS_PER_MS;
		struct spec s = {.arrival_ns = t, .name_at = -1, .session = -1, .row = i + 1};
		s.prompt_tokens = 1 + (int32_t)rng_below(&r, 300);
		s.output_tokens = (int32_t)rng_below(&r, 60);
		CU_ASSERT_EQUAL_FATAL(workload_add(w, &s, &e), ERR_NONE);
		if (i && links < 64 && !rng_below(&r, 10)) {
			parents[links] = (int32_t)rng_below(&r, (uint64_t)i);
			children[links++] = i;
		}
	}
	CU_ASSERT_EQUAL_FATAL(workload_link(w, parents, children, links, &e), ERR_NONE);
	workload_set_max_tokens(w, MAX_TOKENS_MAX, 64);
}

struct setting {
	const char *policy;
	bool async, exact, log;
	int32_t max_concurrency;
};

static void configure(struct engine_config *c, const struct setting *s)
{
	engine_config_default(c);
	c->max_num_seqs = 8;
	c->max_num_batched_tokens = 128;
	c->num_blocks = 60;
	c->async_scheduling = s->async;
	c->exact_walk = s->exact;
	c->check = true;
}

static void open_policy(struct policy *p, const char *name, const struct engine_config *c)
{
	struct err e = {0};
	const struct policy_desc *d;
	union policy_value values[32];
	struct policy_setup setup;
	engine_policy_setup(c, &setup);
	CU_ASSERT_EQUAL_FATAL(policy_lookup(name, &d, &e), ERR_NONE);
	CU_ASSERT_EQUAL_FATAL(policy_parse_params(d, NULL, values, &e), ERR_NONE);
	CU_ASSERT_EQUAL_FATAL(policy_open(p, d, values, &setup, &e), ERR_NONE);
}

static int32_t route_by_turn(void *ctx, int32_t req, int64_t now_ns)
{
	(void)now_ns;
	return req % *(int32_t *)ctx;
}

/* n_members = 0: engine_run. Otherwise a cluster of so many. */
static void run(const struct workload *w, const struct setting *s, int32_t n_members, struct request *requests,
		struct log *log)
{
	struct err e = {0};
	struct engine_config c;
	struct cost *cost;
	struct policy policies[MEMBERS] = {0};
	struct backend backends[MEMBERS] = {0};
	struct cluster_member members[MEMBERS] = {0};
	struct source *source;
	struct recorder rec = {.ctx = log, .event = log ? keep_event : NULL};
	int32_t made = n_members ? n_members : 1;
	configure(&c, s);
	CU_ASSERT_EQUAL_FATAL(source_create(&source, w, s->max_concurrency, &e), ERR_NONE);
	CU_ASSERT_EQUAL_FATAL(cost_open(&cost, "linear:a=3ms,b=20us,c=100us,d=100ns", NULL, &e), ERR_NONE);
	for (int32_t m = 0; m < made; m++) {
		struct source *inbox = source;
		if (n_members)
			CU_ASSERT_EQUAL_FATAL(source_create_inbox(&inbox, source, &e), ERR_NONE);
		c.replica = (int16_t)m;
		open_policy(&policies[m], s->policy, &c);
		CU_ASSERT_EQUAL_FATAL(sim_backend_create(&backends[m], cost, &e), ERR_NONE);
		members[m].inbox = inbox;
		members[m].backend = &backends[m];
		CU_ASSERT_EQUAL_FATAL(engine_create(&members[m].engine, &c, w, requests, inbox, &policies[m], &rec, &e),
				      ERR_NONE);
	}
	int code = n_members
			   ? cluster_run(members, n_members, source,
					 &(struct cluster_router){.ctx = &n_members, .route = route_by_turn}, NULL, &e)
			   : engine_run(members[0].engine, &backends[0], NULL, &e);
	CHECK_INT(code, ERR_NONE);
	if (code)
		CHECK_STR(e.text, "");
	for (int32_t m = 0; m < made; m++) {
		engine_free(members[m].engine);
		policy_close(&policies[m]);
		sim_backend_free(&backends[m]);
		if (n_members)
			source_free(members[m].inbox);
	}
	source_free(source);
	cost_free(cost);
}

static bool same_event(const struct event *a, const struct event *b)
{
	return a->kind == b->kind && a->step == b->step && a->at_ns == b->at_ns && a->req == b->req && a->a == b->a &&
	       a->b == b->b;
}

static void compare_one(const struct workload *w, const struct setting *s)
{
	size_t n = (size_t)w->n;
	struct request *a = mem_zalloc(n, sizeof *a), *b = mem_zalloc(n, sizeof *b);
	struct log x = {mem_alloc(MOST_EVENTS * sizeof *x.at), 0}, y = {mem_alloc(MOST_EVENTS * sizeof *y.at), 0};
	run(w, s, 0, a, s->log ? &x : NULL);
	run(w, s, 1, b, s->log ? &y : NULL);
	CU_ASSERT(memcmp(a, b, n * sizeof *a) == 0);
	CHECK_INT(x.n, y.n);
	for (int64_t i = 0; i < x.n && i < y.n; i++)
		CU_ASSERT_FATAL(same_event(&x.at[i], &y.at[i]));
	CU_ASSERT(!s->log || (x.n > 0 && x.n < MOST_EVENTS));
	mem_free(a);
	mem_free(b);
	mem_free(x.at);
	mem_free(y.at);
}

static void one_engine_from_the_heap_does_what_its_own_loop_does(void)
{
	static const char *const names[] = {"naive", "continuous", "chunked"};
	for (int p = 0; p < 3; p++)
		for (int variant = 0; variant < 8; variant++) {
			struct workload w;
			make_workload(&w, 120, (uint64_t)(100 * p + variant));
			struct setting s = {.policy = names[p],
					    .async = variant & 1,
					    .log = variant & 2,
					    .max_concurrency = variant & 4 ? 5 : 0};
			compare_one(&w, &s);
			workload_free(&w);
		}
}

static void three_engines_serve_every_request_once(void)
{
	struct workload w;
	make_workload(&w, 400, 7);
	for (int async = 0; async < 2; async++) {
		struct setting s = {.policy = "chunked", .async = async};
		struct request *r = mem_zalloc((size_t)w.n, sizeof *r);
		run(&w, &s, MEMBERS, r, NULL);
		for (int64_t i = 0; i < w.n; i++) {
			CHECK_INT(r[i].state, REQUEST_FINISHED);
			CHECK_INT(r[i].outputs, w.specs[i].output_tokens);
			CHECK_INT(r[i].replica, i % MEMBERS);
			CU_ASSERT(r[i].first_sched_ns >= r[i].arrival_ns && r[i].last_token_ns >= r[i].first_token_ns);
		}
		mem_free(r);
	}
	workload_free(&w);
}

/* Three engines that share nothing are three runs of a third of the requests each: nothing of one may reach another. */
static void engines_do_not_see_each_other(void)
{
	struct workload w, third;
	make_workload(&w, 300, 11);
	workload_free(&w);
	workload_init(&w);
	workload_init(&third);
	struct err e = {0};
	struct rng rng;
	rng_init(&rng, 5, 5);
	for (int32_t i = 0; i < 300; i++) {
		struct spec s = {.arrival_ns = (int64_t)i * 7 * NS_PER_MS, .name_at = -1, .session = -1, .row = i + 1};
		s.prompt_tokens = 1 + (int32_t)rng_below(&rng, 300);
		s.output_tokens = (int32_t)rng_below(&rng, 60);
		workload_add(&w, &s, &e);
		if (i % MEMBERS == 1)
			workload_add(&third, &s, &e);
	}
	workload_set_max_tokens(&w, MAX_TOKENS_MAX, 64);
	workload_set_max_tokens(&third, MAX_TOKENS_MAX, 64);
	struct setting s = {.policy = "chunked"};
	struct request *all = mem_zalloc(300, sizeof *all), *alone = mem_zalloc(100, sizeof *alone);
	run(&w, &s, MEMBERS, all, NULL);
	run(&third, &s, 0, alone, NULL);
	for (int64_t i = 0; i < 100; i++) {
		alone[i].replica = 1;
		CU_ASSERT(memcmp(&alone[i], &all[3 * i + 1], sizeof *alone) == 0);
	}
	mem_free(all);
	mem_free(alone);
	workload_free(&w);
	workload_free(&third);
}

int main(void)
{
	static const struct test tests[] = {
		{"one_engine_from_the_heap_does_what_its_own_loop_does",
		 one_engine_from_the_heap_does_what_its_own_loop_does},
		{"three_engines_serve_every_request_once", three_engines_serve_every_request_once},
		{"engines_do_not_see_each_other", engines_do_not_see_each_other},
	};
	return SUITE_RUN("sim_cluster", tests);
}
