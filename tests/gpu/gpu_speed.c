/* gpu_speed.c: how fast the CUDA set is, beside what this device can do, measured in the same run: bytes a second of a copy,
 * operations a second of a large product. Prints one JSON object. `gpu_speed MODEL SHRINK` (default llama-3.1-8b, weights random;
 * SHRINK divides all shapes: a rehearsal, whose figures say nothing). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/err.h"
#include "exec/runner.h"
#include "kernels/cuda.h"

static struct kernel_set *k;
static const struct kernel_ops *ops;
static int32_t shrink = 1;

static _Noreturn void stop(const char *why)
{
	fprintf(stderr, "gpu_speed: %s\n", why);
	exit(3);
}

static void must(int rc)
{
	if (rc)
		stop(ops->error(k));
}

static void *take(size_t bytes)
{
	void *p = ops->alloc(k, bytes);
	if (!p)
		stop(ops->error(k));
	return p;
}

static void *put(const void *host, size_t bytes)
{
	void *p = take(bytes);
	must(ops->upload(k, p, host, bytes));
	return p;
}

static void *host(size_t n, size_t size)
{
	void *p = calloc(n, size);
	if (!p)
		stop("out of memory");
	return p;
}

static double now_s(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Seconds of the device that one call takes: the least of a few rounds of many. */
static double device_s(void (*call)(void *), void *ctx, int times)
{
	double least = 1e9;
	int rounds = shrink > 1 ? 2 : 6;
	times = shrink > 1 ? 1 : times;
	for (int round = 0; round < rounds; round++) {
		int64_t ns[N_PARTS];
		must(ops->mark(k, PART_OTHER));
		for (int i = 0; i < times; i++)
			call(ctx);
		must(ops->finish(k, ns));
		double s = (double)ns[PART_OTHER] / 1e9 / times;
		if (round && s < least)
			least = s;
	}
	return least;
}

/* --- ceilings --------------------------------------------------------------------------------------------------------- */

struct copy {
	void *from, *to;
	int32_t *index, rows, width;
};

static void copy(void *ctx)
{
	const struct copy *c = ctx;
	must(ops->gather(k, c->to, c->from, c->index, c->rows, c->width));
}

/* Bytes read and written a second: 1 GiB from one place to another. */
static double copy_bandwidth(void)
{
	struct copy c = {.rows = 65536 / shrink, .width = 8192};
	int32_t *index = host((size_t)c.rows, sizeof *index);
	size_t bytes = (size_t)c.rows * (size_t)c.width * 2;
	for (int32_t i = 0; i < c.rows; i++)
		index[i] = i;
	c.index = put(index, (size_t)c.rows * sizeof *index);
	c.from = take(bytes);
	c.to = take(bytes);
	double s = device_s(copy, &c, 10);
	ops->release(k, c.from);
	ops->release(k, c.to);
	ops->release(k, c.index);
	free(index);
	return 2 * (double)bytes / s;
}

struct multiply {
	struct matrix *m;
	void *x, *y;
	int32_t rows;
};

static void multiply(void *ctx)
{
	const struct multiply *p = ctx;
	must(ops->matmul(k, p->y, p->x, p->rows, p->m));
}

/* Operations a second of an 8192 x 8192 x 8192 product in bf16 of random numbers (of zeros it would be quicker). */
static double matrix_peak(void)
{
	int32_t size = 8192 / shrink;
	size_t n = (size_t)size * (size_t)size;
	uint16_t *w = host(n, sizeof *w);
	uint32_t seed = 1;
	for (size_t i = 0; i < n; i++) {
		seed = seed * 1664525u + 1013904223u;
		w[i] = (uint16_t)((seed >> 31) << 15 | (0x3f00 + (seed >> 24 & 0x7f))); /* +-0.5 .. 1 */
	}
	struct multiply p = {.rows = size, .x = put(w, n * 2), .y = take(n * 2)};
	const struct matrix_part part = {w, NUM_BF16, size, NULL};
	must(ops->pack(k, &p.m, &part, 1, size, NUM_BF16));
	double s = device_s(multiply, &p, 10);
	ops->unpack_free(k, p.m);
	ops->release(k, p.x);
	ops->release(k, p.y);
	free(w);
	return 2.0 * (double)n * size / s;
}

/* --- attention -------------------------------------------------------------------------------------------------------- */

struct attend {
	struct step_rows rows;
	struct attention_shape shape;
	struct kv_shape kv;
	struct kv_layer layer;
	void *qkv, *out;
};

static void attend(void *ctx)
{
	struct attend *a = ctx;
	must(ops->attention(k, a->out, a->qkv, &a->rows, &a->shape, &a->kv, &a->layer, NULL));
}

