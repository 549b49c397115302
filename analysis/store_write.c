/* store_write.c: a run goes into the database. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "analysis/result_json.h"
#include "analysis/store_bind.h"
#include "analysis/store_internal.h"
#include "analysis/store_outline.h"
#include "core/mem.h"
#include "policies/orders.h"
#include "sim/profile.h"

#define WHAT "storing the run"
enum { STORE_SQL_RUN = 4096 };

/* Runs a statement that has been bound and releases it. */
static int finish(struct store *s, struct binder *b, struct err *e)
{
	int rc = store_run_once(s, b, WHAT, e);
	sqlite3_finalize(b->q);
	return rc;
}

/* --- transactions ------------------------------------------------------------------------------------------------- */

static int begin(struct store *s, struct err *e)
{
	return store_exec(s, "BEGIN IMMEDIATE", WHAT, e);
}

/* Commits if rc is ERR_NONE, else takes everything back. */
static int commit(struct store *s, int rc, struct err *e)
{
	if (rc == ERR_NONE)
		rc = store_exec(s, "COMMIT", WHAT, e);
	if (rc)
		sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
	return rc;
}

/* --- the run's row ------------------------------------------------------------------------------------------------ */

/* What is bound, in this order, beside the status. */
static const char run_columns[] =
	"started, program_version, label, policy, policy_params, policy_path, policy_digest, model, device, "
	"weight_dtype, kv_cache_dtype, "
	"tensor_parallel_size, replicas, fleet, router, router_stale_ns, cost, backend, gpu_memory_utilization, "
	"num_gpu_blocks_override, num_gpu_blocks, block_size, max_num_seqs, max_num_batched_tokens, max_model_len, "
	"max_concurrency, abort_after_s, kv_cache, prefix_caching, prefix_cache, prefix_eviction, cache_salt, "
	"cache_generated, swap_space, kv_offload_host, kv_offload_disk, kv_transfer, kv_prefetch, kv_host_bandwidth, "
	"kv_host_latency, "
	"kv_disk_bandwidth, kv_disk_latency, hit_visible, cache_at_start, kv_retention, kv_window, kv_sink, "
	"scheduling_policy, scheduling_params, "
	"predictor, victim, async_scheduling, seed, trace, trace_format, trace_hash, workload_hash, requests, "
	"request_rate, burstiness, replay_speedup, length_scale, samples, beam_width, beam_every, "
	"max_tokens_mode, traffic_note, "
	"lengths_estimated, "
	"oracle, recorded, arguments, arm, profile_id, profile_hash, backend_what, weights, tokenizer, isa, "
	"threads, exec_time, batch_invariant, ignore_eos, temperature, top_k, top_p, kv_cache_memory_bytes, "
	"enforce_eager";

/* "INSERT INTO runs (...) VALUES ('running', ?, ?, ...)" with as many places as there are columns. */
static void insert_run_sql(char sql[STORE_SQL_RUN])
{
	int n = snprintf(sql, STORE_SQL_RUN, "INSERT INTO runs (status, %s) VALUES ('running', ?", run_columns);
	for (const char *c = run_columns; (c = strchr(c, ',')); c++)
		n += snprintf(sql + n, (size_t)(STORE_SQL_RUN - n), ", ?");
	snprintf(sql + n, (size_t)(STORE_SQL_RUN - n), ")");
}

