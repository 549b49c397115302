/* Every allocation of a whole run fails once: policy, engine, cost model, metrics, store and JSON. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "analysis/compare.h"
#include "analysis/result_json.h"
#include "analysis/run.h"
#include "analysis/store.h"
#include "core/err.h"
#include "core/mem.h"
#include "core/rng.h"
#include "policies/registry.h"
#include "tests/support/failing_mem.h"
#include "tests/support/suite.h"

static struct workload work;

/* Forty requests with shared beginnings, in bursts, more than the memory holds at once; some wait for others, or are forks. */
static void make_work_of(bool forks)
{
	struct rng r;
	struct err e = {0};
	int32_t parents[] = {3, 4}, children[] = {20, 21};
	workload_init(&work);
	work.hash_block = 16;
	rng_init(&r, 3, 0);
	for (int i = 0; i < 40; i++) {
		struct spec s = {.arrival_ns = i / 8 * 20 * NS_PER_MS, .name_at = -1, .session = -1, .row = i + 1};
		s.prompt_tokens = 32 + (int32_t)rng_below(&r, 64);
		s.output_tokens = (int32_t)rng_below(&r, 40);
		s.priority = i % 3;
		s.hash_at = work.n_hash_ids;
		s.n_hashes = s.prompt_tokens / 16;
		for (int k = 0; k < s.n_hashes; k++)
			workload_add_hash(&work, k < 2 ? 10 + (uint64_t)k : 1000 + 10 * (uint64_t)i + (uint64_t)k, &e);
		workload_add(&work, &s, &e);
	}
	for (int i = 0; forks && i < 2; i++)
		workload_fork(&work, parents[i], children[i], 20, i == 0, &e);
	workload_link(&work, parents, children, 2, &e);
	workload_set_max_tokens(&work, MAX_TOKENS_MAX, 64);
	CHECK_INT(e.code, ERR_NONE);
}

static void make_work(void)
{
	make_work_of(false);
}

struct setup {
	const char *policy, *params, *cost;
	bool prefix_caching, priority, detailed, with_model;
	const char *router; /* of three replicas */
	const char *fleet; /* of such as differ, or NULL */
	const char *db;
	double swap, host, disk; /* GiB behind 20 blocks of 2 MiB */
	enum kv_transfer transfer;
};

static int store_and_run(const struct run_settings *s, const char *path, struct run_result *r, struct err *e)
{
	struct store *store = NULL;
	int rc = path ? store_open(&store, path, false, e) : ERR_NONE;
	if (rc == ERR_NONE) {
		struct run_io io = {.store = store};
		rc = run_execute(s, &work, &io, r, e);
		/* A database that ran out of memory does not end the run, and says so. */
		if (rc == ERR_NONE && r->store_err.code != ERR_NONE) {
			CHECK_INT(r->store_err.code, ERR_MEMORY);
			rc = err_set(e, r->store_err.code, "%s", r->store_err.text);
		}
	}
	store_close(store);
	return rc;
}

static int once(void *ctx, char text[1024])
{
	const struct setup *u = ctx;
	struct run_settings s;
	struct run_result r = {0};
	struct err e = {0};
	char *json = NULL;
	run_settings_default(&s);
	s.policy = u->policy;
	s.policy_params = u->params;
	s.cost = u->cost;
	s.engine.max_num_seqs = 8;
	s.engine.prefix_caching = u->prefix_caching;
	s.engine.queue_order = u->priority ? QUEUE_PRIORITY : QUEUE_FCFS;
	s.engine.check = true;
	s.save_detailed = u->detailed;
	s.record = RECORD_STEPS;
	s.replicas = u->router ? 3 : 1;
	s.router = u->router;
	s.fleet = u->fleet;
	s.swap_space = u->swap;
	s.kv_offload_host = u->host;
	s.kv_offload_disk = u->disk;
	s.engine.kv_transfer = u->transfer;
	s.engine.kv_prefetch = u->disk > 0;
	s.num_gpu_blocks_override = u->with_model && !u->swap && !u->host ? 0 : 20;
	s.model = u->with_model ? "llama-3.1-8b" : NULL;
	s.device = u->with_model ? "h100-sxm" : NULL;
	if (u->db)
		unlink(u->db);
	int rc = store_and_run(&s, u->db, &r, &e);
	if (rc == ERR_NONE)
		rc = result_json(&s, &r, &json, &e);
	if (rc == ERR_NONE) {
		const struct run_settings *settings = &s;
		const struct run_result *result = &r;
		struct compare_table t;
		rc = compare_build(&t, &settings, &result, 1, true, &e);
		if (rc == ERR_NONE)
			compare_free(&t);
	}
	mem_free(json);
	run_result_free(&r);
	snprintf(text, 1024, "%s", e.text);
	return rc;
}

