#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analysis/jout.h"
#include "cli/slo_print.h"
#include "core/err.h"

static const struct slo_point *low_point(const struct slo_row *r)
{
	return r->result.at_low >= 0 ? &r->result.points[r->result.at_low] : NULL;
}

double slo_dollars_per_request(const struct slo_row *r)
{
	const struct slo_point *p = low_point(r);
	if (!p || r->price_per_hour <= 0)
		return NAN;
	return r->price_per_hour / 3600 / (p->rate * p->attainment);
}

double slo_dollars_per_million_output(const struct slo_row *r)
{
	const struct slo_point *p = low_point(r);
	if (!p || r->price_per_hour <= 0 || !(r->output_tokens > 0))
		return NAN;
	return r->price_per_hour / 3600 / (p->rate * r->output_tokens) * 1e6;
}

void slo_fronts(struct slo_row *rows, int32_t n)
{
	for (int32_t i = 0; i < n; i++) {
		const struct slo_point *p = low_point(&rows[i]);
		rows[i].on_cost_front = p && rows[i].price_per_hour > 0;
		rows[i].on_latency_front = p != NULL;
		for (int32_t k = 0; p && k < n; k++) {
			const struct slo_point *q = low_point(&rows[k]);
			if (k == i || !q)
				continue;
			bool as_fast = q->rate >= p->rate;
			double price = rows[k].price_per_hour, mine = rows[i].price_per_hour;
			if (price > 0 && as_fast && price <= mine && (q->rate > p->rate || price < mine))
				rows[i].on_cost_front = false;
			if (as_fast && q->p99_ttft_ms <= p->p99_ttft_ms &&
			    (q->rate > p->rate || q->p99_ttft_ms < p->p99_ttft_ms))
				rows[i].on_latency_front = false;
		}
	}
}

static void number(char buf[24], double x)
{
	if (isnan(x))
		snprintf(buf, 24, "-");
	else if (isinf(x))
		snprintf(buf, 24, "any");
	else if (x == 0)
		snprintf(buf, 24, "0");
	else
		snprintf(buf, 24, fabs(x) < 10 ? "%.3g" : fabs(x) < 1000 ? "%.2f" : "%.0f", x);
}

static void objectives(FILE *f, const struct goodput_slo *g)
{
	const char *comma = "";
	const struct {
		const char *name;
		int64_t ns;
	} all[] = {{"TTFT", g->ttft_ns}, {"TPOT", g->tpot_ns}, {"E2E", g->e2el_ns}};
	for (int i = 0; i < 3; i++) {
		if (all[i].ns < 0)
			continue;
		fprintf(f, "%s%s %g ms", comma, all[i].name, (double)all[i].ns / 1e6);
		comma = ", ";
	}
}

static void print_row(FILE *f, const struct slo_row *r, int width)
{
	const struct slo_result *x = &r->result;
	const struct slo_point *low = low_point(r), *high = x->at_high >= 0 ? &x->points[x->at_high] : NULL;
	char rate[24], fails[24], ttft[24], tpot[24], price[24], each[24], tokens[24];
	if (x->outcome == SLO_IMPOSSIBLE) {
		fprintf(f, "%-*s  cannot serve it: %s\n", width, r->settings->label, x->text);
		return;
	}
	number(rate, low ? low->rate : NAN);
	number(fails, x->high);
	number(ttft, low ? low->p99_ttft_ms : NAN);
	number(tpot, low ? low->p99_tpot_ms : NAN);
	number(price, r->price_per_hour > 0 ? r->price_per_hour : NAN);
	number(each, 1000 * slo_dollars_per_request(r));
	number(tokens, slo_dollars_per_million_output(r));
	fprintf(f, "%-*s %8s%s%s %8s %9s %9s  %-10s %-8s %7s %8s %8s\n", width, r->settings->label, rate,
		r->on_cost_front ? "$" : " ", r->on_latency_front ? "*" : " ", fails, ttft, tpot,
		low ? slo_state_names[low->state] : "-", high ? slo_limit_names[high->limit] : "-", price, each,
		tokens);
}

static void print_notes(FILE *f, const struct slo_row *rows, int32_t n)
{
	int32_t points = 0, cut = 0;
	for (int32_t i = 0; i < n; i++) {
		const struct slo_result *x = &rows[i].result;
		char low[24], high[24];
		for (int32_t k = 0; k < x->n_points; k++)
			cut += x->points[k].cut_short;
		points += x->n_points;
		if (x->outcome == SLO_ALWAYS)
			fprintf(f, "%s: met at every rate tried; the trace is too short to overload it\n",
				rows[i].settings->label);
		if (x->outcome == SLO_NEVER)
			fprintf(f, "%s: not met at the lowest rate tried, %.3g requests/s, either (%s)\n",
				rows[i].settings->label, x->points[0].rate, slo_limit_names[x->points[0].limit]);
		if (x->again > 0)
			fprintf(f, "%s: attainment is not monotone: it is met again at up to %.4g requests/s\n",
				rows[i].settings->label, x->again);
		if (x->outcome != SLO_BRACKETED)
			continue;
		number(low, x->sure_low);
		number(high, x->sure_high);
		fprintf(f, "%s: with 95 %% confidence between %s and %s\n", rows[i].settings->label, low, high);
	}
	fprintf(f, "\n%d runs, %d of them ended early because they could not pass any more.\n", points, cut);
}

