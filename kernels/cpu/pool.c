#include "kernels/cpu/pool.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

/* Long enough to bridge the gap between two operations of a step, short enough not to be missed by anyone else. */
enum { DEFAULT_SPIN_US = 40, SPINS_PER_CLOCK = 64, LINE = 64 };

struct worker {
	struct pool *pool;
	pthread_t thread;
	int32_t index;
};

/* A task is claimed by counting `left` down. Whoever got one may read fn, ctx and n_tasks: they change only after every
 * claimed task has been counted off `unfinished`. A worker that has nothing to claim takes no part, so nobody waits for
 * one that is still asleep. */
struct pool {
	void (*fn)(void *ctx, int32_t task, int32_t thread);
	void *ctx;
	int32_t n_tasks;
	_Alignas(LINE) atomic_int left;
	_Alignas(LINE) atomic_int unfinished;
	/* Each is set before the flag it waits for is looked at once more, and read after that flag was set: so one of the
	 * two sides always notices the other. */
	_Alignas(LINE) atomic_int sleepers;
	atomic_bool caller_sleeps, ends;
	int64_t spin_ns;
	pthread_mutex_t lock;
	pthread_cond_t work, done;
	int32_t n_workers;
	struct worker *workers;
};

static inline void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

static int64_t now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

/* Runs what can be claimed. */
static void take_tasks(struct pool *p, int32_t thread)
{
	int done = 0;
	int left = atomic_load_explicit(&p->left, memory_order_acquire);
	while (left > 0) {
		if (!atomic_compare_exchange_weak_explicit(&p->left, &left, left - 1, memory_order_acquire,
							   memory_order_acquire))
			continue;
		p->fn(p->ctx, p->n_tasks - left, thread);
		done++;
		left = atomic_load_explicit(&p->left, memory_order_acquire);
	}
	if (done && atomic_fetch_sub(&p->unfinished, done) == done && atomic_load(&p->caller_sleeps)) {
		pthread_mutex_lock(&p->lock);
		pthread_cond_signal(&p->done);
		pthread_mutex_unlock(&p->lock);
	}
}

static bool has_work(struct pool *p)
{
	return atomic_load(&p->left) > 0 || atomic_load(&p->ends);
}

static bool is_done(struct pool *p)
{
	return atomic_load(&p->unfinished) == 0;
}

/* True once ready(p), false when the time for spinning is over. */
static bool spin(struct pool *p, bool (*ready)(struct pool *p))
{
	int64_t until = 0;
	for (;;) {
		for (int i = 0; i < SPINS_PER_CLOCK; i++) {
			if (ready(p))
				return true;
			relax();
		}
		int64_t now = now_ns();
		if (!until)
			until = now + p->spin_ns;
		if (now >= until)
			return false;
	}
}

static void *worker_main(void *arg)
{
	struct worker *w = arg;
	struct pool *p = w->pool;
	while (!atomic_load(&p->ends)) {
		if (!spin(p, has_work)) {
			pthread_mutex_lock(&p->lock);
			atomic_fetch_add(&p->sleepers, 1);
			while (!has_work(p))
				pthread_cond_wait(&p->work, &p->lock);
			atomic_fetch_sub(&p->sleepers, 1);
			pthread_mutex_unlock(&p->lock);
		}
		take_tasks(p, w->index);
	}
	return NULL;
}

static void wake_workers(struct pool *p)
{
	if (atomic_load(&p->sleepers) == 0)
		return;
	pthread_mutex_lock(&p->lock);
	pthread_cond_broadcast(&p->work);
	pthread_mutex_unlock(&p->lock);
}

void pool_run(struct pool *p, void (*fn)(void *ctx, int32_t task, int32_t thread), void *ctx, int32_t n_tasks)
{
	if (p->n_workers == 0 || n_tasks <= 1) {
		for (int32_t i = 0; i < n_tasks; i++)
			fn(ctx, i, 0);
		return;
	}
	p->fn = fn;
	p->ctx = ctx;
	p->n_tasks = n_tasks;
	atomic_store_explicit(&p->unfinished, n_tasks, memory_order_relaxed);
	atomic_store(&p->left, n_tasks);
	wake_workers(p);
	take_tasks(p, 0);
	if (spin(p, is_done))
		return;
	pthread_mutex_lock(&p->lock);
	atomic_store(&p->caller_sleeps, true);
	while (!is_done(p))
		pthread_cond_wait(&p->done, &p->lock);
	atomic_store(&p->caller_sleeps, false);
	pthread_mutex_unlock(&p->lock);
}

int32_t pool_default_threads(void)
{
	cpu_set_t set;
	int n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
	return n > 0 ? n : 1;
}

int32_t pool_threads(const struct pool *p)
{
	return p->n_workers + 1;
}

int pool_create(struct pool **out, int32_t threads, int32_t spin_us)
{
	if (threads <= 0)
		threads = pool_default_threads();
	struct pool *p = aligned_alloc(LINE, sizeof *p);
	struct worker *workers = calloc((size_t)threads, sizeof *workers);
	if (!p || !workers) {
		free(p);
		free(workers);
		return -1;
	}
	*p = (struct pool){.workers = workers, .spin_ns = (spin_us < 0 ? DEFAULT_SPIN_US : spin_us) * INT64_C(1000)};
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->work, NULL);
	pthread_cond_init(&p->done, NULL);
	for (int32_t i = 0; i < threads - 1; i++) {
		p->workers[i] = (struct worker){.pool = p, .index = i + 1};
		if (pthread_create(&p->workers[i].thread, NULL, worker_main, &p->workers[i])) {
			pool_destroy(p);
			return -1;
		}
		p->n_workers++;
	}
	*out = p;
	return 0;
}

void pool_destroy(struct pool *p)
{
	if (!p)
		return;
	pthread_mutex_lock(&p->lock);
	atomic_store(&p->ends, true);
	pthread_cond_broadcast(&p->work);
	pthread_mutex_unlock(&p->lock);
	for (int32_t i = 0; i < p->n_workers; i++)
		pthread_join(p->workers[i].thread, NULL);
	pthread_cond_destroy(&p->work);
	pthread_cond_destroy(&p->done);
	pthread_mutex_destroy(&p->lock);
	free(p->workers);
	free(p);
}
