/* store_series.h: a stored run read back row by row: what it was, its requests, its steps. For what draws them. */
#ifndef ANALYSIS_STORE_SERIES_H
#define ANALYSIS_STORE_SERIES_H

#include <stdbool.h>
#include <stdint.h>

#include "core/record.h"
#include "core/request.h"

struct err;
struct store;

/* What a run was, as far as pictures of it need to know. Strings are NULL where nothing is stored. */
struct stored_run {
	int64_t run_id;
	char *label, *status, *started, *policy, *policy_params, *model, *device, *trace, *backend, *router, *recorded;
	int64_t requests, steps; /* in the workload; executed (0 where the run came to no end) */
	int32_t replicas;
	int32_t num_gpu_blocks, block_size; /* 0: no KV cache */
	int32_t max_num_seqs, max_num_batched_tokens;
	bool has_steps; /* its steps are in the database */
};
/* ERR_INPUT: there is no such run, or the database is of an earlier version. Release with stored_run_free. */
int store_run(struct store *s, int64_t run_id, struct stored_run *out, struct err *e);
void stored_run_free(struct stored_run *r);

/* One request. Strings are valid during the call only. Times are nanoseconds of the run's clock; -1: not known, since it
 * did not come so far. */
struct stored_request {
	int32_t index; /* in the workload */
	const char *name; /* its id in the trace, else its row as text */
	const char *tenant; /* NULL: the only one */
	enum request_state state;
	enum request_why why;
	int32_t replica;
	int32_t priority;
	int64_t prompt_tokens, wanted_tokens, output_tokens, cached_tokens, recomputed_tokens;
	int32_t preemptions, swaps, chunks;
	int64_t arrival_ns; /* -1: it had not arrived */
	int64_t queue_ns, prefill_ns, decode_ns, preempted_ns,
		transfer_ns; /* add up to its E2E latency; -1 unless it finished */
	int64_t preempted_in_prefill_ns, transfer_in_prefill_ns;
	int64_t held_ns; /* static batching: memory kept after its end */
	int64_t failed_ns; /* from arrival to rejection or abortion; -1: it was not */
};
static inline bool stored_request_finished(const struct stored_request *q)
{
	return q->state == REQUEST_FINISHED && q->arrival_ns >= 0 && q->queue_ns >= 0;
}
static inline int64_t stored_request_ttft_ns(const struct stored_request *q)
{
	return q->queue_ns + q->prefill_ns + q->preempted_in_prefill_ns + q->transfer_in_prefill_ns;
}
static inline int64_t stored_request_e2e_ns(const struct stored_request *q)
{
	return q->queue_ns + q->prefill_ns + q->decode_ns + q->preempted_ns + q->transfer_ns;
}

/* Calls fn for every stored request of the run in the order of the workload; anything but ERR_NONE from it ends the reading
 * and is returned. None are there when nothing was recorded, or the run has not ended. */
typedef int store_each_request_fn(void *ctx, const struct stored_request *q, struct err *e);
int store_each_request(struct store *s, int64_t run_id, store_each_request_fn *fn, void *ctx, struct err *e);

/* The same of its steps that overlap [from_ns, to_ns). Only with --record steps, and of runs on real kernels. */
typedef int store_each_step_fn(void *ctx, const struct step_row *t, struct err *e);
int store_each_step(struct store *s, int64_t run_id, int64_t from_ns, int64_t to_ns, store_each_step_fn *fn, void *ctx,
		    struct err *e);

#endif
