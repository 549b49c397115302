/* lockstep trace generate agentic: synthetic workflows of agents that branch. */
#include <math.h>
#include <stdio.h>

#include "cli/command.h"
#include "cli/trace_opts.h"
#include "cli/trace_out.h"
#include "core/err.h"
#include "traces/generate_agents.h"

#define N(opts) ((int)(sizeof(opts) / sizeof(opts)[0]))

struct agents_opts {
	struct generate_agents g;
	const char *task, *proposal, *instruction, *review, *tool;
	int32_t arrivals;
	struct trace_out out;
};

#define AT(field) .offset = offsetof(struct agents_opts, field)
static const struct opt options[] = {
	{.name = "Shape", .type = OPT_TITLE},
	{.name = "workflows",
	 .type = OPT_INT64,
	 AT(g.workflows),
	 .arg = "N",
	 .min = 1,
	 .max = INT32_MAX - 1,
	 .help = "Workflows; each is a session of its own. Default 50."},
	{.name = "branches",
	 .type = OPT_INT32,
	 AT(g.branches),
	 .arg = "N",
	 .min = 1,
	 .max = 1 << 20,
	 .help = "Proposals made at once from one prompt. Default 8."},
	{.name = "rounds",
	 .type = OPT_INT32,
	 AT(g.rounds),
	 .arg = "N",
	 .min = 1,
	 .max = 1 << 20,
	 .help = "Rounds of a level: the first proposes, each further one reviews and scores every branch. Default 2."},
	{.name = "depth",
	 .type = OPT_INT32,
	 AT(g.depth),
	 .arg = "N",
	 .min = 1,
	 .max = 1 << 20,
	 .help = "Levels: the next one waits for all branches and goes on from one of them. Default 1."},
	{.name = "tool-time",
	 .type = OPT_STRING,
	 AT(tool),
	 .arg = "DIST",
	 .help = "Seconds between an answer and what waits for it, as `trace generate` takes distributions. Default "
		 "0."},
	{.name = "Lengths", .type = OPT_TITLE},
	{.name = "system-prompt-len",
	 .type = OPT_INT32,
	 AT(g.system_tokens),
	 .arg = "N",
	 .min = 0,
	 .max = 1 << 28,
	 .help = "Tokens that all prompts of all workflows begin with. Default 64."},
	{.name = "input-len",
	 .type = OPT_STRING,
	 AT(task),
	 .arg = "DIST",
	 .help = "Tokens of each workflow's task. Default uniform:16,48."},
	{.name = "output-len",
	 .type = OPT_STRING,
	 AT(proposal),
	 .arg = "DIST",
	 .help = "Tokens of each proposal. Default uniform:16,64."},
	{.name = "instruction-len",
	 .type = OPT_STRING,
	 AT(instruction),
	 .arg = "DIST",
	 .help = "Tokens that ask for a review, or for the next level's proposals. Default 16."},
	{.name = "review-len",
	 .type = OPT_STRING,
	 AT(review),
	 .arg = "DIST",
	 .help = "Tokens of each review with its score. Default uniform:8,24."},
	{.name = "Arrivals", .type = OPT_TITLE},
	{.name = "arrivals",
	 .type = OPT_CHOICE,
	 AT(arrivals),
	 .arg = "PROCESS",
	 .choices = arrivals_names,
	 .help = "How workflows start: poisson (default), gamma with --burstiness, constant spacing, ramp, or "
		 "at-once."},
	{.name = "request-rate",
	 .type = OPT_DOUBLE,
	 AT(g.start.rate),
	 .arg = "R",
	 .min = 1e-6,
	 .max = INFINITY,
	 .help = "Workflows per second. inf: all at once. Default 1."},
	{.name = "request-rate-end",
	 .type = OPT_DOUBLE,
	 AT(g.start.rate_end),
	 .arg = "R",
	 .min = 1e-6,
	 .max = 1e12,
	 .help = "ramp: the rate at the end."},
	{.name = "burstiness",
	 .type = OPT_DOUBLE,
	 AT(g.start.burstiness),
	 .arg = "B",
	 .min = 1e-3,
	 .max = INFINITY,
	 .help = "gamma: shape of the gaps' distribution. Default 1."},
	{.name = "What to write", .type = OPT_TITLE},
	{.name = "output",
	 .letter = 'o',
	 .type = OPT_STRING,
	 AT(out.path),
	 .arg = "FILE",
	 .help = "The file to write, - for standard output; may stand as a word of its own as well."},
	{.name = "seed",
	 .type = OPT_UINT64,
	 AT(g.start.seed),
	 .arg = "N",
	 .help = "Seed of everything drawn at random. The same seed gives the same trace on every machine. Default 0."},
	TRACE_OUT_OPTS(struct agents_opts, out),
};

