/* matmul.c (once per instruction set): tiles of up to TILE rows by four vectors of outputs, in registers. */
#include "kernels/cpu/isa.h"
#include "kernels/cpu/matmul_isa.h"

#include <stddef.h>

/* Four vectors a row: sixteen registers hold three rows and one vector of weights, thirty-two hold six. */
#if ISA_LANES == 16 || defined(__aarch64__)
#define TILE 6
#else
#define TILE 3
#endif
#define PANEL (4 * ISA_LANES)
#define INLINE static inline __attribute__((always_inline))

INLINE void load_line(vf w[4], const char *p, enum num type)
{
	if (type == NUM_BF16) {
		for (int i = 0; i < 2; i++) {
			vu u;
			memcpy(&u, p + i * (int)sizeof u, sizeof u);
			w[2 * i] = (vf)(u << 16);
			w[2 * i + 1] = (vf)(u & 0xffff0000u);
		}
	} else if (type == NUM_I8) {
		for (int i = 0; i < 4; i++)
			w[i] = vf_load_i8((const int8_t *)p + i * ISA_LANES);
	} else {
		for (int i = 0; i < 4; i++)
			w[i] = vf_load((const float *)(const void *)p + i * ISA_LANES);
	}
}

INLINE void tile(int rows, enum num type, float *acc, const float *x, int64_t ldx, const char *w, int32_t n_k,
		 bool first, const char *ahead)
{
	const ptrdiff_t line = PANEL * (type == NUM_F32 ? 4 : type == NUM_BF16 ? 2 : 1);
	vf a[TILE][4];
	for (int r = 0; r < rows; r++)
		for (int i = 0; i < 4; i++)
			a[r][i] = first ? (vf){0} : vf_load(acc + r * PANEL + i * ISA_LANES);
	for (int32_t k = 0; k < n_k; k++) {
		vf v[4];
		load_line(v, w, type);
		for (ptrdiff_t at = 0; at < line; at += 64)
			__builtin_prefetch(ahead + at);
		for (int r = 0; r < rows; r++)
			for (int i = 0; i < 4; i++)
				a[r][i] += x[r * ldx + k] * v[i];
		w += line;
		ahead += line;
	}
	for (int r = 0; r < rows; r++)
		for (int i = 0; i < 4; i++)
			vf_store(acc + r * PANEL + i * ISA_LANES, a[r][i]);
}

INLINE void widen(enum num type, float *to, const char *w, int32_t n_k)
{
	const ptrdiff_t line = PANEL * (type == NUM_BF16 ? 2 : 1);
	for (int32_t k = 0; k < n_k; k++) {
		vf v[4];
		load_line(v, w + k * line, type);
		for (int i = 0; i < 4; i++)
			vf_store(to + k * PANEL + i * ISA_LANES, v[i]);
	}
}

static void finish(float *y, int64_t ldy, const float *acc, int32_t rows, int32_t n, const float *scale,
		   const float *bias)
{
	for (int32_t r = 0; r < rows; r++)
		for (int32_t i = 0; i < n; i++) {
			float v = acc[r * PANEL + i];
			if (scale)
				v *= scale[i];
			y[r * ldy + i] = bias ? v + bias[i] : v;
		}
}

#define TILE_FN(rows, type)                                                                                            \
	static void tile_##rows##_##type(float *acc, const float *x, int64_t ldx, const void *w, int32_t n_k,          \
					 bool first, const char *ahead)                                                \
	{                                                                                                              \
		tile(rows, type, acc, x, ldx, w, n_k, first, ahead);                                                   \
	}
#define TILE_FNS_3(type)                                                                                               \
	TILE_FN(1, type)                                                                                               \
	TILE_FN(2, type)                                                                                               \
	TILE_FN(3, type)
#if TILE == 6
#define TILE_FNS(type)                                                                                                 \
	TILE_FNS_3(type)                                                                                               \
	TILE_FN(4, type)                                                                                               \
	TILE_FN(5, type)                                                                                               \
	TILE_FN(6, type)
#define TILES(type)                                                                                                    \
	{                                                                                                              \
		tile_1_##type, tile_2_##type, tile_3_##type, tile_4_##type, tile_5_##type, tile_6_##type               \
	}
#else
#define TILE_FNS(type) TILE_FNS_3(type)
#define TILES(type)                                                                                                    \
	{                                                                                                              \
		tile_1_##type, tile_2_##type, tile_3_##type                                                            \
	}
#endif

TILE_FNS(NUM_F32)
TILE_FNS(NUM_BF16)
TILE_FNS(NUM_I8)

static void widen_bf16(float *to, const void *w, int32_t n_k)
{
	widen(NUM_BF16, to, w, n_k);
}

static void widen_i8(float *to, const void *w, int32_t n_k)
{
	widen(NUM_I8, to, w, n_k);
}

extern const struct matmul_isa ISA_NAME(matmul_isa);
const struct matmul_isa ISA_NAME(matmul_isa) = {
	.lanes = ISA_LANES,
	.panel = PANEL,
	.tile_rows = TILE,
	.tile = {[NUM_F32] = TILES(NUM_F32), [NUM_BF16] = TILES(NUM_BF16), [NUM_I8] = TILES(NUM_I8)},
	.widen = {[NUM_BF16] = widen_bf16, [NUM_I8] = widen_i8},
	.finish = finish,
};
