/* The grid: numbers of rows dense where they are small (matrix products have steps there), contexts sparse (attention is
 * nearly affine in them). Each number has a level; a shot has its numbers' largest. Level 0 spans the whole range. */
#include <string.h>

#include "core/err.h"
#include "core/mem.h"
#include "exec/profiler_grid.h"

enum { NUMBERS = 64 };

struct numbers {
	int32_t at[NUMBERS];
	uint8_t level[NUMBERS];
	int32_t n;
};

static void put(struct numbers *l, int64_t x, uint8_t level, int64_t most)
{
	if (x > most || l->n == NUMBERS || (l->n && l->at[l->n - 1] >= x))
		return;
	l->at[l->n] = (int32_t)x;
	l->level[l->n++] = level;
}

/* 1, 2, 3, 4, 6, 8, 12, 16, ...: powers of two and what lies half-way; the largest as well. Powers of eight come first. */
static void rows_up_to(struct numbers *l, int32_t most)
{
	l->n = 0;
	for (int64_t power = 1, i = 0; power <= most; power *= 2, i++) {
		put(l, power, i % 3 == 0 ? 0 : 1, most);
		put(l, power + power / 2, 2, most);
	}
	if (l->at[l->n - 1] < most)
		put(l, most, 0, most);
	l->level[l->n - 1] = 0;
}

/* From `least` on, times four; the largest as well. */
static void contexts_up_to(struct numbers *l, int64_t least, int64_t most)
{
	l->n = 0;
	for (int64_t x = least, i = 0; x <= most; x *= 4, i++)
		put(l, x, i == 0 ? 0 : 1 + (i % 2 == 1), most);
	if (most > 0 && (!l->n || l->at[l->n - 1] < most)) {
		/* One just below the largest would tell nothing new. */
		if (l->n > 1 && (int64_t)l->at[l->n - 1] * 5 > most * 4)
			l->n--;
		put(l, most, 0, most);
	}
	if (l->n)
		l->level[l->n - 1] = 0;
}

static int add(struct profiler_result *r, int64_t *cap, struct profiler_shot shot, struct err *e)
{
	if (mem_grow((void **)&r->shots, cap, (int64_t)r->n_shots + 1, sizeof *r->shots))
		return err_no_memory(e, "the profiler's grid");
	r->shots[r->n_shots++] = shot;
	return ERR_NONE;
}

static uint8_t larger(uint8_t a, uint8_t b)
{
	return a > b ? a : b;
}

static int add_decodes(struct profiler_result *r, int64_t *cap, const struct profiler_setup *s, struct err *e)
{
	struct numbers rows, contexts;
	int rc = ERR_NONE;
	rows_up_to(&rows, s->max_seqs < s->max_tokens ? s->max_seqs : s->max_tokens);
	for (int32_t i = 0; i < rows.n; i++) {
		int64_t most = s->kv_tokens / rows.at[i];
		contexts_up_to(&contexts, s->max_context < 16 ? s->max_context : 16,
			       most < s->max_context ? most : s->max_context);
		for (int32_t k = 0; rc == ERR_NONE && k < contexts.n; k++)
			rc = add(r, cap,
				 (struct profiler_shot){.decodes = rows.at[i],
							.decode_ctx = contexts.at[k],
							.head = k == 0,
							.level = larger(rows.level[i], contexts.level[k])},
				 e);
	}
	return rc;
}

static int add_chunks(struct profiler_result *r, int64_t *cap, const struct profiler_setup *s, struct err *e)
{
	struct numbers rows, starts;
	int64_t longest = s->max_context < s->kv_tokens ? s->max_context : s->kv_tokens;
	int rc = ERR_NONE;
	rows_up_to(&rows, s->max_tokens < longest ? s->max_tokens : (int32_t)longest);
	for (int32_t i = 0; rc == ERR_NONE && i < rows.n; i++) {
		int32_t n = rows.at[i];
		/* Small chunks are rare, and mostly the products' time, which decodes tell as well. */
		uint8_t level = n < 16 && n > 1 ? 2 : rows.level[i];
		rc = add(r, cap, (struct profiler_shot){.chunk = n, .head = n == 1, .level = level}, e);
		contexts_up_to(&starts, 256, longest - n);
		for (int32_t k = 0; rc == ERR_NONE && k < starts.n; k++)
			rc = add(r, cap,
				 (struct profiler_shot){.chunk = n,
							.start = starts.at[k],
							/* From none to the longest tells most: it is a line. */
							.level = larger(level, k + 1 == starts.n ? 1 : 2)},
				 e);
	}
	return rc;
}

/* Whole steps of both kinds, to see whether parts add up. */
static int add_mixed(struct profiler_result *r, int64_t *cap, const struct profiler_setup *s, struct err *e)
{
	static const struct profiler_shot mixed[] = {{.decodes = 4, .decode_ctx = 200, .chunk = 100},
						     {.decodes = 12, .decode_ctx = 700, .chunk = 40, .start = 300},
						     {.decodes = 30, .decode_ctx = 300, .chunk = 220, .start = 100},
						     {.decodes = 7, .decode_ctx = 90, .chunk = 450},
						     {.decodes = 3, .decode_ctx = 12, .chunk = 9, .start = 5}};
	int rc = ERR_NONE;
	for (size_t i = 0; rc == ERR_NONE && i < sizeof mixed / sizeof *mixed; i++) {
		struct profiler_shot m = mixed[i];
		m.head = true;
		m.level = 1;
		if (m.decodes + m.chunk <= s->max_tokens && m.decodes <= s->max_seqs &&
		    m.decode_ctx <= s->max_context && m.chunk + m.start <= s->max_context &&
		    (int64_t)m.decodes * m.decode_ctx + m.chunk + m.start <= s->kv_tokens)
			rc = add(r, cap, m, e);
	}
	return rc;
}

static void order_by_level(struct profiler_result *r)
{
	/* Few, and done once: an insertion sort keeps their order within a level. */
	for (int32_t i = 1; i < r->n_shots; i++) {
		struct profiler_shot shot = r->shots[i];
		int32_t k = i;
		for (; k > 0 && r->shots[k - 1].level > shot.level; k--)
			r->shots[k] = r->shots[k - 1];
		r->shots[k] = shot;
	}
}

int profiler_grid(struct profiler_result *r, const struct profiler_setup *s, struct err *e)
{
	int64_t cap = 0;
	if (s->max_tokens < 1 || s->max_context < 1 || s->max_seqs < 1 || s->kv_tokens < 1 || s->block_size < 1)
		return err_set(
			e, ERR_INPUT,
			"nothing to measure with at most %d tokens, contexts of %d, %d sequences and %lld tokens of "
			"KV in blocks of %d",
			s->max_tokens, s->max_context, s->max_seqs, (long long)s->kv_tokens, s->block_size);
	int rc = add_decodes(r, &cap, s, e);
	if (rc == ERR_NONE)
		rc = add_chunks(r, &cap, s, e);
	if (rc == ERR_NONE)
		rc = add_mixed(r, &cap, s, e);
	if (rc == ERR_NONE)
		order_by_level(r);
	return rc;
}

int64_t profiler_pages(const struct profiler_shot *shot, int32_t block_size)
{
	int64_t each = ((int64_t)shot->decode_ctx + block_size - 1) / block_size;
	int64_t chunk = ((int64_t)shot->chunk + shot->start + block_size - 1) / block_size;
	return shot->decodes * each + chunk;
}
