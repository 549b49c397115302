/* store_tape.c: what an engine took from outside and what its requests were answered with: into the database and out of it.
 * Numbers within blobs are little-endian. */
#include <stdlib.h>
#include <string.h>

#include "analysis/store_bind.h"
#include "analysis/store_internal.h"
#include "core/mem.h"
#include "exec/tape.h"

#define WHAT "storing the run"
#define READING "reading a run"

static void put(unsigned char *to, uint64_t v, int bytes)
{
	for (int i = 0; i < bytes; i++)
		to[i] = (unsigned char)(v >> 8 * i);
}

static uint64_t get(const unsigned char *from, int bytes)
{
	uint64_t v = 0;
	for (int i = 0; i < bytes; i++)
		v |= (uint64_t)from[i] << 8 * i;
	return v;
}

/* Binds v[n] as a blob. */
static int bind_ids(sqlite3_stmt *q, int at, const int32_t *v, int64_t n)
{
	unsigned char *bytes = mem_alloc((size_t)n * 4 + 1);
	if (!bytes)
		return SQLITE_NOMEM;
	for (int64_t i = 0; i < n; i++)
		put(bytes + 4 * i, (uint32_t)v[i], 4);
	int rc = sqlite3_bind_blob64(q, at, bytes, (sqlite3_uint64)n * 4, SQLITE_TRANSIENT);
	mem_free(bytes);
	return rc;
}

/* --- inputs ------------------------------------------------------------------------------------------------------- */

enum { I_ID = 1, I_KIND, I_A, I_B, I_HOST, I_BATCH, I_OUTSIDE, I_PARTS, I_EOS, I_TRANSFER };

static int bind_input(sqlite3_stmt *q, const struct tape *t, const struct tape_entry *x)
{
	unsigned char parts[STEP_PARTS * 8];
	int rc = SQLITE_OK;
	sqlite3_clear_bindings(q);
	sqlite3_bind_int(q, I_KIND, x->kind);
	sqlite3_bind_int64(q, I_A, x->a_ns);
	if (x->kind != TAPE_STEP)
		return rc;
	sqlite3_bind_int64(q, I_B, x->b_ns);
	sqlite3_bind_int64(q, I_HOST, x->host_ns);
	sqlite3_bind_int64(q, I_BATCH, (int64_t)x->batch);
	if (x->transfer_ns)
		sqlite3_bind_int64(q, I_TRANSFER, x->transfer_ns);
	if (x->outside > 0)
		sqlite3_bind_double(q, I_OUTSIDE, x->outside);
	for (int i = 0; i < STEP_PARTS; i++)
		put(parts + 8 * i, (uint64_t)x->part_ns[i], 8);
	if (x->measured)
		rc |= sqlite3_bind_blob(q, I_PARTS, parts, sizeof parts, SQLITE_TRANSIENT);
	if (x->n_eos)
		rc |= bind_ids(q, I_EOS, t->eos + x->eos_at, x->n_eos);
	return rc;
}

int store_write_tape(struct store *s, const struct tape *t, struct err *e)
{
	if (t->n == 0)
		return ERR_NONE;
	sqlite3_stmt *q = NULL;
	int rc = store_prepare(s, &q, "INSERT INTO inputs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", WHAT, e);
	for (int64_t i = 0; rc == ERR_NONE && i < t->n; i++) {
		int bound = bind_input(q, t, &t->entries[i]);
		sqlite3_bind_int64(q, I_ID, (s->run_id << STORE_ID_BITS) + i);
		struct binder b = {.q = q, .no_memory = bound != 0};
		rc = store_run_once(s, &b, WHAT, e);
	}
	sqlite3_finalize(q);
	return rc;
}

/* Column c as whole numbers of `bytes` each; NULL is none of them. -1: it is something else. */
static int64_t blob_count(sqlite3_stmt *q, int c, int bytes)
{
	int size = sqlite3_column_bytes(q, c), type = sqlite3_column_type(q, c);
	return type == SQLITE_NULL ? 0 : type == SQLITE_BLOB && size % bytes == 0 ? size / bytes : -1;
}

