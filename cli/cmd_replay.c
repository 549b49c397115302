/* lockstep replay: one policy serves a trace. */
#include <stdio.h>
#include <string.h>

#include "analysis/compare.h"
#include "cli/command.h"
#include "cli/run_opts.h"
#include "cli/run_session.h"
#include "core/err.h"

struct replay_opts {
	struct run_opts run;
	const char *recorded; /* --run */
};

#define RUN_OPTS_STRUCT struct replay_opts
static const struct opt opts[] = {
	{.name = "policy",
	 .type = OPT_STRING,
	 .offset = offsetof(struct replay_opts, run.policies),
	 .arg = "NAME[:PARAM=VALUE,...]",
	 .help = "How requests are scheduled: see `lockstep policies`, or ./mine.so, a plug-in. Default chunked."},
	{.name = "run",
	 .type = OPT_STRING,
	 .offset = offsetof(struct replay_opts, recorded),
	 .arg = "RUN",
	 .help = "Replay the recorded times of this run on real kernels (a number, or latest): the same settings and "
		 "the "
		 "same trace, with --backend replay. Only what is reported can be chosen."},
	{.name = "watch",
	 .type = OPT_FLAG,
	 .offset = offsetof(struct replay_opts, run.watch),
	 .help = "Show how the run stands while it goes on: queue, running requests, KV memory, rates and the time "
		 "left, ten "
		 "times a second on stderr. Where that is no terminal, a line every 5 seconds."},
	RUN_OPTS,
};
#define N_OPTS ((int)(sizeof opts / sizeof *opts))

/* A replay has the settings of its run: only these may be given beside. */
static int check_replay(const struct replay_opts *o, const bool given[N_OPTS], struct err *e)
{
	static const char *const free_to_choose[] = {
		"run",  "backend", "dataset-path", "goodput",     "metric-percentiles", "check",      "record",
		"db",   "no-db",   "watch",        "save-result", "save-detailed",      "result-dir", "result-filename",
		"json", "quiet"};
	bool replays = o->run.texts.backend && strcmp(o->run.texts.backend, "replay") == 0;
	if (!o->recorded)
		return replays ? err_set(e, ERR_INPUT,
					 "--backend replay: of which run? --run RUN names one (`lockstep runs list`)")
			       : ERR_NONE;
	if (o->run.texts.backend && !replays)
		return err_set(e, ERR_INPUT, "--run replays recorded times, which --backend %s does not take",
			       o->run.texts.backend);
	for (int i = 0; i < N_OPTS; i++) {
		bool ok = !given[i];
		for (size_t k = 0; !ok && k < sizeof free_to_choose / sizeof *free_to_choose; k++)
			ok = strcmp(opts[i].name, free_to_choose[k]) == 0;
		if (!ok)
			return err_set(e, ERR_INPUT, "--%s: a replay has the settings of the run it replays",
				       opts[i].name);
	}
	return ERR_NONE;
}

static int print(const struct session *s, struct err *e)
{
	if (s->opts->json)
		return puts(s->json[0]) < 0 ? err_set(e, ERR_IO, "cannot write the output") : ERR_NONE;
	session_print_workload(stdout, s);
	session_print_serving(stdout, s);
	putchar('\n');
	int rc = compare_print_run(stdout, s->settings[0], &s->results[0], e);
	session_print_end(stdout, s);
	return rc;
}

static int parse(const struct command *c, int argc, char **argv, struct replay_opts *o, struct err *e)
{
	int n;
	bool given[N_OPTS];
	*o = (struct replay_opts){0};
	run_opts_default(&o->run);
	o->run.policies = "chunked";
	int rc = opts_parse(opts, c->n_opts, o, argc, argv, &n, given, e);
	if (rc == ERR_NONE && o->run.watch && o->run.quiet)
		rc = err_set(e, ERR_INPUT, "--watch and --quiet: which of them?");
	if (rc == ERR_NONE)
		rc = check_replay(o, given, e);
	return rc ? rc : session_positional(&o->run, n, argv, e);
}

static int describe(const struct command *c, int argc, char **argv, struct run_opts *out, bool *several, struct err *e)
{
	struct replay_opts o;
	int rc = parse(c, argc, argv, &o, e);
	*out = o.run;
	*several = false;
	return rc;
}

static int run(const struct command *c, int argc, char **argv)
{
	struct replay_opts o;
	struct session s;
	struct err e = {0};
	if (parse(c, argc, argv, &o, &e) != ERR_NONE)
		return command_fail(c, &e);
	bool any = o.recorded ? session_replay(&s, c, &o.run, o.recorded) : session_run(&s, c, &o.run, false);
	if (any && !o.run.quiet && print(&s, &e) != ERR_NONE)
		s.status = command_fail(c, &e);
	session_free(&s);
	return s.status;
}

const struct command cmd_replay = {
	.name = "replay",
	.synopsis = "[OPTIONS] --model MODEL --device DEVICE [--dataset-path] FILE",
	.summary = "Serve a trace with one policy and report what the requests saw",
	.about =
		"Reads a trace, serves it with one scheduling policy on a simulated device, prints latencies, "
		"throughput and memory use, and stores the run in an SQLite database. The clock is virtual: an hour of "
		"traffic takes a fraction of a second, and the same input always gives the same figures.\n\n"
		"All latencies count from the moment a request was meant to arrive. docs/metrics.md defines each.\n\n"
		"Exit status: 0 when the run was completed, 1 when it stalled or could not be stored, 2 when the input "
		"is wrong, 130 when it was interrupted (what was done until then is printed and stored).",
	.examples = "# a production trace through vLLM's scheduler on one H100\n"
		    "lockstep replay --model llama-3.1-8b --device h100-sxm AzureLLMInferenceTrace_conv.csv\n"
		    "# twice the traffic, with objectives, for a script\n"
		    "lockstep replay --model llama-3.1-8b --device h100-sxm --replay-speedup 2 \\\n"
		    "    --goodput ttft:500 tpot:50 --json trace.csv\n"
		    "# Orca's policy with blocks on demand, 1,000 Poisson arrivals at 8/s\n"
		    "lockstep replay --policy continuous:paged=on --model llama-3.1-8b --device a100-80g \\\n"
		    "    --dataset-name random --num-prompts 1000 --request-rate 8\n",
	.opts = opts,
	.n_opts = sizeof opts / sizeof *opts,
	.run = run,
	.describe = describe,
};
