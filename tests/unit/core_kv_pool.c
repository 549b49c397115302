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

static void make_cache(int32_t blocks, enum prefix_cache cache, enum prefix_eviction eviction)
{
	struct err e = {0};
	CU_ASSERT_FATAL(kv_pool_init(&pool, blocks, 16, cache, eviction, &e) == ERR_NONE);
}

static void make(int32_t blocks, bool caching)
{
	make_cache(blocks, caching ? PREFIX_HASH : PREFIX_OFF, PREFIX_EVICT_DEFAULT);
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

/* A plain model: a list of free ids in the order they were freed and an array of contents. */
enum { BLOCKS = 24, CONTENTS = 12, HOLDERS = 64 };
struct plain {
	enum prefix_eviction rule;
	int32_t list[BLOCKS], n, ref[BLOCKS], held[HOLDERS], n_held;
	uint64_t content[BLOCKS];
	int64_t since[BLOCKS], uses[BLOCKS], freed[BLOCKS], clock;
};

/* Place in the list of the one that makes room. */
static int32_t plain_victim(const struct plain *m)
{
	int32_t best = 0;
	for (int32_t i = 0; i < m->n && m->rule != PREFIX_EVICT_LRU; i++)
		if (!m->content[m->list[i]])
			return i;
	for (int32_t i = 1; i < m->n && m->rule != PREFIX_EVICT_LRU; i++) {
		int32_t a = m->list[i], b = m->list[best];
		bool lower = m->rule == PREFIX_EVICT_FIFO ? m->since[a] < m->since[b]
			     : m->uses[a] != m->uses[b]   ? m->uses[a] < m->uses[b]
							  : m->freed[a] < m->freed[b];
		best = lower ? i : best;
	}
	return best;
}

static void plain_remove(struct plain *m, int32_t place)
{
	memmove(m->list + place, m->list + place + 1, (size_t)(--m->n - place) * sizeof *m->list);
}

static void plain_take(struct plain *m, struct rng *r)
{
	int32_t id, place = plain_victim(m), want = m->list[place];
	kv_alloc(&pool, 1, &id);
	CHECK_INT(id, want);
	plain_remove(m, place);
	m->content[id] = 0;
	m->ref[id] = 1;
	m->held[m->n_held++] = id;
	if (!rng_below(r, 2))
		return;
	uint64_t key = m->content[id] = 1 + rng_below(r, CONTENTS);
	m->since[id] = m->clock++;
	m->uses[id] = 0;
	pool.cache->insert(&pool, &id, &key, 0, 1);
}

static void plain_give(struct plain *m, struct rng *r)
{
	int32_t k = (int32_t)rng_below(r, (uint64_t)m->n_held), id = m->held[k];
	m->held[k] = m->held[--m->n_held];
	kv_release(&pool, &id, 1);
	if (--m->ref[id] == 0) {
		m->list[m->n++] = id;
		m->freed[id] = m->clock++;
	}
}

static void plain_find(struct plain *m, uint64_t key)
{
	int32_t want = KV_NO_BLOCK, id = kv_lookup(&pool, key);
	for (int32_t i = 0; i < BLOCKS; i++)
		if (m->content[i] == key && (want < 0 || m->since[i] < m->since[want]))
			want = i;
	CHECK_INT(id, want);
	if (id == KV_NO_BLOCK)
		return;
	kv_share(&pool, id);
	pool.cache->used(&pool, &id, 1);
	m->uses[id]++;
	for (int32_t i = 0; i < m->n && !m->ref[id]; i++)
		if (m->list[i] == id) {
			plain_remove(m, i);
			break;
		}
	m->ref[id]++;
	m->held[m->n_held++] = id;
}

static void hash_agrees_with_a_plain_model(void)
{
	static const enum prefix_eviction rules[] = {PREFIX_EVICT_LRU, PREFIX_EVICT_LFU, PREFIX_EVICT_FIFO};
	int32_t scratch[BLOCKS];
	for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
		struct plain m = {.rule = rules[i], .n = BLOCKS};
		struct rng r;
		rng_init(&r, 11, 0);
		make_cache(BLOCKS, PREFIX_HASH, rules[i]);
		for (int32_t k = 0; k < BLOCKS; k++)
			m.list[k] = k;
		for (int round = 0; round < 20000; round++) {
			uint64_t what = rng_below(&r, 3);
			if (what == 0 && m.n > 0 && m.n_held < HOLDERS)
				plain_take(&m, &r);
			else if (what == 1 && m.n_held > 0)
				plain_give(&m, &r);
			else if (m.n_held < HOLDERS)
				plain_find(&m, 1 + rng_below(&r, CONTENTS));
			int32_t cached = 0;
			for (int32_t k = 0; k < m.n; k++)
				cached += m.content[m.list[k]] != 0;
			CHECK_INT(pool.n_free, m.n);
			CHECK_INT(pool.n_cached, cached);
			if (round % 16 == 0)
				CU_ASSERT_PTR_NULL(pool.cache->check(&pool, scratch));
		}
		CU_ASSERT(pool.evicted > 200);
		kv_pool_free(&pool);
	}
}

