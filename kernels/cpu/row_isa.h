/* row_isa.h: the kernels that work on one row at a time, once per instruction set (kernels/cpu/isa/rows.c). A row's result
 * depends on that row alone. */
#ifndef KERNELS_CPU_ROW_ISA_H
#define KERNELS_CPU_ROW_ISA_H

#include <stdint.h>

#include "kernels/cpu/isa_pick.h"
#include "kernels/ops.h"

struct row_isa {
	/* y[dim] = the values of src[dim], which is of type t (f32, bf16, f16). */
	void (*widen)(float *y, const void *src, enum num t, int32_t dim);
	/* dst[dim] of type t (f32, bf16, int8) = x[dim]; returns the scale (1 unless int8). */
	float (*narrow)(void *dst, const float *x, enum num t, int32_t dim);
	/* y = x / sqrt(mean(x^2) + eps) * w; y may be x. add_norm: x += delta first. */
	void (*norm)(float *y, const float *x, const float *w, int32_t dim, float eps);
	void (*add_norm)(float *y, float *x, const float *delta, const float *w, int32_t dim, float eps);
	/* Rotates pairs (i, i + half) of x[2 * half]. */
	void (*rotate)(float *x, const float *cos, const float *sin, int32_t half);
	/* y[i] = g[i] / (1 + exp(-g[i])) * u[i] */
	void (*silu_mul)(float *y, const float *g, const float *u, int32_t n);
	/* The lowest index of the largest of x[n]. */
	int32_t (*argmax)(const float *x, int32_t n);
};
extern const struct row_isa row_isa_base, row_isa_avx2, row_isa_avx512;

#endif
