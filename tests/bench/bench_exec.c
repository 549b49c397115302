/* bench_exec: a model's steps on the CPU's kernels, whole: prefill of 512, decodes of 1, 8 and 32 sequences over contexts of
 * 128 and 1,024, in tokens/s, and how near they come to what memory and arithmetic allow.
 *
 * usage: bench_exec                                  the rows of `make bench`: TinyLlama's shape, every type of weights
 *        bench_exec MODEL f32|bf16|int8 [ROUNDS]      every figure of one; weights are random, KV f32 with f32 weights,
 *                                                     else bf16 */
#include <pthread.h>
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

/* Median seconds of a step; prints its split when it has a name. */
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
	if (what)
		printf("%s_tok_s %.2f\n%s_ms %.2f\n", what, t.n_rows / m, what, m * 1e3);
	for (int p = 0; p < N_PARTS && what; p++)
		printf("%s_%s_ms %.2f\n", what, part_names[p], parts[p]);
	fflush(stdout);
	free_tables(&t);
	free(tokens);
	return m;
}

/* --- what the machine allows -------------------------------------------------------------------------------------- */

enum { READ_BYTES = 256 << 20, READERS = 64 };
static int32_t readers;
static uint64_t *memory;

static void *read_share(void *ctx)
{
	typedef uint64_t v __attribute__((vector_size(32)));
	size_t share = READ_BYTES / (size_t)readers / 256 * 256, k = (size_t)(intptr_t)ctx;
	const char *at = (const char *)memory + k * share;
	v sum[4], got[4];
	memset(sum, 0, sizeof sum);
	for (size_t i = 0; i + sizeof got <= share; i += sizeof got) {
		memcpy(got, at + i, sizeof got);
		for (int j = 0; j < 4; j++)
			sum[j] ^= got[j];
	}
	for (int j = 1; j < 4; j++)
		sum[0] ^= sum[j];
	return (void *)(uintptr_t)(sum[0][0] & 1);
}

/* Bytes a second that all threads together read; the median of 9. */
static double read_rate(void)
{
	double s[9];
	pthread_t thread[READERS];
	for (int i = 0; i < 9; i++) {
		double began = seconds();
		for (int32_t k = 0; k < readers; k++)
			pthread_create(&thread[k], NULL, read_share, (void *)(intptr_t)k);
		for (int32_t k = 0; k < readers; k++)
			pthread_join(thread[k], NULL);
		s[i] = seconds() - began;
	}
	return READ_BYTES / median(s, 9);
}

/* FLOP/s of a product of the MLP's shape with so many rows. */
static double product_rate(struct kernel_set *k, const struct model *m, enum num type, int32_t rows)
{
	int32_t n_in = m->hidden, n_out = 2 * m->intermediate;
	float *w = calloc((size_t)n_in * (size_t)n_out, sizeof *w), *x = calloc((size_t)rows * (size_t)n_in, sizeof *x);
	float *y = calloc((size_t)rows * (size_t)n_out, sizeof *y);
	for (size_t i = 0; i < (size_t)n_in * (size_t)n_out; i++)
		w[i] = (float)(i % 17) - 8;
	for (size_t i = 0; i < (size_t)rows * (size_t)n_in; i++)
		x[i] = (float)(i % 13) - 6;
	const struct matrix_part part = {w, NUM_F32, n_out, NULL};
	struct matrix *packed;
	double s[5];
	if (k->ops->pack(k, &packed, &part, 1, n_in, type)) {
		fprintf(stderr, "bench_exec: %s\n", k->ops->error(k));
		exit(1);
	}
	for (int i = -1; i < 5; i++) {
		double began = seconds();
		k->ops->matmul(k, y, x, rows, packed);
		k->ops->finish(k, NULL);
		if (i >= 0)
			s[i] = seconds() - began;
	}
	k->ops->unpack_free(k, packed);
	free(w), free(x), free(y);
	return 2.0 * rows * n_in * n_out / median(s, 5);
}

struct loaded {
	struct model m;
	struct weights *w;
	struct kernel_set *k;
	struct runner *r;
	double load_s;
};

