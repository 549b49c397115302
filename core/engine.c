/* The loop, from the outside in: engine_run, then engine_begin (take in arrivals, plan, close) and engine_end (commit).
 *   begin:  ingest -> policy->plan -> plan_close (plan_close.c)      policies act through actions.c, look through view.c
 *   end:    emit_step (emit.c)
 * The running requests' lazy accounts are in cohort.c, their memory in memory.c and kv_pool.c. */
#include "core/engine.h"

#include <string.h>

#include "core/engine_state.h"
#include "core/mem.h"
#include "core/order_fair.h"
#include "core/order_mlfq.h"

/* --- one replica -------------------------------------------------------------------------------------------------- */

static int wait_and_end(struct engine *g, struct backend *b, struct err *e)
{
	struct step_result res;
	int code = b->ops->wait(b->self, &res, e);
	return code ? code : engine_end(g, &res, e);
}

int engine_run(struct engine *g, struct backend *b, const struct run_hooks *hooks, struct err *e)
{
	const struct batch *batch = NULL;
	enum engine_next next = ENGINE_DONE;
	int64_t until = 0, last_told = 0;
	int code = b->ops->init(b->self, g, e);
	while (!code) {
		if (hooks && hooks->stop && *hooks->stop)
			return err_set(e, ERR_INTERRUPTED, "interrupted");
		int64_t now_ns = b->ops->now(b->self);
		if (g->tiers.on)
			code = engine_transfers_done(g, b, now_ns, e);
		if (!code)
			code = engine_begin(g, now_ns, &next, &batch, &until, e);
		if (g->tiers.on && !code)
			code = engine_start_transfers(g, b, e);
		if (code)
			break;
		int64_t in_flight = g->begun - g->ended;
		if (next == ENGINE_DONE)
			break;
		if (next == ENGINE_IDLE && !in_flight) {
			code = b->ops->wait_until(b->self, until, e);
			continue;
		}
		if (next == ENGINE_BATCH)
			code = b->ops->submit(b->self, batch, e);
		/* Asynchronous scheduling leaves the first of two in flight: the next plan is made while it runs. */
		if (!code && (next == ENGINE_IDLE || !g->cfg.async_scheduling || in_flight == 2))
			code = wait_and_end(g, b, e);
		int64_t ended = engine_count_ended(g);
		if (hooks && hooks->progress && ended - last_told >= (hooks->every ? hooks->every : 1024)) {
			last_told = ended;
			hooks->progress(hooks->ctx, ended, g->w->n);
		}
	}
	return code;
}

/* --- making one --------------------------------------------------------------------------------------------------- */

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
	c->prefix_caching |= c->prefix_cache != PREFIX_OFF;
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

/* --- begin: arrivals ---------------------------------------------------------------------------------------------- */

static int turn_away(struct engine *g, int32_t req, enum request_why why, struct err *e)
{
	struct request *r = &g->requests[req];
	r->state = REQUEST_REJECTED;
	r->why = (uint8_t)why;
	r->last_token_ns = g->now_ns;
	g->stats.rejected++;
	fork_not_unborn(g, req);
	engine_event(g, EVENT_REJECT, g->now_ns, req, why, 0);
	return engine_note_ended(g, req, g->now_ns, e);
}

/* Why it can never run, or REQUEST_WHY_NONE. */
static enum request_why never_fits(const struct engine *g, int32_t req)
{
	int32_t prompt = g->w->specs[req].prompt_tokens;
	/* Longer than the memory is the reason that helps, when both hold. */
	if (!g->cfg.kv_off && kv_blocks_for(prompt, g->cfg.block_size) > g->cfg.num_blocks &&
	    (!g->cfg.model_max_len || prompt < g->cfg.model_max_len))
		return REQUEST_WHY_NO_MEMORY;
	if (prompt >= g->cfg.max_model_len)
		return g->budget_capped ? REQUEST_WHY_BUDGET : REQUEST_WHY_PROMPT_TOO_LONG;
	return REQUEST_WHY_NONE;
}

