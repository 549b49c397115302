/* report_gantt.c: the phases of some requests, one row each: those around the slowest ones, at the beginning and in the middle; and
 * who held which KV block. Both are told by making the run again. */
#include <stdio.h>
#include <string.h>

#include "analysis/block_map.h"
#include "analysis/history.h"
#include "analysis/jout.h"
#include "analysis/report.h"
#include "analysis/store_report.h"
#include "core/err.h"
#include "core/mem.h"

/* Neighbours in the workload. */
struct group {
	const char *name;
	int64_t from, n;
};
enum { GROUPS = 4 };

static int64_t slowest(const struct store_request *list, int64_t n, int64_t (*time_ns)(const struct store_request *))
{
	int64_t at = 0, most = -1;
	for (int64_t i = 0; i < n; i++)
		if (list[i].finished && time_ns(&list[i]) > most) {
			most = time_ns(&list[i]);
			at = i;
		}
	return at;
}

static struct group around(const char *name, int64_t at, int64_t n, int64_t rows)
{
	int64_t from = at - rows / 2;
	from = from + rows > n ? n - rows : from;
	from = from < 0 ? 0 : from;
	return (struct group){name, from, n - from < rows ? n - from : rows};
}

static int choose(const struct store_request *list, int64_t n, int32_t rows, struct group *groups)
{
	if (n <= rows) {
		groups[0] = (struct group){"all requests", 0, n};
		return 1;
	}
	groups[0] = around("around the slowest first token", slowest(list, n, store_request_ttft_ns), n, rows);
	groups[1] = around("around the slowest of all", slowest(list, n, store_request_e2e_ns), n, rows);
	groups[2] = around("the first ones", 0, n, rows);
	groups[3] = around("in the middle", n / 2, n, rows);
	return GROUPS;
}

static int put_request(struct jout *j, struct store *s, int64_t run_id, const struct store_request *r, struct err *e)
{
	char *name;
	int rc = store_report_request_name(s, run_id, r->request, &name, e);
	if (rc)
		return rc;
	jout_begin(j, NULL, '[');
	jout_int(j, NULL, r->request);
	jout_text(j, NULL, name);
	jout_int(j, NULL, r->arrival_ns);
	jout_bool(j, NULL, r->finished);
	jout_int(j, NULL, r->queue_ns);
	jout_int(j, NULL, r->prefill_ns);
	jout_int(j, NULL, r->decode_ns);
	jout_int(j, NULL, r->preempted_ns);
	jout_int(j, NULL, r->transfer_ns);
	jout_int(j, NULL, r->failed_ns);
	jout_int(j, NULL, r->prompt_tokens);
	jout_int(j, NULL, r->output_tokens);
	jout_int(j, NULL, r->preemptions);
	jout_end(j, ']');
	mem_free(name);
	return ERR_NONE;
}

static int put_group(struct jout *j, struct store *s, int64_t run_id, const struct store_request *list,
		     const struct group *g, struct err *e)
{
	int rc = ERR_NONE;
	jout_begin(j, NULL, '{');
	jout_text(j, "name", g->name);
	jout_begin(j, "rows", '[');
	for (int64_t i = g->from; rc == ERR_NONE && i < g->from + g->n; i++)
		rc = put_request(j, s, run_id, &list[i], e);
	jout_end(j, ']');
	jout_end(j, '}');
	return rc;
}

static void put_phases(struct jout *j, const struct history_table *t)
{
	jout_begin(j, "phases", '[');
	for (int64_t i = 0; i < t->n; i++) {
		const struct phase *p = &t->phases[i];
		jout_begin(j, NULL, '[');
		jout_int(j, NULL, p->req);
		jout_text(j, NULL, phase_names[p->kind]);
		jout_int(j, NULL, p->begin_ns);
		jout_int(j, NULL, p->end_ns);
		jout_int(j, NULL, p->tokens);
		jout_end(j, ']');
	}
	jout_end(j, ']');
	jout_int(j, "phases_left_out", t->left_out);
}

/* --- made again --------------------------------------------------------------------------------------------------- */

struct telling {
	struct history_table table;
	struct history_sink to_table;
	struct block_map map;
};

static void on_event(void *ctx, const struct event *ev)
{
	block_map_event(&((struct telling *)ctx)->map, ev);
}

static void on_step(void *ctx, const struct step_row *row)
{
	block_map_step(&((struct telling *)ctx)->map, row);
}

static void on_engine(void *ctx, const struct engine *g)
{
	block_map_engine(&((struct telling *)ctx)->map, g);
}

static void on_phase(void *ctx, const struct phase *p)
{
	const struct telling *t = ctx;
	t->to_table.phase(t->to_table.ctx, p);
}

static void put_owners(struct jout *j, struct store *s, int64_t run_id, const struct block_map *m, bool *named,
		       struct err *e)
{
	jout_begin(j, "names", '{');
	for (int64_t i = 0; i < (int64_t)m->columns * m->rows; i++) {
		int32_t owner = m->cells[i].owner;
		char key[16], *name;
		if (owner < 0 || named[owner] || store_report_request_name(s, run_id, owner, &name, e))
			continue;
		named[owner] = true;
		snprintf(key, sizeof key, "%d", (int)owner);
		jout_text(j, key, name);
		mem_free(name);
	}
	jout_end(j, '}');
}

