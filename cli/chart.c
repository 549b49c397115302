#include "cli/chart.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "analysis/text.h"

enum { MIN_WIDTH = 40, MAX_WIDTH = 240, DEFAULT_WIDTH = 80, MAX_CELLS = MAX_WIDTH, MAX_HEIGHT = 16 };

/* --- the terminal ------------------------------------------------------------------------------------------------- */

static bool says_utf8(const char *locale)
{
	for (; *locale; locale++)
		if (strncasecmp(locale, "utf-8", 5) == 0 || strncasecmp(locale, "utf8", 4) == 0)
			return true;
	return false;
}

/* The first of them that is set decides, as for the C library; the locale need not be installed here. */
static bool is_utf8(void)
{
	static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		const char *v = getenv(names[i]);
		if (v && *v)
			return says_utf8(v);
	}
	return false;
}

static int width_of(int fd)
{
	struct winsize w;
	const char *columns = getenv("COLUMNS");
	int n = DEFAULT_WIDTH;
	if (isatty(fd) && ioctl(fd, TIOCGWINSZ, &w) == 0 && w.ws_col)
		n = w.ws_col;
	else if (columns && atoi(columns) > 0)
		n = atoi(columns);
	return n < MIN_WIDTH ? MIN_WIDTH : n > MAX_WIDTH ? MAX_WIDTH : n;
}

void chart_style_detect(struct chart_style *s, int fd)
{
	const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");
	*s = (struct chart_style){.width = width_of(fd), .ascii = !is_utf8()};
	s->color = isatty(fd) && !(no_color && *no_color) && term && *term && strcmp(term, "dumb") != 0;
}

#define BOLD "1"
#define SOLID_COLOR "36"
#define LIGHT_COLOR "33"

static void paint(FILE *f, const struct chart_style *s, const char *code)
{
	if (s->color)
		fprintf(f, "\033[%sm", code);
}

static void plain(FILE *f, const struct chart_style *s)
{
	if (s->color)
		fputs("\033[0m", f);
}

/* As much of text as has n characters. */
static int bytes_of(const char *text, int n)
{
	int at = 0;
	while (text[at] && n-- > 0)
		for (at++; ((unsigned char)text[at] & 0xc0) == 0x80;)
			at++;
	return at;
}

/* The note is cut where the line would be too wide. */
static void title(FILE *f, const struct chart_style *s, const char *text, const char *note)
{
	int left = s->width - (int)strlen(text) - 2;
	paint(f, s, BOLD);
	fputs(text, f);
	plain(f, s);
	if (note && *note && left > 3) {
		bool all = (int)strlen(note) == bytes_of(note, left);
		fprintf(f, "  %.*s%s", bytes_of(note, all ? left : left - 3), note, all ? "" : "...");
	}
	fputc('\n', f);
}

/* --- axes --------------------------------------------------------------------------------------------------------- */

static const char *bar_of(const struct chart_style *s)
{
	return s->ascii ? "|" : "\xe2\x94\x82"; /* │ */
}

/* "1,000 |" right-aligned before the plot. */
static void row_label(FILE *f, const struct chart_style *s, const char *text)
{
	fprintf(f, "%*s %s", CHART_GUTTER - 2, text, bar_of(s));
}

static void bottom(FILE *f, const struct chart_style *s, int n)
{
	fprintf(f, "%*s%s", CHART_GUTTER - 1, "", s->ascii ? "+" : "\xe2\x94\x94"); /* └ */
	for (int i = 0; i < n; i++)
		fputs(s->ascii ? "-" : "\xe2\x94\x80", f); /* ─ */
	fputc('\n', f);
}

/* Labels below an axis; those that would touch another are left out. */
struct ruler {
	char text[MAX_WIDTH + CHART_GUTTER + 40];
	int width;
};

static void ruler_init(struct ruler *r, int n)
{
	r->width = CHART_GUTTER + n;
	memset(r->text, ' ', sizeof r->text);
}

static void ruler_put(struct ruler *r, int column, const char *label)
{
	int len = (int)strlen(label), at = CHART_GUTTER + column - len / 2;
	if (at + len > r->width)
		at = r->width - len;
	if (at < CHART_GUTTER)
		at = CHART_GUTTER;
	for (int i = at > 1 ? at - 2 : 0; i < at + len + 2 && i < (int)sizeof r->text; i++)
		if (r->text[i] != ' ')
			return;
	memcpy(r->text + at, label, (size_t)len);
}

/* unit: 7 characters at most */
static void ruler_print(FILE *f, struct ruler *r, const char *unit)
{
	int n = r->width;
	while (n > 0 && r->text[n - 1] == ' ')
		n--;
	int len = (int)strlen(unit);
	memcpy(r->text + CHART_GUTTER - 2 - len, unit, (size_t)len); /* below the labels of the rows */
	fprintf(f, "%.*s\n", n, r->text);
}

