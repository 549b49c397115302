/* Schedules solved by hand. Unless a test says otherwise a step takes 10 ns, a block holds 4 tokens, there are 64 blocks,
 * at most 8 requests run and a step may compute 64 tokens. "A2" is the second output token of request A. */
#include "tests/support/sched.h"
#include "tests/support/suite.h"

/* A and B form the batch; C has to wait for B, though A's place is free at 20.
 *   0-10 prefill A, B     A1 B1
 *  10-20 decode A, B      A2 B2   A ends
 *  20-30, 30-40 decode B  B3, B4  B ends
 *  40-50 prefill C        C1
 *  50-60 decode C         C2 */
static void static_batch_keeps_a_free_place_empty(void)
{
	struct sched s;
	sched_init(&s, "naive", "pad=off,hold_finished=off");
	s.cfg.max_num_seqs = 2;
	sched_add(&s, 0, 4, 2);
	sched_add(&s, 0, 4, 4);
	sched_add(&s, 0, 4, 2);
	CHECK_INT(sched_run(&s), ERR_NONE);
	TIMES(s, 0, 0, 10, 20);
	TIMES(s, 1, 0, 10, 40);
	TIMES(s, 2, 40, 50, 60);
	CHECK_INT(s.stats.steps, 6);
	sched_free(&s);
}

/* The same three requests: C joins as soon as A has left.
 *   0-10 A1 B1; 10-20 A2 B2; 20-30 prefill C beside B: B3 C1; 30-40 B4 C2 */
static void continuous_batch_fills_it(void)
{
	struct sched s;
	sched_init(&s, "continuous", "");
	s.cfg.max_num_seqs = 2;
	sched_add(&s, 0, 4, 2);
	sched_add(&s, 0, 4, 4);
	sched_add(&s, 0, 4, 2);
	CHECK_INT(sched_run(&s), ERR_NONE);
	TIMES(s, 1, 0, 10, 40);
	TIMES(s, 2, 20, 30, 40);
	CHECK_INT(s.stats.steps, 4);
	CHECK_INT(s.steps[2].decodes, 1);
	CHECK_INT(s.steps[2].chunks, 1);
	sched_free(&s);
}

/* A step takes 10 + 5 per row that decodes. A (2 outputs) is held while B (4) goes on:
 *   0-10 prefill; 10-30 two rows: A2 B2; 30-50 B3 and the held row; 50-70 B4 and the held row.
 * Not held: 30-45 B3, 45-60 B4. A's own times are the same. */
static void held_rows_go_on_costing(void)
{
	for (int held = 0; held < 2; held++) {
		struct sched s;
		sched_init(&s, "naive", held ? "pad=off" : "pad=off,hold_finished=off");
		s.a = 10;
		s.c = 5;
		sched_add(&s, 0, 4, 2);
		sched_add(&s, 0, 4, 4);
		CHECK_INT(sched_run(&s), ERR_NONE);
		TIMES(s, 0, 0, 10, 30);
		TIMES(s, 1, 0, 10, held ? 70 : 60);
		CHECK_INT(s.requests[0].held_until_ns, held ? 70 : 30);
		CHECK_INT(s.stats.output_tokens, 6);
		CHECK_INT(s.stats.pad_tokens, held ? 2 : 0);
		CHECK_INT(sched_count(&s, EVENT_RELEASE, -1), held ? 2 : 0);
		sched_free(&s);
	}
}

/* B arrives at 15, in the middle of A's second step, and joins at its end.
 *   0-10 A1; 10-20 A2; 20-30 A3 B1; 30-40 A4 B2; 40-50 A5 */
static void newcomer_joins_at_the_end_of_a_step(void)
{
	struct sched s;
	sched_init(&s, "chunked", "");
	sched_add(&s, 0, 4, 5);
	sched_add(&s, 15, 4, 2);
	CHECK_INT(sched_run(&s), ERR_NONE);
	TIMES(s, 0, 0, 10, 50);
	TIMES(s, 1, 20, 30, 40);
	CHECK_INT(request_queue_ns(&s.requests[1]), 5);
	CHECK_INT(request_ttft_ns(&s.requests[1]), 15);
	CHECK_INT(request_e2e_ns(&s.requests[1]), 25);
	CHECK_INT(s.steps[2].running, 2);
	sched_free(&s);
}

/* 8 tokens a step, 10 + 1 per prefill token: 20 tokens are 8 + 8 + 4, at 18, 36 and 50; the token comes with the last
 * piece. 16 tokens are two whole pieces and no empty third one. */