static void begin_life(struct engine *g, int32_t req, int64_t arrival_ns)
{
	struct request *r = &g->requests[req];
	r->arrival_ns = arrival_ns;
	r->first_sched_ns = r->first_token_ns = r->last_token_ns = -1;
	r->replica = g->cfg.replica;
}

/* The first to arrive is given up first. Sources hand requests out by that time, but forks, which arrived with their parents. */
static int remember_arrival(struct engine *g, int32_t req, struct err *e)
{
	if (!g->cfg.abort_after_ns)
		return ERR_NONE;
	if (mem_grow((void **)&g->arrived, &g->cap_arrived, g->n_arrived + 1, sizeof *g->arrived))
		return err_no_memory(e, "arrivals");
	int64_t at = g->n_arrived++;
	for (; at > g->first_arrived && g->requests[g->arrived[at - 1]].arrival_ns > g->requests[req].arrival_ns; at--)
		g->arrived[at] = g->arrived[at - 1];
	g->arrived[at] = req;
	return ERR_NONE;
}

int64_t engine_next_abort_ns(struct engine *g)
{
	while (g->first_arrived < g->n_arrived && g->requests[g->arrived[g->first_arrived]].state >= REQUEST_FINISHED)
		g->first_arrived++;
	if (g->first_arrived == g->n_arrived)
		return INT64_MAX;
	int64_t arrival_ns = g->requests[g->arrived[g->first_arrived]].arrival_ns;
	return arrival_ns < INT64_MAX - g->cfg.abort_after_ns ? arrival_ns + g->cfg.abort_after_ns : INT64_MAX;
}

/* First come, first served: a live fork goes on with what is running, so it comes before whoever waits, in its turn among
 * the forks of the same moment. */
static void join_queue(struct engine *g, int32_t req)
{
	struct forks *f = &g->forks;
	if (!f->of || f->of[req] < 0 || g->w->specs[req].fork_at < 0 || g->cfg.queue_order != QUEUE_FCFS) {
		queue_arrive(&g->waiting, req);
		return;
	}
	bool follows = f->front >= 0 && f->front_ns == g->now_ns && g->requests[f->front].state == REQUEST_WAITING;
	queue_follow(&g->waiting, req, follows ? f->front : -1);
	f->front = req;
	f->front_ns = g->now_ns;
}

static int arrive(struct engine *g, int32_t req, int64_t arrival_ns, struct err *e)
{
	begin_life(g, req, fork_arrival(g, req, arrival_ns));
	enum request_why why = never_fits(g, req);
	if (!why) {
		g->requests[req].state = REQUEST_WAITING;
		if (remember_arrival(g, req, e))
			return ERR_MEMORY;
		join_queue(g, req);
		waits_begin(g, req);
		g->requests[req].waited_ns[WAIT_ENTRY] += g->now_ns - g->requests[req].arrival_ns;
	}
	engine_event(g, EVENT_ARRIVE, g->now_ns, req, g->waiting.count, 0);
	if (why)
		return turn_away(g, req, why, e);
	if (g->policy->desc->on_arrival)
		g->policy->desc->on_arrival(g->policy->self, engine_plan(g), req);
	return ERR_NONE;
}

/* A request that waits for one that failed never starts. */
static int bury_orphans(struct engine *g, struct err *e)
{
	int32_t req;
	while ((req = source_pop_orphan(g->src)) >= 0) {
		begin_life(g, req, g->now_ns);
		if (turn_away(g, req, REQUEST_WHY_PARENT, e))
			return ERR_MEMORY;
	}
	return ERR_NONE;
}

