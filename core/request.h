/* request.h: one request's life and its exact accounts. The engine writes it, analysis reads it after (or during)
 * the run. Times are integer nanoseconds on the backend's clock.
 *
 *   waiting -> running -> (preempted -> running)* -> finished
 *      \-> rejected                  any of them -> aborted
 *
 * queue + prefill + decode + preempted + transfer = E2E, exactly:
 *   queue     = first_sched - arrival
 *   prefill   = first_token - first_sched - preempted_in_prefill - transfer_in_prefill
 *   decode    = last_token - first_token - (preempted - preempted_in_prefill) - (transfer - transfer_in_prefill)
 *   preempted = time between a preemption and the step that takes the request back
 *   transfer  = time from there until its KV had come back from another tier of memory (core/tiers.h), in which it could
 *               not run; where steps wait for copies, that part of the step
 */
#ifndef CORE_REQUEST_H
#define CORE_REQUEST_H

#include <stdint.h>

#include "core/choices.h"
#include "core/workload.h"

enum request_state {
	REQUEST_PENDING = 0, /* not arrived */
	REQUEST_WAITING,
	REQUEST_RUNNING,
	REQUEST_PREEMPTED, /* waiting again, or swapped out; keeps its outputs */
	REQUEST_FINISHED,
	REQUEST_REJECTED,
	REQUEST_ABORTED,
};

enum request_why {
	REQUEST_WHY_NONE = 0,
	REQUEST_WHY_PROMPT_TOO_LONG, /* prompt >= max_model_len */
	REQUEST_WHY_NO_MEMORY, /* needs more KV memory than there is */
	REQUEST_WHY_BUDGET, /* prompt larger than a step's budget and chunking is off */
	REQUEST_WHY_POLICY, /* the policy said so */
	REQUEST_WHY_PARENT, /* a request it waits for was rejected or aborted */
	REQUEST_WHY_USER, /* aborted from outside */
	REQUEST_WHY_TIMEOUT, /* aborted by its client, which had waited long enough */
	REQUEST_WHYS,
};

const char *request_state_name(enum request_state s);
const char *request_why_name(enum request_why w); /* one word, for databases and JSON */

struct request {
	int64_t arrival_ns; /* intended arrival */
	int64_t first_sched_ns; /* clock reading that planned its first step: that step's start, or, with asynchronous
	                           scheduling, the start of the step before; -1 = never */
	int64_t first_token_ns; /* end of the step that sampled its first token; a request without output: end of prefill;
	                           -1 = none */
	int64_t last_token_ns; /* its last token so far; final when finished. When rejected or aborted: that moment */
	int64_t held_until_ns; /* when its memory was released, later than last_token_ns if held by static batching */
	int32_t outputs; /* tokens produced */
	int32_t chunks; /* steps that computed a piece of its prompt */
	int32_t cached_tokens; /* prefix hit on its first admission, counted once */
	uint8_t state; /* enum request_state */
	uint8_t why; /* enum request_why */
	int16_t replica; /* which engine served it */
	int64_t waited_ns[WAIT_CAUSES]; /* by cause; they add up to queue + preempted. Final once it waits no more */
	/* Most requests have none of these. */
	int64_t preempted_ns; /* total */
	int64_t preempted_in_prefill_ns;
	int64_t transfer_ns; /* total */
	int64_t transfer_in_prefill_ns;
	int32_t recomputed_tokens; /* computed again after preemptions */
	int32_t preemptions; /* swapped out ones included */
	int32_t swaps; /* of them, those that kept its KV in host memory */
};

static inline int64_t request_e2e_ns(const struct request *r)
{
	return r->last_token_ns - r->arrival_ns;
}
static inline int64_t request_ttft_ns(const struct request *r)
{
	return r->first_token_ns - r->arrival_ns;
}
static inline int64_t request_queue_ns(const struct request *r)
{
	return r->first_sched_ns - r->arrival_ns;
}
static inline int64_t request_prefill_ns(const struct request *r)
{
	return r->first_token_ns - r->first_sched_ns - r->preempted_in_prefill_ns - r->transfer_in_prefill_ns;
}
static inline int64_t request_decode_ns(const struct request *r)
{
	return r->last_token_ns - r->first_token_ns - (r->preempted_ns - r->preempted_in_prefill_ns) -
	       (r->transfer_ns - r->transfer_in_prefill_ns);
}

#endif
