#include "traces/dist.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/err.h"

/* ln 2 in two parts: the first has 32 bits, so that k times it is exact for any exponent k. */
#define LN2_HI 0x1.62e42feep-1
#define LN2_LO 0x1.a39ef35793c76p-33

static uint64_t bits_of(double x)
{
	uint64_t u;
	memcpy(&u, &x, sizeof u);
	return u;
}

static double of_bits(uint64_t u)
{
	double x;
	memcpy(&x, &u, sizeof x);
	return x;
}

/* x = m 2^k with m in [sqrt(1/2), sqrt(2)); log m = 2 atanh(s), s = (m - 1) / (m + 1), |s| < 0.1716. */
double dist_log(double x)
{
	int k = 0;
	if (x < 0x1p-1022) { /* subnormal: bring it into the normal range first */
		x *= 0x1p54;
		k = -54;
	}
	uint64_t u = bits_of(x);
	k += (int)(u >> 52) - 1023;
	double m = of_bits((u & 0xfffffffffffffu) | (UINT64_C(1023) << 52));
	if (m > 0x1.6a09e667f3bcdp+0) {
		m *= 0.5;
		k++;
	}
	double s = (m - 1) / (m + 1), s2 = s * s, series = 0;
	for (int i = 27; i >= 3; i -= 2)
		series = (series + 1.0 / i) * s2;
	/* log m = 2 s + 2 s (s2/3 + s2^2/5 + ...): the small part is added last */
	double small = 2 * s * series;
	return k * LN2_HI + (2 * s + (small + k * LN2_LO));
}

/* exp(x) = 2^k exp(r), |r| <= ln(2)/2, by its Taylor series. */
double dist_exp(double x)
{
	if (x > 709.782712893384)
		return INFINITY;
	if (x < -745.2)
		return 0;
	double t = x * 1.4426950408889634;
	int k = (int)(t < 0 ? t - 0.5 : t + 0.5);
	double hi = x - k * LN2_HI, r = hi - k * LN2_LO;
	double series = 0;
	for (int i = 15; i >= 2; i--)
		series = (series + 1) * r / i;
	double e = 1 + (r + r * series);
	/* 2^k in two factors: one alone may be out of range although the product is not. */
	int half = k / 2;
	return e * of_bits((uint64_t)(1023 + half) << 52) * of_bits((uint64_t)(1023 + k - half) << 52);
}

double dist_pow(double x, double y)
{
	return dist_exp(y * dist_log(x));
}

/* Uniform in (0, 1]: its logarithm is finite. */
static double unit_above_zero(struct rng *r)
{
	return 1 - rng_unit(r);
}

double dist_exponential(struct rng *r)
{
	return -dist_log(unit_above_zero(r));
}

double dist_normal(struct rng *r)
{
	double x, y, q;
	do {
		x = 2 * rng_unit(r) - 1;
		y = 2 * rng_unit(r) - 1;
		q = x * x + y * y;
	} while (q >= 1 || q == 0);
	return x * sqrt(-2 * dist_log(q) / q);
}

double dist_gamma(struct rng *r, double shape)
{
	double boost = 1;
	if (shape < 1) {
		boost = dist_pow(unit_above_zero(r), 1 / shape);
		shape += 1;
	}
	double d = shape - 1.0 / 3, c = 1 / sqrt(9 * d);
	for (;;) {
		double x = dist_normal(r), v = 1 + c * x;
		if (v <= 0)
			continue;
		v = v * v * v;
		double u = unit_above_zero(r);
		if (u < 1 - 0.0331 * x * x * x * x || dist_log(u) < 0.5 * x * x + d * (1 - v + dist_log(v)))
			return boost * d * v;
	}
}

double dist_gap(struct rng *r, double burstiness)
{
	if (isinf(burstiness))
		return 1;
	if (burstiness == 1)
		return dist_exponential(r);
	return dist_gamma(r, burstiness) / burstiness;
}

