/* matmul.h: products with weights held in our own packed layout, on the CPU: y[rows][n_out] = x[rows][n_in] W^T + bias.
 *
 * Our own kernels add up each output in the order of n_in, whatever the number of rows and threads: a row's result is
 * the same bit for bit alone and in a batch. oneDNN, where it is installed and faster for a shape, does not promise
 * that; it is left out with `library` false. */
#ifndef KERNELS_CPU_MATMUL_H
#define KERNELS_CPU_MATMUL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/cpu/isa_pick.h"
#include "kernels/ops.h"

struct pool;
struct matmul; /* what products of one set share: threads, scratch memory, which way was fastest */

/* The pool stays the caller's and must outlive it. -1 with a line in why[size]: out of memory. A library that cannot be
 * loaded is no error: matmul_library() is then NULL. */
int matmul_open(struct matmul **out, struct pool *pool, enum cpu_isa isa, bool library, char *why, size_t size);
void matmul_close(struct matmul *mm); /* NULL is fine; matrices may outlive it */
/* "oneDNN 2.6.3", or NULL when products are all ours. */
const char *matmul_library(const struct matmul *mm);

/* pack, unpack_free and matrix_bytes of kernels/ops.h. -1 with a line in why[size]: a shape or type that cannot be, or out
 * of memory. */
int matmul_pack(struct matmul *mm, struct matrix **out, const struct matrix_part *parts, int32_t n_parts, int32_t n_in,
		enum num as, char *why, size_t size);
void matmul_free(struct matrix *m); /* NULL is fine */
size_t matmul_bytes(const struct matrix *m);

/* y float [rows][n_out], x float [rows][n_in]. -1: out of memory for scratch. */
int matmul_run(struct matmul *mm, float *y, const float *x, int32_t rows, const struct matrix *m);

/* Measures, for steps of up to max_rows rows, whether ours or the library is faster for this matrix's shape and type; a
 * few milliseconds per shape, once. Not called: ours is used until the first product of a shape and size has measured. */
int matmul_tune(struct matmul *mm, const struct matrix *m, int32_t max_rows);
/* What was chosen, one line per shape and row count, into text[size]; returns the length it needs. */
size_t matmul_choices(const struct matmul *mm, char *text, size_t size);

#endif
