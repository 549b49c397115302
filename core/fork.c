/* Forks (core/workload.h): a request that begins with another's tokens takes over the blocks that hold them, the last one partly
 * filled as it may be, and whoever first writes into a block that others hold gets a copy of it.
 *
 * A family is a parent and its forks, theirs, and so on. What two of them have in common is told by where each forked: nobody
 * compares tokens. A request that is admitted, for the first time or again, looks for the longest beginning of its own that
 *   its own forks hold,
 *   its parent holds or another fork of its parent, and so on up,
 * the nearest level first, at each the longest, of equals the one of lowest number. A member that has let go of its blocks
 * (finished, preempted, aborted) while forks of it are still to start leaves a note of them: a block serves as long as it was not
 * given to somebody else since (kv_pool.taken).
 *
 * The last token of a fork of nothing but a whole prompt has its KV already and is computed once more, for its logits: the row reads
 * what is there and writes nothing (slot.inherited). */
#include "core/engine_state.h"
#include "core/mem.h"

#include <string.h>

/* --- books -------------------------------------------------------------------------------------------------------- */

static int count_unborn(struct engine *g, struct err *e)
{
	struct forks *f = &g->forks;
	f->unborn = mem_zalloc((size_t)g->w->n, sizeof *f->unborn);
	f->left = mem_zalloc((size_t)g->w->n, sizeof *f->left);
	if (!f->unborn || !f->left)
		return err_no_memory(e, "forks");
	for (int64_t i = 0; i < g->w->n; i++)
		if (f->of[i] >= 0)
			f->unborn[f->of[i]]++;
	return ERR_NONE;
}

int fork_init(struct engine *g, struct err *e)
{
	struct forks *f = &g->forks;
	f->front = -1;
	if (workload_fork_parents(g->w, &f->of, e))
		return ERR_MEMORY;
	if (!f->of)
		return ERR_NONE;
	f->share = !g->cfg.kv_off && !g->contiguous && g->cfg.prefix_cache != PREFIX_RADIX;
	if (!f->share)
		return ERR_NONE;
	if (g->drops)
		return err_set(e, ERR_INPUT,
			       "requests of this workload fork off each other, and a fork needs every page of its "
			       "parent: %s drops "
			       "some; take --kv-retention full, or a trace without forks",
			       g->policy->traits.drops ? g->policy->desc->name : "--kv-retention");
	if (g->cfg.swap_blocks || g->cfg.offload_host_blocks || g->cfg.offload_disk_blocks)
		return err_set(e, ERR_INPUT,
			       "requests of this workload fork off each other and share pages, which do not go behind "
			       "the device: leave "
			       "out %s, or take a trace without forks",
			       g->cfg.swap_blocks ? "--swap-space" : "--kv-offload-host and --kv-offload-disk");
	size_t n = (size_t)g->cfg.num_blocks;
	f->tail_count = mem_zalloc(n, sizeof *f->tail_count);
	f->tail_tokens = mem_zalloc(n, sizeof *f->tail_tokens);
	if (!f->tail_count || !f->tail_tokens)
		return err_no_memory(e, "forks");
	return count_unborn(g, e);
}

static void forget(struct forks *f, int32_t req)
{
	if (f->left[req]) {
		mem_free(f->left[req]->ids);
		mem_free(f->left[req]->taken);
	}
	mem_free(f->left[req]);
	f->left[req] = NULL;
}

void fork_free(struct engine *g)
{
	struct forks *f = &g->forks;
	for (int64_t i = 0; f->left && i < g->w->n; i++)
		forget(f, (int32_t)i);
	mem_free(f->of);
	mem_free(f->unborn);
	mem_free(f->left);
	mem_free(f->tail_count);
	mem_free(f->tail_tokens);
}

void fork_not_unborn(struct engine *g, int32_t req)
{
	struct forks *f = &g->forks;
	if (f->unborn && f->of[req] >= 0 && --f->unborn[f->of[req]] == 0)
		forget(f, f->of[req]);
}

