/* The two prefix caches under a policy: what each finds, when, and that they find the same while nothing is evicted. */
#include "core/rng.h"
#include "tests/support/sched.h"
#include "tests/support/suite.h"

static void begin(struct sched *s, enum prefix_cache cache)
{
	sched_init(s, "vllm_v1", "");
	s->cfg.prefix_cache = cache;
	s->cfg.check = true;
}

static const struct {
	enum prefix_cache cache;
	enum hit_visible visible;
} kinds[] = {{PREFIX_HASH, HIT_VISIBLE_ALLOC}, {PREFIX_HASH, HIT_VISIBLE_COMMIT}, {PREFIX_RADIX, HIT_VISIBLE_COMMIT}};

/* vllm PR 11186: the last token of a prompt is computed even when all of it is there: a hit of one page of two. */
static void fully_cached_prompt_computes_its_last_token(void)
{
	for (int kind = 0; kind < 3; kind++) {
		struct sched s;
		begin(&s, kinds[kind].cache);
		s.cfg.hit_visible = kinds[kind].visible;
		for (int i = 0; i < 3; i++) {
			sched_add(&s, 100 * i, i == 2 ? 9 : 8, 1);
			sched_share(&s, 7, 8);
		}
		CHECK_INT(sched_run(&s), ERR_NONE);
		CHECK_INT(s.requests[1].cached_tokens, 4);
		CHECK_INT(s.requests[2].cached_tokens, 8);
		CHECK_INT(s.stats.prompt_tokens_computed, 8 + 4 + 1);
		CHECK_INT(s.stats.duplicate_blocks, 1); /* the page that was computed again */
		CHECK_INT(s.stats.prefix_lookups, 3);
		CHECK_INT(s.stats.prefix_hits, 2);
		CHECK_INT(s.stats.prefix_lookups_blocks, 2 + 2 + 3);
		sched_free(&s);
	}
}

/* vllm PR 29387: of two equal prompts in one step the later one finds the earlier one's pages if they are visible from their
 * allocation on, and not if they have to be computed first: then they are computed twice. All tokens come in any case. */
static void pages_are_found_once_visible(void)
{
	for (int kind = 0; kind < 3; kind++) {
		bool at_once = kinds[kind].visible == HIT_VISIBLE_ALLOC;
		struct sched s;
		begin(&s, kinds[kind].cache);
		s.cfg.hit_visible = kinds[kind].visible;
		for (int i = 0; i < 3; i++) {
			sched_add(&s, i == 2 ? 50 : 0, 9, 2);
			sched_share(&s, 7, 9);
		}
		CHECK_INT(sched_run(&s), ERR_NONE);
		CHECK_INT(s.requests[1].first_sched_ns, s.requests[0].first_sched_ns);
		CHECK_INT(s.requests[1].cached_tokens, at_once ? 8 : 0);
		CHECK_INT(s.requests[2].cached_tokens, 8);
		CHECK_INT(s.stats.duplicate_blocks, at_once ? 0 : 2);
		CHECK_INT(s.stats.output_tokens, 6);
		sched_free(&s);
	}
}

/* vllm 25780, 43736: B gives way and comes back; what it finds again is no hit of the workload. */
static void hits_are_counted_on_first_admission_only(void)
{
	for (int kind = 0; kind < 3; kind++) {
		struct sched s;
		begin(&s, kinds[kind].cache);
		s.cfg.hit_visible = kinds[kind].visible;
		s.cfg.num_blocks = 5;
		sched_add(&s, 0, 8, 8);
		sched_add(&s, 0, 8, 8);
		CHECK_INT(sched_run(&s), ERR_NONE);
		CHECK_INT(s.requests[1].preemptions, 1);
		CHECK_INT(s.requests[1].cached_tokens, 0);
		CHECK_INT(s.stats.prefix_hit_tokens, 0);
		CHECK_INT(s.stats.prefix_hits, 0);
		CHECK_INT(s.stats.prefix_lookups, 2);
		CHECK_INT(s.stats.prefix_lookups_tokens, 16);
		sched_free(&s);
	}
}

