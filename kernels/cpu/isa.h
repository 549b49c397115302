/* isa.h: vectors of ISA_LANES floats, for the files of kernels/cpu/isa/, which are compiled once per instruction set with
 * ISA (base, avx2, avx512) and ISA_LANES (4, 8, 16) set by the Makefile. The compiler's own vector types: one source for
 * SSE2, AVX2, AVX-512, NEON and whatever comes; a width the machine lacks is split by the compiler, so that each
 * width can be tested everywhere. */
#ifndef KERNELS_CPU_ISA_H
#define KERNELS_CPU_ISA_H

#include <stdint.h>
#include <string.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif

#define ISA_PASTE2(a, b) a##_##b
#define ISA_PASTE(a, b) ISA_PASTE2(a, b)
/* ISA_NAME(dot) -> dot_avx2 */
#define ISA_NAME(f) ISA_PASTE(f, ISA)

typedef float vf __attribute__((vector_size(4 * ISA_LANES)));
typedef int32_t vi __attribute__((vector_size(4 * ISA_LANES)));
typedef uint32_t vu __attribute__((vector_size(4 * ISA_LANES)));
typedef uint16_t vh __attribute__((vector_size(2 * ISA_LANES)));
typedef int8_t vb __attribute__((vector_size(ISA_LANES)));

static inline vf vf_load(const float *p)
{
	vf v;
	memcpy(&v, p, sizeof v);
	return v;
}

static inline void vf_store(float *p, vf v)
{
	memcpy(p, &v, sizeof v);
}

/* Written out: compilers make one broadcast of it, where a loop over lanes becomes an insertion each. */
static inline vf vf_set(float x)
{
#if ISA_LANES == 16
	return (vf){x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x};
#elif ISA_LANES == 8
	return (vf){x, x, x, x, x, x, x, x};
#else
	return (vf){x, x, x, x};
#endif
}

/* Conversions where compilers find the machine's instruction, and those where they do not. */
/* bf16 is the upper half of an f32. */
static inline vf vf_load_bf16(const uint16_t *p)
{
	vh h;
	memcpy(&h, p, sizeof h);
#if ISA_LANES == 8 && defined(__AVX2__)
	return (vf)((vu)_mm256_cvtepu16_epi32((__m128i)h) << 16);
#elif ISA_LANES == 16 && defined(__AVX512F__)
	return (vf)((vu)_mm512_cvtepu16_epi32((__m256i)h) << 16);
#elif ISA_LANES == 4 && defined(__SSE2__)
	uint64_t u;
	memcpy(&u, &h, sizeof u);
	return (vf)_mm_unpacklo_epi16(_mm_setzero_si128(), _mm_cvtsi64_si128((long long)u));
#else
	vu u = __builtin_convertvector(h, vu) << 16;
	return (vf)u;
#endif
}

static inline vf vf_load_i8(const int8_t *p)
{
#if ISA_LANES == 8 && defined(__AVX2__)
	return (vf)_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p)));
#elif ISA_LANES == 16 && defined(__AVX512F__)
	return (vf)_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(const void *)p)));
#elif ISA_LANES == 4 && defined(__SSE2__)
	int32_t four;
	memcpy(&four, p, sizeof four);
	__m128i b = _mm_cvtsi32_si128(four), h = _mm_unpacklo_epi8(b, b);
	return (vf)_mm_cvtepi32_ps(_mm_srai_epi32(_mm_unpacklo_epi16(h, h), 24));
#else
	vb b;
	memcpy(&b, p, sizeof b);
	return __builtin_convertvector(__builtin_convertvector(b, vi), vf);
#endif
}

#endif
