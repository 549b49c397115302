/* ops_cuda.h: the kernels of kernels/cuda/ as plain functions, one for each operation of kernels/ops.h: device pointers,
 * shapes, a stream. Each only starts work on the stream, allocates nothing, keeps nothing, and returns what cudaError_t
 * says (0: started). Grids depend on shapes and on the figures that a plan holds, never on what the arrays say, so that a
 * captured graph may be replayed with other contents of the same arrays.
 *
 * `act` is the type of activations: NUM_F32 or NUM_BF16. Sums are f32 throughout. What the functions refuse (types and
 * sizes they were not made for) returns CUDA_REFUSED: cuda_attention_refuses() says why in words beforehand. */
#ifndef KERNELS_CUDA_OPS_CUDA_H
#define KERNELS_CUDA_OPS_CUDA_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#include "kernels/ops.h"

/* cuda_runtime.h's cudaStream_t is a pointer to this. */
struct CUstream_st;
typedef struct CUstream_st *cuda_stream;

enum { CUDA_REFUSED = 1 }; /* cudaErrorInvalidValue */

/* --- rows (rows.cu, rope.cu) ------------------------------------------------------------------------------------------ */

int cuda_embed(cuda_stream st, enum num act, void *y, const void *table, enum num t, const int32_t *ids, int32_t rows,
	       int32_t dim);
int cuda_rms_norm(cuda_stream st, enum num act, void *y, const void *x, const float *w, int32_t rows, int32_t dim,
		  float eps);
int cuda_add_rms_norm(cuda_stream st, enum num act, void *y, void *x, const void *delta, const float *w, int32_t rows,
		      int32_t dim, float eps);
int cuda_silu_mul(cuda_stream st, enum num act, void *y, const void *gu, int32_t rows, int32_t width);
int cuda_gather(cuda_stream st, enum num act, void *y, const void *x, const int32_t *index, int32_t n, int32_t dim);
/* Pages of f32, bf16, int8 or fp8 (e4m3, scale = max |x| / 448 of that token and head). K and V are kept from the rotated
 * values before they are rounded to `act`. */
int cuda_rope_kv(cuda_stream st, enum num act, void *qkv, const struct step_rows *r, const struct attention_shape *a,
		 const struct rope *rope, const float *q_norm, const float *k_norm, float eps, const struct kv_shape *s,
		 const struct kv_layer *kv);

/* --- attention (attention.cu and the kernels it chooses from) --------------------------------------------------------- */

/* What decides how work is cut. `max_ctx` is the largest context that the launch will ever be replayed with: a graph's
 * bucket, not this step's largest. Decodes are the first n_decodes sequences; each may have a context of 0 (a row that
 * stands in for nobody: its output is 0). */
struct cuda_attention_plan {
	int32_t n_seqs, n_rows, n_decodes, max_ctx;
	int32_t lines; /* query heads that share a KV head, taken together: at most 16 at a time */
	int32_t groups; /* how often a KV head's pages are read for all its query heads */
	int32_t splits; /* parts that each decode's context is cut into */
	int32_t tile_lines; /* (row, query head) pairs of one tile of a chunk */
	int32_t max_tiles; /* tiles of chunks, at most */
	bool tensor_cores;
	size_t workspace; /* bytes of device memory a call needs; its content is lost between calls, see `prepared` */
};

/* Why this combination cannot be run, in one line; NULL when it can. */
const char *cuda_attention_refuses(enum num act, const struct attention_shape *a, const struct kv_shape *s);
/* sms: multiprocessors of the device. splits: 0 = by the heuristic (else tests and measurements). */
void cuda_plan_attention(struct cuda_attention_plan *p, int32_t sms, enum num act, const struct attention_shape *a,
			 const struct kv_shape *s, int32_t n_seqs, int32_t n_rows, int32_t n_decodes, int32_t max_ctx,
			 int32_t splits);
/* As attention() of kernels/ops.h, but `bad` is device memory (NULL: tags are not verified): what was found is added to it
 * in order on the stream. workspace: device memory, aligned to 256 bytes. prepared: the workspace is as an earlier call
 * with the same plan and the same q_at left it, so that the list of tiles need not be made again (layers after a step's
 * first). */
int cuda_attention(cuda_stream st, enum num act, void *out, const void *qkv, const struct step_rows *r,
		   const struct attention_shape *a, const struct kv_shape *s, const struct kv_layer *kv,
		   struct tag_fault *bad, const struct cuda_attention_plan *p, void *workspace, bool prepared);

/* --- choosing tokens (sample.cu) -------------------------------------------------------------------------------------- */

int cuda_argmax(cuda_stream st, int32_t *tokens, const float *logits, int32_t rows, int32_t vocab);

/* The same choice that the host's sampler makes from the same logits and random numbers. Weights are kept as 44-bit fractions
 * of the largest, so that sums do not depend on their order; two candidates closer than that count as equal, the lower id
 * first. */
int cuda_draw(cuda_stream st, int32_t *tokens, const float *logits, int32_t rows, int32_t vocab,
	      const struct draw *how);

/* --- pages (pages.cu) ------------------------------------------------------------------------------------------------- */

/* As copy_pages() of kernels/ops.h. from and to may also be memory of the host that the device can reach. */
int cuda_copy_pages(cuda_stream st, const struct page_plane *planes, int32_t n_planes, const int32_t *pairs, int32_t n);

#ifdef __cplusplus
}
#endif
#endif