/* Seven characters at most: "2.5", "1,000", "12.3 M". */
static const char *tick_text(double v, char buf[TEXT_NUMBER])
{
	static const char large[] = "kMGTPE";
	if (v < 1000) {
		snprintf(buf, TEXT_NUMBER, "%.4g", v);
		return buf;
	}
	if (v < 999999.5)
		return text_count((int64_t)llround(v), buf);
	int i = -1;
	for (; i + 2 < (int)sizeof large && v >= 999.5; i++)
		v /= 1000;
	snprintf(buf, TEXT_NUMBER, "%.3g %c", v, large[i < 0 ? 0 : i]);
	return buf;
}

void chart_time_axis(FILE *f, const struct chart_style *s, int n, double from_s, double to_s)
{
	static const struct {
		double up_to_s, one;
		const char *name;
	} units[] = {{0.2, 1e-3, "ms"},
		     {600, 1, "s"},
		     {3 * 3600.0, 60, "min"},
		     {4 * 86400.0, 3600, "h"},
		     {INFINITY, 86400, "days"}};
	int u = 0;
	double long_s = to_s - from_s;
	while (long_s > units[u].up_to_s)
		u++;
	bottom(f, s, n);
	struct ruler r;
	ruler_init(&r, n);
	double one = units[u].one, rough = long_s / one / (n / 11.0),
	       step = pow(10, floor(log10(rough > 0 ? rough : 1)));
	step *= rough > 5 * step ? 10 : rough > 2 * step ? 5 : rough > step ? 2 : 1;
	for (double v = ceil(from_s / one / step - 1e-9) * step; long_s > 0 && v * one <= to_s * (1 + 1e-12);
	     v += step) {
		char buf[TEXT_NUMBER];
		ruler_put(&r, (int)((v * one - from_s) / long_s * n), tick_text(fabs(v) < step * 1e-6 ? 0 : v, buf));
	}
	ruler_print(f, &r, units[u].name);
}

/* --- bars --------------------------------------------------------------------------------------------------------- */

const char *chart_solid(const struct chart_style *s)
{
	return s->ascii ? "#" : "\xe2\x96\x88"; /* █ */
}

const char *chart_light(const struct chart_style *s)
{
	return s->ascii ? "." : "\xe2\x96\x91"; /* ░ */
}

/* Eighths of rows; something is never nothing. */
static int level_of(double v, double top, int height)
{
	if (!(v > 0) || !(top > 0))
		return 0;
	double l = v / top * height * 8;
	return l >= height * 8 ? height * 8 : l < 1 ? 1 : (int)(l + 0.5);
}

static void put_cell(FILE *f, const struct chart_style *s, int solid, int light)
{
	static const char *const eighths[] = {"\xe2\x96\x81", "\xe2\x96\x82", "\xe2\x96\x83", "\xe2\x96\x84",
					      "\xe2\x96\x85", "\xe2\x96\x86", "\xe2\x96\x87"}; /* ▁ to ▇ */
	if (solid > 0) {
		paint(f, s, SOLID_COLOR);
		fputs(solid >= 8 ? chart_solid(s) : !s->ascii ? eighths[solid - 1] : solid >= 4 ? "#" : ":", f);
		plain(f, s);
	} else if (light > 0) {
		paint(f, s, LIGHT_COLOR);
		fputs(chart_light(s), f);
		plain(f, s);
	} else {
		fputc(' ', f);
	}
}

/* The upper edge's value, with its unit where both fit; 0 at the lower one. */
static void edge_label(const struct chart_bars *b, int row, char label[TEXT_NUMBER + 16])
{
	char top[TEXT_NUMBER];
	if (row < b->height - 1) {
		strcpy(label, row ? "" : "0");
		return;
	}
	snprintf(label, TEXT_NUMBER + 16, "%s %.8s", tick_text(b->top, top), b->unit);
	if (!*b->unit || strlen(label) > CHART_GUTTER - 2)
		strcpy(label, top);
}

void chart_bars(FILE *f, const struct chart_style *s, const struct chart_bars *b)
{
	char label[TEXT_NUMBER + 16];
	title(f, s, b->title, b->note);
	for (int row = b->height - 1; row >= 0; row--) {
		edge_label(b, row, label);
		row_label(f, s, label);
		int last = b->n - 1;
		while (last >= 0 && level_of(b->light ? fmax(b->light[last], b->solid[last]) : b->solid[last], b->top,
					     b->height) <= 8 * row)
			last--;
		for (int c = 0; c <= last; c++)
			put_cell(f, s, level_of(b->solid[c], b->top, b->height) - 8 * row,
				 b->light ? level_of(b->light[c], b->top, b->height) - 8 * row : 0);
		fputc('\n', f);
	}
}

/* --- a distribution ----------------------------------------------------------------------------------------------- */

