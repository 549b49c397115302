/* matmul_kernels.cu: what cuBLAS does not do. The products with int8 weights are bound by reading them: each warp takes a few
 * outputs, reads their weights 16 bytes a lane, and uses each value of x for all of them. */
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/matmul_ops.h"

enum { PACK_THREADS = 256, WARPS = 4, OUTS = 4, CHUNK = 16 };

/* The largest over all threads of the block, the same in each. */
static __device__ inline float block_max(float x, float *room)
{
	int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
	x = warp_max(x);
	if (lane == 0)
		room[warp] = x;
	__syncthreads();
	float most = 0;
	for (int i = 0; i < (int)blockDim.x / WARP; i++)
		most = fmaxf(most, room[i]);
	__syncthreads();
	return most;
}

/* --- fewer bits ------------------------------------------------------------------------------------------------------- */

struct f16 {
	uint16_t bits;
};

static __device__ inline float to_float(f16 x)
{
	return f16_value(x.bits);
}

static __device__ inline uint8_t to_i8(float x)
{
	return (uint8_t)(int8_t)fmaxf(-127, fminf(127, rintf(x)));
}

/* One row a block. MOST: 127 (int8) or 448 (f8). */
template <class T, int MOST> __global__ void narrow_kernel(uint8_t *q, float *scale, const T *from, int32_t n)
{
	SHARED_ARRAY(float, room, PACK_THREADS / WARP);
	int64_t at = (int64_t)blockIdx.x * n;
	float most = 0;
	for (int32_t i = threadIdx.x; i < n; i += blockDim.x)
		most = fmaxf(most, fabsf(to_float(from[at + i])));
	float by = block_max(most, room) / MOST;
	for (int32_t i = threadIdx.x; i < n; i += blockDim.x) {
		float x = by > 0 ? to_float(from[at + i]) / by : 0;
		q[at + i] = MOST == 127 ? to_i8(x) : (uint8_t)f8_bits(x);
	}
	if (threadIdx.x == 0)
		scale[blockIdx.x] = by;
}

template <class T, class U> __global__ void convert_kernel(U *to, const T *from, int64_t n)
{
	for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += (int64_t)gridDim.x * blockDim.x)
		from_float(to + i, to_float(from[i]));
}

template <class T>
static int pack_from(cuda_stream st, enum num as, void *w, float *scale, const T *from, int32_t n_out, int32_t n_in)
{
	int64_t n = (int64_t)n_out * n_in;
	if (as == NUM_I8)
		return LAUNCH((narrow_kernel<T, 127>), n_out, PACK_THREADS, 0, st, (uint8_t *)w, scale, from, n_in);
	if (as == NUM_F8)
		return LAUNCH((narrow_kernel<T, 448>), n_out, PACK_THREADS, 0, st, (uint8_t *)w, scale, from, n_in);
	if (as == NUM_BF16)
		return LAUNCH((convert_kernel<T, bf16>), blocks_for(n, PACK_THREADS), PACK_THREADS, 0, st, (bf16 *)w,
			      from, n);
	if (as == NUM_F32)
		return LAUNCH((convert_kernel<T, float>), blocks_for(n, PACK_THREADS), PACK_THREADS, 0, st, (float *)w,
			      from, n);
	return CUDA_REFUSED;
}

int cuda_pack_rows(cuda_stream st, enum num as, void *w, float *scale, const void *from, enum num type, int32_t n_out,
		   int32_t n_in)
{
	if (n_out < 1 || n_in < 1)
		return 0;
	if (type == NUM_F32)
		return pack_from(st, as, w, scale, (const float *)from, n_out, n_in);
	if (type == NUM_BF16)
		return pack_from(st, as, w, scale, (const bf16 *)from, n_out, n_in);
	if (type == NUM_F16)
		return pack_from(st, as, w, scale, (const f16 *)from, n_out, n_in);
	return CUDA_REFUSED;
}

