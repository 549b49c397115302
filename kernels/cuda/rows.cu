/* rows.cu: what treats rows one by one: embedding, norms, gate, gathering. All of it is bound by memory: each byte is read
 * once and written once, 16 at a time where rows are multiples of that. */
#include "kernels/cuda/launch.cuh"

enum { ROW_THREADS = 256, FLAT_THREADS = 256 };

/* A row is taken in pieces of PER values; PER is 1 where 16 bytes at a time are not possible. */
template <class T, bool WIDE> struct piece {
	enum { PER = WIDE ? (int)vec<T>::PER : 1 };
	static __device__ inline void read(float *x, const T *from)
	{
		if constexpr (WIDE)
			vec<T>::read(x, from);
		else
			x[0] = to_float(*from);
	}
	static __device__ inline void write(T *to, const float *x)
	{
		if constexpr (WIDE)
			vec<T>::write(to, x);
		else
			from_float(to, x[0]);
	}
};

/* --- norms ------------------------------------------------------------------------------------------------------------ */

/* One row a block. With delta, x becomes x + delta first, rounded as it is kept. What a thread wrote it reads again itself:
 * from L1, as a row is at most a few tens of KiB. */
template <class T, bool WIDE>
__global__ void norm_kernel(T *y, T *x, const T *delta, const float *w, int32_t dim, float eps)
{
	typedef piece<T, WIDE> p;
	SHARED_ARRAY(float, room, ROW_THREADS / WARP);
	int64_t at = (int64_t)blockIdx.x * dim;
	float sum = 0;
	for (int32_t i = threadIdx.x * p::PER; i < dim; i += blockDim.x * p::PER) {
		float v[p::PER], d[p::PER];
		p::read(v, x + at + i);
		if (delta) {
			p::read(d, delta + at + i);
			UNROLL
			for (int j = 0; j < p::PER; j++)
				v[j] += d[j];
			p::write(x + at + i, v);
			p::read(v, x + at + i);
		}
		UNROLL
		for (int j = 0; j < p::PER; j++)
			sum += v[j] * v[j];
	}
	float by = 1 / sqrtf(block_sum(sum, room) / dim + eps);
	for (int32_t i = threadIdx.x * p::PER; i < dim; i += blockDim.x * p::PER) {
		float v[p::PER];
		p::read(v, x + at + i);
		UNROLL
		for (int j = 0; j < p::PER; j++)
			v[j] *= by * w[i + j];
		p::write(y + at + i, v);
	}
}

template <class T, bool WIDE>
static int norm_as(cuda_stream st, void *y, void *x, const void *delta, const float *w, int32_t rows, int32_t dim,
		   float eps)
{
	int32_t pieces = (dim + piece<T, WIDE>::PER - 1) / piece<T, WIDE>::PER;
	int threads = pieces >= ROW_THREADS ? (int)ROW_THREADS : (pieces + WARP - 1) / WARP * WARP;
	return LAUNCH((norm_kernel<T, WIDE>), (unsigned)rows, threads, 0, st, (T *)y, (T *)x, (const T *)delta, w, dim, eps);
}

template <class T>
static int norm(cuda_stream st, void *y, void *x, const void *delta, const float *w, int32_t rows, int32_t dim, float eps)
{
	bool wide = dim % vec<T>::PER == 0 && aligned16(y) && aligned16(x) && aligned16(delta);
	return wide ? norm_as<T, true>(st, y, x, delta, w, rows, dim, eps)
		    : norm_as<T, false>(st, y, x, delta, w, rows, dim, eps);
}

int cuda_add_rms_norm(cuda_stream st, enum num act, void *y, void *x, const void *delta, const float *w, int32_t rows,
		      int32_t dim, float eps)
{
	if (rows < 1)
		return 0;
	return act == NUM_BF16 ? norm<bf16>(st, y, x, delta, w, rows, dim, eps)
			       : norm<float>(st, y, x, delta, w, rows, dim, eps);
}

int cuda_rms_norm(cuda_stream st, enum num act, void *y, const void *x, const float *w, int32_t rows, int32_t dim,
		  float eps)
{
	return cuda_add_rms_norm(st, act, y, (void *)x, NULL, w, rows, dim, eps);
}

/* --- gate ------------------------------------------------------------------------------------------------------------- */

template <class T, bool WIDE> __global__ void silu_kernel(T *y, const T *gu, int64_t pieces, int32_t per_row)
{
	typedef piece<T, WIDE> p;
	int64_t step = (int64_t)gridDim.x * blockDim.x;
	for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < pieces; i += step) {
		int64_t row = i / per_row, at = (i - row * per_row) * p::PER;
		int64_t width = (int64_t)per_row * p::PER;
		const T *from = gu + row * 2 * width + at;
		float g[p::PER], u[p::PER];
		p::read(g, from);
		p::read(u, from + width);
		UNROLL
		for (int j = 0; j < p::PER; j++)
			g[j] = g[j] / (1 + expf(-g[j])) * u[j];
		p::write(y + row * width + at, g);
	}
}

