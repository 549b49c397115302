/* The functions against libm, the distributions against their moments and, so that a seed means the same everywhere,
 * against fixed bits. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "core/err.h"
#include "tests/support/suite.h"
#include "traces/dist.h"
#include "traces/sha256.h"

static double ulps(double got, double want)
{
	double ulp = nextafter(fabs(want), INFINITY) - fabs(want);
	return fabs(got - want) / ulp;
}

static void log_is_within_4_ulp_of_libm(void)
{
	struct rng r;
	rng_init(&r, 1, 0);
	double worst = 0;
	for (int i = 0; i < 200000; i++) {
		double x = ldexp(1 + rng_unit(&r), (int)rng_below(&r, 2040) - 1020);
		worst = fmax(worst, ulps(dist_log(x), log(x)));
		/* near 1, where the sum k ln 2 + log m must not cancel */
		double y = 1 + (rng_unit(&r) - 0.5) / (double)(1 << rng_below(&r, 30));
		if (y != 1)
			worst = fmax(worst, ulps(dist_log(y), log(y)));
	}
	CU_ASSERT(worst <= 4);
	CU_ASSERT_EQUAL(dist_log(1), 0);
	CHECK_NEAR(dist_log(4e-320), log(4e-320), 1e-12);
	CHECK_NEAR(dist_log(DBL_MAX), log(DBL_MAX), 1e-12);
}

static void exp_is_within_4_ulp_of_libm(void)
{
	struct rng r;
	rng_init(&r, 2, 0);
	double worst = 0;
	for (int i = 0; i < 200000; i++) {
		double x = (rng_unit(&r) - 0.5) * 1400, y = (rng_unit(&r) - 0.5) * 4;
		worst = fmax(worst, ulps(dist_exp(x), exp(x)));
		worst = fmax(worst, ulps(dist_exp(y), exp(y)));
	}
	CU_ASSERT(worst <= 4);
	CU_ASSERT_EQUAL(dist_exp(0), 1);
	CU_ASSERT_EQUAL(dist_exp(-800), 0);
	CU_ASSERT(isinf(dist_exp(800)));
	CHECK_NEAR(dist_exp(-740) / exp(-740), 1, 1e-2);
	CHECK_NEAR(dist_pow(2, 10), 1024, 1e-11);
	CHECK_NEAR(dist_pow(10, -3), 1e-3, 1e-17);
}

struct moments {
	double mean, var;
};

static struct moments moments_of(double (*fn)(struct rng *, double), double arg, int n)
{
	struct rng r;
	rng_init(&r, 42, 7);
	double sum = 0, sum2 = 0;
	for (int i = 0; i < n; i++) {
		double x = fn(&r, arg);
		sum += x;
		sum2 += x * x;
	}
	double mean = sum / n;
	return (struct moments){mean, sum2 / n - mean * mean};
}

static double normal(struct rng *r, double arg)
{
	(void)arg;
	return dist_normal(r);
}

static double exponential(struct rng *r, double arg)
{
	(void)arg;
	return dist_exponential(r);
}

static void distributions_have_their_moments(void)
{
	struct moments m = moments_of(normal, 0, 400000);
	CHECK_NEAR(m.mean, 0, 0.01);
	CHECK_NEAR(m.var, 1, 0.01);
	m = moments_of(exponential, 0, 400000);
	CHECK_NEAR(m.mean, 1, 0.01);
	CHECK_NEAR(m.var, 1, 0.02);
	static const double shapes[] = {0.25, 0.5, 1, 2.5, 50};
	for (int i = 0; i < 5; i++) {
		m = moments_of(dist_gamma, shapes[i], 400000);
		CHECK_NEAR(m.mean / shapes[i], 1, 0.01);
		CHECK_NEAR(m.var / shapes[i], 1, 0.03);
		m = moments_of(dist_gap, shapes[i], 400000);
		CHECK_NEAR(m.mean, 1, 0.015);
		CHECK_NEAR(m.var * shapes[i], 1, 0.03);
	}
	m = moments_of(dist_gap, INFINITY, 10);
	CU_ASSERT_EQUAL(m.mean, 1);
	CU_ASSERT_EQUAL(m.var, 0);
}

