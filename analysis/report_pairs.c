#include "analysis/report_pairs.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/jout.h"
#include "analysis/metrics.h"
#include "analysis/report.h"
#include "analysis/report_series.h"
#include "analysis/store_report.h"
#include "core/err.h"
#include "core/mem.h"

static void take_prefix_cache(void *ctx, const char *name, double value, const char *unit, bool uncertain)
{
	(void)unit;
	(void)uncertain;
	if (strcmp(name, "prefix_hit_ratio") == 0)
		((struct effects_run *)ctx)->prefix_cache = !isnan(value);
}

int report_side_fill(struct report_side *x, struct store *s, const struct store_report_run *r,
		     const struct store_request *list, int64_t n, struct err *e)
{
	*x = (struct report_side){.run_id = r->run_id, .n = n};
	snprintf(x->label, sizeof x->label, "#%lld %.170s", (long long)r->run_id, r->label);
	x->run.run_id = r->run_id;
	x->run.workload_hash = strtoull(r->workload_hash, NULL, 16);
	for (int k = 0; k < PAIR_FIGURES; k++) {
		x->ms[k] = mem_zalloc((size_t)n + 1, sizeof *x->ms[k]);
		if (!x->ms[k])
			return err_no_memory(e, "a report");
		for (int64_t i = 0; i < n; i++)
			x->ms[k][i] = report_figures[k].of(&list[i]);
	}
	int rc = store_report_metrics(s, r->run_id, take_prefix_cache, &x->run, e);
	return rc ? rc : effects_run_stored(&x->run, list, n, e);
}

void report_side_free(struct report_side *x)
{
	for (int k = 0; k < PAIR_FIGURES; k++)
		mem_free(x->ms[k]);
	effects_run_free(&x->run);
	*x = (struct report_side){0};
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
	int64_t less = 0, more = 0;
	for (int64_t i = 0; i < n; i++) {
		less += diff[i] < 0;
		more += diff[i] > 0;
	}
	jout_int(j, "less", less);
	jout_int(j, "more", more);
	dist_compute(&d, diff, n, &p);
	jout_real(j, "mean", d.mean);
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

static void put_figure(struct jout *j, const struct report_side *a, const struct report_side *b, int k, double *diff,
		       int64_t *rank, int32_t at_most)
{
	int64_t m = 0, alone = 0;
	for (int64_t i = 0; i < a->n && i < b->n; i++) {
		double x = a->ms[k][i], y = b->ms[k][i];
		alone += isnan(x) != isnan(y);
		if (!isnan(x) && !isnan(y))
			diff[m++] = y - x;
	}
	jout_begin(j, report_figures[k].key, '{');
	jout_int(j, "n", m);
	jout_int(j, "alone", alone);
	if (m)
		put_differences(j, diff, m, rank, at_most);
	jout_end(j, '}');
}

static int put_effects(struct jout *j, const struct report_side *a, const struct report_side *b, struct err *e)
{
	struct effects x;
	struct percentiles p;
	struct effects_run run_a = a->run, run_b = b->run;
	const struct effects_side of_a = {a->label, &run_a, 1}, of_b = {b->label, &run_b, 1};
	percentiles_default(&p);
	int rc = effects_between(&x, &of_a, &of_b, &p, false, e);
	if (rc)
		return rc;
	jout_begin(j, "effects", '[');
	effects_json(&x, j);
	jout_end(j, ']');
	effects_free(&x);
	return ERR_NONE;
}

int report_put_pairs(struct jout *j, const struct report_side *a, const struct report_side *b, int32_t at_most,
		     struct err *e)
{
	int64_t n = a->n < b->n ? a->n : b->n, *rank = mem_zalloc((size_t)at_most, sizeof *rank);
	double *diff = mem_zalloc((size_t)n + 1, sizeof *diff);
	int rc = rank && diff ? ERR_NONE : err_no_memory(e, "a report");
	jout_begin(j, "pairs", '{');
	jout_int(j, "against", a->run_id);
	if (rc == ERR_NONE)
		rc = put_effects(j, a, b, e);
	for (int k = 0; rc == ERR_NONE && a->run.workload_hash == b->run.workload_hash && k < PAIR_FIGURES; k++)
		put_figure(j, a, b, k, diff, rank, at_most);
	jout_end(j, '}');
	mem_free(diff);
	mem_free(rank);
	return rc;
}
