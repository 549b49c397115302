#include "kernels/cpu/pack.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "kernels/cpu/pool.h"

/* Packed so many k at a time: what is read of `panel` rows and written stays in the first caches. */
enum { K_BLOCK = 64, MAX_PANEL = 64 };
static const size_t big_page = (size_t)2 << 20;

static float f32_of_bits(uint32_t u)
{
	float f;
	memcpy(&f, &u, sizeof f);
	return f;
}

static float f32_from_bf16(uint16_t h)
{
	return f32_of_bits((uint32_t)h << 16);
}

static float f32_from_f16(uint16_t h)
{
	uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = h >> 10 & 31, fraction = h & 1023;
	if (exponent == 31)
		return f32_of_bits(sign | 0x7f800000 | fraction << 13);
	if (exponent == 0) /* subnormal: fraction * 2^-24, exact */
		return (sign ? -1.0f : 1.0f) * (float)fraction * 0x1p-24f;
	return f32_of_bits(sign | (exponent + 112) << 23 | fraction << 13);
}

/* --- reading the parts ------------------------------------------------------------------------------------------- */

struct packing {
	struct matrix *m;
	const struct matrix_part *parts;
	int32_t n_parts;
};

/* The row of output `o`, in the part it is of. */
static const struct matrix_part *find_row(const struct packing *p, int32_t o, int32_t *row)
{
	int32_t i = 0;
	while (o >= p->parts[i].n_out)
		o -= p->parts[i++].n_out;
	*row = o;
	return &p->parts[i];
}

static void read_row(float *to, const struct matrix_part *part, size_t at, int32_t n)
{
	if (part->type == NUM_F32) {
		memcpy(to, (const float *)part->data + at, (size_t)n * sizeof *to);
		return;
	}
	const uint16_t *h = (const uint16_t *)part->data + at;
	if (part->type == NUM_BF16)
		for (int32_t i = 0; i < n; i++)
			to[i] = f32_from_bf16(h[i]);
	else
		for (int32_t i = 0; i < n; i++)
			to[i] = f32_from_f16(h[i]);
}

/* --- writing lines ----------------------------------------------------------------------------------------------- */

/* One output's weights, first as they are, then as what will be stored: loops along k, which compilers turn into vectors,
 * leave only moving to the loops across outputs. */
union row {
	float f[K_BLOCK];
	uint32_t u[K_BLOCK];
};

/* The upper half of u becomes bf16, to the nearest, ties to even; a NaN must not become an infinity. */
static void round_bf16(union row *row)
{
	for (int32_t k = 0; k < K_BLOCK; k++) {
		uint32_t u = row->u[k], nearest = u + 0x7fff + (u >> 16 & 1);
		row->u[k] = (u & 0x7fffffff) > 0x7f800000 ? u | 0x400000 : nearest;
	}
}

/* The lowest byte of u becomes 128 + w / scale, rounded to the nearest, ties to even: a sum of this size has no bits for
 * less than 1. */
static void round_i8(union row *row, float scale)
{
	for (int32_t k = 0; k < K_BLOCK; k++) {
		row->f[k] = row->f[k] / scale + (0x1.8p23f + 128);
		row->u[k] &= 0xff;
	}
}

static void write_f32(char *w, const union row *from, int32_t panel, int32_t n_k)
{
	float *to = (float *)(void *)w;
	for (int32_t k = 0; k < n_k; k++)
		for (int32_t o = 0; o < panel; o++)
			to[k * panel + o] = from[o].f[k];
}

static void write_bf16(char *w, const union row *from, int32_t panel, int32_t n_k)
{
	uint32_t *to = (uint32_t *)(void *)w;
	int32_t lanes = panel / 4;
	for (int32_t k = 0; k < n_k; k++)
		for (int32_t pair = 0; pair < 2; pair++)
			for (int32_t i = 0; i < lanes; i++) {
				uint32_t low = from[2 * pair * lanes + i].u[k];
				uint32_t high = from[(2 * pair + 1) * lanes + i].u[k];
				*to++ = low >> 16 | (high & 0xffff0000u);
			}
}

static void write_i8(char *w, const union row *from, int32_t panel, int32_t n_k)
{
	uint32_t *to = (uint32_t *)(void *)w;
	int32_t lanes = panel / 4;
	for (int32_t k = 0; k < n_k; k++)
		for (int32_t i = 0; i < lanes; i++)
			*to++ = from[i].u[k] | from[lanes + i].u[k] << 8 | from[2 * lanes + i].u[k] << 16 |
				from[3 * lanes + i].u[k] << 24;
}

