/* shim.h: a stand-in for a GPU, for tests: the .cu files, compiled by a C++ compiler with `-include` of this file, run on
 * it one block after another, each thread a fiber. Blocks and threads run in a seeded random order; a thread runs until it
 * meets others (barrier, shuffle, tile operation). Shared memory begins as NaN and is a heap block of the size asked for,
 * so that sanitizers see what reaches beyond it. */
#ifndef TESTS_CUDA_HOST_SHIM_H
#define TESTS_CUDA_HOST_SHIM_H
#include <math.h>
#include <stdint.h>
#include <string.h>
#ifdef __cplusplus
#include <algorithm>
#include <functional>
extern "C" {
#endif
extern uint64_t shim_random; /* the state that orders are drawn from */
extern const char *shim_complaint; /* what went wrong in a launch; set to NULL by who has seen it */
/* Faults on purpose: a place where threads wait is passed by (-1: none); every grid's last block is left out. */
extern int shim_dropped, shim_drop_last;
const char *shim_site_name(int site); /* of such a place; NULL: so many have not been seen so far */
#ifdef __cplusplus
}
#define __global__
#define __device__
#define __host__
#define __launch_bounds__(...)
#define UNROLL
#define UNROLL_BY(n)
struct dim3 {
	unsigned x, y, z;
	dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c)
	{
	}
};
extern dim3 threadIdx, blockIdx, blockDim, gridDim;
int shim_launch(dim3 grid, dim3 block, size_t smem, const std::function<void()> &thread);
/* Arguments are taken when a kernel is launched, so that it may run later: shim_start is shim_launch, or a recorder's. */
extern int (*shim_start)(dim3 grid, dim3 block, size_t smem, const std::function<void()> &thread);
template <class... P, class... A> std::function<void()> shim_bound(void (*kernel)(P...), A... args)
{
	return [=] { kernel(args...); };
}
#define LAUNCH(kernel, grid, block, smem, stream, ...)                                                                 \
	((void)(stream), shim_start(dim3(grid), dim3(block), (smem), shim_bound((kernel), __VA_ARGS__)))
#define ALLOW_SHARED(kernel, bytes) ((void)(kernel), (bytes) <= 163 << 10 ? 0 : 1)
void *shim_shared(const void *key, size_t bytes); /* NULL: the launch's */
#define SHARED_ARRAY(type, name, n)                                                                                    \
	static char name##_key;                                                                                        \
	type *const name = (type *)shim_shared(&name##_key, sizeof(type) * (size_t)(n))
#define DYNAMIC_SHARED(name) unsigned char *const name = (unsigned char *)shim_shared(NULL, 0)
/* Where threads wait, by name: each such place in turn may be passed by. */
int shim_site(const char *file, int line, const char *what);
#define SHIM_WAIT(what, how)                                                                                           \
	do {                                                                                                           \
		static const int site = shim_site(__FILE__, __LINE__, what);                                           \
		if (site != shim_dropped)                                                                              \
			how;                                                                                           \
	} while (0)
void shim_barrier();
void shim_copies_wait();
#define __syncthreads() SHIM_WAIT("barrier", shim_barrier())
#define __syncwarp() SHIM_WAIT("warp barrier", shim_meet("", 1))
#define copies_wait() SHIM_WAIT("wait for copies", shim_copies_wait())
/* Every lane of the warp gives `bytes` (at most 48) and gets what all gave, by lane. */
typedef float shim_gift[12];
const shim_gift *shim_meet(const void *mine, size_t bytes);
template <class T> T shim_of_lane(T x, unsigned lane)
{
	const shim_gift *all = shim_meet(&x, sizeof x);
	memcpy(&x, all[lane % 32], sizeof x);
	return x;
}
#define SHIM_LANE (threadIdx.x % 32)
#define __shfl_sync(mask, value, lane) shim_of_lane(value, (unsigned)(lane))
#define __shfl_xor_sync(mask, value, by) shim_of_lane(value, SHIM_LANE ^ (unsigned)(by))
#define __shfl_up_sync(mask, value, by) shim_of_lane(value, SHIM_LANE - (SHIM_LANE < (unsigned)(by) ? 0 : (by)))
#define __umul64hi(a, b) ((uint64_t)((unsigned __int128)(a) * (b) >> 64))
#define atomicAdd(at, x) ((void)(*(at) += (x)))
#define atomicMin(at, x) ((void)(*(at) = std::min(*(at), (x))))
/* The operations of kernels/cuda/tile.cuh, on the same fragments. */
void mma_bf16(float c[4], const uint32_t a[4], const uint32_t *b);
void shim_load_tiles(uint32_t to[4], const void *row, bool turned);
#define load_tiles(to, row) shim_load_tiles(to, row, false)
#define load_tiles_turned(to, row) shim_load_tiles(to, row, true)
template <int BYTES> void copy_async(void *to, const void *from, bool valid);
#define fast_exp2(x) exp2f(x)
#endif
#endif
