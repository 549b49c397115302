/* timeline.h: what happened when in a stored run, ready to be drawn: phases of requests, steps, how many waited and ran.
 *
 * A run of any length fits: a window of time, at most so many requests, steps in groups (analysis/step_groups.h). What was left
 * out is counted. Phases (analysis/history.h) come from the totals that the database keeps of each request: at most one of each
 * of queued, prefill, decode and held, what a preemption or a copy took lying within. Or the run is made again
 * (timeline_rerun): then each prompt piece, preemption and copy stands where it was. */
#ifndef ANALYSIS_TIMELINE_H
#define ANALYSIS_TIMELINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analysis/history.h"
#include "analysis/step_groups.h"
#include "analysis/store_series.h"

struct err;
struct store;

struct timeline_request {
	struct stored_request q; /* its strings are NULL: */
	int64_t name_at, tenant_at; /* offsets into texts; tenant -1: none */
	int64_t end_ns; /* finished, failed; else the end of the run */
	int64_t first, n; /* phases[first .. first + n), by time, without a gap; 0 of one that failed, from totals */
};

/* How many waited and ran from t_ns on, on one replica; the most of any moment until the next point. */
struct timeline_load {
	int64_t t_ns;
	int32_t replica, waiting, running;
};

struct timeline_options {
	int64_t from_ns, to_ns; /* what overlaps [from, to) is in it; INT64_MAX: to the end */
	int64_t max_requests; /* those that arrived first, or with `slowest` those whose E2E latency is longest */
	int64_t max_steps; /* groups of steps, and points of load, of all replicas, at most */
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
	struct phase *phases;
	int64_t n_phases, cap_phases;
	int64_t phases_left_out; /* beyond TIMELINE_PHASES */
	char *texts;
	int64_t n_texts, cap_texts;
	struct step_groups *steps; /* [timeline_replicas()] of each replica; none in them where they are not known */
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
/* Instead: the steps and phases of the run made once more, up to the end of the window. io gives stop and progress. A run that
 * decides otherwise than it did is ERR_INVARIANT. */
#define TIMELINE_PHASES 1000000 /* kept at most, 112 bytes each */
int timeline_rerun(struct timeline *t, const struct store_recipe *recipe, const struct run_settings *s,
		   const struct workload *w, const struct run_io *io, struct err *e);
void timeline_free(struct timeline *t);

static inline int32_t timeline_replicas(const struct timeline *t)
{
	return t->run.replicas > 1 ? t->run.replicas : 1;
}
/* Of all replicas together; *per (may be NULL): the most that a group stands for. */
int64_t timeline_steps(const struct timeline *t, int64_t *per);

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