static void prompt_is_cut_at_the_budget(void)
{
	struct sched s;
	sched_init(&s, "chunked", "");
	s.cfg.max_num_batched_tokens = 8;
	s.a = 10;
	s.b = 1;
	sched_add(&s, 0, 20, 1);
	sched_add(&s, 100, 16, 1);
	CHECK_INT(sched_run(&s), ERR_NONE);
	TIMES(s, 0, 0, 50, 50);
	TIMES(s, 1, 100, 136, 136);
	CHECK_INT(s.requests[0].chunks, 3);
	CHECK_INT(s.requests[1].chunks, 2);
	CHECK_INT(sched_event(&s, EVENT_CHUNK, 0, 2).a, 16);
	CHECK_INT(sched_event(&s, EVENT_CHUNK, 0, 2).b, 4);
	CHECK_INT(s.steps[0].sampled, 0);
	CHECK_INT(s.steps[2].sampled, 1);
	sched_free(&s);
}

/* 8 tokens a step, 10 + 1 per prefill token + 1 per decode.
 *   0-14 A's prompt of 4                           A1
 *  14-32 A decodes (1), B gets the other 7 of 10   A2
 *  32-46 A decodes (1), B's last 3                 A3 B1
 *  46-58 both decode                               A4 B2 */
static void decodes_leave_the_rest_of_the_budget_to_a_chunk(void)
{
	struct sched s;
	sched_init(&s, "chunked", "");
	s.cfg.max_num_batched_tokens = 8;
	s.a = 10;
	s.b = s.c = 1;
	sched_add(&s, 0, 4, 4);
	sched_add(&s, 1, 10, 2);
	CHECK_INT(sched_run(&s), ERR_NONE);
	TIMES(s, 0, 0, 14, 58);
	TIMES(s, 1, 14, 46, 58);
	CHECK_INT(s.steps[1].prefill_tokens, 7);
	CHECK_INT(s.steps[1].decodes, 1);
	CHECK_INT(s.steps[2].prefill_tokens, 3);
	CHECK_INT(s.steps[3].decodes, 2);
	sched_free(&s);
}

/* 4 blocks. A and B: 4 prompt tokens, 8 outputs.
 *   0-10 both prompts, one block each              A1 B1
 *  10-50 four decodes, two blocks each: all taken  A5 B5
 *  50-60 A's 9th token needs a block: B gives way  A6 (B has 4 + 5 tokens, 8 of them computed)
 *  60-80 B needs 3 blocks, 1 is free               A8: A ends
 *  80-90 B's 9 tokens again                        B6
 *  90-110                                          B8 */
static void preempted_request_returns_and_keeps_its_tokens(void)
{
	struct sched s;
	sched_init(&s, "chunked", "");
	s.cfg.num_blocks = 4;
	sched_add(&s, 0, 4, 8);
	sched_add(&s, 0, 4, 8);
	CHECK_INT(sched_run(&s), ERR_NONE);
	TIMES(s, 0, 0, 10, 80);
	TIMES(s, 1, 0, 10, 110);
	CHECK_INT(sched_event(&s, EVENT_PREEMPT, 1, 0).at_ns, 50);
	CHECK_INT(sched_event(&s, EVENT_PREEMPT, 1, 0).a, 8);
	CHECK_INT(sched_event(&s, EVENT_CHUNK, 1, 1).b, 9);
	CHECK_INT(s.requests[1].preemptions, 1);
	CHECK_INT(s.requests[1].recomputed_tokens, 8);
	CHECK_INT(s.requests[1].outputs, 8);
	CHECK_INT(s.requests[1].preempted_ns, 30);
	CHECK_INT(request_prefill_ns(&s.requests[1]), 10);
	CHECK_INT(request_decode_ns(&s.requests[1]), 70);
	CHECK_INT(s.stats.output_tokens, 16);
	sched_free(&s);
}

/* A prompt of 4 fills its block exactly: one output needs no second block, since the last token's KV is never written;
 * two outputs do, at the second step. A prompt of 5 needs two at once. */
