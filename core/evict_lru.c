/* lru: what was used longest ago. Blocks: freed longest ago, of one table the last first (vLLM), which is the order of
 * the free list itself. Leaves: page by page, the one whose last use, as the end of a prefix or before it, lies furthest
 * back; so no more goes than is needed. */
#include "core/evict.h"
#include "core/kv_radix.h"

static uint64_t rank(const struct kv_radix *r, int32_t page)
{
	return r->used[page];
}

static const struct evict_leaves leaves = {.rank = rank};

const struct evict_rule evict_lru = {.leaves = &leaves};
