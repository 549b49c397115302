#include "core/mem.h"

#include <stdlib.h>
#include <string.h>

void *mem_alloc(size_t bytes)
{
	return malloc(bytes ? bytes : 1);
}

void *mem_zalloc(size_t count, size_t size)
{
	return calloc(count ? count : 1, size ? size : 1);
}

void *mem_realloc(void *p, size_t bytes)
{
	return realloc(p, bytes ? bytes : 1);
}

void mem_free(void *p)
{
	free(p);
}
