#include "analysis/store_outline.h"

#include "analysis/report_series.h"
#include "analysis/store_bind.h"
#include "analysis/store_internal.h"
#include "core/mem.h"

_Static_assert(STEP_OUTLINE_SERIES <= ENVELOPE_SERIES, "they fit");

#define NAME(x) #x,
const char *const step_outline_names[STEP_OUTLINE_SERIES] = {STEP_OUTLINE(NAME)};

void step_outline_values(const struct step_row *t, int64_t values[STEP_OUTLINE_SERIES])
{
	const int64_t v[] = {t->end_ns - t->start_ns,
			     t->host_ns,
			     t->decodes,
			     t->prefill_tokens,
			     t->sampled,
			     t->running,
			     t->waiting,
			     t->preempted,
			     t->blocks_used,
			     t->blocks_cached};
	_Static_assert(sizeof v / sizeof *v == STEP_OUTLINE_SERIES, "one value each");
	for (int k = 0; k < STEP_OUTLINE_SERIES; k++)
		values[k] = v[k];
}

/* --- writing ------------------------------------------------------------------------------------------------------ */

int store_outline_add(struct store *s, const struct step_row *t, struct err *e)
{
	int64_t values[STEP_OUTLINE_SERIES];
	if (!s->outline) {
		s->outline = mem_zalloc(1, sizeof *s->outline);
		if (!s->outline)
			return err_no_memory(e, "steps");
		int rc = envelope_init(s->outline, STEP_OUTLINE_SERIES, STEP_OUTLINE_STRETCHES, e);
		if (rc)
			return rc;
	}
	step_outline_values(t, values);
	return envelope_add(s->outline, t->start_ns, values, e);
}

void store_outline_forget(struct store *s)
{
	if (s->outline)
		envelope_free(s->outline);
	mem_free(s->outline);
	s->outline = NULL;
}

#define QUESTION(x) ", ?, ?, ?"
static const char insert_sql[] = "INSERT INTO step_outline VALUES (?, ?, ?" STEP_OUTLINE(QUESTION) ")";

int store_outline_write(struct store *s, struct err *e)
{
	const struct envelope *v = s->outline;
	struct binder b = {0};
	if (!v || v->exact || v->rows < s->outline_from)
		return ERR_NONE;
	int rc = store_prepare(s, &b.q, insert_sql, "storing steps", e);
	for (int32_t i = 0; rc == ERR_NONE && i < v->most; i++) {
		const struct envelope_cell *c = &v->cells[i];
		if (!c->n)
			continue;
		bind_int(&b, (s->run_id << STORE_ID_BITS) + i);
		bind_int(&b, v->width_ns);
		bind_int(&b, c->n);
		for (int k = 0; k < STEP_OUTLINE_SERIES; k++) {
			bind_int(&b, c->v[k].min);
			bind_int(&b, c->v[k].max);
			bind_int(&b, c->v[k].sum);
		}
		rc = store_run_once(s, &b, "storing steps", e);
	}
	sqlite3_finalize(b.q);
	return rc;
}

/* --- reading ------------------------------------------------------------------------------------------------------ */

int store_outline_read(struct store *s, int64_t run_id, struct envelope *v, bool *found, struct err *e)
{
	sqlite3_stmt *q = NULL;
	int step = SQLITE_DONE;
	*found = false;
	int rc = store_prepare(
		s, &q, "SELECT * FROM step_outline WHERE id BETWEEN ?1 << 32 AND (?1 << 32) + 4294967295 ORDER BY id",
		"reading steps", e);
	if (rc)
		return rc;
	sqlite3_bind_int64(q, 1, run_id);
	while (rc == ERR_NONE && (step = sqlite3_step(q)) == SQLITE_ROW) {
		int column = 0;
		int64_t cell = sqlite3_column_int64(q, column++) & UINT32_MAX,
			width_ns = sqlite3_column_int64(q, column++);
		struct envelope_cell c = {.n = sqlite3_column_int64(q, column++)};
		for (int k = 0; k < STEP_OUTLINE_SERIES; k++) {
			c.v[k].min = sqlite3_column_int64(q, column++);
			c.v[k].max = sqlite3_column_int64(q, column++);
			c.v[k].sum = sqlite3_column_int64(q, column++);
		}
		rc = envelope_take(v, width_ns, cell, &c, e);
		*found = true;
	}
	if (rc == ERR_NONE && step != SQLITE_DONE)
		rc = store_fail(s, e, "reading steps");
	sqlite3_finalize(q);
	return rc;
}
