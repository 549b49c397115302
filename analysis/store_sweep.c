#include "analysis/store_sweep.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/jout.h"
#include "analysis/store_bind.h"
#include "analysis/store_internal.h"
#include "analysis/sweep_plan.h"
#include "core/mem.h"

#define STORING "storing the sweep"
#define READING "reading the sweep"

static int find(struct store *s, const struct sweep_plan *p, int64_t *sweep_id, struct err *e)
{
	struct binder b = {0};
	*sweep_id = 0;
	int rc = store_prepare(s, &b.q, "SELECT max(sweep_id) FROM sweeps WHERE name = ? AND experiment = ?", READING,
			       e);
	if (rc)
		return rc;
	bind_text(&b, p->name);
	bind_text(&b, p->text);
	int step = sqlite3_step(b.q);
	if (step == SQLITE_ROW)
		*sweep_id = sqlite3_column_int64(b.q, 0);
	else
		rc = store_fail(s, e, READING);
	sqlite3_finalize(b.q);
	return rc;
}

int store_sweep_begin(struct store *s, const struct sweep_plan *p, int64_t started_unix_s, int64_t *sweep_id,
		      struct err *e)
{
	struct binder b = {0};
	int rc = find(s, p, sweep_id, e);
	if (rc || *sweep_id)
		return rc;
	rc = store_prepare(
		s, &b.q,
		"INSERT INTO sweeps (started, program_version, name, about, experiment) VALUES (?, ?, ?, ?, ?)",
		STORING, e);
	if (rc)
		return rc;
	bind_date(&b, started_unix_s);
	bind_text(&b, LOCKSTEP_VERSION);
	bind_text(&b, p->name);
	bind_text(&b, p->about);
	bind_text(&b, p->text);
	rc = store_run_once(s, &b, STORING, e);
	*sweep_id = sqlite3_last_insert_rowid(s->db);
	sqlite3_finalize(b.q);
	return rc;
}

int store_sweep_known(struct store *s, struct sweep_known **list, int64_t *n, struct err *e)
{
	static const char sql[] =
		"SELECT key, max(p.run_id), max(p.wall_s) FROM sweep_points p JOIN runs r USING (run_id)"
		" WHERE p.status = 'complete' AND r.status = 'complete' GROUP BY key ORDER BY key";
	sqlite3_stmt *q;
	int64_t cap = 0;
	int step = SQLITE_DONE;
	*list = NULL;
	*n = 0;
	int rc = store_prepare(s, &q, sql, READING, e);
	while (rc == ERR_NONE && (step = sqlite3_step(q)) == SQLITE_ROW) {
		if (mem_grow((void **)list, &cap, *n + 1, sizeof **list)) {
			rc = err_no_memory(e, "a sweep");
			break;
		}
		(*list)[(*n)++] = (struct sweep_known){strtoull((const char *)sqlite3_column_text(q, 0), NULL, 16),
						       sqlite3_column_int64(q, 1), sqlite3_column_double(q, 2)};
	}
	if (rc == ERR_NONE && step != SQLITE_DONE)
		rc = store_fail(s, e, READING);
	sqlite3_finalize(q);
	return rc;
}

const struct sweep_known *sweep_known_find(const struct sweep_known *list, int64_t n, uint64_t key)
{
	while (n > 0) {
		const struct sweep_known *middle = &list[n / 2];
		if (middle->key == key)
			return middle;
		if (middle->key < key) {
			list = middle + 1;
			n -= n / 2 + 1;
		} else {
			n /= 2;
		}
	}
	return NULL;
}

static int flags_json(const struct sweep_point *p, char **json, struct err *e)
{
	struct jout j;
	jout_open(&j, NULL);
	jout_begin(&j, NULL, '[');
	for (int32_t i = 0; i < p->n_words; i++)
		jout_text(&j, NULL, p->words[i]);
	jout_end(&j, ']');
	return jout_close(&j, json, e);
}

