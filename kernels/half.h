/* half.h: the two 16-bit floating-point types, one number at a time. bf16 is the upper half of an f32; f16 is IEEE 754
 * binary16. Rounding is to the nearest, ties to even; what is too large becomes infinite; NaN stays NaN. */
#ifndef KERNELS_HALF_H
#define KERNELS_HALF_H

#include <stdint.h>
#include <string.h>

static inline uint32_t bits_of_float(float x)
{
	uint32_t u;
	memcpy(&u, &x, sizeof u);
	return u;
}

static inline float float_of_bits(uint32_t u)
{
	float x;
	memcpy(&x, &u, sizeof x);
	return x;
}

static inline float bf16_to_float(uint16_t h)
{
	return float_of_bits((uint32_t)h << 16);
}

static inline uint16_t float_to_bf16(float x)
{
	uint32_t u = bits_of_float(x);
	if ((u & 0x7fffffffu) > 0x7f800000u)
		return (uint16_t)(u >> 16 | 0x40);
	return (uint16_t)((u + 0x7fffu + (u >> 16 & 1)) >> 16);
}

static inline float f16_to_float(uint16_t h)
{
	uint32_t sign = (uint32_t)(h & 0x8000u) << 16, rest = h & 0x7fffu;
	if (rest >= 0x7c00u) /* infinite, or NaN */
		return float_of_bits(sign | 0x7f800000u | (rest & 0x3ffu) << 13);
	if (rest < 0x400u) { /* subnormal: a multiple of 2^-24 */
		float x = (float)rest * 0x1p-24f;
		return sign ? -x : x;
	}
	return float_of_bits(sign | ((rest << 13) + (112u << 23)));
}

#endif
