/* SGLang (POLICIES, sglang; its schedule_policy.py and schedule_batch.py of 0.4): a batch of prompts if there is one, else a
 * decode. Where pages hold more than a token, as POLICIES and our policy's help have it. */
#include <stdlib.h>
#include <string.h>

#include "tests/support/model_world.h"

enum { CLIP = 4096, LPM_MOST = 128, IN_BATCH = 32 };
enum { ORDER_FCFS, ORDER_LPM, ORDER_DFS };

struct state {
	double start, ratio;
	bool full; /* someone did not fit: nobody is tried until someone leaves */
	int32_t was_running;
};

static struct state *state_of(struct world *w)
{
	if (!w->policy) {
		struct state *s = model_alloc(NULL, sizeof *s);
		double start = 0.7 * model_fraction(w, "schedule_conservativeness");
		start = start > 1 ? 1 : start;
		*s = (struct state){.start = start, .ratio = start};
		w->policy = s;
	}
	return w->policy;
}

static int32_t clipped_left(const struct world *w, int32_t req)
{
	int32_t left = w->q[req].most - w->q[req].promised;
	return left < CLIP ? left : CLIP;
}

/* --- decode --------------------------------------------------------------------------------------------------------- */

static bool decodes_fit(struct world *w)
{
	int32_t lacks = 0;
	for (int32_t i = 0; i < w->n_running; i++) {
		const struct mreq *q = &w->q[w->running[i]];
		int32_t has = q->in_tree + q->own + q->n_blocks;
		if (q->decoding && world_need(w, w->running[i]))
			lacks += world_pages(w, q->computed + 1) > has;
	}
	return lacks <= pages_idle(w);
}

/* Fewest outputs, then the longest prompt, then the last admitted. */
static int32_t to_retract(const struct world *w)
{
	int32_t worst = w->running[0];
	for (int32_t i = 1; i < w->n_running; i++) {
		const struct mreq *x = &w->q[w->running[i]], *y = &w->q[worst];
		if (x->promised < y->promised || (x->promised == y->promised && x->prompt >= y->prompt))
			worst = w->running[i];
	}
	return worst;
}

static bool retract_until_they_fit(struct world *w)
{
	struct state *s = state_of(w);
	bool any = false;
	while (!decodes_fit(w) && w->n_running > 1) {
		int64_t decoded = 0, most = 0;
		world_preempt(w, to_retract(w), true);
		for (int32_t i = 0; i < w->n_running; i++) {
			decoded += w->q[w->running[i]].promised;
			most += w->q[w->running[i]].most;
		}
		s->ratio = (double)(decoded + 20 * (int64_t)w->n_running) / (double)(most + 1);
		s->ratio = s->ratio > 1 ? 1 : s->ratio;
		s->full = false;
		any = true;
	}
	return any;
}

/* Returns how many rows. */
static int32_t decode_all(struct world *w)
{
	int32_t n = 0;
	bool fit = decodes_fit(w);
	for (int32_t i = 0; i < w->n_running && fit; i++) {
		struct mreq *q = &w->q[w->running[i]];
		if (!q->decoding || !world_need(w, w->running[i]))
			continue;
		pages_take(w, w->running[i], q->computed + 1);
		world_compute(w, w->running[i], 1);
		n++;
	}
	return n;
}

/* --- whose prompt first --------------------------------------------------------------------------------------------- */

struct candidate {
	int32_t req, hit; /* pages */
	bool put_back;
};

/* By the longest match; those that will find more once an earlier one has brought it come last. */
static void sort_by_match(const struct world *w, struct candidate *at, int32_t n)
{
	for (int32_t i = 0; i < n; i++)
		for (int32_t k = 0; k < i; k++)
			if (at[i].hit * w->c->cfg.block_size <= IN_BATCH &&
			    at[k].hit * w->c->cfg.block_size <= IN_BATCH && !at[k].put_back &&
			    world_common(w, at[i].req, at[k].req) / w->c->cfg.block_size * w->c->cfg.block_size >=
				    IN_BATCH)
				at[i].put_back = true;
	for (int32_t i = 0; i < n; i++)
		for (int32_t k = n - 1; k > i; k--) {
			struct candidate *a = &at[k - 1], *b = &at[k], c = *a;
			if (a->put_back != b->put_back ? a->put_back : !a->put_back && a->hit < b->hit) {
				*a = *b;
				*b = c;
			}
		}
}

/* at[0..n) have their first `depth` pages in common: heavier subtrees first, then those whose match ends here. */
static void sort_by_weight(const struct world *w, struct candidate *at, int32_t n, int32_t depth, struct candidate *out)
{
	bool done[LPM_MOST] = {false};
	struct candidate group[LPM_MOST];
	int32_t placed = 0;
	for (;;) {
		int32_t best = -1, best_size = 0, size = 0;
		for (int32_t i = 0; i < n; i++) {
			int32_t weight = 0;
			for (int32_t k = 0; k < n && at[i].hit > depth && !done[i]; k++)
				weight += at[k].hit > depth &&
					  page_key(w, at[k].req, depth) == page_key(w, at[i].req, depth);
			if (weight > best_size) {
				best = i;
				best_size = weight;
			}
		}
		if (best < 0)
			break;
		uint64_t key = page_key(w, at[best].req, depth);
		for (int32_t k = 0; k < n; k++)
			if (at[k].hit > depth && page_key(w, at[k].req, depth) == key) {
				group[size++] = at[k];
				done[k] = true;
			}
		sort_by_weight(w, group, size, depth + 1, out + placed);
		placed += size;
	}
	for (int32_t i = 0; i < n; i++)
		if (at[i].hit <= depth)
			out[placed++] = at[i];
}

