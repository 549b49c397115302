/* The planned step's rows, one by one: decodes, held rows, chunks. Slots are exact here, since the engine walks its rows:
 * each has moved on already, its computed tokens include those of this step. */
#include "core/tables.h"

#include "core/engine_state.h"
#include "core/mem.h"

static int grow_seqs(struct batch_tables *t, int64_t n)
{
	int64_t cap = t->cap_seqs;
	if (n + 1 <= cap)
		return 0;
	struct {
		void **at;
		size_t size;
	} const arrays[] = {
		{(void **)&t->req, sizeof *t->req},
		{(void **)&t->q_at, sizeof *t->q_at},
		{(void **)&t->ctx_len, sizeof *t->ctx_len},
		{(void **)&t->pad, sizeof *t->pad},
		{(void **)&t->dropped, sizeof *t->dropped},
		{(void **)&t->pad_rows, sizeof *t->pad_rows},
		{(void **)&t->first_token, sizeof *t->first_token},
		{(void **)&t->kv_indptr, sizeof *t->kv_indptr},
		{(void **)&t->samples, sizeof *t->samples},
		{(void **)&t->held, sizeof *t->held},
	};
	int64_t grown = 0;
	for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
		grown = cap;
		if (mem_grow(arrays[i].at, &grown, n + 1, arrays[i].size))
			return ERR_MEMORY;
	}
	t->cap_seqs = grown;
	return 0;
}

void batch_tables_free(struct batch_tables *t)
{
	mem_free(t->req);
	mem_free(t->q_at);
	mem_free(t->ctx_len);
	mem_free(t->pad);
	mem_free(t->dropped);
	mem_free(t->pad_rows);
	mem_free(t->first_token);
	mem_free(t->kv_indptr);
	mem_free(t->kv_indices);
	mem_free(t->kv_pages);
	mem_free(t->slots);
	mem_free(t->samples);
	mem_free(t->held);
	*t = (struct batch_tables){0};
}

/* One sequence with `rows` rows, the last of which sees ctx tokens. */
static int add_sequence(struct batch_tables *t, int32_t req, int32_t rows, int32_t ctx, int32_t pad)
{
	if (grow_seqs(t, t->n_seqs + 1) ||
	    mem_grow((void **)&t->slots, &t->cap_rows, (int64_t)t->n_rows + rows, sizeof *t->slots))
		return ERR_MEMORY;
	int32_t s = t->n_seqs++;
	t->req[s] = req;
	t->q_at[s] = t->n_rows;
	t->n_rows += rows;
	t->q_at[s + 1] = t->n_rows;
	t->ctx_len[s] = ctx;
	t->pad[s] = pad;
	t->dropped[s] = 0;
	t->pad_rows[s] = t->first_token[s] = 0;
	t->samples[s] = t->held[s] = 0;
	if (s == 0)
		t->kv_indptr[0] = 0;
	if (ctx > t->max_ctx)
		t->max_ctx = ctx;
	return ERR_NONE;
}

/* The blocks of the last sequence's context: ids[0 .. n) but for those dropped, over again where the context is longer (held
 * rows go on beyond what was reserved for them; nobody reads their results). n = 0: scratch blocks of this step. */
static int add_blocks(struct batch_tables *t, const int32_t *ids, int32_t n, int32_t block_size)
{
	int32_t s = t->n_seqs - 1, at = t->kv_indptr[s], want = kv_blocks_for(t->ctx_len[s], block_size);
	if (mem_grow((void **)&t->kv_indices, &t->cap_indices, (int64_t)at + want, sizeof *t->kv_indices) ||
	    mem_grow((void **)&t->kv_pages, &t->cap_pages, (int64_t)at + want, sizeof *t->kv_pages))
		return ERR_MEMORY;
	int32_t dropped = 0;
	while (dropped < n && ids[dropped] == KV_NO_BLOCK)
		dropped++;
	if (dropped == n) /* a held row that has none left */
		n = 0;
	for (int32_t i = 0, page = 0; i < want; i++, page++) {
		while (n && ids[page % n] == KV_NO_BLOCK)
			page++;
		t->kv_indices[at + i] = n ? ids[page % n] : t->scratch_blocks++;
		t->kv_pages[at + i] = page;
	}
	t->kv_indptr[s + 1] = at + want;
	return ERR_NONE;
}

/* Where the KV of the last sequence's rows goes: the last places of its context, of those before `from` nowhere. */
static void add_slots(struct batch_tables *t, int32_t block_size, int32_t from)
{
	int32_t s = t->n_seqs - 1, first = t->q_at[s], rows = t->n_rows - first;
	const int32_t *blocks = t->kv_indices + t->kv_indptr[s];
	for (int32_t i = 0; i < rows; i++) {
		int32_t j = t->ctx_len[s] - rows + i;
		t->slots[first + i] = j >= from ? (int64_t)blocks[j / block_size] * block_size + j % block_size : -1;
	}
}

