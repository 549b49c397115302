/* lockstep slo: what meets objectives: the highest request rate, or the fewest replicas, of each of several configurations. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "analysis/price.h"
#include "analysis/slo.h"
#include "analysis/slo_rows.h"
#include "analysis/store.h"
#include "analysis/store_slo.h"
#include "cli/command.h"
#include "cli/progress.h"
#include "cli/run_opts.h"
#include "cli/run_session.h"
#include "cli/slo_print.h"
#include "core/err.h"
#include "core/mem.h"

enum find { FIND_RATE, FIND_REPLICAS, FIND_CHEAPEST };
static const char *const find_names[] = {"rate", "replicas", "cheapest", NULL};
enum arrivals { ARRIVALS_DRAWN, ARRIVALS_TRACE };
static const char *const arrivals_names[] = {"drawn", "trace", NULL};

struct slo_opts {
	struct run_opts run;
	struct slo_options search;
	int32_t find, arrivals; /* enum find, enum arrivals */
};

#define RUN_OPTS_STRUCT struct slo_opts
#define OPT(f) offsetof(struct slo_opts, f)
/* clang-format off */
static const struct opt opts[] = {
	{.name = "What is asked", .type = OPT_TITLE},
	{.name = "goodput", .type = OPT_WORDS, .offset = OPT(run.goodput), .arg = "METRIC:MS",
	 .help = "The objectives: ttft:500 tpot:50 e2el:20000 (any of them, milliseconds). A request is good when it meets all."},
	{.name = "find", .type = OPT_CHOICE, .offset = OPT(find), .arg = "rate|replicas|cheapest", .choices = find_names,
	 .help = "rate (default): the highest request rate. replicas: the fewest that serve --request-rate, or the trace as "
		 "it is. cheapest: the same, and no configuration is tried with as many as cost no less than the cheapest "
		 "found before it."},
	{.name = "max-replicas", .type = OPT_INT32, .offset = OPT(search.max_replicas), .arg = "N", .min = 1,
	 .max = SLO_REPLICAS_MAX, .help = "--find replicas and cheapest: no more are tried. Default 64."},
	{.name = "arrivals", .type = OPT_CHOICE, .offset = OPT(arrivals), .arg = "drawn|trace", .choices = arrivals_names,
	 .help = "--find replicas and cheapest: where the --request-rate comes from: new arrivals (drawn, default; "
		 "--burstiness), or the trace's own pattern played faster or slower (trace)."},
	{.name = "attainment", .type = OPT_DOUBLE, .offset = OPT(search.attainment), .arg = "SHARE", .min = 0.01, .max = 1,
	 .help = "Share of all requests that must be good; rejected ones are not. Default 0.99."},
	{.name = "precision", .type = OPT_DOUBLE, .offset = OPT(search.precision), .arg = "F", .min = 0.0001, .max = 1,
	 .help = "The search ends when the lowest rate that fails is that much above the highest that passes. Default 0.02."},
	{.name = "max-points", .type = OPT_INT32, .offset = OPT(search.max_points), .arg = "N", .min = 4,
	 .max = SLO_POINTS_MAX, .help = "Most rates tried for each configuration. Default 24."},
	{.name = "policies", .type = OPT_STRING, .offset = OPT(run.policies), .arg = "NAME[:PARAM=VALUE,...],...",
	 .alias = "policy", .help = "The policies: see `lockstep policies`, or ./mine.so, a plug-in. Default chunked."},
	{.name = "devices", .type = OPT_LIST, .offset = OPT(run.texts.device), .arg = "DEVICE",
	 .help = "The devices, as --device below."},
	{.name = "What serves it", .type = OPT_TITLE},
	SERVING_DIMENSIONS(RUN_DIMENSION_ROW)
	{.name = "The trace", .type = OPT_TITLE},
	TRACE_READ_OPTS(RUN_OPTS_STRUCT, run.trace), TRACE_RANDOM_OPTS(RUN_OPTS_STRUCT, run.trace),
	{.name = "What is made of it", .type = OPT_TITLE}, TRACE_SHAPE_OPTS(RUN_OPTS_STRUCT, run.trace),
	{.name = "What is reported", .type = OPT_TITLE},
	{.name = "json", .type = OPT_FLAG, .offset = OPT(run.json),
	 .help = "Print one JSON object, with everything that was tried."},
	{.name = "db", .type = OPT_STRING, .offset = OPT(run.db), .arg = "FILE",
	 .help = "The SQLite database that the search is stored in: slo_searches and its tables. Default lockstep.db."},
	{.name = "no-db", .type = OPT_FLAG, .offset = OPT(run.no_db), .help = "Store nothing."},
	{.name = "quiet", .type = OPT_FLAG, .offset = OPT(run.quiet), .letter = 'q', .help = "No progress."},
};
/* clang-format on */

