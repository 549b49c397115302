/* lockstep explain: why a stored run's requests were late. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/rerun.h"
#include "analysis/store.h"
#include "analysis/store_profile.h"
#include "analysis/text.h"
#include "cli/command.h"
#include "cli/explain_view.h"
#include "cli/progress.h"
#include "core/err.h"
#include "core/mem.h"

struct explain_opts {
	const char *db, *dataset_path;
	double percentile;
	int32_t metric, what_if;
	bool json;
};

static const struct opt opts[] = {
	{.name = "db",
	 .type = OPT_STRING,
	 .offset = offsetof(struct explain_opts, db),
	 .arg = "FILE",
	 .help = "The SQLite database. Default lockstep.db."},
	{.name = "metric",
	 .type = OPT_CHOICE,
	 .offset = offsetof(struct explain_opts, metric),
	 .choices = explain_metric_names,
	 .help = "What is to be improved: the what-ifs go against its causes. Default ttft."},
	{.name = "percentile",
	 .type = OPT_DOUBLE,
	 .offset = offsetof(struct explain_opts, percentile),
	 .min = 1,
	 .max = 100,
	 .arg = "P",
	 .help = "The slowest are those from this percentile on. Default 99."},
	{.name = "what-if",
	 .type = OPT_INT32,
	 .offset = offsetof(struct explain_opts, what_if),
	 .min = 0,
	 .max = WHATIF_MAX,
	 .arg = "N",
	 .help = "Try at most so many changed settings, each by simulating the run again: 0 to 16. Default 10."},
	{.name = "dataset-path",
	 .type = OPT_STRING,
	 .offset = offsetof(struct explain_opts, dataset_path),
	 .arg = "FILE",
	 .help = "Where the run's trace is now. Default: where it was."},
	{.name = "json",
	 .type = OPT_FLAG,
	 .offset = offsetof(struct explain_opts, json),
	 .help = "Print one JSON object instead of text; times are in nanoseconds there."},
};

/* By its id in the trace, or its row where the trace has none. */
static int find_request(const struct workload *w, const char *name, int32_t *req, struct err *e)
{
	char buf[24], shown[TEXT_CLEAN], first[TEXT_CLEAN];
	for (int64_t i = 0; i < w->n; i++) {
		if (strcmp(workload_name(w, i, buf), name) == 0) {
			*req = (int32_t)i;
			return ERR_NONE;
		}
	}
	return err_set(e, ERR_INPUT,
		       "the run has no request \"%s\" (its first is \"%s\"; `lockstep explain RUN` names the slowest)",
		       text_clean(name, shown, sizeof shown),
		       text_clean(w->n ? workload_name(w, 0, buf) : "", first, sizeof first));
}

/* --- the run ------------------------------------------------------------------------------------------------------ */

static void on_fit_step(void *ctx, const struct step_row *row)
{
	explain_fit_add(ctx, row);
}

/* What a step costs on that machine: one more pass over the recording. */
static int fit_steps(struct explain_view *v, struct cost **cost, struct err *e)
{
	struct run_result r;
	const struct run_io io = {.stop = stop_flag(), .ctx = &v->fit, .step = on_fit_step};
	int rc = rerun_execute(&v->run.recipe, &v->run.settings, &v->run.loaded.workload, &io, &r, e);
	run_result_free(&r);
	return rc ? rc : explain_fit_solve(&v->fit, cost, e);
}

static int take_apart(struct explain_view *v, const char *request, struct err *e)
{
	const struct workload *w = &v->run.loaded.workload;
	struct cost *cost = NULL;
	int32_t focus = -1;
	int rc = request ? find_request(w, request, &focus, e) : ERR_NONE;
	v->executed = !rerun_simulates(&v->run.recipe);
	if (rc == ERR_NONE && v->executed)
		rc = fit_steps(v, &cost, e);
	if (rc == ERR_NONE)
		rc = explain_init(&v->x, w, focus, cost, e);
	if (rc == ERR_NONE)
		rc = explain_rerun(&v->x, &v->run.recipe, &v->run.settings, w, stop_flag(), &v->result, e);
	cost_free(cost);
	return rc;
}

/* --- what-ifs ----------------------------------------------------------------------------------------------------- */

/* What to simulate the run with, where kernels ran it: a profile that is of what it ran on, else what its own steps say. */
static void model_executed(struct explain_view *v, struct store *s, struct run_settings *base, struct profile *profile,
			   char linear[160])
{
	struct err none = {0};
	base->backend = BACKEND_SIM;
	base->tape = NULL;
	base->cost = "profiled";
	if (profile_for_run(s, base, profile, &none) == ERR_NONE) {
		base->profile = profile;
		snprintf(v->whatif_model, sizeof v->whatif_model, "profile %" PRId64, profile->id);
		return;
	}
	snprintf(linear, 160, "linear:a=%.3fns,b=%.3fns,c=%.3fns,d=%.6fns", v->fit.at[0], v->fit.at[1], v->fit.at[2],
		 v->fit.at[3]);
	base->cost = linear;
	snprintf(v->whatif_model, sizeof v->whatif_model,
		 "what its own steps took (a linear fit, off by %.0f %%): there is no profile of what it ran on",
		 100 * v->fit.error);
}

/* The base of an executed run is its simulation. */
static int figure_base(struct explain_view *v, const struct run_settings *base, const struct run_io *io, struct err *e)
{
	struct whatif same = {.s = *base};
	if (!v->executed) {
		v->whatifs.base = v->own;
		return ERR_NONE;
	}
	int rc = whatif_run(&same, &v->run.loaded.workload, v->percentile, io, e);
	if (rc == ERR_NONE && !same.ran)
		snprintf(v->no_whatifs, sizeof v->no_whatifs, "the run cannot be simulated: %s", same.why_not);
	v->whatifs.base = same.figures;
	return rc;
}

