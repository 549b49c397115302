/* The hash cache with a rank for each block (core/evict.h): blocks with known content that nobody holds are in a heap,
 * those without on a list through chain_next, oldest first. */
#include "core/err.h"
#include "core/evict.h"
#include "core/kv_heap.h"
#include "core/kv_index.h"
#include "core/mem.h"

struct kv_ranked { /* 16 bytes a block; with the chains of the pool at most 40 */
	struct kv_heap heap;
	uint64_t *rank; /* [num_blocks] of blocks with known content */
	uint64_t now; /* events so far */
	int32_t first_blank, last_blank, n_blank;
};

static int ranked_init(struct kv_pool *p, struct err *e)
{
	struct kv_ranked *k = mem_zalloc(1, sizeof *k);
	p->ranked = k;
	if (!k)
		return err_no_memory(e, "prefix cache");
	k->rank = mem_zalloc((size_t)p->num_blocks, sizeof *k->rank);
	if (!k->rank)
		return err_no_memory(e, "prefix cache");
	k->heap.ranks = k->rank;
	for (int32_t i = 0; i < p->num_blocks; i++)
		p->chain_next[i] = i + 1;
	k->last_blank = p->num_blocks - 1;
	k->n_blank = p->num_blocks;
	return kv_heap_init(&k->heap, p->num_blocks, e);
}

static void ranked_destroy(struct kv_pool *p)
{
	struct kv_ranked *k = p->ranked;
	if (!k)
		return;
	kv_heap_free(&k->heap);
	mem_free(k->rank);
	mem_free(k);
	p->ranked = NULL;
}

static int32_t take_blank(struct kv_pool *p)
{
	struct kv_ranked *k = p->ranked;
	int32_t block = k->first_blank;
	k->first_blank = p->chain_next[block];
	k->n_blank--;
	return block;
}

static void add_blank(struct kv_pool *p, int32_t block)
{
	struct kv_ranked *k = p->ranked;
	*(k->n_blank ? &p->chain_next[k->last_blank] : &k->first_blank) = block;
	k->last_blank = block;
	k->n_blank++;
}

static int32_t evict(struct kv_pool *p)
{
	int32_t block = p->ranked->heap.at[0];
	kv_heap_drop(&p->ranked->heap, block);
	p->growth += kv_forget(p, block, p->content[block]);
	p->n_cached--;
	p->evicted++;
	p->changes++;
	return block;
}

static void ranked_alloc(struct kv_pool *p, int32_t n, int32_t *ids)
{
	for (int32_t i = 0; i < n; i++) {
		ids[i] = p->ranked->n_blank ? take_blank(p) : evict(p);
		p->ref[ids[i]] = 1;
	}
	p->n_free -= n;
}

static void ranked_release(struct kv_pool *p, const int32_t *ids, int32_t n)
{
	struct kv_ranked *k = p->ranked;
	for (int32_t i = n; i-- > 0;) {
		int32_t id = ids[i];
		if (--p->ref[id]) {
			p->extra_refs--;
			continue;
		}
		p->n_free++;
		p->changes++;
		if (!p->content[id]) {
			add_blank(p, id);
			continue;
		}
		k->rank[id] = p->rule->blocks->freed(k->rank[id], k->now++);
		p->n_cached++;
		kv_heap_add(&k->heap, id);
	}
}

static void ranked_referenced(struct kv_pool *p, int32_t block)
{
	kv_heap_drop(&p->ranked->heap, block);
	p->n_free--;
	p->n_cached--;
	p->growth++;
	p->changes++;
}

static void ranked_used(struct kv_pool *p, const int32_t *ids, int32_t n)
{
	struct kv_ranked *k = p->ranked;
	for (int32_t i = 0; i < n; i++)
		k->rank[ids[i]] = p->rule->blocks->found(k->rank[ids[i]]);
}

static int32_t ranked_insert(struct kv_pool *p, int32_t *ids, const uint64_t *keys, int32_t from, int32_t to)
{
	struct kv_ranked *k = p->ranked;
	/* What comes at once goes from its end on: without its beginning nothing is found. */
	for (int32_t i = to; i-- > from;)
		k->rank[ids[i]] = p->rule->blocks->known(k->now++);
	kv_remember_all(p, ids + from, keys, to - from);
	return 0;
}

static const char *ranked_check(const struct kv_pool *p, int32_t *scratch)
{
	(void)scratch;
	const struct kv_ranked *k = p->ranked;
	int32_t blank = 0;
	for (int32_t b = 0; b < p->num_blocks; b++) {
		uint64_t key = p->content[b];
		if (key && !kv_chain_has(p, *kv_chain_of(p, key), key))
			return "a content cannot be found";
		if ((key && !p->ref[b]) != kv_heap_has(&k->heap, b))
			return "an unreferenced block with content is not among those that may go, or something else "
			       "is";
	}
	for (int32_t b = k->first_blank; blank < k->n_blank; b = p->chain_next[b], blank++)
		if (p->content[b] || p->ref[b])
			return "a blank block is held or has content";
	if (blank + k->heap.n != p->n_free || k->heap.n != p->n_cached)
		return "blank and cached blocks are not the free ones";
	return kv_heap_check(&k->heap);
}

const struct prefix_ops prefix_ranked_ops = {.init = ranked_init,
					     .destroy = ranked_destroy,
					     .alloc = ranked_alloc,
					     .release = ranked_release,
					     .referenced = ranked_referenced,
					     .used = ranked_used,
					     .insert = ranked_insert,
					     .check = ranked_check};
