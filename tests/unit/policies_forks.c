/* Forks solved by hand: who shares which blocks, who copies which, and when they start. A step takes 10 ns, a block holds 4 tokens
 * and a step may compute 64 unless a test says otherwise. Everything is checked after every step. */
#include <string.h>

#include "core/content.h"
#include "core/mem.h"
#include "tests/support/sched.h"
#include "tests/support/suite.h"

static void begin(struct sched *s, const char *policy, const char *params)
{
	sched_init(s, policy, params);
	s->cfg.check = true;
	s->log = true;
}

/* A fork of `parent` at so many tokens, live or after its end. Its arrival_ns is a delay. */
static int32_t fork_off(struct sched *s, int32_t parent, int32_t at, bool live, int32_t prompt, int32_t output)
{
	int32_t child = sched_add(s, 0, prompt, output);
	CHECK_INT(workload_fork(&s->w, parent, child, at, live, &s->err), ERR_NONE);
	sched_after(s, parent, child);
	return child;
}

static void expect_block(const struct sched *s, int32_t req, int64_t k, int64_t place, int64_t block)
{
	struct event ev = sched_event(s, EVENT_BLOCK, req, k);
	CHECK_INT(ev.kind, EVENT_BLOCK);
	CHECK_INT(ev.a, place);
	CHECK_INT(ev.b, block);
}

static void expect_copy(const struct sched *s, int32_t req, int64_t step, int64_t from, int64_t to)
{
	struct event ev = sched_event(s, EVENT_COPY, req, 0);
	CHECK_INT(ev.step, step);
	CHECK_INT(ev.a, from);
	CHECK_INT(ev.b, to);
}

/* Prompt 6 in blocks 0 and 1, computed in step 0. In step 1 the first sample goes on in block 1, alone; then the second
 * comes, takes over both blocks and computes the last token again. In step 2 both go on in block 1: the first to do so
 * gets a copy, 2, and the other has block 1 for itself. */
static void samples_share_and_the_first_to_write_copies(void)
{
	struct sched s;
	begin(&s, "vllm_v1", "");
	sched_add(&s, 0, 6, 3);
	fork_off(&s, 0, 6, true, 6, 3);
	CHECK_INT(sched_run(&s), ERR_NONE);
	expect_block(&s, 0, 0, 0, 0);
	expect_block(&s, 0, 1, 1, 1);
	expect_block(&s, 1, 0, 0, 0);
	expect_block(&s, 1, 1, 1, 1);
	expect_block(&s, 0, 2, 1, 2);
	CHECK_INT(sched_count(&s, EVENT_BLOCK, -1), 5);
	CHECK_INT(sched_count(&s, EVENT_COPY, -1), 1);
	expect_copy(&s, 0, 2, 1, 2);
	CHECK_INT(sched_event(&s, EVENT_ADMIT, 1, 0).a, 5);
	CHECK_INT(sched_event(&s, EVENT_ADMIT, 1, 0).step, 1);
	CHECK_INT(sched_event(&s, EVENT_CHUNK, 1, 0).a, 5);
	CHECK_INT(sched_event(&s, EVENT_CHUNK, 1, 0).b, 1);
	TIMES(s, 0, 0, 10, 30);
	TIMES(s, 1, 10, 20, 40);
	CHECK_INT(s.requests[1].arrival_ns, 0); /* it was asked for with the first */
	CHECK_INT(s.requests[1].cached_tokens, 5);
	CHECK_INT(s.stats.forks, 1);
	CHECK_INT(s.stats.forked_tokens, 5);
	CHECK_INT(s.stats.copied_blocks, 1);
	CHECK_INT(s.stats.prompt_tokens_computed, 7);
	/* Of the steps only the second had shared blocks, both. */
	CHECK_INT((int64_t)s.stats.kv_shared_ns, 2 * 4 * 10 + 1 * 4 * 10);
	sched_free(&s);
}