static int parse_dists(struct agents_opts *o, struct err *e)
{
	const struct {
		const char *text, *what;
		struct dist *d;
	} dists[] = {{o->task, "--input-len", &o->g.task},
		     {o->proposal, "--output-len", &o->g.proposal},
		     {o->instruction, "--instruction-len", &o->g.instruction},
		     {o->review, "--review-len", &o->g.review},
		     {o->tool, "--tool-time", &o->g.tool}};
	for (size_t i = 0; i < sizeof dists / sizeof dists[0]; i++) {
		int code = dists[i].text ? dist_parse(dists[i].d, dists[i].text, dists[i].what, e) : ERR_NONE;
		if (!code && dists[i].d->kind == DIST_RESAMPLE)
			code = err_set(e, ERR_INPUT, "%s: agents' lengths and times cannot be resampled",
				       dists[i].what);
		if (code)
			return code;
	}
	return ERR_NONE;
}

static int make(struct agents_opts *o, struct workload *w, struct err *e)
{
	struct generate *s = &o->g.start;
	s->arrivals = isinf(s->rate) ? ARRIVALS_AT_ONCE : (enum arrivals)o->arrivals;
	if (o->arrivals == ARRIVALS_RAMP && s->rate_end == 0)
		return err_set(e, ERR_INPUT, "--arrivals ramp needs --request-rate-end");
	if (o->arrivals != ARRIVALS_GAMMA && s->burstiness != 1)
		return err_set(e, ERR_INPUT, "--burstiness %g needs --arrivals gamma", s->burstiness);
	int code = parse_dists(o, e);
	return code ? code : generate_agents(w, &o->g, e);
}

static int run(const struct command *c, int argc, char **argv)
{
	struct agents_opts o = {.out.format = -1};
	struct workload w = {0};
	struct err e = {0};
	int n;
	generate_agents_default(&o.g);
	o.g.start.rate_end = 0;
	int rc = opts_parse(options, N(options), &o, argc, argv, &n, NULL, &e);
	if (!rc && n == 0 && !o.out.path)
		rc = err_set(&e, ERR_INPUT, "no file to write: name one with -o, or - for standard output");
	if (!rc && n > (o.out.path ? 0 : 1))
		rc = err_set(&e, ERR_INPUT, "\"%s\" is one word too many", argv[o.out.path ? 1 : 2]);
	if (!rc && !o.out.path)
		o.out.path = argv[1];
	if (!rc)
		rc = make(&o, &w, &e);
	if (!rc)
		rc = trace_out_write(&o.out, &w, NULL, NULL, &e);
	workload_free(&w);
	return rc ? command_fail(c, &e) : 0;
}

const struct command cmd_trace_generate_agentic = {
	.name = "trace generate agentic",
	.synopsis = "[OPTIONS] -o FILE",
	.summary = "Make a trace of agents that branch: proposals, reviews, levels",
	.about = "Every workflow starts with one prompt: the shared system prompt and its own task. From it "
		 "--branches proposals are generated at once. In each further round every proposal is reviewed and "
		 "scored: the prompt repeats what its branch has said so far and adds an instruction. With --depth, "
		 "the next level waits for all branches, goes on from one of them, taken at random, and proposes and "
		 "reviews again.\n\n"
		 "The trace is played closed loop: a request starts when all it waits for have finished, plus "
		 "--tool-time. What prompts share is written out, so that prefix caches find it. The defaults are "
		 "lengths for a small model on a CPU; for a large one ask for more, as the last example does.",
	.examples = "# 50 workflows of 8 proposals, each then reviewed\n"
		    "lockstep trace generate agentic --workflows 50 --branches 8 --rounds 2 -o agents.jsonl\n"
		    "# a search of four levels, with tools that take a second or two\n"
		    "lockstep trace generate agentic --depth 4 --branches 5 --tool-time uniform:1,2 -o search.jsonl\n"
		    "# lengths for a GPU\n"
		    "lockstep trace generate agentic --system-prompt-len 1024 --input-len uniform:64,512 --output-len "
		    "uniform:64,384 --instruction-len 64 --review-len uniform:32,192 -o long.jsonl\n",
	.opts = options,
	.n_opts = N(options),
	.run = run,
};
