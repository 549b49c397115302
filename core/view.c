/* What a policy sees. */
#include <stddef.h>

#include "core/engine_state.h"

static const struct slot *slot_at(const struct engine *g, int32_t req)
{
	return g->slot_of[req] < 0 ? NULL : &g->slots[g->slot_of[req]];
}

static int32_t req_at(const struct engine *g, int32_t slot)
{
	return slot < 0 ? -1 : g->slots[slot].req;
}

int64_t view_now_ns(const struct plan *p)
{
	return plan_engine(p)->now_ns;
}

int64_t view_step(const struct plan *p)
{
	return plan_engine(p)->begun;
}

int64_t view_budget_left(const struct plan *p)
{
	return plan_engine(p)->budget;
}

int32_t view_places_left(const struct plan *p)
{
	return plan_engine(p)->cfg.max_num_seqs - plan_engine(p)->n_running;
}

int32_t view_free_blocks(const struct plan *p)
{
	return memory_free_blocks(plan_engine(p));
}

int32_t view_copies_due(const struct plan *p)
{
	struct engine *g = plan_engine(p);
	int32_t n = 0;
	for (int32_t i = g->forks.n_tails ? g->running.head : -1; i >= 0; i = g->slots[i].run_next)
		if (g->slots[i].tail_shared && fork_must_copy(g, &g->slots[i], INT32_MAX))
			n += fork_copies(g, &g->slots[i]);
	if (g->forks.n_tails)
		fork_counted(g);
	return n;
}

int32_t view_total_blocks(const struct plan *p)
{
	return plan_engine(p)->cfg.num_blocks;
}

int32_t view_block_size(const struct plan *p)
{
	return plan_engine(p)->cfg.block_size;
}

int32_t view_max_model_len(const struct plan *p)
{
	return plan_engine(p)->cfg.max_model_len;
}

int32_t view_max_num_seqs(const struct plan *p)
{
	return plan_engine(p)->cfg.max_num_seqs;
}

int32_t view_running(const struct plan *p)
{
	return plan_engine(p)->n_running;
}

int32_t view_decoding(const struct plan *p)
{
	return plan_engine(p)->cohort.list.n;
}

int32_t view_held(const struct plan *p)
{
	return plan_engine(p)->held.n;
}

int32_t view_waiting(const struct plan *p)
{
	return plan_engine(p)->waiting.count;
}

int64_t view_decode_ctx(const struct plan *p)
{
	return plan_engine(p)->cohort.ctx;
}

bool view_planned_any(const struct plan *p)
{
	const struct step *st = engine_step(plan_engine(p));
	return st->batch.n_chunks > 0 || st->cohort_rows > 0 || (st->uniform && plan_engine(p)->cohort.list.n > 0);
}

uint64_t view_random(struct plan *p)
{
	return rng_next(&plan_engine(p)->rng);
}

/* --- iterators -------------------------------------------------------------------------------------------------- */

/* The first request from slot i on, in one direction, that is neither merely held nor waits for its pages. */
static int32_t req_not_held(const struct engine *g, int32_t i, bool back)
{
	while (i >= 0 && (g->slots[i].part == PART_HELD || g->slots[i].part == PART_LOADING))
		i = back ? g->slots[i].run_prev : g->slots[i].run_next;
	return req_at(g, i);
}

int32_t view_running_first(const struct plan *p)
{
	return req_not_held(plan_engine(p), plan_engine(p)->running.head, false);
}

int32_t view_running_last(const struct plan *p)
{
	return req_not_held(plan_engine(p), plan_engine(p)->running.tail, true);
}

int32_t view_running_next(const struct plan *p, int32_t req)
{
	const struct slot *s = slot_at(plan_engine(p), req);
	return s ? req_not_held(plan_engine(p), s->run_next, false) : -1;
}

int32_t view_running_prev(const struct plan *p, int32_t req)
{
	const struct slot *s = slot_at(plan_engine(p), req);
	return s ? req_not_held(plan_engine(p), s->run_prev, true) : -1;
}

int32_t view_prefilling_first(const struct plan *p)
{
	return req_at(plan_engine(p), plan_engine(p)->prefilling.head);
}

int32_t view_prefilling_next(const struct plan *p, int32_t req)
{
	const struct slot *s = slot_at(plan_engine(p), req);
	return s && s->part == PART_PREFILL ? req_at(plan_engine(p), s->part_next) : -1;
}

int32_t view_waiting_first(const struct plan *p)
{
	return queue_first(&plan_engine(p)->waiting);
}

int32_t view_waiting_next(const struct plan *p, int32_t req)
{
	const struct engine *g = plan_engine(p);
	enum request_state state = g->requests[req].state;
	if (tiers_swapped(&g->tiers, req))
		return -1;
	return state == REQUEST_WAITING || state == REQUEST_PREEMPTED ? queue_next(&g->waiting, req) : -1;
}

bool view_decodes_lead(const struct plan *p)
{
	const struct engine *g = plan_engine(p);
	return !g->cohort.list.n || !g->prefilling.n ||
	       g->slots[g->cohort.list.tail].order < g->slots[g->prefilling.head].order;
}

/* --- one request ------------------------------------------------------------------------------------------------ */

int64_t view_arrival_ns(const struct plan *p, int32_t req)
{
	return plan_engine(p)->requests[req].arrival_ns;
}

int32_t view_prompt(const struct plan *p, int32_t req)
{
	return plan_engine(p)->w->specs[req].prompt_tokens;
}

