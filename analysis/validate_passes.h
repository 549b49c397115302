/* validate_passes.h: one pass over the workload with somebody looking on. */
#ifndef ANALYSIS_VALIDATE_PASSES_H
#define ANALYSIS_VALIDATE_PASSES_H

#include "analysis/validate.h"
#include "analysis/validate_log.h"
#include "analysis/validate_watch.h"

struct err;
struct tape;

struct pass {
	const char *what; /* for progress */
	const struct run_settings *settings;
	const struct workload *workload;
	const struct validate_io *io;
	bool executes; /* on the caller's executor, with what the caller puts before it; else it takes no time */
	bool stored;
	int64_t steps, busy_ns; /* how much it will be, for progress; 0 = not known */

	struct watch *watch; /* NULL: nobody looks */
	struct tape *record; /* what the engine takes in goes there; may be NULL */
	struct event_log *log; /* decisions go there; may be NULL */
	struct log_check *check; /* decisions are held against another log; may be NULL */
};

/* As run_execute. A pass that takes no time is not interrupted either. */
int pass_run(struct pass *p, struct run_result *r, struct err *e);

/* Plays *tape to the engine alone: fills what r says of decisions and memory against what was executed (its settings,
 * workload, watch and log). ERR_MEMORY. */
int validate_replay(struct validate_result *r, const struct pass *executed, const struct tape *tape,
		    const struct validate_io *io, struct err *e);

#endif
