#include "core/prefix.h"

#include <stddef.h>

const char *const prefix_cache_names[] = {"off", "hash", "radix", NULL};

const struct prefix_ops *prefix_ops_of(enum prefix_cache cache)
{
	static const struct prefix_ops *const all[] = {NULL, &prefix_hash_ops, &prefix_radix_ops};
	return all[cache];
}
