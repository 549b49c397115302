/* case_shrink.h: makes a random case that fails as small as it can and still fails: fewer requests, shorter prompts and outputs,
 * fewer features, smaller limits. */
#ifndef ANALYSIS_CASE_SHRINK_H
#define ANALYSIS_CASE_SHRINK_H

#include "analysis/random_case.h"

struct shrink {
	bool (*fails)(void *ctx, const struct random_case *c);
	void *ctx;
	int64_t tries; /* how often it may still be asked; < 0 = as often as it takes */
};

/* Leaves out requests alone. */
void case_drop_requests(struct random_case *c, struct shrink *s);
/* Everything. Without memory the case stays as it is. */
void case_shrink(struct random_case *c, struct shrink *s);

#endif
