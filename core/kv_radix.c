#include "core/kv_radix.h"

#include <string.h>

#include "core/err.h"
#include "core/evict.h"
#include "core/kv_index.h"
#include "core/mem.h"

#define ENDS 1u /* of kv_radix.below */
#define ONE_CHILD 2u

static int radix_init(struct kv_pool *p, struct err *e)
{
	struct kv_radix *r = mem_zalloc(1, sizeof *r);
	size_t n = (size_t)p->num_blocks;
	p->radix = r;
	if (!r)
		return err_no_memory(e, "prefix tree");
	r->page_tokens = p->block_size;
	r->leaves.rank = p->rule->leaves->rank;
	r->leaves.tree = r;
	r->parent = mem_alloc(n * sizeof *r->parent);
	r->below = mem_zalloc(n, sizeof *r->below);
	r->used = mem_zalloc(n, sizeof *r->used);
	bool counts = p->rule->leaves->counts;
	if (counts) {
		r->uses = mem_zalloc(n, sizeof *r->uses);
		r->depth = mem_zalloc(n, sizeof *r->depth);
	}
	if (!r->parent || !r->below || !r->used || (counts && (!r->uses || !r->depth)))
		return err_no_memory(e, "prefix tree");
	for (int32_t i = 0; i < p->num_blocks; i++)
		r->parent[i] = i + 1;
	r->parent[p->num_blocks - 1] = KV_NO_BLOCK;
	r->last_blank = p->num_blocks - 1;
	r->n_blank = p->num_blocks;
	return kv_heap_init(&r->leaves, p->num_blocks, e);
}

static void radix_destroy(struct kv_pool *p)
{
	struct kv_radix *r = p->radix;
	if (!r)
		return;
	kv_heap_free(&r->leaves);
	mem_free(r->parent);
	mem_free(r->below);
	mem_free(r->used);
	mem_free(r->uses);
	mem_free(r->depth);
	mem_free(r);
	p->radix = NULL;
}

/* --- blank blocks ------------------------------------------------------------------------------------------------ */

static void blank_add(struct kv_radix *r, int32_t block)
{
	*(r->n_blank ? &r->parent[r->last_blank] : &r->first_blank) = block;
	r->last_blank = block;
	r->parent[block] = KV_NO_BLOCK;
	r->n_blank++;
}

static int32_t blank_take(struct kv_radix *r)
{
	int32_t block = r->first_blank;
	r->first_blank = r->parent[block];
	r->n_blank--;
	return block;
}

/* --- going ---------------------------------------------------------------------------------------------------------- */

static void unreferenced(struct kv_pool *p, int32_t block)
{
	struct kv_radix *r = p->radix;
	p->n_free++;
	p->changes++;
	if (!p->content[block]) {
		blank_add(r, block);
		return;
	}
	p->n_cached++;
	if (!kv_radix_children(r, block))
		kv_heap_add(&r->leaves, block);
}

static void radix_referenced(struct kv_pool *p, int32_t block)
{
	p->n_free--;
	p->n_cached--;
	p->growth++;
	p->changes++;
	if (!kv_radix_children(p->radix, block))
		kv_heap_drop(&p->radix->leaves, block);
}

static uint16_t add_uses(uint32_t a, uint32_t b)
{
	return (uint16_t)(a + b < UINT16_MAX ? a + b : UINT16_MAX);
}

/* How a page was used is how its parent was. */
static void pass_on(struct kv_pool *p, int32_t block, int32_t parent)
{
	struct kv_radix *r = p->radix;
	if (!p->rule->leaves->by_birth && r->used[parent] < r->used[block])
		r->used[parent] = r->used[block];
	if (r->uses)
		r->uses[parent] = add_uses(r->uses[parent], r->uses[block]);
}

/* One page goes; whether its parent goes with it, as part of its node. */
static bool evict_page(struct kv_pool *p, int32_t block)
{
	struct kv_radix *r = p->radix;
	int32_t parent = r->parent[block];
	p->growth += kv_forget(p, block, p->content[block]);
	p->changes++;
	p->n_cached--;
	p->evicted++;
	blank_add(r, block);
	if (parent == KV_NO_BLOCK)
		return false;
	bool same_node = p->rule->leaves->whole_nodes && !(r->below[parent] & ENDS);
	pass_on(p, block, parent);
	r->below[parent] = (r->below[parent] - ONE_CHILD) | ENDS;
	if (kv_radix_children(r, parent) || p->ref[parent])
		return false;
	if (!same_node)
		kv_heap_add(&r->leaves, parent);
	return same_node;
}

static void evict_leaf(struct kv_pool *p)
{
	struct kv_radix *r = p->radix;
	const struct evict_leaves *rule = p->rule->leaves;
	int32_t block = r->leaves.at[0], parent;
	if (rule->clock)
		r->clock = rule->clock(r->clock, rule->rank(r, block));
	kv_heap_drop(&r->leaves, block);
	do {
		parent = r->parent[block];
	} while (evict_page(p, block) && (block = parent) != KV_NO_BLOCK);
}

static void radix_alloc(struct kv_pool *p, int32_t n, int32_t *ids)
{
	struct kv_radix *r = p->radix;
	while (r->n_blank < n)
		evict_leaf(p);
	for (int32_t i = 0; i < n; i++) {
		ids[i] = blank_take(r);
		p->ref[ids[i]] = 1;
	}
	p->n_free -= n;
}

