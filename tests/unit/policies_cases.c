/* What went wrong elsewhere, with the value it must have here; the numbers are those of docs and reports: "vllm 39734" is
 * that project's issue. A step takes 10 ns unless said otherwise; blocks hold 4 tokens. */
#include <string.h>

#include "tests/support/sched.h"
#include "tests/support/suite.h"

#define HAS(text, part) CU_ASSERT(strstr(text, part) != NULL)

/* vllm 39734: within the model's length, but more than all of the memory. */
static void prompt_beyond_the_memory_is_rejected_and_the_rest_go_on(void)
{
	const char *const policies[] = {"naive", "continuous", "chunked"};
	for (int i = 0; i < 3; i++) {
		struct sched s;
		sched_init(&s, policies[i], "");
		s.cfg.num_blocks = 4;
		s.cfg.model_max_len = 1000;
		sched_add(&s, 0, 20, 4);
		sched_add(&s, 0, 4, 2);
		CHECK_INT(sched_run(&s), ERR_NONE);
		CHECK_INT(s.requests[0].state, REQUEST_REJECTED);
		CHECK_INT(s.requests[0].why, REQUEST_WHY_NO_MEMORY);
		CHECK_INT(s.requests[1].state, REQUEST_FINISHED);
		CHECK_INT(s.requests[1].last_token_ns, 20);
		CHECK_INT(s.stats.rejected, 1);
		sched_free(&s);
	}
}

/* vllm 55130, 39976: a prompt of 2049, a budget of 2048, no chunking. */
static void prompt_beyond_the_budget_is_no_silent_wait(void)
{
	struct sched s;
	sched_init(&s, "chunked", "enable_chunked_prefill=off");
	s.cfg.max_num_batched_tokens = 2048;
	s.cfg.num_blocks = 4096;
	sched_add(&s, 0, 2049, 1);
	sched_add(&s, 0, 2048, 1);
	CHECK_INT(sched_run(&s), ERR_NONE);
	CHECK_INT(s.requests[0].state, REQUEST_REJECTED);
	CHECK_INT(s.requests[0].why, REQUEST_WHY_BUDGET);
	CHECK_INT(s.requests[1].state, REQUEST_FINISHED);
	s.cfg.max_model_len = 4096;
	CHECK_INT(sched_run(&s), ERR_INPUT);
	HAS(s.err.text, "2048");
	HAS(s.err.text, "4096");
	sched_free(&s);
}

/* vllm 28981: a budget that cannot give everybody a token names both numbers. */
static void budget_below_the_sequences_is_refused(void)
{
	struct sched s;
	sched_init(&s, "chunked", "");
	s.cfg.max_num_seqs = 128;
	s.cfg.max_num_batched_tokens = 127;
	sched_add(&s, 0, 4, 1);
	CHECK_INT(sched_run(&s), ERR_INPUT);
	HAS(s.err.text, "127");
	HAS(s.err.text, "128");
	s.cfg.max_num_batched_tokens = 128;
	CHECK_INT(sched_run(&s), ERR_NONE);
	sched_free(&s);
}

/* vllm 45388: two prompts of 24 on 8 blocks (32 tokens), admitted piece by piece without looking at the whole: together they
 * fill the memory half way. The later one gives way, so both end. */
static void partly_computed_prompts_do_not_lock_each_other(void)
{
	struct sched s;
	sched_init(&s, "chunked", "reserve_full_prompt=off,long_prefill_token_threshold=4");
	s.cfg.num_blocks = 8;
	s.cfg.max_num_batched_tokens = 8;
	sched_add(&s, 0, 24, 2);
	sched_add(&s, 0, 24, 2);
	CHECK_INT(sched_run(&s), ERR_NONE);
	CHECK_INT(s.stats.finished, 2);
	CHECK_INT(s.requests[0].preemptions, 0);
	CU_ASSERT(s.requests[1].preemptions >= 1);
	CHECK_INT(s.requests[0].last_token_ns, 70); /* 6 pieces of 4, then one decode: as if it were alone */
	sched_free(&s);
}

