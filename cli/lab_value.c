/* lab_value.c: runs are done when a value asks for one of their figures. */
#include "cli/lab_value.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/lab_child.h"
#include "core/err.h"
#include "core/mem.h"

#define WORDS_MAX 48
#define WORD_MAX 512

static int bad_lab(const struct grading *g, struct err *e, const char *what, const char *word)
{
	err_set(e, ERR_INPUT, "%s: %s \"%s\"", g->where, what, word ? word : "?");
	return ERR_INPUT;
}

static const char *text_of(const json_t *o, const char *key)
{
	return json_string_value(json_object_get(o, key));
}

/* --- the student's settings ----------------------------------------------------------------------------------------- */

static int within_bounds(const json_t *bounds, const char *key, double v, struct err *e)
{
	const json_t *min = json_object_get(bounds, "min"), *max = json_object_get(bounds, "max");
	if ((min && v < json_number_value(min)) || (max && v > json_number_value(max)))
		return err_set(e, ANSWER_WRONG, "%s: %.10g is not within %.10g to %.10g", key, v,
			       json_number_value(min), json_number_value(max));
	if (json_is_integer(min) && v != floor(v))
		return err_set(e, ANSWER_WRONG, "%s: %.10g is not a whole number", key, v);
	return ERR_NONE;
}

int grading_number(const struct grading *g, const char *key, double *to, struct err *e)
{
	const json_t *v = json_object_get(g->answers, key);
	if (g->with_name && strcmp(g->with_name, key) == 0) {
		*to = g->with_value;
		return ERR_NONE;
	}
	if (!v || json_is_null(v))
		return err_set(e, ANSWER_WRONG, "%s is not filled in yet", key);
	if (!json_is_number(v) || !isfinite(json_number_value(v)))
		return err_set(e, ANSWER_WRONG, "%s must be a number, without quotes and units", key);
	*to = json_number_value(v);
	return within_bounds(json_object_get(json_object_get(g->spec, "settings"), key), key, *to, e);
}

/* A setting that is one of several words. */
static int chosen_word(const struct grading *g, const char *key, const json_t *choices, char *to, struct err *e)
{
	const json_t *v = json_object_get(g->answers, key), *choice;
	const char *word = json_string_value(v);
	char list[256] = "";
	size_t i;
	if (!v || json_is_null(v) || (word && !word[0]))
		return err_set(e, ANSWER_WRONG, "%s is not filled in yet", key);
	json_array_foreach(choices, i, choice)
	{
		const char *known = json_string_value(choice);
		if (word && known && strcmp(word, known) == 0) {
			snprintf(to, WORD_MAX, "%s", known);
			return ERR_NONE;
		}
		snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s", i ? ", " : "", known ? known : "?");
	}
	return err_set(e, ANSWER_WRONG, "%s must be one of %s, in quotes", key, list);
}

/* --- command lines -------------------------------------------------------------------------------------------------- */

struct words {
	char at[WORDS_MAX][WORD_MAX];
	int n;
};

static int make_trace(struct grading *g, const char *name, char *path, struct err *e);
static int word_of(struct grading *g, const char *run, const char *metric, char *to, struct err *e);

/* ${name}: the policy, a hidden seed, a trace made with one, a word that another run printed (run.key), or a setting. */
static int replace(struct grading *g, const char *name, char *to, struct err *e)
{
	const json_t *setting = json_object_get(json_object_get(g->spec, "settings"), name);
	double v = 0;
	if (strncmp(name, "seed", 4) == 0) {
		snprintf(to, WORD_MAX, "%" PRIu64, g->seed + (uint64_t)atoi(name + 4));
		return ERR_NONE;
	}
	if (strcmp(name, "policy") == 0 && g->policy) {
		snprintf(to, WORD_MAX, "%s", g->policy);
		return ERR_NONE;
	}
	if (strcmp(name, "policy") == 0 && g->no_policy)
		return err_set(e, ANSWER_WRONG, "it does not compile: %s", g->no_policy);
	if (json_object_get(json_object_get(g->spec, "traces"), name))
		return make_trace(g, name, to, e);
	const char *dot = strchr(name, '.');
	if (dot) {
		char run[64];
		snprintf(run, sizeof run, "%.*s", (int)(dot - name), name);
		return word_of(g, run, dot + 1, to, e);
	}
	if (!setting)
		return bad_lab(g, e, "there is nothing called", name);
	if (json_object_get(setting, "choices"))
		return chosen_word(g, name, json_object_get(setting, "choices"), to, e);
	int rc = grading_number(g, name, &v, e);
	if (rc == ERR_NONE)
		snprintf(to, WORD_MAX, "%.12g", v);
	return rc;
}

