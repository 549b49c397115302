/* Blocks with a reference count each; a block nobody holds is taken again when it has lain longest, and is a hit until
 * then (vLLM's prefix cache). Without a cache the same, but nobody looks. The tree is in model_radix.c. */
#include <stdlib.h>
#include <string.h>

#include "tests/support/model_world.h"

static bool tree(const struct world *w)
{
	return w->c->cfg.prefix_cache == PREFIX_RADIX;
}

static bool hash(const struct world *w)
{
	return w->c->cfg.prefix_cache == PREFIX_HASH;
}

void pages_start(struct world *w)
{
	size_t n = (size_t)w->total;
	w->refs = memset(model_alloc(NULL, n * sizeof *w->refs), 0, n * sizeof *w->refs);
	w->content = memset(model_alloc(NULL, n * sizeof *w->content), 0, n * sizeof *w->content);
	w->since = memset(model_alloc(NULL, n * sizeof *w->since), 0, n * sizeof *w->since);
	w->freed = memset(model_alloc(NULL, n * sizeof *w->freed), 0, n * sizeof *w->freed);
	for (int32_t b = 0; b < w->total; b++)
		w->freed[b] = w->stamps++;
	nodes_start(w);
}

void pages_stop(struct world *w)
{
	free(w->refs);
	free(w->content);
	free(w->since);
	free(w->freed);
	nodes_stop(w);
}

uint64_t page_key(const struct world *w, int32_t req, int32_t page)
{
	uint64_t h = 1;
	for (int32_t i = 0; i < (page + 1) * w->c->cfg.block_size; i++) {
		h = (h ^ w->q[req].tokens[i]) * UINT64_C(0xff51afd7ed558ccd);
		h ^= h >> 32;
	}
	return h ? h : 1;
}

int32_t pages_idle(const struct world *w)
{
	int32_t n = 0;
	if (tree(w))
		return nodes_idle(w);
	for (int32_t b = 0; b < w->total; b++)
		n += w->refs[b] == 0;
	return n;
}

/* The one remembered first, when there are several. */
static int32_t block_with(const struct world *w, uint64_t key)
{
	int32_t best = -1;
	for (int32_t b = 0; b < w->total; b++)
		if (w->content[b] == key && (best < 0 || w->since[b] < w->since[best]))
			best = b;
	return best;
}

int32_t pages_hit(const struct world *w, int32_t req, int32_t *idle)
{
	int32_t most = (w->q[req].prompt + w->q[req].outputs - 1) / w->c->cfg.block_size, n = 0, b;
	*idle = 0;
	if (tree(w))
		return nodes_hit(w, req, most, idle);
	for (; hash(w) && n < most && (b = block_with(w, page_key(w, req, n))) >= 0; n++)
		*idle += w->refs[b] == 0;
	return n;
}

static void hold(struct world *w, int32_t req, int32_t block)
{
	struct mreq *q = &w->q[req];
	q->blocks = model_alloc(q->blocks, (size_t)(q->n_blocks + 1) * sizeof *q->blocks);
	q->blocks[q->n_blocks++] = block;
	w->refs[block]++;
}

void pages_share(struct world *w, int32_t req, int32_t pages)
{
	if (tree(w))
		nodes_share(w, req, pages);
	for (int32_t p = 0; p < pages && hash(w); p++)
		hold(w, req, block_with(w, page_key(w, req, p)));
}

static int32_t longest_free(const struct world *w)
{
	int32_t best = -1;
	for (int32_t b = 0; b < w->total; b++)
		if (!w->refs[b] && (best < 0 || w->freed[b] < w->freed[best]))
			best = b;
	return best;
}

bool pages_take(struct world *w, int32_t req, int32_t tokens)
{
	struct mreq *q = &w->q[req];
	int32_t has = tree(w) ? q->in_tree + q->own : q->n_blocks, more = world_pages(w, tokens) - has;
	if (more > pages_idle(w))
		return false;
	if (tree(w) && more > 0) {
		nodes_make_room(w, more);
		q->own += more;
	}
	for (; more > 0 && !tree(w); more--) {
		int32_t b = longest_free(w);
		w->content[b] = 0;
		hold(w, req, b);
	}
	return true;
}

void pages_drop(struct world *w, int32_t req)
{
	struct mreq *q = &w->q[req];
	if (tree(w))
		nodes_drop(w, req);
	while (q->n_blocks > 0) {
		int32_t b = q->blocks[--q->n_blocks];
		if (--w->refs[b] == 0)
			w->freed[b] = w->stamps++;
	}
}

static int32_t full_pages(const struct world *w, int32_t req, int32_t tokens)
{
	return (tokens < w->q[req].keep ? tokens : w->q[req].keep) / w->c->cfg.block_size;
}

static void remember(struct world *w, int32_t req, int32_t tokens)
{
	struct mreq *q = &w->q[req];
	int32_t full = full_pages(w, req, tokens);
	if (tree(w) && full > q->in_tree)
		nodes_insert(w, req, full);
	for (; hash(w) && q->remembered < full; q->remembered++) {
		w->content[q->blocks[q->remembered]] = page_key(w, req, q->remembered);
		w->since[q->blocks[q->remembered]] = w->stamps++;
	}
}

void pages_scheduled(struct world *w, int32_t req, int32_t tokens)
{
	if (hash(w) && w->c->cfg.hit_visible == HIT_VISIBLE_ALLOC)
		remember(w, req, tokens);
}

void pages_unscheduled(struct world *w, int32_t req, int32_t tokens)
{
	struct mreq *q = &w->q[req];
	while (hash(w) && q->remembered > tokens / w->c->cfg.block_size)
		w->content[q->blocks[--q->remembered]] = 0;
}

void pages_written(struct world *w, int32_t req, int32_t tokens)
{
	if (tree(w) || w->c->cfg.hit_visible == HIT_VISIBLE_COMMIT)
		remember(w, req, tokens);
}

/* A tree takes in what was generated when its request ends. */
void pages_ends(struct world *w, int32_t req, int32_t tokens)
{
	if (tree(w) && !w->c->cfg.cache_prompts_only && tokens / w->c->cfg.block_size > w->q[req].in_tree)
		nodes_insert(w, req, tokens / w->c->cfg.block_size);
}
