/* matmul_impl.h: what the parts of matrix products share. */
#ifndef KERNELS_CPU_MATMUL_IMPL_H
#define KERNELS_CPU_MATMUL_IMPL_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/cpu/dnnl_api.h"
#include "kernels/cpu/matmul.h"
#include "kernels/cpu/matmul_isa.h"
#include "kernels/cpu/pack.h"
#include "kernels/cpu/pool.h"

enum { MATMUL_ROW_BLOCK = 256, MATMUL_MAX_PANEL = 64, MATMUL_MAX_BLOCK = 32 << 10 };

/* One thread's. */
struct matmul_scratch {
	_Alignas(64) float acc[MATMUL_ROW_BLOCK * MATMUL_MAX_PANEL];
	float w[MATMUL_MAX_BLOCK / 4]; /* a block of weights, widened */
};

/* Which way is faster for products like this one; measured once. */
struct matmul_choice {
	enum num type;
	int32_t n_in, n_out; /* of what was measured: a part of the product */
	int32_t rows; /* a power of two; the choice serves up to twice as many, less one */
	double ours_s, library_s;
	bool use_library;
};

struct matmul {
	const struct matmul_isa *isa;
	struct pool *pool;
	struct matmul_scratch *scratch; /* [threads] */
	int32_t block_bytes; /* of weights, at most MATMUL_MAX_BLOCK */

	/* int8 weights are used as LINE_I8_SUBNORMAL. For those: what is to be taken off each row's sums, and x times its
	 * factor. */
	bool subnormal;
	double *offset;
	float *scaled;
	size_t max_offset, max_scaled;

	bool has_library;
	struct dnnl_api library;
	float *strips; /* weights as f32 for the library, a strip for each thread */
	size_t max_strips;
	struct matmul_choice *choices;
	int32_t n_choices, max_choices;
};

/* The ways; both -1 when out of memory. matmul_ours wants rows >= 1. */
int matmul_ours(struct matmul *mm, float *y, const float *x, int32_t rows, const struct matrix *m);
int matmul_by_library(struct matmul *mm, float *y, const float *x, int32_t rows, const struct matrix *m);

/* The line kind that weights of a type are used as on this thread now. */
enum line_kind matmul_line_kind(const struct matmul *mm, enum num type);
/* Sets what depends on the machine: block_bytes, subnormal. */
void matmul_fit_machine(struct matmul *mm);

/* At least n elements; what they held is lost. False: out of memory, *max is 0. */
bool matmul_grow(void *array, size_t *max, size_t n, size_t element);
double matmul_seconds(void);

#endif
