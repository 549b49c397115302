/* calibrate_spread.c: how sure the best candidate is. */
#include <math.h>
#include <string.h>

#include "analysis/calibrate_internal.h"
#include "core/err.h"
#include "core/mem.h"
#include "core/rng.h"

enum { GROUPS = 100, DRAWS = 400 };

int spread_open(struct spread *s, int n, int64_t n_fit, struct err *e)
{
	(void)e;
	*s = (struct spread){.n = n, .n_fit = n_fit, .groups = (int32_t)(n_fit < GROUPS ? n_fit : GROUPS)};
	return ERR_NONE;
}

void spread_free(struct spread *s)
{
	mem_free(s->x);
	mem_free(s->loss);
	*s = (struct spread){0};
}

int spread_add(struct spread *s, const double *x, const struct trials *t, struct err *e)
{
	if (mem_grow((void **)&s->x, &s->cap_x, (s->n_rows + 1) * SEARCH_MAX, sizeof *s->x) ||
	    mem_grow((void **)&s->loss, &s->cap_loss, (s->n_rows + 1) * s->groups, sizeof *s->loss))
		return err_no_memory(e, "the candidates");
	memcpy(s->x + s->n_rows * SEARCH_MAX, x, (size_t)s->n * sizeof *x);
	double *loss = s->loss + s->n_rows * s->groups;
	for (int32_t g = 0; g < s->groups; g++) {
		int64_t from = s->n_fit * g / s->groups, to = s->n_fit * (g + 1) / s->groups;
		loss[g] = 0;
		for (int64_t i = from; i < to; i++)
			loss[g] += trials_request_loss(t, i);
		loss[g] /= (double)(to - from);
	}
	s->n_rows++;
	return ERR_NONE;
}

/* The row with the least loss over groups that are drawn `weight` times each. */
static int64_t winner(const struct spread *s, const int32_t *weight, double *least)
{
	int64_t best = 0;
	*least = INFINITY;
	for (int64_t r = 0; r < s->n_rows; r++) {
		double sum = 0;
		for (int32_t g = 0; g < s->groups; g++)
			sum += weight[g] * s->loss[r * s->groups + g];
		if (sum < *least) {
			*least = sum;
			best = r;
		}
	}
	return best;
}

static double square(double x)
{
	return x * x;
}

static double total(const struct spread *s, int64_t row)
{
	double sum = 0;
	for (int32_t g = 0; g < s->groups; g++)
		sum += s->loss[row * s->groups + g];
	return sum;
}

/* The k-th least of the rows' losses, k from 1. */
static double kth_least(const struct spread *s, int k)
{
	double limit = -1;
	for (int i = 0; i < k; i++) {
		double next = INFINITY;
		for (int64_t r = 0; r < s->n_rows; r++) {
			double x = total(s, r);
			if (x > limit && x < next)
				next = x;
		}
		if (isinf(next))
			break;
		limit = next;
	}
	return limit;
}

/* As good as the best: within a fiftieth of its loss, or a tenth of a percent; the nearest few in any case, since a search
 * that has not come together yet knows no better. */
static void add_equals(const struct spread *s, const double *best, double *variance)
{
	double least = kth_least(s, 1), limit = kth_least(s, 2 * s->n + 2), sum[SEARCH_MAX] = {0};
	limit = limit > least * 1.02 ? limit : least * 1.02;
	limit = limit > least + 0.001 * s->groups ? limit : least + 0.001 * s->groups;
	int64_t n = 0;
	for (int64_t r = 0; r < s->n_rows; r++) {
		if (total(s, r) > limit)
			continue;
		n++;
		for (int i = 0; i < s->n; i++)
			sum[i] += square(s->x[r * SEARCH_MAX + i] - best[i]);
	}
	for (int i = 0; i < s->n && n > 0; i++)
		variance[i] += sum[i] / (double)n;
}

void spread_measure(const struct spread *s, const double *best, uint64_t seed, double *sd)
{
	double variance[SEARCH_MAX] = {0}, least;
	int32_t weight[GROUPS];
	struct rng rng;
	rng_init(&rng, seed, 0x626f6f74u);
	for (int d = 0; d < DRAWS; d++) {
		memset(weight, 0, sizeof weight);
		for (int32_t g = 0; g < s->groups; g++)
			weight[rng_below(&rng, (uint64_t)s->groups)]++;
		int64_t r = winner(s, weight, &least);
		for (int i = 0; i < s->n; i++)
			variance[i] += square(s->x[r * SEARCH_MAX + i] - best[i]) / DRAWS;
	}
	add_equals(s, best, variance);
	for (int i = 0; i < s->n; i++)
		sd[i] = sqrt(variance[i]);
}
