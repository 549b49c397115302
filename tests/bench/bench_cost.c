/* bench_cost: nanoseconds per question to each cost model, decode-only batches whose context grows step by step, as a
 * run asks. Prints one line per model: median of 9 rounds. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "core/err.h"
#include "sim/cost_models.h"

enum { ROUNDS = 9, QUESTIONS = 2000000 };

static double now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return x < y ? -1 : x > y;
}

static double round_ns(const struct cost *c, int64_t *sum)
{
	struct batch b = {.decodes = 64, .decode_ctx = 64 * 1000, .decode_ctx_window = 64 * 1000, .sampled = 64};
	double begin = now_ns();
	for (int i = 0; i < QUESTIONS; i++) {
		struct cost_time t;
		cost_step(c, &b, &t);
		*sum += t.device_ns + t.host_ns;
		b.decodes = 32 + (i >> 4 & 63); /* somebody joins or leaves every 16 steps */
		b.sampled = b.decodes;
		b.decode_ctx += b.decodes;
		b.decode_ctx_window = b.decode_ctx;
	}
	return (now_ns() - begin) / QUESTIONS;
}

/* The same asked as runs of 64 steps; per step. */
static double run_round_ns(const struct cost *c, int64_t *sum)
{
	enum { RUN = 64 };
	int64_t end_ns[RUN];
	struct batch b = {.decodes = 64, .decode_ctx = 64 * 1000, .decode_ctx_window = 64 * 1000, .sampled = 64};
	double begin = now_ns();
	b.until_ns = INT64_MAX;
	for (int i = 0; i < QUESTIONS / RUN; i++) {
		struct cost_time t;
		int64_t n = cost_run(c, &b, 0, end_ns, RUN, &t);
		*sum += end_ns[n - 1];
		b.decodes = b.sampled = 32 + (i & 63);
	}
	return (now_ns() - begin) / (QUESTIONS / RUN * RUN);
}

static double median(double (*one_round)(const struct cost *c, int64_t *sum), const struct cost *c, int64_t *sum)
{
	double ns[ROUNDS];
	for (int i = 0; i < ROUNDS; i++)
		ns[i] = one_round(c, sum);
	qsort(ns, ROUNDS, sizeof ns[0], by_value);
	return ns[ROUNDS / 2];
}

/* Points as a profile of a minute has them: 20 numbers of rows, 6 contexts. The times do not matter. */
static int make_profile(struct profile *p, struct err *e)
{
	int rc = ERR_NONE;
	*p = (struct profile){0};
	for (int op = PROFILE_MATMUL; op < PROFILE_OPS; op++) {
		bool two = op == PROFILE_DECODE || op == PROFILE_PREFILL;
		for (int32_t x = 1, i = 0; i < 20; i++, x += 1 + x / 2)
			for (int64_t y = two ? 16 : 0; rc == ERR_NONE && y <= (two ? 16384 : 0); y = y ? y * 4 : 1) {
				const struct profile_point t = {.op = (enum profile_op)op,
								.x = x,
								.y = y,
								.ns = 1e5 + 100.0 * x + 3.0 * x * (double)y};
				rc = profile_add(p, &t, e);
			}
	}
	if (rc == ERR_NONE)
		rc = profile_sort(p, e);
	p->hash = profile_hash(p);
	return rc;
}

static int bench(const char *text, const char *model)
{
	struct profile p = {0};
	struct model m;
	struct device d;
	struct cost_setup s;
	struct cost *c = NULL;
	struct err e = {0};
	int64_t sum = 0;
	int rc = model_load(&m, model, &e);
	if (!rc)
		rc = device_load(&d, "h100-sxm", &e);
	if (!rc) {
		cost_setup_default(&s, &m, &d);
		rc = make_profile(&p, &e);
	}
	if (!rc) {
		s.profile = &p;
		rc = cost_open(&c, text, &s, &e);
	}
	if (rc) {
		fprintf(stderr, "bench_cost: %s\n", e.text);
		return 1;
	}
	double single = median(round_ns, c, &sum), run = median(run_round_ns, c, &sum);
	printf("cost_step %-24s %-14s %6.2f ns, in runs of 64 %6.2f ns (checksum %lld)\n", text, model, single, run,
	       (long long)sum);
	cost_free(c);
	profile_free(&p);
	model_free(&m);
	return 0;
}

int main(void)
{
	return bench("roofline", "llama-3.1-8b") | bench("roofline", "gpt-oss-20b") |
	       bench("profiled", "llama-3.1-8b") | bench("linear:a=5ms,c=1us", "llama-3.1-8b") |
	       bench("constant:10ms", "llama-3.1-8b");
}
