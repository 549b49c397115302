/* lockstep calibrate: the simulator's few cost parameters from a log of a real server. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "analysis/calibrate.h"
#include "analysis/store.h"
#include "analysis/text.h"
#include "cli/command.h"
#include "cli/progress.h"
#include "cli/run_opts.h"
#include "core/err.h"
#include "core/mem.h"
#include "traces/reader.h"

struct calibrate_opts {
	struct run_opts run;
	const char *measured, *params;
	double train_fraction;
	int32_t max_evals;
	bool force;
};

#define RUN_OPTS_STRUCT struct calibrate_opts
#define OPT(f) offsetof(struct calibrate_opts, f)
static const struct opt opts[] = {
	{.name = "What was measured", .type = OPT_TITLE},
	{.name = "measured",
	 .type = OPT_STRING,
	 .offset = OPT(measured),
	 .arg = "FILE|run:ID",
	 .help = "The log: JSON lines with input_toks, output_toks, queued_ts, scheduled_ts, first_token_ts, "
		 "last_token_ts "
		 "(seconds); or the JSON file of `vllm bench serve --save-detailed`; or run:ID, an executed run in the "
		 "database. A meta.json beside it tells the server's settings."},
	{.name = "dataset-path",
	 .type = OPT_STRING,
	 .offset = OPT(run.trace.dataset_path),
	 .arg = "FILE",
	 .help = "The trace that was sent, for what prompts share; its requests are the log's, in the same order. "
		 "Without it "
		 "the lengths in the log are used, and nothing is shared."},
	{.name = "format",
	 .type = OPT_STRING,
	 .offset = OPT(run.trace.format),
	 .arg = "FORMAT",
	 .help = "Forces the trace's format instead of looking at its content."},
	{.name = "hash-block-size",
	 .type = OPT_INT32,
	 .offset = OPT(run.trace.hash_block_size),
	 .arg = "N",
	 .min = 0,
	 .max = 1 << 20,
	 .help = "Tokens each hash id of the trace covers. Default: what fits its rows."},
	{.name = "num-prompts",
	 .type = OPT_INT64,
	 .offset = OPT(run.trace.num_prompts),
	 .arg = "N",
	 .min = 0,
	 .max = INT32_MAX - 1,
	 .help = "Only the trace's first N requests were sent. Default: all."},
	{.name = "What is fitted", .type = OPT_TITLE},
	{.name = "params",
	 .type = OPT_STRING,
	 .offset = OPT(params),
	 .arg = "NAME,NAME",
	 .help = "Which parameters: gemm, attn, memory, kv, mixed, prompt, step, request. Default: every one that the "
		 "log can "
		 "tell."},
	{.name = "train-fraction",
	 .type = OPT_DOUBLE,
	 .offset = OPT(train_fraction),
	 .arg = "F",
	 .min = 0.01,
	 .max = 1,
	 .help = "The first F of the log, by arrival, is fitted to; the rest only scores. Default 0.5."},
	{.name = "max-evals",
	 .type = OPT_INT32,
	 .offset = OPT(max_evals),
	 .arg = "N",
	 .min = 20,
	 .max = 10000000,
	 .help = "About so many simulations. Default 1000."},
	{.name = "seed",
	 .type = OPT_UINT64,
	 .offset = OPT(run.trace.seed),
	 .arg = "N",
	 .help = "Seed of the search. Default 0."},
	{.name = "force",
	 .type = OPT_FLAG,
	 .offset = OPT(force),
	 .help = "Fit what the log cannot determine all the same."},
	{.name = "What served it", .type = OPT_TITLE},
	{.name = "policy",
	 .type = OPT_STRING,
	 .offset = OPT(run.policies),
	 .arg = "NAME[:PARAM=VALUE,...]",
	 .help = "How requests were scheduled: see `lockstep policies`, or ./mine.so, a plug-in. Default chunked (vLLM "
		 "v1)."},
	SERVING_DIMENSIONS(RUN_DIMENSION_ROW){.name = "What is reported", .type = OPT_TITLE},
	{.name = "db",
	 .type = OPT_STRING,
	 .offset = OPT(run.db),
	 .arg = "FILE",
	 .help = "The SQLite database to store it in. Default lockstep.db."},
	{.name = "no-db", .type = OPT_FLAG, .offset = OPT(run.no_db), .help = "Store nothing."},
	{.name = "json", .type = OPT_FLAG, .offset = OPT(run.json), .help = "Print one JSON object instead of text."},
	{.name = "quiet",
	 .type = OPT_FLAG,
	 .offset = OPT(run.quiet),
	 .letter = 'q',
	 .help = "Print nothing but errors."},
};

/* One calibration, its parts released together. */
struct job {
	const struct command *command;
	struct calibrate_opts o;
	struct store *store;
	struct measured measured;
	struct workload workload;
	struct arms arms;
	struct calibrate_options options;
	struct calibrate_result result;
	char taken[512]; /* what meta.json told, for people */
	char numbers[5][16]; /* its numbers as option values */
};

