/* profile.h: how long the parts of a step took on a machine, measured by `lockstep profile` or imported; and what a step
 * would take that was not measured. Plain structs: who measures (exec), stores (analysis) and predicts (cost_profiled.c)
 * share them. docs/profile.md has the method.
 *
 * A step's device time is the sum of its operations': one line each of
 *   matmul(tokens) + other(tokens) + head(sampled rows) + decode(rows, their summed context) + each chunk's
 *   prefill(tokens, context before it);
 * host(sequences, tokens) comes beside it. All are of whole steps: all layers together. */
#ifndef SIM_PROFILE_H
#define SIM_PROFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/batch.h"
#include "models/dtype.h"

struct err;
struct model;

enum profile_op {
	PROFILE_MATMUL, /* x = tokens: matrix products inside the layers */
	PROFILE_OTHER, /* x = tokens: embedding, norms, RoPE and KV write, activation */
	PROFILE_HEAD, /* x = rows sampled from: final norm, logits, sampling */
	PROFILE_DECODE, /* x = rows, y = mean context of a row: attention of the decodes */
	PROFILE_PREFILL, /* x = tokens of one chunk, y = context before it: its attention */
	PROFILE_HOST, /* x = sequences, y = tokens: time of the step outside the kernels */
	PROFILE_OPS
};
extern const char *const profile_op_names[]; /* "matmul", "other", "head", "decode", "prefill", "host", NULL */

/* One measured point. */
struct profile_point {
	enum profile_op op;
	int32_t x;
	int64_t y; /* 0 where the operation has none */
	double ns; /* median; of all layers */
	double low_ns, high_ns; /* quartiles of the repeats; = ns where there was one */
	int32_t repeats;
};

/* A whole step measured, to see whether its parts add up: took no part in the points. */
struct profile_step {
	int32_t decodes; /* each at decode_mean tokens of context */
	int32_t decode_mean;
	int32_t chunk, chunk_start; /* one prompt piece; 0 = none */
	int32_t sampled;
	double ns, low_ns, high_ns;
	int32_t repeats;
};

/* Everything but the name and the number counts in the hash. Owned by the caller: profile_free. */
struct profile {
	int64_t id; /* in the database; 0 = not stored */
	char name[64]; /* how the user calls it; "" = does not */

	char model[64];
	uint64_t shape; /* profile_shape() of the model; 0 = not known (imported without --model) */
	int32_t layers; /* the points are of so many */
	char weight_dtype[16], kv_dtype[16]; /* "bf16", "fp32", "int8", "fp8": resolved, never "auto" */
	char device[64]; /* what --device calls it: "cpu", "a100-80g" */
	char machine[128]; /* the very machine: "AMD EPYC 7551, 2 CPUs"; "" = not told */
	char library[192]; /* kernels, their libraries and versions: struct kernel_set.what; "" = not told */
	int32_t threads; /* 0 = not told */
	int32_t block_size; /* 0 = not told */
	int32_t tensor_parallel;
	int32_t window; /* sliding window of its attention; 0 = none: contexts are then counted in full */
	char created[24]; /* "2026-11-29 17:03:12" UTC */
	char program[24]; /* version of Lockstep that measured or imported it */
	char source[160]; /* "measured" or "imported: FILE, FILE" */
	char note[160]; /* what is not in it: "no head (filled from roofline)", or "" */
	bool partial; /* stopped before its grid was done */
	int32_t measured_layers; /* how many were really run; the rest are taken to be alike. 0 = not told */

	struct profile_point *points; /* [n_points] by op, x, y: profile_sort */
	int32_t n_points;
	int64_t cap_points;
	struct profile_step *steps; /* [n_steps] */
	int32_t n_steps;
	int64_t cap_steps;

	uint64_t hash; /* profile_hash() when it was measured or imported */
};