int cuda_rows_to_f8(cuda_stream st, void *q, float *scale, const void *x, int32_t rows, int32_t n_in)
{
	if (rows < 1)
		return 0;
	return LAUNCH((narrow_kernel<bf16, 448>), rows, PACK_THREADS, 0, st, (uint8_t *)q, scale, (const bf16 *)x,
		      n_in);
}

template <class Y>
__global__ void scale_kernel(Y *y, const float *row_scale, const float *out_scale, const float *bias, int32_t n_out)
{
	int64_t at = (int64_t)blockIdx.y * n_out;
	float by = row_scale[blockIdx.y];
	for (int32_t o = blockIdx.x * blockDim.x + threadIdx.x; o < n_out; o += gridDim.x * blockDim.x)
		from_float(y + at + o, to_float(y[at + o]) * by * out_scale[o] + (bias ? bias[o] : 0));
}

template <class Y>
static int scale_product(cuda_stream st, Y *y, const float *row_scale, const float *out_scale, const float *bias,
			 int32_t rows, int32_t n_out)
{
	/* The grid's second dimension ends at 65,535. */
	for (int32_t from = 0; from < rows; from += 32768) {
		int32_t n = rows - from < 32768 ? rows - from : 32768;
		dim3 grid((unsigned)ceil_div(n_out, 4 * PACK_THREADS), (unsigned)n);
		int status = LAUNCH((scale_kernel<Y>), grid, PACK_THREADS, 0, st, y + (int64_t)from * n_out,
				    row_scale + from, out_scale, bias, n_out);
		if (status)
			return status;
	}
	return 0;
}

int cuda_scale_product(cuda_stream st, enum num y_type, void *y, const float *row_scale, const float *out_scale,
		       const float *bias, int32_t rows, int32_t n_out)
{
	if (y_type == NUM_F32)
		return scale_product(st, (float *)y, row_scale, out_scale, bias, rows, n_out);
	return scale_product(st, (bf16 *)y, row_scale, out_scale, bias, rows, n_out);
}

/* --- int8 weights ----------------------------------------------------------------------------------------------------- */

template <int ROWS>
static __device__ inline void add_wide(float sum[OUTS][ROWS], const bf16 *x, const int8_t *const *w, int32_t n_in,
				       int lane)
{
	for (int32_t i = lane * CHUNK; i < n_in; i += WARP * CHUNK) {
		bytes16 packed[OUTS];
		UNROLL
		for (int o = 0; o < OUTS; o++)
			packed[o] = *(const bytes16 *)(w[o] + i);
		UNROLL
		for (int r = 0; r < ROWS; r++) {
			float v[CHUNK];
			vec<bf16>::read(v, x + (int64_t)r * n_in + i);
			vec<bf16>::read(v + 8, x + (int64_t)r * n_in + i + 8);
			UNROLL
			for (int o = 0; o < OUTS; o++)
				UNROLL
			for (int k = 0; k < CHUNK; k++)
				sum[o][r] += v[k] * i8_value(packed[o].w[k / 4] ^ 0x80808080u, k % 4);
		}
	}
}

template <int ROWS>
static __device__ inline void add_narrow(float sum[OUTS][ROWS], const bf16 *x, const int8_t *const *w, int32_t n_in,
					 int lane)
{
	for (int32_t i = lane; i < n_in; i += WARP)
		for (int r = 0; r < ROWS; r++)
			for (int o = 0; o < OUTS; o++)
				sum[o][r] += to_float(x[(int64_t)r * n_in + i]) * (float)w[o][i];
}

