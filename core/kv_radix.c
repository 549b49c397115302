#include "core/kv_radix.h"

#include <string.h>

#include "core/err.h"
#include "core/kv_index.h"
#include "core/mem.h"

static int radix_init(struct kv_pool *p, struct err *e)
{
	struct kv_radix *r = mem_zalloc(1, sizeof *r);
	size_t n = (size_t)p->num_blocks;
	p->radix = r;
	if (!r)
		return err_no_memory(e, "prefix tree");
	r->parent = mem_alloc(n * sizeof *r->parent);
	r->more = mem_alloc(n * sizeof *r->more);
	r->children = mem_zalloc(n, sizeof *r->children);
	r->used = mem_zalloc(n, sizeof *r->used);
	r->heap = mem_alloc(n * sizeof *r->heap);
	r->heap_at = mem_zalloc(n, sizeof *r->heap_at);
	if (!r->parent || !r->more || !r->children || !r->used || !r->heap || !r->heap_at)
		return err_no_memory(e, "prefix tree");
	for (int32_t i = 0; i < p->num_blocks; i++)
		r->parent[i] = i + 1;
	r->parent[p->num_blocks - 1] = KV_NO_BLOCK;
	r->last_blank = p->num_blocks - 1;
	r->n_blank = p->num_blocks;
	return ERR_NONE;
}

static void radix_destroy(struct kv_pool *p)
{
	struct kv_radix *r = p->radix;
	if (!r)
		return;
	mem_free(r->parent);
	mem_free(r->more);
	mem_free(r->children);
	mem_free(r->used);
	mem_free(r->heap);
	mem_free(r->heap_at);
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

/* --- leaves that may go, a heap ------------------------------------------------------------------------------------ */

static bool goes_before(const struct kv_radix *r, int32_t a, int32_t b)
{
	return r->used[a] != r->used[b] ? r->used[a] < r->used[b] : a < b;
}

static void heap_set(struct kv_radix *r, int32_t at, int32_t block)
{
	r->heap[at] = block;
	r->heap_at[block] = at;
}

static void heap_up(struct kv_radix *r, int32_t at, int32_t block)
{
	for (int32_t up = (at - 1) / 2; at > 0 && goes_before(r, block, r->heap[up]); at = up, up = (at - 1) / 2)
		heap_set(r, at, r->heap[up]);
	heap_set(r, at, block);
}

static void heap_down(struct kv_radix *r, int32_t at, int32_t block)
{
	for (int64_t down; (down = 2 * (int64_t)at + 1) < r->n_leaves; at = (int32_t)down) {
		if (down + 1 < r->n_leaves && goes_before(r, r->heap[down + 1], r->heap[down]))
			down++;
		if (!goes_before(r, r->heap[down], block))
			break;
		heap_set(r, at, r->heap[down]);
	}
	heap_set(r, at, block);
}

static void leaf_add(struct kv_radix *r, int32_t block)
{
	heap_up(r, r->n_leaves++, block);
}

static void leaf_drop(struct kv_radix *r, int32_t block)
{
	int32_t at = r->heap_at[block], last = r->heap[--r->n_leaves];
	if (last == block)
		return;
	heap_up(r, at, last);
	heap_down(r, r->heap_at[last], last);
}

/* --- use ------------------------------------------------------------------------------------------------------------ */

static void tick(struct kv_radix *r)
{
	r->clock += r->clock < UINT32_MAX;
}

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
	if (!r->children[block])
		leaf_add(r, block);
}

static void radix_referenced(struct kv_pool *p, int32_t block)
{
	p->n_free--;
	p->n_cached--;
	p->growth++;
	p->changes++;
	if (!p->radix->children[block])
		leaf_drop(p->radix, block);
}

/* One page goes; whether its parent belongs to the same node. */
static bool evict_page(struct kv_pool *p, int32_t block)
{
	struct kv_radix *r = p->radix;
	int32_t parent = r->parent[block];
	bool same_node = parent != KV_NO_BLOCK && r->more[parent] == block;
	p->growth += kv_forget(p, block, p->content[block]);
	p->changes++;
	p->n_cached--;
	p->evicted++;
	blank_add(r, block);
	if (parent == KV_NO_BLOCK)
		return false;
	if (same_node)
		r->more[parent] = KV_NO_BLOCK;
	if (r->used[parent] < r->used[block])
		r->used[parent] = r->used[block];
	if (--r->children[parent] || p->ref[parent])
		return false;
	if (!same_node)
		leaf_add(r, parent);
	return same_node;
}

