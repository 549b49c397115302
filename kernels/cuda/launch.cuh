/* launch.cuh: what every kernel file starts with: launching, 16-bit numbers, 16 bytes at a time, reductions.
 *
 * The same sources are compiled by nvcc and, for tests without a GPU, by a C++ compiler that is made to include a stand-in
 * first (-include). Kernels therefore keep to what both have: barriers, shuffles, votes, atomics, the tile operations of
 * tile.cuh, and shared memory by the two macros below. */
#ifndef KERNELS_CUDA_LAUNCH_CUH
#define KERNELS_CUDA_LAUNCH_CUH

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "kernels/cuda/ops_cuda.h"

#ifdef __CUDACC__
#define LAUNCH(kernel, grid, block, smem, stream, ...)                                                                 \
	((kernel)<<<(grid), (block), (smem), (stream)>>>(__VA_ARGS__), (int)cudaGetLastError())
/* Shared memory of a size known when compiling, and the one of the launch. */
#define SHARED_ARRAY(type, name, n) __shared__ type name[n]
#define DYNAMIC_SHARED(name) extern __shared__ __align__(16) unsigned char name[]
/* More than 48 KiB of the latter have to be asked for; once for each kernel. */
#define ALLOW_SHARED(kernel, bytes) allow_shared((const void *)(kernel), (bytes))
static inline int allow_shared(const void *kernel, size_t bytes)
{
	return (int)cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
}
#define UNROLL _Pragma("unroll")
#define PRAGMA_TEXT(x) _Pragma(#x)
#define UNROLL_BY(n) PRAGMA_TEXT(unroll n)
#endif

enum { WARP = 32 };
#define ALL_LANES 0xffffffffu

/* --- numbers ---------------------------------------------------------------------------------------------------------- */

struct bf16 {
	uint16_t bits;
};

static __device__ inline float bits_float(uint32_t u)
{
#ifdef __CUDACC__
	return __uint_as_float(u);
#else
	float x;
	memcpy(&x, &u, sizeof x);
	return x;
#endif
}

static __device__ inline uint32_t float_bits(float x)
{
#ifdef __CUDACC__
	return __float_as_uint(x);
#else
	uint32_t u;
	memcpy(&u, &x, sizeof u);
	return u;
#endif
}

static __device__ inline float to_float(float x)
{
	return x;
}

static __device__ inline float to_float(bf16 x)
{
	return bits_float((uint32_t)x.bits << 16);
}

/* Rounded to the nearest, ties to even. */
static __device__ inline uint32_t bf16_bits(float x)
{
#ifdef __CUDACC__
	uint16_t h;
	asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(h) : "f"(x));
	return h;
#else
	uint32_t u = float_bits(x);
	if ((u & 0x7fffffffu) > 0x7f800000u)
		return u >> 16 | 0x40;
	return (u + 0x7fffu + (u >> 16 & 1)) >> 16;
#endif
}

/* Two of them: `low` in the lower half. */
static __device__ inline uint32_t bf16_pair(float low, float high)
{
#ifdef __CUDACC__
	uint32_t pair;
	asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
	return pair;
#else
	return bf16_bits(low) | bf16_bits(high) << 16;
#endif
}

/* The same of two that bf16 holds exactly: nothing is to be rounded. */
static __device__ inline uint32_t exact_pair(float low, float high)
{
#ifdef __CUDACC__
	return __byte_perm(float_bits(low), float_bits(high), 0x7632u);
#else
	return float_bits(low) >> 16 | (float_bits(high) & 0xffff0000u);
#endif
}

static __device__ inline void from_float(float *to, float x)
{
	*to = x;
}

static __device__ inline void from_float(bf16 *to, float x)
{
	to->bits = (uint16_t)bf16_bits(x);
}

static __device__ inline float f16_value(uint16_t h)
{
	uint32_t sign = (uint32_t)(h & 0x8000u) << 16, rest = h & 0x7fffu;
	if (rest >= 0x7c00u)
		return bits_float(sign | 0x7f800000u | (rest & 0x3ffu) << 13);
	/* The bits as the upper ones of an f32, whose exponent counts from 112 less: subnormal numbers come out too. */
	return bits_float(sign | rest << 13) * 0x1p112f;
}

/* Byte i of a word of four int8, each with its highest bit turned over (so that it counts from -128): as the last bits of
 * 2^23, which are worth 1. An integer conversion would run at a quarter of the rate. */
