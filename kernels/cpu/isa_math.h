/* isa_math.h: sums over a vector's lanes, selection and the exponential, for the files of kernels/cpu/isa/. */
#ifndef KERNELS_CPU_ISA_MATH_H
#define KERNELS_CPU_ISA_MATH_H

#include <math.h>

#include "kernels/cpu/isa.h"

typedef float v4f __attribute__((vector_size(16)));

#ifdef __clang__
#define V4_PICK(a, b, i, j, k, l) __builtin_shufflevector(a, b, i, j, k, l)
#else
typedef int32_t v4i __attribute__((vector_size(16)));
#define V4_PICK(a, b, i, j, k, l) __builtin_shuffle(a, b, (v4i){i, j, k, l})
#endif

#define ISA_INLINE static inline __attribute__((always_inline))

/* Lane i of the result is the sum of lanes i, i + 4, i + 8, ...: halves are added until four lanes are left. */
ISA_INLINE v4f vf_fold(vf v)
{
	v4f h[ISA_LANES / 4];
	memcpy(h, &v, sizeof h);
#if ISA_LANES == 16
	return (h[0] + h[2]) + (h[1] + h[3]);
#elif ISA_LANES == 8
	return h[0] + h[1];
#else
	return h[0];
#endif
}

/* The sum of all lanes: halves are added until one is left. vf_sum4 does the same for four vectors at once. */
ISA_INLINE float vf_sum(vf v)
{
	v4f h = vf_fold(v);
	return (h[0] + h[2]) + (h[1] + h[3]);
}

ISA_INLINE v4f vf_sum4(vf a, vf b, vf c, vf d)
{
	v4f x = vf_fold(a), y = vf_fold(b), z = vf_fold(c), w = vf_fold(d);
	v4f xy = V4_PICK(x, y, 0, 1, 4, 5) + V4_PICK(x, y, 2, 3, 6, 7);
	v4f zw = V4_PICK(z, w, 0, 1, 4, 5) + V4_PICK(z, w, 2, 3, 6, 7);
	return V4_PICK(xy, zw, 0, 2, 4, 6) + V4_PICK(xy, zw, 1, 3, 5, 7);
}

/* a where the mask's lane is all ones, b where it is 0. */
ISA_INLINE vf vf_select(vi mask, vf a, vf b)
{
	return (vf)((mask & (vi)a) | (~mask & (vi)b));
}

/* b where either is not a number. */
ISA_INLINE vf vf_max(vf a, vf b)
{
#if ISA_LANES == 8 && defined(__AVX2__)
	return (vf)_mm256_max_ps((__m256)a, (__m256)b);
#elif ISA_LANES == 16 && defined(__AVX512F__)
	return (vf)_mm512_max_ps((__m512)a, (__m512)b);
#elif ISA_LANES == 4 && defined(__SSE2__)
	return (vf)_mm_max_ps((__m128)a, (__m128)b);
#else
	return vf_select(a > b, a, b);
#endif
}

ISA_INLINE vf vf_abs(vf v)
{
	return (vf)((vi)v & 0x7fffffff);
}

ISA_INLINE float vf_highest(vf v)
{
	float t[ISA_LANES], most;
	vf_store(t, v);
	most = t[0];
	for (int i = 1; i < ISA_LANES; i++)
		most = t[i] > most ? t[i] : most;
	return most;
}

/* To the nearest whole number, ties to even, of values below 2^22: in double rounding of the sum with 1.5 * 2^23. */
#define VF_ROUND_MAGIC 12582912.0f

/* e^x within 2 units in the last place for x in -87 .. 88; exactly 1 at 0, exactly 0 below -87 (and at minus
 * infinity). x = n ln 2 + r, and e^r = 1 + r + r^2 q(r), with q interpolated at the Chebyshev nodes of |r| <= 0.347: off by
 * 1e-8. */
ISA_INLINE vf vf_exp_below(vf x) /* x at most 88, or not a number */
{
	const vf low = vf_set(-87.0f), magic = vf_set(VF_ROUND_MAGIC);
	vi none = x < low;
	x = vf_max(low, x);
	vf shifted = x * vf_set(0x1.715476p+0f) + magic;
	vf n = shifted - magic;
	vf r = x - n * vf_set(0x1.62e4p-1f); /* ln 2 in two parts; the upper has 15 bits, so that n times it is exact */
	r = r - n * vf_set(0x1.7f7d1cp-20f);
	vf q = vf_set(0x1.6d117cp-10f);
	q = q * r + vf_set(0x1.120be2p-7f);
	q = q * r + vf_set(0x1.555518p-5f);
	q = q * r + vf_set(0x1.5554dcp-3f);
	q = q * r + vf_set(0.5f);
	q = q * r + vf_set(1.0f);
	q = q * r + vf_set(1.0f);
	vi scale = ((vi)shifted - (vi)magic + 127) << 23; /* 2^n: n stands in the low bits of `shifted` */
	return (vf)(~none & (vi)(q * (vf)scale));
}

/* For any x: e^88 above 88. */
ISA_INLINE vf vf_exp(vf x)
{
	const vf high = vf_set(88.0f);
	return vf_exp_below(vf_select(x > high, high, x));
}

/* Keeps a value in a register that is used several times: compilers would rather load it again for each use. */
#if defined(__x86_64__) && (ISA_LANES == 4 || (ISA_LANES == 8 && defined(__AVX__)))
#define VF_KEEP(v) __asm__("" : "+x"(v))
#elif defined(__x86_64__) && defined(__AVX512F__)
#define VF_KEEP(v) __asm__("" : "+v"(v))
#elif defined(__aarch64__) && ISA_LANES == 4
#define VF_KEEP(v) __asm__("" : "+w"(v))
#else
#define VF_KEEP(v) (void)(v)
#endif

#endif
