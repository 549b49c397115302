#include "core/kv_pool.h"

#include <string.h>

#include "core/err.h"
#include "core/mem.h"

static int64_t pow2_at_least(int64_t n)
{
	int64_t p = 16;
	while (p < n)
		p *= 2;
	return p;
}

static int init_index(struct kv_pool *p, struct err *e)
{
	size_t n = (size_t)p->num_blocks;
	p->index_mask = pow2_at_least(2 * (int64_t)p->num_blocks) - 1;
	p->ref = mem_zalloc(n, sizeof *p->ref);
	p->ring_pos = mem_alloc(n * sizeof *p->ring_pos);
	p->content = mem_zalloc(n, sizeof *p->content);
	p->index = mem_zalloc((size_t)p->index_mask + 1, sizeof *p->index);
	if (!p->ref || !p->ring_pos || !p->content || !p->index)
		return err_no_memory(e, "prefix cache");
	for (int32_t i = 0; i < p->num_blocks; i++)
		p->ring_pos[i] = i;
	return ERR_NONE;
}

int kv_pool_init(struct kv_pool *p, int32_t num_blocks, int32_t block_size, bool caching, struct err *e)
{
	memset(p, 0, sizeof *p);
	p->num_blocks = p->n_free = num_blocks;
	p->block_size = block_size;
	/* Only prefix hits leave holes, so only then is room for them needed. */
	p->ring_mask = pow2_at_least(caching ? 2 * (int64_t)num_blocks : num_blocks) - 1;
	p->ring = mem_alloc((size_t)(p->ring_mask + 1) * sizeof *p->ring);
	if (!p->ring) {
		kv_pool_free(p);
		return err_no_memory(e, "KV block books");
	}
	for (int32_t i = 0; i < num_blocks; i++)
		p->ring[i] = i;
	p->tail = num_blocks;
	if (caching && init_index(p, e)) {
		kv_pool_free(p);
		return ERR_MEMORY;
	}
	return ERR_NONE;
}

void kv_pool_free(struct kv_pool *p)
{
	mem_free(p->ref);
	mem_free(p->ring);
	mem_free(p->ring_pos);
	mem_free(p->content);
	mem_free(p->index);
	memset(p, 0, sizeof *p);
}

/* --- content index: linear probing; removal shifts back, which keeps equal keys in the order they came --------- */

static int64_t home(const struct kv_pool *p, uint64_t key)
{
	return (int64_t)(key & (uint64_t)p->index_mask); /* identities are the output of a mixer already */
}

static void index_insert(struct kv_pool *p, uint64_t key, int32_t block)
{
	int64_t at = home(p, key);
	while (p->index[at].key)
		at = (at + 1) & p->index_mask;
	p->index[at] = (struct kv_slot){key, block};
}

static void index_remove(struct kv_pool *p, uint64_t key, int32_t block)
{
	int64_t at = home(p, key);
	while (p->index[at].block != block || p->index[at].key != key)
		at = (at + 1) & p->index_mask;
	for (int64_t next = (at + 1) & p->index_mask; p->index[next].key; next = (next + 1) & p->index_mask) {
		int64_t want = home(p, p->index[next].key);
		/* It may move back to `at` unless its home lies cyclically after `at`. */
		if (((next - want) & p->index_mask) >= ((next - at) & p->index_mask)) {
			p->index[at] = p->index[next];
			at = next;
		}
	}
	p->index[at] = (struct kv_slot){0, 0};
}

int32_t kv_lookup(const struct kv_pool *p, uint64_t key)
{
	for (int64_t at = home(p, key); p->index[at].key; at = (at + 1) & p->index_mask)
		if (p->index[at].key == key)
			return p->index[at].block;
	return KV_NO_BLOCK;
}

void kv_remember(struct kv_pool *p, int32_t block, uint64_t key)
{
	p->content[block] = key;
	index_insert(p, key, block);
	p->growth++;
	p->changes++;
}

void kv_disown(struct kv_pool *p, int32_t block)
{
	uint64_t key = p->content[block];
	if (!key)
		return;
	index_remove(p, key, block);
	p->content[block] = 0;
	p->changes++;
	/* A lookup finds its twin from now on, which may be in use and so cost nothing. */
	p->growth += kv_lookup(p, key) != KV_NO_BLOCK;
}

static void forget(struct kv_pool *p, int32_t block)
{
	if (!p->content[block])
		return;
	kv_disown(p, block);
	p->n_cached--;
	p->evicted++;
}

/* --- free list -------------------------------------------------------------------------------------------------- */

static void ring_compact(struct kv_pool *p)
{
	int64_t to = p->tail;
	/* Rewrite in place, from the newest down, so that live entries move towards the tail. */
	for (int64_t from = p->tail; from-- > p->head;) {
		int32_t id = p->ring[from & p->ring_mask];
		if (id == KV_NO_BLOCK)
			continue;
		p->ring[--to & p->ring_mask] = id;
		p->ring_pos[id] = to;
	}
	p->head = to;
}

static void ring_push(struct kv_pool *p, int32_t id)
{
	if (p->tail - p->head > p->ring_mask)
		ring_compact(p);
	p->ring[p->tail & p->ring_mask] = id;
	p->ring_pos[id] = p->tail;
	p->n_cached += p->content[id] != 0;
	p->tail++;
	p->n_free++;
	p->changes++;
}

/* Without caching no block is ever shared and the ring has no holes: taking and giving back are copies. */
static void ring_take(struct kv_pool *p, int32_t n, int32_t *ids)
{
	int64_t at = p->head & p->ring_mask, upto_end = p->ring_mask + 1 - at;
	int64_t first = n < upto_end ? n : upto_end;
	memcpy(ids, p->ring + at, (size_t)first * sizeof *ids);
	memcpy(ids + first, p->ring, (size_t)(n - first) * sizeof *ids);
	p->head += n;
}

static void ring_give(struct kv_pool *p, const int32_t *ids, int32_t n)
{
	int64_t at = p->tail & p->ring_mask, upto_end = p->ring_mask + 1 - at;
	int64_t first = n < upto_end ? n : upto_end;
	for (int64_t i = 0; i < first; i++)
		p->ring[at + i] = ids[n - 1 - i];
	for (int64_t i = first; i < n; i++)
		p->ring[i - first] = ids[n - 1 - i];
	p->tail += n;
	p->n_free += n;
}

void kv_alloc(struct kv_pool *p, int32_t n, int32_t *ids)
{
	p->n_free -= n;
	if (!p->ref) {
		ring_take(p, n, ids);
		return;
	}
	for (int32_t i = 0; i < n;) {
		int32_t id = p->ring[p->head++ & p->ring_mask];
		if (id == KV_NO_BLOCK)
			continue;
		forget(p, id);
		p->ref[id] = 1;
		ids[i++] = id;
	}
}

void kv_release(struct kv_pool *p, const int32_t *ids, int32_t n)
{
	if (!p->ref) {
		ring_give(p, ids, n);
		return;
	}
	for (int32_t i = n; i-- > 0;) {
		if (--p->ref[ids[i]] == 0)
			ring_push(p, ids[i]);
		else
			p->extra_refs--;
	}
}

void kv_share(struct kv_pool *p, int32_t block)
{
	if (p->ref[block]++ > 0) {
		p->extra_refs++;
		return;
	}
	p->ring[p->ring_pos[block] & p->ring_mask] = KV_NO_BLOCK;
	p->n_free--;
	p->n_cached -= p->content[block] != 0;
	p->growth++;
	p->changes++;
}
