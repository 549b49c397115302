/* tables.h: a batch row by row, as kernels want it: which tokens of which request, and where their KV lies. Built only when
 * a backend asks; the simulator never does. The engine must walk its rows (engine_config.exact_walk or a decision log). */
#ifndef CORE_TABLES_H
#define CORE_TABLES_H

#include <stdbool.h>
#include <stdint.h>

#include "core/batch.h"

struct err;
struct engine;

/* Sequence s computes rows q_at[s] .. q_at[s + 1): pad_rows[s] rows of padding, then tokens first_token[s] and on.
 * Decodes come first, in running order, then rows that static batching holds, then chunks. */
struct batch_tables {
	int64_t step; /* batch.step */
	int32_t n_seqs, n_rows;
	int32_t n_decodes; /* the first so many have one row each: decodes and held rows */
	int32_t max_ctx;
	int64_t sum_ctx; /* of the decodes */
	int32_t n_copies;
	const struct page_copy *copies; /* the batch's */
	int32_t *req; /* [n_seqs] */
	int32_t *q_at; /* [n_seqs + 1] */
	int32_t *ctx_len; /* [n_seqs] tokens the last row sees, padding and itself included */
	int32_t *pad; /* [n_seqs] padding at the front of that context */
	int32_t *dropped; /* [n_seqs] tokens that are in memory no more, not counted in ctx_len; NULL: none */
	int32_t *pad_rows; /* [n_seqs] of its rows */
	int32_t *first_token; /* [n_seqs] index (prompt, then outputs) of the token its first real row computes */
	int32_t *kv_indptr; /* [n_seqs + 1] */
	int32_t *kv_indices; /* block ids; token j of the context (padding included) lies in block j / block_size */
	int32_t *kv_pages; /* which page of its sequence each of them is: they differ where pages were dropped */
	int64_t *slots; /* [n_rows] block * block_size + place; -1: this row's KV is not kept */
	uint8_t *samples; /* [n_seqs] a token is sampled from its last row */
	uint8_t *held; /* [n_seqs] finished, computed because static batching goes on: its result is not read */
	int32_t scratch_blocks; /* KV cache off: block ids are 0 .. scratch_blocks - 1, for this step only */

	int64_t cap_seqs, cap_rows, cap_indices, cap_pages; /* what the arrays have room for */
};

/* Token j of sequence s's context, as a number in prompt and outputs (padding: negative). */
static inline int32_t batch_token(const struct batch_tables *t, int32_t s, int32_t j, int32_t block_size)
{
	return t->kv_pages[t->kv_indptr[s] + j / block_size] * block_size + j % block_size - t->pad[s];
}

/* Fills *t (zeroed before its first use) for batch b, the last one engine_begin gave. ERR_MEMORY; ERR_INVARIANT when the
 * engine does not walk its rows. */
int batch_build(const struct engine *g, const struct batch *b, struct batch_tables *t, struct err *e);
void batch_tables_free(struct batch_tables *t);

#endif
