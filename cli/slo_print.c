#include "cli/slo_print.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define NUMBER 24

static const char *number(char buf[NUMBER], double x)
{
	if (isnan(x))
		snprintf(buf, NUMBER, "-");
	else if (isinf(x))
		snprintf(buf, NUMBER, "any");
	else if (x == 0)
		snprintf(buf, NUMBER, "0");
	else
		snprintf(buf, NUMBER, fabs(x) < 10 ? "%.3g" : fabs(x) < 1000 ? "%.2f" : "%.0f", x);
	return buf;
}

static const char *percent(char buf[NUMBER], const struct slo_point *p)
{
	if (p)
		snprintf(buf, NUMBER, "%s%.2f %%", p->cut_short ? "<" : "", 100 * p->attainment);
	else
		snprintf(buf, NUMBER, "-");
	return buf;
}

static const struct slo_point *failing(const struct slo_row *r)
{
	return r->result.at_fail >= 0 ? &r->result.points[r->result.at_fail] : NULL;
}

static void one_objective(FILE *f, const char **comma, const char *name, int64_t ns)
{
	if (ns == -1)
		return;
	fputs(*comma, f);
	*comma = ", ";
	if (ns < 0)
		fprintf(f, "any %s", name);
	else
		fprintf(f, "%s %g ms", name, (double)ns / 1e6);
}

static void objectives(FILE *f, const struct goodput_slo *g)
{
	const char *comma = "";
	one_objective(f, &comma, "TTFT", g->ttft_ns);
	one_objective(f, &comma, "TPOT", g->tpot_ns);
	one_objective(f, &comma, "E2E", g->e2el_ns);
	for (int32_t i = 0; i < g->n_classes; i++) {
		const struct goodput_class *c = &g->classes[i];
		fprintf(f, "%s%s: ", *comma ? "; " : "", c->name);
		comma = "";
		one_objective(f, &comma, "TTFT", c->ttft_ns);
		one_objective(f, &comma, "TPOT", c->tpot_ns);
		one_objective(f, &comma, "E2E", c->e2el_ns);
	}
}

/* Where classes have their own objectives: how each does where all pass, and who fails where not all do. */
static void class_notes(FILE *f, const struct slo_row *r)
{
	const struct goodput_slo *g = &r->settings->slo;
	const struct slo_point *p = slo_row_point(r),
			       *q = r->result.at_fail >= 0 ? &r->result.points[r->result.at_fail] : NULL;
	if (!g->n_classes || (!p && !q))
		return;
	fprintf(f, "%s:", r->settings->label);
	for (int32_t c = 0; p && c <= g->n_classes; c++)
		if (p->shares[c].n)
			fprintf(f, " %s %.2f %%,", c < g->n_classes ? g->classes[c].name : "others",
				100 * (double)p->shares[c].good / (double)p->shares[c].n);
	if (q)
		fprintf(f, " %s fall%s short first\n", q->worst < g->n_classes ? g->classes[q->worst].name : "others",
			q->worst < g->n_classes ? "s" : "");
	else
		fputs(" nobody falls short\n", f);
}

static int label_width(const struct slo_row *rows, int32_t n)
{
	int width = 13;
	for (int32_t i = 0; i < n; i++)
		width = (int)strlen(rows[i].settings->label) > width ? (int)strlen(rows[i].settings->label) : width;
	return width;
}

/* --- the columns both tables have --------------------------------------------------------------------------------- */

static void end_of_heading(FILE *f, bool units)
{
	if (units)
		fprintf(f, " %9s %9s  %-10s %-8s %7s %8s %8s %8s\n", "ms", "ms", "there", "", "", "met", "in", "out");
	else
		fprintf(f, " %9s %9s  %-10s %-8s %7s %8s %8s %8s\n", "p99 TTFT", "p99 TPOT", "state", "limit", "$/hour",
			"$/1000", "$/1M", "$/1M");
}