static void load(struct loaded *l, const char *model, enum num type)
{
	struct err e = {0};
	char why[256];
	if (model_load(&l->m, model, &e) || weights_open(&l->w, "random:1", &l->m, &e)) {
		fprintf(stderr, "bench_exec: %s\n", e.text);
		exit(1);
	}
	if (cpu_kernels_open(&l->k, &(struct cpu_options){0}, why, sizeof why)) {
		fprintf(stderr, "bench_exec: %s\n", why);
		exit(1);
	}
	const struct runner_setup setup = {.model = &l->m,
					   .weights = l->w,
					   .kernels = l->k,
					   .weight_type = type,
					   .kv_type = type == NUM_F32 ? NUM_F32 : NUM_BF16,
					   .n_pages = n_pages,
					   .block_size = BLOCK,
					   .ready_rows = 512,
					   .ready_seqs = MOST_SEQS,
					   .sampling = SAMPLING_GREEDY};
	double began = seconds();
	if (runner_create(&l->r, &setup, &e)) {
		fprintf(stderr, "bench_exec: %s\n", e.text);
		exit(1);
	}
	l->load_s = seconds() - began;
}

static void unload(struct loaded *l)
{
	runner_free(l->r);
	weights_close(l->w);
	model_free(&l->m);
	l->k->ops->close(l->k);
}

/* The rows of `make bench`: speeds, and shares of floors measured in the same minutes. */
static void print_rows(enum num type)
{
	struct loaded l;
	load(&l, "tinyllama-1.1b", type);
	const char *name = num_names[type];
	double gflop = 2 * (double)(l.m.params.attention + l.m.params.mlp);
	double weights = (double)runner_weight_bytes(l.r);
	double kv = (double)runner_kv_bytes(l.r) / ((double)n_pages * BLOCK);
	readers = l.k->threads < READERS ? l.k->threads : READERS;

	double many = product_rate(l.k, &l.m, type, 512);
	double prefill = measure(l.r, NULL, 1, 512, 512, 1);
	printf("1.1B %s, prefill of 512\t%.1f\ttok/s\n", name, 512 / prefill);
	printf("  of the rate of products\t%.0f\t%%\t>=80\n", 100 * 512 * gflop / prefill / many);
	double read = read_rate(), one = measure(l.r, NULL, 1, 1, 128, 9);
	printf("1.1B %s, decode of 1 at 128\t%.1f\ttok/s\n", name, 1 / one);
	printf("  weights read, of the rate of reading\t%.0f\t%%\t>=80\n", 100 * weights / one / read);
	for (int32_t b = 1; b <= 32; b = b == 1 ? 8 : b * 4) {
		for (int32_t c = 128; c <= 1024; c *= 8) {
			if (b == 1 && c == 128)
				continue;
			double s = measure(l.r, NULL, b, 1, c, 3);
			printf("1.1B %s, decode of %d at %d\t%.1f\ttok/s\n", name, b, c, b / s);
			if (b < 32 || c < 1024)
				continue;
			double rate = product_rate(l.k, &l.m, type, b), compute = b * gflop / rate;
			double floor = (compute > weights / read ? compute : weights / read) + b * c * kv / read;
			printf("  of products and KV at their own rates\t%.0f\t%%\t>=70\n", 100 * floor / s);
		}
	}
	fflush(stdout);
	unload(&l);
}

static void print_all(const char *model, enum num type, int rounds)
{
	struct loaded l;
	load(&l, model, type);
	printf("load_s %.2f\nweight_bytes %lld\n", l.load_s, (long long)runner_weight_bytes(l.r));
	printf("kv_bytes_token %.0f\n", (double)runner_kv_bytes(l.r) / ((double)n_pages * BLOCK));
	printf("gflop_token %.4f\n", 2e-9 * (double)(l.m.params.attention + l.m.params.mlp));
	measure(l.r, "prefill_512", 1, 512, 512, rounds > 3 ? 3 : rounds);
	for (int32_t b = 1; b <= 32; b = b == 1 ? 8 : b * 4) {
		for (int32_t c = 128; c <= 1024; c *= 8) {
			char what[32];
			snprintf(what, sizeof what, "decode_%d_%d", b, c);
			measure(l.r, what, b, 1, c, rounds);
		}
	}
	unload(&l);
}

int main(int argc, char **argv)
{
	const char *type = argc > 2 ? argv[2] : "bf16";
	int rounds = argc > 3 ? atoi(argv[3]) : 5;
	shuffle_pages();
	if (argc > 1) {
		print_all(argv[1],
			  !strcmp(type, "f32")    ? NUM_F32
			  : !strcmp(type, "int8") ? NUM_I8
						  : NUM_BF16,
			  rounds < 1    ? 1
			  : rounds > 64 ? 64
					: rounds);
	} else {
		memory = malloc(READ_BYTES);
		memset(memory, 1, READ_BYTES);
		print_rows(NUM_BF16);
		print_rows(NUM_I8);
		print_rows(NUM_F32);
		free(memory);
	}
	free(shuffled);
	return 0;
}
