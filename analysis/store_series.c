/* store_series.c: requests and steps out of the database. */
#include "analysis/store_series.h"

#include <inttypes.h>
#include <string.h>

#include "analysis/store_internal.h"
#include "core/mem.h"

#define READING "reading a run"

/* --- the run ------------------------------------------------------------------------------------------------------ */

static const char run_sql[] =
	"SELECT label, status, started, policy, policy_params, model, device, trace, backend, router, recorded, "
	"requests,"
	" coalesce((SELECT value FROM metrics m WHERE m.run_id = runs.run_id AND m.name = 'steps'), 0), replicas,"
	" coalesce(num_gpu_blocks, 0), coalesce(block_size, 0), coalesce(max_num_seqs, 0),"
	" coalesce(max_num_batched_tokens, 0),"
	" EXISTS (SELECT 1 FROM steps WHERE id BETWEEN ?1 << 32 AND (?1 << 32) + 4294967295)"
	" FROM runs WHERE run_id = ?1";

static int copy_text(sqlite3_stmt *q, int c, char **to, struct err *e)
{
	const char *text = (const char *)sqlite3_column_text(q, c);
	if (!text)
		return ERR_NONE;
	*to = mem_strdup(text);
	return *to ? ERR_NONE : err_no_memory(e, READING);
}

static int read_run(sqlite3_stmt *q, struct stored_run *r, struct err *e)
{
	char **const texts[] = {&r->label,  &r->status, &r->started, &r->policy, &r->policy_params, &r->model,
				&r->device, &r->trace,  &r->backend, &r->router, &r->recorded};
	int c = 0, rc = ERR_NONE;
	for (; rc == ERR_NONE && c < (int)(sizeof texts / sizeof *texts); c++)
		rc = copy_text(q, c, texts[c], e);
	if (rc)
		return rc;
	r->requests = sqlite3_column_int64(q, c++);
	r->steps = sqlite3_column_int64(q, c++);
	r->replicas = sqlite3_column_int(q, c++);
	r->num_gpu_blocks = sqlite3_column_int(q, c++);
	r->block_size = sqlite3_column_int(q, c++);
	r->max_num_seqs = sqlite3_column_int(q, c++);
	r->max_num_batched_tokens = sqlite3_column_int(q, c++);
	r->has_steps = sqlite3_column_int(q, c++) != 0;
	return ERR_NONE;
}

int store_run(struct store *s, int64_t run_id, struct stored_run *out, struct err *e)
{
	sqlite3_stmt *q = NULL;
	*out = (struct stored_run){.run_id = run_id};
	int rc = store_check_recent(s, 2, e);
	if (rc == ERR_NONE)
		rc = store_prepare(s, &q, run_sql, READING, e);
	if (rc)
		return rc;
	sqlite3_bind_int64(q, 1, run_id);
	int step = sqlite3_step(q);
	if (step == SQLITE_ROW)
		rc = read_run(q, out, e);
	else if (step == SQLITE_DONE)
		rc = err_set(e, ERR_INPUT, "%s: there is no run %" PRId64, s->path, run_id);
	else
		rc = store_fail(s, e, READING);
	sqlite3_finalize(q);
	if (rc)
		stored_run_free(out);
	return rc;
}

void stored_run_free(struct stored_run *r)
{
	char *const texts[] = {r->label,  r->status, r->started, r->policy, r->policy_params, r->model,
			       r->device, r->trace,  r->backend, r->router, r->recorded};
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
		mem_free(texts[i]);
	*r = (struct stored_run){0};
}

/* --- its requests ------------------------------------------------------------------------------------------------- */

/* Times that are not known are NULL in the table, -1 here. */
static const char requests_sql[] =
	"SELECT id & 4294967295, coalesce(name, CAST(source_row AS TEXT), ''), tenant, state, why,"
	" coalesce(replica, 0), coalesce(priority, 0), prompt_tokens, wanted_tokens, output_tokens, cached_tokens,"
	" recomputed_tokens, preemptions, swaps, chunks, coalesce(arrival_ns, -1), coalesce(queue_ns, -1),"
	" coalesce(prefill_ns, -1), coalesce(decode_ns, -1), coalesce(preempted_ns, -1), coalesce(transfer_ns, -1),"
	" coalesce(preempted_in_prefill_ns, -1), coalesce(transfer_in_prefill_ns, -1), coalesce(held_ns, 0),"
	" coalesce(failed_ns, -1)"
	" FROM requests WHERE id BETWEEN ?1 << 32 AND (?1 << 32) + 4294967295 ORDER BY id";

