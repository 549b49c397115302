/* Every book against every other, after every step with --check: what the lazy accounts say must be what a plain walk
 * over all running requests finds. */
#include <string.h>

#include "core/engine_state.h"
#include "core/mem.h"

#define EXPECT(ok, ...)                                                                                                \
	do {                                                                                                           \
		if (!(ok))                                                                                             \
			return err_set(e, ERR_INVARIANT, __VA_ARGS__);                                                 \
	} while (0)

static int check_pool(const struct engine *g, int32_t *held, struct err *e)
{
	const struct kv_pool *p = &g->pool;
	int64_t extra = 0;
	int32_t used = 0, free = 0, cached = 0;
	memset(held, 0, (size_t)p->num_blocks * sizeof *held);
	for (int32_t i = g->running.head; i >= 0; i = g->slots[i].run_next)
		for (int32_t k = 0; k < g->tables[i].n; k++)
			if (g->tables[i].ids[k] != KV_NO_BLOCK)
				held[g->tables[i].ids[k]]++;
	for (int32_t b = 0; b < p->num_blocks; b++) {
		EXPECT(p->ref ? held[b] == p->ref[b] : held[b] <= 1,
		       "block %d is in %d tables but counts %d references", b, held[b], p->ref ? p->ref[b] : 1);
		used += held[b] > 0;
		extra += held[b] > 1 ? held[b] - 1 : 0;
	}
	for (int64_t at = p->head; at < p->tail && !p->cache; at++, free++)
		EXPECT(held[p->ring[at & p->ring_mask]] == 0, "block %d is on the free list and held",
		       p->ring[at & p->ring_mask]);
	for (int32_t b = 0; b < p->num_blocks && p->cache; b++) {
		free += held[b] == 0;
		cached += held[b] == 0 && p->content[b];
	}
	const char *wrong = p->cache ? p->cache->check(p, held) : NULL;
	EXPECT(!wrong, "%s", wrong);
	EXPECT(free == p->n_free && used + free == p->num_blocks, "%d used + %d free blocks (counted %d) are not %d",
	       used, free, p->n_free, p->num_blocks);
	EXPECT(cached == p->n_cached, "%d free blocks hold content, %d counted", cached, p->n_cached);
	EXPECT(extra == p->extra_refs, "sharing saves %lld blocks, %lld counted", (long long)extra,
	       (long long)p->extra_refs);
	return ERR_NONE;
}

/* Who writes next into a block that others hold knows it, and nobody writes what was there when it came. */
static int check_forks(const struct engine *g, struct err *e)
{
	int32_t tails = 0, bs = g->cfg.block_size;
	for (int32_t i = g->running.head; i >= 0; i = g->slots[i].run_next) {
		const struct slot *s = &g->slots[i];
		char buf[24];
		int32_t at = slot_computed(g, s) + s->pad, page = at / bs;
		tails += s->tail_shared;
		EXPECT(at >= s->inherited, "request %s took over %d tokens and has computed %d",
		       workload_name(g->w, s->req, buf), s->inherited, at);
		EXPECT(s->tail_shared || at % bs == 0 || page >= g->tables[i].n ||
			       g->pool.ref[g->tables[i].ids[page]] == 1,
		       "request %s goes on in block %d, which others hold, and does not know it",
		       workload_name(g->w, s->req, buf), g->tables[i].ids[page]);
	}
	EXPECT(tails == g->forks.n_tails, "%d requests go on in shared blocks, %d counted", tails, g->forks.n_tails);
	return ERR_NONE;
}

static int check_contig(const struct engine *g, struct err *e)
{
	const struct kv_contig *c = &g->contig;
	int64_t free = 0, used = 0, last_end = -1;
	for (int64_t i = 0; i < c->n_holes; i++) {
		const struct kv_hole *h = &c->holes[i];
		EXPECT(h->len > 0 && h->start > last_end, "holes at block %d overlap or touch", h->start);
		last_end = (int64_t)h->start + h->len;
		free += h->len;
	}
	for (int32_t i = g->running.head; i >= 0; i = g->slots[i].run_next)
		used += g->tables[i].n;
	EXPECT(free == c->n_free && used + free == c->num_blocks, "%lld used + %lld free blocks are not %d",
	       (long long)used, (long long)free, c->num_blocks);
	return ERR_NONE;
}

