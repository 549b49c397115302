/* Several replicas behind a router: one behind any router is as none, random routing thins the stream, and each router sends
 * requests where it says. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analysis/run.h"
#include "core/err.h"
#include "core/mem.h"
#include "core/rng.h"
#include "sim/router.h"
#include "tests/support/suite.h"

/* Bursts; some of a session that grows, some waiting for others; prompts that begin alike. */
static void make_workload(struct workload *w, int32_t n, uint64_t seed, bool linked)
{
	struct rng r;
	struct err e = {0};
	int32_t parents[200], children[200];
	int64_t links = 0, t = 0;
	rng_init(&r, seed, 1);
	workload_init(w);
	w->hash_block = 16;
	for (int32_t i = 0; i < n; i++) {
		t += rng_below(&r, 4) ? 0 : (int64_t)rng_below(&r, 100) * NS_PER_MS;
		int32_t family = (int32_t)rng_below(&r, 12);
		struct spec s = {.arrival_ns = t, .name_at = -1, .row = i + 1};
		s.session = family < 6 ? family : -1;
		s.prompt_tokens = 64 + (int32_t)rng_below(&r, 64);
		s.output_tokens = 1 + (int32_t)rng_below(&r, 60);
		s.hash_at = w->n_hash_ids;
		s.n_hashes = s.prompt_tokens / 16;
		for (int32_t k = 0; k < s.n_hashes; k++)
			CU_ASSERT_EQUAL_FATAL(workload_add_hash(w,
								k < 4 ? (uint64_t)(100 * family + k + 1)
								      : (uint64_t)(100000 + 1000 * i + k),
								&e),
					      ERR_NONE);
		CU_ASSERT_EQUAL_FATAL(workload_add(w, &s, &e), ERR_NONE);
		if (linked && i && links < 200 && !rng_below(&r, 5)) {
			parents[links] = (int32_t)rng_below(&r, (uint64_t)i);
			children[links++] = i;
		}
	}
	CU_ASSERT_EQUAL_FATAL(workload_link(w, parents, children, links, &e), ERR_NONE);
	workload_set_max_tokens(w, MAX_TOKENS_MAX, 64);
}

static struct run_settings settings(int32_t replicas, const char *router)
{
	struct run_settings s;
	run_settings_default(&s);
	s.policy = "chunked";
	s.cost = "linear:a=3ms,b=20us,c=100us,d=100ns";
	s.num_gpu_blocks_override = 120;
	s.engine.max_num_seqs = 8;
	s.engine.prefix_caching = true;
	s.engine.check = true;
	s.record = RECORD_NONE;
	s.replicas = replicas;
	s.router = router;
	s.seed = 11;
	return s;
}

static void must_run(struct run_result *r, const struct run_settings *s, const struct workload *w)
{
	struct err e = {0};
	const struct run_io io = {0};
	int rc = run_execute(s, w, &io, r, &e);
	if (rc)
		fprintf(stderr, "%s\n", e.text);
	CU_ASSERT_EQUAL_FATAL(rc, ERR_NONE);
	CU_ASSERT_EQUAL_FATAL(r->status, RUN_COMPLETE);
}

static void one_replica_behind_any_router_is_as_none(void)
{
	for (int linked = 0; linked < 2; linked++) {
		struct workload w;
		struct run_result plain;
		make_workload(&w, 400, 5, linked);
		struct run_settings s = settings(1, NULL);
		must_run(&plain, &s, &w);
		for (int32_t i = 0; router_at(i); i++) {
			struct run_result r;
			s = settings(1, router_at(i)->name);
			must_run(&r, &s, &w);
			CU_ASSERT(memcmp(r.requests, plain.requests, (size_t)w.n * sizeof *r.requests) == 0);
			CU_ASSERT(memcmp(&r.stats, &plain.stats, sizeof r.stats) == 0);
			CU_ASSERT(r.metrics.latency[LATENCY_ITL].mean == plain.metrics.latency[LATENCY_ITL].mean);
			CU_ASSERT(r.metrics.max_output_tokens_per_s == plain.metrics.max_output_tokens_per_s);
			run_result_free(&r);
		}
		run_result_free(&plain);
		workload_free(&w);
	}
}

