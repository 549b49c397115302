/* timeline.h: what happened when in a stored run, ready to be drawn: phases of requests, steps, how many waited and ran.
 *
 * A run of any length fits: a window of time, at most so many requests, steps in groups (analysis/step_groups.h). What was left
 * out is counted. Phases come from the totals that the database keeps of each request, or, where the run was made again
 * (timeline_watch), from the decision log: then each prompt piece, preemption and copy stands where it was. */
#ifndef ANALYSIS_TIMELINE_H
#define ANALYSIS_TIMELINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analysis/step_groups.h"
#include "analysis/store_series.h"

struct err;
struct event;
struct store;

enum span_kind {
	SPAN_QUEUED, /* arrived, never looked after yet */
	SPAN_PREFILL, /* from the step that takes it in to its first token; after a preemption: until it decodes again */
	SPAN_CHUNK, /* within SPAN_PREFILL: a step that computes a piece of its prompt; a: tokens, b: where the piece begins */
	SPAN_DECODE, /* a: tokens, where known */
	SPAN_PREEMPTED, /* out of memory, until a step takes it back; a: computed tokens that were lost */
	SPAN_TRANSFER, /* waits for its KV to come from another tier; a: blocks */
	SPAN_HELD, /* finished, its memory kept by static batching */
	SPAN_FAILED, /* arrived and never finished, where no more is known */
	SPAN_KINDS
};
const char *span_name(enum span_kind k);

struct timeline_span {
	int64_t start_ns, end_ns;
	int64_t a, b; /* see above; 0 = nothing to say */
	enum span_kind kind;
};

struct timeline_request {
	struct stored_request q; /* its strings are NULL: */
	int64_t name_at, tenant_at; /* offsets into texts; tenant -1: none */
	int64_t end_ns; /* finished, failed; else the end of the run */
	int64_t first, n; /* spans[first .. first + n), by start; a chunk follows the prefill it lies in */
};

/* How many waited and ran from t_ns on, on one replica; the most of any moment until the next point. */
struct timeline_load {
	int64_t t_ns;
	int32_t replica, waiting, running;
};

struct timeline_options {
	int64_t from_ns, to_ns; /* what overlaps [from, to) is in it; INT64_MAX: to the end */
	int64_t max_requests; /* those that arrived first, or with `slowest` those whose E2E latency is longest */
	int64_t max_steps; /* groups of steps, and points of load, at most */
	bool slowest;
};
void timeline_options_default(struct timeline_options *o); /* all of the run; 1,000 requests, 100,000 groups */

struct timeline {
	struct timeline_options o;
	struct stored_run run;
	struct timeline_request *requests; /* [n], in the order of the workload */
	int64_t n, cap_requests;
	int64_t in_window; /* requests that were there in the window */
	int64_t stored; /* requests in the database */
	int64_t unfinished; /* of those in the window: neither finished, rejected nor aborted */
	int32_t *slot; /* [run.requests] place in `requests`, -1: not in it */
	struct timeline_span *spans;
	int64_t n_spans, cap_spans;
	char *texts;
	int64_t n_texts, cap_texts;
	struct step_groups steps; /* none where they are not known */
	struct timeline_load
		*load; /* [n_load] by time; only where no steps are known: from the totals of finished requests */
	int64_t n_load, cap_load;
	int64_t last_ns; /* the last moment that is known of */
	bool exact; /* phases are of the decision log */
};

/* The run and its requests, with phases of their totals. Release with timeline_free, also after an error. */
int timeline_read(struct timeline *t, struct store *s, int64_t run_id, const struct timeline_options *o, struct err *e);
/* Its steps, where they are stored; else how many waited and ran. */
int timeline_read_steps(struct timeline *t, struct store *s, struct err *e);
void timeline_free(struct timeline *t);

static inline const char *timeline_name(const struct timeline *t, const struct timeline_request *r)
{
	return t->texts + r->name_at;
}

/* In words, what of the window is in it: "1,000 of the 19,366 requests there were in it (the first to arrive); all 3,625 steps". */
void timeline_left_out(const struct timeline *t, char *buf, size_t size);

/* Chrome's Trace Event Format (JSON object form), into `path` ("-": stdout). docs/timeline.md tells what is in it. *bytes: how
 * many were written. ERR_IO. */
int timeline_write_trace(const struct timeline *t, const char *path, int64_t *bytes, struct err *e);

#endif