/* Zipf by rejection-inversion (Hörmann and Derflinger, 1996): H is the integral of h(x) = x^-s, and its inverse is cheap.
 * Both are written with (e^y - 1)/y and log(1 + y)/y, so that s = 1 is no special case. */
static double expm1_ratio(double y)
{
	return fabs(y) < 1e-4 ? 1 + y / 2 * (1 + y / 3 * (1 + y / 4)) : (dist_exp(y) - 1) / y;
}

static double log1p_ratio(double y)
{
	return fabs(y) < 1e-4 ? 1 - y * (0.5 - y * (1.0 / 3 - y / 4)) : dist_log(1 + y) / y;
}

static double zipf_integral(double s, double x)
{
	double l = dist_log(x);
	return expm1_ratio((1 - s) * l) * l;
}

static double zipf_inverse(double s, double y)
{
	double t = (1 - s) * y;
	return t <= -1 ? INFINITY : dist_exp(log1p_ratio(t) * y);
}

static int64_t zipf_rank(double s, int64_t n, struct rng *r)
{
	double from = zipf_integral(s, 1.5) - 1, to = zipf_integral(s, (double)n + 0.5);
	double sure = 2 - zipf_inverse(s, zipf_integral(s, 2.5) - dist_pow(2, -s));
	for (;;) {
		double u = to + rng_unit(r) * (from - to), x = zipf_inverse(s, u);
		int64_t k = x >= (double)n ? n : (int64_t)(x + 0.5);
		k = k < 1 ? 1 : k;
		if ((double)k - x <= sure || u >= zipf_integral(s, (double)k + 0.5) - dist_pow((double)k, -s))
			return k;
	}
}

static double draw(const struct dist *d, struct rng *r)
{
	switch (d->kind) {
	case DIST_FIXED:
		return d->a;
	case DIST_UNIFORM:
		return d->a + (d->b - d->a) * rng_unit(r);
	case DIST_NORMAL:
		return d->a + d->b * dist_normal(r);
	case DIST_LOGNORMAL:
		return d->a * dist_exp(d->b * dist_normal(r));
	case DIST_EXPONENTIAL:
		return d->a * dist_exponential(r);
	case DIST_ZIPF:
		return d->lo - 1 + (double)zipf_rank(d->a, (int64_t)(d->hi - d->lo) + 1, r);
	case DIST_RESAMPLE:
		break;
	}
	return 0;
}

double dist_real(const struct dist *d, struct rng *r)
{
	double x = draw(d, r);
	for (int tries = 0; (x < d->lo || x > d->hi) && tries < 1000; tries++)
		x = draw(d, r);
	return x < d->lo ? d->lo : x > d->hi ? d->hi : x;
}

int64_t dist_whole(const struct dist *d, struct rng *r)
{
	if (d->kind == DIST_UNIFORM && d->a <= d->b)
		return (int64_t)d->a + (int64_t)rng_below(r, (uint64_t)((int64_t)d->b - (int64_t)d->a) + 1);
	double x = dist_real(d, r);
	return x <= 0 ? 0 : x >= 9e15 ? (int64_t)9e15 : (int64_t)(x + 0.5);
}

struct dist_form {
	const char *name;
	enum dist_kind kind;
	int n; /* numbers it takes */
	const char *usage;
};

static const struct dist_form forms[] = {
	{"fixed", DIST_FIXED, 1, "fixed:N"},
	{"uniform", DIST_UNIFORM, 2, "uniform:LO,HI"},
	{"normal", DIST_NORMAL, 2, "normal:MEAN,STD"},
	{"lognormal", DIST_LOGNORMAL, 2, "lognormal:MEDIAN,SIGMA"},
	{"exponential", DIST_EXPONENTIAL, 1, "exponential:MEAN"},
	{"zipf", DIST_ZIPF, 3, "zipf:EXPONENT,LO,HI"},
	{"resample", DIST_RESAMPLE, 0, "resample:FILE"},
};