static int32_t saved[8], n_saved;
static uint64_t saved_keys[8];

static void save(void *ctx, int32_t block, uint64_t key)
{
	CU_ASSERT(ctx == &saved && pool.content[block] == key); /* still in place */
	saved[n_saved] = block;
	saved_keys[n_saved++] = key;
}

/* Whoever watches hears of each content that is dropped for new use, and of no other. */
static void watcher_hears_of_what_is_evicted(void)
{
	static const enum prefix_cache caches[] = {PREFIX_HASH, PREFIX_HASH, PREFIX_RADIX};
	static const enum prefix_eviction rules[] = {PREFIX_EVICT_LRU, PREFIX_EVICT_LFU, PREFIX_EVICT_LEAF_LRU};
	for (int i = 0; i < 3; i++) {
		int32_t a[3], b[3];
		const uint64_t keys[] = {100, 101};
		n_saved = 0;
		make_cache(3, caches[i], rules[i]);
		pool.watcher = (struct prefix_watcher){save, &saved};
		kv_alloc(&pool, 3, a);
		pool.cache->insert(&pool, a, keys, 0, 2);
		kv_release(&pool, a, 3);
		kv_alloc(&pool, 3, b);
		CHECK_INT(n_saved, 2);
		CHECK_INT(saved[0], 1); /* the end first */
		CHECK_INT(saved_keys[0], 101);
		CHECK_INT(saved[1], 0);
		CHECK_INT(saved_keys[1], 100);
		kv_pool_free(&pool);
	}
}

static void rules_that_make_no_sense_are_refused(void)
{
	struct err e = {0};
	CHECK_INT(kv_pool_init(&pool, 4, 16, PREFIX_HASH, PREFIX_EVICT_LEAF_LRU, &e), ERR_INPUT);
	CU_ASSERT_PTR_NOT_NULL(strstr(e.text, "leaf-lru does not go with --prefix-cache hash"));
	CHECK_INT(kv_pool_init(&pool, 4, 16, PREFIX_HASH, PREFIX_EVICT_COST_AWARE, &e), ERR_INPUT);
	e = (struct err){0}; /* the first error is kept */
	CHECK_INT(kv_pool_init(&pool, 4, 16, PREFIX_OFF, PREFIX_EVICT_LRU, &e), ERR_INPUT);
	CU_ASSERT_PTR_NOT_NULL(strstr(e.text, "add --prefix-cache"));
}

/* --- the tree ----------------------------------------------------------------------------------------------------- */

static void make_tree(int32_t blocks)
{
	make_cache(blocks, PREFIX_RADIX, PREFIX_EVICT_DEFAULT);
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
	CHECK_INT(pool.radix->leaves.n, 1);
	kv_release(&pool, b, 3);
	CHECK_INT(pool.n_free, 8);
	CHECK_INT(pool.n_cached, 4);
	CHECK_INT(pool.radix->leaves.n, 2);
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
	CHECK_INT(pool.radix->leaves.n, 1);
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
	CHECK_INT(pool.radix->leaves.n, N);
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
	CHECK_INT(pool.radix->leaves.n, N + 1);
	kv_alloc(&pool, 2 * N, (a = realloc(a, 2 * N * sizeof *a)));
	CHECK_INT(pool.evicted, 2 * N);
	CHECK_TREE();
	kv_pool_free(&pool);
	free(a);
	free(b);
	free(keys);
}

/* --- rules in a tree ------------------------------------------------------------------------------------------------ */

/* A request comes with its pages' contents (0 ends them), computes what is not there and goes. */
static void visit(const uint64_t *keys)
{
	int32_t ids[16], n = 0, hit = 0;
	while (keys[n])
		n++;
	while (hit < n && (ids[hit] = kv_lookup(&pool, keys[hit])) != KV_NO_BLOCK)
		kv_share(&pool, ids[hit++]);
	pool.cache->used(&pool, ids, hit);
	kv_alloc(&pool, n - hit, ids + hit);
	pool.cache->insert(&pool, ids, keys + hit, hit, n);
	kv_release(&pool, ids, n);
	CHECK_TREE();
}

/* Takes n blocks and says which of contents 1 ... 63 are left, as bits. */
static uint64_t left_after(int32_t n)
{
	int32_t ids[16];
	uint64_t left = 0;
	kv_alloc(&pool, n, ids);
	for (uint64_t key = 1; key < 64; key++)
		left |= kv_lookup(&pool, key) != KV_NO_BLOCK ? UINT64_C(1) << key : 0;
	CHECK_TREE();
	return left;
}

#define BIT(key) (UINT64_C(1) << (key))

