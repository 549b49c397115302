/* attend.c: what attention does to one tile of tokens (kernels/cpu/attention_isa.h).
 *
 * Every sum has one order, whoever asks for it: a score adds head_dim up lane by lane and then the lanes by halves; the
 * weighted sum of values adds token after token. Tokens a row does not see enter as p = 0, which changes no bit. Steps
 * that multiply and then add something else are functions of their own, so that the compiler cannot fuse them in one
 * place and not in another. */
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "kernels/cpu/attention_isa.h"
#include "kernels/cpu/isa_math.h"

enum { L = ISA_LANES, TILE = ATTENTION_TILE };
#define ISA_APART static __attribute__((noinline))

/* Tokens first + lo .. first + hi of a sequence: where their rows lie. */
struct tile {
	int32_t first, lo, hi;
	enum num type; /* of what k and v point to */
	const char *k[TILE], *v[TILE];
	float k_scale[TILE], v_scale[TILE]; /* int8 only */
	bool scaled;
};

ISA_INLINE vf load_as(enum num t, const char *p, int32_t i)
{
	return t == NUM_F32    ? vf_load((const float *)(const void *)p + i)
	       : t == NUM_BF16 ? vf_load_bf16((const uint16_t *)(const void *)p + i)
			       : vf_load_i8((const int8_t *)p + i);
}

/* --- reading a tile ------------------------------------------------------------------------------------------------ */

/* Walks the pages: pointers to each token's K and V of this head, and its tag looked at. */
static void locate(const struct attention_lines *x, struct tile *t)
{
	const struct kv_shape *s = x->shape;
	int32_t block = (t->first + t->lo) / s->block_size, place = (t->first + t->lo) % s->block_size;
	size_t row_bytes = (size_t)s->head_dim * (size_t)num_bytes(s->type);
	t->type = s->type;
	t->scaled = s->type == NUM_I8;
	if (t->scaled) {
		memset(t->k_scale, 0, sizeof t->k_scale);
		memset(t->v_scale, 0, sizeof t->v_scale);
	}
	for (int32_t j = t->lo; j < t->hi; j++) {
		int64_t slot = (int64_t)x->pages[block] * s->block_size + place;
		size_t at = (size_t)slot * (size_t)s->n_kv_heads + (size_t)x->kv_head;
		t->k[j] = (const char *)x->kv->k + at * row_bytes;
		t->v[j] = (const char *)x->kv->v + at * row_bytes;
		if (t->scaled) {
			t->k_scale[j] = x->kv->k_scale[at];
			t->v_scale[j] = x->kv->v_scale[at];
		}
		if (x->want && x->kv->tags[slot] != x->want[t->first + j])
			x->report(x->report_ctx, t->first + j, x->kv->tags[slot], x->want[t->first + j]);
		if (++place == s->block_size) {
			place = 0;
			block++;
		}
	}
	/* Scores are made four at a time; those outside are not looked at. */
	for (int32_t j = t->lo & ~3; j < t->lo; j++)
		t->k[j] = t->k[t->lo];
	for (int32_t j = t->hi; j & 3; j++)
		t->k[j] = t->k[t->hi - 1];
}

ISA_INLINE void widen_rows(float *to, const char **rows, const struct tile *t, int32_t head_dim, int32_t dim,
			   enum num type)
{
	for (int32_t j = t->lo; j < t->hi; j++) {
		float *row = to + (size_t)j * (size_t)dim;
		int32_t i = 0;
		for (; i + L <= head_dim; i += L)
			vf_store(row + i, load_as(type, rows[j], i));
		for (; i < dim; i++) {
			const void *p = rows[j];
			row[i] = i >= head_dim      ? 0
				 : type == NUM_F32  ? ((const float *)p)[i]
				 : type == NUM_BF16 ? vf_load_bf16((uint16_t[L]){((const uint16_t *)p)[i]})[0]
						    : (float)((const int8_t *)p)[i];
		}
		rows[j] = (const char *)row;
	}
}

