/* store_validation.c: validations go into the database. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "analysis/jout.h"
#include "analysis/store_bind.h"
#include "analysis/store_internal.h"
#include "analysis/validate.h"
#include "core/mem.h"

#define WHAT "storing the validation"

static void bind_parting(struct binder *b, const struct validate_result *r)
{
	const struct validate_parting *p = r->decisions.step >= 0 ? &r->decisions : &r->memory;
	char text[2 * DECISION_LINE + 64];
	snprintf(text, sizeof text, "step %lld: executed \"%s\", replayed \"%s\"", (long long)p->step, p->executed,
		 p->replayed);
	bind_text_or_null(b, p->step >= 0 ? text : r->replay_text);
}

static const char insert_validation[] =
	"INSERT INTO validations (status, status_text, validated, program_version, label, policy, executed_run_id,"
	" simulated_run_id, cost, load, capacity, offered_rate, executions, decisions_identical, memory_identical, "
	"parted,"
	" steps, step_mape, executor_spread, outside_steps, max_error, beyond, passed, machine, cpu_load, others, "
	"steal,"
	" executed_s, result) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, "
	"?, ?)";

static void bind_what(struct binder *b, const struct validate_result *r)
{
	bind_text_or_null(b, run_status_name(r->status));
	bind_text_or_null(b, r->status_text);
	bind_date(b, (int64_t)time(NULL));
	bind_text_or_null(b, LOCKSTEP_VERSION);
	bind_text_or_null(b, r->label);
	bind_text_or_null(b, r->settings.policy);
	bind_int_if(b, r->executed.run_id > 0, r->executed.run_id);
	bind_int_if(b, r->simulated.run_id > 0, r->simulated.run_id);
	bind_text_or_null(b, r->cost);
	bind_real(b, r->load > 0 ? r->load : NAN);
	bind_real(b, r->load > 0 ? r->capacity : NAN);
	bind_real(b, r->offered_rate);
	bind_int(b, r->executions);
}

static void bind_found(struct binder *b, const struct validate_result *r)
{
	struct validate_machine m;
	const struct validate_steps *all = &r->steps[VALIDATE_ALL];
	validate_machine(&m);
	bind_int_if(b, r->replayed, r->decisions_identical);
	bind_int_if(b, r->replayed, r->memory_identical);
	bind_parting(b, r);
	bind_int(b, r->n_points);
	bind_real(b, all->mape);
	bind_real(b, all->spread);
	bind_int(b, r->outside_steps);
	bind_real(b, r->allowed);
	bind_int_if(b, !isnan(r->allowed), r->beyond);
	bind_int(b, validate_passed(r));
	bind_text_or_null(b, m.cpu);
	bind_real(b, r->contention.load);
	bind_real(b, r->contention.others);
	bind_real(b, r->contention.steal);
	bind_real(b, r->executed_s);
}

static int add_validation(struct store *s, const struct validate_result *r, struct err *e)
{
	struct jout j;
	struct binder b = {0};
	char *json = NULL;
	jout_open(&j, NULL);
	validate_put_json(&j, r);
	int rc = jout_close(&j, &json, e);
	if (rc == ERR_NONE)
		rc = store_prepare(s, &b.q, insert_validation, WHAT, e);
	if (rc == ERR_NONE) {
		bind_what(&b, r);
		bind_found(&b, r);
		bind_text_or_null(&b, json);
		rc = store_run_once(s, &b, WHAT, e);
		sqlite3_finalize(b.q);
	}
	mem_free(json);
	return rc;
}

static int add_errors(struct store *s, const struct validate_result *r, int64_t id, struct err *e)
{
	struct validate_row rows[VALIDATE_ROWS];
	int32_t n = validate_rows(r, rows);
	struct binder b = {0};
	int rc = store_prepare(s, &b.q, "INSERT INTO validation_errors VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", WHAT, e);
	for (int32_t i = 0; rc == ERR_NONE && i < n; i++) {
		bind_int(&b, id);
		bind_text(&b, rows[i].what);
		bind_text(&b, rows[i].of);
		bind_text(&b, rows[i].statistic);
		bind_real(&b, rows[i].measured);
		bind_real(&b, rows[i].simulated);
		bind_real(&b, rows[i].error);
		bind_real(&b, rows[i].spread);
		bind_int(&b, rows[i].n);
		bind_int(&b, rows[i].uncertain);
		rc = store_run_once(s, &b, WHAT, e);
	}
	sqlite3_finalize(b.q);
	return rc;
}

static int add_steps(struct store *s, const struct validate_result *r, int64_t id, struct err *e)
{
	struct binder b = {0};
	int rc = store_prepare(s, &b.q, "INSERT INTO validation_steps VALUES (?, ?, ?, ?, ?, ?)", WHAT, e);
	for (int64_t i = 0; rc == ERR_NONE && i < r->n_points; i++) {
		const struct validate_point *p = &r->points[i];
		bind_int(&b, id);
		bind_int(&b, i);
		bind_text(&b, validate_kind_keys[p->kind]);
		bind_real(&b, p->measured_ns);
		bind_real(&b, p->predicted_ns);
		bind_real(&b, p->again_ns);
		rc = store_run_once(s, &b, WHAT, e);
	}
	sqlite3_finalize(b.q);
	return rc;
}

int store_validation(struct store *s, const struct validate_result *r, int64_t *id, struct err *e)
{
	*id = 0;
	int rc = store_exec(s, "BEGIN IMMEDIATE", WHAT, e);
	if (rc)
		return rc;
	rc = add_validation(s, r, e);
	int64_t added = sqlite3_last_insert_rowid(s->db);
	if (rc == ERR_NONE)
		rc = add_errors(s, r, added, e);
	if (rc == ERR_NONE)
		rc = add_steps(s, r, added, e);
	if (rc == ERR_NONE)
		rc = store_exec(s, "COMMIT", WHAT, e);
	if (rc)
		sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
	else
		*id = added;
	return rc;
}
