/* lockstep diff: where two stored runs part. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/decisions.h"
#include "analysis/diverge.h"
#include "analysis/jout.h"
#include "cli/command.h"
#include "cli/recall.h"
#include "core/err.h"
#include "core/mem.h"

struct diff_opts {
	const char *db, *dataset_path;
	bool force, json;
	struct diverge_scope scope;
};

static const struct opt opts[] = {
	{.name = "db",
	 .type = OPT_STRING,
	 .offset = offsetof(struct diff_opts, db),
	 .arg = "FILE",
	 .help = "The SQLite database of both. Default lockstep.db."},
	{.name = "times",
	 .type = OPT_FLAG,
	 .offset = offsetof(struct diff_opts, scope.times),
	 .help = "Clock readings must be equal too, to the nanosecond."},
	{.name = "any-block",
	 .type = OPT_FLAG,
	 .offset = offsetof(struct diff_opts, scope.any_block),
	 .help = "Which KV block is given does not count, only that one is: for memories of different size."},
	{.name = "force",
	 .type = OPT_FLAG,
	 .offset = offsetof(struct diff_opts, force),
	 .help = "Compare runs of different workloads as well, as far as they go."},
	{.name = "dataset-path",
	 .type = OPT_STRING,
	 .offset = offsetof(struct diff_opts, dataset_path),
	 .arg = "FILE",
	 .help = "Where the runs' trace is now. Default: where it was."},
	{.name = "json",
	 .type = OPT_FLAG,
	 .offset = offsetof(struct diff_opts, json),
	 .help = "Print one JSON object instead of text."},
};

/* Both runs and what came of them. */
struct both {
	struct recalled run[2];
	char *json[2]; /* the stored objects */
	json_t *settings[2]; /* of those, or NULL */
	json_t *objects[2];
	struct divergence d;
};

/* --- settings ----------------------------------------------------------------------------------------------------- */

/* Settings that say what was run, rather than how it was asked for. */
static bool matters(const char *key)
{
	static const char *const apart[] = {"arguments", "arm", "record", "goodput", "program_version"};
	for (size_t i = 0; i < sizeof apart / sizeof *apart; i++)
		if (strcmp(apart[i], key) == 0)
			return false;
	return true;
}

static int load_settings(struct both *b, struct store *s, struct err *e)
{
	int rc = ERR_NONE;
	for (int i = 0; rc == ERR_NONE && i < 2; i++) {
		rc = store_run_json(s, b->run[i].recipe.run_id, &b->json[i], e);
		b->objects[i] = rc ? NULL : json_loads(b->json[i], JSON_DECODE_ANY, NULL);
		b->settings[i] = json_object_get(b->objects[i], "settings");
	}
	return rc;
}

/* Calls back for every setting whose values differ, with both as JSON. Policy parameters count. */
static void each_difference(const struct both *b,
			    void (*tell)(void *ctx, const char *key, const char *x, const char *y), void *ctx)
{
	const char *key;
	json_t *value;
	const struct store_recipe *r[2] = {&b->run[0].recipe, &b->run[1].recipe};
	if (r[0]->policy && r[1]->policy && strcmp(r[0]->policy, r[1]->policy) != 0)
		tell(ctx, "policy", r[0]->policy, r[1]->policy);
	else if (r[0]->policy_params && r[1]->policy_params && strcmp(r[0]->policy_params, r[1]->policy_params) != 0)
		tell(ctx, "policy_params", r[0]->policy_params, r[1]->policy_params);
	if (r[0]->program_version && r[1]->program_version && strcmp(r[0]->program_version, r[1]->program_version) != 0)
		tell(ctx, "program_version", r[0]->program_version, r[1]->program_version);
	for (int side = 0; side < 2; side++) {
		json_object_foreach(b->settings[side], key, value)
		{
			json_t *other = json_object_get(b->settings[!side], key);
			/* The second time round only those the first run has not. */
			if (!matters(key) || (side == 1 && other) || (other && json_equal(value, other)))
				continue;
			char *mine = json_dumps(value, JSON_ENCODE_ANY | JSON_SORT_KEYS);
			char *its = other ? json_dumps(other, JSON_ENCODE_ANY | JSON_SORT_KEYS) : NULL;
			const char *shown[2] = {mine ? mine : "?", its ? its : "-"};
			tell(ctx, key, shown[side], shown[!side]);
			free(mine);
			free(its);
		}
	}
}

/* --- text --------------------------------------------------------------------------------------------------------- */

enum { SHOWN_BEFORE = 3, SHOWN_AFTER = 12 };

/* How many decisions of the step are alike at its beginning, arrivals left out; the events' places where they part. */
static void parting(const struct divergence *d, struct diverge_scope scope, int64_t at[2])
{
	const struct diverge_side *s = d->side;
	at[0] = at[1] = 0;
	for (;;) {
		for (int i = 0; i < 2; i++)
			while (at[i] < s[i].n && !diverge_decides(&s[i].events[at[i]]))
				at[i]++;
		if (at[0] >= s[0].n || at[1] >= s[1].n ||
		    !diverge_same(&s[0].events[at[0]], &s[1].events[at[1]], scope))
			return;
		at[0]++;
		at[1]++;
	}
}