static void evict_leaf(struct kv_pool *p)
{
	int32_t block = p->radix->heap[0], parent;
	leaf_drop(p->radix, block);
	do {
		parent = p->radix->parent[block];
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

void kv_radix_used(struct kv_pool *p, const int32_t *ids, int32_t n)
{
	struct kv_radix *r = p->radix;
	if (!n)
		return;
	tick(r);
	r->used[ids[n - 1]] = r->clock;
	r->more[ids[n - 1]] = KV_NO_BLOCK;
}

/* A page that the tree lacks; `run`: the page before it came with it. */
static void add_page(struct kv_pool *p, int32_t block, uint64_t key, int32_t parent, bool run)
{
	struct kv_radix *r = p->radix;
	r->parent[block] = parent;
	r->children[block] = 0;
	r->more[block] = KV_NO_BLOCK;
	if (parent != KV_NO_BLOCK) {
		r->children[parent]++;
		r->more[parent] = run ? block : KV_NO_BLOCK;
	}
	kv_remember(p, block, key);
}

int32_t kv_radix_insert(struct kv_pool *p, int32_t *ids, const uint64_t *keys, int32_t from, int32_t to)
{
	struct kv_radix *r = p->radix;
	int32_t replaced = 0;
	bool run = false;
	tick(r);
	for (int32_t i = from; i < to; i++) {
		int32_t there = kv_lookup(p, keys[i - from]);
		if (there == KV_NO_BLOCK) {
			add_page(p, ids[i], keys[i - from], i ? ids[i - 1] : KV_NO_BLOCK, run);
			run = true;
		} else {
			kv_share(p, there);
			kv_release(p, &ids[i], 1);
			ids[i] = there;
			replaced++;
			run = false;
		}
		r->used[ids[i]] = r->clock;
	}
	if (to)
		r->more[ids[to - 1]] = KV_NO_BLOCK;
	p->duplicates += replaced;
	return replaced;
}

/* --- check ---------------------------------------------------------------------------------------------------------- */

static const char *check_page(const struct kv_pool *p, int32_t b)
{
	const struct kv_radix *r = p->radix;
	int32_t up = r->parent[b], more = r->more[b];
	bool may_go = !p->ref[b] && !r->children[b];
	if (kv_lookup(p, p->content[b]) != b)
		return "a content is in the prefix tree twice, or cannot be found";
	if (up != KV_NO_BLOCK && !p->content[up])
		return "a page of the prefix tree has lost its parent";
	if (up != KV_NO_BLOCK && p->ref[up] < p->ref[b])
		return "a page of the prefix tree is locked more often than its parent";
	if (more != KV_NO_BLOCK && (!p->content[more] || r->parent[more] != b))
		return "a node of the prefix tree goes on with a page that is not its child";
	if (may_go != (r->heap_at[b] < r->n_leaves && r->heap_at[b] >= 0 && r->heap[r->heap_at[b]] == b))
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
		if (p->content[b] && children[b] != r->children[b])
			return "a page of the prefix tree miscounts its children";
	for (int32_t b = r->first_blank; blank < r->n_blank; b = r->parent[b], blank++)
		if (p->content[b] || p->ref[b])
			return "a blank block is held or has content";
	return blank + p->n_cached == p->n_free ? NULL : "blank and evictable blocks are not the free ones";
}

const char *kv_radix_check(const struct kv_pool *p, int32_t *scratch)
{
	for (int32_t i = 0; i < p->radix->n_leaves; i++)
		if (!p->content[p->radix->heap[i]])
			return "a block without content is to be evicted";
	for (int32_t b = 0; b < p->num_blocks; b++) {
		const char *wrong = p->content[b] ? check_page(p, b) : NULL;
		if (wrong)
			return wrong;
	}
	return check_counts(p, scratch);
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
