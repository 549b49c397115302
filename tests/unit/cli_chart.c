/* Charts in text: no line is wider than asked, what is drawn is what was given, ASCII is ASCII, colour only where wanted; columns of
 * time hold what happened in them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/time_columns.h"
#include "cli/chart.h"
#include "core/err.h"
#include "core/rng.h"
#include "tests/support/suite.h"

/* What a chart printed, line by line; line i ends at its '\0'. */
struct printed {
	char *text;
	size_t size;
	char *line[64];
	int n;
};

static void split(struct printed *p)
{
	p->n = 0;
	for (char *at = p->text, *end; *at && p->n < 64; at = end + 1) {
		end = strchr(at, '\n');
		CU_ASSERT_PTR_NOT_NULL_FATAL(end);
		*end = '\0';
		p->line[p->n++] = at;
	}
}

static void print_bars(struct printed *p, const struct chart_style *s, const struct chart_bars *b, double to_s)
{
	FILE *f = open_memstream(&p->text, &p->size);
	chart_bars(f, s, b);
	chart_time_axis(f, s, b->n, 0, to_s);
	fclose(f);
	split(p);
}

static void print_cdf(struct printed *p, const struct chart_style *s, const double *v, int64_t n)
{
	FILE *f = open_memstream(&p->text, &p->size);
	chart_cdf(f, s, &(struct chart_cdf){.title = "T", .values = v, .n = n, .height = 5, .unit = "ms"});
	fclose(f);
	split(p);
}

/* Characters, for what has no wide ones. */
static int length(const char *s)
{
	int n = 0;
	for (; *s; s++)
		n += ((unsigned char)*s & 0xc0) != 0x80;
	return n;
}

static const char *at_column(const char *s, int n)
{
	for (; n > 0 && *s; n--)
		do
			s++;
		while (((unsigned char)*s & 0xc0) == 0x80);
	return s;
}

static void bars_are_as_high_as_their_values(void)
{
	const double solid[] = {0, 1, 8, 16, 12, 0.01, 0}, light[] = {0, 16, 8, 16, 16, 0.01, 0};
	struct chart_style s = {.width = 40};
	struct printed p;
	print_bars(&p, &s, &(struct chart_bars){"Title", "note", solid, light, 7, 2, 16, ""}, 7);
	CHECK_STR(p.line[0], "Title  note");
	CHECK_STR(p.line[1], "     16 \xe2\x94\x82 \xe2\x96\x91 \xe2\x96\x88\xe2\x96\x84"); /* │ ░ █▄ */
	CHECK_STR(p.line[2],
		  "      0 \xe2\x94\x82 \xe2\x96\x81\xe2\x96\x88\xe2\x96\x88\xe2\x96\x88\xe2\x96\x81"); /* │ ▁███▁ */
	free(p.text);
	s.ascii = true;
	print_bars(&p, &s, &(struct chart_bars){"Title", NULL, solid, light, 7, 2, 16, "%"}, 7);
	CHECK_STR(p.line[0], "Title");
	CHECK_STR(p.line[1], "   16 % | . ##");
	CHECK_STR(p.line[2], "      0 | :###:");
	CHECK_STR(p.line[3], "        +-------");
	free(p.text);
	/* Nothing at all, and values above the top, not a number, below zero. */
	const double odd[] = {NAN, -5, 99, INFINITY};
	print_bars(&p, &s, &(struct chart_bars){"Odd", NULL, odd, NULL, 4, 1, 10, ""}, 4);
	CHECK_STR(p.line[1], "     10 |  ##");
	free(p.text);
}

static void no_line_is_wider_than_asked(void)
{
	static const double tops[] = {1e-9, 0.5, 1, 999, 1000, 123456, 1e6, 123456789, 9.9e17};
	static const double spans_s[] = {1e-6, 0.03, 0.9, 7, 86, 599, 5000, 20000, 1e5, 1e7, 3e8};
	struct rng r;
	rng_init(&r, 3, 3);
	for (int width = 40; width <= 240; width += 37) {
		for (int ascii = 0; ascii < 2; ascii++) {
			struct chart_style s = {.width = width, .ascii = ascii};
			int n = chart_columns(&s);
			double *v = calloc((size_t)n, sizeof *v);
			struct printed p;
			for (size_t k = 0; k < sizeof tops / sizeof *tops * (sizeof spans_s / sizeof *spans_s); k++) {
				double top = tops[k % 9];
				for (int i = 0; i < n; i++)
					v[i] = top * (double)rng_below(&r, 1000) / 1000;
				print_bars(&p, &s, &(struct chart_bars){"", NULL, v, NULL, n, 3, top, "%"},
					   spans_s[k / 9]);
				CHECK_INT(p.n, 6);
				for (int i = 0; i < p.n; i++) {
					CU_ASSERT_TRUE(length(p.line[i]) <= width);
					CU_ASSERT_TRUE(!ascii || length(p.line[i]) == (int)strlen(p.line[i]));
					CU_ASSERT_PTR_NULL(strchr(p.line[i], '\033'));
				}
				/* The plot begins in one column. */
				for (int i = 1; i < 4; i++)
					CHECK_INT(strncmp(at_column(p.line[i], CHART_GUTTER - 1),
							  ascii ? "|" : "\xe2\x94\x82", ascii ? 1 : 3),
						  0);
				CU_ASSERT_TRUE(strspn(p.line[5], " ") < strlen(p.line[5]));
				free(p.text);
			}
			free(v);
		}
	}
}

