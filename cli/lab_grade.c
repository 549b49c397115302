/* lab_grade.c: the tests of a lab's grade.json, one after another, against a student's file. */
#include <errno.h>
#include <ftw.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "analysis/plugin_build.h"
#include "analysis/text.h"
#include "cli/lab.h"
#include "cli/lab_child.h"
#include "cli/lab_value.h"
#include "core/err.h"
#include "core/mem.h"
#include "models/json_read.h"

#define BECAUSE_WORDS 5 /* fewer are no reason */
#define ANSWERS_MAX (1 << 20)

static double now_s(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* --- kinds of tests: ERR_NONE = passed, ANSWER_WRONG = not; a message in *t either way ------------------------------- */

static int wrong_choice(const char *key, const json_t *of, const char *said, struct err *e)
{
	char list[256] = "";
	const char *k;
	const json_t *v;
	json_object_foreach((json_t *)of, k, v)
		snprintf(list + strlen(list), sizeof list - strlen(list), "%s\"%s\"", list[0] ? ", " : "", k);
	if (!said || !said[0])
		return err_set(e, ANSWER_WRONG, "%s is not filled in yet: one of %s", key, list);
	return err_set(e, ANSWER_WRONG, "%s must be one of %s", key, list);
}

static const json_t *choices_of(const json_t *test, bool *highest)
{
	const json_t *high = json_object_get(test, "highest");
	*highest = high != NULL;
	return high ? high : json_object_get(test, "lowest");
}

static int test_choice(struct grading *g, const json_t *test, struct grade_test *t, struct err *e)
{
	const char *key = json_string_value(json_object_get(test, "choice")), *right;
	const char *said = json_string_value(json_object_get(g->answers, key));
	const char *why = json_string_value(json_object_get(test, "why"));
	bool highest;
	const json_t *of = choices_of(test, &highest);
	if (!said || !json_object_get(of, said))
		return wrong_choice(key, of, said, e);
	int rc = grading_extreme(g, of, highest, &right, e);
	if (rc != ERR_NONE)
		return rc;
	if (strcmp(said, right) != 0)
		return err_set(e, ANSWER_WRONG, "%s: the runs do not say \"%s\". %s", key, said, why ? why : "");
	snprintf(t->message, sizeof t->message, "%s", why ? why : "");
	return ERR_NONE;
}

static int32_t count_words(const char *text)
{
	int32_t n = 0;
	for (text += strspn(text, " \t\n"); *text; text += strspn(text, " \t\n")) {
		text += strcspn(text, " \t\n");
		n++;
	}
	return n;
}

/* What became of a predicted number. */
static int told_number(struct grading *g, const json_t *test, double said, struct grade_test *t, struct err *e)
{
	const char *unit = json_string_value(json_object_get(test, "unit"));
	char a[TEXT_NUMBER], b[TEXT_NUMBER], c[TEXT_NUMBER];
	double is = 0;
	int rc = grading_value(g, json_object_get(test, "is"), &is, e);
	if (rc != ERR_NONE)
		return rc;
	unit = unit ? unit : "";
	double off = said > 0 && is > 0 ? fmax(said / is, is / said) : NAN;
	snprintf(t->message, sizeof t->message, "you said %s %s, it is %s %s%s%s%s", text_value(said, "x", a), unit,
		 text_value(is, "x", b), unit, isnan(off) ? "" : ": off by a factor of ",
		 isnan(off) ? "" : text_value(off, "x", c), isnan(off) || off > 1.25 ? "" : ", well guessed");
	return ERR_NONE;
}

/* A prediction counts when it is there with a reason, whether it came true or not: {"value": 3, "because": "..."}. */
static int test_predict(struct grading *g, const json_t *test, struct grade_test *t, struct err *e)
{
	const char *key = json_string_value(json_object_get(test, "predict")), *right;
	const json_t *given = json_object_get(g->answers, key), *value = json_object_get(given, "value");
	const char *because = json_string_value(json_object_get(given, "because"));
	bool highest;
	const json_t *of = choices_of(test, &highest);
	if (!value || json_is_null(value) || (json_is_string(value) && !json_string_value(value)[0]))
		return err_set(e, ANSWER_WRONG, "%s is not filled in yet: a value, and because of what", key);
	if (!because || count_words(because) < BECAUSE_WORDS)
		return err_set(e, ANSWER_WRONG, "%s: say why in at least %d words (\"because\")", key, BECAUSE_WORDS);
	if (!of && json_is_number(value) && !json_object_get(test, "is"))
		return ERR_NONE; /* a figure of the student's own machine */
	if (!of && !json_is_number(value))
		return err_set(e, ANSWER_WRONG, "%s: the value must be a number, without quotes and units", key);
	if (!of)
		return told_number(g, test, json_number_value(value), t, e);
	const char *said = json_string_value(value);
	if (!said || !json_object_get(of, said))
		return wrong_choice(key, of, said, e);
	int rc = grading_extreme(g, of, highest, &right, e);
	if (rc == ERR_NONE)
		snprintf(t->message, sizeof t->message,
			 strcmp(said, right) == 0 ? "\"%s\": so it is" : "you said \"%s\", it is \"%s\"", said, right);
	return rc;
}

/* A figure that the student has read off a run, to within a share of it. */
static int test_figure(struct grading *g, const json_t *test, struct err *e)
{
	const char *key = json_string_value(json_object_get(test, "figure"));
	const json_t *is = json_object_get(test, "is"), *tolerance = json_object_get(test, "within");
	const char *hint = json_string_value(json_object_get(test, "hint"));
	const char *command = grading_command(g, json_string_value(json_object_get(is, "run")));
	const char *metric = json_string_value(json_object_get(is, "metric"));
	char a[TEXT_NUMBER];
	double said = 0, v = 0;
	int rc = grading_number(g, key, &said, e);
	rc = rc ? rc : grading_value(g, is, &v, e);
	if (rc != ERR_NONE)
		return rc;
	if (fabs(said - v) <= (tolerance ? json_number_value(tolerance) : 0.01) * fabs(v) + 1e-12)
		return ERR_NONE;
	return err_set(e, ANSWER_WRONG, "%s: %s is not what comes out%s%s%s%s%s%s", key, text_value(said, "x", a),
		       metric ? "; look at " : "", metric ? metric : "", command ? " of `lockstep " : "",
		       command ? command : "", command ? "`" : "", hint ? hint : "");
}

/* *missed: there is a figure, and it is not good enough. */
static int one_requirement(struct grading *g, const json_t *r, bool *missed, struct err *e)
{
	const char *what = json_string_value(json_object_get(r, "what"));
	const char *unit = json_string_value(json_object_get(r, "unit"));
	const json_t *most = json_object_get(r, "at_most"), *least = json_object_get(r, "at_least");
	char a[TEXT_NUMBER], b[TEXT_NUMBER];
	double v = 0, bound = 0;
	int rc = grading_value(g, json_object_get(r, "value"), &v, e);
	rc = rc ? rc : grading_value(g, most ? most : least, &bound, e);
	if (rc != ERR_NONE || (most ? v <= bound : v >= bound))
		return rc;
	*missed = true;
	return err_set(e, ANSWER_WRONG, "%s is %s %s; it must be %s %s", what ? what : "a figure",
		       text_value(v, unit ? unit : "x", a), unit ? unit : "", most ? "at most" : "at least",
		       text_value(bound, unit ? unit : "x", b));
}

static int test_require(struct grading *g, const json_t *test, struct grade_test *t, struct err *e)
{
	const json_t *r;
	size_t i;
	int rc = ERR_NONE;
	bool missed = false;
	json_array_foreach(json_object_get(test, "require"), i, r)
	{
		rc = one_requirement(g, r, &missed, e);
		if (rc != ERR_NONE)
			break;
	}
	const char *why = json_string_value(json_object_get(test, rc ? "hint" : "why"));
	if (missed && why && strlen(e->text) + strlen(why) + 4 < sizeof e->text)
		snprintf(e->text + strlen(e->text), sizeof e->text - strlen(e->text), ". %s", why);
	else if (rc == ERR_NONE)
		snprintf(t->message, sizeof t->message, "%s", why ? why : "");
	return rc;
}

static int one_test(struct grading *g, const json_t *test, struct grade_test *t, struct err *e)
{
	if (json_object_get(test, "predict"))
		return test_predict(g, test, t, e);
	if (json_object_get(test, "figure"))
		return test_figure(g, test, e);
	if (json_object_get(test, "choice"))
		return test_choice(g, test, t, e);
	if (json_object_get(test, "require"))
		return test_require(g, test, t, e);
	return err_set(e, ERR_INPUT, "%s: test \"%s\" is of no known kind", g->where, t->name);
}

static int run_tests(struct grading *g, struct grade *to, struct err *e)
{
	const json_t *tests = json_object_get(g->spec, "tests"), *test;
	size_t i;
	to->tests = mem_zalloc(json_array_size(tests) + 1, sizeof *to->tests);
	if (!to->tests)
		return err_no_memory(e, "lab");
	json_array_foreach(tests, i, test)
	{
		struct grade_test *t = &to->tests[to->n++];
		struct err wrong = {0};
		double began = now_s();
		t->name = json_string_value(json_object_get(test, "name"));
		t->of = (int)json_integer_value(json_object_get(test, "points"));
		if (!t->name || t->of <= 0)
			return err_set(e, ERR_INPUT, "%s: test %zu needs a name and points", g->where, i + 1);
		int rc = one_test(g, test, t, &wrong);
		if (rc != ERR_NONE && rc != ANSWER_WRONG)
			return err_set(e, rc, "%s", wrong.text);
		if (rc != ERR_NONE)
			snprintf(t->message, sizeof t->message, "%s", wrong.text);
		t->points = rc == ERR_NONE ? t->of : 0;
		t->seconds = now_s() - began;
		to->points += t->points;
		to->of += t->of;
	}
	return ERR_NONE;
}

/* --- what tests need ------------------------------------------------------------------------------------------------ */

static int remove_one(const char *path, const struct stat *s, int flag, struct FTW *f)
{
	(void)s, (void)flag, (void)f;
	remove(path);
	return 0;
}

static int make_folder(const struct lab *l, char folder[256], struct err *e)
{
	const char *where = getenv("TMPDIR");
	char path[600];
	snprintf(folder, 256, "%s/lockstep-lab-XXXXXX", where && strlen(where) < 200 ? where : "/tmp");
	if (!mkdtemp(folder)) {
		int rc = err_set(e, ERR_IO, "%s: %s", folder, strerror(errno));
		folder[0] = '\0';
		return rc;
	}
	for (int i = 0; i < l->n_files; i++) {
		snprintf(path, sizeof path, "%s/%s", folder, l->files[i].name);
		FILE *f = fopen(path, "w");
		bool ok = f && fputs(l->files[i].text, f) >= 0;
		if ((f && fclose(f) != 0) || !ok)
			return err_set(e, ERR_IO, "%s: %s", path, strerror(errno));
	}
	return ERR_NONE;
}

static char *read_answer(const char *path, struct err *e)
{
	FILE *f = fopen(path, "rb");
	if (!f) {
		err_set(e, ERR_INPUT, "%s: %s", path, strerror(errno));
		return NULL;
	}
	char *text = mem_alloc(ANSWERS_MAX + 1);
	size_t n = text ? fread(text, 1, ANSWERS_MAX + 1, f) : 0;
	int why = errno;
	bool bad = ferror(f);
	fclose(f);
	if (!text)
		err_no_memory(e, "answers");
	else if (bad)
		err_set(e, ERR_INPUT, "%s: %s", path, strerror(why));
	else if (n > ANSWERS_MAX)
		err_set(e, ERR_INPUT, "%s: larger than 1 MiB: is it the right file?", path);
	if (!text || bad || n > ANSWERS_MAX) {
		mem_free(text);
		return NULL;
	}
	text[n] = '\0';
	return text;
}

static int read_answers(const struct lab *l, const char *path, json_t **to, struct err *e)
{
	char *text = read_answer(path, e);
	if (!text)
		return e->code;
	*to = l->policy ? json_object() : json_read_object(text, path, e);
	mem_free(text);
	return *to ? ERR_NONE : err_set(e, e->code ? e->code : ERR_MEMORY, "out of memory (answers)");
}

/* The first complaint of a compiler, without its path. */
static void complaint(const char *errors, const char *path, char *to, size_t size)
{
	const char *at = strstr(errors, "error:");
	while (at && at > errors && at[-1] != '\n')
		at--;
	at = at ? at : errors;
	size_t n = strlen(path);
	if (strncmp(at, path, n) == 0 && at[n] == ':')
		snprintf(to, size, "line %.*s", (int)strcspn(at + n + 1, "\n"), at + n + 1);
	else
		snprintf(to, size, "%.*s", (int)strcspn(at, "\n"), at);
}

/* The student's C file becomes policy.so in the folder; *why: what the compiler has against it, "" = nothing. ERR_INPUT when it
 * is not the student's fault. */
static int compile(struct grading *g, const char *path, char so[300], char why[600], struct err *e)
{
	static const char *const compilers[] = {"cc", "gcc", "clang"};
	char headers[512], include[600];
	const char *own = getenv("CC");
	if (plugin_headers(headers, sizeof headers, e) != ERR_NONE)
		return e->code;
	snprintf(include, sizeof include, "-I%s", headers);
	snprintf(so, 300, "%s/policy.so", g->folder);
	for (size_t i = 0; i < sizeof compilers / sizeof *compilers; i++) {
		const char *argv[] = {own && own[0] ? own : compilers[i],
				      "-std=c17",
				      "-O2",
				      "-g",
				      "-fPIC",
				      "-shared",
				      include,
				      "-o",
				      so,
				      path,
				      NULL};
		struct child c = {.argv = argv, .seconds = g->seconds, .stop = g->stop};
		struct child_result r;
		int rc = child_run(&c, &r, e);
		if (rc != ERR_NONE)
			return rc;
		bool there = r.status != 127;
		why[0] = '\0';
		if (r.timed_out || r.too_much)
			snprintf(why, 600, "the compiler comes to no end");
		else if (r.status != 0)
			complaint(r.errors, path, why, 600);
		if (r.status != 0 && !why[0])
			snprintf(why, 600, "the compiler fails without a word");
		child_free(&r);
		if (there)
			return ERR_NONE;
	}
	return err_set(e, ERR_INPUT, "no C compiler: cc, gcc or clang (or CC=...) is needed to grade a policy");
}

int lab_grade(const struct lab *l, const char *path, const struct grade_options *o, struct grade *to, struct err *e)
{
	char folder[256] = "", where[300], so[300] = "", why[600] = "";
	json_t *answers = NULL;
	*to = (struct grade){0};
	snprintf(where, sizeof where, "lab %s: grade.json", l->name);
	const json_t *seconds = json_object_get(l->spec, "seconds");
	to->seconds_allowed = seconds ? json_number_value(seconds) : 20;
	struct grading g = {.spec = l->spec,
			    .where = where,
			    .folder = folder,
			    .seed = o->seed,
			    .seconds = to->seconds_allowed,
			    .stop = o->stop,
			    .program = o->program,
			    .done = json_object()};
	int rc = g.done ? read_answers(l, path, &answers, e) : err_no_memory(e, "lab");
	g.answers = answers;
	if (rc == ERR_NONE)
		rc = make_folder(l, folder, e);
	if (rc == ERR_NONE && l->policy)
		rc = compile(&g, path, so, why, e);
	g.policy = so[0] && !why[0] ? so : NULL;
	g.no_policy = why[0] ? why : NULL;
	if (rc == ERR_NONE)
		rc = run_tests(&g, to, e);
	if (folder[0])
		nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
	json_decref(answers);
	json_decref(g.done);
	return rc;
}

void grade_free(struct grade *g)
{
	mem_free(g->tests);
	*g = (struct grade){0};
}
