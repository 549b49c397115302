/* chart.h: charts in text: bars over time, distributions as curves. Braille and block characters where the terminal has them,
 * plain ASCII otherwise; colour on terminals only. */
#ifndef CLI_CHART_H
#define CLI_CHART_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct chart_style {
	int width; /* columns of text */
	bool ascii, color;
};
/* For stdout or stderr: its terminal's width, else $COLUMNS, else 80 (within 40 and 240); Unicode by LC_ALL, LC_CTYPE and LANG; colour on a
 * terminal unless NO_COLOR is set to anything or TERM is dumb. */
void chart_style_detect(struct chart_style *s, int fd);

/* Columns left of the plot, its axis included. */
#define CHART_GUTTER 9
static inline int chart_columns(const struct chart_style *s)
{
	return s->width - CHART_GUTTER;
}

struct chart_bars {
	const char *title, *note; /* note: behind the title, may be NULL */
	const double *solid; /* [n] */
	const double *light; /* [n] drawn from solid up to it; NULL: nothing */
	int n, height; /* columns and rows of text */
	double top; /* value of the upper edge */
	const char *unit; /* of the axis: "", "%" */
};
void chart_bars(FILE *f, const struct chart_style *s, const struct chart_bars *b);
/* Below bars: the time from from_s to to_s over n columns. */
void chart_time_axis(FILE *f, const struct chart_style *s, int n, double from_s, double to_s);
/* What solid and light look like, to be told once. */
const char *chart_solid(const struct chart_style *s);
const char *chart_light(const struct chart_style *s);

/* The share of values at or below each, over a logarithmic axis (as long as all are above zero). values[n] ascend. */
struct chart_cdf {
	const char *title, *note;
	const double *values;
	int64_t n;
	int height;
	const char *unit;
};
void chart_cdf(FILE *f, const struct chart_style *s, const struct chart_cdf *c);

#endif
