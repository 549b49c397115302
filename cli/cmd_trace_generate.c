/* lockstep trace generate: synthetic traces. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/command.h"
#include "cli/trace_opts.h"
#include "cli/trace_out.h"
#include "core/err.h"
#include "core/mem.h"
#include "traces/generate.h"
#include "traces/reader.h"

#define N(opts) ((int)(sizeof(opts) / sizeof(opts)[0]))

struct generate_opts {
	int64_t n;
	uint64_t seed;
	const char *input, *output, *turns, *think;
	int32_t arrivals, system_tokens, system_prompts, max_context;
	double rate, rate_end, burstiness;
	struct trace_out out;
};

static const struct opt options[] = {
	{.name = "Lengths", .type = OPT_TITLE},
	{.name = "num-prompts",
	 .type = OPT_INT64,
	 .offset = offsetof(struct generate_opts, n),
	 .arg = "N",
	 .min = 1,
	 .max = INT32_MAX - 1,
	 .help = "Requests; each turn of a session is one. Default 1000."},
	{.name = "input-len",
	 .type = OPT_STRING,
	 .offset = offsetof(struct generate_opts, input),
	 .arg = "DIST",
	 .help = "Tokens of each prompt (of a session: of what each turn adds): N, fixed:N, uniform:LO,HI, "
		 "normal:MEAN,STD, lognormal:MEDIAN,SIGMA, exponential:MEAN, zipf:EXPONENT,LO,HI or resample:FILE (any "
		 "trace), with ,min=X and ,max=X after it to draw again what lies outside. Default lognormal:512,1."},
	{.name = "output-len",
	 .type = OPT_STRING,
	 .offset = offsetof(struct generate_opts, output),
	 .arg = "DIST",
	 .help = "Tokens of each answer, likewise. Resampled from the same file as the prompts, a prompt and its "
		 "answer "
		 "stay together. Default lognormal:128,1."},
	{.name = "Arrivals", .type = OPT_TITLE},
	{.name = "arrivals",
	 .type = OPT_CHOICE,
	 .offset = offsetof(struct generate_opts, arrivals),
	 .arg = "PROCESS",
	 .choices = arrivals_names,
	 .help = "How requests (or sessions) arrive: poisson (default), gamma with --burstiness, constant spacing, "
		 "ramp: "
		 "Poisson with a rate that goes from --request-rate to --request-rate-end, or at-once."},
	{.name = "request-rate",
	 .type = OPT_DOUBLE,
	 .offset = offsetof(struct generate_opts, rate),
	 .arg = "R",
	 .min = 1e-6,
	 .max = INFINITY,
	 .help = "Requests (or sessions) per second. inf: all at once. Default 1."},
	{.name = "request-rate-end",
	 .type = OPT_DOUBLE,
	 .offset = offsetof(struct generate_opts, rate_end),
	 .arg = "R",
	 .min = 1e-6,
	 .max = 1e12,
	 .help = "ramp: the rate at the end."},
	{.name = "burstiness",
	 .type = OPT_DOUBLE,
	 .offset = offsetof(struct generate_opts, burstiness),
	 .arg = "B",
	 .min = 1e-3,
	 .max = INFINITY,
	 .help = "gamma: shape of the gaps' distribution; less than 1 is burstier than Poisson, inf even. Default 1."},
	{.name = "Sessions", .type = OPT_TITLE},
	{.name = "turns",
	 .type = OPT_STRING,
	 .offset = offsetof(struct generate_opts, turns),
	 .arg = "DIST",
	 .help = "Turns of each session. A turn waits for the answer before it, and its prompt repeats all that was "
		 "said. "
		 "Default 1: independent requests."},
	{.name = "think-time",
	 .type = OPT_STRING,
	 .offset = offsetof(struct generate_opts, think),
	 .arg = "DIST",
	 .help = "Seconds between an answer and the next turn. Default 0."},
	{.name = "system-prompt-len",
	 .type = OPT_INT32,
	 .offset = offsetof(struct generate_opts, system_tokens),
	 .arg = "N",
	 .min = 0,
	 .max = 1 << 28,
	 .help = "Tokens of a prefix that comes before every session's (or request's) own text. Default 0."},
	{.name = "system-prompts",
	 .type = OPT_INT32,
	 .offset = offsetof(struct generate_opts, system_prompts),
	 .arg = "N",
	 .min = 1,
	 .max = INT32_MAX,
	 .help = "How many different ones there are; each session takes one at random. Default 1."},
	{.name = "max-context",
	 .type = OPT_INT32,
	 .offset = offsetof(struct generate_opts, max_context),
	 .arg = "N",
	 .min = 0,
	 .max = INT32_MAX,
	 .help = "A session ends before prompt and answer would pass this many tokens. Default 0: no limit."},
	{.name = "What to write", .type = OPT_TITLE},
	{.name = "seed",
	 .type = OPT_UINT64,
	 .offset = offsetof(struct generate_opts, seed),
	 .arg = "N",
	 .help = "Seed of everything drawn at random. The same seed gives the same trace on every machine. Default 0."},
	TRACE_OUT_OPTS(struct generate_opts, out),
};

static int parse_dists(const struct generate_opts *o, struct generate *g, struct err *e)
{
	const struct {
		const char *text, *what;
		struct dist *d;
	} dists[] = {{o->input, "--input-len", &g->input},
		     {o->output, "--output-len", &g->output},
		     {o->turns, "--turns", &g->turns},
		     {o->think, "--think-time", &g->think}};
	for (size_t i = 0; i < sizeof dists / sizeof dists[0]; i++) {
		int code = dists[i].text ? dist_parse(dists[i].d, dists[i].text, dists[i].what, e) : ERR_NONE;
		if (code)
			return code;
	}
	return ERR_NONE;
}

/* Loads what lengths are resampled from: one workload when both name the same file. */
static int load_sources(struct generate *g, struct workload *in, struct workload *out, struct err *e)
{
	int code = ERR_NONE;
	if (g->input.kind == DIST_RESAMPLE) {
		code = trace_load(g->input.file, NULL, in, NULL, e);
		g->input_from = in;
	}
	if (code || g->output.kind != DIST_RESAMPLE)
		return code;
	if (g->input_from && !strcmp(g->input.file, g->output.file)) {
		g->output_from = in;
		return ERR_NONE;
	}
	g->output_from = out;
	return trace_load(g->output.file, NULL, out, NULL, e);
}

