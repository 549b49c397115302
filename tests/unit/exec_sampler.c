/* Sampling: what may come out, how often, and that it depends on nothing but seed, stream and number. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/err.h"
#include "core/rng.h"
#include "exec/sampler.h"
#include "tests/support/suite.h"

static struct sampler *make(double temperature, int32_t top_k, double top_p, uint64_t seed, int32_t vocab)
{
	struct sampler *s;
	struct err e = {0};
	struct sampling how = {.temperature = temperature, .top_k = top_k, .top_p = top_p, .seed = seed};
	CU_ASSERT_EQUAL_FATAL(sampler_create(&s, &how, vocab, &e), ERR_NONE);
	return s;
}

static void random_logits(float *x, int32_t n, double spread, uint64_t seed)
{
	struct rng r;
	rng_init(&r, seed, 3);
	for (int32_t i = 0; i < n; i++)
		x[i] = (float)(spread * (rng_unit(&r) + rng_unit(&r) + rng_unit(&r) - 1.5));
}

static void greedy_takes_the_lowest_id_of_the_largest(void)
{
	const float x[] = {1, 3, 2, 3, -5, NAN};
	struct sampler *s = make(0, 0, 1, 0, 6);
	CHECK_INT(sampler_next(s, x, 0, 0), 1);
	CHECK_INT(sampler_next(s, x, 9, 77), 1);
	sampler_free(s);
	const float none[] = {-INFINITY, -INFINITY};
	s = make(1, 0, 1, 0, 2);
	CHECK_INT(sampler_next(s, none, 0, 0), 0);
	sampler_free(s);
}

/* Pearson's statistic over draws of one distribution, against its 99.9 % point by Wilson and Hilferty (1931). */
static void frequencies(double temperature, int32_t top_k, double top_p, const double *expected, const float *logits,
			int32_t vocab)
{
	enum { DRAWS = 40000 };
	struct sampler *s = make(temperature, top_k, top_p, 5, vocab);
	int64_t *seen = calloc((size_t)vocab, sizeof *seen);
	CU_ASSERT_FATAL(seen != NULL);
	for (int i = 0; i < DRAWS; i++)
		seen[sampler_next(s, logits, (uint64_t)(i % 7), i / 7)]++;
	double chi = 0, degrees = -1;
	for (int32_t i = 0; i < vocab; i++) {
		double want = expected[i] * DRAWS;
		if (expected[i] <= 0) {
			CHECK_INT(seen[i], 0);
			continue;
		}
		chi += ((double)seen[i] - want) * ((double)seen[i] - want) / want;
		degrees++;
	}
	double a = 2 / (9 * degrees), limit = degrees * pow(1 - a + 3.0902 * sqrt(a), 3);
	if (degrees < 1)
		limit = 0; /* one token: always it */
	if (chi > limit)
		fprintf(stderr, "  chi-square %g of %g degrees is above %g\n", chi, degrees, limit);
	CU_ASSERT(chi <= limit);
	free(seen);
	sampler_free(s);
}

/* The distribution, by sorting everything. */
static void distribution(double *p, const float *logits, int32_t n, double temperature, int32_t k, double top_p)
{
	double total = 0, mass = 0, sum = 0;
	int32_t *order = malloc((size_t)n * sizeof *order);
	CU_ASSERT_FATAL(order != NULL);
	for (int32_t i = 0; i < n; i++) {
		int32_t at = i;
		for (; at > 0 && logits[order[at - 1]] < logits[i]; at--)
			order[at] = order[at - 1];
		order[at] = i;
	}
	if (k == 0 || k > n)
		k = n;
	for (int32_t i = 0; i < n; i++)
		p[i] = 0;
	for (int32_t i = 0; i < k; i++)
		total += exp((double)logits[order[i]] / temperature);
	for (int32_t i = 0; i < k && (i == 0 || mass < top_p); i++) {
		p[order[i]] = exp((double)logits[order[i]] / temperature) / total;
		mass += p[order[i]];
	}
	for (int32_t i = 0; i < n; i++)
		sum += p[i];
	for (int32_t i = 0; i < n; i++)
		p[i] /= sum;
	free(order);
}

static void tokens_come_as_often_as_their_probability(void)
{
	float x[50];
	double p[50];
	static const struct {
		double temperature;
		int32_t k;
		double top_p;
	} ways[] = {{1, 0, 1},   {0.7, 0, 1},  {3, 0, 1},      {1, 5, 1},      {1, 1, 1},    {1, 0, 0.9},
		    {1, 0, 0.3}, {1, 0, 1e-9}, {0.8, 20, 0.8}, {2, 49, 0.999}, {2, 500, 0.5}};
	random_logits(x, 50, 1.5, 1);
	x[7] = x[30]; /* a tie */
	for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
		distribution(p, x, 50, ways[i].temperature, ways[i].k, ways[i].top_p);
		frequencies(ways[i].temperature, ways[i].k, ways[i].top_p, p, x, 50);
	}
}

