/* mem.h: the one allocator seam. All of Lockstep's own memory comes from here, so that a test can put another
 * mem.o in front of this one and fail the N-th allocation (tests/support/failing_mem.c).
 * Every function returns NULL when there is no memory; nothing aborts. Memory is released with mem_free. */
#ifndef CORE_MEM_H
#define CORE_MEM_H

#include <stddef.h>
#include <stdint.h>

void *mem_alloc(size_t bytes);
void *mem_zalloc(size_t count, size_t size); /* zeroed; checks count * size for overflow */
void *mem_realloc(void *p, size_t bytes);
void mem_free(void *p);
char *mem_strdup(const char *s);
char *mem_strndup(const char *s, size_t n);

/* Grows the array *p (elements of `size` bytes, room for *cap) to hold at least `need`, at least doubling.
 * Returns 0, or -1 without memory: *p and *cap are then as they were. */
int mem_grow(void **p, int64_t *cap, int64_t need, size_t size);

#endif
