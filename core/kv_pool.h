/* kv_pool.h: the paged KV memory: fixed blocks, reference counts, a free list in least-recently-freed order, and (with
 * prefix caching) the content each block holds.
 *
 * The free list is a ring of block ids. A block taken out of its middle (a prefix hit on an unreferenced block)
 * leaves a hole that allocation steps over; the ring is rewritten when holes fill it, which costs O(1) amortised. So
 * allocating and freeing n blocks is one pass over an array, in exact LRU order.
 *
 * Caching costs at most 48 bytes a block: 20 and a bit for what is known of each, up to 11 for the ring (a third more places than
 * blocks, rounded up to a power of two) and up to 16 for the heads of chains (twice as many as blocks, rounded up).
 */
#ifndef CORE_KV_POOL_H
#define CORE_KV_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include "core/prefix.h"

struct err;
struct evict_rule;
struct kv_radix;
struct kv_ranked;

#define KV_NO_BLOCK (-1)

struct kv_pool {
	int32_t num_blocks;
	int32_t block_size; /* tokens */
	int32_t n_free; /* unreferenced, cached or not */
	int32_t n_cached; /* of them, holding known content */
	int64_t extra_refs; /* sum over blocks of (count - 1), for counts above 1: what sharing saves */
	int64_t evicted; /* blocks whose content was dropped for new use */
	int64_t duplicates; /* blocks filled with content that another one had: those that are no more (kv_duplicates) */

	const struct prefix_ops *cache; /* what knows contents; NULL = nothing does */
	const struct evict_rule *rule; /* what goes first from it */
	struct kv_radix *radix; /* a prefix tree instead of the ring, or NULL */
	struct kv_ranked *ranked; /* ranks for each block instead of the ring, or NULL */
	struct prefix_watcher watcher; /* .losing NULL = nobody saves what is evicted */

	int32_t *ring; /* [ring_mask + 1] ids in the order they were freed; KV_NO_BLOCK = hole */
	int64_t head, tail, ring_mask;

	/* With caching or forks only, else NULL: without them every block is in at most one table. */
	int32_t *ref; /* [num_blocks] block tables that hold it */
	uint32_t *taken; /* with forks, else NULL: [num_blocks] how often it was given for new use */
	uint32_t *ring_at; /* [num_blocks] where a free block stands in the ring */
	uint64_t *content; /* [num_blocks] identity of a full block's content, 0 = none */
	/* Identity -> block: chains of blocks, the last remembered first. */
	int32_t *chain; /* [chain_mask + 1] first block of each, KV_NO_BLOCK = none */
	int32_t *chain_next; /* [num_blocks] the next one of the same chain, for blocks with content */
	int64_t chain_mask;
	/* Grows when a lookup that stopped at the page `watch` could find more now, or the same at less cost: that page was
	 * added, a block became referenced, or one that it had found (kv_watch) was given away, so that its page could be
	 * added anew by somebody who holds it. */
	uint64_t growth;
	uint8_t *found; /* [num_blocks / 8 + 1] a bit for each block that kv_watch was told of, which are */
	int32_t *found_ids; /* [n_found] */
	int64_t n_found, cap_found;
	uint64_t watch; /* 0 = it did not stop for want of a page */
	uint64_t changes; /* grows with anything that could change a lookup's answer or who holds what it found */
};

/* ERR_INPUT for an eviction rule that does not go with the cache. */
int kv_pool_init(struct kv_pool *p, int32_t num_blocks, int32_t block_size, enum prefix_cache cache,
		 enum prefix_eviction eviction, struct err *e);
/* The same where requests share blocks by kv_share whatever is cached, and ask for `taken`; not with a tree. Without a cache it
 * is the hash cache that nobody tells of a content. */
int kv_pool_init_shared(struct kv_pool *p, int32_t num_blocks, int32_t block_size, enum prefix_cache cache,
			enum prefix_eviction eviction, struct err *e);
/* With forks: may a block be shared that still holds what it held? Those that nobody holds and of which no content is known are kept
 * apart by the ring alone. */
bool kv_can_share(const struct kv_pool *p, int32_t block);
void kv_pool_free(struct kv_pool *p);

/* Takes n blocks off the free list, oldest first, into ids[]; the caller has checked n <= n_free. Their old content is
 * forgotten. */
void kv_alloc(struct kv_pool *p, int32_t n, int32_t *ids);

/* The same for one block where nothing is shared (ref == NULL); decoding asks for them one by one. */
static inline int32_t kv_alloc_plain(struct kv_pool *p)
{
	p->n_free--;
	return p->ring[p->head++ & p->ring_mask];
}

/* A lookup found these blocks and stopped at the page `missed` (0: it found all): growth tells when it could fare better.
 * The blocks of the lookup before are forgotten. */
int kv_watch(struct kv_pool *p, const int32_t *ids, int32_t n, uint64_t missed, struct err *e);

/* Drops one reference from each; those that fall to none join the free list, the last one first, and keep their
 * content. */
void kv_release(struct kv_pool *p, const int32_t *ids, int32_t n);

/* One more reference to a block found by lookup, or one whose content nobody has overwritten; takes it off the free list if it
 * was there. */
void kv_share(struct kv_pool *p, int32_t block);

/* Content identity (64-bit chain hash, core/content.h): with 10 million blocks two different ones collide with
 * probability below 3e-6. */
void kv_remember(struct kv_pool *p, int32_t block, uint64_t key);
void kv_remember_all(struct kv_pool *p, const int32_t *ids, const uint64_t *keys, int32_t n);
/* A full block turns out not to have been written: its content is nobody's. */
void kv_disown(struct kv_pool *p, int32_t block);
int32_t kv_lookup(const struct kv_pool *p, uint64_t key); /* KV_NO_BLOCK = not there */
/* The blocks of consecutive pages, as far as all are there: how many. */
int32_t kv_lookup_run(const struct kv_pool *p, const uint64_t *keys, int32_t n, int32_t *ids);

/* The ring as a free list, with room for so many holes (prefix_hash.c). */
int kv_ring_init(struct kv_pool *p, int64_t holes, struct err *e);

/* Blocks that were ever filled with content that another one had: those that a tree gave back, those whose content has gone
 * while another had it still, and those that are there. Walks all blocks. */
int64_t kv_duplicates(const struct kv_pool *p);

static inline int32_t kv_blocks_for(int64_t tokens, int32_t block_size)
{
	return (int32_t)((tokens + block_size - 1) / block_size);
}

#endif