/* Those who have come. Apart from engine_ingest, which in most steps finds nobody. */
static __attribute__((noinline)) int let_come(struct engine *g, int64_t now_ns, struct err *e)
{
	int32_t req;
	int64_t arrival_ns;
	/* A rejection may free a place at the client: until nobody comes any more. */
	for (bool came = true; came;) {
		if (g->w->child_at && bury_orphans(g, e))
			return ERR_MEMORY;
		for (came = false; (req = source_pop(g->src, now_ns, &arrival_ns)) >= 0; came = true)
			if (arrive(g, req, arrival_ns, e) || (g->w->child_at && bury_orphans(g, e)))
				return ERR_MEMORY;
	}
	return ERR_NONE;
}

int engine_ingest(struct engine *g, int64_t now_ns, struct err *e)
{
	waits_clock(g, now_ns);
	g->now_ns = now_ns;
	g->event_step = g->begun;
	if ((g->w->child_at || source_next_ns(g->src) <= now_ns) && let_come(g, now_ns, e))
		return ERR_MEMORY;
	if (g->waiting.count > g->stats.max_waiting)
		g->stats.max_waiting = g->waiting.count;
	return ERR_NONE;
}

int engine_give_up(struct engine *g, int64_t now_ns, bool *any, struct err *e)
{
	g->now_ns = now_ns;
	g->event_step = g->begun;
	for (*any = false; engine_next_abort_ns(g) <= now_ns; *any = true)
		if (engine_abort(g, g->arrived[g->first_arrived], now_ns, REQUEST_WHY_TIMEOUT, e) ||
		    (g->w->child_at && bury_orphans(g, e)))
			return ERR_MEMORY;
	return ERR_NONE;
}

/* Whoever is given up makes room at the client. */
static int take_in(struct engine *g, int64_t now_ns, struct err *e)
{
	if (!g->cfg.abort_after_ns)
		return engine_ingest(g, now_ns, e);
	for (bool any = true; any;)
		if (engine_ingest(g, now_ns, e) || engine_give_up(g, now_ns, &any, e))
			return ERR_MEMORY;
	return ERR_NONE;
}

/* --- begin: planning ---------------------------------------------------------------------------------------------- */

static void plan_open(struct engine *g, struct step *st)
{
	static const struct batch nothing;
	st->batch = nothing; /* copied: clearing it with a string instruction takes longer than all the rest here */
	st->now_ns = g->now_ns;
	st->number = g->event_step = g->begun;
	st->n_rows = st->n_pages = st->n_back = 0;
	st->cohort_rows = st->acts = st->preempted = st->joined = 0;
	st->uniform = st->refunded = st->was_empty = false;
	g->budget = g->policy->traits.unbudgeted ? INT64_MAX : g->cfg.max_num_batched_tokens;
	g->wake_ns = INT64_MAX;
	g->waits.refused = PLAN_OK;
	g->waits.told = 0;
	g->waits.first_new = g->next_order;
	g->contig_misfit = false;
}

/* Lets the policy plan. A plan that changed something and yet scheduled nothing (the one that could not go on gave way to
 * itself) is followed by another at once: each takes from the running or the waiting, so this ends. */
static void plan_round(struct engine *g, struct step *st)
{
	int32_t preempted = 0;
	bool again = true;
	if (g->waiting.mlfq)
		mlfq_promote(g->waiting.mlfq, g->now_ns);
	while (again) {
		plan_open(g, st);
		if (g->drops)
			retention_expire(g);
		g->planning = true;
		g->policy->desc->plan(g->policy->self, engine_plan(g));
		g->planning = false;
		st->preempted = preempted += st->preempted;
		again = !g->fault.code && st->acts && !view_planned_any(engine_plan(g));
	}
	waits_blame(g, st);
}

int64_t engine_next_event_ns(struct engine *g)
{
	int64_t next_ns = source_next_ns(g->src),
		abort_ns = g->cfg.abort_after_ns ? engine_next_abort_ns(g) : INT64_MAX;
	next_ns = abort_ns < next_ns ? abort_ns : next_ns;
	return g->wake_ns < next_ns ? g->wake_ns : next_ns;
}

