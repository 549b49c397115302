/* The paged pool and the contiguous manager by themselves. */
#include <stdlib.h>
#include <string.h>

#include "core/err.h"
#include "core/kv_contig.h"
#include "core/kv_pool.h"
#include "core/kv_radix.h"
#include "core/rng.h"
#include "tests/support/suite.h"

static struct kv_pool pool;

static void make(int32_t blocks, bool caching)
{
	struct err e = {0};
	CU_ASSERT_FATAL(kv_pool_init(&pool, blocks, 16, caching ? PREFIX_HASH : PREFIX_OFF, &e) == ERR_NONE);
}

#define CHECK_IDS(ids, ...)                                                                                            \
	do {                                                                                                           \
		const int32_t want_[] = {__VA_ARGS__};                                                                 \
		for (size_t i_ = 0; i_ < sizeof want_ / sizeof *want_; i_++)                                           \
			CHECK_INT((ids)[i_], want_[i_]);                                                               \
	} while (0)

/* First 0, 1, 2, ...; then what was freed longest ago, of one request its last block first. */
static void blocks_are_reused_least_recently_freed_first(void)
{
	for (int caching = 0; caching < 2; caching++) {
		int32_t a[3], b[2], c[4];
		make(6, caching);
		kv_alloc(&pool, 3, a);
		kv_alloc(&pool, 2, b);
		CHECK_IDS(a, 0, 1, 2);
		CHECK_IDS(b, 3, 4);
		CHECK_INT(pool.n_free, 1);
		kv_release(&pool, b, 2); /* 5 4 3 */
		kv_release(&pool, a, 3); /* 5 4 3 2 1 0 */
		CHECK_INT(pool.n_free, 6);
		kv_alloc(&pool, 4, c);
		CHECK_IDS(c, 5, 4, 3, 2);
		kv_release(&pool, c, 4);
		kv_alloc(&pool, 4, c);
		CHECK_IDS(c, 1, 0, 2, 3);
		kv_pool_free(&pool);
	}
}

static void blocks_for_rounds_up(void)
{
	CHECK_INT(kv_blocks_for(0, 16), 0);
	CHECK_INT(kv_blocks_for(1, 16), 1);
	CHECK_INT(kv_blocks_for(16, 16), 1);
	CHECK_INT(kv_blocks_for(17, 16), 2);
}

static void shared_block_is_freed_by_its_last_holder(void)
{
	int32_t a[2], next[3];
	make(4, true);
	kv_alloc(&pool, 2, a); /* 0 1 */
	kv_remember(&pool, a[0], 77);
	kv_share(&pool, a[0]);
	CHECK_INT(pool.ref[0], 2);
	CHECK_INT(pool.extra_refs, 1);
	kv_release(&pool, a, 2);
	CHECK_INT(pool.ref[0], 1);
	CHECK_INT(pool.extra_refs, 0);
	CHECK_INT(pool.n_free, 3);
	kv_release(&pool, a, 1);
	CHECK_INT(pool.n_free, 4);
	CHECK_INT(pool.n_cached, 1);
	kv_alloc(&pool, 3, next); /* 2 3 1: block 0 was freed last */
	CHECK_IDS(next, 2, 3, 1);
	CHECK_INT(kv_lookup(&pool, 77), 0);
	kv_pool_free(&pool);
}

/* A block keeps its content until it is taken for something else; a hit takes it out of the middle of the free list. */
static void free_block_keeps_its_content_until_reused(void)
{
	int32_t a[3], b[2];
	make(3, true);
	kv_alloc(&pool, 3, a);
	for (int32_t i = 0; i < 3; i++)
		kv_remember(&pool, a[i], 100 + (uint64_t)i);
	kv_release(&pool, a, 3); /* 2 1 0 */
	CHECK_INT(pool.n_cached, 3);
	CHECK_INT(kv_lookup(&pool, 101), 1);
	CHECK_INT(kv_lookup(&pool, 999), KV_NO_BLOCK);
	kv_share(&pool, 1);
	CHECK_INT(pool.n_free, 2);
	CHECK_INT(pool.n_cached, 2);
	CHECK_INT(pool.ref[1], 1);
	kv_alloc(&pool, 2, b);
	CHECK_IDS(b, 2, 0);
	CHECK_INT(pool.evicted, 2);
	CHECK_INT(kv_lookup(&pool, 100), KV_NO_BLOCK);
	CHECK_INT(kv_lookup(&pool, 102), KV_NO_BLOCK);
	CHECK_INT(kv_lookup(&pool, 101), 1);
	kv_pool_free(&pool);
}

