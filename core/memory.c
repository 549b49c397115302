/* A slot's KV memory, whichever manager holds it: blocks on demand, or one contiguous reservation whose block table is
 * a run of consecutive ids. */
#include "core/engine_state.h"
#include "core/mem.h"

int memory_init(struct engine *g, struct err *e)
{
	g->hit.req = g->hit.blocked_req = -1;
	if (g->cfg.kv_off)
		return ERR_NONE;
	if (g->contiguous)
		return kv_contig_init(&g->contig, g->cfg.num_blocks, e);
	int (*init)(struct kv_pool *, int32_t, int32_t, enum prefix_cache, enum prefix_eviction, struct err *) =
		g->forks.share ? kv_pool_init_shared : kv_pool_init;
	return init(&g->pool, g->cfg.num_blocks, g->cfg.block_size, g->cfg.prefix_cache, g->cfg.prefix_eviction, e);
}

void memory_free(struct engine *g)
{
	kv_pool_free(&g->pool);
	kv_contig_free(&g->contig);
	mem_free(g->hit_blocks);
	mem_free(g->keys);
}

int32_t memory_free_blocks(const struct engine *g)
{
	return g->contiguous ? g->contig.n_free : g->pool.n_free;
}

int32_t memory_used(const struct engine *g)
{
	return g->contiguous ? g->contig.num_blocks - g->contig.n_free : g->pool.num_blocks - g->pool.n_free;
}

int memory_table_room(struct engine *g, struct slot *s, int32_t n)
{
	struct block_table *t = slot_table(g, s);
	if (mem_grow((void **)&t->ids, &t->cap, t->n + n, sizeof *t->ids))
		return err_no_memory(&g->fault, "a block table");
	return ERR_NONE;
}

static void tell_blocks(struct engine *g, const struct slot *s, int32_t from)
{
	const struct block_table *t = slot_table(g, s);
	if (g->rec.event)
		for (int32_t i = from; i < t->n; i++)
			engine_event(g, EVENT_BLOCK, g->now_ns, s->req, i, t->ids[i]);
}

int memory_append(struct engine *g, struct slot *s, int32_t n)
{
	struct block_table *t = slot_table(g, s);
	if (memory_table_room(g, s, n))
		return ERR_MEMORY;
	if (g->contiguous) {
		int32_t start = kv_contig_take(&g->contig, n);
		for (int32_t i = 0; i < n; i++)
			t->ids[t->n + i] = start + i;
	} else {
		kv_alloc(&g->pool, n, t->ids + t->n);
	}
	t->n += n;
	if (g->tiers.n_lost && offload_save(g))
		return ERR_MEMORY;
	if (g->tiers.n_copies)
		tiers_taken(g, t->ids + t->n - n, n);
	tell_blocks(g, s, t->n - n);
	return ERR_NONE;
}

int memory_share(struct engine *g, struct slot *s, const int32_t *blocks, int32_t n)
{
	struct block_table *t = slot_table(g, s);
	if (memory_table_room(g, s, n))
		return ERR_MEMORY;
	for (int32_t i = 0; i < n; i++) {
		kv_share(&g->pool, blocks[i]);
		t->ids[t->n++] = blocks[i];
	}
	tell_blocks(g, s, t->n - n);
	return ERR_NONE;
}

/* The last page first, as ever; `ids` has places where pages were dropped. */
static void release_rest(struct engine *g, const int32_t *ids, int32_t n)
{
	for (int32_t end = n, at; end > 0; end = at) {
		for (at = end; at > 0 && ids[at - 1] != KV_NO_BLOCK;)
			at--;
		kv_release(&g->pool, ids + at, end - at);
		while (at > 0 && ids[at - 1] == KV_NO_BLOCK)
			at--;
	}
}

int32_t memory_drop(struct engine *g, struct slot *s, int32_t first, int32_t end)
{
	struct block_table *t = slot_table(g, s);
	int32_t n = 0, size = g->cfg.block_size;
	release_rest(g, t->ids + first, end - first);
	for (int32_t i = first; i < end; i++) {
		if (t->ids[i] == KV_NO_BLOCK)
			continue;
		engine_event(g, EVENT_DROP, g->now_ns, s->req, i, t->ids[i]);
		t->ids[i] = KV_NO_BLOCK;
		n++;
	}
	s->dropped += n * size;
	g->hold.resident -= (int64_t)n * size;
	if (s->part == PART_COHORT)
		g->cohort.ctx -= (int64_t)n * size;
	g->stats.dropped_blocks += n;
	g->stats.dropped_tokens += (int64_t)n * size;
	return n;
}

