/* Prefixes that the device has no room for, kept behind it; solved by hand. A step takes 10 ns, a block holds 4 tokens and is
 * 8 bytes; a byte takes 1 ns over every link. 3 blocks on the device; prompts of 9 tokens take all of them, and 2 are full and
 * known afterwards. P is one prompt, Q another, R a third. One output each. */
#include <string.h>

#include "tests/support/sched.h"
#include "tests/support/suite.h"

#define HAS(text, part) CU_ASSERT(strstr(text, part) != NULL)

enum { P = 1, Q, R };

static int32_t ask(struct sched *s, int64_t at, uint64_t what)
{
	int32_t i = sched_add(s, at, 9, 1);
	sched_share(s, what, 9);
	return i;
}

static void offload_init(struct sched *s, enum prefix_cache cache, int32_t host, int32_t disk, enum kv_transfer how)
{
	sched_init(s, "vllm_v1", "");
	s->cfg.num_blocks = 3;
	s->cfg.prefix_cache = cache;
	s->cfg.offload_host_blocks = host;
	s->cfg.offload_disk_blocks = disk;
	s->cfg.kv_transfer = how;
	s->links.page_bytes = 8;
	for (int i = 0; i < N_LINKS; i++)
		s->links.of[i].bytes_per_s = 1000000000;
	ask(s, 0, P);
	ask(s, 100, Q);
}

/* Q takes P's blocks: two contents go to the host, 16 ns, and its step waits: 100-126. P again: its two pages are there, but
 * Q's two have to leave first, 16 ns, then P's come back, 16 ns, and the step begins: 200-242, one token computed. */
static void evicted_prefix_comes_back(void)
{
	for (int tree = 0; tree < 2; tree++) {
		struct sched s;
		offload_init(&s, tree ? PREFIX_RADIX : PREFIX_HASH, 8, 0, KV_TRANSFER_SYNC);
		ask(&s, 200, P);
		CHECK_INT(sched_run(&s), ERR_NONE);
		TIMES(s, 0, 0, 10, 10);
		TIMES(s, 1, 100, 126, 126);
		TIMES(s, 2, 200, 242, 242);
		CHECK_INT(s.requests[2].cached_tokens, 8);
		CHECK_INT(s.steps[2].prefill_tokens, 1);
		CHECK_INT(s.stats.host_hit_blocks, 2);
		CHECK_INT(s.stats.cold_hit_tokens, 8);
		CHECK_INT(s.stats.prefix_hit_tokens, 8);
		CHECK_INT(sched_event(&s, EVENT_LOAD, 2, 0).a, 2);
		CHECK_INT(s.requests[2].transfer_ns, s.steps[2].transfer_ns);
		CHECK_INT(request_queue_ns(&s.requests[2]) + request_prefill_ns(&s.requests[2]) +
				  s.requests[2].transfer_ns,
			  request_e2e_ns(&s.requests[2]));
		CHECK_INT(s.stats.cold_dropped_blocks + s.stats.unsaved_blocks, 0);
		sched_free(&s);
	}
}

/* Without offloading P is computed again. */
static void without_it_all_is_computed_again(void)
{
	struct sched s;
	offload_init(&s, PREFIX_HASH, 0, 0, KV_TRANSFER_SYNC);
	ask(&s, 200, P);
	CHECK_INT(sched_run(&s), ERR_NONE);
	CHECK_INT(s.requests[2].cached_tokens, 0);
	CHECK_INT(s.steps[2].prefill_tokens, 9);
	TIMES(s, 2, 200, 210, 210);
	sched_free(&s);
}

/* Beside the steps: Q begins in blocks that are still being saved, so its step waits all the same. P takes two blocks, of
 * which one held a content of Q: that leaves 200-208, then P's pages come, 208-224. Only then it takes its third block, whose
 * content leaves 224-232: 224-242 its last token. */
