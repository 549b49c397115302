/* store_read.c: what is in the database: listing, showing, deleting. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/store_internal.h"
#include "core/mem.h"

#define WHAT "reading runs"

/* --- the list ----------------------------------------------------------------------------------------------------- */

static const char list_sql[] =
	"SELECT s.run_id, coalesce(s.started, ''), s.status, coalesce(r.status_text, ''), s.label, s.policy,"
	" coalesce(s.policy_params, ''), coalesce(s.model, ''), coalesce(s.device, ''), coalesce(s.trace, ''),"
	" s.workload_hash, s.requests, s.completed, s.rejected + s.aborted, s.duration_s, s.request_throughput,"
	" s.output_throughput, s.mean_ttft_ms, s.p99_ttft_ms, s.mean_tpot_ms"
	" FROM run_summary s JOIN runs r USING (run_id) ORDER BY s.run_id";
#define FIRST_TEXT 1
#define N_TEXTS 9

/* Texts go into one block; as it moves while growing, only offsets are kept until it is complete. */
struct pool {
	char *text;
	int64_t len, cap;
	int64_t *at; /* [runs][N_TEXTS] */
	int64_t n_at, cap_at;
};

static int keep_text(struct pool *p, const char *text)
{
	int64_t size = (int64_t)strlen(text) + 1;
	if (mem_grow((void **)&p->text, &p->cap, p->len + size, 1) ||
	    mem_grow((void **)&p->at, &p->cap_at, p->n_at + 1, sizeof *p->at))
		return -1;
	memcpy(p->text + p->len, text, (size_t)size);
	p->at[p->n_at++] = p->len;
	p->len += size;
	return 0;
}

static double real_or_nan(sqlite3_stmt *q, int c)
{
	return sqlite3_column_type(q, c) == SQLITE_NULL ? NAN : sqlite3_column_double(q, c);
}

static int read_run(sqlite3_stmt *q, struct store_run *r, struct pool *p)
{
	*r = (struct store_run){.run_id = sqlite3_column_int64(q, 0)};
	for (int i = 0; i < N_TEXTS; i++) {
		const char *text = (const char *)sqlite3_column_text(q, FIRST_TEXT + i);
		if (!text || keep_text(p, text))
			return -1;
	}
	int c = FIRST_TEXT + N_TEXTS;
	const char *hash = (const char *)sqlite3_column_text(q, c++);
	r->workload_hash = hash ? strtoull(hash, NULL, 16) : 0;
	r->requests = sqlite3_column_int64(q, c++);
	r->completed = sqlite3_column_int64(q, c++);
	r->failed = sqlite3_column_int64(q, c++);
	r->duration_s = real_or_nan(q, c++);
	r->request_throughput = real_or_nan(q, c++);
	r->output_throughput = real_or_nan(q, c++);
	r->mean_ttft_ms = real_or_nan(q, c++);
	r->p99_ttft_ms = real_or_nan(q, c++);
	r->mean_tpot_ms = real_or_nan(q, c++);
	return 0;
}

static void point_texts(struct store_list *l, const struct pool *p)
{
	for (int64_t i = 0; p->at && i < l->n; i++) {
		struct store_run *r = &l->runs[i];
		const char **to[N_TEXTS] = {&r->started,       &r->status, &r->status_text, &r->label, &r->policy,
					    &r->policy_params, &r->model,  &r->device,      &r->trace};
		for (int k = 0; k < N_TEXTS; k++)
			*to[k] = p->text + p->at[i * N_TEXTS + k];
	}
}

int store_list(struct store *s, struct store_list *out, struct err *e)
{
	*out = (struct store_list){0};
	struct pool p = {0};
	int64_t cap = 0;
	sqlite3_stmt *q = NULL;
	int rc = store_prepare(s, &q, list_sql, WHAT, e), step = SQLITE_DONE;
	while (rc == ERR_NONE && (step = sqlite3_step(q)) == SQLITE_ROW) {
		if (mem_grow((void **)&out->runs, &cap, out->n + 1, sizeof *out->runs) ||
		    read_run(q, &out->runs[out->n], &p))
			rc = err_no_memory(e, WHAT);
		else
			out->n++;
	}
	if (rc == ERR_NONE && step != SQLITE_DONE)
		rc = store_fail(s, e, WHAT);
	sqlite3_finalize(q);
	out->text = p.text;
	if (rc == ERR_NONE)
		point_texts(out, &p);
	else
		store_list_free(out);
	mem_free(p.at);
	return rc;
}

void store_list_free(struct store_list *l)
{
	mem_free(l->runs);
	mem_free(l->text);
	*l = (struct store_list){0};
}

/* --- one run ------------------------------------------------------------------------------------------------------ */

/* "SELECT ... " with one number to bind, giving one number; *found is false without a row or with null. */
static int one_int(struct store *s, const char *sql, int64_t bound, int64_t *v, bool *found, struct err *e)
{
	sqlite3_stmt *q = NULL;
	int rc = store_prepare(s, &q, sql, WHAT, e);
	if (rc)
		return rc;
	sqlite3_bind_int64(q, 1, bound);
	int step = sqlite3_step(q);
	*found = step == SQLITE_ROW && sqlite3_column_type(q, 0) != SQLITE_NULL;
	*v = *found ? sqlite3_column_int64(q, 0) : 0;
	if (step != SQLITE_ROW && step != SQLITE_DONE)
		rc = store_fail(s, e, WHAT);
	sqlite3_finalize(q);
	return rc;
}