static void bind_serving(struct binder *b, const struct run_settings *s, const struct run_result *r)
{
	const struct engine_config *c = &r->engine;
	bind_text(b, s->label ? s->label : s->policy);
	bind_text(b, s->policy);
	bind_text(b, r->policy_params ? r->policy_params : s->policy_params);
	bind_text(b, s->policy_path);
	bind_text(b, s->policy_path ? s->policy_digest : NULL);
	bind_text(b, s->model);
	bind_text(b, s->device);
	bind_text(b, s->weight_dtype);
	bind_text(b, s->kv_dtype);
	bind_int(b, s->tensor_parallel);
	bind_int(b, s->replicas);
	bind_text(b, s->fleet);
	bind_text(b, s->router);
	bind_int_if(b, s->router != NULL, s->router_stale_ns);
	bind_text(b, s->cost);
	bind_text(b, r->backend);
	bind_real(b, s->gpu_memory_utilization);
	bind_int_if(b, s->num_gpu_blocks_override != 0, s->num_gpu_blocks_override);
	bind_int(b, c->num_blocks);
	bind_int(b, c->block_size);
	bind_int(b, c->max_num_seqs);
	bind_int(b, c->max_num_batched_tokens);
	bind_int(b, c->max_model_len);
	bind_int_if(b, c->max_concurrency != 0, c->max_concurrency);
	bind_real(b, s->abort_after_s > 0 ? s->abort_after_s : NAN);
	bind_int(b, !c->kv_off);
	bind_int(b, c->prefix_caching);
	bind_text(b, prefix_cache_names[c->prefix_cache]);
	bind_text(b, c->prefix_cache ? prefix_eviction_names[c->prefix_eviction] : NULL);
	bind_text(b, cache_salt_names[c->cache_salt]);
	bind_int(b, !c->cache_prompts_only);
	bind_real(b, s->swap_space);
	bind_real(b, s->kv_offload_host);
	bind_real(b, s->kv_offload_disk);
	bind_text(b, kv_transfer_names[c->kv_transfer]);
	bind_int(b, c->kv_prefetch);
	bind_real(b, s->kv_host_bandwidth > 0 ? s->kv_host_bandwidth : NAN);
	bind_real(b, s->kv_host_latency);
	bind_real(b, s->kv_disk_bandwidth > 0 ? s->kv_disk_bandwidth : NAN);
	bind_real(b, s->kv_disk_latency);
	bind_text(b, c->hit_visible == HIT_VISIBLE_COMMIT ? "commit" : "alloc");
	bind_text(b, "cold");
	bind_text(b, kv_retention_names[c->kv_retention]);
	bind_int_if(b, c->kv_window != 0, c->kv_window);
	bind_int_if(b, c->kv_sink != 0, c->kv_sink);
	char predictor[40];
	bind_text(b, queue_order_names[c->queue_order]);
	char *order = order_format(c->queue_order, &c->order);
	bind_text_or_null(b, order);
	mem_free(order);
	bind_text(b, engine_config_predicts(c) ? predict_text(&c->predictor, predictor) : NULL);
	bind_text(b, victim_names[c->victim]);
	bind_int(b, c->async_scheduling);
}

static void bind_traffic(struct binder *b, const struct run_settings *s, const struct workload *w,
			 const struct run_result *r)
{
	char seed[24];
	snprintf(seed, sizeof seed, "%llu", (unsigned long long)s->seed);
	bind_text(b, seed);
	bind_text(b, s->trace_path);
	bind_text(b, s->trace_format);
	bind_text(b, s->trace_hash);
	bind_hex(b, s->workload_hash);
	bind_int(b, w->n);
	bind_real(b, s->request_rate > 0 ? s->request_rate : NAN);
	bind_real(b, s->burstiness);
	bind_real(b, s->replay_speedup);
	bind_real(b, s->length_scale);
	bind_int(b, s->samples);
	bind_int(b, s->beam_width);
	bind_int_if(b, s->beam_width > 1, s->beam_every);
	bind_text(b, s->max_tokens_mode);
	bind_text(b, s->traffic_note);
	bind_int(b, r->lengths_estimated);
	bind_int(b, r->oracle);
	bind_text(b, run_record_names[s->record]);
}

/* What ran it: only where kernels did, all the rest stays null. */
static void bind_execution(struct binder *b, const struct run_settings *s, const struct run_result *r)
{
	bind_text(b, s->arguments);
	if (s->arguments)
		bind_int(b, s->arm);
	else
		bind_null(b);
	bind_int_if(b, s->profile ? s->profile->id : 0 != 0, s->profile ? s->profile->id : 0);
	bind_hex_or_null(b, s->profile ? s->profile->hash : 0);
	bind_text(b, r->backend_what[0] ? r->backend_what : NULL);
	if (!run_backend_executes(s->backend))
		return;
	bind_text(b, s->weights);
	bind_text(b, s->tokenizer);
	bind_text(b, s->isa);
	bind_int(b, s->threads);
	bind_text(b, s->exec_time == EXEC_WALL ? "wall" : "warp");
	bind_int(b, s->batch_invariant);
	bind_int(b, s->ignore_eos);
	bind_real(b, s->sampling.temperature);
	bind_int(b, s->sampling.top_k);
	bind_real(b, s->sampling.top_p);
	bind_int_if(b, s->kv_cache_memory_bytes != 0, s->kv_cache_memory_bytes);
	bind_int_if(b, s->backend == BACKEND_CUDA, s->enforce_eager);
}