static void exactly_full_block_needs_no_other(void)
{
	struct sched s;
	sched_init(&s, "chunked", "");
	sched_add(&s, 0, 4, 1);
	sched_add(&s, 100, 4, 2);
	sched_add(&s, 200, 5, 1);
	CHECK_INT(sched_run(&s), ERR_NONE);
	CHECK_INT(sched_count(&s, EVENT_BLOCK, 0), 1);
	CHECK_INT(sched_count(&s, EVENT_BLOCK, 1), 2);
	CHECK_INT(sched_event(&s, EVENT_BLOCK, 1, 0).at_ns, 100);
	CHECK_INT(sched_event(&s, EVENT_BLOCK, 1, 1).at_ns, 110);
	CHECK_INT(sched_count(&s, EVENT_BLOCK, 2), 2);
	CHECK_INT(sched_event(&s, EVENT_BLOCK, 2, 1).at_ns, 200);
	sched_free(&s);
}

/* 4 blocks of 4: 16 tokens, prompt and output together. 15 + 1 just fit. A prompt of 16 leaves no room for an output, 17
 * not even for itself: both are turned away on arrival, and the request behind them is served at once. Of 5 outputs
 * after 14 tokens 2 fit. */
static void one_token_too_long(void)
{
	struct sched s;
	sched_init(&s, "chunked", "");
	s.cfg.num_blocks = 4;
	sched_add(&s, 0, 15, 1);
	sched_add(&s, 100, 16, 1);
	sched_add(&s, 100, 17, 1);
	sched_add(&s, 100, 14, 5);
	CHECK_INT(sched_run(&s), ERR_NONE);
	TIMES(s, 0, 0, 10, 10);
	CHECK_INT(s.requests[1].state, REQUEST_REJECTED);
	CHECK_INT(s.requests[1].why, REQUEST_WHY_PROMPT_TOO_LONG);
	CHECK_INT(s.requests[1].last_token_ns, 100);
	CHECK_INT(s.requests[2].state, REQUEST_REJECTED);
	CHECK_INT(s.requests[2].why, REQUEST_WHY_NO_MEMORY);
	TIMES(s, 3, 100, 110, 120);
	CHECK_INT(s.requests[3].outputs, 2);
	sched_free(&s);
}

/* No output: over when its prompt is computed, at 10. One output: first and last token at 10. Neither has a gap; the third
 * one has the only one. */
static void zero_and_one_output(void)
{
	const char *const policies[] = {"naive", "continuous", "chunked"};
	for (int i = 0; i < 3; i++) {
		struct sched s;
		sched_init(&s, policies[i], i ? "" : "hold_finished=off");
		sched_add(&s, 0, 4, 0);
		sched_add(&s, 0, 4, 1);
		sched_add(&s, 0, 4, 2);
		CHECK_INT(sched_run(&s), ERR_NONE);
		TIMES(s, 0, 0, 10, 10);
		TIMES(s, 1, 0, 10, 10);
		TIMES(s, 2, 0, 10, 20);
		CHECK_INT(s.requests[0].outputs, 0);
		CHECK_INT(s.requests[1].outputs, 1);
		CHECK_INT(s.gaps, 1);
		CHECK_INT(s.stats.output_tokens, 3);
		sched_free(&s);
	}
}

/* Equal arrivals are served in file order; with priorities, the smaller number first, then file order. A request that
 * arrives in the very moment in which a step ends is seen then. */
static void ties_go_by_file_order(void)
{
	struct sched s;
	sched_init(&s, "continuous", "");
	s.cfg.max_num_seqs = 1;
	for (int i = 0; i < 3; i++)
		sched_add(&s, 0, 4, 1);
	sched_add(&s, 30, 4, 1);
	CHECK_INT(sched_run(&s), ERR_NONE);
	for (int i = 0; i < 4; i++)
		TIMES(s, i, 10 * i, 10 * i + 10, 10 * i + 10);
	s.cfg.queue_order = QUEUE_PRIORITY;
	s.w.specs[0].priority = s.w.specs[1].priority = 1;
	CHECK_INT(sched_run(&s), ERR_NONE);
	CHECK_INT(s.requests[2].first_sched_ns, 0);
	CHECK_INT(s.requests[0].first_sched_ns, 10);
	CHECK_INT(s.requests[1].first_sched_ns, 20);
	sched_free(&s);
}

/* Nothing to do between 10 and 100: the next step begins when the next request comes, and no time is counted as busy. */
static void idle_gap_is_jumped_over(void)
{
	struct sched s;
	sched_init(&s, "chunked", "");
	sched_add(&s, 0, 4, 1);
	sched_add(&s, 100, 4, 2);
	CHECK_INT(sched_run(&s), ERR_NONE);
	TIMES(s, 1, 100, 110, 120);
	CHECK_INT(s.stats.steps, 3);
	CHECK_INT(s.stats.busy_ns, 30);
	CHECK_INT(s.stats.end_ns, 120);
	sched_free(&s);
}