static void print_side(const struct diverge_side *s, int64_t from, int64_t run_id)
{
	char line[DECISION_LINE];
	int64_t first = from > SHOWN_BEFORE ? from - SHOWN_BEFORE : 0;
	if (s->ended)
		printf("run %" PRId64 " is over, and has no such step\n", run_id);
	else
		printf("run %" PRId64 " decides\n", run_id);
	if (first > 0)
		printf("    ... %" PRId64 " before\n", first);
	for (int64_t i = first; i < s->n && i < from + SHOWN_AFTER; i++)
		printf("  %s %s", i == from ? ">" : " ", decision_line(&s->events[i], line));
	if (s->n > from + SHOWN_AFTER)
		printf("    ... %" PRId64 " more\n", s->n - from - SHOWN_AFTER);
}

static void print_setting(void *ctx, const char *key, const char *x, const char *y)
{
	bool *any = ctx;
	if (!*any)
		puts("Settings that differ:");
	*any = true;
	printf("  %-28s %s  |  %s\n", key, x, y);
}

static void print_clocks(const struct both *b)
{
	const struct divergence *d = &b->d;
	if (d->clock_step < 0) {
		puts("Their clocks are alike until then.");
		return;
	}
	printf("Their clocks differ first in step %" PRId64 ": %.6f to %.6f ms in run %" PRId64
	       ", %.6f to %.6f ms in run "
	       "%" PRId64 ".\n",
	       d->clock_step, (double)d->start_ns[0] / 1e6, (double)d->end_ns[0] / 1e6, b->run[0].recipe.run_id,
	       (double)d->start_ns[1] / 1e6, (double)d->end_ns[1] / 1e6, b->run[1].recipe.run_id);
}

static void print_why(const struct both *b)
{
	const struct divergence *d = &b->d;
	bool any = false;
	print_clocks(b);
	if (d->side[0].arrived != d->side[1].arrived)
		printf("By then %" PRId64 " requests had arrived in run %" PRId64 ", %" PRId64 " in run %" PRId64 ".\n",
		       d->side[0].arrived, b->run[0].recipe.run_id, d->side[1].arrived, b->run[1].recipe.run_id);
	each_difference(b, print_setting, &any);
	if (!any)
		puts("Their settings are the same.");
}

static void print_text(const struct both *b, const struct diff_opts *o)
{
	const struct divergence *d = &b->d;
	int64_t ids[2] = {b->run[0].recipe.run_id, b->run[1].recipe.run_id}, at[2];
	if (!d->differs) {
		printf("Runs %" PRId64 " and %" PRId64 " decide alike: %" PRId64 " steps, %" PRId64 " decisions.\n",
		       ids[0], ids[1], d->step, d->decisions);
		if (d->clock_step < 0)
			puts("Their clocks are alike too.");
		else
			print_clocks(b);
		return;
	}
	printf("Runs %" PRId64 " and %" PRId64 " part in step %" PRId64 ", after %" PRId64
	       " decisions alike.\n\nBefore it\n",
	       ids[0], ids[1], d->step, d->decisions);
	for (int i = 0; i < 2; i++)
		printf("  run %" PRId64 ": %s\n", ids[i], d->side[i].before);
	putchar('\n');
	parting(d, o->scope, at);
	for (int i = 0; i < 2; i++)
		print_side(&d->side[i], at[i], ids[i]);
	putchar('\n');
	print_why(b);
}

/* --- JSON --------------------------------------------------------------------------------------------------------- */

static void json_setting(void *ctx, const char *key, const char *x, const char *y)
{
	struct jout *j = ctx;
	jout_begin(j, key, '[');
	jout_text(j, NULL, x);
	jout_text(j, NULL, y);
	jout_end(j, ']');
}

static void json_side(struct jout *j, const struct both *b, int i)
{
	const struct diverge_side *s = &b->d.side[i];
	const struct store_recipe *r = &b->run[i].recipe;
	jout_begin(j, NULL, '{');
	jout_int(j, "run_id", r->run_id);
	jout_text(j, "label", r->label);
	jout_text(j, "status", r->status);
	if (b->d.differs) {
		jout_bool(j, "ended", s->ended);
		jout_int(j, "arrived", s->arrived);
		jout_text(j, "before", s->before);
		jout_begin(j, "events", '[');
		for (int64_t k = 0; k < s->n; k++) {
			const struct event *ev = &s->events[k];
			jout_begin(j, NULL, '{');
			jout_int(j, "step", ev->step);
			jout_int(j, "at_ns", ev->at_ns);
			jout_text(j, "what", event_name(ev->kind));
			jout_int(j, "request", ev->req);
			jout_int(j, "a", ev->a);
			jout_int(j, "b", ev->b);
			jout_end(j, '}');
		}
		jout_end(j, ']');
	}
	if (b->d.clock_step >= 0) {
		jout_int(j, "start_ns", b->d.start_ns[i]);
		jout_int(j, "end_ns", b->d.end_ns[i]);
	}
	jout_end(j, '}');
}

