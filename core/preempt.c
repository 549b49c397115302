/* Running requests that lose their place: what a step had scheduled for them is taken back, their books are closed. */
#include "core/engine_state.h"
#include "core/mem.h"

void slot_leave(struct engine *g, struct slot *s)
{
	if (s->part == PART_COHORT)
		cohort_leave(g, s);
	else if (s->part == PART_PREFILL)
		slot_list_drop(g, &g->prefilling, (int32_t)(s - g->slots));
	else if (s->part == PART_HELD) {
		g->held_ctx -= slot_resident(g, s) + (g->held_ticks - s->base_tick);
		slot_list_drop(g, &g->held, (int32_t)(s - g->slots));
	} else if (s->part == PART_LOADING)
		g->tiers.n_loading--;
	bool held = s->part == PART_HELD;
	g->hold.resident -= slot_resident(g, s);
	g->hold.pad -= s->pad;
	/* A held row writes no more. */
	g->hold.final_kv -= held ? s->computed : slot_final_kv(s);
}

void slot_drop(struct engine *g, struct slot *s)
{
	fork_drop(g, s);
	slot_leave(g, s);
	memory_release(g, s);
	slot_give(g, (int32_t)(s - g->slots));
}

/* Pages it would have filled in this step are not going to be written. */
static void forget_unwritten(struct engine *g, const struct slot *s)
{
	if (!g->cfg.prefix_caching || g->cfg.hit_visible != HIT_VISIBLE_ALLOC)
		return;
	int32_t computed = slot_computed(g, s), has = computed > s->inherited ? computed : s->inherited;
	for (int32_t i = has / g->cfg.block_size; i < s->known_pages; i++)
		kv_disown(&g->pool, slot_table(g, s)->ids[i]);
}

/* Takes back what this step had scheduled for it. */
static void refund(struct engine *g, struct slot *s)
{
	struct step *st = engine_step(g);
	if (s->sched_step != g->begun) {
		if (s->part == PART_COHORT && st->uniform && g->budget != INT64_MAX)
			g->budget++;
		forget_unwritten(g, s);
		return;
	}
	struct row *r = &st->rows[s->sched_row];
	if (st->batch.n_copies)
		fork_refund(g, s);
	st->refunded = true;
	if (g->budget != INT64_MAX)
		g->budget += r->tokens + (r->chunk >= 0 ? st->chunks[r->chunk].pad : 0);
	if (r->chunk < 0)
		st->cohort_rows--;
	r->slot = -1;
	if (r->chunk >= 0 || g->flat) {
		s->outputs -= r->samples;
		if (!g->cfg.kv_off) {
			if (s->part == PART_COHORT) { /* flat: its sums move back with it */
				g->cohort.ctx--;
				if (!g->cfg.window || s->computed + s->pad < g->cfg.window)
					g->cohort.ctx_window--;
				g->cohort.below += g->cfg.window && s->computed + s->pad + 1 == g->cfg.window;
			}
			g->hold.final_kv -= slot_final_kv(s);
			s->computed -= r->tokens;
			g->hold.final_kv += slot_final_kv(s);
			g->hold.resident -= r->tokens;
		}
	}
	forget_unwritten(g, s);
}

static int remember_preempted(struct engine *g, const struct slot *s)
{
	if (!g->preempted_at) {
		g->preempted_at = mem_alloc((size_t)g->w->n * sizeof *g->preempted_at);
		g->peak = mem_alloc((size_t)g->w->n * sizeof *g->peak);
		if (!g->preempted_at || !g->peak)
			return err_no_memory(&g->fault, "preempted requests");
	}
	int32_t computed = slot_computed(g, s);
	g->preempted_at[s->req] = g->now_ns;
	g->peak[s->req] = computed > s->peak ? computed : s->peak;
	return ERR_NONE;
}

int32_t slot_computed_before(const struct engine *g, const struct slot *s)
{
	int32_t computed = slot_computed(g, s);
	const struct step *st = &g->steps[g->begun & 1];
	if (s->sched_step != g->begun || (!g->flat && s->part == PART_COHORT))
		return computed;
	return computed - st->rows[s->sched_row].tokens;
}

/* Requests may take each other's memory for ever, computing again and again what they lose: an order that turns too fast
 * does that. Far more preemptions than there are requests without a single token are no bad luck. */
static int check_barren(struct engine *g)
{
	const struct engine_stats *s = &g->stats;
	int64_t progress = s->output_tokens + engine_count_ended(g), most = 10000 + 100 * (int64_t)g->n_running;
	g->barren = progress == g->progress ? g->barren + 1 : 0;
	g->progress = progress;
	if (g->barren <= most)
		return ERR_NONE;
	return err_set(&g->fault, ERR_STALL,
		       "step %lld: %lld preemptions in a row without a token: under policy %s requests take each "
		       "other's memory "
		       "for ever (mlfq: a longer promote or a larger quantum; otherwise more KV blocks or a smaller "
		       "max-num-seqs would end it)",
		       (long long)g->begun, (long long)g->barren, g->policy->desc->name);
}

int slot_interrupt(struct engine *g, struct slot *s, enum event_kind kind, int64_t a)
{
	struct request *r = &g->requests[s->req];
	if (check_barren(g))
		return ERR_STALL;
	refund(g, s);
	if (remember_preempted(g, s))
		return ERR_MEMORY;
	engine_event(g, kind, g->now_ns, s->req, kind == EVENT_PREEMPT ? slot_computed(g, s) : a,
		     kind == EVENT_PREEMPT ? 0 : slot_computed(g, s));
	if (s->part == PART_COHORT && !g->flat)
		r->last_token_ns = cohort_last_ns(g, s);
	r->outputs = slot_emitted(g, s);
	r->state = REQUEST_PREEMPTED;
	r->preemptions++;
	g->stats.preemptions++;
	engine_step(g)->preempted++;
	engine_step(g)->acts++;
	return ERR_NONE;
}

static enum plan_status preempt(struct engine *g, int32_t req, bool to_back)
{
	struct slot *s = action_slot(g, req);
	if (!g->planning)
		return action_bad(g, req, "acted outside of plan()");
	if (!s || s->part == PART_HELD || s->part == PART_LOADING)
		return action_bad(g, req, "preempted a request that is not running");
	if (slot_interrupt(g, s, EVENT_PREEMPT, 0))
		return PLAN_BAD;
	slot_drop(g, s);
	if (to_back)
		queue_arrive(&g->waiting, req);
	else
		queue_return(&g->waiting, req);
	waits_begin(g, req);
	return PLAN_OK;
}

enum plan_status plan_preempt(struct plan *p, int32_t req)
{
	return preempt(plan_engine(p), req, false);
}

enum plan_status plan_retract(struct plan *p, int32_t req)
{
	return preempt(plan_engine(p), req, true);
}
