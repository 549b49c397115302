/* points_fit.c: the parameters that say the points best, and how sure they are.
 *
 * What is minimised is the mean of |ln(predicted / measured)| of TPOT, plus BELIEF x the sum of squares of how far each value is
 * from what is believed before, in spreads of that belief. A value that no point tells stays where it was believed to be,
 * instead of going wherever the search happens to leave it: that is what lets one model's points speak for another's.
 *
 * How sure: servers are drawn anew (with replacement; points of one server share their faults), each time the best of all
 * candidates that were tried wins, and the winners' spread is the uncertainty, as in calibrate_spread.c. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analysis/calibrate_internal.h"
#include "analysis/points.h"
#include "core/err.h"
#include "core/mem.h"
#include "core/rng.h"

#define BELIEF 0.001
enum { DRAWS = 400 };

const struct point_param point_params[POINT_PARAMS] = {
	{"gemm_efficiency", offsetof(struct device, gemm_efficiency), OF_ALL, 1, 0.75, 0.1, 0.3, 1,
	 "of peak FLOP/s, matrix products"},
	{"attention_efficiency", offsetof(struct device, attention_efficiency), OF_ALL, 1, 0.5, 0.15, 0.1, 1,
	 "of peak FLOP/s, prompts' attention"},
	{"kv_efficiency", offsetof(struct device, kv_efficiency), OF_ALL, 1, 0.8, 0.1, 0.2, 1,
	 "of peak bandwidth, attention over the cache"},
	{"unhidden", offsetof(struct device, unhidden), OF_ALL, 1, 0.15, 0.15, 0, 1,
	 "of the shorter of compute and memory time: small and middling shapes reach neither bound"},
	{"kernel_us", offsetof(struct device, kernel_ns), OF_ALL, 1e3, 1.5, 0.75, 0, 10, "per kernel: start and drain"},
	{"link_efficiency", offsetof(struct device, link_efficiency), OF_ALL, 1, 0.75, 0.2, 0.1, 1,
	 "of the link, large all-reduces"},
	{"hop_us", offsetof(struct device, hop_ns), OF_ALL, 1e3, 1, 0.6, 0, 20, "per all-reduce and further device"},
	{"memory_efficiency", offsetof(struct device, memory_efficiency), OF_DEVICE, 1, 0.8, 0.1, 0.3, 1,
	 "of peak bandwidth: weights"},
	{"step_us", offsetof(struct device, step_ns), OF_ENGINE, 1e3, 600, 500, 0, 20000, "host, per step"},
	{"request_us", offsetof(struct device, request_ns), OF_ENGINE, 1e3, 15, 15, 0, 1000,
	 "host, per request in a step: sampling, output"},
	{"collective_us", offsetof(struct device, collective_ns), OF_ENGINE, 1e3, 8, 5, 0, 200, "per all-reduce"},
};

struct fit {
	const struct points *p;
	const struct points_options *o;
	struct device devices[POINTS_KINDS * POINTS_KINDS]; /* of the last candidate */
	struct point_times *times; /* [n] */
	int32_t without_tp, without_model; /* left out of this fit; 0, -1: none */
	/* Every candidate, for the uncertainty: its variables, and the summed loss of each group's points. */
	double *x; /* [n_tried][SEARCH_MAX] */
	double *loss; /* [n_tried][POINTS_GROUPS] */
	int64_t n_tried, cap_x, cap_loss;
	int64_t done, total; /* evaluations, of all fits */
	struct points_fit *out;
};

/* --- from variables to devices ------------------------------------------------------------------------------------ */

static bool applies(const struct points *p, const struct point_param *q, int32_t of)
{
	return of < (q->scope == OF_ALL ? 1 : q->scope == OF_DEVICE ? p->n_devices : p->n_engines);
}

static int list_values(struct points_fit *out, const struct points *p, struct err *e)
{
	out->n_values = 0;
	for (int k = 0; k < POINT_PARAMS; k++)
		for (int32_t of = 0; applies(p, &point_params[k], of); of++) {
			if (out->n_values == POINT_VALUES)
				return err_set(e, ERR_INPUT,
					       "the points are of more devices and engines than can be fitted at once");
			out->values[out->n_values++] = (struct point_estimate){.param = &point_params[k], .of = of};
		}
	return ERR_NONE;
}

/* x [n_values]: in spreads from what is believed before. */
static void set_devices(struct fit *f, const double *x)
{
	const struct points_fit *out = f->out;
	for (int32_t k = 0; k < f->p->n_engines; k++)
		for (int32_t d = 0; d < f->p->n_devices; d++) {
			struct device *to = &f->devices[k * POINTS_KINDS + d];
			*to = f->p->devices[d];
			for (int32_t v = 0; v < out->n_values; v++) {
				const struct point_param *q = out->values[v].param;
				int32_t of = out->values[v].of;
				if ((q->scope == OF_DEVICE && of != d) || (q->scope == OF_ENGINE && of != k))
					continue;
				*(double *)(void *)((char *)to + q->offset) = (q->before + x[v] * q->spread) * q->unit;
			}
		}
}

