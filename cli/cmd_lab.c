/* lockstep lab: courses with this program: list, start, grade. */
#include <stdio.h>
#include <string.h>

#include "analysis/jout.h"
#include "cli/command.h"
#include "cli/lab.h"
#include "cli/lab_html.h"
#include "core/err.h"

/* --- list --------------------------------------------------------------------------------------------------------- */

struct list_opts {
	bool json;
};

static const struct opt list_opts[] = {
	{.name = "json",
	 .type = OPT_FLAG,
	 .offset = offsetof(struct list_opts, json),
	 .help = "Print one JSON object: {\"labs\": [{lab, title, answer, points}]}."},
};

static int points_of(const struct lab *l)
{
	const json_t *test;
	size_t i;
	int n = 0;
	json_array_foreach(json_object_get(l->spec, "tests"), i, test) n +=
		(int)json_integer_value(json_object_get(test, "points"));
	return n;
}

static int list_one(const char *name, struct jout *j, struct err *e)
{
	struct lab l;
	int rc = lab_open(&l, name, e);
	if (rc == ERR_NONE && j) {
		jout_begin(j, NULL, '{');
		jout_text(j, "lab", name);
		jout_text(j, "title", l.title);
		jout_text(j, "answer", l.answer);
		jout_int(j, "points", points_of(&l));
		jout_end(j, '}');
	} else if (rc == ERR_NONE) {
		printf("%3s  %-52s  %3d points  %s\n", name, l.title, points_of(&l), l.answer);
	}
	lab_close(&l);
	return rc;
}

static int run_list(const struct command *c, int argc, char **argv)
{
	struct list_opts o = {0};
	struct err e = {0};
	struct jout j;
	char name[16];
	int n, rc = opts_parse(list_opts, c->n_opts, &o, argc, argv, &n, NULL, &e);
	if (rc == ERR_NONE && n)
		rc = err_set(&e, ERR_INPUT, "\"%s\": it takes no words", argv[1]);
	if (rc != ERR_NONE)
		return command_fail(c, &e);
	if (o.json) {
		jout_open(&j, stdout);
		jout_begin(&j, NULL, '{');
		jout_begin(&j, "labs", '[');
	}
	for (int i = 0; rc == ERR_NONE && lab_number(i, name); i++)
		rc = list_one(name, o.json ? &j : NULL, &e);
	if (o.json) {
		jout_end(&j, ']');
		jout_end(&j, '}');
		char *none;
		int closed = jout_close(&j, &none, &e);
		rc = rc ? rc : closed;
		putchar('\n');
	} else {
		printf("\n`lockstep lab start 1` makes a folder with what lab 1 needs: read its README.md first.\n");
	}
	return rc ? command_fail(c, &e) : 0;
}

const struct command cmd_lab_list = {
	.name = "lab list",
	.synopsis = "[--json]",
	.summary = "List the labs",
	.about = "Labs are exercises about batching, KV memory and scheduling, done with this program: a page to "
		 "read, questions to answer before running anything, a file to fill in or to write, and a grader. "
		 "They need no GPU and no download, and give the same numbers on every machine.",
	.examples = "lockstep lab list\n",
	.opts = list_opts,
	.n_opts = sizeof list_opts / sizeof *list_opts,
	.run = run_list,
};

/* --- start -------------------------------------------------------------------------------------------------------- */

static int run_start(const struct command *c, int argc, char **argv)
{
	struct err e = {0};
	struct lab l = {0};
	char folder[300];
	int n, rc = opts_parse(NULL, 0, NULL, argc, argv, &n, NULL, &e);
	if (rc == ERR_NONE && n == 0)
		rc = err_set(&e, ERR_INPUT, "which lab? `lockstep lab list` shows them");
	if (rc == ERR_NONE && n > 2)
		rc = err_set(&e, ERR_INPUT, "a lab and a folder: \"%s\" is one too many", argv[3]);
	if (rc == ERR_NONE)
		rc = lab_open(&l, argv[1], &e);
	const char *slash = strrchr(l.name, '/');
	snprintf(folder, sizeof folder, "%s%s", n > 1 ? "" : "lab-", n > 1 ? argv[2] : slash ? slash + 1 : l.name);
	if (rc == ERR_NONE)
		rc = lab_start(&l, folder, &e);
	if (rc == ERR_NONE)
		printf("Lab %s: %s\n\nRead %s/README.md, then work on %s/%s. When done, or in between:\n\n"
		       "    cd %s && lockstep lab grade %s %s\n",
		       l.name, l.title, folder, folder, l.answer, folder, l.name, l.answer);
	lab_close(&l);
	return rc ? command_fail(c, &e) : 0;
}

const struct command cmd_lab_start = {
	.name = "lab start",
	.synopsis = "LAB [FOLDER]",
	.summary = "Make a folder with what a lab needs",
	.about = "Makes FOLDER (lab-LAB if none is given) with the lab's page, README.md, and the file to start from. "
		 "Nothing that is there already is touched. LAB is a number of `lockstep lab list`, or a folder with "
		 "a lab of your own (docs/labs/README.md tells how to write one).",
	.examples = "lockstep lab start 1\n",
	.run = run_start,
};

/* --- grade -------------------------------------------------------------------------------------------------------- */

struct grade_opts {
	uint64_t seed;
	const char *html;
	bool json;
};

