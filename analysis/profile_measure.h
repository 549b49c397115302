/* profile_measure.h: a profile of this machine: kernels and a few layers of the model are loaded, exec/profiler.h measures
 * them, and the samples become the points of a profile. */
#ifndef ANALYSIS_PROFILE_MEASURE_H
#define ANALYSIS_PROFILE_MEASURE_H

#include <stdbool.h>
#include <stdint.h>

#include "exec/profiler.h"
#include "sim/profile.h"

struct err;

/* Strings belong to the caller; NULL where not given. Start from profile_measure_default(). */
struct profile_measure {
	const char *backend; /* "cpu", "cuda" */
	const char *model; /* name or path; NULL: what the weights say */
	const char *weights; /* NULL: "random:1" */
	const char *weight_dtype, *kv_dtype; /* NULL: the model's own; "auto" */
	const char *device; /* what runs call the device; NULL: as the backend */
	const char *name;
	int32_t threads; /* 0 = all */
	const char *isa;
	bool batch_invariant;
	bool eager; /* cuda: no graphs */
	int32_t block_size; /* 16 */
	int32_t max_tokens, max_context, max_seqs; /* 2048; 4096 or what the model allows; 256 */
	int64_t kv_memory_bytes; /* of the whole model's KV cache: bounds the contexts of a step; 4 GiB */
	int32_t layers; /* 0 = enough */
	double budget_s; /* 60 */
	uint64_t seed;
	const volatile int *stop;
	void (*progress)(void *ctx, int64_t done, int64_t total);
	void *ctx;
};
void profile_measure_default(struct profile_measure *o);

/* What the profiler did, for who prints it. */
struct profile_measured {
	int32_t shots, measured, layers;
	bool interrupted, coarse;
	double load_s, spent_s;
};

/* *out is not stored yet; release with profile_free. ERR_INTERRUPTED when stopped before there was enough of it. */
int profile_measure(struct profile *out, struct profile_measured *did, const struct profile_measure *o, struct err *e);

/* Samples into points: medians and quartiles, layers that were not run added. p has its identity, with `layers` and
 * `window`. (Apart, for tests.) */
int profile_from_samples(struct profile *p, const struct profiler_result *r, struct err *e);

#endif
