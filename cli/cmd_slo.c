/* lockstep slo: the highest request rate that meets objectives, for each of several configurations. */
#include <stdio.h>
#include <string.h>

#include "analysis/slo.h"
#include "cli/command.h"
#include "cli/progress.h"
#include "cli/run_opts.h"
#include "cli/run_session.h"
#include "cli/slo_print.h"
#include "core/err.h"
#include "core/mem.h"
#include "models/device.h"

struct slo_opts {
	struct run_opts run;
	struct slo_options search;
};

#define RUN_OPTS_STRUCT struct slo_opts
#define OPT(f) offsetof(struct slo_opts, f)
/* clang-format off */
static const struct opt opts[] = {
	{.name = "What is asked", .type = OPT_TITLE},
	{.name = "goodput", .type = OPT_WORDS, .offset = OPT(run.goodput), .arg = "METRIC:MS",
	 .help = "The objectives: ttft:500 tpot:50 e2el:20000 (any of them, milliseconds). A request is good when it meets all."},
	{.name = "attainment", .type = OPT_DOUBLE, .offset = OPT(search.attainment), .arg = "SHARE", .min = 0.01, .max = 1,
	 .help = "Share of all requests that must be good; rejected ones are not. Default 0.99."},
	{.name = "precision", .type = OPT_DOUBLE, .offset = OPT(search.precision), .arg = "F", .min = 0.0001, .max = 1,
	 .help = "The search ends when the lowest rate that fails is that much above the highest that passes. Default 0.02."},
	{.name = "max-points", .type = OPT_INT32, .offset = OPT(search.max_points), .arg = "N", .min = 4,
	 .max = SLO_POINTS_MAX, .help = "Most rates tried for each configuration. Default 24."},
	{.name = "policies", .type = OPT_STRING, .offset = OPT(run.policies), .arg = "NAME[:PARAM=VALUE,...],...",
	 .alias = "policy", .help = "The policies: see `lockstep policies`. Default chunked."},
	{.name = "devices", .type = OPT_LIST, .offset = OPT(run.texts.device), .arg = "DEVICE",
	 .help = "The devices, as --device below."},
	{.name = "What serves it", .type = OPT_TITLE},
	SERVING_DIMENSIONS(RUN_DIMENSION_ROW)
	{.name = "The trace", .type = OPT_TITLE},
	TRACE_READ_OPTS(RUN_OPTS_STRUCT, run.trace), TRACE_RANDOM_OPTS(RUN_OPTS_STRUCT, run.trace),
	{.name = "What is made of it", .type = OPT_TITLE}, TRACE_SHAPE_OPTS(RUN_OPTS_STRUCT, run.trace),
	{.name = "What is reported", .type = OPT_TITLE},
	{.name = "json", .type = OPT_FLAG, .offset = OPT(run.json),
	 .help = "Print one JSON object, with every rate that was tried."},
	{.name = "quiet", .type = OPT_FLAG, .offset = OPT(run.quiet), .letter = 'q', .help = "No progress."},
};
/* clang-format on */

struct job {
	struct slo_opts o;
	struct arms arms;
	struct loaded loaded;
	struct slo_row *rows; /* [arms.n] */
	int32_t n_rows;
};

static int price_of(struct slo_row *row, struct err *e)
{
	struct device d;
	if (!row->settings->device)
		return ERR_NONE;
	int rc = device_load(&d, row->settings->device, e);
	if (rc == ERR_NONE)
		row->price_per_hour = d.price_per_hour * row->settings->tensor_parallel * row->settings->replicas;
	return rc;
}

static void mean_lengths(struct slo_row *row, const struct workload *w)
{
	double in = 0, out = 0;
	for (int64_t i = 0; i < w->n; i++) {
		in += w->specs[i].prompt_tokens;
		out += w->specs[i].output_tokens;
	}
	row->input_tokens = in / (double)w->n;
	row->output_tokens = out / (double)w->n;
}

static int search_all(struct job *j, struct err *e)
{
	struct progress bar;
	int rc = ERR_NONE;
	progress_begin(&bar, "configurations", !j->o.run.quiet && !j->o.run.json);
	for (int32_t i = 0; rc == ERR_NONE && i < j->arms.n; i++) {
		struct slo_row *row = &j->rows[i];
		row->settings = &j->arms.at[i].s;
		mean_lengths(row, &j->loaded.workload);
		progress_update(&bar, i, j->arms.n);
		rc = price_of(row, e);
		if (rc == ERR_NONE)
			rc = slo_search(row->settings, &j->loaded.workload, &j->o.search, stop_flag(), &row->result, e);
		j->n_rows += rc == ERR_NONE;
	}
	progress_end(&bar);
	return rc;
}