static const struct dist_form *find_form(const char *text)
{
	size_t len = strcspn(text, ":");
	for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++)
		if (strlen(forms[i].name) == len && !strncmp(forms[i].name, text, len))
			return &forms[i];
	return NULL;
}

/* "1,2,min=3": the n plain numbers into v, then bounds. */
static int parse_numbers(struct dist *d, const struct dist_form *f, const char *at, double *v, const char *text,
			 const char *what, struct err *e)
{
	int n = 0;
	for (;;) {
		double *into = !strncmp(at, "min=", 4)   ? &d->lo
			       : !strncmp(at, "max=", 4) ? &d->hi
			       : n < f->n                ? &v[n]
							 : NULL;
		bool bound = into == &d->lo || into == &d->hi;
		char *end = NULL;
		double x = into ? strtod(at + (bound ? 4 : 0), &end) : 0;
		if (!into || end == at + (bound ? 4 : 0) || (*end && *end != ',') || !isfinite(x) || fabs(x) > 1e15)
			return err_set(e, ERR_INPUT, "%s: \"%s\" is not of the form %s", what, text, f->usage);
		*into = x;
		n += !bound;
		if (!*end)
			break;
		at = end + 1;
	}
	if (n != f->n)
		return err_set(e, ERR_INPUT, "%s: \"%s\" is not of the form %s", what, text, f->usage);
	return ERR_NONE;
}

static const char *bad_range(const struct dist *d)
{
	if (d->lo > d->hi)
		return "its range is empty";
	switch (d->kind) {
	case DIST_FIXED:
		return d->a < 0 ? "it is negative" : NULL;
	case DIST_UNIFORM:
		return d->a < 0 ? "LO is negative" : d->a > d->b ? "LO is above HI" : NULL;
	case DIST_NORMAL:
		return d->b < 0 ? "STD is negative" : NULL;
	case DIST_LOGNORMAL:
		return d->a <= 0 ? "MEDIAN must be above 0" : d->b < 0 || d->b > 50 ? "SIGMA must be in 0 .. 50" : NULL;
	case DIST_EXPONENTIAL:
		return d->a < 0 ? "MEAN is negative" : NULL;
	case DIST_ZIPF:
		return d->a <= 0 || d->a > 100 ? "EXPONENT must be above 0 and at most 100"
		       : d->lo < 0             ? "LO is negative"
					       : NULL;
	case DIST_RESAMPLE:
		break;
	}
	return NULL;
}

int dist_parse(struct dist *d, const char *text, const char *what, struct err *e)
{
	memset(d, 0, sizeof *d);
	d->hi = INFINITY;
	const struct dist_form *f = find_form(text);
	bool bare = !f && strchr("0123456789.", *text) && *text;
	if (bare)
		f = &forms[0];
	if (!f)
		return err_set(e, ERR_INPUT,
			       "%s: \"%s\" is none of fixed, uniform, normal, lognormal, exponential, zipf, resample",
			       what, text);
	d->kind = f->kind;
	const char *colon = strchr(text, ':');
	const char *args = bare ? text : colon ? colon + 1 : "";
	if (f->kind == DIST_RESAMPLE) {
		d->file = args;
		return *args ? ERR_NONE : err_set(e, ERR_INPUT, "%s: \"%s\" names no file (%s)", what, text, f->usage);
	}
	double v[3] = {0};
	int code = parse_numbers(d, f, args, v, text, what, e);
	if (code)
		return code;
	d->a = v[0];
	d->b = v[1];
	if (f->kind == DIST_UNIFORM) { /* bounds just narrow it */
		d->a = d->a < d->lo ? d->lo : d->a;
		d->b = d->b > d->hi ? d->hi : d->b;
	}
	if (f->kind == DIST_ZIPF) {
		d->lo = v[1];
		d->hi = v[2];
	}
	const char *bad = bad_range(d);
	return bad ? err_set(e, ERR_INPUT, "%s: \"%s\": %s", what, text, bad) : ERR_NONE;
}