/* The policy scheduled nothing: is there something to wait for? */
static int nothing_planned(struct engine *g, enum engine_next *next, int64_t *until_ns, struct err *e)
{
	*next = ENGINE_IDLE;
	*until_ns = engine_next_event_ns(g);
	if (g->begun > g->ended || *until_ns < INT64_MAX)
		return ERR_NONE;
	if (!g->n_running && !g->waiting.count && !g->tiers.n_swapped) {
		/* An inbox may be filled any time; a workload's own source with nothing to come has ended. */
		*next = source_done(g->src) ? ENGINE_DONE : ENGINE_IDLE;
		return ERR_NONE;
	}
	if (g->tiers.n_copies)
		return ERR_NONE;
	char who[768];
	engine_describe(g, who, sizeof who);
	return err_set(e, ERR_STALL, "step %lld: nothing can go on under policy %s: %s", (long long)g->begun,
		       g->policy->desc->name, who);
}

int engine_begin(struct engine *g, int64_t now_ns, enum engine_next *next, const struct batch **batch,
		 int64_t *until_ns, struct err *e)
{
	struct step *st = engine_step(g);
	g->n_ended = 0;
	int64_t rejected;
	do { /* whom the policy rejects may have made room at the client, or have had children: they come in now */
		if (take_in(g, now_ns, e))
			return ERR_MEMORY;
		rejected = g->stats.rejected;
		plan_round(g, st);
		if (g->fault.code)
			return err_set(e, g->fault.code, "%s", g->fault.text);
	} while (g->stats.rejected > rejected && !view_planned_any(engine_plan(g)));
	if (g->n_running > g->stats.max_running)
		g->stats.max_running = g->n_running;
	if (!view_planned_any(engine_plan(g)))
		return nothing_planned(g, next, until_ns, e);
	if (plan_close(g, st, e))
		return e ? (int)e->code : ERR_MEMORY;
	g->begun++;
	*next = ENGINE_BATCH;
	*batch = &st->batch;
	return ERR_NONE;
}

/* --- end ----------------------------------------------------------------------------------------------------------- */

int engine_end(struct engine *g, const struct step_result *res, struct err *e)
{
	struct step *st = &g->steps[g->ended & 1];
	g->n_ended = 0;
	g->event_step = st->number;
	int code = emit_step(g, st, res, e);
	if (code)
		return code;
	g->ended++;
	engine_event(g, EVENT_STEP, res->end_ns[res->steps - 1], -1, res->start_ns, res->end_ns[res->steps - 1]);
	return g->cfg.check ? engine_check(g, e) : ERR_NONE;
}

/* --- from outside -------------------------------------------------------------------------------------------------- */

/* Has the step in flight moved on its tick, for a token that is not going to come out? */
static bool ticked_in_flight(const struct engine *g, const struct slot *s)
{
	const struct step *last = &g->steps[(g->begun - 1) & 1];
	if (g->begun == g->ended)
		return false;
	return s->sched_step == g->begun - 1 ? last->rows[s->sched_row].chunk < 0 : last->uniform;
}

/* A running request is taken out; whatever of it is in flight comes to nothing. */
static void pull_out(struct engine *g, int32_t req)
{
	struct slot *s = &g->slots[g->slot_of[req]];
	struct step *last = &g->steps[(g->begun - 1) & 1];
	bool in_flight = g->begun > g->ended && s->sched_step == g->begun - 1;
	g->requests[req].outputs = slot_emitted(g, s);
	if (g->waiting.fair && s->part == PART_COHORT && !g->flat && ticked_in_flight(g, s))
		fair_charge(g->waiting.fair, req, 0, -1);
	if (in_flight && last->rows[s->sched_row].chunk >= 0 && s->part == PART_COHORT)
		last->joined--;
	slot_drop(g, s);
}

static void abort_waiting(struct engine *g, int32_t req, int64_t now_ns)
{
	waits_clock(g, now_ns);
	waits_end(g, req);
	queue_remove(&g->waiting, req);
}

