/* validate_text.c: a validation as people read it. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "analysis/text.h"
#include "analysis/validate.h"

/* "+1.2 %", "-" where not known; always 9 columns. */
static const char *percent(double v, char buf[TEXT_NUMBER])
{
	if (isnan(v))
		snprintf(buf, TEXT_NUMBER, "%9s", "-");
	else
		snprintf(buf, TEXT_NUMBER, "%+7.*f %%", fabs(v) < 99.95 ? 1 : 0, v);
	return buf;
}

static const char *size(double v, char buf[TEXT_NUMBER])
{
	if (isnan(v))
		snprintf(buf, TEXT_NUMBER, "%9s", "-");
	else
		snprintf(buf, TEXT_NUMBER, "%7.*f %%", fabs(v) < 99.95 ? 1 : 0, v);
	return buf;
}

const char *validate_ms(double ns, char buf[TEXT_NUMBER])
{
	return text_value(fabs(ns) < 500 ? 0.0 : ns / 1e6, "ms", buf);
}

static void print_title(FILE *f, const struct validate_result *r)
{
	char a[TEXT_NUMBER];
	fprintf(f, "%s", r->label);
	if (r->load > 0) {
		fprintf(f, " at %.4g %% of its capacity", r->load * 100);
		fprintf(f, " (%s requests/s)", text_value(r->capacity, "req/s", a));
	}
	fprintf(f, ": %s requests", text_count(r->executed.n, a));
	if (isfinite(r->offered_rate))
		fprintf(f, ", %s a second", text_value(r->offered_rate, "req/s", a));
	if (r->n_points)
		fprintf(f, ", %s steps", text_count(r->n_points, a));
	if (r->executed.run_id)
		fprintf(f, "; executed as run %" PRId64, r->executed.run_id);
	if (r->simulated.run_id)
		fprintf(f, ", simulated as run %" PRId64, r->simulated.run_id);
	fputc('\n', f);
	if (r->status != RUN_COMPLETE)
		fprintf(f, "  %s: %s\n", run_status_name(r->status), r->status_text);
}

static void print_parting(FILE *f, const char *what, const struct validate_parting *p)
{
	fprintf(f, "  %-11s DIFFER from step %" PRId64 " on:\n", what, p->step);
	fprintf(f, "    executed  %s\n    replayed  %s\n", p->executed[0] ? p->executed : "(nothing more)",
		p->replayed[0] ? p->replayed : "(nothing more)");
}

static void print_identity(FILE *f, const struct validate_result *r)
{
	char a[TEXT_NUMBER];
	if (!r->replayed)
		return;
	if (r->memory_identical)
		fprintf(f, "  memory      block tables identical in each of %s steps\n", text_count(r->n_points, a));
	else
		print_parting(f, "memory", &r->memory);
	if (r->decisions_identical)
		fprintf(f, "  decisions   identical when replayed, all %s lines\n", text_count(r->log_lines, a));
	else if (r->decisions.step >= 0)
		print_parting(f, "decisions", &r->decisions);
	if (r->replay_text[0])
		fprintf(f, "  the replay ended early: %s\n", r->replay_text);
}

static void print_steps(FILE *f, const struct validate_result *r)
{
	char a[TEXT_NUMBER], b[TEXT_NUMBER];
	fprintf(f, "\n  %-12s%9s%11s%11s%11s%11s%13s\n", "step time", "steps", "MAPE", "bias", "total", "p90",
		"executor's");
	for (int k = 0; k < VALIDATE_KINDS; k++) {
		const struct validate_steps *s = &r->steps[k];
		if (!s->n)
			continue;
		fprintf(f, "    %-10s%9s", validate_kind_keys[k], text_count(s->n, a));
		fprintf(f, "  %s  %s", size(s->mape, a), percent(s->bias, b));
		fprintf(f, "  %s  %s", percent(s->total, a), size(s->p90, b));
		fprintf(f, "    %s\n", size(s->spread, a));
	}
	if (r->outside_steps)
		fprintf(f, "    %s of them lay outside what the cost model knows, by up to %.2f times\n",
			text_count(r->outside_steps, a), r->outside_max);
	if (!r->has_parts)
		return;
	fprintf(f, "  %-21s%11s%11s%11s%24s\n", "parts", "share", "error", "absolute", "executor's");
	for (int k = 0; k < VALIDATE_PARTS; k++) {
		const struct validate_part *p = &r->parts[k];
		fprintf(f, "    %-19s  %s  %s", validate_part_keys[k], size(p->share, a), percent(p->error, b));
		fprintf(f, "  %s               %s\n", size(p->absolute, a), size(p->spread, b));
	}
}

