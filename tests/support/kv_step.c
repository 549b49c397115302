#include "tests/support/kv_step.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/half.h"

enum { GUARD = 32 }; /* floats on either side of out */
#define GUARD_VALUE (-12345.678f)

static uint64_t mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15u;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

uint32_t kv_random(uint64_t *state, uint32_t n)
{
	*state = mix(*state);
	return (uint32_t)((*state >> 32) * n >> 32);
}

/* The sum of four numbers of 16 bits, scaled to a variance of 1. */
float kv_normal(uint64_t *state)
{
	uint64_t x = *state = mix(*state);
	float sum = (float)((x & 0xffff) + (x >> 16 & 0xffff) + (x >> 32 & 0xffff) + (x >> 48));
	return (sum / 65536 - 2) * 1.7320508f;
}

uint64_t kv_tag(int32_t id, int32_t token)
{
	return mix((uint64_t)id << 32 | (uint32_t)token);
}

static void *checked(void *p)
{
	if (!p) {
		fprintf(stderr, "kv_step: out of memory\n");
		exit(1);
	}
	return p;
}

static void *host(struct kv_step *s, size_t bytes)
{
	return s->host[s->n_host++] = checked(calloc(1, bytes + 1));
}

static void *device(struct kv_step *s, size_t bytes)
{
	return s->memory[s->n_memory++] = checked(s->set->ops->alloc(s->set, bytes));
}

static void *upload(struct kv_step *s, const void *from, size_t bytes)
{
	void *to = device(s, bytes);
	s->set->ops->upload(s->set, to, from, bytes);
	return to;
}

void *kv_host_copy(struct kernel_set *set, const void *from, size_t bytes)
{
	void *to = checked(malloc(bytes + 1));
	set->ops->download(set, to, from, bytes);
	return to;
}

/* --- rows and pages ------------------------------------------------------------------------------------------------ */

static void number_rows(struct kv_step *s, const struct kv_desc *d)
{
	struct step_rows *r = &s->rows;
	size_t n = (size_t)d->n_seqs;
	int32_t *q_at = host(s, (n + 1) * 4), *indptr = host(s, (n + 1) * 4), *ctx = host(s, n * 4),
		*pad = host(s, n * 4);
	for (int32_t i = 0; i < d->n_seqs; i++) {
		const struct kv_seq *q = &d->seqs[i];
		q_at[i + 1] = q_at[i] + q->rows;
		indptr[i + 1] = indptr[i] + (q->ctx + d->block_size - 1) / d->block_size;
		ctx[i] = q->ctx;
		pad[i] = q->pad;
		r->max_ctx = q->ctx > r->max_ctx ? q->ctx : r->max_ctx;
		r->sum_ctx += q->ctx;
		r->n_decodes += q->rows == 1 && r->n_decodes == i;
	}
	r->n_seqs = d->n_seqs;
	r->n_rows = q_at[n];
	r->q_at = upload(s, q_at, (n + 1) * 4);
	r->ctx_len = upload(s, ctx, n * 4);
	r->pad = upload(s, pad, n * 4);
	r->kv_indptr = upload(s, indptr, (n + 1) * 4);

	/* Pages of all sequences in random order, among some that belong to none. */
	uint64_t state = d->page_seed + 1;
	int32_t used = indptr[n], *order = checked(malloc((size_t)(used + 3) * 4)), *pages = host(s, (size_t)used * 4);
	s->kv.n_pages = used + 3;
	for (int32_t i = 0; i < s->kv.n_pages; i++)
		order[i] = i;
	for (int32_t i = s->kv.n_pages - 1; i > 0; i--) {
		int32_t j = (int32_t)kv_random(&state, (uint32_t)i + 1), t = order[i];
		order[i] = order[j];
		order[j] = t;
	}
	memcpy(pages, order, (size_t)used * 4);
	free(order);
	s->pages = pages;
	r->kv_indices = upload(s, pages, (size_t)used * 4);
}

static int64_t slot_of(const struct kv_step *s, const int32_t *indptr, int32_t seq, int32_t token)
{
	int64_t page = s->pages[indptr[seq] + token / s->kv.block_size];
	return page * s->kv.block_size + token % s->kv.block_size;
}

/* --- contents ------------------------------------------------------------------------------------------------------ */