/* One word of a command line with what stands in ${} replaced: a value never becomes two words. */
static int expand_word(struct grading *g, const char *from, size_t n, char *to, struct err *e)
{
	size_t used = 0;
	for (size_t i = 0; i < n;) {
		const char *close =
			from[i] == '$' && i + 1 < n && from[i + 1] == '{' ? memchr(from + i, '}', n - i) : NULL;
		char name[64], value[WORD_MAX];
		if (!close) {
			if (used + 1 < WORD_MAX)
				to[used++] = from[i];
			i++;
			continue;
		}
		snprintf(name, sizeof name, "%.*s", (int)(close - from - (ptrdiff_t)i - 2), from + i + 2);
		int rc = replace(g, name, value, e);
		if (rc != ERR_NONE)
			return rc;
		used += (size_t)snprintf(to + used, WORD_MAX - used, "%s", value);
		used = used < WORD_MAX ? used : WORD_MAX - 1;
		i = (size_t)(close - from) + 1;
	}
	to[used] = '\0';
	return ERR_NONE;
}

static int expand(struct grading *g, const char *line, struct words *w, struct err *e)
{
	w->n = 0;
	for (const char *p = line + strspn(line, " "); *p; p += strspn(p, " ")) {
		size_t n = strcspn(p, " ");
		if (w->n + 3 > WORDS_MAX)
			return bad_lab(g, e, "too many words in", line);
		int rc = expand_word(g, p, n, w->at[w->n++], e);
		if (rc != ERR_NONE)
			return rc;
		p += n;
	}
	return ERR_NONE;
}

static int run_words(struct grading *g, const struct words *w, struct child_result *r, struct err *e)
{
	const char *argv[WORDS_MAX + 2] = {g->program};
	for (int i = 0; i < w->n; i++)
		argv[i + 1] = w->at[i];
	struct child c = {.argv = argv, .folder = g->folder, .seconds = g->seconds, .stop = g->stop};
	return child_run(&c, r, e);
}

static int make_trace(struct grading *g, const char *name, char *path, struct err *e)
{
	const char *line = text_of(json_object_get(g->spec, "traces"), name);
	struct child_result r = {0};
	struct words *w = mem_alloc(sizeof *w);
	char key[80];
	snprintf(key, sizeof key, "trace %s", name);
	snprintf(path, WORD_MAX, "%s.jsonl", name);
	int rc = !w ? err_no_memory(e, "lab") : !line ? bad_lab(g, e, "no command line for trace", name) : ERR_NONE;
	if (rc == ERR_NONE && !json_object_get(g->done, key)) {
		rc = expand(g, line, w, e);
		if (rc == ERR_NONE)
			snprintf(w->at[w->n++], WORD_MAX, "%s", path);
		rc = rc ? rc : run_words(g, w, &r, e);
		if (rc == ERR_NONE && r.status != 0)
			rc = err_set(e, ERR_INPUT, "%s: trace \"%s\" cannot be made: %.300s", g->where, name, r.errors);
		if (rc == ERR_NONE && json_object_set_new(g->done, key, json_true()) != 0)
			rc = err_no_memory(e, "lab");
		child_free(&r);
	}
	mem_free(w);
	return rc;
}

/* The last line of what a failed run said, without who says it. */
static void last_line(const char *errors, char *to, size_t size)
{
	size_t n = strlen(errors);
	while (n && errors[n - 1] == '\n')
		n--;
	size_t from = n;
	while (from && errors[from - 1] != '\n')
		from--;
	snprintf(to, size, "%.*s", (int)(n - from), errors + from);
	char *colon = strncmp(to, "lockstep ", 9) == 0 ? strstr(to, ": ") : NULL;
	if (colon)
		memmove(to, colon + 2, strlen(colon + 2) + 1);
	for (char *p = to; *p; p++)
		if ((unsigned char)*p < ' ' || *p == 127)
			*p = ' ';
}

/* The grader's folder is nobody's business: "policy.so" is enough. */
static void drop_folder(char *text, const char *folder)
{
	size_t n = strlen(folder);
	for (char *at; n && (at = strstr(text, folder)) && at[n] == '/';)
		memmove(at, at + n + 1, strlen(at + n + 1) + 1);
}

