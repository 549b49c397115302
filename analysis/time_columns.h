/* time_columns.h: a stretch of a run's time in columns of the same length, as many as a picture is wide. */
#ifndef ANALYSIS_TIME_COLUMNS_H
#define ANALYSIS_TIME_COLUMNS_H

#include <stdint.h>

#include "analysis/step_groups.h"
#include "analysis/timeline.h"

struct time_column {
	double busy_ns; /* of it, in which steps ran; from loads: that is known of */
	double steps, decodes, prefill_tokens; /* sums; a step that reaches over an edge is shared out by time */
	double running_ns, waiting_ns, used_ns; /* value x ns: divide by busy_ns for the mean */
	int32_t running, waiting, blocks_used; /* the most of any moment */
};

/* Adds the steps to at[0 .. n), which covers [from_ns, to_ns). A group of steps that reaches over several columns counts as even
 * within itself, its most in each of them. */
void time_columns_add_steps(struct time_column *at, int n, int64_t from_ns, int64_t to_ns, const struct step_groups *g);
/* The same of how many waited and ran, on all replicas together; load[0 .. n_load) by replica, then by time. The most is not
 * known of several: it stays 0. */
void time_columns_add_load(struct time_column *at, int n, int64_t from_ns, int64_t to_ns,
			   const struct timeline_load *load, int64_t n_load);

/* The mean of a value x ns while busy; 0 where nothing ran. */
static inline double time_column_mean(const struct time_column *c, double value_ns)
{
	return c->busy_ns > 0 ? value_ns / c->busy_ns : 0;
}

#endif
