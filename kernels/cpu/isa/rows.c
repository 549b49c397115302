/* rows.c: norms, rotation, gate and conversions of one row (kernels/cpu/row_isa.h). What is left over of a row after whole
 * vectors goes through the same code in a vector filled up with zeros. */
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "kernels/cpu/isa_math.h"
#include "kernels/cpu/row_isa.h"
#include "kernels/half.h"

enum { L = ISA_LANES };

/* The first n values at p, then zeros. */
static vf load_part(const float *p, int32_t n)
{
	float t[L] = {0};
	memcpy(t, p, (size_t)n * sizeof *t);
	return vf_load(t);
}

static void store_part(float *p, vf v, int32_t n)
{
	float t[L];
	vf_store(t, v);
	memcpy(p, t, (size_t)n * sizeof *t);
}

static void widen(float *y, const void *src, enum num t, int32_t dim)
{
	const uint16_t *h = src;
	int32_t i = 0;
	if (t == NUM_F32) {
		memcpy(y, src, (size_t)dim * sizeof *y);
	} else if (t == NUM_BF16) {
		for (; i + L <= dim; i += L)
			vf_store(y + i, vf_load_bf16(h + i));
		for (; i < dim; i++)
			y[i] = bf16_to_float(h[i]);
	} else {
		for (; i < dim; i++)
			y[i] = f16_to_float(h[i]);
	}
}

/* Whole numbers x / scale as -127 .. 127, scale = max |x| / 127. */
static float narrow_i8(int8_t *dst, const float *x, int32_t dim)
{
	vf most = vf_set(0);
	int32_t i = 0;
	for (; i + L <= dim; i += L)
		most = vf_max(vf_abs(vf_load(x + i)), most);
	if (i < dim)
		most = vf_max(vf_abs(load_part(x + i, dim - i)), most);
	float scale = vf_highest(most) / 127;
	/* Below 2^-126 a scale would have no inverse: such rows are nothing but zeros. */
	float by = scale >= 0x1p-126f ? 1 / scale : 0;
	const vf magic = vf_set(VF_ROUND_MAGIC);
	for (i = 0; i < dim; i += L) {
		int32_t n = dim - i < L ? dim - i : L;
		vf v = (n == L ? vf_load(x + i) : load_part(x + i, n)) * vf_set(by);
		vi whole = (vi)(v + magic) - (vi)magic;
		vb b = __builtin_convertvector(whole, vb);
		memcpy(dst + i, &b, (size_t)n);
	}
	return scale;
}

static float narrow(void *dst, const float *x, enum num t, int32_t dim)
{
	uint16_t *h = dst;
	int32_t i = 0;
	if (t == NUM_I8)
		return narrow_i8(dst, x, dim);
	if (t == NUM_F32) {
		memcpy(dst, x, (size_t)dim * sizeof *x);
		return 1;
	}
	for (; i + L <= dim; i += L) {
		vu u = (vu)vf_load(x + i);
		vu nearest = (u + 0x7fffu + (u >> 16 & 1)) >> 16, nan = u >> 16 | 0x40;
		vu is_nan = (vu)((u & 0x7fffffffu) > 0x7f800000u);
		vh narrowed = __builtin_convertvector((is_nan & nan) | (~is_nan & nearest), vh);
		memcpy(h + i, &narrowed, sizeof narrowed);
	}
	for (; i < dim; i++)
		h[i] = float_to_bf16(x[i]);
	return 1;
}

/* w * x * by, where sum is the vector of partial sums of squares. */
static void norm_by(float *y, const float *x, const float *w, int32_t dim, float eps, vf sum)
{
	float by = 1 / sqrtf(vf_sum(sum) / (float)dim + eps);
	int32_t i = 0;
	for (; i + L <= dim; i += L)
		vf_store(y + i, vf_load(x + i) * vf_set(by) * vf_load(w + i));
	for (; i < dim; i++)
		y[i] = x[i] * by * w[i];
}

static void norm(float *y, const float *x, const float *w, int32_t dim, float eps)
{
	vf sum[2] = {vf_set(0), vf_set(0)};
	int32_t i = 0;
	for (; i + 2 * L <= dim; i += 2 * L) {
		vf a = vf_load(x + i), b = vf_load(x + i + L);
		sum[0] += a * a;
		sum[1] += b * b;
	}
	for (; i < dim; i += L) {
		vf a = dim - i < L ? load_part(x + i, dim - i) : vf_load(x + i);
		sum[0] += a * a;
	}
	norm_by(y, x, w, dim, eps, sum[0] + sum[1]);
}

static void add_norm(float *y, float *x, const float *delta, const float *w, int32_t dim, float eps)
{
	int32_t i = 0;
	for (; i + L <= dim; i += L)
		vf_store(x + i, vf_load(x + i) + vf_load(delta + i));
	for (; i < dim; i++)
		x[i] += delta[i];
	norm(y, x, w, dim, eps);
}

static void rotate(float *x, const float *cos, const float *sin, int32_t half)
{
	for (int32_t i = 0; i < half; i += L) {
		int32_t n = half - i < L ? half - i : L;
		if (n == L) {
			vf a = vf_load(x + i), b = vf_load(x + i + half), c = vf_load(cos + i), s = vf_load(sin + i);
			vf_store(x + i, a * c - b * s);
			vf_store(x + i + half, b * c + a * s);
		} else {
			vf a = load_part(x + i, n), b = load_part(x + i + half, n);
			vf c = load_part(cos + i, n), s = load_part(sin + i, n);
			store_part(x + i, a * c - b * s, n);
			store_part(x + i + half, b * c + a * s, n);
		}
	}
}

ISA_INLINE vf silu(vf g)
{
	return g / (vf_set(1) + vf_exp(-g));
}

static void silu_mul(float *y, const float *g, const float *u, int32_t n)
{
	int32_t i = 0;
	for (; i + L <= n; i += L)
		vf_store(y + i, silu(vf_load(g + i)) * vf_load(u + i));
	if (i < n)
		store_part(y + i, silu(load_part(g + i, n - i)) * load_part(u + i, n - i), n - i);
}

/* Each lane keeps its largest and the vector it was in; the first of equals stays. */
static int32_t argmax(const float *x, int32_t n)
{
	int32_t best = 0, i = 0;
	if (n >= L) {
		vf most = vf_load(x);
		vi where = (vi)vf_set(0);
		for (i = L; i + L <= n; i += L) {
			vf v = vf_load(x + i);
			vi higher = v > most;
			most = vf_select(higher, v, most);
			where = (higher & i) | (~higher & where);
		}
		best = where[0];
		for (int32_t lane = 1; lane < L; lane++) {
			int32_t at = where[lane] + lane;
			bool first = at < best;
			if (first ? x[at] >= x[best] : x[at] > x[best])
				best = at;
		}
	}
	for (; i < n; i++)
		best = x[i] > x[best] ? i : best;
	return best;
}

const struct row_isa ISA_NAME(row_isa) = {
	.widen = widen,
	.narrow = narrow,
	.norm = norm,
	.add_norm = add_norm,
	.rotate = rotate,
	.silu_mul = silu_mul,
	.argmax = argmax,
};