static void radix_release(struct kv_pool *p, const int32_t *ids, int32_t n)
{
	for (int32_t i = n; i-- > 0;) {
		if (--p->ref[ids[i]])
			p->extra_refs--;
		else
			unreferenced(p, ids[i]);
	}
}

/* --- coming --------------------------------------------------------------------------------------------------------- */

static void tick(struct kv_pool *p)
{
	if (!p->rule->leaves->clock)
		p->radix->clock += p->radix->clock < UINT32_MAX;
}

void kv_radix_used(struct kv_pool *p, const int32_t *ids, int32_t n)
{
	struct kv_radix *r = p->radix;
	if (!n)
		return;
	int32_t end = ids[n - 1];
	tick(p);
	if (!p->rule->leaves->by_birth)
		r->used[end] = r->clock;
	if (r->uses)
		r->uses[end] = add_uses(r->uses[end], 1);
	r->below[end] |= ENDS;
}

/* A page that the tree lacks; `run`: the page before it came with it. */
static void add_page(struct kv_pool *p, int32_t block, uint64_t key, int32_t parent, bool run)
{
	struct kv_radix *r = p->radix;
	bool first = parent == KV_NO_BLOCK;
	r->parent[block] = parent;
	r->below[block] = 0;
	r->used[block] = r->clock;
	if (r->uses) {
		r->uses[block] = 0;
		r->depth[block] = first ? 0 : add_uses(r->depth[parent], 1);
	}
	if (!first)
		r->below[parent] = (r->below[parent] + ONE_CHILD) | (run ? 0 : ENDS);
	kv_remember(p, block, key);
}

int32_t kv_radix_insert(struct kv_pool *p, int32_t *ids, const uint64_t *keys, int32_t from, int32_t to)
{
	struct kv_radix *r = p->radix;
	int32_t replaced = 0;
	bool run = false;
	tick(p);
	for (int32_t i = from; i < to; i++) {
		int32_t there = kv_lookup(p, keys[i - from]);
		if (there == KV_NO_BLOCK) {
			add_page(p, ids[i], keys[i - from], i ? ids[i - 1] : KV_NO_BLOCK, run);
			run = true;
			continue;
		}
		kv_share(p, there);
		radix_release(p, &ids[i], 1);
		ids[i] = there;
		replaced++;
		run = false;
		if (!p->rule->leaves->by_birth)
			r->used[there] = r->clock;
	}
	if (to)
		r->below[ids[to - 1]] |= ENDS;
	p->duplicates += replaced;
	return replaced;
}

/* --- check ---------------------------------------------------------------------------------------------------------- */

static const char *check_page(const struct kv_pool *p, int32_t b)
{
	const struct kv_radix *r = p->radix;
	int32_t up = r->parent[b];
	bool may_go = !p->ref[b] && !kv_radix_children(r, b);
	if (kv_lookup(p, p->content[b]) != b)
		return "a content is in the prefix tree twice, or cannot be found";
	if (up != KV_NO_BLOCK && !p->content[up])
		return "a page of the prefix tree has lost its parent";
	if (up != KV_NO_BLOCK && p->ref[up] < p->ref[b])
		return "a page of the prefix tree is locked more often than its parent";
	if (!(r->below[b] & ENDS) && kv_radix_children(r, b) != 1)
		return "a node of the prefix tree goes on with no page or with several";
	if (r->uses && up != KV_NO_BLOCK && r->depth[b] != add_uses(r->depth[up], 1))
		return "a page of the prefix tree is not one below its parent";
	if (may_go != kv_heap_has(&r->leaves, b))
		return "an unlocked leaf is not among those that may go, or something else is";
	return NULL;
}

static const char *check_counts(const struct kv_pool *p, int32_t *children)
{
	const struct kv_radix *r = p->radix;
	int32_t blank = 0;
	memset(children, 0, (size_t)p->num_blocks * sizeof *children);
	for (int32_t b = 0; b < p->num_blocks; b++)
		if (p->content[b] && r->parent[b] != KV_NO_BLOCK)
			children[r->parent[b]]++;
	for (int32_t b = 0; b < p->num_blocks; b++)
		if (p->content[b] && (uint32_t)children[b] != kv_radix_children(r, b))
			return "a page of the prefix tree miscounts its children";
	for (int32_t b = r->first_blank; blank < r->n_blank; b = r->parent[b], blank++)
		if (p->content[b] || p->ref[b])
			return "a blank block is held or has content";
	return blank + p->n_cached == p->n_free ? NULL : "blank and evictable blocks are not the free ones";
}

const char *kv_radix_check(const struct kv_pool *p, int32_t *scratch)
{
	for (int32_t i = 0; i < p->radix->leaves.n; i++)
		if (!p->content[p->radix->leaves.at[i]])
			return "a block without content is to be evicted";
	for (int32_t b = 0; b < p->num_blocks; b++) {
		const char *wrong = p->content[b] ? check_page(p, b) : NULL;
		if (wrong)
			return wrong;
	}
	const char *wrong = kv_heap_check(&p->radix->leaves);
	return wrong ? wrong : check_counts(p, scratch);
}

const struct prefix_ops prefix_radix_ops = {.tree = true,
					    .init = radix_init,
					    .destroy = radix_destroy,
					    .alloc = radix_alloc,
					    .release = radix_release,
					    .referenced = radix_referenced,
					    .used = kv_radix_used,
					    .insert = kv_radix_insert,
					    .check = kv_radix_check};