/* One prompt four times: of tenants a, b and a, and of nobody; in sessions 1, 1, 2 and none. */
static void salts_keep_apart(void)
{
	static const enum cache_salt salts[] = {CACHE_SALT_NONE, CACHE_SALT_TENANT, CACHE_SALT_SESSION};
	static const int32_t tenants[] = {1, 2, 1, 0}, sessions[] = {1, 1, 2, -1};
	static const int32_t found[][4] = {{0, 8, 8, 8}, {0, 0, 8, 0}, {0, 8, 0, 0}};
	for (int k = 0; k < 6; k++) {
		struct sched s;
		begin(&s, k % 2 ? PREFIX_HASH : PREFIX_RADIX);
		s.cfg.cache_salt = salts[k / 2];
		for (int i = 0; i < 4; i++) {
			sched_add(&s, 100 * i, 9, 1);
			sched_share(&s, 7, 9);
			s.w.specs[i].tenant = tenants[i];
			s.w.specs[i].session = sessions[i];
		}
		CHECK_INT(sched_run(&s), ERR_NONE);
		for (int i = 0; i < 4; i++)
			CHECK_INT(s.requests[i].cached_tokens, found[k / 2][i]);
		sched_free(&s);
	}
}

/* A second turn's prompt is the first one's with its answer (9 tokens of id 5, the last of which no step has computed: 8 + 8 of
 * 17 tokens) and a question. Kept: four pages; not kept: two. Both caches. */
static void generated_tokens_are_kept_or_not(void)
{
	for (int cache = PREFIX_HASH; cache <= PREFIX_RADIX; cache++) {
		for (int prompts_only = 0; prompts_only < 2; prompts_only++) {
			struct sched s;
			begin(&s, (enum prefix_cache)cache);
			s.cfg.cache_prompts_only = prompts_only;
			sched_add(&s, 0, 8, 9);
			sched_share(&s, 7, 8);
			s.w.specs[0].output_id = 5;
			sched_add(&s, 500, 20, 1);
			sched_share(&s, 7, 8);
			sched_share(&s, 5, 9);
			CHECK_INT(sched_run(&s), ERR_NONE);
			CHECK_INT(s.requests[1].cached_tokens, prompts_only ? 8 : 16);
			sched_free(&s);
		}
	}
}

/* Nobody can be served from pages that memory has no room for: the least recently used answer goes, and is computed again. */
static void least_recently_used_branch_goes(void)
{
	struct sched s;
	begin(&s, PREFIX_RADIX);
	s.cfg.num_blocks = 6;
	const uint64_t tails[] = {1, 2, 1, 3, 1, 2};
	for (int i = 0; i < 6; i++) {
		sched_add(&s, 100 * i, 17, 1);
		sched_share(&s, 9, 8);
		sched_share(&s, tails[i], 8);
	}
	CHECK_INT(sched_run(&s), ERR_NONE);
	/* Two shared pages and two of each tail: one tail and a half fit beside the page of the 17th token. */
	CHECK_INT(s.requests[1].cached_tokens, 8);
	CHECK_INT(s.requests[3].cached_tokens, 8);
	CHECK_INT(s.requests[5].cached_tokens, 8);
	CU_ASSERT(s.stats.evicted_blocks > 0);
	sched_free(&s);
}

static void draw(struct sched *s, struct rng *r)
{
	int32_t n = 4 + (int32_t)rng_below(r, 40);
	int64_t at = 0;
	for (int32_t i = 0; i < n; i++) {
		int32_t pieces = (int32_t)rng_below(r, 4), len[3], all = 0;
		uint64_t id[3];
		for (int32_t k = 0; k < pieces; k++) {
			/* What comes after an id depends on it: a tree of prompts. */
			id[k] = 100 * (uint64_t)k + 1 + rng_below(r, 3);
			len[k] = 3 + (int32_t)(id[k] % 3) * 4;
			all += len[k];
		}
		int32_t prompt = all + (int32_t)rng_below(r, 9) + !all;
		at += (int64_t)rng_below(r, 40);
		sched_add(s, at, prompt, (int32_t)rng_below(r, 12));
		for (int32_t k = 0; k < pieces; k++)
			sched_share(s, id[k], len[k]);
	}
}

/* Pages are found once computed, memory is plenty: block by block or as a tree, every request finds the same and every token
 * comes at the same time. */
static void caches_agree_while_nothing_is_evicted(void)
{
	int64_t hits = 0;
	for (uint64_t seed = 1; seed <= 300; seed++) {
		struct sched s[2];
		for (int k = 0; k < 2; k++) {
			struct rng r;
			rng_init(&r, seed, 77);
			begin(&s[k], k ? PREFIX_RADIX : PREFIX_HASH);
			s[k].cfg.hit_visible = HIT_VISIBLE_COMMIT;
			s[k].cfg.num_blocks = 4096;
			s[k].cfg.max_num_batched_tokens = 8 + (int32_t)rng_below(&r, 60);
			s[k].cfg.async_scheduling = rng_below(&r, 3) == 0;
			draw(&s[k], &r);
			CHECK_INT(sched_run(&s[k]), ERR_NONE);
			CHECK_INT(s[k].stats.evicted_blocks, 0);
		}
		CHECK_INT(s[0].stats.steps, s[1].stats.steps);
		for (int64_t i = 0; i < s[0].w.n; i++) {
			const struct request *a = &s[0].requests[i], *b = &s[1].requests[i];
			CHECK_INT(a->cached_tokens, b->cached_tokens);
			CHECK_INT(a->first_token_ns, b->first_token_ns);
			CHECK_INT(a->last_token_ns, b->last_token_ns);
			hits += a->cached_tokens;
		}
		sched_free(&s[0]);
		sched_free(&s[1]);
	}
	CU_ASSERT(hits > 1000);
}

