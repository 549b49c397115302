#include "analysis/result_json.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "analysis/gaps.h"
#include "analysis/jout.h"
#include "analysis/run.h"
#include "analysis/save.h"
#include "core/mem.h"
#include "policies/orders.h"

/* --- the keys of vllm bench serve --------------------------------------------------------------------------------- */

static void rate(struct jout *j, const char *key, double v)
{
	if (isinf(v))
		jout_text(j, key, "inf");
	else
		jout_real(j, key, v);
}

static void date(struct jout *j, const struct run_settings *s)
{
	char text[32];
	struct tm tm;
	time_t t = (time_t)s->started_unix_s;
	if (s->started_unix_s && gmtime_r(&t, &tm) && strftime(text, sizeof text, "%Y%m%d-%H%M%S", &tm))
		jout_text(j, "date", text);
	else
		jout_null(j, "date");
}

static void ms(struct jout *j, const char *what, const char *key, double ns)
{
	char name[64];
	snprintf(name, sizeof name, "%s_%s_ms", what, key);
	jout_real(j, name, ns / 1e6);
}

static void latency(struct jout *j, const char *key, const struct dist *d, const struct percentiles *p)
{
	ms(j, "mean", key, d->mean);
	ms(j, "median", key, d->median);
	ms(j, "std", key, d->std);
	for (int32_t i = 0; i < p->n; i++) {
		char name[24];
		ms(j, percentile_name(p->p[i], name), key, d->p[i]);
	}
}

static void vllm_keys(struct jout *j, const struct run_settings *s, const struct run_result *r)
{
	const struct metrics *m = &r->metrics;
	date(j, s);
	jout_text(j, "backend", r->backend);
	jout_text(j, "model_id", s->model);
	jout_int(j, "num_prompts", r->n);
	rate(j, "request_rate", s->request_rate > 0 ? s->request_rate : m->offered_rate);
	rate(j, "burstiness", s->burstiness);
	if (r->engine.max_concurrency > 0)
		jout_int(j, "max_concurrency", r->engine.max_concurrency);
	else
		jout_null(j, "max_concurrency");
	jout_real(j, "duration", m->completed ? (double)m->duration_ns / 1e9 : NAN);
	jout_int(j, "completed", m->completed);
	jout_int(j, "failed", m->failed);
	jout_int(j, "total_input_tokens", m->input_tokens);
	jout_int(j, "total_output_tokens", m->output_tokens);
	jout_real(j, "request_throughput", m->request_throughput);
	jout_real(j, "request_goodput", m->request_goodput);
	jout_real(j, "output_throughput", m->output_throughput);
	jout_real(j, "total_token_throughput", m->total_token_throughput);
	jout_real(j, "max_output_tokens_per_s", m->max_output_tokens_per_s);
	if (m->completed)
		jout_int(j, "max_concurrent_requests", m->max_concurrent_requests);
	else
		jout_null(j, "max_concurrent_requests");
	for (int l = LATENCY_TTFT; l <= LATENCY_E2EL; l++)
		latency(j, latency_key((enum latency)l), &m->latency[l], &m->percentiles);
}

/* --- every request and token -------------------------------------------------------------------------------------- */

static bool finished(const struct request *r)
{
	return r->state == REQUEST_FINISHED;
}

static void detailed_lengths(struct jout *j, const struct workload *w, const struct run_result *r)
{
	jout_begin(j, "input_lens", '[');
	for (int64_t i = 0; i < r->n; i++)
		jout_int(j, NULL, w->specs[i].prompt_tokens);
	jout_end(j, ']');
	jout_begin(j, "output_lens", '[');
	for (int64_t i = 0; i < r->n; i++)
		jout_int(j, NULL, finished(&r->requests[i]) ? r->requests[i].outputs : 0);
	jout_end(j, ']');
}

static void detailed_itls(struct jout *j, const struct run_result *r)
{
	jout_begin(j, "itls", '[');
	for (int64_t i = 0; i < r->n; i++) {
		jout_begin(j, NULL, '[');
		const int64_t *t = r->token_ns + r->token_at[i];
		for (int32_t k = 1; finished(&r->requests[i]) && k < r->requests[i].outputs; k++)
			jout_real(j, NULL, (double)(t[k] - t[k - 1]) / 1e9);
		jout_end(j, ']');
	}
	jout_end(j, ']');
}