static void end_of_row(FILE *f, const struct slo_row *r)
{
	const struct slo_point *p = slo_row_point(r), *q = failing(r);
	char ttft[NUMBER], tpot[NUMBER], price[NUMBER], each[NUMBER], in[NUMBER], out[NUMBER];
	fprintf(f, " %9s %9s  %-10s %-8s %7s %8s %8s %8s\n", number(ttft, p ? p->p99_ttft_ms : NAN),
		number(tpot, p ? p->p99_tpot_ms : NAN), p ? slo_state_names[p->state] : "-",
		q ? slo_limit_names[q->limit] : "-", number(price, slo_price_per_hour(r)),
		number(each, 1000 * slo_dollars_per_good_request(r)),
		number(in, slo_dollars_per_million(r, r->input_tokens)),
		number(out, slo_dollars_per_million(r, r->output_tokens)));
}

static void print_runs(FILE *f, const struct slo_row *rows, int32_t n)
{
	int32_t points = 0, cut = 0;
	for (int32_t i = 0; i < n; i++) {
		points += rows[i].result.n_points;
		for (int32_t k = 0; k < rows[i].result.n_points; k++)
			cut += rows[i].result.points[k].cut_short;
	}
	fprintf(f, "\n%d runs, %d of them ended early because they could not pass any more.\n", points, cut);
}

/* --- highest rates ------------------------------------------------------------------------------------------------ */

static void rate_row(FILE *f, const struct slo_row *r, int width)
{
	const struct slo_result *x = &r->result;
	const struct slo_point *p = slo_row_point(r);
	char rate[NUMBER], fails[NUMBER];
	if (x->outcome == SLO_IMPOSSIBLE) {
		fprintf(f, "%-*s  cannot serve it: %s\n", width, r->settings->label, x->text);
		return;
	}
	fprintf(f, "%-*s %8s%s%s%s %8s", width, r->settings->label, number(rate, p ? p->rate : NAN),
		r->on_cost_front ? "$" : " ", r->on_latency_front ? "*" : " ", r->on_price_front ? "+" : " ",
		number(fails, x->high));
	end_of_row(f, r);
}

static void rate_notes(FILE *f, const struct slo_row *rows, int32_t n)
{
	for (int32_t i = 0; i < n; i++) {
		const struct slo_result *x = &rows[i].result;
		const char *label = rows[i].settings->label;
		char low[NUMBER], high[NUMBER];
		if (x->outcome == SLO_ALWAYS)
			fprintf(f, "%s: met at every rate tried; the trace is too short to overload it\n", label);
		if (x->outcome == SLO_NEVER)
			fprintf(f, "%s: not met at the lowest rate tried, %.3g requests/s, either (%s)\n", label,
				x->points[0].rate, slo_limit_names[x->points[0].limit]);
		if (x->again > 0)
			fprintf(f, "%s: attainment is not monotone: it is met again at up to %.4g requests/s\n", label,
				x->again);
		if (x->outcome == SLO_BRACKETED)
			fprintf(f, "%s: with 95 %% confidence between %s and %s\n", label, number(low, x->sure_low),
				number(high, x->sure_high));
	}
}

static void rate_table(FILE *f, const struct slo_row *rows, int32_t n)
{
	int width = label_width(rows, n);
	fprintf(f, "\n\n%-*s %8s    %8s", width, "configuration", "passes", "fails");
	end_of_heading(f, false);
	fprintf(f, "%-*s %8s    %8s", width, "", "req/s", "req/s");
	end_of_heading(f, true);
	for (int32_t i = 0; i < n; i++)
		rate_row(f, &rows[i], width);
	fputs("\n$ nothing listed serves as much for less; * nothing listed serves as much with a lower p99 TTFT;\n"
	      "+ nothing listed costs as little per good request with a lower p99 TTFT\n",
	      f);
	rate_notes(f, rows, n);
}

/* --- fewest replicas ---------------------------------------------------------------------------------------------- */

