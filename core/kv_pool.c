#include "core/kv_pool.h"

#include <string.h>

#include "core/err.h"
#include "core/kv_radix.h"
#include "core/mem.h"

static int64_t pow2_at_least(int64_t n)
{
	int64_t p = 16;
	while (p < n)
		p *= 2;
	return p;
}

static int init_ring(struct kv_pool *p, struct err *e)
{
	/* Only prefix hits leave holes, so only then is room for them needed. */
	int64_t holes = p->ref ? p->num_blocks / 3 + 1 : 0;
	p->ring_mask = pow2_at_least(p->num_blocks + holes) - 1;
	p->ring = mem_alloc((size_t)(p->ring_mask + 1) * sizeof *p->ring);
	if (p->ref)
		p->ring_at = mem_alloc((size_t)p->num_blocks * sizeof *p->ring_at);
	if (!p->ring || (p->ref && !p->ring_at))
		return err_no_memory(e, "KV block books");
	for (int32_t i = 0; i < p->num_blocks; i++)
		p->ring[i] = i;
	for (int32_t i = 0; i < p->num_blocks && p->ref; i++)
		p->ring_at[i] = (uint32_t)i;
	p->tail = p->num_blocks;
	return ERR_NONE;
}

static int init_index(struct kv_pool *p, bool tree, struct err *e)
{
	size_t n = (size_t)p->num_blocks;
	/* Chains stay short; a tree has more to keep within the same memory. */
	p->chain_mask = pow2_at_least(tree ? p->num_blocks : 2 * (int64_t)p->num_blocks) - 1;
	size_t chains = (size_t)p->chain_mask + 1;
	p->ref = mem_zalloc(n, sizeof *p->ref);
	p->content = mem_zalloc(n, sizeof *p->content);
	p->chain = mem_alloc(chains * sizeof *p->chain);
	p->chain_next = mem_alloc(n * sizeof *p->chain_next);
	if (!p->ref || !p->content || !p->chain || !p->chain_next)
		return err_no_memory(e, "prefix cache");
	memset(p->chain, 0xff, chains * sizeof *p->chain); /* KV_NO_BLOCK */
	return ERR_NONE;
}

int kv_pool_init(struct kv_pool *p, int32_t num_blocks, int32_t block_size, enum prefix_cache cache, struct err *e)
{
	memset(p, 0, sizeof *p);
	p->num_blocks = p->n_free = num_blocks;
	p->block_size = block_size;
	int code = cache ? init_index(p, cache == PREFIX_RADIX, e) : ERR_NONE;
	if (!code)
		code = cache == PREFIX_RADIX ? kv_radix_init(p, e) : init_ring(p, e);
	if (code)
		kv_pool_free(p);
	return code;
}

void kv_pool_free(struct kv_pool *p)
{
	kv_radix_free(p->radix);
	mem_free(p->ref);
	mem_free(p->ring);
	mem_free(p->ring_at);
	mem_free(p->content);
	mem_free(p->chain);
	mem_free(p->chain_next);
	memset(p, 0, sizeof *p);
}

/* --- content index ----------------------------------------------------------------------------------------------
 *
 * Neighbouring pages have neighbouring identities (core/content.h): the heads of their chains share a cache line. */

static int32_t *chain_of(const struct kv_pool *p, uint64_t key)
{
	return &p->chain[key & (uint64_t)p->chain_mask]; /* identities are the output of a mixer already */
}

static bool chain_has(const struct kv_pool *p, int32_t from, uint64_t key)
{
	while (from != KV_NO_BLOCK && p->content[from] != key)
		from = p->chain_next[from];
	return from != KV_NO_BLOCK;
}

/* Whether another block with the same content is left. */
static inline bool chain_remove(struct kv_pool *p, uint64_t key, int32_t block)
{
	int32_t *at = chain_of(p, key), next = p->chain_next[block];
	bool twin = false;
	while (*at != block) {
		twin |= p->content[*at] == key;
		at = &p->chain_next[*at];
	}
	*at = next;
	return twin || chain_has(p, next, key);
}

int32_t kv_lookup(const struct kv_pool *p, uint64_t key)
{
	int32_t found = KV_NO_BLOCK;
	for (int32_t b = *chain_of(p, key); b != KV_NO_BLOCK; b = p->chain_next[b])
		if (p->content[b] == key) /* the oldest one comes last */
			found = b;
	return found;
}

void kv_remember_all(struct kv_pool *p, const int32_t *ids, const uint64_t *keys, int32_t n)
{
	uint64_t *content = p->content, mask = (uint64_t)p->chain_mask;
	int32_t *chain = p->chain, *next = p->chain_next;
	uint64_t watched = 0;
	for (int32_t i = 0; i < n; i++) {
		int32_t *at = &chain[keys[i] & mask];
		content[ids[i]] = keys[i];
		next[ids[i]] = *at;
		*at = ids[i];
		watched += keys[i] == p->watch;
	}
	p->growth += watched;
	p->changes += (uint64_t)n;
}