static const char *error_text(const struct request *r)
{
	if (finished(r))
		return "";
	return r->why != REQUEST_WHY_NONE ? request_why_name((enum request_why)r->why) : "unfinished";
}

static void detailed(struct jout *j, const struct workload *w, const struct run_result *r)
{
	detailed_lengths(j, w, r);
	jout_begin(j, "ttfts", '[');
	for (int64_t i = 0; i < r->n; i++)
		jout_real(j, NULL, finished(&r->requests[i]) ? (double)request_ttft_ns(&r->requests[i]) / 1e9 : 0);
	jout_end(j, ']');
	detailed_itls(j, r);
	jout_begin(j, "start_times", '[');
	for (int64_t i = 0; i < r->n; i++)
		jout_real(j, NULL, (double)r->requests[i].arrival_ns / 1e9);
	jout_end(j, ']');
	jout_begin(j, "errors", '[');
	for (int64_t i = 0; i < r->n; i++)
		jout_text(j, NULL, error_text(&r->requests[i]));
	jout_end(j, ']');
}

int result_write(FILE *f, const struct run_settings *s, const struct workload *w, const struct run_result *r,
		 struct err *e)
{
	struct jout j;
	char *unused;
	jout_open(&j, f);
	jout_begin(&j, NULL, '{');
	vllm_keys(&j, s, r);
	if (s->save_detailed && r->token_ns && r->requests)
		detailed(&j, w, r);
	jout_end(&j, '}');
	int rc = jout_close(&j, &unused, e);
	if (rc == ERR_NONE && (fputc('\n', f) == EOF || fflush(f)))
		rc = err_set(e, ERR_IO, "writing JSON: %s", strerror(errno));
	return rc;
}

struct saved {
	const struct run_settings *settings;
	const struct workload *workload;
	const struct run_result *result;
};

static int write_result(FILE *f, void *ctx, struct err *e)
{
	const struct saved *x = ctx;
	return result_write(f, x->settings, x->workload, x->result, e);
}

int result_save(const char *path, const struct run_settings *s, const struct workload *w, const struct run_result *r,
		struct err *e)
{
	struct saved x = {s, w, r};
	return save_file(path, write_result, &x, NULL, e);
}

/* --- the whole object --------------------------------------------------------------------------------------------- */

static void failures(struct jout *j, const struct metrics *m)
{
	jout_int(j, "rejected", m->rejected);
	jout_int(j, "aborted", m->aborted);
	jout_int(j, "unfinished", m->unfinished);
	jout_int(j, "zero_output", m->zero_output);
	jout_begin(j, "failed_why", '{');
	for (int w = 0; w < REQUEST_WHYS; w++)
		if (m->rejected_why[w])
			jout_int(j, request_why_name((enum request_why)w), m->rejected_why[w]);
	jout_end(j, '}');
}

static void costs(struct jout *j, const struct metrics *m)
{
	jout_real(j, "good_request_fraction", m->good_request_fraction);
	jout_real(j, "price_per_hour", m->price_per_hour);
	jout_real(j, "dollars", m->dollars);
	jout_real(j, "dollars_per_request", m->dollars_per_request);
	jout_real(j, "dollars_per_good_request", m->dollars_per_good_request);
	jout_real(j, "dollars_per_million_input_tokens", m->dollars_per_million_input_tokens);
	jout_real(j, "dollars_per_million_output_tokens", m->dollars_per_million_output_tokens);
	jout_real(j, "dollars_per_million_tokens", m->dollars_per_million_tokens);
	jout_real(j, "energy_joules", m->energy_joules);
	jout_real(j, "energy_per_request_joules", m->energy_per_request_joules);
	jout_real(j, "energy_per_output_token_joules", m->energy_per_output_token_joules);
}

static void steps(struct jout *j, const struct run_result *r)
{
	const struct engine_stats *st = &r->stats;
	const struct metrics *m = &r->metrics;
	jout_int(j, "steps", st->steps);
	jout_real(j, "mean_step_ms", m->mean_step_ns / 1e6);
	jout_real(j, "mean_tokens_per_step", m->mean_tokens_per_step);
	jout_real(j, "busy_share", m->busy_share);
	jout_real(j, "host_share", m->host_share);
	jout_int(j, "outside_steps", st->outside_steps);
	jout_real(j, "outside_max", st->outside_max);
	jout_int(j, "preemptions", st->preemptions);
	jout_int(j, "preempted_requests", m->preempted_requests);
	jout_int(j, "max_preemptions_of_a_request", m->max_preemptions);
	jout_int(j, "recomputed_tokens", st->recomputed_tokens);
	jout_int(j, "prompt_tokens_computed", st->prompt_tokens_computed);
	jout_int(j, "pad_tokens", st->pad_tokens);
	jout_int(j, "wasted_tokens", st->wasted_tokens);
	jout_int(j, "max_running", st->max_running);
	jout_int(j, "max_waiting", st->max_waiting);
}

