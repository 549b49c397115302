/* What is built on the allocator seam; apart from mem.c, so that a test can replace that file alone. */
#include "core/mem.h"

#include <string.h>

char *mem_strdup(const char *s)
{
	return mem_strndup(s, strlen(s));
}

char *mem_strndup(const char *s, size_t n)
{
	char *copy = mem_alloc(n + 1);
	if (!copy)
		return NULL;
	memcpy(copy, s, n);
	copy[n] = '\0';
	return copy;
}

int mem_grow(void **p, int64_t *cap, int64_t need, size_t size)
{
	if (need <= *cap)
		return 0;
	int64_t want = *cap ? *cap * 2 : 16;
	if (want < need)
		want = need;
	if ((uint64_t)want > SIZE_MAX / size)
		return -1;
	void *grown = mem_realloc(*p, (size_t)want * size);
	if (!grown)
		return -1;
	*p = grown;
	*cap = want;
	return 0;
}