static int try_whatifs(struct explain_view *v, struct store *s, int32_t most, struct err *e)
{
	const struct workload *w = &v->run.loaded.workload;
	struct run_settings base = v->run.settings;
	struct profile profile = {0};
	struct progress bar;
	char linear[160], label[64];
	if (v->executed)
		model_executed(v, s, &base, &profile, linear);
	const struct run_io io = {.stop = stop_flag(), .progress = progress_update, .ctx = &bar};
	progress_begin(&bar, "what if", true);
	int rc = figure_base(v, &base, &io, e);
	if (rc == ERR_NONE && !*v->no_whatifs)
		whatif_plan(&v->whatifs, &base, w, &v->rank[v->metric], most);
	for (int32_t i = 0; rc == ERR_NONE && i < v->whatifs.n; i++) {
		snprintf(label, sizeof label, "what if, %d of %d", i + 1, v->whatifs.n);
		bar.label = label;
		rc = whatif_run(&v->whatifs.at[i], w, v->percentile, &io, e);
	}
	progress_end(&bar);
	profile_free(&profile);
	return rc;
}

static int explain_run(struct explain_view *v, struct store *s, const struct explain_opts *o, struct err *e)
{
	int rc = ERR_NONE;
	whatif_figures(&v->own, &v->result, v->percentile);
	for (int m = 0; rc == ERR_NONE && m < EXPLAIN_METRICS; m++)
		rc = explain_rank(&v->x, v->result.requests, (enum explain_metric)m, v->percentile, &v->rank[m], e);
	if (rc == ERR_NONE && o->what_if > 0)
		rc = try_whatifs(v, s, o->what_if, e);
	if (rc)
		return rc;
	if (o->json)
		return explain_json_run(v, e);
	explain_print_run(v);
	return ERR_NONE;
}

static int explain_one(struct explain_view *v, const struct explain_opts *o, struct err *e)
{
	if (o->json)
		return explain_json_request(v, e);
	explain_print_request(v);
	return ERR_NONE;
}

/* --- the command -------------------------------------------------------------------------------------------------- */

/* The percentile is among those that every run works out. */
static void report_percentile(struct run_settings *s, double percentile)
{
	percentiles_default(&s->percentiles);
	if (percentile != s->percentiles.p[0])
		s->percentiles.p[s->percentiles.n++] = percentile;
}

static int act(struct explain_view *v, const struct explain_opts *o, char **words, int n, struct err *e)
{
	struct store *s;
	if (n > 2)
		return err_set(e, ERR_INPUT, "a run and a request at most: \"%s\" is one too many", words[2]);
	int rc = store_open(&s, o->db, true, e);
	if (rc)
		return rc;
	rc = recall_cluster(&v->run, s, n ? words[0] : "latest", o->dataset_path, e);
	if (rc == ERR_NONE) {
		v->percentile = o->percentile;
		v->metric = (enum explain_metric)o->metric;
		report_percentile(&v->run.settings, o->percentile);
		rc = take_apart(v, n > 1 ? words[1] : NULL, e);
	}
	if (rc == ERR_NONE)
		rc = n > 1 ? explain_one(v, o, e) : explain_run(v, s, o, e);
	store_close(s);
	return rc;
}

static int run(const struct command *c, int argc, char **argv)
{
	struct explain_opts o = {.db = "lockstep.db", .percentile = 99, .what_if = 10};
	struct explain_view *v = mem_zalloc(1, sizeof *v);
	struct err e = {0};
	int n, status = 0;
	if (!v)
		err_no_memory(&e, "an explanation");
	if (!v || opts_parse(opts, c->n_opts, &o, argc, argv, &n, NULL, &e) != ERR_NONE ||
	    act(v, &o, argv + 1, n, &e) != ERR_NONE)
		status = command_fail(c, &e);
	if (v) {
		explain_free(&v->x);
		run_result_free(&v->result);
		recall_free(&v->run);
	}
	mem_free(v);
	return status;
}

const struct command cmd_explain = {
	.name = "explain",
	.synopsis = "[OPTIONS] [RUN [REQUEST]]",
	.summary = "Tell why requests of a stored run were late, and what would have helped",
	.about = "Takes the time of every request apart by cause, to the nanosecond: what it waited for, who was in "
		 "its way, what its steps took alone and what others added (docs/explain.md defines the causes). RUN "
		 "is a number, or `latest` (the default).\n\n"
		 "With REQUEST, its id in the trace or its row: the causes of its time to first token and of the rest, "
		 "its story in words, and its phases with step numbers.\n\n"
		 "Without: what the slowest requests have in common, by TTFT, TPOT and end-to-end latency, and "
		 "what-ifs: the run is simulated again with settings that might help against the causes, and the "
		 "change is told.\n\n"
		 "The run is made again from its command line and its trace; of several replicas, the queue, the "
		 "memory and the steps are those of the one that served the request. Where it was executed on real "
		 "kernels, it is played from its recorded inputs, its steps are divided by what its own steps say of "
		 "the cost of prompt tokens, decodes and context, and what-ifs take their times from a profile of the "
		 "machine where there is one.\n\n"
		 "Exit status: 0, 1 when it decides otherwise than it did, 2 when the run cannot be made again, 130 "
		 "when interrupted.",
	.examples = "# what made the slowest 1 % of the last run slow, and what would help\n"
		    "lockstep explain\n"
		    "# one request of run 3\n"
		    "lockstep explain 3 17\n"
		    "# decode times instead of first tokens, for a script\n"
		    "lockstep explain latest --metric tpot --json\n",
	.opts = opts,
	.n_opts = sizeof opts / sizeof *opts,
	.run = run,
};