static void memory(struct jout *j, const struct run_result *r)
{
	const struct metrics *m = &r->metrics;
	jout_real(j, "prefix_hit_ratio", m->prefix_hit_ratio);
	jout_real(j, "prefix_request_hit_ratio", m->prefix_request_hit_ratio);
	jout_real(j, "prefix_block_hit_ratio", m->prefix_block_hit_ratio);
	jout_real(j, "prefix_ideal_block_hit_ratio", m->prefix_ideal_block_hit_ratio);
	jout_int(j, "cached_tokens", m->cached_tokens);
	jout_int(j, "evicted_blocks", r->stats.evicted_blocks);
	jout_int(j, "duplicate_blocks", r->stats.duplicate_blocks);
	jout_int(j, "dropped_blocks", r->stats.dropped_blocks);
	jout_int(j, "forks", r->stats.forks);
	jout_int(j, "forked_tokens", r->stats.forked_tokens);
	jout_int(j, "copied_blocks", r->stats.copied_blocks);
	jout_int(j, "dropped_tokens", r->stats.dropped_tokens);
	jout_int(j, "prefix_wasted_bytes", run_prefix_wasted_bytes(r));
	jout_int(j, "max_blocks_used", r->stats.max_blocks_used);
	jout_int(j, "swaps", r->stats.swaps);
	jout_int(j, "swap_refused", r->stats.swap_refused);
	jout_int(j, "swap_out_bytes", m->swap_out_bytes);
	jout_int(j, "swap_in_bytes", m->swap_in_bytes);
	jout_int(j, "max_swap_used", r->stats.max_swap_used);
	jout_int(j, "saved_blocks", r->stats.saved_blocks);
	jout_int(j, "saved_bytes", m->saved_bytes);
	jout_int(j, "host_hit_blocks", r->stats.host_hit_blocks);
	jout_int(j, "host_hit_bytes", m->host_hit_bytes);
	jout_int(j, "disk_hit_blocks", r->stats.disk_hit_blocks);
	jout_int(j, "prefetched_blocks", r->stats.prefetched_blocks);
	jout_int(j, "disk_write_bytes", m->disk_write_bytes);
	jout_int(j, "disk_read_bytes", m->disk_read_bytes);
	jout_int(j, "cold_dropped_blocks", r->stats.cold_dropped_blocks);
	jout_int(j, "unsaved_blocks", r->stats.unsaved_blocks);
	jout_real(j, "cold_hit_ratio", m->cold_hit_ratio);
	jout_real(j, "transfer_share", m->transfer_share);
	jout_real(j, "kv_used", m->kv_used);
	jout_real(j, "kv_sharing_saved", m->kv_sharing_saved);
	jout_real(j, "kv_internal_waste", m->kv_internal_waste);
	jout_real(j, "kv_reserved_waste", m->kv_reserved_waste);
	jout_real(j, "kv_external_waste", m->kv_external_waste);
	jout_int(j, "weight_bytes", r->weight_bytes);
	jout_int(j, "kv_bytes_per_token", r->kv_bytes_per_token);
}

static void workflows(struct jout *j, const struct metrics *m)
{
	const struct workflow_figures *f = &m->workflows;
	jout_int(j, "workflows", f->n);
	jout_int(j, "completed_workflows", f->completed);
	jout_real(j, "workflow_throughput", f->throughput);
	jout_real(j, "critical_requests", f->critical_requests);
	jout_real(j, "critical_queue_share", f->critical_queue_share);
	jout_real(j, "critical_tool_share", f->critical_tool_share);
	jout_real(j, "tenant_fairness", m->tenant_fairness);
	jout_real(j, "tenant_service_fairness", m->tenant_service_fairness);
	jout_real(j, "tenant_latency_fairness", m->tenant_latency_fairness);
	latency(j, "makespan", &f->makespan, &m->percentiles);
}

