/* lockstep report: runs as one HTML page. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "analysis/history.h"
#include "analysis/report.h"
#include "analysis/report_page.h"
#include "analysis/save.h"
#include "analysis/store.h"
#include "analysis/store_report.h"
#include "cli/command.h"
#include "cli/recall.h"
#include "core/err.h"
#include "core/mem.h"

struct report_opts {
	const char *db, *output;
	bool all, phases, quiet;
};

static const struct opt opts[] = {
	{.name = "db",
	 .type = OPT_STRING,
	 .offset = offsetof(struct report_opts, db),
	 .arg = "FILE",
	 .help = "The SQLite database. Default lockstep.db."},
	{.name = "output",
	 .letter = 'o',
	 .type = OPT_STRING,
	 .offset = offsetof(struct report_opts, output),
	 .arg = "FILE",
	 .help = "The page. - is standard output. Default report.html."},
	{.name = "all",
	 .type = OPT_FLAG,
	 .offset = offsetof(struct report_opts, all),
	 .help = "All runs of the database, and all its validations, searches and experiments."},
	{.name = "phases",
	 .type = OPT_FLAG,
	 .offset = offsetof(struct report_opts, phases),
	 .help = "Make each run again to tell when every request was queued, computed, preempted, and who held which "
		 "KV block. --no-phases: sums from the "
		 "database only. Default on, for runs that are made again in a few seconds."},
	{.name = "quiet",
	 .letter = 'q',
	 .type = OPT_FLAG,
	 .offset = offsetof(struct report_opts, quiet),
	 .help = "Say nothing but errors."},
};

/* --- which runs --------------------------------------------------------------------------------------------------- */

struct chosen {
	int64_t *ids;
	int64_t n, cap;
};

static int choose(struct chosen *c, int64_t id, struct err *e)
{
	for (int64_t k = 0; k < c->n; k++)
		if (c->ids[k] == id)
			return err_set(e, ERR_INPUT, "run %" PRId64 " is named twice", id);
	if (mem_grow((void **)&c->ids, &c->cap, c->n + 1, sizeof *c->ids))
		return err_no_memory(e, "run numbers");
	c->ids[c->n++] = id;
	return ERR_NONE;
}

/* Those there are from `from` to `to`. */
static int choose_range(struct chosen *c, struct store *s, int64_t from, int64_t to, struct err *e)
{
	int64_t *all = NULL, n = 0, before = c->n;
	int rc = store_run_ids(s, &all, &n, e);
	for (int64_t i = 0; rc == ERR_NONE && i < n; i++)
		if (all[i] >= from && all[i] <= to)
			rc = choose(c, all[i], e);
	mem_free(all);
	if (rc == ERR_NONE && c->n == before)
		rc = err_set(e, ERR_INPUT, "%s: there is no run from %" PRId64 " to %" PRId64, store_path(s), from, to);
	return rc;
}

/* "3", "latest", "3-5" */
static int choose_named(struct chosen *c, struct store *s, const char *word, struct err *e)
{
	int64_t from, to, id;
	int used = 0;
	if (sscanf(word, "%" SCNd64 "-%" SCNd64 "%n", &from, &to, &used) == 2 && used > 0 && !word[used] && from > 0 &&
	    to > 0)
		return choose_range(c, s, from, to, e);
	int rc = store_resolve(s, word, &id, e);
	return rc ? rc : choose(c, id, e);
}

static int choose_runs(struct chosen *c, struct store *s, bool all, char **words, int n, struct err *e)
{
	if (all)
		return choose_range(c, s, INT64_MIN, INT64_MAX, e);
	if (n == 0)
		return choose_named(c, s, "latest", e);
	int rc = ERR_NONE;
	for (int i = 0; rc == ERR_NONE && i < n; i++)
		rc = choose_named(c, s, words[i], e);
	return rc;
}

/* --- phases of requests, by making a run again --------------------------------------------------------------------- */

/* Every token is walked by then: so many take some seconds. */
#define MOST_TOKENS 8e6

struct remake {
	struct store *s;
	bool wanted; /* --phases */
};

static void take_tokens(void *ctx, const char *name, double value, const char *unit, bool uncertain)
{
	(void)unit;
	(void)uncertain;
	if (strcmp(name, "total_output_tokens") == 0)
		*(double *)ctx = value;
}

static int remake_run(struct remake *m, int64_t run_id, const struct history_sink *sink, char why[256], struct err *e)
{
	struct recalled r;
	struct run_result result;
	struct err own = {0};
	int rc = recall(&r, m->s, run_id, NULL, &own);
	if (rc == ERR_NONE) {
		const struct run_io io = {.stop = stop_flag()};
		rc = history_rerun(&r.recipe, &r.settings, &r.loaded.workload, sink, &io, &result, &own);
		run_result_free(&result);
	}
	recall_free(&r);
	if (rc == ERR_MEMORY || rc == ERR_INTERRUPTED)
		return err_set(e, rc, "%s", own.text);
	if (rc)
		snprintf(why, 256, "%.250s", own.text);
	return ERR_NONE;
}