static int read_eos(sqlite3_stmt *q, struct tape *t, struct tape_entry *x, struct err *e)
{
	const unsigned char *bytes = sqlite3_column_blob(q, I_EOS - 1);
	int rc = x->n_eos && !bytes ? err_no_memory(e, READING) : ERR_NONE;
	x->eos_at = t->n_eos;
	for (int32_t i = 0; rc == ERR_NONE && i < x->n_eos; i++) {
		int32_t req = (int32_t)get(bytes + (ptrdiff_t)4 * i, 4);
		rc = tape_add_eos(t, &req, 1, e);
	}
	return rc;
}

static int read_input(struct store *s, int64_t run_id, sqlite3_stmt *q, struct tape *t, struct err *e)
{
	int64_t n_parts = blob_count(q, I_PARTS - 1, 8), n_eos = blob_count(q, I_EOS - 1, 4);
	int kind = sqlite3_column_int(q, I_KIND - 1);
	struct tape_entry x = {.kind = (uint8_t)(kind < 0 || kind >= N_TAPE_KINDS ? TAPE_STEP : kind),
			       .measured = n_parts > 0,
			       .a_ns = sqlite3_column_int64(q, I_A - 1),
			       .b_ns = sqlite3_column_int64(q, I_B - 1),
			       .host_ns = sqlite3_column_int64(q, I_HOST - 1),
			       .batch = (uint64_t)sqlite3_column_int64(q, I_BATCH - 1),
			       .n_eos = (int32_t)n_eos,
			       .transfer_ns = sqlite3_column_int64(q, I_TRANSFER - 1),
			       .outside = sqlite3_column_double(q, I_OUTSIDE - 1)};
	if ((n_parts != 0 && n_parts != STEP_PARTS) || n_eos < 0 ||
	    sqlite3_column_int64(q, 0) != (run_id << STORE_ID_BITS) + t->n)
		return err_set(e, ERR_INPUT, "%s: run %lld: its recorded inputs are damaged at number %lld", s->path,
			       (long long)run_id, (long long)t->n);
	const unsigned char *parts = sqlite3_column_blob(q, I_PARTS - 1);
	if (n_parts && !parts)
		return err_no_memory(e, READING);
	for (int i = 0; i < n_parts; i++)
		x.part_ns[i] = (int64_t)get(parts + (ptrdiff_t)8 * i, 8);
	int rc = read_eos(q, t, &x, e);
	return rc ? rc : tape_add(t, &x, e);
}

static int read_inputs(struct store *s, int64_t run_id, struct tape *t, struct err *e)
{
	sqlite3_stmt *q = NULL;
	int step = SQLITE_DONE;
	int rc = store_prepare(
		s, &q,
		"SELECT id, kind, a_ns, b_ns, host_ns, batch, outside, parts, eos, transfer_ns FROM inputs"
		" WHERE id BETWEEN ?1 << 32 AND (?1 << 32) + 4294967295 ORDER BY id",
		READING, e);
	if (rc)
		return rc;
	sqlite3_bind_int64(q, 1, run_id);
	while (rc == ERR_NONE && (step = sqlite3_step(q)) == SQLITE_ROW)
		rc = read_input(s, run_id, q, t, e);
	if (rc == ERR_NONE && step != SQLITE_DONE)
		rc = store_fail(s, e, READING);
	sqlite3_finalize(q);
	return rc;
}

int store_load_tape(struct store *s, int64_t run_id, struct tape *t, struct err *e)
{
	struct store_recipe recipe;
	*t = (struct tape){0};
	int rc = store_recipe(s, run_id, &recipe, e);
	if (rc)
		return rc;
	rc = read_inputs(s, run_id, t, e);
	if (rc == ERR_NONE && t->n == 0)
		rc = err_set(e, ERR_INPUT,
			     "%s: nothing is recorded of run %lld%s: only runs on real kernels that came to an end (or "
			     "were interrupted) have recorded inputs",
			     s->path, (long long)run_id,
			     recipe.backend && strcmp(recipe.backend, "simulator") == 0 ? ", a simulation" : "");
	t->interrupted = recipe.status && strcmp(recipe.status, "interrupted") == 0;
	if (rc)
		tape_free(t);
	store_recipe_free(&recipe);
	return rc;
}

