/* store_rows.c: a run's arrays as virtual tables, so that one INSERT ... SELECT stores them all. SQLite then pulls each
 * value straight into the row it builds: twice as fast as binding and stepping a statement per row. */
#include <stdio.h>

#include "analysis/store_internal.h"
#include "core/mem.h"

struct rows_table {
	sqlite3_vtab base;
	struct store *store;
};

struct rows_cursor {
	sqlite3_vtab_cursor base;
	struct store *store;
	int64_t row;
};

/* --- requests ----------------------------------------------------------------------------------------------------- */

enum request_column {
	Q_ID,
	Q_STATE,
	Q_WHY,
	Q_SOURCE_ROW,
	Q_NAME,
	Q_SESSION,
	Q_TENANT,
	Q_PRIORITY,
	Q_REPLICA,
	Q_PROMPT,
	Q_WANTED,
	Q_OUTPUT,
	Q_CACHED,
	Q_RECOMPUTED,
	Q_PREEMPTIONS,
	Q_CHUNKS,
	Q_ARRIVAL,
	Q_QUEUE,
	Q_PREFILL,
	Q_DECODE,
	Q_PREEMPTED,
	Q_PREEMPTED_PREFILL,
	Q_HELD,
	Q_FAILED,
	Q_SWAPS,
	Q_TRANSFER,
	Q_TRANSFER_PREFILL,
};

/* When a column has to be written: always, or when the run has any such request. */
enum group {
	ALWAYS,
	NAMED,
	SESSIONS,
	TENANTS,
	PRIORITIES,
	REPLICAS,
	CACHED,
	PREEMPTED,
	HELD,
	FAILED,
	TRANSFERS,
	GROUPS
};

static const struct {
	const char *name; /* in the order of enum request_column */
	enum group group;
} request_columns[] = {
	{"id", ALWAYS},
	{"state", FAILED},
	{"why", FAILED},
	{"source_row", ALWAYS},
	{"name", NAMED},
	{"session", SESSIONS},
	{"tenant", TENANTS},
	{"priority", PRIORITIES},
	{"replica", REPLICAS},
	{"prompt_tokens", ALWAYS},
	{"wanted_tokens", ALWAYS},
	{"output_tokens", ALWAYS},
	{"cached_tokens", CACHED},
	{"recomputed_tokens", PREEMPTED},
	{"preemptions", PREEMPTED},
	{"chunks", ALWAYS},
	{"arrival_ns", ALWAYS},
	{"queue_ns", ALWAYS},
	{"prefill_ns", ALWAYS},
	{"decode_ns", ALWAYS},
	/* Null for a request that did not finish, where the default would be 0. */
	{"preempted_ns", PREEMPTED},
	{"preempted_in_prefill_ns", PREEMPTED},
	{"held_ns", HELD},
	{"failed_ns", FAILED},
	{"swaps", TRANSFERS},
	{"transfer_ns", TRANSFERS},
	{"transfer_in_prefill_ns", TRANSFERS},
};
#define N_COLUMNS (sizeof request_columns / sizeof *request_columns)

static void find_groups(const struct store *s, bool has[GROUPS])
{
	has[ALWAYS] = true;
	has[NAMED] = s->workload->names != NULL;
	has[TENANTS] = s->workload->n_tenants > 1;
	for (int64_t i = 0; i < s->n_requests; i++) {
		const struct request *r = &s->requests[i];
		const struct spec *q = &s->workload->specs[i];
		has[SESSIONS] |= q->session >= 0;
		has[PRIORITIES] |= q->priority != 0;
		has[REPLICAS] |= r->replica != 0;
		has[CACHED] |= r->cached_tokens != 0;
		has[PREEMPTED] |= r->preemptions != 0 || r->preempted_ns != 0;
		has[HELD] |= r->held_until_ns > r->last_token_ns;
		has[TRANSFERS] |= r->swaps != 0 || r->transfer_ns != 0;
		has[FAILED] |= r->state != REQUEST_FINISHED;
	}
	has[PREEMPTED] |= has[FAILED];
	has[TRANSFERS] |= has[FAILED];
	has[HELD] |= has[FAILED];
}

