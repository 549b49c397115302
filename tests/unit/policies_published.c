/* What tells sarathi, vllm_v0, trtllm and random from their neighbours, solved by hand. A step takes 10 ns; blocks hold 4 tokens. */
#include <string.h>

#include "tests/support/sched.h"
#include "tests/support/suite.h"

/* --- sarathi ---------------------------------------------------------------------------------------------------- */

/* Four decode and fill chunk_size = 4: E's prompt, which came at 5, waits until they end at 30, though the step's budget is
 * 64. With chunk_size 5 it gets one token a step from 10 on: 10, 20, then all of its last 2 at 30. vllm_v1 computes it at
 * once. */
static void sarathi_prompts_get_what_decodes_leave_of_chunk_size(void)
{
	static const char *const params[] = {"chunk_size=4", "chunk_size=5", ""};
	static const int64_t sched[] = {30, 10, 10}, first[] = {40, 40, 20};
	for (int k = 0; k < 3; k++) {
		struct sched s;
		sched_init(&s, k < 2 ? "sarathi" : "vllm_v1", params[k]);
		for (int i = 0; i < 4; i++)
			sched_add(&s, 0, 1, 3);
		sched_add(&s, 5, 4, 1);
		CHECK_INT(sched_run(&s), ERR_NONE);
		TIMES(s, 0, 0, 10, 30);
		TIMES(s, 4, sched[k], first[k], first[k]);
		CHECK_INT(s.requests[4].chunks, k == 1 ? 3 : 1);
		sched_free(&s);
	}
}

/* A prompt of 12 in pieces of 4 takes its three blocks at once, vllm_v1 one with each piece. */
static void sarathi_takes_a_prompts_memory_at_once(void)
{
	for (int v1 = 0; v1 < 2; v1++) {
		struct sched s;
		sched_init(&s, v1 ? "vllm_v1" : "sarathi", v1 ? "" : "chunk_size=4");
		s.cfg.max_num_batched_tokens = v1 ? 8 : 64;
		sched_add(&s, 0, 12, 1);
		CHECK_INT(sched_run(&s), ERR_NONE);
		CHECK_INT(s.requests[0].chunks, v1 ? 2 : 3);
		CHECK_INT(sched_count(&s, EVENT_BLOCK, 0), 3);
		CHECK_INT(sched_event(&s, EVENT_BLOCK, 0, 2).at_ns, v1 ? 10 : 0);
		sched_free(&s);
	}
}

/* 10 blocks, 2 of them the watermark. A and B take 4 each and leave 2: C, which needs 1, waits until A ends at 20. D would
 * leave 1 of all 10: it is rejected at once and blocks nobody. The same holds for vllm_v0; vllm_v1 takes all of them. */
static void watermark_stays_free(void)
{
	static const char *const policies[] = {"sarathi", "vllm_v0"};
	for (int k = 0; k < 2; k++) {
		struct sched s;
		sched_init(&s, policies[k], "watermark=0.2");
		s.cfg.num_blocks = 10;
		sched_add(&s, 0, 36, 1);
		sched_add(&s, 0, 15, 2);
		sched_add(&s, 0, 15, 2);
		sched_add(&s, 0, 4, 1);
		CHECK_INT(sched_run(&s), ERR_NONE);
		CHECK_INT(s.requests[0].state, REQUEST_REJECTED);
		CHECK_INT(s.requests[0].why, REQUEST_WHY_POLICY);
		TIMES(s, 1, 0, 10, 20);
		TIMES(s, 2, 0, 10, 20);
		TIMES(s, 3, 20, 30, 30);
		sched_free(&s);
	}
}

/* 4 blocks, two requests of 4 + 8 tokens: at 50 the second gives way, and comes back when the first has ended. */
static void last_admitted_gives_way(void)
{
	static const char *const policies[] = {"sarathi", "trtllm"}, *const params[] = {
									     "watermark=0",
									     "capacity_scheduler=max_utilization"};
	for (int k = 0; k < 2; k++) {
		struct sched s;
		sched_init(&s, policies[k], params[k]);
		s.cfg.num_blocks = 4;
		sched_add(&s, 0, 4, 8);
		sched_add(&s, 0, 4, 8);
		CHECK_INT(sched_run(&s), ERR_NONE);
		TIMES(s, 0, 0, 10, 80);
		TIMES(s, 1, 0, 10, 110);
		CHECK_INT(sched_event(&s, EVENT_PREEMPT, 1, 0).at_ns, 50);
		CHECK_INT(s.requests[1].recomputed_tokens, 8);
		sched_free(&s);
	}
}

