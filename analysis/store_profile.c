#include "analysis/store_profile.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/run.h"
#include "analysis/store_bind.h"
#include "analysis/store_internal.h"
#include "core/mem.h"
#include "core/near.h"
#include "models/device.h"
#include "models/model.h"
#include "sim/cost_models.h"

#define STORING "storing a profile"
#define READING "reading a profile"

/* The texts of a profile's row, in the order of the columns. */
#define TEXTS(X)                                                                                                       \
	X(name)                                                                                                        \
	X(model) X(weight_dtype) X(kv_dtype) X(device) X(machine) X(library) X(created) X(program) X(source) X(note)
#define NUMBERS(X) X(layers) X(threads) X(block_size) X(tensor_parallel) X(window) X(partial) X(measured_layers)

#define COLUMNS                                                                                                        \
	"name, model, weight_dtype, kv_cache_dtype, device, machine, library, created, program_version, source, "      \
	"note, "                                                                                                       \
	"layers, threads, block_size, tensor_parallel_size, window, partial, measured_layers, shape, hash"

/* --- writing ------------------------------------------------------------------------------------------------------ */

static int insert_profile(struct store *s, struct profile *p, struct err *e)
{
	struct binder b = {0};
	int rc = store_prepare(s, &b.q,
			       "INSERT INTO profiles (" COLUMNS
			       ") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
			       STORING, e);
	if (rc)
		return rc;
#define BIND_TEXT(field) bind_text_or_null(&b, p->field);
#define BIND_NUMBER(field) bind_int(&b, p->field);
	TEXTS(BIND_TEXT)
	NUMBERS(BIND_NUMBER)
	bind_hex(&b, p->shape);
	bind_hex(&b, p->hash);
	rc = store_run_once(s, &b, STORING, e);
	if (rc == ERR_NONE)
		p->id = sqlite3_last_insert_rowid(s->db);
	sqlite3_finalize(b.q);
	return rc;
}

static int insert_points(struct store *s, const struct profile *p, struct err *e)
{
	struct binder b = {0};
	int rc = store_prepare(s, &b.q, "INSERT INTO profile_points VALUES (?, ?, ?, ?, ?, ?, ?, ?)", STORING, e);
	for (int32_t i = 0; rc == ERR_NONE && i < p->n_points; i++) {
		const struct profile_point *t = &p->points[i];
		bind_int(&b, p->id);
		bind_text(&b, profile_op_names[t->op]);
		bind_int(&b, t->x);
		bind_int(&b, t->y);
		bind_real(&b, t->ns);
		bind_real(&b, t->low_ns);
		bind_real(&b, t->high_ns);
		bind_int(&b, t->repeats);
		rc = store_run_once(s, &b, STORING, e);
	}
	sqlite3_finalize(b.q);
	return rc;
}

static int insert_steps(struct store *s, const struct profile *p, struct err *e)
{
	struct binder b = {0};
	int rc = store_prepare(s, &b.q, "INSERT INTO profile_steps VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", STORING,
			       e);
	for (int32_t i = 0; rc == ERR_NONE && i < p->n_steps; i++) {
		const struct profile_step *t = &p->steps[i];
		const int64_t numbers[] = {p->id,          i,          t->decodes, t->decode_mean, t->chunk,
					   t->chunk_start, t->sampled, t->repeats};
		for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++)
			bind_int(&b, numbers[k]);
		bind_real(&b, t->ns);
		bind_real(&b, t->low_ns);
		bind_real(&b, t->high_ns);
		rc = store_run_once(s, &b, STORING, e);
	}
	sqlite3_finalize(b.q);
	return rc;
}

static int refuse_name(struct store *s, const struct profile *p, struct err *e)
{
	struct binder b = {0};
	if (!p->name[0])
		return ERR_NONE;
	int rc = store_prepare(s, &b.q, "SELECT profile_id FROM profiles WHERE name = ?", STORING, e);
	if (rc)
		return rc;
	bind_text(&b, p->name);
	if (b.no_memory)
		rc = err_no_memory(e, STORING);
	else if (sqlite3_step(b.q) == SQLITE_ROW)
		rc = err_set(e, ERR_INPUT, "%s: profile %lld is called \"%s\" already: choose another --name", s->path,
			     (long long)sqlite3_column_int64(b.q, 0), p->name);
	sqlite3_finalize(b.q);
	return rc;
}

