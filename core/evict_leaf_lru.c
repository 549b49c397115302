/* leaf-lru: the unlocked leaf node used longest ago, whole (SGLang's radix cache, its default). Only a tree has leaves. */
#include "core/evict.h"
#include "core/kv_radix.h"

static uint64_t rank(const struct kv_radix *r, int32_t page)
{
	return r->used[page];
}

static const struct evict_leaves leaves = {.whole_nodes = true, .rank = rank};

const struct evict_rule evict_leaf_lru = {.leaves = &leaves,
					  .not_blocks = "a hash cache knows each block by itself, so none is a leaf"};