static void equal_content_is_found_oldest_first(void)
{
	int32_t a[3], b;
	make(3, true);
	kv_alloc(&pool, 3, a);
	kv_remember(&pool, 2, 5);
	kv_remember(&pool, 0, 5);
	kv_remember(&pool, 1, 5);
	CHECK_INT(kv_lookup(&pool, 5), 2);
	kv_disown(&pool, 2);
	CHECK_INT(kv_lookup(&pool, 5), 0);
	kv_release(&pool, a, 1); /* block 0, the only free one */
	uint64_t growth = pool.growth;
	kv_alloc(&pool, 1, &b);
	CHECK_INT(b, 0);
	CHECK_INT(kv_lookup(&pool, 5), 1);
	CU_ASSERT(pool.growth > growth); /* a lookup finds a block in use from now on */
	kv_pool_free(&pool);
}

/* Against a plain model: a list of free ids and an array of contents. */
static void pool_agrees_with_a_plain_model(void)
{
	enum { N = 24, KEYS = 12, HOLD = 64 };
	int32_t list[N], n = N, ref[N] = {0}, held[HOLD], n_held = 0;
	uint64_t content[N] = {0};
	int64_t since[N] = {0}, clock = 0;
	struct rng r;
	rng_init(&r, 11, 0);
	make(N, true);
	for (int32_t i = 0; i < N; i++)
		list[i] = i;
	for (int round = 0; round < 20000; round++) {
		uint64_t what = rng_below(&r, 3);
		if (what == 0 && n > 0 && n_held < HOLD) {
			int32_t id;
			kv_alloc(&pool, 1, &id);
			CHECK_INT(id, list[0]);
			memmove(list, list + 1, (size_t)--n * sizeof *list);
			content[id] = 0;
			ref[id] = 1;
			held[n_held++] = id;
			if (rng_below(&r, 2)) {
				content[id] = 1 + rng_below(&r, KEYS);
				since[id] = clock++;
				kv_remember(&pool, id, content[id]);
			}
		} else if (what == 1 && n_held > 0) {
			int32_t k = (int32_t)rng_below(&r, (uint64_t)n_held), id = held[k];
			held[k] = held[--n_held];
			kv_release(&pool, &id, 1);
			if (--ref[id] == 0)
				list[n++] = id;
		} else if (n_held < HOLD) {
			uint64_t key = 1 + rng_below(&r, KEYS);
			int32_t want = KV_NO_BLOCK;
			for (int32_t i = 0; i < N; i++)
				if (content[i] == key && (want < 0 || since[i] < since[want]))
					want = i;
			int32_t id = kv_lookup(&pool, key);
			CHECK_INT(id, want);
			if (id == KV_NO_BLOCK)
				continue;
			kv_share(&pool, id);
			if (ref[id]++ == 0)
				for (int32_t i = 0; i < n; i++)
					if (list[i] == id) {
						memmove(list + i, list + i + 1, (size_t)(--n - i) * sizeof *list);
						break;
					}
			held[n_held++] = id;
		}
		int32_t cached = 0;
		for (int32_t i = 0; i < n; i++)
			cached += content[list[i]] != 0;
		CHECK_INT(pool.n_free, n);
		CHECK_INT(pool.n_cached, cached);
	}
	kv_pool_free(&pool);
}

/* --- the tree ----------------------------------------------------------------------------------------------------- */

static void make_tree(int32_t blocks)
{
	struct err e = {0};
	CU_ASSERT_FATAL(kv_pool_init(&pool, blocks, 16, PREFIX_RADIX, &e) == ERR_NONE);
}

static int32_t scratch[200000];
#define CHECK_TREE() CU_ASSERT_PTR_NULL(kv_radix_check(&pool, scratch))

/* Two requests computed the same two pages at once: the later one's are given back and it goes on with the earlier one's. */
static void tree_gives_duplicates_back(void)
{
	int32_t a[3], b[3];
	const uint64_t x[] = {11, 12, 13}, y[] = {11, 12, 23};
	make_tree(8);
	kv_alloc(&pool, 3, a);
	kv_alloc(&pool, 3, b);
	CHECK_IDS(b, 3, 4, 5);
	CHECK_INT(kv_radix_insert(&pool, a, x, 0, 3), 0);
	CHECK_INT(kv_radix_insert(&pool, b, y, 0, 3), 2);
	CHECK_IDS(b, 0, 1, 5);
	CHECK_INT(pool.n_free, 4);
	CHECK_INT(pool.extra_refs, 2);
	CHECK_INT(pool.duplicates, 2);
	CHECK_TREE();
	kv_release(&pool, a, 3);
	CHECK_INT(pool.n_cached, 1); /* 13; the others are locked from below */
	CHECK_INT(pool.radix->n_leaves, 1);
	kv_release(&pool, b, 3);
	CHECK_INT(pool.n_free, 8);
	CHECK_INT(pool.n_cached, 4);
	CHECK_INT(pool.radix->n_leaves, 2);
	CHECK_TREE();
	kv_pool_free(&pool);
}