static void fill(float *x, int32_t n, const struct kv_desc *d, int32_t id, int32_t token, int32_t what)
{
	uint64_t state = mix(mix(d->seed + (uint64_t)what) ^ kv_tag(id, token));
	for (int32_t i = 0; i < n; i++) {
		x[i] = kv_normal(&state) * d->spread;
		x[i] = d->round ? bf16_to_float(float_to_bf16(x[i])) : x[i];
	}
}

static bool scaled(enum num type)
{
	return type == NUM_I8 || type == NUM_F8;
}

static void quantize(void *to, enum num type, float *scale, const float *x, int32_t n)
{
	float most = 0;
	for (int32_t i = 0; i < n; i++)
		most = fmaxf(most, fabsf(x[i]));
	*scale = most / (type == NUM_I8 ? 127 : 448);
	for (int32_t i = 0; i < n; i++) {
		float y = most > 0 ? x[i] / *scale : 0;
		if (type == NUM_I8)
			((int8_t *)to)[i] = (int8_t)rintf(y);
		else
			((uint8_t *)to)[i] = float_to_f8(y);
	}
}

/* One token's K or V: all heads. */
static void put(const struct kv_step *s, void *cache, float *scales, int64_t slot, const float *x)
{
	int32_t dim = s->kv.head_dim, n = s->kv.n_kv_heads * dim;
	size_t at = (size_t)slot * (size_t)n;
	for (int32_t i = 0; i < n; i++)
		if (s->kv.type == NUM_F32)
			((float *)cache)[at + (size_t)i] = x[i];
		else if (s->kv.type == NUM_BF16)
			((uint16_t *)cache)[at + (size_t)i] = float_to_bf16(x[i]);
	for (int32_t h = 0; scaled(s->kv.type) && h < s->kv.n_kv_heads; h++)
		quantize((int8_t *)cache + at + (size_t)(h * dim), s->kv.type, &scales[slot * s->kv.n_kv_heads + h],
			 x + h * dim, dim);
}

static void fill_cache(struct kv_step *s, const struct kv_desc *d, const int32_t *indptr)
{
	int32_t width = d->n_kv_heads * d->head_dim;
	size_t slots = (size_t)s->kv.n_pages * (size_t)d->block_size, values = slots * (size_t)width;
	size_t bytes = values * (size_t)num_bytes(d->type), scale_bytes = slots * (size_t)d->n_kv_heads * 4;
	char *k = checked(malloc(bytes + 1)), *v = checked(malloc(bytes + 1));
	float *ks = checked(malloc(scale_bytes + 1)), *vs = checked(malloc(scale_bytes + 1));
	float *x = checked(malloc((size_t)width * 4));
	uint64_t *tags = checked(calloc(slots + 1, 8));
	memset(k, 0xff, bytes); /* NaN in f32 and bf16 */
	memset(v, 0xff, bytes);
	memset(ks, 0xff, scale_bytes);
	memset(vs, 0xff, scale_bytes);
	for (int32_t i = 0; i < d->n_seqs && !d->empty; i++)
		for (int32_t j = 0; j < d->seqs[i].ctx; j++) {
			int64_t slot = slot_of(s, indptr, i, j);
			fill(x, width, d, d->seqs[i].id, j, 1);
			put(s, k, ks, slot, x);
			fill(x, width, d, d->seqs[i].id, j, 2);
			put(s, v, vs, slot, x);
			tags[slot] = kv_tag(d->seqs[i].id, j);
		}
	s->layer.k = upload(s, k, bytes);
	s->layer.v = upload(s, v, bytes);
	if (scaled(d->type)) {
		s->layer.k_scale = upload(s, ks, scale_bytes);
		s->layer.v_scale = upload(s, vs, scale_bytes);
	}
	if (d->check)
		s->layer.tags = upload(s, tags, slots * 8);
	free(k);
	free(v);
	free(ks);
	free(vs);
	free(x);
	free(tags);
}