/* max |w| / 127 of each output of a panel. */
static void find_scales(const struct packing *p, int32_t first, int32_t n)
{
	const struct matrix *m = p->m;
	for (int32_t o = 0; o < n; o++) {
		int32_t row;
		const struct matrix_part *part = find_row(p, first + o, &row);
		union row w;
		int32_t max = 0; /* of the bits without sign: in the order of what they stand for, NaNs above all */
		for (int32_t k = 0; k < m->n_in; k += K_BLOCK) {
			int32_t n_k = m->n_in - k < K_BLOCK ? m->n_in - k : K_BLOCK;
			read_row(w.f, part, (size_t)row * (size_t)m->n_in + (size_t)k, n_k);
			for (int32_t i = 0; i < n_k; i++) {
				int32_t bits = (int32_t)(w.u[i] & 0x7fffffff);
				max = bits > max ? bits : max;
			}
		}
		m->scale[first + o] = f32_of_bits((uint32_t)max) / 127;
	}
}

/* n_k weights of output `o` from k on, as they will be stored; past the last output zeros. */
static void prepare_row(const struct packing *p, union row *to, int32_t o, int32_t k, int32_t n_k)
{
	const struct matrix *m = p->m;
	float scale = 1;
	if (o < m->n_out) {
		int32_t row;
		const struct matrix_part *part = find_row(p, o, &row);
		read_row(to->f, part, (size_t)row * (size_t)m->n_in + (size_t)k, n_k);
		if (m->type == NUM_I8 && m->scale[o] > 0)
			scale = m->scale[o];
	} else {
		memset(to, 0, sizeof *to);
	}
	if (m->type == NUM_BF16)
		round_bf16(to);
	else if (m->type == NUM_I8)
		round_i8(to, scale);
}

static void pack_panel(void *ctx, int32_t index, int32_t thread)
{
	(void)thread;
	const struct packing *p = ctx;
	const struct matrix *m = p->m;
	int32_t first = index * m->panel, n = m->n_out - first < m->panel ? m->n_out - first : m->panel;
	char *w = m->w + (size_t)index * m->panel_bytes;
	int32_t line = matmul_line_bytes(m->panel, m->type);
	union row rows[MAX_PANEL];
	memset(rows, 0, sizeof rows);
	if (m->type == NUM_I8)
		find_scales(p, first, n);
	for (int32_t k = 0; k < m->n_in; k += K_BLOCK) {
		int32_t n_k = m->n_in - k < K_BLOCK ? m->n_in - k : K_BLOCK;
		for (int32_t o = 0; o < m->panel; o++)
			prepare_row(p, &rows[o], first + o, k, n_k);
		char *to = w + (size_t)k * (size_t)line;
		if (m->type == NUM_F32)
			write_f32(to, rows, m->panel, n_k);
		else if (m->type == NUM_BF16)
			write_bf16(to, rows, m->panel, n_k);
		else
			write_i8(to, rows, m->panel, n_k);
	}
}

/* --- memory ------------------------------------------------------------------------------------------------------ */

/* Weights are read from end to end in every step: big pages spare most of the address lookups. */
static char *alloc_weights(size_t bytes)
{
	size_t align = bytes >= big_page ? big_page : 64;
	char *w = aligned_alloc(align, (bytes + align - 1) / align * align);
	if (w && align == big_page)
		madvise(w, bytes, MADV_HUGEPAGE); /* a wish */
	return w;
}

static float *alloc_floats(size_t n)
{
	float *f = aligned_alloc(64, (n * sizeof *f + 63) / 64 * 64);
	if (f)
		memset(f, 0, n * sizeof *f);
	return f;
}

static void gather_bias(struct matrix *m, const struct matrix_part *parts, int32_t n_parts)
{
	float *to = m->bias;
	for (int32_t i = 0; i < n_parts; i++) {
		if (parts[i].bias)
			memcpy(to, parts[i].bias, (size_t)parts[i].n_out * sizeof *to);
		to += parts[i].n_out;
	}
}

int pack_matrix(struct matrix **out, const struct matrix_part *parts, int32_t n_parts, int32_t n_in, enum num as,
		int32_t panel, struct pool *pool)
{
	struct matrix *m = calloc(1, sizeof *m);
	if (!m)
		return -1;
	bool any_bias = false;
	for (int32_t i = 0; i < n_parts; i++) {
		m->n_out += parts[i].n_out;
		any_bias = any_bias || parts[i].bias;
	}
	m->type = as;
	m->n_in = n_in;
	m->panel = panel;
	m->n_panels = (m->n_out + panel - 1) / panel;
	m->panel_bytes = (size_t)n_in * (size_t)matmul_line_bytes(panel, as);
	size_t padded = (size_t)m->n_panels * (size_t)panel;
	m->w = alloc_weights((size_t)m->n_panels * m->panel_bytes);
	if (as == NUM_I8)
		m->scale = alloc_floats(padded);
	if (any_bias)
		m->bias = alloc_floats(padded);
	if (!m->w || (as == NUM_I8 && !m->scale) || (any_bias && !m->bias)) {
		pack_free(m);
		return -1;
	}
	if (any_bias)
		gather_bias(m, parts, n_parts);
	struct packing p = {m, parts, n_parts};
	pool_run(pool, pack_panel, &p, m->n_panels);
	*out = m;
	return 0;
}

void pack_free(struct matrix *m)
{
	if (!m)
		return;
	free(m->w);
	free(m->scale);
	free(m->bias);
	free(m);
}
