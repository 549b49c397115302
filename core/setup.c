/* An engine from its settings: defaults, what does not go together, what the policy asks for; and its end. */
#include <string.h>

#include "core/engine_state.h"
#include "core/mem.h"

void engine_config_default(struct engine_config *c)
{
	memset(c, 0, sizeof *c);
	c->max_num_seqs = 256;
	c->max_num_batched_tokens = 2048;
	c->block_size = 16;
	c->order = (struct order_params){
		.input_weight = 1, .output_weight = 2, .levels = 6, .quantum = 512, .promote_ns = 30 * NS_PER_S};
#ifdef LOCKSTEP_DEBUG
	c->check = true;
#endif
}

static int resolve_max_model_len(struct engine_config *c, struct err *e)
{
	int64_t holds = c->kv_off ? INT32_MAX : (int64_t)c->num_blocks * c->block_size;
	if (c->model_max_len > 0 && holds > c->model_max_len)
		holds = c->model_max_len;
	if (holds > INT32_MAX)
		holds = INT32_MAX;
	if (c->max_model_len > holds)
		return err_set(
			e, ERR_INPUT, "max_model_len %d is more than the %s %lld tokens: lower --max-model-len%s",
			c->max_model_len, c->model_max_len && holds == c->model_max_len ? "model's" : "KV memory's",
			(long long)holds, c->kv_off ? "" : " or give the KV cache more memory");
	if (!c->max_model_len)
		c->max_model_len = (int32_t)holds;
	return ERR_NONE;
}

int engine_config_resolve(struct engine_config *c, struct err *e)
{
	c->prefix_caching = engine_config_caches(c);
	if (c->prefix_caching && c->prefix_cache == PREFIX_OFF)
		c->prefix_cache = PREFIX_HASH;
	if (prefix_eviction_resolve(c->prefix_cache, &c->prefix_eviction, e))
		return ERR_INPUT;
	if (c->prefix_cache && prefix_ops_of(c->prefix_cache, c->prefix_eviction)->tree)
		c->hit_visible = HIT_VISIBLE_COMMIT;
	if (c->max_num_seqs < 1 || c->max_num_batched_tokens < 1)
		return err_set(e, ERR_INPUT, "max_num_seqs %d and max_num_batched_tokens %d must be at least 1",
			       c->max_num_seqs, c->max_num_batched_tokens);
	if (c->block_size < 1 || c->block_size > 1 << 20)
		return err_set(e, ERR_INPUT, "block_size %d is not within 1 and 1048576", c->block_size);
	if (!c->kv_off && c->num_blocks < 1)
		return err_set(e, ERR_INPUT,
			       "no memory is left for the KV cache (%d blocks): use a larger device or smaller weights",
			       c->num_blocks);
	if (c->kv_off && (c->prefix_caching || c->async_scheduling))
		return err_set(e, ERR_INPUT, "--kv-cache off cannot go with %s",
			       c->prefix_caching ? "prefix caching: there is nothing to share"
						 : "asynchronous scheduling");
	if (retention_check(c, e))
		return ERR_INPUT;
	if (c->window < 0 || c->max_concurrency < 0 || c->abort_after_ns < 0 || c->max_model_len < 0 ||
	    c->model_max_len < 0)
		return err_set(e, ERR_INPUT, "a limit of the engine is negative");
	if (c->queue_order == QUEUE_EDF && c->order.slo_ttft_ns <= 0)
		return err_set(e, ERR_INPUT,
			       "--scheduling-policy edf goes by when first tokens are due: give --goodput "
			       "ttft:MILLISECONDS");
	/* Whom the levels let in another rule might stop again, for ever. */
	if (c->queue_order == QUEUE_MLFQ && c->victim != VICTIM_DEFAULT)
		return err_set(
			e, ERR_INPUT,
			"--victim %s cannot go with --scheduling-policy mlfq: its levels say who gives way (leave "
			"--victim out)",
			victim_names[c->victim]);
	if (c->offload_disk_blocks && !c->offload_host_blocks)
		return err_set(e, ERR_INPUT,
			       "--kv-offload-disk is reached through host memory: give --kv-offload-host as well");
	if (c->kv_prefetch && !c->offload_disk_blocks)
		return err_set(e, ERR_INPUT,
			       "--kv-prefetch reads ahead what lies on disk: give --kv-offload-disk as well");
	if (c->offload_host_blocks && !c->prefix_caching)
		return err_set(e, ERR_INPUT,
			       "--kv-offload-host keeps what a prefix cache evicts: give --prefix-cache as well");
	if (c->offload_host_blocks && c->async_scheduling)
		return err_set(e, ERR_INPUT,
			       "--kv-offload-host cannot go with --async-scheduling: what a step in flight writes is "
			       "not there "
			       "to be copied");
	if (c->swap_blocks && (c->kv_off || c->async_scheduling))
		return err_set(e, ERR_INPUT, "--swap-space cannot go with %s",
			       c->kv_off
				       ? "--kv-cache off: there is nothing to keep"
				       : "--async-scheduling: what a step in flight writes is not there to be copied");
	return resolve_max_model_len(c, e);
}

