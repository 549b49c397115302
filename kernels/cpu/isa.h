/* isa.h: vectors of ISA_LANES floats, for the files of kernels/cpu/isa/, which are compiled once per instruction set with
 * ISA (base, avx2, avx512) and ISA_LANES (4, 8, 16) set by the Makefile. The compiler's own vector types: one source for
 * SSE2, AVX2, AVX-512, NEON and whatever comes; a width the machine lacks is split by the compiler, so that each
 * width can be tested everywhere. */
#ifndef KERNELS_CPU_ISA_H
#define KERNELS_CPU_ISA_H

#include <stdint.h>
#include <string.h>

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

static inline vf vf_set(float x)
{
	vf v;
	for (int i = 0; i < ISA_LANES; i++)
		v[i] = x;
	return v;
}

/* bf16 is the upper half of an f32. */
static inline vf vf_load_bf16(const uint16_t *p)
{
	vh h;
	memcpy(&h, p, sizeof h);
	vu u = __builtin_convertvector(h, vu) << 16;
	return (vf)u;
}

static inline vf vf_load_i8(const int8_t *p)
{
	vb b;
	memcpy(&b, p, sizeof b);
	return __builtin_convertvector(__builtin_convertvector(b, vi), vf);
}

#endif