/* Copies the tile as floats, close together and filled up to whole vectors. */
static void widen(struct attention_lines *x, struct tile *t)
{
	int32_t head_dim = x->shape->head_dim;
	for (int which = 0; which < 2; which++) {
		float *to = which ? x->values : x->keys;
		const char **rows = which ? t->v : t->k;
		if (t->type == NUM_F32)
			widen_rows(to, rows, t, head_dim, x->dim, NUM_F32);
		else if (t->type == NUM_BF16)
			widen_rows(to, rows, t, head_dim, x->dim, NUM_BF16);
		else
			widen_rows(to, rows, t, head_dim, x->dim, NUM_I8);
	}
	t->type = NUM_F32;
	for (int32_t j = t->lo & ~3; j < t->lo; j++)
		t->k[j] = t->k[t->lo];
	for (int32_t j = t->hi; j & 3; j++)
		t->k[j] = t->k[t->hi - 1];
}

/* --- scores -------------------------------------------------------------------------------------------------------- */

/* One or two lines against four tokens. */
ISA_INLINE void score_4(float *p, const float *q, int32_t dim, const char *const k[4], enum num type)
{
	vf a = vf_set(0), b = a, c = a, d = a;
	for (int32_t i = 0; i < dim; i += L) {
		vf v = vf_load(q + i);
		a += v * load_as(type, k[0], i);
		b += v * load_as(type, k[1], i);
		c += v * load_as(type, k[2], i);
		d += v * load_as(type, k[3], i);
	}
	v4f s = vf_sum4(a, b, c, d);
	memcpy(p, &s, sizeof s);
}

ISA_INLINE void score_2x4(float *p, const float *q, int32_t dim, const char *const k[4], enum num type)
{
	vf a = vf_set(0), b = a, c = a, d = a, e = a, f = a, g = a, h = a;
	for (int32_t i = 0; i < dim; i += L) {
		vf v = vf_load(q + i), w = vf_load(q + dim + i), key = load_as(type, k[0], i);
		VF_KEEP(key);
		a += v * key;
		e += w * key;
		key = load_as(type, k[1], i);
		VF_KEEP(key);
		b += v * key;
		f += w * key;
		key = load_as(type, k[2], i);
		VF_KEEP(key);
		c += v * key;
		g += w * key;
		key = load_as(type, k[3], i);
		VF_KEEP(key);
		d += v * key;
		h += w * key;
	}
	v4f s = vf_sum4(a, b, c, d);
	memcpy(p, &s, sizeof s);
	s = vf_sum4(e, f, g, h);
	memcpy(p + TILE, &s, sizeof s);
}

/* Asks for four tokens of the next tile, so that they are there when it is their turn. */
static void fetch_ahead(const struct tile *next, int32_t j, int32_t row_bytes)
{
	for (int32_t i = j; i < j + 4; i++)
		if (i >= next->lo && i < next->hi)
			for (int32_t b = 0; b < row_bytes; b += 64) {
				__builtin_prefetch(next->k[i] + b);
				__builtin_prefetch(next->v[i] + b);
			}
}

/* The first line that sees token j of the tile or a later one, as an even number. */
static int32_t first_line(const struct attention_lines *x, const struct tile *t, int32_t j)
{
	int32_t row = t->first + j - x->last;
	return row > 0 ? row * x->group & ~1 : 0;
}

ISA_INLINE void scores_as(const struct attention_lines *x, const struct tile *t, const struct tile *next, enum num type)
{
	int32_t row_bytes = x->shape->head_dim * num_bytes(x->shape->type);
	for (int32_t j = t->lo & ~3; j < t->hi; j += 4) {
		int32_t line = first_line(x, t, j);
		if (next)
			fetch_ahead(next, j, row_bytes);
		for (; line + 2 <= x->n_lines; line += 2)
			score_2x4(x->p + line * TILE + j, x->q + (size_t)line * (size_t)x->dim, x->dim, t->k + j, type);
		if (line < x->n_lines)
			score_4(x->p + line * TILE + j, x->q + (size_t)line * (size_t)x->dim, x->dim, t->k + j, type);
	}
}

ISA_APART void scores(const struct attention_lines *x, const struct tile *t, const struct tile *next)
{
	if (t->type == NUM_F32)
		scores_as(x, t, next, NUM_F32);
	else if (t->type == NUM_BF16)
		scores_as(x, t, next, NUM_BF16);
	else
		scores_as(x, t, next, NUM_I8);
}

/* --- softmax ------------------------------------------------------------------------------------------------------- */

ISA_APART float exp_one(float x)
{
	return vf_exp(vf_set(x))[0];
}

/* p *= by, lane by lane: the scales of int8. */
ISA_APART void scale_tile(float *p, const float *by)
{
	for (int32_t j = 0; j < TILE; j += L)
		vf_store(p + j, vf_load(p + j) * vf_load(by + j));
}