/* The same without a log, where steps without change are not walked: the figures are the same. */
static void lazy_steps_share_alike(void)
{
	for (int quiet = 0; quiet < 2; quiet++) {
		struct sched s;
		begin(&s, "vllm_v1", "");
		s.log = false;
		s.untold = quiet;
		s.cfg.check = !quiet;
		sched_add(&s, 0, 6, 50);
		for (int i = 0; i < 3; i++)
			fork_off(&s, 0, 6, true, 6, 40 + i);
		CHECK_INT(sched_run(&s), ERR_NONE);
		TIMES(s, 0, 0, 10, 500);
		TIMES(s, 1, 10, 20, 410);
		TIMES(s, 2, 10, 20, 420);
		TIMES(s, 3, 10, 20, 430);
		CHECK_INT(s.stats.copied_blocks, 3);
		CHECK_INT(s.stats.forked_tokens, 15);
		sched_free(&s);
	}
}

/* A prompt that fills its blocks: nothing is written to them again, nothing is copied. */
static void full_blocks_are_not_copied(void)
{
	struct sched s;
	begin(&s, "vllm_v1", "");
	sched_add(&s, 0, 8, 3);
	fork_off(&s, 0, 8, true, 8, 3);
	fork_off(&s, 0, 8, true, 8, 3);
	CHECK_INT(sched_run(&s), ERR_NONE);
	CHECK_INT(s.stats.copied_blocks, 0);
	CHECK_INT(s.stats.forked_tokens, 14);
	CHECK_INT(s.stats.max_blocks_used, 5); /* two of the prompt, one of each */
	CHECK_INT(sched_event(&s, EVENT_CHUNK, 2, 0).a, 7);
	sched_free(&s);
}

/* Prompt 6, tokens come out at 10, 20, ...: when 8 tokens are computed (the third step: 6, 7, 8) the branch of 8 starts with
 * a prompt of 11, of which it computes 3, in a block of its own. */
static void branches_start_where_they_fork(void)
{
	for (int walked = 0; walked < 2; walked++) {
		struct sched s;
		begin(&s, "vllm_v1", "");
		s.log = walked;
		sched_add(&s, 0, 6, 9);
		fork_off(&s, 0, 8, true, 11, 2);
		CHECK_INT(sched_run(&s), ERR_NONE);
		CHECK_INT(s.requests[1].arrival_ns, 30);
		TIMES(s, 1, 30, 40, 50);
		CHECK_INT(s.requests[1].cached_tokens, 8);
		CHECK_INT(s.stats.copied_blocks, 0);
		sched_free(&s);
	}
}

/* At 5 tokens the fork has one token of block 1, in which its parent has two and goes on: the fork writes at once, and copies. */
static void forks_within_a_block_copy_at_once(void)
{
	struct sched s;
	begin(&s, "vllm_v1", "");
	sched_add(&s, 0, 6, 4);
	fork_off(&s, 0, 5, true, 7, 2);
	CHECK_INT(sched_run(&s), ERR_NONE);
	expect_copy(&s, 1, 1, 1, 2);
	CHECK_INT(sched_event(&s, EVENT_CHUNK, 1, 0).a, 5);
	CHECK_INT(sched_event(&s, EVENT_CHUNK, 1, 0).b, 2);
	CHECK_INT(s.stats.copied_blocks, 1);
	sched_free(&s);
}

/* The parent has ended: what it held is still there, since nobody was given it. Its 6 + 2 - 1 tokens are in blocks 0 and 1, the
 * last one of 8 is computed. With memory for the other request alone, that one took them, and all is computed. */
static void what_a_parent_left_serves_until_it_is_overwritten(void)
{
	for (int taken = 0; taken < 2; taken++) {
		struct sched s;
		begin(&s, "vllm_v1", "");
		s.cfg.num_blocks = taken ? 4 : 8;
		sched_add(&s, 0, 6, 2);
		int32_t other = sched_add(&s, 25, 15, 1);
		int32_t child = fork_off(&s, 0, 8, false, 8, 1);
		s.w.specs[child].arrival_ns = 100;
		CHECK_INT(sched_run(&s), ERR_NONE);
		CHECK_INT(s.requests[other].state, REQUEST_FINISHED);
		CHECK_INT(s.requests[child].arrival_ns, 120);
		CHECK_INT(s.requests[child].cached_tokens, taken ? 0 : 7);
		CHECK_INT(s.stats.copied_blocks, 0);
		sched_free(&s);
	}
}

/* Eight blocks: another request has 0 to 2, then 5 and 4, the first sample 3, 4, its copy of it 6 and for its 9th token 7. The second
 * sample, with 3 and 4, finds none for its 9th in step 4 and gives way. At 60 the other request has ended: the sample comes back
 * with 3 tokens out, takes over the prompt, 3 and 6, from the first, and copies 6, since it computes the 7th to 9th token. */
