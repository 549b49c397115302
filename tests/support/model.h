/* model.h: published schedulers told once more, as plainly as they can be: POLICIES in arrays, one request after the other,
 * every list walked, nothing kept that could be worked out again. The memory is as plain: blocks with a stamp, or SGLang's
 * tree node by node. prop_models.c holds the engine and its policies against them.
 *
 *   model_run(&log, &case)      the schedule: who is admitted with how many cached tokens, which pieces and tokens are
 *                               computed, who gives way, who finishes, step by step
 *
 * Files: model_world.c is what every server does (arrivals, clock, tokens, ends), model_memory.c and model_radix.c what it
 * remembers, model_vllm_v1.c, model_sglang.c and model_trtllm.c whom it serves. None of them calls core/ or policies/. */
#ifndef TESTS_SUPPORT_MODEL_H
#define TESTS_SUPPORT_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "core/engine.h"
#include "core/policy.h"

struct model_case {
	struct engine_config cfg; /* max_model_len and the prefix cache resolved */
	const struct workload *w;
	const struct policy_desc *policy; /* only its name and the names of its parameters are read */
	const union policy_value *values;
	int64_t a, b, c, d; /* ns a step: a + b x prompt tokens + c x decodes + d x their context */
};

/* How a request ended. */
struct model_end {
	bool finished;
	int64_t first_sched_ns, first_token_ns, last_token_ns;
	int32_t outputs, cached, preemptions;
};

struct model_log {
	struct event
		*events; /* [n] EVENT_ADMIT, CHUNK, DECODE, PREEMPT, FINISH, ABORT, STEP as core/record.h has them */
	int64_t n, cap;
	struct model_end *ends; /* [w->n] */
	bool stuck; /* someone waits and nothing will ever happen */
};

bool model_knows(const struct policy_desc *d);
/* Ends the program when memory runs out: this is a test. */
void model_run(struct model_log *out, const struct model_case *c);
void model_log_free(struct model_log *l);

#endif
