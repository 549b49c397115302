/* Swapping: a running request's KV goes to host memory and comes back, instead of being computed again. */
#include <string.h>

#include "core/engine_state.h"
#include "core/mem.h"

/* --- out ---------------------------------------------------------------------------------------------------------- */

/* Its pages are copied and given up; what it had reached is kept. */
static int move_out(struct engine *g, struct slot *s, bool decodes, int32_t n)
{
	struct swapped *x = tiers_add_swapped(g, s->req, n);
	const int32_t *ids = slot_table(g, s)->ids;
	if (!x)
		return ERR_MEMORY;
	struct copy *c = tiers_begin_copy(g, LINK_DEVICE_HOST);
	for (int32_t i = 0; i < n && c; i++)
		if (tiers_add_page(g, c, ids[i], x->pages[i]))
			return ERR_MEMORY;
	if (!c)
		return ERR_MEMORY;
	x->ticket = c->ticket;
	slot_leave(g, s); /* its fields are exact now */
	x->computed = s->computed;
	x->outputs = s->outputs;
	x->emitted = s->emitted;
	x->pad = s->pad;
	x->peak = s->peak;
	x->keep_tokens = s->keep_tokens;
	x->decodes = decodes;
	memory_release(g, s);
	slot_give(g, (int32_t)(s - g->slots));
	return ERR_NONE;
}

enum plan_status plan_swap_out(struct plan *p, int32_t req)
{
	struct engine *g = plan_engine(p);
	struct slot *s = action_slot(g, req);
	if (!g->planning)
		return action_bad(g, req, "acted outside of plan()");
	if (!s || s->part == PART_HELD || s->part == PART_LOADING)
		return action_bad(g, req, "swapped out a request that is not running");
	if (!g->tiers.swap.total)
		return action_bad(g, req, "swapped out a request without --swap-space");
	int32_t n = kv_blocks_for((int64_t)slot_computed_before(g, s) + s->pad, g->cfg.block_size);
	if (n == 0) /* nothing to keep */
		return PLAN_NO_SPACE;
	if (n > g->tiers.swap.n_free) {
		g->stats.swap_refused++;
		return PLAN_NO_SPACE;
	}
	bool decodes = s->part == PART_COHORT;
	if (slot_interrupt(g, s, EVENT_SWAP_OUT, n) || move_out(g, s, decodes, n))
		return PLAN_BAD;
	g->requests[req].swaps++;
	g->stats.swaps++;
	g->stats.swap_out_blocks += n;
	int32_t used = g->tiers.swap.total - g->tiers.swap.n_free;
	if (used > g->stats.max_swap_used)
		g->stats.max_swap_used = used;
	return PLAN_OK;
}

/* --- in ----------------------------------------------------------------------------------------------------------- */

/* Tokens it computes in the step that brings it back; 0: it has to wait for its pages first. */
static enum plan_status size_of_first(const struct engine *g, const struct swapped *x, const struct admit_options *o,
				      int32_t *tokens)
{
	int32_t left = g->w->specs[x->req].prompt_tokens + x->outputs - x->computed;
	*tokens = 0;
	if (g->cfg.kv_transfer)
		return PLAN_OK;
	if (left > o->tokens && o->whole)
		return PLAN_NO_BUDGET;
	*tokens = left < o->tokens ? left : o->tokens;
	return *tokens > g->budget ? PLAN_NO_BUDGET : PLAN_OK;
}

static int fill_pages(struct engine *g, struct slot *s, const struct swapped *x, int32_t blocks)
{
	struct tiers *t = &g->tiers;
	int64_t out = t->after_out, in = t->after_in;
	if (memory_append(g, s, blocks))
		return ERR_MEMORY;
	struct copy *c = tiers_begin_copy(g, LINK_HOST_DEVICE);
	if (!c)
		return ERR_MEMORY;
	c->gives_back = true;
	for (int32_t i = 0; i < x->n; i++)
		if (tiers_add_page(g, c, x->pages[i], slot_table(g, s)->ids[i]))
			return ERR_MEMORY;
	if (!g->cfg.kv_transfer)
		return ERR_NONE;
	tiers_load_into(c, s, g);
	/* It is the copy that comes after those that still read or fill its pages, not the batch. */
	t->after_out = out;
	t->after_in = in;
	return ERR_NONE;
}

static void take_back(struct engine *g, struct slot *s, const struct swapped *x)
{
	slot_begin(g, s);
	s->computed = x->computed;
	s->outputs = x->outputs;
	s->emitted = x->emitted;
	s->pad = x->pad;
	s->peak = x->peak;
	s->keep_tokens = x->keep_tokens;
	s->swap_decodes = x->decodes;
	g->requests[s->req].waited_ns[WAIT_MEMORY] += g->now_ns - g->preempted_at[s->req];
	slot_resume_times(g, s);
	g->requests[s->req].state = REQUEST_RUNNING;
	g->hold.resident += s->computed + s->pad;
	g->hold.pad += s->pad;
	g->hold.final_kv += slot_final_kv(s);
}