void memory_release(struct engine *g, struct slot *s)
{
	struct block_table *t = slot_table(g, s);
	if (g->contiguous && t->n)
		/* A give that finds no memory for one more hole is the one failure here; the run ends with it. */
		kv_contig_give(&g->contig, t->ids[0], t->n, &g->fault);
	else if (s->dropped)
		release_rest(g, t->ids, t->n);
	else if (t->n)
		kv_release(&g->pool, t->ids, t->n);
	t->n = 0;
}

int32_t memory_blocks(const struct engine *g, const struct slot *s, int32_t tokens)
{
	if (g->cfg.kv_off || g->contiguous)
		return 0;
	int32_t want = kv_blocks_for((int64_t)slot_computed(g, s) + s->pad + tokens, g->cfg.block_size);
	int32_t has = slot_table(g, s)->n;
	return want > has ? want - has : 0;
}

int32_t memory_lacks(const struct engine *g, const struct slot *s, int32_t tokens)
{
	return memory_blocks(g, s, tokens) + (s->tail_shared && fork_must_copy(g, s, tokens));
}

int memory_extend(struct engine *g, struct slot *s, int32_t tokens)
{
	if (s->tail_shared && fork_write(g, s, tokens))
		return ERR_MEMORY;
	int32_t n = memory_blocks(g, s, tokens);
	return n > 0 ? memory_append(g, s, n) : ERR_NONE;
}

int32_t memory_replace(struct engine *g, struct slot *s, int32_t page)
{
	int32_t *id = &slot_table(g, s)->ids[page], was = *id;
	kv_alloc(&g->pool, 1, id);
	kv_release(&g->pool, &was, 1);
	engine_event(g, EVENT_COPY, g->now_ns, s->req, was, *id);
	engine_event(g, EVENT_BLOCK, g->now_ns, s->req, page, *id);
	return was;
}

/* --- prefix caching --------------------------------------------------------------------------------------------- */

static int remember_later(struct engine *g, struct step *st, struct slot *s, int32_t page, uint64_t key)
{
	if (mem_grow((void **)&st->pages, &st->cap_pages, st->n_pages + 1, sizeof *st->pages))
		return err_no_memory(&g->fault, "pages to remember");
	st->pages[st->n_pages++] =
		(struct pending_page){slot_table(g, s)->ids[page], (int32_t)(s - g->slots), s->epoch, page, key};
	return ERR_NONE;
}

static int room_for_keys(struct engine *g, int64_t n)
{
	if (mem_grow((void **)&g->keys, &g->cap_keys, n, sizeof *g->keys))
		return err_no_memory(&g->fault, "pages to remember");
	return ERR_NONE;
}

static int remember_now(struct engine *g, struct slot *s, int32_t full)
{
	int32_t from = s->known_pages, n = full - from;
	if (n <= 0)
		return ERR_NONE;
	if (room_for_keys(g, n))
		return ERR_MEMORY;
	content_fill(slot_content(g, s), g->keys, n);
	g->pool.cache->insert(&g->pool, slot_table(g, s)->ids, g->keys, from, full);
	s->known_pages = full;
	return ERR_NONE;
}

int memory_remember(struct engine *g, struct slot *s, int32_t computed, struct step *st)
{
	int32_t full = (computed < s->keep_tokens ? computed : s->keep_tokens) / g->cfg.block_size;
	if (g->cfg.hit_visible == HIT_VISIBLE_ALLOC)
		return remember_now(g, s, full);
	while (s->known_pages < full) {
		uint64_t key = content_next(slot_content(g, s));
		if (remember_later(g, st, s, s->known_pages++, key))
			return ERR_MEMORY;
	}
	return ERR_NONE;
}

/* Pages from ... to - 1 of a slot, whose identities are in g->keys, become known. */
static void insert_pages(struct engine *g, struct slot *s, int32_t from, int32_t to)
{
	struct block_table *t = slot_table(g, s);
	for (int32_t i = from; i < to && g->rec.event && g->pool.cache->tree; i++) {
		int32_t there = kv_lookup(&g->pool, g->keys[i - from]);
		if (there != KV_NO_BLOCK)
			engine_event(g, EVENT_BLOCK, g->now_ns, s->req, i, there);
	}
	g->pool.cache->insert(&g->pool, t->ids, g->keys, from, to);
}

/* Preempted meanwhile: what it would have written is nobody's. Dropped meanwhile, with a step in flight: the block may be
 * another's by now. */
static bool is_lost(const struct engine *g, const struct pending_page *p)
{
	const struct slot *s = &g->slots[p->slot];
	return s->epoch != p->epoch || slot_table(g, s)->ids[p->page] == KV_NO_BLOCK;
}