static void a_request_waits_alone_for_its_prefix(void)
{
	struct sched s;
	offload_init(&s, PREFIX_HASH, 8, 0, KV_TRANSFER_OVERLAP);
	ask(&s, 200, P);
	CHECK_INT(sched_run(&s), ERR_NONE);
	TIMES(s, 1, 100, 126, 126);
	TIMES(s, 2, 200, 242, 242);
	CHECK_INT(sched_event(&s, EVENT_LOAD, 2, 0).a, 2);
	CHECK_INT(sched_event(&s, EVENT_LOADED, 2, 0).at_ns, 224);
	CHECK_INT(s.requests[2].transfer_ns, 24);
	CHECK_INT(s.requests[2].transfer_in_prefill_ns, 24);
	CHECK_INT(request_prefill_ns(&s.requests[2]), 18);
	CHECK_INT(s.requests[1].transfer_ns, 0);
	CHECK_INT(s.stats.transfer_ns, 24); /* Q 16, P 8 */
	sched_free(&s);
}

/* Where there is room for both, another prompt goes on while P waits. 6 blocks: P takes 3, Q the other 3, X (16 tokens, 4
 * blocks) takes P's and one of Q's. P comes at 300 with Y: P's pages come from the host until 316 at least; Y's one block is
 * free, and its step is over before. */
static void others_go_on_meanwhile(void)
{
	struct sched s;
	offload_init(&s, PREFIX_HASH, 8, 0, KV_TRANSFER_OVERLAP);
	s.cfg.num_blocks = 6;
	sched_add(&s, 200, 20, 1);
	ask(&s, 300, P);
	sched_add(&s, 300, 4, 1);
	CHECK_INT(sched_run(&s), ERR_NONE);
	struct event there = sched_event(&s, EVENT_LOADED, 3, 0);
	CHECK_INT(sched_event(&s, EVENT_LOAD, 3, 0).a, 2);
	CHECK_INT(s.requests[3].first_sched_ns, 300);
	CU_ASSERT(there.at_ns >= 316);
	CU_ASSERT(s.requests[4].first_token_ns <= there.at_ns);
	CHECK_INT(s.requests[3].transfer_ns, there.at_ns - 300);
	sched_free(&s);
}

/* The host holds two blocks: for Q's, evicted by R, P's go on to the disk, from where P gets them back, through the host.
 * What it needs is not given up for R's, which are evicted then. */
static void host_memory_overflows_to_disk(void)
{
	struct sched s;
	offload_init(&s, PREFIX_HASH, 2, 8, KV_TRANSFER_SYNC);
	ask(&s, 200, R);
	ask(&s, 300, P);
	CHECK_INT(sched_run(&s), ERR_NONE);
	CHECK_INT(s.requests[3].cached_tokens, 8);
	CHECK_INT(s.stats.saved_blocks, 6); /* P, Q, R */
	CHECK_INT(s.stats.disk_hit_blocks, 2);
	CHECK_INT(s.stats.host_hit_blocks, 0);
	CHECK_INT(s.stats.demoted_blocks, 6); /* P for Q, Q for R, R for P on its way */
	CHECK_INT(s.stats.cold_dropped_blocks + s.stats.unsaved_blocks, 0);
	CHECK_INT(sched_event(&s, EVENT_LOAD, 3, 0).b, 2);
	sched_free(&s);
}

/* P, Q and R, with four blocks in host memory and a disk behind it. */
static void disk_init(struct sched *s, bool ahead)
{
	offload_init(s, PREFIX_HASH, 4, 8, KV_TRANSFER_SYNC);
	s->cfg.kv_prefetch = ahead;
	ask(s, 200, R);
}

/* Host memory holds four blocks: P's and Q's, until X takes R's at 290 and P's go to disk, 290-306, for R's, 306-322. X's steps
 * begin at 322, 332 and 342. P is asked for again at 295, heard of at 332, and waits for X's blocks until 352, of which two are
 * full.
 *   read ahead  Q's pages leave for disk, 332-348, and P's take their place, 348-364. R's leave, 352-368, for X's, 368-384; then P's
 *               come up, 384-400, and its token, 400-410.
 *   else        Q's leave, 352-368, for X's, 368-384, and R's, 368-384, for P's, 384-400, which come up 400-416: 416-426. */
