#include "analysis/store_report.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analysis/jout.h"
#include "analysis/store_internal.h"
#include "core/mem.h"

#define WHAT "reading runs for a report"
#define RANGE "id BETWEEN ?1 << 32 AND (?1 << 32) + 4294967295 ORDER BY id"

/* A query with the run's number bound to ?1. */
static int begin(struct store *s, sqlite3_stmt **q, const char *sql, int64_t run_id, struct err *e)
{
	int rc = store_prepare(s, q, sql, WHAT, e);
	if (rc == ERR_NONE)
		sqlite3_bind_int64(*q, 1, run_id);
	return rc;
}

/* After the last row: what sqlite3_step said, unless something else went wrong before. */
static int end(struct store *s, sqlite3_stmt *q, int rc, int step, struct err *e)
{
	if (rc == ERR_NONE && step != SQLITE_DONE && step != SQLITE_ROW)
		rc = store_fail(s, e, WHAT);
	sqlite3_finalize(q);
	return rc;
}

/* --- runs --------------------------------------------------------------------------------------------------------- */

int store_run_ids(struct store *s, int64_t **ids, int64_t *n, struct err *e)
{
	sqlite3_stmt *q = NULL;
	int64_t cap = 0;
	int step = SQLITE_DONE;
	*ids = NULL;
	*n = 0;
	int rc = store_prepare(s, &q, "SELECT run_id FROM runs ORDER BY run_id", WHAT, e);
	while (rc == ERR_NONE && (step = sqlite3_step(q)) == SQLITE_ROW) {
		if (mem_grow((void **)ids, &cap, *n + 1, sizeof **ids))
			rc = err_no_memory(e, WHAT);
		else
			(*ids)[(*n)++] = sqlite3_column_int64(q, 0);
	}
	return end(s, q, rc, step, e);
}

static const char run_sql[] =
	"SELECT label, status, status_text, started, policy, policy_params, trace, model, device, cost, backend,"
	" recorded, weight_dtype, kv_cache_dtype, workload_hash, requests, replicas, tensor_parallel_size,"
	" num_gpu_blocks, sim_wall_s FROM runs WHERE run_id = ?1";

#define RUN_TEXTS(r)                                                                                                   \
	{                                                                                                              \
		&(r)->label, &(r)->status, &(r)->status_text, &(r)->started, &(r)->policy, &(r)->policy_params,        \
			&(r)->trace, &(r)->model, &(r)->device, &(r)->cost, &(r)->backend, &(r)->recorded,             \
			&(r)->weight_dtype, &(r)->kv_cache_dtype, &(r)->workload_hash                                  \
	}

static int fill_run(sqlite3_stmt *q, struct store_report_run *r, struct err *e)
{
	char **texts[] = RUN_TEXTS(r);
	int c = 0;
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
		const char *text = (const char *)sqlite3_column_text(q, c++);
		if (!(*texts[i] = mem_strdup(text ? text : "")))
			return err_no_memory(e, WHAT);
	}
	r->requests = sqlite3_column_int64(q, c++);
	r->replicas = sqlite3_column_int64(q, c++);
	r->tensor_parallel = sqlite3_column_int64(q, c++);
	r->num_gpu_blocks = sqlite3_column_int64(q, c++);
	r->sim_wall_s = sqlite3_column_type(q, c) == SQLITE_NULL ? NAN : sqlite3_column_double(q, c);
	return ERR_NONE;
}

int store_report_run(struct store *s, int64_t run_id, struct store_report_run *out, struct err *e)
{
	sqlite3_stmt *q = NULL;
	*out = (struct store_report_run){.run_id = run_id};
	/* Columns and views that earlier versions did not have are used throughout. */
	int rc = store_check_recent(s, 2, e);
	if (rc == ERR_NONE)
		rc = begin(s, &q, run_sql, run_id, e);
	if (rc)
		return rc;
	int step = sqlite3_step(q);
	if (step == SQLITE_ROW)
		rc = fill_run(q, out, e);
	else if (step == SQLITE_DONE)
		rc = err_set(e, ERR_INPUT, "%s: there is no run %" PRId64, s->path, run_id);
	rc = end(s, q, rc, step, e);
	if (rc)
		store_report_run_free(out);
	return rc;
}

void store_report_run_free(struct store_report_run *r)
{
	char **texts[] = RUN_TEXTS(r);
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
		mem_free(*texts[i]);
	*r = (struct store_report_run){0};
}