/* --- vllm_v0 ---------------------------------------------------------------------------------------------------- */

/*  0-10 A's prompt           A1
 * 10-20 B's prompt, alone    B1
 * 20-30 both decode          A2 B2
 * 30-50                      A4
 * vllm_v1 computes B's prompt beside A's second token: A ends at 40. */
static void vllm_v0_prompts_stall_decodes(void)
{
	for (int v1 = 0; v1 < 2; v1++) {
		struct sched s;
		sched_init(&s, v1 ? "vllm_v1" : "vllm_v0", "");
		sched_add(&s, 0, 4, 4);
		sched_add(&s, 5, 4, 2);
		CHECK_INT(sched_run(&s), ERR_NONE);
		TIMES(s, 0, 0, 10, v1 ? 40 : 50);
		TIMES(s, 1, 10, 20, 30);
		CHECK_INT(s.steps[1].decodes, v1);
		sched_free(&s);
	}
}

/* Prompts of 6 and a budget of 8: whole ones only, so one a step, and A decodes when both are through. */
static void vllm_v0_computes_whole_prompts(void)
{
	struct sched s;
	sched_init(&s, "vllm_v0", "");
	s.cfg.max_num_batched_tokens = 8;
	sched_add(&s, 0, 6, 2);
	sched_add(&s, 0, 6, 2);
	sched_add(&s, 0, 10, 1);
	CHECK_INT(sched_run(&s), ERR_NONE);
	TIMES(s, 0, 0, 10, 30);
	TIMES(s, 1, 10, 20, 30);
	CHECK_INT(s.requests[2].why, REQUEST_WHY_BUDGET);
	sched_free(&s);
}

/* 2 blocks. A and B: 2 + 2 tokens, a block each. At 10 A's second token has room in its block, but no block is free: B gives
 * way, and its 3 tokens are computed again from 20 on. Who asks only for what is needed ends both at 20. */
static void vllm_v0_wants_a_free_block_for_each_decode(void)
{
	for (int v1 = 0; v1 < 2; v1++) {
		struct sched s;
		sched_init(&s, v1 ? "vllm_v1" : "vllm_v0", v1 ? "" : "watermark=0");
		s.cfg.num_blocks = 2;
		sched_add(&s, 0, 2, 2);
		sched_add(&s, 0, 2, 2);
		CHECK_INT(sched_run(&s), ERR_NONE);
		TIMES(s, 0, 0, 10, 20);
		TIMES(s, 1, 0, 10, v1 ? 20 : 30);
		CHECK_INT(s.stats.preemptions, !v1);
		sched_free(&s);
	}
}

/* A's prompt took 10. B came at 5 and is let in when it has waited more than twice that: at 30. */
static void vllm_v0_delays_prompts(void)
{
	struct sched s;
	sched_init(&s, "vllm_v0", "delay_factor=2");
	sched_add(&s, 0, 4, 6);
	sched_add(&s, 5, 4, 1);
	CHECK_INT(sched_run(&s), ERR_NONE);
	TIMES(s, 1, 30, 40, 40);
	TIMES(s, 0, 0, 10, 70);
	sched_free(&s);
}

/* --- trtllm ----------------------------------------------------------------------------------------------------- */

/* Two requests of 4 + 8 tokens, 3 blocks each in the end. Of 4 blocks the first may need 3: the second waits for its end. Of
 * 6, both go. Nobody is ever paused. */
static void trtllm_lets_in_only_whom_it_can_keep(void)
{
	for (int roomy = 0; roomy < 2; roomy++) {
		struct sched s;
		sched_init(&s, "trtllm", "");
		s.cfg.num_blocks = roomy ? 6 : 4;
		sched_add(&s, 0, 4, 8);
		sched_add(&s, 0, 4, 8);
		CHECK_INT(sched_run(&s), ERR_NONE);
		TIMES(s, 0, 0, 10, 80);
		TIMES(s, 1, roomy ? 0 : 80, roomy ? 10 : 90, roomy ? 80 : 160);
		CHECK_INT(s.stats.preemptions, 0);
		sched_free(&s);
	}
}

/* A holds 2 of 4 blocks in the end. B may need 4; C, behind it, would fit beside A and waits all the same. */
static void trtllm_stops_at_the_first_misfit(void)
{
	struct sched s;
	sched_init(&s, "trtllm", "");
	s.cfg.num_blocks = 4;
	sched_add(&s, 0, 4, 4);
	sched_add(&s, 0, 4, 12);
	sched_add(&s, 0, 4, 1);
	CHECK_INT(sched_run(&s), ERR_NONE);
	TIMES(s, 0, 0, 10, 40);
	TIMES(s, 1, 40, 50, 160);
	TIMES(s, 2, 160, 170, 170);
	sched_free(&s);
}

