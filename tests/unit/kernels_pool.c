/* The threads that the CPU's kernels share. */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

#include "kernels/cpu/pool.h"
#include "tests/support/suite.h"

enum { MAX_TASKS = 300, MAX_THREADS = 4 };

struct tally {
	int32_t given; /* written before the run, read by every task */
	int32_t seen[MAX_TASKS], runs[MAX_TASKS];
	int32_t thread_runs[MAX_THREADS]; /* not atomic: no two calls with one thread's number may overlap */
	int32_t n_threads;
	atomic_int out_of_range;
};

static void count(void *ctx, int32_t task, int32_t thread)
{
	struct tally *t = ctx;
	if (task < 0 || task >= MAX_TASKS || thread < 0 || thread >= t->n_threads) {
		atomic_fetch_add(&t->out_of_range, 1);
		return;
	}
	t->runs[task]++;
	t->seen[task] = t->given;
	t->thread_runs[thread]++;
}

static void nap_us(long us)
{
	nanosleep(&(struct timespec){.tv_nsec = us * 1000}, NULL);
}

/* `n_runs` runs of changing size, the workers now and then left to fall asleep. */
static void check_runs(int32_t threads, int32_t spin_us, int32_t n_runs, bool naps)
{
	struct pool *p;
	CU_ASSERT_FATAL(pool_create(&p, threads, spin_us) == 0);
	CHECK_INT(pool_threads(p), threads);
	int32_t wrong = 0;
	for (int32_t run = 0; run < n_runs; run++) {
		struct tally t = {.given = run, .n_threads = threads};
		int32_t n = run * 7 % (MAX_TASKS + 1), sum = 0;
		pool_run(p, count, &t, n);
		for (int32_t i = 0; i < MAX_TASKS; i++)
			wrong += t.runs[i] != (i < n) || t.seen[i] != (i < n ? run : 0);
		for (int32_t i = 0; i < threads; i++)
			sum += t.thread_runs[i];
		wrong += sum != n || t.out_of_range != 0;
		if (naps && run % 8 == 0)
			nap_us(200);
	}
	CHECK_INT(wrong, 0);
	pool_destroy(p);
}

static void every_task_runs_once(void)
{
	for (int32_t threads = 1; threads <= MAX_THREADS; threads++)
		check_runs(threads, -1, 400, false);
}

static void workers_wake_from_sleep(void)
{
	for (int32_t threads = 2; threads <= 3; threads++)
		check_runs(threads, 0, 400, true);
}

struct sleeper {
	atomic_int started;
};

/* Two tasks that each wait for the other: they must be on two threads. */
static void meet(void *ctx, int32_t task, int32_t thread)
{
	(void)task;
	(void)thread;
	struct sleeper *s = ctx;
	atomic_fetch_add(&s->started, 1);
	for (int i = 0; i < 20000 && atomic_load(&s->started) < 2; i++)
		nap_us(100);
}

static void tasks_run_side_by_side(void)
{
	struct pool *p;
	CU_ASSERT_FATAL(pool_create(&p, 2, -1) == 0);
	for (int i = 0; i < 10; i++) {
		struct sleeper s = {0};
		nap_us(i % 2 ? 1000 : 0);
		pool_run(p, meet, &s, 2);
		CHECK_INT(s.started, 2);
	}
	pool_destroy(p);
}

/* One of two threads finds nothing to do and sleeps before the other is done, and the other way round. */
static void slow_first_task(void *ctx, int32_t task, int32_t thread)
{
	(void)thread;
	int32_t *done = ctx;
	if (task == 0)
		nap_us(2000);
	done[task] = 1;
}

static void the_caller_waits_for_the_last_task(void)
{
	struct pool *p;
	CU_ASSERT_FATAL(pool_create(&p, 2, 0) == 0);
	for (int i = 0; i < 20; i++) {
		int32_t done[3] = {0};
		pool_run(p, slow_first_task, done, 3);
		CHECK_INT(done[0] + done[1] + done[2], 3);
	}
	pool_destroy(p);
}

static void the_default_is_what_the_process_may_use(void)
{
	struct pool *p;
	CU_ASSERT_FATAL(pool_create(&p, 0, -1) == 0);
	CHECK_INT(pool_threads(p), pool_default_threads());
	CU_ASSERT(pool_default_threads() >= 1);
	pool_destroy(p);
	pool_destroy(NULL);
}

int main(void)
{
	static const struct test tests[] = {
		{"every_task_runs_once", every_task_runs_once},
		{"workers_wake_from_sleep", workers_wake_from_sleep},
		{"tasks_run_side_by_side", tasks_run_side_by_side},
		{"the_caller_waits_for_the_last_task", the_caller_waits_for_the_last_task},
		{"the_default_is_what_the_process_may_use", the_default_is_what_the_process_may_use},
	};
	return SUITE_RUN("kernels_pool", tests);
}