/* The waiting ones as they are to be tried. */
static int32_t in_order(const struct world *w, struct candidate *out)
{
	int64_t order = model_value(w, "schedule_policy");
	int32_t n = w->n_waiting, idle;
	if (w->c->cfg.prefix_cache == PREFIX_OFF || n > LPM_MOST)
		order = ORDER_FCFS;
	for (int32_t i = 0; i < n; i++)
		out[i] = (struct candidate){w->waiting[i], pages_hit(w, w->waiting[i], &idle), false};
	if (order == ORDER_LPM)
		sort_by_match(w, out, n);
	if (order == ORDER_DFS) {
		struct candidate at[LPM_MOST];
		memcpy(at, out, (size_t)n * sizeof *at);
		sort_by_weight(w, at, n, 0, out);
	}
	return n;
}

/* --- prefill -------------------------------------------------------------------------------------------------------- */

struct adder {
	int64_t chunk; /* tokens left to compute */
	double offset; /* tokens of what is available and evictable that are spoken for */
};

static double memory_left(const struct world *w, const struct adder *a)
{
	return (double)((int64_t)pages_idle(w) * w->c->cfg.block_size) - a->offset;
}

/* The one that was cut: as much of it as goes. False: it found no memory. */
static bool continue_chunked(struct world *w, struct adder *a)
{
	for (int32_t i = 0; i < w->n_running && a->chunk > 0; i++) {
		int32_t req = w->running[i], need = world_need(w, req);
		int32_t n = need < a->chunk ? need : (int32_t)a->chunk, idle = pages_idle(w);
		int32_t left = n < need ? 0 : clipped_left(w, req);
		if (w->q[req].decoding || n == 0)
			continue;
		if (!pages_take(w, req, w->q[req].computed + n)) {
			world_preempt(w, req, true);
			state_of(w)->full = false;
			return false;
		}
		world_compute(w, req, n);
		a->chunk -= n;
		/* What it took is no longer idle: not to be counted twice. */
		a->offset += n + left - (idle - pages_idle(w)) * w->c->cfg.block_size;
	}
	return true;
}

/* False: that was the last one tried. */
static bool add_one(struct world *w, struct adder *a, int32_t req)
{
	struct state *s = state_of(w);
	int32_t bs = w->c->cfg.block_size, idle_hit, hit = pages_hit(w, req, &idle_hit);
	int64_t extend = world_tokens(w, req) - (int64_t)hit * bs, n = extend;
	bool alone = w->n_running == 0;
	if (a->chunk <= 0)
		return false;
	if (w->n_running >= w->c->cfg.max_num_seqs) {
		s->full = true;
		return false;
	}
	/* Locking its match makes that no longer evictable. */
	if (!alone && (double)(extend + clipped_left(w, req)) >= memory_left(w, a) - (double)idle_hit * bs) {
		s->full = true;
		return false;
	}
	if (world_pages(w, world_tokens(w, req)) - hit + idle_hit > pages_idle(w)) {
		s->full = true;
		return false;
	}
	if (n > a->chunk)
		n = a->chunk >= bs ? a->chunk / bs * bs : a->chunk;
	int32_t left = clipped_left(w, req), idle = pages_idle(w) - idle_hit;
	world_admit(w, req, hit);
	pages_take(w, req, w->q[req].computed + (int32_t)n);
	world_compute(w, req, (int32_t)n);
	a->offset += (double)world_pages(w, extend) * bs - (double)(idle - pages_idle(w)) * bs;
	a->offset += n < extend ? 0 : left;
	a->chunk = n < extend ? 0 : a->chunk - n;
	return true;
}

static void prefill(struct world *w)
{
	struct state *s = state_of(w);
	struct adder a = {.chunk = w->c->cfg.max_num_batched_tokens};
	int64_t chunk = model_value(w, "chunked_prefill_size"), left = 0;
	bool retracted = false;
	if (chunk && chunk < a.chunk)
		a.chunk = chunk;
	for (int32_t i = 0; i < w->n_running; i++)
		left += w->q[w->running[i]].decoding ? clipped_left(w, w->running[i]) : 0;
	a.offset = (double)left * s->ratio;
	if (model_value(w, "mixed_chunk")) {
		retracted = retract_until_they_fit(w);
		int32_t idle = pages_idle(w), decodes = decode_all(w);
		a.chunk -= decodes;
		a.offset += decodes - (idle - pages_idle(w)) * w->c->cfg.block_size;
	}
	if (!continue_chunked(w, &a) || retracted || s->full)
		return;
	struct candidate *at = model_alloc(NULL, (size_t)w->n_waiting * sizeof *at);
	int32_t n = in_order(w, at);
	for (int32_t i = 0; i < n && add_one(w, &a, at[i].req); i++)
		;
	free(at);
}

void plan_sglang(struct world *w)
{
	struct state *s = state_of(w);
	bool chunked = false;
	if (w->n_running < s->was_running || !w->n_running)
		s->full = false;
	if (!w->n_running && !w->n_waiting)
		s->ratio = s->start;
	for (int32_t i = 0; i < w->n_running; i++)
		chunked |= !w->q[w->running[i]].decoding;
	if (chunked || (!s->full && w->n_waiting))
		prefill(w);
	if (!w->plan->n && !retract_until_they_fit(w) && decode_all(w)) {
		s->ratio -= (s->start - 0.14 * s->start) / 600;
		s->ratio = s->ratio > 0.14 * s->start ? s->ratio : 0.14 * s->start;
	} else if (!w->plan->n) {
		decode_all(w);
	}
	s->was_running = w->n_running;
}
