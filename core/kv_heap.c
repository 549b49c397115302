#include "core/kv_heap.h"

#include <string.h>

#include "core/err.h"
#include "core/mem.h"

int kv_heap_init(struct kv_heap *h, int32_t num_blocks, struct err *e)
{
	h->at = mem_alloc((size_t)num_blocks * sizeof *h->at);
	h->place = mem_zalloc((size_t)num_blocks, sizeof *h->place);
	return h->at && h->place ? ERR_NONE : err_no_memory(e, "prefix cache");
}

void kv_heap_free(struct kv_heap *h)
{
	mem_free(h->at);
	mem_free(h->place);
	memset(h, 0, sizeof *h);
}

static bool before(const struct kv_heap *h, uint64_t rank, int32_t block, int32_t other)
{
	uint64_t theirs = kv_heap_rank(h, other);
	return rank != theirs ? rank < theirs : block < other;
}

static void put(struct kv_heap *h, int32_t at, int32_t block)
{
	h->at[at] = block;
	h->place[block] = at;
}

static void up(struct kv_heap *h, int32_t at, int32_t block)
{
	uint64_t rank = kv_heap_rank(h, block);
	for (int32_t above = (at - 1) / 2; at > 0 && before(h, rank, block, h->at[above]);
	     at = above, above = (at - 1) / 2)
		put(h, at, h->at[above]);
	put(h, at, block);
}

static void down(struct kv_heap *h, int32_t at, int32_t block)
{
	uint64_t rank = kv_heap_rank(h, block);
	for (int64_t below; (below = 2 * (int64_t)at + 1) < h->n; at = (int32_t)below) {
		if (below + 1 < h->n && before(h, kv_heap_rank(h, h->at[below + 1]), h->at[below + 1], h->at[below]))
			below++;
		if (before(h, rank, block, h->at[below]))
			break;
		put(h, at, h->at[below]);
	}
	put(h, at, block);
}

void kv_heap_add(struct kv_heap *h, int32_t block)
{
	up(h, h->n++, block);
}

void kv_heap_drop(struct kv_heap *h, int32_t block)
{
	int32_t at = h->place[block], last = h->at[--h->n];
	if (last == block)
		return;
	up(h, at, last);
	down(h, h->place[last], last);
}

const char *kv_heap_check(const struct kv_heap *h)
{
	for (int32_t i = 0; i < h->n; i++) {
		int32_t above = h->at[i ? (i - 1) / 2 : 0];
		if (h->place[h->at[i]] != i)
			return "a block does not know its place among those that may go";
		if (i && before(h, kv_heap_rank(h, h->at[i]), h->at[i], above))
			return "of two blocks the one that should go later would go first";
	}
	return NULL;
}