/* What one replica got, served alone, goes as it did. */
static void each_replica_serves_its_part_of_the_stream(void)
{
	enum { REPLICAS = 3 };
	struct workload w;
	struct run_result all;
	int64_t finished = 0, most = 0;
	make_workload(&w, 500, 6, false);
	struct run_settings s = settings(REPLICAS, "random");
	must_run(&all, &s, &w);
	for (int32_t m = 0; m < REPLICAS; m++) {
		struct workload part = w; /* shares everything but its specs */
		struct run_result r;
		part.specs = mem_alloc((size_t)w.n * sizeof *part.specs);
		CU_ASSERT_PTR_NOT_NULL_FATAL(part.specs);
		part.n = 0;
		for (int64_t i = 0; i < w.n; i++)
			if (all.requests[i].replica == m)
				part.specs[part.n++] = w.specs[i];
		CU_ASSERT(part.n > 120 && part.n < 220);
		s = settings(1, NULL);
		must_run(&r, &s, &part);
		int64_t k = 0;
		for (int64_t i = 0; i < w.n; i++) {
			if (all.requests[i].replica != m)
				continue;
			struct request q = r.requests[k++];
			q.replica = (int16_t)m;
			CU_ASSERT(memcmp(&q, &all.requests[i], sizeof q) == 0);
		}
		finished += r.stats.finished;
		most = r.stats.max_running > most ? r.stats.max_running : most;
		mem_free(part.specs);
		run_result_free(&r);
	}
	CHECK_INT(all.stats.finished, finished);
	CHECK_INT(all.stats.max_running, most);
	CHECK_INT(all.metrics.completed, w.n);
	run_result_free(&all);
	workload_free(&w);
}

static double hits(const struct workload *w, const char *router)
{
	struct run_result r;
	struct run_settings s = settings(4, router);
	must_run(&r, &s, w);
	double ratio = r.metrics.prefix_hit_ratio;
	CU_ASSERT(r.metrics.busy_share > 0 && r.metrics.busy_share <= 1);
	run_result_free(&r);
	return ratio;
}

static void who_goes_where_the_prefix_is_finds_more_of_it(void)
{
	struct workload w;
	make_workload(&w, 800, 7, false);
	double random = hits(&w, "random"), affine = hits(&w, "prefix_affinity");
	CU_ASSERT(affine > 1.05 * random);
	workload_free(&w);
}

/* --- routers by hand ---------------------------------------------------------------------------------------------- */

/* Requests 0, 1, 2 ... with prompts of 10, 20, 30 ... tokens; sessions 0, 1, 0, 1 ... */
static void ten_requests(struct workload *w)
{
	struct err e = {0};
	workload_init(w);
	for (int32_t i = 0; i < 10; i++) {
		const struct spec s = {.name_at = -1,
				       .session = i % 2,
				       .row = i + 1,
				       .prompt_tokens = 10 * (i + 1),
				       .output_tokens = 1};
		CU_ASSERT_EQUAL_FATAL(workload_add(w, &s, &e), ERR_NONE);
	}
}

static void must_open(struct router *r, const char *name, const struct workload *w, int32_t n, int64_t stale_ns)
{
	struct err e = {0};
	CU_ASSERT_EQUAL_FATAL(router_open(r, name, w, n, 3, stale_ns, &e), ERR_NONE);
}