static int make_again(void *ctx, int64_t run_id, const struct history_sink *sink, char why[256], struct err *e)
{
	struct remake *m = ctx;
	double tokens = NAN;
	if (!m->wanted) {
		snprintf(why, 256, "--no-phases was given");
		return ERR_NONE;
	}
	int rc = store_report_metrics(m->s, run_id, take_tokens, &tokens, e);
	if (rc)
		return rc;
	if (!(tokens <= MOST_TOKENS)) {
		snprintf(why, 256,
			 "making the run again to tell would take too long: it is done of up to %.0f output tokens",
			 MOST_TOKENS);
		return ERR_NONE;
	}
	return remake_run(m, run_id, sink, why, e);
}

/* --- where to ----------------------------------------------------------------------------------------------------- */

struct page {
	struct store *s;
	const struct report_options *o;
};

static int write_page(FILE *f, void *ctx, struct err *e)
{
	const struct page *p = ctx;
	return report_write(p->s, p->o, f, e);
}

/* --- the command -------------------------------------------------------------------------------------------------- */

static void say(const struct report_opts *o, int64_t n)
{
	struct stat st;
	if (o->quiet || strcmp(o->output, "-") == 0)
		return;
	printf("%s: %" PRId64 " %s", o->output, n, n == 1 ? "run" : "runs");
	if (stat(o->output, &st) == 0 && S_ISREG(st.st_mode))
		printf(", %.1f MB", (double)st.st_size / 1e6);
	puts("; it opens in any browser and needs nothing else.");
}

static int act(const struct report_opts *o, char **words, int n, struct err *e)
{
	struct store *s;
	struct chosen c = {0};
	if (o->all && n > 0)
		return err_set(e, ERR_INPUT, "--all stands for every run: \"%s\" beside it says nothing", words[0]);
	int rc = store_open(&s, o->db, true, e);
	if (rc)
		return rc;
	rc = choose_runs(&c, s, o->all, words, n, e);
	if (rc == ERR_NONE) {
		struct remake remake = {s, o->phases};
		const struct report_options what = {.run_ids = c.ids,
						    .n_runs = c.n,
						    .all = o->all,
						    .vega_folder = REPORT_VEGA_FOLDER,
						    .make_again = make_again,
						    .ctx = &remake};
		rc = save_file(o->output, write_page, &(struct page){s, &what}, NULL, e);
	}
	if (rc == ERR_NONE)
		say(o, c.n);
	mem_free(c.ids);
	store_close(s);
	return rc;
}

static int run(const struct command *c, int argc, char **argv)
{
	struct report_opts o = {.db = "lockstep.db", .output = "report.html", .phases = true};
	struct err e = {0};
	int n;
	if (opts_parse(opts, c->n_opts, &o, argc, argv, &n, NULL, &e) != ERR_NONE ||
	    act(&o, argv + 1, n, &e) != ERR_NONE)
		return command_fail(c, &e);
	return 0;
}

const struct command cmd_report = {
	.name = "report",
	.synopsis = "[OPTIONS] [RUN...]",
	.summary = "Stored runs as one HTML page with charts",
	.about = "Writes one page that needs nothing else to be read: no network, no other file. It shows the figures "
		 "of the runs side by side, what they served, how their latencies are distributed and how they went "
		 "over time. RUN is a number, several such as 3-5, or `latest`, which is also the default.\n\n"
		 "What a run has stored decides what can be shown of it: `replay --record steps` keeps every step, so "
		 "that queue, batches, memory and the roofline can be drawn. The page says what is missing and how to "
		 "get it. docs/report.md explains every chart.\n\n"
		 "Charts are drawn by Vega (Debian and Ubuntu: libjs-vega). Where it was there when Lockstep was built "
		 "it is "
		 "part of the program; else it is looked for in " REPORT_VEGA_FOLDER ".\n\n"
		 "Exit status: 0, 1 when the database or the page cannot be used, 2 when there is no such run or no "
		 "Vega.",
	.examples = "# the last run\n"
		    "lockstep report\n"
		    "# two runs of the same workload against each other\n"
		    "lockstep report 1 3 -o a-b.html\n"
		    "# what one command line made\n"
		    "lockstep report 4-9\n"
		    "# everything in a database\n"
		    "lockstep report --db lockstep.db --all -o all.html\n",
	.opts = opts,
	.n_opts = sizeof opts / sizeof *opts,
	.run = run,
};
