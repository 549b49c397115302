#include "analysis/bootstrap.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/metrics.h"
#include "core/err.h"
#include "core/mem.h"
#include "core/rng.h"

enum { BLOCKS_LEAST = 25, BLOCKS_MOST = 250, LOOKED_AT = 20000, STREAM = 0x626f6f74 };

/* --- how long blocks must be -------------------------------------------------------------------------------------- */

static double covariance(const double *x, int64_t n, int64_t lag)
{
	double sum = 0;
	for (int64_t i = 0; i + lag < n; i++)
		sum += x[i] * x[i + lag];
	return sum / (double)n;
}

/* 1 up to half of m, then down to 0 at m. */
static double trapezoid(int64_t lag, int64_t m)
{
	double t = (double)lag / (double)m;
	return t <= 0.5 ? 1 : 2 * (1 - t);
}

/* x: centred. The lag from which on correlations are small, so many of them in a row; doubled. */
static int64_t bandwidth(const double *x, int64_t n, double variance)
{
	double small = 2 * sqrt(log10((double)n) / (double)n);
	int64_t row = (int64_t)sqrt(log10((double)n));
	row = row < 5 ? 5 : row;
	int64_t most = (int64_t)ceil(sqrt((double)n)) + row, run = 0, lag = 1;
	for (; lag <= most && lag < n && run < row; lag++)
		run = fabs(covariance(x, n, lag)) < small * variance ? run + 1 : 0;
	int64_t m = lag - 1 - run;
	return m < 1 ? 1 : 2 * m;
}

/* Of centred values: Politis and White's length for blocks drawn from a circle. */
static double natural_block(const double *x, int64_t n)
{
	double variance = covariance(x, n, 0);
	if (!(variance > 0))
		return 1;
	int64_t m = bandwidth(x, n, variance);
	double spectrum = variance, slope = 0;
	for (int64_t lag = 1; lag <= m && lag < n; lag++) {
		double r = 2 * trapezoid(lag, m) * covariance(x, n, lag);
		spectrum += r;
		slope += r * (double)lag;
	}
	if (!(spectrum > 0))
		return 1;
	double d = 4.0 / 3 * spectrum * spectrum;
	return cbrt(2 * slope * slope / d * (double)n);
}

/* Never so long that there are too few of them; nor so short that there are more than tell anything, which take time. */
static int64_t cap_block(double length, int64_t n)
{
	double most = fmin(3 * sqrt((double)n), (double)n / BLOCKS_LEAST);
	length = ceil(fmax(fmin(length, most), (double)n / BLOCKS_MOST));
	return length < 1 ? 1 : (int64_t)length;
}

/* --- a series ----------------------------------------------------------------------------------------------------- */

struct ranked {
	double v;
	int32_t from;
};

static int larger_first(const void *x, const void *y)
{
	const struct ranked *a = x, *b = y;
	if (a->v != b->v)
		return a->v > b->v ? -1 : 1;
	return a->from < b->from ? -1 : a->from > b->from;
}

static int rank(struct boot_series *s, struct err *e)
{
	struct ranked *r = mem_alloc((size_t)(s->n_values + 1) * sizeof *r);
	int64_t k = 0;
	if (!r)
		return err_no_memory(e, "intervals");
	for (int64_t i = 0; i < s->n; i++)
		if (!isnan(s->values[i]))
			r[k++] = (struct ranked){s->values[i], (int32_t)i};
	qsort(r, (size_t)k, sizeof *r, larger_first);
	for (int64_t i = 0; i < k; i++) {
		s->sorted[i] = r[i].v;
		s->from[i] = r[i].from;
	}
	mem_free(r);
	return ERR_NONE;
}