static int add_run(struct store *s, const struct run_settings *settings, const struct workload *w,
		   const struct run_result *r, struct err *e)
{
	struct binder b = {0};
	char sql[STORE_SQL_RUN];
	insert_run_sql(sql);
	int rc = store_prepare(s, &b.q, sql, WHAT, e);
	if (rc)
		return rc;
	bind_date(&b, settings->started_unix_s);
	bind_text(&b, LOCKSTEP_VERSION);
	bind_serving(&b, settings, r);
	bind_traffic(&b, settings, w, r);
	bind_execution(&b, settings, r);
	return finish(s, &b, e);
}

static int set_settings(struct store *s, const struct run_settings *settings, const struct run_result *r, struct err *e)
{
	struct run_result numbered = *r;
	numbered.run_id = s->run_id;
	numbered.status = RUN_RUNNING;
	struct binder b = {0};
	char *json = NULL;
	int rc = result_json_begun(settings, &numbered, &json, e);
	if (rc == ERR_NONE)
		rc = store_prepare(s, &b.q, "UPDATE runs SET result = ? WHERE run_id = ?", WHAT, e);
	if (rc == ERR_NONE) {
		bind_text(&b, json);
		bind_int(&b, s->run_id);
		rc = finish(s, &b, e);
	}
	mem_free(json);
	return rc;
}

int store_begin_run(struct store *s, const struct run_settings *settings, const struct workload *w,
		    const struct run_result *r, int64_t *run_id, struct err *e)
{
	s->run_id = 0;
	s->n_steps = 0;
	store_outline_forget(s);
	int rc = begin(s, e);
	if (rc)
		return rc;
	rc = add_run(s, settings, w, r, e);
	s->run_id = sqlite3_last_insert_rowid(s->db);
	if (rc == ERR_NONE)
		rc = set_settings(s, settings, r, e);
	rc = commit(s, rc, e);
	if (rc)
		s->run_id = 0;
	*run_id = s->run_id;
	return rc;
}

/* --- steps -------------------------------------------------------------------------------------------------------- */

static int write_steps(struct store *s, struct err *e)
{
	char sql[STORE_SQL];
	store_steps_sql(s, sql);
	int rc = store_exec(s, sql, WHAT, e);
	for (int64_t i = 0; rc == ERR_NONE && i < s->n_steps; i++)
		rc = store_outline_add(s, &s->steps[i], e);
	return rc;
}

int store_step(struct store *s, const struct step_row *row, struct err *e)
{
	if (!s->steps && !(s->steps = mem_alloc(STORE_STEPS_BUFFERED * sizeof *s->steps)))
		return err_no_memory(e, "steps");
	s->steps[s->n_steps++] = *row;
	if (s->n_steps < STORE_STEPS_BUFFERED)
		return ERR_NONE;
	/* Its own transaction: other processes get their turn, and memory stays bounded. */
	int rc = begin(s, e);
	if (rc == ERR_NONE)
		rc = commit(s, write_steps(s, e), e);
	s->n_steps = 0;
	return rc;
}

/* --- the end ------------------------------------------------------------------------------------------------------ */

static int write_requests(struct store *s, const struct workload *w, const struct run_result *r, struct err *e)
{
	s->workload = w;
	s->requests = r->requests;
	s->n_requests = r->n;
	char sql[STORE_SQL];
	store_requests_sql(s, sql);
	int rc = store_exec(s, sql, WHAT, e);
	s->workload = NULL;
	s->requests = NULL;
	s->n_requests = 0;
	return rc;
}