/* What requests waited for. */
static void waits(struct jout *j, const struct metrics *m)
{
	char key[40];
	jout_real(j, "max_wait_ms", m->longest_wait_ns / 1e6);
	for (int c = 0; c < WAIT_CAUSES; c++) {
		snprintf(key, sizeof key, "wait_%s", wait_cause_names[c]);
		latency(j, key, &m->waited[c], &m->percentiles);
		snprintf(key, sizeof key, "max_wait_%s_ms", wait_cause_names[c]);
		jout_real(j, key, m->waited[c].max / 1e6);
		snprintf(key, sizeof key, "wait_%s_share", wait_cause_names[c]);
		jout_real(j, key, m->waited_share[c]);
	}
}

static void sums(struct jout *j, const struct metrics *m)
{
	jout_begin(j, "sums_ns", '{');
	jout_int(j, "queue", m->sum_queue_ns);
	jout_int(j, "prefill", m->sum_prefill_ns);
	jout_int(j, "decode", m->sum_decode_ns);
	jout_int(j, "preempted", m->sum_preempted_ns);
	jout_int(j, "transfer", m->sum_transfer_ns);
	jout_int(j, "e2el", m->sum_e2el_ns);
	jout_end(j, '}');
}

static void steady_state(struct jout *j, const struct metrics *m)
{
	const struct steady *st = &m->steady;
	jout_begin(j, "steady_state", '{');
	jout_real(j, "from_s", (double)st->from_ns / 1e9);
	jout_real(j, "to_s", (double)st->to_ns / 1e9);
	jout_int(j, "completed", st->n);
	jout_real(j, "request_throughput", st->request_throughput);
	jout_real(j, "output_throughput", st->output_throughput);
	jout_real(j, "total_token_throughput", st->total_token_throughput);
	latency(j, "ttft", &st->ttft, &m->percentiles);
	latency(j, "tpot", &st->tpot, &m->percentiles);
	latency(j, "e2el", &st->e2el, &m->percentiles);
	latency(j, "queue", &st->queue, &m->percentiles);
	jout_end(j, '}');
}

/* Percentiles that rest on too few samples to be taken at their word. */
static void uncertain(struct jout *j, const struct metrics *m)
{
	jout_begin(j, "uncertain", '[');
	for (int l = 0; l < LATENCY_COUNT; l++)
		for (int32_t i = 0; i < m->percentiles.n; i++) {
			char name[24], key[64];
			if (!percentile_is_thin(m->percentiles.p[i], m->latency[l].n))
				continue;
			snprintf(key, sizeof key, "%s_%s_ms", percentile_name(m->percentiles.p[i], name),
				 latency_key((enum latency)l));
			jout_text(j, NULL, key);
		}
	jout_end(j, ']');
	jout_bool(j, "itl_exact", m->itl_exact);
	jout_real(j, "itl_relative_error", m->itl_exact ? 0 : GAPS_PRECISION);
}

static void hash(struct jout *j, const char *key, uint64_t v)
{
	char text[24];
	snprintf(text, sizeof text, "%016llx", (unsigned long long)v);
	jout_text(j, key, text);
}

static void traffic(struct jout *j, const struct run_settings *s, const struct run_result *r)
{
	jout_text(j, "trace", s->trace_path);
	jout_text(j, "trace_format", s->trace_format);
	jout_text(j, "trace_hash", s->trace_hash);
	hash(j, "workload_hash", s->workload_hash);
	jout_int(j, "num_prompts", s->num_prompts);
	if (s->request_rate > 0)
		rate(j, "request_rate", s->request_rate);
	else
		jout_text(j, "request_rate", "trace");
	rate(j, "burstiness", s->burstiness);
	jout_real(j, "replay_speedup", s->replay_speedup);
	jout_real(j, "length_scale", s->length_scale);
	jout_int(j, "n", s->samples);
	jout_int(j, "beam_width", s->beam_width);
	jout_int(j, "beam_every", s->beam_every);
	jout_text(j, "max_tokens_mode", s->max_tokens_mode);
	jout_text(j, "traffic_note", s->traffic_note);
	jout_bool(j, "lengths_estimated", r->lengths_estimated);
	jout_bool(j, "oracle", r->oracle);
	/* As text where readers with signed 64-bit integers would choke on it. */
	char seed[24];
	snprintf(seed, sizeof seed, "%llu", (unsigned long long)s->seed);
	if (s->seed > INT64_MAX)
		jout_text(j, "seed", seed);
	else
		jout_raw(j, "seed", seed);
}