/* --- the server's settings, from beside the log ------------------------------------------------------------------------- */

static void note(struct job *j, const char *name, const char *value)
{
	size_t at = strlen(j->taken);
	snprintf(j->taken + at, sizeof j->taken - at, "%s%s %s", at ? ", " : "", name, value);
}

static void take_number(struct job *j, int slot, const char *name, int32_t value, const char **text)
{
	if (*text || value <= 0)
		return;
	snprintf(j->numbers[slot], sizeof j->numbers[slot], "%d", value);
	*text = j->numbers[slot];
	note(j, name, *text);
}

static void take_switch(struct job *j, const char *name, bool known, bool on, const char **text)
{
	if (*text || !known)
		return;
	*text = on ? "on" : "off";
	note(j, name, *text);
}

/* As defaults: what was typed wins. */
static void take_hints(struct job *j)
{
	const struct measured_hints *h = &j->measured.hints;
	struct run_texts *t = &j->o.run.texts;
	take_number(j, 0, "max-num-seqs", h->max_num_seqs, &t->max_num_seqs);
	take_number(j, 1, "max-num-batched-tokens", h->max_num_batched_tokens, &t->max_num_batched_tokens);
	take_number(j, 2, "max-model-len", h->max_model_len, &t->max_model_len);
	take_number(j, 3, "block-size", h->block_size, &t->block_size);
	take_number(j, 4, "num-gpu-blocks-override", h->num_gpu_blocks, &t->num_gpu_blocks_override);
	take_switch(j, "enable-prefix-caching", h->has_prefix_caching, h->prefix_caching, &t->enable_prefix_caching);
	take_switch(j, "async-scheduling", h->has_async_scheduling, h->async_scheduling, &t->async_scheduling);
}

/* --- reading ------------------------------------------------------------------------------------------------------------ */

static int load_measured(struct job *j, struct err *e)
{
	const struct calibrate_opts *o = &j->o;
	if (!o->measured)
		return err_set(e, ERR_INPUT, "which log? Give --measured FILE, or run:ID for an executed run of ours");
	if (strncmp(o->measured, "run:", 4) != 0)
		return measured_load(&j->measured, o->measured, e);
	struct store *s = j->store;
	int rc = s ? ERR_NONE : store_open(&s, o->run.db, true, e);
	if (rc == ERR_NONE)
		rc = store_measured(s, o->measured + 4, &j->measured, e);
	if (s != j->store)
		store_close(s);
	return rc;
}

static int load_workload(struct job *j, struct err *e)
{
	const struct trace_opts *t = &j->o.run.trace;
	struct trace_report report;
	if (!t->dataset_path)
		return measured_make_workload(&j->measured, &j->workload, e);
	int rc = trace_opts_load(t, &j->workload, &report, e);
	return rc == ERR_NONE ? measured_apply(&j->measured, &j->workload, t->dataset_path, e) : rc;
}

static int prepare(struct job *j, struct err *e)
{
	struct calibrate_opts *o = &j->o;
	int rc = o->run.no_db ? ERR_NONE : store_open(&j->store, o->run.db, false, e);
	if (rc == ERR_NONE)
		rc = load_measured(j, e);
	if (rc != ERR_NONE)
		return rc;
	take_hints(j);
	rc = arms_make(&j->arms, &o->run, false, e);
	if (rc == ERR_NONE && j->arms.at[0].s.cost && strcmp(j->arms.at[0].s.cost, "roofline") != 0)
		rc = err_set(e, ERR_INPUT, "--cost-model %s: what is fitted is the roofline", j->arms.at[0].s.cost);
	if (rc == ERR_NONE)
		rc = load_workload(j, e);
	calibrate_options_default(&j->options);
	if (rc == ERR_NONE && o->params) {
		j->options.params_given = true;
		rc = calibrate_parse_params(o->params, &j->options.params, e);
	}
	return rc;
}

/* --- saying --------------------------------------------------------------------------------------------------------------- */

static void print_head(FILE *f, const struct job *j)
{
	const struct measured *m = &j->measured;
	const struct engine_config *c = &j->result.engine;
	char a[TEXT_NUMBER], b[TEXT_NUMBER];
	fprintf(f, "Measured  %s (%s), %s requests%s\n", j->o.measured, measured_format_names[m->format],
		text_count(m->n, a), m->has_scheduled ? "" : "; it does not tell when they were scheduled");
	if (m->failed)
		fprintf(f,
			"          %s more had failed there and are left out: they may have taken the server's time\n",
			text_count(m->failed, a));
	if (j->taken[0])
		fprintf(f, "          %s tells %s\n", m->hints.from, j->taken);
	if (j->o.run.trace.dataset_path)
		fprintf(f, "Workload  %s, with the measured arrivals\n", j->o.run.trace.dataset_path);
	else
		fprintf(f, "Workload  the log's own lengths and arrivals; no prompt shares anything\n");
	fprintf(f, "Served by %s on %s, policy %s: %s KV blocks of %d, at most %d running, %s tokens a step%s%s\n\n",
		j->options.settings->model, j->options.settings->device, j->options.settings->policy,
		text_count(c->num_blocks, a), c->block_size, c->max_num_seqs, text_count(c->max_num_batched_tokens, b),
		c->prefix_caching ? ", prefix cache" : "", c->async_scheduling ? ", asynchronous scheduling" : "");
}

