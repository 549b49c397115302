/* policy_check_internal.h: what the files of `lockstep policy check` share: the checks are in policy_check_cases.c, running them
 * in children and making failures smaller in policy_check.c, how a failure is had again in policy_check_again.c. */
#ifndef ANALYSIS_POLICY_CHECK_INTERNAL_H
#define ANALYSIS_POLICY_CHECK_INTERNAL_H

#include "analysis/policy_check.h"
#include "analysis/policy_trial.h"
#include "analysis/random_case.h"

enum case_verdict { CASE_HOLDS, CASE_FAILS, CASE_WARNS, CASE_REFUSED };

/* What a judge has to say. */
struct case_words {
	char why[TRIAL_WHY];
	uint64_t hash; /* of what was decided; golden */
};

struct check {
	const char *name, *about;
	int64_t least; /* cases it runs even where there is no time */
	int64_t most; /* 0 = as many as there is time for; -1: as many as it has, for each policy (count) */
	int64_t (*count)(const struct policy_desc *d);
	int32_t largest; /* requests */
	bool fixed; /* the same cases whatever the seed */
	bool plain; /* parameters have their defaults unless they are given */
	bool (*wants)(const struct random_case *c); /* other workloads are drawn until it is so; NULL = any */
	void (*tune)(struct random_case *c, struct rng *r, int64_t k);
	enum case_verdict (*judge)(const struct random_case *c, struct case_words *w);
	bool replays; /* `replay` of the workload shows the failure */
};
extern const struct check policy_checks[];
extern const int32_t n_policy_checks;

/* Case k of a check as its attempt-th draw of settings; the caller looks whether they go together. params: see
 * check_options. ERR_MEMORY, ERR_INPUT. Release with random_case_free. */
int check_draw(const struct check *c, const struct policy_desc *d, const struct check_options *o, int64_t k,
	       int32_t attempt, struct random_case *out, struct err *e);
enum { CHECK_ATTEMPTS = 20 };

/* Fills file, replay and again; c: the small case, NULL = none; k: its number. */
int check_keep_case(struct check_result *r, const struct check *check, const struct check_options *o,
		    const struct policy_desc *d, const struct random_case *c, int64_t k, struct err *e);

#endif