/* What was dropped: whole pages of computed tokens, by the rule alone none that the next row sees. */
static int check_dropped(const struct engine *g, const struct slot *s, struct err *e)
{
	const struct block_table *t = slot_table(g, s);
	char buf[24];
	const char *who = workload_name(g->w, s->req, buf);
	int32_t size = g->cfg.block_size, gone = 0, computed = slot_computed(g, s);
	for (int32_t k = 0; k < t->n; k++) {
		if (t->ids[k] != KV_NO_BLOCK)
			continue;
		gone++;
		EXPECT((int64_t)(k + 1) * size <= computed, "request %s lost page %d, of %d computed tokens", who, k,
		       computed);
	}
	EXPECT(gone * size == s->dropped, "request %s lost %d pages, %d tokens counted", who, gone, s->dropped);
	EXPECT(!gone || g->drops, "request %s lost %d pages though every one is to stay", who, gone);
	if (g->cfg.kv_retention == RETAIN_FULL || g->policy->traits.drops)
		return ERR_NONE;
	int32_t sinks = kv_blocks_for(g->cfg.kv_sink, size);
	for (int32_t k = 0; k < t->n; k++) {
		bool seen = k < sinks || (k + 1) * size > computed - g->cfg.kv_window + 1;
		EXPECT(t->ids[k] != KV_NO_BLOCK || !seen, "request %s lost page %d, which its next row sees", who, k);
	}
	return ERR_NONE;
}

static int check_slot(const struct engine *g, const struct slot *s, struct err *e)
{
	char buf[24];
	const char *who = workload_name(g->w, s->req, buf);
	int32_t computed = slot_computed(g, s), outputs = slot_outputs(g, s);
	if (check_dropped(g, s, e))
		return ERR_INVARIANT;
	EXPECT(g->slot_of[s->req] == s - g->slots, "request %s does not know its slot", who);
	EXPECT(outputs <= s->bound, "request %s has %d outputs of %d", who, outputs, s->bound);
	if (g->cfg.kv_off)
		return ERR_NONE;
	/* Asynchronously a row may compute one token past an end nobody knew of. */
	EXPECT(computed <= s->prompt + outputs, "request %s computed %d of %d tokens", who, computed,
	       s->prompt + outputs);
	EXPECT((int64_t)slot_table(g, s)->n * g->cfg.block_size >= computed + s->pad,
	       "request %s has %d tokens in %d blocks", who, computed + s->pad, slot_table(g, s)->n);
	if (!g->contiguous && !g->reserves_ahead && !g->cfg.async_scheduling && s->part != PART_HELD)
		EXPECT(slot_table(g, s)->n == kv_blocks_for((int64_t)computed + s->pad, g->cfg.block_size),
		       "request %s has %d blocks for %d tokens", who, slot_table(g, s)->n, computed + s->pad);
	if (s->part == PART_COHORT && !g->flat && g->begun == g->ended)
		EXPECT(computed == s->prompt + outputs - 1, "request %s decodes with %d of %d tokens computed", who,
		       computed, s->prompt + outputs);
	return ERR_NONE;
}