static int bequeath(struct engine *g, const struct slot *s)
{
	struct forks *f = &g->forks;
	if (!f->unborn || !f->unborn[s->req] || s->pad)
		return ERR_NONE;
	forget(f, s->req);
	int32_t tokens = slot_computed(g, s);
	if (tokens > s->most_bequeathed)
		tokens = s->most_bequeathed;
	int32_t n = kv_blocks_for(tokens, g->cfg.block_size);
	if (n < 1)
		return ERR_NONE;
	struct bequest *b = f->left[s->req] = mem_zalloc(1, sizeof *b);
	if (!b)
		return err_no_memory(&g->fault, "what forks may take over");
	b->ids = mem_alloc((size_t)n * sizeof *b->ids);
	b->taken = mem_alloc((size_t)n * sizeof *b->taken);
	if (!b->ids || !b->taken)
		return err_no_memory(&g->fault, "what forks may take over");
	const int32_t *ids = slot_table(g, s)->ids;
	for (; b->n < n; b->n++) {
		b->ids[b->n] = ids[b->n];
		b->taken[b->n] = g->pool.taken[ids[b->n]];
	}
	b->tokens = tokens;
	return ERR_NONE;
}

/* --- what a family holds ------------------------------------------------------------------------------------------ */

struct find {
	int32_t req, tokens; /* -1, 0 */
};

/* Tokens whose KV is in its blocks before the step that is being planned. */
static int32_t written(const struct engine *g, const struct slot *s)
{
	int32_t computed = slot_computed(g, s);
	if (s->sched_step != g->begun || (s->part == PART_COHORT && !g->flat))
		return computed;
	return computed - engine_step((struct engine *)(uintptr_t)g)->rows[s->sched_row].tokens;
}

static int32_t left_over(const struct engine *g, const struct bequest *b)
{
	int32_t i = 0;
	while (i < b->n && g->pool.taken[b->ids[i]] == b->taken[i] && kv_can_share(&g->pool, b->ids[i]))
		i++;
	int64_t tokens = (int64_t)i * g->cfg.block_size;
	return tokens < b->tokens ? (int32_t)tokens : b->tokens;
}

static void consider(const struct engine *g, int32_t req, int32_t most, struct find *best)
{
	int32_t tokens = 0;
	if (g->slot_of[req] >= 0) {
		const struct slot *s = &g->slots[g->slot_of[req]];
		tokens = s->pad ? 0 : written(g, s);
	} else if (g->forks.left[req]) {
		tokens = left_over(g, g->forks.left[req]);
	}
	if (tokens > most)
		tokens = most;
	if (tokens > best->tokens || (tokens && tokens == best->tokens && req < best->req))
		*best = (struct find){req, tokens};
}

/* The forks of one request, but for `except`. */
static void consider_forks(const struct engine *g, int32_t parent, int32_t except, int32_t most, struct find *best)
{
	const struct workload *w = g->w;
	for (int64_t k = w->child_at[parent]; k < w->child_at[parent + 1]; k++) {
		int32_t c = w->child[k], common = spec_fork_tokens(&w->specs[c]);
		if (c != except && g->forks.of[c] == parent)
			consider(g, c, common < most ? common : most, best);
	}
}

static struct find longest(const struct engine *g, int32_t req)
{
	struct find best = {-1, 0};
	int32_t most = INT32_MAX;
	consider_forks(g, req, -1, most, &best);
	for (int32_t child = req, parent; (parent = g->forks.of[child]) >= 0; child = parent) {
		int32_t common = spec_fork_tokens(&g->w->specs[child]);
		struct find here = {-1, 0};
		most = common < most ? common : most;
		if (best.tokens >= most)
			break;
		consider(g, parent, most, &here);
		consider_forks(g, parent, child, most, &here);
		if (here.tokens > best.tokens)
			best = here;
	}
	return best;
}

