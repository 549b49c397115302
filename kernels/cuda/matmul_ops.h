/* matmul_ops.h: the kernels around matrix products (matmul_kernels.cu): weights and activations into fewer bits and back, and
 * products with few rows of matrices in int8. As in ops_cuda.h: they only start work, and return a cudaError_t. */
#ifndef KERNELS_CUDA_MATMUL_OPS_H
#define KERNELS_CUDA_MATMUL_OPS_H

#include "kernels/cuda/ops_cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

/* w[n_out][n_in] in type `as` (f32, bf16, int8, f8) from `from` (f32, bf16, f16). int8 and f8: scale[n_out] = max |w| of
 * the row / 127 or 448, and w holds what is left. */
int cuda_pack_rows(cuda_stream st, enum num as, void *w, float *scale, const void *from, enum num type, int32_t n_out,
		   int32_t n_in);
/* out[n_out][n_in] bf16 = w * scale. */
int cuda_widen_i8(cuda_stream st, void *out, const int8_t *w, const float *scale, int32_t n_out, int32_t n_in);

/* y[rows][n_out] = x[rows][n_in] W^T * scale + bias; x bf16, y of type y_type (bf16, f32), bias [n_out] or NULL. Reads W
 * once for every MATVEC_ROWS rows. */
enum { MATVEC_ROWS = 4 };
int cuda_matvec_i8(cuda_stream st, enum num y_type, void *y, const void *x, int32_t rows, const int8_t *w,
		   const float *scale, const float *bias, int32_t n_out, int32_t n_in);

/* q[rows][n_in] f8 and scale[rows] from x[rows][n_in] bf16: x = q * scale, scale = max |x| of the row / 448. */
int cuda_rows_to_f8(cuda_stream st, void *q, float *scale, const void *x, int32_t rows, int32_t n_in);
/* y[rows][n_out] = y * row_scale[row] * out_scale[out] + bias[out], in place; bias may be NULL. */
int cuda_scale_product(cuda_stream st, enum num y_type, void *y, const float *row_scale, const float *out_scale,
		       const float *bias, int32_t rows, int32_t n_out);

#ifdef __cplusplus
}
#endif
#endif
