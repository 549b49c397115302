/* run_execute: one way to run, the same answer every time, and clear words when it cannot. */
#include <math.h>
#include <unistd.h>

#include "analysis/result_json.h"
#include "analysis/store.h"
#include "core/mem.h"
#include "tests/unit/analysis_fixture.h"

/* The run's object without what the clock on the wall says. */
static char *object(const struct run_settings *s, struct run_result *r)
{
	struct err e = {0};
	char *text = NULL;
	r->sim_wall_s = 0;
	r->run_id = 0;
	CHECK_INT(result_json(s, r, &text, &e), ERR_NONE);
	return text;
}

static void the_same_input_gives_the_same_bytes(void)
{
	static const char *const policies[] = {"naive", "continuous", "chunked"};
	struct workload w;
	random_workload(&w, 400, 25, 1);
	for (int p = 0; p < 3; p++) {
		struct run_settings s;
		struct run_result a, b, c;
		small_settings(&s, &w);
		s.policy = policies[p];
		must_run(&s, &w, NULL, &a);
		/* Stored or not, steps and tokens recorded or not: the figures are the same. */
		struct err e = {0};
		struct store *store;
		unlink(temp_path("same.db"));
		CHECK_INT(store_open(&store, temp_path("same.db"), false, &e), ERR_NONE);
		s.record = RECORD_STEPS;
		must_run(&s, &w, store, &b);
		s.record = RECORD_REQUESTS;
		s.save_detailed = true;
		must_run(&s, &w, NULL, &c);
		store_close(store);
		CHECK_INT(a.stats.steps, c.stats.steps);
		char *x = object(&s, &a), *y = object(&s, &b), *z = object(&s, &c);
		CHECK_STR(y, x);
		CHECK_STR(z, x);
		mem_free(x);
		mem_free(y);
		mem_free(z);
		run_result_free(&a);
		run_result_free(&b);
		run_result_free(&c);
	}
	workload_free(&w);
}

/* E2E = TTFT + sum of ITL: the gaps of all requests add up to all time between first and last tokens. */
static void gaps_add_up_to_the_time_between_tokens(void)
{
	static const char *const policies[] = {"naive", "continuous", "chunked"};
	for (int p = 0; p < 3; p++) {
		struct workload w;
		struct run_settings s;
		struct run_result r;
		random_workload(&w, 500, 10, 2);
		small_settings(&s, &w);
		s.policy = policies[p];
		s.num_gpu_blocks_override = 60; /* few: preemptions */
		must_run(&s, &w, NULL, &r);
		int64_t between = 0, gaps = 0;
		for (int64_t i = 0; i < w.n; i++) {
			if (r.requests[i].state != REQUEST_FINISHED)
				continue;
			between += r.requests[i].last_token_ns - r.requests[i].first_token_ns;
			gaps += r.requests[i].outputs > 1 ? r.requests[i].outputs - 1 : 0;
		}
		const struct dist *itl = &r.metrics.latency[LATENCY_ITL];
		CHECK_INT(itl->n, gaps);
		CHECK_NEAR(itl->mean * (double)gaps, (double)between, 1e-6 * (double)between);
		const struct metrics *m = &r.metrics;
		CHECK_INT(m->sum_queue_ns + m->sum_prefill_ns + m->sum_decode_ns + m->sum_preempted_ns, m->sum_e2el_ns);
		CHECK_INT(m->completed + m->rejected, 500);
		run_result_free(&r);
		workload_free(&w);
	}
}

/* Tokens counted second by second are at least the mean rate and at most all of them. */
static void peak_rate_lies_above_the_mean(void)
{
	struct workload w;
	struct run_settings s;
	struct run_result r;
	random_workload(&w, 300, 25, 3);
	small_settings(&s, &w);
	must_run(&s, &w, NULL, &r);
	CU_ASSERT_TRUE(r.metrics.max_output_tokens_per_s >= r.metrics.output_throughput);
	CU_ASSERT_TRUE(r.metrics.max_output_tokens_per_s <= (double)r.metrics.output_tokens);
	run_result_free(&r);
	workload_free(&w);
}

static void replayed_tokens_equal_the_workloads(void)
{
	struct workload w;
	struct run_settings s;
	struct run_result r;
	random_workload(&w, 300, 10, 4);
	int64_t in = 0, out = 0;
	for (int64_t i = 0; i < w.n; i++) {
		in += w.specs[i].prompt_tokens;
		out += w.specs[i].output_tokens;
	}
	small_settings(&s, &w);
	s.num_gpu_blocks_override = 60;
	must_run(&s, &w, NULL, &r);
	CU_ASSERT_TRUE(r.stats.preemptions > 0);
	CHECK_INT(r.metrics.completed, 300);
	CHECK_INT(r.metrics.input_tokens, in);
	CHECK_INT(r.metrics.output_tokens, out);
	run_result_free(&r);
	workload_free(&w);
}

