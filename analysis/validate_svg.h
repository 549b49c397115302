/* validate_svg.h: small plots as SVG: points, lines and bars between two axes. */
#ifndef ANALYSIS_VALIDATE_SVG_H
#define ANALYSIS_VALIDATE_SVG_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Where the numbers of one axis lie. */
struct svg_axis {
	double low, high; /* low < high; log: both above 0 */
	bool log;
	const char *label; /* "measured, ms" */
	bool bare; /* no ticks: svg_category writes below it */
};
/* A comfortable range around low .. high (which may be equal), and the axis for it. */
struct svg_axis svg_axis_around(double low, double high, bool log, const char *label);

struct svg {
	FILE *f;
	struct svg_axis x, y;
	int legends;
};

/* The n-th colour of the palette: told apart by everybody, in print as well. */
enum svg_colour { SVG_BLUE, SVG_ORANGE, SVG_GREEN, SVG_PURPLE, SVG_GREY, SVG_COLOURS };

void svg_begin(struct svg *s, FILE *f, const char *title, struct svg_axis x, struct svg_axis y);
void svg_point(struct svg *s, double x, double y, enum svg_colour c);
/* A polyline, or stairs as of an empirical distribution: from (x[i], y[i]) level to x[i + 1]. */
void svg_line(struct svg *s, const double *x, const double *y, int64_t n, bool stairs, enum svg_colour c);
/* y = x, dashed. */
void svg_diagonal(struct svg *s);
/* From 0 to y, `width` wide around x; and a whisker of `reach` up and down from 0 (NAN: none). */
void svg_bar(struct svg *s, double x, double width, double y, double reach, enum svg_colour c);
void svg_category(struct svg *s, double x, const char *text);
void svg_legend(struct svg *s, const char *text, enum svg_colour c);
void svg_end(struct svg *s);

#endif
