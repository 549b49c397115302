/* kv_step.h: the attention part of a step on any set of kernels, made from a short description: rows, contexts, a KV cache
 * whose pages lie in random order. What a token's K, V and query are depends on the seed, the sequence's id and the token
 * only, so that the same row can be asked for as a decode, within a chunk, in other pages and beside other rows. */
#ifndef TESTS_SUPPORT_KV_STEP_H
#define TESTS_SUPPORT_KV_STEP_H

#include <stdint.h>

#include "kernels/ops.h"

struct kv_seq {
	int32_t id; /* whose tokens */
	int32_t rows; /* the last so many of its context */
	int32_t ctx;
	int32_t pad;
};

struct kv_desc {
	int32_t n_heads, n_kv_heads, head_dim, window;
	enum num type;
	int32_t block_size;
	int32_t n_seqs;
	const struct kv_seq *seqs;
	uint64_t seed; /* of the contents */
	uint64_t page_seed; /* of the order of pages */
	float spread; /* standard deviation of q, k and v; 0 = 1 */
	bool check; /* tags: kv_tag(id, token) in every slot, and wanted */
	bool round; /* q, k and v are numbers that bf16 holds */
	bool empty; /* the cache holds nothing yet (rope_kv fills it): else all of every context */
};

struct kv_step {
	struct kernel_set *set;
	struct attention_shape shape;
	struct kv_shape kv;
	struct step_rows rows;
	struct kv_layer layer;
	float *qkv; /* device [n_rows][(n_heads + 2 n_kv_heads) * head_dim] */
	float *out; /* device [n_rows][n_heads * head_dim]: NaN */
	struct tag_fault bad;
	const int32_t *pages; /* host: kv_indices */
	const int64_t *slots; /* host */
	void *memory[32]; /* what kv_step_free releases */
	int32_t n_memory;
	void *host[8];
	int32_t n_host;
};

uint64_t kv_tag(int32_t id, int32_t token);
/* A number in 0 .. n by hashing; a standard normal number (nearly). */
uint32_t kv_random(uint64_t *state, uint32_t n);
float kv_normal(uint64_t *state);

/* Ends the program when memory is out. Slots that belong to no context hold NaN (int8: a NaN scale). */
void kv_step_make(struct kv_step *s, struct kernel_set *set, const struct kv_desc *d);
void kv_step_free(struct kv_step *s);
/* Runs attention; returns out on the host [n_rows][n_heads * head_dim] (free it), after looking that nothing was written
 * before its beginning or past its end (NULL then). */
float *kv_step_attend(struct kv_step *s);
/* Device memory to the host; free it. */
void *kv_host_copy(struct kernel_set *set, const void *device, size_t bytes);

/* |x - r| / |r|; infinite when something is not a number. */
double kv_error(const float *x, const float *r, size_t n);

#endif
