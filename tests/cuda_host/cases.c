#include "tests/cuda_host/cases.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/err.h"
#include "exec/sampler.h"
#include "kernels/cuda/ops_cuda.h"
#include "kernels/half.h"
#include "tests/cuda_host/shim.h"

enum { GUARD = 16, ANGLES = 800 };
#define GUARD_VALUE (-12345.678f)

static struct kernel_set *reference(void)
{
	static struct kernel_set *r;
	if (!r && reference_kernels_open(&r))
		exit(1);
	return r;
}

static void *checked(void *p)
{
	if (!p) {
		fprintf(stderr, "cases: out of memory\n");
		exit(1);
	}
	return p;
}

static float *normals(size_t n, uint64_t seed)
{
	float *x = checked(malloc((n + 1) * sizeof *x));
	for (size_t i = 0; i < n; i++)
		x[i] = bf16_to_float(float_to_bf16(kv_normal(&seed)));
	return x;
}

/* n floats that are NaN, or a copy of x, between guards. Aligned as device memory is. */
static float *guarded(const float *x, size_t n)
{
	void *at = NULL;
	if (posix_memalign(&at, 64, (n + 2 * GUARD) * sizeof(float)))
		checked(NULL);
	float *y = at;
	for (size_t i = 0; i < n + 2 * GUARD; i++)
		y[i] = i < GUARD || i >= GUARD + n ? GUARD_VALUE : x ? x[i - GUARD] : NAN;
	return y + GUARD;
}

/* How far x is from r; both and their guards are freed. */
static double off_by(float *x, float *r, size_t n, int rc)
{
	double off = rc ? INFINITY : kv_error(x, r, n);
	for (int i = 0; i < GUARD; i++)
		if (x[i - GUARD] != GUARD_VALUE || x[n + (size_t)i] != GUARD_VALUE)
			off = INFINITY;
	free(x - GUARD);
	free(r - GUARD);
	return off;
}

double case_norm(struct kernel_set *set, int32_t rows, int32_t dim, bool add)
{
	size_t n = (size_t)rows * (size_t)dim;
	float *x = normals(n, 1), *delta = normals(n, 2), *w = normals((size_t)dim, 3);
	float *y[2], *sum[2];
	int rc = 0;
	for (int i = 0; i < 2; i++) {
		struct kernel_set *k = i ? reference() : set;
		y[i] = guarded(NULL, n);
		sum[i] = guarded(x, n);
		rc |= add ? k->ops->add_rms_norm(k, y[i], sum[i], delta, w, rows, dim, 1e-5f)
			  : k->ops->rms_norm(k, y[i], sum[i], w, rows, dim, 1e-5f);
	}
	double off = fmax(off_by(y[0], y[1], n, rc), off_by(sum[0], sum[1], n, rc));
	free(x);
	free(delta);
	free(w);
	return off;
}

double case_silu(struct kernel_set *set, int32_t rows, int32_t width)
{
	size_t n = (size_t)rows * (size_t)width;
	float *gu = normals(2 * n, 4), *y[2];
	int rc = 0;
	for (size_t i = 0; i < 2 * n; i++)
		gu[i] *= 4;
	for (int i = 0; i < 2; i++) {
		struct kernel_set *k = i ? reference() : set;
		y[i] = guarded(NULL, n);
		rc |= k->ops->silu_mul(k, y[i], gu, rows, width);
	}
	free(gu);
	return off_by(y[0], y[1], n, rc);
}

double case_gather(struct kernel_set *set, int32_t rows, int32_t dim)
{
	size_t n = (size_t)rows * (size_t)dim;
	float *x = normals(3 * n, 5), *y[2];
	int32_t *index = checked(calloc((size_t)rows + 1, sizeof *index));
	int rc = 0;
	for (int32_t i = 0; i < rows; i++)
		index[i] = i * 7 % (3 * rows);
	for (int i = 0; i < 2; i++) {
		struct kernel_set *k = i ? reference() : set;
		y[i] = guarded(NULL, n);
		rc |= k->ops->gather(k, y[i], x, index, rows, dim);
	}
	free(x);
	free(index);
	return off_by(y[0], y[1], n, rc);
}

/* The table in its own type: of bf16 numbers in the range that f16 has, too. */
static void *table_of(enum num type, const float *x, size_t n)
{
	uint16_t *half = checked(malloc(4 * n + 4));
	memcpy(half, x, type == NUM_F32 ? 4 * n : 0);
	for (size_t i = 0; i < n && type != NUM_F32; i++) {
		uint32_t u = bits_of_float(x[i]), exponent = u >> 23 & 0xff;
		uint32_t f16 = exponent < 113 ? 0 : (u >> 16 & 0x8000) | (exponent - 112) << 10 | (u >> 13 & 0x3ff);
		half[i] = type == NUM_BF16 ? float_to_bf16(x[i]) : (uint16_t)f16;
	}
	return half;
}

