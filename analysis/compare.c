#include "analysis/compare.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "analysis/run.h"
#include "analysis/text.h"
#include "core/mem.h"

/* --- building ----------------------------------------------------------------------------------------------------- */

/* The metric of that key in a list; a run with other percentiles may lack it. */
static const struct metric_value *find(const struct metric_value *list, int32_t n, int32_t guess, const char *key)
{
	if (guess < n && strcmp(list[guess].key, key) == 0)
		return &list[guess];
	for (int32_t i = 0; i < n; i++)
		if (strcmp(list[i].key, key) == 0)
			return &list[i];
	return NULL;
}

static bool better(enum metric_better side, double a, double b)
{
	return side == METRIC_HIGHER ? a > b : a < b;
}

/* The best of a row is marked where there is a better side and not all are the same. */
static void mark_best(struct compare_cell *row, int32_t n, enum metric_better side)
{
	double best = NAN;
	bool differ = false;
	for (int32_t i = 0; i < n; i++) {
		if (isnan(row[i].value))
			continue;
		differ = differ || (!isnan(best) && row[i].value != best);
		if (isnan(best) || better(side, row[i].value, best))
			best = row[i].value;
	}
	for (int32_t i = 0; i < n; i++)
		row[i].best = side != METRIC_NEUTRAL && differ && row[i].value == best;
}

static void set_ratios(struct compare_cell *row, int32_t n)
{
	for (int32_t i = 0; i < n; i++)
		row[i].ratio = i > 0 && row[0].value != 0 ? row[i].value / row[0].value : NAN;
}

static bool row_is_empty(const struct compare_cell *row, int32_t n)
{
	for (int32_t i = 0; i < n; i++)
		if (!isnan(row[i].value))
			return false;
	return true;
}

/* lists: [n_runs][METRICS_MAX_VALUES]. Rows that no run defines are left out. */
static void fill(struct compare_table *t, const struct metric_value *lists, const int32_t *lengths, bool all)
{
	for (int32_t i = 0; i < lengths[0]; i++) {
		const struct metric_value *first = &lists[i];
		if (!all && !first->headline)
			continue;
		struct compare_cell *row = t->cells + (size_t)t->n_rows * (size_t)t->n_runs;
		for (int32_t k = 0; k < t->n_runs; k++) {
			const struct metric_value *v =
				find(lists + (size_t)k * METRICS_MAX_VALUES, lengths[k], i, first->key);
			row[k] = (struct compare_cell){.value = v ? v->value : NAN, .thin = v && v->thin};
		}
		if (row_is_empty(row, t->n_runs))
			continue;
		mark_best(row, t->n_runs, first->better);
		set_ratios(row, t->n_runs);
		t->rows[t->n_rows++] = *first;
	}
}

int compare_build_lists(struct compare_table *t, const char *const *names, const struct metric_value *lists,
			const int32_t *lengths, int32_t n_runs, bool all, struct err *e)
{
	*t = (struct compare_table){.n_runs = n_runs};
	t->rows = mem_zalloc(METRICS_MAX_VALUES, sizeof *t->rows);
	t->cells = mem_zalloc((size_t)n_runs * METRICS_MAX_VALUES, sizeof *t->cells);
	t->names = mem_zalloc((size_t)n_runs, sizeof *t->names);
	int rc = t->rows && t->cells && t->names ? ERR_NONE : err_no_memory(e, "a table");
	for (int32_t k = 0; rc == ERR_NONE && k < n_runs; k++) {
		t->names[k] = mem_strdup(names[k]);
		rc = t->names[k] ? ERR_NONE : err_no_memory(e, "a table");
	}
	if (rc == ERR_NONE)
		fill(t, lists, lengths, all);
	else
		compare_free(t);
	return rc;
}

int compare_build(struct compare_table *t, const struct run_settings *const *s, const struct run_result *const *r,
		  int32_t n_runs, bool all, struct err *e)
{
	*t = (struct compare_table){.n_runs = n_runs};
	struct metric_value *lists = mem_zalloc((size_t)n_runs * METRICS_MAX_VALUES, sizeof *lists);
	int32_t *lengths = mem_zalloc((size_t)n_runs, sizeof *lengths);
	const char **names = mem_zalloc((size_t)n_runs, sizeof *names);
	int rc = lists && lengths && names ? ERR_NONE : err_no_memory(e, "a table");
	bool differ = false;
	for (int32_t k = 0; rc == ERR_NONE && k < n_runs; k++) {
		names[k] = s[k]->label ? s[k]->label : s[k]->policy;
		lengths[k] = metrics_list(&r[k]->metrics, &r[k]->stats, lists + (size_t)k * METRICS_MAX_VALUES);
		differ |= s[k]->workload_hash != s[0]->workload_hash;
	}
	if (rc == ERR_NONE)
		rc = compare_build_lists(t, names, lists, lengths, n_runs, all, e);
	if (rc == ERR_NONE)
		t->different_input = differ;
	mem_free(lists);
	mem_free(lengths);
	mem_free(names);
	return rc;
}