int fork_look_up(struct engine *g, int32_t req)
{
	struct find found = longest(g, req);
	if (found.tokens <= g->hit.tokens)
		return ERR_NONE;
	int32_t slot = g->slot_of[found.req], n = kv_blocks_for(found.tokens, g->cfg.block_size);
	const int32_t *ids = slot >= 0 ? g->tables[slot].ids : g->forks.left[found.req]->ids;
	if (mem_grow((void **)&g->hit_blocks, &g->cap_hit_blocks, n, sizeof *g->hit_blocks))
		return err_no_memory(&g->fault, "what forks take over");
	memcpy(g->hit_blocks, ids, (size_t)n * sizeof *ids);
	g->hit.unreferenced = 0;
	for (int32_t i = 0; i < n; i++)
		g->hit.unreferenced += g->pool.ref[ids[i]] == 0;
	g->hit.pages = n;
	g->hit.tokens = found.tokens;
	return ERR_NONE;
}

/* --- writing ------------------------------------------------------------------------------------------------------ */

static void set_tail(struct engine *g, struct slot *s, bool shared)
{
	g->forks.n_tails += shared - s->tail_shared;
	s->tail_shared = shared;
}

/* The page its next token that is written goes to, when it has that page and something is in it; else -1. */
static int32_t tail_page(const struct engine *g, const struct slot *s)
{
	int32_t at = slot_computed(g, s) + s->pad;
	if (at < s->inherited)
		at = s->inherited;
	int32_t page = at / g->cfg.block_size;
	return at % g->cfg.block_size && page < slot_table(g, s)->n ? page : -1;
}

/* Whoever goes on in the last block that a new one has taken over has to look before it writes. */
void fork_born(struct engine *g, struct slot *s)
{
	s->inherited = g->hit.tokens;
	g->stats.forks += g->hit.tokens > g->hit.cached;
	if (s->inherited % g->cfg.block_size == 0)
		return;
	int32_t block = g->hit_blocks[g->hit.pages - 1];
	set_tail(g, s, true);
	for (int32_t i = g->running.head; i >= 0 && g->pool.ref[block] > 1; i = g->slots[i].run_next) {
		int32_t page = tail_page(g, &g->slots[i]);
		if (page >= 0 && g->tables[i].ids[page] == block)
			set_tail(g, &g->slots[i], true);
	}
}

int32_t fork_copies(struct engine *g, const struct slot *s)
{
	int32_t b = slot_table(g, s)->ids[tail_page(g, s)];
	return ++g->forks.tail_count[b] < g->pool.ref[b];
}

void fork_counted(struct engine *g)
{
	for (int32_t i = g->running.head; i >= 0; i = g->slots[i].run_next) {
		int32_t page = g->slots[i].tail_shared ? tail_page(g, &g->slots[i]) : -1;
		if (page >= 0)
			g->forks.tail_count[g->tables[i].ids[page]] = 0;
	}
}

bool fork_must_copy(const struct engine *g, const struct slot *s, int32_t tokens)
{
	if (tokens <= s->inherited - slot_computed(g, s))
		return false;
	int32_t page = tail_page(g, s);
	return page >= 0 && g->pool.ref[slot_table(g, s)->ids[page]] > 1;
}

int fork_write(struct engine *g, struct slot *s, int32_t tokens)
{
	struct step *st = engine_step(g);
	if (tokens <= s->inherited - slot_computed(g, s))
		return ERR_NONE;
	int32_t page = tail_page(g, s);
	if (fork_must_copy(g, s, tokens)) {
		if (mem_grow((void **)&st->copies, &st->cap_copies, st->batch.n_copies + 1, sizeof *st->copies))
			return err_no_memory(&g->fault, "page copies");
		int32_t was = memory_replace(g, s, page);
		st->copies[st->batch.n_copies++] = (struct page_copy){was, slot_table(g, s)->ids[page]};
	} else if (page >= 0) {
		/* More may have been in it once, of what another of the family computed. */
		int32_t b = slot_table(g, s)->ids[page];
		g->pool.taken[b]++;
		if (g->pool.content)
			kv_disown(&g->pool, b);
	}
	set_tail(g, s, false);
	return ERR_NONE;
}

