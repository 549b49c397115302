/* What a policy may do. Each action is checked, applied at once, and answered with a status; a forbidden one ends the run
 * with a sentence that names the step, the policy and the request. */
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

/* Schedules a piece of a prompt whose memory is there. `pad` is computed beside it in this step. */
static enum plan_status schedule_chunk(struct engine *g, struct slot *s, int32_t tokens, int32_t pad)
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
	return s->part == PART_COHORT ? schedule_decode(g, s) : schedule_chunk(g, s, tokens, 0);
}

/* --- admission -------------------------------------------------------------------------------------------------- */

int32_t view_max_tokens(const struct plan *p, int32_t req)
{
	return queue_most_outputs(&plan_engine(p)->waiting, req);
}

/* Pages of its prompt that come from behind the device. */
static int32_t cold_pages(const struct engine *g)
{
	return g->cfg.prefix_caching ? g->hit.cold : 0;
}

/* Tokens that need not be computed: the last one always is, something has to be sampled from. */
static int32_t hit_tokens(const struct engine *g, int32_t req)
{
	int32_t all = g->w->specs[req].prompt_tokens + g->requests[req].outputs;
	if (!engine_shares(g))
		return 0;
	int64_t there = g->hit.tokens + (int64_t)cold_pages(g) * g->cfg.block_size;
	return there < all ? (int32_t)there : all - 1;
}

/* Tokens it will compute in this step: what the prefix hit leaves, at most what the policy allows. */
static enum plan_status admit_size(const struct engine *g, int32_t req, const struct admit_options *o, int32_t *tokens)
{
	int64_t left = (int64_t)g->w->specs[req].prompt_tokens + g->requests[req].outputs - hit_tokens(g, req);
	if (left > o->tokens && o->whole)
		return PLAN_NO_BUDGET;
	*tokens = left < o->tokens ? (int32_t)left : o->tokens;
	return (int64_t)*tokens + o->pad > g->budget ? PLAN_NO_BUDGET : PLAN_OK;
}

/* Blocks that must be free to admit it, and how many of them are new ones (the rest: unreferenced hits). */
static int32_t blocks_to_admit(const struct engine *g, int32_t req, const struct admit_options *o, int32_t tokens,
			       int32_t *fresh)
{
	int32_t bs = g->cfg.block_size, pages = 0, unreferenced = 0, copy = 0, cold = cold_pages(g);
	int64_t all = (int64_t)g->w->specs[req].prompt_tokens + g->requests[req].outputs;
	int64_t now = (int64_t)hit_tokens(g, req) + tokens;
	if (engine_shares(g)) {
		pages = g->hit.pages;
		unreferenced = g->hit.unreferenced;
		/* A last block that others hold is copied by the piece that writes into it. */
		int64_t writes = o->whole_must_fit ? all : now;
		copy = g->hit.tokens % bs && writes > g->hit.tokens && g->pool.ref[g->hit_blocks[pages - 1]] > 0;
	}
	if (now < o->reserve)
		now = o->reserve;
	int32_t must = *fresh = kv_blocks_for(now + o->pad, bs) - pages;
	if (cold && g->cfg.kv_transfer) { /* it computes nothing yet */
		int64_t comes = (int64_t)(pages + cold) * bs;
		*fresh = kv_blocks_for(comes > o->reserve ? comes : o->reserve, bs) - pages;
	}
	if (o->whole_must_fit && kv_blocks_for(all + o->pad, bs) - pages > must)
		must = kv_blocks_for(all + o->pad, bs) - pages;
	return must + copy + unreferenced;
}

static bool fits_contiguous(struct engine *g, int32_t blocks, int32_t keep_free)
{
	if ((int64_t)blocks + keep_free > g->contig.n_free)
		return false;
	if (kv_contig_largest(&g->contig) >= blocks)
		return true;
	g->contig_misfit = true;
	return false;
}

/* A head that was turned away needs no fewer blocks until something is added to the cache: no need to look again. */
static bool still_blocked(const struct engine *g, int32_t req, const struct admit_options *o)
{
	return g->hit.blocked_req == req && g->hit.blocked_growth == g->pool.growth &&
	       o->whole_must_fit == g->hit.blocked_whole && (o->whole_must_fit || o->tokens >= g->hit.blocked_tokens) &&
	       o->reserve >= g->hit.blocked_reserve && (int64_t)g->hit.blocked_need + o->keep_free > g->pool.n_free;
}

