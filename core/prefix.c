#include "core/prefix.h"

#include <stddef.h>

#include "core/err.h"
#include "core/evict.h"

const char *const prefix_cache_names[] = {"off", "hash", "radix", NULL};
const char *const prefix_eviction_names[] = {"default", "lru", "lfu", "fifo", "leaf-lru", "cost-aware", NULL};
const char *const cache_salt_names[] = {"none", "tenant", "session", NULL};

const struct evict_rule *evict_rule_of(enum prefix_eviction eviction)
{
	static const struct evict_rule *const all[] = {NULL,        &evict_lru,      &evict_lfu,
						       &evict_fifo, &evict_leaf_lru, &evict_cost_aware};
	return all[eviction];
}

const struct prefix_ops *prefix_ops_of(enum prefix_cache cache, enum prefix_eviction eviction)
{
	if (cache == PREFIX_OFF)
		return NULL;
	if (cache == PREFIX_RADIX)
		return &prefix_radix_ops;
	return evict_rule_of(eviction)->blocks ? &prefix_ranked_ops : &prefix_hash_ops;
}

int prefix_eviction_resolve(enum prefix_cache cache, enum prefix_eviction *eviction, struct err *e)
{
	if (*eviction == PREFIX_EVICT_DEFAULT && cache != PREFIX_OFF)
		*eviction = cache == PREFIX_HASH ? PREFIX_EVICT_LRU : PREFIX_EVICT_LEAF_LRU;
	if (*eviction == PREFIX_EVICT_DEFAULT)
		return ERR_NONE;
	const char *name = prefix_eviction_names[*eviction], *why = evict_rule_of(*eviction)->not_blocks;
	if (cache == PREFIX_OFF)
		return err_set(e, ERR_INPUT,
			       "--prefix-eviction %s says what goes first from a prefix cache, and there is none: add "
			       "--prefix-cache",
			       name);
	if (cache == PREFIX_HASH && why)
		return err_set(
			e, ERR_INPUT,
			"--prefix-eviction %s does not go with --prefix-cache hash: %s; use --prefix-cache radix, "
			"or lru, lfu or fifo",
			name, why);
	return ERR_NONE;
}
