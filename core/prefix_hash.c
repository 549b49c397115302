/* The hash cache (vLLM): each full block is known by itself, and goes by itself, the one freed longest ago first. The
 * free list is the pool's ring; a block that is found leaves a hole in it. */
#include "core/err.h"
#include "core/kv_index.h"
#include "core/mem.h"

#include <stddef.h>

static int hash_init(struct kv_pool *p, struct err *e)
{
	p->ring_at = mem_alloc((size_t)p->num_blocks * sizeof *p->ring_at);
	if (!p->ring_at)
		return err_no_memory(e, "prefix cache");
	for (int32_t i = 0; i < p->num_blocks; i++)
		p->ring_at[i] = (uint32_t)i;
	return kv_ring_init(p, p->num_blocks / 3 + 1, e);
}

static void hash_destroy(struct kv_pool *p)
{
	mem_free(p->ring_at);
	mem_free(p->ring);
	p->ring_at = NULL;
	p->ring = NULL;
}

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

/* The next n blocks of the ring and what they hold. After a while the ring is in no order, and what is known of each block
 * lies far apart: nothing here waits for it. */
static int64_t take_blocks(struct kv_pool *p, int64_t at, int32_t n, int32_t *ids, uint64_t *keys)
{
	const int32_t *ring = p->ring;
	int64_t mask = p->ring_mask;
	for (int32_t i = 0; i < n; at++) {
		int32_t id = ring[at & mask];
		if (id == KV_NO_BLOCK)
			continue;
		p->ref[id] = 1;
		ids[i] = id;
		keys[i] = p->content[id];
		__builtin_prefetch(&p->chain_next[id], 1);
		__builtin_prefetch(kv_chain_of(p, keys[i++]), 1);
	}
	return at;
}

/* Blocks that are given away forget what they held. */
static void hash_alloc(struct kv_pool *p, int32_t n, int32_t *ids)
{
	enum { BATCH = 32 };
	uint64_t keys[BATCH], grown = 0;
	int32_t forgotten = 0;
	bool watched = p->watcher.losing != NULL;
	for (int32_t from = 0; from < n; from += BATCH) {
		int32_t m = n - from < BATCH ? n - from : BATCH, *batch = ids + from;
		p->head = take_blocks(p, p->head, m, batch, keys);
		for (int32_t i = 0; i < m; i++) {
			int32_t id = batch[i], *first = kv_chain_of(p, keys[i]);
			if (!keys[i])
				continue;
			forgotten++;
			if (watched || *first != id || p->chain_next[id] != KV_NO_BLOCK) {
				grown += kv_forget(p, id, keys[i]);
				continue;
			}
			grown += kv_was_found(p, id);
			*first = KV_NO_BLOCK; /* mostly a chain holds one block */
			p->content[id] = 0;
		}
	}
	p->n_free -= n;
	p->n_cached -= forgotten;
	p->evicted += forgotten;
	p->changes += (uint64_t)forgotten;
	p->growth += grown;
}

/* The last one first, as often as there is room in the ring. */
static void hash_release(struct kv_pool *p, const int32_t *ids, int32_t n)
{
	if (p->tail + n - p->head > p->ring_mask + 1)
		ring_compact(p);
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

static void hash_referenced(struct kv_pool *p, int32_t block)
{
	p->ring[p->ring_at[block]] = KV_NO_BLOCK;
	p->n_free--;
	p->n_cached -= p->content[block] != 0;
	p->growth++;
	p->changes++;
}

static void hash_used(struct kv_pool *p, const int32_t *ids, int32_t n)
{
	(void)p, (void)ids, (void)n; /* when it was freed counts, not when it was found */
}

static int32_t hash_insert(struct kv_pool *p, int32_t *ids, const uint64_t *keys, int32_t from, int32_t to)
{
	kv_remember_all(p, ids + from, keys, to - from);
	return 0;
}

static const char *hash_check(const struct kv_pool *p, int32_t *scratch)
{
	(void)scratch;
	int32_t free = 0;
	for (int64_t at = p->head; at < p->tail; at++) {
		int32_t id = p->ring[at & p->ring_mask];
		if (id == KV_NO_BLOCK)
			continue;
		free++;
		if (p->ref[id])
			return "a block is on the free list and held";
		if (p->ring_at[id] != (uint32_t)(at & p->ring_mask))
			return "a free block does not know its place in the ring";
	}
	for (int32_t b = 0; b < p->num_blocks; b++)
		if (p->content[b] && !kv_chain_has(p, *kv_chain_of(p, p->content[b]), p->content[b]))
			return "a content cannot be found";
	return free == p->n_free ? NULL : "the free list is not the free blocks";
}

const struct prefix_ops prefix_hash_ops = {.init = hash_init,
					   .destroy = hash_destroy,
					   .alloc = hash_alloc,
					   .release = hash_release,
					   .referenced = hash_referenced,
					   .used = hash_used,
					   .insert = hash_insert,
					   .check = hash_check};