/* Bytes of K and V a second: n decodes of ctx tokens each, 32 heads on 8 of 128 in bf16, pages of 16 in scattered order. */
static double decode_bandwidth(int32_t n, int32_t ctx)
{
	int32_t pages = ctx / 16, all = n * pages;
	int32_t *q_at = host((size_t)n + 1, 4), *lens = host((size_t)n, 4), *pad = host((size_t)n, 4),
		*indptr = host((size_t)n + 1, 4), *indices = host((size_t)all, 4);
	for (int32_t s = 0; s < n; s++) {
		q_at[s + 1] = s + 1;
		lens[s] = ctx;
		indptr[s + 1] = (s + 1) * pages;
	}
	for (int32_t i = 0; i < all; i++)
		indices[i] = (int32_t)((int64_t)i * 7919 % all);
	struct attend a = {.shape = {32, 8, 128, 0.0883883476F, 0}, .kv = {NUM_BF16, all, 16, 8, 128}};
	size_t arena = (size_t)all * 16 * 8 * 128 * 2;
	a.rows = (struct step_rows){.n_seqs = n,
				    .n_rows = n,
				    .n_decodes = n,
				    .max_ctx = ctx,
				    .sum_ctx = (int64_t)n * ctx,
				    .q_at = put(q_at, ((size_t)n + 1) * 4),
				    .ctx_len = put(lens, (size_t)n * 4),
				    .pad = put(pad, (size_t)n * 4),
				    .kv_indptr = put(indptr, ((size_t)n + 1) * 4),
				    .kv_indices = put(indices, (size_t)all * 4)};
	a.layer.k = take(arena);
	a.layer.v = take(arena);
	a.qkv = take((size_t)n * 48 * 128 * 2);
	a.out = take((size_t)n * 32 * 128 * 2);
	double s = device_s(attend, &a, 20);
	void *const all_of_it[] = {a.layer.k, a.layer.v, a.qkv, a.out};
	for (int i = 0; i < 4; i++)
		ops->release(k, all_of_it[i]);
	free(q_at);
	free(lens);
	free(pad);
	free(indptr);
	free(indices);
	return 2 * (double)arena / s;
}

/* --- steps ------------------------------------------------------------------------------------------------------------ */

struct step_time {
	double device_s, gap_s; /* medians: of the kernels, and of what the step takes beside them */
};

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

/* n sequences, the last `rows` of ctx tokens each; pages of 16. */
static struct step_time step(struct runner *r, int32_t n, int32_t rows, int32_t ctx)
{
	enum { TIMES = 40, WARM = 4 };
	int32_t pages = (ctx + 15) / 16, all = n * pages;
	struct batch_tables t = {.n_seqs = n, .n_rows = n * rows, .n_decodes = rows == 1 ? n : 0, .max_ctx = ctx};
	t.req = host((size_t)n, 4);
	t.q_at = host((size_t)n + 1, 4);
	t.ctx_len = host((size_t)n, 4);
	t.pad = host((size_t)n, 4);
	t.pad_rows = host((size_t)n, 4);
	t.first_token = host((size_t)n, 4);
	t.kv_indptr = host((size_t)n + 1, 4);
	t.kv_indices = host((size_t)all, 4);
	t.slots = host((size_t)(n * rows), 8);
	t.samples = host((size_t)n, 1);
	t.held = host((size_t)n, 1);
	int32_t *tokens = host((size_t)(n * rows), 4);
	for (int32_t i = 0; i < all; i++)
		t.kv_indices[i] = (int32_t)((int64_t)i * 7919 % all);
	for (int32_t s = 0; s < n; s++) {
		t.q_at[s + 1] = (s + 1) * rows;
		t.ctx_len[s] = ctx;
		t.kv_indptr[s + 1] = (s + 1) * pages;
		t.samples[s] = 1;
		for (int32_t i = 0; i < rows; i++) {
			int32_t j = ctx - rows + i;
			t.slots[s * rows + i] = (int64_t)t.kv_indices[s * pages + j / 16] * 16 + j % 16;
			tokens[s * rows + i] = (s * 131 + i * 17) % 1000;
		}
	}
	const struct step_input in = {.tables = &t, .row_tokens = tokens};
	double device[TIMES], gap[TIMES];
	int times = shrink > 1 ? WARM + 1 : rows == 1 ? TIMES : WARM + 6;
	struct err e = {0};
	for (int i = 0; i < times; i++) {
		struct step_output out;
		double began = now_s();
		if (runner_step(r, &in, &out, &e))
			stop(e.text);
		double took = now_s() - began;
		device[i] = 0;
		for (int p = 0; p < N_PARTS; p++)
			device[i] += (double)out.part_ns[p] / 1e9;
		gap[i] = took - device[i];
	}
	int n_kept = times - WARM;
	qsort(device + WARM, (size_t)n_kept, sizeof *device, by_value);
	qsort(gap + WARM, (size_t)n_kept, sizeof *gap, by_value);
	batch_tables_free(&t);
	free(tokens);
	return (struct step_time){device[WARM + n_kept / 2], gap[WARM + n_kept / 2]};
}