bool engine_config_caches(const struct engine_config *c)
{
	return c->prefix_caching || c->prefix_cache != PREFIX_OFF;
}

bool engine_config_predicts(const struct engine_config *c)
{
	return c->queue_order == QUEUE_SJF || c->victim == VICTIM_LONGEST_LEFT;
}

void engine_policy_setup(const struct engine_config *c, struct policy_setup *out)
{
	*out = (struct policy_setup){.max_num_seqs = c->max_num_seqs,
				     .max_num_batched_tokens = c->max_num_batched_tokens,
				     .max_model_len = c->max_model_len,
				     .block_size = c->block_size,
				     .num_blocks = c->num_blocks,
				     .swap_blocks = c->swap_blocks,
				     .kv_off = c->kv_off,
				     .prefix_caching = c->prefix_caching,
				     .async_scheduling = c->async_scheduling,
				     .queue_order = c->queue_order,
				     .victim = c->victim};
}

/* An order or a choice of victim that the policy would not heed. */
static int fit_choices(const struct engine *g, struct err *e)
{
	const struct policy_traits *t = &g->policy->traits;
	const struct engine_config *c = &g->cfg;
	const char *name = g->policy->desc->name;
	if (c->queue_order != QUEUE_FCFS && t->no_order)
		return err_set(e, ERR_INPUT, "--scheduling-policy %s has no meaning for policy %s: %s",
			       queue_order_names[c->queue_order], name, t->no_order);
	if (c->queue_order == QUEUE_MLFQ && (!t->yields || c->kv_off))
		return err_set(
			e, ERR_INPUT,
			"--scheduling-policy mlfq has no meaning for policy %s as it is set up: it never stops a "
			"running request for another",
			name);
	if (c->victim == VICTIM_DEFAULT || (t->victims && !c->kv_off))
		return ERR_NONE;
	return err_set(e, ERR_INPUT, "--victim %s has no meaning for policy %s: %s", victim_names[c->victim], name,
		       c->kv_off      ? "without a KV cache there is no memory to take from anybody"
		       : t->no_victim ? t->no_victim
				      : "it never takes memory back from a running request");
}

/* What the policy's kind asks of the configuration. */
static int fit_policy(struct engine *g, bool len_given, struct err *e)
{
	const struct policy_traits *t = &g->policy->traits;
	struct engine_config *c = &g->cfg;
	const char *name = g->policy->desc->name;
	if (fit_choices(g, e))
		return ERR_INPUT;
	if (c->kv_off && !t->kv_off_ok)
		return err_set(
			e, ERR_INPUT,
			"policy %s needs a KV cache: --kv-cache off goes with static (naive) or orca (continuous)",
			name);
	if (retention_fits_policy(c, t, name, e))
		return ERR_INPUT;
	if (t->contiguous && c->prefix_caching)
		return err_set(
			e, ERR_INPUT,
			"policy %s reserves contiguous memory, which cannot share prefixes: turn its reservation "
			"off or do without --enable-prefix-caching",
			name);
	if (c->swap_blocks && (t->contiguous || !t->swaps))
		return err_set(e, ERR_INPUT,
			       "policy %s never swaps requests out: do without --swap-space, or use vllm_v0 with "
			       "preemption_mode=swap",
			       name);
	if (c->offload_host_blocks && c->kv_transfer == KV_TRANSFER_OVERLAP && !t->continues_prompts)
		return err_set(
			e, ERR_INPUT,
			"policy %s cannot let a request wait for its prefix beside the steps: --kv-offload-host goes "
			"with --kv-transfer sync there",
			name);
	if (t->unbudgeted)
		return ERR_NONE;
	if (c->max_num_batched_tokens < c->max_num_seqs)
		return err_set(
			e, ERR_INPUT,
			"max_num_batched_tokens (%d) is less than max_num_seqs (%d): a step could not give every "
			"running request its token; raise the first or lower the second",
			c->max_num_batched_tokens, c->max_num_seqs);
	if (!t->whole_prompts || c->max_num_batched_tokens >= c->max_model_len)
		return ERR_NONE;
	if (len_given)
		return err_set(
			e, ERR_INPUT,
			"max_num_batched_tokens (%d) is less than max_model_len (%d) and prompts are not chunked: "
			"a longer prompt could never run; raise the first, lower the second, or enable chunked "
			"prefill",
			c->max_num_batched_tokens, c->max_model_len);
	/* One more than the budget: what is computed never includes the last token. */
	c->max_model_len = c->max_num_batched_tokens + 1;
	g->budget_capped = true;
	return ERR_NONE;
}

