/* validate_session.h: what `lockstep validate` goes through: workload, measured times, a loaded model, one validation after
 * another. What it prints is cmd_validate.c's. */
#ifndef CLI_VALIDATE_SESSION_H
#define CLI_VALIDATE_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include "analysis/validate.h"
#include "cli/run_opts.h"
#include "cli/run_session.h"
#include "sim/profile.h"

struct command;

struct validate_opts {
	struct run_opts run;
	int32_t repeats;
	double max_error; /* percent; negative = no limit */
	double profile_budget; /* s; 0 = by the workload */
	double spread_budget; /* s; negative = by the first execution */
	const char *loads; /* "0.3,0.7,1.2"; NULL = the trace's own arrivals */
	const char *report;
};

enum { VALIDATE_LOADS = 16 };

struct validate_session {
	struct session base; /* opts, arms, workload, database */
	struct validate_opts opts; /* the trace's speed changes with the load */
	double load[VALIDATE_LOADS]; /* [n_loads] 0 = the trace's own arrivals */
	int32_t n_loads;
	double base_speedup; /* of the trace, as typed */
	struct executor *executor;
	struct profile profile; /* all zero where the cost model needs none */
	bool measured_now; /* it was measured for this */
	char cost[96]; /* the simulated side's cost model */
	char cost_what[320]; /* the same for people */
	double *capacity, *estimate_s; /* [arms.n] requests/s; one execution at the trace's own arrivals */
	char **labels, **arguments; /* [n_labels], [n_arguments] */
	int32_t n_labels, n_arguments;
	struct validate_result *results; /* [n_results] */
	int32_t n_results;
	bool quiet; /* no progress */
};

/* Everything before the first execution: false when there is nothing to go on with (s->base.status says why; problems are
 * printed as they come). Release with validate_session_free. */
bool validate_session_begin(struct validate_session *s, const struct command *c, const struct validate_opts *o);
/* All loads and policies; results come as they are there. */
void validate_session_run(struct validate_session *s,
			  void (*show)(const struct validate_session *s, const struct validate_result *r));
void validate_session_free(struct validate_session *s);

#endif
