/* store_calibration.c: calibrations go into the database; an executed run comes out as a measured log. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <time.h>

#include "analysis/calibrate.h"
#include "analysis/store_bind.h"
#include "analysis/store_internal.h"
#include "core/mem.h"

#define STORING "storing the calibration"
#define READING "reading the run's requests"

static int add_row(struct store *s, const struct calibrate_options *o, const char *path,
		   const struct calibrate_result *r, struct err *e)
{
	struct binder b = {0};
	char seed[24];
	int rc = store_prepare(
		s, &b.q,
		"INSERT INTO calibrations (calibrated, program_version, measured, measured_format, model, device, "
		"policy,"
		" workload_hash, requests, fitted_requests, seed, cost, simulations, wall_s, interrupted, result)"
		" VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, '{}')",
		STORING, e);
	if (rc)
		return rc;
	snprintf(seed, sizeof seed, "%" PRIu64, o->seed);
	bind_date(&b, (int64_t)time(NULL));
	bind_text(&b, LOCKSTEP_VERSION);
	bind_text(&b, path);
	bind_text(&b, measured_format_names[o->measured->format]);
	bind_text(&b, o->settings->model);
	bind_text(&b, o->settings->device);
	bind_text(&b, o->settings->policy);
	bind_hex(&b, o->settings->workload_hash);
	bind_int(&b, o->measured->n);
	bind_int(&b, r->after[CALIBRATE_FIT].n);
	bind_text(&b, seed);
	bind_text(&b, r->cost);
	bind_int(&b, r->evals);
	bind_real(&b, r->wall_s);
	bind_int(&b, r->interrupted);
	rc = store_run_once(s, &b, STORING, e);
	sqlite3_finalize(b.q);
	return rc;
}

static int add_params(struct store *s, const struct calibrate_result *r, struct err *e)
{
	struct binder b = {0};
	int rc =
		store_prepare(s, &b.q, "INSERT INTO calibration_params VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", STORING, e);
	for (int p = 0; p < CALIBRATE_PARAMS && rc == ERR_NONE; p++) {
		const struct calibrate_estimate *x = &r->estimates[p];
		bind_int(&b, r->calibration_id);
		bind_text(&b, calibrate_params[p].name);
		bind_text(&b, calibrate_params[p].unit);
		bind_int(&b, x->fitted);
		bind_real(&b, x->initial);
		bind_real(&b, x->value);
		bind_real(&b, x->low);
		bind_real(&b, x->high);
		bind_text(&b, x->undetermined ? x->why : NULL);
		rc = store_run_once(s, &b, STORING, e);
	}
	sqlite3_finalize(b.q);
	return rc;
}

static int add_errors(struct store *s, const struct calibrate_result *r, struct err *e)
{
	static const char *const parts[] = {"fitted", "held_out"};
	struct binder b = {0};
	int rc = store_prepare(s, &b.q, "INSERT INTO calibration_errors VALUES (?, ?, ?, ?, ?, ?, ?)", STORING, e);
	for (int i = 0; i < CALIBRATE_PARTS * CALIBRATE_METRICS * CALIBRATE_STATS && rc == ERR_NONE; i++) {
		int k = i % CALIBRATE_STATS, m = i / CALIBRATE_STATS % CALIBRATE_METRICS;
		int part = i / (CALIBRATE_STATS * CALIBRATE_METRICS);
		bind_int(&b, r->calibration_id);
		bind_text(&b, parts[part]);
		bind_text(&b, calibrate_metric_keys[m]);
		bind_text(&b, calibrate_stat_keys[k]);
		bind_real(&b, r->after[part].measured_ns[m][k] / 1e6);
		bind_real(&b, r->before[part].percent[m][k]);
		bind_real(&b, r->after[part].percent[m][k]);
		rc = store_run_once(s, &b, STORING, e);
	}
	sqlite3_finalize(b.q);
	return rc;
}

/* The JSON object, which names the row's own number. */
static int set_result(struct store *s, const struct calibrate_options *o, const char *path,
		      const struct calibrate_result *r, struct err *e)
{
	struct binder b = {0};
	char *json = NULL;
	int rc = calibrate_json(o, path, r, &json, e);
	if (rc == ERR_NONE)
		rc = store_prepare(s, &b.q, "UPDATE calibrations SET result = ? WHERE calibration_id = ?", STORING, e);
	if (rc == ERR_NONE) {
		bind_text(&b, json);
		bind_int(&b, r->calibration_id);
		rc = store_run_once(s, &b, STORING, e);
	}
	sqlite3_finalize(b.q);
	mem_free(json);
	return rc;
}

int store_calibration(struct store *s, const struct calibrate_options *o, const char *measured_path,
		      struct calibrate_result *r, struct err *e)
{
	int rc = store_exec(s, "BEGIN IMMEDIATE", STORING, e);
	if (rc)
		return rc;
	rc = add_row(s, o, measured_path, r, e);
	r->calibration_id = rc == ERR_NONE ? sqlite3_last_insert_rowid(s->db) : 0;
	if (rc == ERR_NONE)
		rc = add_params(s, r, e);
	if (rc == ERR_NONE)
		rc = add_errors(s, r, e);
	if (rc == ERR_NONE)
		rc = set_result(s, o, measured_path, r, e);
	if (rc == ERR_NONE)
		rc = store_exec(s, "COMMIT", STORING, e);
	if (rc) {
		sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
		r->calibration_id = 0;
	}
	return rc;
}

