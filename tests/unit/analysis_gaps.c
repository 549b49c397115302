/* Inter-token gaps: exact while they fit, within the stated precision afterwards. */
#include <math.h>
#include <stdlib.h>

#include "analysis/gaps.h"
#include "core/err.h"
#include "core/rng.h"
#include "tests/support/suite.h"

#define MOST 200000

static int64_t values[MOST]; /* the same gaps one by one */
static int64_t n_values;

static void add(struct gaps *g, int64_t gap, int64_t count)
{
	gaps_add(g, gap, count);
	for (int64_t i = 0; i < count; i++)
		values[n_values++] = gap;
}

static int by_value(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
	return x < y ? -1 : x > y;
}

/* numpy.percentile, its formula for the last bit included. */
static double expected(double p)
{
	double at = p / 100 * (double)(n_values - 1);
	int64_t low = (int64_t)at;
	if (low >= n_values - 1)
		return (double)values[n_values - 1];
	double a = (double)values[low], b = (double)values[low + 1], t = at - (double)low;
	return t >= 0.5 ? b - (b - a) * (1 - t) : a + (b - a) * t;
}

static void finish(struct gaps *g)
{
	struct err e = {0};
	CHECK_INT(gaps_finish(g, &e), ERR_NONE);
	qsort(values, (size_t)n_values, sizeof *values, by_value);
}

static const double asked[] = {0.1, 1, 25, 50, 75, 90, 99, 99.9, 100};

static void percentiles_equal_those_of_the_sorted_list(void)
{
	struct rng r;
	rng_init(&r, 3, 0);
	for (int round = 0; round < 60; round++) {
		struct gaps g;
		gaps_init(&g);
		n_values = 0;
		int pairs = 1 + (int)rng_below(&r, 400);
		uint64_t range = UINT64_C(1) << (1 + rng_below(&r, 42));
		for (int i = 0; i < pairs; i++)
			add(&g, (int64_t)rng_below(&r, range), 1 + (int64_t)rng_below(&r, 9));
		finish(&g);
		CU_ASSERT_TRUE(gaps_exact(&g));
		CHECK_INT(g.count, n_values);
		for (size_t i = 0; i < sizeof asked / sizeof *asked; i++)
			CHECK_NEAR(gaps_percentile_ns(&g, asked[i]), expected(asked[i]), 0);
		gaps_free(&g);
	}
}

static void mean_and_spread_by_hand(void)
{
	struct gaps g;
	struct err e = {0};
	gaps_init(&g);
	gaps_add(&g, 2, 1);
	gaps_add(&g, 4, 3);
	gaps_add(&g, 5, 2);
	gaps_add(&g, 7, 1);
	gaps_add(&g, 9, 1);
	CHECK_INT(gaps_finish(&g, &e), ERR_NONE);
	CHECK_INT(g.count, 8);
	CHECK_NEAR(gaps_mean_ns(&g), 5, 0);
	CHECK_NEAR(gaps_std_ns(&g), 2, 0);
	CHECK_NEAR(gaps_percentile_ns(&g, 50), 4.5, 0);
	CHECK_INT(g.min_ns, 2);
	CHECK_INT(g.max_ns, 9);
	gaps_free(&g);
}

/* Squares of an hour in ns do not fit 64 bits, and their difference must not cancel. */
static void spread_of_long_gaps_is_exact(void)
{
	struct gaps g;
	struct err e = {0};
	gaps_init(&g);
	gaps_add(&g, INT64_C(3600000000000), 500000);
	gaps_add(&g, INT64_C(3600000000002), 500000);
	CHECK_INT(gaps_finish(&g, &e), ERR_NONE);
	CHECK_NEAR(gaps_mean_ns(&g), 3600000000001.0, 0);
	CHECK_NEAR(gaps_std_ns(&g), 1, 0);
	gaps_free(&g);
}

static void none_is_undefined_not_zero(void)
{
	struct gaps g;
	struct err e = {0};
	gaps_init(&g);
	CHECK_INT(gaps_finish(&g, &e), ERR_NONE);
	CHECK_INT(g.count, 0);
	CU_ASSERT_TRUE(isnan(gaps_mean_ns(&g)));
	CU_ASSERT_TRUE(isnan(gaps_std_ns(&g)));
	CU_ASSERT_TRUE(isnan(gaps_percentile_ns(&g, 99)));
	gaps_free(&g);
}

static void one_gap_is_every_percentile(void)
{
	struct gaps g;
	struct err e = {0};
	gaps_init(&g);
	gaps_add(&g, 12345, 1);
	CHECK_INT(gaps_finish(&g, &e), ERR_NONE);
	CHECK_NEAR(gaps_percentile_ns(&g, 1), 12345, 0);
	CHECK_NEAR(gaps_percentile_ns(&g, 99), 12345, 0);
	CHECK_NEAR(gaps_std_ns(&g), 0, 0);
	gaps_free(&g);
}