/* --- the table -------------------------------------------------------------------------------------------------------- */

static int n_figures;

static void figure(const char *name, double value, const char *unit, double of, double at_least, double at_most)
{
	printf("%s\n    {\"name\": \"%s\", \"value\": %.4g, \"unit\": \"%s\"", n_figures++ ? "," : "", name, value,
	       unit);
	if (of > 0)
		printf(", \"of_ceiling\": %.4g", value / of);
	if (at_least > 0)
		printf(", \"target\": %.4g, \"reached\": %s", at_least, value / of >= at_least ? "true" : "false");
	if (at_most > 0)
		printf(", \"at_most\": %.4g, \"reached\": %s", at_most, value <= at_most ? "true" : "false");
	printf("}");
	fflush(stdout);
}

static void measure_model(const char *name, double bandwidth, double peak)
{
	struct model m = {0};
	struct weights *w;
	struct runner *r;
	struct err e = {0};
	if (model_load(&m, name, &e) || weights_open(&w, "random:1", &m, &e))
		stop(e.text);
	const struct runner_setup s = {.model = &m,
				       .weights = w,
				       .kernels = k,
				       .weight_type = NUM_BF16,
				       .kv_type = NUM_BF16,
				       .n_pages = 64 * (1024 / shrink) / 16 + 256,
				       .block_size = 16,
				       .ready_rows = 4096 / shrink,
				       .ready_seqs = 64,
				       .ready_ctx = 4096 / shrink,
				       .sampling = SAMPLING_GREEDY};
	if (runner_create(&r, &s, &e))
		stop(e.text);
	weights_close(w);
	double kv_token = 2.0 * m.n_layers * m.n_kv_heads * m.head_dim * 2, weights = (double)runner_weight_bytes(r);
	int32_t ctx = 1024 / shrink, rows = 4096 / shrink;
	struct step_time one = step(r, 1, 1, ctx), many = step(r, 64, 1, ctx), prompt = step(r, 1, rows, rows);
	double one_bytes = weights + ctx * kv_token, many_bytes = weights + 64.0 * ctx * kv_token;
	figure("decode step, 1 sequence of 1024", one_bytes / one.device_s / 1e9, "GB/s", bandwidth / 1e9, 0.80, 0);
	figure("decode step, 64 sequences of 1024", many_bytes / many.device_s / 1e9, "GB/s", bandwidth / 1e9, 0.75, 0);
	figure("host gap of a decode step, 1 sequence", one.gap_s * 1e6, "us", 0, 0, 50);
	figure("host gap of a decode step, 64 sequences", many.gap_s * 1e6, "us", 0, 0, 50);
	/* Every weight but the embedding and the head twice a token, and the causal half of QK and PV. */
	double products = weights - (double)m.hidden * m.vocab * 2;
	double flop = products * rows + 2.0 * rows * rows * m.n_layers * m.n_heads * m.head_dim;
	figure("prefill of 4096 tokens", flop / prompt.device_s / 1e12, "Tflop/s", peak / 1e12, 0.65, 0);
	runner_free(r);
	model_free(&m);
}

int main(int argc, char **argv)
{
	char why[512] = "";
	const struct cuda_options o = {.act = NUM_BF16};
	if (argc > 2)
		shrink = atoi(argv[2]) > 0 && atoi(argv[2]) <= 64 ? atoi(argv[2]) : 1;
	if (cuda_kernels_open(&k, &o, why, sizeof why))
		stop(why);
	ops = k->ops;
	double bandwidth = copy_bandwidth(), peak = matrix_peak();
	printf("{\n  \"device\": \"%s\",\n  \"model\": \"%s\",\n  \"shrunk\": %d,\n  \"figures\": [", k->what,
	       argc > 1 ? argv[1] : "llama-3.1-8b", shrink);
	figure("copy", bandwidth / 1e9, "GB/s", 0, 0, 0);
	figure("product of 8192 x 8192 x 8192, bf16", peak / 1e12, "Tflop/s", 0, 0, 0);
	figure("decode attention, 64 x 4096", decode_bandwidth(64, 4096 / shrink) / 1e9, "GB/s", bandwidth / 1e9, 0.85,
	       0);
	figure("decode attention, 1 x 16384", decode_bandwidth(1, 16384 / shrink) / 1e9, "GB/s", bandwidth / 1e9, 0, 0);
	measure_model(argc > 1 ? argv[1] : "llama-3.1-8b", bandwidth, peak);
	printf("\n  ]\n}\n");
	ops->close(k);
	return 0;
}