int store_sweep_point(struct store *s, int64_t sweep_id, int64_t position, const struct sweep_point *p,
		      const struct sweep_outcome *o, struct err *e)
{
	struct binder b = {0};
	char *json = NULL;
	int rc = flags_json(p, &json, e);
	if (rc == ERR_NONE)
		rc = store_prepare(s, &b.q, "INSERT OR REPLACE INTO sweep_points VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
				   STORING, e);
	if (rc == ERR_NONE) {
		bind_int(&b, sweep_id);
		bind_int(&b, position);
		bind_hex(&b, p->key);
		bind_text(&b, json);
		bind_int_if(&b, o->run_id > 0, o->run_id);
		bind_text(&b, o->status);
		bind_text(&b, o->text);
		bind_real(&b, o->wall_s);
		rc = store_run_once(s, &b, STORING, e);
		sqlite3_finalize(b.q);
	}
	mem_free(json);
	return rc;
}

int store_sweep_count(struct store *s, int64_t sweep_id, int64_t *complete, int64_t *failed, struct err *e)
{
	struct binder b = {0};
	int rc = store_prepare(
		s, &b.q,
		"SELECT count(*) FILTER (WHERE status = 'complete'), count(*) FILTER (WHERE status <> 'complete')"
		" FROM sweep_points WHERE sweep_id = ?",
		READING, e);
	if (rc)
		return rc;
	bind_int(&b, sweep_id);
	if (sqlite3_step(b.q) == SQLITE_ROW) {
		*complete = sqlite3_column_int64(b.q, 0);
		*failed = sqlite3_column_int64(b.q, 1);
	} else {
		rc = store_fail(s, e, READING);
	}
	sqlite3_finalize(b.q);
	return rc;
}

int store_sweep_metric(struct store *s, int64_t sweep_id, int64_t position, const char *key, double *value,
		       struct err *e)
{
	struct binder b = {0};
	*value = NAN;
	int rc = store_prepare(
		s, &b.q,
		"SELECT value FROM metrics JOIN sweep_points USING (run_id) WHERE sweep_id = ? AND position = ?"
		" AND metrics.name = ?",
		READING, e);
	if (rc)
		return rc;
	bind_int(&b, sweep_id);
	bind_int(&b, position);
	bind_text(&b, key);
	int step = sqlite3_step(b.q);
	if (step == SQLITE_ROW && sqlite3_column_type(b.q, 0) != SQLITE_NULL)
		*value = sqlite3_column_double(b.q, 0);
	else if (step != SQLITE_ROW && step != SQLITE_DONE)
		rc = store_fail(s, e, READING);
	sqlite3_finalize(b.q);
	return rc;
}

int store_sweep_failures(struct store *s, int64_t sweep_id, char lines[][300], int32_t most, int32_t *n, struct err *e)
{
	struct binder b = {0};
	int step = SQLITE_DONE;
	*n = 0;
	int rc =
		store_prepare(s, &b.q,
			      "SELECT position, status, status_text FROM sweep_points WHERE sweep_id = ? AND status <> "
			      "'complete' ORDER BY position",
			      READING, e);
	if (rc)
		return rc;
	bind_int(&b, sweep_id);
	while (*n < most && (step = sqlite3_step(b.q)) == SQLITE_ROW) {
		const char *text = (const char *)sqlite3_column_text(b.q, 2);
		snprintf(lines[(*n)++], 300, "point %lld %s%s%s", (long long)sqlite3_column_int64(b.q, 0),
			 (const char *)sqlite3_column_text(b.q, 1), text ? ": " : "", text ? text : "");
	}
	if (*n < most && step != SQLITE_DONE)
		rc = store_fail(s, e, READING);
	sqlite3_finalize(b.q);
	return rc;
}

/* --- CSV ---------------------------------------------------------------------------------------------------------- */

/* RFC 4180: quoted where it has to be. */
static void csv_text(FILE *f, const char *text)
{
	if (!strpbrk(text, ",\"\n\r")) {
		fputs(text, f);
		return;
	}
	putc('"', f);
	for (; *text; text++) {
		if (*text == '"')
			putc('"', f);
		putc(*text, f);
	}
	putc('"', f);
}

struct csv {
	sqlite3_stmt *points, *keys, *values;
	char **names; /* [n_names] figures of any of its runs, by name */
	int64_t n_names, cap_names;
};