/* Of `lockstep policy check --json`: the first check that failed, in its words; NULL: there is none. */
static json_t *failed_check(const json_t *printed)
{
	const json_t *check;
	size_t i;
	json_array_foreach(json_object_get(printed, "checks"), i, check)
	{
		const char *verdict = text_of(check, "verdict"), *name = text_of(check, "name"),
			   *text = text_of(check, "text");
		if (verdict && name && text && strcmp(verdict, "failed") == 0)
			return json_sprintf("check \"%s\": %s", name, text);
	}
	return NULL;
}

/* What a run printed, or a string that says why there is nothing. */
static json_t *judge(const struct grading *g, const struct child_result *r)
{
	char text[700];
	if (r->timed_out)
		return json_sprintf("took longer than the %g s it may take", g->seconds);
	if (r->too_much)
		return json_string("printed without end");
	if (r->signal)
		return json_sprintf("crashed: %s", strsignal(r->signal));
	json_t *printed = json_loads(r->out, JSON_ALLOW_NUL, NULL);
	if (r->status == 0 && printed)
		return printed;
	json_t *check = failed_check(printed);
	if (check) {
		json_decref(printed);
		return check;
	}
	last_line(r->errors, text, sizeof text);
	drop_folder(text, g->folder);
	const char *said = text_of(printed, "status_text");
	json_t *why = json_sprintf("%s", said ? said : text[0] ? text : "ended without a word");
	json_decref(printed);
	return why ? why : json_string("failed");
}

static int do_run(struct grading *g, const struct words *w, const char *key, struct err *e)
{
	struct child_result r;
	int rc = run_words(g, w, &r, e);
	if (rc != ERR_NONE)
		return rc;
	json_t *got = judge(g, &r);
	child_free(&r);
	return got && json_object_set_new(g->done, key, got) == 0 ? ERR_NONE : err_no_memory(e, "lab");
}

static int result_of(struct grading *g, const char *run, const json_t **to, struct err *e)
{
	const char *line = text_of(json_object_get(g->spec, "runs"), run);
	if (!line)
		return bad_lab(g, e, "there is no run", run);
	struct words *w = mem_alloc(sizeof *w);
	if (!w)
		return err_no_memory(e, "lab");
	char *key = NULL;
	int rc = expand(g, line, w, e);
	if (rc == ERR_NONE) {
		key = mem_zalloc((size_t)w->n + 1, WORD_MAX);
		rc = key ? ERR_NONE : err_no_memory(e, "lab");
	}
	for (int i = 0; rc == ERR_NONE && i < w->n; i++) {
		strcat(key, w->at[i]);
		strcat(key, " ");
	}
	if (rc == ERR_NONE && !json_object_get(g->done, key))
		rc = do_run(g, w, key, e);
	*to = rc == ERR_NONE ? json_object_get(g->done, key) : NULL;
	mem_free(key);
	mem_free(w);
	return rc;
}

const char *grading_command(const struct grading *g, const char *run)
{
	const char *line = text_of(json_object_get(g->spec, "runs"), run);
	return line && !strstr(line, "${") ? line : NULL;
}

/* --- values --------------------------------------------------------------------------------------------------------- */

/* "steady_state.mean_ttft_ms", "fitted.0.error" */
static const json_t *walk(const json_t *o, const char *path)
{
	while (o && *path) {
		char key[80];
		size_t n = strcspn(path, ".");
		snprintf(key, sizeof key, "%.*s", (int)n, path);
		o = json_is_array(o) ? json_array_get(o, (size_t)atoi(key)) : json_object_get(o, key);
		path += n + (path[n] == '.');
	}
	return o;
}

/* What a run printed under a key; NULL in *to: nothing. */
static int printed(struct grading *g, const char *run, const char *metric, const json_t **to, struct err *e)
{
	const json_t *r = NULL;
	if (!run || !metric)
		return bad_lab(g, e, "a value needs a run and a metric, not", run ? run : metric);
	int rc = result_of(g, run, &r, e);
	if (rc != ERR_NONE)
		return rc;
	if (json_is_string(r))
		return err_set(e, ANSWER_WRONG, "run \"%s\": %s", run, json_string_value(r));
	*to = walk(r, metric);
	return ERR_NONE;
}

static int word_of(struct grading *g, const char *run, const char *metric, char *to, struct err *e)
{
	const json_t *v = NULL;
	int rc = printed(g, run, metric, &v, e);
	if (rc == ERR_NONE && !json_is_string(v))
		return bad_lab(g, e, "there is no such word in its runs:", metric);
	if (rc == ERR_NONE)
		snprintf(to, WORD_MAX, "%s", json_string_value(v));
	return rc;
}