void compare_free(struct compare_table *t)
{
	for (int32_t k = 0; t->names && k < t->n_runs; k++)
		mem_free(t->names[k]);
	mem_free(t->names);
	mem_free(t->rows);
	mem_free(t->cells);
	*t = (struct compare_table){0};
}

/* --- printing ----------------------------------------------------------------------------------------------------- */

#define LABEL 20 /* columns */
#define UNIT 8
#define CELL 22 /* gap 1, value 11, mark 1, ratio 9 */
#define HEADING (CELL - 2)
#define MOST_SHOWN 16 /* runs side by side */

static void spaces(FILE *f, int n)
{
	fprintf(f, "%*s", n > 0 ? n : 0, "");
}

/* Up to HEADING bytes of a name, broken where it reads well. */
static int line_length(const char *name)
{
	int n = (int)strlen(name), at = HEADING;
	if (n <= HEADING)
		return n;
	while (at > HEADING / 2 && !strchr(" ,:=-", name[at - 1]))
		at--;
	return at > HEADING / 2 ? at : HEADING;
}

/* Column headings, over as many lines as the longest needs. `shown` are the runs of this block. */
static void print_headings(const struct compare_table *t, FILE *f, const int32_t *shown, int n)
{
	const char *left[MOST_SHOWN];
	for (int k = 0; k < n; k++)
		left[k] = t->names[shown[k]];
	for (bool more = true; more;) {
		more = false;
		spaces(f, LABEL + UNIT);
		for (int k = 0; k < n; k++) {
			int len = line_length(left[k]);
			fprintf(f, "  %.*s", len, left[k]);
			left[k] += len;
			if (k < n - 1)
				spaces(f, HEADING - len);
			more = more || *left[k];
		}
		fputc('\n', f);
	}
}

/* Value, mark, ratio: CELL columns, escapes not counted. */
static int put_cell(char *out, size_t size, const struct compare_cell *c, const char *unit, bool bold)
{
	char number[TEXT_NUMBER], ratio[TEXT_NUMBER] = "";
	bool strong = bold && c->best;
	char mark = c->best ? '*' : c->thin && !isnan(c->value) ? '~' : ' ';
	if (!isnan(c->ratio)) {
		bool far = c->ratio >= 999.5 || (c->ratio < 0.00995 && c->ratio > 0);
		snprintf(ratio, sizeof ratio, far ? "%.1gx" : c->ratio >= 99.95 ? "%.0fx" : "%.2fx", c->ratio);
	}
	return snprintf(out, size, " %s%11s%s%c%8s ", strong ? "\033[1m" : "", text_value(c->value, unit, number),
			strong ? "\033[0m" : "", mark, ratio);
}

static void print_block(const struct compare_table *t, FILE *f, const int32_t *shown, int n, bool bold)
{
	print_headings(t, f, shown, n);
	for (int32_t i = 0; i < t->n_rows; i++) {
		const struct metric_value *row = &t->rows[i];
		char line[LABEL + UNIT + 40 + MOST_SHOWN * (CELL + 16)];
		int at = snprintf(line, sizeof line, "%-*s%-*s", LABEL, row->label, UNIT, text_unit(row->unit));
		for (int k = 0; k < n; k++)
			at += put_cell(line + at, sizeof line - (size_t)at,
				       &t->cells[(size_t)i * (size_t)t->n_runs + (size_t)shown[k]], row->unit, bold);
		while (at > 0 && line[at - 1] == ' ')
			at--;
		fprintf(f, "%.*s\n", at, line);
	}
}

static bool has_mark(const struct compare_table *t, bool thin)
{
	for (int64_t i = 0; i < (int64_t)t->n_rows * t->n_runs; i++)
		if (thin ? t->cells[i].thin && !t->cells[i].best : t->cells[i].best)
			return true;
	return false;
}

int compare_print(const struct compare_table *t, FILE *f, int width, bool bold, struct err *e)
{
	/* Some labels with their units are that much longer than their columns. */
	enum { LONGER = 5 };
	int fit = ((width > 0 ? width : 100) - LABEL - UNIT - LONGER) / CELL;
	fit = fit < 2 ? 2 : fit > MOST_SHOWN ? MOST_SHOWN : fit;
	if (t->different_input)
		fputs("These runs did not have the same input: their workload hashes differ.\n", f);
	for (int32_t next = 0; next < t->n_runs;) {
		int32_t shown[MOST_SHOWN] = {0};
		int n = 0;
		if (next > 0) {
			fputc('\n', f);
			n = 1; /* the first run again: ratios are against it */
		}
		while (n < fit && next < t->n_runs)
			shown[n++] = next++;
		print_block(t, f, shown, n, bold);
	}
	if (has_mark(t, false))
		fputs("* best of its row", f);
	if (t->n_runs > 1)
		fprintf(f, "%sx = against %s", has_mark(t, false) ? "   " : "", t->names[0]);
	if (has_mark(t, true))
		fputs("   ~ from too few samples to be relied on", f);
	if (t->n_runs > 1 || has_mark(t, true))
		fputc('\n', f);
	return ferror(f) ? err_set(e, ERR_IO, "writing the table: %s", strerror(errno)) : ERR_NONE;
}
