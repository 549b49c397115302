/* kv_heap.h: unreferenced blocks, the one that goes first on top; for the caches that rank them (core/evict.h). Of equal
 * ranks the lower block number goes first. */
#ifndef CORE_KV_HEAP_H
#define CORE_KV_HEAP_H

#include <stdbool.h>
#include <stdint.h>

struct err;
struct kv_radix;

struct kv_heap {
	int32_t *at; /* [n] */
	int32_t *place; /* [num_blocks] where a block stands, if it does */
	int32_t n;
	/* A block's rank does not change while it is here: one number each, or worked out from what a tree knows. */
	const uint64_t *ranks;
	uint64_t (*rank)(const struct kv_radix *tree, int32_t block);
	const struct kv_radix *tree;
};

int kv_heap_init(struct kv_heap *h, int32_t num_blocks, struct err *e);
void kv_heap_free(struct kv_heap *h);
void kv_heap_add(struct kv_heap *h, int32_t block);
void kv_heap_drop(struct kv_heap *h, int32_t block);

static inline uint64_t kv_heap_rank(const struct kv_heap *h, int32_t block)
{
	return h->ranks ? h->ranks[block] : h->rank(h->tree, block);
}

static inline bool kv_heap_has(const struct kv_heap *h, int32_t block)
{
	int32_t at = h->place[block];
	return at >= 0 && at < h->n && h->at[at] == block;
}

/* NULL or what is wrong: a block that goes before the one above it. */
const char *kv_heap_check(const struct kv_heap *h);

#endif