/* 1-2-3-4 came as one node; a lookup that ended after 2 split it. Of the leaves the one used least recently goes first, whole;
 * then its parent is a leaf. */
static void leaves_go_before_parents_and_whole(void)
{
	int32_t a[4], b[3], c[3], d[1];
	const uint64_t x[] = {1, 2, 3, 4}, y[] = {7};
	make_tree(6);
	kv_alloc(&pool, 4, a);
	kv_radix_insert(&pool, a, x, 0, 4);
	kv_share(&pool, 0); /* a second request finds 1 and 2 */
	kv_share(&pool, 1);
	kv_radix_used(&pool, a, 2);
	b[0] = 0, b[1] = 1;
	kv_alloc(&pool, 1, b + 2);
	kv_radix_insert(&pool, b, y, 2, 3);
	kv_release(&pool, a, 4);
	kv_release(&pool, b, 3);
	CHECK_INT(pool.n_free, 6);
	CHECK_TREE();
	/* One block is blank; for two more, 3-4 goes: it was used before 7 was. */
	kv_alloc(&pool, 3, c);
	CHECK_INT(pool.evicted, 2);
	CHECK_INT(kv_lookup(&pool, 3), KV_NO_BLOCK);
	CHECK_INT(kv_lookup(&pool, 4), KV_NO_BLOCK);
	CHECK_INT(kv_lookup(&pool, 7), 4);
	CHECK_TREE();
	kv_alloc(&pool, 1, d);
	CHECK_INT(d[0], 4);
	CHECK_INT(kv_lookup(&pool, 2), 1);
	CHECK_INT(pool.radix->n_leaves, 1);
	CHECK_TREE();
	kv_alloc(&pool, 2, b); /* 1-2, one node */
	CHECK_INT(pool.n_free, 0);
	CHECK_INT(pool.n_cached, 0);
	CHECK_TREE();
	kv_pool_free(&pool);
}

/* What is locked stays, and what is above it: only the other branch can go. */
static void locked_pages_are_never_evicted(void)
{
	int32_t a[3], b[2], c[3];
	const uint64_t x[] = {1, 2, 3}, y[] = {8, 9};
	make_tree(6);
	kv_alloc(&pool, 3, a);
	kv_radix_insert(&pool, a, x, 0, 3);
	kv_alloc(&pool, 2, b);
	kv_radix_insert(&pool, b, y, 0, 2);
	kv_release(&pool, b, 2);
	CHECK_INT(pool.n_free, 3);
	kv_alloc(&pool, 3, c);
	for (uint64_t key = 1; key <= 3; key++)
		CHECK_INT(kv_lookup(&pool, key), (int32_t)key - 1);
	CHECK_INT(kv_lookup(&pool, 8), KV_NO_BLOCK);
	CHECK_TREE();
	kv_pool_free(&pool);
}

/* A chain of 100,000 pages, each a node of its own, then a second branch at each: nothing is recursive, nothing walks. */
static void tree_of_100000_nodes(void)
{
	enum { N = 100000 };
	int32_t *a = malloc(N * sizeof *a), *b = malloc(N * sizeof *b);
	make_tree(2 * N);
	kv_alloc(&pool, N, a);
	for (int32_t i = 0; i < N; i++) {
		uint64_t key = 2 * (uint64_t)i + 2;
		kv_radix_insert(&pool, a + i, &key, 0, 1); /* roots, to begin with */
	}
	kv_release(&pool, a, N);
	CHECK_INT(pool.radix->n_leaves, N);
	for (int32_t i = 0; i < N; i++)
		kv_share(&pool, a[i]);
	kv_alloc(&pool, N, b);
	uint64_t *keys = malloc(N * sizeof *keys);
	for (int32_t i = 0; i < N; i++)
		keys[i] = 2 * (uint64_t)i + 3;
	kv_radix_insert(&pool, b, keys, 0, N); /* one path of N pages */
	for (int32_t i = 0; i < N; i += 2) {
		int32_t end[1] = {b[i]};
		kv_radix_used(&pool, end, 1); /* a lookup ended here: split */
	}
	kv_release(&pool, a, N);
	kv_release(&pool, b, N);
	CHECK_INT(pool.n_free, 2 * N);
	CHECK_INT(pool.radix->n_leaves, N + 1);
	kv_alloc(&pool, 2 * N, (a = realloc(a, 2 * N * sizeof *a)));
	CHECK_INT(pool.evicted, 2 * N);
	CHECK_TREE();
	kv_pool_free(&pool);
	free(a);
	free(b);
	free(keys);
}

