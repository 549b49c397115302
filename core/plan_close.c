/* Turns what was planned into a batch: adds up rows, moves the cohort on by a tick, lets finished prompts join it. */
#include "core/engine_state.h"
#include "core/mem.h"

/* Drops rows and chunks that a preemption took back. */
static void compact(struct engine *g, struct step *st)
{
	int64_t rows = 0;
	int32_t chunks = 0;
	for (int64_t i = 0; i < st->n_rows; i++) {
		struct row r = st->rows[i];
		if (r.slot < 0)
			continue;
		if (r.chunk >= 0) {
			/* Chunks stand in the order of their rows, so this moves them towards the front. */
			st->chunks[chunks] = st->chunks[r.chunk];
			r.chunk = chunks++;
		}
		g->slots[r.slot].sched_row = (int32_t)rows;
		st->rows[rows++] = r;
	}
	st->n_rows = rows;
	st->batch.n_chunks = chunks;
}

/* Work that was done before and lost. */
static void count_recomputed(struct engine *g, const struct slot *s, const struct chunk *c)
{
	int32_t end = s->computed, start = end - c->len;
	int32_t again = (end < s->peak ? end : s->peak) - start;
	if (again <= 0)
		return;
	g->requests[s->req].recomputed_tokens += again;
	g->stats.recomputed_tokens += again;
}

static void add_chunks(struct engine *g, struct step *st)
{
	struct batch *b = &st->batch;
	for (int64_t i = 0; i < st->n_rows; i++) {
		const struct row *r = &st->rows[i];
		if (r->chunk < 0)
			continue;
		const struct chunk *c = &st->chunks[r->chunk];
		b->prefill_tokens += (int64_t)c->len + c->pad;
		b->sampled += c->samples;
		g->stats.prompt_tokens_computed += c->len;
		g->stats.pad_tokens += c->pad;
		if (!g->cfg.kv_off)
			count_recomputed(g, &g->slots[r->slot], c);
	}
	b->chunks = st->chunks;
}

/* Decodes scheduled one by one while the cohort is lazy. */
static void add_some_decodes(const struct engine *g, struct step *st)
{
	struct batch *b = &st->batch;
	for (int64_t i = 0; i < st->n_rows; i++) {
		if (st->rows[i].chunk >= 0)
			continue;
		const struct slot *s = &g->slots[st->rows[i].slot];
		/* Flat: the slot has moved on already, its computed tokens are the context attended to. */
		int64_t ctx = slot_resident(g, s) + !g->flat;
		bool below = !g->cfg.window || ctx < g->cfg.window;
		b->decodes++;
		b->decode_ctx += ctx;
		b->decode_ctx_window += below ? ctx : g->cfg.window;
		b->window_growing += below;
		b->sampled += st->rows[i].samples;
	}
}

static void add_cohort(const struct engine *g, struct step *st)
{
	const struct cohort *c = &g->cohort;
	struct batch *b = &st->batch;
	b->decodes = c->list.n;
	b->sampled += c->list.n;
	b->decode_ctx = c->ctx + c->list.n;
	b->decode_ctx_window = g->cfg.window ? c->ctx_window : b->decode_ctx;
	b->window_growing = c->below;
}

/* Rows that static batching keeps computing; nobody reads their tokens. */
static int add_held(struct engine *g, struct step *st, struct err *e)
{
	struct batch *b = &st->batch;
	if (!g->held.n || (!b->decodes && !b->n_chunks))
		return ERR_NONE;
	g->stats.pad_tokens += g->held.n;
	for (int32_t i = g->held.head; i >= 0 && (g->cfg.window || g->cfg.kv_off); i = g->slots[i].part_next) {
		const struct slot *s = &g->slots[i];
		int64_t ctx = slot_resident(g, s) + (g->held_ticks - s->base_tick) + 1;
		if (g->cfg.kv_off) { /* all of its tokens again */
			if (mem_grow((void **)&st->chunks, &st->cap_chunks, b->n_chunks + 1, sizeof *st->chunks))
				return err_no_memory(e, "a scheduling step");
			int64_t all = ctx - 1 + s->prompt + s->outputs;
			st->chunks[b->n_chunks++] = (struct chunk){.req = s->req, .pad = (int32_t)all};
			b->chunks = st->chunks;
			b->prefill_tokens += all;
			g->stats.pad_tokens += all - 1;
			continue;
		}
		b->decode_ctx_window += ctx < g->cfg.window ? ctx : g->cfg.window;
		b->window_growing += ctx < g->cfg.window;
	}
	if (!g->cfg.kv_off) {
		b->decodes += g->held.n;
		b->decode_ctx += g->held_ctx + g->held.n;
		if (!g->cfg.window) {
			b->decode_ctx_window += g->held_ctx + g->held.n;
			b->window_growing += g->held.n;
		}
	}
	g->held_ctx += g->held.n;
	g->held_ticks++;
	return ERR_NONE;
}