static int set_up(struct engine *g, bool len_given, struct err *e)
{
	int code = engine_config_resolve(&g->cfg, e);
	if (!code)
		code = fit_policy(g, len_given, e);
	if (code)
		return code;
	g->contiguous = g->policy->traits.contiguous && !g->cfg.kv_off;
	/* Per-token records, decision logs, a second step in flight and recomputation all walk the rows anyway. */
	g->drops = g->cfg.kv_retention != RETAIN_FULL || g->policy->traits.drops;
	if (g->drops && (g->cfg.swap_blocks || g->cfg.offload_host_blocks))
		return err_set(e, ERR_INPUT,
			       "--swap-space and --kv-offload-host keep whole pages and contexts: they cannot go with "
			       "dropping tokens (--kv-retention, vllm_v1:shortage=drop)");
	g->flat = retention_needs_walk(&g->cfg, &g->policy->traits) || g->cfg.exact_walk || g->cfg.async_scheduling ||
		  g->cfg.kv_off || g->rec.token || g->rec.event;
	g->may_repeat = g->policy->traits.steady && !g->flat && !g->cfg.single_steps && !g->cfg.check && !g->drops;
	g->waiting = (struct wait_queue){.w = g->w,
					 .requests = g->requests,
					 .predictor = &g->predictor,
					 .max_model_len = g->cfg.max_model_len,
					 .order = g->cfg.queue_order,
					 .params = g->cfg.order,
					 .tick = &g->cohort.tick,
					 .now_ns = &g->now_ns,
					 .peak = &g->peak};
	code = fork_init(g, e);
	if (code)
		return code;
	if (cohort_init(g, e) || slots_init(g, e) || memory_init(g, e) || tiers_init(g, e) ||
	    predict_init(&g->predictor, &g->cfg.predictor, g->w, g->cfg.seed, e) || queue_init(&g->waiting, e))
		return ERR_MEMORY;
	rng_init(&g->rng, g->cfg.seed, 0x706f6c69u);
	return ERR_NONE;
}

int engine_create(struct engine **out, const struct engine_config *c, const struct workload *w,
		  struct request *requests, struct source *src, struct policy *policy, const struct recorder *rec,
		  struct err *e)
{
	struct engine *g = mem_zalloc(1, sizeof *g);
	if (!g)
		return err_no_memory(e, "an engine");
	g->cfg = *c;
	g->w = w;
	g->requests = requests;
	g->src = src;
	g->policy = policy;
	if (rec)
		g->rec = *rec;
	int code = set_up(g, c->max_model_len > 0, e);
	if (code) {
		engine_free(g);
		return code;
	}
	*out = g;
	return ERR_NONE;
}

void engine_free(struct engine *g)
{
	if (!g)
		return;
	slots_free(g);
	cohort_free(g);
	memory_free(g);
	tiers_free(g);
	fork_free(g);
	queue_free(&g->waiting);
	predict_free(&g->predictor);
	for (int i = 0; i < 2; i++) {
		mem_free(g->steps[i].rows);
		mem_free(g->steps[i].chunks);
		mem_free(g->steps[i].pages);
		mem_free(g->steps[i].back);
		mem_free(g->steps[i].copies);
	}
	mem_free(g->preempted_at);
	mem_free(g->peak);
	mem_free(g->ended_list);
	mem_free(g->arrived);
	mem_free(g->finished);
	mem_free(g);
}