/* --- a run as a measured log -------------------------------------------------------------------------------------------- */

static const char run_settings_sql[] =
	"SELECT model, device, max_num_seqs, max_num_batched_tokens, max_model_len, block_size, num_gpu_blocks,"
	" prefix_caching, async_scheduling, recorded, backend FROM runs WHERE run_id = ?";

static void copy_text(sqlite3_stmt *q, int column, char *buf, size_t size)
{
	const unsigned char *text = sqlite3_column_text(q, column);
	snprintf(buf, size, "%s", text ? (const char *)text : "");
}

static int read_settings(struct store *s, int64_t run_id, struct measured_hints *h, struct err *e)
{
	sqlite3_stmt *q;
	int rc = store_prepare(s, &q, run_settings_sql, READING, e);
	if (rc)
		return rc;
	sqlite3_bind_int64(q, 1, run_id);
	int got = sqlite3_step(q);
	if (got != SQLITE_ROW) {
		rc = got == SQLITE_DONE ? err_set(e, ERR_INPUT, "%s: there is no run %" PRId64, s->path, run_id)
					: store_fail(s, e, READING);
	} else {
		snprintf(h->from, sizeof h->from, "run %" PRId64, run_id);
		copy_text(q, 0, h->model, sizeof h->model);
		copy_text(q, 1, h->device, sizeof h->device);
		h->max_num_seqs = sqlite3_column_int(q, 2);
		h->max_num_batched_tokens = sqlite3_column_int(q, 3);
		h->max_model_len = sqlite3_column_int(q, 4);
		h->block_size = sqlite3_column_int(q, 5);
		h->num_gpu_blocks = sqlite3_column_int(q, 6);
		h->has_prefix_caching = h->has_async_scheduling = true;
		h->prefix_caching = sqlite3_column_int(q, 7) != 0;
		h->async_scheduling = sqlite3_column_int(q, 8) != 0;
	}
	sqlite3_finalize(q);
	return rc;
}

static int read_requests(struct store *s, int64_t run_id, struct measured *m, struct err *e)
{
	sqlite3_stmt *q;
	int rc = store_prepare(
		s, &q,
		"SELECT id - (?1 << 32), state, prompt_tokens, output_tokens, arrival_ns, queue_ns, prefill_ns,"
		" decode_ns, preempted_ns + coalesce(transfer_ns, 0), preempted_in_prefill_ns + "
		"coalesce(transfer_in_prefill_ns, 0)"
		" FROM requests"
		" WHERE id BETWEEN ?1 << 32 AND (?1 << 32) + 4294967295 ORDER BY id",
		READING, e);
	if (rc)
		return rc;
	sqlite3_bind_int64(q, 1, run_id);
	int got = SQLITE_ROW;
	while (rc == ERR_NONE && (got = sqlite3_step(q)) == SQLITE_ROW) {
		char where[64];
		struct measured_request x = {.row = sqlite3_column_int(q, 0) + 1,
					     .prompt_tokens = sqlite3_column_int(q, 2),
					     .output_tokens = sqlite3_column_int(q, 3),
					     .arrival_ns = sqlite3_column_int64(q, 4)};
		int64_t in_prefill = sqlite3_column_int64(q, 9);
		if (sqlite3_column_int(q, 1) != REQUEST_FINISHED) {
			m->failed++;
			continue;
		}
		x.scheduled_ns = x.arrival_ns + sqlite3_column_int64(q, 5);
		x.first_token_ns = x.scheduled_ns + sqlite3_column_int64(q, 6) + in_prefill;
		x.last_token_ns =
			x.first_token_ns + sqlite3_column_int64(q, 7) + sqlite3_column_int64(q, 8) - in_prefill;
		snprintf(where, sizeof where, "run %" PRId64 ", request %d", run_id, x.row);
		rc = measured_add(m, &x, where, e);
	}
	if (rc == ERR_NONE && got != SQLITE_DONE)
		rc = store_fail(s, e, READING);
	sqlite3_finalize(q);
	return rc;
}

int store_measured(struct store *s, const char *run, struct measured *m, struct err *e)
{
	int64_t run_id;
	*m = (struct measured){.format = MEASURED_RUN, .has_scheduled = true};
	int rc = store_resolve(s, run, &run_id, e);
	if (rc == ERR_NONE)
		rc = read_settings(s, run_id, &m->hints, e);
	if (rc == ERR_NONE)
		rc = read_requests(s, run_id, m, e);
	if (rc == ERR_NONE && m->n == 0)
		rc = err_set(e, ERR_INPUT,
			     "run %" PRId64 " has no requests in the database (--record requests keeps them)", run_id);
	return rc;
}