int store_save_profile(struct store *s, struct profile *p, struct err *e)
{
	int rc = store_exec(s, "BEGIN IMMEDIATE", STORING, e);
	if (rc)
		return rc;
	rc = refuse_name(s, p, e);
	if (rc == ERR_NONE)
		rc = insert_profile(s, p, e);
	if (rc == ERR_NONE)
		rc = insert_points(s, p, e);
	if (rc == ERR_NONE)
		rc = insert_steps(s, p, e);
	if (rc == ERR_NONE)
		rc = store_exec(s, "COMMIT", STORING, e);
	if (rc) {
		sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
		p->id = 0;
	}
	return rc;
}

int store_delete_profile(struct store *s, int64_t id, struct err *e)
{
	char sql[256];
	snprintf(sql, sizeof sql,
		 "BEGIN IMMEDIATE; DELETE FROM profile_points WHERE profile_id = %" PRId64
		 "; DELETE FROM profile_steps WHERE profile_id = %" PRId64
		 "; DELETE FROM profiles WHERE profile_id = %" PRId64 "; COMMIT",
		 id, id, id);
	int rc = store_exec(s, sql, "deleting a profile", e);
	if (rc)
		sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
	return rc;
}

/* --- reading ------------------------------------------------------------------------------------------------------ */

static void take_text(sqlite3_stmt *q, int at, char *to, size_t size)
{
	const unsigned char *text = sqlite3_column_text(q, at);
	snprintf(to, size, "%s", text ? (const char *)text : "");
}

static uint64_t take_hex(sqlite3_stmt *q, int at)
{
	const unsigned char *text = sqlite3_column_text(q, at);
	return text ? strtoull((const char *)text, NULL, 16) : 0;
}

/* A row of "SELECT profile_id, COLUMNS". */
static void take_profile(sqlite3_stmt *q, struct profile *p)
{
	int at = 0;
	p->id = sqlite3_column_int64(q, at);
#define TAKE_TEXT(field) take_text(q, ++at, p->field, sizeof p->field);
#define TAKE_NUMBER(field) p->field = sqlite3_column_int(q, ++at);
	TEXTS(TAKE_TEXT)
	NUMBERS(TAKE_NUMBER)
	p->shape = take_hex(q, ++at);
	p->hash = take_hex(q, ++at);
}

static int find_op(const char *name, enum profile_op *op)
{
	for (int i = 0; name && i < PROFILE_OPS; i++)
		if (strcmp(name, profile_op_names[i]) == 0) {
			*op = (enum profile_op)i;
			return 0;
		}
	return -1;
}

static int load_points(struct store *s, struct profile *p, struct err *e)
{
	sqlite3_stmt *q;
	int rc = store_prepare(s, &q,
			       "SELECT op, x, y, ns, low_ns, high_ns, repeats FROM profile_points WHERE profile_id = ?",
			       READING, e);
	if (rc)
		return rc;
	sqlite3_bind_int64(q, 1, p->id);
	int step = SQLITE_DONE;
	while (rc == ERR_NONE && (step = sqlite3_step(q)) == SQLITE_ROW) {
		struct profile_point t = {.x = sqlite3_column_int(q, 1),
					  .y = sqlite3_column_int64(q, 2),
					  .ns = sqlite3_column_double(q, 3),
					  .low_ns = sqlite3_column_double(q, 4),
					  .high_ns = sqlite3_column_double(q, 5),
					  .repeats = sqlite3_column_int(q, 6)};
		const char *op = (const char *)sqlite3_column_text(q, 0);
		rc = find_op(op, &t.op) ? err_set(e, ERR_INPUT,
						  "%s: profile %" PRId64 " has a point of \"%s\", which this "
						  "Lockstep does not know",
						  s->path, p->id, op ? op : "")
					: profile_add(p, &t, e);
	}
	if (rc == ERR_NONE && step != SQLITE_DONE)
		rc = store_fail(s, e, READING);
	sqlite3_finalize(q);
	return rc ? rc : profile_sort(p, e);
}

