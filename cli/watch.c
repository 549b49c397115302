#include "cli/watch.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "analysis/text.h"

enum { BAR = 18, SPARKS = 40, RATE_LOOKS = 12 };

static double now_s(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* --- the lines ---------------------------------------------------------------------------------------------------- */

/* A line that grows; what does not fit is left out whole. */
struct line {
	char *text; /* [WATCH_LINE] */
	int len; /* bytes */
	int columns, width;
};

__attribute__((format(printf, 2, 3))) static void add(struct line *l, const char *format, ...)
{
	char part[256];
	va_list args;
	va_start(args, format);
	vsnprintf(part, sizeof part, format, args);
	va_end(args);
	int columns = 0, bytes = (int)strlen(part);
	for (const char *s = part; *s; s++)
		columns += ((unsigned char)*s & 0xc0) != 0x80;
	if (l->columns + columns > l->width || l->len + bytes + 1 > WATCH_LINE) {
		l->width = l->columns; /* nor does what would come after */
		return;
	}
	memcpy(l->text + l->len, part, (size_t)bytes + 1);
	l->len += bytes;
	l->columns += columns;
}

static void add_bar(struct line *l, const struct chart_style *s, double share)
{
	int full = (int)(share * BAR + 0.5);
	char part[BAR * 3 + 4] = "[";
	for (int i = 0; i < BAR; i++)
		strcat(part, i < full ? s->ascii ? "#" : "\xe2\x96\x88" : s->ascii ? "." : "\xe2\x96\x91"); /* █ ░ */
	strcat(part, "]");
	add(l, "%s", part);
}

static void add_span(struct line *l, double t)
{
	if (t < 1)
		add(l, "%.0f ms", t * 1e3);
	else if (t < 100)
		add(l, "%.1f s", t);
	else if (t < 7200)
		add(l, "%.1f min", t / 60);
	else
		add(l, "%.1f h", t / 3600);
}

static const struct watch_look *kept(const struct watch *w, int64_t back)
{
	return &w->kept[(w->n_kept - 1 - back) % WATCH_KEPT];
}

static int32_t waiting_of(const struct engine_glance *g)
{
	return g->waiting;
}

static int32_t running_of(const struct engine_glance *g)
{
	return g->running;
}

/* The last looks as little bars, the highest of them a whole one. */
static void add_sparks(struct line *l, const struct watch *w, int32_t (*value)(const struct engine_glance *))
{
	static const char ascii[] = "_.:-=+*#";
	int64_t n = w->n_kept < SPARKS ? w->n_kept : SPARKS;
	int32_t most = 1;
	for (int64_t i = 0; i < n; i++)
		most = value(&kept(w, i)->now) > most ? value(&kept(w, i)->now) : most;
	for (int64_t i = n - 1; i >= 0; i--) {
		int level = (int)((int64_t)value(&kept(w, i)->now) * 7 / most);
		if (w->style.ascii)
			add(l, "%c", ascii[level]);
		else
			add(l, "\xe2\x96%c", 0x81 + level); /* ▁ to █ */
	}
}

static void line_progress(struct line *l, const struct watch *w, double t_s, int64_t ended, int64_t total)
{
	char label[40], a[TEXT_NUMBER], b[TEXT_NUMBER];
	double share = total > 0 ? (double)ended / (double)total : 0, spent = t_s - w->began_s;
	add(l, "%-9s", text_clean(w->label, label, sizeof label));
	add(l, " ");
	add_bar(l, &w->style, share);
	add(l, " %3.0f %%", share * 100);
	add(l, "  %s of %s requests", text_count(ended, a), text_count(total, b));
	if (share > 0.001 && share < 1) {
		add(l, "  ");
		add_span(l, spent / share - spent);
		add(l, " left");
	}
}

static void line_time(struct line *l, const struct watch *w, double t_s)
{
	char a[TEXT_NUMBER];
	double clock_s = (double)kept(w, 0)->now.now_ns / 1e9, spent = t_s - w->began_s;
	add(l, "time      ");
	add_span(l, clock_s);
	add(l, w->real ? " of the run's clock, " : " simulated in ");
	add_span(l, spent);
	if (!w->real && spent > 0)
		add(l, ", %s times as fast", text_count((int64_t)(clock_s / spent), a));
	else if (w->real)
		add(l, " went by");
}

static void line_count(struct line *l, const struct watch *w, const char *name,
		       int32_t (*value)(const struct engine_glance *))
{
	char a[TEXT_NUMBER];
	add(l, "%-9s %-7s ", name, text_count(value(&kept(w, 0)->now), a));
	add_sparks(l, w, value);
}

static void line_memory(struct line *l, const struct watch *w)
{
	const struct engine_glance *g = &kept(w, 0)->now;
	char a[TEXT_NUMBER], b[TEXT_NUMBER];
	add(l, "KV memory ");
	if (g->num_blocks <= 0) {
		add(l, "none");
		return;
	}
	double share = (double)g->blocks_used / g->num_blocks;
	add_bar(l, &w->style, share);
	add(l, " %3.0f %%  %s of %s blocks", share * 100, text_count(g->blocks_used, a), text_count(g->num_blocks, b));
	if (g->blocks_cached)
		add(l, ", %s more cached", text_count(g->blocks_cached, a));
}

/* Of the run's clock, over the last second or so. */
static void line_rates(struct line *l, const struct watch *w)
{
	int64_t back = w->n_kept - 1 < RATE_LOOKS ? w->n_kept - 1 : RATE_LOOKS;
	const struct engine_glance *now = &kept(w, 0)->now, *was = &kept(w, back)->now;
	double s = (double)(now->now_ns - was->now_ns) / 1e9;
	char a[TEXT_NUMBER], b[TEXT_NUMBER], c[TEXT_NUMBER], d[TEXT_NUMBER];
	add(l, "per s     ");
	if (s > 0)
		add(l, "%s requests, %s prompt + %s output tokens",
		    text_value((double)(now->finished - was->finished) / s, "/s", a),
		    text_value((double)(now->prompt_tokens - was->prompt_tokens) / s, "/s", b),
		    text_value((double)(now->output_tokens - was->output_tokens) / s, "/s", c));
	else
		add(l, "-");
	add(l, "; %s preempted", text_count(now->preemptions, d));
}

int watch_lines(const struct watch *w, double t_s, int64_t ended, int64_t total, char lines[WATCH_LINES][WATCH_LINE])
{
	struct line l[WATCH_LINES];
	if (!w->n_kept)
		return 0;
	for (int i = 0; i < WATCH_LINES; i++) {
		lines[i][0] = '\0';
		/* The last column stays free: some terminals go on to the next line there. */
		l[i] = (struct line){.text = lines[i], .width = w->style.width - 1};
	}
	line_progress(&l[0], w, t_s, ended, total);
	line_time(&l[1], w, t_s);
	line_count(&l[2], w, "waiting", waiting_of);
	line_count(&l[3], w, "running", running_of);
	line_memory(&l[4], w);
	line_rates(&l[5], w);
	return WATCH_LINES;
}

/* --- drawing ------------------------------------------------------------------------------------------------------ */

void watch_begin(struct watch *w, const char *label, bool real)
{
	*w = (struct watch){.label = label, .real = real, .terminal = isatty(STDERR_FILENO)};
	chart_style_detect(&w->style, STDERR_FILENO);
	w->began_s = w->last_s = now_s();
	w->kept[w->n_kept++].at_s = w->began_s; /* nothing yet, which rates begin from */
}

static void wipe(struct watch *w)
{
	if (w->drawn)
		fprintf(stderr, "\r\033[%dA\033[J", w->drawn);
	w->drawn = 0;
}

/* A window may be made smaller meanwhile: then only as much as fits is drawn. */
static int rows_free(void)
{
	struct winsize size;
	return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row ? size.ws_row - 1 : WATCH_LINES;
}

static void draw(struct watch *w, double t_s, int64_t ended, int64_t total)
{
	char lines[WATCH_LINES][WATCH_LINE], frame[WATCH_LINES * (WATCH_LINE + 8) + 16];
	struct chart_style style;
	chart_style_detect(&style, STDERR_FILENO);
	w->style.width = style.width;
	int n = watch_lines(w, t_s, ended, total, lines), room = rows_free(), at = 0;
	n = n > room ? room : n;
	if (n < w->drawn)
		wipe(w);
	if (w->drawn)
		at = snprintf(frame, sizeof frame, "\r\033[%dA", w->drawn);
	for (int i = 0; i < n; i++)
		at += snprintf(frame + at, sizeof frame - (size_t)at, "%s\033[K\n", lines[i]);
	/* All at once, so that it does not flicker. */
	fwrite(frame, 1, (size_t)at, stderr);
	fflush(stderr);
	w->drawn = n;
}

static void print_line(const struct watch *w, double t_s, int64_t ended, int64_t total)
{
	const struct engine_glance *g = &kept(w, 0)->now;
	char text[WATCH_LINE], label[TEXT_CLEAN], a[TEXT_NUMBER], b[TEXT_NUMBER];
	struct line l = {.text = text, .width = WATCH_LINE};
	text[0] = '\0';
	add(&l, "%s: %s of %s requests, ", text_clean(w->label, label, sizeof label), text_count(ended, a),
	    text_count(total, b));
	add_span(&l, (double)g->now_ns / 1e9);
	add(&l, " %s; waiting %d, running %d", w->real ? "of the run's clock" : "simulated", g->waiting, g->running);
	if (g->num_blocks > 0)
		add(&l, ", KV %.0f %%", 100.0 * g->blocks_used / g->num_blocks);
	if (ended > 0) {
		double spent = t_s - w->began_s;
		add(&l, "; ");
		add_span(&l, spent * (double)total / (double)ended - spent);
		add(&l, " left");
	}
	fprintf(stderr, "%s\n", text);
}

void watch_look(void *ctx, int64_t ended, int64_t total, const struct engine_glance *now)
{
	struct watch *w = ctx;
	double t = now_s();
	if (t - w->last_s < (w->terminal ? 0.1 : 5))
		return;
	w->last_s = t;
	w->kept[w->n_kept++ % WATCH_KEPT] = (struct watch_look){.at_s = t, .now = *now};
	if (w->terminal)
		draw(w, t, ended, total);
	else
		print_line(w, t, ended, total);
}

void watch_end(struct watch *w)
{
	wipe(w);
	fflush(stderr);
}
