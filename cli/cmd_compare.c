/* lockstep compare: several policies or settings serve the same trace, or did before. */
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "analysis/compare.h"
#include "analysis/effects.h"
#include "cli/command.h"
#include "cli/compare_live.h"
#include "cli/compare_means.h"
#include "cli/compare_stored.h"
#include "cli/run_opts.h"
#include "cli/run_session.h"
#include "core/err.h"

struct compare_opts {
	struct run_opts run;
	bool all;
	int32_t seeds;
	const char *const *stored; /* [n_stored] runs in the database, instead of a trace */
	int n_stored;
};

#define RUN_OPTS_STRUCT struct compare_opts
#define SEEDS_MAX 1000
static const struct opt opts[] = {
	{.name = "policies",
	 .type = OPT_STRING,
	 .offset = offsetof(struct compare_opts, run.policies),
	 .arg = "NAME[:PARAM=VALUE,...],...",
	 .alias = "policy",
	 .help = "The policies to compare: see `lockstep policies`, or ./mine.so, a plug-in. Default "
		 "naive,continuous,chunked."},
	{.name = "all",
	 .type = OPT_FLAG,
	 .offset = offsetof(struct compare_opts, all),
	 .help = "Every metric, not only the headline ones."},
	{.name = "seeds",
	 .type = OPT_INT32,
	 .offset = offsetof(struct compare_opts, seeds),
	 .arg = "N",
	 .min = 1,
	 .max = SEEDS_MAX,
	 .help = "Run everything with N seeds, from --seed on, and say what differs in all of them. Default 1."},
	RUN_OPTS,
};

static int columns(void)
{
	struct winsize w;
	return isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col >= 60 ? w.ws_col : 0;
}

/* How many were not served, why, and what helps where it is their length. */
static void print_unserved(const char *label, const struct run_result *r)
{
	const struct metrics *m = &r->metrics;
	if (!m->failed)
		return;
	printf("%s: %lld of %lld requests were not served:", label, (long long)m->failed, (long long)m->requests);
	for (int w = 0, n = 0; w < (int)(sizeof m->rejected_why / sizeof *m->rejected_why); w++)
		if (m->rejected_why[w])
			printf("%s %lld %s", n++ ? "," : "", (long long)m->rejected_why[w],
			       request_why_name((enum request_why)w));
	if (m->rejected_why[REQUEST_WHY_PROMPT_TOO_LONG])
		printf("; there is room for %d tokens a request: --length-scale F shortens them all",
		       (int)r->engine.max_model_len);
	putchar('\n');
}

/* What went wrong in runs that are in the table all the same. */
static void print_statuses(const struct session *s)
{
	for (int32_t i = 0; i < s->n_results; i++) {
		const struct run_result *r = &s->results[i];
		if (r->status != RUN_COMPLETE)
			printf("%s: %s%s%s\n", s->settings[i]->label, run_status_name(r->status),
			       r->status_text[0] ? ": " : "", r->status_text);
		print_unserved(s->settings[i]->label, r);
		if (r->stats.outside_steps)
			printf("%s: %lld of %lld steps lie outside what the cost model knows\n", s->settings[i]->label,
			       (long long)r->stats.outside_steps, (long long)r->stats.steps);
	}
}

static int print_table(const struct compare_live *x, struct err *e)
{
	const struct session *s = &x->first;
	const struct run_result *results[ARMS_MAX];
	struct compare_table t;
	for (int32_t i = 0; i < s->n_results; i++)
		results[i] = &s->results[i];
	bool means = x->seeds > 1 && !x->one_seed && x->n_sides > 0;
	if (means)
		printf("Means of %d seeds, %llu to %llu\n", x->seeds, (unsigned long long)x->opts->trace.seed,
		       (unsigned long long)(x->opts->trace.seed + (uint64_t)x->seeds - 1));
	int rc = means ? compare_means(&t, x->sides, x->n_sides, x->all, e)
		       : compare_build(&t, s->settings, results, s->n_results, x->all, e);
	if (rc != ERR_NONE)
		return rc;
	rc = compare_print(&t, stdout, columns(), isatty(STDOUT_FILENO), e);
	compare_free(&t);
	putchar('\n');
	return rc;
}

static void print_end(const struct compare_live *x)
{
	session_print_end(stdout, &x->first);
	if (x->seeds > 1 && x->first_run)
		printf("All seeds: runs %lld to %lld.\n", (long long)x->first_run, (long long)x->last_run);
}

static int print(const struct compare_live *x, struct err *e)
{
	const struct session *s = &x->first;
	if (s->opts->json)
		return compare_json(stdout, x->json, (int32_t)x->n_json, x->effects, x->n_arms, e);
	session_print_workload(stdout, s);
	session_print_serving(stdout, s);
	putchar('\n');
	int rc = print_table(x, e);
	effects_print_all(x->effects, x->n_arms, stdout);
	print_statuses(s);
	print_end(x);
	return rc;
}

