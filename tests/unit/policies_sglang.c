/* What tells sglang from its neighbours, solved by hand. A step takes 10 ns; blocks hold 4 tokens. */
#include "tests/support/sched.h"
#include "tests/support/suite.h"

/* A's second token waits for B's prompt (A ends at 50), unless decodes run beside prompts (at 40). */
static void prompts_come_first(void)
{
	for (int mixed = 0; mixed < 2; mixed++) {
		struct sched s;
		sched_init(&s, "sglang", mixed ? "mixed_chunk=on" : "");
		sched_add(&s, 0, 4, 4);
		sched_add(&s, 5, 4, 2);
		CHECK_INT(sched_run(&s), ERR_NONE);
		CHECK_INT(s.requests[0].last_token_ns, mixed ? 40 : 50);
		CHECK_INT(s.requests[1].first_token_ns, 20);
		CHECK_INT(s.requests[1].last_token_ns, 30);
		sched_free(&s);
	}
}

/* One place. A leaves 8 tokens in the cache; of B and C, which wait, C begins with them and is served first. */
static void longest_match_goes_first(void)
{
	for (int lpm = 0; lpm < 2; lpm++) {
		struct sched s;
		sched_init(&s, "sglang", lpm ? "schedule_policy=lpm" : "schedule_policy=fcfs");
		s.cfg.prefix_caching = true;
		s.cfg.max_num_seqs = 1;
		sched_add(&s, 0, 9, 1);
		sched_share(&s, 7, 8);
		sched_add(&s, 5, 9, 1);
		sched_add(&s, 5, 9, 1);
		sched_share(&s, 7, 8);
		CHECK_INT(sched_run(&s), ERR_NONE);
		CHECK_INT(s.requests[1].first_token_ns, lpm ? 30 : 20);
		CHECK_INT(s.requests[2].first_token_ns, lpm ? 20 : 30);
		CHECK_INT(s.requests[2].cached_tokens, 8);
		sched_free(&s);
	}
}

/* Prompts of 40, 80 tokens a step. B begins with the same 36 as A, nothing of which is cached: it is put back behind C, and
 * finds them when A is through. In order, A and B go together and compute them twice. */
static void same_beginning_is_put_back(void)
{
	for (int lpm = 0; lpm < 2; lpm++) {
		struct sched s;
		sched_init(&s, "sglang", lpm ? "schedule_policy=lpm" : "schedule_policy=fcfs");
		s.cfg.prefix_caching = true;
		s.cfg.hit_visible = HIT_VISIBLE_COMMIT;
		s.cfg.max_num_batched_tokens = 80;
		for (int i = 0; i < 3; i++) {
			sched_add(&s, 0, 40, 1);
			if (i < 2)
				sched_share(&s, 7, 36);
		}
		CHECK_INT(sched_run(&s), ERR_NONE);
		CHECK_INT(s.requests[0].first_token_ns, 10);
		CHECK_INT(s.requests[1].first_token_ns, lpm ? 20 : 10);
		CHECK_INT(s.requests[1].cached_tokens, lpm ? 36 : 0);
		CHECK_INT(s.requests[2].first_token_ns, lpm ? 10 : 20);
		sched_free(&s);
	}
}

/* Two prefixes are cached, one of 16 tokens that one request waits for, one of 8 that two wait for. The longest match goes
 * first, or the larger subtree. */
static void larger_subtree_goes_first(void)
{
	for (int dfs = 0; dfs < 2; dfs++) {
		struct sched s;
		sched_init(&s, "sglang", dfs ? "schedule_policy=dfs_weight" : "schedule_policy=lpm");
		s.cfg.prefix_caching = true;
		for (int i = 0; i < 5; i++) {
			bool deep = i == 0 || i == 2;
			sched_add(&s, i < 2 ? 0 : 5, deep ? 17 : 9, 1);
			sched_share(&s, deep ? 9 : 7, deep ? 16 : 8);
		}
		CHECK_INT(sched_run(&s), ERR_NONE);
		CHECK_INT(sched_event(&s, EVENT_ADMIT, -1, 2).req, dfs ? 3 : 2);
		CHECK_INT(sched_event(&s, EVENT_ADMIT, -1, 3).req, dfs ? 4 : 3);
		CHECK_INT(sched_event(&s, EVENT_ADMIT, -1, 4).req, dfs ? 2 : 4);
		sched_free(&s);
	}
}

/* 40 tokens of memory. At 10 A (8 + 20) holds 8 and may produce 19 more, 0.7 of which, 13, is kept: 19 are left. B wants its
 * prompt of 8 and its largest output: with 20 it waits until A ends at 200, with 10 it goes at once. */
static void admission_leaves_room_for_a_share_of_outputs(void)
{
	for (int small = 0; small < 2; small++) {
		struct sched s;
		sched_init(&s, "sglang", "");
		s.cfg.num_blocks = 10;
		sched_add(&s, 0, 8, 20);
		sched_add(&s, 5, 8, small ? 10 : 20);
		CHECK_INT(sched_run(&s), ERR_NONE);
		CHECK_INT(s.requests[1].first_sched_ns, small ? 10 : 200);
		sched_free(&s);
	}
}

