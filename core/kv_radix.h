/* kv_radix.h: a prefix tree over the blocks of a paged pool (SGLang's radix cache; POLICIES of the published system in
 * docs/prefix-caching.md).
 *
 * Known content is a tree: a page's parent is the page before it. A node is a run of pages that came in together; it is
 * split where a lookup or an insertion ends or branches off within it. What no running request holds may go, a leaf at a
 * time, the one first that the eviction rule ranks lowest (core/evict.h); a parent becomes a leaf when its last child has
 * gone.
 *
 * A page's identity is that of its whole prefix (core/content.h), so a child is found by identity alone and the tree needs
 * no edges downwards: each page knows its parent, how many children it has, and whether its node ends with it. Nothing
 * is allocated after the start. A running request's table begins with pages of the tree, all the way from the root, so
 * counting the tables that hold a page is counting the locks on it and below it.
 *
 * When and how often a prefix was used is kept at its end alone, and passed on to the parent when that page goes: so using
 * a prefix costs the same however long it is, and a leaf knows all that is needed to rank it.
 *
 * Unreferenced blocks are either blank (on a list, oldest first) or evictable (in the tree); both count as free. */
#ifndef CORE_KV_RADIX_H
#define CORE_KV_RADIX_H

#include <stdbool.h>
#include <stdint.h>

#include "core/kv_heap.h"

struct err;
struct kv_pool;

struct kv_radix { /* with the chains of the pool at most 48 bytes a block */
	int32_t *
		parent; /* [num_blocks] the page before, KV_NO_BLOCK = first page; of a blank block: the next blank one */
	uint32_t *below; /* [num_blocks] 2 x children, + 1 when its node ends with it */
	uint32_t *used; /* [num_blocks] when it was last used, on the scale of `clock` */
	/* For rules that count, else NULL. Both stay at their largest value. */
	uint16_t *uses; /* [num_blocks] requests that found the prefix that ends here, or did before its end went */
	uint16_t *depth; /* [num_blocks] pages before it */
	struct kv_heap leaves; /* pages that may go: unreferenced, no children */
	int32_t first_blank, last_blank, n_blank;
	int32_t page_tokens;
	uint32_t
		clock; /* admissions and insertions so far, or what the eviction rule makes of it; stays at its largest value */
};

static inline uint32_t kv_radix_children(const struct kv_radix *r, int32_t page)
{
	return r->below[page] >> 1;
}

/* struct prefix_ops: used, insert and check (core/prefix.h).
 * A request was admitted with these pages, all that the tree has of its prompt. */
void kv_radix_used(struct kv_pool *p, const int32_t *ids, int32_t n);

/* The content of a table's pages `from` ... `to` - 1 has been computed: they join the tree after page from - 1, which is in it.
 * Where it has a page already that one takes the table's place and the table's own is given back: ids[] changes. How many
 * did. */
int32_t kv_radix_insert(struct kv_pool *p, int32_t *ids, const uint64_t *keys, int32_t from, int32_t to);

/* Parents, children, locks, nodes and the heap against each other; NULL or what is wrong. scratch is [num_blocks]. */
const char *kv_radix_check(const struct kv_pool *p, int32_t *scratch);

#endif
