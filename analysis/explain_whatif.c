#include "analysis/explain_whatif.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/err.h"
#include "policies/registry.h"

/* A change of settings: false where it is none, or has no meaning. It writes what a user would type. */
typedef bool knob(struct whatif *w, const struct workload *load);

__attribute__((format(printf, 2, 3))) static bool say(struct whatif *w, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(w->change, sizeof w->change, fmt, ap);
	va_end(ap);
	return true;
}

static const char *policy_name(const struct run_settings *s)
{
	const struct policy_desc *d = s->policy_path ? NULL : policy_find(s->policy);
	return d ? d->name : "";
}

static bool has_param(const struct run_settings *s, const char *name)
{
	return s->policy_params && strstr(s->policy_params, name);
}

/* --- the token budget ---------------------------------------------------------------------------------------------- */

/* Of policies that have none: nothing would change. */
static bool has_budget(const struct run_settings *s)
{
	const char *name = policy_name(s);
	return !s->engine.kv_off && strcmp(name, "static") != 0 && strcmp(name, "orca") != 0;
}

/* sarathi's own: its chunk_size. */
static bool scale_chunk(struct whatif *w, int32_t by, int32_t of)
{
	enum { CHUNK = 512 };
	int32_t tokens = CHUNK * by / of;
	if ((w->s.policy_params && *w->s.policy_params) || tokens > w->s.engine.max_num_batched_tokens)
		return false;
	snprintf(w->params, sizeof w->params, "chunk_size=%d", tokens);
	w->s.policy_params = w->params;
	return say(w, "--policy sarathi:%s", w->params);
}

/* Times by / of. */
static bool scale_budget(struct whatif *w, int32_t by, int32_t of)
{
	int32_t *at = &w->s.engine.max_num_batched_tokens;
	int64_t tokens = (int64_t)*at * by / of;
	if (strcmp(policy_name(&w->s), "sarathi") == 0)
		return scale_chunk(w, by, of);
	if (!has_budget(&w->s) || tokens > 1 << 20 || tokens < w->s.engine.max_num_seqs || tokens < 64)
		return false;
	*at = (int32_t)tokens;
	return say(w, "--max-num-batched-tokens %d", *at);
}

static bool budget_double(struct whatif *w, const struct workload *load)
{
	(void)load;
	return scale_budget(w, 2, 1);
}

static bool budget_fourfold(struct whatif *w, const struct workload *load)
{
	(void)load;
	return scale_budget(w, 4, 1);
}

static bool budget_half(struct whatif *w, const struct workload *load)
{
	(void)load;
	return scale_budget(w, 1, 2);
}

/* Pieces of one prompt: half of the budget, so that a second one fits beside it. */
static bool cap_prompts(struct whatif *w, const struct workload *load)
{
	(void)load;
	int32_t cap = w->s.engine.max_num_batched_tokens / 2;
	if (strcmp(policy_name(&w->s), "vllm_v1") != 0 || has_param(&w->s, "long_prefill_token_threshold=") ||
	    has_param(&w->s, "enable_chunked_prefill=") || cap < 1)
		return false;
	const char *others = w->s.policy_params ? w->s.policy_params : "";
	int n = snprintf(w->params, sizeof w->params, "%s%slong_prefill_token_threshold=%d", others, *others ? "," : "",
			 cap);
	if (n >= (int)sizeof w->params)
		return false;
	w->s.policy_params = w->params;
	return say(w, "--long-prefill-token-threshold %d", cap);
}

/* --- places -------------------------------------------------------------------------------------------------------- */

static bool set_places(struct whatif *w, int64_t places)
{
	struct engine_config *c = &w->s.engine;
	if (places < 1 || places > 1 << 16 || places == c->max_num_seqs)
		return false;
	c->max_num_seqs = (int32_t)places;
	if (c->max_num_batched_tokens >= c->max_num_seqs)
		return say(w, "--max-num-seqs %d", c->max_num_seqs);
	c->max_num_batched_tokens = c->max_num_seqs;
	return say(w, "--max-num-seqs %d --max-num-batched-tokens %d", c->max_num_seqs, c->max_num_batched_tokens);
}