template <class Y, int ROWS>
__global__ void matvec_kernel(Y *y, const bf16 *x, const int8_t *w, const float *scale, const float *bias,
			      int32_t n_out, int32_t n_in, bool wide)
{
	int lane = threadIdx.x % WARP;
	int64_t first = ((int64_t)blockIdx.x * WARPS + threadIdx.x / WARP) * OUTS;
	const int8_t *row[OUTS];
	float sum[OUTS][ROWS];
	if (first >= n_out)
		return;
	UNROLL
	for (int o = 0; o < OUTS; o++) {
		row[o] = w + (first + o < n_out ? first + o : first) * n_in;
		UNROLL
		for (int r = 0; r < ROWS; r++)
			sum[o][r] = 0;
	}
	if (wide)
		add_wide<ROWS>(sum, x, row, n_in, lane);
	else
		add_narrow<ROWS>(sum, x, row, n_in, lane);
	UNROLL
	for (int o = 0; o < OUTS; o++)
		UNROLL
	for (int r = 0; r < ROWS; r++) {
		float all = warp_sum(sum[o][r]);
		if (lane == 0 && first + o < n_out)
			from_float(y + (int64_t)r * n_out + first + o,
				   all * scale[first + o] + (bias ? bias[first + o] : 0));
	}
}

template <class Y>
static int matvec(cuda_stream st, Y *y, const bf16 *x, int32_t rows, const int8_t *w, const float *scale,
		  const float *bias, int32_t n_out, int32_t n_in)
{
	unsigned grid = (unsigned)ceil_div(n_out, WARPS * OUTS), block = WARPS * WARP;
	bool wide = n_in % CHUNK == 0 && aligned16(x) && aligned16(w);
	for (int32_t from = 0; from < rows; from += MATVEC_ROWS) {
		Y *to = y + (int64_t)from * n_out;
		const bf16 *at = x + (int64_t)from * n_in;
		int status;
		switch (rows - from) {
		case 1:
			status = LAUNCH((matvec_kernel<Y, 1>), grid, block, 0, st, to, at, w, scale, bias, n_out, n_in,
					wide);
			break;
		case 2:
			status = LAUNCH((matvec_kernel<Y, 2>), grid, block, 0, st, to, at, w, scale, bias, n_out, n_in,
					wide);
			break;
		case 3:
			status = LAUNCH((matvec_kernel<Y, 3>), grid, block, 0, st, to, at, w, scale, bias, n_out, n_in,
					wide);
			break;
		default:
			status = LAUNCH((matvec_kernel<Y, MATVEC_ROWS>), grid, block, 0, st, to, at, w, scale, bias,
					n_out, n_in, wide);
		}
		if (status)
			return status;
	}
	return 0;
}

int cuda_matvec_i8(cuda_stream st, enum num y_type, void *y, const void *x, int32_t rows, const int8_t *w,
		   const float *scale, const float *bias, int32_t n_out, int32_t n_in)
{
	if (y_type == NUM_F32)
		return matvec(st, (float *)y, (const bf16 *)x, rows, w, scale, bias, n_out, n_in);
	return matvec(st, (bf16 *)y, (const bf16 *)x, rows, w, scale, bias, n_out, n_in);
}

/* 16 weights a thread where rows allow it. */
__global__ void widen_kernel(bf16 *out, const int8_t *w, const float *scale, int64_t n, int32_t n_in, bool wide)
{
	int64_t each = wide ? CHUNK : 1, stride = (int64_t)gridDim.x * blockDim.x * each;
	for (int64_t i = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) * each; i < n; i += stride) {
		float by = scale[i / n_in];
		if (!wide) {
			from_float(out + i, (float)w[i] * by);
			continue;
		}
		bytes16 packed = *(const bytes16 *)(w + i);
		float v[CHUNK];
		UNROLL
		for (int k = 0; k < CHUNK; k++)
			v[k] = i8_value(packed.w[k / 4] ^ 0x80808080u, k % 4) * by;
		vec<bf16>::write(out + i, v);
		vec<bf16>::write(out + i + 8, v + 8);
	}
}

int cuda_widen_i8(cuda_stream st, void *out, const int8_t *w, const float *scale, int32_t n_out, int32_t n_in)
{
	int64_t n = (int64_t)n_out * n_in;
	bool wide = n_in % CHUNK == 0 && aligned16(w) && aligned16(out);
	if (n < 1)
		return 0;
	return LAUNCH(widen_kernel, blocks_for(n / (wide ? CHUNK : 1), PACK_THREADS), PACK_THREADS, 0, st, (bf16 *)out,
		      w, scale, n, n_in, wide);
}
