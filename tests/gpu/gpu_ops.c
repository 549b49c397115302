/* gpu_ops.c: the operations of the CUDA set on a real device against the reference in double: the same table of attention
 * shapes as every other set, products in every type, and a whole model. `gpu_ops` takes all of it; with an argument shapes are
 * divided by that number (under compute-sanitizer); `gpu_ops name` says what the device is. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/err.h"
#include "kernels/cuda.h"
#include "kernels/half.h"
#include "tests/support/kv_step.h"
#include "tests/support/op_cases.h"
#include "tests/support/suite.h"
#include "tests/support/tiny.h"

static int32_t shrink = 1;
static struct kernel_set *reference;

static struct kernel_set *open_set(enum num act)
{
	struct kernel_set *k;
	char why[512] = "";
	const struct cuda_options o = {.act = act};
	if (cuda_kernels_open(&k, &o, why, sizeof why)) {
		fprintf(stderr, "gpu_ops: %s\n", why);
		exit(3);
	}
	return k;
}

/* --- attention ------------------------------------------------------------------------------------------------------ */

static float *attend(struct kernel_set *set, const struct kv_desc *d)
{
	struct kv_step s;
	kv_step_make(&s, set, d);
	float *out = kv_step_attend(&s);
	CHECK_INT(s.bad.n, 0);
	kv_step_free(&s);
	return out;
}

/* The same with bf16 activations: qkv are numbers that bf16 holds, and the output is rounded to it. */
static float *attend_narrow(struct kernel_set *set, const struct kv_desc *d)
{
	struct kv_step s;
	kv_step_make(&s, set, d);
	size_t width = (size_t)(d->n_heads + 2 * d->n_kv_heads) * (size_t)d->head_dim, rows = (size_t)s.rows.n_rows;
	size_t n_in = rows * width, n_out = rows * (size_t)(d->n_heads * d->head_dim);
	float *wide = kv_host_copy(set, s.qkv, n_in * sizeof *wide), *out = malloc(n_out * sizeof *out);
	uint16_t *narrow = malloc((n_in > n_out ? n_in : n_out) * sizeof *narrow);
	for (size_t i = 0; i < n_in; i++)
		narrow[i] = float_to_bf16(wide[i]);
	void *qkv = set->ops->alloc(set, n_in * 2), *to = set->ops->alloc(set, n_out * 2);
	CHECK_INT(set->ops->upload(set, qkv, narrow, n_in * 2), 0);
	CHECK_INT(set->ops->attention(set, to, qkv, &s.rows, &s.shape, &s.kv, &s.layer, &s.bad), 0);
	CHECK_INT(set->ops->download(set, narrow, to, n_out * 2), 0);
	CHECK_INT(set->ops->finish(set, NULL), 0);
	CHECK_INT(s.bad.n, 0);
	for (size_t i = 0; i < n_out; i++)
		out[i] = bf16_to_float(narrow[i]);
	set->ops->release(set, qkv);
	set->ops->release(set, to);
	free(wide);
	free(narrow);
	kv_step_free(&s);
	return out;
}

static void attention_like_the_reference(enum num act, double tolerance)
{
	static const enum num types[] = {NUM_F32, NUM_BF16, NUM_I8, NUM_F8};
	struct kernel_set *set = open_set(act);
	for (const struct attention_case *c = attention_cases; c->name; c++)
		for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
			struct kv_seq seqs[ATTENTION_CASE_SEQS];
			struct kv_desc d = attention_case_desc(c, types[t], shrink, seqs);
			d.check = true;
			d.round = true;
			float *want = attend(reference, &d),
			      *got = act == NUM_F32 ? attend(set, &d) : attend_narrow(set, &d);
			size_t rows = 0;
			for (int32_t i = 0; i < d.n_seqs; i++)
				rows += (size_t)d.seqs[i].rows;
			double off = got ? kv_error(got, want, rows * (size_t)(d.n_heads * d.head_dim)) : INFINITY;
			CU_ASSERT(off <= tolerance);
			if (!(off <= tolerance))
				printf("  %s, pages in %s, activations in %s: off by %g\n", c->name,
				       num_names[types[t]], num_names[act], off);
			free(want);
			free(got);
		}
	set->ops->close(set);
}

static void attention_in_f32(void)
{
	attention_like_the_reference(NUM_F32, 5e-6);
}

static void attention_in_bf16(void)
{
	attention_like_the_reference(NUM_BF16, 8e-3);
}

/* --- products ------------------------------------------------------------------------------------------------------- */

