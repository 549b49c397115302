/* explain_state.h: what explain.c and explain_focus.c keep while a run goes on; nobody else includes it. */
#ifndef ANALYSIS_EXPLAIN_STATE_H
#define ANALYSIS_EXPLAIN_STATE_H

#include "analysis/explain.h"
#include "core/batch.h"

/* The step that is being told. Its device time, model_ns by the model, takes device_ns. */
struct explain_step {
	const struct batch *batch;
	int64_t device_ns, host_ns, copies_ns, transfer_ns;
	int64_t model_ns, no_chunks_ns; /* without its prompts */
};

/* A request in the queue. */
struct explain_queue {
	int64_t seq; /* its turn by arrival */
	int64_t mark; /* place + 1 in marks of what had been waited for when it was overtaken; 0 = it was not */
	bool queued, held_back;
};

struct explain_mark {
	int64_t sum_ns[WAIT_CAUSES];
};

struct explain_focus_state;

/* One engine and what stands before its backend. */
struct explain_replica {
	const struct engine *engine;
	const struct cost *cost;
	struct backend inner;
	struct batch flights[2]; /* by step */
	struct explain_step step;
	int32_t *arrived; /* [n_arrived] in order of arrival */
	int64_t n_arrived, cap_arrived, front; /* those before `front` know whether they were overtaken */
};

struct explain_state {
	const struct cost *cost; /* of all; NULL: each simulator's own */
	bool measured; /* the model only divides what was measured */
	bool async;
	struct explain_replica **replicas; /* [n_replicas] each by itself: backends point at them */
	int32_t n_replicas, n_engines;
	int64_t cap_replicas;
	bool *has_token; /* [n] its first token has come */
	struct explain_queue *queue; /* [n] */
	struct explain_mark *marks;
	int64_t n_marks, cap_marks;
	int32_t in_flight, were_in_flight, most_in_flight; /* were: in the last round; most: 0 = no limit */
	bool no_memory;
	struct explain_focus_state *focus;
};

int explain_focus_init(struct explain *x, const struct workload *w);
void explain_focus_free(struct explain *x);
void explain_focus_event(struct explain *x, const struct event *ev);
void explain_focus_step(struct explain *x, const struct step_row *row);
/* slowed_ns: what others' prompts added to it. */
void explain_focus_turn(struct explain *x, const struct turn *t, int64_t slowed_ns);
void explain_focus_phase(struct explain *x, const struct phase *p);
void explain_focus_finish(struct explain *x);

#endif