struct job {
	struct slo_opts o;
	struct arms arms;
	struct loaded loaded;
	struct slo_row *rows; /* [arms.n] */
	int32_t n_rows;
	struct store *store; /* NULL with --no-db */
	int64_t search_id; /* in it; 0 = not stored */
	char *arguments; /* the command line, as JSON */
};

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

/* So many replicas at most cost less than the cheapest row so far. */
static int32_t affordable(const struct job *j, const struct slo_row *row)
{
	int32_t most = j->o.search.max_replicas, best = slo_cheapest(j->rows, j->n_rows);
	if (j->o.find != FIND_CHEAPEST || best < 0 || row->price.per_hour <= 0)
		return most;
	double n = ceil(slo_price_per_hour(&j->rows[best]) / row->price.per_hour * (1 - 1e-12)) - 1;
	return n < most ? (int32_t)n : most;
}

static int search_one(struct job *j, struct slo_row *row, struct err *e)
{
	struct slo_options o = j->o.search;
	struct run_settings one = *row->settings;
	if (j->o.find != FIND_RATE)
		one.replicas = 1;
	int rc = run_price(&row->price, &one, e);
	if (rc || j->o.find == FIND_RATE)
		return rc ? rc : slo_search(row->settings, &j->loaded.workload, &o, stop_flag(), &row->result, e);
	o.max_replicas = affordable(j, row);
	row->max_replicas = o.max_replicas;
	row->pruned = o.max_replicas < j->o.search.max_replicas;
	row->result = (struct slo_result){
		.outcome = SLO_NEVER, .at_pass = -1, .at_fail = -1, .high = INFINITY, .sure_high = INFINITY};
	return o.max_replicas < 1 ? ERR_NONE
				  : slo_search(row->settings, &j->loaded.workload, &o, stop_flag(), &row->result, e);
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
		rc = search_one(j, row, e);
		j->n_rows += rc == ERR_NONE;
	}
	progress_end(&bar);
	return rc;
}

/* What is asked of the number of replicas, and what it does not go with. */
static int check_find(struct slo_opts *o, struct err *e)
{
	bool fewest = o->find != FIND_RATE;
	o->search.find = fewest ? SLO_FIND_REPLICAS : SLO_FIND_RATE;
	if (fewest && o->run.texts.replicas)
		return err_set(e, ERR_INPUT, "--find %s looks for the number of replicas: leave --replicas away",
			       find_names[o->find]);
	if (fewest && o->run.texts.fleet)
		return err_set(e, ERR_INPUT, "--find %s: a --fleet already says how many there are of each",
			       find_names[o->find]);
	if (!fewest && o->search.max_replicas)
		return err_set(e, ERR_INPUT, "--max-replicas goes with --find replicas and --find cheapest");
	if (o->arrivals == ARRIVALS_TRACE && !(fewest && o->run.trace.request_rate > 0))
		return err_set(
			e, ERR_INPUT,
			"--arrivals trace plays the trace's own pattern at --request-rate, for --find replicas and "
			"--find cheapest");
	if (fewest && isinf(o->run.trace.request_rate))
		return err_set(e, ERR_INPUT, "--request-rate inf: no number of replicas serves all requests at once");
	if (o->arrivals == ARRIVALS_TRACE) {
		o->search.rate = o->run.trace.request_rate;
		o->run.trace.request_rate = 0;
	}
	if (!o->search.max_replicas)
		o->search.max_replicas = 64;
	return ERR_NONE;
}

