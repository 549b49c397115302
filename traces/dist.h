/* dist.h: random numbers of other shapes, on core/rng.h, and the elementary functions they need. Only +, -, x, / and
 * sqrt of IEEE doubles decide here (libm's logarithms differ between machines), so a seed gives the same numbers
 * everywhere. The functions are within 4 units in the last place of the true value. */
#ifndef TRACES_DIST_H
#define TRACES_DIST_H

#include <stdint.h>

#include "core/rng.h"

struct err;

double dist_log(double x); /* natural; x > 0 and finite */
double dist_exp(double x); /* underflows to 0, overflows to INFINITY */
double dist_pow(double x, double y); /* x > 0; dist_exp(y x dist_log(x)): relative error about |y log x| x 1e-16 */

double dist_exponential(struct rng *r); /* mean 1 */
double dist_normal(struct rng *r); /* mean 0, variance 1 (Marsaglia's polar method; draws a fresh pair each time) */
/* Mean `shape`, scale 1 (Marsaglia and Tsang, 2000; shape < 1 by their boost). shape > 0 and finite. */
double dist_gamma(struct rng *r, double shape);
/* A gap of mean 1 whose squared coefficient of variation is 1/burstiness; INFINITY gives 1. */
double dist_gap(struct rng *r, double burstiness);

enum dist_kind { DIST_FIXED, DIST_UNIFORM, DIST_NORMAL, DIST_LOGNORMAL, DIST_EXPONENTIAL, DIST_ZIPF, DIST_RESAMPLE };

/* A distribution of whole numbers (lengths, counts), or of seconds. */
struct dist {
	enum dist_kind kind;
	double a, b; /* fixed: value; uniform: lo, hi (both included); normal: mean, std; lognormal: median, sigma of
	                    the logarithm; exponential: mean; zipf: exponent, lowest value (lo .. hi is
	                    its range, P(x) falls with (x - lo + 1)^-exponent) */
	double lo, hi; /* draws outside are drawn again (after 1,000 tries: the nearer bound) */
	const char *file; /* resample: where values come from; the caller loads them */
};

/* Parses "fixed:512" (or "512"), "uniform:LO,HI", "normal:MEAN,STD", "lognormal:MEDIAN,SIGMA", "exponential:MEAN",
 * "zipf:EXPONENT,LO,HI" (LO likeliest) and "resample:FILE", each but the first and last optionally followed by
 * ",min=X" and ",max=Y". `what` names it in errors ("--input-len"). `file` points into text. */
int dist_parse(struct dist *d, const char *text, const char *what, struct err *e);
/* A draw as a real number. Not for resample. */
double dist_real(const struct dist *d, struct rng *r);
/* A draw as a whole number, to the nearest, at least 0. */
int64_t dist_whole(const struct dist *d, struct rng *r);

#endif
