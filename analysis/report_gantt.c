/* report_gantt.c: the phases of some requests, one row each: those around the slowest ones, at the beginning and in the middle. */
#include <stdio.h>
#include <string.h>

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

/* Phases as they were, where somebody can tell; else the table has their sums. */
static int tell_phases(struct jout *j, int64_t run_id, const struct store_request *list, int64_t n,
		       const struct group *groups, int n_groups, const struct report_options *o, struct err *e)
{
	char why[256] = "";
	struct history_table t = {.most = 40000};
	if (!o->phases)
		return ERR_NONE;
	bool *wanted = mem_zalloc((size_t)n, sizeof *wanted);
	if (!wanted)
		return err_no_memory(e, "a report");
	for (int k = 0; k < n_groups; k++)
		for (int64_t i = groups[k].from; i < groups[k].from + groups[k].n; i++)
			if (list[i].request < n)
				wanted[list[i].request] = true;
	t.wanted = wanted;
	int rc = o->phases(o->ctx, run_id, n, &t, why, e);
	if (rc == ERR_NONE && why[0])
		jout_text(j, "why", why);
	else if (rc == ERR_NONE)
		put_phases(j, &t);
	history_table_free(&t);
	mem_free(wanted);
	return rc;
}

int report_put_gantt(struct jout *j, struct store *s, int64_t run_id, const struct store_request *list, int64_t n,
		     const struct report_room *room, const struct report_options *o, struct err *e)
{
	struct group groups[GROUPS];
	if (n == 0)
		return ERR_NONE;
	int n_groups = choose(list, n, room->gantt_rows, groups), rc = ERR_NONE;
	jout_begin(j, "gantt", '{');
	jout_begin(j, "groups", '[');
	for (int k = 0; rc == ERR_NONE && k < n_groups; k++)
		rc = put_group(j, s, run_id, list, &groups[k], e);
	jout_end(j, ']');
	if (rc == ERR_NONE)
		rc = tell_phases(j, run_id, list, n, groups, n_groups, o, e);
	jout_end(j, '}');
	return rc;
}