/* Every column's lowest dot of the curve is where the share of values at or below its right edge says. */
static void a_curve_is_the_distribution(void)
{
	enum { N = 500 };
	struct rng r;
	double v[N];
	struct printed p;
	struct chart_style s = {.width = 90, .ascii = true};
	rng_init(&r, 8, 1);
	double x = 3;
	for (int i = 0; i < N; i++)
		v[i] = x += (double)rng_below(&r, 100) / (i % 50 ? 50 : 1);
	print_cdf(&p, &s, v, N);
	CHECK_INT(p.n, 8);
	CHECK_INT(strncmp(p.line[1], "  100 % |", 9), 0);
	CHECK_INT(strncmp(p.line[3], "   50 % |", 9), 0);
	CHECK_INT(strncmp(p.line[5], "    0 % |", 9), 0);
	int n = chart_columns(&s), before = 4;
	for (int c = 0; c < n; c++) {
		double edge = c + 1 == n ? v[N - 1] : v[0] * pow(v[N - 1] / v[0], (c + 1.0) / n);
		int at = 0;
		while (at < N && v[at] <= edge)
			at++;
		int row = (int)((1 - (double)at / N) * 4 + 0.5), top = 5;
		for (int y = 4; y >= 0; y--)
			if ((int)strlen(p.line[1 + y]) > CHART_GUTTER + c && p.line[1 + y][CHART_GUTTER + c] == '*')
				top = y;
		CHECK_INT(top, row);
		CU_ASSERT_TRUE(row <= before);
		before = row;
	}
	free(p.text);
	/* The same in braille: twice as fine, and never below. */
	s.ascii = false;
	print_cdf(&p, &s, v, N);
	CHECK_INT(p.n, 8);
	for (int i = 0; i < p.n; i++)
		CU_ASSERT_TRUE(length(p.line[i]) <= s.width);
	CHECK_INT(length(p.line[1]), s.width); /* all of them are at or below the largest */
	free(p.text);
}

static void few_values_have_a_picture_too(void)
{
	struct chart_style s = {.width = 60};
	struct printed p;
	const double same[] = {7, 7, 7}, zero[] = {0, 0, 5, 9}, near[] = {100, 101}, far[] = {1e-4, 1e9},
		     below[] = {-3, -1, 2};
	print_cdf(&p, &s, NULL, 0);
	CHECK_INT(p.n, 1);
	free(p.text);
	print_cdf(&p, &s, same, 3);
	CHECK_STR(p.line[1], "          all of them 7.000 ms");
	free(p.text);
	const struct {
		const double *v;
		int n;
	} rest[] = {{zero, 4}, {near, 2}, {far, 2}, {below, 3}};
	for (int i = 0; i < 4; i++) {
		print_cdf(&p, &s, rest[i].v, rest[i].n);
		CHECK_INT(p.n, 8);
		for (int k = 0; k < p.n; k++)
			CU_ASSERT_TRUE(length(p.line[k]) <= s.width);
		free(p.text);
	}
}

static void colour_is_put_back(void)
{
	const double v[] = {1, 2};
	struct chart_style s = {.width = 60, .color = true};
	struct printed p;
	print_bars(&p, &s, &(struct chart_bars){"T", NULL, v, NULL, 2, 2, 2, ""}, 2);
	for (int i = 0; i < p.n; i++) {
		const char *last = NULL;
		for (const char *at = p.line[i]; (at = strstr(at, "\033[")); at++)
			last = at;
		CU_ASSERT_TRUE(!last || strncmp(last, "\033[0m", 4) == 0);
	}
	CU_ASSERT_PTR_NOT_NULL(strstr(p.line[0], "\033[1mT\033[0m"));
	free(p.text);
}

static void setting(const char *name, const char *value)
{
	if (value)
		setenv(name, value, 1);
	else
		unsetenv(name);
}

