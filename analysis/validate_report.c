/* validate_report.c: validations as a Markdown page with plots beside it. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analysis/text.h"
#include "analysis/validate.h"
#include "analysis/validate_svg.h"
#include "core/err.h"
#include "core/mem.h"

enum { PATH = 1024, POINTS_DRAWN = 3000 };

/* --- files -------------------------------------------------------------------------------------------------------- */

/* "report.md", 2, "steps" -> "report-2-steps.svg" */
static void plot_path(char path[PATH], const char *report, int32_t number, const char *what)
{
	const char *dot = strrchr(report, '.'), *slash = strrchr(report, '/');
	size_t stem = dot && (!slash || dot > slash) ? (size_t)(dot - report) : strlen(report);
	snprintf(path, PATH, "%.*s-%d-%s.svg", (int)(stem < 900 ? stem : 900), report, (int)number, what);
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash ? slash + 1 : path;
}

static int open_file(FILE **f, const char *path, struct err *e)
{
	*f = fopen(path, "w");
	return *f ? ERR_NONE : err_set(e, ERR_IO, "--report: %s cannot be written: %s", path, strerror(errno));
}

static int close_file(FILE *f, const char *path, struct err *e)
{
	bool bad = ferror(f) != 0;
	errno = 0;
	bad |= fclose(f) != 0;
	return bad ? err_set(e, ERR_IO, "--report: %s could not be written: %s", path, strerror(errno ? errno : EIO))
		   : ERR_NONE;
}

/* --- plots -------------------------------------------------------------------------------------------------------- */

static void grow(double v, double *low, double *high)
{
	if (!(v > 0) || !isfinite(v))
		return;
	*low = v < *low ? v : *low;
	*high = v > *high ? v : *high;
}

static void plot_steps(FILE *f, const struct validate_result *r, const char *title)
{
	double low = INFINITY, high = 0;
	for (int64_t i = 0; i < r->n_points; i++) {
		grow(r->points[i].measured_ns / 1e6, &low, &high);
		grow(r->points[i].predicted_ns / 1e6, &low, &high);
	}
	struct svg s;
	svg_begin(&s, f, title, svg_axis_around(low, high, true, "measured step time, ms"),
		  svg_axis_around(low, high, true, "predicted, ms"));
	svg_diagonal(&s);
	int64_t every = 1 + r->n_points / POINTS_DRAWN;
	for (int64_t i = 0; i < r->n_points; i += every)
		svg_point(&s, r->points[i].measured_ns / 1e6, r->points[i].predicted_ns / 1e6,
			  (enum svg_colour)(r->points[i].kind - VALIDATE_PREFILLS));
	for (int k = VALIDATE_PREFILLS; k < VALIDATE_KINDS; k++)
		if (r->steps[k].n)
			svg_legend(&s, validate_kind_keys[k], (enum svg_colour)(k - VALIDATE_PREFILLS));
	svg_end(&s);
}

/* The share of requests that had at most so much. */
static int plot_distribution(FILE *f, const struct validate_result *r, enum validate_time time, const char *title,
			     struct err *e)
{
	static const char *const names[2] = {"measured", "simulated"};
	const int64_t *n = r->n_samples[time];
	double low = INFINITY, high = 0, most = (double)(n[0] > n[1] ? n[0] : n[1]);
	double *x = mem_alloc(((size_t)most + 2) * 2 * sizeof *x), *y = x ? x + (size_t)most + 2 : NULL;
	if (!x)
		return err_no_memory(e, "a plot");
	for (int side = 0; side < 2; side++)
		for (int64_t i = 0; i < n[side]; i++)
			grow(r->samples[time][side][i] / 1e6, &low, &high);
	struct svg s;
	svg_begin(&s, f, title, svg_axis_around(low, high, high > 20 * low, "ms"),
		  (struct svg_axis){.low = 0, .high = 1, .label = "share of requests"});
	for (int side = 0; side < 2; side++) {
		x[0] = n[side] ? r->samples[time][side][0] / 1e6 : NAN;
		y[0] = 0;
		for (int64_t i = 0; i < n[side]; i++) {
			x[i + 1] = r->samples[time][side][i] / 1e6;
			y[i + 1] = (double)(i + 1) / (double)n[side];
		}
		svg_line(&s, x, y, n[side] + 1, true, (enum svg_colour)side);
		svg_legend(&s, names[side], (enum svg_colour)side);
	}
	svg_end(&s);
	mem_free(x);
	return ERR_NONE;
}

