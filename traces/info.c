#include "traces/info.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/err.h"
#include "core/mem.h"
#include "traces/subset.h"

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

double info_percentile(const double *x, int64_t n, double p)
{
	double at = p / 100 * (double)(n - 1);
	int64_t lo = (int64_t)at;
	if (lo >= n - 1)
		return x[n - 1];
	double part = at - (double)lo;
	return x[lo] + (x[lo + 1] - x[lo]) * part;
}

/* Sorts x. */
static struct info_stat describe(double *x, int64_t n)
{
	struct info_stat s = {.n = n};
	if (n == 0) {
		s.mean = s.std = s.min = s.p50 = s.p90 = s.p99 = s.max = NAN;
		return s;
	}
	double sum = 0, sum2 = 0;
	for (int64_t i = 0; i < n; i++)
		sum += x[i];
	s.mean = sum / (double)n;
	for (int64_t i = 0; i < n; i++)
		sum2 += (x[i] - s.mean) * (x[i] - s.mean);
	s.std = sqrt(sum2 / (double)n);
	qsort(x, (size_t)n, sizeof *x, by_value);
	s.min = x[0];
	s.max = x[n - 1];
	s.p50 = info_percentile(x, n, 50);
	s.p90 = info_percentile(x, n, 90);
	s.p99 = info_percentile(x, n, 99);
	return s;
}

static void lengths(const struct workload *w, struct info *o, double *x)
{
	for (int64_t i = 0; i < w->n; i++) {
		x[i] = w->specs[i].prompt_tokens;
		o->input_total += w->specs[i].prompt_tokens;
	}
	o->input = describe(x, w->n);
	for (int64_t i = 0; i < w->n; i++) {
		const struct spec *s = &w->specs[i];
		x[i] = s->output_tokens;
		o->output_total += s->output_tokens;
		o->zero_output += s->output_tokens == 0;
		o->with_max_tokens += s->max_tokens > 0;
		o->with_ids += s->n_hashes > 0;
	}
	o->output = describe(x, w->n);
}

static void rate_over_time(struct info *o, const double *at, int64_t n)
{
	double first = at[0];
	o->n_bins = n < INFO_BINS ? (int32_t)n : INFO_BINS;
	for (int64_t i = 0; i < n; i++) {
		int bin = (int)((at[i] - first) / o->duration_s * o->n_bins);
		o->bin[bin < o->n_bins ? bin : o->n_bins - 1]++;
	}
}

/* Of the requests whose arrival the trace gives: those that wait for others have none. */
static void arrivals(const struct workload *w, struct info *o, double *x)
{
	int64_t n = 0;
	for (int64_t i = 0; i < w->n; i++)
		if (!w->n_parents || !w->n_parents[i])
			x[n++] = (double)w->specs[i].arrival_ns / 1e9;
	o->rate = o->gap_cv = o->burstiness = NAN;
	if (n > 1 && x[n - 1] > x[0]) {
		o->duration_s = x[n - 1] - x[0];
		o->rate = (double)(n - 1) / o->duration_s;
		rate_over_time(o, x, n);
	}
	for (int64_t i = 0; i + 1 < n; i++) {
		x[i] = x[i + 1] - x[i];
		o->ties += x[i] == 0;
	}
	o->gap = describe(x, n > 1 ? n - 1 : 0);
	if (o->duration_s > 0) {
		o->gap_cv = o->gap.std / o->gap.mean;
		/* what is left of even spacing after rounding to nanoseconds is not burstiness */
		o->burstiness = o->gap_cv > 1e-6 ? 1 / (o->gap_cv * o->gap_cv) : INFINITY;
	}
}

static int sessions(const struct workload *w, struct info *o, struct err *e)
{
	int32_t most = -1;
	for (int64_t i = 0; i < w->n; i++)
		most = w->specs[i].session > most ? w->specs[i].session : most;
	int32_t *count = mem_zalloc((size_t)most + 2, sizeof *count);
	if (!count)
		return err_no_memory(e, "counting sessions");
	for (int64_t i = 0; i < w->n; i++)
		if (w->specs[i].session >= 0) {
			int32_t n = ++count[w->specs[i].session];
			o->sessions += n == 1;
			o->largest_session = n > o->largest_session ? n : o->largest_session;
		}
	mem_free(count);
	return ERR_NONE;
}

static int dependencies(const struct workload *w, struct info *o, struct err *e)
{
	o->depth = w->n > 0;
	if (!w->n_parents)
		return ERR_NONE;
	int64_t *ready = mem_alloc((size_t)w->n * sizeof *ready);
	int32_t *order = mem_alloc((size_t)w->n * sizeof *order), *depth = mem_zalloc((size_t)w->n, sizeof *depth);
	int code = ready && order && depth ? subset_ready(w, ready, order, e) : err_no_memory(e, "dependencies");
	for (int64_t k = 0; k < w->n && !code; k++) {
		int32_t i = order[k];
		o->dependents += w->n_parents[i] > 0;
		o->depth = depth[i] + 1 > o->depth ? depth[i] + 1 : o->depth;
		for (int64_t c = w->child_at[i]; c < w->child_at[i + 1]; c++)
			if (depth[w->child[c]] < depth[i] + 1)
				depth[w->child[c]] = depth[i] + 1;
	}
	o->links = w->child_at[w->n];
	mem_free(ready);
	mem_free(order);
	mem_free(depth);
	return code;
}

int info_compute(const struct workload *w, struct info *out, struct err *e)
{
	memset(out, 0, sizeof *out);
	out->n = w->n;
	out->tenants = w->n_tenants > 0 ? w->n_tenants - 1 : 0;
	out->lengths_estimated = w->lengths_estimated;
	double *x = mem_alloc((size_t)(w->n + 1) * sizeof *x);
	if (!x)
		return err_no_memory(e, "the trace's figures");
	lengths(w, out, x);
	arrivals(w, out, x);
	mem_free(x);
	int code = sessions(w, out, e);
	if (!code)
		code = dependencies(w, out, e);
	if (!code)
		code = workload_ideal_hits(w, &out->blocks, &out->distinct_blocks, e);
	if (code)
		return code;
	out->ideal_hit_ratio = out->blocks ? 1 - (double)out->distinct_blocks / (double)out->blocks : NAN;
	out->hash_block = w->seg_tokens || !out->blocks ? 0 : w->hash_block;
	out->hash = workload_hash(w);
	return ERR_NONE;
}