static int plan_nothing_create(void **self, const union policy_value *v, const struct policy_setup *u,
			       struct policy_traits *t, struct err *e)
{
	(void)v, (void)u, (void)t, (void)e;
	*self = NULL;
	return ERR_NONE;
}

static void plan_nothing_destroy(void *self)
{
	(void)self;
}

/* Takes a request in and then forgets about it. */
static void plan_nothing(void *self, struct plan *p)
{
	struct admit_options o = {.tokens = 5};
	(void)self;
	if (view_running(p) == 0 && view_waiting(p) > 0)
		plan_admit(p, view_waiting_first(p), &o);
}

/* vllm 45388 again: a stall says who holds what and who waits. */
static void stall_names_who_holds_what(void)
{
	static const struct policy_desc forgetful = {.abi = POLICY_ABI,
						     .size = sizeof(struct policy_desc),
						     .name = "forgetful",
						     .create = plan_nothing_create,
						     .destroy = plan_nothing_destroy,
						     .plan = plan_nothing};
	struct sched s;
	sched_init(&s, "forgetful", "");
	s.desc = &forgetful;
	sched_add(&s, 0, 12, 1);
	sched_add(&s, 0, 30, 1);
	CHECK_INT(sched_run(&s), ERR_STALL);
	HAS(s.err.text, "forgetful");
	HAS(s.err.text, "request 1 prefilling, 5 of 12 tokens computed, holds 2 blocks");
	HAS(s.err.text, "first in the queue: request 2, 30 tokens");
	sched_free(&s);
}

/* vllm PR 21809, BLIS 1057 (173,622 failed allocations): many long prompts that never fit together. Looking at the whole prompt
 * on admission bounds how often one is thrown out again. */
static void preemptions_stay_few_when_the_whole_prompt_is_looked_at(void)
{
	struct sched s;
	sched_init(&s, "chunked", "");
	s.cfg.num_blocks = 16;
	s.cfg.max_num_batched_tokens = 8;
	for (int i = 0; i < 30; i++)
		sched_add(&s, 0, 24, 16);
	CHECK_INT(sched_run(&s), ERR_NONE);
	CHECK_INT(s.stats.finished, 30);
	for (int i = 0; i < 30; i++)
		CU_ASSERT(s.requests[i].preemptions <= 4);
	sched_free(&s);
}

/* vllm 41951, vidur: A and B run, C waits. When B gives way it stands before C, keeps its outputs, and no output becomes a
 * prompt token. */
static void preempted_request_goes_before_the_queue(void)
{
	struct sched s;
	sched_init(&s, "chunked", "");
	s.cfg.num_blocks = 4;
	s.cfg.max_num_seqs = 2;
	sched_add(&s, 0, 4, 8);
	sched_add(&s, 0, 4, 8);
	sched_add(&s, 0, 4, 1);
	CHECK_INT(sched_run(&s), ERR_NONE);
	CHECK_INT(s.requests[1].preemptions, 1);
	CU_ASSERT(sched_event(&s, EVENT_ADMIT, 1, 1).at_ns <= s.requests[2].first_sched_ns);
	CHECK_INT(sched_event(&s, EVENT_ADMIT, 1, 1).b, 1);
	CHECK_INT(s.requests[1].outputs, 8);
	CHECK_INT(s.stats.output_tokens, 17);
	/* Prompts once, and B's again: 4 + 4 + 4, then 4 + 5 outputs. */
	CHECK_INT(s.stats.prompt_tokens_computed, 12 + 9);
	sched_free(&s);
}

/* vllm PR 11186: the same prompt of 8 = two full blocks again: its last token is computed, which, floored to blocks, means its
 * last block: a hit of 4. Nine tokens hit both blocks. */