static int load_steps(struct store *s, struct profile *p, struct err *e)
{
	sqlite3_stmt *q;
	int rc = store_prepare(s, &q,
			       "SELECT decodes, decode_mean, chunk, chunk_start, sampled, repeats, ns, low_ns, high_ns"
			       " FROM profile_steps WHERE profile_id = ? ORDER BY place",
			       READING, e);
	if (rc)
		return rc;
	sqlite3_bind_int64(q, 1, p->id);
	int step = SQLITE_DONE;
	while (rc == ERR_NONE && (step = sqlite3_step(q)) == SQLITE_ROW) {
		const struct profile_step t = {.decodes = sqlite3_column_int(q, 0),
					       .decode_mean = sqlite3_column_int(q, 1),
					       .chunk = sqlite3_column_int(q, 2),
					       .chunk_start = sqlite3_column_int(q, 3),
					       .sampled = sqlite3_column_int(q, 4),
					       .repeats = sqlite3_column_int(q, 5),
					       .ns = sqlite3_column_double(q, 6),
					       .low_ns = sqlite3_column_double(q, 7),
					       .high_ns = sqlite3_column_double(q, 8)};
		rc = profile_add_step(p, &t, e);
	}
	if (rc == ERR_NONE && step != SQLITE_DONE)
		rc = store_fail(s, e, READING);
	sqlite3_finalize(q);
	return rc;
}

static int load_row(struct store *s, int64_t id, struct profile *p, struct err *e)
{
	sqlite3_stmt *q;
	int rc = store_prepare(s, &q, "SELECT profile_id, " COLUMNS " FROM profiles WHERE profile_id = ?", READING, e);
	if (rc)
		return rc;
	sqlite3_bind_int64(q, 1, id);
	int step = sqlite3_step(q);
	if (step == SQLITE_ROW)
		take_profile(q, p);
	else if (step == SQLITE_DONE)
		rc = err_set(e, ERR_INPUT,
			     "%s: there is no profile %" PRId64 ": `lockstep profile list` shows what there is",
			     s->path, id);
	else
		rc = store_fail(s, e, READING);
	sqlite3_finalize(q);
	return rc;
}

int store_load_profile(struct store *s, int64_t id, struct profile *out, struct err *e)
{
	*out = (struct profile){0};
	int rc = load_row(s, id, out, e);
	if (rc == ERR_NONE)
		rc = load_points(s, out, e);
	if (rc == ERR_NONE)
		rc = load_steps(s, out, e);
	if (rc == ERR_NONE)
		rc = profile_check_content(out, e);
	if (rc)
		profile_free(out);
	return rc;
}

int store_list_profiles(struct store *s, struct store_profile_list *out, struct err *e)
{
	sqlite3_stmt *q;
	int64_t cap = 0;
	*out = (struct store_profile_list){0};
	int rc = store_prepare(s, &q,
			       "SELECT profile_id, " COLUMNS
			       ", (SELECT count(*) FROM profile_points t WHERE t.profile_id = p.profile_id)"
			       " FROM profiles p ORDER BY profile_id",
			       READING, e);
	if (rc)
		return rc;
	int step = SQLITE_DONE;
	while (rc == ERR_NONE && (step = sqlite3_step(q)) == SQLITE_ROW) {
		if (mem_grow((void **)&out->profiles, &cap, out->n + 1, sizeof *out->profiles)) {
			rc = err_no_memory(e, READING);
			break;
		}
		out->profiles[out->n] = (struct profile){0};
		take_profile(q, &out->profiles[out->n]);
		out->profiles[out->n++].n_points = sqlite3_column_int(q, 21);
	}
	if (rc == ERR_NONE && step != SQLITE_DONE)
		rc = store_fail(s, e, READING);
	sqlite3_finalize(q);
	if (rc)
		store_profile_list_free(out);
	return rc;
}

void store_profile_list_free(struct store_profile_list *l)
{
	mem_free(l->profiles);
	*l = (struct store_profile_list){0};
}