static void a_full_client_queue_shows_in_the_latency(void)
{
	struct workload w;
	struct run_settings s;
	struct run_result open_loop, held;
	random_workload(&w, 200, 10, 5);
	small_settings(&s, &w);
	must_run(&s, &w, NULL, &open_loop);
	s.engine.max_concurrency = 2;
	must_run(&s, &w, NULL, &held);
	CU_ASSERT_TRUE(held.metrics.latency[LATENCY_TTFT].mean > 3 * open_loop.metrics.latency[LATENCY_TTFT].mean);
	CU_ASSERT_TRUE(held.metrics.max_concurrent_requests <= 2);
	/* The achieved rate falls behind the offered one, which is the same. */
	CHECK_NEAR(held.metrics.offered_rate, open_loop.metrics.offered_rate, 0);
	CU_ASSERT_TRUE(held.metrics.request_throughput < 0.9 * held.metrics.offered_rate);
	run_result_free(&open_loop);
	run_result_free(&held);
	workload_free(&w);
}

/* Case 23 (vllm 52884): a warm cache would flatter whatever runs second. Every run begins with a cold one: run again in the same
 * process, three prompts of 64 that begin alike hit as often as the first time (the first of them not at all), not more. */
static void case_23_every_run_begins_with_a_cold_cache(void)
{
	static const enum prefix_cache caches[] = {PREFIX_HASH, PREFIX_RADIX, PREFIX_HASH, PREFIX_RADIX};
	struct workload w;
	struct run_settings s;
	workload_init(&w);
	for (int i = 0; i < 3; i++) {
		struct spec spec = {.arrival_ns = i * NS_PER_S,
				    .hash_at = w.n_hash_ids,
				    .n_hashes = 1,
				    .name_at = -1,
				    .session = -1,
				    .prompt_tokens = 65,
				    .output_tokens = 1,
				    .max_tokens = 1,
				    .row = i + 1};
		CHECK_INT(workload_add_segment(&w, 7, 64, NULL), ERR_NONE);
		CHECK_INT(workload_add(&w, &spec, NULL), ERR_NONE);
	}
	small_settings(&s, &w);
	for (int k = 0; k < 4; k++) {
		struct run_result r;
		s.engine.prefix_cache = caches[k];
		must_run(&s, &w, NULL, &r);
		CHECK_INT(r.requests[0].cached_tokens, 0);
		CHECK_INT(r.stats.prefix_hit_tokens, 128);
		char *text = object(&s, &r);
		CU_ASSERT_TRUE(strstr(text, "cold") != NULL); /* and it is said */
		mem_free(text);
		run_result_free(&r);
	}
	workload_free(&w);
}

/* Whoever is given up is counted apart: with a place for two, those who would have waited longest leave. */
static void clients_that_give_up_are_counted_apart(void)
{
	struct workload w;
	struct run_settings s;
	struct run_result patient, hasty;
	random_workload(&w, 200, 10, 5);
	small_settings(&s, &w);
	s.engine.max_num_seqs = 2;
	must_run(&s, &w, NULL, &patient);
	double longest = patient.metrics.latency[LATENCY_E2EL].max;
	s.abort_after_s = longest / 1e9 / 4;
	must_run(&s, &w, NULL, &hasty);
	CU_ASSERT_TRUE(hasty.metrics.aborted > 0 && hasty.metrics.completed > 0);
	CHECK_INT(hasty.metrics.rejected, 0);
	CHECK_INT(hasty.metrics.failed, hasty.metrics.aborted);
	CHECK_INT(hasty.metrics.rejected_why[REQUEST_WHY_TIMEOUT], hasty.metrics.aborted);
	CHECK_INT(hasty.metrics.completed + hasty.metrics.aborted, 200);
	CU_ASSERT_TRUE(hasty.metrics.latency[LATENCY_E2EL].max < longest / 2);
	run_result_free(&patient);
	run_result_free(&hasty);
	workload_free(&w);
}

static void a_real_model_and_device(void)
{
	struct workload w;
	struct run_settings s;
	struct run_result r;
	random_workload(&w, 50, 25, 6);
	small_settings(&s, &w);
	s.cost = NULL;
	s.num_gpu_blocks_override = 0;
	s.model = "llama-3.1-8b";
	s.device = "h100-sxm";
	must_run(&s, &w, NULL, &r);
	CHECK_INT(r.metrics.completed, 50);
	CHECK_INT(r.kv_bytes_per_token, 131072);
	CU_ASSERT_TRUE(r.engine.num_blocks > 20000 && r.engine.num_blocks < 40000);
	CU_ASSERT_TRUE(r.weight_bytes > INT64_C(16000000000) && r.weight_bytes < INT64_C(16200000000));
	run_result_free(&r);
	workload_free(&w);
}

/* --- what cannot be run ------------------------------------------------------------------------------------------- */