void store_requests_sql(const struct store *s, char *sql)
{
	bool has[GROUPS] = {false};
	char columns[STORE_SQL / 2 - 40] = "";
	size_t at = 0;
	find_groups(s, has);
	for (size_t i = 0; i < N_COLUMNS; i++)
		if (has[request_columns[i].group])
			at += (size_t)snprintf(columns + at, sizeof columns - at, "%s%s", at ? ", " : "",
					       request_columns[i].name);
	snprintf(sql, STORE_SQL, "INSERT INTO requests (%s) SELECT %s FROM run_requests", columns, columns);
}

/* What is of the request, not of its service. */
static void spec_column(const struct workload *w, const struct spec *s, enum request_column c, sqlite3_context *out)
{
	switch (c) {
	case Q_SOURCE_ROW:
		sqlite3_result_int64(out, s->row);
		return;
	case Q_NAME:
		if (s->name_at >= 0 && w->names)
			sqlite3_result_text(out, w->names + s->name_at, -1, SQLITE_STATIC);
		return;
	case Q_SESSION:
		if (s->session >= 0)
			sqlite3_result_int64(out, s->session);
		return;
	case Q_TENANT:
		if (s->tenant > 0 && s->tenant < w->n_tenants)
			sqlite3_result_text(out, w->tenants[s->tenant], -1, SQLITE_STATIC);
		return;
	case Q_PRIORITY:
		sqlite3_result_int64(out, s->priority);
		return;
	case Q_PROMPT:
		sqlite3_result_int64(out, s->prompt_tokens);
		return;
	case Q_WANTED:
		sqlite3_result_int64(out, s->output_tokens);
		return;
	default:
		return;
	}
}

/* The parts of its latency: null unless it finished. */
static void time_column(const struct request *r, enum request_column c, sqlite3_context *out)
{
	bool ended_badly = r->state == REQUEST_REJECTED || r->state == REQUEST_ABORTED;
	if (c == Q_FAILED) {
		if (ended_badly)
			sqlite3_result_int64(out, r->last_token_ns - r->arrival_ns);
		return;
	}
	if (r->state != REQUEST_FINISHED)
		return;
	switch (c) {
	case Q_QUEUE:
		sqlite3_result_int64(out, request_queue_ns(r));
		return;
	case Q_PREFILL:
		sqlite3_result_int64(out, request_prefill_ns(r));
		return;
	case Q_DECODE:
		sqlite3_result_int64(out, request_decode_ns(r));
		return;
	case Q_PREEMPTED:
		sqlite3_result_int64(out, r->preempted_ns);
		return;
	case Q_PREEMPTED_PREFILL:
		sqlite3_result_int64(out, r->preempted_in_prefill_ns);
		return;
	case Q_TRANSFER:
		sqlite3_result_int64(out, r->transfer_ns);
		return;
	case Q_TRANSFER_PREFILL:
		sqlite3_result_int64(out, r->transfer_in_prefill_ns);
		return;
	case Q_HELD:
		sqlite3_result_int64(out,
				     r->held_until_ns > r->last_token_ns ? r->held_until_ns - r->last_token_ns : 0);
		return;
	default:
		return;
	}
}