/* --- outputs ------------------------------------------------------------------------------------------------------ */

int store_write_outputs(struct store *s, const struct run_result *r, struct err *e)
{
	if (!r->output_ids)
		return ERR_NONE;
	sqlite3_stmt *q = NULL;
	int rc = store_prepare(s, &q, "INSERT INTO outputs VALUES (?, ?)", WHAT, e);
	for (int64_t i = 0; rc == ERR_NONE && i < r->n; i++) {
		int64_t n = r->output_at[i + 1] - r->output_at[i];
		if (n == 0)
			continue;
		sqlite3_bind_int64(q, 1, (s->run_id << STORE_ID_BITS) + i);
		struct binder b = {.q = q, .no_memory = bind_ids(q, 2, r->output_ids + r->output_at[i], n) != 0};
		rc = store_run_once(s, &b, WHAT, e);
	}
	sqlite3_finalize(q);
	return rc;
}

/* --- the recipe --------------------------------------------------------------------------------------------------- */

static const char recipe_sql[] =
	"SELECT status, label, backend, policy, policy_params, policy_path, policy_digest, trace, trace_hash, "
	"program_version, arguments,"
	" coalesce(arm, 0), coalesce(num_gpu_blocks, 0), coalesce(profile_id, 0),"
	" coalesce((SELECT value FROM metrics m WHERE m.run_id = runs.run_id AND name = 'steps'), -1), workload_hash, "
	"coalesce(profile_hash, '0'), coalesce(decision_hash, '0'), coalesce(memory_hash, '0')"
	" FROM runs WHERE run_id = ?";

static int read_recipe(sqlite3_stmt *q, struct store_recipe *r, struct err *e)
{
	char **const texts[] = {&r->status,        &r->label,           &r->backend,       &r->policy,
				&r->policy_params, &r->policy_path,     &r->policy_digest, &r->trace,
				&r->trace_hash,    &r->program_version, &r->arguments};
	uint64_t *const hashes[] = {&r->workload_hash, &r->profile_hash, &r->decision_hash, &r->memory_hash};
	int c = 0;
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++, c++) {
		if (sqlite3_column_type(q, c) == SQLITE_NULL)
			continue;
		const char *text = (const char *)sqlite3_column_text(q, c);
		if (!text || !(*texts[i] = mem_strdup(text)))
			return err_no_memory(e, READING);
	}
	r->arm = sqlite3_column_int(q, c++);
	r->num_gpu_blocks = sqlite3_column_int(q, c++);
	r->profile_id = sqlite3_column_int64(q, c++);
	r->steps = sqlite3_column_int64(q, c++);
	for (size_t i = 0; i < sizeof hashes / sizeof *hashes; i++, c++) {
		const char *text = (const char *)sqlite3_column_text(q, c);
		if (!text)
			return err_no_memory(e, READING);
		*hashes[i] = strtoull(text, NULL, 16);
	}
	return ERR_NONE;
}

int store_recipe(struct store *s, int64_t run_id, struct store_recipe *out, struct err *e)
{
	sqlite3_stmt *q = NULL;
	*out = (struct store_recipe){.run_id = run_id};
	int rc = store_check_recent(s, 2, e);
	if (rc == ERR_NONE)
		rc = store_prepare(s, &q, recipe_sql, READING, e);
	if (rc)
		return rc;
	sqlite3_bind_int64(q, 1, run_id);
	int step = sqlite3_step(q);
	if (step == SQLITE_ROW)
		rc = read_recipe(q, out, e);
	else
		rc = step == SQLITE_DONE ? err_set(e, ERR_INPUT, "%s: there is no run %lld", s->path, (long long)run_id)
					 : store_fail(s, e, READING);
	sqlite3_finalize(q);
	if (rc)
		store_recipe_free(out);
	return rc;
}

void store_recipe_free(struct store_recipe *r)
{
	char *const texts[] = {r->status,        r->label,           r->backend,       r->policy,
			       r->policy_params, r->policy_path,     r->policy_digest, r->trace,
			       r->trace_hash,    r->program_version, r->arguments};
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
		mem_free(texts[i]);
	*r = (struct store_recipe){0};
}
