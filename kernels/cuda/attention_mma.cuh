/* attention_mma.cuh: attention on tensor cores, for decodes (attention_decode.cu) and for chunks (attention_chunk.cu): bf16
 * queries; pages of bf16, int8 or fp8.
 *
 * Tiles of K and V come in by asynchronous copies, one tile ahead of the products, as bf16 in rows of D values whose
 * 16-byte words are exchanged by the row's number so that ldmatrix meets no bank twice. int8 and fp8 come in as they are and
 * are then widened, exactly: the scale of K's tokens is applied to scores, that of V's to probabilities. Scores, sums and
 * outputs are f32 in registers, as mma.m16n8k16 hands them out. */
#ifndef KERNELS_CUDA_ATTENTION_MMA_CUH
#define KERNELS_CUDA_ATTENTION_MMA_CUH

#include "kernels/cuda/attention.cuh"
#include "kernels/cuda/tile.cuh"

/* D: a head's size, rounded up to 64 or 128; the rest is zeros. TOKENS: of a tile. LINES: of a block. */
template <int D, int TOKENS_, int LINES_, enum num KV_> struct mma_shape {
	static const int DIM = D, TOKENS = TOKENS_, LINES = LINES_, WORDS = D / 8; /* 16-byte words of a row */
	static const enum num KV = KV_;
	static const bool RAW = KV_ != NUM_BF16;
	static const int ROWS_BYTES = TOKENS * D * 2;
	/* Shared memory: queries; K and V to compute with, twice unless they are widened from what is copied; that, twice;
	 * scales of K and V, twice; slots, twice. */
	static const int Q_AT = 0, KV_AT = LINES * D * 2;
	static const int RAW_AT = KV_AT + (RAW ? 2 : 4) * ROWS_BYTES;
	static const int SCALE_AT = RAW_AT + (RAW ? 4 * TOKENS * D : 0);
	static const int SLOT_AT = SCALE_AT + (RAW ? 4 * TOKENS * 4 : 0);
	static const int BYTES = SLOT_AT + 2 * TOKENS * 8;
};

template <class S> struct mma_memory {
	unsigned char *base;
	__device__ inline uint16_t *q() const
	{
		return (uint16_t *)(void *)(base + S::Q_AT);
	}
	/* which: 0 K, 1 V */
	__device__ inline uint16_t *rows(int which, int stage) const
	{
		return (uint16_t *)(void *)(base + S::KV_AT + (S::RAW ? which : 2 * stage + which) * S::ROWS_BYTES);
	}
	__device__ inline unsigned char *raw(int which, int stage) const
	{
		return base + S::RAW_AT + (2 * stage + which) * (S::TOKENS * S::DIM);
	}
	__device__ inline float *scale(int which, int stage) const
	{
		return (float *)(void *)(base + S::SCALE_AT) + (2 * stage + which) * S::TOKENS;
	}
	__device__ inline int64_t *slots(int stage) const
	{
		return (int64_t *)(void *)(base + S::SLOT_AT) + stage * S::TOKENS;
	}
};

/* The place of a row's 16-byte word, in numbers of 16 bits. */
template <int D> static __device__ inline int word_at(int row, int word)
{
	return row * D + ((word ^ (row & 7)) << 3);
}

/* --- in: queries, pages ----------------------------------------------------------------------------------------------- */

template <class S>
static __device__ inline void load_queries(const mma_memory<S> &m, const struct attend_args *a, const struct work *w)
{
	for (int e = threadIdx.x; e < S::LINES * S::WORDS; e += ATTEND_THREADS) {
		int line = e / S::WORDS, word = e % S::WORDS;
		bool valid = line < w->n_lines && word * 8 < a->dim;
		const uint16_t *from = (const uint16_t *)a->qkv + (valid ? query_at(a, w, line) + word * 8 : 0);
		copy_async<16>(m.q() + word_at<S::DIM>(line, word), from, valid);
	}
}