template <class T, bool WIDE>
static int silu_as(cuda_stream st, void *y, const void *gu, int32_t rows, int32_t width)
{
	int32_t per_row = width / piece<T, WIDE>::PER;
	int64_t pieces = (int64_t)rows * per_row;
	return LAUNCH((silu_kernel<T, WIDE>), blocks_for(pieces, FLAT_THREADS), FLAT_THREADS, 0, st, (T *)y, (const T *)gu,
		      pieces, per_row);
}

template <class T> static int silu(cuda_stream st, void *y, const void *gu, int32_t rows, int32_t width)
{
	bool wide = width % vec<T>::PER == 0 && aligned16(y) && aligned16(gu);
	return wide ? silu_as<T, true>(st, y, gu, rows, width) : silu_as<T, false>(st, y, gu, rows, width);
}

int cuda_silu_mul(cuda_stream st, enum num act, void *y, const void *gu, int32_t rows, int32_t width)
{
	if (rows < 1 || width < 1)
		return 0;
	return act == NUM_BF16 ? silu<bf16>(st, y, gu, rows, width) : silu<float>(st, y, gu, rows, width);
}

/* --- embedding, gathering --------------------------------------------------------------------------------------------- */

/* Rows of `words` words each, one row a block's x at a time: nothing is converted. */
template <class W>
__global__ void take_rows_kernel(W *y, const W *x, const int32_t *index, int32_t n, int32_t words)
{
	for (int32_t i = blockIdx.x; i < n; i += gridDim.x) {
		const W *from = x + (int64_t)index[i] * words;
		W *to = y + (int64_t)i * words;
		for (int32_t j = threadIdx.x; j < words; j += blockDim.x)
			to[j] = from[j];
	}
}

template <class W>
static int take_rows_as(cuda_stream st, void *y, const void *x, const int32_t *index, int32_t n, int64_t row_bytes)
{
	int32_t words = (int32_t)(row_bytes / (int64_t)sizeof(W));
	int threads = words < ROW_THREADS ? (words + WARP - 1) / WARP * WARP : (int)ROW_THREADS;
	return LAUNCH(take_rows_kernel<W>, blocks_for(n, 1), threads, 0, st, (W *)y, (const W *)x, index, n, words);
}

static int take_rows(cuda_stream st, void *y, const void *x, const int32_t *index, int32_t n, int64_t row_bytes)
{
	if (row_bytes % 16 == 0 && aligned16(y) && aligned16(x))
		return take_rows_as<bytes16>(st, y, x, index, n, row_bytes);
	return row_bytes % 4 == 0 ? take_rows_as<uint32_t>(st, y, x, index, n, row_bytes)
				  : take_rows_as<uint16_t>(st, y, x, index, n, row_bytes);
}

int cuda_gather(cuda_stream st, enum num act, void *y, const void *x, const int32_t *index, int32_t n, int32_t dim)
{
	if (n < 1 || dim < 1)
		return 0;
	return take_rows(st, y, x, index, n, (int64_t)dim * num_bytes(act));
}

template <enum num T> static __device__ inline float table_value(const void *table, int64_t i)
{
	if (T == NUM_F32)
		return ((const float *)table)[i];
	return T == NUM_BF16 ? to_float(((const bf16 *)table)[i]) : f16_value(((const uint16_t *)table)[i]);
}

template <class T, enum num TABLE>
__global__ void embed_kernel(T *y, const void *table, const int32_t *ids, int32_t rows, int32_t dim)
{
	for (int32_t row = blockIdx.x; row < rows; row += gridDim.x)
		for (int32_t i = threadIdx.x; i < dim; i += blockDim.x)
			from_float(&y[(int64_t)row * dim + i], table_value<TABLE>(table, (int64_t)ids[row] * dim + i));
}

template <class T>
static int embed(cuda_stream st, void *y, const void *table, enum num t, const int32_t *ids, int32_t rows, int32_t dim)
{
	unsigned blocks = blocks_for(rows, 1);
	if (t == NUM_F32)
		return LAUNCH((embed_kernel<T, NUM_F32>), blocks, ROW_THREADS, 0, st, (T *)y, table, ids, rows, dim);
	if (t == NUM_BF16)
		return LAUNCH((embed_kernel<T, NUM_BF16>), blocks, ROW_THREADS, 0, st, (T *)y, table, ids, rows, dim);
	return LAUNCH((embed_kernel<T, NUM_F16>), blocks, ROW_THREADS, 0, st, (T *)y, table, ids, rows, dim);
}

int cuda_embed(cuda_stream st, enum num act, void *y, const void *table, enum num t, const int32_t *ids, int32_t rows,
	       int32_t dim)
{
	if (t != NUM_F32 && t != NUM_BF16 && t != NUM_F16)
		return CUDA_REFUSED;
	if (rows < 1 || dim < 1)
		return 0;
	if (t == act)
		return take_rows(st, y, table, ids, rows, (int64_t)dim * num_bytes(act));
	return act == NUM_BF16 ? embed<bf16>(st, y, table, t, ids, rows, dim)
			       : embed<float>(st, y, table, t, ids, rows, dim);
}