/* Bars are errors, whiskers what the executor differs from itself. */
static void plot_errors(FILE *f, const struct validate_result *r, const char *title)
{
	double reach = 1;
	for (int t = 0; t < VALIDATE_TIMES; t++) {
		for (int k = 0; k < VALIDATE_STATS; k++) {
			const struct validate_figure *v = &r->times[t][k];
			reach = fabs(v->error) > reach && !v->below_step ? fabs(v->error) : reach;
			reach = v->spread > reach && !v->below_step ? v->spread : reach;
		}
	}
	struct svg_axis y = svg_axis_around(-reach, reach, false, "error, % (whiskers: the executor's own spread)");
	struct svg s;
	svg_begin(&s, f, title, (struct svg_axis){.low = 0, .high = VALIDATE_TIMES * 5, .bare = true}, y);
	for (int t = 0; t < VALIDATE_TIMES; t++) {
		for (int k = 0; k < VALIDATE_STATS; k++) {
			const struct validate_figure *v = &r->times[t][k];
			if (!v->below_step)
				svg_bar(&s, t * 5 + 1 + k, 0.8, v->error, v->spread, (enum svg_colour)k);
		}
		svg_category(&s, t * 5 + 2.5, validate_time_labels[t]);
	}
	for (int k = 0; k < VALIDATE_STATS; k++)
		svg_legend(&s, validate_stat_keys[k], (enum svg_colour)k);
	svg_end(&s);
}

enum plot { PLOT_STEPS, PLOT_TTFT, PLOT_TPOT, PLOT_ERRORS, PLOTS };
static const char *const plot_names[PLOTS] = {"steps", "ttft", "tpot", "errors"};
static const char *const plot_titles[PLOTS] = {"steps, predicted against measured", "TTFT of the requests",
					       "TPOT of the requests", "errors by percentile"};

static bool has_plot(const struct validate_result *r, enum plot p)
{
	if (p == PLOT_STEPS)
		return r->steps[VALIDATE_ALL].predicted_ns > 0;
	enum validate_time t = p == PLOT_TPOT ? VALIDATE_TPOT : VALIDATE_TTFT;
	return r->n_samples[t][0] && r->n_samples[t][1];
}

static int write_plot(const struct validate_report *report, int32_t i, enum plot p, struct err *e)
{
	const struct validate_result *r = &report->results[i];
	char path[PATH], title[256];
	FILE *f;
	plot_path(path, report->path, i + 1, plot_names[p]);
	snprintf(title, sizeof title, "%.100s: %s", r->label, plot_titles[p]);
	int rc = open_file(&f, path, e);
	if (rc)
		return rc;
	if (p == PLOT_STEPS)
		plot_steps(f, r, title);
	else if (p == PLOT_ERRORS)
		plot_errors(f, r, title);
	else
		rc = plot_distribution(f, r, p == PLOT_TTFT ? VALIDATE_TTFT : VALIDATE_TPOT, title, e);
	int closed = close_file(f, path, rc ? NULL : e);
	return rc ? rc : closed;
}

/* --- the page ----------------------------------------------------------------------------------------------------- */

static const char *percent(double v, char buf[TEXT_NUMBER])
{
	if (isnan(v))
		return "-";
	snprintf(buf, TEXT_NUMBER, "%+.1f %%", v);
	return buf;
}

static const char *size(double v, char buf[TEXT_NUMBER])
{
	if (isnan(v))
		return "-";
	snprintf(buf, TEXT_NUMBER, "%.1f %%", v);
	return buf;
}

static const char *yes(const struct validate_result *r, bool identical)
{
	return !r->replayed ? "-" : identical ? "identical" : "**differ**";
}

