#include "analysis/report_pairs.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "analysis/jout.h"
#include "analysis/metrics.h"
#include "analysis/report.h"
#include "analysis/report_series.h"
#include "analysis/store_report.h"
#include "core/err.h"
#include "core/mem.h"

int report_side_fill(struct report_side *s, int64_t run_id, const char *hash, const struct store_request *list,
		     int64_t n, struct err *e)
{
	*s = (struct report_side){.run_id = run_id, .n = n};
	snprintf(s->hash, sizeof s->hash, "%s", hash);
	for (int k = 0; k < PAIR_FIGURES; k++) {
		s->ms[k] = mem_zalloc((size_t)n + 1, sizeof *s->ms[k]);
		if (!s->ms[k])
			return err_no_memory(e, "a report");
		for (int64_t i = 0; i < n; i++)
			s->ms[k][i] = report_figures[k].of(&list[i]);
	}
	return ERR_NONE;
}

void report_side_free(struct report_side *s)
{
	for (int k = 0; k < PAIR_FIGURES; k++)
		mem_free(s->ms[k]);
	*s = (struct report_side){0};
}

double report_batch_mean(const double *values, int64_t n, double *half)
{
	enum { BATCHES = 20 };
	static const double t95 = 2.093; /* Student's t, 19 degrees of freedom, two-sided */
	double sum = 0, of[BATCHES] = {0}, squares = 0;
	*half = NAN;
	for (int64_t i = 0; i < n; i++)
		sum += values[i];
	double mean = n > 0 ? sum / (double)n : NAN;
	if (n < 2 * BATCHES)
		return mean;
	/* Batches differ in size by at most one value. */
	for (int b = 0; b < BATCHES; b++) {
		int64_t from = n * b / BATCHES, to = n * (b + 1) / BATCHES;
		for (int64_t i = from; i < to; i++)
			of[b] += values[i];
		of[b] /= (double)(to - from);
	}
	for (int b = 0; b < BATCHES; b++)
		squares += (of[b] - mean) * (of[b] - mean);
	*half = t95 * sqrt(squares / (BATCHES - 1) / BATCHES);
	return mean;
}

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return x < y ? -1 : x > y;
}

static void put_numbers(struct jout *j, const char *key, const double *v, const int64_t *at, int32_t n)
{
	jout_begin(j, key, '[');
	for (int32_t i = 0; i < n; i++)
		jout_real(j, NULL, v[at[i]]);
	jout_end(j, ']');
}

/* diff is used up. */
static void put_differences(struct jout *j, double *diff, int64_t n, int64_t *rank, int32_t at_most)
{
	static const struct percentiles p = {.p = {1, 5, 25, 50, 75, 95, 99}, .n = 7};
	struct dist d;
	double half, mean = report_batch_mean(diff, n, &half);
	int64_t less = 0, more = 0;
	for (int64_t i = 0; i < n; i++) {
		less += diff[i] < 0;
		more += diff[i] > 0;
	}
	jout_real(j, "mean", mean);
	jout_real(j, "half", half);
	jout_int(j, "less", less);
	jout_int(j, "more", more);
	dist_compute(&d, diff, n, &p);
	jout_begin(j, "quantiles", '[');
	jout_real(j, NULL, d.min);
	for (int32_t i = 0; i < p.n; i++)
		jout_real(j, NULL, d.p[i]);
	jout_real(j, NULL, d.max);
	jout_end(j, ']');
	qsort(diff, (size_t)n, sizeof *diff, ascending);
	int32_t points = report_ranks(n, at_most, rank);
	jout_begin(j, "rank", '[');
	for (int32_t i = 0; i < points; i++)
		jout_int(j, NULL, rank[i]);
	jout_end(j, ']');
	put_numbers(j, "value", diff, rank, points);
}

int report_put_pairs(struct jout *j, const struct report_side *a, const struct report_side *b, int32_t at_most,
		     struct err *e)
{
	int64_t n = a->n < b->n ? a->n : b->n, *rank = mem_zalloc((size_t)at_most, sizeof *rank);
	double *diff = mem_zalloc((size_t)n + 1, sizeof *diff);
	int rc = rank && diff ? ERR_NONE : err_no_memory(e, "a report");
	jout_begin(j, "pairs", '{');
	jout_int(j, "against", a->run_id);
	for (int k = 0; rc == ERR_NONE && k < PAIR_FIGURES; k++) {
		int64_t m = 0, alone = 0;
		double sum_a = 0, sum_b = 0;
		for (int64_t i = 0; i < n; i++) {
			double x = a->ms[k][i], y = b->ms[k][i];
			alone += isnan(x) != isnan(y);
			if (isnan(x) || isnan(y))
				continue;
			sum_a += x;
			sum_b += y;
			diff[m++] = y - x;
		}
		jout_begin(j, report_figures[k].key, '{');
		jout_int(j, "n", m);
		jout_int(j, "alone", alone);
		jout_real(j, "mean_a", m ? sum_a / (double)m : NAN);
		jout_real(j, "mean_b", m ? sum_b / (double)m : NAN);
		if (m)
			put_differences(j, diff, m, rank, at_most);
		jout_end(j, '}');
	}
	jout_end(j, '}');
	mem_free(diff);
	mem_free(rank);
	return rc;
}