/* What says something of runs that are stored; the rest says how runs are made. */
static int check_stored(struct err *e)
{
	static const char *const fit[] = {"db", "all", "json", "quiet", "metric-percentiles"};
	const char *const *words;
	int n = command_line(&words);
	for (int i = 0; i < n; i++) {
		bool fits = strncmp(words[i], "--", 2) != 0;
		for (size_t k = 0; !fits && k < sizeof fit / sizeof *fit; k++) {
			size_t len = strlen(fit[k]);
			fits = strncmp(words[i] + 2, fit[k], len) == 0 &&
			       (words[i][2 + len] == '\0' || words[i][2 + len] == '=');
		}
		if (!fits)
			return err_set(e, ERR_INPUT,
				       "%s: runs that are stored are what they are; --db, --all, --json and "
				       "--metric-percentiles go with their numbers",
				       words[i]);
	}
	return ERR_NONE;
}

static bool is_run(const char *word)
{
	return strcmp(word, "latest") == 0 || (*word && word[strspn(word, "0123456789")] == '\0');
}

static int parse(const struct command *c, int argc, char **argv, struct compare_opts *o, struct err *e)
{
	int n, runs = 0;
	*o = (struct compare_opts){.seeds = 1};
	run_opts_default(&o->run);
	o->run.policies = "naive,continuous,chunked";
	int rc = opts_parse(opts, c->n_opts, o, argc, argv, &n, NULL, e);
	for (int i = 1; rc == ERR_NONE && i <= n; i++)
		runs += is_run(argv[i]);
	if (rc == ERR_NONE && n > 1 && runs == n) {
		o->stored = (const char *const *)argv + 1;
		o->n_stored = n;
		return check_stored(e);
	}
	return rc ? rc : session_positional(&o->run, n, argv, e);
}

static int describe(const struct command *c, int argc, char **argv, struct run_opts *out, bool *several, struct err *e)
{
	struct compare_opts o;
	int rc = parse(c, argc, argv, &o, e);
	*out = o.run;
	*several = true;
	return rc;
}

static int run_stored(const struct command *c, const struct compare_opts *o, struct err *e)
{
	struct compare_stored x = {.db = o->run.db,
				   .runs = o->stored,
				   .n = o->n_stored,
				   .all = o->all,
				   .json = o->run.json,
				   .width = columns(),
				   .bold = isatty(STDOUT_FILENO)};
	percentiles_default(&x.percentiles);
	int rc = ERR_NONE;
	if (o->run.metric_percentiles)
		rc = percentiles_parse(&x.percentiles, o->run.metric_percentiles, e);
	if (rc == ERR_NONE)
		rc = compare_stored(&x, e);
	return rc == ERR_NONE ? 0 : command_fail(c, e);
}

static int run(const struct command *c, int argc, char **argv)
{
	struct compare_opts o;
	struct compare_live x;
	struct err e = {0};
	if (parse(c, argc, argv, &o, &e) != ERR_NONE)
		return command_fail(c, &e);
	if (o.n_stored)
		return run_stored(c, &o, &e);
	if (compare_live_run(&x, c, &o.run, o.seeds, o.all) && !o.run.quiet && print(&x, &e) != ERR_NONE)
		x.status = command_fail(c, &e);
	int status = x.status;
	compare_live_free(&x);
	return status;
}

const struct command cmd_compare = {
	.name = "compare",
	.synopsis = "[OPTIONS] --model MODEL --device DEVICE [--dataset-path] FILE | RUN RUN...",
	.summary = "Serve the same trace with several policies or settings, side by side",
	.about = "Every run gets the same workload and a cold cache. The table has one column per run: the best value "
		 "of a row carries a *, ratios are against the first run, a ~ marks a percentile of too few "
		 "samples.\n\n"
		 "Below it stands what each run changes against the first, in words and with a 95 % interval: of one "
		 "run each, by drawing blocks of requests again, those of both runs together; with --seeds N, by what "
		 "the seeds agree on. noise is what two runs like the first differ by.\n\n"
		 "RUN RUN... compares runs that are in the database: those of one configuration with different seeds "
		 "make one side.\n\n"
		 "Options under \"What serves it\" take lists: `--max-num-seqs 64,256 --kv-cache off,on` makes the "
		 "four runs of their cross product, each called by what differs.\n\n"
		 "Exit status: 0 when all runs were completed, 1 when one failed, 2 when the input is wrong, 130 when "
		 "interrupted (what was done until then is printed and stored).",
	.examples = "# three generations of batching on one production trace\n"
		    "lockstep compare --model llama-3.1-8b --device h100-sxm AzureLLMInferenceTrace_conv.csv\n"
		    "# what a KV cache is worth to one user\n"
		    "lockstep compare --policies naive --max-num-seqs 1 --kv-cache off,on --num-prompts 500 \\\n"
		    "    --model llama-3.1-8b --device h100-sxm AzureLLMInferenceTrace_code.csv\n"
		    "# one parameter of one policy\n"
		    "lockstep compare --policies chunked --max-num-batched-tokens 512,2048,8192 \\\n"
		    "    --model llama-3.1-8b --device l4 trace.jsonl\n"
		    "# with ten draws of the arrivals; the same of runs that are stored\n"
		    "lockstep compare --request-rate 4 --seeds 10 --policies continuous,chunked \\\n"
		    "    --model llama-3.1-8b --device l4 trace.jsonl\n"
		    "lockstep compare 12 13 --db lockstep.db\n",
	.opts = opts,
	.n_opts = sizeof opts / sizeof *opts,
	.run = run,
	.describe = describe,
};