/* Starts the copies of the tile whose slots are in m.slots(stage). */
template <class S>
static __device__ inline void load_pages(const mma_memory<S> &m, int stage, const struct attend_args *a, int32_t kv_head)
{
	enum { BYTES = S::RAW ? 1 : 2, PER = 16 / BYTES, WORDS = S::DIM / PER };
	const int64_t *slots = m.slots(stage);
	UNROLL_BY(4)
	for (int e = threadIdx.x; e < S::TOKENS * WORDS; e += ATTEND_THREADS) {
		int t = e / WORDS, word = e % WORDS;
		int64_t slot = slots[t], at = ((slot * a->n_kv_heads + kv_head) * a->dim + word * PER) * BYTES;
		bool valid = slot >= 0 && word * PER < a->dim;
		if (S::RAW) {
			copy_async<16>(m.raw(0, stage) + t * S::DIM + word * 16, (const char *)a->k + (valid ? at : 0), valid);
			copy_async<16>(m.raw(1, stage) + t * S::DIM + word * 16, (const char *)a->v + (valid ? at : 0), valid);
		} else {
			int to = word_at<S::DIM>(t, word);
			copy_async<16>(m.rows(0, stage) + to, (const char *)a->k + (valid ? at : 0), valid);
			copy_async<16>(m.rows(1, stage) + to, (const char *)a->v + (valid ? at : 0), valid);
		}
	}
	if (S::RAW)
		for (int t = threadIdx.x; t < 2 * S::TOKENS; t += ATTEND_THREADS) {
			int which = t / S::TOKENS, token = t % S::TOKENS;
			int64_t slot = slots[token], at = slot < 0 ? 0 : slot * a->n_kv_heads + kv_head;
			copy_async<4>(m.scale(which, stage) + token, (which ? a->v_scale : a->k_scale) + at, slot >= 0);
		}
}

/* The first or second two of a word's four numbers of 8 bits as two of bf16, exactly. */
template <enum num KV> static __device__ inline uint32_t widen_pair(uint32_t word, int half)
{
	if (KV == NUM_I8)
		return exact_pair(i8_value(word ^ 0x80808080u, 2 * half), i8_value(word ^ 0x80808080u, 2 * half + 1));
	return exact_pair(f8_value(word >> 16 * half & 0xff), f8_value(word >> (16 * half + 8) & 0xff));
}

template <class S> static __device__ inline void widen_pages(const mma_memory<S> &m, int stage)
{
	enum { WORDS = S::DIM / 16 };
	UNROLL_BY(2)
	for (int e = threadIdx.x; e < 2 * S::TOKENS * WORDS; e += ATTEND_THREADS) {
		int which = e / (S::TOKENS * WORDS), t = e / WORDS % S::TOKENS, word = e % WORDS;
		bytes16 x = *(const bytes16 *)(const void *)(m.raw(which, stage) + t * S::DIM + word * 16);
		UNROLL
		for (int half = 0; half < 2; half++) {
			bytes16 y;
			UNROLL
			for (int i = 0; i < 4; i++)
				y.w[i] = widen_pair<S::KV>(x.w[2 * half + i / 2], i % 2);
			*(bytes16 *)(void *)(m.rows(which, stage) + word_at<S::DIM>(t, 2 * word + half)) = y;
		}
	}
}

/* --- the products ----------------------------------------------------------------------------------------------------- */

/* What a warp holds of M times 16 lines: lane l has lines l / 4 and l / 4 + 8 of each 16. */
template <int D, int M> struct warp_lines {
	float out[M][D / 8][4]; /* [n-tile of a head's values] */
	float largest[M][2], sum[M][2];
};

template <int D, int M> static __device__ inline void begin_lines(struct warp_lines<D, M> *x)
{
	UNROLL
	for (int m = 0; m < M; m++)
		UNROLL
		for (int side = 0; side < 2; side++) {
			x->largest[m][side] = -INFINITY;
			x->sum[m][side] = 0;
			UNROLL
			for (int n = 0; n < D / 8; n++)
				x->out[m][n][2 * side] = x->out[m][n][2 * side + 1] = 0;
		}
}

