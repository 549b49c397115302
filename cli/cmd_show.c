/* lockstep show: a stored run as charts in text. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analysis/metrics.h"
#include "analysis/store.h"
#include "analysis/text.h"
#include "analysis/time_columns.h"
#include "analysis/timeline.h"
#include "cli/chart.h"
#include "cli/command.h"
#include "cli/timeline_fill.h"
#include "core/err.h"
#include "core/mem.h"

enum { MOST_GROUPS = 16384, CDF_ROWS = 5, BAR_ROWS = 4 };

struct show_opts {
	const char *db, *dataset_path;
	double from_s, to_s;
	int64_t width;
	bool ascii, totals;
};

static const struct opt opts[] = {
	{.name = "db",
	 .type = OPT_STRING,
	 .offset = offsetof(struct show_opts, db),
	 .arg = "FILE",
	 .help = "The SQLite database. Default lockstep.db."},
	{.name = "from",
	 .type = OPT_DOUBLE,
	 .offset = offsetof(struct show_opts, from_s),
	 .min = 0,
	 .max = 9e9,
	 .arg = "SECONDS",
	 .help = "Only requests that arrived, and time that passed, from then on, on the run's own clock. Default 0."},
	{.name = "to",
	 .type = OPT_DOUBLE,
	 .offset = offsetof(struct show_opts, to_s),
	 .min = 0,
	 .max = INFINITY,
	 .arg = "SECONDS",
	 .help = "Only what was before. Default inf: to the end."},
	{.name = "width",
	 .type = OPT_INT64,
	 .offset = offsetof(struct show_opts, width),
	 .min = 40,
	 .max = 240,
	 .arg = "N",
	 .help = "Columns of text. Default: as wide as the terminal, else $COLUMNS, else 80."},
	{.name = "ascii",
	 .type = OPT_FLAG,
	 .offset = offsetof(struct show_opts, ascii),
	 .help = "Plain ASCII. Default where LC_ALL, LC_CTYPE and LANG do not say UTF-8."},
	{.name = "dataset-path",
	 .type = OPT_STRING,
	 .offset = offsetof(struct show_opts, dataset_path),
	 .arg = "FILE",
	 .help = "Where the run's trace is now, should its steps be made again. Default: where it was."},
	{.name = "totals",
	 .type = OPT_FLAG,
	 .offset = offsetof(struct show_opts, totals),
	 .help = "Do not make a run again whose steps were not recorded: what waited and ran is then counted from its "
		 "requests."},
};

/* --- what is shown ------------------------------------------------------------------------------------------------ */

enum { TTFT, TPOT, E2E, LATENCIES };

struct shown {
	struct timeline t;
	double *ms[LATENCIES]; /* [n[l]] */
	int64_t n[LATENCIES], cap[LATENCIES];
	double *arrival_s; /* [n[TTFT]], of the same request as ms[TTFT] */
	int64_t cap_arrivals;
	int64_t arrived, finished, rejected, aborted;
	int64_t prompt_tokens, output_tokens, preemptions;
};

static int keep(struct shown *x, int which, double ms, struct err *e)
{
	if (mem_grow((void **)&x->ms[which], &x->cap[which], x->n[which] + 1, sizeof(double)))
		return err_no_memory(e, "latencies");
	x->ms[which][x->n[which]++] = ms;
	return ERR_NONE;
}

static int collect(void *ctx, const struct stored_request *q, struct err *e)
{
	struct shown *x = ctx;
	if (q->arrival_ns < x->t.o.from_ns || q->arrival_ns >= x->t.o.to_ns)
		return ERR_NONE;
	x->arrived++;
	x->rejected += q->state == REQUEST_REJECTED;
	x->aborted += q->state == REQUEST_ABORTED;
	if (!stored_request_finished(q))
		return ERR_NONE;
	x->finished++;
	x->prompt_tokens += q->prompt_tokens;
	x->output_tokens += q->output_tokens;
	x->preemptions += q->preemptions;
	if (mem_grow((void **)&x->arrival_s, &x->cap_arrivals, x->n[TTFT] + 1, sizeof(double)))
		return err_no_memory(e, "latencies");
	x->arrival_s[x->n[TTFT]] = (double)q->arrival_ns / 1e9;
	double ttft = (double)stored_request_ttft_ns(q), e2e = (double)stored_request_e2e_ns(q);
	int rc = keep(x, TTFT, ttft / 1e6, e);
	if (rc == ERR_NONE && q->output_tokens >= 2)
		rc = keep(x, TPOT, (e2e - ttft) / (double)(q->output_tokens - 1) / 1e6, e);
	return rc ? rc : keep(x, E2E, e2e / 1e6, e);
}

