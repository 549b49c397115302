/* Intervals cover the truth as often as they say, on data whose truth is known; and are the same every time. */
#include <math.h>
#include <stdio.h>

#include "analysis/bootstrap.h"
#include "core/err.h"
#include "core/mem.h"
#include "core/rng.h"
#include "tests/support/suite.h"

/* A standard normal number: the sum of twelve uniform ones, whose tails are right far enough for what is asked here. */
static double normal(struct rng *r)
{
	double sum = -6;
	for (int i = 0; i < 12; i++)
		sum += rng_unit(r);
	return sum;
}

static double exponential(struct rng *r)
{
	return -log(1 - rng_unit(r));
}

/* How many of so many repetitions must hold the truth for 95 % to be believed: within 4 standard deviations of the binomial,
 * and what a percentile interval may lack by construction. */
static void check_coverage(const char *what, int hits, int repetitions, double lacks)
{
	double sigma = sqrt(0.95 * 0.05 / repetitions), share = (double)hits / repetitions;
	if (share < 0.95 - 4 * sigma - lacks || share > 0.95 + 4 * sigma)
		printf("    %s: %.3f of %d intervals hold the truth\n", what, share, repetitions);
	CU_ASSERT(share >= 0.95 - 4 * sigma - lacks);
	CU_ASSERT(share <= 0.95 + 4 * sigma);
}

static bool holds(const struct boot_effect *x, double truth)
{
	return x->low <= truth && truth <= x->high;
}

static void must_make(struct boot_series *s, const double *v, int64_t n)
{
	struct err e = {0};
	CU_ASSERT_EQUAL_FATAL(boot_series_make(s, v, n, &e), ERR_NONE);
}

static void effects(const double *a, const double *b, int64_t n, bool paired, const double *stats, int32_t n_stats,
		    struct boot_effect *out)
{
	struct boot_series sa, sb;
	struct err e = {0};
	must_make(&sa, a, n);
	must_make(&sb, b, n);
	CU_ASSERT_EQUAL_FATAL(boot_effects(&sa, &sb, paired, stats, n_stats, 1, out, &e), ERR_NONE);
	boot_series_free(&sa);
	boot_series_free(&sb);
}

static int repetitions(void)
{
	return test_short() ? 40 : 150;
}

/* Independent requests; b takes four fifths of a's time and something of its own. Means and percentiles. */
static void intervals_of_independent_requests_cover_the_truth(void)
{
	enum { N = 500 };
	static const double stats[] = {0, 50, 90};
	static double a[N], b[N];
	int hits[3] = {0}, alone[3] = {0};
	struct rng r;
	rng_init(&r, 1, 1);
	for (int k = 0; k < repetitions(); k++) {
		struct boot_effect x[3];
		for (int i = 0; i < N; i++) {
			a[i] = 100 * exponential(&r);
			b[i] = 0.8 * a[i];
		}
		effects(a, b, N, true, stats, 3, x);
		for (int i = 0; i < 3; i++) {
			hits[i] += holds(&x[i], -0.2) || fabs(x[i].effect + 0.2) < 1e-12;
			CU_ASSERT(x[i].high - x[i].low < 1e-9); /* all falls out but the effect */
		}
		for (int i = 0; i < N; i++)
			b[i] = 80 * exponential(&r); /* another run, of other requests */
		effects(a, b, N, false, stats, 3, x);
		for (int i = 0; i < 3; i++)
			alone[i] += holds(&x[i], -0.2);
	}
	CHECK_INT(hits[0], repetitions());
	CHECK_INT(hits[1], repetitions());
	CHECK_INT(hits[2], repetitions());
	check_coverage("mean", alone[0], repetitions(), 0.01);
	check_coverage("p50", alone[1], repetitions(), 0.01);
	check_coverage("p90", alone[2], repetitions(), 0.02);
}

