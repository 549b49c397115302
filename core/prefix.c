#include "core/prefix.h"

#include <stddef.h>

const char *const prefix_cache_names[] = {"off", "hash", "radix", NULL};