static int prepare(struct job *j, struct err *e)
{
	int rc = check_find(&j->o, e);
	if (rc == ERR_NONE)
		rc = arms_make(&j->arms, &j->o.run, true, e);
	for (int32_t i = 0; rc == ERR_NONE && i < j->arms.n; i++) {
		struct run_settings *s = &j->arms.at[i].s;
		s->record = RECORD_NONE;
		if (s->cost && strncmp(s->cost, "profiled", 8) == 0)
			rc = err_set(e, ERR_INPUT,
				     "--cost-model profiled is not for searches: calibrate a roofline from the "
				     "measured runs (lockstep calibrate), and give that");
	}
	if (rc == ERR_NONE && !j->o.run.no_db)
		rc = store_open(&j->store, j->o.run.db, false, e);
	if (rc == ERR_NONE)
		rc = command_line_json(&j->arguments, e);
	for (int32_t i = 0; rc == ERR_NONE && i < j->arms.n; i++)
		j->arms.at[i].s.arguments = j->arguments;
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

static int keep(struct job *j, bool interrupted, struct err *e)
{
	const struct store_slo x = {.options = &j->o.search,
				    .rows = j->rows,
				    .n = j->n_rows,
				    .requests = j->loaded.workload.n,
				    .own_rate = slo_own_rate(&j->loaded.workload),
				    .interrupted = interrupted};
	slo_fronts(j->rows, j->n_rows);
	return j->store ? store_slo(j->store, &x, (int64_t)time(NULL), &j->search_id, e) : ERR_NONE;
}

static int print(struct job *j, struct err *e)
{
	if (j->o.run.json)
		return slo_print_json(stdout, j->rows, j->n_rows, &j->o.search, slo_own_rate(&j->loaded.workload), e);
	printf("%lld requests, %.3f a second as they are", (long long)j->loaded.workload.n,
	       slo_own_rate(&j->loaded.workload));
	if (j->o.search.rate > 0)
		printf(", played at %.3f a second", j->o.search.rate);
	fputs("\n\n", stdout);
	slo_print_table(stdout, j->rows, j->n_rows, &j->o.search);
	if (j->search_id)
		printf("Stored as search %lld in %s.\n", (long long)j->search_id, store_path(j->store));
	return ERR_NONE;
}

static int parse(const struct command *c, int argc, char **argv, struct slo_opts *o, struct err *e)
{
	int n;
	*o = (struct slo_opts){.search = {.attainment = 0.99, .precision = 0.02, .max_points = 24}};
	run_opts_default(&o->run);
	o->run.policies = "chunked";
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
	/* What was found before an interruption is kept and shown as well. */
	if ((rc == ERR_NONE || rc == ERR_INTERRUPTED) && j.n_rows > 0) {
		struct err again = {0};
		if (keep(&j, rc == ERR_INTERRUPTED, &again) != ERR_NONE)
			status = command_fail(c, &again);
		err_clear(&again);
		if (print(&j, &again) != ERR_NONE)
			status = command_fail(c, &again);
	}
	if (rc != ERR_NONE)
		status = command_fail(c, &e);
	mem_free(j.rows);
	mem_free(j.arguments);
	store_close(j.store);
	arms_free(&j.arms);
	workload_free(&j.loaded.workload);
	return status;
}

const struct command cmd_slo = {
	.name = "slo",
	.synopsis = "[OPTIONS] --model MODEL --devices DEVICE,... --goodput METRIC:MS... [--dataset-path] FILE",
	.summary = "What meets objectives: the highest request rate, or the fewest replicas",
	.about = "Finds, by bisection and for each configuration, the highest request rate at which a share of all "
		 "requests meets every objective of --goodput; or, with --find replicas, the fewest replicas with "
		 "which that many do at a given rate; or, with --find cheapest, which configuration does so for the "
		 "least money. Each rate gets the same requests in the trace's own pattern of arrivals, played faster "
		 "or slower; with --request-rate R (and --burstiness) the pattern is drawn once, and played faster or "
		 "slower too. Lists under \"What serves it\" make a configuration of each combination.\n\n"
		 "An objective may be of a class alone, chat/ttft:200 (`class` of the trace) or "
		 "priority=1/e2el:60000: it takes the place of the general one, and each class must reach the "
		 "attainment.\n\n"
		 "The table has what passes and what fails; the state where it passes: STABLE, BACKLOGGED (a queue "
		 "longer than what runs formed, and was worked off) or OVERLOADED (more than 5 % of the requests had "
		 "not begun when the last one came); and what most of those that missed would have needed more of, "
		 "where it fails: memory, places (--max-num-seqs), queue (steps do not compute enough tokens), "
		 "prefill (their own prompt), decode (their own tokens). $/1000 met is the price of 1,000 requests "
		 "that meet the objectives. A run that cannot pass any more is ended at once.\n\n"
		 "Exit status: 0 when it was searched, 2 when the input is wrong, 130 when interrupted (what was "
		 "found until then is printed and stored).",
	.examples = "# which layout serves this traffic, and what a request costs\n"
		    "lockstep slo --model llama-3.1-70b --devices h100-sxm,h200 --tensor-parallel-size 2,4,8 \\\n"
		    "    --policies continuous,chunked --goodput ttft:500 tpot:50 --attainment 0.99 trace.csv\n"
		    "# how many of which device serve 20 requests a second\n"
		    "lockstep slo --model llama-3.1-8b --devices l40s,h100-sxm --find replicas --request-rate 20 \\\n"
		    "    --goodput ttft:1000 tpot:40 --attainment 0.95 trace.csv\n",
	.opts = opts,
	.n_opts = sizeof opts / sizeof *opts,
	.run = run,
};