static int make(const struct generate_opts *o, struct workload *w, struct err *e)
{
	struct workload in = {0}, out = {0};
	struct generate g;
	generate_default(&g);
	g.n = o->n;
	g.seed = o->seed;
	g.arrivals = isinf(o->rate) ? ARRIVALS_AT_ONCE : (enum arrivals)o->arrivals;
	g.rate = o->rate;
	g.rate_end = o->rate_end;
	g.burstiness = o->burstiness;
	g.system_tokens = o->system_tokens;
	g.system_prompts = o->system_prompts;
	g.max_context = o->max_context;
	int code = parse_dists(o, &g, e);
	if (!code && o->arrivals == ARRIVALS_RAMP && o->rate_end == 0)
		code = err_set(e, ERR_INPUT, "--arrivals ramp needs --request-rate-end");
	if (!code && o->arrivals != ARRIVALS_GAMMA && o->burstiness != 1)
		code = err_set(e, ERR_INPUT, "--burstiness %g needs --arrivals gamma", o->burstiness);
	if (!code)
		code = load_sources(&g, &in, &out, e);
	if (!code)
		code = generate_workload(w, &g, e);
	if (!code)
		w->lengths_estimated = in.lengths_estimated || out.lengths_estimated;
	workload_free(&in);
	workload_free(&out);
	return code;
}

static int run(const struct command *c, int argc, char **argv)
{
	struct generate_opts o = {.n = 1000, .rate = 1, .burstiness = 1, .system_prompts = 1, .out.format = -1};
	struct workload w = {0};
	struct err e = {0};
	int n;
	int rc = opts_parse(options, N(options), &o, argc, argv, &n, NULL, &e);
	if (!rc && n == 0)
		rc = err_set(&e, ERR_INPUT, "no file to write: name one, or - for standard output");
	if (!rc && n > 1)
		rc = err_set(&e, ERR_INPUT, "\"%s\" is one word too many", argv[2]);
	o.out.path = n > 0 ? argv[1] : NULL;
	if (!rc)
		rc = make(&o, &w, &e);
	if (!rc)
		rc = trace_out_write(&o.out, &w, NULL, NULL, &e);
	workload_free(&w);
	return rc ? command_fail(c, &e) : 0;
}

const struct command cmd_trace_generate = {
	.name = "trace generate",
	.synopsis = "[OPTIONS] OUT",
	.summary = "Make a trace: lengths, arrivals, sessions with shared prefixes",
	.about = "Draws requests at random and writes them to OUT (- is standard output), as lockstep's JSONL unless "
		 "--to or a name that ends in .csv says otherwise. Lengths, arrivals, turns, thinking times and the "
		 "choice of system prompts each have a random stream of their own: changing one of them leaves the "
		 "others' draws as they were.\n\n"
		 "The numbers come from a generator and functions of our own, so a seed gives the same file, byte for "
		 "byte, on every machine. As ShareGPT's JSON (--to sharegpt) the file has invented text whose "
		 "estimated token counts are the lengths drawn.",
	.examples =
		"# a Poisson stream like a conversation service\n"
		"lockstep trace generate --num-prompts 5000 --request-rate 4 --input-len lognormal:1020,0.9,max=8192 "
		"\\\n"
		"    --output-len lognormal:129,0.9,max=1500 chat.jsonl\n"
		"# agents: sessions that share a system prompt of 2,000 tokens, 5 to 15 turns, 3 s between them\n"
		"lockstep trace generate --turns uniform:5,15 --think-time exponential:3 --system-prompt-len 2000 \\\n"
		"    --input-len uniform:50,400 --output-len uniform:50,300 --max-context 32768 agents.jsonl\n"
		"# the lengths of a real trace, with burstier arrivals\n"
		"lockstep trace generate --input-len resample:conv.csv --output-len resample:conv.csv --arrivals gamma "
		"\\\n"
		"    --burstiness 0.3 --request-rate 6 bursty.jsonl\n",
	.opts = options,
	.n_opts = N(options),
	.run = run,
};
