/* lockstep trace info, convert and slice: what a trace is like, and traces made from others. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/command.h"
#include "cli/trace_opts.h"
#include "cli/trace_out.h"
#include "core/err.h"
#include "traces/info.h"
#include "traces/reader.h"
#include "traces/shape.h"
#include "traces/subset.h"

#define N(opts) ((int)(sizeof(opts) / sizeof(opts)[0]))

/* The traces come as words: the first is the one to read, unless --dataset-path or a data set that is no file has been
 * given; the next (if `into`) the one to write. */
static int take_words(struct trace_opts *t, const char **into, int n, char **argv, struct err *e)
{
	int at = 1, most = n;
	bool named =
		t->dataset_path ||
		(t->dataset_name && (!strcmp(t->dataset_name, "random") || !strncmp(t->dataset_name, "sample:", 7)));
	if (!named && at <= most)
		t->dataset_path = argv[at++];
	if (into && at <= most)
		*into = argv[at++];
	if (at <= most)
		return err_set(e, ERR_INPUT, "\"%s\" is one word too many", argv[at]);
	if (into && !*into)
		return err_set(e, ERR_INPUT, "no file to write: name one, or - for standard output");
	return ERR_NONE;
}

/* ---- info ---- */

struct info_opts {
	struct trace_opts trace;
	bool json;
};

static const struct opt info_options[] = {
	{.name = "What to read", .type = OPT_TITLE},
	TRACE_READ_OPTS(struct info_opts, trace),
	TRACE_RANDOM_OPTS(struct info_opts, trace),
	{.name = "What is made of it", .type = OPT_TITLE},
	TRACE_SHAPE_OPTS(struct info_opts, trace),
	{.name = "What is printed", .type = OPT_TITLE},
	{.name = "json",
	 .type = OPT_FLAG,
	 .offset = offsetof(struct info_opts, json),
	 .help = "Print one JSON object instead of tables."},
};

/* What shaping leaves of a trace is described as a run would see it; max_tokens apart, which is a run's matter. */
static int shape_for_info(const struct trace_opts *t, struct workload *w, struct err *e)
{
	struct shape s;
	int code = trace_opts_shape(t, &s, e);
	if (code)
		return code;
	int32_t given = 0;
	for (int64_t i = 0; i < w->n; i++)
		given += w->specs[i].max_tokens > 0;
	code = shape_apply(w, &s, e);
	for (int64_t i = 0; i < w->n && !given && !t->max_tokens_mode; i++)
		w->specs[i].max_tokens = 0;
	return code;
}

static int info_run(const struct command *c, int argc, char **argv)
{
	struct info_opts o = {0};
	struct workload w = {0};
	struct trace_report report;
	struct info info;
	struct err e = {0};
	int n;
	trace_opts_default(&o.trace);
	int rc = opts_parse(info_options, N(info_options), &o, argc, argv, &n, NULL, &e);
	if (!rc)
		rc = take_words(&o.trace, NULL, n, argv, &e);
	if (!rc)
		rc = trace_opts_read(&o.trace, &w, &report, &e);
	if (!rc)
		rc = shape_for_info(&o.trace, &w, &e);
	if (!rc)
		rc = info_compute(&w, &info, &e);
	if (!rc && o.json)
		rc = info_print_json(stdout, trace_opts_name(&o.trace), &info, &report, &e);
	else if (!rc)
		info_print(stdout, trace_opts_name(&o.trace), &info, &report);
	workload_free(&w);
	return rc ? command_fail(c, &e) : 0;
}