int store_report_metrics(struct store *s, int64_t run_id, store_metric_fn *each, void *ctx, struct err *e)
{
	sqlite3_stmt *q = NULL;
	int step = SQLITE_DONE;
	int rc = begin(s, &q, "SELECT name, value, unit, uncertain FROM metrics WHERE run_id = ?1", run_id, e);
	while (rc == ERR_NONE && (step = sqlite3_step(q)) == SQLITE_ROW) {
		const char *name = (const char *)sqlite3_column_text(q, 0);
		const char *unit = (const char *)sqlite3_column_text(q, 2);
		bool none = sqlite3_column_type(q, 1) == SQLITE_NULL;
		if (name && unit)
			each(ctx, name, none ? NAN : sqlite3_column_double(q, 1), unit, sqlite3_column_int(q, 3) != 0);
	}
	return end(s, q, rc, step, e);
}

/* --- requests ----------------------------------------------------------------------------------------------------- */

int64_t store_request_ttft_ns(const struct store_request *r)
{
	return r->queue_ns + r->prefill_ns + r->preempted_in_prefill_ns + r->transfer_in_prefill_ns;
}

int64_t store_request_e2e_ns(const struct store_request *r)
{
	return r->queue_ns + r->prefill_ns + r->decode_ns + r->preempted_ns + r->transfer_ns;
}

static const char requests_sql[] =
	"SELECT id, state, prompt_tokens, output_tokens, preemptions, arrival_ns, queue_ns, prefill_ns, decode_ns,"
	" preempted_ns, preempted_in_prefill_ns, transfer_ns, transfer_in_prefill_ns, failed_ns FROM requests "
	"WHERE " RANGE;

static void fill_request(sqlite3_stmt *q, struct store_request *r)
{
	int c = 0;
	*r = (struct store_request){.request = (int32_t)(sqlite3_column_int64(q, c++) & UINT32_MAX)};
	r->finished = sqlite3_column_int(q, c++) == REQUEST_FINISHED;
	r->prompt_tokens = sqlite3_column_int(q, c++);
	r->output_tokens = sqlite3_column_int(q, c++);
	r->preemptions = sqlite3_column_int(q, c++);
	r->arrival_ns = sqlite3_column_int64(q, c++);
	r->queue_ns = sqlite3_column_int64(q, c++);
	r->prefill_ns = sqlite3_column_int64(q, c++);
	r->decode_ns = sqlite3_column_int64(q, c++);
	r->preempted_ns = sqlite3_column_int64(q, c++);
	r->preempted_in_prefill_ns = sqlite3_column_int64(q, c++);
	r->transfer_ns = sqlite3_column_int64(q, c++);
	r->transfer_in_prefill_ns = sqlite3_column_int64(q, c++);
	r->failed_ns = sqlite3_column_type(q, c) == SQLITE_NULL ? -1 : sqlite3_column_int64(q, c);
}

int store_report_requests(struct store *s, int64_t run_id, struct store_request **list, int64_t *n, struct err *e)
{
	sqlite3_stmt *q = NULL;
	int64_t cap = 0;
	int step = SQLITE_DONE;
	*list = NULL;
	*n = 0;
	int rc = begin(s, &q, requests_sql, run_id, e);
	while (rc == ERR_NONE && (step = sqlite3_step(q)) == SQLITE_ROW) {
		if (mem_grow((void **)list, &cap, *n + 1, sizeof **list))
			rc = err_no_memory(e, WHAT);
		else
			fill_request(q, &(*list)[(*n)++]);
	}
	return end(s, q, rc, step, e);
}

int store_report_request_name(struct store *s, int64_t run_id, int32_t request, char **name, struct err *e)
{
	sqlite3_stmt *q = NULL;
	*name = NULL;
	int rc = begin(s, &q,
		       "SELECT coalesce(name, CAST(source_row AS TEXT), CAST(?2 AS TEXT)) FROM requests WHERE id = (?1 "
		       "<< 32) + ?2",
		       run_id, e);
	if (rc)
		return rc;
	sqlite3_bind_int64(q, 2, request);
	int step = sqlite3_step(q);
	const char *text = step == SQLITE_ROW ? (const char *)sqlite3_column_text(q, 0) : "";
	if (step == SQLITE_ROW || step == SQLITE_DONE)
		if (!(*name = mem_strdup(text ? text : "")))
			rc = err_no_memory(e, WHAT);
	return end(s, q, rc, step, e);
}