void profile_free(struct profile *p); /* all zero is fine, and what it is afterwards */
int profile_add(struct profile *p, const struct profile_point *pt, struct err *e);
int profile_add_step(struct profile *p, const struct profile_step *s, struct err *e);
/* By operation, x, y; of points given twice the later stays. Adding is done then. */
int profile_sort(struct profile *p, struct err *e);
/* Of everything that was measured and on what. */
uint64_t profile_hash(const struct profile *p);
/* Of what makes a model's operations: two models with the same take the same time. Never 0. */
uint64_t profile_shape(const struct model *m);
/* Resolved names of formats, as a profile has them. */
const char *profile_weight_name(const struct weight_format *resolved);
const char *profile_kv_name(enum kv_dtype kv, const struct weight_format *weights);

/* What a run says it runs on. Zero, "" and NULL: it does not say. */
struct profile_use {
	const struct model *model;
	const char *weight_dtype, *kv_dtype; /* resolved */
	const char *device, *machine, *library;
	int32_t threads, block_size, tensor_parallel;
};
/* "profile 3 (epyc)" */
void profile_describe(const struct profile *p, char *buf, size_t size);
/* ERR_INPUT when the content is not what its hash says. */
int profile_check_content(const struct profile *p, struct err *e);
/* ERR_INPUT with the first thing that is not what was measured. */
int profile_fits(const struct profile *p, const struct profile_use *u, struct err *e);
/* Both. */
int profile_check_use(const struct profile *p, const struct profile_use *u, struct err *e);

/* --- what a step takes -------------------------------------------------------------------------------------------- */

/* The points laid out for asking. On them it is exact, between them piecewise linear (prefill: in the number of query-key
 * pairs); below the smallest x it takes what the smallest takes; beyond the largest it goes on along the line from half of
 * it. Nothing is remembered between questions: any number of threads may ask. */
struct profile_table;
/* p may go afterwards. ERR_INPUT when an operation has no points or the points make no grid. */
int profile_table_create(struct profile_table **out, const struct profile *p, struct err *e);
void profile_table_free(struct profile_table *t);

/* Nanoseconds, not rounded, never negative. *outside becomes the larger of itself and how far the question lies beyond the
 * points: 0 = among them, 1 = twice the largest (or, below the smallest, half of it). */
double profile_tokens_ns(const struct profile_table *t, int64_t tokens, double *outside); /* matmul + other */
double profile_op_ns(const struct profile_table *t, enum profile_op op, int64_t x, double *outside); /* with x alone */
/* The summed context that counts: capped at the window where the profile has one. */
int64_t profile_decode_ctx(const struct profile_table *t, const struct batch *b);
double profile_decode_ns(const struct profile_table *t, int32_t rows, int64_t summed_ctx, double *outside);
/* The same as a piece of a line: at + slope * (ctx - from) for from <= ctx < to, for who asks again and again. */
struct profile_cell {
	int64_t from, to;
	double at, slope;
};
void profile_decode_cell(const struct profile_table *t, int32_t rows, int64_t summed_ctx, struct profile_cell *out);
double profile_decode_outside(const struct profile_table *t, int32_t rows, int64_t summed_ctx);
/* So many rows are that far outside; the points there reach from the first mean context to the last. */
struct profile_reach {
	double outside, first, last;
};
void profile_decode_reach(const struct profile_table *t, int32_t rows, struct profile_reach *out);
static inline double profile_reach_outside(const struct profile_reach *r, double mean)
{
	double far = r->outside;
	if (mean > r->last && mean / (r->last > 1 ? r->last : 1) - 1 > far)
		far = mean / (r->last > 1 ? r->last : 1) - 1;
	if (mean < r->first && r->first / (mean > 1 ? mean : 1) - 1 > far)
		far = r->first / (mean > 1 ? mean : 1) - 1;
	return far;
}
double profile_prefill_ns(const struct profile_table *t, int64_t tokens, int64_t start, double *outside);
double profile_host_ns(const struct profile_table *t, int64_t sequences, int64_t tokens);

/* A whole batch, operation by operation. */
void profile_batch(const struct profile_table *t, const struct batch *b, double op_ns[PROFILE_OPS], double *outside);

#endif
