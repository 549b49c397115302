/* ref_attention.c: RoPE, the KV cache and attention of the reference set. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/half.h"
#include "kernels/reference/ref.h"

/* Rotates the pairs (i, i + dim / 2) by the angles of one position. */
static void rotate(float *x, int32_t dim, const float *cos, const float *sin)
{
	int32_t half = dim / 2;
	for (int32_t i = 0; i < half; i++) {
		double a = x[i], b = x[i + half];
		x[i] = (float)(a * cos[i] - b * sin[i]);
		x[i + half] = (float)(b * cos[i] + a * sin[i]);
	}
}

/* Keeps x[dim] as head `at` of the cache, where at counts [page][slot][head]. */
static void keep(void *cache, float *scales, enum num type, int64_t at, const float *x, int32_t dim)
{
	size_t base = (size_t)at * (size_t)dim;
	float most = 0;
	if (type == NUM_F32)
		memcpy((float *)cache + base, x, (size_t)dim * sizeof *x);
	if (type == NUM_BF16)
		for (int32_t i = 0; i < dim; i++)
			((uint16_t *)cache)[base + (size_t)i] = float_to_bf16(x[i]);
	if (type != NUM_I8 && type != NUM_F8)
		return;
	for (int32_t i = 0; i < dim; i++)
		most = fmaxf(most, fabsf(x[i]));
	float scale = most / (type == NUM_I8 ? 127 : 448);
	scales[at] = scale;
	for (int32_t i = 0; i < dim && type == NUM_F8; i++)
		((uint8_t *)cache)[base + (size_t)i] = float_to_f8(scale > 0 ? x[i] / scale : 0);
	for (int32_t i = 0; i < dim && type == NUM_I8; i++)
		((int8_t *)cache)[base + (size_t)i] = (int8_t)(scale > 0 ? rintf(x[i] / scale) : 0);
}

static double kept(const void *cache, const float *scales, enum num type, int64_t at, int32_t dim, int32_t i)
{
	size_t place = (size_t)at * (size_t)dim + (size_t)i;
	if (type == NUM_F32)
		return ((const float *)cache)[place];
	if (type == NUM_BF16)
		return bf16_to_float(((const uint16_t *)cache)[place]);
	if (type == NUM_F8)
		return (double)f8_to_float(((const uint8_t *)cache)[place]) * scales[at];
	return (double)((const int8_t *)cache)[place] * scales[at];
}

int ref_rope_kv(struct kernel_set *k, void *qkv, const struct step_rows *r, const struct attention_shape *a,
		const struct rope *rope, const float *q_norm, const float *k_norm, float eps, const struct kv_shape *s,
		const struct kv_layer *kv)
{
	(void)k;
	int32_t dim = a->head_dim, turned = a->n_heads + a->n_kv_heads;
	size_t width = (size_t)(turned + a->n_kv_heads) * (size_t)dim;
	for (int32_t row = 0; row < r->n_rows; row++) {
		float *x = (float *)qkv + (size_t)row * width;
		size_t angle = (size_t)r->positions[row] * (size_t)(dim / 2);
		for (int32_t h = 0; h < turned; h++) {
			const float *norm = h < a->n_heads ? q_norm : k_norm;
			float *head = x + (size_t)h * (size_t)dim;
			if (norm)
				ref_norm_row(head, head, norm, dim, eps);
			rotate(head, dim, rope->cos + angle, rope->sin + angle);
		}
		int64_t slot = r->slots[row];
		if (slot < 0)
			continue;
		for (int32_t h = 0; h < a->n_kv_heads; h++) {
			int64_t at = slot * s->n_kv_heads + h;
			keep(kv->k, kv->k_scale, s->type, at, x + (size_t)(a->n_heads + h) * (size_t)dim, dim);
			keep(kv->v, kv->v_scale, s->type, at, x + (size_t)(turned + h) * (size_t)dim, dim);
		}
		if (kv->tags && r->row_tags)
			kv->tags[slot] = r->row_tags[row];
	}
	return 0;
}

