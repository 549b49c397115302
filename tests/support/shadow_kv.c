#include "tests/support/shadow_kv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/err.h"

#define WRONG(...) (snprintf(why, 256, __VA_ARGS__), false)

static bool make_room(struct shadow_kv *s, const struct engine_config *c)
{
	int64_t n = (int64_t)(c->kv_off ? s->tables.scratch_blocks : c->num_blocks) * c->block_size;
	if (n <= s->n_slots)
		return true;
	struct shadow_slot *more = realloc(s->slots, (size_t)n * sizeof *more);
	if (!more)
		return false;
	memset(more + s->n_slots, 0, (size_t)(n - s->n_slots) * sizeof *more);
	s->slots = more;
	s->n_slots = n;
	return true;
}

static bool write_rows(struct shadow_kv *s, char *why)
{
	const struct batch_tables *t = &s->tables;
	for (int32_t q = 0; q < t->n_seqs; q++) {
		for (int32_t r = t->q_at[q]; r < t->q_at[q + 1]; r++) {
			int32_t place = r - t->q_at[q] - t->pad_rows[q];
			int64_t at = t->slots[r];
			if (at < 0)
				continue;
			if (at >= s->n_slots)
				return WRONG("step %lld: row %d goes to slot %lld of %lld", (long long)t->step, r,
					     (long long)at, (long long)s->n_slots);
			if (s->slots[at].step == t->step + 1)
				return WRONG("step %lld: requests %d and %d both write slot %lld", (long long)t->step,
					     s->slots[at].req, t->req[q], (long long)at);
			s->slots[at] = (struct shadow_slot){t->req[q], place < 0 ? -1 : t->first_token[q] + place,
							    t->step + 1};
		}
	}
	return true;
}

static bool read_context(struct shadow_kv *s, int32_t q, const struct engine_config *c, char *why)
{
	const struct batch_tables *t = &s->tables;
	int32_t rows = t->q_at[q + 1] - t->q_at[q], bs = c->block_size;
	int32_t last = t->first_token[q] + rows - t->pad_rows[q];
	if (!t->held[q] && last + t->pad[q] - t->dropped[q] != t->ctx_len[q])
		return WRONG("step %lld: request %d computes up to token %d, its context is %d with %d of padding",
			     (long long)t->step, t->req[q], last, t->ctx_len[q], t->pad[q]);
	for (int32_t j = t->pad[q]; j < t->ctx_len[q] && !t->held[q]; j++, s->reads++) {
		int64_t at = (int64_t)t->kv_indices[t->kv_indptr[q] + j / bs] * bs + j % bs;
		const struct shadow_slot *found = &s->slots[at];
		int32_t token = batch_token(t, q, j, bs);
		bool whose = found->req == t->req[q] || c->prefix_caching;
		if (!found->step || found->token != token || !whose)
			return WRONG("step %lld: request %d reads token %d and finds token %d of request %d",
				     (long long)t->step, t->req[q], token, found->token, found->req);
	}
	return true;
}

bool shadow_kv_step(struct shadow_kv *s, const struct engine *g, const struct batch *b, char why[256])
{
	struct err e = {0};
	if (batch_build(g, b, &s->tables, &e))
		return WRONG("%.250s", e.text);
	if (!make_room(s, engine_config(g)))
		return WRONG("out of memory");
	if (!write_rows(s, why))
		return false;
	for (int32_t q = 0; q < s->tables.n_seqs; q++)
		if (!read_context(s, q, engine_config(g), why))
			return false;
	return true;
}

void shadow_kv_free(struct shadow_kv *s)
{
	batch_tables_free(&s->tables);
	free(s->slots);
	*s = (struct shadow_kv){0};
}