/* Size and memory together: *tokens to compute, *fresh blocks to take. */
static enum plan_status admit_fits(struct engine *g, int32_t req, const struct admit_options *o, int32_t *tokens,
				   int32_t *fresh)
{
	*fresh = 0;
	if (engine_shares(g)) {
		/* What lies in other tiers may be dropped there, and then less is taken. */
		if (!g->forks.share && !g->tiers.offload && still_blocked(g, req, o))
			return PLAN_NO_SPACE;
		if (memory_look_up(g, req))
			return PLAN_BAD;
		if (o->pad) { /* its tokens stand at other places than those of its family */
			g->hit.req = -1;
			g->hit.pages = g->hit.unreferenced = g->hit.tokens = g->hit.cached = 0;
		}
	}
	enum plan_status status = admit_size(g, req, o, tokens);
	if (status != PLAN_OK || g->cfg.kv_off)
		return status;
	int32_t need = blocks_to_admit(g, req, o, *tokens, fresh);
	if (g->contiguous)
		return fits_contiguous(g, *fresh, o->keep_free) ? PLAN_OK : PLAN_NO_SPACE;
	if ((int64_t)need + o->keep_free <= g->pool.n_free)
		return PLAN_OK;
	g->hit.blocked_req = req;
	g->hit.blocked_growth = g->pool.growth;
	if (g->cfg.prefix_caching && kv_watch(&g->pool, g->hit_blocks, g->hit.pages, g->hit.missed, &g->fault))
		return PLAN_BAD;
	g->hit.blocked_whole = o->whole_must_fit;
	g->hit.blocked_tokens = *tokens;
	g->hit.blocked_reserve = o->reserve;
	/* A piece may need less once the cache has dropped unreferenced hits: only what is new is sure. */
	g->hit.blocked_need = o->whole_must_fit ? need : *fresh;
	return PLAN_NO_SPACE;
}

static enum plan_status admit_check(struct engine *g, int32_t req, const struct admit_options *o)
{
	if (!g->planning)
		return bad(g, req, "acted outside of plan()");
	if (req < 0 || req >= g->w->n)
		return bad(g, req, "admitted a request that does not exist");
	const struct request *r = &g->requests[req];
	if ((r->state != REQUEST_WAITING && r->state != REQUEST_PREEMPTED) || tiers_swapped(&g->tiers, req))
		return bad(g, req, "admitted a request that is not waiting");
	if (o->tokens < 1 || o->pad < 0 || o->keep_free < 0 || o->reserve < 0)
		return bad(g, req, "admitted a request with fewer than 1 token or a negative option");
	if (o->pad && g->cfg.prefix_caching)
		return bad(g, req, "padded a prompt under prefix caching");
	if (g->cfg.kv_off && !o->whole)
		return bad(g, req, "may schedule a part of a prompt without a KV cache");
	if (o->pad && !g->policy->traits.pads)
		return bad(g, req, "padded a prompt without having said that it would");
	return g->n_running >= g->cfg.max_num_seqs ? PLAN_NO_PLACE : PLAN_OK;
}

void slot_begin(struct engine *g, struct slot *s)
{
	const struct spec *spec = &g->w->specs[s->req];
	s->prompt = spec->prompt_tokens;
	s->max_out = queue_most_outputs(&g->waiting, s->req);
	s->bound = spec->output_tokens < s->max_out ? spec->output_tokens : s->max_out;
	s->next_fork = g->forks.of ? fork_next(g, s->req, 0) : INT32_MAX;
}

void slot_resume_times(struct engine *g, struct slot *s)
{
	struct request *r = &g->requests[s->req];
	int64_t away = g->now_ns - g->preempted_at[s->req];
	r->preempted_ns += away;
	if (r->first_token_ns < 0)
		r->preempted_in_prefill_ns += away;
}