/* 1 per prefill token, 1 per token of context. Prompts of 4 and 10, two outputs each.
 * Padded: 2 x 10 = 20; then both attend to 10 + 1: 22, at 42. Not padded: 4 + 10 = 14; then 5 + 11: 16, at 30. */
static void padding_is_computed_and_attended_to(void)
{
	for (int pad = 0; pad < 2; pad++) {
		struct sched s;
		sched_init(&s, "naive", pad ? "" : "pad=off");
		s.b = s.d = 1;
		sched_add(&s, 0, 4, 2);
		sched_add(&s, 0, 10, 2);
		CHECK_INT(sched_run(&s), ERR_NONE);
		TIMES(s, 0, 0, pad ? 20 : 14, pad ? 42 : 30);
		TIMES(s, 1, 0, pad ? 20 : 14, pad ? 42 : 30);
		CHECK_INT(s.stats.prompt_tokens_computed, 14);
		CHECK_INT(s.stats.pad_tokens, pad ? 6 : 0);
		sched_free(&s);
	}
}

/* A batch of three, waiting at most 50 for the others.
 *   A comes at 0, B and C at 20: full, so 20-30 A1 B1 C1.
 *   D comes at 100 and waits until 150; E comes at that very moment and goes along: 150-160 D1 E1.
 *   F comes at 151 and stays alone: 201-211 F1. */
static void batch_waits_for_its_timeout(void)
{
	struct sched s;
	sched_init(&s, "naive", "batch_timeout=50ns,pad=off");
	s.cfg.max_num_seqs = 3;
	sched_add(&s, 0, 4, 1);
	sched_add(&s, 20, 4, 1);
	sched_add(&s, 20, 4, 1);
	sched_add(&s, 100, 4, 1);
	sched_add(&s, 150, 4, 1);
	sched_add(&s, 151, 4, 1);
	CHECK_INT(sched_run(&s), ERR_NONE);
	TIMES(s, 0, 20, 30, 30);
	TIMES(s, 2, 20, 30, 30);
	TIMES(s, 3, 150, 160, 160);
	TIMES(s, 4, 150, 160, 160);
	TIMES(s, 5, 201, 211, 211);
	sched_free(&s);
}

/* Step t + 1 is planned while step t runs, so what comes at 5 is seen at 10 and runs in the step that begins at 20.
 * A: 3 outputs, known to be its most: 0-10 A1, 10-20 A2, 20-30 A3 beside B's prompt; nothing is planned past it. */
static void planning_ahead_sees_arrivals_a_step_later(void)
{
	struct sched s;
	sched_init(&s, "chunked", "");
	s.cfg.async_scheduling = true;
	sched_add(&s, 0, 4, 3);
	sched_add(&s, 5, 4, 1);
	CHECK_INT(sched_run(&s), ERR_NONE);
	CHECK_INT(s.requests[0].last_token_ns, 30);
	CHECK_INT(s.requests[1].first_token_ns, 30);
	CHECK_INT(s.stats.steps, 3);
	CHECK_INT(s.stats.wasted_tokens, 0);
	s.cfg.async_scheduling = false;
	CHECK_INT(sched_run(&s), ERR_NONE);
	CHECK_INT(s.requests[1].first_token_ns, 20);
	sched_free(&s);
}

/* A might have produced 9 tokens but ends after 3, at 30. Its fourth was planned at 20 and runs 30-40 for nothing; C, for
 * which there was no place before, is planned at 30 and runs 40-50. */
static void an_end_nobody_knew_of_costs_a_step(void)
{
	struct sched s;
	sched_init(&s, "chunked", "");
	s.cfg.async_scheduling = true;
	s.cfg.max_num_seqs = 1;
	sched_add(&s, 0, 4, 3);
	s.w.specs[0].max_tokens = 9;
	sched_add(&s, 0, 4, 1);
	CHECK_INT(sched_run(&s), ERR_NONE);
	CHECK_INT(s.requests[0].last_token_ns, 30);
	CHECK_INT(s.requests[0].outputs, 3);
	CHECK_INT(s.requests[1].first_token_ns, 50);
	CHECK_INT(s.stats.wasted_tokens, 1);
	CHECK_INT(s.stats.output_tokens, 4);
	CHECK_INT(s.stats.steps, 5);
	sched_free(&s);
}