/* The tick of a lazy cohort in which only some members were scheduled: those that were not are keyed again. */
static int advance_some(struct engine *g, struct step *st)
{
	for (int64_t i = 0; i < st->n_rows && g->cfg.prefix_caching; i++) {
		struct slot *s = &g->slots[st->rows[i].slot];
		if (st->rows[i].chunk < 0 && memory_remember(g, s, slot_computed(g, s) + 1, st))
			return ERR_MEMORY;
	}
	if (cohort_advance(g, NULL))
		return ERR_MEMORY;
	for (int32_t i = g->cohort.list.head; i >= 0; i = g->slots[i].part_next) {
		struct slot *s = &g->slots[i];
		if (s->sched_step == st->number)
			continue;
		if (cohort_set_fresh(g, s, cohort_last_ns(g, s)))
			return ERR_MEMORY;
		cohort_skipped(g, s);
	}
	return ERR_NONE;
}

static int advance(struct engine *g, struct step *st)
{
	if (g->flat)
		return ERR_NONE;
	if (st->uniform)
		return cohort_advance(g, st);
	return st->cohort_rows ? advance_some(g, st) : ERR_NONE;
}

static void join(struct engine *g, struct step *st)
{
	st->was_empty = g->cohort.list.n == 0;
	for (int64_t i = 0; i < st->n_rows && !g->cfg.kv_off; i++) {
		const struct row *r = &st->rows[i];
		if (r->chunk < 0 || !r->completes)
			continue;
		cohort_join(g, &g->slots[r->slot]);
		st->joined++;
	}
}

static void snapshot(const struct engine *g, struct step *st)
{
	struct snapshot *m = &st->mem;
	int64_t bs = g->cfg.block_size;
	m->used = memory_used(g);
	m->cached = g->pool.n_cached;
	m->shared = g->pool.extra_refs;
	m->waiting = g->waiting.count;
	m->tokens = g->hold.resident - g->hold.pad - g->pool.extra_refs * bs;
	if (g->forks.n_tails)
		m->tokens += fork_tail_slots(g);
	m->reserved = g->contiguous ? g->hold.final_kv - (g->hold.resident - g->hold.pad) : 0;
	m->external = g->contig_misfit ? g->contig.n_free * bs : 0;
}

/* How often the batch may be run in a row: as long as the policy would do the same again and nothing happens. */
static void allow_repeats(struct engine *g, struct step *st)
{
	struct batch *b = &st->batch;
	bool same_again = g->may_repeat && st->uniform && !st->acts && !b->n_copies && !g->forks.n_tails &&
			  !st->preempted && !(g->cfg.window && g->held.n) && !g->tiers.n_copies &&
			  !(g->tiers.offload && g->pool.n_cached) &&
			  /* Who is served moves on in these two orders, and with it who comes next. */
			  !(g->waiting.count && (g->cfg.prefix_caching || g->cfg.queue_order >= QUEUE_FAIR));
	b->repeat = same_again ? cohort_repeat(g, 4096) : 1;
	b->until_ns = engine_next_event_ns(g);
}

int plan_close(struct engine *g, struct step *st, struct err *e)
{
	struct batch *b = &st->batch;
	if (st->refunded)
		compact(g, st);
	b->step = st->number;
	b->running = g->n_running;
	b->copies = st->copies;
	g->stats.copied_blocks += b->n_copies;
	add_chunks(g, st);
	if (!g->flat && st->cohort_rows && st->cohort_rows == g->cohort.list.n)
		st->uniform = true;
	if (st->uniform)
		add_cohort(g, st);
	else if (st->cohort_rows)
		add_some_decodes(g, st);
	if (add_held(g, st, e) || advance(g, st))
		return err_set(e, ERR_MEMORY, "%s", g->fault.text);
	join(g, st);
	snapshot(g, st);
	allow_repeats(g, st);
	if (g->tiers.on)
		tiers_close(g, b);
	return ERR_NONE;
}
