/* history.h: what happened to each request of a run, told while it goes: phases that leave no gap between its arrival and its
 * last token, and every turn it had in a step. Made from the decision events, of a run that goes on or of a stored one that
 * is made again (analysis/rerun.h, cli/recall.h).
 *
 * Memory: 160 bytes a request of the workload, and the rows of two steps of each replica. Who keeps phases pays for them:
 * history_table has a bound. Time: that of the run with every step walked.
 *
 * Several replicas are told apart: a request has all its phases in the one that serves it, steps are each one's own. */
#ifndef ANALYSIS_HISTORY_H
#define ANALYSIS_HISTORY_H

#include <stdbool.h>
#include <stdint.h>

#include "analysis/run.h"
#include "core/choices.h"
#include "core/record.h"

struct err;
struct engine;
struct store_recipe;

enum phase_kind {
	PHASE_QUEUED, /* arrived, never let in yet */
	PHASE_PREFILL, /* one step that computed a piece of its prompt */
	PHASE_RECOMPUTE, /* one step, most of whose tokens a preemption had lost */
	PHASE_DECODE, /* steps in a row, a token in each */
	PHASE_STALLED, /* it holds memory, but had no turn in the steps that ran */
	PHASE_PREEMPTED, /* lost its memory, waits to be let in again */
	PHASE_SWAPPED, /* its KV is in host memory, it waits to be let in again */
	PHASE_LOADING, /* waits for its KV to come from another tier of memory */
	PHASE_HELD, /* ended; its row goes on and holds memory (static batching) */
	PHASE_KINDS
};
extern const char *const phase_names[]; /* "queued", "prefill", ..., NULL */

/* One request's phases follow each other without a gap from arrival to the end of its last token, PHASE_HELD after that; those of
 * no length are left out. QUEUED adds up to queue time, PREEMPTED and SWAPPED to preempted time, LOADING to transfer
 * time, as core/request.h has them. */
struct phase {
	int32_t req;
	int32_t replica;
	enum phase_kind kind;
	int64_t begin_ns, end_ns;
	int64_t first_step, last_step; /* those it had a turn in; waiting: -1 and the step that ended it */
	int64_t tokens; /* computed in it */
	int64_t again; /* of them, those a preemption had lost */
	int32_t by; /* PREEMPTED, SWAPPED: who was served in its stead; -1: nobody, it found no memory for itself */
	bool open; /* the run ended in the midst of it: no causes, and no engine to ask */
	int64_t waited_ns[WAIT_CAUSES]; /* QUEUED, PREEMPTED, SWAPPED: what for; they add up to its length */
};

/* One request's part in one step, told after the step, after the phases that came before it and before its own. */
struct turn {
	int32_t req;
	int32_t replica;
	enum phase_kind kind; /* PREFILL, RECOMPUTE, DECODE */
	int64_t since_ns; /* up to where its story was told: the end of its last turn, or when it was let in */
	int64_t since_step; /* its last turn's; the step before the one that let it in */
	int64_t step, start_ns, end_ns; /* of the step */
	int32_t tokens, again; /* as in struct phase */
	int32_t ctx; /* tokens before it; DECODE: what it attends to, its own included */
	bool chunk; /* a piece of a prompt; with --kv-cache off every turn is one */
	bool first_token; /* its first token came out at end_ns */
	int64_t transfer_ns; /* of the step: its own KV came from another tier meanwhile */
};

struct history_sink {
	void *ctx;
	/* Each may be NULL. Pointers are valid during the call. */
	void (*event)(void *ctx, const struct event *ev); /* before anything is made of it */
	void (*step)(void *ctx, const struct step_row *row); /* before its turns */
	void (*turn)(void *ctx, const struct turn *t);
	void (*phase)(void *ctx, const struct phase *p); /* when it is over */
	void (*engine)(void *ctx, const struct engine *g); /* before the first step; each replica's, in their order */
};

struct history;
/* For n requests. */
int history_create(struct history **out, int64_t n, const struct history_sink *sink, struct err *e);
void history_free(struct history *h);
/* For run_io: ctx is the history; history_engine once for each replica, in their order. history_step is needed only for what copies between tiers take, and sink->step. */
void history_engine(void *h, const struct engine *g);
void history_event(void *h, const struct event *ev);
void history_step(void *h, const struct step_row *row);
/* Tells the phases of those that have not ended. ERR_MEMORY when some could not be told. */
int history_finish(struct history *h, struct err *e);

/* rerun_execute with a history: io gives stop, progress and stand_before (with its own ctx); the rest of it is not used. */
int history_rerun(const struct store_recipe *recipe, const struct run_settings *s, const struct workload *w,
		  const struct history_sink *sink, const struct run_io *io, struct run_result *r, struct err *e);

/* --- kept in arrays ------------------------------------------------------------------------------------------------ */

/* Phases of some requests and of a time window. */
struct history_table {
	/* Set by the caller. */
	const bool *wanted; /* [n] NULL: all requests */
	int64_t from_ns, to_ns; /* phases that reach into it; both 0: all */
	int64_t most; /* phases kept at most (112 bytes each); 0: no bound */
	bool steps; /* keep the steps of the window as well (152 bytes each) */

	/* Filled: by request, then by time. */
	struct phase *phases; /* [n] */
	int64_t n, cap;
	int64_t left_out; /* beyond `most` */
	struct step_row *step; /* [n_steps] */
	int64_t n_steps, cap_steps;
	bool no_memory;
};
/* The sink that fills t, which outlives it. */
struct history_sink history_table_sink(struct history_table *t);
/* After history_finish or history_rerun: sorts. ERR_MEMORY when something is missing. */
int history_table_sort(struct history_table *t, struct err *e);
void history_table_free(struct history_table *t);

#endif