static void fully_cached_prompt_computes_its_last_token(void)
{
	struct sched s;
	sched_init(&s, "chunked", "");
	s.cfg.prefix_caching = true;
	sched_add(&s, 0, 8, 1);
	sched_share(&s, 7, 8);
	sched_add(&s, 100, 8, 1);
	sched_share(&s, 7, 8);
	sched_add(&s, 200, 9, 1);
	sched_share(&s, 7, 8);
	CHECK_INT(sched_run(&s), ERR_NONE);
	CHECK_INT(s.requests[1].cached_tokens, 4);
	CHECK_INT(sched_event(&s, EVENT_CHUNK, 1, 0).a, 4);
	CHECK_INT(sched_event(&s, EVENT_CHUNK, 1, 0).b, 4);
	CHECK_INT(s.requests[2].cached_tokens, 8);
	CHECK_INT(sched_event(&s, EVENT_CHUNK, 2, 0).b, 1);
	CHECK_INT(s.stats.prompt_tokens_computed, 8 + 4 + 1);
	CHECK_INT(s.stats.output_tokens, 3);
	sched_free(&s);
}

/* vllm PR 29387: two equal prompts in one step. Visible at allocation: the second hits what the first is about to fill.
 * At commit: it does not. Tokens and times are the same. */
static void same_step_hits_depend_on_visibility(void)
{
	for (int commit = 0; commit < 2; commit++) {
		struct sched s;
		sched_init(&s, "chunked", "");
		s.cfg.prefix_caching = true;
		s.cfg.hit_visible = commit ? HIT_VISIBLE_COMMIT : HIT_VISIBLE_ALLOC;
		for (int i = 0; i < 3; i++) {
			sched_add(&s, i == 2 ? 50 : 0, 9, 2);
			sched_share(&s, 7, 9);
		}
		CHECK_INT(sched_run(&s), ERR_NONE);
		CHECK_INT(s.requests[1].cached_tokens, commit ? 0 : 8);
		CHECK_INT(s.requests[2].cached_tokens, 8);
		CHECK_INT(s.requests[1].first_token_ns, 10);
		CHECK_INT(s.requests[1].last_token_ns, 20);
		CHECK_INT(s.stats.output_tokens, 6);
		sched_free(&s);
	}
}

/* vllm 25780, 43736: B is preempted with 8 of 9 tokens computed and finds its own blocks again: that is no cache hit of the
 * workload, and what it must compute again is counted as recomputation, not as a hit. */
static void hits_are_counted_on_first_admission_only(void)
{
	struct sched s;
	sched_init(&s, "chunked", "");
	s.cfg.num_blocks = 5;
	s.cfg.prefix_caching = true;
	sched_add(&s, 0, 8, 8);
	sched_add(&s, 0, 8, 8);
	CHECK_INT(sched_run(&s), ERR_NONE);
	CHECK_INT(s.requests[1].preemptions, 1);
	CU_ASSERT(sched_event(&s, EVENT_ADMIT, 1, 1).a > 0);
	CHECK_INT(s.requests[1].cached_tokens, 0);
	CHECK_INT(s.stats.prefix_hit_tokens, 0);
	CHECK_INT(s.stats.prefix_lookups_tokens, 16);
	sched_free(&s);
}

