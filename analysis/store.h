/* store.h: runs in an SQLite database. The only place that opens it. docs/database.md documents the schema for people who
 * open it with sqlite3, pandas or Datasette.
 *
 * A run is inserted as 'running' in a transaction of its own, its steps (if wanted) follow in batches, its requests,
 * figures and final status in one last transaction: a killed process leaves a database that opens and says so. */
#ifndef ANALYSIS_STORE_H
#define ANALYSIS_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/record.h"
#include "core/workload.h"

struct err;
struct run_result;
struct run_settings;
struct store;
struct tape;

/* Opens (and, for writing, creates or migrates) the database at `path`. ERR_IO, ERR_INPUT (not a database, made by a
 * newer Lockstep). Reading a database that does not exist is ERR_INPUT. */
int store_open(struct store **out, const char *path, bool read_only, struct err *e);
void store_close(struct store *s); /* NULL is fine */
const char *store_path(const struct store *s);

/* --- writing a run; run_execute calls these ---------------------------------------------------------------------- */

/* Inserts the run as 'running' and gives its number. r has what is known before the first step. */
int store_begin_run(struct store *s, const struct run_settings *settings, const struct workload *w,
		    const struct run_result *r, int64_t *run_id, struct err *e);
/* One step; kept in memory and written some ten thousand at a time. */
int store_step(struct store *s, const struct step_row *row, struct err *e);
/* Requests (unless RECORD_NONE), recorded inputs, outputs, figures and the final status, in one transaction. */
int store_end_run(struct store *s, const struct run_settings *settings, const struct workload *w,
		  const struct run_result *r, struct err *e);

/* A validation's row and figures, in one transaction; its two runs are there already. */
struct validate_result;
int store_validation(struct store *s, const struct validate_result *r, int64_t *id, struct err *e);

/* Of a run that is still 'running' because the process that made it is gone: it failed, and why. From another process than
 * that one. */
int store_fail_run(struct store *s, int64_t run_id, const char *why, struct err *e);

/* --- reading ------------------------------------------------------------------------------------------------------ */

/* One line of `lockstep runs list`. Strings live as long as the list. */
struct store_run {
	int64_t run_id;
	const char *started; /* "2026-11-29 17:03:12" UTC, or "" */
	const char *status, *status_text;
	const char *label, *policy, *policy_params, *model, *device, *trace;
	uint64_t workload_hash;
	int64_t requests, completed, failed;
	double duration_s; /* NAN where not known */
	double request_throughput, output_throughput, mean_ttft_ms, p99_ttft_ms, mean_tpot_ms; /* NAN where not known */
};
struct store_list {
	struct store_run *runs;
	int64_t n;
	char *text; /* what the strings point into */
};
int store_list(struct store *s, struct store_list *out, struct err *e); /* by run_id */
void store_list_free(struct store_list *l);

/* "latest" or a number -> run_id. ERR_INPUT when there is no such run. */
int store_resolve(struct store *s, const char *text, int64_t *run_id, struct err *e);
/* The run's object as `--json` printed it; release with mem_free. A run that did not end has its settings and status. */
int store_run_json(struct store *s, int64_t run_id, char **json, struct err *e);

/* What it takes to run it again. Strings are NULL where nothing is stored; they live as long as the recipe. */
struct store_recipe {
	int64_t run_id;
	char *status, *label, *backend, *policy, *policy_params, *trace, *trace_hash, *program_version;
	char *policy_path, *policy_digest; /* of a plug-in */
	char *arguments; /* JSON array: the command line as typed. NULL: made by a version that did not store it */
	int32_t arm; /* which of that command line's runs it is */
	int32_t num_gpu_blocks; /* as used; 0 = without */
	int64_t profile_id; /* of its cost model's measured times; 0 = none */
	uint64_t profile_hash;
	int64_t steps; /* executed; -1: it came to no end */
	uint64_t workload_hash, decision_hash, memory_hash; /* 0 where there is none */
};
int store_recipe(struct store *s, int64_t run_id, struct store_recipe *out, struct err *e);
void store_recipe_free(struct store_recipe *r);
/* Everything its engine took from outside, into *t (to be released with tape_free). ERR_INPUT when nothing was recorded:
 * only runs on real kernels, and replays of them, have that. */
int store_load_tape(struct store *s, int64_t run_id, struct tape *t, struct err *e);

/* Deletes runs and all that belongs to them, all or none; then gives the space back to the file system (vacuum). */
int store_delete(struct store *s, const int64_t *run_ids, int64_t n, bool vacuum, struct err *e);

#endif
