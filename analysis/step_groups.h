/* step_groups.h: the steps of a run of any length in bounded memory: consecutive steps become groups, of a size that doubles as
 * often as it must. Sums and extremes stay exact. For pictures, where a million steps have a thousand pixels. */
#ifndef ANALYSIS_STEP_GROUPS_H
#define ANALYSIS_STEP_GROUPS_H

#include <stdint.h>

#include "core/record.h"

struct err;

struct step_group {
	int64_t first; /* number of its first step */
	int64_t steps;
	int64_t start_ns, end_ns; /* of its first and last step; idle time between steps lies within */
	int64_t busy_ns; /* sum of the steps' durations */
	int64_t longest_ns; /* of one step */
	int64_t host_ns, transfer_ns; /* parts of busy_ns */
	/* Sums. */
	int64_t decodes, chunks, sampled, prefill_tokens, preempted;
	/* The most of any of its steps. */
	int32_t running, waiting, blocks_used, blocks_cached, decodes_most;
	int64_t prefill_most;
	/* Value x nanoseconds of the steps: divide by busy_ns for the mean while busy. */
	double running_ns, waiting_ns, used_ns, cached_ns;
};

struct step_groups {
	struct step_group *at; /* [n], n <= most */
	int64_t n, cap, most;
	int64_t per; /* steps of each group but the last */
	int64_t steps; /* in all of them */
};

/* At most `most` groups (2 and more). */
void step_groups_init(struct step_groups *g, int64_t most);
void step_groups_free(struct step_groups *g);
/* Steps come in order. ERR_MEMORY. */
int step_groups_add(struct step_groups *g, const struct step_row *t, struct err *e);

#endif
