/* tape.h: everything an engine took from its backend: clock readings, step times, ends of sequences, of copies. Recorded by a backend
 * that stands before another; played back by one that stands alone. The same engine, workload and policy then make the
 * same decisions, in wall time too. */
#ifndef EXEC_TAPE_H
#define EXEC_TAPE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/backend.h"

struct err;

enum tape_kind {
	TAPE_NOW, /* the clock was read: a_ns */
	TAPE_STEP, /* a step came back: a_ns = start, b_ns = end, and the rest */
	TAPE_COPY, /* a copy between tiers was told to be done: a_ns = its ticket */
	N_TAPE_KINDS
};

struct tape_entry {
	uint8_t kind;
	bool measured; /* part_ns was given */
	int64_t a_ns, b_ns, host_ns;
	int64_t transfer_ns; /* TAPE_STEP: it waited for copies */
	int64_t part_ns[STEP_PARTS];
	uint64_t batch; /* TAPE_STEP: a digest of what the engine had asked for */
	int64_t eos_at; /* its first entry in eos */
	int32_t n_eos;
	double outside;
};

/* Owned by whoever made it; all zero is an empty tape. */
struct tape {
	struct tape_entry *entries;
	int64_t n, cap;
	int32_t *eos; /* requests */
	int64_t n_eos, cap_eos;
	bool interrupted; /* the run was stopped after the last entry: whoever ends a recorded run sets it */
};
void tape_free(struct tape *t);
int tape_add(struct tape *t, const struct tape_entry *x, struct err *e); /* eos_at is set when it has any */
int tape_add_eos(struct tape *t, const int32_t *eos, int32_t n, struct err *e); /* those of the entry added next */

/* Stands before `inner` (which stays the caller's) and appends what it says to *t. A step that came back as several
 * repeats is one entry each. */
int tape_recorder_create(struct backend *out, const struct backend *inner, struct tape *t, struct err *e);
/* Plays t, which outlives it. An engine that asks for something else than was recorded (another workload, policy or
 * version) ends with ERR_INPUT, which names the step. */
int tape_player_create(struct backend *out, const struct tape *t, struct err *e);
/* For run_hooks.stop: becomes non-zero where a recorded run was stopped, so that the played one ends at the same place, as
 * interrupted; also when *stop (may be NULL) does. */
const volatile int *tape_player_stop(struct backend *b, const volatile int *stop);
/* After engine_run: has all of it been played, and nothing else been asked for? Else ERR_INPUT. */
int tape_player_finish(const struct backend *b, struct err *e);
void tape_backend_free(struct backend *b); /* of either */

#endif