static int request_column(sqlite3_vtab_cursor *cursor, sqlite3_context *out, int c)
{
	const struct rows_cursor *at = (const struct rows_cursor *)cursor;
	const struct store *s = at->store;
	const struct request *r = &s->requests[at->row];
	switch ((enum request_column)c) {
	case Q_ID:
		sqlite3_result_int64(out, (s->run_id << STORE_ID_BITS) + at->row);
		break;
	case Q_STATE:
		sqlite3_result_int64(out, r->state);
		break;
	case Q_WHY:
		sqlite3_result_int64(out, r->why);
		break;
	case Q_REPLICA:
		sqlite3_result_int64(out, r->replica);
		break;
	case Q_OUTPUT:
		sqlite3_result_int64(out, r->outputs);
		break;
	case Q_CACHED:
		sqlite3_result_int64(out, r->cached_tokens);
		break;
	case Q_RECOMPUTED:
		sqlite3_result_int64(out, r->recomputed_tokens);
		break;
	case Q_PREEMPTIONS:
		sqlite3_result_int64(out, r->preemptions);
		break;
	case Q_SWAPS:
		sqlite3_result_int64(out, r->swaps);
		break;
	case Q_CHUNKS:
		sqlite3_result_int64(out, r->chunks);
		break;
	case Q_ARRIVAL:
		if (r->state != REQUEST_PENDING)
			sqlite3_result_int64(out, r->arrival_ns);
		break;
	case Q_QUEUE:
	case Q_PREFILL:
	case Q_DECODE:
	case Q_PREEMPTED:
	case Q_PREEMPTED_PREFILL:
	case Q_TRANSFER:
	case Q_TRANSFER_PREFILL:
	case Q_HELD:
	case Q_FAILED:
		time_column(r, (enum request_column)c, out);
		break;
	default:
		spec_column(s->workload, &s->workload->specs[at->row], (enum request_column)c, out);
	}
	return SQLITE_OK;
}

static int request_eof(sqlite3_vtab_cursor *cursor)
{
	const struct rows_cursor *at = (const struct rows_cursor *)cursor;
	return at->row >= at->store->n_requests;
}

/* --- steps -------------------------------------------------------------------------------------------------------- */

#define STEP_COLUMNS                                                                                                   \
	"id, start_ns, duration_ns, host_ns, decodes, chunks, output_tokens, prefill_tokens, decode_ctx, running, "    \
	"waiting, preempted, blocks_used, blocks_cached, outside"
#define STEP_PART_COLUMNS ", matmul_ns, attention_ns, head_ns, other_ns"
#define STEP_TRANSFER_COLUMN ", transfer_ns"
enum { STEP_OUTSIDE = 14, STEP_FIRST_PART, STEP_TRANSFER = STEP_FIRST_PART + STEP_PARTS };

static const char step_columns[] = "CREATE TABLE x (" STEP_COLUMNS STEP_PART_COLUMNS STEP_TRANSFER_COLUMN ")";

static bool was_measured(const struct step_row *t)
{
	int64_t any = 0;
	for (int i = 0; i < STEP_PARTS; i++)
		any |= t->part_ns[i];
	return any != 0;
}

void store_steps_sql(const struct store *s, char *sql)
{
	bool any = false, waited = false;
	for (int64_t i = 0; i < s->n_steps; i++) {
		any = any || was_measured(&s->steps[i]);
		waited = waited || s->steps[i].transfer_ns;
	}
	const char *more = waited ? STEP_PART_COLUMNS STEP_TRANSFER_COLUMN : any ? STEP_PART_COLUMNS : "";
	snprintf(sql, STORE_SQL, "INSERT INTO steps (" STEP_COLUMNS "%s) SELECT " STEP_COLUMNS "%s FROM run_steps",
		 more, more);
}

static int step_column(sqlite3_vtab_cursor *cursor, sqlite3_context *out, int c)
{
	const struct rows_cursor *at = (const struct rows_cursor *)cursor;
	const struct step_row *t = &at->store->steps[at->row];
	const int64_t values[STEP_OUTSIDE] = {(at->store->run_id << STORE_ID_BITS) + t->step,
					      t->start_ns,
					      t->end_ns - t->start_ns,
					      t->host_ns,
					      t->decodes,
					      t->chunks,
					      t->sampled,
					      t->prefill_tokens,
					      t->decode_ctx,
					      t->running,
					      t->waiting,
					      t->preempted,
					      t->blocks_used,
					      t->blocks_cached};
	if (c < STEP_OUTSIDE)
		sqlite3_result_int64(out, values[c]);
	else if (c == STEP_OUTSIDE && t->outside > 0)
		sqlite3_result_double(out, t->outside);
	else if (c == STEP_TRANSFER && t->transfer_ns)
		sqlite3_result_int64(out, t->transfer_ns);
	else if (c >= STEP_FIRST_PART && c < STEP_TRANSFER && was_measured(t))
		sqlite3_result_int64(out, t->part_ns[c - STEP_FIRST_PART]);
	return SQLITE_OK;
}

