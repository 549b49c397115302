/* kv_pool.h: the paged KV memory: fixed blocks, reference counts, a free list in least-recently-freed order, and (with
 * prefix caching) the content each block holds.
 *
 * The free list is a ring of block ids. A block taken out of its middle (a prefix hit on an unreferenced block)
 * leaves a hole that allocation steps over; the ring is rewritten when holes fill it, which costs O(1) amortised. So
 * allocating and freeing n blocks is one pass over an array, in exact LRU order.
 */
#ifndef CORE_KV_POOL_H
#define CORE_KV_POOL_H

#include <stdbool.h>
#include <stdint.h>

struct err;

#define KV_NO_BLOCK (-1)

struct kv_slot { /* one place of the content index */
	uint64_t key; /* 0 = empty */
	int32_t block;
};

struct kv_pool {
	int32_t num_blocks;
	int32_t block_size; /* tokens */
	int32_t n_free; /* unreferenced, cached or not */
	int32_t n_cached; /* of them, holding known content */
	int64_t extra_refs; /* sum over blocks of (count - 1), for counts above 1: what sharing saves */
	int64_t evicted; /* blocks whose content was dropped for new use */

	int32_t *ring; /* [ring_mask + 1] ids in the order they were freed; KV_NO_BLOCK = hole */
	int64_t head, tail, ring_mask;

	/* With caching only, else NULL: without it every block is in at most one table. */
	int32_t *ref; /* [num_blocks] block tables that hold it */
	int64_t *ring_pos; /* [num_blocks] where a free block stands in the ring */
	uint64_t *content; /* [num_blocks] identity of a full block's content, 0 = none */
	struct kv_slot *index; /* [index_mask + 1] identity -> block, open addressing; equal keys oldest first */
	int64_t index_mask;
	/* Grows when a lookup made before could find more now: content was added or a block became referenced. */
	uint64_t growth;
	uint64_t changes; /* grows with anything that could change a lookup's answer or who holds what it found */
};

int kv_pool_init(struct kv_pool *p, int32_t num_blocks, int32_t block_size, bool caching, struct err *e);
void kv_pool_free(struct kv_pool *p);

/* Takes n blocks off the free list, oldest first, into ids[]; the caller has checked n <= n_free. Their old content is
 * forgotten. */
void kv_alloc(struct kv_pool *p, int32_t n, int32_t *ids);

/* The same for one block where nothing is cached (ref == NULL); decoding asks for them one by one. */
static inline int32_t kv_alloc_plain(struct kv_pool *p)
{
	p->n_free--;
	return p->ring[p->head++ & p->ring_mask];
}

/* Drops one reference from each; those that fall to none join the free list, the last one first, and keep their
 * content. */
void kv_release(struct kv_pool *p, const int32_t *ids, int32_t n);

/* One more reference to a block found by lookup; takes it off the free list if it was there. */
void kv_share(struct kv_pool *p, int32_t block);

/* Content identity (64-bit chain hash, core/content.h): with 10 million blocks two different ones collide with
 * probability below 3e-6. */
void kv_remember(struct kv_pool *p, int32_t block, uint64_t key);
/* A full block turns out not to have been written: its content is nobody's. */
void kv_disown(struct kv_pool *p, int32_t block);
int32_t kv_lookup(const struct kv_pool *p, uint64_t key); /* KV_NO_BLOCK = not there */

static inline int32_t kv_blocks_for(int64_t tokens, int32_t block_size)
{
	return (int32_t)((tokens + block_size - 1) / block_size);
}

#endif
