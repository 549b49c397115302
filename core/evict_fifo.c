/* fifo: what became known first, however often it was used since. Of what became known at once a block further into its
 * prompt goes first. */
#include "core/evict.h"
#include "core/kv_radix.h"

static uint64_t known(uint64_t now)
{
	return now;
}

static uint64_t found(uint64_t rank)
{
	return rank;
}

static uint64_t freed(uint64_t rank, uint64_t now)
{
	(void)now;
	return rank;
}

static uint64_t leaf_rank(const struct kv_radix *r, int32_t page)
{
	return r->used[page];
}

static const struct evict_blocks blocks = {known, found, freed};
static const struct evict_leaves leaves = {.whole_nodes = true, .by_birth = true, .rank = leaf_rank};

const struct evict_rule evict_fifo = {.blocks = &blocks, .leaves = &leaves};