/* --- steps -------------------------------------------------------------------------------------------------------- */

#define STEP_COLUMNS                                                                                                   \
	"start_ns, duration_ns, host_ns, decodes, chunks, output_tokens, prefill_tokens, decode_ctx, running,"         \
	" waiting, preempted, blocks_used, blocks_cached FROM steps"

static int each_step(struct store *s, sqlite3_stmt *q, store_step_fn *each, void *ctx, struct err *e)
{
	int step;
	while ((step = sqlite3_step(q)) == SQLITE_ROW) {
		struct store_step t = {0};
		int64_t *to[] = {&t.start_ns,      &t.duration_ns,    &t.host_ns,      &t.decodes, &t.chunks,
				 &t.output_tokens, &t.prefill_tokens, &t.decode_ctx,   &t.running, &t.waiting,
				 &t.preempted,     &t.blocks_used,    &t.blocks_cached};
		for (size_t i = 0; i < sizeof to / sizeof *to; i++)
			*to[i] = sqlite3_column_int64(q, (int)i);
		if (each(ctx, &t))
			break;
	}
	return end(s, q, ERR_NONE, step, e);
}

int store_report_steps(struct store *s, int64_t run_id, store_step_fn *each, void *ctx, struct err *e)
{
	sqlite3_stmt *q = NULL;
	int rc = begin(s, &q, "SELECT " STEP_COLUMNS " WHERE " RANGE, run_id, e);
	return rc ? rc : each_step(s, q, each, ctx, e);
}

/* Looked up one by one: what lies between is not read. */
static const char every_sql[] = "WITH RECURSIVE wanted(id) AS (SELECT ?1 << 32 UNION ALL SELECT id + ?2 FROM wanted "
				"WHERE id < (SELECT max(id) FROM steps"
				" WHERE id <= (?1 << 32) + 4294967295)) SELECT " STEP_COLUMNS " JOIN wanted USING (id)";

int store_report_steps_every(struct store *s, int64_t run_id, int64_t every, store_step_fn *each, void *ctx,
			     struct err *e)
{
	sqlite3_stmt *q = NULL;
	int rc = begin(s, &q, every_sql, run_id, e);
	if (rc)
		return rc;
	sqlite3_bind_int64(q, 2, every);
	return each_step(s, q, each, ctx, e);
}

/* --- anything else ------------------------------------------------------------------------------------------------ */

int store_report_numbers(struct store *s, const char *sql, int64_t *ids, int64_t at_most, int64_t *n, struct err *e)
{
	sqlite3_stmt *q = NULL;
	int step = SQLITE_DONE, rc = store_prepare(s, &q, sql, WHAT, e);
	*n = 0;
	while (rc == ERR_NONE && *n < at_most && (step = sqlite3_step(q)) == SQLITE_ROW)
		ids[(*n)++] = sqlite3_column_int64(q, 0);
	return end(s, q, rc, step, e);
}

static void put_column(sqlite3_stmt *q, int c, struct jout *j)
{
	const char *name = sqlite3_column_name(q, c);
	switch (sqlite3_column_type(q, c)) {
	case SQLITE_INTEGER:
		jout_int(j, name, sqlite3_column_int64(q, c));
		break;
	case SQLITE_FLOAT:
		jout_real(j, name, sqlite3_column_double(q, c));
		break;
	case SQLITE_TEXT:
		jout_text(j, name, (const char *)sqlite3_column_text(q, c));
		break;
	default:
		jout_null(j, name);
	}
}

int store_report_rows(struct store *s, const char *sql, int64_t a, int64_t b, struct jout *j, const char *key,
		      struct err *e)
{
	sqlite3_stmt *q = NULL;
	int step = SQLITE_DONE, rc = begin(s, &q, sql, a, e);
	if (rc)
		return rc;
	if (sqlite3_bind_parameter_count(q) > 1)
		sqlite3_bind_int64(q, 2, b);
	jout_begin(j, key, '[');
	while ((step = sqlite3_step(q)) == SQLITE_ROW) {
		jout_begin(j, NULL, '{');
		for (int c = 0; c < sqlite3_column_count(q); c++)
			put_column(q, c, j);
		jout_end(j, '}');
	}
	jout_end(j, ']');
	return end(s, q, ERR_NONE, step, e);
}
