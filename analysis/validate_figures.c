/* validate_figures.c: errors of steps, their parts and requests, each beside the executor's own spread. */
#include "analysis/validate_figures.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/err.h"
#include "core/mem.h"

double percent_off(double a, double b)
{
	return b != 0 && isfinite(a) && isfinite(b) ? (a / b - 1) * 100 : NAN;
}

/* --- steps -------------------------------------------------------------------------------------------------------- */

/* Of one kind. */
struct step_sums {
	int64_t n;
	double absolute, bias, measured, predicted;
	double *errors; /* [n] absolute, percent */
};

static void add_step(struct step_sums *s, const struct validate_point *p)
{
	double off = percent_off(p->predicted_ns, p->measured_ns);
	if (isnan(off))
		return;
	s->errors[s->n++] = fabs(off);
	s->absolute += fabs(off);
	s->bias += off;
	s->measured += p->measured_ns;
	s->predicted += p->predicted_ns;
}

static double percentile(double *values, int64_t n, double p)
{
	const struct percentiles one = {.p = {p}, .n = 1};
	struct dist d;
	dist_compute(&d, values, n, &one);
	return d.p[0];
}

static void finish_steps(struct validate_steps *out, struct step_sums *s, int64_t all)
{
	double n = s->n ? (double)s->n : NAN;
	out->n = s->n ? s->n : all;
	out->mape = s->absolute / n;
	out->bias = s->bias / n;
	out->total = percent_off(s->predicted, s->measured);
	out->p90 = percentile(s->errors, s->n, 90);
	out->measured_ns = s->measured;
	out->predicted_ns = s->predicted;
}

static bool of_kind(const struct watch_step *s, int kind)
{
	return kind == VALIDATE_ALL || (int)s->kind == kind;
}

/* MAPE between the first execution and the others. */
static double spread_of_steps(const struct watched *w, int kind)
{
	double sum = 0;
	int64_t n = 0;
	for (int32_t k = 0; k < w->n_again; k++) {
		for (int64_t i = 0; i < w->again[k]->cut; i++) {
			const struct watch_step *s = &w->first->steps[i];
			double off = of_kind(s, kind)
					     ? percent_off((double)w->again[k]->steps[i].took_ns, (double)s->took_ns)
					     : NAN;
			if (isnan(off))
				continue;
			sum += fabs(off);
			n++;
		}
	}
	return n ? sum / (double)n : NAN;
}

static int make_points(struct validate_result *r, const struct watched *w, struct err *e)
{
	const struct watch *first = w->first;
	r->points = mem_zalloc((size_t)first->n + 1, sizeof *r->points);
	if (!r->points)
		return err_no_memory(e, "the steps' points");
	r->n_points = first->n;
	for (int64_t i = 0; i < first->n; i++)
		r->points[i] = (struct validate_point){
			.measured_ns = (double)first->steps[i].took_ns,
			.predicted_ns = w->predicted ? (double)w->predicted->steps[i].took_ns : NAN,
			.again_ns = w->n_again && i < w->again[0]->cut ? (double)w->again[0]->steps[i].took_ns : NAN,
			.kind = first->steps[i].kind};
	return ERR_NONE;
}

static void note_outside(struct validate_result *r, const struct watched *w)
{
	for (int64_t i = 0; w->predicted && i < w->predicted->n; i++) {
		double outside = w->predicted->steps[i].outside;
		r->outside_steps += outside > 0;
		if (outside > r->outside_max)
			r->outside_max = outside;
	}
}

/* Part k of a step: the device's, then the host. */
static double part_of(const struct watch_step *s, int k)
{
	return k < STEP_PARTS ? s->part_ns[k] : (double)s->host_ns;
}

/* Over the first n steps. */
static double sum_part(const struct watch *w, int64_t n, int k)
{
	double sum = 0;
	for (int64_t i = 0; i < n; i++)
		sum += part_of(&w->steps[i], k);
	return sum;
}

static bool all_have_parts(const struct watch *w)
{
	for (int64_t i = 0; w && i < w->n; i++)
		if (!w->steps[i].has_parts)
			return false;
	return w && w->n > 0;
}

static void figures_of_parts(struct validate_result *r, const struct watched *w)
{
	const struct watch *a = w->first, *p = w->predicted;
	r->has_parts = all_have_parts(a) && all_have_parts(p);
	double total = 0;
	for (int64_t i = 0; i < a->n; i++)
		total += (double)a->steps[i].took_ns;
	for (int k = 0; r->has_parts && k < VALIDATE_PARTS; k++) {
		struct validate_part *out = &r->parts[k];
		double absolute = 0, spread = 0;
		for (int64_t i = 0; i < a->n; i++)
			absolute += fabs(part_of(&p->steps[i], k) - part_of(&a->steps[i], k));
		*out = (struct validate_part){.measured_ns = sum_part(a, a->n, k),
					      .predicted_ns = sum_part(p, a->n, k)};
		out->share = total > 0 ? out->measured_ns / total * 100 : NAN;
		out->error = percent_off(out->predicted_ns, out->measured_ns);
		out->absolute = total > 0 ? absolute / total * 100 : NAN;
		for (int32_t j = 0; j < w->n_again; j++)
			spread += fabs(percent_off(sum_part(w->again[j], w->again[j]->cut, k),
						   sum_part(a, w->again[j]->cut, k)));
		out->spread = w->n_again ? spread / w->n_again : NAN;
	}
}

