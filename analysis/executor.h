/* executor.h: a model loaded on real kernels, ready for one run after another: kernels, weights, runner. Loading a model
 * of a billion parameters takes seconds, so a validation keeps one for all its runs. */
#ifndef ANALYSIS_EXECUTOR_H
#define ANALYSIS_EXECUTOR_H

#include <stdbool.h>
#include <stdint.h>

#include "exec/backend.h"
#include "exec/runner.h"
#include "exec/tokenizer.h"
#include "models/model.h"

struct err;

/* What the executor is made of. Strings belong to the caller. */
struct executor_setup {
	const char *backend; /* "cpu", "cuda" */
	const char *model; /* as it was asked for, or NULL */
	const char *weights; /* exec/weights.h; NULL: "random:1" */
	const char *tokenizer; /* path or NULL */
	enum num weight_type, kv_type;
	int32_t threads; /* 0 = all */
	const char *isa; /* NULL = best */
	bool batch_invariant;
	bool eager; /* no graphs */
	int32_t num_blocks, block_size;
	bool kv_off, check;
	int32_t layers; /* 0 = all */
	int32_t ready_rows, ready_seqs, ready_ctx; /* exec/runner.h; 0 = nothing is prepared */
	double memory_share; /* num_blocks = 0: as many as fit into it (exec/runner.h), at most most_blocks */
	int32_t most_blocks;
	struct sampling sampling;
};

/* The kernels alone, of s->backend and its options. A set for GPUs takes f32 activations for f32 weights, else bf16.
 * ERR_INPUT: it is not there, and why. */
int executor_kernels(struct kernel_set **out, const struct executor_setup *s, struct err *e);

struct executor {
	struct executor_setup setup; /* what it was made from, with the blocks there are */
	struct model model; /* its own copy */
	struct kernel_set *kernels;
	struct runner *runner;
	struct tokenizer *tokenizer; /* NULL without */
	char what[192]; /* kernels' description */
	char weights_what[160];
	double load_s;
};

/* Everything m says is taken now; m may go. */
int executor_open(struct executor **out, const struct executor_setup *s, const struct model *m, struct err *e);
void executor_close(struct executor *x); /* NULL is fine */
/* Could it serve a run that asks for s? (Then nothing need be loaded.) */
bool executor_fits(const struct executor *x, const struct executor_setup *s, const struct model *m);

#endif