static void free_shown(struct shown *x)
{
	timeline_free(&x->t);
	for (int i = 0; i < LATENCIES; i++)
		mem_free(x->ms[i]);
	mem_free(x->arrival_s);
}

/* --- summary ------------------------------------------------------------------------------------------------------ */

static void text_of(const char *text, char buf[TEXT_CLEAN])
{
	text_clean(text ? text : "", buf, TEXT_CLEAN);
}

static void print_what(const struct shown *x)
{
	const struct stored_run *r = &x->t.run;
	char label[TEXT_CLEAN], model[TEXT_CLEAN], device[TEXT_CLEAN], trace[TEXT_CLEAN], a[TEXT_NUMBER],
		b[TEXT_NUMBER];
	text_of(r->label, label);
	text_of(r->model, model);
	text_of(r->device, device);
	text_of(r->trace, trace);
	printf("Run %" PRId64 ": %s%s%s%s%s", r->run_id, label, *model ? ", " : "", model, *device ? " on " : "",
	       device);
	if (r->replicas > 1)
		printf(", %d replicas", r->replicas);
	printf(" (%s)\n", r->status ? r->status : "?");
	if (*trace)
		printf("Trace %s\n", trace);
	printf("%s requests arrived, %s finished", text_count(x->arrived, a), text_count(x->finished, b));
	if (x->rejected)
		printf(", %s rejected", text_count(x->rejected, a));
	if (x->aborted)
		printf(", %s aborted", text_count(x->aborted, a));
	if (x->arrived > x->finished + x->rejected + x->aborted)
		printf(", %s unfinished", text_count(x->arrived - x->finished - x->rejected - x->aborted, a));
	if (x->preemptions)
		printf(", %s preemptions", text_count(x->preemptions, a));
	printf("\n%s prompt and %s output tokens", text_count(x->prompt_tokens, a), text_count(x->output_tokens, b));
	if (timeline_steps(&x->t, NULL))
		printf(", %s steps", text_count(timeline_steps(&x->t, NULL), a));
	putchar('\n');
}

static const struct {
	const char *title, *note;
} latencies[LATENCIES] = {{"TTFT", "time to the first token, ms"},
			  {"TPOT", "time per output token after the first, ms"},
			  {"E2E", "time to the last token, ms"}};

static int by_value(const void *x, const void *y)
{
	double a = *(const double *)x, b = *(const double *)y;
	return a < b ? -1 : a > b;
}

static int print_latencies(const struct shown *x, struct err *e)
{
	const struct percentiles p = {.p = {50, 90, 99}, .n = 3};
	/* Which get out of order when a percentile is looked for. */
	double *copy = mem_alloc((size_t)(x->n[TTFT] + 1) * sizeof *copy);
	if (!copy)
		return err_no_memory(e, "latencies");
	printf("\n%-8s %9s %9s %9s %9s %9s\n", "ms", "mean", "p50", "p90", "p99", "longest");
	for (int l = 0; l < LATENCIES; l++) {
		struct dist d;
		char b[5][TEXT_NUMBER];
		if (x->n[l])
			memcpy(copy, x->ms[l], (size_t)x->n[l] * sizeof *copy);
		dist_compute(&d, copy, x->n[l], &p);
		const double v[] = {d.mean, d.p[0], d.p[1], d.p[2], d.max};
		for (int i = 0; i < 5; i++)
			text_value(v[i], "ms", b[i]);
		printf("%-8s %9s %9s %9s %9s %9s\n", latencies[l].title, b[0], b[1], b[2], b[3], b[4]);
	}
	mem_free(copy);
	return ERR_NONE;
}

static void print_cdfs(const struct shown *x, const struct chart_style *s)
{
	for (int l = 0; l < LATENCIES; l++) {
		char note[96];
		snprintf(note, sizeof note, "%s: share of requests at or below", latencies[l].note);
		/* Only now: arrivals go with TTFTs as they were. */
		qsort(x->ms[l], (size_t)x->n[l], sizeof(double), by_value);
		putchar('\n');
		chart_cdf(stdout, s,
			  &(struct chart_cdf){.title = latencies[l].title,
					      .note = x->n[l] ? note : "no request has one",
					      .values = x->ms[l],
					      .n = x->n[l],
					      .height = CDF_ROWS,
					      .unit = "ms"});
	}
}

/* --- over time ---------------------------------------------------------------------------------------------------- */

struct plots {
	const struct shown *x;
	const struct chart_style *style;
	int n; /* columns */
	double from_s, to_s;
	struct time_column *at; /* [n] */
	double *solid, *light; /* [n] of the plot being drawn */
};

static double largest(const double *v, int n)
{
	double most = 0;
	for (int i = 0; i < n; i++)
		most = fmax(most, v[i]);
	return most;
}