/* Many steps of few lengths stay exact however many there are. */
static void repeated_lengths_are_merged_and_stay_exact(void)
{
	struct gaps g;
	gaps_init(&g);
	g.limit = 64;
	n_values = 0;
	for (int i = 0; i < 20000; i++)
		add(&g, 1000 + 7 * (i % 20), 1 + i % 3);
	CU_ASSERT_TRUE(g.cap <= 64);
	finish(&g);
	CU_ASSERT_TRUE(gaps_exact(&g));
	CHECK_INT(g.count, n_values);
	for (size_t i = 0; i < sizeof asked / sizeof *asked; i++)
		CHECK_NEAR(gaps_percentile_ns(&g, asked[i]), expected(asked[i]), 0);
	gaps_free(&g);
}

static void a_long_run_is_folded_within_the_stated_precision(void)
{
	struct rng r;
	struct gaps g, exact;
	struct err e = {0};
	rng_init(&r, 5, 0);
	gaps_init(&g);
	gaps_init(&exact);
	g.limit = 256;
	n_values = 0;
	for (int i = 0; i < 50000; i++) {
		int64_t gap = (int64_t)rng_below(&r, UINT64_C(1) << (3 + rng_below(&r, 38))), count = 1 + i % 4;
		add(&g, gap, count);
		gaps_add(&exact, gap, count);
	}
	finish(&g);
	CHECK_INT(gaps_finish(&exact, &e), ERR_NONE);
	CU_ASSERT_FALSE(gaps_exact(&g));
	CU_ASSERT_TRUE(gaps_exact(&exact));
	/* Counts and moments are exact all the same. */
	CHECK_INT(g.count, exact.count);
	CHECK_INT(g.min_ns, exact.min_ns);
	CHECK_INT(g.max_ns, exact.max_ns);
	CHECK_NEAR(gaps_mean_ns(&g), gaps_mean_ns(&exact), 0);
	CHECK_NEAR(gaps_std_ns(&g), gaps_std_ns(&exact), 0);
	for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
		double want = expected(asked[i]);
		CHECK_NEAR(gaps_percentile_ns(&g, asked[i]), want, want * GAPS_PRECISION + 0.5);
		CHECK_NEAR(gaps_percentile_ns(&exact, asked[i]), want, 0);
	}
	gaps_free(&g);
	gaps_free(&exact);
}

/* A run of steps is the same as its steps one by one, whether there is room for all of them or not. */
static void a_run_of_steps_equals_its_steps(void)
{
	struct rng r;
	struct gaps one, run;
	struct err e = {0};
	int64_t ends[100], start = 0;
	rng_init(&r, 9, 0);
	gaps_init(&one);
	gaps_init(&run);
	one.limit = run.limit = 512;
	for (int i = 0; i < 300; i++) {
		int64_t steps = 1 + (int64_t)rng_below(&r, 100), t = start;
		for (int64_t k = 0; k < steps; k++) {
			int64_t gap = 50 + (int64_t)rng_below(&r, 100);
			ends[k] = t += gap;
			gaps_add(&one, gap, i + 1);
		}
		gaps_add_run(&run, start, ends, steps, i + 1);
		start = t;
	}
	CHECK_INT(gaps_finish(&one, &e), ERR_NONE);
	CHECK_INT(gaps_finish(&run, &e), ERR_NONE);
	CHECK_INT(run.count, one.count);
	CU_ASSERT_TRUE(run.sum_ns == one.sum_ns && run.sum_sq == one.sum_sq);
	CU_ASSERT_TRUE(gaps_exact(&one) && gaps_exact(&run));
	for (size_t i = 0; i < sizeof asked / sizeof *asked; i++)
		CHECK_NEAR(gaps_percentile_ns(&run, asked[i]), gaps_percentile_ns(&one, asked[i]), 0);
	gaps_free(&one);
	gaps_free(&run);
}

int main(void)
{
	static const struct test tests[] = {
		{"percentiles_equal_those_of_the_sorted_list", percentiles_equal_those_of_the_sorted_list},
		{"mean_and_spread_by_hand", mean_and_spread_by_hand},
		{"spread_of_long_gaps_is_exact", spread_of_long_gaps_is_exact},
		{"none_is_undefined_not_zero", none_is_undefined_not_zero},
		{"one_gap_is_every_percentile", one_gap_is_every_percentile},
		{"repeated_lengths_are_merged_and_stay_exact", repeated_lengths_are_merged_and_stay_exact},
		{"a_run_of_steps_equals_its_steps", a_run_of_steps_equals_its_steps},
		{"a_long_run_is_folded_within_the_stated_precision", a_long_run_is_folded_within_the_stated_precision},
	};
	return SUITE_RUN("analysis_gaps", tests);
}