/* vllm 46283, PR 49146: aborted while queued, while running, while preempted: nothing stays taken, the others end. */
static void abort_at_any_moment_leaks_nothing(void)
{
	struct sched s;
	enum engine_next next;
	const struct batch *batch;
	struct step_result res;
	int64_t until;
	sched_init(&s, "chunked", "");
	s.cfg.num_blocks = 4;
	s.cfg.max_num_seqs = 2;
	for (int i = 0; i < 4; i++)
		sched_add(&s, 0, 4, 8);
	CHECK_INT(sched_open(&s), ERR_NONE);
	for (int step = 0; step < 6; step++) { /* until B has given way, at 50 */
		CHECK_INT(engine_begin(s.engine, s.fake.now_ns, &next, &batch, &until, &s.err), ERR_NONE);
		CHECK_INT(next, ENGINE_BATCH);
		s.backend.ops->submit(s.backend.self, batch, &s.err);
		s.backend.ops->wait(s.backend.self, &res, &s.err);
		CHECK_INT(engine_end(s.engine, &res, &s.err), ERR_NONE);
	}
	CHECK_INT(s.requests[1].state, REQUEST_PREEMPTED);
	CHECK_INT(engine_abort(s.engine, 1, 60, REQUEST_WHY_USER, &s.err), ERR_NONE); /* preempted */
	CHECK_INT(engine_abort(s.engine, 0, 60, REQUEST_WHY_USER, &s.err), ERR_NONE); /* running */
	CHECK_INT(engine_abort(s.engine, 3, 60, REQUEST_WHY_USER, &s.err), ERR_NONE); /* queued, without blocks */
	CHECK_INT(engine_abort(s.engine, 3, 60, REQUEST_WHY_USER, &s.err), ERR_INPUT);
	err_clear(&s.err);
	CHECK_INT(s.requests[0].outputs, 6);
	CHECK_INT(s.requests[1].outputs, 5);
	CHECK_INT(s.requests[1].preempted_ns, 10);
	CHECK_INT(sched_loop(&s), ERR_NONE);
	CHECK_INT(s.requests[2].state, REQUEST_FINISHED);
	CHECK_INT(s.requests[2].last_token_ns, 140);
	sched_close(&s);
	CHECK_INT(s.stats.aborted, 3);
	CHECK_INT(s.stats.finished, 1);
	CHECK_INT(s.steps[s.n_steps - 1].blocks_used, 3); /* the last request's 11 tokens and nothing else */
	sched_free(&s);
}

/* Clients wait 45 ns. One place: A (10 outputs) is given up at the first clock reading from 45 on, at 50 with 5 of its tokens,
 * together with B, which was never let in; C waits for A and never starts. D takes the place at once, and E, whose client
 * would have left at 81, at 80. Steps walked one by one and not come to the same. */
static void clients_give_up_and_leave_nothing_behind(void)
{
	for (int fast = 0; fast < 2; fast++) {
		struct sched s;
		sched_init(&s, "vllm_v1", "");
		s.log = !fast;
		s.cfg.check = !fast;
		s.cfg.max_num_seqs = 1;
		s.cfg.abort_after_ns = 45;
		sched_add(&s, 0, 4, 10);
		sched_add(&s, 0, 4, 2);
		sched_add(&s, 0, 4, 2);
		sched_after(&s, 0, 2);
		sched_add(&s, 35, 4, 3);
		sched_add(&s, 36, 4, 1);
		CHECK_INT(sched_run(&s), ERR_NONE);
		CHECK_INT(s.requests[0].state, REQUEST_ABORTED);
		CHECK_INT(s.requests[0].why, REQUEST_WHY_TIMEOUT);
		CHECK_INT(s.requests[0].outputs, 5);
		CHECK_INT(s.requests[0].last_token_ns, 50);
		CHECK_INT(s.requests[1].state, REQUEST_ABORTED);
		CHECK_INT(s.requests[1].first_sched_ns, -1);
		CHECK_INT(s.requests[2].why, REQUEST_WHY_PARENT);
		TIMES(s, 3, 50, 60, 80);
		CHECK_INT(s.requests[3].state, REQUEST_FINISHED);
		CHECK_INT(s.requests[4].state, REQUEST_FINISHED); /* its client would have left at 81 */
		TIMES(s, 4, 80, 90, 90);
		CHECK_INT(s.stats.aborted, 2);
		CHECK_INT(s.stats.rejected, 1);
		CHECK_INT(s.stats.finished, 2);
		CHECK_INT(s.stats.output_tokens, 5 + 3 + 1);
		CHECK_INT(s.stats.max_blocks_used, 2); /* A's 8 tokens */
		sched_free(&s);
	}
}