/* Without a KV cache every token is computed in every step: 4, then 5, then 6. With it: 4, then 1 and 1. */
static void without_kv_cache_all_is_computed_again(void)
{
	for (int off = 0; off < 2; off++) {
		struct sched s;
		sched_init(&s, "naive", "");
		s.cfg.kv_off = off;
		s.cfg.max_num_seqs = 1;
		s.b = s.c = 1;
		sched_add(&s, 0, 4, 3);
		CHECK_INT(sched_run(&s), ERR_NONE);
		TIMES(s, 0, 0, 4, off ? 4 + 5 + 6 : 4 + 1 + 1);
		CHECK_INT(s.stats.prompt_tokens_computed, off ? 15 : 4);
		CHECK_INT(s.stats.max_blocks_used, off ? 0 : 2);
		sched_free(&s);
	}
}

/* 4 blocks, 16 tokens. A request of 4 + 4 tokens reserves 2 blocks, so two run side by side; reserving the longest sequence,
 * 16 tokens, one runs after the other. */
static void reservation_decides_how_many_run(void)
{
	for (int longest = 0; longest < 2; longest++) {
		struct sched s;
		sched_init(&s, "continuous", longest ? "reserve=max_model_len" : "reserve=max_tokens");
		s.cfg.num_blocks = 4;
		sched_add(&s, 0, 4, 4);
		sched_add(&s, 0, 4, 4);
		CHECK_INT(sched_run(&s), ERR_NONE);
		TIMES(s, 0, 0, 10, 40);
		TIMES(s, 1, longest ? 40 : 0, longest ? 50 : 10, longest ? 80 : 40);
		CHECK_INT(s.stats.max_blocks_used, 4);
		sched_free(&s);
	}
}

/* One request may be with the server. B was meant to come at 5 and enters at 20, when A has ended: its latency counts
 * from 5. */
static void client_limit_counts_as_latency(void)
{
	struct sched s;
	sched_init(&s, "chunked", "");
	s.cfg.max_concurrency = 1;
	sched_add(&s, 0, 4, 2);
	sched_add(&s, 5, 4, 1);
	CHECK_INT(sched_run(&s), ERR_NONE);
	TIMES(s, 1, 20, 30, 30);
	CHECK_INT(s.requests[1].arrival_ns, 5);
	CHECK_INT(request_e2e_ns(&s.requests[1]), 25);
	CHECK_INT(sched_event(&s, EVENT_ARRIVE, 1, 0).at_ns, 20);
	sched_free(&s);
}

/* B waits for A (ends at 20) and then thinks for 7: it arrives at 27. */
static void child_arrives_after_its_parent_and_a_delay(void)
{
	struct sched s;
	sched_init(&s, "chunked", "");
	sched_add(&s, 0, 4, 2);
	sched_add(&s, 7, 4, 1);
	sched_after(&s, 0, 1);
	CHECK_INT(sched_run(&s), ERR_NONE);
	CHECK_INT(s.requests[1].arrival_ns, 27);
	TIMES(s, 1, 27, 37, 37);
	sched_free(&s);
}

/* Reserved: 4 + 12 tokens = 4 blocks, 16 slots, for the 40 ns that it takes. Its KV grows from 4 to 7 tokens (the fourth
 * output's is never written): 10 x (4 + 5 + 6 + 7) = 220 hold a token; 10 x (3 + 2 + 1 + 0) = 60 are to come; the other
 * 640 - 280 = 360 will never be used. On demand: one block, then two: 280 slots, 220 of them in use, 60 in the tails. */
static void wasted_memory_is_accounted_for(void)
{
	for (int paged = 0; paged < 2; paged++)
		for (int log = 0; log < 2; log++) {
			struct sched s;
			sched_init(&s, "continuous", paged ? "paged=on" : "");
			s.log = log;
			s.cfg.check = log;
			sched_add(&s, 0, 4, 4);
			s.w.specs[0].max_tokens = 12;
			CHECK_INT(sched_run(&s), ERR_NONE);
			CHECK_NEAR(s.stats.kv_slot_ns, 64 * 4 * 40, 0);
			CHECK_NEAR(s.stats.kv_token_ns, 220, 0);
			CHECK_NEAR(s.stats.kv_reserved_ns, paged ? 0 : 60, 0);
			CHECK_NEAR(s.stats.kv_internal_ns, paged ? 60 : 360, 0);
			CHECK_NEAR(s.stats.kv_external_ns, 0, 0);
			sched_free(&s);
		}
}