void slo_print_table(FILE *f, const struct slo_row *rows, int32_t n, const struct slo_options *o)
{
	int width = 13;
	for (int32_t i = 0; i < n; i++)
		width = (int)strlen(rows[i].settings->label) > width ? (int)strlen(rows[i].settings->label) : width;
	fprintf(f, "Highest request rate at which %g %% of all requests meet ", 100 * o->attainment);
	objectives(f, &rows[0].settings->slo);
	fprintf(f, "\n\n%-*s %8s   %8s %9s %9s  %-10s %-8s %7s %8s %8s\n", width, "configuration", "passes", "fails",
		"p99 TTFT", "p99 TPOT", "state", "limit", "$/hour", "$/1000", "$/1M out");
	fprintf(f, "%-*s %8s   %8s %9s %9s  %-10s %-8s %7s %8s %8s\n", width, "", "req/s", "req/s", "ms", "ms", "there",
		"above", "", "met", "");
	for (int32_t i = 0; i < n; i++)
		print_row(f, &rows[i], width);
	fputs("\n$ nothing listed serves as much for less; * nothing listed serves as much with a lower p99 TTFT\n", f);
	print_notes(f, rows, n);
}

static void point_json(struct jout *j, const struct slo_point *p)
{
	jout_begin(j, NULL, '{');
	jout_real(j, "request_rate", p->rate);
	jout_real(j, "attainment", p->attainment);
	jout_real(j, "attainment_margin", p->margin);
	jout_bool(j, "passes", p->passes);
	jout_bool(j, "cut_short", p->cut_short);
	jout_int(j, "requests", p->n);
	jout_int(j, "good", p->good);
	jout_real(j, "p99_ttft_ms", p->p99_ttft_ms);
	jout_real(j, "p99_tpot_ms", p->p99_tpot_ms);
	jout_real(j, "request_throughput", p->request_throughput);
	jout_text(j, "state", slo_state_names[p->state]);
	jout_text(j, "limit", slo_limit_names[p->limit]);
	jout_end(j, '}');
}

static void row_json(struct jout *j, const struct slo_row *r)
{
	static const char *const outcomes[] = {"bracketed", "never", "always", "impossible"};
	const struct slo_result *x = &r->result;
	const struct run_settings *s = r->settings;
	jout_begin(j, NULL, '{');
	jout_text(j, "label", s->label);
	jout_text(j, "policy", s->policy);
	jout_text(j, "model", s->model);
	jout_text(j, "device", s->device);
	jout_int(j, "tensor_parallel_size", s->tensor_parallel);
	jout_text(j, "outcome", outcomes[x->outcome]);
	jout_text(j, "why", x->outcome == SLO_IMPOSSIBLE ? x->text : NULL);
	jout_real(j, "max_request_rate", x->at_low >= 0 ? x->low : NAN);
	jout_real(j, "fails_at", x->high);
	jout_real(j, "sure_low", x->sure_low > 0 ? x->sure_low : NAN);
	jout_real(j, "sure_high", x->sure_high);
	jout_bool(j, "monotone", x->again == 0);
	jout_text(j, "state", x->at_low >= 0 ? slo_state_names[x->points[x->at_low].state] : NULL);
	jout_text(j, "limit", x->at_high >= 0 ? slo_limit_names[x->points[x->at_high].limit] : NULL);
	jout_real(j, "price_per_hour", r->price_per_hour > 0 ? r->price_per_hour : NAN);
	jout_real(j, "dollars_per_good_request", slo_dollars_per_request(r));
	jout_real(j, "dollars_per_million_output_tokens", slo_dollars_per_million_output(r));
	jout_bool(j, "on_cost_front", r->on_cost_front);
	jout_bool(j, "on_latency_front", r->on_latency_front);
	jout_begin(j, "points", '[');
	for (int32_t i = 0; i < x->n_points; i++)
		point_json(j, &x->points[i]);
	jout_end(j, ']');
	jout_end(j, '}');
}

int slo_print_json(FILE *f, const struct slo_row *rows, int32_t n, const struct slo_options *o, double own_rate,
		   struct err *e)
{
	struct jout j;
	jout_open(&j, f);
	jout_begin(&j, NULL, '{');
	jout_real(&j, "attainment", o->attainment);
	jout_real(&j, "trace_request_rate", own_rate);
	jout_begin(&j, "configurations", '[');
	for (int32_t i = 0; i < n; i++)
		row_json(&j, &rows[i]);
	jout_end(&j, ']');
	jout_end(&j, '}');
	char *none;
	int rc = jout_close(&j, &none, e);
	if (rc == ERR_NONE)
		putc('\n', f);
	return rc;
}
