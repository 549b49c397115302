/* report_requests.c: a run's requests: how their times are distributed, and how they went over time. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/jout.h"
#include "analysis/metrics.h"
#include "analysis/report.h"
#include "analysis/report_series.h"
#include "analysis/store_report.h"
#include "core/err.h"
#include "core/mem.h"

/* --- figures of one request --------------------------------------------------------------------------------------- */

/* Milliseconds as the view request_latency has them, to the last bit; tokens. NAN: it has none. */
static double ttft_ms(const struct store_request *r)
{
	return r->finished ? (double)store_request_ttft_ns(r) / 1e6 : NAN;
}

static double tpot_ms(const struct store_request *r)
{
	if (!r->finished || r->output_tokens < 2)
		return NAN;
	return (double)(store_request_e2e_ns(r) - store_request_ttft_ns(r)) / 1e6 / (r->output_tokens - 1);
}

static double e2e_ms(const struct store_request *r)
{
	return r->finished ? (double)store_request_e2e_ns(r) / 1e6 : NAN;
}

static double queue_ms(const struct store_request *r)
{
	return r->finished ? (double)r->queue_ns / 1e6 : NAN;
}

static double prompt_tokens(const struct store_request *r)
{
	return r->prompt_tokens;
}

static double output_tokens(const struct store_request *r)
{
	return r->finished ? r->output_tokens : NAN;
}

const struct report_figure report_figures[] = {{"ttft", ttft_ms},         {"tpot", tpot_ms},
					       {"e2el", e2e_ms},          {"queue", queue_ms},
					       {"prompt", prompt_tokens}, {"output", output_tokens}};
#define FIGURES (sizeof report_figures / sizeof *report_figures)
#define OVER_TIME 3 /* the first so many are shown over time as well */

/* --- distributions ------------------------------------------------------------------------------------------------ */

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return x < y ? -1 : x > y;
}

/* Of all values; as the metrics have them. latency.js has the names. */
static void put_quantiles(struct jout *j, double *values, int64_t n)
{
	static const struct percentiles p = {.p = {1, 5, 10, 25, 50, 75, 90, 95, 99, 99.9}, .n = 10};
	struct dist d;
	dist_compute(&d, values, n, &p);
	jout_begin(j, "quantiles", '[');
	jout_real(j, NULL, d.min);
	for (int32_t i = 0; i < p.n; i++)
		jout_real(j, NULL, d.p[i]);
	jout_real(j, NULL, d.max);
	jout_real(j, NULL, d.mean);
	jout_end(j, ']');
}

static int put_curve(struct jout *j, const struct report_figure *f, const struct store_request *list, int64_t n,
		     double *values, int32_t at_most, struct err *e)
{
	int64_t m = 0, *rank = mem_zalloc((size_t)at_most, sizeof *rank);
	if (!rank)
		return err_no_memory(e, "a report");
	for (int64_t i = 0; i < n; i++) {
		double v = f->of(&list[i]);
		if (!isnan(v))
			values[m++] = v;
	}
	jout_begin(j, f->key, '{');
	put_quantiles(j, values, m);
	qsort(values, (size_t)m, sizeof *values, ascending);
	int32_t points = report_ranks(m, at_most, rank);
	jout_int(j, "n", m);
	jout_begin(j, "rank", '[');
	for (int32_t i = 0; i < points; i++)
		jout_int(j, NULL, rank[i]);
	jout_end(j, ']');
	jout_begin(j, "value", '[');
	for (int32_t i = 0; i < points; i++)
		jout_real(j, NULL, values[rank[i]]);
	jout_end(j, ']');
	jout_end(j, '}');
	mem_free(rank);
	return ERR_NONE;
}

static int put_curves(struct jout *j, const struct store_request *list, int64_t n, double *values, int32_t at_most,
		      struct err *e)
{
	int rc = ERR_NONE;
	jout_begin(j, "curves", '{');
	for (size_t i = 0; rc == ERR_NONE && i < FIGURES; i++)
		rc = put_curve(j, &report_figures[i], list, n, values, at_most, e);
	jout_end(j, '}');
	return rc;
}

/* --- over time ---------------------------------------------------------------------------------------------------- */

#define STRETCHES 200

/* So long a stretch of time, 1, 2 or 5 times a power of ten, that at most STRETCHES of them cover the range. */
static int64_t stretch_ns(int64_t range_ns)
{
	for (int64_t ten = 1; ten < INT64_MAX / 10; ten *= 10)
		for (int k = 0; k < 3; k++) {
			int64_t width = ten * (k == 0 ? 1 : k == 1 ? 2 : 5);
			if (range_ns / width < STRETCHES)
				return width;
		}
	return INT64_MAX;
}

struct stretches {
	int64_t from_ns, width_ns;
	int32_t n;
};

static struct stretches stretches_over(int64_t from_ns, int64_t to_ns)
{
	struct stretches s = {.width_ns = stretch_ns(to_ns - from_ns)};
	s.from_ns = from_ns - from_ns % s.width_ns;
	s.n = (int32_t)((to_ns - s.from_ns) / s.width_ns) + 1;
	return s;
}

static void put_stretches(struct jout *j, const struct stretches *s)
{
	jout_int(j, "from_ns", s->from_ns);
	jout_int(j, "width_ns", s->width_ns);
}

