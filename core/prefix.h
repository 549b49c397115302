/* prefix.h: prefix caches: what a paged pool knows of contents, who may share them and what goes first.
 *
 *                     hash (vLLM)                         radix (SGLang)
 *   known             each full block by itself           a tree: a page and all before it
 *   when              at allocation or at commit          once computed: prompts chunk by chunk, generated tokens at the end
 *   equal contents    stay, the oldest is found           the later one is given back
 *   evicted           block by block, by default the      unlocked leaves, by default whole nodes, least recently
 *                     one freed longest ago               used first
 *
 * One engine speaks to both through core/memory.c; a pool (core/kv_pool.h) is made for one of them. What a pool does
 * differently with a cache goes through struct prefix_ops, once per request or per block that changes hands. Looking up
 * (kv_lookup), one more reference to a block in use (kv_share) and remembering block by block at allocation
 * (kv_remember_all) are the same for every cache or the hot path of one, and are called directly. */
#ifndef CORE_PREFIX_H
#define CORE_PREFIX_H

#include <stdbool.h>
#include <stdint.h>

struct err;
struct kv_pool;

enum prefix_cache { PREFIX_OFF, PREFIX_HASH, PREFIX_RADIX };

extern const char *const prefix_cache_names[]; /* "off", "hash", "radix", NULL */

/* Which cached content goes first (core/evict.h). */
enum prefix_eviction {
	PREFIX_EVICT_DEFAULT, /* lru for a hash cache, leaf-lru for a tree */
	PREFIX_EVICT_LRU,
	PREFIX_EVICT_LFU,
	PREFIX_EVICT_FIFO,
	PREFIX_EVICT_LEAF_LRU,
	PREFIX_EVICT_COST_AWARE,
};

extern const char *const prefix_eviction_names[]; /* "default", "lru", ..., NULL */

/* Says which rule the default is; ERR_INPUT and why when the two do not go together. */
int prefix_eviction_resolve(enum prefix_cache cache, enum prefix_eviction *eviction, struct err *e);

/* Requests of different tenants (sessions) never share; those without one share among themselves. */
enum cache_salt { CACHE_SALT_NONE, CACHE_SALT_TENANT, CACHE_SALT_SESSION };

extern const char *const cache_salt_names[]; /* "none", "tenant", "session", NULL */

struct prefix_ops {
	/* Takes in what is computed only, generated tokens when their request ends; keeps equal contents once, so that an
	 * insertion may change a table. Else content may be known from its allocation on, and copies stay. */
	bool tree;
	int (*init)(struct kv_pool *p, struct err *e); /* after the index; what it leaves on failure, destroy takes */
	void (*destroy)(struct kv_pool *p);
	/* n unreferenced blocks for new use, evicting what has to go; the caller has checked n <= n_free. */
	void (*alloc)(struct kv_pool *p, int32_t n, int32_t *ids);
	/* A table lets go of its blocks. */
	void (*release)(struct kv_pool *p, const int32_t *ids, int32_t n);
	/* An unreferenced block was found and has its first table again. */
	void (*referenced)(struct kv_pool *p, int32_t block);
	/* A request was admitted with these pages, all that was found of its prompt. */
	void (*used)(struct kv_pool *p, const int32_t *ids, int32_t n);
	/* Pages `from` ... `to` - 1 of a table have the contents keys[0 .. to - from); those before are known. So content
	 * comes in, whether computed here or brought back from elsewhere. A tree puts pages it has already into ids[]
	 * instead; how many. */
	int32_t (*insert)(struct kv_pool *p, int32_t *ids, const uint64_t *keys, int32_t from, int32_t to);
	/* Its books against each other: NULL or what is wrong. scratch is [num_blocks]. */
	const char *(*check)(const struct kv_pool *p, int32_t *scratch);
};

/* Told of a block whose content `key` is about to be dropped for new use (and is still in place): to save it elsewhere.
 * It must not change the pool. */
struct prefix_watcher {
	void (*losing)(void *ctx, int32_t block, uint64_t key);
	void *ctx;
};

extern const struct prefix_ops prefix_hash_ops, prefix_ranked_ops, prefix_radix_ops;

/* NULL for PREFIX_OFF; `eviction` is resolved. */
const struct prefix_ops *prefix_ops_of(enum prefix_cache cache, enum prefix_eviction eviction);

#endif
