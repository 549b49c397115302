/* attention_decode.cu: attention of decodes over pages: a block takes up to 16 query heads of one KV head and a part of the
 * context; of each tile of 64 tokens a warp takes 16. The warps' sums are put together at the end, those of a context's
 * parts by merge_kernel. */
#include "kernels/cuda/attention_mma.cuh"

enum { TILE_TOKENS = 64, WARPS = ATTEND_THREADS / WARP };

/* Leaves the warp's sums in shared memory: outs [warp][16][D], sums [warp][16][2]. */
template <class S>
static __device__ inline void lay_out(float *outs, float *sums, const struct warp_lines<S::DIM, 1> *x)
{
	int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
	UNROLL
	for (int side = 0; side < 2; side++) {
		int line = 16 * warp + 8 * side + lane / 4;
		UNROLL
		for (int n = 0; n < S::DIM / 8; n++)
			UNROLL
			for (int i = 0; i < 2; i++)
				outs[line * S::DIM + 8 * n + lane % 4 * 2 + i] = x->out[0][n][2 * side + i];
		if (lane % 4 == 0) {
			sums[2 * line] = x->largest[0][side];
			sums[2 * line + 1] = x->sum[0][side];
		}
	}
}

template <class S>
static __device__ inline void join_warps(const struct attend_args *a, const struct work *w, const float *outs,
					 const float *sums)
{
	for (int e = threadIdx.x; e < w->n_lines * S::DIM; e += ATTEND_THREADS) {
		int line = e / S::DIM, d = e % S::DIM;
		float largest = -INFINITY, sum = 0, out = 0;
		UNROLL
		for (int i = 0; i < WARPS; i++)
			largest = fmaxf(largest, sums[2 * (16 * i + line)]);
		UNROLL
		for (int i = 0; i < WARPS; i++) {
			int at = 16 * i + line;
			float by = sums[2 * at] == -INFINITY ? 0 : fast_exp2(sums[2 * at] - largest);
			sum += sums[2 * at + 1] * by;
			out += outs[at * S::DIM + d] * by;
		}
		if (d >= a->dim)
			continue;
		if (a->splits == 1) {
			from_float(&((bf16 *)a->out)[out_at(a, w, line) + d], sum > 0 ? out / sum : 0);
			continue;
		}
		int64_t at = part_at(a, w, line);
		if (sum > 0)
			a->part_out[at * a->dim + d] = out;
		if (d == 0) {
			a->part_sum[2 * at] = largest;
			a->part_sum[2 * at + 1] = sum;
		}
	}
}

template <class S> __global__ void __launch_bounds__(ATTEND_THREADS) decode_kernel(const struct attend_args a)
{
	DYNAMIC_SHARED(memory);
	struct work w = decode_work(&a);
	mma_memory<S> m = {memory};
	struct warp_lines<S::DIM, 1> x;
	begin_lines(&x);
	walk<S, 1, 1>(&x, m, &a, &w, 0, threadIdx.x / WARP * 16);
	/* Over the tiles, once nobody is at them. */
	float *outs = (float *)(void *)(memory + S::KV_AT), *sums = (float *)(void *)(memory + S::Q_AT);
	__syncthreads();
	lay_out<S>(outs, sums, &x);
	__syncthreads();
	join_warps<S>(&a, &w, outs, sums);
}

template <class S> static int decodes(cuda_stream st, const struct attend_args *a, int32_t n_decodes)
{
	static_assert(WARPS * 16 * S::DIM * 4 <= S::BYTES - S::KV_AT, "the warps' sums fit over the tiles");
	dim3 grid((unsigned)a->splits, (unsigned)(a->n_kv_heads * a->groups), (unsigned)n_decodes);
	int rc = ALLOW_SHARED(decode_kernel<S>, S::BYTES);
	return rc ? rc : LAUNCH(decode_kernel<S>, grid, ATTEND_THREADS, S::BYTES, st, *a);
}

template <enum num KV> static int decodes_of(cuda_stream st, const struct attend_args *a, int32_t n_decodes)
{
	return a->dim <= 64 ? decodes<mma_shape<64, TILE_TOKENS, MMA_DECODE_LINES, KV>>(st, a, n_decodes)
			    : decodes<mma_shape<128, TILE_TOKENS, MMA_DECODE_LINES, KV>>(st, a, n_decodes);
}

int attend_decodes(cuda_stream st, const struct attend_args *a, enum num kv, int32_t n_decodes)
{
	if (kv == NUM_BF16)
		return decodes_of<NUM_BF16>(st, a, n_decodes);
	return kv == NUM_I8 ? decodes_of<NUM_I8>(st, a, n_decodes) : decodes_of<NUM_F8>(st, a, n_decodes);
}
