/* TensorRT-LLM (POLICIES, trtllm): who may run by one of two promises, then who is computed by the token budget. */
#include <stdlib.h>

#include "tests/support/model_world.h"

/* Prompts that may have a piece in this step, in order. */
struct prompt {
	int32_t req;
	int32_t hit, idle; /* waiting: pages the cache has, and those of them that nobody holds */
	int32_t left, share; /* tokens */
};

struct step_plan {
	struct prompt *at;
	int32_t n;
};

static bool no_evict(const struct world *w)
{
	return model_value(w, "capacity_scheduler") == 0;
}

static int32_t chunk_unit(const struct world *w)
{
	int64_t unit = model_value(w, "chunk_unit");
	if (!unit)
		unit = w->c->cfg.block_size;
	return (int32_t)(unit > w->c->cfg.max_num_batched_tokens ? w->c->cfg.max_num_batched_tokens : unit);
}

static int32_t pages_held(const struct world *w, int32_t req)
{
	return w->q[req].n_blocks + w->q[req].in_tree + w->q[req].own;
}

/* Pages that the running ones may still ask for until each has its largest output. */
static int32_t promised_pages(const struct world *w)
{
	int32_t n = 0;
	for (int32_t i = 0; i < w->n_running; i++) {
		const struct mreq *q = &w->q[w->running[i]];
		n += world_pages(w, (int64_t)q->prompt + q->most) - pages_held(w, w->running[i]);
	}
	return n;
}

/* One token for each that decodes; when memory runs out the last started is paused. Whether anybody was. */
static bool decode_all(struct world *w)
{
	bool paused = false;
	for (int32_t i = 0; i < w->n_running;) {
		int32_t req = w->running[i], victim;
		struct mreq *q = &w->q[req];
		if (!q->decoding || !world_need(w, req)) {
			i++;
			continue;
		}
		if (pages_take(w, req, q->computed + 1)) {
			world_compute(w, req, 1);
			i++;
			continue;
		}
		victim = w->running[w->n_running - 1];
		world_preempt(w, victim, false);
		paused = true;
		if (victim == req)
			break;
	}
	return paused;
}

/* Is the first page that the cache lacks of its prompt being computed for another? */
static bool gains_by_waiting(const struct world *w, const struct step_plan *s, int32_t req, int32_t hit)
{
	int32_t bs = w->c->cfg.block_size;
	if (hit >= (world_tokens(w, req) - 1) / bs)
		return false;
	for (int32_t i = 0; i < s->n; i++)
		if (world_common(w, req, s->at[i].req) / bs > hit)
			return true;
	return false;
}

static int32_t pages_to_be_let_in(const struct world *w, int32_t req)
{
	return no_evict(w) ? world_pages(w, (int64_t)w->q[req].prompt + w->q[req].most)
			   : world_pages(w, world_tokens(w, req));
}

/* Pages of its hit that nobody holds and none of those chosen before it is about to. */
static int32_t idle_but_for(const struct world *w, const struct step_plan *s, const struct prompt *p)
{
	int32_t held = p->hit - p->idle; /* who holds a page holds those before it */
	for (int32_t i = 0; i < s->n; i++)
		for (int32_t k = held; k < p->hit && k < s->at[i].hit; k++)
			if (page_key(w, p->req, k) == page_key(w, s->at[i].req, k))
				held = k + 1;
	return p->hit - held;
}

/* Waiting ones in order, as long as the next fits into what is left. */
static void choose_waiting(const struct world *w, struct step_plan *s, int32_t left)
{
	int32_t places = w->c->cfg.max_num_seqs - w->n_running;
	for (int32_t i = 0; i < w->n_waiting && places > 0; i++) {
		struct prompt p = {.req = w->waiting[i]};
		p.hit = pages_hit(w, p.req, &p.idle);
		p.left = world_tokens(w, p.req) - p.hit * w->c->cfg.block_size;
		if (w->c->cfg.prefix_cache != PREFIX_OFF && gains_by_waiting(w, s, p.req, p.hit))
			continue;
		left -= pages_to_be_let_in(w, p.req) - p.hit + idle_but_for(w, s, &p);
		if (left < 0)
			return;
		s->at[s->n++] = p;
		places--;
	}
}

static void share_out(const struct world *w, struct step_plan *s, int32_t budget)
{
	int32_t unit = chunk_unit(w);
	bool whole = !model_value(w, "enable_chunked_context"), any = true;
	bool equal = !whole && model_value(w, "context_chunking") == 1;
	for (int32_t i = 0; i < s->n && !equal; i++) {
		struct prompt *p = &s->at[i];
		if (whole && p->left > budget)
			return;
		p->share = p->left <= budget ? p->left : budget / unit * unit;
		budget -= p->share;
	}
	while (equal && any) {
		any = false;
		for (int32_t i = 0; i < s->n; i++) {
			struct prompt *p = &s->at[i];
			int32_t more = p->left - p->share < unit ? p->left - p->share : unit;
			if (!more || more > budget)
				continue;
			p->share += more;
			budget -= more;
			any = true;
		}
	}
}

/* Lets in one that was chosen: what it had in the cache may have gone to those before it. False: it no longer fits, and nor
 * does anyone after it. *kept: pages that others will ask for. */
static bool let_in(struct world *w, struct prompt *p, int32_t *kept, int32_t budget)
{
	int32_t idle, all = pages_to_be_let_in(w, p->req), whole = world_pages(w, world_tokens(w, p->req));
	p->hit = pages_hit(w, p->req, &idle);
	p->left = world_tokens(w, p->req) - p->hit * w->c->cfg.block_size;
	if (all - p->hit + idle + *kept > pages_idle(w))
		return false;
	if (!model_value(w, "enable_chunked_context")) {
		p->share = p->left;
		if (p->share > budget)
			return false;
	}
	world_admit(w, p->req, p->hit);
	pages_take(w, p->req, world_tokens(w, p->req)); /* the whole prompt's */
	*kept += all - whole;
	return true;
}

void plan_trtllm(struct world *w)
{
	struct step_plan s = {.at = model_alloc(NULL, (size_t)(w->n + 1) * sizeof *s.at)};
	int32_t budget = w->c->cfg.max_num_batched_tokens;
	bool paused = decode_all(w), fits = true;
	int32_t kept = no_evict(w) ? promised_pages(w) : 0;
	budget -= w->plan->n;
	for (int32_t i = 0; i < w->n_running; i++)
		if (!w->q[w->running[i]].decoding)
			s.at[s.n++] = (struct prompt){.req = w->running[i], .left = world_need(w, w->running[i])};
	if (!paused)
		choose_waiting(w, &s, pages_idle(w) - kept);
	share_out(w, &s, budget);
	for (int32_t i = 0; i < s.n && fits; i++) {
		struct prompt *p = &s.at[i];
		if (!p->share && !w->q[p->req].running)
			kept += pages_to_be_let_in(w, p->req);
		if (p->share && !w->q[p->req].running)
			fits = let_in(w, p, &kept, budget);
		if (p->share && fits) {
			world_compute(w, p->req, p->share);
			budget -= p->share;
		}
	}
	free(s.at);
}
