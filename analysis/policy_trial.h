/* policy_trial.h: one random case under a policy, on the simulator, with everything looked at that must hold whatever the
 * policy: limits and books after each step, each request's end and times, totals, nothing left behind. */
#ifndef ANALYSIS_POLICY_TRIAL_H
#define ANALYSIS_POLICY_TRIAL_H

#include "analysis/random_case.h"
#include "core/backend.h"
#include "core/err.h"
#include "core/record.h"

struct cost;
struct source;

enum { TRIAL_WHY = 360 };

/* How the case is driven. */
struct trial_way {
	bool aborting; /* requests are given up at random, before plans and while steps run */
	bool tokens; /* every token is told: rows are walked */
	bool events; /* the decision log is kept */
	bool exact_walk, single_steps; /* as in engine_config */
	bool unchecked; /* the books are not verified after each step: as fast as it goes */
	/* Who looks on; each may be NULL. */
	void *ctx;
	bool (*batch)(void *ctx, const struct engine *g, const struct batch *b, char why[256]); /* false: wrong */
	void (*copier)(void *ctx, const struct backend *inner, const struct engine_config *c, struct backend *out);
};

struct trial {
	const struct random_case *c;
	struct trial_way way;
	struct workload w;
	struct request *requests; /* [w.n] */
	int64_t *last_ns; /* [w.n] last token seen, -1 */
	int32_t *tokens; /* [w.n] seen */
	int32_t *ended; /* [w.n] how often it was said to have ended */
	int64_t gaps, gap_sum_ns;
	int64_t step; /* the last one told of, -1 */
	struct event *events; /* [n_events] */
	int64_t n_events, cap_events;
	struct engine_stats stats; /* after trial_run */
	struct rng rng;
	struct source *source;
	struct policy policy;
	struct cost *cost;
	struct backend backend, copier;
	struct recorder recorder;
	struct engine *engine;
	char why[TRIAL_WHY]; /* what is wrong, "" = nothing. Requests are called as in random_case_print: from 1 */
};

/* ERR_INPUT: the settings do not go together, or the policy refuses them; others are faults. Close it in any case. */
int trial_open(struct trial *t, const struct random_case *c, const struct trial_way *way, struct err *e);
/* To the end. true: all is well; else t->why. */
bool trial_run(struct trial *t);
void trial_close(struct trial *t);

/* The first one to differ, or -1: how two logs are told apart. `n` of each at most; INT64_MAX = all. */
int64_t trial_events_differ(const struct trial *a, const struct trial *b, int64_t n);
/* "admits request 3" */
void trial_event_text(const struct event *ev, char *text, int64_t size);

#endif
