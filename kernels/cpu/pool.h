/* pool.h: the threads that all kernels of the CPU share. A pool belongs to one caller: pool_run() is not to be called by
 * two threads at once, nor from inside a task. */
#ifndef KERNELS_CPU_POOL_H
#define KERNELS_CPU_POOL_H

#include <stdint.h>

struct pool;

/* `threads` that compute, the caller among them (1: no thread is made); 0 = as many as the process may use. Workers wait
 * for work by spinning for spin_us microseconds (-1 = the default, short), then asleep. -1 when threads cannot be made. */
int pool_create(struct pool **out, int32_t threads, int32_t spin_us);
void pool_destroy(struct pool *p); /* NULL is fine */
int32_t pool_threads(const struct pool *p);
/* As many as the process may use (its CPU affinity), at least 1. */
int32_t pool_default_threads(void);

/* fn(ctx, task, thread) for every task of 0 .. n_tasks, each once, on whichever thread is free next; `thread` is in
 * 0 .. pool_threads() and no two calls with the same one overlap (for scratch memory). Returns when all are done. What the
 * caller wrote before is seen by the tasks, and what they wrote is seen after. */
void pool_run(struct pool *p, void (*fn)(void *ctx, int32_t task, int32_t thread), void *ctx, int32_t n_tasks);

#endif