static int prepare(struct job *j, struct err *e)
{
	int rc = arms_make(&j->arms, &j->o.run, true, e);
	for (int32_t i = 0; rc == ERR_NONE && i < j->arms.n; i++) {
		struct run_settings *s = &j->arms.at[i].s;
		s->record = RECORD_NONE;
		if (s->cost && strncmp(s->cost, "profiled", 8) == 0)
			rc = err_set(e, ERR_INPUT,
				     "--cost-model profiled is not for searches: calibrate a roofline from the "
				     "measured runs (lockstep calibrate), and give that");
	}
	if (rc == ERR_NONE)
		rc = session_load(&j->o.run, &j->arms, &j->loaded, e);
	if (rc == ERR_NONE && j->loaded.workload.n == 0)
		rc = err_set(e, ERR_INPUT, "the trace has no requests");
	if (rc == ERR_NONE) {
		j->rows = mem_zalloc((size_t)j->arms.n, sizeof *j->rows);
		rc = j->rows ? ERR_NONE : err_no_memory(e, "configurations");
	}
	return rc;
}

static int print(struct job *j, struct err *e)
{
	slo_fronts(j->rows, j->n_rows);
	if (j->o.run.json)
		return slo_print_json(stdout, j->rows, j->n_rows, &j->o.search, slo_own_rate(&j->loaded.workload), e);
	printf("%lld requests, %.3f a second as they are\n\n", (long long)j->loaded.workload.n,
	       slo_own_rate(&j->loaded.workload));
	slo_print_table(stdout, j->rows, j->n_rows, &j->o.search);
	return ERR_NONE;
}

static int parse(const struct command *c, int argc, char **argv, struct slo_opts *o, struct err *e)
{
	int n;
	*o = (struct slo_opts){.search = {.attainment = 0.99, .precision = 0.02, .max_points = 24}};
	run_opts_default(&o->run);
	o->run.policies = "chunked";
	o->run.no_db = true;
	int rc = opts_parse(opts, c->n_opts, o, argc, argv, &n, NULL, e);
	return rc ? rc : session_positional(&o->run, n, argv, e);
}

static int run(const struct command *c, int argc, char **argv)
{
	struct job j = {0};
	struct err e = {0};
	int status = 0;
	workload_init(&j.loaded.workload);
	int rc = parse(c, argc, argv, &j.o, &e);
	if (rc == ERR_NONE)
		rc = prepare(&j, &e);
	if (rc == ERR_NONE)
		rc = search_all(&j, &e);
	/* What was found before an interruption is shown as well. */
	if ((rc == ERR_NONE || rc == ERR_INTERRUPTED) && j.n_rows > 0) {
		struct err again = {0};
		if (print(&j, &again) != ERR_NONE)
			status = command_fail(c, &again);
	}
	if (rc != ERR_NONE)
		status = command_fail(c, &e);
	mem_free(j.rows);
	arms_free(&j.arms);
	workload_free(&j.loaded.workload);
	return status;
}

const struct command cmd_slo = {
	.name = "slo",
	.synopsis = "[OPTIONS] --model MODEL --devices DEVICE,... --goodput METRIC:MS... [--dataset-path] FILE",
	.summary = "The highest request rate that meets objectives, for each configuration",
	.about = "Finds, by bisection, the highest request rate at which a share of all requests meets every objective "
		 "of "
		 "--goodput. Each rate gets the same requests in the trace's own pattern of arrivals, played faster or "
		 "slower; "
		 "with --request-rate R (and --burstiness) the pattern is drawn once, and played faster or slower too. "
		 "Lists "
		 "under \"What serves it\" make a configuration of each combination.\n\n"
		 "The table has the highest rate that passes and the lowest that fails; the state there: STABLE, "
		 "BACKLOGGED (a "
		 "queue longer than what runs formed, and was worked off) or OVERLOADED (more than 5 % of the requests "
		 "had not begun "
		 "when the last one came); and what most of those that missed would have needed more of, just above: "
		 "memory, places "
		 "(--max-num-seqs), queue (steps do not compute enough tokens), prefill (their own prompt), decode "
		 "(their own "
		 "tokens). $/1000 met is the price of 1,000 requests that meet the objectives. A run that cannot pass "
		 "any more is "
		 "ended at once.\n\n"
		 "Exit status: 0 when it was searched, 2 when the input is wrong, 130 when interrupted (what was found "
		 "until "
		 "then is printed).",
	.examples = "# which layout serves this traffic, and what a request costs\n"
		    "lockstep slo --model llama-3.1-70b --devices h100-sxm,h200 --tensor-parallel-size 2,4,8 \\\n"
		    "    --policies continuous,chunked --goodput ttft:500 tpot:50 --attainment 0.99 trace.csv\n",
	.opts = opts,
	.n_opts = sizeof opts / sizeof *opts,
	.run = run,
};