static void a_nucleus_is_the_smallest_set_that_reaches_it(void)
{
	const float x[] = {logf(0.1f), logf(0.5f), logf(0.25f), logf(0.15f)};
	static const struct {
		double top_p;
		uint32_t may; /* bits of ids */
	} cases[] = {{0.4, 2}, {0.499, 2}, {0.51, 6}, {0.74, 6}, {0.76, 14}, {0.89, 14}, {0.91, 15}, {1, 15}};
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct sampler *s = make(1, 0, cases[i].top_p, 2, 4);
		uint32_t seen = 0;
		for (int k = 0; k < 400; k++)
			seen |= 1u << sampler_next(s, x, 1, k);
		CHECK_INT(seen, cases[i].may);
		sampler_free(s);
	}
}

static void ties_at_the_edge_go_to_lower_ids(void)
{
	const float x[] = {1, 1, 1, 1};
	struct sampler *s = make(1, 2, 1, 2, 4);
	uint32_t seen = 0;
	for (int k = 0; k < 200; k++)
		seen |= 1u << sampler_next(s, x, 1, k);
	CHECK_INT(seen, 3);
	sampler_free(s);
	s = make(1, 0, 0.5, 2, 4);
	for (int k = seen = 0; k < 200; k++)
		seen |= 1u << sampler_next(s, x, 1, k);
	CHECK_INT(seen, 3);
	sampler_free(s);
}

/* A request's tokens do not depend on what runs beside it. */
static void a_draw_depends_on_seed_stream_and_number_alone(void)
{
	float x[300], other[300];
	random_logits(x, 300, 2, 1);
	random_logits(other, 300, 2, 2);
	struct sampler *a = make(1, 40, 0.95, 11, 300), *b = make(1, 40, 0.95, 11, 300),
		       *c = make(1, 40, 0.95, 12, 300);
	int32_t alone[50], differ_seed = 0, differ_stream = 0, differ_number = 0;
	for (int k = 0; k < 50; k++)
		alone[k] = sampler_next(a, x, 4, k);
	for (int k = 49; k >= 0; k--) {
		(void)sampler_next(b, other, 5, k);
		CHECK_INT(sampler_next(b, x, 4, k), alone[k]);
		differ_stream += sampler_next(b, x, 5, k) != alone[k];
		differ_number += sampler_next(b, x, 4, k + 1) != alone[k];
		differ_seed += sampler_next(c, x, 4, k) != alone[k];
	}
	CU_ASSERT(differ_stream > 25 && differ_number > 25 && differ_seed > 25);
	sampler_free(a);
	sampler_free(b);
	sampler_free(c);
}

static void extreme_logits_do_no_harm(void)
{
	const float x[] = {-3e38f, 1e4f, NAN, -INFINITY, 3e38f};
	struct sampler *s = make(0.001, 3, 0.5, 1, 5);
	CHECK_INT(sampler_next(s, x, 0, 0), 4);
	sampler_free(s);
	s = make(1e6, 0, 1, 1, 5);
	for (int k = 0; k < 100; k++)
		CHECK_INT(sampler_next(s, x, 0, k), 4);
	sampler_free(s);
	const float flat[] = {0, NAN, 0};
	s = make(1, 0, 1, 1, 3);
	for (int k = 0; k < 100; k++)
		CU_ASSERT(sampler_next(s, flat, 0, k) != 1);
	sampler_free(s);
}

static void impossible_settings_are_refused(void)
{
	static const struct sampling bad[] = {
		{.temperature = -1, .top_p = 1},  {.temperature = NAN, .top_p = 1},
		{.temperature = 1, .top_p = 0},   {.temperature = 1, .top_p = 1.1},
		{.temperature = 1, .top_p = NAN}, {.temperature = 1, .top_k = -2, .top_p = 1},
	};
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		struct sampler *s;
		struct err e = {0};
		CHECK_INT(sampler_create(&s, &bad[i], 10, &e), ERR_INPUT);
		CU_ASSERT(s == NULL && strstr(e.text, "must be") != NULL);
	}
}

int main(void)
{
	static const struct test tests[] = {
		{"greedy_takes_the_lowest_id_of_the_largest", greedy_takes_the_lowest_id_of_the_largest},
		{"tokens_come_as_often_as_their_probability", tokens_come_as_often_as_their_probability},
		{"a_nucleus_is_the_smallest_set_that_reaches_it", a_nucleus_is_the_smallest_set_that_reaches_it},
		{"ties_at_the_edge_go_to_lower_ids", ties_at_the_edge_go_to_lower_ids},
		{"a_draw_depends_on_seed_stream_and_number_alone", a_draw_depends_on_seed_stream_and_number_alone},
		{"extreme_logits_do_no_harm", extreme_logits_do_no_harm},
		{"impossible_settings_are_refused", impossible_settings_are_refused},
	};
	return SUITE_RUN("exec_sampler", tests);
}