static int step_eof(sqlite3_vtab_cursor *cursor)
{
	const struct rows_cursor *at = (const struct rows_cursor *)cursor;
	return at->row >= at->store->n_steps;
}

/* --- what both share ---------------------------------------------------------------------------------------------- */

static int rows_connect(sqlite3 *db, struct store *s, const char *columns, sqlite3_vtab **out)
{
	int rc = sqlite3_declare_vtab(db, columns);
	if (rc)
		return rc;
	struct rows_table *t = mem_zalloc(1, sizeof *t);
	if (!t)
		return SQLITE_NOMEM;
	t->store = s;
	*out = &t->base;
	return SQLITE_OK;
}

static int requests_connect(sqlite3 *db, void *aux, int argc, const char *const *argv, sqlite3_vtab **out, char **err)
{
	(void)argc, (void)argv, (void)err;
	char sql[STORE_SQL];
	size_t at = (size_t)snprintf(sql, sizeof sql, "CREATE TABLE x (");
	for (size_t i = 0; i < N_COLUMNS; i++)
		at += (size_t)snprintf(sql + at, sizeof sql - at, "%s%s", i ? ", " : "", request_columns[i].name);
	snprintf(sql + at, sizeof sql - at, ")");
	return rows_connect(db, aux, sql, out);
}

static int steps_connect(sqlite3 *db, void *aux, int argc, const char *const *argv, sqlite3_vtab **out, char **err)
{
	(void)argc, (void)argv, (void)err;
	return rows_connect(db, aux, step_columns, out);
}

static int rows_disconnect(sqlite3_vtab *t)
{
	mem_free(t);
	return SQLITE_OK;
}

static int rows_best_index(sqlite3_vtab *t, sqlite3_index_info *info)
{
	(void)t;
	info->estimatedCost = 1e6;
	return SQLITE_OK;
}

static int rows_open(sqlite3_vtab *t, sqlite3_vtab_cursor **out)
{
	struct rows_cursor *c = mem_zalloc(1, sizeof *c);
	if (!c)
		return SQLITE_NOMEM;
	c->store = ((struct rows_table *)t)->store;
	*out = &c->base;
	return SQLITE_OK;
}

static int rows_close(sqlite3_vtab_cursor *c)
{
	mem_free(c);
	return SQLITE_OK;
}

static int rows_filter(sqlite3_vtab_cursor *c, int number, const char *text, int argc, sqlite3_value **argv)
{
	(void)number, (void)text, (void)argc, (void)argv;
	((struct rows_cursor *)c)->row = 0;
	return SQLITE_OK;
}

static int rows_next(sqlite3_vtab_cursor *c)
{
	((struct rows_cursor *)c)->row++;
	return SQLITE_OK;
}

static int rows_rowid(sqlite3_vtab_cursor *c, sqlite3_int64 *out)
{
	*out = ((struct rows_cursor *)c)->row;
	return SQLITE_OK;
}

#define ROWS_MODULE(connect, eof, column)                                                                              \
	{                                                                                                              \
		.xConnect = connect, .xDisconnect = rows_disconnect, .xBestIndex = rows_best_index,                    \
		.xOpen = rows_open, .xClose = rows_close, .xFilter = rows_filter, .xNext = rows_next, .xEof = eof,     \
		.xColumn = column, .xRowid = rows_rowid                                                                \
	}
/* Without xCreate they exist by their names alone and leave no trace in the file. */
static const sqlite3_module requests_module = ROWS_MODULE(requests_connect, request_eof, request_column);
static const sqlite3_module steps_module = ROWS_MODULE(steps_connect, step_eof, step_column);

int store_register_rows(struct store *s, struct err *e)
{
	if (sqlite3_create_module(s->db, "run_requests", &requests_module, s) ||
	    sqlite3_create_module(s->db, "run_steps", &steps_module, s))
		return store_fail(s, e, "opening the database");
	return ERR_NONE;
}