int figures_of_steps(struct validate_result *r, const struct watched *w, struct err *e)
{
	int rc = make_points(r, w, e);
	if (rc)
		return rc;
	double *errors = mem_alloc(((size_t)r->n_points + 1) * sizeof *errors);
	if (!errors)
		return err_no_memory(e, "the steps' errors");
	for (int kind = 0; kind < VALIDATE_KINDS; kind++) {
		struct step_sums sums = {.errors = errors};
		int64_t all = 0;
		for (int64_t i = 0; i < r->n_points; i++) {
			if (!of_kind(&w->first->steps[i], kind))
				continue;
			all++;
			add_step(&sums, &r->points[i]);
		}
		finish_steps(&r->steps[kind], &sums, all);
		r->steps[kind].spread = spread_of_steps(w, kind);
	}
	mem_free(errors);
	note_outside(r, w);
	figures_of_parts(r, w);
	return ERR_NONE;
}

void figures_fill_rest(struct watch *w, const struct watch *first)
{
	int64_t next[VALIDATE_KINDS] = {0}; /* the step whose difference is taken next */
	for (int64_t i = w->cut; w->cut && i < w->n; i++) {
		enum validate_kind kind = first->steps[i].kind;
		int64_t j = next[kind], looked = 0;
		while (looked++ < w->cut && (first->steps[j].kind != kind || first->steps[j].took_ns <= 0))
			j = (j + 1) % w->cut;
		double ratio =
			first->steps[j].took_ns > 0 ? (double)w->steps[j].took_ns / (double)first->steps[j].took_ns : 1;
		w->steps[i].took_ns = (int64_t)((double)first->steps[i].took_ns * ratio + 0.5);
		next[kind] = (j + 1) % w->cut;
	}
}

/* --- requests ----------------------------------------------------------------------------------------------------- */

static int times_make(struct request_times *t, int64_t n, struct err *e)
{
	*t = (struct request_times){.n = n};
	for (int k = 0; k < VALIDATE_TIMES; k++) {
		t->of[k] = mem_alloc(((size_t)n + 1) * sizeof **t->of);
		if (!t->of[k]) {
			times_free(t);
			return err_no_memory(e, "the requests' times");
		}
		for (int64_t i = 0; i < n; i++)
			t->of[k][i] = NAN;
	}
	return ERR_NONE;
}

void times_free(struct request_times *t)
{
	for (int k = 0; k < VALIDATE_TIMES; k++)
		mem_free(t->of[k]);
	*t = (struct request_times){0};
}

static void set_times(struct request_times *t, int64_t i, const struct request *q)
{
	t->of[VALIDATE_QUEUE][i] = (double)request_queue_ns(q);
	t->of[VALIDATE_PREFILL][i] = (double)request_prefill_ns(q);
	t->of[VALIDATE_TTFT][i] = (double)request_ttft_ns(q);
	t->of[VALIDATE_E2E][i] = (double)request_e2e_ns(q);
	if (q->outputs >= 2)
		t->of[VALIDATE_TPOT][i] = (double)(q->last_token_ns - q->first_token_ns) / (q->outputs - 1);
}

int times_of_requests(struct request_times *t, const struct request *requests, int64_t n, struct err *e)
{
	int rc = times_make(t, n, e);
	for (int64_t i = 0; rc == ERR_NONE && i < n; i++)
		if (requests[i].state == REQUEST_FINISHED)
			set_times(t, i, &requests[i]);
	return rc;
}

/* Known values of one time, in `out`; returns how many. */
static int64_t gather(const struct request_times *t, int time, double *out)
{
	int64_t n = 0;
	for (int64_t i = 0; i < t->n; i++)
		if (!isnan(t->of[time][i]))
			out[n++] = t->of[time][i];
	return n;
}