/* 4 blocks, one each for A, B, C, D. At 10 A and C end; E needs two blocks in a row, 0 and 2 are free: 8 slots for 10 ns
 * that nobody can use. At 20 B and D end as well. On demand E starts at 10. */
static void holes_too_small_for_the_next_one(void)
{
	for (int paged = 0; paged < 2; paged++) {
		struct sched s;
		sched_init(&s, "continuous", paged ? "paged=on" : "");
		s.cfg.num_blocks = 4;
		for (int i = 0; i < 4; i++)
			sched_add(&s, 0, 2, i % 2 ? 2 : 1);
		sched_add(&s, 0, 4, 4);
		CHECK_INT(sched_run(&s), ERR_NONE);
		CHECK_INT(s.requests[4].first_sched_ns, paged ? 10 : 20);
		CHECK_NEAR(s.stats.kv_external_ns, paged ? 0 : 80, 0);
		sched_free(&s);
	}
}

/* The backend says that A's third token is an end-of-sequence, at 30; the trace would have had 8. B goes on to its 5. */
static void end_of_sequence_ends_a_request_early(void)
{
	static const int32_t eos[] = {0};
	for (int log = 0; log < 2; log++) {
		struct sched s;
		sched_init(&s, "chunked", "");
		s.log = log;
		sched_add(&s, 0, 4, 8);
		sched_add(&s, 0, 4, 5);
		CHECK_INT(sched_open(&s), ERR_NONE);
		s.fake.eos = eos;
		s.fake.n_eos = 1;
		s.fake.eos_step = 2;
		CHECK_INT(sched_loop(&s), ERR_NONE);
		sched_close(&s);
		TIMES(s, 0, 0, 10, 30);
		TIMES(s, 1, 0, 10, 50);
		CHECK_INT(s.requests[0].outputs, 3);
		CHECK_INT(s.requests[0].state, REQUEST_FINISHED);
		CHECK_INT(s.stats.output_tokens, 8);
		CHECK_INT(s.gaps, 6);
		sched_free(&s);
	}
}

int main(void)
{
	static const struct test tests[] = {
		{"static_batch_keeps_a_free_place_empty", static_batch_keeps_a_free_place_empty},
		{"continuous_batch_fills_it", continuous_batch_fills_it},
		{"held_rows_go_on_costing", held_rows_go_on_costing},
		{"newcomer_joins_at_the_end_of_a_step", newcomer_joins_at_the_end_of_a_step},
		{"prompt_is_cut_at_the_budget", prompt_is_cut_at_the_budget},
		{"decodes_leave_the_rest_of_the_budget_to_a_chunk", decodes_leave_the_rest_of_the_budget_to_a_chunk},
		{"preempted_request_returns_and_keeps_its_tokens", preempted_request_returns_and_keeps_its_tokens},
		{"exactly_full_block_needs_no_other", exactly_full_block_needs_no_other},
		{"one_token_too_long", one_token_too_long},
		{"zero_and_one_output", zero_and_one_output},
		{"ties_go_by_file_order", ties_go_by_file_order},
		{"idle_gap_is_jumped_over", idle_gap_is_jumped_over},
		{"padding_is_computed_and_attended_to", padding_is_computed_and_attended_to},
		{"batch_waits_for_its_timeout", batch_waits_for_its_timeout},
		{"planning_ahead_sees_arrivals_a_step_later", planning_ahead_sees_arrivals_a_step_later},
		{"an_end_nobody_knew_of_costs_a_step", an_end_nobody_knew_of_costs_a_step},
		{"without_kv_cache_all_is_computed_again", without_kv_cache_all_is_computed_again},
		{"reservation_decides_how_many_run", reservation_decides_how_many_run},
		{"wasted_memory_is_accounted_for", wasted_memory_is_accounted_for},
		{"holes_too_small_for_the_next_one", holes_too_small_for_the_next_one},
		{"end_of_sequence_ends_a_request_early", end_of_sequence_ends_a_request_early},
		{"client_limit_counts_as_latency", client_limit_counts_as_latency},
		{"child_arrives_after_its_parent_and_a_delay", child_arrives_after_its_parent_and_a_delay},
	};
	return SUITE_RUN("policies_hand", tests);
}