/* A queue: each request's time remembers the one before. Blocks must be as long as the memory. */
static void intervals_of_correlated_requests_cover_the_truth(void)
{
	enum { N = 2000 };
	static const double stats[] = {0, 90};
	static double a[N], b[N];
	int hits[2] = {0}, naive = 0;
	struct rng r;
	rng_init(&r, 2, 1);
	for (int k = 0; k < repetitions(); k++) {
		struct boot_effect x[2];
		double x1 = normal(&r), x2 = normal(&r), x3 = normal(&r);
		const double keep = 0.8, fresh = sqrt(1 - 0.8 * 0.8);
		for (int i = 0; i < N; i++) {
			x1 = keep * x1 + fresh * normal(&r); /* what both share: the arrivals */
			x2 = keep * x2 + fresh * normal(&r);
			x3 = keep * x3 + fresh * normal(&r);
			a[i] = 100 + 20 * x1 + 10 * x2;
			b[i] = 0.7 * (100 + 20 * x1 + 10 * x3);
		}
		effects(a, b, N, true, stats, 2, x);
		for (int i = 0; i < 2; i++)
			hits[i] += holds(&x[i], -0.3);
		if (k >= 20)
			continue;
		/* As if they were independent. */
		struct boot_series sa, sb;
		struct err e = {0};
		must_make(&sa, a, N);
		must_make(&sb, b, N);
		CU_ASSERT(sa.block >= 8 && sa.block <= 80);
		sa.block = sb.block = 1;
		CHECK_INT(boot_effects(&sa, &sb, true, stats, 1, 1, x, &e), ERR_NONE);
		naive += holds(&x[0], -0.3);
		boot_series_free(&sa);
		boot_series_free(&sb);
	}
	check_coverage("mean", hits[0], repetitions(), 0.025);
	check_coverage("p90", hits[1], repetitions(), 0.03);
	CU_ASSERT(naive < 16); /* which shows that the test can fail */
}

static void intervals_of_seeds_cover_the_truth(void)
{
	static const int counts[] = {3, 5, 10, 30};
	struct rng r;
	struct err e = {0};
	rng_init(&r, 3, 1);
	for (int c = 0; c < 4; c++) {
		int hits = 0, inside = 0, times = 3 * repetitions() / (c == 3 ? 2 : 1);
		for (int k = 0; k < times; k++) {
			double a[30], b[30];
			struct boot_effect x;
			for (int i = 0; i < counts[c]; i++) {
				double seed = 10 * normal(&r);
				a[i] = 100 + seed + 2 * normal(&r);
				b[i] = 1.1 * (100 + seed) + 2 * normal(&r);
			}
			CHECK_INT(boot_runs(a, b, counts[c], true, 1, &x, &e), ERR_NONE);
			hits += holds(&x, 0.1);
			/* Two more seeds of the first. */
			inside += fabs((100 + 10.2 * normal(&r)) / (100 + 10.2 * normal(&r)) - 1) < x.noise;
		}
		char what[32];
		snprintf(what, sizeof what, "%d seeds", counts[c]);
		check_coverage(what, hits, times, counts[c] == 5 ? 0.04 : 0.015);
		CU_ASSERT(inside >= 0.9 * times);
	}
}

/* What a run differs from one like it. */
static void the_noise_is_what_two_like_runs_differ_by(void)
{
	enum { N = 2000 };
	static const double stats[] = {0};
	static double a[N], b[N];
	struct rng r;
	int inside = 0;
	rng_init(&r, 4, 1);
	for (int k = 0; k < repetitions(); k++) {
		struct boot_effect x;
		for (int i = 0; i < N; i++) {
			a[i] = exponential(&r);
			b[i] = exponential(&r);
		}
		effects(a, b, N, false, stats, 1, &x);
		inside += fabs(x.effect) <= x.noise;
	}
	check_coverage("noise", inside, repetitions(), 0.01);
}