static __device__ inline float i8_value(uint32_t word, int i)
{
#ifdef __CUDACC__
	uint32_t bits = __byte_perm(word, 0x4b000000u, 0x7440u | (unsigned)i);
#else
	uint32_t bits = 0x4b000000u | (word >> 8 * i & 0xffu);
#endif
	return bits_float(bits) - 8388736.0f;
}

/* fp8 e4m3: 1.mmm * 2^(e - 7); subnormal below 2^-6; 0x7f is NaN, nothing is infinite, the largest is 448. */
static __device__ inline float f8_value(uint32_t x)
{
	float size = bits_float((x & 0x7fu) << 20) * 0x1p120f;
	return bits_float(float_bits((x & 0x7fu) == 0x7fu ? NAN : size) | (x & 0x80u) << 24);
}

/* Rounded to the nearest, ties to even; what is too large becomes the largest. */
static __device__ inline uint32_t f8_bits(float x)
{
	uint32_t u = float_bits(x), sign = u >> 24 & 0x80u, size = u & 0x7fffffffu;
	if (size > 0x7f800000u)
		return sign | 0x7fu;
	if (size >= float_bits(448.0f))
		return sign | 0x7eu;
	if (size < float_bits(0x1p-6f)) /* a multiple of 2^-9: adding 2^14 makes the sum's last bit worth that */
		return sign | (float_bits(bits_float(size) + 0x1p14f) - float_bits(0x1p14f));
	size += 0x7ffffu + (size >> 20 & 1);
	return sign | ((size >> 20) - (120u << 3));
}

/* --- 16 bytes --------------------------------------------------------------------------------------------------------- */

struct alignas(16) bytes16 {
	uint32_t w[4];
};

/* One 16-byte word of activations as floats, and back. PER: how many it holds. */
template <class T> struct vec;
template <> struct vec<float> {
	enum { PER = 4 };
	static __device__ inline void read(float *x, const float *from)
	{
		bytes16 b = *(const bytes16 *)from;
		UNROLL
		for (int i = 0; i < 4; i++)
			x[i] = bits_float(b.w[i]);
	}
	static __device__ inline void write(float *to, const float *x)
	{
		bytes16 b;
		UNROLL
		for (int i = 0; i < 4; i++)
			b.w[i] = float_bits(x[i]);
		*(bytes16 *)to = b;
	}
};
template <> struct vec<bf16> {
	enum { PER = 8 };
	static __device__ inline void read(float *x, const bf16 *from)
	{
		bytes16 b = *(const bytes16 *)from;
		UNROLL
		for (int i = 0; i < 4; i++) {
			x[2 * i] = bits_float(b.w[i] << 16);
			x[2 * i + 1] = bits_float(b.w[i] & 0xffff0000u);
		}
	}
	static __device__ inline void write(bf16 *to, const float *x)
	{
		bytes16 b;
		UNROLL
		for (int i = 0; i < 4; i++)
			b.w[i] = bf16_pair(x[2 * i], x[2 * i + 1]);
		*(bytes16 *)to = b;
	}
};

static inline bool aligned16(const void *p)
{
	return ((uintptr_t)p & 15) == 0;
}

/* --- over threads ----------------------------------------------------------------------------------------------------- */

static __device__ inline float warp_sum(float x)
{
	for (int by = WARP / 2; by; by /= 2)
		x += __shfl_xor_sync(ALL_LANES, x, by);
	return x;
}

static __device__ inline float warp_max(float x)
{
	for (int by = WARP / 2; by; by /= 2)
		x = fmaxf(x, __shfl_xor_sync(ALL_LANES, x, by));
	return x;
}

/* The sum over all threads of the block (whole warps), the same in each; `room` is shared memory of one value per warp
 * that nobody else is using. */
template <class T> static __device__ inline T block_sum(T x, T *room)
{
	int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
	for (int by = WARP / 2; by; by /= 2)
		x += __shfl_xor_sync(ALL_LANES, x, by);
	if (lane == 0)
		room[warp] = x;
	__syncthreads();
	T sum = 0;
	for (int i = 0; i < (int)blockDim.x / WARP; i++)
		sum += room[i];
	__syncthreads();
	return sum;
}

/* --- launching -------------------------------------------------------------------------------------------------------- */

static inline int64_t ceil_div(int64_t a, int64_t b)
{
	return (a + b - 1) / b;
}

/* How many blocks an element-wise kernel takes: enough to fill any chip, no more; each then strides. */
static inline unsigned blocks_for(int64_t items, int per_block)
{
	int64_t n = ceil_div(items, per_block), most = 8192;
	return (unsigned)(n < most ? n : most);
}

#endif