static int add_decode(const struct engine *g, struct batch_tables *t, const struct slot *s, bool samples)
{
	const struct block_table *blocks = slot_table(g, s);
	int32_t ctx = slot_resident(g, s);
	if (add_sequence(t, s->req, 1, ctx, s->pad) || add_blocks(t, blocks->ids, blocks->n, g->cfg.block_size))
		return ERR_MEMORY;
	t->dropped[t->n_seqs - 1] = s->dropped;
	add_slots(t, g->cfg.block_size, 0);
	t->first_token[t->n_seqs - 1] = s->computed - 1;
	t->samples[t->n_seqs - 1] = samples;
	t->sum_ctx += ctx;
	return ERR_NONE;
}

static int add_held_row(const struct engine *g, struct batch_tables *t, const struct slot *s)
{
	const struct block_table *blocks = slot_table(g, s);
	int32_t ctx = slot_resident(g, s) + (int32_t)(g->held_ticks - s->base_tick);
	if (add_sequence(t, s->req, 1, ctx, s->pad) || add_blocks(t, blocks->ids, blocks->n, g->cfg.block_size))
		return ERR_MEMORY;
	add_slots(t, g->cfg.block_size, INT32_MAX);
	t->first_token[t->n_seqs - 1] = s->computed - 1;
	t->held[t->n_seqs - 1] = 1;
	t->sum_ctx += ctx;
	return ERR_NONE;
}

static int add_chunk_rows(const struct engine *g, struct batch_tables *t, const struct chunk *c)
{
	bool kv_off = g->cfg.kv_off, held = c->len == 0;
	int32_t slot = g->slot_of[c->req], pad = slot < 0 ? 0 : g->slots[slot].pad;
	/* A chunk's start counts the padding before it, but not padding computed beside it. */
	int32_t ctx = c->start + c->pad + c->len;
	if (add_sequence(t, c->req, c->pad + c->len, ctx, held ? ctx : pad))
		return ERR_MEMORY;
	const struct block_table *blocks = slot < 0 ? NULL : &g->tables[slot];
	if (add_blocks(t, kv_off || !blocks ? NULL : blocks->ids, kv_off || !blocks ? 0 : blocks->n, g->cfg.block_size))
		return ERR_MEMORY;
	/* A fork's last token may be there already, and others may read it. */
	add_slots(t, g->cfg.block_size, blocks && !kv_off ? g->slots[slot].inherited : 0);
	int32_t s = t->n_seqs - 1;
	t->pad_rows[s] = c->pad;
	t->dropped[s] = c->dropped;
	t->first_token[s] = c->pad ? c->start : c->start + c->dropped - (kv_off ? 0 : pad);
	t->samples[s] = c->samples;
	t->held[s] = held;
	return ERR_NONE;
}

static int add_all(const struct engine *g, const struct step *st, struct batch_tables *t)
{
	const struct batch *b = &st->batch;
	for (int64_t i = 0; i < st->n_rows; i++)
		if (st->rows[i].chunk < 0 && add_decode(g, t, &g->slots[st->rows[i].slot], st->rows[i].samples))
			return ERR_MEMORY;
	if (!g->cfg.kv_off)
		for (int32_t i = g->held.head; i >= 0; i = g->slots[i].part_next)
			if (add_held_row(g, t, &g->slots[i]))
				return ERR_MEMORY;
	t->n_decodes = t->n_seqs;
	for (int32_t i = 0; i < b->n_chunks; i++)
		if (add_chunk_rows(g, t, &b->chunks[i]))
			return ERR_MEMORY;
	return ERR_NONE;
}

int batch_build(const struct engine *g, const struct batch *b, struct batch_tables *t, struct err *e)
{
	const struct step *st = &g->steps[(g->begun - 1) & 1];
	if (!g->flat || g->begun == g->ended || b != &st->batch)
		return err_set(e, ERR_INVARIANT,
			       "step %lld: page tables can be had only right after planning, from an engine that "
			       "walks its rows",
			       (long long)b->step);
	t->step = b->step;
	t->n_seqs = t->n_rows = t->n_decodes = t->max_ctx = t->scratch_blocks = 0;
	t->sum_ctx = 0;
	t->n_copies = b->n_copies;
	t->copies = b->copies;
	if (add_all(g, st, t))
		return err_no_memory(e, "page tables");
	/* The totals the simulator works with and the rows are one and the same batch. */
	if (t->n_decodes != b->decodes || t->sum_ctx != b->decode_ctx || t->n_rows != b->decodes + b->prefill_tokens)
		return err_set(e, ERR_INVARIANT,
			       "step %lld: its rows (%d decodes over %lld tokens, %d rows) are not its totals (%d over "
			       "%lld, %lld)",
			       (long long)b->step, t->n_decodes, (long long)t->sum_ctx, t->n_rows, b->decodes,
			       (long long)b->decode_ctx, (long long)(b->decodes + b->prefill_tokens));
	return ERR_NONE;
}
