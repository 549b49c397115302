/* report_steps.c: a run's steps over time: as they are, or least, greatest and sum of each stretch of time. */
#include "analysis/jout.h"
#include "analysis/report.h"
#include "analysis/report_roofline.h"
#include "analysis/report_series.h"
#include "analysis/store_outline.h"
#include "analysis/store_report.h"
#include "core/err.h"

#define SERIES STEP_OUTLINE_SERIES
#define series step_outline_names
#define SAMPLED 200000 /* steps that the roofline is made of where there are too many to look at each */

struct gathering {
	struct envelope over_time;
	struct roofline_grid *roofline;
	struct err err;
};

static int gather(void *ctx, const struct store_step *t)
{
	struct gathering *g = ctx;
	const int64_t values[] = {t->duration_ns, t->host_ns, t->decodes,   t->prefill_tokens, t->output_tokens,
				  t->running,     t->waiting, t->preempted, t->blocks_used,    t->blocks_cached};
	_Static_assert(sizeof values / sizeof *values == SERIES, "one each");
	roofline_grid_add(g->roofline, t);
	return envelope_add(&g->over_time, t->start_ns, values, &g->err);
}

static int sample(void *ctx, const struct store_step *t)
{
	roofline_grid_add(((struct gathering *)ctx)->roofline, t);
	return 0;
}

/* All of them; or, where they are many, what was kept of all of them, and a sample for the roofline. */
static int read_steps(struct gathering *g, struct store *s, int64_t run_id, struct err *e)
{
	bool outlined = false;
	int rc = store_outline_read(s, run_id, &g->over_time, &outlined, e);
	if (rc == ERR_NONE && outlined) {
		int64_t every = g->over_time.rows / SAMPLED + 1;
		roofline_grid_sampled(g->roofline, every);
		return store_report_steps_every(s, run_id, every, sample, g, e);
	}
	return rc ? rc : store_report_steps(s, run_id, gather, g, e);
}

static void put_exact(struct jout *j, const struct envelope *v)
{
	for (int k = -1; k < SERIES; k++) {
		jout_begin(j, k < 0 ? "start" : series[k], '[');
		for (int64_t i = 0; i < v->rows; i++)
			jout_int(j, NULL, v->raw[i * (1 + SERIES) + 1 + k]);
		jout_end(j, ']');
	}
}

enum part { PART_LOW, PART_HIGH, PART_SUM, PARTS };

static void put_part(struct jout *j, const struct envelope *v, int k, enum part part)
{
	static const char *const names[PARTS] = {"lo", "hi", "sum"};
	jout_begin(j, names[part], '[');
	for (int32_t i = 0; i < v->most; i++) {
		const struct envelope_cell *c = &v->cells[i];
		if (c->n)
			jout_int(j, NULL,
				 part == PART_LOW    ? c->v[k].min
				 : part == PART_HIGH ? c->v[k].max
						     : c->v[k].sum);
	}
	jout_end(j, ']');
}

static void put_cells(struct jout *j, const struct envelope *v)
{
	jout_int(j, "width_ns", v->width_ns);
	jout_begin(j, "cell", '[');
	for (int32_t i = 0; i < v->most; i++)
		if (v->cells[i].n)
			jout_int(j, NULL, i);
	jout_end(j, ']');
	jout_begin(j, "n", '[');
	for (int32_t i = 0; i < v->most; i++)
		if (v->cells[i].n)
			jout_int(j, NULL, v->cells[i].n);
	jout_end(j, ']');
	for (int k = 0; k < SERIES; k++) {
		jout_begin(j, series[k], '{');
		for (int part = 0; part < PARTS; part++)
			put_part(j, v, k, (enum part)part);
		jout_end(j, '}');
	}
}

int report_put_steps(struct jout *j, struct store *s, const struct store_report_run *r, const struct report_room *room,
		     struct err *e)
{
	struct gathering g = {.roofline = NULL};
	int rc = envelope_init(&g.over_time, SERIES, room->time_cells, e);
	if (rc == ERR_NONE)
		rc = roofline_grid_create(&g.roofline, r, e);
	if (rc == ERR_NONE)
		rc = read_steps(&g, s, r->run_id, e);
	if (rc == ERR_NONE && g.err.code)
		rc = err_set(e, g.err.code, "%s", g.err.text);
	if (rc == ERR_NONE && g.over_time.rows > 0) {
		jout_begin(j, "steps", '{');
		jout_int(j, "rows", g.over_time.rows);
		jout_bool(j, "exact", g.over_time.exact);
		if (g.over_time.exact)
			put_exact(j, &g.over_time);
		else
			put_cells(j, &g.over_time);
		jout_end(j, '}');
		roofline_grid_put(g.roofline, j);
	}
	roofline_grid_free(g.roofline);
	envelope_free(&g.over_time);
	return rc;
}
