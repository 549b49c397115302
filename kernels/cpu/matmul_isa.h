/* matmul_isa.h: what a product is made of, once per instruction set (kernels/cpu/isa/matmul.c).
 *
 * Weights lie in panels of `panel` = 4 vectors of outputs: [panel][k][output of the panel], so that a vector holds outputs
 * and each of them is added up in the order of k. One k of a panel is a "line" of the panel:
 *   f32   panel floats
 *   bf16  panel / 2 words of 32 bits: the two weights of a word belong to neighbouring vectors, the lower half to the
 *         even one. Widening is a shift for one and a mask for the other.
 *   int8  panel / 4 words: byte i of a word belongs to vector i. Held as w + 128.
 *
 * Bytes can be turned into floats in two ways, each with its own rounding:
 *   LINE_I8            by conversion: the sums are those of x w.
 *   LINE_I8_SUBNORMAL  not at all: a word with all but one byte masked off *is* a float, a subnormal one, of byte * 2^-149
 *                      (or a power of 256 times that). With x times 2^100 beforehand the products are ordinary numbers
 *                      again, and every step is exact but for the additions. The sums are those of x (w + 128): 128 times
 *                      the sum of x is taken off at the end. Where the machine multiplies subnormals at full speed (AMD)
 *                      this doubles the weights read per second; where it does not, it is useless. */
#ifndef KERNELS_CPU_MATMUL_ISA_H
#define KERNELS_CPU_MATMUL_ISA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/cpu/isa_pick.h"
#include "kernels/ops.h"

#define MATMUL_MAX_TILE 6

enum line_kind { LINE_F32, LINE_BF16, LINE_I8, LINE_I8_SUBNORMAL, N_LINE_KINDS };

/* x for lines of kind LINE_I8_SUBNORMAL is multiplied by this; |x| < 2^28 then stays finite. */
#define MATMUL_SUBNORMAL_SCALE 0x1p100f

/* acc[rows][panel] = (first ? 0 : acc) + x[rows][n_k] W, for one panel's lines w[n_k]; x has ldx floats a row. Each k also
 * prefetches a line at `ahead`, which then moves on by ahead_step bytes. */
typedef void (*matmul_tile_fn)(float *acc, const float *x, int64_t ldx, const void *w, int32_t n_k, bool first,
			       const char *ahead, int32_t ahead_step);

struct matmul_isa {
	int32_t lanes, panel; /* panel = 4 lanes */
	int32_t tile_rows; /* rows of the largest tile, <= MATMUL_MAX_TILE */
	matmul_tile_fn tile[N_LINE_KINDS][MATMUL_MAX_TILE]; /* [..][rows - 1] */
	/* tile[LINE_BF16] of tile_rows rows that also does what widen does, to keep[n_k][panel]. */
	void (*keep_bf16)(float *acc, const float *x, int64_t ldx, const void *w, int32_t n_k, bool first,
			  const char *ahead, int32_t ahead_step, float *keep);
	/* to[n_k][panel] = the lines as f32, int8 without its scale; subnormal: w + 128, for x as it is. Lines of `to` are
	 * ld floats apart. */
	void (*widen[N_LINE_KINDS])(float *to, int64_t ld, const void *w, int32_t n_k);
	/* y[rows][n] = (acc[rows][n] - offset[rows]) * scale + bias, rows ldy and lda floats apart; y may be acc. Each of
	 * offset, scale (int8) and bias may be NULL. */
	void (*finish)(float *y, int64_t ldy, const float *acc, int64_t lda, int32_t rows, int32_t n,
		       const double *offset, const float *scale, const float *bias);
};

extern const struct matmul_isa matmul_isa_base, matmul_isa_avx2, matmul_isa_avx512;
/* NULL where the program does not hold it. */
extern const struct matmul_isa *const matmul_isas[N_CPU_ISAS];

/* matmul_open with kernels that are no instruction set's, and whether int8 weights are used as subnormals whatever is
 * faster: for tests. */
struct matmul;
struct pool;
int matmul_open_isa(struct matmul **out, struct pool *pool, const struct matmul_isa *isa, bool library, char *why,
		    size_t size);
void matmul_use_subnormals(struct matmul *mm, bool use);

/* Bytes of one line. */
static inline int32_t matmul_line_bytes(int32_t panel, enum num t)
{
	return panel * (t == NUM_F32 ? 4 : t == NUM_BF16 ? 2 : 1);
}

#endif