/* Of a long series the means of neighbours are looked at: their correlation takes as long, in fewer steps. */
static int choose_block(struct boot_series *s, struct err *e)
{
	int64_t group = s->n / LOOKED_AT + 1, n = (s->n + group - 1) / group;
	double *x = mem_zalloc((size_t)n + 1, sizeof *x), mean = 0;
	if (!x)
		return err_no_memory(e, "intervals");
	for (int64_t i = 0; i < s->n_values; i++)
		mean += s->sorted[i] / (double)s->n_values;
	for (int64_t i = 0; i < s->n; i++)
		x[i / group] += isnan(s->values[i]) ? 0 : (s->values[i] - mean) / (double)group;
	s->block = s->n > 1 ? cap_block(natural_block(x, n) * (double)group, s->n) : 1;
	mem_free(x);
	return ERR_NONE;
}

int boot_series_make(struct boot_series *s, const double *values, int64_t n, struct err *e)
{
	*s = (struct boot_series){.n = n};
	s->values = mem_alloc((size_t)(n + 1) * sizeof *s->values);
	s->sorted = mem_alloc((size_t)(n + 1) * sizeof *s->sorted);
	s->from = mem_alloc((size_t)(n + 1) * sizeof *s->from);
	int rc = s->values && s->sorted && s->from ? ERR_NONE : err_no_memory(e, "intervals");
	if (rc == ERR_NONE) {
		memcpy(s->values, values, (size_t)n * sizeof *values);
		for (int64_t i = 0; i < n; i++)
			s->n_values += !isnan(values[i]);
		rc = rank(s, e);
	}
	if (rc == ERR_NONE)
		rc = choose_block(s, e);
	if (rc)
		boot_series_free(s);
	return rc;
}

void boot_series_free(struct boot_series *s)
{
	mem_free(s->values);
	mem_free(s->sorted);
	mem_free(s->from);
	*s = (struct boot_series){0};
}

/* --- drawing blocks again ----------------------------------------------------------------------------------------- */

/* A series cut into blocks. */
struct cut {
	const struct boot_series *s;
	int64_t n_blocks;
	int32_t *of; /* [n_values] the block of each sorted value */
	double *sum; /* [n_blocks] */
	int32_t *count; /* [n_blocks] values of each */
	int32_t *drawn; /* [n_blocks] how often each was drawn */
	int64_t weight; /* values of all drawn ones */
};

static int cut_open(struct cut *c, const struct boot_series *s, int64_t block, struct err *e)
{
	*c = (struct cut){.s = s, .n_blocks = (s->n + block - 1) / block};
	size_t n = (size_t)c->n_blocks;
	c->of = mem_alloc((size_t)(s->n_values + 1) * sizeof *c->of);
	c->sum = mem_zalloc(n + 1, sizeof *c->sum);
	c->count = mem_zalloc(n + 1, sizeof *c->count);
	c->drawn = mem_zalloc(n + 1, sizeof *c->drawn);
	if (!c->of || !c->sum || !c->count || !c->drawn)
		return err_no_memory(e, "intervals");
	for (int64_t i = 0; i < s->n_values; i++) {
		int32_t k = (int32_t)(s->from[i] / block);
		c->of[i] = k;
		c->sum[k] += s->sorted[i];
		c->count[k]++;
	}
	return ERR_NONE;
}

static void cut_close(struct cut *c)
{
	mem_free(c->of);
	mem_free(c->sum);
	mem_free(c->count);
	mem_free(c->drawn);
}

/* Each block once: the series itself. */
static void draw_all(struct cut *c)
{
	c->weight = c->s->n_values;
	for (int64_t k = 0; k < c->n_blocks; k++)
		c->drawn[k] = 1;
}

static void draw(struct cut *c, struct rng *r)
{
	memset(c->drawn, 0, (size_t)c->n_blocks * sizeof *c->drawn);
	c->weight = 0;
	/* Two from each number; without a division they are even to one in 2^32 / n_blocks. */
	uint64_t bits = 0, n = (uint64_t)c->n_blocks;
	for (int64_t k = 0; k < c->n_blocks; k++) {
		bits = k % 2 ? bits >> 32 : rng_next(r);
		uint64_t block = (bits & UINT32_MAX) * n >> 32;
		c->drawn[block]++;
		c->weight += c->count[block];
	}
}