static int print_object(const struct both *b, struct err *e)
{
	struct jout j;
	char *unused;
	const struct divergence *d = &b->d;
	jout_open(&j, stdout);
	jout_begin(&j, NULL, '{');
	jout_bool(&j, "identical", !d->differs);
	if (d->differs)
		jout_int(&j, "step", d->step);
	else
		jout_int(&j, "steps", d->step);
	jout_int(&j, "decisions_alike", d->decisions);
	if (d->clock_step >= 0)
		jout_int(&j, "clock_step", d->clock_step);
	else
		jout_null(&j, "clock_step");
	jout_begin(&j, "runs", '[');
	json_side(&j, b, 0);
	json_side(&j, b, 1);
	jout_end(&j, ']');
	jout_begin(&j, "settings", '{');
	each_difference(b, json_setting, &j);
	jout_end(&j, '}');
	jout_end(&j, '}');
	int rc = jout_close(&j, &unused, e);
	putchar('\n');
	return rc;
}

/* --- the command -------------------------------------------------------------------------------------------------- */

static int check_workloads(const struct both *b, const struct diff_opts *o, struct err *e)
{
	const struct store_recipe *x = &b->run[0].recipe, *y = &b->run[1].recipe;
	if (o->force || x->workload_hash == y->workload_hash)
		return ERR_NONE;
	return err_set(e, ERR_INPUT,
		       "runs %" PRId64 " and %" PRId64 " are of different workloads (hashes %016" PRIx64
		       " and %016" PRIx64 "): --force compares them as far as they go",
		       x->run_id, y->run_id, x->workload_hash, y->workload_hash);
}

static int recall_both(struct both *b, const struct diff_opts *o, char **words, struct err *e)
{
	struct store *s;
	int rc = store_open(&s, o->db, true, e);
	if (rc)
		return rc;
	for (int i = 0; rc == ERR_NONE && i < 2; i++)
		rc = recall_named(&b->run[i], s, words[i], o->dataset_path, e);
	if (rc == ERR_NONE)
		rc = check_workloads(b, o, e);
	if (rc == ERR_NONE)
		rc = load_settings(b, s, e);
	store_close(s);
	return rc;
}

static int act(struct both *b, const struct diff_opts *o, char **words, int n, struct err *e)
{
	if (n != 2)
		return err_set(e, ERR_INPUT, "which two runs? `lockstep runs list` shows their numbers");
	int rc = recall_both(b, o, words, e);
	if (rc)
		return rc;
	struct diverge_run runs[2];
	for (int i = 0; i < 2; i++)
		runs[i] = (struct diverge_run){&b->run[i].recipe, &b->run[i].settings, &b->run[i].loaded.workload};
	rc = diverge(runs, o->scope, stop_flag(), &b->d, e);
	if (rc)
		return rc;
	if (o->json)
		return print_object(b, e);
	print_text(b, o);
	return ERR_NONE;
}

static void free_both(struct both *b)
{
	divergence_free(&b->d);
	for (int i = 0; i < 2; i++) {
		json_decref(b->objects[i]);
		mem_free(b->json[i]);
		recall_free(&b->run[i]);
	}
}

static int run(const struct command *c, int argc, char **argv)
{
	struct diff_opts o = {.db = "lockstep.db"};
	struct both b = {0};
	struct err e = {0};
	int n, status = 0;
	if (opts_parse(opts, c->n_opts, &o, argc, argv, &n, NULL, &e) != ERR_NONE ||
	    act(&b, &o, argv + 1, n, &e) != ERR_NONE)
		status = command_fail(c, &e);
	else
		status = b.d.differs;
	free_both(&b);
	return status;
}

const struct command cmd_diff = {
	.name = "diff",
	.synopsis = "[OPTIONS] RUN RUN",
	.summary = "Find the first decision in which two stored runs differ",
	.about = "Makes both runs again, as `lockstep decisions` does, and compares what they decide, step by step. "
		 "Prints the first step that differs as each of them has it, what was running and waiting just "
		 "before, when their clocks first differ, and which of their settings do. A run is a number, or "
		 "`latest`.\n\n"
		 "Times do not count unless --times says so: a simulation and the same schedule on real kernels "
		 "decide alike as long as their clocks let them.\n\n"
		 "Exit status: 0 when they decide alike, 1 when they do not (or one decides otherwise than it did), 2 "
		 "when they cannot be compared, 130 when interrupted.",
	.examples =
		"# does block size matter to this trace?\n"
		"lockstep compare --policies chunked --block-size 16,32 --model llama-3.1-8b --device l4 trace.jsonl\n"
		"lockstep diff 1 2\n"
		"# for a script\n"
		"lockstep diff 1 2 --json\n",
	.opts = opts,
	.n_opts = sizeof opts / sizeof *opts,
	.run = run,
};