/* 24 tokens of memory, three of 4 + 4 at once. A and B take 8 each, the last of which C would need all of: it waits until
 * they end, whatever tokens they are about to have. */
static void largest_outputs_count_in_full_on_admission(void)
{
	struct sched s;
	sched_init(&s, "sglang", "");
	s.cfg.num_blocks = 6;
	for (int i = 0; i < 3; i++)
		sched_add(&s, 0, 4, 4);
	CHECK_INT(sched_run(&s), ERR_NONE);
	TIMES(s, 1, 0, 10, 40);
	TIMES(s, 2, 40, 50, 80);
	sched_free(&s);
}

/* 40 tokens of memory. A leaves 16 in the cache, which C begins with. At 10 C goes: with its 16 locked, a page for its last
 * token and 8 outputs, 12 are left, which B (4 + 8) would need all of: it waits until C ends. */
static void what_is_hit_upon_is_no_longer_free(void)
{
	struct sched s;
	sched_init(&s, "sglang", "");
	s.cfg.num_blocks = 10;
	s.cfg.prefix_caching = true;
	sched_add(&s, 0, 17, 1);
	sched_share(&s, 7, 16);
	sched_add(&s, 5, 4, 8);
	sched_add(&s, 5, 17, 8);
	sched_share(&s, 7, 16);
	CHECK_INT(sched_run(&s), ERR_NONE);
	TIMES(s, 2, 10, 20, 90);
	TIMES(s, 1, 90, 100, 170);
	sched_free(&s);
}

/* 12 tokens of memory. At 10 A (1 + 2) holds 4 and decodes beside prompts, which takes one of the other 8: B (2 + 5) would
 * need all 7 that are left. */
static void decodes_beside_prompts_take_their_place(void)
{
	struct sched s;
	sched_init(&s, "sglang", "mixed_chunk=on");
	s.cfg.num_blocks = 3;
	sched_add(&s, 0, 1, 2);
	sched_add(&s, 5, 2, 5);
	CHECK_INT(sched_run(&s), ERR_NONE);
	TIMES(s, 0, 0, 10, 20);
	TIMES(s, 1, 20, 30, 70);
	sched_free(&s);
}

/* 7 blocks, hardly any share kept. A (4 + 12) runs from 0, B (the same) from 20. At 110 A holds 4 blocks, B 3 and needs one:
 * B, with 9 outputs against 10, is retracted. A ends at 130; then B's 13 tokens are computed again, and it ends at 160. */
static void fewest_outputs_are_retracted(void)
{
	struct sched s;
	sched_init(&s, "sglang", "schedule_conservativeness=0.01");
	s.cfg.num_blocks = 7;
	sched_add(&s, 0, 4, 12);
	sched_add(&s, 15, 4, 12);
	CHECK_INT(sched_run(&s), ERR_NONE);
	CHECK_INT(sched_event(&s, EVENT_PREEMPT, 1, 0).at_ns, 110);
	CHECK_INT(s.stats.preemptions, 1);
	CHECK_INT(s.requests[1].recomputed_tokens, 12);
	CHECK_INT(s.requests[0].last_token_ns, 130);
	CHECK_INT(s.requests[1].last_token_ns, 160);
	sched_free(&s);
}

/* A prompt of 20, 8 tokens a step: 8, 8, 4; then B, in the room that is left of the third step. */
static void one_prompt_is_cut_at_a_time(void)
{
	struct sched s;
	sched_init(&s, "sglang", "chunked_prefill_size=8");
	sched_add(&s, 0, 20, 1);
	sched_add(&s, 0, 4, 1);
	CHECK_INT(sched_run(&s), ERR_NONE);
	CHECK_INT(s.requests[0].first_token_ns, 30);
	CHECK_INT(s.requests[1].first_sched_ns, 20);
	CHECK_INT(s.requests[1].first_token_ns, 30);
	sched_free(&s);
}

int main(void)
{
	static const struct test tests[] = {
		{"prompts_come_first", prompts_come_first},
		{"longest_match_goes_first", longest_match_goes_first},
		{"same_beginning_is_put_back", same_beginning_is_put_back},
		{"larger_subtree_goes_first", larger_subtree_goes_first},
		{"admission_leaves_room_for_a_share_of_outputs", admission_leaves_room_for_a_share_of_outputs},
		{"largest_outputs_count_in_full_on_admission", largest_outputs_count_in_full_on_admission},
		{"what_is_hit_upon_is_no_longer_free", what_is_hit_upon_is_no_longer_free},
		{"decodes_beside_prompts_take_their_place", decodes_beside_prompts_take_their_place},
		{"fewest_outputs_are_retracted", fewest_outputs_are_retracted},
		{"one_prompt_is_cut_at_a_time", one_prompt_is_cut_at_a_time},
	};
	return SUITE_RUN("policies_sglang", tests);
}
