/* half.h: the two 16-bit floating-point types, and one of 8 bits, one number at a time. bf16 is the upper half of an f32;
 * f16 is IEEE 754 binary16; f8 is e4m3: bias 7, no infinity, the largest is 448. Rounding is to the nearest, ties to even;
 * what is too large becomes infinite (f8: the largest); NaN stays NaN. */
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

static inline float f8_to_float(uint8_t x)
{
	int exponent = x >> 3 & 15, fraction = x & 7;
	if ((x & 0x7f) == 0x7f)
		return float_of_bits(0x7fc00000u);
	float size = exponent ? (float)(8 + fraction) * float_of_bits((uint32_t)(exponent - 10 + 127) << 23)
			      : (float)fraction * 0x1p-9f;
	return x & 0x80 ? -size : size;
}

static inline uint8_t float_to_f8(float x)
{
	uint8_t sign = (uint8_t)(bits_of_float(x) >> 24 & 0x80), best = 0;
	float size = sign ? -x : x;
	if (size != size)
		return sign | 0x7f;
	/* The neighbours are found by halving the range of codes, which rise with what they stand for. */
	uint8_t low = 0, high = 0x7e;
	while (high - low > 1) {
		uint8_t middle = (uint8_t)((low + high) / 2);
		if (f8_to_float(middle) <= size)
			low = middle;
		else
			high = middle;
	}
	float below = size - f8_to_float(low), above = f8_to_float(high) - size;
	best = below < above || (below == above && low % 2 == 0) ? low : high;
	return sign | best;
}

#endif
