/* tile.cuh: the tensor cores and what feeds them: mma.m16n8k16 of bf16 with f32 sums, ldmatrix, and copies from global to
 * shared memory that do not pass through registers. PTX ISA of sm_80; Hopper runs the same. */
#ifndef KERNELS_CUDA_TILE_CUH
#define KERNELS_CUDA_TILE_CUH

#include "kernels/cuda/launch.cuh"

#ifdef __CUDACC__
static __device__ inline uint32_t shared_address(const void *p)
{
	return (uint32_t)__cvta_generic_to_shared(p);
}

/* c[16][8] += a[16][16] b[16][8]. Lane l holds, with row = l / 4 and pair = 2 (l % 4): a: (row, pair), (row + 8, pair),
 * (row, pair + 8), (row + 8, pair + 8), two columns each; b: rows pair, pair + 1 and pair + 8, pair + 9 of column row;
 * c: (row, pair), (row, pair + 1), (row + 8, pair), (row + 8, pair + 1). */
static __device__ inline void mma_bf16(float c[4], const uint32_t a[4], const uint32_t *b)
{
	asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
		     "{%0,%1,%2,%3};"
		     : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
		     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/* Four 8 x 8 matrices of 16-bit numbers; lane l gives the address of row l % 8 of matrix l / 8, and gets of each two
 * neighbours: columns 2 (l % 4), + 1 of row l / 4. */
static __device__ inline void load_tiles(uint32_t to[4], const void *row)
{
	asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
		     : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
		     : "r"(shared_address(row))
		     : "memory");
}

/* The same of the transposed matrices: rows 2 (l % 4), + 1 of column l / 4. */
static __device__ inline void load_tiles_turned(uint32_t to[4], const void *row)
{
	asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
		     : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
		     : "r"(shared_address(row))
		     : "memory");
}

/* BYTES (16 or 4) to shared memory; zeros when not valid (`from` is not read then). Done after copies_wait. */
template <int BYTES> static __device__ inline void copy_async(void *to, const void *from, bool valid)
{
	int n = valid ? BYTES : 0;
	if (BYTES == 16)
		asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from), "r"(n)
			     : "memory");
	else
		asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared_address(to)), "l"(from), "r"(n)
			     : "memory");
}

/* Waits for this thread's copies; other threads' need a barrier after that. */
static __device__ inline void copies_wait()
{
	asm volatile("cp.async.wait_all;" ::: "memory");
}

/* 2^x to 2 units in the last place; what is below the normal range becomes 0. */
static __device__ inline float fast_exp2(float x)
{
	float y;
	asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
	return y;
}
#endif

#endif
