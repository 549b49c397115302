/* attention.h: attention over pages on the CPU's threads. One algorithm for decodes and prefill chunks:
 *
 * The context is cut at fixed places, whatever the rows: tiles of ATTENTION_TILE tokens, within splits of
 * ATTENTION_SPLIT. A query row goes through the tiles of a split in order, keeping the largest score, the sum of
 * exponentials and the weighted sum of values (online softmax: Milakov and Gimelshein 2018); what came of the splits is
 * merged in ascending order (as in Flash-Decoding). So a row's result is the same bit for bit as a decode, within a
 * chunk of any size, at any block size, on any number of threads, and beside any other rows.
 *
 * A task takes "lines": the query heads that share one KV head, of one or several rows. Each tile of K and V is read once
 * for all of them. */
#ifndef KERNELS_CPU_ATTENTION_H
#define KERNELS_CPU_ATTENTION_H

#include "kernels/cpu/attention_isa.h"
#include "kernels/cpu/isa_pick.h"
#include "kernels/ops.h"

struct pool;

struct attention_call {
	float *out; /* [rows][n_heads * head_dim] */
	const float *qkv; /* [rows][(n_heads + 2 n_kv_heads) * head_dim] */
	const struct step_rows *rows;
	const struct attention_shape *shape;
	const struct kv_shape *kv_shape;
	const struct kv_layer *kv;
	struct tag_fault *bad;
};

struct attention_item;

/* Scratch memory that is kept from call to call; zeroed before its first use. */
struct attention {
	const struct attention_isa *isa;
	struct attention_item *items;
	int64_t cap_items;
	_Atomic int32_t *left; /* of each item that is the first of its group: splits not done yet */
	float *scratch; /* one piece per thread */
	size_t cap_scratch;
	float *partials; /* what came of splits that other tasks merge */
	size_t cap_partials;
};

void attention_open(struct attention *a, enum cpu_isa isa);
void attention_close(struct attention *a);
/* -1: out of memory. */
int attention_run(struct attention *a, struct pool *pool, const struct attention_call *c);

#endif
