/* lockstep timeline: a stored run as trace events, for Perfetto and chrome://tracing. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analysis/store.h"
#include "analysis/text.h"
#include "analysis/timeline.h"
#include "cli/command.h"
#include "cli/timeline_fill.h"
#include "core/err.h"

struct timeline_opts {
	const char *db, *output, *dataset_path;
	double from_s, to_s;
	int64_t requests, steps;
	bool slowest, totals;
};

static const struct opt opts[] = {
	{.name = "db",
	 .type = OPT_STRING,
	 .offset = offsetof(struct timeline_opts, db),
	 .arg = "FILE",
	 .help = "The SQLite database. Default lockstep.db."},
	{.name = "output",
	 .type = OPT_STRING,
	 .offset = offsetof(struct timeline_opts, output),
	 .arg = "FILE",
	 .letter = 'o',
	 .help = "Where to write. Default timeline-RUN.json; - is standard output."},
	{.name = "from",
	 .type = OPT_DOUBLE,
	 .offset = offsetof(struct timeline_opts, from_s),
	 .min = 0,
	 .max = 9e9,
	 .arg = "SECONDS",
	 .help = "Only what happened from then on, on the run's own clock. Default 0."},
	{.name = "to",
	 .type = OPT_DOUBLE,
	 .offset = offsetof(struct timeline_opts, to_s),
	 .min = 0,
	 .max = INFINITY,
	 .arg = "SECONDS",
	 .help = "Only what happened before. Default inf: to the end."},
	{.name = "requests",
	 .type = OPT_INT64,
	 .offset = offsetof(struct timeline_opts, requests),
	 .min = 0,
	 .max = 1e6,
	 .arg = "N",
	 .help = "At most so many requests get a track: those that were there first. Default 1000."},
	{.name = "slowest",
	 .type = OPT_FLAG,
	 .offset = offsetof(struct timeline_opts, slowest),
	 .help = "Those whose latency from end to end was longest, instead of the first."},
	{.name = "steps",
	 .type = OPT_INT64,
	 .offset = offsetof(struct timeline_opts, steps),
	 .min = 2,
	 .max = 1e7,
	 .arg = "N",
	 .help = "At most so many slices for steps; where there are more steps, a slice stands for 2, 4, 8, ... of "
		 "them and "
		 "counters show their highest values. Default 100000."},
	{.name = "dataset-path",
	 .type = OPT_STRING,
	 .offset = offsetof(struct timeline_opts, dataset_path),
	 .arg = "FILE",
	 .help = "Where the run's trace is now. Default: where it was."},
	{.name = "totals",
	 .type = OPT_FLAG,
	 .offset = offsetof(struct timeline_opts, totals),
	 .help = "Do not make the run again: phases of requests from the totals in the database, and the steps that "
		 "were "
		 "recorded."},
};

static int options(const struct timeline_opts *o, struct timeline_options *out, struct err *e)
{
	timeline_options_default(out);
	if (!(o->to_s > o->from_s))
		return err_set(e, ERR_INPUT, "--from %g --to %g: nothing lies between them", o->from_s, o->to_s);
	out->from_ns = (int64_t)(o->from_s * 1e9);
	out->to_ns = o->to_s > 9e9 ? INT64_MAX : (int64_t)(o->to_s * 1e9);
	out->max_requests = o->requests;
	out->max_steps = o->steps;
	out->slowest = o->slowest;
	return ERR_NONE;
}

static int check(const struct timeline *t, const struct store *s, struct err *e)
{
	if (t->stored == 0 && !t->run.has_steps)
		return err_set(
			e, ERR_INPUT, "%s: run %" PRId64 " has nothing to show: %s", store_path(s), t->run.run_id,
			t->run.status && strcmp(t->run.status, "running") == 0 ? "it is still going on, or was killed"
									       : "it was made with --record none");
	return ERR_NONE;
}

static void say(FILE *f, const struct timeline *t, const char *path, int64_t bytes)
{
	char left[256];
	timeline_left_out(t, left, sizeof left);
	fprintf(f, "%s: run %" PRId64, strcmp(path, "-") ? path : "standard output", t->run.run_id);
	if (t->o.from_ns || t->o.to_ns != INT64_MAX)
		fprintf(f, " from %.6g s to %.6g s", (double)t->o.from_ns / 1e9,
			(double)(t->o.to_ns < t->last_ns ? t->o.to_ns : t->last_ns) / 1e9);
	if (bytes)
		fprintf(f, ", %.3g MB", (double)bytes / 1e6);
	fprintf(f, "\nshows %s\n", left);
	if (strcmp(path, "-"))
		fputs("Open it at https://ui.perfetto.dev or in chrome://tracing.\n", f);
}

static int act(const struct timeline_opts *o, char **words, int n, struct err *e)
{
	struct timeline_options to;
	struct timeline t = {0};
	struct store *s;
	int64_t run_id, bytes = 0;
	char name[64];
	if (n > 1)
		return err_set(e, ERR_INPUT, "one run at a time: \"%s\" is one too many", words[1]);
	int rc = options(o, &to, e);
	if (rc == ERR_NONE)
		rc = store_open(&s, o->db, true, e);
	if (rc)
		return rc;
	rc = store_resolve(s, n ? words[0] : "latest", &run_id, e);
	if (rc == ERR_NONE)
		rc = timeline_read(&t, s, run_id, &to, e);
	if (rc == ERR_NONE)
		rc = check(&t, s, e);
	if (rc == ERR_NONE)
		rc = timeline_fill(&t, s, o->dataset_path, o->totals, e);
	if (rc == ERR_NONE) {
		snprintf(name, sizeof name, "timeline-%" PRId64 ".json", run_id);
		const char *path = o->output ? o->output : name;
		rc = timeline_write_trace(&t, path, &bytes, e);
		if (rc == ERR_NONE)
			say(strcmp(path, "-") ? stdout : stderr, &t, path, bytes);
	}
	timeline_free(&t);
	store_close(s);
	return rc;
}

static int run(const struct command *c, int argc, char **argv)
{
	struct timeline_opts o = {.db = "lockstep.db", .to_s = INFINITY, .requests = 1000, .steps = 100000};
	struct err e = {0};
	int n;
	if (opts_parse(opts, c->n_opts, &o, argc, argv, &n, NULL, &e) != ERR_NONE ||
	    act(&o, argv + 1, n, &e) != ERR_NONE)
		return command_fail(c, &e);
	return 0;
}

const struct command cmd_timeline = {
	.name = "timeline",
	.synopsis = "[OPTIONS] [RUN]",
	.summary = "Write a stored run as trace events, for Perfetto and chrome://tracing",
	.about = "Every replica is a process, every request a track with its phases, every step a slice of the "
		 "engine's track; counters show how many requests wait and run, what the batch is made of and how many "
		 "KV blocks are taken (docs/timeline.md). RUN is a number, or `latest` (the default). The file is "
		 "opened at https://ui.perfetto.dev, which reads it in the browser, or in chrome://tracing.\n\n"
		 "The run is made again from its command line and its trace, as `lockstep decisions` does, so that "
		 "each prompt piece, preemption and copy stands where it was. Where that cannot be (the trace is "
		 "gone), or with --totals, phases come from each request's totals, and steps are there if they were "
		 "recorded. A long run is cut by --from and --to, --requests and --steps; what was left out is "
		 "said.\n\n"
		 "Exit status: 0, 1 when the file cannot be written or the run decides otherwise than it did, 2 when "
		 "there is no such run or nothing is kept of it, 130 when interrupted.",
	.examples = "# the last run\n"
		    "lockstep timeline -o trace.json\n"
		    "# ten minutes of run 3, the 200 slowest requests\n"
		    "lockstep timeline 3 --from 600 --to 1200 --requests 200 --slowest -o trace.json\n",
	.opts = opts,
	.n_opts = sizeof opts / sizeof *opts,
	.run = run,
};
