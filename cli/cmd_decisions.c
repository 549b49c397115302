/* lockstep decisions: what a stored run decided, step by step. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/decisions.h"
#include "analysis/jout.h"
#include "analysis/rerun.h"
#include "analysis/store.h"
#include "cli/command.h"
#include "cli/recall.h"
#include "core/err.h"

struct decisions_opts {
	const char *db, *dataset_path, *steps, *request;
	bool json;
};

static const struct opt opts[] = {
	{.name = "db",
	 .type = OPT_STRING,
	 .offset = offsetof(struct decisions_opts, db),
	 .arg = "FILE",
	 .help = "The SQLite database. Default lockstep.db."},
	{.name = "steps",
	 .type = OPT_STRING,
	 .offset = offsetof(struct decisions_opts, steps),
	 .arg = "A-B",
	 .help = "Only these steps, from 0: 17, 10-20, 10- or -20. Default: all."},
	{.name = "request",
	 .type = OPT_STRING,
	 .offset = offsetof(struct decisions_opts, request),
	 .arg = "NAME",
	 .help = "Only what concerns this request: its id in the trace, or its row where the trace has none."},
	{.name = "dataset-path",
	 .type = OPT_STRING,
	 .offset = offsetof(struct decisions_opts, dataset_path),
	 .arg = "FILE",
	 .help = "Where the run's trace is now. Default: where it was."},
	{.name = "json",
	 .type = OPT_FLAG,
	 .offset = offsetof(struct decisions_opts, json),
	 .help = "Print one JSON object instead of lines; times are in nanoseconds there."},
};

/* --- what is asked for -------------------------------------------------------------------------------------------- */

struct filter {
	int64_t from, to; /* steps, both included */
	int32_t req; /* -1 = any */
};

static bool number(const char **text, int64_t *v)
{
	char *end;
	errno = 0;
	long long n = strtoll(*text, &end, 10);
	if (end == *text || errno || n < 0 || **text == '-' || **text == '+')
		return false;
	*v = n;
	*text = end;
	return true;
}

/* "17", "10-20", "10-", "-20" */
static int parse_steps(const char *text, struct filter *f, struct err *e)
{
	const char *at = text;
	f->from = 0;
	f->to = INT64_MAX;
	bool first = number(&at, &f->from), range = *at == '-';
	at += range;
	bool second = range && number(&at, &f->to);
	if (first && !range)
		f->to = f->from;
	if (*at || !(first || second) || f->from > f->to)
		return err_set(e, ERR_INPUT, "--steps: \"%s\" is not a range of steps such as 17, 10-20, 10- or -20",
			       text);
	return ERR_NONE;
}

static int find_request(const struct workload *w, const char *name, int32_t *req, struct err *e)
{
	char buf[24];
	for (int64_t i = 0; i < w->n; i++) {
		if (strcmp(workload_name(w, i, buf), name) == 0) {
			*req = (int32_t)i;
			return ERR_NONE;
		}
	}
	return err_set(e, ERR_INPUT, "--request: the run has no request \"%s\" (its first is \"%s\")", name,
		       w->n ? workload_name(w, 0, buf) : "");
}

static bool wanted(const struct filter *f, const struct event *ev)
{
	return ev->step >= f->from && ev->step <= f->to && (f->req < 0 || ev->req == f->req);
}

/* --- printing ----------------------------------------------------------------------------------------------------- */

struct printer {
	struct filter filter;
	const struct workload *workload;
	struct jout json;
};

static void print_line(void *ctx, const struct event *ev)
{
	const struct printer *p = ctx;
	char line[DECISION_LINE];
	if (wanted(&p->filter, ev))
		fputs(decision_line(ev, line), stdout);
}

static void print_json(void *ctx, const struct event *ev)
{
	struct printer *p = ctx;
	struct jout *j = &p->json;
	char buf[24];
	if (!wanted(&p->filter, ev))
		return;
	jout_begin(j, NULL, '{');
	jout_int(j, "step", ev->step);
	jout_int(j, "at_ns", ev->at_ns);
	jout_text(j, "what", event_name(ev->kind));
	if (ev->req >= 0) {
		jout_int(j, "request", ev->req);
		jout_text(j, "name", workload_name(p->workload, ev->req, buf));
	}
	jout_int(j, "a", ev->a);
	jout_int(j, "b", ev->b);
	jout_end(j, '}');
}

static void json_hash(struct jout *j, const char *key, uint64_t v)
{
	char text[24];
	snprintf(text, sizeof text, "%016" PRIx64, v);
	jout_text(j, key, text);
}

