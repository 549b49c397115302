/* The loop, from the outside in: engine_run, then engine_begin (take in arrivals, plan, close) and engine_end (commit).
 *   begin:  ingest -> policy->plan -> plan_close (plan_close.c)
 *   end:    emit_step (emit.c)
 * Policies act through actions.c, admit.c, preempt.c and swap.c, and look through view.c. Engines are made in setup.c.
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
	if (g->cfg.kv_prefetch && offload_prefetch(g, req))
		return err_set(e, g->fault.code, "%s", g->fault.text);
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

bool engine_block_known(const struct engine *g, int32_t block)
{
	return g->pool.content && g->pool.content[block] != 0;
}