int32_t view_outputs(const struct plan *p, int32_t req)
{
	const struct slot *s = slot_at(plan_engine(p), req);
	return s ? slot_outputs(plan_engine(p), s) : plan_engine(p)->requests[req].outputs;
}

int32_t view_tokens(const struct plan *p, int32_t req)
{
	return view_prompt(p, req) + view_outputs(p, req);
}

int32_t view_computed(const struct plan *p, int32_t req)
{
	const struct slot *s = slot_at(plan_engine(p), req);
	return s ? slot_computed(plan_engine(p), s) : 0;
}

int32_t view_need(const struct plan *p, int32_t req)
{
	const struct engine *g = plan_engine(p);
	const struct slot *s = slot_at(g, req);
	if (!s)
		return view_tokens(p, req);
	if (s->part == PART_HELD || s->part == PART_LOADING)
		return 0;
	int32_t outputs = slot_outputs(g, s);
	/* Known to reach its last token with a step in flight: nothing more to compute. */
	if (g->flat && outputs >= s->max_out && outputs > s->emitted)
		return 0;
	int32_t need = s->prompt + outputs - slot_computed(g, s);
	return need > 0 ? need : 0;
}

int32_t view_pages(const struct plan *p, int32_t req)
{
	const struct engine *g = plan_engine(p);
	const struct slot *s = slot_at(g, req);
	return s && !g->contiguous && !g->cfg.kv_off ? slot_computed(g, s) / g->cfg.block_size : 0;
}

bool view_is_dropped(const struct plan *p, int32_t req, int32_t page)
{
	return page >= 0 && page < view_pages(p, req) &&
	       slot_table(plan_engine(p), slot_at(plan_engine(p), req))->ids[page] == KV_NO_BLOCK;
}

int32_t view_resident(const struct plan *p, int32_t req)
{
	const struct slot *s = slot_at(plan_engine(p), req);
	return s ? slot_resident(plan_engine(p), s) : 0;
}

bool view_is_decoding(const struct plan *p, int32_t req)
{
	const struct slot *s = slot_at(plan_engine(p), req);
	return s && s->part == PART_COHORT;
}

int32_t view_priority(const struct plan *p, int32_t req)
{
	return plan_engine(p)->w->specs[req].priority;
}

int32_t view_tenant(const struct plan *p, int32_t req)
{
	return plan_engine(p)->w->specs[req].tenant;
}

bool view_was_preempted(const struct plan *p, int32_t req)
{
	return plan_engine(p)->requests[req].preemptions > 0;
}

/* Tokens of content id i of a prompt, cut off at its end; `at` is where it begins. */
static int64_t piece_tokens(const struct workload *w, const struct spec *s, int32_t i, int64_t at)
{
	int64_t n = w->seg_tokens ? w->seg_tokens[s->hash_at + i] : w->hash_block;
	return at + n > s->prompt_tokens ? s->prompt_tokens - at : n;
}

int32_t view_shared_prefix(const struct plan *p, int32_t a, int32_t b)
{
	const struct engine *g = plan_engine(p);
	const struct spec *x = &g->w->specs[a], *y = &g->w->specs[b];
	int64_t same = 0;
	if (content_salt(g->w, a, g->cfg.cache_salt) != content_salt(g->w, b, g->cfg.cache_salt))
		return 0;
	for (int32_t i = 0; i < x->n_hashes && i < y->n_hashes; i++) {
		if (g->w->hash_ids[x->hash_at + i] != g->w->hash_ids[y->hash_at + i])
			break;
		int64_t n = piece_tokens(g->w, x, i, same), m = piece_tokens(g->w, y, i, same);
		same += n < m ? n : m;
		if (n != m)
			break;
	}
	return (int32_t)(same / g->cfg.block_size) * g->cfg.block_size;
}

int32_t view_shared_blocks(const struct plan *p, int32_t a, int32_t b, int32_t most)
{
	const struct engine *g = plan_engine(p);
	struct content_walk x, y;
	int32_t n = 0;
	if (!g->cfg.prefix_caching)
		return 0;
	content_begin_salted(&x, g->w, a, g->cfg.block_size, g->cfg.cache_salt);
	content_begin_salted(&y, g->w, b, g->cfg.block_size, g->cfg.cache_salt);
	/* The last token of each is computed, and its block with it. */
	int32_t of_a = (view_tokens(p, a) - 1) / g->cfg.block_size, of_b = (view_tokens(p, b) - 1) / g->cfg.block_size;
	most = of_a < most ? of_a : most;
	most = of_b < most ? of_b : most;
	while (n < most && content_next(&x) == content_next(&y))
		n++;
	return n;
}

int32_t view_prefix_hit(struct plan *p, int32_t req)
{
	struct engine *g = plan_engine(p);
	if (!engine_shares(g) || g->slot_of[req] >= 0 || memory_look_up(g, req))
		return 0;
	int32_t all = view_tokens(p, req);
	return g->hit.tokens < all ? g->hit.tokens : all - 1;
}

int32_t view_prefix_idle(struct plan *p, int32_t req)
{
	const struct engine *g = plan_engine(p);
	int32_t hit = view_prefix_hit(p, req), idle = hit ? g->hit.unreferenced : 0;
	/* Of a page of which it has a part only the rest is not taken off what it needs. */
	for (int32_t i = hit / g->cfg.block_size; idle && i < g->hit.pages; i++)
		idle -= g->pool.ref[g->hit_blocks[i]] == 0;
	return idle;
}