static void draw(const struct plots *p, const char *title, const char *note, double top, const char *unit)
{
	putchar('\n');
	chart_bars(stdout, p->style,
		   &(struct chart_bars){
			   .title = title,
			   .note = note,
			   .solid = p->solid,
			   .light = p->light,
			   .n = p->n,
			   .height = BAR_ROWS,
			   .top = top > 0 ? top : fmax(fmax(largest(p->light, p->n), largest(p->solid, p->n)), 1),
			   .unit = unit});
	chart_time_axis(stdout, p->style, p->n, p->from_s, p->to_s);
}

static void draw_requests(const struct plots *p)
{
	char note[96], a[TEXT_NUMBER];
	bool most = timeline_steps(&p->x->t, NULL) > 0;
	for (int i = 0; i < p->n; i++) {
		p->solid[i] = time_column_mean(&p->at[i], p->at[i].waiting_ns);
		p->light[i] = p->at[i].waiting;
	}
	snprintf(note, sizeof note, "requests that had arrived and held no memory%s%s", most ? ", at most " : "",
		 most ? text_count((int64_t)largest(p->light, p->n), a) : "");
	draw(p, "Waiting", note, 0, "");
	for (int i = 0; i < p->n; i++) {
		p->solid[i] = time_column_mean(&p->at[i], p->at[i].running_ns);
		p->light[i] = p->at[i].running;
	}
	snprintf(note, sizeof note, "requests that held memory%s%s", most ? ", at most " : "",
		 most ? text_count((int64_t)largest(p->light, p->n), a) : "");
	draw(p, "Running", note, 0, "");
}

static void draw_memory(const struct plots *p)
{
	double blocks = p->x->t.run.num_gpu_blocks;
	char note[96], a[TEXT_NUMBER], b[TEXT_NUMBER];
	if (!(blocks > 0))
		return;
	int32_t most = 0;
	for (int i = 0; i < p->n; i++) {
		p->solid[i] = 100 * time_column_mean(&p->at[i], p->at[i].used_ns) / blocks;
		p->light[i] = 100 * p->at[i].blocks_used / blocks;
		most = p->at[i].blocks_used > most ? p->at[i].blocks_used : most;
	}
	snprintf(note, sizeof note, "at most %s of %s blocks held by requests", text_count(most, a),
		 text_count((int64_t)blocks, b));
	draw(p, "KV memory", note, 100, "%");
}

static void draw_batches(const struct plots *p)
{
	char note[160];
	for (int i = 0; i < p->n; i++) {
		double steps = p->at[i].steps;
		p->solid[i] = steps > 0 ? p->at[i].decodes / steps : 0;
		p->light[i] = steps > 0 ? (p->at[i].decodes + p->at[i].prefill_tokens) / steps : 0;
	}
	snprintf(note, sizeof note, "tokens a step, mean: %s decodes, %s prompt tokens above them",
		 chart_solid(p->style), chart_light(p->style));
	draw(p, "Batch", note, 0, "");
}

/* By when a request arrived. */
static void draw_ttft(const struct plots *p, int64_t *count)
{
	const struct shown *x = p->x;
	for (int i = 0; i < p->n; i++) {
		p->solid[i] = p->light[i] = 0;
		count[i] = 0;
	}
	for (int64_t q = 0; q < x->n[TTFT]; q++) {
		int c = (int)((x->arrival_s[q] - p->from_s) / (p->to_s - p->from_s) * p->n);
		c = c < 0 ? 0 : c >= p->n ? p->n - 1 : c;
		p->solid[c] += x->ms[TTFT][q];
		p->light[c] = fmax(p->light[c], x->ms[TTFT][q]);
		count[c]++;
	}
	for (int i = 0; i < p->n; i++)
		p->solid[i] /= count[i] ? (double)count[i] : 1;
	draw(p, "TTFT", "ms, by when the request arrived", 0, "");
}

static int print_over_time(const struct shown *x, const struct chart_style *s, struct err *e)
{
	struct plots p = {.x = x, .style = s, .n = chart_columns(s)};
	int64_t from = x->t.o.from_ns, to = x->t.o.to_ns < x->t.last_ns ? x->t.o.to_ns : x->t.last_ns;
	if (to <= from)
		return ERR_NONE;
	p.from_s = (double)from / 1e9;
	p.to_s = (double)to / 1e9;
	p.at = mem_zalloc((size_t)p.n, sizeof *p.at);
	p.solid = mem_zalloc((size_t)p.n, sizeof *p.solid);
	p.light = mem_zalloc((size_t)p.n, sizeof *p.light);
	int64_t *count = mem_zalloc((size_t)p.n, sizeof *count);
	int rc = p.at && p.solid && p.light && count ? ERR_NONE : err_no_memory(e, "charts");
	if (rc == ERR_NONE) {
		for (int32_t m = 0; m < timeline_replicas(&x->t); m++)
			time_columns_add_steps(p.at, p.n, from, to, &x->t.steps[m]);
		time_columns_add_load(p.at, p.n, from, to, x->t.load, x->t.n_load);
		bool several = timeline_replicas(&x->t) > 1 && !x->t.n_load;
		printf("\nOver time: %s mean while busy, %s highest in the column%s\n", chart_solid(s), chart_light(s),
		       several ? "; of a replica" : "");
		draw_requests(&p);
		if (timeline_steps(&x->t, NULL)) {
			draw_memory(&p);
			draw_batches(&p);
		}
		draw_ttft(&p, count);
	}
	mem_free(p.at);
	mem_free(p.solid);
	mem_free(p.light);
	mem_free(count);
	return rc;
}