/* --- one fit ------------------------------------------------------------------------------------------------------ */

static bool takes_part(const struct fit *f, const struct point_group *g)
{
	return g->tp != f->without_tp && g->model != f->without_model;
}

static int keep_tried(struct fit *f, const double *x, const double *by_group, struct err *e)
{
	if (mem_grow((void **)&f->x, &f->cap_x, (f->n_tried + 1) * SEARCH_MAX, sizeof *f->x) ||
	    mem_grow((void **)&f->loss, &f->cap_loss, (f->n_tried + 1) * POINTS_GROUPS, sizeof *f->loss))
		return err_no_memory(e, "a fit");
	memcpy(f->x + f->n_tried * SEARCH_MAX, x, (size_t)f->out->n_values * sizeof *x);
	memcpy(f->loss + f->n_tried * POINTS_GROUPS, by_group, POINTS_GROUPS * sizeof *by_group);
	f->n_tried++;
	return ERR_NONE;
}

static double disbelief(const struct fit *f, const double *x)
{
	double sum = 0;
	for (int32_t v = 0; v < f->out->n_values; v++)
		sum += x[v] * x[v];
	return BELIEF * sum;
}

static int ask(void *ctx, const double *x, double *out, struct err *e)
{
	struct fit *f = ctx;
	double by_group[POINTS_GROUPS] = {0}, sum = 0;
	int64_t n = 0;
	if (f->o->stop && *f->o->stop)
		return err_set(e, ERR_INTERRUPTED, "interrupted");
	set_devices(f, x);
	int rc = points_predict(f->p, f->devices, f->times, e);
	if (rc)
		return rc;
	for (int64_t i = 0; i < f->p->n; i++) {
		const struct point *at = &f->p->at[i];
		if (!takes_part(f, &f->p->groups[at->group]))
			continue;
		double one = fabs(log(f->times[i].tpot / at->tpot_ms));
		by_group[at->group] += one;
		sum += one;
		n++;
	}
	*out = (n ? sum / (double)n : 0) + disbelief(f, x);
	if (f->o->progress)
		f->o->progress(f->o->ctx, ++f->done, f->total);
	return keep_tried(f, x, by_group, e);
}

static int fit_once(struct fit *f, int32_t without_tp, int32_t without_model, double best[SEARCH_MAX], struct err *e)
{
	struct search s = {.n = f->out->n_values, .evals = f->o->max_evals, .seed = f->o->seed, .ask = ask, .ctx = f};
	f->without_tp = without_tp;
	f->without_model = without_model;
	f->n_tried = 0;
	for (int32_t v = 0; v < s.n; v++) {
		const struct point_param *q = f->out->values[v].param;
		s.low[v] = (q->low - q->before) / q->spread;
		s.high[v] = (q->high - q->before) / q->spread;
		s.spread[v] = 0.5;
	}
	int rc = search_run(&s, e);
	memcpy(best, s.best, sizeof s.best);
	if (rc == ERR_NONE) {
		set_devices(f, best);
		rc = points_predict(f->p, f->devices, f->times, e);
	}
	return rc;
}

/* --- how sure ----------------------------------------------------------------------------------------------------- */

/* count [n_groups]: points of each. */
static int64_t draw_winner(const struct fit *f, const int64_t *count, struct rng *r)
{
	double times[POINTS_GROUPS] = {0}, least = INFINITY;
	int64_t n = 0, winner = 0;
	for (int32_t g = 0; g < f->p->n_groups; g++) {
		int64_t drawn = (int64_t)(rng_unit(r) * f->p->n_groups);
		times[drawn] += 1;
		n += count[drawn];
	}
	for (int64_t t = 0; t < f->n_tried; t++) {
		double sum = 0;
		for (int32_t g = 0; g < f->p->n_groups; g++)
			sum += times[g] * f->loss[t * POINTS_GROUPS + g];
		sum = sum / (double)n + disbelief(f, f->x + t * SEARCH_MAX);
		if (sum < least) {
			least = sum;
			winner = t;
		}
	}
	return winner;
}

static void measure_spread(const struct fit *f, const double *best)
{
	double sum[SEARCH_MAX] = {0};
	int64_t count[POINTS_GROUPS] = {0};
	struct rng r;
	rng_init(&r, f->o->seed, 77);
	for (int64_t i = 0; i < f->p->n; i++)
		count[f->p->at[i].group]++;
	for (int d = 0; d < DRAWS; d++) {
		const double *x = f->x + draw_winner(f, count, &r) * SEARCH_MAX;
		for (int32_t v = 0; v < f->out->n_values; v++)
			sum[v] += (x[v] - best[v]) * (x[v] - best[v]);
	}
	for (int32_t v = 0; v < f->out->n_values; v++)
		f->out->values[v].sd = sqrt(sum[v] / DRAWS) * f->out->values[v].param->spread;
}

