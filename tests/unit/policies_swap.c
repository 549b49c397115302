/* Swapping, solved by hand. A step takes 10 ns, a block holds 4 tokens and is 8 bytes; a byte takes 1 ns over the link
 * unless said otherwise. Two requests of 4 prompt tokens and 8 outputs in 5 blocks: each needs 3 in the end. */
#include <string.h>

#include "tests/support/sched.h"
#include "tests/support/suite.h"

#define HAS(text, part) CU_ASSERT(strstr(text, part) != NULL)

static void swap_init(struct sched *s, const char *params, int32_t swap_blocks, enum kv_transfer how)
{
	sched_init(s, "vllm_v0", params);
	s->cfg.num_blocks = 5;
	s->cfg.swap_blocks = swap_blocks;
	s->cfg.kv_transfer = how;
	s->links.page_bytes = 8;
	for (int i = 0; i < N_LINKS; i++)
		s->links.of[i].bytes_per_s = 1000000000;
	sched_add(s, 0, 4, 8);
	sched_add(s, 0, 4, 8);
}

static void check_sum(const struct request *r)
{
	CHECK_INT(request_queue_ns(r) + request_prefill_ns(r) + request_decode_ns(r) + r->preempted_ns + r->transfer_ns,
		  request_e2e_ns(r));
}

/*   0-10 both prompts: A1 B1, a block each
 *  10-20 A2 B2 in a second block each (4 of 5 are taken); 20-50 A3 .. A5, B3 .. B5: 8 tokens computed, both blocks full
 *  50: A takes the fifth block; B finds none and gives way: 2 blocks of 8 tokens to the host, 16 ns. The step waits for
 *      them: 50-76 A6
 *  76-86 A7, 86-96 A8: A ends. B needs its 2 blocks and one more: not while A holds 3 of 5
 *  96: B comes back, 16 ns: 96-122 B6; 122-142 B7, B8 */
static void steps_wait_for_what_goes_and_comes(void)
{
	struct sched s;
	swap_init(&s, "watermark=0,preemption_mode=swap", 2, KV_TRANSFER_SYNC);
	CHECK_INT(sched_run(&s), ERR_NONE);
	TIMES(s, 0, 0, 10, 96);
	TIMES(s, 1, 0, 10, 142);
	CHECK_INT(s.requests[1].swaps, 1);
	CHECK_INT(s.requests[1].preemptions, 1);
	CHECK_INT(s.requests[1].recomputed_tokens, 0);
	CHECK_INT(s.requests[1].preempted_ns, 46);
	CHECK_INT(s.requests[1].transfer_ns, 16);
	CHECK_INT(s.requests[0].transfer_ns, 0);
	check_sum(&s.requests[1]);
	CHECK_INT(s.stats.swaps, 1);
	CHECK_INT(s.stats.swap_out_blocks, 2);
	CHECK_INT(s.stats.swap_in_blocks, 2);
	CHECK_INT(s.stats.transfer_ns, 32);
	CHECK_INT(s.stats.max_swap_used, 2);
	CHECK_INT(s.steps[5].transfer_ns, 16);
	CHECK_INT(s.steps[8].transfer_ns, 16);
	struct event out = sched_event(&s, EVENT_SWAP_OUT, 1, 0), in = sched_event(&s, EVENT_SWAP_IN, 1, 0);
	CHECK_INT(out.at_ns, 50);
	CHECK_INT(out.a, 2);
	CHECK_INT(out.b, 8);
	CHECK_INT(in.at_ns, 96);
	CHECK_INT(in.b, 1);
	sched_free(&s);
}

/* The same, but nobody waits who need not: A's fifth block was free, so 50-60 A6 while B's blocks leave until 66. 60-80 A7,
 * A8. 80: B's blocks begin to come back, until 96; nothing else runs. 96-126 B6 .. B8. */
static void steps_go_on_beside_the_copies(void)
{
	struct sched s;
	swap_init(&s, "watermark=0,preemption_mode=swap", 2, KV_TRANSFER_OVERLAP);
	CHECK_INT(sched_run(&s), ERR_NONE);
	TIMES(s, 0, 0, 10, 80);
	TIMES(s, 1, 0, 10, 126);
	CHECK_INT(s.requests[1].preempted_ns, 30);
	CHECK_INT(s.requests[1].transfer_ns, 16);
	check_sum(&s.requests[1]);
	CHECK_INT(s.stats.transfer_ns, 0);
	CHECK_INT(sched_event(&s, EVENT_SWAP_IN, 1, 0).b, 0);
	CHECK_INT(sched_event(&s, EVENT_LOADED, 1, 0).at_ns, 96);
	sched_free(&s);
}

/* A copy of 2 pages takes 100 + 16 ns. B leaves at 50, until 166, and may come back from 80 on: its copy back begins only
 * at 166, and ends at 282. */
static void what_comes_back_has_to_be_there_first(void)
{
	struct sched s;
	swap_init(&s, "watermark=0,preemption_mode=swap", 2, KV_TRANSFER_OVERLAP);
	for (int i = 0; i < N_LINKS; i++)
		s.links.of[i].latency_ns = 100;
	CHECK_INT(sched_run(&s), ERR_NONE);
	TIMES(s, 0, 0, 10, 80);
	CHECK_INT(sched_event(&s, EVENT_SWAP_IN, 1, 0).at_ns, 80);
	CHECK_INT(sched_event(&s, EVENT_LOADED, 1, 0).at_ns, 282);
	TIMES(s, 1, 0, 10, 312);
	CHECK_INT(s.requests[1].transfer_ns, 202);
	check_sum(&s.requests[1]);
	sched_free(&s);
}

