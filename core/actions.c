/* What a policy may do: here, to run requests; to let them in is in admit.c, to stop them in preempt.c. Each action is
 * checked, applied at once, and answered with a status; a forbidden one ends the run with a sentence that names the step,
 * the policy and the request. */
#include "core/engine_state.h"
#include "core/mem.h"
#include "core/order_fair.h"

#include <string.h>

static enum plan_status bad(struct engine *g, int32_t req, const char *what)
{
	char buf[24];
	err_set(&g->fault, ERR_POLICY, "step %lld: policy %s %s (request %s)", (long long)g->begun,
		g->policy->desc->name, what, req >= 0 && req < g->w->n ? workload_name(g->w, req, buf) : "none");
	return PLAN_BAD;
}

static enum plan_status out_of_memory(struct engine *g)
{
	err_no_memory(&g->fault, "a scheduling step");
	return PLAN_BAD;
}

enum plan_status plan_fail(struct plan *p, const char *what)
{
	struct engine *g = plan_engine(p);
	err_set(&g->fault, ERR_POLICY, "step %lld: policy %s %s", (long long)g->begun, g->policy->desc->name, what);
	return PLAN_BAD;
}

enum plan_status action_bad(struct engine *g, int32_t req, const char *what)
{
	return bad(g, req, what);
}

struct slot *action_slot(struct engine *g, int32_t req)
{
	if (req < 0 || req >= g->w->n || g->slot_of[req] < 0)
		return NULL;
	return &g->slots[g->slot_of[req]];
}

int32_t slot_emitted(const struct engine *g, const struct slot *s)
{
	if (g->flat || s->part != PART_COHORT)
		return s->emitted;
	const struct step *last = &g->steps[(g->begun - 1) & 1];
	/* Its last one is still in flight, unless it just completed a prompt from which nothing is sampled. */
	bool sampled = s->sched_step == g->begun - 1 ? last->rows[s->sched_row].samples : last->uniform;
	return slot_outputs(g, s) - (g->begun > g->ended && !g->planning && sampled);
}

/* --- scheduling rows -------------------------------------------------------------------------------------------- */

static struct row *add_row(struct engine *g, struct slot *s, int32_t tokens)
{
	struct step *st = engine_step(g);
	if (mem_grow((void **)&st->rows, &st->cap_rows, st->n_rows + 1, sizeof *st->rows))
		return NULL;
	s->sched_step = g->begun;
	s->sched_row = (int32_t)st->n_rows;
	struct row *r = &st->rows[st->n_rows++];
	*r = (struct row){.slot = (int32_t)(s - g->slots), .epoch = s->epoch, .tokens = tokens, .chunk = -1};
	return r;
}

static struct chunk *add_chunk(struct engine *g, struct row *r)
{
	struct step *st = engine_step(g);
	if (mem_grow((void **)&st->chunks, &st->cap_chunks, st->batch.n_chunks + 1, sizeof *st->chunks))
		return NULL;
	r->chunk = st->batch.n_chunks++;
	return &st->chunks[r->chunk];
}

/* Tokens whose KV it will have written in the end: one more than it needs when it ran past an end nobody knew of. */
int32_t slot_final_kv(const struct slot *s)
{
	int32_t all = s->prompt + (s->bound > 1 ? s->bound - 1 : 0);
	return s->computed > all ? s->computed : all;
}

enum plan_status slot_schedule_piece(struct engine *g, struct slot *s, int32_t tokens, int32_t pad)
{
	struct row *r = add_row(g, s, tokens);
	struct chunk *c = r ? add_chunk(g, r) : NULL;
	if (!c)
		return out_of_memory(g);
	int32_t start = g->cfg.kv_off ? 0 : s->computed;
	r->completes = start + tokens == s->prompt + s->outputs;
	r->samples = r->completes && s->outputs < s->bound;
	*c = (struct chunk){.req = s->req,
			    .start = pad ? start : start + (g->cfg.kv_off ? 0 : s->pad - s->dropped),
			    .dropped = s->dropped,
			    .len = tokens,
			    .pad = pad,
			    .samples = r->samples};
	s->outputs += r->samples;
	if (g->budget != INT64_MAX)
		g->budget -= tokens + pad;
	engine_event(g, EVENT_CHUNK, g->now_ns, s->req, c->start + c->dropped, tokens);
	if (g->cfg.kv_off)
		return PLAN_OK;
	s->computed += tokens;
	g->hold.resident += tokens;
	if (g->cfg.prefix_caching && memory_remember(g, s, s->computed, engine_step(g)))
		return PLAN_BAD;
	return PLAN_OK;
}