static int no_such_run(struct store *s, const char *text, struct err *e)
{
	return err_set(e, ERR_INPUT, "%s: there is no run %s; `lockstep runs list --db %s` shows those there are",
		       s->path, text, s->path);
}

int store_resolve(struct store *s, const char *text, int64_t *run_id, struct err *e)
{
	bool found = false;
	int rc;
	if (strcmp(text, "latest") == 0) {
		rc = one_int(s, "SELECT max(run_id) FROM runs WHERE ?1 = 0", 0, run_id, &found, e);
		if (rc == ERR_NONE && !found)
			rc = err_set(e, ERR_INPUT, "%s: there are no runs in this database", s->path);
		return rc;
	}
	char *end;
	errno = 0;
	long long id = strtoll(text, &end, 10);
	if (end == text || *end || errno)
		return err_set(e, ERR_INPUT, "\"%s\" is not a run: give its number, or `latest`", text);
	rc = one_int(s, "SELECT run_id FROM runs WHERE run_id = ?1", id, run_id, &found, e);
	return rc || found ? rc : no_such_run(s, text, e);
}

int store_run_json(struct store *s, int64_t run_id, char **json, struct err *e)
{
	*json = NULL;
	sqlite3_stmt *q = NULL;
	int rc = store_prepare(s, &q, "SELECT coalesce(result, 'null') FROM runs WHERE run_id = ?", WHAT, e);
	if (rc)
		return rc;
	sqlite3_bind_int64(q, 1, run_id);
	int step = sqlite3_step(q);
	if (step == SQLITE_ROW) {
		const char *text = (const char *)sqlite3_column_text(q, 0);
		*json = text ? mem_strdup(text) : NULL;
		if (!*json)
			rc = err_no_memory(e, WHAT);
	} else if (step == SQLITE_DONE) {
		char text[24];
		sqlite3_snprintf(sizeof text, text, "%lld", (long long)run_id);
		rc = no_such_run(s, text, e);
	} else {
		rc = store_fail(s, e, WHAT);
	}
	sqlite3_finalize(q);
	return rc;
}

/* --- deleting ----------------------------------------------------------------------------------------------------- */

static int delete_one(struct store *s, int64_t run_id, struct err *e)
{
	static const char *const statements[] = {
		"DELETE FROM requests WHERE id BETWEEN ?1 << 32 AND (?1 << 32) + 4294967295",
		"DELETE FROM steps WHERE id BETWEEN ?1 << 32 AND (?1 << 32) + 4294967295",
		"DELETE FROM step_outline WHERE id BETWEEN ?1 << 32 AND (?1 << 32) + 4294967295",
		"DELETE FROM inputs WHERE id BETWEEN ?1 << 32 AND (?1 << 32) + 4294967295",
		"DELETE FROM outputs WHERE id BETWEEN ?1 << 32 AND (?1 << 32) + 4294967295",
		"DELETE FROM metrics WHERE run_id = ?1",
		("DELETE FROM validation_steps WHERE validation_id IN (SELECT validation_id FROM validations"
		 " WHERE ?1 IN (executed_run_id, simulated_run_id))"),
		("DELETE FROM validation_errors WHERE validation_id IN (SELECT validation_id FROM validations"
		 " WHERE ?1 IN (executed_run_id, simulated_run_id))"),
		"DELETE FROM validations WHERE ?1 IN (executed_run_id, simulated_run_id)",
		"DELETE FROM runs WHERE run_id = ?1",
	};
	int rc = ERR_NONE;
	for (size_t i = 0; rc == ERR_NONE && i < sizeof statements / sizeof *statements; i++) {
		sqlite3_stmt *q = NULL;
		rc = store_prepare(s, &q, statements[i], "deleting runs", e);
		if (rc)
			break;
		sqlite3_bind_int64(q, 1, run_id);
		if (sqlite3_step(q) != SQLITE_DONE)
			rc = store_fail(s, e, "deleting runs");
		sqlite3_finalize(q);
	}
	if (rc == ERR_NONE && sqlite3_changes(s->db) == 0) {
		char text[24];
		sqlite3_snprintf(sizeof text, text, "%lld", (long long)run_id);
		rc = no_such_run(s, text, e);
	}
	return rc;
}

int store_delete(struct store *s, const int64_t *run_ids, int64_t n, bool vacuum, struct err *e)
{
	int rc = store_exec(s, "BEGIN IMMEDIATE", "deleting runs", e);
	if (rc)
		return rc;
	for (int64_t i = 0; rc == ERR_NONE && i < n; i++)
		rc = delete_one(s, run_ids[i], e);
	if (rc == ERR_NONE)
		rc = store_exec(s, "COMMIT", "deleting runs", e);
	if (rc) {
		sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
		return rc;
	}
	return vacuum ? store_exec(s, "VACUUM; PRAGMA wal_checkpoint(TRUNCATE)", "giving space back", e) : ERR_NONE;
}
