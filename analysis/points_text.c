#include <math.h>
#include <string.h>

#include "analysis/jout.h"
#include "analysis/points.h"
#include "core/err.h"
#include "core/mem.h"

/* Errors of one group, in percent. */
struct summary {
	int64_t n;
	double mape, bias, worst; /* TPOT */
	double ttft_least, ttft_burst; /* bias of the two readings of TTFT; NAN: none measured */
};

static struct summary summarize(const struct points *p, const struct point_times *t, int32_t group)
{
	struct summary s = {0};
	int64_t told = 0;
	for (int64_t i = 0; i < p->n; i++) {
		const struct point *at = &p->at[i];
		if (group >= 0 && at->group != group)
			continue;
		double error = 100 * (t[i].tpot / at->tpot_ms - 1);
		s.mape += fabs(error);
		s.bias += error;
		if (fabs(error) > fabs(s.worst))
			s.worst = error;
		s.n++;
		if (isnan(at->ttft_ms))
			continue;
		s.ttft_least += 100 * (t[i].prefill / at->ttft_ms - 1);
		s.ttft_burst += 100 * (t[i].burst / at->ttft_ms - 1);
		told++;
	}
	s.mape /= (double)s.n;
	s.bias /= (double)s.n;
	s.ttft_least = told ? s.ttft_least / (double)told : NAN;
	s.ttft_burst = told ? s.ttft_burst / (double)told : NAN;
	return s;
}

/* MAPE of what fits without a point's own degree (or model) say of a group, in percent. */
static double left_out(const struct points *p, const double *said, int32_t group)
{
	double sum = 0;
	int64_t n = 0;
	for (int64_t i = 0; i < p->n; i++)
		if ((group < 0 || p->at[i].group == group) && !isnan(said[i])) {
			sum += fabs(said[i] / p->at[i].tpot_ms - 1);
			n++;
		}
	return n ? 100 * sum / (double)n : NAN;
}

static const char *group_name(const struct points *p, int32_t g, char *buf, size_t size)
{
	const struct point_group *k = &p->groups[g];
	snprintf(buf, size, "%s%s on %s, %s, TP %d", p->models[k->model].name, k->fp8 ? " fp8" : "",
		 p->devices[k->device].name, p->engines[k->engine], k->tp);
	return buf;
}

/* Devices, engines and models together, degrees in order. */
static bool comes_before(const struct point_group *a, const struct point_group *b)
{
	const int32_t x[] = {a->device, a->engine, a->model, a->fp8, a->tp};
	const int32_t y[] = {b->device, b->engine, b->model, b->fp8, b->tp};
	for (int i = 0; i < 5; i++)
		if (x[i] != y[i])
			return x[i] < y[i];
	return false;
}

static void order_groups(const struct points *p, int32_t order[POINTS_GROUPS])
{
	for (int32_t n = 0; n < p->n_groups; n++) {
		int32_t k = n;
		for (; k > 0 && comes_before(&p->groups[n], &p->groups[order[k - 1]]); k--)
			order[k] = order[k - 1];
		order[k] = n;
	}
}

static void put_number(FILE *f, double x, bool sign)
{
	if (isnan(x))
		fprintf(f, " - |");
	else if (sign)
		fprintf(f, " %+.1f |", x);
	else
		fprintf(f, " %.1f |", x);
}

static void print_group(FILE *f, const struct points *p, const struct point_times *as_is, const struct points_fit *fit,
			int32_t g, const char *name)
{
	struct summary s = summarize(p, as_is, g);
	fprintf(f, "| %s | %lld |", name, (long long)s.n);
	put_number(f, s.mape, false);
	put_number(f, s.bias, true);
	put_number(f, s.worst, true);
	put_number(f, s.ttft_least, true);
	put_number(f, s.ttft_burst, true);
	if (fit) {
		put_number(f, summarize(p, fit->times, g).mape, false);
		put_number(f, left_out(p, fit->left_out_tp, g), false);
		put_number(f, left_out(p, fit->left_out_model, g), false);
	}
	fputc('\n', f);
}

static const char *whose(const struct points *p, const struct point_estimate *v)
{
	return v->param->scope == OF_DEVICE   ? p->devices[v->of].name
	       : v->param->scope == OF_ENGINE ? p->engines[v->of]
					      : "all";
}