static void fewest_row(FILE *f, const struct slo_row *r, int width)
{
	const struct slo_result *x = &r->result;
	const struct slo_point *p = slo_row_point(r);
	char replicas[NUMBER] = "-", met[NUMBER], fails[NUMBER];
	if (x->outcome == SLO_IMPOSSIBLE) {
		fprintf(f, "%-*s  cannot serve it: %s\n", width, r->settings->label, x->text);
		return;
	}
	if (p)
		snprintf(replicas, sizeof replicas, "%d", (int)p->replicas);
	fprintf(f, "%-*s %8s%s%s %9s %10s", width, r->settings->label, replicas, r->on_cost_front ? "$" : " ",
		r->on_price_front ? "+" : " ", percent(met, p), percent(fails, failing(r)));
	end_of_row(f, r);
}

/* "3 to 4", "4", "more than 3" */
static const char *replicas_between(const struct slo_result *x, char buf[40])
{
	int low = (int)x->sure_low + 1;
	if (isinf(x->sure_high))
		snprintf(buf, 40, "%d or more", low);
	else if ((int)x->sure_high > low)
		snprintf(buf, 40, "%d to %d", low, (int)x->sure_high);
	else
		snprintf(buf, 40, "%d", (int)x->sure_high);
	return buf;
}

static void fewest_notes(FILE *f, const struct slo_row *rows, int32_t n)
{
	for (int32_t i = 0; i < n; i++) {
		const struct slo_result *x = &rows[i].result;
		const char *label = rows[i].settings->label;
		char buf[40];
		if (rows[i].pruned && x->n_points == 0)
			fprintf(f, "%s: not tried; one replica costs no less than the cheapest above\n", label);
		else if (rows[i].pruned && x->outcome == SLO_NEVER)
			fprintf(f,
				"%s: not met with %d replicas (%s); more would cost no less than the cheapest above\n",
				label, (int)rows[i].max_replicas, slo_limit_names[x->points[x->n_points - 1].limit]);
		else if (x->outcome == SLO_NEVER)
			fprintf(f, "%s: not met with %d replicas either (%s)\n", label,
				(int)x->points[x->n_points - 1].replicas,
				slo_limit_names[x->points[x->n_points - 1].limit]);
		if (x->again > 0)
			fprintf(f, "%s: attainment is not monotone: with %g replicas it fails again\n", label,
				x->again);
		if (x->outcome == SLO_BRACKETED || x->outcome == SLO_ALWAYS)
			fprintf(f, "%s: with 95 %% confidence it takes %s\n", label, replicas_between(x, buf));
	}
}

static void fewest_table(FILE *f, const struct slo_row *rows, int32_t n)
{
	int width = label_width(rows, n);
	int32_t best = slo_cheapest(rows, n);
	fprintf(f, "\n\n%-*s %8s   %9s %10s", width, "configuration", "replicas", "good", "one fewer");
	end_of_heading(f, false);
	fprintf(f, "%-*s %8s   %9s %10s", width, "", "", "", "");
	end_of_heading(f, true);
	for (int32_t i = 0; i < n; i++)
		fewest_row(f, &rows[i], width);
	fputs("\n$ nothing listed costs less; + nothing listed costs as little per good request with a lower p99 "
	      "TTFT\n",
	      f);
	fewest_notes(f, rows, n);
	if (best >= 0)
		fprintf(f, "Cheapest: %s, %d replica%s, $%.2f an hour\n", rows[best].settings->label,
			(int)slo_row_point(&rows[best])->replicas, slo_row_point(&rows[best])->replicas > 1 ? "s" : "",
			slo_price_per_hour(&rows[best]));
}

void slo_print_table(FILE *f, const struct slo_row *rows, int32_t n, const struct slo_options *o)
{
	bool fewest = o->find == SLO_FIND_REPLICAS;
	fprintf(f,
		fewest ? "Fewest replicas with which %g %% of all requests meet "
		       : "Highest request rate at which %g %% of all requests meet ",
		100 * o->attainment);
	objectives(f, &rows[0].settings->slo);
	if (fewest)
		fewest_table(f, rows, n);
	else
		rate_table(f, rows, n);
	for (int32_t i = 0; i < n; i++)
		class_notes(f, &rows[i]);
	print_runs(f, rows, n);
}
