/* evict.h: which cached content goes first when room is needed: one file for each rule (evict_NAME.c).
 *
 * A rule ranks what may go; the lowest rank goes first. In a hash cache each unreferenced block has a rank, in a radix
 * tree each unlocked leaf; both keep them in a heap, so that an eviction costs O(log n). A hash cache by lru needs no
 * heap: the order in which blocks are freed is their order (core/prefix_hash.c). Blocks without known content go before
 * all others, in the order they were freed. Rules are defined for users in docs/prefix-caching.md. */
#ifndef CORE_EVICT_H
#define CORE_EVICT_H

#include <stdbool.h>
#include <stdint.h>

#include "core/prefix.h"

struct kv_radix;

/* What becomes of an unreferenced block's rank, by itself; `now` grows with every event. */
struct evict_blocks {
	uint64_t (*known)(uint64_t now); /* its content became known */
	uint64_t (*found)(uint64_t rank); /* one more request found it */
	uint64_t (*freed)(uint64_t rank, uint64_t now); /* the last request let go of it */
};

/* Leaves of a tree. */
struct evict_leaves {
	bool whole_nodes; /* a leaf goes with all pages of its node, not page by page */
	bool counts; /* needs radix.uses and .depth */
	bool by_birth; /* use does not renew a page's time */
	uint64_t (*rank)(const struct kv_radix *r, int32_t page);
	/* The clock that pages are stamped with: what it is after one of this rank has gone; NULL = it counts insertions and
	 * admissions. */
	uint32_t (*clock)(uint32_t clock, uint64_t gone);
};

struct evict_rule {
	const struct evict_blocks *blocks; /* NULL: not for a hash cache, or no ranks needed */
	const struct evict_leaves *leaves; /* NULL: not for a tree */
	const char *not_blocks; /* why it is not for a hash cache; NULL = it is */
};

extern const struct evict_rule evict_lru, evict_lfu, evict_fifo, evict_leaf_lru, evict_cost_aware;

const struct evict_rule *evict_rule_of(enum prefix_eviction eviction);

#endif
