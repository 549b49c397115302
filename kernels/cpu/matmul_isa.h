/* matmul_isa.h: what a product is made of, once per instruction set (kernels/cpu/isa/matmul.c).
 *
 * Weights lie in panels of `panel` = 4 vectors of outputs: [panel][k][output of the panel], so that a vector holds outputs
 * and each of them is added up in the order of k. One k of a panel is a "line" of the panel:
 *   f32   panel floats
 *   bf16  panel / 2 words of 32 bits: the two weights of a word belong to neighbouring vectors, the lower half to the
 *         even one. Widening is a shift for one and a mask for the other.
 *   int8  panel bytes */
#ifndef KERNELS_CPU_MATMUL_ISA_H
#define KERNELS_CPU_MATMUL_ISA_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/cpu/isa_pick.h"
#include "kernels/ops.h"

#define MATMUL_MAX_TILE 6

/* acc[rows][panel] = (first ? 0 : acc) + x[rows][n_k] W, for one panel's lines w[n_k]; x has ldx floats a row. Each k also
 * prefetches a line at `ahead`, which moves on by a line of its type: pass w to prefetch nothing new. */
typedef void (*matmul_tile_fn)(float *acc, const float *x, int64_t ldx, const void *w, int32_t n_k, bool first,
			       const char *ahead);

struct matmul_isa {
	int32_t lanes, panel; /* panel = 4 lanes */
	int32_t tile_rows; /* rows of the largest tile, <= MATMUL_MAX_TILE */
	matmul_tile_fn tile[NUM_I8 + 1][MATMUL_MAX_TILE]; /* [type of the weights][rows - 1]; NULL for f16 */
	/* to[n_k][panel] = the lines as f32, int8 without its scale. */
	void (*widen[NUM_I8 + 1])(float *to, const void *w, int32_t n_k);
	/* y[rows][n] = acc[rows][panel] * scale + bias, n <= panel outputs of a panel; scale (int8) and bias may be NULL. */
	void (*finish)(float *y, int64_t ldy, const float *acc, int32_t rows, int32_t n, const float *scale,
		       const float *bias);
};

extern const struct matmul_isa matmul_isa_base, matmul_isa_avx2, matmul_isa_avx512;
/* NULL where the program does not hold it. */
extern const struct matmul_isa *const matmul_isas[N_CPU_ISAS];

/* Bytes of one line. */
static inline int32_t matmul_line_bytes(int32_t panel, enum num t)
{
	return panel * (t == NUM_F32 ? 4 : t == NUM_BF16 ? 2 : 1);
}

#endif