/* Scores of tokens the row does not see become minus infinity. */
ISA_APART void hide(float *p, int32_t from, int32_t to)
{
	for (int32_t j = 0; j < from; j++)
		p[j] = -INFINITY;
	for (int32_t j = to; j < TILE; j++)
		p[j] = -INFINITY;
}

/* Scores become exp(score - most), 0 for those hidden; *most and *sum go on. Returns what acc has to be multiplied by. */
ISA_APART float soften(float *p, float *most, float *sum)
{
	enum { WAYS = TILE / L < 4 ? TILE / L : 4 };
	vf highest = vf_load(p), total[WAYS];
	for (int32_t j = L; j < TILE; j += L)
		highest = vf_max(vf_load(p + j), highest);
	float before = *most, now = vf_highest(highest);
	now = now > before ? now : before;
	for (int w = 0; w < WAYS; w++)
		total[w] = vf_set(0);
	const vf m = vf_set(now);
	for (int32_t j = 0; j < TILE; j += WAYS * L)
		for (int w = 0; w < WAYS; w++) {
			vf e = vf_exp_below(vf_load(p + j + w * L) - m);
			total[w] += e;
			vf_store(p + j + w * L, e);
		}
	for (int w = 1; w < WAYS; w++)
		total[0] += total[w];
	float by = now > before ? exp_one(before - now) : 1;
	*most = now;
	*sum = *sum * by + vf_sum(total[0]);
	return by;
}

ISA_APART void scale_by(float *acc, float by, int32_t dim)
{
	for (int32_t i = 0; i < dim; i += L)
		vf_store(acc + i, vf_load(acc + i) * vf_set(by));
}

static void softmax(const struct attention_lines *x, const struct tile *t)
{
	for (int32_t line = 0; line < x->n_lines; line++) {
		int32_t own = x->last + line / x->group - t->first; /* the row's own token, from the tile's first */
		int32_t from = t->lo, to = own + 1 < t->hi ? own + 1 : t->hi;
		if (x->pad - t->first > from)
			from = x->pad - t->first;
		if (x->window > 0 && own - x->window + 1 > from)
			from = own - x->window + 1;
		float *p = x->p + line * TILE;
		if (from >= to) {
			memset(p, 0, TILE * sizeof *p);
			continue;
		}
		if (t->scaled)
			scale_tile(p, t->k_scale);
		if (from > 0 || to < TILE)
			hide(p, from, to);
		float by = soften(p, &x->state.most[line], &x->state.sum[line]);
		if (t->scaled)
			scale_tile(p, t->v_scale);
		if (by != 1)
			scale_by(x->state.acc + (size_t)line * (size_t)x->dim, by, x->dim);
	}
}

/* --- the weighted sum of values ------------------------------------------------------------------------------------ */

/* 1 or 2 lines and 1, 4 or 8 vectors of their acc, over tokens lo .. hi of the tile. */
ISA_INLINE void gather_values(float *acc, const float *p, int32_t dim, int32_t i, const struct tile *t, int32_t hi,
			      enum num type, int lines, int vectors)
{
	vf sum[2][8];
	for (int l = 0; l < lines; l++)
		for (int v = 0; v < vectors; v++)
			sum[l][v] = vf_load(acc + l * dim + i + v * L);
	for (int32_t j = t->lo; j < hi; j++) {
		vf a = vf_set(p[j]), b = lines > 1 ? vf_set(p[TILE + j]) : a;
		for (int v = 0; v < vectors; v++) {
			vf value = load_as(type, t->v[j], i + v * L);
			if (lines > 1)
				VF_KEEP(value);
			sum[0][v] += a * value;
			if (lines > 1)
				sum[1][v] += b * value;
		}
	}
	for (int l = 0; l < lines; l++)
		for (int v = 0; v < vectors; v++)
			vf_store(acc + l * dim + i + v * L, sum[l][v]);
}

/* How many tokens of the tile count for the last of these lines. */
static int32_t seen(const struct attention_lines *x, const struct tile *t, int32_t line)
{
	int32_t to = x->last + line / x->group - t->first + 1;
	return to < t->hi ? to : t->hi;
}