/* --- the command -------------------------------------------------------------------------------------------------- */

static int gather(struct shown *x, struct store *s, const struct show_opts *o, const char *which, struct err *e)
{
	int64_t run_id;
	struct timeline_options to;
	timeline_options_default(&to);
	to.max_requests = 0;
	to.max_steps = MOST_GROUPS;
	to.from_ns = (int64_t)(o->from_s * 1e9);
	to.to_ns = o->to_s > 9e9 ? INT64_MAX : (int64_t)(o->to_s * 1e9);
	if (!(o->to_s > o->from_s))
		return err_set(e, ERR_INPUT, "--from %g --to %g: nothing lies between them", o->from_s, o->to_s);
	int rc = store_resolve(s, which, &run_id, e);
	if (rc == ERR_NONE)
		rc = timeline_read(&x->t, s, run_id, &to, e);
	if (rc == ERR_NONE)
		rc = store_each_request(s, run_id, collect, x, e);
	if (rc == ERR_NONE && x->t.stored == 0 && !x->t.run.has_steps)
		return err_set(e, ERR_INPUT, "%s: run %" PRId64 " has nothing to show: %s", store_path(s), run_id,
			       x->t.run.status && strcmp(x->t.run.status, "running") == 0
				       ? "it is still going on, or was killed"
				       : "it was made with --record none");
	if (rc)
		return rc;
	return timeline_fill(&x->t, s, o->dataset_path, o->totals || x->t.run.has_steps, e);
}

static int act(const struct show_opts *o, char **words, int n, struct err *e)
{
	struct shown x = {0};
	struct store *s;
	struct chart_style style;
	if (n > 1)
		return err_set(e, ERR_INPUT, "one run at a time: \"%s\" is one too many", words[1]);
	int rc = store_open(&s, o->db, true, e);
	if (rc)
		return rc;
	chart_style_detect(&style, STDOUT_FILENO);
	style.ascii |= o->ascii;
	if (o->width)
		style.width = (int)o->width;
	rc = gather(&x, s, o, n ? words[0] : "latest", e);
	store_close(s);
	if (rc == ERR_NONE) {
		print_what(&x);
		rc = print_latencies(&x, e);
		if (rc == ERR_NONE)
			rc = print_over_time(&x, &style, e);
		if (rc == ERR_NONE)
			print_cdfs(&x, &style);
	}
	free_shown(&x);
	return rc;
}

static int run(const struct command *c, int argc, char **argv)
{
	struct show_opts o = {.db = "lockstep.db", .to_s = INFINITY};
	struct err e = {0};
	int n;
	if (opts_parse(opts, c->n_opts, &o, argc, argv, &n, NULL, &e) != ERR_NONE ||
	    act(&o, argv + 1, n, &e) != ERR_NONE)
		return command_fail(c, &e);
	return 0;
}

const struct command cmd_show = {
	.name = "show",
	.synopsis = "[OPTIONS] [RUN]",
	.summary = "Draw a stored run in the terminal: queue, memory, batches, latencies",
	.about = "A summary; how many requests waited and ran, how full the KV memory was, what the batches were made "
		 "of, and the TTFT, over time; TTFT, TPOT and E2E latency as cumulative distributions. RUN is a "
		 "number, or `latest` (the default). The charts are as wide as the terminal, in block and braille "
		 "characters, or in plain ASCII; coloured on a terminal, unless NO_COLOR is set (docs/show.md).\n\n"
		 "Where the steps were not recorded the run is made again from its command line and its trace, as "
		 "`lockstep decisions` does. All that is kept in figures: `lockstep runs show`.\n\n"
		 "Exit status: 0, 1 when the run decides otherwise than it did, 2 when there is no such run or nothing "
		 "is kept of it, 130 when interrupted.",
	.examples = "# the last run\n"
		    "lockstep show\n"
		    "# ten minutes of run 3, for an e-mail\n"
		    "lockstep show 3 --from 600 --to 1200 --ascii --width 72\n",
	.opts = opts,
	.n_opts = sizeof opts / sizeof *opts,
	.run = run,
};