static void stats_of(double *values, int64_t n, double out[VALIDATE_STATS])
{
	static const struct percentiles three = {.p = {50, 90, 99}, .n = 3};
	struct dist d;
	dist_compute(&d, values, n, &three);
	out[VALIDATE_MEAN] = d.mean;
	for (int k = 0; k < 3; k++)
		out[VALIDATE_P50 + k] = d.p[k];
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static int keep_samples(struct validate_result *r, const struct request_times *t, int time, int side,
			double out[VALIDATE_STATS], struct err *e)
{
	double *values = mem_alloc(((size_t)t->n + 1) * sizeof *values);
	if (!values)
		return err_no_memory(e, "the requests' samples");
	int64_t n = gather(t, time, values);
	stats_of(values, n, out);
	qsort(values, (size_t)n, sizeof *values, by_value);
	r->samples[time][side] = values;
	r->n_samples[time][side] = n;
	return ERR_NONE;
}

/* Mean over further executions of how far each statistic was off the first's. */
static void spreads_of(const struct request_times *again, int32_t n_again, int time,
		       const double measured[VALIDATE_STATS], double *scratch, double out[VALIDATE_STATS])
{
	for (int k = 0; k < VALIDATE_STATS; k++)
		out[k] = n_again ? 0 : NAN;
	for (int32_t j = 0; j < n_again; j++) {
		double stats[VALIDATE_STATS];
		stats_of(scratch, gather(&again[j], time, scratch), stats);
		for (int k = 0; k < VALIDATE_STATS; k++)
			out[k] += fabs(percent_off(stats[k], measured[k])) / n_again;
	}
}

static double mean_step(const struct validate_result *r)
{
	double sum = 0;
	for (int64_t i = 0; i < r->n_points; i++)
		sum += r->points[i].measured_ns;
	return r->n_points ? sum / (double)r->n_points : 0;
}

static double request_mape(const struct request_times *measured, const struct request_times *simulated, int time,
			   double step)
{
	double sum = 0;
	int64_t n = 0;
	for (int64_t i = 0; i < measured->n; i++) {
		double m = measured->of[time][i], s = simulated->of[time][i], off = percent_off(s, m);
		if (isnan(off) || (time == VALIDATE_QUEUE && m <= step && s <= step))
			continue;
		sum += fabs(off);
		n++;
	}
	return n ? sum / (double)n : NAN;
}

int figures_of_requests(struct validate_result *r, const struct request_times *measured,
			const struct request_times *simulated, const struct request_times *again, int32_t n_again,
			struct err *e)
{
	double *scratch = mem_alloc(((size_t)measured->n + 1) * sizeof *scratch), step = mean_step(r);
	int rc = scratch ? ERR_NONE : err_no_memory(e, "the requests' samples");
	for (int t = 0; rc == ERR_NONE && t < VALIDATE_TIMES; t++) {
		double m[VALIDATE_STATS], s[VALIDATE_STATS], spread[VALIDATE_STATS];
		static const double ranks[VALIDATE_STATS] = {0, 50, 90, 99};
		rc = keep_samples(r, measured, t, 0, m, e);
		if (rc == ERR_NONE)
			rc = keep_samples(r, simulated, t, 1, s, e);
		if (rc)
			break;
		spreads_of(again, n_again, t, m, scratch, spread);
		r->request_mape[t] = request_mape(measured, simulated, t, step);
		for (int k = 0; k < VALIDATE_STATS; k++)
			r->times[t][k] = (struct validate_figure){
				.measured = m[k],
				.simulated = s[k],
				.error = percent_off(s[k], m[k]),
				.spread = spread[k],
				.n = r->n_samples[t][0],
				.thin = k != VALIDATE_MEAN && percentile_is_thin(ranks[k], r->n_samples[t][0]),
				.below_step = t == VALIDATE_QUEUE && m[k] <= step && s[k] <= step};
	}
	mem_free(scratch);
	return rc;
}

void figures_of_rates(struct validate_result *r, const int64_t *end_ns, int32_t n_again)
{
	const struct metrics *m = &r->executed.metrics, *s = &r->simulated.metrics;
	const double measured[VALIDATE_RATES] = {m->request_throughput, m->output_throughput};
	const double simulated[VALIDATE_RATES] = {s->request_throughput, s->output_throughput};
	double spread = n_again ? 0 : NAN;
	/* The same requests and tokens over another time. */
	for (int32_t j = 0; j < n_again; j++)
		spread +=
			fabs(percent_off((double)m->duration_ns, (double)(end_ns[j] - m->first_arrival_ns))) / n_again;
	for (int k = 0; k < VALIDATE_RATES; k++)
		r->rates[k] = (struct validate_figure){.measured = measured[k],
						       .simulated = simulated[k],
						       .error = percent_off(simulated[k], measured[k]),
						       .spread = spread,
						       .n = m->completed};
}

/* --- judgement ---------------------------------------------------------------------------------------------------- */

static void judge(struct validate_result *r, double *worst, const char *what, const char *statistic, double error,
		  double spread)
{
	double size = fabs(error), beyond = size - (spread > r->allowed ? spread : r->allowed);
	if (!(beyond > 0))
		return;
	r->beyond++;
	if (size <= *worst)
		return;
	*worst = size;
	snprintf(r->worst, sizeof r->worst, "%s %s %+.1f %%", what, statistic, error);
}

void figures_judge(struct validate_result *r, double max_error)
{
	double worst = 0;
	r->allowed = max_error;
	r->beyond = 0;
	r->worst[0] = '\0';
	if (isnan(max_error))
		return;
	judge(r, &worst, "step", "MAPE", r->steps[VALIDATE_ALL].mape, r->steps[VALIDATE_ALL].spread);
	for (int t = 0; t < VALIDATE_TIMES; t++)
		for (int k = 0; k < VALIDATE_STATS; k++)
			if (!r->times[t][k].below_step)
				judge(r, &worst, validate_time_keys[t], validate_stat_keys[k], r->times[t][k].error,
				      r->times[t][k].spread);
	for (int k = 0; k < VALIDATE_RATES; k++)
		judge(r, &worst, validate_rate_keys[k], "", r->rates[k].error, r->rates[k].spread);
}