static int print(struct job *j, struct err *e)
{
	if (j->o.run.json) {
		char *json = NULL;
		int rc = calibrate_json(&j->options, j->o.measured, &j->result, &json, e);
		if (rc == ERR_NONE)
			puts(json);
		mem_free(json);
		return rc;
	}
	print_head(stdout, j);
	calibrate_print(stdout, &j->options, &j->result);
	if (j->result.calibration_id)
		printf("Stored as calibration %lld in %s.\n", (long long)j->result.calibration_id,
		       store_path(j->store));
	return ERR_NONE;
}

/* --- all of it ------------------------------------------------------------------------------------------------------------ */

static int work(struct job *j, struct err *e)
{
	struct progress bar;
	int rc = prepare(j, e);
	if (rc != ERR_NONE)
		return rc;
	struct calibrate_options *c = &j->options;
	c->settings = &j->arms.at[0].s;
	c->workload = &j->workload;
	c->measured = &j->measured;
	c->train_fraction = j->o.train_fraction;
	c->force = j->o.force;
	c->max_evals = j->o.max_evals;
	c->seed = j->o.run.trace.seed;
	c->stop = stop_flag();
	c->progress = progress_update;
	c->ctx = &bar;
	j->arms.at[0].s.workload_hash = workload_hash(&j->workload);
	progress_begin(&bar, "calibrate", !j->o.run.quiet && !j->o.run.json);
	rc = calibrate(c, &j->result, e);
	progress_end(&bar);
	if (rc == ERR_NONE && j->store)
		rc = store_calibration(j->store, c, j->o.measured, &j->result, e);
	return rc;
}

static int run(const struct command *c, int argc, char **argv)
{
	struct job j = {.command = c, .o = {.train_fraction = 0.5, .max_evals = 1000}};
	struct err e = {0};
	int n, status = 0;
	run_opts_default(&j.o.run);
	j.o.run.policies = "chunked";
	workload_init(&j.workload);
	int rc = opts_parse(opts, c->n_opts, &j.o, argc, argv, &n, NULL, &e);
	if (rc == ERR_NONE && n > 0)
		rc = err_set(&e, ERR_INPUT, "\"%s\" is no option: the log is given with --measured", argv[1]);
	if (rc == ERR_NONE)
		rc = work(&j, &e);
	if (rc == ERR_NONE && !j.o.run.quiet)
		rc = print(&j, &e);
	if (rc != ERR_NONE)
		status = command_fail(c, &e);
	else if (j.result.interrupted)
		status = 130;
	store_close(j.store);
	measured_free(&j.measured);
	workload_free(&j.workload);
	arms_free(&j.arms);
	return status;
}

const struct command cmd_calibrate = {
	.name = "calibrate",
	.synopsis = "[OPTIONS] --measured FILE --model MODEL --device DEVICE [--dataset-path FILE]",
	.summary = "Fit the simulator's cost parameters to a log of a real server",
	.about = "Simulates the workload of a real server's log under many candidate cost parameters and keeps those "
		 "whose request times come closest on the first part of the log. The rest of the log takes no part in "
		 "it and says how well they do. Prints each parameter with its uncertainty, the errors before and "
		 "after on both parts, and the --cost-model to use from then on; stores all of it in the database.\n\n"
		 "A parameter that the log cannot tell (nothing depends on it, or anything does as well) is named and "
		 "stays as the device has it. Ctrl-C ends the search with the best so far. docs/calibrate.md tells "
		 "the details.\n\n"
		 "Exit status: 0 when it was fitted, 1 when the log determines nothing, or not what --params asked "
		 "for, 2 when the input is wrong, 130 when it was interrupted.",
	.examples = "# vLLM on an RTX 4090, the trace for what prompts share\n"
		    "lockstep calibrate --measured vllm_rtx4090/requests.jsonl --dataset-path sharegpt.jsonl \\\n"
		    "    --model llama-3.1-8b --device rtx-4090 --num-gpu-blocks-override 2588\n"
		    "# a client's log, two parameters, for a script\n"
		    "lockstep calibrate --measured bench.json --model llama-3.1-8b --device h100-sxm \\\n"
		    "    --params gemm,memory --json\n",
	.opts = opts,
	.n_opts = sizeof opts / sizeof *opts,
	.run = run,
};