static const struct opt grade_opts[] = {
	{.name = "seed",
	 .type = OPT_UINT64,
	 .offset = offsetof(struct grade_opts, seed),
	 .arg = "N",
	 .help = "Seed of the hidden traces. Whoever gives marks takes one that nobody knows. Default: one of its own, "
		 "so that "
		 "students see the same points each time."},
	{.name = "html",
	 .type = OPT_STRING,
	 .offset = offsetof(struct grade_opts, html),
	 .arg = "FILE",
	 .help = "Also write points, messages and the answer as a page for the browser, which needs nothing else."},
	{.name = "json",
	 .type = OPT_FLAG,
	 .offset = offsetof(struct grade_opts, json),
	 .help = "Print one JSON object: {lab, title, file, points, of, seconds_allowed, tests: [{name, points, of, "
		 "passed, "
		 "message, seconds}]}."},
};

static int print_json(const struct lab *l, const char *file, const struct grade *g, struct err *e)
{
	struct jout j;
	jout_open(&j, stdout);
	jout_begin(&j, NULL, '{');
	jout_text(&j, "lab", l->name);
	jout_text(&j, "title", l->title);
	jout_text(&j, "file", file);
	jout_int(&j, "points", g->points);
	jout_int(&j, "of", g->of);
	jout_real(&j, "seconds_allowed", g->seconds_allowed);
	jout_begin(&j, "tests", '[');
	for (int i = 0; i < g->n; i++) {
		const struct grade_test *t = &g->tests[i];
		jout_begin(&j, NULL, '{');
		jout_text(&j, "name", t->name);
		jout_int(&j, "points", t->points);
		jout_int(&j, "of", t->of);
		jout_bool(&j, "passed", t->points == t->of);
		jout_text(&j, "message", t->message[0] ? t->message : NULL);
		jout_real(&j, "seconds", t->seconds);
		jout_end(&j, '}');
	}
	jout_end(&j, ']');
	jout_end(&j, '}');
	char *none;
	int rc = jout_close(&j, &none, e);
	putchar('\n');
	return rc;
}

/* Text in lines of at most 80 columns, after `indent` blanks. */
static void print_wrapped(const char *text, int indent)
{
	int column = 80;
	for (const char *p = text + strspn(text, " "); *p; p += strspn(p, " ")) {
		int n = (int)strcspn(p, " ");
		if (column + 1 + n > 80) {
			printf("%s%*s", p == text ? "" : "\n", indent, "");
			column = indent;
		} else {
			putchar(' ');
			column++;
		}
		printf("%.*s", n, p);
		column += n;
		p += n;
	}
	putchar('\n');
}

static void print_text(const struct lab *l, const struct grade *g)
{
	printf("Lab %s: %s\n\n", l->name, l->title);
	for (int i = 0; i < g->n; i++) {
		const struct grade_test *t = &g->tests[i];
		printf("%s %2d of %2d  %s\n", t->points == t->of ? "  ok  " : "  --  ", t->points, t->of, t->name);
		if (t->message[0])
			print_wrapped(t->message, 17);
	}
	printf("\n%d of %d points\n", g->points, g->of);
}

static int run_grade(const struct command *c, int argc, char **argv)
{
	struct grade_opts o = {.seed = GRADE_SEED};
	struct err e = {0};
	struct lab l = {0};
	struct grade g = {0};
	int n, rc = opts_parse(grade_opts, c->n_opts, &o, argc, argv, &n, NULL, &e);
	if (rc == ERR_NONE && n != 2)
		rc = err_set(&e, ERR_INPUT, "it takes a lab and a file: lockstep lab grade 1 answers.json");
	if (rc == ERR_NONE)
		rc = lab_open(&l, argv[1], &e);
	if (rc == ERR_NONE)
		rc = lab_grade(&l, argv[2], &(struct grade_options){.seed = o.seed, .stop = stop_flag()}, &g, &e);
	if (rc == ERR_NONE && o.html)
		rc = lab_html_write(o.html, &l, argv[2], &g, &e);
	if (rc == ERR_NONE && o.json)
		rc = print_json(&l, argv[2], &g, &e);
	else if (rc == ERR_NONE)
		print_text(&l, &g);
	int status = rc ? command_fail(c, &e) : g.points < g.of;
	grade_free(&g);
	lab_close(&l);
	return status;
}

const struct command cmd_lab_grade = {
	.name = "lab grade",
	.synopsis = "[OPTIONS] LAB FILE",
	.summary = "Say how many points an answer gets, and why not more",
	.about = "Runs what the lab's grader runs: the commands of the lab's page, whose figures are held against "
		 "those filled in, and hidden traces, which settings and policies have to do well on. Each run is a "
		 "process of its own with limits of time and memory: an answer that crashes or loops loses points, "
		 "nothing else.\n\n"
		 "A prediction counts when it is there with its reason; whether it came true is told and costs "
		 "nothing.\n\n"
		 "A policy is compiled and run: grade what strangers wrote where nothing is to be lost.\n\n"
		 "Exit status: 0 when all points were reached, 1 when not, 2 when the input is wrong.",
	.examples = "lockstep lab grade 1 answers.json\n"
		    "# for the browser\n"
		    "lockstep lab grade 1 answers.json --html grade.html\n"
		    "# for marks: hidden traces of a seed that nobody knows, as JSON\n"
		    "lockstep lab grade 2 answers.json --seed 8151 --json\n",
	.opts = grade_opts,
	.n_opts = sizeof grade_opts / sizeof *grade_opts,
	.run = run_grade,
};
