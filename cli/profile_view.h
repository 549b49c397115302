/* profile_view.h: a profile as people read it. */
#ifndef CLI_PROFILE_VIEW_H
#define CLI_PROFILE_VIEW_H

#include <stdbool.h>
#include <stdio.h>

#include "analysis/profile_roofline.h"
#include "sim/profile.h"

struct err;

/* ERR_INPUT for a --name that --cost-model could not tell from something else. NULL is fine. */
int profile_check_name(const char *name, struct err *e);

/* What it is of, on what, when. */
void profile_print_identity(FILE *f, const struct profile *p);
/* Times by operation; `all`: every point, else so many as fit a screen. */
void profile_print_points(FILE *f, const struct profile *p, bool all);
/* Whole steps beside what their parts add up to. Nothing when there are none. */
void profile_print_steps(FILE *f, const struct profile *p);
/* Each operation against the device's peaks and the time that `cost`, which r was made from, gives it. */
void profile_print_against(FILE *f, const struct profile *p, const struct profile_roofline *r, const char *cost,
			   bool all);

#endif