static enum plan_status schedule_decode(struct engine *g, struct slot *s)
{
	struct row *r = add_row(g, s, 1);
	if (!r)
		return out_of_memory(g);
	r->completes = r->samples = true;
	if (g->budget != INT64_MAX)
		g->budget--;
	engine_step(g)->cohort_rows++;
	engine_event(g, EVENT_DECODE, g->now_ns, s->req, slot_resident(g, s) + 1, 0);
	if (!g->flat)
		return g->cfg.prefix_caching && memory_remember(g, s, slot_computed(g, s) + 1, engine_step(g))
			       ? PLAN_BAD
			       : PLAN_OK;
	/* Without ticks the member moves on by itself: same sums, one row at a time. */
	struct cohort *c = &g->cohort;
	int32_t window = g->cfg.window, next_ctx = s->computed + s->pad + 1;
	c->ctx++;
	if (!window || next_ctx < window) {
		c->ctx_window++;
		c->below -= window && next_ctx + 1 == window;
	}
	g->hold.final_kv -= slot_final_kv(s);
	s->computed++;
	g->hold.final_kv += slot_final_kv(s);
	r->samples = s->outputs < s->bound;
	s->outputs += r->samples;
	g->hold.resident++;
	if (g->cfg.prefix_caching && memory_remember(g, s, s->computed, engine_step(g)))
		return PLAN_BAD;
	return PLAN_OK;
}

enum plan_status slot_schedule(struct engine *g, struct slot *s, int32_t tokens)
{
	return s->part == PART_COHORT ? schedule_decode(g, s) : slot_schedule_piece(g, s, tokens, 0);
}

/* --- running ---------------------------------------------------------------------------------------------------- */

static bool is_scheduled(const struct engine *g, const struct slot *s)
{
	return s->sched_step == g->begun || (s->part == PART_COHORT && g->steps[g->begun & 1].uniform);
}

bool view_is_scheduled(const struct plan *p, int32_t req)
{
	const struct engine *g = plan_engine(p);
	return g->slot_of[req] >= 0 && is_scheduled(g, &g->slots[g->slot_of[req]]);
}

enum plan_status plan_run(struct plan *p, int32_t req, int32_t tokens)
{
	struct engine *g = plan_engine(p);
	struct slot *s = action_slot(g, req);
	if (!g->planning)
		return bad(g, req, "acted outside of plan()");
	if (!s || s->part == PART_HELD || s->part == PART_LOADING)
		return bad(g, req, "ran a request that is not running");
	if (is_scheduled(g, s))
		return bad(g, req, "scheduled a request twice");
	if (tokens < 1 || tokens > view_need(p, req))
		return bad(g, req, "scheduled more tokens than the request has, or none");
	if (g->cfg.kv_off && tokens != s->prompt + s->outputs)
		return bad(g, req, "scheduled a part of a prompt without a KV cache");
	int32_t pad = g->cfg.kv_off ? s->pad : 0;
	if ((int64_t)tokens + pad > g->budget)
		return PLAN_NO_BUDGET;
	int32_t lacks = memory_lacks(g, s, tokens);
	if (lacks > 0 && lacks > g->pool.n_free)
		return PLAN_NO_SPACE;
	if ((lacks > 0 || s->tail_shared) && memory_extend(g, s, tokens))
		return PLAN_BAD;
	engine_step(g)->acts++;
	return s->part == PART_COHORT ? schedule_decode(g, s) : slot_schedule_piece(g, s, tokens, pad);
}

/* One by one, after making sure that all of them can. */
static enum plan_status walk_decodes(struct engine *g)
{
	int32_t n = 0, lacks = 0;
	struct plan *p = engine_plan(g);
	for (int32_t i = g->cohort.list.head; i >= 0; i = g->slots[i].part_next) {
		const struct slot *s = &g->slots[i];
		if (is_scheduled(g, s) || !view_need(p, s->req))
			continue;
		n++;
		lacks += memory_blocks(g, s, 1);
		if (s->tail_shared && fork_must_copy(g, s, 1))
			lacks += fork_copies(g, s);
	}
	if (g->forks.n_tails)
		fork_counted(g);
	if (n > g->budget)
		return PLAN_NO_BUDGET;
	if (lacks > 0 && lacks > g->pool.n_free)
		return PLAN_NO_SPACE;
	for (int32_t i = g->cohort.list.head; i >= 0; i = g->slots[i].part_next) {
		struct slot *s = &g->slots[i];
		if (is_scheduled(g, s) || !view_need(p, s->req))
			continue;
		if (memory_extend(g, s, 1))
			return PLAN_BAD;
		if (schedule_decode(g, s) != PLAN_OK)
			return PLAN_BAD;
	}
	return PLAN_OK;
}