void kv_remember(struct kv_pool *p, int32_t block, uint64_t key)
{
	kv_remember_all(p, &block, &key, 1);
}

void kv_disown(struct kv_pool *p, int32_t block)
{
	uint64_t key = p->content[block];
	if (!key)
		return;
	/* A lookup finds its twin from now on, which may be in use and so cost nothing. */
	p->growth += chain_remove(p, key, block);
	p->content[block] = 0;
	p->changes++;
}

/* --- free list -------------------------------------------------------------------------------------------------- */

static void ring_compact(struct kv_pool *p)
{
	int64_t to = p->tail;
	/* Rewrite in place, from the newest down, so that live entries move towards the tail. */
	for (int64_t from = p->tail; from-- > p->head;) {
		int32_t id = p->ring[from & p->ring_mask];
		if (id == KV_NO_BLOCK)
			continue;
		p->ring[--to & p->ring_mask] = id;
		p->ring_at[id] = (uint32_t)(to & p->ring_mask);
	}
	p->head = to;
}

/* Without caching no block is ever shared and the ring has no holes: taking and giving back are copies. */
static void ring_take(struct kv_pool *p, int32_t n, int32_t *ids)
{
	int64_t at = p->head & p->ring_mask, upto_end = p->ring_mask + 1 - at;
	int64_t first = n < upto_end ? n : upto_end;
	memcpy(ids, p->ring + at, (size_t)first * sizeof *ids);
	memcpy(ids + first, p->ring, (size_t)(n - first) * sizeof *ids);
	p->head += n;
}

static void ring_give(struct kv_pool *p, const int32_t *ids, int32_t n)
{
	int64_t at = p->tail & p->ring_mask, upto_end = p->ring_mask + 1 - at;
	int64_t first = n < upto_end ? n : upto_end;
	for (int64_t i = 0; i < first; i++)
		p->ring[at + i] = ids[n - 1 - i];
	for (int64_t i = first; i < n; i++)
		p->ring[i - first] = ids[n - 1 - i];
	p->tail += n;
	p->n_free += n;
}

/* Blocks that are given away forget what they held. */
static void take_cached(struct kv_pool *p, int32_t n, int32_t *ids)
{
	int64_t at = p->head, mask = p->ring_mask;
	int32_t forgotten = 0;
	uint64_t twins = 0;
	for (int32_t i = 0; i < n; at++) {
		int32_t id = p->ring[at & mask];
		if (at + 8 < p->tail && p->ring[(at + 8) & mask] != KV_NO_BLOCK)
			__builtin_prefetch(chain_of(p, p->content[p->ring[(at + 8) & mask]]));
		if (id == KV_NO_BLOCK)
			continue;
		uint64_t key = p->content[id];
		if (key) {
			twins += chain_remove(p, key, id);
			p->content[id] = 0;
			forgotten++;
		}
		p->ref[id] = 1;
		ids[i++] = id;
	}
	p->head = at;
	p->n_cached -= forgotten;
	p->evicted += forgotten;
	p->changes += (uint64_t)forgotten;
	p->growth += twins;
}

void kv_alloc(struct kv_pool *p, int32_t n, int32_t *ids)
{
	if (p->radix) {
		kv_radix_alloc(p, n, ids);
		return;
	}
	p->n_free -= n;
	if (p->ref)
		take_cached(p, n, ids);
	else
		ring_take(p, n, ids);
}

/* The last one first, as often as there is room in the ring. */
static void give_cached(struct kv_pool *p, const int32_t *ids, int32_t n)
{
	int64_t tail = p->tail, mask = p->ring_mask;
	int32_t freed = 0, cached = 0;
	for (int32_t i = n; i-- > 0;) {
		int32_t id = ids[i];
		if (--p->ref[id])
			continue;
		uint32_t at = (uint32_t)(tail++ & mask);
		p->ring[at] = id;
		p->ring_at[id] = at;
		cached += p->content[id] != 0;
		freed++;
	}
	p->tail = tail;
	p->n_free += freed;
	p->n_cached += cached;
	p->extra_refs -= n - freed;
	p->changes += (uint64_t)freed;
}

void kv_release(struct kv_pool *p, const int32_t *ids, int32_t n)
{
	if (!p->ref) {
		ring_give(p, ids, n);
		return;
	}
	for (int32_t i = n; i-- > 0 && p->radix;) {
		if (--p->ref[ids[i]])
			p->extra_refs--;
		else
			kv_radix_unreferenced(p, ids[i]);
	}
	if (p->radix)
		return;
	if (p->tail + n - p->head > p->ring_mask + 1)
		ring_compact(p);
	give_cached(p, ids, n);
}

void kv_share(struct kv_pool *p, int32_t block)
{
	if (p->ref[block]++ > 0) {
		p->extra_refs++;
		return;
	}
	if (p->radix) {
		kv_radix_referenced(p, block);
		return;
	}
	p->ring[p->ring_at[block]] = KV_NO_BLOCK;
	p->n_free--;
	p->n_cached -= p->content[block] != 0;
	p->growth++;
	p->changes++;
}