static void refused(const struct run_settings *s, const struct workload *w, const char *words)
{
	struct run_result r;
	struct err e = {0};
	CHECK_INT(run_execute(s, w, NULL, &r, &e), ERR_INPUT);
	if (!strstr(e.text, words))
		printf("    \"%s\" lacks \"%s\"\n", e.text, words);
	CU_ASSERT_PTR_NOT_NULL(strstr(e.text, words));
	CU_ASSERT_PTR_NULL(r.requests);
	run_result_free(&r);
}

static void what_is_missing_or_unknown_is_named(void)
{
	struct workload w, empty;
	struct run_settings s;
	random_workload(&w, 5, 25, 7);
	workload_init(&empty);
	small_settings(&s, &w);
	refused(&s, &empty, "no requests");
	s.policy = "chunkd";
	refused(&s, &w, "chunked");
	s.policy = "chunked";
	s.policy_params = "speed=9";
	refused(&s, &w, "speed");
	s.policy_params = NULL;
	s.num_gpu_blocks_override = 0;
	refused(&s, &w, "--num-gpu-blocks-override");
	s.model = "llama-3.1-8b";
	refused(&s, &w, "--device");
	s.device = "abacus";
	refused(&s, &w, "abacus");
	s.device = "rtx-3090";
	s.model = "llama-3.1-70b";
	refused(&s, &w, ""); /* the weights do not fit */
	s.model = s.device = NULL;
	s.cost = "roofline";
	refused(&s, &w, "needs a model and a device");
	small_settings(&s, &w);
	s.engine.max_num_batched_tokens = 8;
	refused(&s, &w, "max_num_batched_tokens (8) is less than max_num_seqs (256)");
	workload_free(&w);
}

/* A bad setting is found before the database has a run of it. */
static void a_refused_run_leaves_no_row(void)
{
	struct workload w;
	struct run_settings s;
	struct run_result r;
	struct store_list l;
	struct err e = {0};
	random_workload(&w, 5, 25, 8);
	small_settings(&s, &w);
	s.policy = "none-such";
	unlink(temp_path("refused.db"));
	struct run_io io = {0};
	CHECK_INT(store_open(&io.store, temp_path("refused.db"), false, &e), ERR_NONE);
	CHECK_INT(run_execute(&s, &w, &io, &r, &e), ERR_INPUT);
	err_clear(&e);
	CHECK_INT(store_list(io.store, &l, &e), ERR_NONE);
	CHECK_INT(l.n, 0);
	store_list_free(&l);
	store_close(io.store);
	workload_free(&w);
}

struct counter {
	int64_t calls, last, total;
	int stop;
};

static void count(void *ctx, int64_t ended, int64_t total)
{
	struct counter *c = ctx;
	c->calls++;
	CU_ASSERT_TRUE(ended >= c->last);
	c->last = ended;
	c->total = total;
	if (ended >= 2000)
		c->stop = 1;
}

/* Stopped from outside: not an error, and figures of what was done. */
static void a_stopped_run_reports_what_it_did(void)
{
	struct workload w;
	struct run_settings s;
	struct run_result r;
	struct counter c = {0};
	struct err e = {0};
	random_workload(&w, 6000, 25, 9);
	small_settings(&s, &w);
	const struct run_io io = {.stop = &c.stop, .progress = count, .ctx = &c};
	CHECK_INT(run_execute(&s, &w, &io, &r, &e), ERR_NONE);
	CHECK_INT(r.status, RUN_INTERRUPTED);
	CU_ASSERT_TRUE(c.calls > 0);
	CHECK_INT(c.total, 6000);
	CU_ASSERT_TRUE(r.metrics.completed >= 2000 && r.metrics.completed < 6000);
	CHECK_INT(r.metrics.completed + r.metrics.failed + r.metrics.unfinished, 6000);
	CU_ASSERT_TRUE(r.metrics.latency[LATENCY_TTFT].mean > 0);
	CHECK_STR(r.status_text, "interrupted");
	run_result_free(&r);
	workload_free(&w);
}

int main(void)
{
	static const struct test tests[] = {
		{"the_same_input_gives_the_same_bytes", the_same_input_gives_the_same_bytes},
		{"gaps_add_up_to_the_time_between_tokens", gaps_add_up_to_the_time_between_tokens},
		{"peak_rate_lies_above_the_mean", peak_rate_lies_above_the_mean},
		{"replayed_tokens_equal_the_workloads", replayed_tokens_equal_the_workloads},
		{"a_full_client_queue_shows_in_the_latency", a_full_client_queue_shows_in_the_latency},
		{"case_23_every_run_begins_with_a_cold_cache", case_23_every_run_begins_with_a_cold_cache},
		{"clients_that_give_up_are_counted_apart", clients_that_give_up_are_counted_apart},
		{"a_real_model_and_device", a_real_model_and_device},
		{"what_is_missing_or_unknown_is_named", what_is_missing_or_unknown_is_named},
		{"a_refused_run_leaves_no_row", a_refused_run_leaves_no_row},
		{"a_stopped_run_reports_what_it_did", a_stopped_run_reports_what_it_did},
	};
	return SUITE_RUN("analysis_run", tests);
}
