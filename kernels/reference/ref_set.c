/* ref_set.c: the reference set: its memory, its simple operations and its table. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kernels/half.h"
#include "kernels/reference/ref.h"

static struct ref_set *set_of(struct kernel_set *k)
{
	return (struct ref_set *)k;
}

int ref_fail(struct kernel_set *k, const char *line)
{
	snprintf(set_of(k)->error, sizeof set_of(k)->error, "%s", line);
	return -1;
}

static const char *ref_error(struct kernel_set *k)
{
	return set_of(k)->error;
}

static void ref_close(struct kernel_set *k)
{
	free(k);
}

static void *ref_alloc(struct kernel_set *k, size_t bytes)
{
	size_t size = (bytes + 64) / 64 * 64;
	void *p = size > bytes ? aligned_alloc(64, size) : NULL;
	if (p)
		memset(p, 0, size);
	else
		ref_fail(k, "out of memory");
	return p;
}

static void ref_release(struct kernel_set *k, void *device)
{
	(void)k;
	free(device);
}

static int ref_copy(struct kernel_set *k, void *to, const void *from, size_t bytes)
{
	(void)k;
	if (bytes)
		memcpy(to, from, bytes);
	return 0;
}

static int ref_matmul_act(struct kernel_set *k, void *y, const void *x, int32_t rows, const struct matrix *w)
{
	return ref_matmul(k, y, x, rows, w);
}

static int ref_matmul_f32(struct kernel_set *k, float *y, const void *x, int32_t rows, const struct matrix *w)
{
	return ref_matmul(k, y, x, rows, w);
}

static int ref_embed(struct kernel_set *k, void *y, const void *table, enum num t, const int32_t *ids, int32_t rows,
		     int32_t dim)
{
	if (t == NUM_I8 || t == NUM_F8)
		return ref_fail(k, "an embedding table is f32, bf16 or f16, not int8 or fp8");
	for (int32_t r = 0; r < rows; r++)
		for (int32_t i = 0; i < dim; i++) {
			size_t from = (size_t)ids[r] * (size_t)dim + (size_t)i;
			const uint16_t *half = table;
			((float *)y)[(size_t)r * (size_t)dim + (size_t)i] = t == NUM_F32 ? ((const float *)table)[from]
									    : t == NUM_BF16 ? bf16_to_float(half[from])
											    : f16_to_float(half[from]);
		}
	return 0;
}

void ref_norm_row(float *y, const float *x, const float *w, int32_t dim, float eps)
{
	double sum = 0;
	for (int32_t i = 0; i < dim; i++)
		sum += (double)x[i] * x[i];
	double by = 1 / sqrt(sum / dim + (double)eps);
	for (int32_t i = 0; i < dim; i++)
		y[i] = (float)(x[i] * by * w[i]);
}

static int ref_rms_norm(struct kernel_set *k, void *y, const void *x, const float *w, int32_t rows, int32_t dim,
			float eps)
{
	(void)k;
	for (int32_t r = 0; r < rows; r++)
		ref_norm_row((float *)y + (size_t)r * (size_t)dim, (const float *)x + (size_t)r * (size_t)dim, w, dim,
			     eps);
	return 0;
}

static int ref_add_rms_norm(struct kernel_set *k, void *y, void *x, const void *delta, const float *w, int32_t rows,
			    int32_t dim, float eps)
{
	for (size_t i = 0; i < (size_t)rows * (size_t)dim; i++)
		((float *)x)[i] += ((const float *)delta)[i];
	return ref_rms_norm(k, y, x, w, rows, dim, eps);
}

static int ref_silu_mul(struct kernel_set *k, void *y, const void *gu, int32_t rows, int32_t width)
{
	(void)k;
	for (int32_t r = 0; r < rows; r++) {
		const float *g = (const float *)gu + (size_t)r * 2 * (size_t)width, *u = g + width;
		for (int32_t i = 0; i < width; i++)
			((float *)y)[(size_t)r * (size_t)width + (size_t)i] =
				(float)((double)g[i] / (1 + exp(-(double)g[i])) * u[i]);
	}
	return 0;
}

static int ref_gather(struct kernel_set *k, void *y, const void *x, const int32_t *index, int32_t n, int32_t dim)
{
	(void)k;
	for (int32_t i = 0; i < n; i++)
		memcpy((float *)y + (size_t)i * (size_t)dim, (const float *)x + (size_t)index[i] * (size_t)dim,
		       (size_t)dim * sizeof(float));
	return 0;
}

static int ref_copy_pages(struct kernel_set *k, const struct page_plane *planes, int32_t n_planes, const int32_t *pairs,
			  int32_t n)
{
	(void)k;
	for (int32_t p = 0; p < n_planes; p++)
		for (int32_t i = 0; i < n; i++)
			for (int64_t b = 0; b < planes[p].page_bytes; b++)
				((char *)planes[p].to)[pairs[2 * i + 1] * planes[p].page_bytes + b] =
					((const char *)planes[p].from)[pairs[2 * i] * planes[p].page_bytes + b];
	return 0;
}

static int ref_argmax(struct kernel_set *k, int32_t *tokens, const float *logits, int32_t rows, int32_t vocab)
{
	(void)k;
	for (int32_t r = 0; r < rows; r++) {
		const float *x = logits + (size_t)r * (size_t)vocab;
		int32_t best = 0;
		for (int32_t i = 1; i < vocab; i++)
			best = x[i] > x[best] ? i : best;
		tokens[r] = best;
	}
	return 0;
}

static int64_t now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int ref_mark(struct kernel_set *k, enum part p)
{
	struct ref_set *s = set_of(k);
	int64_t now = now_ns();
	if (s->part != N_PARTS)
		s->part_ns[s->part] += now - s->part_since_ns;
	s->part_since_ns = now;
	s->part = p;
	return 0;
}

static int ref_finish(struct kernel_set *k, int64_t part_ns[N_PARTS])
{
	struct ref_set *s = set_of(k);
	ref_mark(k, N_PARTS);
	if (part_ns)
		memcpy(part_ns, s->part_ns, sizeof s->part_ns);
	memset(s->part_ns, 0, sizeof s->part_ns);
	return 0;
}

static const struct kernel_ops ref_ops = {
	.name = "reference",
	.error = ref_error,
	.close = ref_close,
	.alloc = ref_alloc,
	.release = ref_release,
	.upload = ref_copy,
	.download = ref_copy,
	.download_later = ref_copy,
	.pack = ref_pack,
	.unpack_free = ref_unpack_free,
	.matrix_bytes = ref_matrix_bytes,
	.matmul = ref_matmul_act,
	.matmul_f32 = ref_matmul_f32,
	.embed = ref_embed,
	.rms_norm = ref_rms_norm,
	.add_rms_norm = ref_add_rms_norm,
	.rope_kv = ref_rope_kv,
	.attention = ref_attention,
	.silu_mul = ref_silu_mul,
	.gather = ref_gather,
	.argmax = ref_argmax,
	.copy_pages = ref_copy_pages,
	.mark = ref_mark,
	.finish = ref_finish,
};

int reference_kernels_open(struct kernel_set **out)
{
	struct ref_set *s = calloc(1, sizeof *s);
	*out = NULL;
	if (!s)
		return -1;
	s->base = (struct kernel_set){
		.ops = &ref_ops, .act = NUM_F32, .threads = 1, .what = "reference, plain loops in double"};
	s->part = N_PARTS;
	*out = &s->base;
	return 0;
}
