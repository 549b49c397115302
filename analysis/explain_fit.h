/* explain_fit.h: what a step costs on the machine that ran it, from its own steps: time = a + b x prefill tokens + c x decodes +
 * d x decode context, by least squares, no coefficient below 0. For runs on real kernels of which there is no profile. */
#ifndef ANALYSIS_EXPLAIN_FIT_H
#define ANALYSIS_EXPLAIN_FIT_H

#include "core/record.h"
#include "sim/cost.h"

struct err;

enum { FIT_TERMS = 4 };

struct explain_fit {
	/* Sums over the steps so far. */
	double xx[FIT_TERMS][FIT_TERMS], xy[FIT_TERMS], yy, y;
	int64_t steps;
	/* After explain_fit_solve. */
	double at[FIT_TERMS]; /* a, b, c, d: ns */
	double error; /* root of the mean squared residual, over the mean step */
};

/* All zero at first. What a step waited for copies is left out. */
void explain_fit_add(struct explain_fit *f, const struct step_row *row);
/* And the cost model it makes (cost_free). ERR_INPUT when there was no step. */
int explain_fit_solve(struct explain_fit *f, struct cost **out, struct err *e);

#endif