static int write_metrics(struct store *s, const struct run_result *r, struct err *e)
{
	struct metric_value *list = mem_alloc(METRICS_MAX_VALUES * sizeof *list);
	if (!list)
		return err_no_memory(e, "metrics");
	int32_t n = metrics_list(&r->metrics, &r->stats, list);
	struct binder b = {0};
	int rc = store_prepare(s, &b.q, "INSERT INTO metrics VALUES (?, ?, ?, ?, ?)", WHAT, e);
	for (int32_t i = 0; rc == ERR_NONE && i < n; i++) {
		bind_int(&b, s->run_id);
		bind_text(&b, list[i].key);
		bind_real(&b, list[i].value);
		bind_text(&b, list[i].unit);
		bind_int(&b, list[i].thin);
		rc = store_run_once(s, &b, WHAT, e);
	}
	sqlite3_finalize(b.q);
	mem_free(list);
	return rc;
}

static int end_row(struct store *s, const struct run_settings *settings, const struct run_result *r, struct err *e)
{
	struct binder b = {0};
	char *json = NULL;
	int rc = result_json(settings, r, &json, e);
	if (rc == ERR_NONE)
		rc = store_prepare(
			s, &b.q,
			"UPDATE runs SET status = ?, status_text = nullif(?, ''), sim_wall_s = ?, result = ?,"
			" decision_hash = ?, memory_hash = ? WHERE run_id = ?",
			WHAT, e);
	if (rc == ERR_NONE) {
		bind_text(&b, run_status_name(r->status));
		bind_text(&b, r->status_text);
		bind_real(&b, r->sim_wall_s);
		bind_text(&b, json);
		bind_hex_or_null(&b, r->decision_hash);
		bind_hex_or_null(&b, r->memory_hash);
		bind_int(&b, s->run_id);
		rc = finish(s, &b, e);
		if (rc == ERR_NONE && sqlite3_changes(s->db) == 0)
			rc = err_set(e, ERR_IO, "%s: run %lld was deleted while it was going on; it is not stored",
				     s->path, (long long)s->run_id);
	}
	mem_free(json);
	return rc;
}

/* After a failure: the row at least says so, if anything can be written at all. */
static void mark_failed(struct store *s, const char *why)
{
	struct binder b = {0};
	if (store_prepare(s, &b.q, "UPDATE runs SET status = 'failed', status_text = ? WHERE run_id = ?", WHAT, NULL))
		return;
	bind_text(&b, why);
	bind_int(&b, s->run_id);
	finish(s, &b, NULL);
}

int store_fail_run(struct store *s, int64_t run_id, const char *why, struct err *e)
{
	struct binder b = {0};
	int rc = store_prepare(s, &b.q,
			       "UPDATE runs SET status = 'failed', status_text = ?1,"
			       " result = json_set(result, '$.status', 'failed', '$.status_text', ?1)"
			       " WHERE run_id = ?2 AND status = 'running'",
			       WHAT, e);
	if (rc)
		return rc;
	bind_text(&b, why);
	bind_int(&b, run_id);
	return finish(s, &b, e);
}

int store_end_run(struct store *s, const struct run_settings *settings, const struct workload *w,
		  const struct run_result *r, struct err *e)
{
	struct err own = {0};
	int rc = begin(s, &own);
	if (rc == ERR_NONE) {
		if (s->n_steps)
			rc = write_steps(s, &own);
		s->n_steps = 0;
		if (rc == ERR_NONE)
			rc = store_outline_write(s, &own);
		if (rc == ERR_NONE && settings->record != RECORD_NONE && r->requests)
			rc = write_requests(s, w, r, &own);
		if (rc == ERR_NONE)
			rc = store_write_tape(s, r->tape.n || !settings->tape ? &r->tape : settings->tape, &own);
		if (rc == ERR_NONE)
			rc = store_write_outputs(s, r, &own);
		if (rc == ERR_NONE)
			rc = write_metrics(s, r, &own);
		if (rc == ERR_NONE)
			rc = end_row(s, settings, r, &own);
		rc = commit(s, rc, &own);
	}
	if (rc) {
		mark_failed(s, own.text);
		err_set(e, own.code, "%s", own.text);
	}
	return rc;
}
