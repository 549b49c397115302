/* The CUDA sampler against exec/sampler.c: the same logits, the same random numbers, the same tokens. */
#include <math.h>
#include <stdio.h>

#include "tests/cuda_host/cases.h"
#include "tests/support/suite.h"

static void same(int32_t rows, int32_t vocab, double temperature, int32_t top_k, double top_p, float spread)
{
	double differ = case_sample(rows, vocab, temperature, top_k, top_p, spread);
	if (differ == 0)
		return;
	printf("  %d logits, temperature %g, top-k %d, top-p %g, spread %g: %g of the tokens differ\n", vocab,
	       temperature, top_k, top_p, (double)spread, differ);
	CU_FAIL("tokens differ");
}

static void every_cut(void)
{
	static const int32_t vocabs[] = {1, 2, 31, 512, 3000}, ks[] = {0, 1, 2, 40, 5000};
	static const double ps[] = {1, 0.999999, 0.9, 0.3, 1e-9}, temperatures[] = {0, 0.02, 0.7, 1, 30};
	for (int v = 0; v < 5; v++)
		for (int k = 0; k < 5; k++)
			for (int p = (v + k) % 2; p < 5; p += 2)
				same(2, vocabs[v], temperatures[(v + k + p) % 5], ks[k], ps[p], 3);
}

static void many_draws(void)
{
	same(60, 700, 1, 0, 1, 2);
	same(60, 700, 1.5, 50, 1, 2);
	same(60, 700, 1.5, 0, 0.8, 2);
	same(60, 700, 1.5, 100, 0.7, 2);
}

/* Logits that are all the same, or of few values: the order among equals decides. */
static void equals(void)
{
	same(30, 300, 1, 0, 1, 0);
	same(30, 300, 1, 7, 1, 0);
	same(30, 300, 1, 0, 0.5, 0);
	same(30, 300, 1, 20, 0.5, 0);
}

/* So far apart that most weigh nothing at all. */
static void hardly_any_candidates(void)
{
	same(20, 500, 1, 0, 1, 400);
	same(20, 500, 1, 30, 1, 400);
	same(20, 500, 0.01, 30, 0.9, 400);
}

static void a_large_vocabulary(void)
{
	same(1, 128256, 0.8, 50, 0.95, 2);
	same(2, 32000, 1, 0, 0.9, 1);
}

int main(void)
{
	static const struct test tests[] = {
		{"every_cut", every_cut},
		{"many_draws", many_draws},
		{"equals", equals},
		{"hardly_any_candidates", hardly_any_candidates},
		{"a_large_vocabulary", a_large_vocabulary},
	};
	return SUITE_RUN("cuda_sample", tests);
}