static int check_sums(const struct engine *g, struct err *e)
{
	int64_t ctx = 0, window_ctx = 0, resident = 0, pad = 0, last_order = -1;
	int32_t cohort = 0, prefilling = 0, held = 0, below = 0, window = g->cfg.window;
	for (int32_t i = g->running.head; i >= 0; i = g->slots[i].run_next) {
		const struct slot *s = &g->slots[i];
		int64_t has = (int64_t)slot_computed(g, s) + s->pad, there = has - s->dropped;
		EXPECT(s->order > last_order, "the running list is out of admission order");
		last_order = s->order;
		resident += there;
		pad += s->pad;
		prefilling += s->part == PART_PREFILL;
		held += s->part == PART_HELD;
		if (check_slot(g, s, e))
			return ERR_INVARIANT;
		if (s->part != PART_COHORT)
			continue;
		cohort++;
		ctx += there;
		window_ctx += window && has + 1 > window ? window : has + 1;
		below += !window || has + 1 < window;
	}
	const struct cohort *c = &g->cohort;
	EXPECT(cohort == c->list.n && prefilling == g->prefilling.n && held == g->held.n,
	       "lists hold %d, %d and %d requests, counted %d, %d and %d", cohort, prefilling, held, c->list.n,
	       g->prefilling.n, g->held.n);
	EXPECT(cohort + prefilling + held + g->tiers.n_loading == g->n_running && g->n_running <= g->cfg.max_num_seqs,
	       "%d requests run, counted %d, at most %d", cohort + prefilling + held + g->tiers.n_loading, g->n_running,
	       g->cfg.max_num_seqs);
	EXPECT(ctx == c->ctx && window_ctx == c->ctx_window && below == c->below,
	       "cohort sums %lld, %lld, %d are kept as %lld, %lld, %d", (long long)ctx, (long long)window_ctx, below,
	       (long long)c->ctx, (long long)c->ctx_window, c->below);
	EXPECT(resident == g->hold.resident && pad == g->hold.pad, "%lld tokens are resident, %lld counted",
	       (long long)resident, (long long)g->hold.resident);
	return ERR_NONE;
}

static int check_wheel(const struct engine *g, struct err *e)
{
	const struct cohort *c = &g->cohort;
	int64_t in_wheel = 0;
	int32_t bs = g->cfg.block_size;
	for (int32_t b = 0; b < bs; b++) {
		int64_t last_order = -1;
		for (int32_t i = c->wheel[b].head; i >= 0; i = g->bucket_next[i]) {
			const struct slot *s = &g->slots[i];
			int64_t due = (c->tick - b) % bs; /* ticks since its bucket was last due */
			EXPECT(((slot_computed(g, s) + s->pad) - due) % bs == 0,
			       "a request stands in the wrong bucket");
			EXPECT(s->order > last_order, "a bucket is out of admission order");
			last_order = s->order;
			in_wheel++;
		}
	}
	EXPECT(in_wheel == (g->contiguous ? 0 : c->list.n), "%lld of %d decoding requests are in the wheel",
	       (long long)in_wheel, c->list.n);
	EXPECT(c->ends.n == c->list.n, "%lld of %d decoding requests have an end", (long long)c->ends.n, c->list.n);
	EXPECT(tick_heap_first(&c->ends) > c->tick || !c->list.n, "a request is past its end");
	return ERR_NONE;
}

static int check_waiting(const struct engine *g, struct err *e)
{
	int32_t n = 0;
	for (int32_t r = queue_first(&g->waiting); r >= 0; r = queue_next(&g->waiting, r), n++) {
		enum request_state state = g->requests[r].state;
		EXPECT(state == REQUEST_WAITING || state == REQUEST_PREEMPTED, "a request in the queue is %s",
		       request_state_name(state));
		EXPECT(g->slot_of[r] < 0 && !tiers_swapped(&g->tiers, r), "a waiting request holds memory");
	}
	EXPECT(n == g->waiting.count, "%d requests wait, %d counted", n, g->waiting.count);
	return ERR_NONE;
}

int engine_check(struct engine *g, struct err *e)
{
	int code = check_sums(g, e);
	if (!code)
		code = check_waiting(g, e);
	if (!code && !g->flat)
		code = check_wheel(g, e);
	if (!code)
		code = tiers_check(g, e);
	if (code || g->cfg.kv_off)
		return code;
	if (g->contiguous)
		return check_contig(g, e);
	int32_t *held = mem_alloc((size_t)g->cfg.num_blocks * sizeof *held);
	if (!held)
		return err_no_memory(e, "checking invariants");
	code = check_pool(g, held, e);
	if (!code && g->forks.share)
		code = check_forks(g, e);
	mem_free(held);
	return code;
}