/* One figure of the requests that arrived in each stretch; at[k] is where those of stretch k begin in order[]. */
static void put_figure(struct jout *j, const struct report_figure *f, const struct store_request *list,
		       const int64_t *order, const int64_t *at, int32_t n_stretches, double *values)
{
	static const char *const keys[] = {"min", "median", "p99", "max"};
	struct percentiles p;
	percentiles_default(&p);
	struct dist *d = mem_zalloc((size_t)n_stretches, sizeof *d);
	jout_begin(j, f->key, '{');
	for (int32_t k = 0; d && k < n_stretches; k++) {
		int64_t m = 0;
		for (int64_t i = at[k]; i < at[k + 1]; i++) {
			double v = f->of(&list[order[i]]);
			if (!isnan(v))
				values[m++] = v;
		}
		dist_compute(&d[k], values, m, &p);
	}
	for (int c = 0; d && c < 4; c++) {
		jout_begin(j, keys[c], '[');
		for (int32_t k = 0; k < n_stretches; k++)
			jout_real(j, NULL, c == 0 ? d[k].min : c == 1 ? d[k].median : c == 2 ? d[k].p[0] : d[k].max);
		jout_end(j, ']');
	}
	jout_end(j, '}');
	j->no_memory = j->no_memory || !d;
	mem_free(d);
}

/* Requests by the stretch they arrived in: order[n], at[s->n + 1]. */
static void sort_by_arrival(const struct stretches *s, const struct store_request *list, int64_t n, int64_t *order,
			    int64_t *at)
{
	memset(at, 0, (size_t)(s->n + 1) * sizeof *at);
	for (int64_t i = 0; i < n; i++)
		at[(list[i].arrival_ns - s->from_ns) / s->width_ns + 1]++;
	for (int32_t k = 0; k < s->n; k++)
		at[k + 1] += at[k];
	/* Filled from behind, so that at[] needs no copy. */
	for (int64_t i = n; i-- > 0;)
		order[--at[(list[i].arrival_ns - s->from_ns) / s->width_ns + 1]] = i;
	memmove(at, at + 1, (size_t)s->n * sizeof *at);
	at[s->n] = n;
}

static int put_arrivals(struct jout *j, const struct store_request *list, int64_t n, double *values, struct err *e)
{
	int64_t first = list[0].arrival_ns, last = first;
	for (int64_t i = 1; i < n; i++) {
		first = list[i].arrival_ns < first ? list[i].arrival_ns : first;
		last = list[i].arrival_ns > last ? list[i].arrival_ns : last;
	}
	struct stretches s = stretches_over(first, last);
	int64_t *order = mem_zalloc((size_t)n, sizeof *order), *at = mem_zalloc((size_t)s.n + 1, sizeof *at);
	int rc = order && at ? ERR_NONE : err_no_memory(e, "a report");
	if (rc == ERR_NONE) {
		sort_by_arrival(&s, list, n, order, at);
		jout_begin(j, "arrivals", '{');
		put_stretches(j, &s);
		jout_int(j, "first_ns", first);
		jout_int(j, "last_ns", last);
		jout_begin(j, "n", '[');
		for (int32_t k = 0; k < s.n; k++)
			jout_int(j, NULL, at[k + 1] - at[k]);
		jout_end(j, ']');
		for (int i = 0; i < OVER_TIME; i++)
			put_figure(j, &report_figures[i], list, order, at, s.n, values);
		jout_end(j, '}');
	}
	mem_free(order);
	mem_free(at);
	return rc;
}

static int64_t finish_ns(const struct store_request *r)
{
	return r->arrival_ns + store_request_e2e_ns(r);
}

/* What finished in each stretch of the whole run. */
static int put_rates(struct jout *j, const struct store_request *list, int64_t n, struct err *e)
{
	int64_t first = INT64_MAX, last = 0;
	for (int64_t i = 0; i < n; i++) {
		first = list[i].arrival_ns < first ? list[i].arrival_ns : first;
		last = list[i].finished && finish_ns(&list[i]) > last ? finish_ns(&list[i]) : last;
	}
	if (last < first)
		last = first;
	struct stretches s = stretches_over(first, last);
	int64_t *sums = mem_zalloc(2 * (size_t)s.n, sizeof *sums);
	if (!sums)
		return err_no_memory(e, "a report");
	for (int64_t i = 0; i < n; i++) {
		if (!list[i].finished)
			continue;
		int64_t k = (finish_ns(&list[i]) - s.from_ns) / s.width_ns;
		sums[k]++;
		sums[s.n + k] += list[i].output_tokens;
	}
	jout_begin(j, "rates", '{');
	put_stretches(j, &s);
	for (int c = 0; c < 2; c++) {
		jout_begin(j, c ? "output_tokens" : "finished", '[');
		for (int32_t k = 0; k < s.n; k++)
			jout_int(j, NULL, sums[c * s.n + k]);
		jout_end(j, ']');
	}
	jout_end(j, '}');
	mem_free(sums);
	return ERR_NONE;
}

int report_put_requests(struct jout *j, const struct store_request *list, int64_t n, const struct report_room *room,
			struct err *e)
{
	if (n == 0)
		return ERR_NONE;
	double *values = mem_zalloc((size_t)n, sizeof *values);
	int rc = values ? put_curves(j, list, n, values, room->curve_points, e) : err_no_memory(e, "a report");
	if (rc == ERR_NONE)
		rc = put_arrivals(j, list, n, values, e);
	if (rc == ERR_NONE)
		rc = put_rates(j, list, n, e);
	mem_free(values);
	return rc;
}
