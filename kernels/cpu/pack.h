/* pack.h: weights in the layout of kernels/cpu/matmul_isa.h. */
#ifndef KERNELS_CPU_PACK_H
#define KERNELS_CPU_PACK_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/cpu/matmul_isa.h"
#include "kernels/ops.h"

struct pool;

struct matrix {
	enum num type; /* f32, bf16 or int8 */
	int32_t n_out, n_in;
	int32_t panel, n_panels; /* outputs per panel; the last one is filled up with zeros */
	size_t panel_bytes; /* of weights, n_in lines */
	char *w; /* [n_panels][n_in][line], on pages of 2 MiB where it fills some */
	float *scale; /* [n_panels * panel] int8 only, else NULL */
	float *bias; /* [n_panels * panel]; NULL when no part has one */
};

/* -1: out of memory. The shapes have been checked. */
int pack_matrix(struct matrix **out, const struct matrix_part *parts, int32_t n_parts, int32_t n_in, enum num as,
		int32_t panel, struct pool *pool);
void pack_free(struct matrix *m);

#endif
