#include "cli/lab_html.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cli/lab.h"
#include "core/err.h"

static const char style[] =
	":root{color-scheme:light dark;--line:#8884;--good:#1a7f37;--bad:#c4320a}\n"
	"@media(prefers-color-scheme:dark){:root{--good:#56d364;--bad:#ff9a6b}}\n"
	"body{font:16px/1.5 system-ui,sans-serif;max-width:52rem;margin:2rem auto;padding:0 1rem}\n"
	"table{border-collapse:collapse;width:100%}\n"
	"th,td{text-align:left;vertical-align:top;padding:.5rem .75rem;border-bottom:1px solid var(--line)}\n"
	"td.points{white-space:nowrap;font-variant-numeric:tabular-nums}\n"
	".all{color:var(--good)}.missed{color:var(--bad)}\n"
	"p.sum{font-size:1.25rem}\n"
	"pre{overflow:auto;padding:1rem;border:1px solid var(--line);font-size:.85rem}\n"
	"@media print{body{margin:0;max-width:none}pre{white-space:pre-wrap}}\n";

/* Whatever a student or a file's name says is text. */
static void put(FILE *f, const char *text)
{
	for (; *text; text++) {
		if (*text == '<')
			fputs("&lt;", f);
		else if (*text == '>')
			fputs("&gt;", f);
		else if (*text == '&')
			fputs("&amp;", f);
		else if (*text == '"')
			fputs("&quot;", f);
		else if ((unsigned char)*text >= ' ' || *text == '\n' || *text == '\t')
			fputc(*text, f);
		else
			fputc(' ', f);
	}
}

static void put_test(FILE *f, const struct grade_test *t)
{
	bool all = t->points == t->of;
	fprintf(f, "<tr><td class=\"points %s\">%s %d of %d</td><td>", all ? "all" : "missed",
		all ? "&#10003;" : "&#10007;", t->points, t->of);
	put(f, t->name);
	fputs("</td><td>", f);
	put(f, t->message);
	fputs("</td></tr>\n", f);
}

/* The answer itself, as far as it is text. */
static void put_answer(FILE *f, const char *path)
{
	char buf[4096];
	FILE *in = fopen(path, "r");
	if (!in)
		return;
	fputs("<h2>What was graded</h2>\n<pre>", f);
	while (fgets(buf, sizeof buf, in))
		put(f, buf);
	fputs("</pre>\n", f);
	fclose(in);
}

int lab_html_write(const char *path, const struct lab *l, const char *answer, const struct grade *g, struct err *e)
{
	FILE *f = fopen(path, "w");
	if (!f)
		return err_set(e, ERR_IO, "%s: %s", path, strerror(errno));
	fputs("<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n"
	      "<meta name=\"viewport\" content=\"width=device-width\">\n<title>Lab ",
	      f);
	put(f, l->name);
	fprintf(f, "</title>\n<style>\n%s</style>\n<main>\n<h1>Lab ", style);
	put(f, l->name);
	fputs(": ", f);
	put(f, l->title);
	fprintf(f, "</h1>\n<p class=\"sum\">%d of %d points</p>\n<p>", g->points, g->of);
	put(f, answer);
	fputs("</p>\n<table>\n<thead><tr><th scope=\"col\">Points</th><th scope=\"col\">Test</th>"
	      "<th scope=\"col\">What there is to say</th></tr></thead>\n<tbody>\n",
	      f);
	for (int i = 0; i < g->n; i++)
		put_test(f, &g->tests[i]);
	fputs("</tbody>\n</table>\n", f);
	put_answer(f, answer);
	fputs("</main>\n</html>\n", f);
	bool bad = ferror(f) != 0;
	if (fclose(f) != 0 || bad)
		return err_set(e, ERR_IO, "%s: %s", path, strerror(errno));
	return ERR_NONE;
}