static void a_preempted_fork_takes_over_again(void)
{
	struct sched s;
	begin(&s, "vllm_v1", "");
	s.cfg.num_blocks = 8;
	sched_add(&s, 0, 12, 6);
	sched_add(&s, 0, 6, 14);
	fork_off(&s, 1, 6, true, 6, 9);
	CHECK_INT(sched_run(&s), ERR_NONE);
	CHECK_INT(sched_event(&s, EVENT_PREEMPT, 2, 0).step, 4);
	CHECK_INT(sched_event(&s, EVENT_ADMIT, 2, 1).at_ns, 60);
	expect_copy(&s, 2, 6, 6, 4);
	CHECK_INT(sched_event(&s, EVENT_CHUNK, 2, 1).b, 3);
	CHECK_INT(s.requests[2].preemptions, 1);
	CHECK_INT(s.requests[2].outputs, 9);
	CHECK_INT(sched_event(&s, EVENT_ADMIT, 2, 1).a, 6);
	CHECK_INT(s.stats.forks, 2);
	sched_free(&s);
}

/* First come, first served: forks go before who waits, in their order. */
static void forks_come_before_who_waits(void)
{
	struct sched s;
	begin(&s, "vllm_v1", "");
	s.cfg.max_num_seqs = 3;
	sched_add(&s, 0, 4, 3);
	sched_add(&s, 5, 4, 3);
	fork_off(&s, 0, 4, true, 4, 3);
	fork_off(&s, 0, 4, true, 4, 3);
	CHECK_INT(sched_run(&s), ERR_NONE);
	CHECK_INT(s.requests[2].first_sched_ns, 10);
	CHECK_INT(s.requests[3].first_sched_ns, 10);
	CU_ASSERT(s.requests[1].first_sched_ns > 10);
	sched_free(&s);
}

/* One request at the client: its samples take no place, and the next request comes when all of them have ended. */
static void samples_take_one_place_at_the_client(void)
{
	struct sched s;
	begin(&s, "vllm_v1", "");
	s.cfg.max_concurrency = 1;
	sched_add(&s, 0, 4, 2);
	sched_add(&s, 0, 4, 1);
	fork_off(&s, 0, 4, true, 4, 5);
	CHECK_INT(sched_run(&s), ERR_NONE);
	TIMES(s, 2, 10, 20, 60);
	CHECK_INT(s.requests[1].first_sched_ns, 60);
	sched_free(&s);
}

/* A parent that is never served: nor are its forks. */
static void forks_of_a_rejected_parent_never_start(void)
{
	struct sched s;
	begin(&s, "vllm_v1", "");
	s.cfg.num_blocks = 2;
	sched_add(&s, 0, 20, 2);
	fork_off(&s, 0, 20, true, 20, 2);
	CHECK_INT(sched_run(&s), ERR_NONE);
	CHECK_INT(s.requests[1].state, REQUEST_REJECTED);
	CHECK_INT(s.requests[1].why, REQUEST_WHY_PARENT);
	sched_free(&s);
}

/* Contiguous reservations and a tree of full pages share no part of a block; forks start all the same. */
static void not_every_memory_shares(void)
{
	struct sched s;
	begin(&s, "orca", "");
	sched_add(&s, 0, 6, 3);
	fork_off(&s, 0, 6, true, 6, 3);
	CHECK_INT(sched_run(&s), ERR_NONE);
	CHECK_INT(s.stats.forks, 0);
	CHECK_INT(s.requests[1].cached_tokens, 0);
	CHECK_INT(s.requests[1].first_sched_ns, 10);
	sched_free(&s);
	begin(&s, "vllm_v1", "");
	s.cfg.prefix_cache = PREFIX_RADIX;
	sched_add(&s, 0, 6, 3);
	fork_off(&s, 0, 6, true, 6, 3);
	CHECK_INT(sched_run(&s), ERR_NONE);
	CHECK_INT(s.stats.forks + s.stats.copied_blocks, 0);
	CHECK_INT(s.requests[1].cached_tokens, 4);
	sched_free(&s);
}

