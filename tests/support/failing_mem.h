/* failing_mem.h: an allocator in place of core/mem.o that fails on demand and knows what is still held. Linked into
 * tests/failmem/ programs only. Not for several threads. */
#ifndef TESTS_SUPPORT_FAILING_MEM_H
#define TESTS_SUPPORT_FAILING_MEM_H

#include <stdbool.h>
#include <stdint.h>

/* The n-th allocation from now fails, once; 0 = none. */
void failing_mem_arm(int64_t n);
/* Has it failed since? */
bool failing_mem_failed(void);
/* Pieces of memory not yet released. */
int64_t failing_mem_held(void);

/* Calls `once` with its 1st, 2nd, 3rd ... allocation failing until a call gets through without. `once` returns an err_code
 * and releases all it made. Checks: a failed allocation is reported as out of memory or got around (never another error),
 * and nothing stays held. `limit`: the last one that is failed (0 = none is). Returns how
 * many were; LOCKSTEP_THOROUGH in the environment fails every single one. */
int64_t failing_mem_each(int (*once)(void *ctx, char text[1024]), void *ctx, int64_t limit);

#endif