static void the_environment_decides(void)
{
	static const struct {
		const char *all, *ctype, *lang, *columns;
		int ascii, width;
	} cases[] = {
		{NULL, NULL, NULL, NULL, 1, 80},         {NULL, NULL, "en_US.UTF-8", "100", 0, 100},
		{"C", NULL, "en_US.UTF-8", "7", 1, 40},  {NULL, "de_DE.utf8", "C", "9999", 0, 240},
		{"", "", "C.UTF-8", "x", 0, 80},         {"POSIX", "C.UTF-8", "C.UTF-8", "", 1, 80},
		{NULL, "fr_FR", "C.UTF-8", "-3", 1, 80},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct chart_style s;
		setting("LC_ALL", cases[i].all);
		setting("LC_CTYPE", cases[i].ctype);
		setting("LANG", cases[i].lang);
		setting("COLUMNS", cases[i].columns);
		chart_style_detect(&s, 1);
		CHECK_INT(s.ascii, cases[i].ascii);
		CHECK_INT(s.width, cases[i].width);
	}
}

/* --- columns of time ---------------------------------------------------------------------------------------------- */

static void columns_hold_what_happened_in_them(void)
{
	struct rng r;
	struct err e = {0};
	rng_init(&r, 5, 5);
	for (int round = 0; round < 40; round++) {
		struct step_groups g;
		struct time_column at[17] = {{0}};
		int n = 1 + (int)rng_below(&r, 17), steps = 1 + (int)rng_below(&r, 300);
		int64_t t = 0, busy = 0, decodes = 0;
		int32_t waiting = 0;
		double used = 0;
		step_groups_init(&g, 1 + (int64_t)rng_below(&r, 50));
		for (int i = 0; i < steps; i++) {
			struct step_row x = {.step = i,
					     .start_ns = t + (int64_t)(rng_below(&r, 4) ? 0 : rng_below(&r, 500))};
			x.end_ns = t = x.start_ns + (int64_t)rng_below(&r, 90);
			x.decodes = (int32_t)rng_below(&r, 9);
			x.waiting = (int32_t)rng_below(&r, 99);
			x.blocks_used = (int32_t)rng_below(&r, 99);
			busy += x.end_ns - x.start_ns;
			decodes += x.decodes;
			used += (double)(x.end_ns - x.start_ns) * x.blocks_used;
			waiting = x.waiting > waiting ? x.waiting : waiting;
			CHECK_INT(step_groups_add(&g, &x, &e), ERR_NONE);
		}
		time_columns_add_steps(at, n, 0, t + 1, &g);
		struct time_column sum = {0};
		for (int c = 0; c < n; c++) {
			sum.busy_ns += at[c].busy_ns;
			sum.steps += at[c].steps;
			sum.decodes += at[c].decodes;
			sum.used_ns += at[c].used_ns;
			sum.waiting = at[c].waiting > sum.waiting ? at[c].waiting : sum.waiting;
			CU_ASSERT_TRUE(at[c].busy_ns <= (double)(t + 1) / n + (g.per > 1 ? 1e9 : 1e-6));
		}
		CHECK_NEAR(sum.busy_ns, (double)busy, 1e-6 * (double)busy + 1e-9);
		CHECK_NEAR(sum.steps, steps, 1e-6);
		CHECK_NEAR(sum.decodes, (double)decodes, 1e-6 * (double)decodes + 1e-9);
		CHECK_NEAR(sum.used_ns, used, 1e-6 * used + 1e-9);
		CHECK_INT(sum.waiting, waiting);
		step_groups_free(&g);
	}
}

static void loads_are_means_over_all_of_a_column(void)
{
	/* Replica 0 has two waiting from 10 to 20, replica 1 four running from 15 on. */
	const struct timeline_load load[] = {{10, 0, 2, 0}, {20, 0, 0, 0}, {15, 1, 0, 4}};
	struct time_column at[4] = {{0}};
	time_columns_add_load(at, 4, 0, 40, load, 3);
	static const double waiting[] = {0, 2, 0, 0}, running[] = {0, 2, 4, 4};
	for (int c = 0; c < 4; c++) {
		CHECK_NEAR(time_column_mean(&at[c], at[c].waiting_ns), waiting[c], 1e-9);
		CHECK_NEAR(time_column_mean(&at[c], at[c].running_ns), running[c], 1e-9);
	}
	struct time_column none[3] = {{0}};
	time_columns_add_load(none, 3, 0, 40, load, 0);
	CHECK_NEAR(time_column_mean(&none[0], 5), 0, 0);
}

int main(void)
{
	static const struct test tests[] = {
		{"bars_are_as_high_as_their_values", bars_are_as_high_as_their_values},
		{"no_line_is_wider_than_asked", no_line_is_wider_than_asked},
		{"a_curve_is_the_distribution", a_curve_is_the_distribution},
		{"few_values_have_a_picture_too", few_values_have_a_picture_too},
		{"colour_is_put_back", colour_is_put_back},
		{"the_environment_decides", the_environment_decides},
		{"columns_hold_what_happened_in_them", columns_hold_what_happened_in_them},
		{"loads_are_means_over_all_of_a_column", loads_are_means_over_all_of_a_column},
	};
	return SUITE_RUN("cli_chart", tests);
}
