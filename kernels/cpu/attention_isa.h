/* attention_isa.h: what attention needs once per instruction set (kernels/cpu/isa/attend.c). */
#ifndef KERNELS_CPU_ATTENTION_ISA_H
#define KERNELS_CPU_ATTENTION_ISA_H

#include <stdint.h>

#include "kernels/cpu/isa_pick.h"
#include "kernels/ops.h"

enum {
	ATTENTION_TILE = 64, /* tokens */
	ATTENTION_SPLIT = 256, /* tokens; a multiple of the tile */
	ATTENTION_LINES = 64, /* most lines of a task */
	ATTENTION_HEAD = 16, /* floats before acc in a kept state: most, sum */
};

/* Online softmax of each line. */
struct attention_state {
	float *most; /* [lines] largest score; minus infinity: nothing seen */
	float *sum; /* [lines] of exp(score - most) */
	float *acc; /* [lines][dim] of exp(score - most) * V */
};

/* Lines of one sequence that share a KV head, and a thread's memory to compute them in. */
struct attention_lines {
	int32_t n_lines;
	int32_t group; /* line = row * group + head */
	int32_t dim; /* head_dim rounded up to whole vectors: of q, acc, keys and values */
	int32_t last; /* the token that is the first row itself: the last one it sees; the next row's is one further */
	int32_t n_rows;
	int32_t until; /* the task reads no token from here on: how far to fetch ahead */
	int32_t pad, window;
	int32_t kv_head;
	const struct kv_shape *shape;
	const struct kv_layer *kv;
	const int32_t *pages; /* of the sequence */

	/* Checking: where tags are wrong, report is called. NULL want: not checked here. */
	const uint64_t *want; /* tag of each token */
	void (*report)(void *ctx, int32_t token, uint64_t found, uint64_t wanted);
	void *report_ctx;

	float *q; /* [lines][dim], times the scale, zeros past head_dim */
	float *p; /* [lines][TILE] scores, then probabilities */
	float *keys, *values; /* [TILE][dim]: a tile as floats, where that pays */
	struct attention_state state;
};

struct attention_isa {
	int32_t lanes;
	/* Puts what tokens [split * SPLIT, (split + 1) * SPLIT) give each line into x->state. */
	void (*split)(struct attention_lines *x, int32_t split);
	/* to = to and from merged, one line: m, sum, acc[dim]. */
	void (*merge)(float *to_most, float *to_sum, float *to_acc, float most, float sum, const float *acc,
		      int32_t dim);
	/* out[head_dim] = acc / sum; 0 where nothing was seen. */
	void (*end)(float *out, const float *acc, float sum, int32_t head_dim);
};
extern const struct attention_isa attention_isa_base, attention_isa_avx2, attention_isa_avx512;

#endif