/* Steps taken several at once are given their blocks one by one, a tree or not. A's 4 + 40 - 1 tokens are 11 pages of 4; 8
 * of 12 are taken when B comes, whose 8 do not fit beside them: it waits until A has ended. */
static void steps_taken_at_once_have_their_blocks(void)
{
	for (int cache = PREFIX_OFF; cache <= PREFIX_RADIX; cache++) {
		struct sched s;
		begin(&s, (enum prefix_cache)cache);
		s.log = s.cfg.check = false; /* either would take every step alone */
		s.untold = true;
		s.cfg.num_blocks = 12;
		sched_add(&s, 0, 4, 40);
		sched_add(&s, 250, 29, 2);
		CHECK_INT(sched_run(&s), ERR_NONE);
		CHECK_INT(s.stats.max_blocks_used, 11);
		TIMES(s, 0, 0, 10, 400);
		TIMES(s, 1, 400, 410, 420);
		sched_free(&s);
	}
}

/* Request 5 is turned away; pages it had found are given to others, then computed anew by one that runs (3), which makes them
 * free for it. A head that is only looked at again when the page it lacked comes would wait until 1013. */
static void a_page_that_was_lost_and_comes_again_lets_the_head_in(void)
{
	struct sched s;
	sched_init(&s, "vllm_v1", "long_prefill_token_threshold=12");
	s.cfg.block_size = 2;
	s.cfg.num_blocks = 42;
	s.cfg.max_num_seqs = 2;
	s.cfg.max_num_batched_tokens = 3;
	s.cfg.prefix_caching = true;
	s.cfg.prefix_cache = PREFIX_HASH;
	s.cfg.hit_visible = HIT_VISIBLE_COMMIT;
	s.cfg.queue_order = QUEUE_PRIORITY;
	s.cfg.async_scheduling = true;
	s.cfg.max_concurrency = 2;
	s.a = 5;
	s.b = 1;
	s.c = 2;
	sched_add(&s, 117, 1, 0);
	sched_add(&s, 0, 6, 47);
	s.w.specs[1].max_tokens = 48;
	sched_add(&s, 213, 55, 12);
	sched_add(&s, 29, 63, 0);
	sched_share(&s, 3, 58);
	sched_add(&s, 0, 63, 0);
	sched_add(&s, 585, 21, 0);
	s.w.specs[5].priority = 1;
	sched_share(&s, 3, 17);
	sched_after(&s, 0, 1);
	sched_after(&s, 0, 3);
	sched_after(&s, 2, 3);
	sched_after(&s, 2, 4);
	CHECK_INT(sched_run(&s), ERR_NONE);
	int64_t admitted_ns = -1;
	for (int64_t i = 0; i < s.n_events; i++)
		if (s.events[i].kind == EVENT_ADMIT && s.events[i].req == 5)
			admitted_ns = s.events[i].at_ns;
	CHECK_INT(admitted_ns, 1005);
	sched_free(&s);
}

int main(void)
{
	static const struct test tests[] = {
		{"a_page_that_was_lost_and_comes_again_lets_the_head_in",
		 a_page_that_was_lost_and_comes_again_lets_the_head_in},
		{"fully_cached_prompt_computes_its_last_token", fully_cached_prompt_computes_its_last_token},
		{"pages_are_found_once_visible", pages_are_found_once_visible},
		{"hits_are_counted_on_first_admission_only", hits_are_counted_on_first_admission_only},
		{"salts_keep_apart", salts_keep_apart},
		{"generated_tokens_are_kept_or_not", generated_tokens_are_kept_or_not},
		{"least_recently_used_branch_goes", least_recently_used_branch_goes},
		{"steps_taken_at_once_have_their_blocks", steps_taken_at_once_have_their_blocks},
		{"caches_agree_while_nothing_is_evicted", caches_agree_while_nothing_is_evicted},
	};
	return SUITE_RUN("policies_prefix", tests);
}