const struct command cmd_trace_info = {
	.name = "trace info",
	.synopsis = "[OPTIONS] FILE",
	.summary = "What a trace is like: lengths, arrivals, burstiness, sharing",
	.about =
		"Reads a trace of any known format and describes it: rows kept and left out, by rule; a hash of the "
		"workload (equal hashes mean equal input to a run); prompt and output lengths; the gaps between "
		"arrivals, their burstiness as the shape of a gamma distribution (1 is a Poisson process, less is "
		"burstier) and the rate over time; how much of the prompts an infinite prefix cache would have seen "
		"before (the ideal block hit ratio); sessions and what waits for what.\n\n"
		"Percentiles interpolate linearly between order statistics; standard deviations are of the population. "
		"With options that change the trace (--num-prompts, --request-rate, ...) the figures are of what is "
		"left.",
	.examples = "# a Mooncake trace: how much could a prefix cache save?\n"
		    "lockstep trace info mooncake_conversation.jsonl\n"
		    "# the first thousand requests, for a program\n"
		    "lockstep trace info --num-prompts 1000 --json trace.csv\n"
		    "# the bundled sample\n"
		    "lockstep trace info --dataset-name sample:azure\n",
	.opts = info_options,
	.n_opts = N(info_options),
	.run = info_run,
};

/* ---- convert ---- */

struct convert_opts {
	struct trace_opts trace;
	struct trace_out out;
};

static const struct opt convert_options[] = {
	{.name = "What to read", .type = OPT_TITLE},
	TRACE_READ_OPTS(struct convert_opts, trace),
	{.name = "What to write", .type = OPT_TITLE},
	TRACE_OUT_OPTS(struct convert_opts, out),
};

static int convert_run(const struct command *c, int argc, char **argv)
{
	struct convert_opts o = {.out.format = -1};
	struct workload w = {0};
	struct trace_report report;
	struct err e = {0};
	int n;
	trace_opts_default(&o.trace);
	int rc = opts_parse(convert_options, N(convert_options), &o, argc, argv, &n, NULL, &e);
	if (!rc)
		rc = take_words(&o.trace, &o.out.path, n, argv, &e);
	if (!rc)
		rc = trace_opts_read(&o.trace, &w, &report, &e);
	if (!rc)
		rc = trace_out_write(&o.out, &w, &report, NULL, &e);
	workload_free(&w);
	return rc ? command_fail(c, &e) : 0;
}

const struct command cmd_trace_convert = {
	.name = "trace convert",
	.synopsis = "[OPTIONS] FILE OUT",
	.summary = "Write a trace in another format",
	.about = "Reads FILE in any known format and writes OUT (- is standard output). Lockstep's own JSONL holds "
		 "everything, and a run on it equals a run on the original: the workload hash is the same. The others "
		 "hold less, and what is lost is said, with the number of requests: Vidur's and Azure's CSV hold "
		 "arrival times and lengths, Mooncake's JSONL hash ids of one block size as well, ShareGPT's JSON "
		 "lengths and sessions, as invented text.\n\n"
		 "Requests that wait for others get, where a format cannot say so, the time at which they could start "
		 "if serving took no time.",
	.examples = "# for Vidur\n"
		    "lockstep trace convert AzureLLMInferenceTrace_conv.csv conv_vidur.csv\n"
		    "# everything, one JSON object a request\n"
		    "lockstep trace convert mooncake_conversation.jsonl conversation_lockstep.jsonl\n",
	.opts = convert_options,
	.n_opts = N(convert_options),
	.run = convert_run,
};

/* ---- slice ---- */

struct slice_opts {
	struct trace_opts trace;
	struct trace_out out;
	double start_s, end_s, sample;
	int64_t every, num_prompts;
	uint64_t seed;
};