static void draw_the_same(struct cut *c, const struct cut *as)
{
	memcpy(c->drawn, as->drawn, (size_t)c->n_blocks * sizeof *c->drawn);
	c->weight = 0;
	for (int64_t k = 0; k < c->n_blocks; k++)
		c->weight += (int64_t)c->drawn[k] * c->count[k];
}

static double drawn_mean(const struct cut *c)
{
	double sum = 0;
	for (int64_t k = 0; k < c->n_blocks; k++)
		sum += c->drawn[k] * c->sum[k];
	return c->weight ? sum / (double)c->weight : NAN;
}

/* numpy's percentile of what was drawn, walking down from the largest: *at and *passed are where the walk stands, for the
 * next lower percentile to go on from. */
static double drawn_percentile(const struct cut *c, double p, int64_t *at, int64_t *passed)
{
	if (c->weight == 0)
		return NAN;
	double from_top = (1 - p / 100) * (double)(c->weight - 1);
	int64_t rank = (int64_t)from_top;
	/* Until the value of that rank is reached. */
	while (*at < c->s->n_values && *passed + c->drawn[c->of[*at]] <= rank)
		*passed += c->drawn[c->of[(*at)++]];
	double high = c->s->sorted[*at];
	if (from_top == (double)rank || *passed + c->drawn[c->of[*at]] > rank + 1)
		return high;
	int64_t next = *at + 1;
	while (next < c->s->n_values - 1 && c->drawn[c->of[next]] == 0)
		next++;
	if (next >= c->s->n_values)
		return high;
	return high + (c->s->sorted[next] - high) * (from_top - (double)rank);
}

/* order: the stats' places, the highest percentile first, means last. */
static void drawn_stats(const struct cut *c, const double *stats, const int32_t *order, int32_t n, double *out)
{
	int64_t at = 0, passed = 0;
	for (int32_t i = 0; i < n; i++) {
		double p = stats[order[i]];
		out[order[i]] = p > 0 ? drawn_percentile(c, p, &at, &passed) : drawn_mean(c);
	}
}

static void sort_stats(const double *stats, int32_t n, int32_t *order)
{
	for (int32_t i = 0; i < n; i++) {
		int32_t k = i;
		for (; k > 0 && stats[order[k - 1]] < stats[i]; k--)
			order[k] = order[k - 1];
		order[k] = i;
	}
}

/* --- intervals ---------------------------------------------------------------------------------------------------- */

double boot_student(int64_t df)
{
	static const double table[] = {12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
				       2.201,  2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086};
	if (df < 1)
		return INFINITY;
	if (df <= (int64_t)(sizeof table / sizeof *table))
		return table[df - 1];
	/* Cornish and Fisher's expansion: off by less than 0.001 from here on. */
	double z = 1.959964, v = (double)df, z3 = z * z * z, z5 = z3 * z * z;
	return z + (z3 + z) / (4 * v) + (5 * z5 + 16 * z3 + 3 * z) / (96 * v * v);
}

static double ratio(double a, double b)
{
	return a == b ? 0 : a != 0 ? b / a - 1 : NAN;
}

static int by_value(const void *x, const void *y)
{
	double a = *(const double *)x, b = *(const double *)y;
	return (a > b) - (a < b);
}

/* The value below which a share of v[n], sorted, lies. */
static double quantile(const double *v, int64_t n, double share)
{
	double at = share * (double)(n - 1);
	int64_t k = (int64_t)at;
	return k >= n - 1 ? v[n - 1] : v[k] + (v[k + 1] - v[k]) * (at - (double)k);
}