/* Scores of the warp's lines, which begin at line0, against N pairs of 8 tokens from token0 of the tile. */
template <class S, int M, int N>
static __device__ inline void mma_scores(float s[M][2 * N][4], const mma_memory<S> &m, int stage, int line0, int token0)
{
	int lane = threadIdx.x % WARP, row = lane % 8, matrix = lane / 8;
	UNROLL
	for (int i = 0; i < M; i++)
		UNROLL
		for (int n = 0; n < 2 * N; n++)
			s[i][n][0] = s[i][n][1] = s[i][n][2] = s[i][n][3] = 0;
	UNROLL
	for (int d = 0; d < S::DIM / 16; d++) {
		uint32_t q[M][4], k[4];
		UNROLL
		for (int i = 0; i < M; i++)
			load_tiles(q[i], m.q() + word_at<S::DIM>(line0 + 16 * i + matrix % 2 * 8 + row, 2 * d + matrix / 2));
		UNROLL
		for (int n = 0; n < N; n++) {
			load_tiles(k, m.rows(0, stage) + word_at<S::DIM>(token0 + 16 * n + matrix / 2 * 8 + row,
									 2 * d + matrix % 2));
			UNROLL
			for (int i = 0; i < M; i++) {
				mma_bf16(s[i][2 * n], q[i], k);
				mma_bf16(s[i][2 * n + 1], q[i], k + 2);
			}
		}
	}
}

/* Products become scores. */
template <class S, int M, int N>
static __device__ inline void mma_scale(float s[M][2 * N][4], const mma_memory<S> &m, int stage, int token0, float scale)
{
	UNROLL
	for (int n = 0; n < 2 * N; n++)
		UNROLL
		for (int i = 0; i < 4; i++) {
			int at = token0 + 8 * n + threadIdx.x % 4 * 2 + i % 2;
			float by = S::RAW ? scale * m.scale(0, stage)[at] : scale;
			UNROLL
			for (int j = 0; j < M; j++)
				s[j][n][i] *= by;
		}
}

/* What lines do not see: no score. `token` is the context's token at token0 of the tile. */
template <int M, int N>
static __device__ inline void mma_mask(float s[M][2 * N][4], const struct attend_args *a, const struct work *w, int line0,
				       int32_t token)
{
	UNROLL
	for (int j = 0; j < M; j++)
		UNROLL
		for (int side = 0; side < 2; side++) {
			int32_t t = line_token(a, w, line0 + 16 * j + 8 * side + threadIdx.x % WARP / 4);
			int32_t last = least(t, w->hi - 1) - token, first = most(window_from(a, t), w->pad) - token;
			UNROLL
			for (int n = 0; n < 2 * N; n++)
				UNROLL
				for (int i = 0; i < 2; i++) {
					int at = 8 * n + threadIdx.x % 4 * 2 + i;
					if (at > last || at < first)
						s[j][n][2 * side + i] = -INFINITY;
				}
		}
}

/* Scores become probabilities relative to the largest so far; what was summed up before is brought in line. */
template <class S, int M, int N>
static __device__ inline void mma_softmax(float s[M][2 * N][4], struct warp_lines<S::DIM, M> *x, const mma_memory<S> &m,
					  int stage, int token0)
{
	int pair = threadIdx.x % 4 * 2;
	UNROLL
	for (int j = 0; j < M; j++)
		UNROLL
		for (int side = 0; side < 2; side++) {
			float largest = x->largest[j][side], sum = 0;
			UNROLL
			for (int n = 0; n < 2 * N; n++)
				largest = fmaxf(largest, fmaxf(s[j][n][2 * side], s[j][n][2 * side + 1]));
			largest = fmaxf(largest, __shfl_xor_sync(ALL_LANES, largest, 1));
			largest = fmaxf(largest, __shfl_xor_sync(ALL_LANES, largest, 2));
			float from = largest == -INFINITY ? 0 : largest;
			float before = fast_exp2(x->largest[j][side] - from);
			UNROLL
			for (int n = 0; n < 2 * N; n++)
				UNROLL
				for (int i = 2 * side; i < 2 * side + 2; i++) {
					float p = fast_exp2(s[j][n][i] - from);
					sum += p;
					s[j][n][i] = S::RAW ? p * m.scale(1, stage)[token0 + 8 * n + pair + i % 2] : p;
				}
			x->largest[j][side] = largest;
			x->sum[j][side] = x->sum[j][side] * before + sum; /* of this lane's tokens */
			UNROLL
			for (int n = 0; n < S::DIM / 8; n++) {
				x->out[j][n][2 * side] *= before;
				x->out[j][n][2 * side + 1] *= before;
			}
		}
}

