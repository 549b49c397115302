/* lockstep runs: what is in the database. */
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analysis/jout.h"
#include "analysis/store.h"
#include "analysis/text.h"
#include "cli/command.h"
#include "core/err.h"
#include "core/mem.h"

struct runs_opts {
	const char *db;
	bool json, vacuum;
};

static const struct opt opts[] = {
	{.name = "db",
	 .type = OPT_STRING,
	 .offset = offsetof(struct runs_opts, db),
	 .arg = "FILE",
	 .help = "The SQLite database. Default lockstep.db."},
	{.name = "json",
	 .type = OPT_FLAG,
	 .offset = offsetof(struct runs_opts, json),
	 .help = "Print one JSON object: list {\"runs\": [...]}, show what `replay --json` printed, delete "
		 "{\"deleted\": [...]}."},
	{.name = "vacuum",
	 .type = OPT_FLAG,
	 .offset = offsetof(struct runs_opts, vacuum),
	 .help = "After deleting, give the space back to the file system, by rewriting the file. Default on."},
};

/* --- list --------------------------------------------------------------------------------------------------------- */

static void list_json(struct jout *j, const struct store_run *r)
{
	char hash[24];
	snprintf(hash, sizeof hash, "%016" PRIx64, r->workload_hash);
	jout_begin(j, NULL, '{');
	jout_int(j, "run_id", r->run_id);
	jout_text(j, "started", *r->started ? r->started : NULL);
	jout_text(j, "status", r->status);
	jout_text(j, "status_text", *r->status_text ? r->status_text : NULL);
	jout_text(j, "label", r->label);
	jout_text(j, "policy", r->policy);
	jout_text(j, "policy_params", r->policy_params);
	jout_text(j, "model", *r->model ? r->model : NULL);
	jout_text(j, "device", *r->device ? r->device : NULL);
	jout_text(j, "trace", *r->trace ? r->trace : NULL);
	jout_text(j, "workload_hash", hash);
	jout_int(j, "num_prompts", r->requests);
	jout_int(j, "completed", r->completed);
	jout_int(j, "failed", r->failed);
	jout_real(j, "duration", r->duration_s);
	jout_real(j, "request_throughput", r->request_throughput);
	jout_real(j, "output_throughput", r->output_throughput);
	jout_real(j, "mean_ttft_ms", r->mean_ttft_ms);
	jout_real(j, "p99_ttft_ms", r->p99_ttft_ms);
	jout_real(j, "mean_tpot_ms", r->mean_tpot_ms);
	jout_end(j, '}');
}

static int print_list_json(const struct store_list *l, struct err *e)
{
	struct jout j;
	char *unused;
	jout_open(&j, stdout);
	jout_begin(&j, NULL, '{');
	jout_begin(&j, "runs", '[');
	for (int64_t i = 0; i < l->n; i++)
		list_json(&j, &l->runs[i]);
	jout_end(&j, ']');
	jout_end(&j, '}');
	int rc = jout_close(&j, &unused, e);
	putchar('\n');
	return rc;
}

static const char *file_part(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash ? slash + 1 : path;
}

static void print_list_row(const struct store_run *r)
{
	char n[TEXT_NUMBER], rate[TEXT_NUMBER], ttft[TEXT_NUMBER], tpot[TEXT_NUMBER];
	printf("%5" PRId64 "  %-16.16s  %-11s  %-20.20s  %-20.20s %9s %8s %9s %8s\n", r->run_id, r->started, r->status,
	       r->label, file_part(r->trace), text_count(r->requests, n),
	       text_value(r->request_throughput, "req/s", rate), text_value(r->mean_ttft_ms, "ms", ttft),
	       text_value(r->mean_tpot_ms, "ms", tpot));
}

static int list(struct store *s, const struct runs_opts *o, struct err *e)
{
	struct store_list l;
	int rc = store_list(s, &l, e);
	if (rc)
		return rc;
	if (o->json) {
		rc = print_list_json(&l, e);
	} else {
		bool open = false;
		printf("%5s  %-16s  %-11s  %-20s  %-20s %9s %8s %9s %8s\n", "run", "started (UTC)", "status", "label",
		       "trace", "requests", "req/s", "TTFT ms", "TPOT ms");
		for (int64_t i = 0; i < l.n; i++) {
			print_list_row(&l.runs[i]);
			open = open || strcmp(l.runs[i].status, "running") == 0;
		}
		if (open)
			puts("running: still going on, or killed: what is stored of it is incomplete.");
	}
	store_list_free(&l);
	return rc;
}

/* --- show --------------------------------------------------------------------------------------------------------- */

static void print_value(const char *key, const json_t *v, int depth)
{
	char number[32];
	printf("%*s%-*s ", 2 * depth, "", 36 - 2 * depth, key);
	if (json_is_string(v))
		puts(json_string_value(v));
	else if (json_is_integer(v))
		printf("%" JSON_INTEGER_FORMAT "\n", json_integer_value(v));
	else if (json_is_real(v))
		puts(text_value(json_real_value(v), "value", number));
	else
		puts(json_is_true(v) ? "yes" : json_is_false(v) ? "no" : "-");
}