static void put_overview(FILE *f, const struct validate_report *p)
{
	char a[TEXT_NUMBER], b[TEXT_NUMBER], c[TEXT_NUMBER], d[TEXT_NUMBER];
	fputs("| policy | load | decisions | memory | step MAPE | executor's spread | TTFT p50 | TTFT p99 | TPOT p50 | "
	      "E2E p50 |\n"
	      "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n",
	      f);
	for (int32_t i = 0; i < p->n; i++) {
		const struct validate_result *r = &p->results[i];
		const struct validate_steps *all = &r->steps[VALIDATE_ALL];
		fprintf(f, "| %s | ", r->label);
		if (r->load > 0)
			fprintf(f, "%.4g %% | ", r->load * 100);
		else
			fputs("- | ", f);
		fprintf(f, "%s | %s | ", yes(r, r->decisions_identical), yes(r, r->memory_identical));
		fprintf(f, "%s | %s | ", size(all->mape, a), size(all->spread, b));
		fprintf(f, "%s | %s | ", percent(r->times[VALIDATE_TTFT][VALIDATE_P50].error, a),
			percent(r->times[VALIDATE_TTFT][VALIDATE_P99].error, b));
		fprintf(f, "%s | %s |\n", percent(r->times[VALIDATE_TPOT][VALIDATE_P50].error, c),
			percent(r->times[VALIDATE_E2E][VALIDATE_P50].error, d));
	}
	fputs("\nErrors are (simulated / measured − 1) × 100. The executor's spread is by how much a second execution "
	      "of the same\n"
	      "decisions differs from the first.\n\n",
	      f);
}

static void put_machine(FILE *f, const struct validate_report *p)
{
	struct validate_machine m;
	char a[TEXT_NUMBER];
	validate_machine(&m);
	const struct validate_result *r = &p->results[0];
	fprintf(f, "## What was run\n\n| | |\n| --- | --- |\n| machine | %s, %d CPUs, %.1f GB |\n| system | %s |\n",
		m.cpu, (int)m.cpus, m.memory_bytes / 1e9, m.os);
	fprintf(f, "| program | Lockstep %s |\n| executor | %s |\n", LOCKSTEP_VERSION,
		r->executed.backend_what[0] ? r->executed.backend_what
		: r->executed.backend       ? r->executed.backend
					    : "-");
	if (r->settings.model)
		fprintf(f, "| model | %s |\n", r->settings.model);
	if (r->executed.weights_what[0])
		fprintf(f, "| weights | %s |\n", r->executed.weights_what);
	fprintf(f, "| cost model | %s |\n", p->cost ? p->cost : r->cost);
	fprintf(f, "| KV memory | %s blocks of %d tokens |\n", text_count(r->executed.engine.num_blocks, a),
		(int)r->executed.engine.block_size);
	fprintf(f, "| at most | %d requests running, %d tokens a step |\n", (int)r->executed.engine.max_num_seqs,
		(int)r->executed.engine.max_num_batched_tokens);
	fprintf(f, "| workload | %s |\n", p->workload ? p->workload : "-");
	fprintf(f, "| workload hash | %016" PRIx64 " |\n\n", r->settings.workload_hash);
	if (p->command)
		fprintf(f, "To repeat it:\n\n```\n%s\n```\n\n", p->command);
}

static void put_steps(FILE *f, const struct validate_result *r)
{
	char a[TEXT_NUMBER], b[TEXT_NUMBER], c[TEXT_NUMBER], d[TEXT_NUMBER], x[TEXT_NUMBER];
	fputs("| steps | n | MAPE | bias | total | p90 of the absolute error | executor's spread |\n"
	      "| --- | --- | --- | --- | --- | --- | --- |\n",
	      f);
	for (int k = 0; k < VALIDATE_KINDS; k++) {
		const struct validate_steps *s = &r->steps[k];
		if (s->n)
			fprintf(f, "| %s | %" PRId64 " | %s | %s | %s | %s | %s |\n", validate_kind_keys[k], s->n,
				size(s->mape, a), percent(s->bias, b), percent(s->total, c), size(s->p90, d),
				size(s->spread, x));
	}
	if (r->has_parts)
		fputs("\n| part | share of the time | error of the sum | absolute, of the step | executor's spread |\n"
		      "| --- | --- | --- | --- | --- |\n",
		      f);
	for (int k = 0; r->has_parts && k < VALIDATE_PARTS; k++) {
		const struct validate_part *p = &r->parts[k];
		fprintf(f, "| %s | %s | %s | %s | %s |\n", validate_part_keys[k], size(p->share, a),
			percent(p->error, b), size(p->absolute, c), size(p->spread, d));
	}
	fputc('\n', f);
}

