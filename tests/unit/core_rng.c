#include "core/rng.h"
#include "tests/support/suite.h"

/* Published vectors: splitmix64 from 0, xoshiro256** from the state 1 2 3 4. */
static void generators_match_the_published_vectors(void)
{
	static const uint64_t want[] = {11520, 0, 1509978240, UINT64_C(1215971899390074240),
					UINT64_C(1216172134540287360)};
	struct rng r = {{1, 2, 3, 4}};
	CU_ASSERT(rng_mix(0) == UINT64_C(0xe220a8397b1dcdaf));
	for (int i = 0; i < 5; i++)
		CU_ASSERT(rng_next(&r) == want[i]);
}

static void same_seed_same_numbers_other_stream_others(void)
{
	struct rng a, b, c, d;
	int same_stream = 0, same_seed = 0;
	rng_init(&a, 42, 0);
	rng_init(&b, 42, 0);
	rng_init(&c, 42, 1);
	rng_init(&d, 43, 0);
	for (int i = 0; i < 100; i++) {
		uint64_t x = rng_next(&a);
		CU_ASSERT(x == rng_next(&b));
		same_stream += x == rng_next(&c);
		same_seed += x == rng_next(&d);
	}
	CHECK_INT(same_stream, 0);
	CHECK_INT(same_seed, 0);
}

/* 60,000 draws of 6: each about 10,000, chi-square with 5 degrees of freedom below its 99.99 % point. */
static void below_is_within_range_and_even(void)
{
	int64_t seen[6] = {0};
	double chi = 0;
	struct rng r;
	rng_init(&r, 1, 2);
	for (int i = 0; i < 60000; i++) {
		uint64_t x = rng_below(&r, 6);
		CU_ASSERT_FATAL(x < 6);
		seen[x]++;
	}
	for (int i = 0; i < 6; i++)
		chi += (double)((seen[i] - 10000) * (seen[i] - 10000)) / 10000;
	CU_ASSERT(chi < 25.7);
	for (int i = 0; i < 100; i++) {
		CHECK_INT(rng_below(&r, 1), 0);
		CU_ASSERT(rng_below(&r, UINT64_MAX) < UINT64_MAX);
	}
}

static void unit_is_below_one_and_even(void)
{
	double sum = 0, least = 1, most = 0;
	struct rng r;
	rng_init(&r, 9, 9);
	for (int i = 0; i < 100000; i++) {
		double x = rng_unit(&r);
		CU_ASSERT_FATAL(x >= 0 && x < 1);
		sum += x;
		least = x < least ? x : least;
		most = x > most ? x : most;
	}
	CHECK_NEAR(sum / 100000, 0.5, 0.005); /* five standard errors */
	CU_ASSERT(least < 0.001 && most > 0.999);
}

int main(void)
{
	static const struct test tests[] = {
		{"generators_match_the_published_vectors", generators_match_the_published_vectors},
		{"same_seed_same_numbers_other_stream_others", same_seed_same_numbers_other_stream_others},
		{"below_is_within_range_and_even", below_is_within_range_and_even},
		{"unit_is_below_one_and_even", unit_is_below_one_and_even},
	};
	return SUITE_RUN("core_rng", tests);
}