static bool places_double(struct whatif *w, const struct workload *load)
{
	(void)load;
	return set_places(w, 2 * (int64_t)w->s.engine.max_num_seqs);
}

static bool places_half(struct whatif *w, const struct workload *load)
{
	(void)load;
	return set_places(w, w->s.engine.max_num_seqs / 2);
}

static bool clients_double(struct whatif *w, const struct workload *load)
{
	(void)load;
	int32_t *at = &w->s.engine.max_concurrency;
	if (*at < 1 || *at > 1 << 20)
		return false;
	*at *= 2;
	return say(w, "--max-concurrency %d", *at);
}

/* --- memory -------------------------------------------------------------------------------------------------------- */

static bool more_memory(struct whatif *w, const struct workload *load)
{
	(void)load;
	if (w->s.engine.kv_off)
		return false;
	if (w->s.num_gpu_blocks_override > 0) {
		int64_t blocks = w->s.num_gpu_blocks_override + (int64_t)w->s.num_gpu_blocks_override / 2;
		if (blocks > 1 << 28)
			return false;
		w->s.num_gpu_blocks_override = (int32_t)blocks;
		return say(w, "--num-gpu-blocks-override %d", w->s.num_gpu_blocks_override);
	}
	if (w->s.gpu_memory_utilization >= 0.95)
		return false;
	w->s.gpu_memory_utilization = 0.95;
	return say(w, "--gpu-memory-utilization 0.95");
}

static bool keep_kv(struct whatif *w, const struct workload *load)
{
	(void)load;
	if (!w->s.engine.kv_off)
		return false;
	w->s.engine.kv_off = false;
	return say(w, "--kv-cache on");
}

static bool smaller_kv(struct whatif *w, const struct workload *load)
{
	(void)load;
	const char *was = w->s.kv_dtype;
	if (!w->s.model || w->s.engine.kv_off || (was && strcmp(was, "auto") != 0 && strcmp(was, "bf16") != 0) ||
	    (w->s.cost && strncmp(w->s.cost, "roofline", 8) != 0))
		return false;
	w->s.kv_dtype = "fp8";
	return say(w, "--kv-cache-dtype fp8");
}

static bool share_prefixes(struct whatif *w, const struct workload *load)
{
	const struct engine_config *c = &w->s.engine;
	bool known = load->n_hash_ids > 0;
	if (!known || engine_config_caches(c) || c->kv_off)
		return false;
	w->s.engine.prefix_caching = true;
	return say(w, "--enable-prefix-caching");
}

static bool copies_beside(struct whatif *w, const struct workload *load)
{
	(void)load;
	if (w->s.engine.kv_transfer != KV_TRANSFER_SYNC || (w->s.swap_space <= 0 && w->s.kv_offload_host <= 0))
		return false;
	w->s.engine.kv_transfer = KV_TRANSFER_OVERLAP;
	return say(w, "--kv-transfer overlap");
}

static bool read_ahead(struct whatif *w, const struct workload *load)
{
	(void)load;
	if (w->s.engine.kv_prefetch || w->s.kv_offload_disk <= 0)
		return false;
	w->s.engine.kv_prefetch = true;
	return say(w, "--kv-prefetch");
}

/* --- order and policy ---------------------------------------------------------------------------------------------- */

static bool shortest_first(struct whatif *w, const struct workload *load)
{
	(void)load;
	if (w->s.engine.queue_order == QUEUE_SJF)
		return false;
	/* As well as a predictor might guess: right within a half, mostly. */
	w->s.engine.queue_order = QUEUE_SJF;
	w->s.engine.predictor = (struct predict_config){PREDICT_NOISY, 0.5};
	return say(w, "--scheduling-policy sjf --predictor noisy:0.5");
}

static bool first_come(struct whatif *w, const struct workload *load)
{
	(void)load;
	if (w->s.engine.queue_order == QUEUE_FCFS)
		return false;
	w->s.engine.queue_order = QUEUE_FCFS;
	return say(w, "--scheduling-policy fcfs");
}

