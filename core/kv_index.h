/* kv_index.h: identity -> block, in chains; for the pool and its caches alone. Inline, since evicting a block is little
 * more than this.
 *
 * Neighbouring pages have neighbouring identities (core/content.h): the heads of their chains share a cache line. */
#ifndef CORE_KV_INDEX_H
#define CORE_KV_INDEX_H

#include "core/kv_pool.h"

static inline int32_t *kv_chain_of(const struct kv_pool *p, uint64_t key)
{
	return &p->chain[key & (uint64_t)p->chain_mask]; /* identities are the output of a mixer already */
}

static inline bool kv_chain_has(const struct kv_pool *p, int32_t from, uint64_t key)
{
	while (from != KV_NO_BLOCK && p->content[from] != key)
		from = p->chain_next[from];
	return from != KV_NO_BLOCK;
}

/* Whether another block with the same content is left. */
static inline bool kv_chain_remove(struct kv_pool *p, uint64_t key, int32_t block)
{
	int32_t *at = kv_chain_of(p, key), next = p->chain_next[block];
	bool twin = false;
	while (*at != block) {
		twin |= p->content[*at] == key;
		at = &p->chain_next[*at];
	}
	*at = next;
	return twin || kv_chain_has(p, next, key);
}

/* Did the lookup that is watched find it? (kv_watch) */
static inline bool kv_was_found(const struct kv_pool *p, int32_t block)
{
	return p->found[block / 8] >> block % 8 & 1;
}

/* A block's content makes room for a new use: the watcher is told, then it is nobody's. Returns what to add to growth: a
 * lookup finds its twin from now on, which may be in use and so cost nothing; or the one that is watched had found it, and
 * stops there from now on. Other counters are the caller's. */
static inline bool kv_forget(struct kv_pool *p, int32_t block, uint64_t key)
{
	if (p->watcher.losing)
		p->watcher.losing(p->watcher.ctx, block, key);
	bool twin = kv_chain_remove(p, key, block);
	p->duplicates += twin;
	p->content[block] = 0;
	return twin || kv_was_found(p, block);
}

#endif