/* Statistics as they are: numpy's percentiles, in any order, of those that have a value. */
static void statistics_are_those_of_the_metrics(void)
{
	static const double stats[] = {50, 0, 99, 25, 100};
	double a[] = {4, NAN, 1, 3, 2}, b[] = {8, 100, 2, 6, NAN};
	struct boot_effect x[5];
	effects(a, b, 5, true, stats, 5, x);
	CHECK_NEAR(x[0].a, 2.5, 1e-12);
	CHECK_NEAR(x[1].a, 2.5, 1e-12);
	CHECK_NEAR(x[2].a, 3.97, 1e-12);
	CHECK_NEAR(x[3].a, 1.75, 1e-12);
	CHECK_NEAR(x[4].a, 4, 1e-12);
	CHECK_NEAR(x[1].b, 29, 1e-12);
	CHECK_NEAR(x[1].effect, 29 / 2.5 - 1, 1e-12);
	CHECK_INT(x[0].n, 4);
	CU_ASSERT(x[2].thin && !x[0].thin && !x[1].thin);
	CU_ASSERT_TRUE(x[0].blocks == 5);
}

static void too_little_gives_no_interval(void)
{
	static const double stats[] = {0};
	double a[] = {1, 2, 3}, none[] = {NAN, NAN, NAN};
	struct boot_effect x;
	struct err e = {0};
	effects(a, a, 3, true, stats, 1, &x);
	CU_ASSERT(x.effect == 0 && isnan(x.low));
	effects(a, none, 3, true, stats, 1, &x);
	CU_ASSERT(isnan(x.b) && isnan(x.effect) && isnan(x.low));
	CHECK_INT(boot_runs(a, a, 1, true, 1, &x, &e), ERR_NONE);
	CU_ASSERT(isnan(x.low) && x.effect == 0);
	double zero[] = {0, 0, 0};
	CHECK_INT(boot_runs(zero, a, 3, true, 1, &x, &e), ERR_NONE);
	CU_ASSERT(isnan(x.effect) && isnan(x.low) && x.b == 2);
}

static void the_same_input_gives_the_same_interval(void)
{
	static const double stats[] = {0, 99};
	static double a[500], b[500];
	struct rng r;
	struct boot_effect x[2], y[2];
	rng_init(&r, 5, 1);
	for (int i = 0; i < 500; i++) {
		a[i] = exponential(&r);
		b[i] = a[i] + rng_unit(&r);
	}
	effects(a, b, 500, true, stats, 2, x);
	effects(a, b, 500, true, stats, 2, y);
	for (int i = 0; i < 2; i++)
		CU_ASSERT(x[i].low == y[i].low && x[i].high == y[i].high && x[i].noise == y[i].noise);
	CU_ASSERT(x[0].low < x[0].effect && x[0].effect < x[0].high);
}

static void students_t_is_as_tabulated(void)
{
	CHECK_NEAR(boot_student(4), 2.776, 0.001);
	CHECK_NEAR(boot_student(12), 2.179, 0.001);
	CHECK_NEAR(boot_student(19), 2.093, 0.001);
	CHECK_NEAR(boot_student(120), 1.980, 0.001);
}

int main(void)
{
	static const struct test tests[] = {
		{"intervals_of_independent_requests_cover_the_truth",
		 intervals_of_independent_requests_cover_the_truth},
		{"intervals_of_correlated_requests_cover_the_truth", intervals_of_correlated_requests_cover_the_truth},
		{"intervals_of_seeds_cover_the_truth", intervals_of_seeds_cover_the_truth},
		{"the_noise_is_what_two_like_runs_differ_by", the_noise_is_what_two_like_runs_differ_by},
		{"statistics_are_those_of_the_metrics", statistics_are_those_of_the_metrics},
		{"too_little_gives_no_interval", too_little_gives_no_interval},
		{"the_same_input_gives_the_same_interval", the_same_input_gives_the_same_interval},
		{"students_t_is_as_tabulated", students_t_is_as_tabulated},
	};
	return SUITE_RUN("analysis_bootstrap", tests);
}