static void every_policy_survives(void)
{
	make_work();
	for (int32_t i = 0; i < policy_count(); i++) {
		struct setup u = {.policy = policy_at(i)->name, .cost = "linear:a=5ms,b=20us,c=1ms"};
		CU_ASSERT(failing_mem_each(once, &u, 0) > 10);
	}
	workload_free(&work);
}

static void prefix_cache_and_priorities_survive(void)
{
	struct setup u = {.policy = "chunked", .cost = "constant:10ms", .prefix_caching = true, .priority = true};
	make_work();
	CU_ASSERT(failing_mem_each(once, &u, 0) > 10);
	workload_free(&work);
}

static void every_tokens_time_survives(void)
{
	struct setup u = {.policy = "continuous", .params = "paged=on", .cost = "constant:10ms", .detailed = true};
	make_work();
	CU_ASSERT(failing_mem_each(once, &u, 0) > 10);
	workload_free(&work);
}

static void model_and_device_survive(void)
{
	struct setup u = {.policy = "chunked", .with_model = true};
	make_work();
	CU_ASSERT(failing_mem_each(once, &u, 0) > 10);
	workload_free(&work);
}

static void replicas_survive(void)
{
	struct setup u = {
		.policy = "chunked", .cost = "constant:10ms", .prefix_caching = true, .router = "prefix_affinity"};
	make_work();
	CU_ASSERT(failing_mem_each(once, &u, 0) > 10);
	workload_free(&work);
}

static void replicas_that_differ_survive(void)
{
	struct setup u = {.policy = "chunked",
			  .router = "least_outstanding",
			  .with_model = true,
			  .fleet = "2xh100-sxm+1xl40s:policy=vllm_v1:policy.watermark=0.1:max-num-seqs=4"};
	make_work();
	CU_ASSERT(failing_mem_each(once, &u, 0) > 10);
	workload_free(&work);
}

static void tiers_survive(void)
{
	struct setup swap = {.policy = "vllm_v0",
			     .params = "preemption_mode=swap",
			     .cost = "constant:10ms",
			     .with_model = true,
			     .swap = 0.02};
	struct setup offload = {.policy = "vllm_v1",
				.cost = "constant:10ms",
				.with_model = true,
				.prefix_caching = true,
				.host = 0.02,
				.disk = 0.1,
				.transfer = KV_TRANSFER_OVERLAP};
	make_work();
	CU_ASSERT(failing_mem_each(once, &swap, 0) > 10);
	CU_ASSERT(failing_mem_each(once, &offload, 0) > 10);
	workload_free(&work);
}

static void forks_survive(void)
{
	struct setup u = {.policy = "vllm_v1", .cost = "constant:10ms", .prefix_caching = true};
	make_work_of(true);
	CU_ASSERT(failing_mem_each(once, &u, 0) > 10);
	workload_free(&work);
}

static void the_database_survives(void)
{
	struct setup u = {.policy = "chunked", .cost = "constant:10ms", .db = temp_path("a.db")};
	make_work();
	CU_ASSERT(failing_mem_each(once, &u, 0) > 10);
	workload_free(&work);
}

int main(void)
{
	static const struct test tests[] = {
		{"every_policy_survives", every_policy_survives},
		{"prefix_cache_and_priorities_survive", prefix_cache_and_priorities_survive},
		{"every_tokens_time_survives", every_tokens_time_survives},
		{"model_and_device_survive", model_and_device_survive},
		{"replicas_survive", replicas_survive},
		{"replicas_that_differ_survive", replicas_that_differ_survive},
		{"tiers_survive", tiers_survive},
		{"forks_survive", forks_survive},
		{"the_database_survives", the_database_survives},
	};
	return SUITE_RUN("failmem_run", tests);
}