static const struct opt slice_options[] = {
	{.name = "What to read", .type = OPT_TITLE},
	TRACE_READ_OPTS(struct slice_opts, trace),
	{.name = "What to keep", .type = OPT_TITLE},
	{.name = "start",
	 .type = OPT_DOUBLE,
	 .offset = offsetof(struct slice_opts, start_s),
	 .arg = "SECONDS",
	 .min = 0,
	 .max = 9e9,
	 .help = "Requests from this time on. Default 0."},
	{.name = "end",
	 .type = OPT_DOUBLE,
	 .offset = offsetof(struct slice_opts, end_s),
	 .arg = "SECONDS",
	 .min = 0,
	 .max = INFINITY,
	 .help = "Requests before this time. Default inf."},
	{.name = "num-prompts",
	 .type = OPT_INT64,
	 .offset = offsetof(struct slice_opts, num_prompts),
	 .arg = "N",
	 .min = 0,
	 .max = INT32_MAX - 1,
	 .help = "Of those, the first N. Default: all."},
	{.name = "every",
	 .type = OPT_INT64,
	 .offset = offsetof(struct slice_opts, every),
	 .arg = "K",
	 .min = 1,
	 .max = INT32_MAX,
	 .help = "Of those, the first of each K. Default 1: all."},
	{.name = "sample",
	 .type = OPT_DOUBLE,
	 .offset = offsetof(struct slice_opts, sample),
	 .arg = "F",
	 .min = 0,
	 .max = 1,
	 .help = "Of those, each with probability F. Default 1: all."},
	{.name = "seed",
	 .type = OPT_UINT64,
	 .offset = offsetof(struct slice_opts, seed),
	 .arg = "N",
	 .help = "Seed of the sample. Default 0."},
	{.name = "What to write", .type = OPT_TITLE},
	TRACE_OUT_OPTS(struct slice_opts, out),
};

static int64_t ns_of(double s)
{
	return s >= 9e9 ? INT64_MAX : (int64_t)(s * 1e9 + 0.5);
}

static int slice_run(const struct command *c, int argc, char **argv)
{
	struct slice_opts o = {.out.format = -1, .end_s = INFINITY, .every = 1, .sample = 1};
	struct workload w = {0};
	struct trace_report report;
	struct err e = {0};
	char extra[120];
	int64_t cut = 0, all = 0;
	int n;
	trace_opts_default(&o.trace);
	int rc = opts_parse(slice_options, N(slice_options), &o, argc, argv, &n, NULL, &e);
	if (!rc)
		rc = take_words(&o.trace, &o.out.path, n, argv, &e);
	if (!rc)
		rc = trace_opts_read(&o.trace, &w, &report, &e);
	struct slice s = {ns_of(o.start_s), ns_of(o.end_s), o.num_prompts, o.every, o.sample, o.seed};
	all = w.n;
	if (!rc)
		rc = slice_apply(&w, &s, &cut, &e);
	snprintf(extra, sizeof extra, "kept %lld of %lld requests%s", (long long)w.n, (long long)all,
		 cut ? "; those whose earlier turns were cut off arrive at the time they could have started" : "");
	if (!rc)
		rc = trace_out_write(&o.out, &w, &report, extra, &e);
	workload_free(&w);
	return rc ? command_fail(c, &e) : 0;
}

const struct command cmd_trace_slice = {
	.name = "trace slice",
	.synopsis = "[OPTIONS] FILE OUT",
	.summary = "Write part of a trace: a span of time, the first N, every k-th, a sample",
	.about = "Reads FILE, keeps the requests between --start and --end, of them the first --num-prompts, of them "
		 "one in --every, of them a --sample, and writes OUT (- is standard output), as lockstep's JSONL "
		 "unless --to says otherwise. Times count from the first arrival, in FILE and again in OUT. Requests "
		 "that wait for others count as arriving when they could start if serving took no time; where all they "
		 "wait for is cut off, they arrive then. Requests keep their ids.",
	.examples = "# ten minutes out of an hour\n"
		    "lockstep trace slice --start 600 --end 1200 AzureLLMInferenceTrace_conv.csv ten_minutes.jsonl\n"
		    "# a tenth of the load\n"
		    "lockstep trace slice --sample 0.1 --seed 1 trace.csv tenth.jsonl\n",
	.opts = slice_options,
	.n_opts = N(slice_options),
	.run = slice_run,
};