/* The request's books as it becomes a running one. */
static void admit_accounts(struct engine *g, struct slot *s, int32_t hit)
{
	struct request *r = &g->requests[s->req];
	bool again = r->state == REQUEST_PREEMPTED;
	int32_t cached = g->hit.cached + cold_pages(g) * g->cfg.block_size;
	slot_begin(g, s);
	s->outputs = s->emitted = r->outputs;
	s->computed = hit;
	if (again) {
		slot_resume_times(g, s);
		s->peak = g->peak[s->req];
	} else {
		r->first_sched_ns = g->now_ns;
		r->cached_tokens = hit;
		if (g->waiting.fair)
			fair_charge(g->waiting.fair, s->req, s->prompt - hit, 0);
		if (g->cfg.prefix_caching) {
			g->stats.prefix_lookups++;
			g->stats.prefix_hits += cached > 0;
			g->stats.prefix_lookups_tokens += s->prompt;
			g->stats.prefix_lookups_blocks += kv_blocks_for(s->prompt, g->cfg.block_size);
			g->stats.prefix_hit_tokens += cached;
		}
		if (g->forks.share)
			g->stats.forked_tokens += hit - cached;
		fork_not_unborn(g, s->req);
	}
	r->state = REQUEST_RUNNING;
	engine_event(g, EVENT_ADMIT, g->now_ns, s->req, hit, again);
	g->hold.resident += hit + s->pad;
	g->hold.pad += s->pad;
	g->hold.final_kv += slot_final_kv(s);
}

/* Its block table: what the prefix cache or its family has, then new blocks for what it computes now. */
static int admit_memory(struct engine *g, struct slot *s, int32_t tokens, int32_t fresh)
{
	if (engine_shares(g) && memory_share(g, s, g->hit_blocks, g->hit.pages))
		return ERR_MEMORY;
	if (g->cfg.prefix_caching) {
		content_begin_salted(slot_content(g, s), g->w, s->req, g->cfg.block_size, g->cfg.cache_salt);
		s->known_pages = g->hit.tokens / g->cfg.block_size; /* the last one may be full of others' */
		content_skip(slot_content(g, s), s->known_pages);
		g->pool.cache->used(&g->pool, g->hit_blocks, g->hit.pages);
		s->keep_tokens = g->cfg.cache_prompts_only ? s->prompt : INT32_MAX;
		if (g->pool.cache->tree) /* what it computes before it decodes */
			s->keep_tokens = s->prompt + (g->cfg.cache_prompts_only ? 0 : s->outputs);
	}
	if (g->forks.share) {
		fork_born(g, s);
		if (s->tail_shared && fork_write(g, s, tokens))
			return ERR_MEMORY;
	}
	int32_t cold = cold_pages(g);
	const struct content_walk walk = *slot_content(g, s);
	if (cold) {
		s->known_pages += cold;
		content_skip(slot_content(g, s), cold);
		offload_pin(g, walk, cold, true);
	}
	if (fresh > 0 && memory_append(g, s, fresh))
		return ERR_MEMORY;
	return cold ? offload_load(g, s, walk, g->hit.pages, cold) : ERR_NONE;
}

enum plan_status plan_admit(struct plan *p, int32_t req, const struct admit_options *o)
{
	struct engine *g = plan_engine(p);
	int32_t fresh, tokens;
	enum plan_status status = admit_check(g, req, o);
	if (status == PLAN_OK)
		status = admit_fits(g, req, o, &tokens, &fresh);
	if (status != PLAN_OK) {
		g->waits.refused = status;
		return status;
	}
	int32_t id = slot_take(g, req);
	if (id < 0)
		return PLAN_BAD;
	struct slot *s = &g->slots[id];
	int32_t cold = cold_pages(g);
	queue_remove(&g->waiting, req);
	waits_end(g, req);
	s->pad = o->pad;
	g->reserves_ahead |= o->reserve > 0 && !g->contiguous;
	bool again = g->requests[req].state == REQUEST_PREEMPTED;
	admit_accounts(g, s, hit_tokens(g, req));
	if (!again)
		g->stats.cold_hit_tokens += (int64_t)cold * g->cfg.block_size;
	if (admit_memory(g, s, tokens, fresh))
		return PLAN_BAD;
	if (engine_shares(g) && g->hit.pages && g->cfg.kv_retention != RETAIN_FULL)
		retention_expire_slot(g, s);
	engine_step(g)->acts++;
	if (s->part == PART_LOADING) /* it runs when its prefix is there */
		return PLAN_OK;
	return schedule_chunk(g, s, tokens, o->pad);
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
	return s->part == PART_COHORT ? schedule_decode(g, s) : schedule_chunk(g, s, tokens, pad);
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

/* --- preemption ------------------------------------------------------------------------------------------------- */

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
		return bad(g, req, "acted outside of plan()");
	if (!s || s->part == PART_HELD || s->part == PART_LOADING)
		return bad(g, req, "preempted a request that is not running");
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