/* Budget 10, unit 4. A's 20 tokens get 8 of it, a multiple of 4; the 2 that are left are all of B's prompt.
 * A: 8, 8, 4. */
static void trtllm_pieces_are_multiples_of_the_unit(void)
{
	struct sched s;
	sched_init(&s, "trtllm", "chunk_unit=4");
	s.cfg.max_num_batched_tokens = 10;
	sched_add(&s, 0, 20, 1);
	sched_add(&s, 0, 2, 1);
	CHECK_INT(sched_run(&s), ERR_NONE);
	TIMES(s, 0, 0, 30, 30);
	TIMES(s, 1, 0, 10, 10);
	CHECK_INT(sched_event(&s, EVENT_CHUNK, 0, 1).b, 8);
	sched_free(&s);
}

/* Two prompts of 12, 8 tokens a step. In order: 8 of A, then 4 of A and 4 of B, then B's 8. Equal: 4 of each, three times. */
static void trtllm_shares_equally_or_in_order(void)
{
	for (int equal = 0; equal < 2; equal++) {
		struct sched s;
		sched_init(&s, "trtllm", equal ? "context_chunking=equal_progress" : "");
		s.cfg.max_num_batched_tokens = 8;
		sched_add(&s, 0, 12, 1);
		sched_add(&s, 0, 12, 1);
		CHECK_INT(sched_run(&s), ERR_NONE);
		CHECK_INT(s.requests[0].first_token_ns, equal ? 30 : 20);
		CHECK_INT(s.requests[1].first_token_ns, 30);
		CHECK_INT(s.requests[1].first_sched_ns, equal ? 0 : 10);
		sched_free(&s);
	}
}

/* Whole prompts run beside decodes, unlike in vllm_v0: A ends at 20. */
static void trtllm_mixes_whole_prompts_with_decodes(void)
{
	struct sched s;
	sched_init(&s, "trtllm", "enable_chunked_context=off");
	s.cfg.max_num_batched_tokens = 8;
	sched_add(&s, 0, 6, 2);
	sched_add(&s, 0, 6, 1);
	CHECK_INT(sched_run(&s), ERR_NONE);
	TIMES(s, 0, 0, 10, 20);
	TIMES(s, 1, 10, 20, 20);
	sched_free(&s);
}

/* A and B begin with the same 8 tokens, C with others. B waits a step for A's blocks and then computes one token; C does
 * not wait. vllm_v1 with visibility at commit computes B's 9 tokens at once. */
static void trtllm_waits_for_blocks_about_to_be_filled(void)
{
	for (int v1 = 0; v1 < 2; v1++) {
		struct sched s;
		sched_init(&s, v1 ? "vllm_v1" : "trtllm", "");
		s.cfg.prefix_caching = true;
		s.cfg.hit_visible = HIT_VISIBLE_COMMIT;
		for (int i = 0; i < 3; i++) {
			sched_add(&s, 0, 9, 1);
			sched_share(&s, i == 2 ? 8 : 7, 8);
		}
		CHECK_INT(sched_run(&s), ERR_NONE);
		TIMES(s, 0, 0, 10, 10);
		TIMES(s, 1, v1 ? 0 : 10, v1 ? 10 : 20, v1 ? 10 : 20);
		TIMES(s, 2, 0, 10, 10);
		CHECK_INT(s.requests[1].cached_tokens, v1 ? 0 : 8);
		sched_free(&s);
	}
}

/* 7 blocks, 8 tokens a step in equal pieces of 4. A leaves 8 tokens in the cache, which C begins with. At 20 B needs 3 blocks
 * and C 3 beside the 2 it hits upon: only B goes, and has the whole step. C follows when B ends, at 60. */
static void trtllm_counts_idle_hits_as_needed(void)
{
	struct sched s;
	sched_init(&s, "trtllm", "context_chunking=equal_progress");
	s.cfg.prefix_caching = true;
	s.cfg.num_blocks = 7;
	s.cfg.max_num_batched_tokens = 8;
	sched_add(&s, 0, 9, 1);
	sched_share(&s, 7, 8);
	sched_add(&s, 15, 8, 4);
	sched_add(&s, 15, 13, 4);
	sched_share(&s, 7, 8);
	CHECK_INT(sched_run(&s), ERR_NONE);
	TIMES(s, 1, 20, 30, 60);
	TIMES(s, 2, 60, 70, 100);
	CHECK_INT(s.requests[2].cached_tokens, 8);
	sched_free(&s);
}