/* The pages of one slot follow each other: they go in together, in a tree as one node. */
int memory_commit(struct engine *g, struct step *st)
{
	if (room_for_keys(g, st->n_pages))
		return ERR_MEMORY;
	for (int64_t i = 0, end; i < st->n_pages; i = end) {
		const struct pending_page *first = &st->pages[i];
		for (end = i; end < st->n_pages && st->pages[end].slot == first->slot &&
			      st->pages[end].epoch == first->epoch && !is_lost(g, &st->pages[end]);
		     end++)
			g->keys[end - i] = st->pages[end].key;
		if (end > i)
			insert_pages(g, &g->slots[first->slot], first->page, first->page + (int32_t)(end - i));
		else
			end++;
	}
	st->n_pages = 0;
	return ERR_NONE;
}

int memory_restore(struct engine *g, struct slot *s)
{
	int32_t full = (s->computed < s->keep_tokens ? s->computed : s->keep_tokens) / g->cfg.block_size;
	if (room_for_keys(g, full))
		return ERR_MEMORY;
	content_begin_salted(slot_content(g, s), g->w, s->req, g->cfg.block_size, g->cfg.cache_salt);
	for (int32_t i = 0; i < full; i++)
		g->keys[i] = content_next(slot_content(g, s));
	s->known_pages = full;
	if (full)
		insert_pages(g, s, 0, full);
	return ERR_NONE;
}

int memory_loaded(struct engine *g, struct slot *s)
{
	int32_t to = s->known_pages, from = to - s->load_pages;
	struct content_walk walk;
	if (room_for_keys(g, s->load_pages))
		return ERR_MEMORY;
	content_begin_salted(&walk, g->w, s->req, g->cfg.block_size, g->cfg.cache_salt);
	content_skip(&walk, from);
	for (int32_t i = from; i < to; i++)
		g->keys[i - from] = content_next(&walk);
	s->load_pages = 0;
	insert_pages(g, s, from, to);
	return ERR_NONE;
}

int memory_ends(struct engine *g, struct slot *s, int32_t computed)
{
	int32_t full = computed / g->cfg.block_size, from = s->known_pages;
	if (!g->pool.cache->tree || g->cfg.cache_prompts_only || full <= from)
		return ERR_NONE;
	if (room_for_keys(g, full - from))
		return ERR_MEMORY;
	content_fill(slot_content(g, s), g->keys, full - from);
	s->known_pages = full;
	insert_pages(g, s, from, full);
	return ERR_NONE;
}

static int look_up_pages(struct engine *g, int32_t req, int32_t limit)
{
	enum { BATCH = 64 };
	struct content_walk walk;
	uint64_t keys[BATCH];
	content_begin_salted(&walk, g->w, req, g->cfg.block_size, g->cfg.cache_salt);
	g->hit.missed = 0;
	/* Many find nothing: the first batch is a small one. */
	for (int32_t at = 0, n = 8; at < limit && !g->hit.missed; at += n, n = BATCH) {
		n = limit - at < n ? limit - at : n;
		if (mem_grow((void **)&g->hit_blocks, &g->cap_hit_blocks, at + n, sizeof *g->hit_blocks))
			return err_no_memory(&g->fault, "prefix hits");
		content_fill(&walk, keys, n);
		int32_t found = kv_lookup_run(&g->pool, keys, n, g->hit_blocks + at);
		for (int32_t i = at; i < at + found; i++)
			g->hit.unreferenced += g->pool.ref[g->hit_blocks[i]] == 0;
		g->hit.pages += found;
		g->hit.missed = found < n ? keys[found] : 0;
	}
	if (g->hit.missed && g->tiers.offload) {
		content_begin_salted(&walk, g->w, req, g->cfg.block_size, g->cfg.cache_salt);
		content_skip(&walk, g->hit.pages);
		g->hit.cold = offload_count(g, walk, limit - g->hit.pages);
	}
	return ERR_NONE;
}

int memory_look_up(struct engine *g, int32_t req)
{
	/* What a family holds changes as its members run. */
	if (g->hit.req == req && g->hit.changes == g->pool.changes && !g->forks.share)
		return ERR_NONE;
	g->hit.req = -1;
	g->hit.pages = g->hit.unreferenced = g->hit.cold = 0;
	/* The last token is always computed: something has to be sampled from. */
	int64_t tokens = (int64_t)g->w->specs[req].prompt_tokens + g->requests[req].outputs;
	if (g->cfg.prefix_caching && look_up_pages(g, req, (int32_t)((tokens - 1) / g->cfg.block_size)))
		return ERR_MEMORY;
	g->hit.tokens = g->hit.cached = g->hit.pages * g->cfg.block_size;
	if (g->forks.share && fork_look_up(g, req))
		return ERR_MEMORY;
	g->hit.req = req;
	g->hit.changes = g->pool.changes;
	return ERR_NONE;
}