static void serving(struct jout *j, const struct run_settings *s, const struct run_result *r)
{
	const struct engine_config *c = &r->engine;
	jout_text(j, "model", s->model);
	jout_text(j, "device", s->device);
	jout_text(j, "weight_dtype", s->weight_dtype);
	jout_text(j, "kv_cache_dtype", s->kv_dtype);
	jout_int(j, "tensor_parallel_size", s->tensor_parallel);
	jout_int(j, "replicas", s->replicas);
	if (s->fleet)
		jout_text(j, "fleet", s->fleet);
	jout_text(j, "router", s->router);
	jout_text(j, "cost", s->cost);
	jout_real(j, "gpu_memory_utilization", s->gpu_memory_utilization);
	jout_int(j, "num_gpu_blocks_override", s->num_gpu_blocks_override);
	jout_int(j, "num_gpu_blocks", c->num_blocks);
	jout_int(j, "block_size", c->block_size);
	jout_int(j, "max_num_seqs", c->max_num_seqs);
	jout_int(j, "max_num_batched_tokens", c->max_num_batched_tokens);
	jout_int(j, "max_model_len", c->max_model_len);
	jout_int(j, "max_concurrency", c->max_concurrency);
	jout_real(j, "abort_after", s->abort_after_s);
	char predictor[40];
	jout_text(j, "scheduling_policy", queue_order_names[c->queue_order]);
	char *order = order_format(c->queue_order, &c->order);
	jout_text(j, "scheduling_params", order && *order ? order : NULL);
	mem_free(order);
	jout_text(j, "predictor", engine_config_predicts(c) ? predict_text(&c->predictor, predictor) : NULL);
	jout_text(j, "victim", victim_names[c->victim]);
	jout_bool(j, "kv_cache", !c->kv_off);
	jout_bool(j, "enable_prefix_caching", c->prefix_caching);
	jout_text(j, "prefix_cache", prefix_cache_names[c->prefix_cache]);
	jout_text(j, "prefix_eviction", c->prefix_cache ? prefix_eviction_names[c->prefix_eviction] : NULL);
	jout_text(j, "cache_salt", cache_salt_names[c->cache_salt]);
	jout_bool(j, "cache_generated", !c->cache_prompts_only);
	jout_real(j, "swap_space", s->swap_space);
	jout_int(j, "num_cpu_blocks", c->swap_blocks);
	jout_real(j, "kv_offload_host", s->kv_offload_host);
	jout_real(j, "kv_offload_disk", s->kv_offload_disk);
	jout_text(j, "kv_transfer", kv_transfer_names[c->kv_transfer]);
	jout_bool(j, "kv_prefetch", c->kv_prefetch);
	jout_text(j, "hit_visible", c->hit_visible == HIT_VISIBLE_COMMIT ? "commit" : "alloc");
	jout_text(j, "cache_at_start", "cold");
	jout_text(j, "kv_retention", kv_retention_names[c->kv_retention]);
	jout_int(j, "kv_window", c->kv_window);
	jout_int(j, "kv_sink", c->kv_sink);
	jout_bool(j, "async_scheduling", c->async_scheduling);
}

/* What ran it, and what asked for it. */
static void execution(struct jout *j, const struct run_settings *s, const struct run_result *r)
{
	jout_text(j, "backend", r->backend);
	if (s->arguments) {
		jout_raw(j, "arguments", s->arguments);
		jout_int(j, "arm", s->arm);
	}
	if (!run_backend_executes(s->backend))
		return;
	jout_text(j, "backend_what", r->backend_what);
	jout_text(j, "weights", s->weights);
	jout_text(j, "weights_what", r->weights_what);
	jout_text(j, "tokenizer", s->tokenizer);
	jout_text(j, "isa", s->isa);
	jout_int(j, "threads", s->threads);
	jout_text(j, "time", s->exec_time == EXEC_WALL ? "wall" : "warp");
	jout_bool(j, "batch_invariant", s->batch_invariant);
	jout_bool(j, "ignore_eos", s->ignore_eos);
	jout_real(j, "temperature", s->sampling.temperature);
	jout_int(j, "top_k", s->sampling.top_k);
	jout_real(j, "top_p", s->sampling.top_p);
	jout_int(j, "kv_cache_memory_bytes", s->kv_cache_memory_bytes);
	jout_bool(j, "enforce_eager", s->enforce_eager);
}

