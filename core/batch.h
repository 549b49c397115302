/* batch.h: what one step runs; the only thing that crosses from deciding to running.
 *
 * The simulator needs only the totals. The executor asks for the page tables (core/tables.h), which are built only
 * then. */
#ifndef CORE_BATCH_H
#define CORE_BATCH_H

#include <stdbool.h>
#include <stdint.h>

/* A piece of one prompt (or of a preempted request's prompt and outputs, computed again). */
struct chunk {
	int32_t req; /* index into the workload */
	int32_t start; /* tokens before it whose KV is there (or padding): its attention reads start + len */
	int32_t dropped; /* tokens before it whose KV was dropped: its first one is number start + dropped */
	int32_t len; /* tokens computed for it, padding not counted */
	int32_t pad; /* padding computed beside it (static batching) */
	bool samples; /* it is the last piece: a token is sampled from it */
};

/* A KV page whose content goes to another one as well, all layers: the first writer to a shared page gets one of its own. */
struct page_copy {
	int32_t src, dst;
};

struct batch {
	int64_t step; /* number of this step, from 0 */

	/* Rows that compute one token each from a KV cache. */
	int32_t decodes; /* how many, finished rows kept by static batching included */
	int64_t decode_ctx; /* sum over them of the tokens attended to: KV in memory + the new one (+ padding) */
	int64_t decode_ctx_window; /* the same with each capped at the engine's window; = decode_ctx without one */
	int32_t window_growing; /* rows still below the window: what decode_ctx_window grows by in a repeated step;
	                              = decodes without a window */

	/* Prompt pieces. */
	int32_t n_chunks;
	const struct chunk *chunks;
	int64_t prefill_tokens; /* sum of len + pad */

	/* Done before any row of the step runs, with the result of doing them one after the other. */
	int32_t n_copies;
	const struct page_copy *copies;

	int32_t sampled; /* rows a token is sampled from: decodes that are not held + chunks that sample */
	int32_t running; /* requests that hold memory while it runs */

	/* Copies between tiers (core/backend.h) that must be done before it begins, and with each all those before it of the
	 * same two tiers: out of the device and into it; 0 = none. */
	int64_t after_out, after_in;

	/* The engine allows this batch to be run up to `repeat` times in a row (each time every decode has one more
	 * token of context), as long as each run begins before until_ns; `repeat` > 1 only when n_chunks = 0. */
	int64_t repeat;
	int64_t until_ns;
};

#endif
