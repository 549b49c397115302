/* cohort.h: the running requests that decode, advanced together at the cost of what changes (DESIGN 4).
 *
 * A tick is one uniform advance: every member gets one token. Keyed by ticks are
 *   - a wheel of block_size buckets: a member stands in the bucket of the ticks (modulo block_size) at which its next
 *     token needs a new block; buckets are in admission order and members stay in theirs,
 *   - a heap of the ticks at which members end,
 *   - a heap of the ticks at which a member's context reaches the sliding window,
 *   - a heap of the ticks at which a member has computed what a fork of it waits for.
 * Kept sums: members, contexts, contexts capped by the window.
 */
#ifndef CORE_COHORT_H
#define CORE_COHORT_H

#include <stdint.h>

#include "core/tick_heap.h"

struct engine;
struct slot;
struct step;
struct err;

struct slot_list { /* intrusive, doubly linked, in admission order */
	int32_t head, tail, n;
};

struct cohort {
	int64_t tick;
	int32_t due; /* tick modulo block_size: the bucket whose members need a block at this tick */
	struct slot_list list; /* members */
	int64_t ctx; /* sum of computed + padding - dropped */
	int64_t ctx_window; /* sum of min(computed + padding + 1, window), as if nothing were dropped */
	int32_t below; /* members whose next context is below the window */
	struct slot_list *wheel; /* [block_size] */
	struct tick_heap ends, crossings;
	struct tick_heap branches; /* a live fork of a member starts; not used where the workload has no forks */
	int64_t last_ns; /* end of the last step in which the cohort advanced */
	int32_t *fresh; /* [n_fresh] members whose last token came at another time */
	int64_t n_fresh, cap_fresh;
};

int cohort_init(struct engine *g, struct err *e);
void cohort_free(struct engine *g);

/* Joins with fields exact at the present tick. Lazy mode: keyed by ticks. */
void cohort_join(struct engine *g, struct slot *s);
/* Leaves; computed, outputs and emitted are exact afterwards. */
void cohort_leave(struct engine *g, struct slot *s);

/* Blocks that the members whose bucket is due lack. */
int32_t cohort_demand(const struct engine *g);
/* Gives each of them its block, in admission order; how many it gave, or -1 (out of memory, in g->fault). */
int32_t cohort_take_blocks(struct engine *g);
/* Notes the pages that the tokens of the coming tick fill: when the members are scheduled, so that they come in the
 * order in which an exact walk would note them. */
int cohort_remember(struct engine *g, struct step *st);
/* One tick: sums move on; pages that are full now are remembered (st NULL: they have been). */
int cohort_advance(struct engine *g, struct step *st);
/* The two halves of it, for a run of uniform steps (one after another from start_ns, ending at end_ns[0 .. steps)): the
 * wheel turns once per step, the sums follow for all of them. */
struct wheel_run {
	int32_t taken; /* blocks given */
	int64_t block_ns; /* sum over them of the time from the start of their step to the run's end */
	int64_t step_ns; /* sum over the steps of their number, from 1, times their duration */
};
int cohort_turn_run(struct engine *g, int64_t start_ns, const int64_t *end_ns, int64_t steps, struct wheel_run *out);
void cohort_add_ticks(struct engine *g, int64_t ticks);
/* A member did not get its token in the tick just taken. */
void cohort_skipped(struct engine *g, struct slot *s);

/* When its last token came out. */
int64_t cohort_last_ns(const struct engine *g, const struct slot *s);
int cohort_set_fresh(struct engine *g, struct slot *s, int64_t last_ns);
void cohort_clear_fresh(struct engine *g, struct slot *s);

/* The next live fork of a member beyond what it has computed by the present tick. */
void cohort_branch(struct engine *g, const struct slot *s);

/* How many uniform steps may be taken at once from here, at most `most`. */
int64_t cohort_repeat(const struct engine *g, int64_t most);

#endif