static int metric_of(struct grading *g, const char *run, const char *metric, double *to, struct err *e)
{
	const json_t *v = NULL;
	int rc = printed(g, run, metric, &v, e);
	if (rc != ERR_NONE)
		return rc;
	if (json_is_null(v))
		return err_set(e, ANSWER_WRONG, "run \"%s\" has no %s: nothing was served", run, metric);
	if (!json_is_number(v) && !json_is_boolean(v))
		return bad_lab(g, e, "there is no such metric in its runs:", metric);
	*to = json_is_boolean(v) ? json_is_true(v) : json_number_value(v);
	return ERR_NONE;
}

static int fold(struct grading *g, const char *how, const json_t *list, double *to, struct err *e)
{
	const json_t *v;
	size_t i;
	double x = 0;
	json_array_foreach(list, i, v)
	{
		int rc = grading_value(g, v, &x, e);
		if (rc != ERR_NONE)
			return rc;
		if (i == 0)
			*to = x;
		else if (strcmp(how, "plus") == 0)
			*to += x;
		else if (strcmp(how, "minus") == 0)
			*to -= x;
		else if (strcmp(how, "times") == 0)
			*to *= x;
		else if (strcmp(how, "ratio") == 0)
			*to /= x;
		else
			*to = strcmp(how, "least") == 0 ? fmin(*to, x) : fmax(*to, x);
	}
	return i ? ERR_NONE : bad_lab(g, e, "an empty list for", how);
}

/* Does the run, as it is now set, keep all of the bounds? */
static int keeps(struct grading *g, const char *run, const json_t *bounds, bool most, bool *yes, struct err *e)
{
	const char *metric;
	const json_t *bound;
	double v = 0;
	json_object_foreach((json_t *)bounds, metric, bound)
	{
		int rc = metric_of(g, run, metric, &v, e);
		if (rc != ERR_NONE)
			return rc;
		*yes = *yes && (most ? v <= json_number_value(bound) : v >= json_number_value(bound));
	}
	return ERR_NONE;
}

/* The least value of a metric over what a setting may be, of those that keep the bounds; with "highest", the most. */
static int best(struct grading *g, const json_t *v, double *to, struct err *e)
{
	const char *run = text_of(v, "run"), *metric = text_of(v, "metric");
	bool any = false, highest = json_is_true(json_object_get(v, "highest"));
	const json_t *one;
	size_t i;
	int rc = ERR_NONE;
	g->with_name = text_of(v, "setting");
	json_array_foreach(json_object_get(v, "among"), i, one)
	{
		bool yes = true;
		double x = 0;
		g->with_value = json_number_value(one);
		rc = keeps(g, run, json_object_get(v, "at_most"), true, &yes, e);
		rc = rc ? rc : keeps(g, run, json_object_get(v, "at_least"), false, &yes, e);
		if (rc == ERR_NONE && yes)
			rc = metric_of(g, run, metric, &x, e);
		if (rc != ERR_NONE)
			break;
		if (yes)
			*to = !any ? x : highest ? fmax(*to, x) : fmin(*to, x);
		any = any || yes;
	}
	g->with_name = NULL;
	return rc ? rc : any ? ERR_NONE : bad_lab(g, e, "no value keeps the bounds of best", run);
}

int grading_value(struct grading *g, const json_t *v, double *to, struct err *e)
{
	static const char *const folds[] = {"plus", "minus", "times", "ratio", "least", "most", NULL};
	if (json_is_number(v)) {
		*to = json_number_value(v);
		return ERR_NONE;
	}
	if (json_object_get(v, "setting"))
		return grading_number(g, text_of(v, "setting"), to, e);
	if (json_object_get(v, "best"))
		return best(g, json_object_get(v, "best"), to, e);
	for (int i = 0; folds[i]; i++)
		if (json_object_get(v, folds[i]))
			return fold(g, folds[i], json_object_get(v, folds[i]), to, e);
	return metric_of(g, text_of(v, "run"), text_of(v, "metric"), to, e);
}

int grading_extreme(struct grading *g, const json_t *of, bool highest, const char **key, struct err *e)
{
	const char *k;
	const json_t *v;
	double x = 0, most = 0;
	*key = NULL;
	json_object_foreach((json_t *)of, k, v)
	{
		int rc = grading_value(g, v, &x, e);
		if (rc != ERR_NONE)
			return rc;
		if (!*key || (highest ? x > most : x < most)) {
			most = x;
			*key = k;
		}
	}
	return *key ? ERR_NONE : bad_lab(g, e, "nothing to choose from for", highest ? "highest" : "lowest");
}
