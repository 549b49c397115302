/* blas.h: matrix products by cuBLASLt, which is loaded when the set is opened. What it says of a shape (descriptors, the
 * algorithm by its heuristic) is kept, since asking takes longer than a small product. */
#ifndef KERNELS_CUDA_BLAS_H
#define KERNELS_CUDA_BLAS_H

#include <cuda_runtime_api.h>

#include "kernels/ops.h"

struct blas;

/* y[rows][n_out] = x[rows][n_in] w[n_out][n_in]^T (+ bias[n_out], of y's type), sums in f32, row-major. x and w are both of
 * type `in` (f32, bf16, f8), y of type `out` (f32, bf16; for f32 in f32). f8: n_in and n_out are multiples of 16. */
struct product {
	enum num in, out;
	int32_t rows, n_out, n_in;
	bool biased;
	int32_t apart; /* values from one row of y to the next: n_out, or more */
};

/* what: gets "cuBLASLt 13.1". -1 with a line in why. */
int blas_open(struct blas **out, char *what, size_t what_size, char *why, size_t size);
void blas_close(struct blas *b); /* NULL is fine */
/* 0, or -1 with why in *why (static text or the library's). */
int blas_run(struct blas *b, cudaStream_t st, const struct product *p, void *y, const void *x, const void *w,
	     const void *bias, const char **why);
/* How many shapes are kept, for tests. */
int32_t blas_kept(const struct blas *b);

#endif
