/* record.h: what a run tells those who keep it. Every callback may be NULL (not wanted, and then it costs nothing).
 * Callbacks are made in the order things happen; pointers are valid during the call only. */
#ifndef CORE_RECORD_H
#define CORE_RECORD_H

#include <stdint.h>

#include "core/backend.h"
#include "core/batch.h"

/* One executed step. */
struct step_row {
	int64_t step;
	int64_t start_ns, end_ns;
	int64_t host_ns; /* part of end - start */
	int32_t decodes;
	int32_t chunks;
	int32_t sampled; /* output tokens it produced: batch.sampled */
	int64_t prefill_tokens; /* padding included */
	int64_t decode_ctx;
	int32_t running; /* requests holding memory */
	int32_t waiting; /* arrived, holding none, preempted ones included */
	int32_t preempted; /* in this step */
	int32_t replica; /* whose step it is: engine_config.replica */
	int32_t blocks_used; /* blocks (contiguous manager: slots / block_size, rounded up) held by requests */
	int32_t blocks_cached; /* unreferenced blocks that still hold a known prefix */
	double outside; /* cost model: how far outside what was measured */
	int64_t transfer_ns; /* part of end - start in which it only waited for copies between tiers */
	int64_t part_ns[STEP_PARTS]; /* measured split of its device time; all 0 where there is none */
};

enum event_kind {
	EVENT_ARRIVE = 1, /* req; a = waiting requests after it */
	EVENT_REJECT, /* req; a = enum request_why */
	EVENT_ADMIT, /* req; a = prefix-hit tokens, b = 1 after a preemption */
	EVENT_CHUNK, /* req; a = start, dropped tokens counted, b = len */
	EVENT_DECODE, /* req; a = context attended to. One per decoding request and step, in running order */
	EVENT_BLOCK, /* req; a = index in its block table, b = block id. In order of allocation; hits too */
	EVENT_PREEMPT, /* req; a = computed tokens lost */
	EVENT_FINISH, /* req; a = outputs */
	EVENT_HOLD, /* req: finished, but its row goes on until released */
	EVENT_RELEASE, /* req */
	EVENT_ABORT, /* req; a = enum request_why */
	EVENT_STEP, /* end of a step: a = start_ns, b = end_ns */
	EVENT_DROP, /* req; a = index in its block table, b = the block it gave back */
	EVENT_SWAP_OUT, /* req; a = blocks that go to host memory, b = computed tokens they hold */
	EVENT_SWAP_IN, /* req; a = blocks that come back, b = 1: it goes on in this step, 0: when they are there */
	EVENT_LOAD, /* req; a = blocks of its prefix that come from host memory, b = from disk */
	EVENT_LOADED, /* req: they, or those swapped in, are there; a = blocks */
	EVENT_COPY, /* req; a = a block others hold as well, b = the one its content is copied to, which takes its place */
	EVENT_PREFETCH, /* req; a = blocks of its prefix that are read ahead, from disk to host memory */
};

const char *event_name(enum event_kind k);

/* One line of the decision log. */
struct event {
	enum event_kind kind;
	int64_t step;
	int64_t at_ns; /* the clock reading that drove it (arrive .. preempt, drop: the step's start; the rest: its end) */
	int32_t req; /* -1 where none */
	int32_t replica; /* whose it is: engine_config.replica. Not a part of the log */
	int64_t a, b;
};

struct recorder {
	void *ctx;
	void (*step)(void *ctx, const struct step_row *row);
	/* `count` gaps of gap_ns between consecutive tokens of one request each. */
	void (*gap)(void *ctx, int64_t gap_ns, int64_t count);
	/* A run of uniform steps, in each of which the same `count` requests had a token and nothing else happened: the first
	 * began at start_ns, they ended at end_ns[0 .. steps). When it is given, neither `step` nor `gap` is called for
	 * them: for recorders that need no more than their ends. */
	void (*run)(void *ctx, int64_t start_ns, const int64_t *end_ns, int64_t steps, int64_t count);
	/* Request `req` has just produced a token at t_ns, its n-th (from 0). Asked for only with --save-detailed and by
	 * tests: with it every step is walked. */
	void (*token)(void *ctx, int32_t req, int32_t n, int64_t t_ns);
	/* The decision log; asked for by tests, golden logs and `lockstep decisions`. With it every step is walked. */
	void (*event)(void *ctx, const struct event *ev);
	/* A request has ended (finished, rejected or aborted); its struct request is final except held_until_ns. */
	void (*ended)(void *ctx, int32_t req);
};

#endif