/* Its pages are there: it joins those it was taken from. */
static int rejoin(struct engine *g, struct slot *s)
{
	if (g->cfg.prefix_caching && memory_restore(g, s))
		return ERR_MEMORY;
	if (!s->swap_decodes)
		return ERR_NONE;
	cohort_join(g, s);
	return g->flat ? ERR_NONE : cohort_set_fresh(g, s, g->requests[s->req].last_token_ns);
}

int slot_go_on(struct engine *g, struct slot *s)
{
	g->tiers.n_loading--;
	s->part = PART_PREFILL;
	slot_list_add(g, &g->prefilling, (int32_t)(s - g->slots));
	return s->load_pages ? memory_loaded(g, s) : rejoin(g, s);
}

void slot_wait_for_pages(struct engine *g, struct slot *s)
{
	slot_list_drop(g, &g->prefilling, (int32_t)(s - g->slots));
	s->part = PART_LOADING;
	s->load_ns = g->now_ns;
	g->tiers.n_loading++;
}

int slot_back(struct engine *g, const struct slot *s)
{
	struct step *st = engine_step(g);
	if (mem_grow((void **)&st->back, &st->cap_back, st->n_back + 1, sizeof *st->back))
		return err_no_memory(&g->fault, "requests whose pages come back");
	st->back[st->n_back++] = (struct back){(int32_t)(s - g->slots), s->epoch};
	return ERR_NONE;
}

static enum plan_status go_on_now(struct engine *g, struct slot *s, int32_t tokens)
{
	struct step *st = engine_step(g);
	if (slot_back(g, s) || rejoin(g, s))
		return PLAN_BAD;
	if (s->part != PART_COHORT || !st->uniform)
		return slot_schedule(g, s, tokens);
	/* The cohort was scheduled as one: so is its new member. */
	if (g->budget != INT64_MAX)
		g->budget--;
	return g->cfg.prefix_caching && memory_remember(g, s, slot_computed(g, s) + 1, st) ? PLAN_BAD : PLAN_OK;
}

static enum plan_status swap_in(struct engine *g, int32_t req, int32_t tokens, int32_t blocks)
{
	const struct swapped x = g->tiers.swapped[g->tiers.swapped_of[req]];
	int32_t id = slot_take(g, req);
	if (id < 0)
		return PLAN_BAD;
	struct slot *s = &g->slots[id];
	take_back(g, s, &x);
	engine_event(g, EVENT_SWAP_IN, g->now_ns, req, x.n, tokens > 0);
	if (fill_pages(g, s, &x, blocks))
		return PLAN_BAD;
	tiers_forget_swapped(g, req);
	g->stats.swap_in_blocks += x.n;
	engine_step(g)->acts++;
	if (tokens)
		return go_on_now(g, s, tokens);
	slot_wait_for_pages(g, s);
	return PLAN_OK;
}

enum plan_status plan_swap_in(struct plan *p, int32_t req, const struct admit_options *o)
{
	struct engine *g = plan_engine(p);
	int32_t tokens;
	if (!g->planning)
		return action_bad(g, req, "acted outside of plan()");
	if (req < 0 || req >= g->w->n || !tiers_swapped(&g->tiers, req))
		return action_bad(g, req, "swapped in a request that is not swapped out");
	if (o->tokens < 1 || o->keep_free < 0 || o->pad || o->reserve)
		return action_bad(g, req, "swapped in a request with fewer than 1 token, padding or a reservation");
	if (g->n_running >= g->cfg.max_num_seqs)
		return PLAN_NO_PLACE;
	const struct swapped *x = &g->tiers.swapped[g->tiers.swapped_of[req]];
	enum plan_status status = size_of_first(g, x, o, &tokens);
	if (status != PLAN_OK)
		return status;
	int32_t blocks = kv_blocks_for((int64_t)x->computed + x->pad + tokens, g->cfg.block_size);
	/* Who could not compute a token would have to leave again at once. */
	int32_t must = kv_blocks_for((int64_t)x->computed + x->pad + (tokens ? tokens : 1), g->cfg.block_size);
	if ((int64_t)must + o->keep_free > g->pool.n_free)
		return PLAN_NO_SPACE;
	return swap_in(g, req, tokens, blocks);
}

/* --- the view ------------------------------------------------------------------------------------------------------ */

int32_t view_swapped(const struct plan *p)
{
	return plan_engine(p)->tiers.n_swapped;
}

int32_t view_loading(const struct plan *p)
{
	return plan_engine(p)->tiers.n_loading;
}

int32_t view_swapped_first(const struct plan *p)
{
	const struct tiers *t = &plan_engine(p)->tiers;
	return t->first < 0 ? -1 : t->swapped[t->first].req;
}

int32_t view_swapped_next(const struct plan *p, int32_t req)
{
	const struct tiers *t = &plan_engine(p)->tiers;
	if (!tiers_swapped(t, req))
		return -1;
	int32_t next = t->swapped[t->swapped_of[req]].next;
	return next < 0 ? -1 : t->swapped[next].req;
}

int32_t view_swapped_blocks(const struct plan *p, int32_t req)
{
	const struct tiers *t = &plan_engine(p)->tiers;
	return tiers_swapped(t, req) ? t->swapped[t->swapped_of[req]].n : 0;
}

int32_t view_swap_free(const struct plan *p)
{
	return plan_engine(p)->tiers.swap.n_free;
}
