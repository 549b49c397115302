/* profile_points.h: single measured times into the points of a profile: those of the same operation and place become one,
 * their median. */
#ifndef ANALYSIS_PROFILE_POINTS_H
#define ANALYSIS_PROFILE_POINTS_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/profile.h"

struct err;

struct timed;
/* All zero is empty. */
struct timings {
	struct timed *at;
	int64_t n, cap;
};
void timings_free(struct timings *t);
/* warm_up: only counts where there is nothing else. half_ns: half the distance of its own quartiles, where the time is a
 * median already. x < 1 is left out; times below 0 are 0. */
int timings_add(struct timings *t, enum profile_op op, int64_t x, int64_t y, double ns, bool warm_up, double half_ns,
		struct err *e);
/* Adds the points to p and sorts it. */
int timings_reduce(struct profile *p, struct timings *t, struct err *e);
/* Products of more rows read the weights once, so they take at most as long as two products of fewer that add up to
 * them, and at least as long as any of fewer: points of matmul and head beyond that by more than a twentieth were
 * disturbed, and are put there. p is sorted. Returns how many were. */
int32_t timings_bound_products(struct profile *p);
/* A budget that ended early may have left a number of rows without its shortest context: nothing could be said then of
 * short ones but by going on from long ones, while its neighbours know. Drops such rows of decode and prefill, as long
 * as others have it. p is sorted. Returns how many points went. */
int32_t timings_drop_headless(struct profile *p);
/* Quantile q of n ordered values, linear between them. */
double timings_quantile(const double *ordered, int64_t n, double q);

#endif