/* --- all of them -------------------------------------------------------------------------------------------------- */

static int fit_all(struct fit *f, struct err *e)
{
	double best[SEARCH_MAX];
	int rc = fit_once(f, 0, -1, best, e);
	if (rc)
		return rc;
	for (int32_t v = 0; v < f->out->n_values; v++) {
		const struct point_param *q = f->out->values[v].param;
		f->out->values[v].value = q->before + best[v] * q->spread;
	}
	measure_spread(f, best);
	memcpy(f->out->devices, f->devices, sizeof f->devices);
	memcpy(f->out->times, f->times, (size_t)f->p->n * sizeof *f->times);
	f->out->mape = points_mape(f->p, f->times, -1);
	return ERR_NONE;
}

/* Fits without those points and notes what it says of them in `said`. */
static int leave_out(struct fit *f, int32_t tp, int32_t model, double *said, struct err *e)
{
	double best[SEARCH_MAX], sum = 0;
	struct point_left_out *l = &f->out->left_out[f->out->n_left_out];
	int rc = fit_once(f, tp, model, best, e);
	if (rc)
		return rc;
	*l = (struct point_left_out){.n = 0};
	for (int64_t i = 0; i < f->p->n; i++) {
		if (takes_part(f, &f->p->groups[f->p->at[i].group]))
			continue;
		said[i] = f->times[i].tpot;
		sum += fabs(said[i] / f->p->at[i].tpot_ms - 1);
		l->n++;
	}
	l->mape = sum / (double)l->n;
	if (tp)
		snprintf(l->what, sizeof l->what, "tensor parallel %d", tp);
	else
		snprintf(l->what, sizeof l->what, "%.60s", f->p->models[model].name);
	f->out->n_left_out++;
	return ERR_NONE;
}

static bool first_with_tp(const struct points *p, int32_t g)
{
	for (int32_t k = 0; k < g; k++)
		if (p->groups[k].tp == p->groups[g].tp)
			return false;
	return true;
}

/* How many fits without something there will be; *degrees of them without a degree of tensor parallelism. */
static int32_t count_left_out(const struct points *p, int32_t *degrees)
{
	*degrees = 0;
	for (int32_t g = 0; g < p->n_groups; g++)
		*degrees += first_with_tp(p, g);
	*degrees = *degrees > 1 ? *degrees : 0;
	return *degrees + (p->n_models > 1 ? p->n_models : 0);
}

static int leave_all_out(struct fit *f, int32_t degrees, struct err *e)
{
	const struct points *p = f->p;
	int rc = ERR_NONE;
	for (int32_t g = 0; rc == ERR_NONE && degrees && g < p->n_groups; g++)
		if (first_with_tp(p, g))
			rc = leave_out(f, p->groups[g].tp, -1, f->out->left_out_tp, e);
	for (int32_t m = 0; rc == ERR_NONE && p->n_models > 1 && m < p->n_models; m++)
		rc = leave_out(f, 0, m, f->out->left_out_model, e);
	return rc;
}

static int open_fit(struct fit *f, int32_t n_left_out, struct err *e)
{
	const struct points *p = f->p;
	struct points_fit *out = f->out;
	size_t bytes = (size_t)p->n * sizeof(double);
	f->times = mem_zalloc((size_t)p->n, sizeof *f->times);
	out->times = mem_zalloc((size_t)p->n, sizeof *out->times);
	out->left_out_tp = mem_alloc(bytes);
	out->left_out_model = mem_alloc(bytes);
	if (!f->times || !out->times || !out->left_out_tp || !out->left_out_model)
		return err_no_memory(e, "a fit");
	for (int64_t i = 0; i < p->n; i++)
		out->left_out_tp[i] = out->left_out_model[i] = NAN;
	if (n_left_out > POINT_LEFT_OUT)
		return err_set(e, ERR_INPUT, "more than %d models and degrees of tensor parallelism to leave out",
			       POINT_LEFT_OUT);
	return list_values(out, p, e);
}

int points_fit(struct points_fit *out, const struct points *p, const struct points_options *o, struct err *e)
{
	int32_t degrees = 0, n = o->leave_out ? count_left_out(p, &degrees) : 0;
	struct fit *f = mem_zalloc(1, sizeof *f);
	memset(out, 0, sizeof *out);
	if (!f)
		return err_no_memory(e, "a fit");
	*f = (struct fit){.p = p, .o = o, .out = out, .total = (int64_t)o->max_evals * (1 + n)};
	int rc = open_fit(f, n, e);
	rc = rc ? rc : fit_all(f, e);
	if (rc == ERR_NONE && n)
		rc = leave_all_out(f, degrees, e);
	mem_free(f->times);
	mem_free(f->x);
	mem_free(f->loss);
	mem_free(f);
	return rc;
}

void points_fit_free(struct points_fit *f)
{
	mem_free(f->times);
	mem_free(f->left_out_tp);
	mem_free(f->left_out_model);
	memset(f, 0, sizeof *f);
}
