/* attention_wide.cu: attention without tensor cores, in f32 throughout: f32 activations, and head sizes that the tile
 * kernels do not take. 16 lines by 32 tokens at a time: K and V become floats in shared memory; for scores a lane has a
 * token and a warp four lines, for outputs a lane has every 32nd value of a head. */
#include "kernels/cuda/attention.cuh"

enum {
	WARPS = ATTEND_THREADS / WARP,
	LINES = WIDE_LINES / WARPS, /* of a warp */
	TOKENS = WARP,
	VALUES = WIDE_MOST_DIM / WARP,
};

template <enum num KV> struct kept;
template <> struct kept<NUM_F32> {
	enum { BYTES = 4 };
	static __device__ inline float value(const char *x, int32_t i)
	{
		return ((const float *)(const void *)x)[i];
	}
};
template <> struct kept<NUM_BF16> {
	enum { BYTES = 2 };
	static __device__ inline float value(const char *x, int32_t i)
	{
		return to_float(((const bf16 *)(const void *)x)[i]);
	}
};
template <> struct kept<NUM_I8> {
	enum { BYTES = 1 };
	static __device__ inline float value(const char *x, int32_t i)
	{
		return (float)((const int8_t *)x)[i];
	}
};
template <> struct kept<NUM_F8> {
	enum { BYTES = 1 };
	static __device__ inline float value(const char *x, int32_t i)
	{
		return f8_value(((const uint8_t *)x)[i]);
	}
};

/* Rows of shared memory are an odd number of 16-byte words, so that lanes that read a row each meet no bank twice. */
static __host__ __device__ inline int32_t row_floats(int32_t dim)
{
	return 4 * ((dim + 3) / 4 | 1);
}

/* K or V of the tokens whose slots are given, one KV head; zeros past the end and up to the row's end. */
template <enum num KV>
static __device__ inline void load_tile(float *to, const void *cache, const float *scales, const int64_t *slots,
					const struct attend_args *a, int32_t kv_head)
{
	typedef kept<KV> type;
	enum { PER = 16 / type::BYTES };
	int32_t stride = row_floats(a->dim);
	bool words = a->dim % PER == 0;
	int32_t pieces = words ? a->dim / PER : stride;
	UNROLL_BY(2)
	for (int32_t e = threadIdx.x; e < TOKENS * pieces; e += ATTEND_THREADS) {
		int32_t t = e / pieces, piece = e - t * pieces;
		int64_t slot = slots[t], at = slot * a->n_kv_heads + kv_head;
		const char *from = (const char *)cache + at * a->dim * type::BYTES;
		float by = slot >= 0 && scales ? scales[at] : 1;
		if (!words) {
			to[t * stride + piece] = slot >= 0 && piece < a->dim ? type::value(from, piece) * by : 0;
			continue;
		}
		bytes16 b = {{0, 0, 0, 0}};
		if (slot >= 0)
			b = ((const bytes16 *)(const void *)from)[piece];
		UNROLL
		for (int i = 0; i < PER; i++)
			to[t * stride + piece * PER + i] = type::value((const char *)&b, i) * by;
	}
}

/* Scores of the warp's lines against the lane's token. */
static __device__ inline void score(float s[LINES], const float *q, const float *k, int32_t dim, int32_t stride)
{
	int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
	UNROLL
	for (int i = 0; i < LINES; i++)
		s[i] = 0;
	UNROLL_BY(2)
	for (int32_t d = 0; d < dim; d += 4) {
		float x[4], y[4];
		vec<float>::read(x, k + lane * stride + d);
		UNROLL
		for (int i = 0; i < LINES; i++) {
			vec<float>::read(y, q + (warp + WARPS * i) * stride + d);
			s[i] += x[0] * y[0] + x[1] * y[1] + x[2] * y[2] + x[3] * y[3];
		}
	}
}

struct wide_line {
	float largest, sum, out[VALUES];
};

/* Takes one more score per lane into a line; the probability is left in p[lane]. */
static __device__ inline void take_score(struct wide_line *l, float s, float *p)
{
	float largest = fmaxf(l->largest, warp_max(s));
	float before = largest == -INFINITY ? 1 : exp2f(l->largest - largest);
	float mine = largest == -INFINITY ? 0 : exp2f(s - largest);
	l->largest = largest;
	l->sum = l->sum * before + warp_sum(mine);
	p[threadIdx.x % WARP] = mine;
	UNROLL
	for (int i = 0; i < VALUES; i++)
		l->out[i] *= before;
}

static __device__ inline void add_values(struct wide_line *l, const float *p, const float *v, int32_t dim, int32_t stride)
{
	int lane = threadIdx.x % WARP;
	UNROLL_BY(4)
	for (int t = 0; t < TOKENS; t++) {
		float by = p[t];
		UNROLL
		for (int i = 0; i < VALUES; i++)
			if (lane + WARP * i < dim)
				l->out[i] += by * v[t * stride + lane + WARP * i];
	}
}

