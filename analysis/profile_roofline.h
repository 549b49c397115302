/* profile_roofline.h: what the roofline says about a profile's points: to put estimates where nothing was measured, and to
 * hold what was measured against the device's peaks. */
#ifndef ANALYSIS_PROFILE_ROOFLINE_H
#define ANALYSIS_PROFILE_ROOFLINE_H

#include <stdint.h>

#include "models/device.h"
#include "models/model.h"
#include "sim/cost_models.h"
#include "sim/profile.h"

struct err;

struct profile_roofline {
	struct model model;
	struct device device;
	struct weight_format format;
	struct cost *cost; /* NULL: not open */
	double share; /* of the work that one of p's devices does: 1 / tensor-parallel size */
};
/* By p's model and device, or those given (NULL: p's). `cost` has the roofline's words (sim/cost_models.h); NULL: none.
 * ERR_INPUT when they are not known or not of p. */
int profile_roofline_open(struct profile_roofline *r, const struct profile *p, const char *model, const char *device,
			  const char *cost, struct err *e);
void profile_roofline_close(struct profile_roofline *r); /* all zero is fine */
/* FLOPs, bytes and time of one operation at one place (all of its layers); all zero for the host. */
void profile_roofline_op(const struct profile_roofline *r, enum profile_op op, int32_t x, int64_t y,
			 struct cost_op *out);
/* The peak FLOP/s its products or attention are held against. */
double profile_roofline_peak(const struct profile_roofline *r, enum profile_op op);

/* Puts points (of 0 repeats) for every operation that p has none of, and says so in its note. */
int profile_fill(struct profile *p, const struct profile_roofline *r, struct err *e);

#endif