static void read_request(sqlite3_stmt *q, struct stored_request *r)
{
	int c = 0;
	const char *name;
	*r = (struct stored_request){.index = sqlite3_column_int(q, c++)};
	name = (const char *)sqlite3_column_text(q, c++);
	r->name = name ? name : "";
	r->tenant = (const char *)sqlite3_column_text(q, c++);
	r->state = (enum request_state)sqlite3_column_int(q, c++);
	r->why = (enum request_why)sqlite3_column_int(q, c++);
	r->replica = sqlite3_column_int(q, c++);
	r->priority = sqlite3_column_int(q, c++);
	r->prompt_tokens = sqlite3_column_int64(q, c++);
	r->wanted_tokens = sqlite3_column_int64(q, c++);
	r->output_tokens = sqlite3_column_int64(q, c++);
	r->cached_tokens = sqlite3_column_int64(q, c++);
	r->recomputed_tokens = sqlite3_column_int64(q, c++);
	r->preemptions = sqlite3_column_int(q, c++);
	r->swaps = sqlite3_column_int(q, c++);
	r->chunks = sqlite3_column_int(q, c++);
	int64_t *const times[] = {&r->arrival_ns,
				  &r->queue_ns,
				  &r->prefill_ns,
				  &r->decode_ns,
				  &r->preempted_ns,
				  &r->transfer_ns,
				  &r->preempted_in_prefill_ns,
				  &r->transfer_in_prefill_ns,
				  &r->held_ns,
				  &r->failed_ns};
	for (size_t i = 0; i < sizeof times / sizeof *times; i++)
		*times[i] = sqlite3_column_int64(q, c++);
}

int store_each_request(struct store *s, int64_t run_id, store_each_request_fn *fn, void *ctx, struct err *e)
{
	sqlite3_stmt *q = NULL;
	int rc = store_prepare(s, &q, requests_sql, READING, e), step = SQLITE_DONE;
	if (rc)
		return rc;
	sqlite3_bind_int64(q, 1, run_id);
	while (rc == ERR_NONE && (step = sqlite3_step(q)) == SQLITE_ROW) {
		struct stored_request r;
		read_request(q, &r);
		rc = fn(ctx, &r, e);
	}
	if (rc == ERR_NONE && step != SQLITE_DONE)
		rc = store_fail(s, e, READING);
	sqlite3_finalize(q);
	return rc;
}

/* --- its steps ---------------------------------------------------------------------------------------------------- */

static const char steps_sql[] =
	"SELECT id & 4294967295, start_ns, start_ns + duration_ns, host_ns, decodes, chunks, output_tokens,"
	" prefill_tokens, decode_ctx, running, waiting, preempted, blocks_used, blocks_cached, coalesce(outside, 0),"
	" coalesce(transfer_ns, 0), coalesce(matmul_ns, 0), coalesce(attention_ns, 0), coalesce(head_ns, 0),"
	" coalesce(other_ns, 0)"
	" FROM steps WHERE id BETWEEN ?1 << 32 AND (?1 << 32) + 4294967295 AND start_ns < ?3"
	" AND (start_ns >= ?2 OR start_ns + duration_ns > ?2) ORDER BY id";

static void read_step(sqlite3_stmt *q, struct step_row *t)
{
	*t = (struct step_row){
		.step = sqlite3_column_int64(q, 0),
		.start_ns = sqlite3_column_int64(q, 1),
		.end_ns = sqlite3_column_int64(q, 2),
		.host_ns = sqlite3_column_int64(q, 3),
		.decodes = sqlite3_column_int(q, 4),
		.chunks = sqlite3_column_int(q, 5),
		.sampled = sqlite3_column_int(q, 6),
		.prefill_tokens = sqlite3_column_int64(q, 7),
		.decode_ctx = sqlite3_column_int64(q, 8),
		.running = sqlite3_column_int(q, 9),
		.waiting = sqlite3_column_int(q, 10),
		.preempted = sqlite3_column_int(q, 11),
		.blocks_used = sqlite3_column_int(q, 12),
		.blocks_cached = sqlite3_column_int(q, 13),
		.outside = sqlite3_column_double(q, 14),
		.transfer_ns = sqlite3_column_int64(q, 15),
	};
	for (int i = 0; i < STEP_PARTS; i++)
		t->part_ns[i] = sqlite3_column_int64(q, 16 + i);
}

int store_each_step(struct store *s, int64_t run_id, int64_t from_ns, int64_t to_ns, store_each_step_fn *fn, void *ctx,
		    struct err *e)
{
	sqlite3_stmt *q = NULL;
	int rc = store_prepare(s, &q, steps_sql, READING, e), step = SQLITE_DONE;
	if (rc)
		return rc;
	sqlite3_bind_int64(q, 1, run_id);
	sqlite3_bind_int64(q, 2, from_ns);
	sqlite3_bind_int64(q, 3, to_ns);
	while (rc == ERR_NONE && (step = sqlite3_step(q)) == SQLITE_ROW) {
		struct step_row t;
		read_step(q, &t);
		rc = fn(ctx, &t, e);
	}
	if (rc == ERR_NONE && step != SQLITE_DONE)
		rc = store_fail(s, e, READING);
	sqlite3_finalize(q);
	return rc;
}