template <class S, int M, int N>
static __device__ inline void mma_values(struct warp_lines<S::DIM, M> *x, float p[M][2 * N][4], const mma_memory<S> &m,
					 int stage, int token0)
{
	int lane = threadIdx.x % WARP, row = lane % 8, matrix = lane / 8;
	UNROLL
	for (int n = 0; n < N; n++) {
		uint32_t a[M][4], v[4];
		UNROLL
		for (int i = 0; i < M; i++)
			UNROLL
			for (int j = 0; j < 4; j++)
				a[i][j] = bf16_pair(p[i][2 * n + j / 2][j % 2 * 2], p[i][2 * n + j / 2][j % 2 * 2 + 1]);
		UNROLL
		for (int d = 0; d < S::DIM / 16; d++) {
			load_tiles_turned(v, m.rows(1, stage) + word_at<S::DIM>(token0 + 16 * n + matrix % 2 * 8 + row,
										2 * d + matrix / 2));
			UNROLL
			for (int i = 0; i < M; i++) {
				mma_bf16(x->out[i][2 * d], a[i], v);
				mma_bf16(x->out[i][2 * d + 1], a[i], v + 2);
			}
		}
	}
}

/* All tokens of the block's work against a warp's lines; of each tile the warp takes 16 N tokens from token0. */
template <class S, int M, int N>
static __device__ inline void walk(struct warp_lines<S::DIM, M> *x, const mma_memory<S> &m, const struct attend_args *a,
				   const struct work *w, int line0, int token0)
{
	int32_t full_from = most(window_from(a, line_token(a, w, w->n_lines - 1)), w->pad); /* tokens seen by every line */
	int32_t full_to = least(line_token(a, w, 0) + 1, w->hi);
	int mine = threadIdx.x;
	int32_t page = mine < S::TOKENS ? page_of(a, w, w->lo + mine) : -1;
	load_queries(m, a, w);
	/* Each turn of the loop finds this turn's tile on its way, writes the next one's slots, and asks for the pages after. */
	for (int32_t base = w->lo - S::TOKENS, stage = 1; base < w->hi; base += S::TOKENS, stage ^= 1) {
		int32_t next = base + S::TOKENS;
		if (mine < S::TOKENS) {
			int64_t slot = slot_of(a, page, next + mine);
			m.slots(stage ^ 1)[mine] = slot;
			verify(a, w, next + mine, slot);
			page = page_of(a, w, next + S::TOKENS + mine);
		}
		copies_wait();
		__syncthreads(); /* the tile and the slots are there, and nobody is at the tile before any more */
		if (next < w->hi)
			load_pages(m, stage ^ 1, a, w->kv_head);
		if (base < w->lo)
			continue;
		if (S::RAW) {
			widen_pages(m, stage);
			__syncthreads();
		}
		int32_t token = base + token0;
		bool edge = token < full_from || token + 16 * N > full_to;
		float s[M][2 * N][4];
		mma_scores<S, M, N>(s, m, stage, line0, token0);
		mma_scale<S, M, N>(s, m, stage, token0, a->scale);
		if (edge)
			mma_mask<M, N>(s, a, w, line0, token);
		mma_softmax<S, M, N>(s, x, m, stage, token0);
		mma_values<S, M, N>(x, s, m, stage, token0);
	}
	UNROLL
	for (int j = 0; j < M; j++)
		UNROLL
		for (int side = 0; side < 2; side++) {
			x->sum[j][side] += __shfl_xor_sync(ALL_LANES, x->sum[j][side], 1);
			x->sum[j][side] += __shfl_xor_sync(ALL_LANES, x->sum[j][side], 2);
		}
}

#endif