static void routers_choose_as_they_say(void)
{
	struct workload w;
	struct router r;
	ten_requests(&w);
	must_open(&r, "round_robin", &w, 3, 0);
	for (int32_t i = 0; i < 10; i++)
		CHECK_INT(router_route(&r, i, i), i % 3);
	router_close(&r);

	must_open(&r, "least_outstanding", &w, 3, 0);
	CHECK_INT(router_route(&r, 0, 0), 0);
	CHECK_INT(router_route(&r, 1, 0), 1);
	CHECK_INT(router_route(&r, 2, 0), 2);
	router_ended(&r, 1, 1);
	CHECK_INT(router_route(&r, 3, 6), 1);
	CHECK_INT(router_route(&r, 4, 6), 0);
	router_close(&r);

	must_open(&r, "least_tokens", &w, 2, 0); /* 50 | 20 + 30 = 50 | then 0 (lowest number): 90 | 1: 60 */
	CHECK_INT(router_route(&r, 4, 0), 0);
	CHECK_INT(router_route(&r, 1, 0), 1);
	CHECK_INT(router_route(&r, 2, 0), 1);
	CHECK_INT(router_route(&r, 3, 0), 0);
	CHECK_INT(router_route(&r, 0, 0), 1);
	router_close(&r);

	must_open(&r, "session_affinity", &w, 3, 0);
	CHECK_INT(router_route(&r, 0, 0), 0);
	CHECK_INT(router_route(&r, 1, 0), 1);
	for (int32_t i = 2; i < 10; i++)
		CHECK_INT(router_route(&r, i, 0), i % 2);
	router_close(&r);
	workload_free(&w);
}

/* With a view that is a second old, an end goes unseen until it is looked again; what the router did itself it knows. */
static void stale_views_miss_what_ended(void)
{
	struct workload w;
	struct router r;
	ten_requests(&w);
	must_open(&r, "least_outstanding", &w, 2, NS_PER_S);
	CHECK_INT(router_route(&r, 0, 0), 0);
	CHECK_INT(router_route(&r, 1, 0), 1);
	CHECK_INT(router_route(&r, 2, 0), 0);
	router_ended(&r, 0, 0);
	router_ended(&r, 0, 2);
	CHECK_INT(router_route(&r, 3, NS_PER_S - 1), 1);
	CHECK_INT(router_route(&r, 4, NS_PER_S), 0);
	router_close(&r);
	workload_free(&w);
}

static void power_of_two_is_nearly_even(void)
{
	struct workload w;
	struct router r, random;
	int64_t most = 0, most_random = 0;
	ten_requests(&w);
	must_open(&r, "power_of_two", &w, 50, 0);
	must_open(&random, "random", &w, 50, 0);
	for (int i = 0; i < 5000; i++) {
		router_route(&r, i % 10, 0);
		router_route(&random, i % 10, 0);
	}
	for (int m = 0; m < 50; m++) {
		most = r.load[m].requests > most ? r.load[m].requests : most;
		most_random = random.load[m].requests > most_random ? random.load[m].requests : most_random;
	}
	/* 100 each: at random the fullest has about 2.3 standard deviations more. */
	CU_ASSERT(most <= 105);
	CU_ASSERT(most_random > 110);
	router_close(&r);
	router_close(&random);
	workload_free(&w);
}

static void what_cannot_be_routed_is_refused(void)
{
	struct workload w;
	struct router r;
	struct err e = {0};
	ten_requests(&w);
	CHECK_INT(router_open(&r, "rond_robin", &w, 2, 0, 0, &e), ERR_INPUT);
	CU_ASSERT_PTR_NOT_NULL(strstr(e.text, "did you mean round_robin"));
	err_clear(&e);
	CHECK_INT(router_open(&r, "prefix_affinity", &w, 65, 0, 0, &e), ERR_INPUT);
	err_clear(&e);
	CHECK_INT(router_open(&r, "random", &w, 0, 0, 0, &e), ERR_INPUT);
	workload_free(&w);
}

int main(void)
{
	static const struct test tests[] = {
		{"one_replica_behind_any_router_is_as_none", one_replica_behind_any_router_is_as_none},
		{"each_replica_serves_its_part_of_the_stream", each_replica_serves_its_part_of_the_stream},
		{"who_goes_where_the_prefix_is_finds_more_of_it", who_goes_where_the_prefix_is_finds_more_of_it},
		{"routers_choose_as_they_say", routers_choose_as_they_say},
		{"stale_views_miss_what_ended", stale_views_miss_what_ended},
		{"power_of_two_is_nearly_even", power_of_two_is_nearly_even},
		{"what_cannot_be_routed_is_refused", what_cannot_be_routed_is_refused},
	};
	return SUITE_RUN("analysis_replicas", tests);
}