/* Values at or below x. */
static int64_t rank_of(const double *values, int64_t n, double x)
{
	int64_t lo = 0, hi = n;
	while (lo < hi) {
		int64_t mid = lo + (hi - lo) / 2;
		if (values[mid] <= x)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

struct axis {
	double lo, hi;
	bool logarithmic;
};

static double value_at(const struct axis *a, double share)
{
	return a->logarithmic ? a->lo * pow(a->hi / a->lo, share) : a->lo + (a->hi - a->lo) * share;
}

static double share_of(const struct axis *a, double v)
{
	return a->logarithmic ? log(v / a->lo) / log(a->hi / a->lo) : (v - a->lo) / (a->hi - a->lo);
}

/* Dots of the curve, [row from the top][column], joined where it is steep. */
struct canvas {
	int columns, rows;
	bool dot[MAX_HEIGHT * 4][MAX_CELLS * 2];
};

static void plot(struct canvas *k, const struct axis *a, const struct chart_cdf *c)
{
	int before = k->rows - 1;
	for (int x = 0; x < k->columns; x++) {
		/* The last column reaches to the largest value whatever pow() rounds to. */
		double v = x + 1 == k->columns ? a->hi : value_at(a, (x + 1.0) / k->columns);
		double share = (double)rank_of(c->values, c->n, v) / (double)c->n;
		int row = (int)((1 - share) * (k->rows - 1) + 0.5);
		for (int y = row; y <= (before > row ? before - (x > 0) : row); y++)
			k->dot[y][x] = true;
		before = row;
	}
}

static unsigned braille_of(const struct canvas *k, int row, int column)
{
	/* Unicode's order of the eight dots, by column and row. */
	static const unsigned char bits[2][4] = {{0x01, 0x02, 0x04, 0x40}, {0x08, 0x10, 0x20, 0x80}};
	unsigned dots = 0;
	for (int x = 0; x < 2; x++)
		for (int y = 0; y < 4; y++)
			if (k->dot[4 * row + y][2 * column + x])
				dots |= bits[x][y];
	return dots;
}

/* The last cell of a row with something in it; -1: none. */
static int last_of(const struct canvas *k, const struct chart_style *s, int row, int n)
{
	int last = n - 1;
	while (last >= 0 && !(s->ascii ? k->dot[row][last] : braille_of(k, row, last) != 0))
		last--;
	return last;
}

static void put_braille(FILE *f, const struct canvas *k, int row, int column)
{
	unsigned dots = braille_of(k, row, column), code = 0x2800 + dots;
	if (dots)
		fprintf(f, "%c%c%c", 0xe0 | code >> 12, 0x80 | (code >> 6 & 0x3f), 0x80 | (code & 0x3f));
	else
		fputc(' ', f);
}

static void value_axis(FILE *f, const struct chart_style *s, const struct axis *a, int n, const char *unit)
{
	static const double digits[] = {1, 5, 2};
	struct ruler r;
	char buf[TEXT_NUMBER];
	bottom(f, s, n);
	ruler_init(&r, n);
	if (!a->logarithmic) {
		for (int i = 0; i <= 4; i++) {
			text_value(value_at(a, i / 4.0), "value", buf);
			ruler_put(&r, n * i / 4, buf);
		}
	}
	for (size_t d = 0; a->logarithmic && d < sizeof digits / sizeof *digits; d++) {
		for (int e = (int)floor(log10(a->lo)); e <= (int)ceil(log10(a->hi)); e++) {
			double v = digits[d] * pow(10, e);
			if (v >= a->lo && v <= a->hi)
				ruler_put(&r, (int)(share_of(a, v) * n), tick_text(v, buf));
		}
	}
	ruler_print(f, &r, unit);
}

void chart_cdf(FILE *f, const struct chart_style *s, const struct chart_cdf *c)
{
	int n = chart_columns(s);
	title(f, s, c->title, c->note);
	if (c->n == 0)
		return;
	struct axis a = {.lo = c->values[0], .hi = c->values[c->n - 1]};
	if (!(a.hi > a.lo)) {
		char buf[TEXT_NUMBER];
		fprintf(f, "%*s all of them %s %s\n", CHART_GUTTER, "", text_value(a.lo, "value", buf), c->unit);
		return;
	}
	/* Below a factor of two a logarithmic axis has hardly a label. */
	a.logarithmic = a.lo > 0 && a.hi / a.lo >= 2;
	struct canvas *k = calloc(1, sizeof *k);
	if (!k)
		return;
	k->columns = s->ascii ? n : 2 * n;
	k->rows = s->ascii ? c->height : 4 * c->height;
	plot(k, &a, c);
	for (int row = 0; row < c->height; row++) {
		bool middle = c->height % 2 && row == c->height / 2;
		row_label(f, s, row == 0 ? "100 %" : middle ? "50 %" : row == c->height - 1 ? "0 %" : "");
		paint(f, s, SOLID_COLOR);
		for (int x = 0, last = last_of(k, s, row, n); x <= last; x++) {
			if (s->ascii)
				fputc(k->dot[row][x] ? '*' : ' ', f);
			else
				put_braille(f, k, row, x);
		}
		plain(f, s);
		fputc('\n', f);
	}
	free(k);
	value_axis(f, s, &a, n, c->unit);
}
