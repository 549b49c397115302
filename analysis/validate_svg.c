#include "analysis/validate_svg.h"

#include <math.h>
#include <string.h>

/* The picture, and the field between the axes; in pixels. */
enum { WIDTH = 640, HEIGHT = 420, LEFT = 70, RIGHT = 20, TOP = 40, BOTTOM = 50 };

/* Okabe and Ito's colours. */
static const char *const colours[SVG_COLOURS] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#999999"};

struct svg_axis svg_axis_around(double low, double high, bool log, const char *label)
{
	struct svg_axis a = {.log = log, .label = label};
	if (log) {
		a.low = low > 0 ? low / 1.15 : 1e-3;
		a.high = high > 0 ? high * 1.15 : 1;
	} else {
		double room = high > low ? (high - low) * 0.05 : (high != 0 ? fabs(high) * 0.1 : 1);
		a.low = low >= 0 && low < room ? 0 : low - room;
		a.high = high + room;
	}
	return a;
}

static double place(const struct svg_axis *a, double v)
{
	double share =
		a->log ? (log(v) - log(a->low)) / (log(a->high) - log(a->low)) : (v - a->low) / (a->high - a->low);
	return share < 0 ? 0 : share > 1 ? 1 : share;
}

static double px(const struct svg *s, double x)
{
	return LEFT + place(&s->x, x) * (WIDTH - LEFT - RIGHT);
}

static double py(const struct svg *s, double y)
{
	return HEIGHT - BOTTOM - place(&s->y, y) * (HEIGHT - TOP - BOTTOM);
}

static bool drawable(const struct svg_axis *a, double v)
{
	return isfinite(v) && (!a->log || v > 0);
}

static void put_text(FILE *f, const char *text)
{
	for (; *text; text++) {
		if (*text == '&')
			fputs("&amp;", f);
		else if (*text == '<')
			fputs("&lt;", f);
		else if (*text == '>')
			fputs("&gt;", f);
		else
			fputc(*text, f);
	}
}

/* --- axes --------------------------------------------------------------------------------------------------------- */