/* Sorts and leaves out what is NAN. */
static int64_t tidy(double *v, int64_t n)
{
	int64_t k = 0;
	for (int64_t i = 0; i < n; i++)
		if (!isnan(v[i]))
			v[k++] = v[i];
	qsort(v, (size_t)k, sizeof *v, by_value);
	return k;
}

/* What both tails together leave out, of so many pieces: 5 % of a normal distribution, a little less of few. */
static double tail(int64_t pieces)
{
	double z = boot_student(pieces - 1) * sqrt((double)pieces / (double)(pieces - 1));
	return 0.5 * erfc(z / sqrt(2.0));
}

/* effects and as: [BOOT_RESAMPLES] of one statistic; both are reordered. */
static void conclude(struct boot_effect *x, double *effects, double *as)
{
	double *noise = as;
	int64_t n = tidy(effects, BOOT_RESAMPLES), k = 0;
	if (n < BOOT_RESAMPLES / 2 || x->blocks < 5 || isnan(x->effect))
		return;
	x->low = quantile(effects, n, tail(x->blocks));
	x->high = quantile(effects, n, 1 - tail(x->blocks));
	/* Two draws of a against each other are two runs like it. */
	double first = as[0];
	for (int64_t i = 0; i < BOOT_RESAMPLES; i++)
		noise[k++] = fabs(ratio(as[i], i + 1 < BOOT_RESAMPLES ? as[i + 1] : first));
	x->noise = quantile(noise, tidy(noise, k), 0.95);
}

struct drawn {
	double *effects, *as; /* [n_stats][BOOT_RESAMPLES] */
};

static void resample(struct cut *a, struct cut *b, bool paired, const double *stats, const int32_t *order, int32_t n,
		     uint64_t seed, struct drawn *d)
{
	struct rng r;
	double sa[BOOT_STATS_MAX], sb[BOOT_STATS_MAX];
	rng_init(&r, seed, STREAM);
	for (int32_t k = 0; k < BOOT_RESAMPLES; k++) {
		draw(a, &r);
		if (paired)
			draw_the_same(b, a);
		else
			draw(b, &r);
		drawn_stats(a, stats, order, n, sa);
		drawn_stats(b, stats, order, n, sb);
		for (int32_t i = 0; i < n; i++) {
			d->effects[(int64_t)i * BOOT_RESAMPLES + k] = ratio(sa[i], sb[i]);
			d->as[(int64_t)i * BOOT_RESAMPLES + k] = sa[i];
		}
	}
}

static void as_they_are(struct cut *a, struct cut *b, const double *stats, const int32_t *order, int32_t n,
			struct boot_effect *out)
{
	double sa[BOOT_STATS_MAX], sb[BOOT_STATS_MAX];
	draw_all(a);
	draw_all(b);
	drawn_stats(a, stats, order, n, sa);
	drawn_stats(b, stats, order, n, sb);
	int64_t least = a->s->n_values < b->s->n_values ? a->s->n_values : b->s->n_values;
	for (int32_t i = 0; i < n; i++)
		out[i] = (struct boot_effect){.a = sa[i],
					      .b = sb[i],
					      .effect = ratio(sa[i], sb[i]),
					      .low = NAN,
					      .high = NAN,
					      .noise = NAN,
					      .n = least,
					      .blocks = a->n_blocks < b->n_blocks ? a->n_blocks : b->n_blocks,
					      .thin = stats[i] > 0 && percentile_is_thin(stats[i], least)};
}

