#include "analysis/report.h"

#include <math.h>
#include <string.h>
#include <time.h>

#include "analysis/jout.h"
#include "analysis/metrics.h"
#include "analysis/report_page.h"
#include "analysis/report_pairs.h"
#include "analysis/store.h"
#include "analysis/store_report.h"
#include "core/err.h"
#include "core/mem.h"

/* --- what metrics are --------------------------------------------------------------------------------------------- */

static const char *better_word(enum metric_better b)
{
	return b == METRIC_HIGHER ? "higher" : b == METRIC_LOWER ? "lower" : "";
}

/* Names, labels and which way is better, in the order of `compare`; the figures themselves are each run's. */
static int put_metric_names(struct jout *j, struct err *e)
{
	struct metric_value *list = mem_zalloc(METRICS_MAX_VALUES, sizeof *list);
	struct metrics *m = mem_zalloc(1, sizeof *m);
	struct engine_stats *stats = mem_zalloc(1, sizeof *stats);
	int rc = list && m && stats ? ERR_NONE : err_no_memory(e, "a report");
	jout_begin(j, "metric_names", '[');
	if (rc == ERR_NONE) {
		m->slo = GOODPUT_NONE;
		percentiles_default(&m->percentiles);
		int32_t n = metrics_list(m, stats, list);
		for (int32_t i = 0; i < n; i++) {
			jout_begin(j, NULL, '{');
			jout_text(j, "key", list[i].key);
			jout_text(j, "label", list[i].label);
			jout_text(j, "unit", list[i].unit);
			jout_text(j, "better", better_word(list[i].better));
			jout_bool(j, "headline", list[i].headline);
			jout_end(j, '}');
		}
	}
	jout_end(j, ']');
	mem_free(stats);
	mem_free(m);
	mem_free(list);
	return rc;
}

/* --- one run ------------------------------------------------------------------------------------------------------ */

static void put_metric(void *ctx, const char *name, double value, const char *unit, bool uncertain)
{
	struct jout *j = ctx;
	jout_begin(j, name, '[');
	jout_real(j, NULL, value);
	jout_text(j, NULL, unit);
	jout_int(j, NULL, uncertain);
	jout_end(j, ']');
}

static void put_identity(struct jout *j, const struct store_report_run *r)
{
	jout_int(j, "run_id", r->run_id);
	jout_text(j, "label", r->label);
	jout_text(j, "status", r->status);
	jout_text(j, "status_text", r->status_text);
	jout_text(j, "started", r->started);
	jout_text(j, "policy", r->policy);
	jout_text(j, "policy_params", r->policy_params);
	jout_text(j, "trace", r->trace);
	jout_text(j, "model", r->model);
	jout_text(j, "device", r->device);
	jout_text(j, "cost", r->cost);
	jout_text(j, "backend", r->backend);
	jout_text(j, "recorded", r->recorded);
	jout_text(j, "workload_hash", r->workload_hash);
	jout_int(j, "requests", r->requests);
	jout_int(j, "replicas", r->replicas);
	jout_int(j, "num_gpu_blocks", r->num_gpu_blocks);
	jout_real(j, "sim_wall_s", r->sim_wall_s);
}

struct making {
	struct jout *j;
	struct store *s;
	const struct report_options *o;
	struct report_room room;
	struct report_side first; /* of the runs that have charts: the others are held against it */
};

/* Against the first one. */
static int put_pairs(struct making *m, const struct store_report_run *r, const struct store_request *list, int64_t n,
		     struct err *e)
{
	if (n == 0)
		return ERR_NONE;
	if (!m->first.run_id)
		return report_side_fill(&m->first, m->s, r, list, n, e);
	struct report_side side;
	int rc = report_side_fill(&side, m->s, r, list, n, e);
	if (rc == ERR_NONE)
		rc = report_put_pairs(m->j, &m->first, &side, m->room.curve_points, e);
	report_side_free(&side);
	return rc;
}

