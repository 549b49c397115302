/* What requests wait for, solved by hand: a step takes 10 ns, a block holds 4 tokens. Every request's causes add up to the time
 * it waited. */
#include "tests/support/sched.h"
#include "tests/support/suite.h"

static void check_waited(const struct sched *s, int32_t req, enum wait_cause cause, int64_t entry, int64_t waited)
{
	const struct request *r = &s->requests[req];
	int64_t sum = 0;
	for (int c = 0; c < WAIT_CAUSES; c++)
		sum += r->waited_ns[c];
	CHECK_INT(sum, request_queue_ns(r) + r->preempted_ns);
	CHECK_INT(r->waited_ns[WAIT_ENTRY], entry);
	if (cause != WAIT_ENTRY)
		CHECK_INT(r->waited_ns[cause], waited);
	CHECK_INT(sum, entry + waited);
}

/* CASES 10: A's prompt of 40 tokens takes 5 steps of 8; B and C (4 tokens each) came at 1 and are let in at 50. Capped at 4 tokens
 * a step A leaves room for one of them in each: B at 10, C at 20. In either case the delay is that of a long prefill. */
static void a_long_prompt_delays_the_short_ones_behind_it(void)
{
	for (int capped = 0; capped < 2; capped++) {
		struct sched s;
		sched_init(&s, "vllm_v1", capped ? "long_prefill_token_threshold=4" : "");
		s.cfg.max_num_batched_tokens = 8;
		sched_add(&s, 0, 40, 1);
		sched_add(&s, 1, 4, 1);
		sched_add(&s, 1, 4, 1);
		CHECK_INT(sched_run(&s), ERR_NONE);
		TIMES(s, 0, 0, capped ? 100 : 50, capped ? 100 : 50);
		TIMES(s, 1, capped ? 10 : 50, capped ? 20 : 60, capped ? 20 : 60);
		check_waited(&s, 0, WAIT_ENTRY, 0, 0);
		check_waited(&s, 1, WAIT_PREFILL, 9, capped ? 0 : 40);
		check_waited(&s, 2, WAIT_PREFILL, 9, capped ? 10 : 40);
		/* CASES 12: who was put off does not run, and no step is without tokens. */
		CHECK_INT(s.steps[1].running, capped ? 2 : 1);
		CHECK_INT(s.steps[1].waiting, capped ? 1 : 2);
		for (int64_t i = 0; i < s.n_steps; i++)
			CU_ASSERT(s.steps[i].prefill_tokens + s.steps[i].decodes > 0);
		sched_free(&s);
	}
}

/* 4 blocks. A (12 tokens, 4 outputs) has 3 of them, then all; B's 8 tokens want 2 and get them when A has ended, at 40. */
static void for_memory(void)
{
	for (int lazy = 0; lazy < 2; lazy++) {
		struct sched s;
		sched_init(&s, "vllm_v1", "");
		s.cfg.num_blocks = 4;
		s.cfg.check = !lazy;
		s.log = !lazy;
		sched_add(&s, 0, 12, 4);
		sched_add(&s, 1, 8, 1);
		CHECK_INT(sched_run(&s), ERR_NONE);
		CHECK_INT(s.requests[1].first_sched_ns, 40);
		check_waited(&s, 1, WAIT_MEMORY, 9, 30);
		sched_free(&s);
	}
}

/* A and B, 4 prompt tokens and 8 outputs each in 4 blocks: at 50 B gives way to A and is let in again at 80. */
static void after_a_preemption(void)
{
	struct sched s;
	sched_init(&s, "vllm_v1", "");
	s.cfg.num_blocks = 4;
	sched_add(&s, 0, 4, 8);
	sched_add(&s, 0, 4, 8);
	CHECK_INT(sched_run(&s), ERR_NONE);
	CHECK_INT(s.requests[1].preempted_ns, 30);
	check_waited(&s, 1, WAIT_MEMORY, 0, 30);
	sched_free(&s);
}