/* A policy may reject the last one there is, whose child then never starts: the run ends. */
static void children_of_a_rejected_request_are_told(void)
{
	struct sched s;
	sched_init(&s, "vllm_v0", "watermark=0.5");
	s.cfg.num_blocks = 4;
	sched_add(&s, 0, 12, 1);
	sched_add(&s, 0, 4, 1);
	sched_after(&s, 0, 1);
	CHECK_INT(sched_run(&s), ERR_NONE);
	CHECK_INT(s.requests[0].why, REQUEST_WHY_POLICY);
	CHECK_INT(s.requests[1].why, REQUEST_WHY_PARENT);
	sched_free(&s);
}

/* --- random ------------------------------------------------------------------------------------------------------ */

/* One place, eight requests at once: each seed serves them in its own order, every time the same. */
static void random_order_follows_the_seed(void)
{
	int64_t sched[3][8];
	for (int k = 0; k < 3; k++) {
		struct sched s;
		sched_init(&s, "random", "");
		s.cfg.max_num_seqs = 1;
		s.cfg.seed = k < 2 ? 1 : 2;
		for (int i = 0; i < 8; i++)
			sched_add(&s, 0, 4, 1);
		CHECK_INT(sched_run(&s), ERR_NONE);
		int64_t sum = 0;
		for (int i = 0; i < 8; i++)
			sum += sched[k][i] = s.requests[i].first_sched_ns;
		CHECK_INT(sum, 280);
		sched_free(&s);
	}
	CHECK_INT(memcmp(sched[0], sched[1], sizeof sched[0]), 0);
	CU_ASSERT(memcmp(sched[0], sched[2], sizeof sched[0]) != 0);
}

/* Four on memory for little more than two: whoever gives way, it is never the one admitted first. */
static void random_victim_is_never_the_first(void)
{
	for (uint64_t seed = 0; seed < 20; seed++) {
		struct sched s;
		sched_init(&s, "random", "");
		s.cfg.num_blocks = 8;
		s.cfg.seed = seed;
		for (int i = 0; i < 4; i++)
			sched_add(&s, 0, 4, 12);
		CHECK_INT(sched_run(&s), ERR_NONE);
		CU_ASSERT(s.stats.preemptions > 0);
		CHECK_INT(s.requests[sched_event(&s, EVENT_ADMIT, -1, 0).req].preemptions, 0);
		sched_free(&s);
	}
}

int main(void)
{
	static const struct test tests[] = {
		{"sarathi_prompts_get_what_decodes_leave_of_chunk_size",
		 sarathi_prompts_get_what_decodes_leave_of_chunk_size},
		{"sarathi_takes_a_prompts_memory_at_once", sarathi_takes_a_prompts_memory_at_once},
		{"watermark_stays_free", watermark_stays_free},
		{"last_admitted_gives_way", last_admitted_gives_way},
		{"vllm_v0_prompts_stall_decodes", vllm_v0_prompts_stall_decodes},
		{"vllm_v0_computes_whole_prompts", vllm_v0_computes_whole_prompts},
		{"vllm_v0_wants_a_free_block_for_each_decode", vllm_v0_wants_a_free_block_for_each_decode},
		{"vllm_v0_delays_prompts", vllm_v0_delays_prompts},
		{"trtllm_lets_in_only_whom_it_can_keep", trtllm_lets_in_only_whom_it_can_keep},
		{"trtllm_stops_at_the_first_misfit", trtllm_stops_at_the_first_misfit},
		{"trtllm_pieces_are_multiples_of_the_unit", trtllm_pieces_are_multiples_of_the_unit},
		{"trtllm_shares_equally_or_in_order", trtllm_shares_equally_or_in_order},
		{"trtllm_mixes_whole_prompts_with_decodes", trtllm_mixes_whole_prompts_with_decodes},
		{"trtllm_waits_for_blocks_about_to_be_filled", trtllm_waits_for_blocks_about_to_be_filled},
		{"trtllm_counts_idle_hits_as_needed", trtllm_counts_idle_hits_as_needed},
		{"children_of_a_rejected_request_are_told", children_of_a_rejected_request_are_told},
		{"random_order_follows_the_seed", random_order_follows_the_seed},
		{"random_victim_is_never_the_first", random_victim_is_never_the_first},
	};
	return SUITE_RUN("policies_published", tests);
}