double case_embed(struct kernel_set *set, enum num table, int32_t rows, int32_t dim)
{
	enum { VOCAB = 40 };
	size_t n = (size_t)rows * (size_t)dim;
	float *x = normals((size_t)(VOCAB * dim), 6), *y[2];
	void *t = table_of(table, x, (size_t)(VOCAB * dim));
	int32_t *ids = checked(calloc((size_t)rows + 1, sizeof *ids));
	int rc = 0;
	for (int32_t i = 0; i < rows; i++)
		ids[i] = i * 29 % VOCAB;
	for (int i = 0; i < 2; i++) {
		struct kernel_set *k = i ? reference() : set;
		y[i] = guarded(NULL, n);
		rc |= k->ops->embed(k, y[i], t, table, ids, rows, dim);
	}
	free(x);
	free(t);
	free(ids);
	return off_by(y[0], y[1], n, rc);
}

/* --- rotation and the KV cache ---------------------------------------------------------------------------------------- */

static float *angles(int32_t half, float (*of)(float))
{
	float *x = checked(malloc((size_t)(ANGLES * half) * sizeof *x));
	for (int32_t p = 0; p < ANGLES; p++)
		for (int32_t i = 0; i < half; i++)
			x[p * half + i] = of((float)p * powf(10000, -(float)i / (float)half));
	return x;
}

/* What a cache holds, as numbers; where nothing was written there is NaN, which becomes a number of its own. */
static float *stored(const struct kv_step *s, const void *cache, const float *scale, size_t *n)
{
	size_t heads = (size_t)s->kv.n_pages * (size_t)s->kv.block_size * (size_t)s->kv.n_kv_heads;
	int32_t dim = s->kv.head_dim;
	*n = heads * (size_t)dim;
	float *x = checked(malloc((*n + 1) * sizeof *x));
	for (size_t i = 0; i < *n; i++) {
		float by = scale ? scale[i / (size_t)dim] : 1;
		x[i] = s->kv.type == NUM_F32    ? ((const float *)cache)[i]
		       : s->kv.type == NUM_BF16 ? bf16_to_float(((const uint16_t *)cache)[i])
		       : s->kv.type == NUM_I8   ? ((const int8_t *)cache)[i] * by
						: f8_to_float(((const uint8_t *)cache)[i]) * by;
		x[i] = isnan(x[i]) ? 1e6f : x[i];
	}
	return x;
}

static double stored_off(const struct kv_step *a, const struct kv_step *b, bool k)
{
	size_t n;
	float *x = stored(a, k ? a->layer.k : a->layer.v, k ? a->layer.k_scale : a->layer.v_scale, &n);
	float *r = stored(b, k ? b->layer.k : b->layer.v, k ? b->layer.k_scale : b->layer.v_scale, &n);
	double off = 0, size = 0;
	for (size_t i = 0; i < n; i++) {
		if ((x[i] > 1e5f) != (r[i] > 1e5f))
			off = INFINITY;
		off += r[i] > 1e5f ? 0 : ((double)x[i] - r[i]) * ((double)x[i] - r[i]);
		size += r[i] > 1e5f ? 0 : (double)r[i] * r[i];
	}
	free(x);
	free(r);
	return sqrt(off / size);
}

double case_rope(struct kernel_set *set, const struct kv_desc *d, bool norms)
{
	int32_t half = d->head_dim / 2;
	float *c = angles(half, cosf), *sn = angles(half, sinf), *w = normals(2 * (size_t)d->head_dim, 7);
	struct kv_step s[2];
	int rc = 0;
	for (int i = 0; i < 2; i++) {
		struct kernel_set *k = i ? reference() : set;
		struct rope r = {c, sn, ANGLES};
		kv_step_make(&s[i], k, d);
		((int64_t *)s[i].rows.slots)[2] = -1;
		rc |= k->ops->rope_kv(k, s[i].qkv, &s[i].rows, &s[i].shape, &r, norms ? w : NULL,
				      norms ? w + d->head_dim : NULL, 1e-6f, &s[i].kv, &s[i].layer);
	}
	size_t n = (size_t)s[0].rows.n_rows * (size_t)((d->n_heads + 2 * d->n_kv_heads) * d->head_dim);
	size_t slots = (size_t)s[0].kv.n_pages * (size_t)s[0].kv.block_size;
	double off = rc ? INFINITY : kv_error(s[0].qkv, s[1].qkv, n);
	off = fmax(off, fmax(stored_off(&s[0], &s[1], true), stored_off(&s[0], &s[1], false)));
	if (memcmp(s[0].layer.tags, s[1].layer.tags, slots * sizeof(uint64_t)) != 0)
		off = INFINITY;
	kv_step_free(&s[0]);
	kv_step_free(&s[1]);
	free(c);
	free(sn);
	free(w);
	return off;
}