int engine_abort(struct engine *g, int32_t req, int64_t now_ns, enum request_why why, struct err *e)
{
	if (req < 0 || req >= g->w->n)
		return err_set(e, ERR_INPUT, "there is no request %d to abort", req);
	struct request *r = &g->requests[req];
	char buf[24];
	if (r->state == REQUEST_PENDING || r->state >= REQUEST_FINISHED)
		return err_set(e, ERR_INPUT, "request %s cannot be aborted: it is %s", workload_name(g->w, req, buf),
			       request_state_name(r->state));
	const struct slot *s = r->state == REQUEST_RUNNING ? &g->slots[g->slot_of[req]] : NULL;
	if (s && s->part == PART_LOADING) {
		r->transfer_ns += now_ns - s->load_ns;
		if (r->first_token_ns < 0)
			r->transfer_in_prefill_ns += now_ns - s->load_ns;
	}
	if (s)
		pull_out(g, req);
	else if (tiers_swapped(&g->tiers, req)) {
		r->waited_ns[WAIT_MEMORY] += now_ns - g->preempted_at[req];
		tiers_drop_swapped(g, req);
	} else
		abort_waiting(g, req, now_ns);
	if (r->state == REQUEST_WAITING)
		fork_not_unborn(g, req);
	if (r->state == REQUEST_PREEMPTED) {
		r->preempted_ns += now_ns - g->preempted_at[req];
		if (r->first_token_ns < 0)
			r->preempted_in_prefill_ns += now_ns - g->preempted_at[req];
	}
	r->state = REQUEST_ABORTED;
	r->why = (uint8_t)why;
	r->last_token_ns = now_ns;
	g->stats.aborted++;
	engine_event(g, EVENT_ABORT, now_ns, req, why, 0);
	return engine_note_ended(g, req, now_ns, e);
}

const struct workload *engine_workload(const struct engine *g)
{
	return g->w;
}

const struct request *engine_request(const struct engine *g, int32_t req)
{
	return &g->requests[req];
}

void engine_glance(const struct engine *g, struct engine_glance *out)
{
	const struct engine_stats *s = &g->stats;
	*out = (struct engine_glance){.now_ns = g->now_ns,
				      .running = g->n_running,
				      .waiting = (int32_t)g->waiting.count,
				      .blocks_used = memory_used(g),
				      .blocks_cached = g->pool.n_cached,
				      .num_blocks = g->cfg.num_blocks,
				      .finished = s->finished,
				      .steps = s->steps,
				      .output_tokens = s->output_tokens,
				      .prompt_tokens = s->prompt_tokens_computed,
				      .preemptions = s->preemptions};
}

void engine_stats(const struct engine *g, struct engine_stats *out)
{
	const struct usage *u = &g->usage;
	double bs = g->cfg.block_size;
	*out = g->stats;
	out->evicted_blocks = g->pool.evicted;
	out->duplicate_blocks = kv_duplicates(&g->pool);
	out->kv_slot_ns = (double)g->cfg.num_blocks * bs * (double)g->stats.busy_ns;
	out->kv_token_ns = (double)u->token;
	out->kv_reserved_ns = (double)u->reserved;
	out->kv_external_ns = (double)u->external;
	out->kv_shared_ns = (double)u->shared * bs;
	out->kv_internal_ns = (double)(u->used * g->cfg.block_size - u->token - u->reserved);
}

const struct engine_config *engine_config(const struct engine *g)
{
	return &g->cfg;
}

int64_t engine_count_ended(const struct engine *g)
{
	return g->stats.finished + g->stats.rejected + g->stats.aborted;
}

const int32_t *engine_ended(const struct engine *g, int32_t *n)
{
	*n = (int32_t)g->n_ended;
	return g->ended_list;
}

const int32_t *engine_block_table(const struct engine *g, int32_t req, int32_t *n)
{
	int32_t slot = g->slot_of[req];
	*n = slot < 0 ? 0 : g->tables[slot].n;
	return slot < 0 ? NULL : g->tables[slot].ids;
}