static bool set_policy(struct whatif *w, const char *name)
{
	if (w->s.engine.kv_off || !policy_find(name) || strcmp(policy_name(&w->s), name) == 0)
		return false;
	w->s.policy = name;
	w->s.policy_params = w->s.policy_path = w->s.policy_digest = NULL;
	return say(w, "--policy %s", name);
}

static bool to_vllm_v1(struct whatif *w, const struct workload *load)
{
	(void)load;
	return set_policy(w, "vllm_v1");
}

static bool to_sarathi(struct whatif *w, const struct workload *load)
{
	(void)load;
	return set_policy(w, "sarathi");
}

static bool to_sglang(struct whatif *w, const struct workload *load)
{
	(void)load;
	return set_policy(w, "sglang");
}

/* --- machines ------------------------------------------------------------------------------------------------------ */

static bool plan_ahead(struct whatif *w, const struct workload *load)
{
	(void)load;
	if (w->s.engine.async_scheduling || w->s.engine.kv_off)
		return false;
	w->s.engine.async_scheduling = true;
	return say(w, "--async-scheduling");
}

static bool one_more_replica(struct whatif *w, const struct workload *load)
{
	(void)load;
	if (w->s.replicas >= 64 || w->s.engine.max_concurrency > 0)
		return false;
	w->s.replicas++;
	w->hardware = true;
	if (w->s.router)
		return say(w, "--replicas %d", w->s.replicas);
	w->s.router = "least_outstanding";
	return say(w, "--replicas %d --router least_outstanding", w->s.replicas);
}

enum { KNOBS = 5 };

static knob *const knobs[CAUSES][KNOBS] = {
	[CAUSE_CLIENT] = {clients_double, one_more_replica},
	[CAUSE_ENTRY] = {budget_half, cap_prompts},
	[CAUSE_MEMORY] = {more_memory, smaller_kv, share_prefixes, places_half, one_more_replica},
	[CAUSE_PLACE] = {places_double, share_prefixes, one_more_replica},
	[CAUSE_BUDGET] = {budget_double, budget_fourfold, cap_prompts, shortest_first},
	[CAUSE_PREFILL] = {budget_double, cap_prompts, budget_fourfold, share_prefixes, shortest_first},
	[CAUSE_POLICY] = {keep_kv, to_vllm_v1, to_sarathi},
	[CAUSE_ORDER] = {first_come},
	[CAUSE_PREEMPTED] = {more_memory, places_half, smaller_kv, share_prefixes},
	[CAUSE_SWAPPED] = {more_memory, places_half, smaller_kv},
	[CAUSE_TRANSFER] = {copies_beside, read_ahead, more_memory},
	[CAUSE_STALLED] = {to_vllm_v1, to_sarathi, budget_double},
	[CAUSE_HOST] = {plan_ahead},
	[CAUSE_OTHERS_PREFILL] = {keep_kv, budget_half, to_sarathi, share_prefixes, one_more_replica},
	[CAUSE_OTHERS_DECODE] = {places_half, smaller_kv, one_more_replica},
	[CAUSE_RECOMPUTE] = {more_memory, share_prefixes, places_half},
	[CAUSE_OWN_PREFILL] = {keep_kv, share_prefixes, budget_double},
	[CAUSE_OWN_DECODE] = {keep_kv, smaller_kv, plan_ahead},
};

const char *whatif_hint(const struct run_settings *s, const struct workload *load, enum cause c, char buf[WHATIF_TEXT])
{
	for (int k = 0; k < KNOBS && knobs[c][k]; k++) {
		struct whatif w = {.s = *s};
		if (!knobs[c][k](&w, load))
			continue;
		size_t n = strcspn(w.change, " ");
		snprintf(buf, WHATIF_TEXT, "%.*s", (int)n, w.change);
		return buf;
	}
	return NULL;
}

static void add(struct whatifs *w, const struct run_settings *base, const struct workload *load, knob *change,
		enum cause against)
{
	struct whatif *x = &w->at[w->n];
	*x = (struct whatif){.s = *base, .against = against};
	if (!change(x, load))
		return;
	for (int32_t i = 0; i < w->n; i++)
		if (strcmp(w->at[i].change, x->change) == 0)
			return;
	w->n++;
}

