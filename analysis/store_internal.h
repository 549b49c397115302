/* store_internal.h: shared by the store's own files. */
#ifndef ANALYSIS_STORE_INTERNAL_H
#define ANALYSIS_STORE_INTERNAL_H

#include <sqlite3.h>

#include "analysis/run.h"
#include "analysis/store.h"
#include "core/err.h"

#define STORE_STEPS_BUFFERED 32768 /* 3 MB of steps between two transactions */

/* Rows of a run are numbered id = run_id x 2^32 + request (or step): one integer key, appended in order. */
#define STORE_ID_BITS 32

struct envelope;

struct store {
	sqlite3 *db;
	char *path;
	int failed_with; /* SQLite's primary code behind the last store_fail() */
	int64_t run_id; /* the run being written */

	/* What the virtual tables hand to SQLite (store_rows.c). */
	const struct workload *workload;
	const struct request *requests;
	int64_t n_requests;
	struct step_row *steps; /* [STORE_STEPS_BUFFERED] */
	int64_t n_steps;
	struct envelope *outline; /* of all steps of the run; NULL before the first */
	int64_t outline_from; /* STEP_OUTLINE_FROM; tests: less */
};

/* "runs.db: what: why" with what SQLite says and what to do about it. Returns the error's code. */
int store_fail(struct store *s, struct err *e, const char *what);
int store_exec(struct store *s, const char *sql, const char *what, struct err *e);
int store_prepare(struct store *s, sqlite3_stmt **q, const char *sql, const char *what, struct err *e);

/* Creates the schema or brings an older one up to date (store_schema.c). */
int store_migrate(struct store *s, struct err *e);
int store_migrate_to(struct store *s, int64_t version, struct err *e); /* tests: an older one */
int store_check_version(struct store *s, bool *empty, struct err *e);
/* ERR_INPUT when the database is of an earlier schema version: it was opened to be read, and is left as it is. */
int store_check_recent(struct store *s, int64_t version, struct err *e);

/* The virtual tables run_requests and run_steps over the arrays above. */
int store_register_rows(struct store *s, struct err *e);
/* "INSERT INTO requests (...) SELECT ... FROM run_requests" into sql[STORE_SQL]: only the columns that say something in
 * this run; the rest have their defaults, which halves the time of a plain run. */
#define STORE_SQL 1024
void store_requests_sql(const struct store *s, char *sql);
/* Likewise of steps: their measured parts only where there are any. */
void store_steps_sql(const struct store *s, char *sql);

/* What the engine took in, and what requests were answered with, of run s->run_id (store_tape.c). */
int store_write_tape(struct store *s, const struct tape *t, struct err *e);
int store_write_outputs(struct store *s, const struct run_result *r, struct err *e);

#endif