/* Nobody computes anything and nobody comes: the wait for memory that never comes free ends with the client's patience. */
static void patience_ends_an_idle_wait(void)
{
	struct sched s;
	sched_init(&s, "static", "batch_timeout=1us");
	s.cfg.abort_after_ns = 70;
	sched_add(&s, 5, 4, 1);
	CHECK_INT(sched_run(&s), ERR_NONE);
	CHECK_INT(s.requests[0].state, REQUEST_ABORTED);
	CHECK_INT(s.requests[0].last_token_ns, 75);
	CHECK_INT(s.stats.steps, 0);
	sched_free(&s);
}

/* vllm 10774, 57413: a prompt of 64 before four of 4, 16 tokens a step, 10 + 1 per prefill token. Without a cap the short
 * ones wait for four steps (104) and ride in the fifth; capped at 8 per step they ride in the first, 8 long tokens beside
 * two of them. */
static void long_prefill_cap_bounds_the_wait_of_short_ones(void)
{
	for (int cap = 0; cap < 2; cap++) {
		struct sched s;
		sched_init(&s, "chunked", cap ? "long_prefill_token_threshold=8" : "");
		s.cfg.max_num_batched_tokens = 16;
		s.a = 10;
		s.b = 1;
		sched_add(&s, 0, 64, 1);
		for (int i = 0; i < 4; i++)
			sched_add(&s, 0, 4, 1);
		CHECK_INT(sched_run(&s), ERR_NONE);
		CHECK_INT(request_queue_ns(&s.requests[1]), cap ? 0 : 104);
		CHECK_INT(s.requests[2].first_token_ns, cap ? 26 : 104 + 26);
		CHECK_INT(s.requests[4].first_token_ns, cap ? 52 : 104 + 26);
		sched_free(&s);
	}
}

/* vllm 53130: a request that gets nothing in a step is not in it: with a budget of 2 and two decoding, the third prompt is not
 * admitted, and `running` does not count it. */
static void deferred_request_is_not_running(void)
{
	struct sched s;
	sched_init(&s, "chunked", "");
	s.cfg.max_num_seqs = 2;
	s.cfg.max_num_batched_tokens = 2;
	sched_add(&s, 0, 1, 3);
	sched_add(&s, 0, 1, 3);
	sched_add(&s, 0, 1, 1);
	CHECK_INT(sched_run(&s), ERR_NONE);
	for (int64_t i = 0; i < 3; i++) {
		CHECK_INT(s.steps[i].running, 2);
		CHECK_INT(s.steps[i].waiting, 1);
		CU_ASSERT(s.steps[i].decodes + s.steps[i].prefill_tokens > 0);
	}
	sched_free(&s);
}

/* BLIS 524: E2E = TTFT + the sum of gaps, n - 1 of them, also across a preemption and with 0 and 1 outputs. */
static void latency_adds_up(void)
{
	struct sched s;
	int64_t e2e = 0, ttft = 0, tokens = 0, with_output = 0;
	sched_init(&s, "chunked", "");
	s.cfg.num_blocks = 4;
	s.a = 7;
	s.b = 3;
	s.c = 2;
	const int32_t outputs[] = {8, 8, 0, 1, 5};
	for (int i = 0; i < 5; i++)
		sched_add(&s, 3 * i, 4, outputs[i]);
	CHECK_INT(sched_run(&s), ERR_NONE);
	CU_ASSERT(s.stats.preemptions > 0);
	for (int i = 0; i < 5; i++) {
		const struct request *r = &s.requests[i];
		e2e += request_e2e_ns(r);
		ttft += request_ttft_ns(r);
		tokens += r->outputs;
		with_output += r->outputs > 0;
		CHECK_INT(request_queue_ns(r) + request_prefill_ns(r) + request_decode_ns(r) + r->preempted_ns,
			  request_e2e_ns(r));
	}
	CHECK_INT(s.gap_sum_ns, e2e - ttft);
	CHECK_INT(s.gaps, tokens - with_output);
	CHECK_INT(tokens, 22);
	sched_free(&s);
}