static __device__ inline void finish_line(const struct attend_args *a, const struct work *w, int32_t line,
					  const struct wide_line *l, enum num act, bool decode)
{
	int lane = threadIdx.x % WARP;
	if (decode && a->splits > 1) {
		int64_t at = part_at(a, w, line);
		if (lane == 0) {
			a->part_sum[2 * at] = l->largest;
			a->part_sum[2 * at + 1] = l->sum;
		}
		for (int i = 0; i < VALUES && l->sum > 0; i++)
			if (lane + WARP * i < a->dim)
				a->part_out[at * a->dim + lane + WARP * i] = l->out[i];
		return;
	}
	int64_t to = out_at(a, w, line);
	UNROLL
	for (int i = 0; i < VALUES; i++) {
		int32_t d = lane + WARP * i;
		float x = l->sum > 0 ? l->out[i] / l->sum : 0;
		if (d < a->dim && act == NUM_BF16)
			from_float(&((bf16 *)a->out)[to + d], x);
		else if (d < a->dim)
			((float *)a->out)[to + d] = x;
	}
}

/* The types of activations and whether this is for decodes are told apart when running: it is done once a block. */
template <enum num KV> __global__ void __launch_bounds__(ATTEND_THREADS)
wide_kernel(const struct attend_args a, enum num act, bool decode)
{
	SHARED_ARRAY(int64_t, slots, TOKENS);
	SHARED_ARRAY(float, p, WIDE_LINES *TOKENS);
	DYNAMIC_SHARED(memory);
	struct work w;
	if (decode)
		w = decode_work(&a);
	else if (!chunk_work(&a, &w))
		return;
	int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
	int32_t stride = row_floats(a.dim);
	float *q = (float *)(void *)memory, *k = q + WIDE_LINES * stride, *v = k + TOKENS * stride;
	for (int32_t e = threadIdx.x; e < WIDE_LINES * stride; e += ATTEND_THREADS) {
		int32_t line = e / stride, d = e - line * stride;
		float x = 0;
		if (line < w.n_lines && d < a.dim) {
			int64_t at = query_at(&a, &w, line) + d;
			x = act == NUM_BF16 ? to_float(((const bf16 *)a.qkv)[at]) : ((const float *)a.qkv)[at];
		}
		q[e] = x * a.scale;
	}
	struct wide_line l[LINES];
	UNROLL
	for (int i = 0; i < LINES; i++) {
		l[i].largest = -INFINITY;
		l[i].sum = 0;
		UNROLL
		for (int j = 0; j < VALUES; j++)
			l[i].out[j] = 0;
	}
	for (int32_t base = w.lo; base < w.hi; base += TOKENS) {
		int32_t token = base + lane;
		if (warp == 0) {
			slots[lane] = slot_of(&a, page_of(&a, &w, token), token);
			verify(&a, &w, token, slots[lane]);
		}
		__syncthreads(); /* nobody is at the last tile any more */
		load_tile<KV>(k, a.k, a.k_scale, slots, &a, w.kv_head);
		load_tile<KV>(v, a.v, a.v_scale, slots, &a, w.kv_head);
		__syncthreads();
		float s[LINES];
		score(s, q, k, a.dim, stride);
		UNROLL
		for (int i = 0; i < LINES; i++) {
			int32_t line = warp + WARPS * i, t = line_token(&a, &w, line);
			bool seen = token < w.hi && token <= t && token >= most(window_from(&a, t), w.pad);
			take_score(&l[i], seen ? s[i] : -INFINITY, p + line * TOKENS);
		}
		__syncwarp();
		UNROLL
		for (int i = 0; i < LINES; i++)
			add_values(&l[i], p + (warp + WARPS * i) * TOKENS, v, a.dim, stride);
	}
	UNROLL
	for (int i = 0; i < LINES; i++)
		if (warp + WARPS * i < w.n_lines)
			finish_line(&a, &w, warp + WARPS * i, &l[i], act, decode);
}

template <enum num KV>
static int wide(cuda_stream st, enum num act, const struct attend_args *a, int32_t n_decodes, int32_t max_tiles)
{
	size_t smem = (size_t)(WIDE_LINES + 2 * TOKENS) * (size_t)row_floats(a->dim) * sizeof(float);
	int rc = ALLOW_SHARED(wide_kernel<KV>, smem);
	if (n_decodes > 0 && !rc) {
		dim3 grid((unsigned)a->splits, (unsigned)(a->n_kv_heads * a->groups), (unsigned)n_decodes);
		rc = LAUNCH(wide_kernel<KV>, grid, ATTEND_THREADS, smem, st, *a, act, true);
	}
	if (max_tiles > 0 && !rc) {
		dim3 grid((unsigned)max_tiles, (unsigned)a->n_kv_heads);
		rc = LAUNCH(wide_kernel<KV>, grid, ATTEND_THREADS, smem, st, *a, act, false);
	}
	return rc;
}

int attend_wide(cuda_stream st, enum num act, const struct attend_args *a, enum num kv, int32_t n_decodes,
		int32_t max_tiles)
{
	switch (kv) {
	case NUM_F32:
		return wide<NUM_F32>(st, act, a, n_decodes, max_tiles);
	case NUM_BF16:
		return wide<NUM_BF16>(st, act, a, n_decodes, max_tiles);
	case NUM_I8:
		return wide<NUM_I8>(st, act, a, n_decodes, max_tiles);
	case NUM_F8:
		return wide<NUM_F8>(st, act, a, n_decodes, max_tiles);
	default:
		return CUDA_REFUSED;
	}
}
