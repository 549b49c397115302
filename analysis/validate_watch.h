/* validate_watch.h: stands between the engine and a backend and writes down every step: what it was asked for, how long
 * it took, which pages it would have touched. Given a recording, it lets the engine see the recording's times instead,
 * while the backend behind it still gets every batch: the same decisions, timed once more (or priced, where the backend
 * is the simulator). */
#ifndef ANALYSIS_VALIDATE_WATCH_H
#define ANALYSIS_VALIDATE_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "analysis/validate.h"
#include "core/backend.h"
#include "core/tables.h"

struct err;
struct tape;

struct watch_step {
	enum validate_kind kind;
	bool idle_before; /* the engine had nothing to do just before it */
	bool has_parts;
	int64_t start_ns, end_ns; /* as the engine saw them */
	int64_t took_ns, host_ns; /* of the backend behind; it did not get the steps from watch.cut on */
	double part_ns[STEP_PARTS];
	double outside;
	uint64_t tables; /* digest of the step's block tables, as a kernel sees them; 0 = not asked for */
};

struct watch {
	/* Set by the caller. */
	const struct tape *play; /* NULL: the engine sees the backend's own times */
	bool tables; /* digest block tables */
	/* With play: from the first step on that would make the backend's own time more than budget_ns (by what it took in
	 * `first`), the backend gets no more of them. 0 = it gets all. */
	const struct watch *first;
	int64_t budget_ns;
	const volatile int *stop;
	void (*progress)(void *ctx, int64_t steps, int64_t busy_ns); /* may be NULL */
	void *ctx;

	/* What came of it; steps is the caller's to release with watch_free. */
	struct watch_step *steps;
	int64_t n, cap;
	int64_t busy_ns;
	int64_t cut; /* steps that the backend got, all of them first */

	/* While it runs. */
	struct backend inner, player;
	const struct engine *engine;
	struct batch_tables scratch;
	int64_t waited; /* steps that have come back */
	int64_t spent_ns; /* of the backend */
	bool over; /* the budget */
	bool idle;
};

/* Puts w before *b (which outlives it); *b becomes w. The shape of run_io.stand_before but for the context. */
int watch_stand_before(struct watch *w, struct backend *b, struct err *e);
void watch_free(struct watch *w);

#endif