int boot_effects(const struct boot_series *a, const struct boot_series *b, bool paired, const double *stats,
		 int32_t n_stats, uint64_t seed, struct boot_effect *out, struct err *e)
{
	struct cut ca = {0}, cb = {0};
	struct drawn d;
	int32_t order[BOOT_STATS_MAX];
	int64_t longer = a->block > b->block ? a->block : b->block; /* pairs are drawn in the same blocks */
	if (n_stats > BOOT_STATS_MAX || (paired && a->n != b->n))
		return err_set(e, ERR_INPUT, "intervals: %s",
			       n_stats > BOOT_STATS_MAX ? "too many statistics at once" : "not the same requests");
	size_t cells = (size_t)n_stats * BOOT_RESAMPLES + 1;
	d.effects = mem_alloc(cells * sizeof *d.effects);
	d.as = mem_alloc(cells * sizeof *d.as);
	int rc = d.effects && d.as ? ERR_NONE : err_no_memory(e, "intervals");
	if (rc == ERR_NONE)
		rc = cut_open(&ca, a, paired ? longer : a->block, e);
	if (rc == ERR_NONE)
		rc = cut_open(&cb, b, paired ? longer : b->block, e);
	if (rc == ERR_NONE) {
		sort_stats(stats, n_stats, order);
		as_they_are(&ca, &cb, stats, order, n_stats, out);
		if (a->n_values && b->n_values)
			resample(&ca, &cb, paired, stats, order, n_stats, seed, &d);
		for (int32_t i = 0; a->n_values && b->n_values && i < n_stats; i++)
			conclude(&out[i], d.effects + (int64_t)i * BOOT_RESAMPLES, d.as + (int64_t)i * BOOT_RESAMPLES);
	}
	cut_close(&ca);
	cut_close(&cb);
	mem_free(d.effects);
	mem_free(d.as);
	return rc;
}

/* --- runs --------------------------------------------------------------------------------------------------------- */

static double mean_of(const double *v, int32_t n)
{
	double sum = 0;
	for (int32_t i = 0; i < n; i++)
		sum += v[i];
	return sum / n;
}

/* Standard deviation of one value: of b[i] - scale a[i] if paired, else of both apart, as if subtracted. */
static double spread(const double *a, const double *b, int32_t n, double scale, bool paired)
{
	double ma = mean_of(a, n), mb = mean_of(b, n), sum = 0;
	for (int32_t i = 0; i < n; i++) {
		double da = scale * (a[i] - ma), db = b[i] - mb;
		sum += paired ? (db - da) * (db - da) : da * da + db * db;
	}
	return sqrt(sum / (n - 1));
}

/* The effect is a ratio of means: its error is that of b - (b / a) a, to first order. */
static void student(struct boot_effect *x, const double *a, const double *b, int32_t n, bool paired)
{
	double error = spread(a, b, n, x->b / x->a, paired) / sqrt((double)n) / fabs(x->a);
	int64_t df = paired ? n - 1 : 2 * (n - 1);
	x->low = x->effect - boot_student(df) * error;
	x->high = x->effect + boot_student(df) * error;
}

int boot_runs(const double *a, const double *b, int32_t n, bool paired, uint64_t seed, struct boot_effect *out,
	      struct err *e)
{
	static const double mean[] = {0};
	struct boot_series sa = {0}, sb = {0};
	*out = (struct boot_effect){
		.a = mean_of(a, n), .b = mean_of(b, n), .low = NAN, .high = NAN, .noise = NAN, .n = n, .blocks = n};
	out->effect = ratio(out->a, out->b);
	if (n < 2 || isnan(out->effect) || isinf(out->effect))
		return ERR_NONE;
	if (out->a != 0)
		out->noise = boot_student(n - 1) * sqrt(2.0) * spread(a, a, n, 0, true) / fabs(out->a);
	if (n < 5) {
		if (out->a != 0)
			student(out, a, b, n, paired);
		return ERR_NONE;
	}
	double noise = out->noise;
	int rc = boot_series_make(&sa, a, n, e);
	if (rc == ERR_NONE)
		rc = boot_series_make(&sb, b, n, e);
	sa.block = sb.block = 1; /* runs are independent */
	if (rc == ERR_NONE)
		rc = boot_effects(&sa, &sb, paired, mean, 1, seed, out, e);
	out->noise = noise;
	boot_series_free(&sa);
	boot_series_free(&sb);
	return rc;
}