/* The last line of an odd number: more vectors of it at once, so that the next sum need not wait for the last. */
ISA_INLINE void values_of_one(const struct attention_lines *x, const struct tile *t, int32_t line, enum num type)
{
	float *acc = x->state.acc + (size_t)line * (size_t)x->dim;
	const float *p = x->p + line * TILE;
	int32_t i = 0, dim = x->dim, hi = seen(x, t, line);
	for (; i + 8 * L <= dim; i += 8 * L)
		gather_values(acc, p, dim, i, t, hi, type, 1, 8);
	for (; i + 4 * L <= dim; i += 4 * L)
		gather_values(acc, p, dim, i, t, hi, type, 1, 4);
	for (; i < dim; i += L)
		gather_values(acc, p, dim, i, t, hi, type, 1, 1);
}

ISA_INLINE void values_as(const struct attention_lines *x, const struct tile *t, enum num type)
{
	int32_t pairs = x->n_lines & ~1, i = 0, dim = x->dim;
	for (; i + 4 * L <= dim; i += 4 * L)
		for (int32_t line = 0; line < pairs; line += 2)
			gather_values(x->state.acc + (size_t)line * (size_t)dim, x->p + line * TILE, dim, i, t,
				      seen(x, t, line + 1), type, 2, 4);
	for (; i < dim; i += L)
		for (int32_t line = 0; line < pairs; line += 2)
			gather_values(x->state.acc + (size_t)line * (size_t)dim, x->p + line * TILE, dim, i, t,
				      seen(x, t, line + 1), type, 2, 1);
	if (pairs < x->n_lines)
		values_of_one(x, t, pairs, type);
}

ISA_APART void values(const struct attention_lines *x, const struct tile *t)
{
	if (t->type == NUM_F32)
		values_as(x, t, NUM_F32);
	else if (t->type == NUM_BF16)
		values_as(x, t, NUM_BF16);
	else
		values_as(x, t, NUM_I8);
}

/* --- a split ------------------------------------------------------------------------------------------------------- */

/* Finds the tile that begins at token `first`; false where the rows see nothing of it. */
static bool tile_at(const struct attention_lines *x, struct tile *t, int32_t first)
{
	int32_t lowest = x->window > 0 ? x->last - x->window + 1 : 0;
	t->first = first;
	t->lo = lowest > first ? lowest - first : 0;
	t->hi = x->until - first < TILE ? x->until - first : TILE;
	if (t->lo >= t->hi)
		return false;
	locate(x, t);
	return true;
}

static void split(struct attention_lines *x, int32_t index)
{
	struct tile tiles[2];
	int32_t begin = index * ATTENTION_SPLIT, end = begin + ATTENTION_SPLIT;
	end = end < x->until ? end : x->until;
	for (int32_t line = 0; line < x->n_lines; line++) {
		x->state.most[line] = -INFINITY;
		x->state.sum[line] = 0;
	}
	memset(x->state.acc, 0, (size_t)x->n_lines * (size_t)x->dim * sizeof(float));
	bool here = tile_at(x, &tiles[0], begin), there;
	for (int32_t first = begin, which = 0; first < end; first += TILE, which ^= 1, here = there) {
		struct tile *t = &tiles[which], *next = &tiles[which ^ 1];
		there = tile_at(x, next, first + TILE);
		if (!here)
			continue;
		/* A tile that few lines read is read where it lies; others find it as floats, close together. */
		if (x->n_lines > 2 || x->dim != x->shape->head_dim)
			widen(x, t);
		scores(x, t, there ? next : NULL);
		softmax(x, t);
		values(x, t);
	}
}

static void merge(float *to_most, float *to_sum, float *to_acc, float most, float sum, const float *acc, int32_t dim)
{
	if (most == -INFINITY)
		return;
	if (*to_most == -INFINITY) {
		*to_most = most;
		*to_sum = sum;
		memcpy(to_acc, acc, (size_t)dim * sizeof *acc);
		return;
	}
	float now = most > *to_most ? most : *to_most, keep = exp_one(*to_most - now), add = exp_one(most - now);
	*to_most = now;
	*to_sum = *to_sum * keep + sum * add;
	for (int32_t i = 0; i < dim; i += L)
		vf_store(to_acc + i, vf_load(to_acc + i) * vf_set(keep) + vf_load(acc + i) * vf_set(add));
}

static void end(float *out, const float *acc, float sum, int32_t head_dim)
{
	float by = sum > 0 ? 1 / sum : 0;
	for (int32_t i = 0; i < head_dim; i++)
		out[i] = acc[i] * by;
}

const struct attention_isa ISA_NAME(attention_isa) = {
	.lanes = ISA_LANES,
	.split = split,
	.merge = merge,
	.end = end,
};