static void what_does_not_go_with_forks_is_said(void)
{
	for (int i = 0; i < 2; i++) {
		struct sched s;
		begin(&s, i ? "vllm_v0" : "vllm_v1", i ? "preemption_mode=swap" : "");
		if (i)
			s.cfg.swap_blocks = 8;
		else
			s.cfg.kv_retention = RETAIN_WINDOW;
		s.cfg.kv_window = i ? 0 : 8;
		sched_add(&s, 0, 6, 3);
		fork_off(&s, 0, 6, true, 6, 3);
		CHECK_INT(sched_run(&s), ERR_INPUT);
		CU_ASSERT_PTR_NOT_NULL(strstr(s.err.text, i ? "--swap-space" : "--kv-retention"));
		sched_free(&s);
	}
}

/* Pages of a fork are its parent's as far as it goes, in the prompt and in what was generated, and its own from there on. */
static void contents_are_the_parents_as_far_as_the_fork_goes(void)
{
	struct sched s;
	struct content_walk a, b;
	sched_init(&s, "vllm_v1", "");
	sched_add(&s, 0, 7, 9);
	sched_share(&s, 77, 3);
	int32_t child = fork_off(&s, 0, 13, true, 20, 2), sample = fork_off(&s, 0, 7, true, 7, 9);
	content_begin(&a, &s.w, 0, 2);
	content_begin(&b, &s.w, child, 2);
	for (int i = 0; i < 10; i++)
		CU_ASSERT((content_next(&a) == content_next(&b)) == (i < 6));
	content_begin(&a, &s.w, 0, 1);
	content_begin(&b, &s.w, sample, 1);
	for (int i = 0; i < 10; i++)
		CU_ASSERT((content_next(&a) == content_next(&b)) == (i < 7));
	sched_free(&s);
}

/* A request and its fork, each of which may produce 17 tokens, in two blocks of 16: one of them has to give way. Whoever asks for
 * another block has a full one that the cache knows; it must not be the one to go because of that, or each would go in turn for
 * ever. */
static void a_full_page_is_no_reason_to_give_way(void)
{
	struct sched s;
	begin(&s, "sarathi", "");
	s.cfg.block_size = 16;
	s.cfg.num_blocks = 2;
	s.cfg.queue_order = QUEUE_PRIORITY;
	s.cfg.victim = VICTIM_LEAST_WORK_LOST;
	s.cfg.prefix_caching = true;
	s.cfg.async_scheduling = true;
	s.cfg.max_num_seqs = 2;
	s.cfg.max_num_batched_tokens = 5;
	sched_add(&s, 0, 1, 16);
	int32_t fork = fork_off(&s, 0, 1, true, 1, 16);
	s.w.specs[fork].arrival_ns = 90;
	for (int i = 0; i < 2; i++)
		s.w.specs[i].max_tokens = 17;
	CHECK_INT(sched_run(&s), ERR_NONE);
	CHECK_INT(s.stats.finished, 2);
	CU_ASSERT(s.stats.preemptions > 0 && s.stats.preemptions < 10);
	sched_free(&s);
}

static const struct test tests[] = {
	{"samples_share_and_the_first_to_write_copies", samples_share_and_the_first_to_write_copies},
	{"lazy_steps_share_alike", lazy_steps_share_alike},
	{"full_blocks_are_not_copied", full_blocks_are_not_copied},
	{"branches_start_where_they_fork", branches_start_where_they_fork},
	{"forks_within_a_block_copy_at_once", forks_within_a_block_copy_at_once},
	{"what_a_parent_left_serves_until_it_is_overwritten", what_a_parent_left_serves_until_it_is_overwritten},
	{"a_preempted_fork_takes_over_again", a_preempted_fork_takes_over_again},
	{"forks_come_before_who_waits", forks_come_before_who_waits},
	{"samples_take_one_place_at_the_client", samples_take_one_place_at_the_client},
	{"forks_of_a_rejected_parent_never_start", forks_of_a_rejected_parent_never_start},
	{"not_every_memory_shares", not_every_memory_shares},
	{"a_full_page_is_no_reason_to_give_way", a_full_page_is_no_reason_to_give_way},
	{"what_does_not_go_with_forks_is_said", what_does_not_go_with_forks_is_said},
	{"contents_are_the_parents_as_far_as_the_fork_goes", contents_are_the_parents_as_far_as_the_fork_goes},
};

int main(void)
{
	return SUITE_RUN("policies_forks", tests);
}
