/* cases.h: the CUDA kernels against the reference, one small case at a time, for tests and for finding planted faults. Every
 * function returns how far off the result is, |x - r| / |r|; infinite when an operation fails, writes where it must not, or
 * leaves out what it must write. Inputs are numbers that bf16 holds. */
#ifndef TESTS_CUDA_HOST_CASES_H
#define TESTS_CUDA_HOST_CASES_H

#include "tests/support/kv_step.h"

double case_norm(struct kernel_set *set, int32_t rows, int32_t dim, bool add);
double case_silu(struct kernel_set *set, int32_t rows, int32_t width);
double case_gather(struct kernel_set *set, int32_t rows, int32_t dim);
double case_embed(struct kernel_set *set, enum num table, int32_t rows, int32_t dim);
/* What rope_kv leaves in qkv and in the pages; row 2 goes nowhere. */
double case_rope(struct kernel_set *set, const struct kv_desc *d, bool norms);
double case_attention(struct kernel_set *set, const struct kv_desc *d);
/* Of draws from random logits: the share that are not the host sampler's. */
double case_sample(int32_t rows, int32_t vocab, double temperature, int32_t top_k, double top_p, float spread);
double case_argmax(struct kernel_set *set, int32_t rows, int32_t vocab);
double case_copy(int32_t page_bytes);

#endif