static void put_requests(FILE *f, const struct validate_result *r)
{
	char a[TEXT_NUMBER], b[TEXT_NUMBER];
	fputs("| ms | mean | p50 | p90 | p99 |\n| --- | --- | --- | --- | --- |\n", f);
	for (int t = 0; t < VALIDATE_TIMES; t++) {
		static const char *const names[2] = {"measured", "simulated"};
		for (int side = 0; side < 2; side++) {
			fprintf(f, "| %s %s |", validate_time_labels[t], names[side]);
			for (int k = 0; k < VALIDATE_STATS; k++) {
				const struct validate_figure *v = &r->times[t][k];
				fprintf(f, " %s%s |", validate_ms(side ? v->simulated : v->measured, a),
					v->thin ? "~" : "");
			}
			fputc('\n', f);
		}
		fputs("| error (spread) |", f);
		for (int k = 0; k < VALIDATE_STATS; k++) {
			const struct validate_figure *v = &r->times[t][k];
			fprintf(f, v->below_step ? " [%s] |" : " **%s** (%s) |", percent(v->error, a),
				size(v->spread, b));
		}
		fputc('\n', f);
	}
	fputs("\n~ a percentile of fewer samples than it needs; [ ] shorter than a step on both sides, not judged.\n\n",
	      f);
	for (int k = 0; k < VALIDATE_RATES; k++)
		fprintf(f, "- %s: measured %s, simulated %s\n", k ? "output tokens/s" : "requests/s",
			text_value(r->rates[k].measured, "req/s", a), text_value(r->rates[k].simulated, "req/s", b));
	fputc('\n', f);
}

static void put_parting(FILE *f, const char *what, const struct validate_parting *p)
{
	if (p->step >= 0)
		fprintf(f, "%s part at step %" PRId64 ":\n\n```\nexecuted  %s\nreplayed  %s\n```\n\n", what, p->step,
			p->executed, p->replayed);
}

static void put_section(FILE *f, const struct validate_report *report, int32_t i)
{
	const struct validate_result *r = &report->results[i];
	char path[PATH], a[TEXT_NUMBER];
	fprintf(f, "## %s", r->label);
	if (r->load > 0)
		fprintf(f, " at %.4g %% of its capacity", r->load * 100);
	fprintf(f, "\n\n%s requests", text_count(r->executed.n, a));
	if (isfinite(r->offered_rate))
		fprintf(f, ", %s a second", text_value(r->offered_rate, "req/s", a));
	fprintf(f, "; %s steps, executed %d times in %.0f s.", text_count(r->n_points, a), (int)r->executions,
		r->executed_s);
	if (r->executions > 1 && r->again_steps < r->n_points)
		fprintf(f,
			" The second time as far as step %s; the rest is taken to differ from the first as those did.",
			text_count(r->again_steps, a));
	if (r->executed.run_id)
		fprintf(f, " Runs %" PRId64 " (executed) and %" PRId64 " (simulated).", r->executed.run_id,
			r->simulated.run_id);
	if (r->status != RUN_COMPLETE)
		fprintf(f, "\n\n**%s**: %s", run_status_name(r->status), r->status_text);
	if (!isnan(r->contention.others))
		fprintf(f,
			"\nMeanwhile other processes took %.1f %% of the machine's CPU time, the hypervisor %.1f %%.%s",
			r->contention.others, r->contention.steal,
			r->contention.busy ? " **That spoils timings.**" : "");
	fputs("\n\n", f);
	put_parting(f, "Decisions", &r->decisions);
	put_parting(f, "Block tables", &r->memory);
	if (r->n_points)
		put_steps(f, r);
	if (has_plot(r, PLOT_ERRORS))
		put_requests(f, r);
	for (int p = 0; p < PLOTS; p++) {
		plot_path(path, report->path, i + 1, plot_names[p]);
		if (has_plot(r, (enum plot)p))
			fprintf(f, "![%s](%s)\n", plot_titles[p], base_name(path));
	}
	fputc('\n', f);
}

int validate_write_report(const struct validate_report *p, struct err *e)
{
	FILE *f;
	for (int32_t i = 0; i < p->n; i++)
		for (int k = 0; k < PLOTS; k++)
			if (has_plot(&p->results[i], (enum plot)k) && write_plot(p, i, (enum plot)k, e))
				return e->code;
	int rc = open_file(&f, p->path, e);
	if (rc)
		return rc;
	fputs("# Executed against simulated\n\n", f);
	if (p->n) {
		put_overview(f, p);
		put_machine(f, p);
	}
	for (int32_t i = 0; i < p->n; i++)
		put_section(f, p, i);
	return close_file(f, p->path, e);
}
