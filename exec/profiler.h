/* profiler.h: measures steps of a model on a set of kernels, over a grid of shapes, within a time budget. What it gives are
 * plain samples; analysis/profile_measure.c makes a profile of them. docs/profile.md says why the grid is what it is. */
#ifndef EXEC_PROFILER_H
#define EXEC_PROFILER_H

#include <stdbool.h>
#include <stdint.h>

#include "exec/weights.h"
#include "kernels/ops.h"
#include "models/model.h"

struct err;

struct profiler_setup {
	const struct model *model;
	struct weights *weights;
	struct kernel_set *kernels;
	enum num weight_type, kv_type;
	int32_t block_size;
	int32_t max_tokens; /* of one step */
	int32_t max_context; /* of one sequence */
	int32_t max_seqs; /* decodes of one step */
	int64_t kv_tokens; /* contexts of one step together; never more than an arena of so many is made */
	int32_t layers; /* how many to run; 0 = as few as do not fit the caches */
	double budget_s; /* for measuring; loading the weights comes before */
	uint64_t seed;
	const volatile int *stop; /* polled between steps; may be NULL */
	void (*progress)(void *ctx, int64_t done, int64_t total); /* milliseconds of the budget; may be NULL */
	void *ctx;
};

struct profiler_sample {
	int64_t part_ns[N_PARTS]; /* of the layers that were run */
	int64_t total_ns; /* the whole call, tables to tokens */
};

enum { PROFILER_REPEATS = 17, PROFILER_LEVELS = 3 };

/* A shape of step: decodes with the same context, one chunk, or both. */
struct profiler_shot {
	int32_t decodes, decode_ctx; /* tokens each attends to, the new one included */
	int32_t chunk, start; /* tokens, and those before them */
	bool head; /* every sequence samples */
	uint8_t level; /* 0: the corners, measured first; then finer */
	int32_t n;
	struct profiler_sample samples[PROFILER_REPEATS]; /* [n]; the first of several also warmed up what it needed */
};

struct profiler_result {
	struct profiler_shot *shots;
	int32_t n_shots, n_measured;
	int32_t layers; /* that were run */
	bool interrupted; /* by stop */
	bool coarse; /* the budget did not reach beyond the corners of the grid */
	double load_s, spent_s;
};

/* ERR_NONE when interrupted, too: what was measured until then is in *out. */
int profiler_run(struct profiler_result *out, const struct profiler_setup *s, struct err *e);
void profiler_result_free(struct profiler_result *r);

/* How many layers that is for a model held so: enough that their weights are twice the last-level cache, so that what
 * one step leaves behind does not help the next. All of them where they differ. */
int32_t profiler_layers(const struct model *m, enum num weight_type);

#endif