static void tick(struct svg *s, bool vertical, double v)
{
	if (vertical) {
		double y = py(s, v);
		fprintf(s->f, "<line x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\" class=\"grid\"/>", LEFT, y,
			WIDTH - RIGHT, y);
		fprintf(s->f, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%g</text>\n", LEFT - 6, y + 4, v);
	} else {
		double x = px(s, v);
		fprintf(s->f, "<line x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%d\" class=\"grid\"/>", x, TOP, x,
			HEIGHT - BOTTOM);
		fprintf(s->f, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%g</text>\n", x, HEIGHT - BOTTOM + 16,
			v);
	}
}

/* 1, 2 or 5 times a power of ten, so that there are about five. */
static void linear_ticks(struct svg *s, const struct svg_axis *a, bool vertical)
{
	double rough = (a->high - a->low) / 5, ten = pow(10, floor(log10(rough))), step = ten;
	if (rough > 5 * ten)
		step = 10 * ten;
	else if (rough > 2 * ten)
		step = 5 * ten;
	else if (rough > ten)
		step = 2 * ten;
	for (int64_t k = (int64_t)ceil(a->low / step - 1e-9); (double)k * step <= a->high * (1 + 1e-12); k++)
		tick(s, vertical, (double)k * step);
}

/* Powers of ten; where there are few, 2 and 5 times them as well. */
static void log_ticks(struct svg *s, const struct svg_axis *a, bool vertical)
{
	static const double steps[] = {1, 2, 5};
	bool few = log10(a->high / a->low) < 3;
	for (int power = (int)floor(log10(a->low)); pow(10, power) <= a->high; power++) {
		for (int i = 0; i < (few ? 3 : 1); i++) {
			double v = pow(10, power) * steps[i];
			if (v >= a->low && v <= a->high)
				tick(s, vertical, v);
		}
	}
}

static void axis(struct svg *s, const struct svg_axis *a, bool vertical)
{
	if (a->bare)
		return;
	if (a->log)
		log_ticks(s, a, vertical);
	else
		linear_ticks(s, a, vertical);
	if (vertical)
		fprintf(s->f, "<text transform=\"translate(16 %d) rotate(-90)\" text-anchor=\"middle\">",
			(HEIGHT + TOP - BOTTOM) / 2);
	else
		fprintf(s->f, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">", (WIDTH + LEFT - RIGHT) / 2,
			HEIGHT - 10);
	put_text(s->f, a->label);
	fputs("</text>\n", s->f);
}

/* --- what is drawn ------------------------------------------------------------------------------------------------- */

void svg_begin(struct svg *s, FILE *f, const char *title, struct svg_axis x, struct svg_axis y)
{
	*s = (struct svg){.f = f, .x = x, .y = y};
	fprintf(f,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" "
		"font-family=\"sans-serif\" font-size=\"12\">\n"
		"<style>.grid{stroke:#ddd} .edge{stroke:#333;fill:none} .line{fill:none;stroke-width:2}</style>\n"
		"<rect width=\"%d\" height=\"%d\" fill=\"#fff\"/>\n<text x=\"%d\" y=\"22\" font-size=\"14\" "
		"font-weight=\"bold\">",
		WIDTH, HEIGHT, WIDTH, HEIGHT, WIDTH, HEIGHT, LEFT);
	put_text(f, title);
	fputs("</text>\n", f);
	axis(s, &s->x, false);
	axis(s, &s->y, true);
	fprintf(f, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" class=\"edge\"/>\n", LEFT, TOP,
		WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM);
}

void svg_point(struct svg *s, double x, double y, enum svg_colour c)
{
	if (drawable(&s->x, x) && drawable(&s->y, y))
		fprintf(s->f, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"2.5\" fill=\"%s\" fill-opacity=\"0.5\"/>\n",
			px(s, x), py(s, y), colours[c]);
}

void svg_line(struct svg *s, const double *x, const double *y, int64_t n, bool stairs, enum svg_colour c)
{
	fprintf(s->f, "<polyline class=\"line\" stroke=\"%s\" points=\"", colours[c]);
	for (int64_t i = 0; i < n; i++) {
		if (!drawable(&s->x, x[i]) || !drawable(&s->y, y[i]))
			continue;
		if (stairs && i > 0)
			fprintf(s->f, "%.1f,%.1f ", px(s, x[i]), py(s, y[i - 1]));
		fprintf(s->f, "%.1f,%.1f ", px(s, x[i]), py(s, y[i]));
	}
	fputs("\"/>\n", s->f);
}

void svg_diagonal(struct svg *s)
{
	double low = s->x.low > s->y.low ? s->x.low : s->y.low, high = s->x.high < s->y.high ? s->x.high : s->y.high;
	fprintf(s->f,
		"<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"#333\" stroke-dasharray=\"5 4\"/>\n",
		px(s, low), py(s, low), px(s, high), py(s, high));
}

void svg_bar(struct svg *s, double x, double width, double y, double reach, enum svg_colour c)
{
	double left = px(s, x - width / 2), right = px(s, x + width / 2), zero = py(s, 0),
	       end = py(s, isfinite(y) ? y : 0);
	fprintf(s->f, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"%s\"/>\n", left,
		end < zero ? end : zero, right - left, fabs(end - zero), colours[c]);
	if (!isfinite(reach))
		return;
	double middle = (left + right) / 2, up = py(s, reach), down = py(s, -reach);
	fprintf(s->f, "<path d=\"M%.1f %.1fV%.1fM%.1f %.1fH%.1fM%.1f %.1fH%.1f\" stroke=\"#333\" fill=\"none\"/>\n",
		middle, up, down, left + 2, up, right - 2, left + 2, down, right - 2);
}

void svg_category(struct svg *s, double x, const char *text)
{
	fprintf(s->f, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">", px(s, x), HEIGHT - BOTTOM + 16);
	put_text(s->f, text);
	fputs("</text>\n", s->f);
}

void svg_legend(struct svg *s, const char *text, enum svg_colour c)
{
	int y = TOP + 16 + 18 * s->legends++;
	fprintf(s->f, "<rect x=\"%d\" y=\"%d\" width=\"12\" height=\"12\" fill=\"%s\"/><text x=\"%d\" y=\"%d\">",
		LEFT + 10, y - 10, colours[c], LEFT + 28, y);
	put_text(s->f, text);
	fputs("</text>\n", s->f);
}

void svg_end(struct svg *s)
{
	fputs("</svg>\n", s->f);
}