static void for_a_place(void)
{
	struct sched s;
	sched_init(&s, "vllm_v1", "");
	s.cfg.max_num_seqs = 1;
	sched_add(&s, 0, 4, 3);
	sched_add(&s, 1, 4, 1);
	CHECK_INT(sched_run(&s), ERR_NONE);
	check_waited(&s, 1, WAIT_PLACE, 9, 20);
	sched_free(&s);
}

/* 8 tokens a step: A's prompt takes all of the first, and is done with it. */
static void for_budget(void)
{
	struct sched s;
	sched_init(&s, "vllm_v1", "");
	s.cfg.max_num_batched_tokens = 8;
	sched_add(&s, 0, 8, 3);
	sched_add(&s, 0, 4, 1);
	CHECK_INT(sched_run(&s), ERR_NONE);
	check_waited(&s, 1, WAIT_BUDGET, 0, 10);
	sched_free(&s);
}

/* Sarathi's chunk of 4 is its budget, though the step has 64. */
static void for_what_a_policy_calls_its_budget(void)
{
	struct sched s;
	sched_init(&s, "sarathi", "chunk_size=4");
	sched_add(&s, 0, 4, 3);
	sched_add(&s, 0, 4, 1);
	CHECK_INT(sched_run(&s), ERR_NONE);
	CU_ASSERT(s.requests[1].waited_ns[WAIT_BUDGET] >= 10);
	CHECK_INT(s.requests[1].waited_ns[WAIT_POLICY], 0);
	sched_free(&s);
}

/* Static batching: B came at 5, when A's batch had begun; it ends at 30. */
static void for_the_policy(void)
{
	struct sched s;
	sched_init(&s, "static", "");
	sched_add(&s, 0, 4, 3);
	sched_add(&s, 5, 4, 1);
	CHECK_INT(sched_run(&s), ERR_NONE);
	check_waited(&s, 1, WAIT_POLICY, 5, 20);
	sched_free(&s);
}

/* One request at a time is with the server: B waits at the client. */
static void at_the_client(void)
{
	struct sched s;
	sched_init(&s, "vllm_v1", "");
	s.cfg.max_concurrency = 1;
	sched_add(&s, 0, 4, 3);
	sched_add(&s, 1, 4, 1);
	CHECK_INT(sched_run(&s), ERR_NONE);
	check_waited(&s, 1, WAIT_ENTRY, 29, 0);
	sched_free(&s);
}

/* Aborted while it waits: what it has waited for until then. */
static void until_it_is_aborted(void)
{
	struct sched s;
	enum engine_next next;
	const struct batch *batch;
	struct step_result res;
	int64_t until;
	sched_init(&s, "vllm_v1", "");
	s.cfg.max_num_seqs = 1;
	sched_add(&s, 0, 4, 3);
	sched_add(&s, 0, 4, 1);
	CHECK_INT(sched_open(&s), ERR_NONE);
	CHECK_INT(engine_begin(s.engine, 0, &next, &batch, &until, &s.err), ERR_NONE);
	CHECK_INT(s.backend.ops->submit(s.backend.self, batch, &s.err), ERR_NONE);
	CHECK_INT(s.backend.ops->wait(s.backend.self, &res, &s.err), ERR_NONE);
	CHECK_INT(engine_end(s.engine, &res, &s.err), ERR_NONE);
	CHECK_INT(engine_abort(s.engine, 1, 17, REQUEST_WHY_USER, &s.err), ERR_NONE);
	CHECK_INT(s.requests[1].waited_ns[WAIT_PLACE], 17);
	sched_close(&s);
	sched_free(&s);
}

int main(void)
{
	static const struct test tests[] = {
		{"a_long_prompt_delays_the_short_ones_behind_it", a_long_prompt_delays_the_short_ones_behind_it},
		{"for_memory", for_memory},
		{"after_a_preemption", after_a_preemption},
		{"for_a_place", for_a_place},
		{"for_budget", for_budget},
		{"for_what_a_policy_calls_its_budget", for_what_a_policy_calls_its_budget},
		{"for_the_policy", for_the_policy},
		{"at_the_client", at_the_client},
		{"until_it_is_aborted", until_it_is_aborted},
	};
	return SUITE_RUN("policies_waits", tests);
}
