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

#define LINE_BYTES(kind) (PANEL * ((kind) == LINE_F32 ? 4 : (kind) == LINE_BF16 ? 2 : 1))

/* Bytes of a word (held as w + 128) as w, the upper two as w * 2^24. The lower two are laid into the fraction of a float
 * whose last bit is worth 1 (2^23) or whose ninth last is (2^15), and what that adds is taken off again: this needs other
 * units of the processor than conversion does, so that both work side by side. */
INLINE void split_bytes(vf w[4], vu v)
{
	w[0] = (vf)((v & 0xff) | 0x4b000000u) - (0x1p23f + 128);
	w[1] = (vf)((v & 0xff00) | 0x47000000u) - (0x1p15f + 128);
	v ^= 0x80808080u;
	w[2] = __builtin_convertvector((vi)((v << 8) & 0xff000000u), vf);
	w[3] = __builtin_convertvector((vi)(v & 0xff000000u), vf);
}

/* Four vectors of weights, each times unit(kind, i). */
INLINE void load_line(vf w[4], const char *p, enum line_kind kind)
{
	vu u;
	if (kind == LINE_F32) {
		for (int i = 0; i < 4; i++)
			w[i] = vf_load((const float *)(const void *)p + i * ISA_LANES);
	} else if (kind == LINE_BF16) {
		for (int i = 0; i < 2; i++) {
			memcpy(&u, p + i * (int)sizeof u, sizeof u);
			w[2 * i] = (vf)(u << 16);
			w[2 * i + 1] = (vf)(u & 0xffff0000u);
		}
	} else if (kind == LINE_I8) {
		memcpy(&u, p, sizeof u);
		split_bytes(w, u);
	} else {
		memcpy(&u, p, sizeof u);
		w[0] = (vf)(u & 0xff);
		w[1] = (vf)(u & 0xff00);
		w[2] = (vf)(u & 0xff0000);
		w[3] = (vf)(u >> 24);
	}
}

/* What load_line's vectors have to be divided by; for subnormals, x's factor included. Powers of two. */
INLINE float unit(enum line_kind kind, int i)
{
	if (kind == LINE_I8)
		return i < 2 ? 1 : 0x1p24f;
	if (kind == LINE_I8_SUBNORMAL)
		return i == 1 ? 0x1p-41f : i == 2 ? 0x1p-33f : 0x1p-49f;
	return 1;
}

INLINE void tile(int rows, enum line_kind kind, float *acc, const float *x, int64_t ldx, const char *w, int32_t n_k,
		 bool first, const char *ahead, int32_t ahead_step, float *keep)
{
	vf a[TILE][4];
	for (int r = 0; r < rows; r++)
		for (int i = 0; i < 4; i++)
			a[r][i] = first ? (vf){0} : vf_load(acc + r * PANEL + i * ISA_LANES) * unit(kind, i);
	for (int32_t k = 0; k < n_k; k++) {
		vf v[4];
		load_line(v, w, kind);
		for (int at = 0; at < LINE_BYTES(kind); at += 64)
			__builtin_prefetch(ahead + at);
		for (int i = 0; keep && i < 4; i++)
			vf_store(keep + k * PANEL + i * ISA_LANES, v[i]);
		for (int r = 0; r < rows; r++)
			for (int i = 0; i < 4; i++)
				a[r][i] += x[r * ldx + k] * v[i];
		w += LINE_BYTES(kind);
		ahead += ahead_step;
	}
	for (int r = 0; r < rows; r++)
		for (int i = 0; i < 4; i++)
			vf_store(acc + r * PANEL + i * ISA_LANES, a[r][i] * (1 / unit(kind, i)));
}

INLINE void widen(enum line_kind kind, float *to, int64_t ld, const char *w, int32_t n_k, float add)
{
	for (int32_t k = 0; k < n_k; k++) {
		vf v[4];
		load_line(v, w + k * LINE_BYTES(kind), kind);
		for (int i = 0; i < 4; i++)
			vf_store(to + k * ld + i * ISA_LANES, v[i] * (1 / unit(kind, i)) + add);
	}
}

static void widen_f32(float *to, int64_t ld, const void *w, int32_t n_k)
{
	for (int32_t k = 0; k < n_k; k++)
		memcpy(to + k * ld, (const float *)w + k * PANEL, PANEL * sizeof *to);
}

static void widen_bf16(float *to, int64_t ld, const void *w, int32_t n_k)
{
	widen(LINE_BF16, to, ld, w, n_k, -0.0f);
}

static void widen_i8(float *to, int64_t ld, const void *w, int32_t n_k)
{
	widen(LINE_I8, to, ld, w, n_k, 0);
}

static void widen_i8_subnormal(float *to, int64_t ld, const void *w, int32_t n_k)
{
	widen(LINE_I8, to, ld, w, n_k, 128);
}

static void finish(float *y, int64_t ldy, const float *acc, int64_t lda, int32_t rows, int32_t n, const double *offset,
		   const float *scale, const float *bias)
{
	for (int32_t r = 0; r < rows; r++)
		for (int32_t i = 0; i < n; i++) {
			float v = acc[r * lda + i];
			if (offset)
				v = (float)(v - offset[r]);
			if (scale)
				v *= scale[i];
			y[r * ldy + i] = bias ? v + bias[i] : v;
		}
}

#define TILE_FN(rows, kind)                                                                                            \
	static void tile_##rows##_##kind(float *acc, const float *x, int64_t ldx, const void *w, int32_t n_k,          \
					 bool first, const char *ahead, int32_t ahead_step)                            \
	{                                                                                                              \
		tile(rows, kind, acc, x, ldx, w, n_k, first, ahead, ahead_step, NULL);                                 \
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

static void keep_bf16(float *acc, const float *x, int64_t ldx, const void *w, int32_t n_k, bool first,
		      const char *ahead, int32_t ahead_step, float *keep)
{
	tile(TILE, LINE_BF16, acc, x, ldx, w, n_k, first, ahead, ahead_step, keep);
}

TILE_FNS(LINE_F32)
TILE_FNS(LINE_BF16)
TILE_FNS(LINE_I8)
TILE_FNS(LINE_I8_SUBNORMAL)

extern const struct matmul_isa ISA_NAME(matmul_isa);
const struct matmul_isa ISA_NAME(matmul_isa) = {
	.lanes = ISA_LANES,
	.panel = PANEL,
	.tile_rows = TILE,
	.tile = {TILES(LINE_F32), TILES(LINE_BF16), TILES(LINE_I8), TILES(LINE_I8_SUBNORMAL)},
	.keep_bf16 = keep_bf16,
	.widen = {widen_f32, widen_bf16, widen_i8, widen_i8_subnormal},
	.finish = finish,
};