/* Every key of the object with its value, objects within it further in. Their names say what they are. */
static void print_object(const json_t *object, int depth)
{
	const char *key;
	json_t *v;
	json_object_foreach((json_t *)object, key, v)
	{
		if (json_is_object(v)) {
			printf("%*s%s\n", 2 * depth, "", key);
			print_object(v, depth + 1);
		} else if (json_is_array(v)) {
			for (size_t i = 0; i < json_array_size(v); i++)
				print_value(i ? "" : key, json_array_get(v, i), depth);
		} else {
			print_value(key, v, depth);
		}
	}
}

static int show(struct store *s, const struct runs_opts *o, const char *which, struct err *e)
{
	int64_t run_id;
	char *text = NULL;
	int rc = store_resolve(s, which, &run_id, e);
	if (rc == ERR_NONE)
		rc = store_run_json(s, run_id, &text, e);
	if (rc)
		return rc;
	if (o->json) {
		puts(text);
	} else {
		json_error_t bad;
		json_t *object = json_loads(text, JSON_DECODE_ANY, &bad);
		if (object)
			print_object(object, 0);
		else
			rc = err_set(e, ERR_IO, "%s: run %" PRId64 ": its stored result cannot be read: %s",
				     store_path(s), run_id, bad.text);
		json_decref(object);
	}
	mem_free(text);
	return rc;
}

/* --- delete ------------------------------------------------------------------------------------------------------- */

static void print_deleted(const int64_t *ids, int n, bool json)
{
	printf(json ? "{\"deleted\": [" : "Deleted %s", n == 1 ? "run " : "runs ");
	for (int i = 0; i < n; i++)
		printf("%s%" PRId64, i ? ", " : "", ids[i]);
	puts(json ? "]}" : "");
}

static int delete_runs(struct store *s, const struct runs_opts *o, char **which, int n, struct err *e)
{
	int64_t *ids = mem_zalloc((size_t)n, sizeof *ids);
	if (!ids)
		return err_no_memory(e, "run numbers");
	int rc = ERR_NONE;
	for (int i = 0; rc == ERR_NONE && i < n; i++)
		rc = store_resolve(s, which[i], &ids[i], e);
	for (int i = 0; rc == ERR_NONE && i < n; i++)
		for (int k = 0; k < i; k++)
			if (ids[k] == ids[i])
				rc = err_set(e, ERR_INPUT, "run %" PRId64 " is named twice", ids[i]);
	if (rc == ERR_NONE)
		rc = store_delete(s, ids, n, o->vacuum, e);
	if (rc == ERR_NONE)
		print_deleted(ids, n, o->json);
	mem_free(ids);
	return rc;
}

/* --- the command -------------------------------------------------------------------------------------------------- */

/* argv[1..n] are the words. */
static int act(const struct runs_opts *o, char **words, int n, struct err *e)
{
	const char *action = n > 0 ? words[0] : "list";
	bool deletes = strcmp(action, "delete") == 0;
	if (strcmp(action, "list") != 0 && strcmp(action, "show") != 0 && !deletes)
		return err_set(e, ERR_INPUT, "\"%s\" is not one of list, show and delete", action);
	if (strcmp(action, "list") == 0 && n > 1)
		return err_set(e, ERR_INPUT, "list takes no run: `lockstep runs show %s` shows one", words[1]);
	if (strcmp(action, "show") == 0 && n > 2)
		return err_set(e, ERR_INPUT, "show takes one run at a time");
	if (deletes && n < 2)
		return err_set(e, ERR_INPUT, "delete needs the numbers of runs: `lockstep runs list` shows them");
	struct store *s;
	int rc = store_open(&s, o->db, !deletes, e);
	if (rc)
		return rc;
	if (deletes)
		rc = delete_runs(s, o, words + 1, n - 1, e);
	else if (strcmp(action, "show") == 0)
		rc = show(s, o, n > 1 ? words[1] : "latest", e);
	else
		rc = list(s, o, e);
	store_close(s);
	return rc;
}

static int run(const struct command *c, int argc, char **argv)
{
	struct runs_opts o = {.db = "lockstep.db", .vacuum = true};
	struct err e = {0};
	int n;
	if (opts_parse(opts, c->n_opts, &o, argc, argv, &n, NULL, &e) != ERR_NONE ||
	    act(&o, argv + 1, n, &e) != ERR_NONE)
		return command_fail(c, &e);
	return 0;
}

const struct command cmd_runs = {
	.name = "runs",
	.synopsis = "[OPTIONS] [list | show [RUN] | delete RUN...]",
	.summary = "List, show and delete the runs in the database",
	.about = "`list` (the default) prints one line per run. `show` prints everything kept about one: its "
		 "settings, which make it repeatable, and its figures. `delete` removes runs with all their requests, "
		 "steps and figures. RUN is a number, or `latest`.\n\n"
		 "A run with status `running` is still going on or was killed. The database is plain SQLite: its "
		 "tables and views are described in docs/database.md.\n\n"
		 "Exit status: 0, 1 when the database cannot be used, 2 when there is no such run.",
	.examples = "# what there is\n"
		    "lockstep runs --db lockstep.db\n"
		    "# the last run's figures, for a script\n"
		    "lockstep runs show latest --json\n"
		    "# away with two of them\n"
		    "lockstep runs delete 3 4\n",
	.opts = opts,
	.n_opts = sizeof opts / sizeof *opts,
	.run = run,
};
