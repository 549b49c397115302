/* bench_exec: a model's steps on the CPU's kernels, whole: prefill of 512, decodes of 1, 8 and 32 sequences over contexts of
 * 128 and 1,024, in tokens/s, and how near they come to what memory and arithmetic allow.
 *
 * usage: bench_exec MODEL f32|bf16|int8 [ROUNDS]      weights are random; KV f32 with f32 weights, else bf16 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/err.h"
#include "core/mem.h"
#include "core/rng.h"
#include "exec/runner.h"

enum { BLOCK = 16, MOST_SEQS = 32, MOST_CTX = 1024 };

static double seconds(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
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

static int32_t n_pages;
static int32_t *shuffled; /* page numbers in random order: as scattered as a busy pool's */

static void shuffle_pages(void)
{
	struct rng r;
	rng_init(&r, 1, 2);
	n_pages = MOST_SEQS * (MOST_CTX / BLOCK);
	shuffled = malloc((size_t)n_pages * sizeof *shuffled);
	for (int32_t i = 0; i < n_pages; i++) {
		int32_t k = (int32_t)rng_below(&r, (uint64_t)i + 1);
		shuffled[i] = shuffled[k];
		shuffled[k] = i;
	}
}

/* `seqs` sequences that compute `rows` tokens each, the last of which sees ctx. */
static void make_tables(struct batch_tables *t, int32_t seqs, int32_t rows, int32_t ctx)
{
	int32_t pages = (ctx + BLOCK - 1) / BLOCK;
	memset(t, 0, sizeof *t);
	t->n_seqs = seqs;
	t->n_rows = seqs * rows;
	t->n_decodes = rows == 1 ? seqs : 0;
	t->max_ctx = ctx;
	t->sum_ctx = rows == 1 ? (int64_t)seqs * ctx : 0;
	size_t n = (size_t)seqs + 1;
	t->req = calloc(n, 4), t->q_at = calloc(n, 4), t->ctx_len = calloc(n, 4), t->pad = calloc(n, 4);
	t->pad_rows = calloc(n, 4), t->first_token = calloc(n, 4), t->kv_indptr = calloc(n, 4);
	t->samples = calloc(n, 1), t->held = calloc(n, 1);
	t->kv_indices = calloc((size_t)seqs * (size_t)pages, 4);
	t->slots = calloc((size_t)t->n_rows, 8);
	for (int32_t s = 0; s < seqs; s++) {
		t->req[s] = s;
		t->q_at[s + 1] = (s + 1) * rows;
		t->ctx_len[s] = ctx;
		t->first_token[s] = ctx - rows;
		t->kv_indptr[s + 1] = (s + 1) * pages;
		t->samples[s] = 1;
		for (int32_t i = 0; i < pages; i++)
			t->kv_indices[s * pages + i] = shuffled[s * pages + i];
		for (int32_t i = 0; i < rows; i++) {
			int32_t j = ctx - rows + i;
			t->slots[s * rows + i] = (int64_t)t->kv_indices[s * pages + j / BLOCK] * BLOCK + j % BLOCK;
		}
	}
}

static void free_tables(struct batch_tables *t)
{
	free(t->req), free(t->q_at), free(t->ctx_len), free(t->pad), free(t->pad_rows), free(t->first_token);
	free(t->kv_indptr), free(t->kv_indices), free(t->slots), free(t->samples), free(t->held);
}

/* Median seconds of a step; prints its split. */
static double measure(struct runner *r, const char *what, int32_t seqs, int32_t rows, int32_t ctx, int rounds)
{
	struct batch_tables t;
	struct err e = {0};
	double s[64], parts[N_PARTS] = {0};
	make_tables(&t, seqs, rows, ctx);
	int32_t *tokens = calloc((size_t)t.n_rows, sizeof *tokens);
	for (int32_t i = 0; i < t.n_rows; i++)
		tokens[i] = i % 100;
	const struct step_input in = {.tables = &t, .row_tokens = tokens};
	for (int i = -1; i < rounds; i++) {
		struct step_output out;
		double began = seconds();
		if (runner_step(r, &in, &out, &e)) {
			fprintf(stderr, "bench_exec: %s\n", e.text);
			exit(1);
		}
		if (i < 0)
			continue; /* the first touches memory */
		s[i] = seconds() - began;
		for (int p = 0; p < N_PARTS; p++)
			parts[p] += (double)out.part_ns[p] / 1e6 / rounds;
	}
	double m = median(s, rounds);
	printf("%s_tok_s %.2f\n%s_ms %.2f\n", what, t.n_rows / m, what, m * 1e3);
	for (int p = 0; p < N_PARTS; p++)
		printf("%s_%s_ms %.2f\n", what, part_names[p], parts[p]);
	fflush(stdout);
	free_tables(&t);
	free(tokens);
	return m;
}

int main(int argc, char **argv)
{
	const char *model = argc > 1 ? argv[1] : "tinyllama-1.1b", *type = argc > 2 ? argv[2] : "bf16";
	int rounds = argc > 3 ? atoi(argv[3]) : 5;
	struct err e = {0};
	struct model m;
	struct weights *w;
	struct kernel_set *k;
	struct runner *r;
	char why[256];
	enum num t = !strcmp(type, "f32") ? NUM_F32 : !strcmp(type, "int8") ? NUM_I8 : NUM_BF16;
	enum num kv = t == NUM_F32 ? NUM_F32 : NUM_BF16;
	if (rounds < 1 || rounds > 64 || model_load(&m, model, &e) || weights_open(&w, "random:1", &m, &e)) {
		fprintf(stderr, "bench_exec: %s\n", e.text);
		return 1;
	}
	if (cpu_kernels_open(&k, &(struct cpu_options){0}, why, sizeof why)) {
		fprintf(stderr, "bench_exec: %s\n", why);
		return 1;
	}
	shuffle_pages();
	const struct runner_setup setup = {.model = &m,
					   .weights = w,
					   .kernels = k,
					   .weight_type = t,
					   .kv_type = kv,
					   .n_pages = n_pages,
					   .block_size = BLOCK,
					   .sampling = SAMPLING_GREEDY};
	double began = seconds();
	if (runner_create(&r, &setup, &e)) {
		fprintf(stderr, "bench_exec: %s\n", e.text);
		return 1;
	}
	printf("load_s %.2f\nweight_bytes %lld\n", seconds() - began, (long long)runner_weight_bytes(r));
	printf("kv_bytes_token %.0f\n", (double)runner_kv_bytes(r) / ((double)n_pages * BLOCK));
	printf("gflop_token %.4f\n", 2e-9 * (double)(m.params.attention + m.params.mlp));
	measure(r, "prefill_512", 1, 512, 512, rounds > 3 ? 3 : rounds);
	for (int32_t b = 1; b <= 32; b = b == 1 ? 8 : b * 4) {
		for (int32_t c = 128; c <= 1024; c *= 8) {
			char what[32];
			snprintf(what, sizeof what, "decode_%d_%d", b, c);
			measure(r, what, b, 1, c, rounds);
		}
	}
	runner_free(r);
	weights_close(w);
	model_free(&m);
	k->ops->close(k);
	free(shuffled);
	return 0;
}
