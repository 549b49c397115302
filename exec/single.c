#include "exec/single.h"

#include <string.h>

#include "core/err.h"
#include "core/mem.h"
#include "exec/runner.h"

static int make_tables(struct single *s, struct err *e)
{
	struct batch_tables *t = &s->tables;
	int32_t pages = SINGLE_PAGES(s->max_tokens, s->block_size);
	t->req = mem_zalloc(1, sizeof *t->req);
	t->q_at = mem_zalloc(2, sizeof *t->q_at);
	t->ctx_len = mem_zalloc(1, sizeof *t->ctx_len);
	t->pad = mem_zalloc(1, sizeof *t->pad);
	t->dropped = mem_zalloc(1, sizeof *t->dropped);
	t->pad_rows = mem_zalloc(1, sizeof *t->pad_rows);
	t->first_token = mem_zalloc(1, sizeof *t->first_token);
	t->kv_indptr = mem_zalloc(2, sizeof *t->kv_indptr);
	t->kv_indices = mem_zalloc((size_t)pages, sizeof *t->kv_indices);
	t->slots = mem_zalloc((size_t)s->max_tokens, sizeof *t->slots);
	t->samples = mem_zalloc(1, 1);
	t->held = mem_zalloc(1, 1);
	s->tokens = mem_zalloc((size_t)s->max_tokens, sizeof *s->tokens);
	if (!t->req || !t->q_at || !t->ctx_len || !t->pad || !t->dropped || !t->pad_rows || !t->first_token ||
	    !t->kv_indptr || !t->kv_indices || !t->slots || !t->samples || !t->held || !s->tokens)
		return err_no_memory(e, "a sequence's tables");
	t->n_seqs = 1;
	return ERR_NONE;
}

int single_open(struct single *s, struct runner *r, int32_t block_size, int32_t max_tokens, bool kv_off, struct err *e)
{
	*s = (struct single){.runner = r, .block_size = block_size, .max_tokens = max_tokens, .kv_off = kv_off};
	return make_tables(s, e);
}

void single_close(struct single *s)
{
	batch_tables_free(&s->tables);
	mem_free(s->tokens);
	*s = (struct single){0};
}

void single_reset(struct single *s)
{
	s->n = s->outputs = s->gone = 0;
}

/* As the engine has it: before a piece of the prompt, and before a token that needs a new page. */
static void let_go(struct single *s)
{
	int32_t outside = s->n - s->kv_window + 1, gone = outside > 0 ? outside / s->block_size : 0;
	if (s->kv_window && (!s->outputs || s->n % s->block_size == 0) && gone > s->gone)
		s->gone = gone;
}

/* The pages that are left of `pages`; how many have gone. */
static int32_t list_pages(struct single *s, int32_t pages)
{
	int32_t sinks = SINGLE_PAGES(s->kv_sink, s->block_size), n = 0;
	for (int32_t i = 0; i < pages; i++)
		if (i < sinks || i >= s->gone)
			s->tables.kv_indices[n++] = i;
	s->tables.kv_indptr[1] = n;
	return pages - n;
}

/* Rows `from` to `to` of the sequence. */
static void fill_tables(struct single *s, int32_t from, int32_t to, bool samples)
{
	struct batch_tables *t = &s->tables;
	int32_t pages = SINGLE_PAGES(to, s->block_size);
	t->step++;
	t->n_rows = to - from;
	t->q_at[1] = t->n_rows;
	t->n_decodes = t->n_rows == 1;
	t->dropped[0] = list_pages(s, pages) * s->block_size;
	t->max_ctx = t->ctx_len[0] = to - t->dropped[0];
	t->sum_ctx = t->n_decodes ? t->ctx_len[0] : 0;
	t->first_token[0] = from;
	t->scratch_blocks = s->kv_off ? pages : 0;
	t->samples[0] = samples;
	for (int32_t i = from; i < to; i++)
		t->slots[i - from] = i; /* page i / block_size is the i / block_size-th */
}

int single_step(struct single *s, const int32_t *tokens, int32_t n, int32_t *sampled, struct err *e)
{
	if (n < 1 || n > s->max_tokens - s->n)
		return err_set(e, ERR_INVARIANT, "%d tokens after %d of at most %d", n, s->n, s->max_tokens);
	memcpy(s->tokens + s->n, tokens, (size_t)n * sizeof *tokens);
	int32_t from = s->kv_off ? 0 : s->n;
	struct step_output out;
	struct step_input in = {.tables = &s->tables, .row_tokens = s->tokens + from, .nth = &s->outputs};
	let_go(s);
	fill_tables(s, from, s->n + n, sampled != NULL);
	int rc = runner_step(s->runner, &in, &out, e);
	if (rc)
		return rc;
	s->n += n;
	if (sampled) {
		*sampled = out.tokens[0];
		s->outputs++;
	}
	return ERR_NONE;
}