static void contiguous_memory_is_first_fit_by_address(void)
{
	struct kv_contig c;
	struct err e = {0};
	CHECK_INT(kv_contig_init(&c, 10, &e), ERR_NONE);
	CHECK_INT(kv_contig_take(&c, 3), 0);
	CHECK_INT(kv_contig_take(&c, 2), 3);
	CHECK_INT(kv_contig_take(&c, 4), 5);
	CHECK_INT(kv_contig_take(&c, 2), -1);
	CHECK_INT(c.n_free, 1);
	CHECK_INT(kv_contig_give(&c, 0, 3, &e), ERR_NONE);
	CHECK_INT(c.n_free, 4);
	CHECK_INT(kv_contig_largest(&c), 3); /* 0-2 and 9: free, but no four in a row */
	CHECK_INT(kv_contig_take(&c, 4), -1);
	CHECK_INT(kv_contig_take(&c, 1), 0);
	CHECK_INT(kv_contig_give(&c, 5, 4, &e), ERR_NONE); /* joins 9 */
	CHECK_INT(kv_contig_largest(&c), 5);
	CHECK_INT(kv_contig_give(&c, 3, 2, &e), ERR_NONE); /* joins 1-2 and 5-9 */
	CHECK_INT(kv_contig_largest(&c), 9);
	CHECK_INT(c.n_holes, 1);
	CHECK_INT(kv_contig_give(&c, 0, 1, &e), ERR_NONE);
	CHECK_INT(kv_contig_take(&c, 10), 0);
	CHECK_INT(c.n_holes, 0);
	CHECK_INT(kv_contig_largest(&c), 0);
	kv_contig_free(&c);
}

/* Against a bitmap. */
static void contiguous_memory_agrees_with_a_bitmap(void)
{
	enum { N = 40, HOLD = 40 };
	bool taken[N] = {false};
	int32_t start[HOLD], len[HOLD], n = 0;
	struct kv_contig c;
	struct err e = {0};
	struct rng r;
	rng_init(&r, 3, 0);
	CHECK_INT(kv_contig_init(&c, N, &e), ERR_NONE);
	for (int round = 0; round < 20000; round++) {
		if (rng_below(&r, 2) && n < HOLD) {
			int32_t want = -1, k = 1 + (int32_t)rng_below(&r, 12);
			for (int32_t at = 0; at + k <= N && want < 0; at++) {
				int32_t m = 0;
				while (m < k && !taken[at + m])
					m++;
				if (m == k)
					want = at;
			}
			CHECK_INT(kv_contig_take(&c, k), want);
			if (want < 0)
				continue;
			memset(taken + want, true, (size_t)k * sizeof *taken);
			start[n] = want;
			len[n++] = k;
		} else if (n > 0) {
			int32_t k = (int32_t)rng_below(&r, (uint64_t)n);
			CHECK_INT(kv_contig_give(&c, start[k], len[k], &e), ERR_NONE);
			memset(taken + start[k], false, (size_t)len[k] * sizeof *taken);
			start[k] = start[--n];
			len[k] = len[n];
		}
	}
	kv_contig_free(&c);
}

int main(void)
{
	static const struct test tests[] = {
		{"blocks_are_reused_least_recently_freed_first", blocks_are_reused_least_recently_freed_first},
		{"blocks_for_rounds_up", blocks_for_rounds_up},
		{"shared_block_is_freed_by_its_last_holder", shared_block_is_freed_by_its_last_holder},
		{"free_block_keeps_its_content_until_reused", free_block_keeps_its_content_until_reused},
		{"equal_content_is_found_oldest_first", equal_content_is_found_oldest_first},
		{"pool_agrees_with_a_plain_model", pool_agrees_with_a_plain_model},
		{"tree_gives_duplicates_back", tree_gives_duplicates_back},
		{"leaves_go_before_parents_and_whole", leaves_go_before_parents_and_whole},
		{"locked_pages_are_never_evicted", locked_pages_are_never_evicted},
		{"tree_of_100000_nodes", tree_of_100000_nodes},
		{"contiguous_memory_is_first_fit_by_address", contiguous_memory_is_first_fit_by_address},
		{"contiguous_memory_agrees_with_a_bitmap", contiguous_memory_agrees_with_a_bitmap},
	};
	return SUITE_RUN("core_kv_pool", tests);
}