double case_attention(struct kernel_set *set, const struct kv_desc *d)
{
	struct kv_step s[2];
	kv_step_make(&s[0], set, d);
	kv_step_make(&s[1], reference(), d);
	size_t n = (size_t)s[0].rows.n_rows * (size_t)(d->n_heads * d->head_dim);
	float *x = kv_step_attend(&s[0]), *r = kv_step_attend(&s[1]);
	double off = x && r && s[0].bad.n == s[1].bad.n ? kv_error(x, r, n) : INFINITY;
	free(x);
	free(r);
	kv_step_free(&s[0]);
	kv_step_free(&s[1]);
	return off;
}

/* --- tokens, pages ---------------------------------------------------------------------------------------------------- */

double case_sample(int32_t rows, int32_t vocab, double temperature, int32_t top_k, double top_p, float spread)
{
	struct sampling how = {temperature, top_k, top_p, 77};
	struct sampler *s;
	struct err e;
	if (sampler_create(&s, &how, vocab, &e))
		return INFINITY;
	size_t n = (size_t)rows;
	float *logits = normals(n * (size_t)vocab, (uint64_t)vocab);
	uint64_t *stream = checked(calloc(n, sizeof *stream));
	int64_t *nth = checked(calloc(n, sizeof *nth));
	int32_t *tokens = checked(malloc(n * sizeof *tokens)), differ = 0;
	void *room = checked(malloc(n * (size_t)vocab * DRAW_BYTES));
	struct draw draw = {temperature, top_k, top_p, 77, stream, nth, room};
	for (size_t i = 0; i < n * (size_t)vocab; i++)
		logits[i] *= spread;
	for (int32_t i = 0; i < rows; i++) {
		stream[i] = (uint64_t)i * 13 + 5;
		nth[i] = i % 3;
		tokens[i] = -1;
	}
	int rc = temperature > 0 ? cuda_draw(NULL, tokens, logits, rows, vocab, &draw)
				 : cuda_argmax(NULL, tokens, logits, rows, vocab);
	for (int32_t i = 0; i < rows; i++)
		differ += tokens[i] != sampler_next(s, logits + (size_t)i * (size_t)vocab, stream[i], nth[i]);
	free(logits);
	free(stream);
	free(nth);
	free(tokens);
	free(room);
	sampler_free(s);
	rc |= shim_complaint != NULL;
	shim_complaint = NULL;
	return rc ? INFINITY : (double)differ / rows;
}

/* Each row's largest at a place of its own, and once more further on. */
double case_argmax(struct kernel_set *set, int32_t rows, int32_t vocab)
{
	float *x = normals((size_t)rows * (size_t)vocab, 8);
	int32_t *tokens = checked(calloc((size_t)rows + 1, sizeof *tokens)), wrong = 0;
	for (int32_t r = 0; r < rows; r++) {
		x[(int64_t)r * vocab + r * 7 % vocab] = 9;
		if (r * 7 % vocab + 5 < vocab)
			x[(int64_t)r * vocab + r * 7 % vocab + 5] = 9;
	}
	int rc = set->ops->argmax(set, tokens, x, rows, vocab);
	for (int32_t r = 0; r < rows; r++)
		wrong += tokens[r] != r * 7 % vocab;
	free(x);
	free(tokens);
	return rc ? INFINITY : wrong;
}

/* Pages 1 and 3 to 0 and 4 of the same arena, and of another; all others stay as they are. */
double case_copy(int32_t page_bytes)
{
	enum { PAGES = 5 };
	size_t n = (size_t)(PAGES * page_bytes);
	uint8_t *a = checked(malloc(n)), *b = checked(malloc(n)), *wanted = checked(malloc(n));
	int32_t pairs[] = {1, 0, 3, 4};
	for (size_t i = 0; i < n; i++) {
		a[i] = (uint8_t)(i * 7 + i / (size_t)page_bytes);
		b[i] = (uint8_t)(i * 5 + 3);
	}
	struct page_plane planes[] = {{a, b, page_bytes}, {a, a, page_bytes}};
	memcpy(wanted, b, n);
	memcpy(wanted, a + page_bytes, (size_t)page_bytes);
	memcpy(wanted + 4 * (size_t)page_bytes, a + 3 * (size_t)page_bytes, (size_t)page_bytes);
	int rc = cuda_copy_pages(NULL, planes, 2, pairs, 2);
	rc |= memcmp(b, wanted, n) != 0 || memcmp(a, a + page_bytes, (size_t)page_bytes) != 0 ||
	      memcmp(a + 4 * page_bytes, a + 3 * page_bytes, (size_t)page_bytes) != 0;
	for (size_t i = (size_t)page_bytes; i < 4 * (size_t)page_bytes; i++)
		rc |= a[i] != (uint8_t)(i * 7 + i / (size_t)page_bytes);
	free(a);
	free(b);
	free(wanted);
	return rc ? INFINITY : 0;
}
