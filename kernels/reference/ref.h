/* ref.h: what the files of the reference set share. Everything is a plain loop; sums and functions are in double, and
 * what is kept in memory is rounded once, to the type it is kept in. */
#ifndef KERNELS_REFERENCE_REF_H
#define KERNELS_REFERENCE_REF_H

#include "kernels/ops.h"

struct ref_set {
	struct kernel_set base; /* first: a kernel_set * is one of these */
	char error[192];
	enum part part; /* that time since part_since_ns belongs to; N_PARTS: to none */
	int64_t part_since_ns;
	int64_t part_ns[N_PARTS];
};

/* Leaves the line for error(); -1. */
int ref_fail(struct kernel_set *k, const char *line);

int ref_pack(struct kernel_set *k, struct matrix **out, const struct matrix_part *parts, int32_t n_parts, int32_t n_in,
	     enum num as);
void ref_unpack_free(struct kernel_set *k, struct matrix *m);
size_t ref_matrix_bytes(const struct matrix *m);
int ref_matmul(struct kernel_set *k, float *y, const float *x, int32_t rows, const struct matrix *w);

int ref_rope_kv(struct kernel_set *k, void *qkv, const struct step_rows *r, const struct attention_shape *a,
		const struct rope *rope, const float *q_norm, const float *k_norm, float eps, const struct kv_shape *s,
		const struct kv_layer *kv);
int ref_attention(struct kernel_set *k, void *out, const void *qkv, const struct step_rows *r,
		  const struct attention_shape *a, const struct kv_shape *s, const struct kv_layer *kv,
		  struct tag_fault *bad);

/* y[dim] = x[dim] / sqrt(mean(x^2) + eps) * w[dim]; y may be x. */
void ref_norm_row(float *y, const float *x, const float *w, int32_t dim, float eps);

#endif