void whatif_plan(struct whatifs *w, const struct run_settings *base, const struct workload *load,
		 const struct explain_rank *rank, int32_t most)
{
	static knob *const always[] = {budget_half, budget_double, places_half, to_vllm_v1, to_sarathi, to_sglang};
	w->n = 0;
	most = most < WHATIF_MAX ? most : WHATIF_MAX;
	for (int i = 0; rank->n > 0 && i < CAUSES; i++)
		for (int k = 0; k < KNOBS && w->n < most; k++) {
			enum cause c = (enum cause)rank->order[i];
			/* Below a hundredth it is not worth a run. */
			if (knobs[c][k] && rank->slow_by[c] >= 0.01 * rank->slow_ns)
				add(w, base, load, knobs[c][k], c);
		}
	for (size_t i = 0; i < sizeof always / sizeof *always && w->n < most; i++)
		add(w, base, load, always[i], CAUSES);
}

/* --- running them -------------------------------------------------------------------------------------------------- */

void whatif_figures(struct whatif_figures *f, const struct run_result *r, double percentile)
{
	static const enum latency latency[EXPLAIN_METRICS] = {LATENCY_TTFT, LATENCY_TPOT, LATENCY_E2EL};
	const struct metrics *m = &r->metrics;
	*f = (struct whatif_figures){
		.throughput = m->request_throughput, .completed = m->completed, .preemptions = r->stats.preemptions};
	for (int i = 0; i < EXPLAIN_METRICS; i++) {
		f->p[i] = NAN;
		for (int32_t k = 0; k < m->percentiles.n; k++)
			if (m->percentiles.p[k] == percentile && m->latency[latency[i]].n > 0)
				f->p[i] = m->latency[latency[i]].p[k];
	}
}

int whatif_run(struct whatif *w, const struct workload *load, double percentile, const struct run_io *io, struct err *e)
{
	struct run_result r;
	struct err own = {0};
	int rc = run_execute(&w->s, load, io, &r, &own);
	bool interrupted = r.status == RUN_INTERRUPTED;
	if (rc == ERR_NONE && !interrupted) {
		w->ran = true;
		whatif_figures(&w->figures, &r, percentile);
	}
	run_result_free(&r);
	if (interrupted)
		return err_set(e, ERR_INTERRUPTED, "interrupted");
	if (rc == ERR_MEMORY)
		return err_set(e, ERR_MEMORY, "%s", own.text);
	snprintf(w->why_not, sizeof w->why_not, "%.250s", own.text);
	return ERR_NONE;
}

double whatif_change(const struct whatifs *w, int32_t i, enum explain_metric m)
{
	double before = w->base.p[m], after = w->at[i].figures.p[m];
	return w->at[i].ran && before > 0 ? after / before - 1 : NAN;
}

static bool counts(const struct whatifs *w, int32_t i)
{
	return w->at[i].ran && !w->at[i].hardware && w->at[i].figures.completed >= w->base.completed;
}

int32_t whatif_best(const struct whatifs *w, enum explain_metric m, bool kind)
{
	int32_t best = -1;
	double least = -0.0005; /* what would be shown as 0.1 % at least */
	for (int32_t i = 0; i < w->n; i++) {
		double change = whatif_change(w, i, m);
		bool fair = counts(w, i);
		for (int o = 0; kind && o < EXPLAIN_METRICS; o++)
			fair &= !(whatif_change(w, i, (enum explain_metric)o) > 0.1);
		if (!fair || !(change < least))
			continue;
		least = change;
		best = i;
	}
	return best;
}

int32_t whatif_worst(const struct whatifs *w, enum explain_metric m)
{
	int32_t worst = -1;
	double most = 0.0005;
	for (int32_t i = 0; i < w->n; i++) {
		double change = whatif_change(w, i, m);
		if (!counts(w, i) || !(change > most))
			continue;
		most = change;
		worst = i;
	}
	return worst;
}