static void fill_rows(struct kv_step *s, const struct kv_desc *d, const int32_t *indptr)
{
	size_t rows = (size_t)s->rows.n_rows, width = (size_t)((d->n_heads + 2 * d->n_kv_heads) * d->head_dim);
	float *qkv = checked(malloc(rows * width * 4 + 1));
	int64_t *slots = host(s, rows * 8);
	int32_t *positions = checked(calloc(rows + 1, 4));
	uint64_t *tags = checked(calloc(rows + 1, 8));
	size_t at = 0;
	for (int32_t i = 0; i < d->n_seqs; i++)
		for (int32_t j = d->seqs[i].ctx - d->seqs[i].rows; j < d->seqs[i].ctx; j++, at++) {
			fill(qkv + at * width, (int32_t)width, d, d->seqs[i].id, j, 0);
			slots[at] = slot_of(s, indptr, i, j);
			positions[at] = j > d->seqs[i].pad ? j - d->seqs[i].pad : 0;
			tags[at] = kv_tag(d->seqs[i].id, j);
		}
	s->slots = slots;
	s->qkv = upload(s, qkv, rows * width * 4);
	s->rows.slots = upload(s, slots, rows * 8);
	s->rows.positions = upload(s, positions, rows * 4);
	if (d->check)
		s->rows.row_tags = upload(s, tags, rows * 8);
	free(qkv);
	free(positions);
	free(tags);
}

static void want_tags(struct kv_step *s, const struct kv_desc *d)
{
	uint64_t *want = checked(calloc((size_t)s->rows.sum_ctx + 1, 8));
	int64_t *want_at = checked(calloc((size_t)d->n_seqs + 1, 8)), at = 0;
	for (int32_t i = 0; i < d->n_seqs; i++) {
		want_at[i] = at;
		for (int32_t j = 0; j < d->seqs[i].ctx; j++)
			want[at++] = kv_tag(d->seqs[i].id, j);
	}
	s->rows.want_tags = upload(s, want, (size_t)at * 8);
	s->rows.want_at = upload(s, want_at, (size_t)d->n_seqs * 8);
	free(want);
	free(want_at);
}

static void make_out(struct kv_step *s)
{
	size_t n = (size_t)s->rows.n_rows * (size_t)(s->shape.n_heads * s->shape.head_dim);
	float *x = checked(malloc((n + 2 * GUARD) * sizeof *x));
	for (size_t i = 0; i < n + 2 * GUARD; i++)
		x[i] = i < GUARD || i >= n + GUARD ? GUARD_VALUE : NAN;
	s->out = (float *)upload(s, x, (n + 2 * GUARD) * sizeof *x) + GUARD;
	free(x);
}

void kv_step_make(struct kv_step *s, struct kernel_set *set, const struct kv_desc *desc)
{
	struct kv_desc d = *desc;
	d.spread = d.spread > 0 ? d.spread : 1;
	*s = (struct kv_step){.set = set,
			      .shape = {d.n_heads, d.n_kv_heads, d.head_dim, 1 / sqrtf((float)d.head_dim), d.window},
			      .kv = {d.type, 0, d.block_size, d.n_kv_heads, d.head_dim}};
	number_rows(s, &d);
	int32_t *indptr = kv_host_copy(set, s->rows.kv_indptr, (size_t)(d.n_seqs + 1) * 4);
	fill_cache(s, &d, indptr);
	fill_rows(s, &d, indptr);
	if (d.check)
		want_tags(s, &d);
	make_out(s);
	free(indptr);
}

void kv_step_free(struct kv_step *s)
{
	for (int32_t i = 0; i < s->n_memory; i++)
		s->set->ops->release(s->set, s->memory[i]);
	for (int32_t i = 0; i < s->n_host; i++)
		free(s->host[i]);
}

float *kv_step_attend(struct kv_step *s)
{
	size_t n = (size_t)s->rows.n_rows * (size_t)(s->shape.n_heads * s->shape.head_dim);
	const struct kernel_ops *ops = s->set->ops;
	if (ops->attention(s->set, s->out, s->qkv, &s->rows, &s->shape, &s->kv, &s->layer, &s->bad))
		return NULL;
	ops->finish(s->set, NULL);
	float *all = kv_host_copy(s->set, s->out - GUARD, (n + 2 * GUARD) * sizeof *all);
	for (size_t i = 0; i < GUARD; i++)
		if (all[i] != GUARD_VALUE || all[GUARD + n + i] != GUARD_VALUE) {
			free(all);
			return NULL;
		}
	memmove(all, all + GUARD, n * sizeof *all);
	return all;
}

double kv_error(const float *x, const float *r, size_t n)
{
	double off = 0, size = 0;
	for (size_t i = 0; i < n; i++) {
		double d = (double)x[i] - r[i];
		off += d * d;
		size += (double)r[i] * r[i];
	}
	if (!isfinite(off) || !isfinite(size))
		return INFINITY;
	return size > 0 ? sqrt(off / size) : off > 0 ? INFINITY : 0;
}
