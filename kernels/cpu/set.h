/* set.h: what the files of the CPU's set share. */
#ifndef KERNELS_CPU_SET_H
#define KERNELS_CPU_SET_H

#include "kernels/cpu/attention.h"
#include "kernels/cpu/isa_pick.h"
#include "kernels/cpu/matmul.h"
#include "kernels/cpu/pool.h"
#include "kernels/cpu/row_isa.h"
#include "kernels/ops.h"

struct cpu_set {
	struct kernel_set base; /* first: a kernel_set * is one of these */
	enum cpu_isa isa;
	struct pool *pool;
	struct matmul *matmul;
	const struct row_isa *row;
	struct attention attention;
	char error[256];
	enum part part; /* that time since part_since_ns belongs to; N_PARTS: to none */
	int64_t part_since_ns;
	int64_t part_ns[N_PARTS];
};

static inline struct cpu_set *cpu_set_of(struct kernel_set *k)
{
	return (struct cpu_set *)k;
}

/* Operations on rows (row_ops.c), as kernels/ops.h has them. */
int cpu_embed(struct kernel_set *k, void *y, const void *table, enum num t, const int32_t *ids, int32_t rows,
	      int32_t dim);
int cpu_rms_norm(struct kernel_set *k, void *y, const void *x, const float *w, int32_t rows, int32_t dim, float eps);
int cpu_add_rms_norm(struct kernel_set *k, void *y, void *x, const void *delta, const float *w, int32_t rows,
		     int32_t dim, float eps);
int cpu_rope_kv(struct kernel_set *k, void *qkv, const struct step_rows *r, const struct attention_shape *a,
		const struct rope *rope, const float *q_norm, const float *k_norm, float eps, const struct kv_shape *s,
		const struct kv_layer *kv);
int cpu_silu_mul(struct kernel_set *k, void *y, const void *gu, int32_t rows, int32_t width);
int cpu_copy_pages(struct kernel_set *k, const struct page_plane *planes, int32_t n_planes, const int32_t *pairs,
		   int32_t n);
int cpu_gather(struct kernel_set *k, void *y, const void *x, const int32_t *index, int32_t n, int32_t dim);
int cpu_argmax(struct kernel_set *k, int32_t *tokens, const float *logits, int32_t rows, int32_t vocab);

#endif
