/* policy_check.h: is a policy sound? Every check draws random workloads, settings and parameters by a seed, runs them on the
 * simulator with the engine's books verified after each step, and says in a line what went wrong, at which step and with
 * which request; a failure is made as small as it can be before it is told. `lockstep policy check` is this.
 *
 * The policy is never run in this process: each check has a child of its own, so that a crash, a loop or a broken heap is
 * a failed check like another. */
#ifndef ANALYSIS_POLICY_CHECK_H
#define ANALYSIS_POLICY_CHECK_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "core/policy.h"

struct err;

enum check_verdict {
	CHECK_PASSED,
	CHECK_FAILED,
	CHECK_WARNED, /* sound, but somebody should know: requests may starve */
	CHECK_SKIPPED, /* its settings are refused, e.g. a prefix cache */
};
extern const char *const check_verdict_names[]; /* "passed", "failed", "warned", "skipped" */

enum { CHECK_NAME = 24, CHECK_TEXT = 400, CHECKS_MAX = 16 };

struct check_result {
	char name[CHECK_NAME]; /* "memory"; policy_check_name */
	enum check_verdict verdict;
	int64_t cases; /* that were run */
	double seconds;
	char text
		[CHECK_TEXT]; /* failed, warned: "step 17: request 3 ...". skipped: why. Else what there is to tell, or "" */
	/* Failed or warned: */
	char *file; /* the small case, as a trace; NULL: no folder was given */
	char *replay; /* command line that runs that trace with the case's settings; NULL: none can be given */
	char *again; /* command line that runs the check on the case as it was drawn */
};

struct check_report {
	struct check_result results[CHECKS_MAX];
	int32_t n, passed, failed, warned, skipped;
	char decisions
		[20]; /* hash over what it decides on fixed workloads (check "golden"): the same for two builds that
	                       decide alike; "" where that was not run */
};

struct check_options {
	const char *shown; /* the policy as the user named it ("./mine.so"), for command lines; NULL: its name */
	uint64_t seed;
	double seconds; /* for all checks together; each runs a few cases even if there is no time. 0 = those few */
	const char *only; /* one check by its name, or several with commas; NULL = all */
	int64_t first, cases; /* of each check: only cases first .. first + cases - 1; cases 0 = by the time */
	const char *params; /* "a=1,b=2": fixed for every case; NULL = drawn within their ranges */
	const char *dir; /* where failing workloads are written; NULL = nowhere */
	double call_seconds; /* processor time a call may take; 0 = 1 s */
	const char *golden; /* what `decisions` has to be; NULL = anything */
	const volatile int *stop; /* polled between checks; may be NULL */
	void (*done)(void *ctx, const struct check_result *r); /* after each check; may be NULL */
	void *ctx;
};

void check_options_default(struct check_options *o);

/* The checks there are, in order; NULL past the end. */
const char *policy_check_name(int32_t i);
const char *policy_check_about(int32_t i);

/* d: a built-in policy's, or of analysis/plugin.h. ERR_NONE also when checks failed: *out says which. ERR_INPUT: options that
 * make no sense. ERR_INTERRUPTED. Release with check_report_free, also after an error. */
int policy_check(const struct policy_desc *d, const struct check_options *o, struct check_report *out, struct err *e);
void check_report_free(struct check_report *r);

#endif