void fork_refund(struct engine *g, struct slot *s)
{
	struct step *st = engine_step(g);
	const struct block_table *t = slot_table(g, s);
	for (int32_t i = st->batch.n_copies; i-- > 0;) {
		int32_t dst = st->copies[i].dst, page = t->n;
		while (page-- > 0 && t->ids[page] != dst)
			;
		/* Another that was let in after it may count on the copy. */
		if (page < 0 || g->pool.ref[dst] > 1)
			continue;
		memmove(&st->copies[i], &st->copies[i + 1], (size_t)(--st->batch.n_copies - i) * sizeof *st->copies);
		s->most_bequeathed = page * g->cfg.block_size;
	}
}

void fork_drop(struct engine *g, struct slot *s)
{
	if (!g->forks.share)
		return;
	/* Out of memory: in g->fault, which ends the run. */
	bequeath(g, s);
	set_tail(g, s, false);
}

/* A block with several holders counts whole for each but one (kv_pool.extra_refs). Of a tail that is too much: each holds as many of its
 * tokens as it has, and there are as many as the one with most has. Who is past the block has all of them, and is not
 * among the tails. */
int64_t fork_tail_slots(const struct engine *g)
{
	const struct forks *f = &g->forks;
	int32_t bs = g->cfg.block_size;
	int64_t sum = 0;
	for (int pass = 0; pass < 2; pass++)
		for (int32_t i = g->running.head; i >= 0; i = g->slots[i].run_next) {
			const struct slot *s = &g->slots[i];
			int32_t page = s->tail_shared ? tail_page(g, s) : -1;
			int32_t b = page < 0 ? -1 : g->tables[i].ids[page];
			if (b < 0 || g->pool.ref[b] < 2)
				continue;
			int32_t tokens = slot_computed(g, s) - page * bs;
			if (pass == 0) {
				sum += bs - tokens;
				f->tail_count[b]++;
				f->tail_tokens[b] = tokens > f->tail_tokens[b] ? tokens : f->tail_tokens[b];
			} else if (f->tail_count[b]) {
				sum -= f->tail_count[b] == g->pool.ref[b] ? bs - f->tail_tokens[b] : 0;
				f->tail_count[b] = f->tail_tokens[b] = 0;
			}
		}
	return sum;
}

/* --- when they start ---------------------------------------------------------------------------------------------- */

int32_t fork_next(const struct engine *g, int32_t req, int32_t computed)
{
	const struct workload *w = g->w;
	int32_t next = INT32_MAX;
	for (int64_t k = g->forks.of ? w->child_at[req] : 0; g->forks.of && k < w->child_at[req + 1]; k++) {
		int32_t at = w->specs[w->child[k]].fork_at;
		if (at > computed && at < next)
			next = at;
	}
	return next;
}

int fork_reached(struct engine *g, struct slot *s, int32_t computed, int64_t end_ns, struct err *e)
{
	const struct workload *w = g->w;
	if (computed < s->next_fork)
		return ERR_NONE;
	for (int64_t k = w->child_at[s->req]; k < w->child_at[s->req + 1]; k++) {
		int32_t at = w->specs[w->child[k]].fork_at;
		if (at > 0 && at <= computed && source_fork(g->src, s->req, w->child[k], end_ns, e))
			return ERR_MEMORY;
	}
	s->next_fork = fork_next(g, s->req, computed);
	return ERR_NONE;
}

/* Samples of one prompt were asked for together. */
int64_t fork_arrival(const struct engine *g, int32_t req, int64_t arrival_ns)
{
	const struct spec *s = &g->w->specs[req];
	int32_t parent = g->forks.of ? g->forks.of[req] : -1;
	bool with_it =
		parent >= 0 && s->fork_at > 0 && !s->arrival_ns && s->fork_at <= g->w->specs[parent].prompt_tokens;
	return with_it ? g->requests[parent].arrival_ns : arrival_ns;
}
