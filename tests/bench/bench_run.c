/* How fast runs go, one measurement per process so that each has its own peak of memory:
 *
 *   bench_run loop TRACE N          N runs of a trace through `chunked`, requests kept in memory: the step loop alone
 *   bench_run store TRACE DB N      the same with every request stored in SQLite: run, figures and storing
 *   bench_run batch SEQS            a full batch of SEQS requests that only decode
 *   bench_run once TRACE            one run; for traces of a million requests
 *
 * Prints "key value" lines: medians over the runs. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "analysis/run.h"
#include "analysis/store.h"
#include "core/err.h"
#include "traces/reader.h"

#define RUNS_MAX 32

static struct err err;

static void stop_on(int rc)
{
	if (rc == ERR_NONE)
		return;
	fprintf(stderr, "bench_run: %s\n", err.text);
	exit(1);
}

static double now_s(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static double median(double *v, int n)
{
	qsort(v, (size_t)n, sizeof *v, by_value);
	return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

static void print_peak(void)
{
	struct rusage u;
	getrusage(RUSAGE_SELF, &u);
	printf("peak_mb %.1f\n", (double)u.ru_maxrss / 1024);
}

static void load(struct workload *w, const char *trace)
{
	workload_init(w);
	stop_on(trace_load(trace, NULL, w, NULL, &err));
	workload_set_max_tokens(w, MAX_TOKENS_MAX, 2048);
}

static struct run_settings chunked(void)
{
	struct run_settings s;
	run_settings_default(&s);
	s.policy = "chunked";
	s.model = "llama-3.1-8b";
	s.device = "h100-sxm";
	s.trace_path = "bench";
	return s;
}

static int bench_loop(const char *trace, int n)
{
	struct workload w;
	struct run_settings s = chunked();
	struct run_result r;
	double loop[RUNS_MAX], whole[RUNS_MAX], steps = 0;
	load(&w, trace);
	for (int i = 0; i < n; i++) {
		double began = now_s();
		stop_on(run_execute(&s, &w, NULL, &r, &err));
		whole[i] = now_s() - began;
		loop[i] = r.sim_wall_s;
		steps = (double)r.stats.steps;
		run_result_free(&r);
	}
	double t = median(loop, n); /* sorts: the best comes first */
	printf("best_requests_per_s %.0f\n", (double)w.n / loop[0]);
	printf("requests_per_s %.0f\nsteps_per_s %.0f\nns_per_step %.2f\nrequests_per_s_with_metrics %.0f\n",
	       (double)w.n / t, steps / t, t * 1e9 / steps, (double)w.n / median(whole, n));
	print_peak();
	workload_free(&w);
	return 0;
}

static int bench_store(const char *trace, const char *path, int n)
{
	struct workload w;
	struct run_settings s = chunked();
	struct run_result r;
	struct store *store;
	double whole[RUNS_MAX];
	load(&w, trace);
	stop_on(store_open(&store, path, false, &err));
	struct run_io io = {.store = store};
	for (int i = 0; i < n; i++) {
		double began = now_s();
		stop_on(run_execute(&s, &w, &io, &r, &err));
		whole[i] = now_s() - began;
		err = r.store_err;
		stop_on((int)err.code);
		run_result_free(&r);
	}
	store_close(store);
	printf("requests_per_s_stored %.0f\n", (double)w.n / median(whole, n));
	workload_free(&w);
	return 0;
}

/* Requests arrive together, prompts of 16 and outputs of about 20,000, with memory for all: nearly every step is a full
 * batch that decodes, and what a request costs once (joining, ending) does not count as its steps'. Steps are taken one
 * at a time, as they are when requests keep arriving. */
static int bench_batch(int32_t seqs)
{
	struct workload w;
	struct run_settings s = chunked();
	struct run_result r;
	double ns[5];
	workload_init(&w);
	for (int i = 0; i < seqs * 2; i++) {
		/* Outputs differ, so that the batch is refilled one by one. */
		struct spec one = {.name_at = -1, .session = -1, .prompt_tokens = 16 + i % 7, .row = i + 1};
		one.output_tokens = 19500 + i * 37 % 1000;
		stop_on(workload_add(&w, &one, &err));
	}
	workload_set_max_tokens(&w, MAX_TOKENS_MAX, 2048);
	s.num_gpu_blocks_override = seqs * 1400;
	s.engine.max_num_seqs = seqs;
	s.engine.single_steps = true;
	for (int i = 0; i < 5; i++) {
		stop_on(run_execute(&s, &w, NULL, &r, &err));
		ns[i] = r.sim_wall_s * 1e9 / (double)r.stats.steps;
		run_result_free(&r);
	}
	printf("ns_per_step %.2f\n", median(ns, 5));
	workload_free(&w);
	return 0;
}

static int bench_once(const char *trace)
{
	struct workload w;
	struct run_settings s = chunked();
	struct run_result r;
	load(&w, trace);
	double began = now_s();
	stop_on(run_execute(&s, &w, NULL, &r, &err));
	printf("seconds %.3f\nloop_seconds %.3f\ncompleted %lld\n", now_s() - began, r.sim_wall_s,
	       (long long)r.metrics.completed);
	print_peak();
	run_result_free(&r);
	workload_free(&w);
	return 0;
}

static int runs(const char *text)
{
	int n = atoi(text);
	return n < 1 ? 1 : n > RUNS_MAX ? RUNS_MAX : n;
}

int main(int argc, char **argv)
{
	if (argc == 4 && strcmp(argv[1], "loop") == 0)
		return bench_loop(argv[2], runs(argv[3]));
	if (argc == 5 && strcmp(argv[1], "store") == 0)
		return bench_store(argv[2], argv[3], runs(argv[4]));
	if (argc == 3 && strcmp(argv[1], "batch") == 0)
		return bench_batch(atoi(argv[2]));
	if (argc == 3 && strcmp(argv[1], "once") == 0)
		return bench_once(argv[2]);
	fputs("usage: bench_run loop TRACE N | store TRACE DB N | batch SEQS | once TRACE\n", stderr);
	return 2;
}