static void print_values(FILE *f, const struct points *p, const struct points_fit *fit)
{
	fprintf(f, "\n| parameter | of | fitted | standard deviation | believed before | |\n"
		   "| --- | --- | ---: | ---: | ---: | --- |\n");
	for (int32_t v = 0; v < fit->n_values; v++) {
		const struct point_estimate *x = &fit->values[v];
		fprintf(f, "| %s | %s | %.3g | %.2g | %g +- %g | %s |\n", x->param->key, whose(p, x), x->value, x->sd,
			x->param->before, x->param->spread, x->param->help);
	}
	if (fit->n_left_out)
		fprintf(f, "\n| left out of the fit | points | TPOT MAPE of them |\n| --- | ---: | ---: |\n");
	for (int32_t k = 0; k < fit->n_left_out; k++)
		fprintf(f, "| %s | %lld | %.1f |\n", fit->left_out[k].what, (long long)fit->left_out[k].n,
			100 * fit->left_out[k].mape);
}

int points_print(FILE *f, const struct points *p, const struct point_times *as_is, const struct points_fit *fit,
		 struct err *e)
{
	char name[300];
	int32_t order[POINTS_GROUPS];
	order_groups(p, order);
	fprintf(f, "Errors in percent, (predicted / measured - 1) x 100.\n\n");
	fprintf(f, "| | points | TPOT MAPE | bias | worst | TTFT at least | TTFT of a burst |%s\n",
		fit ? " MAPE fitted | without its TP | without its model |" : "");
	fprintf(f, "| --- | ---: | ---: | ---: | ---: | ---: | ---: |%s\n", fit ? " ---: | ---: | ---: |" : "");
	for (int32_t g = 0; g < p->n_groups; g++)
		print_group(f, p, as_is, fit, order[g], group_name(p, order[g], name, sizeof name));
	print_group(f, p, as_is, fit, -1, "all");
	if (fit)
		print_values(f, p, fit);
	return ferror(f) ? err_set(e, ERR_IO, "the tables cannot be written") : ERR_NONE;
}

static void json_summary(struct jout *j, const struct summary *s)
{
	jout_int(j, "points", s->n);
	jout_real(j, "tpot_mape", s->mape);
	jout_real(j, "tpot_bias", s->bias);
	jout_real(j, "tpot_worst", s->worst);
	jout_real(j, "ttft_least_bias", s->ttft_least);
	jout_real(j, "ttft_burst_bias", s->ttft_burst);
}

static void json_fit(struct jout *j, const struct points *p, const struct points_fit *fit)
{
	jout_begin(j, "fit", '{');
	jout_real(j, "tpot_mape", 100 * fit->mape);
	jout_begin(j, "parameters", '[');
	for (int32_t v = 0; v < fit->n_values; v++) {
		const struct point_estimate *x = &fit->values[v];
		jout_begin(j, NULL, '{');
		jout_text(j, "name", x->param->key);
		jout_text(j, "of", whose(p, x));
		jout_real(j, "value", x->value);
		jout_real(j, "sd", x->sd);
		jout_end(j, '}');
	}
	jout_end(j, ']');
	jout_begin(j, "left_out", '[');
	for (int32_t k = 0; k < fit->n_left_out; k++) {
		jout_begin(j, NULL, '{');
		jout_text(j, "what", fit->left_out[k].what);
		jout_int(j, "points", fit->left_out[k].n);
		jout_real(j, "tpot_mape", 100 * fit->left_out[k].mape);
		jout_end(j, '}');
	}
	jout_end(j, ']');
	jout_end(j, '}');
}

int points_json(const struct points *p, const struct point_times *as_is, const struct points_fit *fit, char **json,
		struct err *e)
{
	char name[300];
	int32_t order[POINTS_GROUPS];
	struct jout j;
	struct summary all = summarize(p, as_is, -1);
	jout_open(&j, NULL);
	jout_begin(&j, NULL, '{');
	json_summary(&j, &all);
	order_groups(p, order);
	jout_begin(&j, "servers", '[');
	for (int32_t g = 0; g < p->n_groups; g++) {
		struct summary s = summarize(p, as_is, order[g]);
		jout_begin(&j, NULL, '{');
		jout_text(&j, "server", group_name(p, order[g], name, sizeof name));
		json_summary(&j, &s);
		jout_end(&j, '}');
	}
	jout_end(&j, ']');
	if (fit)
		json_fit(&j, p, fit);
	jout_end(&j, '}');
	return jout_close(&j, json, e);
}