static int no_such(struct store *s, const struct store_profile_list *l, const char *text, struct err *e)
{
	struct near_match m;
	char near[160];
	if (l->n == 0)
		return err_set(
			e, ERR_INPUT,
			"%s has no profiles: `lockstep profile` measures one, `lockstep profile import` reads one",
			s->path);
	near_begin(&m, text);
	for (int64_t i = 0; i < l->n; i++)
		if (l->profiles[i].name[0])
			near_offer(&m, l->profiles[i].name);
	return err_set(e, ERR_INPUT, "%s: there is no profile \"%s\"%s: `lockstep profile list` shows what there is",
		       s->path, text, near_text(&m, near, sizeof near));
}

int store_resolve_profile(struct store *s, const char *text, int64_t *id, struct err *e)
{
	struct store_profile_list l;
	char *end;
	int rc = store_list_profiles(s, &l, e);
	if (rc)
		return rc;
	*id = 0;
	if (strcmp(text, "latest") == 0 && l.n > 0)
		*id = l.profiles[l.n - 1].id;
	for (int64_t i = 0; !*id && i < l.n; i++)
		if (strcmp(l.profiles[i].name, text) == 0)
			*id = l.profiles[i].id;
	errno = 0;
	long long number = strtoll(text, &end, 10);
	for (int64_t i = 0; !*id && *text && !*end && errno == 0 && i < l.n; i++)
		if (l.profiles[i].id == number)
			*id = number;
	rc = *id ? ERR_NONE : no_such(s, &l, text, e);
	store_profile_list_free(&l);
	return rc;
}

/* --- the profile of a run ----------------------------------------------------------------------------------------- */

/* What the run says, as far as a profile has to be of it. */
struct wanted {
	struct profile_use use;
	struct model model;
	struct device device;
};

static int want(struct wanted *w, const struct run_settings *r, struct err *e)
{
	struct weight_format f;
	enum kv_dtype kv;
	*w = (struct wanted){.use = {.threads = r->threads,
				     .block_size = r->engine.block_size,
				     .tensor_parallel = r->tensor_parallel}};
	int rc = model_formats(NULL, r->weight_dtype, r->kv_dtype, &f, &kv, e);
	if (rc == ERR_NONE && r->device) {
		rc = device_load(&w->device, r->device, e);
		w->use.device = w->device.name;
	}
	if (rc || !r->model)
		return rc;
	rc = model_load(&w->model, r->model, e);
	if (rc)
		return rc;
	w->use.model = &w->model;
	rc = model_formats(&w->model, r->weight_dtype, r->kv_dtype, &f, &kv, e);
	if (rc == ERR_NONE) {
		w->use.weight_dtype = profile_weight_name(&f);
		w->use.kv_dtype = profile_kv_name(kv, &f);
	}
	return rc;
}

static int latest_that_fits(struct store *s, const struct profile_use *u, int64_t *id, struct err *e)
{
	struct store_profile_list l;
	struct err why = {0};
	int rc = store_list_profiles(s, &l, e);
	if (rc)
		return rc;
	*id = 0;
	for (int64_t i = l.n - 1; !*id && i >= 0; i--) {
		struct err no = {0};
		if (profile_fits(&l.profiles[i], u, &no) == ERR_NONE)
			*id = l.profiles[i].id;
		else if (!why.code)
			why = no;
	}
	if (!*id && l.n == 0)
		rc = no_such(s, &l, "latest", e);
	else if (!*id)
		rc = err_set(e, ERR_INPUT, "%s: none of %lld profiles is of what is to run; the latest: %s", s->path,
			     (long long)l.n, why.text);
	store_profile_list_free(&l);
	return rc;
}

int profile_for_run(struct store *s, const struct run_settings *r, struct profile *out, struct err *e)
{
	struct wanted w;
	char which[64] = "";
	int64_t id = 0;
	*out = (struct profile){0};
	cost_profile_which(r->cost ? r->cost : "", which, sizeof which);
	int rc = which[0] ? store_resolve_profile(s, which, &id, e) : want(&w, r, e);
	if (rc == ERR_NONE && !which[0])
		rc = latest_that_fits(s, &w.use, &id, e);
	if (!which[0])
		model_free(&w.model);
	return rc ? rc : store_load_profile(s, id, out, e);
}