static void objective(struct jout *j, const char *key, int64_t ns)
{
	if (ns >= 0)
		jout_real(j, key, (double)ns / 1e6);
	else if (ns == -2)
		jout_text(j, key, "none");
}

static void objectives(struct jout *j, const struct goodput_slo *slo)
{
	jout_begin(j, "goodput", '{');
	objective(j, "ttft_ms", slo->ttft_ns);
	objective(j, "tpot_ms", slo->tpot_ns);
	objective(j, "e2el_ms", slo->e2el_ns);
	for (int32_t i = 0; i < slo->n_classes; i++) {
		const struct goodput_class *c = &slo->classes[i];
		jout_begin(j, c->name, '{');
		objective(j, "ttft_ms", c->ttft_ns);
		objective(j, "tpot_ms", c->tpot_ns);
		objective(j, "e2el_ms", c->e2el_ns);
		jout_end(j, '}');
	}
	jout_end(j, '}');
}

static void settings(struct jout *j, const struct run_settings *s, const struct run_result *r)
{
	jout_begin(j, "settings", '{');
	jout_text(j, "program_version", LOCKSTEP_VERSION);
	traffic(j, s, r);
	serving(j, s, r);
	execution(j, s, r);
	objectives(j, &s->slo);
	jout_text(j, "record", run_record_names[s->record]);
	jout_end(j, '}');
}

static void identity(struct jout *j, const struct run_settings *s, const struct run_result *r)
{
	if (r->run_id)
		jout_int(j, "run_id", r->run_id);
	else
		jout_null(j, "run_id");
	jout_text(j, "status", run_status_name(r->status));
	jout_text(j, "status_text", r->status_text[0] ? r->status_text : NULL);
	jout_text(j, "label", s->label ? s->label : s->policy);
	jout_text(j, "policy", s->policy);
	jout_text(j, "policy_params", r->policy_params ? r->policy_params : s->policy_params);
	if (s->policy_path) {
		jout_text(j, "policy_path", s->policy_path);
		jout_text(j, "policy_digest", s->policy_digest);
	}
	hash(j, "workload_hash", s->workload_hash);
}

int result_json_begun(const struct run_settings *s, const struct run_result *r, char **text, struct err *e)
{
	struct jout j;
	jout_open(&j, NULL);
	jout_begin(&j, NULL, '{');
	identity(&j, s, r);
	settings(&j, s, r);
	jout_end(&j, '}');
	return jout_close(&j, text, e);
}

int result_json(const struct run_settings *s, const struct run_result *r, char **text, struct err *e)
{
	const struct metrics *m = &r->metrics;
	struct jout j;
	jout_open(&j, NULL);
	jout_begin(&j, NULL, '{');
	vllm_keys(&j, s, r);
	identity(&j, s, r);
	jout_real(&j, "sim_wall_s", r->sim_wall_s);
	rate(&j, "offered_rate", m->offered_rate);
	failures(&j, m);
	costs(&j, m);
	steps(&j, r);
	memory(&j, r);
	workflows(&j, m);
	waits(&j, m);
	for (int l = LATENCY_NORMALIZED; l < LATENCY_COUNT; l++)
		latency(&j, latency_key((enum latency)l), &m->latency[l], &m->percentiles);
	sums(&j, m);
	if (r->decision_hash) {
		hash(&j, "decision_hash", r->decision_hash);
		hash(&j, "memory_hash", r->memory_hash);
	}
	steady_state(&j, m);
	uncertain(&j, m);
	settings(&j, s, r);
	jout_end(&j, '}');
	return jout_close(&j, text, e);
}

int result_json_runs(FILE *f, char *const *texts, int32_t n, struct err *e)
{
	struct jout j;
	char *unused;
	jout_open(&j, f);
	jout_begin(&j, NULL, '{');
	jout_begin(&j, "runs", '[');
	for (int32_t i = 0; i < n; i++)
		jout_raw(&j, NULL, texts[i]);
	jout_end(&j, ']');
	jout_end(&j, '}');
	int rc = jout_close(&j, &unused, e);
	if (rc == ERR_NONE && (fputc('\n', f) == EOF || fflush(f)))
		rc = err_set(e, ERR_IO, "writing JSON: %s", strerror(errno));
	return rc;
}