/* Pages 1, 2 and 3 came in this order; 2 was found twice and used longest ago, 1 once and last, 3 never. */
static void tree_rules_by_hand(void)
{
	static const uint64_t x[] = {1, 0}, y[] = {2, 0}, z[] = {3, 0}, deep[] = {31, 32, 33, 0};
	static const struct {
		enum prefix_eviction rule;
		uint64_t left;
	} cases[] = {{PREFIX_EVICT_LRU, BIT(1) | BIT(3)},
		     {PREFIX_EVICT_LEAF_LRU, BIT(1) | BIT(3)},
		     {PREFIX_EVICT_FIFO, BIT(2) | BIT(3)},
		     {PREFIX_EVICT_LFU, BIT(1) | BIT(2)},
		     {PREFIX_EVICT_COST_AWARE, BIT(1) | BIT(2)}};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		make_cache(3, PREFIX_RADIX, cases[i].rule);
		visit(x);
		visit(y);
		visit(y);
		visit(y);
		visit(z);
		visit(x);
		CU_ASSERT(left_after(1) == cases[i].left);
		kv_pool_free(&pool);
	}
	/* Page by page a leaf gives up no more than is needed; as a node it goes whole. */
	for (int whole = 0; whole < 2; whole++) {
		make_cache(3, PREFIX_RADIX, whole ? PREFIX_EVICT_LEAF_LRU : PREFIX_EVICT_LRU);
		visit(deep);
		CU_ASSERT(left_after(1) == (whole ? 0 : BIT(31) | BIT(32)));
		CHECK_INT(pool.evicted, whole ? 3 : 1);
		kv_pool_free(&pool);
	}
}

/* How often a prefix was found is how often its beginning was, once its end has gone. */
static void uses_are_passed_on(void)
{
	static const uint64_t ab[] = {1, 2, 0}, y[] = {3, 0};
	make_cache(3, PREFIX_RADIX, PREFIX_EVICT_LFU);
	visit((const uint64_t[]){1, 0});
	visit(ab); /* finds 1 */
	visit(ab); /* finds 2 */
	visit(y);
	visit(y);
	visit(y);
	CU_ASSERT(left_after(1) == (BIT(1) | BIT(3))); /* 2 was found once, 3 twice */
	CHECK_INT(pool.radix->uses[kv_lookup(&pool, 1)], 2);
	kv_pool_free(&pool);
}

/* A page deep in a prompt costs more to compute again than a first one: with as many uses it stays, though it was used
 * earlier. What goes raises the clock, so that a page once found often does not stay for ever. */
static void cost_aware_keeps_what_is_dear(void)
{
	enum { DEEP = 4096, LONG = DEEP + 2 };
	int32_t *ids = malloc(LONG * sizeof *ids), one[2];
	uint64_t *keys = malloc(LONG * sizeof *keys), key = 1, left = 0;
	make_cache(LONG, PREFIX_RADIX, PREFIX_EVICT_COST_AWARE);
	for (int32_t i = 0; i < DEEP; i++)
		keys[i] = 1000 + (uint64_t)i;
	kv_alloc(&pool, DEEP, ids);
	pool.cache->insert(&pool, ids, keys, 0, DEEP - 1);
	pool.cache->insert(&pool, ids, keys + DEEP - 1, DEEP - 1, DEEP); /* a node of its own: costs 64 + 4095 / 32 */
	kv_release(&pool, ids, DEEP);
	for (int32_t i = 0; i < 2; i++) { /* two first pages, later: cost 64 each */
		kv_alloc(&pool, 1, one);
		key = 1 + (uint64_t)i;
		pool.cache->insert(&pool, one, &key, 0, 1);
		kv_release(&pool, one, 1);
	}
	CHECK_INT(pool.n_cached, LONG);
	kv_alloc(&pool, 2, one);
	for (int32_t i = 0; i < DEEP; i++)
		left += kv_lookup(&pool, keys[i]) != KV_NO_BLOCK;
	CHECK_INT(left, DEEP);
	CHECK_INT(pool.radix->clock, 64);
	for (int32_t round = 1; round < 4; round++) { /* 64 more each time: 128, 192 pass 64 + 127 */
		CHECK_INT(kv_lookup(&pool, keys[DEEP - 1]) != KV_NO_BLOCK, round < 3);
		key = 10 + (uint64_t)round;
		pool.cache->insert(&pool, one, &key, 0, 1);
		kv_release(&pool, one, 1);
		kv_alloc(&pool, 1, one);
	}
	CHECK_TREE();
	kv_pool_free(&pool);
	free(ids);
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
		{"hash_agrees_with_a_plain_model", hash_agrees_with_a_plain_model},
		{"watcher_hears_of_what_is_evicted", watcher_hears_of_what_is_evicted},
		{"rules_that_make_no_sense_are_refused", rules_that_make_no_sense_are_refused},
		{"tree_gives_duplicates_back", tree_gives_duplicates_back},
		{"leaves_go_before_parents_and_whole", leaves_go_before_parents_and_whole},
		{"locked_pages_are_never_evicted", locked_pages_are_never_evicted},
		{"tree_of_100000_nodes", tree_of_100000_nodes},
		{"tree_rules_by_hand", tree_rules_by_hand},
		{"uses_are_passed_on", uses_are_passed_on},
		{"cost_aware_keeps_what_is_dear", cost_aware_keeps_what_is_dear},
		{"contiguous_memory_is_first_fit_by_address", contiguous_memory_is_first_fit_by_address},
		{"contiguous_memory_agrees_with_a_bitmap", contiguous_memory_agrees_with_a_bitmap},
	};
	return SUITE_RUN("core_kv_pool", tests);
}