struct hashes {
	struct decision_hash hash;
	struct printer printer;
	bool json;
};

static void on_event(void *ctx, const struct event *ev)
{
	struct hashes *h = ctx;
	decision_hash_add(&h->hash, ev);
	(h->json ? print_json : print_line)(&h->printer, ev);
}

static int run_it(const struct recalled *r, struct hashes *h, struct err *e)
{
	struct run_result result;
	const struct run_io io = {.stop = stop_flag(), .ctx = h, .event = on_event};
	int rc = rerun_execute(&r->recipe, &r->settings, &r->loaded.workload, &io, &result, e);
	run_result_free(&result);
	return rc;
}

static int print_object(const struct recalled *r, struct hashes *h, struct err *e)
{
	struct jout *j = &h->printer.json;
	char *unused;
	jout_open(j, stdout);
	jout_begin(j, NULL, '{');
	jout_int(j, "run_id", r->recipe.run_id);
	jout_begin(j, "events", '[');
	int rc = run_it(r, h, e);
	jout_end(j, ']');
	json_hash(j, "decision_hash", decision_hash_value(&h->hash));
	json_hash(j, "memory_hash", decision_hash_memory(&h->hash));
	jout_end(j, '}');
	int closed = jout_close(j, &unused, rc ? NULL : e);
	putchar('\n');
	return rc ? rc : closed;
}

static int print(const struct recalled *r, const struct decisions_opts *o, struct err *e)
{
	struct hashes h = {.json = o->json, .printer = {.workload = &r->loaded.workload}};
	h.printer.filter = (struct filter){.to = INT64_MAX, .req = -1};
	int rc = o->steps ? parse_steps(o->steps, &h.printer.filter, e) : ERR_NONE;
	if (rc == ERR_NONE && o->request)
		rc = find_request(&r->loaded.workload, o->request, &h.printer.filter.req, e);
	if (rc)
		return rc;
	return o->json ? print_object(r, &h, e) : run_it(r, &h, e);
}

/* --- the command -------------------------------------------------------------------------------------------------- */

static int act(const struct decisions_opts *o, char **words, int n, struct err *e)
{
	struct filter unused;
	struct recalled r;
	struct store *s;
	if (n > 1)
		return err_set(e, ERR_INPUT, "one run at a time: \"%s\" is one too many (`lockstep diff` compares two)",
			       words[1]);
	int rc = o->steps ? parse_steps(o->steps, &unused, e) : ERR_NONE;
	if (rc == ERR_NONE)
		rc = store_open(&s, o->db, true, e);
	if (rc)
		return rc;
	rc = recall_named(&r, s, n ? words[0] : "latest", o->dataset_path, e);
	store_close(s);
	if (rc == ERR_NONE)
		rc = print(&r, o, e);
	recall_free(&r);
	return rc;
}

static int run(const struct command *c, int argc, char **argv)
{
	struct decisions_opts o = {.db = "lockstep.db"};
	struct err e = {0};
	int n;
	if (opts_parse(opts, c->n_opts, &o, argc, argv, &n, NULL, &e) != ERR_NONE ||
	    act(&o, argv + 1, n, &e) != ERR_NONE)
		return command_fail(c, &e);
	return 0;
}

const struct command cmd_decisions = {
	.name = "decisions",
	.synopsis = "[OPTIONS] [RUN]",
	.summary = "Print what a stored run decided, step by step",
	.about = "One line for each arrival, admission, prompt piece, decoded token, block, preemption and end, in the "
		 "order in which the scheduler made them: step, time of the run's own clock, what, request (its place "
		 "in the workload), and two numbers that depend on what (docs/replay.md). RUN is a number, or `latest` "
		 "(the default).\n\n"
		 "The log is not stored: the run is made again from its command line and its trace, by the simulator "
		 "or, where it was executed on real kernels, from its recorded inputs. The trace must be what it was. "
		 "Where the run's decisions were hashed when they were made, they must come out the same.\n\n"
		 "Exit status: 0, 1 when it decides otherwise than it did, 2 when the run cannot be made again, 130 "
		 "when interrupted.",
	.examples = "# the first steps of the last run\n"
		    "lockstep decisions --steps -9\n"
		    "# the life of one request in run 3\n"
		    "lockstep decisions 3 --request 17\n"
		    "# for a script, with a trace that has been moved\n"
		    "lockstep decisions 3 --json --dataset-path archive/trace.csv\n",
	.opts = opts,
	.n_opts = sizeof opts / sizeof *opts,
	.run = run,
};
