/* dist.c: mean, spread and percentiles of a million values in linear time: quickselect around all the ranks that are
 * wanted at once, instead of sorting. */
#include <math.h>

#include "analysis/gaps.h"
#include "analysis/metrics.h"
#include "core/rng.h"

#define SMALL 24 /* sorted by insertion */
#define MAX_RANKS (2 * (METRICS_MAX_PERCENTILES + 1))

static void insertion_sort(double *v, int64_t n)
{
	for (int64_t i = 1; i < n; i++) {
		double x = v[i];
		int64_t k = i;
		for (; k > 0 && v[k - 1] > x; k--)
			v[k] = v[k - 1];
		v[k] = x;
	}
}

static double median_of_3(double a, double b, double c)
{
	if (a < b)
		return b < c ? b : a < c ? c : a;
	return a < c ? a : b < c ? c : b;
}

/* Pivots are drawn at random (with a fixed seed), so that no order of requests makes it slow. */
static double pick_pivot(const double *v, int64_t n, uint64_t *state)
{
	uint64_t r = *state = rng_mix(*state + 1);
	return median_of_3(v[r % (uint64_t)n], v[(r >> 20) % (uint64_t)n], v[(r >> 40) % (uint64_t)n]);
}

/* Puts the values below the pivot (or up to it) first; returns how many. Without a branch that could be guessed wrong. */
static int64_t below(double *v, int64_t n, double pivot)
{
	int64_t k = 0;
	for (int64_t i = 0; i < n; i++) {
		double x = v[i];
		v[i] = v[k];
		v[k] = x;
		k += x < pivot;
	}
	return k;
}

static int64_t up_to(double *v, int64_t n, double pivot)
{
	int64_t k = 0;
	for (int64_t i = 0; i < n; i++) {
		double x = v[i];
		v[i] = v[k];
		v[k] = x;
		k += x <= pivot;
	}
	return k;
}

/* v -> [0, *lt) | [*lt, *gt) all equal to the pivot | [*gt, n). The pivot is one of v, so both outer parts are smaller
 * than v. The middle is empty unless nothing lies below: many equal values would else be looked at again and again. */
static void partition(double *v, int64_t n, double pivot, int64_t *lt, int64_t *gt)
{
	*lt = *gt = below(v, n, pivot);
	if (*lt == 0)
		*gt = up_to(v, n, pivot);
}

/* Puts each of the sorted ranks (counted from `base`, where v begins) in its place. */
static void select_ranks(double *v, int64_t n, int64_t base, const int64_t *ranks, int n_ranks, uint64_t *state)
{
	while (n_ranks > 0) {
		if (n <= SMALL) {
			insertion_sort(v, n);
			return;
		}
		int64_t lt, gt;
		partition(v, n, pick_pivot(v, n, state), &lt, &gt);
		int left = 0;
		while (left < n_ranks && ranks[left] - base < lt)
			left++;
		int right = left;
		while (right < n_ranks && ranks[right] - base < gt)
			right++;
		select_ranks(v, lt, base, ranks, left, state);
		v += gt;
		n -= gt;
		base += gt;
		ranks += right;
		n_ranks -= right;
	}
}

double dist_rank(double *values, int64_t n, int64_t rank)
{
	uint64_t state = 0;
	select_ranks(values, n, 0, &rank, 1, &state);
	return values[rank];
}

/* Where percentile p of n values lies: between ranks *low and *low + 1, at *t of the way. */
static void position(double p, int64_t n, int64_t *low, double *t)
{
	double at = p / 100 * (double)(n - 1);
	*low = (int64_t)at;
	*t = at - (double)*low;
}

static double interpolate(const double *v, int64_t n, double p)
{
	int64_t low;
	double t;
	position(p, n, &low, &t);
	if (low >= n - 1)
		return v[n - 1];
	double a = v[low], b = v[low + 1];
	/* numpy's two forms, so that the last bit agrees with it. */
	return t >= 0.5 ? b - (b - a) * (1 - t) : a + (b - a) * t;
}

static void add_rank(int64_t *ranks, int *n, int64_t rank)
{
	int k = *n;
	for (; k > 0 && ranks[k - 1] > rank; k--)
		ranks[k] = ranks[k - 1];
	ranks[k] = rank;
	++*n;
}

static void select_percentiles(double *v, int64_t n, const struct percentiles *p)
{
	int64_t ranks[MAX_RANKS];
	int n_ranks = 0;
	for (int32_t i = -1; i < p->n; i++) {
		int64_t low;
		double t;
		position(i < 0 ? 50 : p->p[i], n, &low, &t);
		add_rank(ranks, &n_ranks, low < n ? low : n - 1);
		add_rank(ranks, &n_ranks, low + 1 < n ? low + 1 : n - 1);
	}
	uint64_t state = 0;
	select_ranks(v, n, 0, ranks, n_ranks, &state);
}

static void nothing(struct dist *d)
{
	*d = (struct dist){.mean = NAN, .median = NAN, .std = NAN, .min = NAN, .max = NAN};
	for (int i = 0; i < METRICS_MAX_PERCENTILES; i++)
		d->p[i] = NAN;
}

/* Sum with Neumaier's correction: the error does not grow with n. */
static double sum_of(const double *v, int64_t n)
{
	double sum = 0, lost = 0;
	for (int64_t i = 0; i < n; i++) {
		double next = sum + v[i];
		lost += fabs(sum) >= fabs(v[i]) ? sum - next + v[i] : v[i] - next + sum;
		sum = next;
	}
	return sum + lost;
}

void dist_compute(struct dist *d, double *values, int64_t n, const struct percentiles *p)
{
	nothing(d);
	d->n = n;
	if (n == 0)
		return;
	d->mean = sum_of(values, n) / (double)n;
	d->min = d->max = values[0];
	double squares = 0;
	for (int64_t i = 0; i < n; i++) {
		double off = values[i] - d->mean;
		squares += off * off;
		d->min = values[i] < d->min ? values[i] : d->min;
		d->max = values[i] > d->max ? values[i] : d->max;
	}
	d->std = d->min == d->max ? 0 : sqrt(squares / (double)n);
	select_percentiles(values, n, p);
	d->median = interpolate(values, n, 50);
	for (int32_t i = 0; i < p->n; i++)
		d->p[i] = interpolate(values, n, p->p[i]);
}

void dist_of_gaps(struct dist *d, const struct gaps *g, const struct percentiles *p)
{
	nothing(d);
	d->n = g->count;
	if (g->count == 0)
		return;
	d->mean = gaps_mean_ns(g);
	d->std = gaps_std_ns(g);
	d->min = (double)g->min_ns;
	d->max = (double)g->max_ns;
	d->median = gaps_percentile_ns(g, 50);
	for (int32_t i = 0; i < p->n; i++)
		d->p[i] = gaps_percentile_ns(g, p->p[i]);
}