static void what_waits_is_read_ahead(void)
{
	for (int ahead = 0; ahead < 2; ahead++) {
		struct sched s;
		disk_init(&s, ahead);
		sched_add(&s, 290, 9, 4);
		ask(&s, 295, P);
		CHECK_INT(sched_run(&s), ERR_NONE);
		TIMES(s, 3, 290, 332, 352);
		CHECK_INT(s.requests[4].cached_tokens, 8);
		CHECK_INT(s.stats.cold_dropped_blocks, 0);
		CHECK_INT(s.stats.prefetched_blocks, ahead ? 2 : 0);
		CHECK_INT(s.stats.host_hit_blocks, ahead ? 2 : 0);
		CHECK_INT(s.stats.disk_hit_blocks, ahead ? 0 : 2);
		CHECK_INT(sched_count(&s, EVENT_PREFETCH, 4), ahead);
		CHECK_INT(sched_event(&s, EVENT_LOAD, 4, 0).a, ahead ? 2 : 0);
		TIMES(s, 4, 352, ahead ? 410 : 426, ahead ? 410 : 426);
		sched_free(&s);
	}
}

/* Admitted as it arrives, it finds in host memory what is still on its way there: the copy to the device comes after. */
static void reading_ahead_is_never_too_early(void)
{
	int64_t first[2];
	for (int ahead = 0; ahead < 2; ahead++) {
		struct sched s;
		disk_init(&s, ahead);
		sched_add(&s, 300, 9, 1);
		ask(&s, 400, P);
		CHECK_INT(sched_run(&s), ERR_NONE);
		CHECK_INT(s.requests[4].cached_tokens, 8);
		CHECK_INT(s.stats.prefetched_blocks, ahead ? 2 : 0);
		CHECK_INT(s.requests[4].first_sched_ns, 400);
		first[ahead] = s.requests[4].first_token_ns;
		sched_free(&s);
	}
	CU_ASSERT(first[1] >= 400 + 16 + 16 + 10); /* from disk, to the device, one step */
	CU_ASSERT(first[1] <= first[0]);
}

/* Neither has room for much: what is lost is counted, and computed again. */
static void the_last_tier_drops(void)
{
	struct sched s;
	offload_init(&s, PREFIX_HASH, 1, 0, KV_TRANSFER_SYNC);
	ask(&s, 200, R);
	ask(&s, 300, P);
	CHECK_INT(sched_run(&s), ERR_NONE);
	CHECK_INT(s.stats.saved_blocks, 3);
	CHECK_INT(s.stats.unsaved_blocks, 3); /* one place for two pages each time */
	CHECK_INT(s.stats.cold_dropped_blocks, 2);
	CHECK_INT(s.requests[3].cached_tokens, 0);
	for (int i = 0; i < 4; i++)
		CHECK_INT(s.requests[i].state, REQUEST_FINISHED);
	sched_free(&s);
}

static void what_does_not_go_together_is_said(void)
{
	struct sched s;
	offload_init(&s, PREFIX_OFF, 4, 0, KV_TRANSFER_SYNC);
	CHECK_INT(sched_run(&s), ERR_INPUT);
	HAS(s.err.text, "--prefix-cache");
	sched_free(&s);
	offload_init(&s, PREFIX_HASH, 0, 4, KV_TRANSFER_SYNC);
	CHECK_INT(sched_run(&s), ERR_INPUT);
	HAS(s.err.text, "--kv-offload-host");
	sched_free(&s);
	offload_init(&s, PREFIX_HASH, 4, 0, KV_TRANSFER_SYNC);
	s.cfg.kv_prefetch = true;
	CHECK_INT(sched_run(&s), ERR_INPUT);
	HAS(s.err.text, "--kv-offload-disk");
	sched_free(&s);
	offload_init(&s, PREFIX_HASH, 4, 0, KV_TRANSFER_OVERLAP);
	s.policy = "vllm_v0";
	CHECK_INT(sched_run(&s), ERR_INPUT);
	HAS(s.err.text, "--kv-transfer sync");
	sched_free(&s);
}

int main(void)
{
	static const struct test tests[] = {
		{"evicted_prefix_comes_back", evicted_prefix_comes_back},
		{"without_it_all_is_computed_again", without_it_all_is_computed_again},
		{"a_request_waits_alone_for_its_prefix", a_request_waits_alone_for_its_prefix},
		{"others_go_on_meanwhile", others_go_on_meanwhile},
		{"host_memory_overflows_to_disk", host_memory_overflows_to_disk},
		{"what_waits_is_read_ahead", what_waits_is_read_ahead},
		{"reading_ahead_is_never_too_early", reading_ahead_is_never_too_early},
		{"the_last_tier_drops", the_last_tier_drops},
		{"what_does_not_go_together_is_said", what_does_not_go_together_is_said},
	};
	return SUITE_RUN("policies_offload", tests);
}
