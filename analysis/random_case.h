/* random_case.h: random workloads and settings, small enough to read, nasty enough to matter: tight memory, ties, bursts,
 * idle gaps, zero and one output, shared prefixes, parents, priorities. A case is a flat description, so that a failing
 * one can be made smaller request by request (analysis/case_shrink.h) and printed. `lockstep policy check` and the property
 * tests draw theirs here. */
#ifndef ANALYSIS_RANDOM_CASE_H
#define ANALYSIS_RANDOM_CASE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "core/engine.h"
#include "core/links.h"
#include "core/policy.h"
#include "core/rng.h"

enum { CASE_SEGMENTS = 6, CASE_PARENTS = 2, CASE_PARAMS = 32, CASE_TENANTS = 4 };

struct case_req {
	int64_t arrival_ns; /* with parents: the delay */
	int32_t prompt, output, max_tokens, priority, tenant, slo_ttft_ms;
	uint64_t output_id;
	int32_t n_segments;
	uint64_t segment[CASE_SEGMENTS];
	int32_t segment_tokens[CASE_SEGMENTS];
	int32_t n_parents, parent[CASE_PARENTS]; /* indices of earlier requests */
	int32_t fork_at; /* with one parent: spec.fork_at, cut to what the parent and it have */
};

struct random_case {
	uint64_t seed;
	struct case_req *reqs; /* [n] */
	int32_t n;
	struct engine_config cfg;
	const struct policy_desc *policy;
	union policy_value values[CASE_PARAMS];
	struct link_speeds links; /* of the tiers behind the device's memory */
	int64_t cost_a, cost_b, cost_c, cost_d; /* ns: a + b prefill + c decodes + d context */
};

struct err;

/* Everything about it follows from the seed. `largest`: requests at most. ERR_MEMORY. */
int random_case_draw(struct random_case *c, uint64_t seed, const struct policy_desc *policy, int32_t largest,
		     struct err *e);
/* The same without a prefix cache. */
void random_case_no_cache(struct random_case *c);
/* Draws other settings for the same requests: not all go together, and the engine or the policy refuses some. */
void random_case_settings(struct random_case *c, int32_t attempt);
int random_case_copy(struct random_case *to, const struct random_case *from); /* ERR_MEMORY: *to has no requests */
void random_case_free(struct random_case *c);

/* Leaves out request i; those that waited for it no longer do. */
void random_case_drop(struct random_case *c, int32_t i);
/* After taking parents away: puts arrivals in order again. */
void random_case_tidy(struct random_case *c);

/* The workload it describes; release with workload_free, also after an error. */
int random_case_build(const struct random_case *c, struct workload *w, struct err *e);

/* Its requests as native JSON lines: a trace that `lockstep replay` reads. They are called "1", "2", ... */
void random_case_print_trace(const struct random_case *c, FILE *f);
/* The same, settings first in comments. */
void random_case_print(const struct random_case *c, FILE *f);

#endif