static void print_values(FILE *f, const char *what, const struct validate_figure *row, bool simulated)
{
	char a[TEXT_NUMBER];
	fprintf(f, "    %-9s%-11s", what, simulated ? "simulated" : "measured");
	for (int k = 0; k < VALIDATE_STATS; k++)
		fprintf(f, "%16s%c", validate_ms(simulated ? row[k].simulated : row[k].measured, a),
			row[k].thin ? '~' : ' ');
	fputc('\n', f);
}

/* "+1.2 % (0.4)": the error, and by how much the executor differs from itself. */
static void print_errors(FILE *f, const struct validate_figure *row, double of_requests)
{
	char a[TEXT_NUMBER], cell[2 * TEXT_NUMBER];
	fprintf(f, "    %-9s%-11s", "", "error");
	for (int k = 0; k < VALIDATE_STATS; k++) {
		const char *text = percent(row[k].error, a);
		text += strspn(text, " ");
		if (row[k].below_step && !isnan(row[k].error))
			snprintf(cell, sizeof cell, "[%s]", text);
		else if (isnan(row[k].spread))
			snprintf(cell, sizeof cell, "%s", text);
		else
			snprintf(cell, sizeof cell, "%s (%.1f)", text, row[k].spread);
		fprintf(f, "%17s", cell);
	}
	if (!isnan(of_requests))
		fprintf(f, "%9.1f %%", of_requests);
	fputc('\n', f);
}

static void print_requests(FILE *f, const struct validate_result *r)
{
	bool thin = false, below = false;
	fprintf(f, "\n  %-22s%16s %16s %16s %16s %11s\n", "requests, ms", "mean", "p50", "p90", "p99", "each");
	for (int t = 0; t < VALIDATE_TIMES; t++) {
		const struct validate_figure *row = r->times[t];
		print_values(f, validate_time_labels[t], row, false);
		print_values(f, "", row, true);
		print_errors(f, row, r->request_mape[t]);
		for (int k = 0; k < VALIDATE_STATS; k++) {
			thin |= row[k].thin;
			below |= row[k].below_step;
		}
	}
	char a[TEXT_NUMBER], b[TEXT_NUMBER], c[TEXT_NUMBER];
	static const char *const names[VALIDATE_RATES] = {"requests/s", "output tokens/s"};
	for (int k = 0; k < VALIDATE_RATES; k++)
		fprintf(f, "    %-16s  measured %s, simulated %s: %s\n", names[k],
			text_value(r->rates[k].measured, "req/s", a), text_value(r->rates[k].simulated, "req/s", b),
			percent(r->rates[k].error, c) + strspn(c, " "));
	char cut[96] = "";
	if (r->again_steps < r->n_points)
		snprintf(cut, sizeof cut, " (executed as far as step %s; what was left is taken to differ likewise)",
			 text_count(r->again_steps, a));
	if (r->executions > 1)
		fprintf(f, "    in brackets: how far %s of the same decisions lay from the first, %%%s\n",
			r->executions == 2 ? "a second execution" : "further executions", cut);
	else if (r->status == RUN_COMPLETE)
		fputs("    no second execution: the executor's own spread is not known\n", f);
	fputs("    each: mean absolute error of the requests, each against itself\n", f);
	if (thin)
		fputs("    ~ from too few samples to be relied on\n", f);
	if (below)
		fputs("    [ ] shorter than a step on both sides: where in a step a request happens to arrive decides "
		      "it\n",
		      f);
}

static void print_contention(FILE *f, const struct validate_result *r)
{
	const struct validate_contention *c = &r->contention;
	if (!c->busy)
		return;
	fprintf(f,
		"  NOTE: the machine was busy: other processes took %.0f %% of its CPU time and the hypervisor %.0f "
		"%%; "
		"measured times are not to be relied on\n",
		c->others, c->steal);
}

static void print_verdict(FILE *f, const struct validate_result *r)
{
	if (isnan(r->allowed))
		return;
	if (r->beyond)
		fprintf(f,
			"  BEYOND --max-error %g %%: %d figures are further off than that and the executor's spread; "
			"the worst: %s\n",
			r->allowed, r->beyond, r->worst);
	else
		fprintf(f, "  within --max-error %g %% or the executor's own spread\n", r->allowed);
}

void validate_print(FILE *f, const struct validate_result *r)
{
	print_title(f, r);
	print_contention(f, r);
	print_identity(f, r);
	if (r->n_points)
		print_steps(f, r);
	if (r->n_samples[VALIDATE_E2E][0] && r->n_samples[VALIDATE_E2E][1])
		print_requests(f, r);
	print_verdict(f, r);
}
