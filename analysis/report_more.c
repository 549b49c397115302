/* report_more.c: what was found with several runs: validations, searches for what meets objectives, experiments. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "analysis/jout.h"
#include "analysis/report.h"
#include "analysis/store_report.h"
#include "core/err.h"
#include "core/mem.h"

enum {
	MOST_SHOWN = 12, /* of each: the latest */
	MOST_STEPS = 3000, /* of a validation, drawn one by one */
};

/* "1, 2, 3": numbers of runs for `IN (...)`; to be released with mem_free. */
static char *number_list(const struct report_options *o)
{
	size_t size = (size_t)o->n_runs * 24 + 8, at = 0;
	char *list = mem_alloc(size);
	for (int64_t i = 0; list && i < o->n_runs; i++)
		at += (size_t)snprintf(list + at, size - at, "%s%" PRId64, i ? ", " : "", o->run_ids[i]);
	return list;
}

struct more {
	struct jout *j;
	struct store *s;
	const struct report_options *o;
	char *runs; /* number_list */
};

/* The latest numbers that a query gives for these runs; `of` has one %s for their list. --all: every one. */
static int find(const struct more *m, const char *all, const char *of, int64_t *ids, int64_t *n, struct err *e)
{
	size_t size = strlen(of) + 2 * strlen(m->runs) + 64;
	char *sql = mem_alloc(size);
	if (!sql)
		return err_no_memory(e, "a report");
	if (m->o->all)
		snprintf(sql, size, "%s ORDER BY 1 DESC", all);
	else
		snprintf(sql, size, of, m->runs, m->runs);
	int rc = store_report_numbers(m->s, sql, ids, MOST_SHOWN, n, e);
	mem_free(sql);
	return rc;
}

static const char validation_sql[] =
	"SELECT validation_id, status, status_text, validated, label, policy, executed_run_id, simulated_run_id, cost, "
	"load,"
	" capacity, offered_rate, executions, decisions_identical, memory_identical, parted, steps, step_mape,"
	" executor_spread, outside_steps, max_error, beyond, passed, machine, cpu_load, others, steal, executed_s"
	" FROM validations WHERE validation_id = ?1";
static const char errors_sql[] = "SELECT what, part, statistic, measured, simulated, error, spread, samples, uncertain"
				 " FROM validation_errors WHERE validation_id = ?1";
/* Every so many steps, and those that are furthest off. */
static const char steps_sql[] =
	"WITH t AS (SELECT * FROM validation_steps WHERE validation_id = ?1 AND measured_ns > 0 AND predicted_ns > 0),"
	" far AS (SELECT step FROM t ORDER BY abs(predicted_ns / measured_ns - 1) DESC LIMIT 100)"
	" SELECT step, kind, measured_ns, predicted_ns, again_ns FROM t"
	" WHERE step % (SELECT count(*) / ?2 + 1 FROM t) = 0 OR step IN (SELECT step FROM far) ORDER BY step";

static int put_validations(const struct more *m, struct err *e)
{
	int64_t ids[MOST_SHOWN], n = 0;
	int rc = find(m, "SELECT validation_id FROM validations",
		      "SELECT validation_id FROM validations WHERE executed_run_id IN (%s) OR simulated_run_id IN (%s)"
		      " ORDER BY 1 DESC",
		      ids, &n, e);
	jout_begin(m->j, "validations", '[');
	for (int64_t i = n; rc == ERR_NONE && i-- > 0;) {
		jout_begin(m->j, NULL, '{');
		rc = store_report_rows(m->s, validation_sql, ids[i], 0, m->j, "row", e);
		if (rc == ERR_NONE)
			rc = store_report_rows(m->s, errors_sql, ids[i], 0, m->j, "errors", e);
		if (rc == ERR_NONE)
			rc = store_report_rows(m->s, steps_sql, ids[i], MOST_STEPS, m->j, "steps", e);
		jout_end(m->j, '}');
	}
	jout_end(m->j, ']');
	return rc;
}

static int put_searches(const struct more *m, struct err *e)
{
	int64_t ids[MOST_SHOWN], n = 0;
	int rc = find(m, "SELECT search_id FROM slo_searches",
		      "SELECT search_id FROM slo_searches WHERE workload_hash IN (SELECT workload_hash FROM runs WHERE "
		      "run_id IN"
		      " (%s)) ORDER BY 1 DESC",
		      ids, &n, e);
	jout_begin(m->j, "searches", '[');
	for (int64_t i = n; rc == ERR_NONE && i-- > 0;) {
		jout_begin(m->j, NULL, '{');
		rc = store_report_rows(m->s, "SELECT * FROM slo_searches WHERE search_id = ?1", ids[i], 0, m->j, "row",
				       e);
		if (rc == ERR_NONE)
			rc = store_report_rows(
				m->s, "SELECT * FROM slo_configurations WHERE search_id = ?1 ORDER BY position", ids[i],
				0, m->j, "configurations", e);
		if (rc == ERR_NONE)
			rc = store_report_rows(m->s,
					       "SELECT * FROM slo_points WHERE search_id = ?1 ORDER BY position, point",
					       ids[i], 0, m->j, "points", e);
		jout_end(m->j, '}');
	}
	jout_end(m->j, ']');
	return rc;
}

#define FIGURE(name) "(SELECT value FROM metrics m WHERE m.run_id = p.run_id AND m.name = '" #name "') AS " #name
static const char points_sql[] =
	"SELECT p.position, p.flags, p.run_id, p.status, p.status_text, " FIGURE(request_throughput) ", " FIGURE(output_throughput) ", " FIGURE(request_goodput) ", " FIGURE(
		mean_ttft_ms) ", " FIGURE(p99_ttft_ms) ", " FIGURE(mean_tpot_ms) ", " FIGURE(p99_tpot_ms) ", " FIGURE(mean_e2el_ms) ", " FIGURE(p99_e2el_ms) " FROM sweep_points p WHERE p.sweep_id = ?1 ORDER BY p.position LIMIT ?2";

static int put_sweeps(const struct more *m, struct err *e)
{
	enum { MOST_POINTS = 5000 };
	int64_t ids[MOST_SHOWN], n = 0;
	int rc = find(m, "SELECT sweep_id FROM sweeps",
		      "SELECT DISTINCT sweep_id FROM sweep_points WHERE run_id IN (%s) ORDER BY 1 DESC", ids, &n, e);
	jout_begin(m->j, "sweeps", '[');
	for (int64_t i = n; rc == ERR_NONE && i-- > 0;) {
		jout_begin(m->j, NULL, '{');
		rc = store_report_rows(m->s, "SELECT sweep_id, started, name, about FROM sweeps WHERE sweep_id = ?1",
				       ids[i], 0, m->j, "row", e);
		if (rc == ERR_NONE)
			rc = store_report_rows(m->s, points_sql, ids[i], MOST_POINTS, m->j, "points", e);
		jout_end(m->j, '}');
	}
	jout_end(m->j, ']');
	return rc;
}

int report_put_more(struct jout *j, struct store *s, const struct report_options *o, struct err *e)
{
	struct more m = {.j = j, .s = s, .o = o, .runs = number_list(o)};
	int rc = m.runs ? put_validations(&m, e) : err_no_memory(e, "a report");
	if (rc == ERR_NONE)
		rc = put_searches(&m, e);
	if (rc == ERR_NONE)
		rc = put_sweeps(&m, e);
	mem_free(m.runs);
	return rc;
}