static void the_gamma_tail_is_right_not_only_its_moments(void)
{
	/* shape 2: P(X > t) = (1 + t) e^-t */
	struct rng r;
	rng_init(&r, 5, 0);
	int n = 400000, above1 = 0, above5 = 0;
	for (int i = 0; i < n; i++) {
		double x = dist_gamma(&r, 2);
		above1 += x > 1;
		above5 += x > 5;
	}
	CHECK_NEAR((double)above1 / n, 2 * exp(-1), 0.004);
	CHECK_NEAR((double)above5 / n, 6 * exp(-5), 0.002);
}

static void zipf_ranks_fall_with_the_power(void)
{
	static const double exponents[] = {0.6, 1.0, 1.7};
	for (int e = 0; e < 3; e++) {
		struct dist d = {.kind = DIST_ZIPF, .a = exponents[e], .lo = 10, .hi = 109};
		double norm = 0;
		for (int k = 1; k <= 100; k++)
			norm += pow(k, -exponents[e]);
		struct rng r;
		rng_init(&r, 9, (uint64_t)e);
		int count[110] = {0}, n = 300000;
		for (int i = 0; i < n; i++) {
			int64_t x = dist_whole(&d, &r);
			CU_ASSERT_FATAL(x >= 10 && x <= 109);
			count[x]++;
		}
		static const int ranks[] = {1, 2, 3, 10, 100};
		for (int i = 0; i < 5; i++) {
			double p = pow(ranks[i], -exponents[e]) / norm;
			CHECK_NEAR((double)count[9 + ranks[i]] / n, p, 4.5 * sqrt(p / n));
		}
	}
}

static void the_same_seed_gives_the_same_bits_everywhere(void)
{
	struct rng r;
	rng_init(&r, 2026, 3);
	double sum = 0;
	for (int i = 0; i < 1000; i++)
		sum += dist_gamma(&r, 0.7) + dist_normal(&r) + dist_exponential(&r);
	struct sha256 s;
	char hex[65];
	sha256_begin(&s);
	for (int i = 0; i < 1000; i++) {
		double x[2] = {dist_gamma(&r, 3.5), dist_exp(dist_normal(&r))};
		sha256_add(&s, x, sizeof x);
	}
	sha256_add(&s, &sum, sizeof sum);
	sha256_end(&s, hex);
	CHECK_STR(hex, "0a3f259d7251704f241c9bed64d339270b99dc4c0b258a398e7540eb38a872c6");
}

static void uniform_whole_numbers_include_both_ends(void)
{
	struct dist d = {.kind = DIST_UNIFORM, .a = 3, .b = 5, .hi = INFINITY};
	struct rng r;
	rng_init(&r, 1, 1);
	int count[6] = {0};
	for (int i = 0; i < 30000; i++) {
		int64_t x = dist_whole(&d, &r);
		CU_ASSERT_FATAL(x >= 3 && x <= 5);
		count[x]++;
	}
	for (int i = 3; i <= 5; i++)
		CHECK_NEAR(count[i] / 30000.0, 1.0 / 3, 0.01);
}

static void bounds_draw_again_instead_of_piling_up(void)
{
	struct err e = {0};
	struct dist d;
	struct rng r;
	rng_init(&r, 1, 1);
	CHECK_INT(dist_parse(&d, "lognormal:100,1,min=10,max=400", "--x", &e), ERR_NONE);
	int at_bound = 0;
	for (int i = 0; i < 20000; i++) {
		double x = dist_real(&d, &r);
		CU_ASSERT_FATAL(x >= 10 && x <= 400);
		at_bound += x == 400;
	}
	CHECK_INT(at_bound, 0);
	CHECK_INT(dist_parse(&d, "normal:0,1,min=1000", "--x", &e), ERR_NONE);
	CU_ASSERT_EQUAL(dist_real(&d, &r), 1000); /* never met: the bound, not a loop without end */
}

