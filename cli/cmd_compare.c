/* lockstep compare: several policies or settings serve the same trace. */
#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "analysis/compare.h"
#include "analysis/result_json.h"
#include "cli/command.h"
#include "cli/run_opts.h"
#include "cli/run_session.h"
#include "core/err.h"

struct compare_opts {
	struct run_opts run;
	bool all;
};

#define RUN_OPTS_STRUCT struct compare_opts
static const struct opt opts[] = {
	{.name = "policies",
	 .type = OPT_STRING,
	 .offset = offsetof(struct compare_opts, run.policies),
	 .arg = "NAME[:PARAM=VALUE,...],...",
	 .alias = "policy",
	 .help = "The policies to compare: see `lockstep policies`. Default naive,continuous,chunked."},
	{.name = "all",
	 .type = OPT_FLAG,
	 .offset = offsetof(struct compare_opts, all),
	 .help = "Every metric, not only the headline ones."},
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

static int print(const struct session *s, bool all, struct err *e)
{
	if (s->opts->json)
		return result_json_runs(stdout, s->json, s->n_results, e);
	const struct run_result *results[ARMS_MAX];
	for (int32_t i = 0; i < s->n_results; i++)
		results[i] = &s->results[i];
	struct compare_table t;
	session_print_workload(stdout, s);
	session_print_serving(stdout, s);
	putchar('\n');
	int rc = compare_build(&t, s->settings, results, s->n_results, all, e);
	if (rc != ERR_NONE)
		return rc;
	rc = compare_print(&t, stdout, columns(), isatty(STDOUT_FILENO), e);
	compare_free(&t);
	putchar('\n');
	print_statuses(s);
	session_print_end(stdout, s);
	return rc;
}

static int parse(const struct command *c, int argc, char **argv, struct compare_opts *o, struct err *e)
{
	int n;
	*o = (struct compare_opts){0};
	run_opts_default(&o->run);
	o->run.policies = "naive,continuous,chunked";
	int rc = opts_parse(opts, c->n_opts, o, argc, argv, &n, NULL, e);
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

static int run(const struct command *c, int argc, char **argv)
{
	struct compare_opts o;
	struct session s;
	struct err e = {0};
	if (parse(c, argc, argv, &o, &e) != ERR_NONE)
		return command_fail(c, &e);
	if (session_run(&s, c, &o.run, true) && !o.run.quiet && print(&s, o.all, &e) != ERR_NONE)
		s.status = command_fail(c, &e);
	session_free(&s);
	return s.status;
}

const struct command cmd_compare = {
	.name = "compare",
	.synopsis = "[OPTIONS] --model MODEL --device DEVICE [--dataset-path] FILE",
	.summary = "Serve the same trace with several policies or settings, side by side",
	.about =
		"Every run gets the same workload and a cold cache. The table has one column per run: the best value "
		"of "
		"a row carries a *, ratios are against the first run, a ~ marks a percentile of too few samples.\n\n"
		"Options under \"What serves it\" take lists: `--max-num-seqs 64,256 --kv-cache off,on` makes the four "
		"runs of their cross product, each called by what differs.\n\n"
		"Exit status: 0 when all runs were completed, 1 when one failed, 2 when the input is wrong, 130 when "
		"interrupted (what was done until then is printed and stored).",
	.examples = "# three generations of batching on one production trace\n"
		    "lockstep compare --model llama-3.1-8b --device h100-sxm AzureLLMInferenceTrace_conv.csv\n"
		    "# what a KV cache is worth to one user\n"
		    "lockstep compare --policies naive --max-num-seqs 1 --kv-cache off,on --num-prompts 500 \\\n"
		    "    --model llama-3.1-8b --device h100-sxm AzureLLMInferenceTrace_code.csv\n"
		    "# one parameter of one policy\n"
		    "lockstep compare --policies chunked --max-num-batched-tokens 512,2048,8192 \\\n"
		    "    --model llama-3.1-8b --device l4 trace.jsonl\n",
	.opts = opts,
	.n_opts = sizeof opts / sizeof *opts,
	.run = run,
	.describe = describe,
};