/* BLIS 482, vidur 51: host time is part of every step and of its total: 4 of each step's 14. */
static void host_time_is_part_of_the_step(void)
{
	struct sched s;
	sched_init(&s, "chunked", "");
	s.a = 10;
	s.host_ns = 4;
	sched_add(&s, 0, 4, 3);
	CHECK_INT(sched_run(&s), ERR_NONE);
	CHECK_INT(s.requests[0].first_token_ns, 14);
	CHECK_INT(s.requests[0].last_token_ns, 42);
	CHECK_INT(s.stats.busy_ns, 42);
	CHECK_INT(s.stats.host_ns, 12);
	CHECK_INT(s.steps[1].host_ns, 4);
	sched_free(&s);
}

/* vidur on the Azure trace: a batch far beyond any table must not crash: a prompt of two million tokens in one step. */
static void enormous_prompt_is_a_step_like_any_other(void)
{
	struct sched s;
	sched_init(&s, "continuous", "");
	s.cfg.num_blocks = 1 << 20;
	s.b = s.d = 1;
	sched_add(&s, 0, 2000000, 2);
	CHECK_INT(sched_run(&s), ERR_NONE);
	CHECK_INT(s.requests[0].first_token_ns, 2000000);
	CHECK_INT(s.requests[0].last_token_ns, 4000001);
	sched_free(&s);
}

int main(void)
{
	static const struct test tests[] = {
		{"case_1_prompt_beyond_the_memory_is_rejected_and_the_rest_go_on",
		 prompt_beyond_the_memory_is_rejected_and_the_rest_go_on},
		{"case_2_prompt_beyond_the_budget_is_no_silent_wait", prompt_beyond_the_budget_is_no_silent_wait},
		{"case_3_budget_below_the_sequences_is_refused", budget_below_the_sequences_is_refused},
		{"case_4_partly_computed_prompts_do_not_lock_each_other",
		 partly_computed_prompts_do_not_lock_each_other},
		{"case_4_stall_names_who_holds_what", stall_names_who_holds_what},
		{"case_5_preemptions_stay_few_when_the_whole_prompt_is_looked_at",
		 preemptions_stay_few_when_the_whole_prompt_is_looked_at},
		{"case_6_preempted_request_goes_before_the_queue", preempted_request_goes_before_the_queue},
		{"case_7_fully_cached_prompt_computes_its_last_token", fully_cached_prompt_computes_its_last_token},
		{"case_7_same_step_hits_depend_on_visibility", same_step_hits_depend_on_visibility},
		{"case_8_hits_are_counted_on_first_admission_only", hits_are_counted_on_first_admission_only},
		{"case_9_abort_at_any_moment_leaks_nothing", abort_at_any_moment_leaks_nothing},
		{"case_9_clients_give_up_and_leave_nothing_behind", clients_give_up_and_leave_nothing_behind},
		{"case_9_patience_ends_an_idle_wait", patience_ends_an_idle_wait},
		{"case_10_long_prefill_cap_bounds_the_wait_of_short_ones",
		 long_prefill_cap_bounds_the_wait_of_short_ones},
		{"case_12_deferred_request_is_not_running", deferred_request_is_not_running},
		{"case_24_latency_adds_up", latency_adds_up},
		{"case_26_host_time_is_part_of_the_step", host_time_is_part_of_the_step},
		{"case_30_enormous_prompt_is_a_step_like_any_other", enormous_prompt_is_a_step_like_any_other},
	};
	return SUITE_RUN("policies_cases", tests);
}
