/* Letting a waiting request in: what of its prompt is there already, what it computes first, whether that fits. */
#include "core/engine_state.h"
#include "core/mem.h"
#include "core/order_fair.h"

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
		return action_bad(g, req, "acted outside of plan()");
	if (req < 0 || req >= g->w->n)
		return action_bad(g, req, "admitted a request that does not exist");
	const struct request *r = &g->requests[req];
	if ((r->state != REQUEST_WAITING && r->state != REQUEST_PREEMPTED) || tiers_swapped(&g->tiers, req))
		return action_bad(g, req, "admitted a request that is not waiting");
	if (o->tokens < 1 || o->pad < 0 || o->keep_free < 0 || o->reserve < 0)
		return action_bad(g, req, "admitted a request with fewer than 1 token or a negative option");
	if (o->pad && g->cfg.prefix_caching)
		return action_bad(g, req, "padded a prompt under prefix caching");
	if (g->cfg.kv_off && !o->whole)
		return action_bad(g, req, "may schedule a part of a prompt without a KV cache");
	if (o->pad && !g->policy->traits.pads)
		return action_bad(g, req, "padded a prompt without having said that it would");
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
	return slot_schedule_piece(g, s, tokens, o->pad);
}