static float *multiply(struct kernel_set *k, enum num as, int32_t rows, int32_t n_out, int32_t n_in)
{
	uint64_t seed = 11;
	size_t n_w = (size_t)n_out * (size_t)n_in, n_x = (size_t)rows * (size_t)n_in,
	       n_y = (size_t)rows * (size_t)n_out;
	float *w = malloc(n_w * sizeof *w), *x = malloc(n_x * sizeof *x);
	uint16_t *narrow = malloc(n_x * sizeof *narrow);
	for (size_t i = 0; i < n_w; i++)
		w[i] = bf16_to_float(float_to_bf16(kv_normal(&seed)));
	for (size_t i = 0; i < n_x; i++)
		x[i] = bf16_to_float(narrow[i] = float_to_bf16(kv_normal(&seed)));
	const struct matrix_part part = {w, NUM_F32, n_out, NULL};
	struct matrix *m = NULL;
	size_t each = (size_t)num_bytes(k->act);
	void *dx = k->ops->alloc(k, n_x * each), *dy = k->ops->alloc(k, n_y * sizeof(float));
	int rc = k->ops->pack(k, &m, &part, 1, n_in, as);
	if (rc)
		printf("  %s\n", k->ops->error(k));
	CU_ASSERT_FATAL(rc == 0);
	k->ops->upload(k, dx, k->act == NUM_F32 ? (const void *)x : narrow, n_x * each);
	rc = k->ops->matmul_f32(k, dy, dx, rows, m);
	if (rc)
		printf("  %s\n", k->ops->error(k));
	CHECK_INT(rc, 0);
	float *y = kv_host_copy(k, dy, n_y * sizeof *y);
	k->ops->unpack_free(k, m);
	k->ops->release(k, dx);
	k->ops->release(k, dy);
	free(w);
	free(x);
	free(narrow);
	return y;
}

/* Sizes stay multiples of 16. */
static int32_t smaller(int32_t n)
{
	return n < 1024 ? n : n / (shrink > 16 ? 16 : shrink > 4 ? 2 : 1);
}

static void products_like_the_reference(void)
{
	static const struct {
		enum num as;
		double tolerance;
	} types[] = {{NUM_F32, 2e-6}, {NUM_BF16, 2e-6}, {NUM_I8, 2e-2}, {NUM_F8, 6e-2}};
	static const int32_t rows[] = {1, 3, 16, 17, 200}, sizes[][2] = {{4096, 1024}, {1024, 4096}, {288, 768}};
	for (size_t t = 0; t < 4; t++) {
		struct kernel_set *k = open_set(types[t].as == NUM_F32 ? NUM_F32 : NUM_BF16);
		bool has_f8 = strstr(k->what, "sm_8") == NULL || strstr(k->what, "sm_89");
		for (size_t r = 0; r < 5 && (types[t].as != NUM_F8 || has_f8); r++)
			for (size_t s = 0; s < 3; s++) {
				int32_t n_out = smaller(sizes[s][0]), n_in = smaller(sizes[s][1]);
				float *want = multiply(reference, NUM_F32, rows[r], n_out, n_in);
				float *got = multiply(k, types[t].as, rows[r], n_out, n_in);
				double off = kv_error(got, want, (size_t)rows[r] * (size_t)n_out);
				CU_ASSERT(off <= types[t].tolerance);
				if (!(off <= types[t].tolerance))
					printf("  %s, %d rows, %d x %d: off by %g\n", num_names[types[t].as], rows[r],
					       n_out, n_in, off);
				free(want);
				free(got);
			}
		k->ops->close(k);
	}
}

/* --- a model, through graphs ------------------------------------------------------------------------------------------ */

enum { PAGES = 32, OUTPUTS = 40 };

static void speak(struct kernel_set *k, int32_t *tokens)
{
	struct tiny t;
	struct err e = {0};
	int32_t pages[PAGES], prompt[19];
	tiny_open(&t, NULL, 0);
	struct kernel_set *its = t.kernels;
	t.kernels = k ? k : its;
	struct runner *r =
		tiny_runner(&t, (struct runner_setup){.n_pages = PAGES, .block_size = 16, .sampling = SAMPLING_GREEDY});
	for (int32_t i = 0; i < PAGES; i++)
		pages[i] = (i * 7 + 3) % PAGES;
	for (int32_t i = 0; i < 19; i++)
		prompt[i] = (i * 13 + 5) % TINY_VOCAB;
	struct by_hand h = {.runner = r, .block_size = 16, .n_pages = PAGES, .pages = pages, .err = &e};
	for (int32_t i = 0; i < OUTPUTS; i++)
		tokens[i] = by_hand_step(&h, i ? &tokens[i - 1] : prompt, i ? 1 : 19);
	CHECK_STR(e.text, "");
	runner_free(r);
	t.kernels = its;
	tiny_close(&t);
}

static void a_model_says_what_it_says_on_the_reference(void)
{
	int32_t want[OUTPUTS], got[OUTPUTS];
	struct kernel_set *k = open_set(NUM_F32);
	speak(NULL, want);
	speak(k, got);
	CU_ASSERT(memcmp(want, got, sizeof want) == 0);
	k->ops->close(k);
}

static const struct test tests[] = {
	{"attention_in_f32", attention_in_f32},
	{"attention_in_bf16", attention_in_bf16},
	{"products_like_the_reference", products_like_the_reference},
	{"a_model_says_what_it_says_on_the_reference", a_model_says_what_it_says_on_the_reference},
};

int main(int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[1], "name") == 0) {
		struct kernel_set *k = open_set(NUM_BF16);
		puts(k->what);
		k->ops->close(k);
		return 0;
	}
	if (argc > 1)
		shrink = atoi(argv[1]) > 0 ? atoi(argv[1]) : 1;
	if (reference_kernels_open(&reference))
		return 1;
	int status = SUITE_RUN("gpu_ops", tests);
	reference->ops->close(reference);
	return status;
}