/* [owned, shared, cached, owner] of each cell, column after column, from the first blocks on. */
static int put_blocks(struct jout *j, struct store *s, int64_t run_id, const struct block_map *m, struct err *e)
{
	bool *named = mem_zalloc((size_t)m->n + 1, sizeof *named);
	if (!named)
		return err_no_memory(e, "a report");
	jout_begin(j, "blocks", '{');
	jout_int(j, "num_blocks", m->num_blocks);
	jout_int(j, "per_row", m->per_row);
	jout_int(j, "rows", m->rows);
	jout_int(j, "every", m->every);
	jout_begin(j, "at", '[');
	for (int32_t i = 0; i < m->columns; i++)
		jout_int(j, NULL, m->at_ns[i]);
	jout_end(j, ']');
	jout_begin(j, "cells", '[');
	for (int64_t i = 0; i < (int64_t)m->columns * m->rows; i++) {
		jout_int(j, NULL, m->cells[i].owned);
		jout_int(j, NULL, m->cells[i].shared);
		jout_int(j, NULL, m->cells[i].cached);
		jout_int(j, NULL, m->cells[i].owner);
	}
	jout_end(j, ']');
	put_owners(j, s, run_id, m, named, e);
	jout_end(j, '}');
	mem_free(named);
	return ERR_NONE;
}

static void take_steps(void *ctx, const char *name, double value, const char *unit, bool uncertain)
{
	(void)unit;
	(void)uncertain;
	if (strcmp(name, "steps") == 0 && value > 0)
		*(int64_t *)ctx = (int64_t)value;
}

static int tell(struct jout *j, struct store *s, int64_t run_id, struct telling *t, const struct report_options *o,
		struct err *e)
{
	char why[256] = "";
	t->to_table = history_table_sink(&t->table);
	const struct history_sink sink = {
		.ctx = t, .event = on_event, .step = on_step, .engine = on_engine, .phase = on_phase};
	int rc = o->make_again(o->ctx, run_id, &sink, why, e);
	if (rc == ERR_NONE && !why[0])
		rc = history_table_sort(&t->table, e);
	if (rc == ERR_NONE && t->map.no_memory)
		rc = err_no_memory(e, "a report");
	if (rc == ERR_NONE && why[0])
		jout_text(j, "why", why);
	else if (rc == ERR_NONE)
		put_phases(j, &t->table);
	jout_end(j, '}'); /* of "gantt" */
	if (rc == ERR_NONE && !why[0])
		rc = put_blocks(j, s, run_id, &t->map, e);
	return rc;
}

/* Phases as they were and the blocks' owners, where somebody can tell; else the table has the phases' sums. */
static int make_again(struct jout *j, struct store *s, const struct store_report_run *r,
		      const struct store_request *list, int64_t n, const struct group *groups, int n_groups,
		      const struct report_room *room, const struct report_options *o, struct err *e)
{
	struct telling t = {.table = {.most = 40000}};
	int64_t steps = 0;
	bool *wanted = mem_zalloc((size_t)n, sizeof *wanted);
	int rc = wanted ? store_report_metrics(s, r->run_id, take_steps, &steps, e) : err_no_memory(e, "a report");
	if (rc == ERR_NONE)
		rc = block_map_init(&t.map, n, steps / (r->replicas > 0 ? r->replicas : 1), room->map_columns,
				    room->map_rows, e);
	if (rc == ERR_NONE) {
		for (int k = 0; k < n_groups; k++)
			for (int64_t i = groups[k].from; i < groups[k].from + groups[k].n; i++)
				if (list[i].request < n)
					wanted[list[i].request] = true;
		t.table.wanted = wanted;
		rc = tell(j, s, r->run_id, &t, o, e);
	} else {
		jout_end(j, '}');
	}
	history_table_free(&t.table);
	block_map_free(&t.map);
	mem_free(wanted);
	return rc;
}

int report_put_gantt(struct jout *j, struct store *s, const struct store_report_run *r,
		     const struct store_request *list, int64_t n, const struct report_room *room,
		     const struct report_options *o, struct err *e)
{
	struct group groups[GROUPS];
	if (n == 0)
		return ERR_NONE;
	int n_groups = choose(list, n, room->gantt_rows, groups), rc = ERR_NONE;
	jout_begin(j, "gantt", '{');
	jout_begin(j, "groups", '[');
	for (int k = 0; rc == ERR_NONE && k < n_groups; k++)
		rc = put_group(j, s, r->run_id, list, &groups[k], e);
	jout_end(j, ']');
	if (rc == ERR_NONE && o->make_again)
		return make_again(j, s, r, list, n, groups, n_groups, room, o, e);
	jout_end(j, '}');
	return rc;
}