static int csv_open(struct csv *c, struct store *s, int64_t sweep_id, struct err *e)
{
	int rc = store_prepare(
		s, &c->keys,
		"SELECT DISTINCT m.name FROM metrics m JOIN sweep_points USING (run_id) WHERE sweep_id = ?"
		" ORDER BY m.name",
		READING, e);
	if (rc == ERR_NONE)
		rc = store_prepare(s, &c->points,
				   "SELECT position, status, coalesce(status_text, ''), run_id FROM sweep_points WHERE"
				   " sweep_id = ? ORDER BY position",
				   READING, e);
	if (rc == ERR_NONE)
		rc = store_prepare(s, &c->values, "SELECT name, value FROM metrics WHERE run_id = ? ORDER BY name",
				   READING, e);
	if (rc)
		return rc;
	sqlite3_bind_int64(c->keys, 1, sweep_id);
	sqlite3_bind_int64(c->points, 1, sweep_id);
	return ERR_NONE;
}

static int csv_names(struct csv *c, struct store *s, struct err *e)
{
	int step;
	while ((step = sqlite3_step(c->keys)) == SQLITE_ROW) {
		const char *name = (const char *)sqlite3_column_text(c->keys, 0);
		size_t n = strlen(name) + 1;
		char *copy = mem_alloc(n);
		if (!copy || mem_grow((void **)&c->names, &c->cap_names, c->n_names + 1, sizeof *c->names)) {
			mem_free(copy);
			return err_no_memory(e, "a table");
		}
		memcpy(copy, name, n);
		c->names[c->n_names++] = copy;
	}
	return step == SQLITE_DONE ? ERR_NONE : store_fail(s, e, READING);
}

/* The run's figures in the order of the names; both are sorted. */
static void csv_values(struct csv *c, int64_t run_id, FILE *f)
{
	sqlite3_reset(c->values);
	sqlite3_bind_int64(c->values, 1, run_id);
	bool row = run_id && sqlite3_step(c->values) == SQLITE_ROW;
	for (int64_t i = 0; i < c->n_names; i++) {
		putc(',', f);
		if (!row || strcmp((const char *)sqlite3_column_text(c->values, 0), c->names[i]) != 0)
			continue;
		if (sqlite3_column_type(c->values, 1) != SQLITE_NULL)
			fprintf(f, "%.15g", sqlite3_column_double(c->values, 1));
		row = sqlite3_step(c->values) == SQLITE_ROW;
	}
}

static int csv_write(struct csv *c, struct store *s, const struct sweep_plan *p, FILE *f, struct err *e)
{
	char buf[1024];
	int step;
	fputs("point", f);
	for (int64_t i = 0; i < p->n_varied; i++) {
		putc(',', f);
		csv_text(f, p->varied[i]);
	}
	fputs(",status,status_text,run_id", f);
	for (int64_t i = 0; i < c->n_names; i++)
		fprintf(f, ",%s", c->names[i]);
	putc('\n', f);
	while ((step = sqlite3_step(c->points)) == SQLITE_ROW) {
		int64_t position = sqlite3_column_int64(c->points, 0), run_id = sqlite3_column_int64(c->points, 3);
		if (position < 1 || position > p->n)
			continue;
		fprintf(f, "%lld", (long long)position);
		for (int64_t i = 0; i < p->n_varied; i++) {
			const char *v = sweep_point_value(&p->points[position - 1], p->varied[i], buf, sizeof buf);
			putc(',', f);
			csv_text(f, v ? v : "");
		}
		fprintf(f, ",%s,", (const char *)sqlite3_column_text(c->points, 1));
		csv_text(f, (const char *)sqlite3_column_text(c->points, 2));
		putc(',', f);
		if (run_id)
			fprintf(f, "%lld", (long long)run_id);
		csv_values(c, run_id, f);
		putc('\n', f);
	}
	return step == SQLITE_DONE ? ERR_NONE : store_fail(s, e, READING);
}

int store_sweep_csv(struct store *s, int64_t sweep_id, const struct sweep_plan *p, FILE *f, struct err *e)
{
	struct csv c = {0};
	int rc = csv_open(&c, s, sweep_id, e);
	if (rc == ERR_NONE)
		rc = csv_names(&c, s, e);
	if (rc == ERR_NONE)
		rc = csv_write(&c, s, p, f, e);
	sqlite3_finalize(c.points);
	sqlite3_finalize(c.keys);
	sqlite3_finalize(c.values);
	for (int64_t i = 0; i < c.n_names; i++)
		mem_free(c.names[i]);
	mem_free(c.names);
	return rc;
}
