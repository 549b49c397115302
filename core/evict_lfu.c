/* lfu: what was found least often since its content is known; of equals, what was used longest ago. A tree counts requests
 * whose prefix ended at a page or below it. */
#include "core/evict.h"
#include "core/kv_radix.h"

#define WHEN_BITS 40 /* a block's rank: how often, then when it was freed */
#define WHEN_MASK ((UINT64_C(1) << WHEN_BITS) - 1)
#define OFTEN_MAX (UINT64_MAX >> WHEN_BITS)

static uint64_t known(uint64_t now)
{
	return now & WHEN_MASK;
}

static uint64_t found(uint64_t rank)
{
	return rank >> WHEN_BITS < OFTEN_MAX ? rank + (UINT64_C(1) << WHEN_BITS) : rank;
}

static uint64_t freed(uint64_t rank, uint64_t now)
{
	return (rank & ~WHEN_MASK) | (now & WHEN_MASK);
}

static uint64_t leaf_rank(const struct kv_radix *r, int32_t page)
{
	return (uint64_t)r->uses[page] << 32 | r->used[page];
}

static const struct evict_blocks blocks = {known, found, freed};
static const struct evict_leaves leaves = {.whole_nodes = true, .counts = true, .rank = leaf_rank};

const struct evict_rule evict_lfu = {.blocks = &blocks, .leaves = &leaves};