enum plan_status plan_decodes(struct plan *p)
{
	struct engine *g = plan_engine(p);
	struct step *st = engine_step(g);
	if (!g->planning)
		return bad(g, -1, "acted outside of plan()");
	if (!g->cohort.list.n || st->uniform)
		return PLAN_OK;
	if (g->flat || st->cohort_rows || g->forks.n_tails)
		return walk_decodes(g);
	if (g->cohort.list.n > g->budget)
		return PLAN_NO_BUDGET;
	if (!g->contiguous) { /* counted only where it might not be enough */
		if (g->cohort.wheel[g->cohort.due].n > g->pool.n_free && cohort_demand(g) > g->pool.n_free)
			return PLAN_NO_SPACE;
		if (cohort_take_blocks(g) < 0)
			return PLAN_BAD;
	}
	st->uniform = true;
	if (g->cfg.prefix_caching && cohort_remember(g, st))
		return PLAN_BAD;
	if (g->budget != INT64_MAX)
		g->budget -= g->cohort.list.n;
	return PLAN_OK;
}

/* --- dropping ---------------------------------------------------------------------------------------------------- */

enum plan_status plan_drop(struct plan *p, int32_t req, int32_t first, int32_t n)
{
	struct engine *g = plan_engine(p);
	struct slot *s = action_slot(g, req);
	if (!g->planning)
		return bad(g, req, "acted outside of plan()");
	if (!g->policy->traits.drops)
		return bad(g, req, "dropped pages without having said that it would");
	if (!s || s->part == PART_HELD)
		return bad(g, req, "dropped pages of a request that is not running");
	if (is_scheduled(g, s))
		return bad(g, req, "dropped pages of a request that it has scheduled in this step");
	if (first < 0 || n < 0 || n > view_pages(p, req) - first)
		return bad(g, req, "dropped pages that the request has not computed");
	if (memory_drop(g, s, first, first + n))
		engine_step(g)->acts++;
	return PLAN_OK;
}

/* --- the rest --------------------------------------------------------------------------------------------------- */

enum plan_status plan_reject(struct plan *p, int32_t req)
{
	struct engine *g = plan_engine(p);
	if (req < 0 || req >= g->w->n || tiers_swapped(&g->tiers, req) ||
	    (g->requests[req].state != REQUEST_WAITING && g->requests[req].state != REQUEST_PREEMPTED))
		return bad(g, req, "rejected a request that is not waiting");
	queue_remove(&g->waiting, req);
	waits_end(g, req);
	if (g->requests[req].state == REQUEST_WAITING)
		fork_not_unborn(g, req);
	g->requests[req].state = REQUEST_REJECTED;
	g->requests[req].why = REQUEST_WHY_POLICY;
	g->requests[req].last_token_ns = g->now_ns;
	g->stats.rejected++;
	if (g->planning)
		engine_step(g)->acts++;
	engine_event(g, EVENT_REJECT, g->now_ns, req, REQUEST_WHY_POLICY, 0);
	return engine_note_ended(g, req, g->now_ns, &g->fault) ? PLAN_BAD : PLAN_OK;
}

enum plan_status plan_hold(struct plan *p, int32_t req)
{
	struct engine *g = plan_engine(p);
	struct slot *s = action_slot(g, req);
	if (!g->in_finish || !s || s->part == PART_HELD)
		return bad(g, req, "held a request outside of its on_finish");
	slot_leave(g, s);
	s->part = PART_HELD;
	s->base_tick = g->held_ticks;
	slot_list_add(g, &g->held, (int32_t)(s - g->slots));
	g->held_ctx += slot_resident(g, s);
	g->hold.resident += slot_resident(g, s);
	g->hold.pad += s->pad;
	g->hold.final_kv += s->computed;
	return PLAN_OK;
}

enum plan_status plan_release_held(struct plan *p)
{
	struct engine *g = plan_engine(p);
	if (!g->planning)
		return bad(g, -1, "acted outside of plan()");
	while (g->held.head >= 0) {
		struct slot *s = &g->slots[g->held.head];
		g->requests[s->req].held_until_ns = g->now_ns;
		engine_event(g, EVENT_RELEASE, g->now_ns, s->req, 0, 0);
		slot_drop(g, s);
		engine_step(g)->acts++;
	}
	return PLAN_OK;
}

enum plan_status plan_wake_at(struct plan *p, int64_t t_ns)
{
	struct engine *g = plan_engine(p);
	if (t_ns <= g->now_ns)
		return bad(g, -1, "asked to be woken in the past");
	if (t_ns < g->wake_ns)
		g->wake_ns = t_ns;
	return PLAN_OK;
}
