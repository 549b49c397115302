/* shim.h: a stand-in for a GPU, for tests: the .cu files compiled by a C++ compiler with `-include` of this file run
 * on it, one block after another, each thread a fiber. Blocks and threads run in a seeded random order; a thread runs until
 * it meets others (barrier, shuffle, tile operation). Shared memory begins as NaN and is a heap block of the size asked
 * for, so that sanitizers see what reaches beyond it. A barrier, or a wait for copies, that is left out on purpose
 * (shim_drop) must make some test fail. */
#ifndef TESTS_CUDA_HOST_SHIM_H
#define TESTS_CUDA_HOST_SHIM_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

void shim_seed(uint64_t seed);
/* What went wrong in a launch since the last call: threads that wait for each other for ever. NULL: nothing. */
const char *shim_complaint(void);
/* Places in the kernels where threads wait, that have run so far; and one of them left out (-1: none). */
int shim_sites(void);
const char *shim_site_name(int site);
void shim_drop(int site);
/* The last block of every grid does not run. */
void shim_drop_last_block(int yes);

#ifdef __cplusplus
}

#include <functional>

#define __global__
#define __device__
#define __host__
#define __launch_bounds__(...)
#define UNROLL
#define UNROLL_BY(n)

struct dim3 {
	unsigned x, y, z;
	dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_)
	{
	}
};
extern dim3 threadIdx, blockIdx, blockDim, gridDim;

int shim_launch(dim3 grid, dim3 block, size_t smem, const std::function<void()> &thread);
#define LAUNCH(kernel, grid, block, smem, stream, ...)                                                                 \
	((void)(stream), shim_launch(dim3(grid), dim3(block), (smem), [&] { (kernel)(__VA_ARGS__); }))
#define ALLOW_SHARED(kernel, bytes) ((void)(kernel), (bytes) <= 163 << 10 ? 0 : 1)

void *shim_shared(const void *key, size_t bytes);
extern unsigned char *shim_dynamic;
#define SHARED_ARRAY(type, name, n)                                                                                    \
	static char name##_key;                                                                                        \
	type *const name = (type *)shim_shared(&name##_key, sizeof(type) * (size_t)(n))
#define DYNAMIC_SHARED(name) unsigned char *const name = shim_dynamic

int shim_site(const char *file, int line, const char *what);
void shim_barrier(int site);
void shim_sync_warp(int site);
void shim_copies_wait(int site);
#define SHIM_AT(what, call)                                                                                            \
	do {                                                                                                           \
		static const int site_ = shim_site(__FILE__, __LINE__, what);                                          \
		call(site_);                                                                                           \
	} while (0)
#define __syncthreads() SHIM_AT("barrier", shim_barrier)
#define __syncwarp() SHIM_AT("warp barrier", shim_sync_warp)
#define copies_wait() SHIM_AT("wait for copies", shim_copies_wait)

/* Every lane of the warp gives `bytes` (at most 32) and gets what all gave: 32 times 32 bytes. */
const unsigned char *shim_meet(const void *mine, size_t bytes);
template <class T> T shim_of_lane(T mine, int lane)
{
	T x;
	const unsigned char *all = shim_meet(&mine, sizeof mine);
	memcpy(&x, all + 32 * (lane & 31), sizeof x);
	return x;
}
#define SHIM_LANE ((int)(threadIdx.x % 32))
template <class T> T __shfl_sync(unsigned, T x, int lane)
{
	return shim_of_lane(x, lane);
}
template <class T> T __shfl_xor_sync(unsigned, T x, int by)
{
	return shim_of_lane(x, SHIM_LANE ^ by);
}
template <class T> T __shfl_up_sync(unsigned, T x, int by)
{
	return shim_of_lane(x, SHIM_LANE >= by ? SHIM_LANE - by : SHIM_LANE);
}
inline unsigned __ballot_sync(unsigned, int vote)
{
	unsigned votes = 0;
	const unsigned char *all = shim_meet(&vote, sizeof vote);
	for (int i = 0; i < 32; i++) {
		memcpy(&vote, all + 32 * i, sizeof vote);
		votes |= (unsigned)(vote != 0) << i;
	}
	return votes;
}
inline uint64_t __umul64hi(uint64_t a, uint64_t b)
{
	return (uint64_t)((unsigned __int128)a * b >> 64);
}
template <class T> T atomicAdd(T *at, T x)
{
	T before = *at;
	*at += x;
	return before;
}
template <class T> T atomicMin(T *at, T x)
{
	T before = *at;
	*at = x < before ? x : before;
	return before;
}

/* The tile operations of kernels/cuda/tile.cuh, with the same fragments. */
void mma_bf16(float c[4], const uint32_t a[4], const uint32_t *b);
void load_tiles(uint32_t to[4], const void *row);
void load_tiles_turned(uint32_t to[4], const void *row);
void shim_copy(void *to, const void *from, size_t bytes, bool valid);
template <int BYTES> void copy_async(void *to, const void *from, bool valid)
{
	shim_copy(to, from, BYTES, valid);
}
inline float fast_exp2(float x)
{
	return exp2f(x);
}
#endif
#endif