/* Host memory has one block, two are needed: B is computed again instead, and that is counted. As without swapping:
 * 50-80 A6 .. A8; 80-90 B's 9 tokens again: B6; 90-110 B7, B8. */
static void too_little_host_memory_is_not_fatal(void)
{
	struct sched s, plain;
	swap_init(&s, "watermark=0,preemption_mode=swap", 1, KV_TRANSFER_SYNC);
	swap_init(&plain, "watermark=0", 0, KV_TRANSFER_SYNC);
	CHECK_INT(sched_run(&s), ERR_NONE);
	CHECK_INT(sched_run(&plain), ERR_NONE);
	TIMES(s, 0, 0, 10, 80);
	TIMES(s, 1, 0, 10, 110);
	CHECK_INT(s.stats.swap_refused, 1);
	CHECK_INT(s.stats.swaps, 0);
	CHECK_INT(s.requests[1].recomputed_tokens, 8);
	CHECK_INT(plain.requests[1].last_token_ns, 110);
	CHECK_INT(plain.stats.swap_refused, 0);
	sched_free(&s);
	sched_free(&plain);
}

/* While B is swapped out, no prompt is let in, though C would fit: C, which arrives at 55, waits until B is back. */
static void no_prompt_while_somebody_is_swapped_out(void)
{
	struct sched s;
	swap_init(&s, "watermark=0,preemption_mode=swap", 8, KV_TRANSFER_SYNC);
	sched_add(&s, 55, 4, 1);
	CHECK_INT(sched_run(&s), ERR_NONE);
	CHECK_INT(sched_event(&s, EVENT_SWAP_IN, 1, 0).at_ns, 96);
	CHECK_INT(s.requests[2].first_sched_ns, 122);
	sched_free(&s);
}

/* B is aborted while its blocks leave, or while they come back: everything is given back all the same. */
static void aborted_on_the_way(void)
{
	for (int64_t at = 55; at <= 85; at += 30) {
		struct sched s;
		const struct batch *batch;
		struct step_result res;
		swap_init(&s, "watermark=0,preemption_mode=swap", 2, KV_TRANSFER_OVERLAP);
		CHECK_INT(sched_open(&s), ERR_NONE);
		struct backend *b = &s.backend;
		bool aborted = false;
		for (int rc = 0; !rc;) {
			enum engine_next next;
			int64_t until, now_ns = b->ops->now(b->self);
			CHECK_INT(engine_transfers_done(s.engine, b, now_ns, &s.err), ERR_NONE);
			if (now_ns >= at && !aborted) {
				CHECK_INT(engine_abort(s.engine, 1, now_ns, REQUEST_WHY_USER, &s.err), ERR_NONE);
				aborted = true;
			}
			rc = engine_begin(s.engine, now_ns, &next, &batch, &until, &s.err);
			CHECK_INT(rc, ERR_NONE);
			CHECK_INT(engine_start_transfers(s.engine, b, &s.err), ERR_NONE);
			if (next == ENGINE_DONE)
				break;
			if (next == ENGINE_IDLE) {
				rc = b->ops->wait_until(b->self, until < at || aborted ? until : at, &s.err);
				continue;
			}
			b->ops->submit(b->self, batch, &s.err);
			b->ops->wait(b->self, &res, &s.err);
			rc = engine_end(s.engine, &res, &s.err);
			CHECK_INT(rc, ERR_NONE);
		}
		char text[256];
		engine_describe(s.engine, text, sizeof text);
		HAS(text, "0 running, 0 waiting, 5 of 5 blocks free");
		CHECK_INT(s.requests[1].state, REQUEST_ABORTED);
		CHECK_INT(s.requests[0].last_token_ns, 80);
		CHECK_INT(s.requests[1].transfer_ns, at > 80 ? s.requests[1].last_token_ns - 80 : 0);
		sched_close(&s);
		sched_free(&s);
	}
}

static void what_does_not_go_together_is_said(void)
{
	struct sched s;
	swap_init(&s, "preemption_mode=swap", 0, KV_TRANSFER_SYNC);
	CHECK_INT(sched_run(&s), ERR_INPUT);
	HAS(s.err.text, "--swap-space");
	sched_free(&s);
	swap_init(&s, "", 4, KV_TRANSFER_SYNC);
	CHECK_INT(sched_run(&s), ERR_INPUT);
	HAS(s.err.text, "never swaps");
	s.cfg.async_scheduling = true;
	CHECK_INT(sched_run(&s), ERR_INPUT);
	HAS(s.err.text, "--async-scheduling");
	sched_free(&s);
}

int main(void)
{
	static const struct test tests[] = {
		{"steps_wait_for_what_goes_and_comes", steps_wait_for_what_goes_and_comes},
		{"steps_go_on_beside_the_copies", steps_go_on_beside_the_copies},
		{"what_comes_back_has_to_be_there_first", what_comes_back_has_to_be_there_first},
		{"too_little_host_memory_is_not_fatal", too_little_host_memory_is_not_fatal},
		{"no_prompt_while_somebody_is_swapped_out", no_prompt_while_somebody_is_swapped_out},
		{"aborted_on_the_way", aborted_on_the_way},
		{"what_does_not_go_together_is_said", what_does_not_go_together_is_said},
	};
	return SUITE_RUN("policies_swap", tests);
}