/* What is drawn of it. */
static int put_charts(struct making *m, const struct store_report_run *r, struct err *e)
{
	struct jout *j = m->j;
	struct store *s = m->s;
	struct store_request *list = NULL;
	char *result = NULL;
	int64_t n = 0;
	int rc = store_run_json(s, r->run_id, &result, e);
	if (rc == ERR_NONE)
		rc = store_report_requests(s, r->run_id, &list, &n, e);
	if (rc == ERR_NONE) {
		jout_raw(j, "result", result);
		rc = report_put_requests(j, list, n, &m->room, e);
	}
	if (rc == ERR_NONE)
		rc = put_pairs(m, r, list, n, e);
	if (rc == ERR_NONE)
		rc = report_put_steps(j, s, r, &m->room, e);
	if (rc == ERR_NONE)
		rc = report_put_gantt(j, s, r, list, n, &m->room, m->o, e);
	mem_free(result);
	mem_free(list);
	return rc;
}

static int put_run(struct making *m, int64_t run_id, bool charted, struct err *e)
{
	struct jout *j = m->j;
	struct store_report_run r;
	int rc = store_report_run(m->s, run_id, &r, e);
	if (rc)
		return rc;
	jout_begin(j, NULL, '{');
	put_identity(j, &r);
	jout_bool(j, "charted", charted);
	jout_begin(j, "metrics", '{');
	rc = store_report_metrics(m->s, run_id, put_metric, j, e);
	jout_end(j, '}');
	if (rc == ERR_NONE && charted)
		rc = put_charts(m, &r, e);
	jout_end(j, '}');
	store_report_run_free(&r);
	return rc;
}

/* --- all of it ---------------------------------------------------------------------------------------------------- */

static int64_t charted(const struct report_options *o)
{
	return o->n_runs < REPORT_CHARTED ? o->n_runs : REPORT_CHARTED;
}

/* The page stays below 15 MB however many runs it shows. */
static struct report_room room_for(int64_t runs)
{
	return (struct report_room){.curve_points = runs > 4 ? 500 : 1000,
				    .time_cells = runs > 8   ? 2048
						  : runs > 2 ? 4096
							     : 8192,

				    .gantt_rows = runs > 4 ? 30 : 50,
				    .map_columns = runs > 4 ? 80 : 160,
				    .map_rows = runs > 4 ? 48 : 96};
}

static void put_date(struct jout *j)
{
	char text[32] = "";
	struct tm tm;
	time_t now = time(NULL);
	if (gmtime_r(&now, &tm))
		strftime(text, sizeof text, "%Y-%m-%d %H:%M", &tm);
	jout_text(j, "made", text);
}

/* Charts are of the last ones: those are what somebody who names none wants to see. */
static int put_runs(struct jout *j, struct store *s, const struct report_options *o, struct err *e)
{
	int rc = ERR_NONE;
	struct making m = {.j = j, .s = s, .o = o, .room = room_for(charted(o))};
	jout_begin(j, "runs", '[');
	for (int64_t i = 0; rc == ERR_NONE && i < o->n_runs; i++)
		rc = put_run(&m, o->run_ids[i], i >= o->n_runs - charted(o), e);
	jout_end(j, ']');
	report_side_free(&m.first);
	return rc;
}

static int put_all(struct jout *j, struct store *s, const struct report_options *o, struct err *e)
{
	jout_begin(j, NULL, '{');
	jout_text(j, "program_version", LOCKSTEP_VERSION);
	jout_text(j, "database", store_path(s));
	put_date(j);
	jout_bool(j, "all", o->all);
	int rc = put_metric_names(j, e);
	if (rc == ERR_NONE)
		rc = put_runs(j, s, o, e);
	if (rc == ERR_NONE)
		rc = report_put_more(j, s, o, e);
	jout_end(j, '}');
	return rc;
}

int report_write(struct store *s, const struct report_options *o, FILE *f, struct err *e)
{
	struct report_page page;
	struct jout j;
	char *json = NULL;
	int rc = report_page_open(&page, o->vega_folder, e);
	if (rc)
		return rc;
	jout_open(&j, NULL);
	rc = put_all(&j, s, o, e);
	int closed = jout_close(&j, &json, rc ? NULL : e);
	rc = rc ? rc : closed;
	if (rc == ERR_NONE)
		rc = report_page_write(&page, json, f, e);
	mem_free(json);
	report_page_free(&page);
	return rc;
}
