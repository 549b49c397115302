/* compare_live.h: runs made now, with one seed or several, and what differs between them. */
#ifndef CLI_COMPARE_LIVE_H
#define CLI_COMPARE_LIVE_H

#include <stdbool.h>
#include <stdint.h>

#include "analysis/effects.h"
#include "cli/run_session.h"

struct compare_live {
	const struct command *command;
	const struct run_opts *opts; /* of the first seed */
	int32_t seeds;
	bool all;

	struct session first; /* that of the first seed, for what is printed of settings */
	int32_t n_arms;
	struct effects_run *runs; /* [n_arms][seeds]; without metrics: not run, or not complete */
	struct effects *effects; /* [n_arms] against the first; those without a list were not made */
	struct effects_side *sides; /* [n_sides] with several seeds: the arms that have runs */
	int32_t n_sides;
	char **json; /* [n_json] of all runs, with --json */
	int64_t n_json, cap_json;
	int64_t first_run, last_run; /* stored under these numbers; 0 = none */
	bool one_seed; /* the seeds changed nothing */
	int status; /* exit status so far */
};
/* Everything up to printing; problems are printed as they come. Returns false when there is nothing to show. Release with
 * compare_live_free in any case. */
bool compare_live_run(struct compare_live *x, const struct command *c, const struct run_opts *o, int32_t seeds,
		      bool all);
void compare_live_free(struct compare_live *x);

#endif
