#include "analysis/report_series.h"

#include <string.h>

#include "core/err.h"
#include "core/mem.h"

/* --- distributions ------------------------------------------------------------------------------------------------ */

int32_t report_ranks(int64_t n, int32_t at_most, int64_t *rank)
{
	if (n <= at_most) {
		for (int64_t i = 0; i < n; i++)
			rank[i] = i;
		return (int32_t)n;
	}
	/* The tail is what is looked at: a quarter of the points are its last ones, each of them. */
	int32_t head = at_most / 16, tail = at_most / 4, middle = at_most - head - tail, m = 0;
	for (int32_t i = 0; i < head; i++)
		rank[m++] = i;
	int64_t from = head, to = n - tail; /* at_most < n: there are more than `middle` of them */
	for (int32_t i = 0; i < middle; i++)
		rank[m++] = from + (int64_t)((double)(to - from) * i / middle);
	for (int32_t i = 0; i < tail; i++)
		rank[m++] = to + i;
	return m;
}

/* --- over time ---------------------------------------------------------------------------------------------------- */

#define FIRST_WIDTH_NS 1024

int envelope_init(struct envelope *v, int32_t series, int32_t most, struct err *e)
{
	*v = (struct envelope){.series = series, .most = most, .exact = true};
	v->raw = mem_zalloc((size_t)most, (size_t)(1 + series) * sizeof *v->raw);
	return v->raw ? ERR_NONE : err_no_memory(e, "a report");
}

static void merge(struct envelope_cell *to, const struct envelope_cell *from, int32_t series)
{
	if (to->n == 0) {
		*to = *from;
		return;
	}
	if (from->n == 0)
		return;
	to->n += from->n;
	for (int32_t k = 0; k < series; k++) {
		if (from->v[k].min < to->v[k].min)
			to->v[k].min = from->v[k].min;
		if (from->v[k].max > to->v[k].max)
			to->v[k].max = from->v[k].max;
		to->v[k].sum += from->v[k].sum;
	}
}

/* Two stretches become one. */
static void widen(struct envelope *v)
{
	for (int32_t i = 0; i < v->most; i++) {
		struct envelope_cell cell = v->cells[i];
		v->cells[i].n = 0;
		merge(&v->cells[i / 2], &cell, v->series);
	}
	v->width_ns *= 2;
}

static void sum_up(struct envelope *v, int64_t at_ns, const int64_t *values)
{
	while (at_ns / v->width_ns >= v->most)
		widen(v);
	struct envelope_cell one = {.n = 1};
	for (int32_t k = 0; k < v->series; k++)
		one.v[k].min = one.v[k].max = one.v[k].sum = values[k];
	merge(&v->cells[at_ns / v->width_ns], &one, v->series);
}

static int start_cells(struct envelope *v, int64_t width_ns, struct err *e)
{
	v->cells = mem_zalloc((size_t)v->most, sizeof *v->cells);
	if (!v->cells)
		return err_no_memory(e, "a report");
	v->width_ns = width_ns;
	for (int64_t i = 0; i < v->rows; i++) {
		const int64_t *row = v->raw + i * (1 + v->series);
		sum_up(v, row[0], row + 1);
	}
	mem_free(v->raw);
	v->raw = NULL;
	v->exact = false;
	return ERR_NONE;
}

int envelope_add(struct envelope *v, int64_t at_ns, const int64_t *values, struct err *e)
{
	if (v->exact && v->rows == v->most) {
		int rc = start_cells(v, FIRST_WIDTH_NS, e);
		if (rc)
			return rc;
	}
	if (v->exact) {
		int64_t *row = v->raw + v->rows * (1 + v->series);
		row[0] = at_ns;
		memcpy(row + 1, values, (size_t)v->series * sizeof *values);
	} else {
		sum_up(v, at_ns, values);
	}
	v->rows++;
	return ERR_NONE;
}

int envelope_take(struct envelope *v, int64_t width_ns, int64_t cell, const struct envelope_cell *c, struct err *e)
{
	int rc = v->exact ? start_cells(v, width_ns, e) : ERR_NONE;
	if (rc)
		return rc;
	while (cell * (width_ns / FIRST_WIDTH_NS) / (v->width_ns / FIRST_WIDTH_NS) >= v->most)
		widen(v);
	merge(&v->cells[cell * (width_ns / FIRST_WIDTH_NS) / (v->width_ns / FIRST_WIDTH_NS)], c, v->series);
	v->rows += c->n;
	return ERR_NONE;
}

void envelope_free(struct envelope *v)
{
	mem_free(v->raw);
	mem_free(v->cells);
	*v = (struct envelope){0};
}
