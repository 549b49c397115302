/* rope.cu: QK-norm, rotation and the KV write in one pass over the rows: a warp takes one head of one row. K and V go to
 * their slot from the registers that hold them, unrounded. */
#include "kernels/cuda/launch.cuh"

enum { ROPE_THREADS = 128, PAIRS = 4, MOST_DIM = 2 * WARP * PAIRS };

/* Where a head goes, or nowhere (cache NULL). */
struct keeper {
	void *cache;
	float *scale;
	int64_t at; /* counts [page][slot][head] */
};

/* Keeps what the lanes of a warp hold: lane i has x[j][0] at i + 32 j, x[j][1] half the head after it. */
template <enum num KV>
static __device__ inline void keep(const struct keeper *to, const float x[PAIRS][2], int32_t dim)
{
	int lane = threadIdx.x % WARP;
	int32_t half = dim / 2;
	int64_t base = to->at * dim;
	float by = 1;
	if (KV == NUM_I8 || KV == NUM_F8) {
		float most = 0;
		UNROLL
		for (int j = 0; j < PAIRS; j++)
			if (lane + WARP * j < half)
				most = fmaxf(most, fmaxf(fabsf(x[j][0]), fabsf(x[j][1])));
		by = warp_max(most) / (KV == NUM_I8 ? 127 : 448);
		if (lane == 0)
			to->scale[to->at] = by;
	}
	UNROLL
	for (int j = 0; j < PAIRS; j++) {
		int32_t i = lane + WARP * j;
		if (i >= half)
			continue;
		UNROLL
		for (int side = 0; side < 2; side++) {
			int64_t place = base + i + side * half;
			float v = x[j][side];
			if (KV == NUM_F32)
				((float *)to->cache)[place] = v;
			if (KV == NUM_BF16)
				from_float(&((bf16 *)to->cache)[place], v);
			if (KV == NUM_I8)
				((int8_t *)to->cache)[place] = (int8_t)(by > 0 ? rintf(v / by) : 0);
			if (KV == NUM_F8)
				((uint8_t *)to->cache)[place] = (uint8_t)f8_bits(by > 0 ? v / by : 0);
		}
	}
}

struct rope_args {
	const int64_t *slots;
	const int32_t *positions;
	const uint64_t *row_tags;
	const float *cos, *sin, *q_norm, *k_norm;
	void *k, *v;
	float *k_scale, *v_scale;
	uint64_t *tags;
	int32_t n_rows, n_heads, n_kv_heads, dim;
	float eps;
};

template <class T, enum num KV> __global__ void rope_kernel(T *qkv, const struct rope_args a)
{
	int lane = threadIdx.x % WARP;
	int32_t heads = a.n_heads + 2 * a.n_kv_heads, half = a.dim / 2, turned = a.n_heads + a.n_kv_heads;
	int64_t item = (int64_t)blockIdx.x * (ROPE_THREADS / WARP) + threadIdx.x / WARP;
	if (item >= (int64_t)a.n_rows * heads)
		return;
	int32_t row = (int32_t)(item / heads), head = (int32_t)(item - (int64_t)row * heads);
	T *at = qkv + item * a.dim;
	float x[PAIRS][2];
	UNROLL
	for (int j = 0; j < PAIRS; j++) {
		int32_t i = lane + WARP * j;
		x[j][0] = i < half ? to_float(at[i]) : 0;
		x[j][1] = i < half ? to_float(at[i + half]) : 0;
	}
	const float *norm = head < a.n_heads ? a.q_norm : head < turned ? a.k_norm : NULL;
	if (norm) {
		float sum = 0;
		UNROLL
		for (int j = 0; j < PAIRS; j++)
			sum += x[j][0] * x[j][0] + x[j][1] * x[j][1];
		float by = 1 / sqrtf(warp_sum(sum) / a.dim + a.eps);
		UNROLL
		for (int j = 0; j < PAIRS; j++) {
			int32_t i = lane + WARP * j;
			x[j][0] *= i < half ? by * norm[i] : 0;
			x[j][1] *= i < half ? by * norm[i + half] : 0;
		}
	}
	if (head < turned) {
		int64_t angle = (int64_t)a.positions[row] * half;
		UNROLL
		for (int j = 0; j < PAIRS; j++) {
			int32_t i = lane + WARP * j;
			if (i >= half)
				continue;
			float c = a.cos[angle + i], s = a.sin[angle + i], p = x[j][0], q = x[j][1];
			x[j][0] = p * c - q * s;
			x[j][1] = q * c + p * s;
			from_float(&at[i], x[j][0]);
			from_float(&at[i + half], x[j][1]);
		}
	}
	int64_t slot = a.slots[row];
	if (head < a.n_heads || slot < 0)
		return;
	bool is_k = head < turned;
	int32_t kv_head = head - (is_k ? a.n_heads : turned);
	struct keeper to = {is_k ? a.k : a.v, is_k ? a.k_scale : a.v_scale, slot * a.n_kv_heads + kv_head};
	keep<KV>(&to, x, a.dim);
	if (a.tags && a.row_tags && is_k && kv_head == 0 && lane == 0)
		a.tags[slot] = a.row_tags[row];
}

template <class T> static int rope_as(cuda_stream st, void *qkv, const struct rope_args *a, enum num kv)
{
	int64_t items = (int64_t)a->n_rows * (a->n_heads + 2 * a->n_kv_heads);
	unsigned blocks = (unsigned)ceil_div(items, ROPE_THREADS / WARP);
	switch (kv) {
	case NUM_F32:
		return LAUNCH((rope_kernel<T, NUM_F32>), blocks, ROPE_THREADS, 0, st, (T *)qkv, *a);
	case NUM_BF16:
		return LAUNCH((rope_kernel<T, NUM_BF16>), blocks, ROPE_THREADS, 0, st, (T *)qkv, *a);
	case NUM_I8:
		return LAUNCH((rope_kernel<T, NUM_I8>), blocks, ROPE_THREADS, 0, st, (T *)qkv, *a);
	case NUM_F8:
		return LAUNCH((rope_kernel<T, NUM_F8>), blocks, ROPE_THREADS, 0, st, (T *)qkv, *a);
	default:
		return CUDA_REFUSED;
	}
}

int cuda_rope_kv(cuda_stream st, enum num act, void *qkv, const struct step_rows *r, const struct attention_shape *a,
		 const struct rope *rope_table, const float *q_norm, const float *k_norm, float eps, const struct kv_shape *s,
		 const struct kv_layer *kv)
{
	if (a->head_dim > MOST_DIM || a->head_dim % 2)
		return CUDA_REFUSED;
	if (r->n_rows < 1)
		return 0;
	struct rope_args args = {r->slots,       r->positions,  r->row_tags, rope_table->cos, rope_table->sin, q_norm,
				 k_norm,         kv->k,         kv->v,       kv->k_scale,     kv->v_scale,     kv->tags,
				 r->n_rows,      a->n_heads,    a->n_kv_heads, a->head_dim,   eps};
	return act == NUM_BF16 ? rope_as<bf16>(st, qkv, &args, s->type) : rope_as<float>(st, qkv, &args, s->type);
}
