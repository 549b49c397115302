/* explain.h: why requests were late: the time from a request's arrival to its first token, and from there to its last one, taken
 * apart by cause; the parts add up to the nanosecond. docs/explain.md defines the causes.
 *
 * A step's device time is divided by a cost model: what the request's own row takes alone, what the other decode rows
 * beside it add to that, what the pieces of others' prompts add to that. Where the model does not give the time that the
 * step took (kernels), its parts are scaled to it.
 *
 * Memory: 310 bytes a request beside the history's (analysis/history.h); 24 more with a request in focus. */
#ifndef ANALYSIS_EXPLAIN_H
#define ANALYSIS_EXPLAIN_H

#include <stdbool.h>
#include <stdint.h>

#include "analysis/history.h"
#include "core/backend.h"
#include "core/workload.h"
#include "sim/cost.h"

struct err;

enum cause {
	/* Before it was let in. */
	CAUSE_CLIENT, /* held back by its client: --max-concurrency */
	CAUSE_ENTRY, /* came while a step ran */
	CAUSE_MEMORY, /* no KV memory for the first of the queue */
	CAUSE_PLACE, /* max_num_seqs were running */
	CAUSE_BUDGET, /* the step's tokens were spent */
	CAUSE_PREFILL, /* the same, on a long prompt */
	CAUSE_POLICY, /* the policy's choice */
	CAUSE_ORDER, /* since somebody was let in who came later */
	/* After that, without a turn. */
	CAUSE_PREEMPTED, /* it had lost its memory */
	CAUSE_SWAPPED, /* its KV was in host memory */
	CAUSE_TRANSFER, /* copies of KV */
	CAUSE_STALLED, /* it held memory, and the steps were not for it */
	CAUSE_PIPELINE, /* its step was planned, the one before it still ran */
	/* In its steps. */
	CAUSE_HOST, /* the host's part of them, and between them */
	CAUSE_OTHERS_PREFILL, /* what others' prompts added to them */
	CAUSE_OTHERS_DECODE, /* what the others' tokens added to them */
	CAUSE_RECOMPUTE, /* alone: tokens that a preemption had lost */
	CAUSE_OWN_PREFILL, /* alone: its prompt */
	CAUSE_OWN_DECODE, /* alone: its tokens */
	CAUSES
};
extern const char *const cause_names[]; /* one word each: JSON keys; NULL-terminated */
extern const char *const cause_words[]; /* as a table for people says it */

/* One request, nanoseconds. */
struct explained {
	int64_t first[CAUSES]; /* add up to TTFT; of one without a token, to all its time */
	int64_t after[CAUSES]; /* to E2E - TTFT */
};

struct explain_who {
	int32_t req;
	double amount; /* nanoseconds, or blocks x nanoseconds */
};
enum { EXPLAIN_WHO = 5 };
struct explain_list {
	struct explain_who at[EXPLAIN_WHO]; /* [n] the largest first */
	int32_t n;
	int32_t others; /* beyond them */
	double total; /* of all */
};

/* What is told of one request alone. */
struct explain_focus {
	int32_t req; /* -1: of none */
	int32_t ahead, running; /* as it came: waiting before it; holding memory */
	int32_t overtakers, first_overtaker; /* let in before it though they came later, while it was queued */
	int64_t turns[3], rows[3],
		tokens[3]; /* prompt, decode, computed again: turns; others' rows and prompt tokens in them */
	struct explain_list holders; /* of memory while it waited for memory or a place: blocks x ns */
	struct explain_list prefills; /* whose prompts it waited for or was slowed by: ns */
	struct history_table story; /* its phases */
};

struct explain {
	int64_t n;
	struct explained *each; /* [n] */
	struct explain_focus focus;
	struct explain_state *state;
};

/* focus: a request, or -1. cost: for runs that were not simulated, it outlives x; NULL: the simulator's own. ERR_MEMORY.
 * Release with explain_free. */
int explain_init(struct explain *x, const struct workload *w, int32_t focus, const struct cost *cost, struct err *e);
void explain_free(struct explain *x);

/* For whoever drives a run: the sink of its history, and what stands before its backend (run_io.stand_before, ctx x). */
struct history_sink explain_sink(struct explain *x);
int explain_stand_before(void *x, struct backend *b, struct err *e);
/* After history_finish. ERR_MEMORY. */
int explain_finish(struct explain *x, struct err *e);

/* rerun_execute with all of that: x from explain_init. *r as of run_execute. */
int explain_rerun(struct explain *x, const struct store_recipe *recipe, const struct run_settings *s,
		  const struct workload *w, const volatile int *stop, struct run_result *r, struct err *e);

int64_t explained_sum(const int64_t ns[CAUSES]);

#endif