static void parsing_says_what_is_wrong(void)
{
	static const struct {
		const char *text, *error;
	} bad[] = {
		{"gauss:1,2",
		 "--x: \"gauss:1,2\" is none of fixed, uniform, normal, lognormal, exponential, zipf, resample"},
		{"uniform:5", "--x: \"uniform:5\" is not of the form uniform:LO,HI"},
		{"uniform:5,4", "--x: \"uniform:5,4\": LO is above HI"},
		{"uniform:1,2,3", "--x: \"uniform:1,2,3\" is not of the form uniform:LO,HI"},
		{"lognormal:0,1", "--x: \"lognormal:0,1\": MEDIAN must be above 0"},
		{"lognormal:10,", "--x: \"lognormal:10,\" is not of the form lognormal:MEDIAN,SIGMA"},
		{"zipf:1,9,2", "--x: \"zipf:1,9,2\": its range is empty"},
		{"fixed:nan", "--x: \"fixed:nan\" is not of the form fixed:N"},
		{"12x", "--x: \"12x\" is not of the form fixed:N"},
		{"", "--x: \"\" is none of fixed, uniform, normal, lognormal, exponential, zipf, resample"},
		{"resample:", "--x: \"resample:\" names no file (resample:FILE)"},
		{"resample", "--x: \"resample\" names no file (resample:FILE)"},
		{"exponential:1,min=5,max=4", "--x: \"exponential:1,min=5,max=4\": its range is empty"},
	};
	struct dist d;
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		struct err e = {0};
		CHECK_INT(dist_parse(&d, bad[i].text, "--x", &e), ERR_INPUT);
		CHECK_STR(e.text, bad[i].error);
	}
	struct err e = {0};
	CHECK_INT(dist_parse(&d, "512", "--x", &e), ERR_NONE);
	CHECK_INT(d.kind, DIST_FIXED);
	CU_ASSERT_EQUAL(d.a, 512);
	CHECK_INT(dist_parse(&d, "resample:a:b.csv", "--x", &e), ERR_NONE);
	CHECK_STR(d.file, "a:b.csv");
}

static void sha256_gives_the_standards_digests(void)
{
	static const struct {
		const char *text, *hex;
	} known[] = {
		{"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
		{"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
		{"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
		 "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
	};
	char hex[65];
	struct sha256 s;
	for (int i = 0; i < 3; i++) {
		sha256_begin(&s);
		for (const char *c = known[i].text; *c; c++)
			sha256_add(&s, c, 1);
		sha256_end(&s, hex);
		CHECK_STR(hex, known[i].hex);
	}
	char many[1000];
	memset(many, 'a', sizeof many);
	sha256_begin(&s);
	for (int i = 0; i < 1000; i++)
		sha256_add(&s, many, sizeof many);
	sha256_end(&s, hex);
	CHECK_STR(hex, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

int main(void)
{
	static const struct test tests[] = {
		{"log_is_within_4_ulp_of_libm", log_is_within_4_ulp_of_libm},
		{"exp_is_within_4_ulp_of_libm", exp_is_within_4_ulp_of_libm},
		{"distributions_have_their_moments", distributions_have_their_moments},
		{"the_gamma_tail_is_right_not_only_its_moments", the_gamma_tail_is_right_not_only_its_moments},
		{"zipf_ranks_fall_with_the_power", zipf_ranks_fall_with_the_power},
		{"the_same_seed_gives_the_same_bits_everywhere", the_same_seed_gives_the_same_bits_everywhere},
		{"uniform_whole_numbers_include_both_ends", uniform_whole_numbers_include_both_ends},
		{"bounds_draw_again_instead_of_piling_up", bounds_draw_again_instead_of_piling_up},
		{"parsing_says_what_is_wrong", parsing_says_what_is_wrong},
		{"sha256_gives_the_standards_digests", sha256_gives_the_standards_digests},
	};
	return SUITE_RUN("traces_dist", tests);
}
