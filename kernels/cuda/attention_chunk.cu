/* attention_chunk.cu: attention of prompts' chunks over pages: a block takes 128 lines of a sequence, a warp 32 of them, and
 * all the context that they see. */
#include "kernels/cuda/attention_mma.cuh"

enum { M = 2 }; /* times 16 lines a warp: each K and V that is read from shared memory serves 32 lines */

template <class S> static __device__ inline void write_lines(const struct warp_lines<S::DIM, M> *x,
							     const struct attend_args *a, const struct work *w, int line0)
{
	int lane = threadIdx.x % WARP;
	UNROLL
	for (int m = 0; m < M; m++)
		UNROLL
		for (int side = 0; side < 2; side++) {
			int line = line0 + 16 * m + 8 * side + lane / 4;
			if (line >= w->n_lines)
				continue;
			float by = x->sum[m][side] > 0 ? 1 / x->sum[m][side] : 0;
			uint16_t *to = (uint16_t *)a->out + out_at(a, w, line);
			UNROLL
			for (int n = 0; n < S::DIM / 8; n++) {
				int d = 8 * n + lane % 4 * 2;
				if (d < a->dim)
					*(uint32_t *)(void *)(to + d) =
						bf16_pair(x->out[m][n][2 * side] * by, x->out[m][n][2 * side + 1] * by);
			}
		}
}

template <class S> __global__ void __launch_bounds__(ATTEND_THREADS, 2) chunk_kernel(const struct attend_args a)
{
	DYNAMIC_SHARED(memory);
	struct work w;
	if (!chunk_work(&a, &w))
		return;
	mma_memory<S> m = {memory};
	struct warp_lines<S::DIM, M> x;
	int line0 = threadIdx.x / WARP * 16 * M;
	begin_lines(&x);
	walk<S, M, S::TOKENS / 16>(&x, m, &a, &w, line0, 0);
	write_lines<S>(&x, &a, &w, line0);
}

template <class S> static int chunks(cuda_stream st, const struct attend_args *a, int32_t max_tiles)
{
	dim3 grid((unsigned)max_tiles, (unsigned)a->n_kv_heads);
	int rc = ALLOW_SHARED(chunk_kernel<S>, S::BYTES);
	return rc ? rc : LAUNCH(chunk_kernel<S>, grid, ATTEND_THREADS, S::BYTES, st, *a);
}

/* Twice as many tokens of half the size: the same registers and shared memory. */
template <enum num KV> static int chunks_of(cuda_stream st, const struct attend_args *a, int32_t max_tiles)
{
	return a->dim <= 64 ? chunks<mma_shape<64, 64, MMA_CHUNK_LINES, KV>>(st, a, max_tiles)
			    : chunks<mma_shape<128, 32, MMA_CHUNK_LINES, KV>>(st, a, max_tiles);
}

int attend_chunks(cuda_stream st, const struct attend_args *a, enum num kv, int32_t max_tiles)
{
	if (kv == NUM_BF16)
		return chunks_of<NUM_BF16>(st, a, max_tiles);
	return kv == NUM_I8 ? chunks_of<NUM_I8>(st, a, max_tiles) : chunks_of<NUM_F8>(st, a, max_tiles);
}
