/* cost-aware: the leaf that is cheapest to do without: how often it was asked for x what computing one of its pages again
 * costs, aged as in GreedyDual-Size with Frequency (Cherkasova, HPL-98-69): a page's priority counts from the priority
 * of what was evicted last when it was used, so that past popularity wears off. Pages are of one size, so cost per size is
 * cost per page.
 *
 * A page costs its share of the weights and attention to all before it, 1 + context / 32,768: for models of some 8 billion
 * parameters attention over about 32,000 tokens costs as many operations as the weights (2 P against 4 x layers x width
 * x context for each token). In 64ths, so that it is an integer.
 *
 * Without a tree the beginning of a prompt, cheapest and of no less use than the rest, would go before what cannot be
 * found without it. */
#include "core/evict.h"
#include "core/kv_radix.h"

static uint64_t rank(const struct kv_radix *r, int32_t page)
{
	uint64_t cost = 64 + (uint64_t)r->depth[page] * (uint64_t)r->page_tokens / 512;
	return r->used[page] + (1 + (uint64_t)r->uses[page]) * cost;
}

static uint32_t clock(uint32_t clock, uint64_t gone)
{
	(void)clock;
	return gone < UINT32_MAX ? (uint32_t)gone : UINT32_MAX;
}

static const struct evict_leaves leaves = {.whole_nodes = true, .counts = true, .rank = rank, .clock = clock};

const struct evict_rule evict_cost_aware = {
	.leaves = &leaves,
	.not_blocks =
		"a hash cache would drop the beginnings of prompts, cheapest to compute, before what cannot be found "
		"without them"};
