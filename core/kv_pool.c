#include "core/kv_pool.h"

#include <string.h>

#include "core/err.h"
#include "core/evict.h"
#include "core/kv_index.h"
#include "core/mem.h"

static int64_t pow2_at_least(int64_t n)
{
	int64_t p = 16;
	while (p < n)
		p *= 2;
	return p;
}

int kv_ring_init(struct kv_pool *p, int64_t holes, struct err *e)
{
	p->ring_mask = pow2_at_least(p->num_blocks + holes) - 1;
	p->ring = mem_alloc((size_t)(p->ring_mask + 1) * sizeof *p->ring);
	if (!p->ring)
		return err_no_memory(e, "KV block books");
	for (int32_t i = 0; i < p->num_blocks; i++)
		p->ring[i] = i;
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
	p->found = mem_zalloc(n / 8 + 1, sizeof *p->found);
	if (!p->ref || !p->content || !p->chain || !p->chain_next || !p->found)
		return err_no_memory(e, "prefix cache");
	memset(p->chain, 0xff, chains * sizeof *p->chain); /* KV_NO_BLOCK */
	return ERR_NONE;
}

int kv_pool_init(struct kv_pool *p, int32_t num_blocks, int32_t block_size, enum prefix_cache cache,
		 enum prefix_eviction eviction, struct err *e)
{
	memset(p, 0, sizeof *p);
	p->num_blocks = p->n_free = num_blocks;
	p->block_size = block_size;
	if (prefix_eviction_resolve(cache, &eviction, e))
		return ERR_INPUT;
	p->cache = prefix_ops_of(cache, eviction);
	p->rule = evict_rule_of(eviction);
	int code = p->cache ? init_index(p, p->cache->tree, e) : kv_ring_init(p, 0, e);
	if (p->cache && !code)
		code = p->cache->init(p, e);
	if (code)
		kv_pool_free(p);
	return code;
}

int kv_pool_init_shared(struct kv_pool *p, int32_t num_blocks, int32_t block_size, enum prefix_cache cache,
			enum prefix_eviction eviction, struct err *e)
{
	int code = kv_pool_init(p, num_blocks, block_size, cache ? cache : PREFIX_HASH, eviction, e);
	if (code)
		return code;
	p->taken = mem_zalloc((size_t)num_blocks, sizeof *p->taken);
	if (p->taken)
		return ERR_NONE;
	kv_pool_free(p);
	return err_no_memory(e, "KV block books");
}

bool kv_can_share(const struct kv_pool *p, int32_t block)
{
	return p->ref[block] || p->content[block] || p->ring;
}

void kv_pool_free(struct kv_pool *p)
{
	if (p->cache)
		p->cache->destroy(p);
	mem_free(p->ring);
	mem_free(p->ref);
	mem_free(p->taken);
	mem_free(p->content);
	mem_free(p->chain);
	mem_free(p->chain_next);
	mem_free(p->found);
	mem_free(p->found_ids);
	memset(p, 0, sizeof *p);
}

/* --- content index ---------------------------------------------------------------------------------------------- */

int32_t kv_lookup(const struct kv_pool *p, uint64_t key)
{
	int32_t found = KV_NO_BLOCK;
	for (int32_t b = *kv_chain_of(p, key); b != KV_NO_BLOCK; b = p->chain_next[b])
		if (p->content[b] == key) /* the oldest one comes last */
			found = b;
	return found;
}

int32_t kv_lookup_run(const struct kv_pool *p, const uint64_t *keys, int32_t n, int32_t *ids)
{
	for (int32_t i = 0; i < n; i++) {
		/* A large cache is far away: its parts are asked for some pages ahead. */
		if (i + 32 < n)
			__builtin_prefetch(kv_chain_of(p, keys[i + 32]));
		int32_t soon = i + 16 < n ? *kv_chain_of(p, keys[i + 16]) : KV_NO_BLOCK;
		if (soon != KV_NO_BLOCK) {
			__builtin_prefetch(&p->content[soon]);
			__builtin_prefetch(&p->chain_next[soon]);
		}
		ids[i] = kv_lookup(p, keys[i]);
		if (ids[i] == KV_NO_BLOCK)
			return i;
	}
	return n;
}

void kv_remember_all(struct kv_pool *p, const int32_t *ids, const uint64_t *keys, int32_t n)
{
	uint64_t *content = p->content, mask = (uint64_t)p->chain_mask;
	int32_t *chain = p->chain, *next = p->chain_next;
	uint64_t watched = 0;
	for (int32_t i = 0; i < n; i++) {
		int32_t *at = &chain[keys[i] & mask];
		__builtin_prefetch(&chain[keys[i + 8 < n ? i + 8 : i] & mask], 1);
		content[ids[i]] = keys[i];
		next[ids[i]] = *at;
		*at = ids[i];
		watched += keys[i] == p->watch;
	}
	p->growth += watched;
	p->changes += (uint64_t)n;
}

int kv_watch(struct kv_pool *p, const int32_t *ids, int32_t n, uint64_t missed, struct err *e)
{
	for (int64_t i = 0; i < p->n_found; i++)
		p->found[p->found_ids[i] / 8] = 0;
	p->n_found = 0;
	p->watch = missed;
	if (mem_grow((void **)&p->found_ids, &p->cap_found, n, sizeof *p->found_ids))
		return err_no_memory(e, "prefix cache");
	for (int32_t i = 0; i < n; i++) {
		p->found_ids[i] = ids[i];
		p->found[ids[i] / 8] |= (uint8_t)(1 << ids[i] % 8);
	}
	p->n_found = n;
	return ERR_NONE;
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
	bool twin = kv_chain_remove(p, key, block);
	p->growth += twin;
	p->duplicates += twin;
	p->content[block] = 0;
	p->changes++;
}

int64_t kv_duplicates(const struct kv_pool *p)
{
	int64_t n = p->duplicates;
	for (int32_t b = 0; b < p->num_blocks && p->cache; b++)
		n += p->content[b] && kv_chain_has(p, p->chain_next[b], p->content[b]);
	return n;
}

/* --- free list -------------------------------------------------------------------------------------------------- */

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

void kv_alloc(struct kv_pool *p, int32_t n, int32_t *ids)
{
	if (p->cache) {
		p->cache->alloc(p, n, ids);
		for (int32_t i = 0; i < n && p->taken; i++)
			p->taken[ids[i]]++;
		return;
	}
	p->n_free -= n;
	ring_take(p, n, ids);
}

void kv_release(struct kv_pool *p, const int32_t *ids, int32_t n)
{
	if (p->cache)
		p->cache->release(p, ids, n);
	else
		ring_give(p, ids, n);
}

void kv_share(struct kv_pool *p, int32_t block)
{
	if (p->ref[block]++ > 0)
		p->extra_refs++;
	else
		p->cache->referenced(p, block);
}