static int64_t slot_of(const struct step_rows *r, const struct kv_shape *s, int32_t seq, int32_t token)
{
	int64_t page = r->kv_indices[r->kv_indptr[seq] + token / s->block_size];
	return page * s->block_size + token % s->block_size;
}

/* One query head of one row, which sees tokens first .. last. */
static void attend(float *out, const float *q, const struct step_rows *r, int32_t seq, int32_t kv_head, int32_t first,
		   int32_t last, double *p, const struct attention_shape *a, const struct kv_shape *s,
		   const struct kv_layer *kv)
{
	int32_t dim = a->head_dim;
	double most = -INFINITY, sum = 0;
	for (int32_t j = first; j <= last; j++) {
		int64_t at = slot_of(r, s, seq, j) * s->n_kv_heads + kv_head;
		double dot = 0;
		for (int32_t i = 0; i < dim; i++)
			dot += q[i] * kept(kv->k, kv->k_scale, s->type, at, dim, i);
		p[j - first] = dot * a->scale;
		most = fmax(most, p[j - first]);
	}
	for (int32_t j = first; j <= last; j++)
		sum += p[j - first] = exp(p[j - first] - most);
	for (int32_t i = 0; i < dim; i++) {
		double x = 0;
		for (int32_t j = first; j <= last; j++) {
			int64_t at = slot_of(r, s, seq, j) * s->n_kv_heads + kv_head;
			x += p[j - first] * kept(kv->v, kv->v_scale, s->type, at, dim, i);
		}
		out[i] = first <= last ? (float)(x / sum) : 0;
	}
}

/* Every token that some row of the sequence sees or pays for. */
static void verify(const struct step_rows *r, int32_t seq, int32_t window, const struct kv_shape *s,
		   const struct kv_layer *kv, struct tag_fault *bad)
{
	int32_t first_row = r->ctx_len[seq] - (r->q_at[seq + 1] - r->q_at[seq]);
	int32_t first = window > 0 && first_row - window + 1 > 0 ? first_row - window + 1 : 0;
	for (int32_t j = first; j < r->ctx_len[seq]; j++) {
		uint64_t wanted = r->want_tags[r->want_at[seq] + j], found = kv->tags[slot_of(r, s, seq, j)];
		if (found == wanted)
			continue;
		if (bad->n++ == 0)
			*bad = (struct tag_fault){1, seq, j, found, wanted};
	}
}

int ref_attention(struct kernel_set *k, void *out, const void *qkv, const struct step_rows *r,
		  const struct attention_shape *a, const struct kv_shape *s, const struct kv_layer *kv,
		  struct tag_fault *bad)
{
	int32_t dim = a->head_dim, shared = a->n_heads / a->n_kv_heads;
	size_t width = (size_t)(a->n_heads + 2 * a->n_kv_heads) * (size_t)dim;
	double *p = malloc(((size_t)r->max_ctx + 1) * sizeof *p);
	if (!p)
		return ref_fail(k, "out of memory for attention scores");
	for (int32_t seq = 0; seq < r->n_seqs; seq++) {
		int32_t end = r->q_at[seq + 1];
		if (kv->tags && r->want_tags && bad && r->want_at[seq] >= 0 && end > r->q_at[seq])
			verify(r, seq, a->window, s, kv, bad);
		for (int32_t row = r->q_at[seq]; row < end; row++) {
			int32_t last = r->ctx_len[seq] - (end - row), first = r->pad[seq];
			if (a->window > 0 && last - a->window + 1 > first)
				first = last - a->window + 1;
			for (int32_t h = 0; h < a->n_heads; h++)
				attend((float *)out + ((size_t)row * (size_t)a->n_heads + (size_t)h) * (size_t)dim,
				       (const float *)qkv + (size_t)row * width + (size_t)h * (size_t)dim, r, seq,
				       h / shared, first, last, p, a, s, kv);
		}
	}
	free(p);
	return 0;
}
