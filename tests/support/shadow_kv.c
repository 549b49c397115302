#include "tests/support/shadow_kv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/err.h"
#include "core/mem.h"

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

static bool copy_pages(struct shadow_kv *s, const struct engine_config *c, char *why)
{
	const struct batch_tables *t = &s->tables;
	for (int32_t i = 0; i < t->n_copies; i++) {
		int64_t src = (int64_t)t->copies[i].src * c->block_size,
			dst = (int64_t)t->copies[i].dst * c->block_size;
		if (src < 0 || dst < 0 || src == dst || src >= s->n_slots || dst >= s->n_slots)
			return WRONG("step %lld: page %d cannot be copied to page %d", (long long)t->step,
				     t->copies[i].src, t->copies[i].dst);
		memcpy(&s->slots[dst], &s->slots[src], (size_t)c->block_size * sizeof *s->slots);
		s->page_copies++;
	}
	return true;
}

/* Tokens with which a and b begin alike, as forks of each other or of a third. */
static int32_t common(const struct shadow_kv *s, const struct workload *w, int32_t a, int32_t b)
{
	int32_t most_a = INT32_MAX;
	for (int32_t x = a; x >= 0; x = s->parents[x]) {
		int32_t most = most_a;
		for (int32_t y = b; y >= 0; y = s->parents[y]) {
			if (x == y)
				return most;
			most = spec_fork_tokens(&w->specs[y]) < most ? spec_fork_tokens(&w->specs[y]) : most;
		}
		most_a = spec_fork_tokens(&w->specs[x]) < most_a ? spec_fork_tokens(&w->specs[x]) : most_a;
	}
	return 0;
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

static bool read_context(struct shadow_kv *s, int32_t q, const struct engine *g, char *why)
{
	const struct engine_config *c = engine_config(g);
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
		if (!whose && s->parents)
			whose = common(s, engine_workload(g), found->req, t->req[q]) > token;
		if (!found->step || found->token != token || !whose)
			return WRONG("step %lld: request %d reads token %d and finds token %d of request %d",
				     (long long)t->step, t->req[q], token, found->token, found->req);
	}
	return true;
}

/* --- copies between tiers ------------------------------------------------------------------------------------------ */

static void *must(void *p)
{
	if (!p) {
		fprintf(stderr, "shadow_kv: out of memory\n");
		exit(1);
	}
	return p;
}

static struct shadow_slot *page_at(struct shadow_kv *s, enum tier tier, int32_t page)
{
	int64_t bs = s->cfg->block_size, end = ((int64_t)page + 1) * bs;
	while (tier != TIER_DEVICE && end > s->n_behind) {
		int64_t n = 2 * end;
		for (int t = TIER_HOST; t <= TIER_DISK; t++) {
			s->behind[t] = must(realloc(s->behind[t], (size_t)n * sizeof *s->behind[t]));
			memset(s->behind[t] + s->n_behind, 0, (size_t)(n - s->n_behind) * sizeof *s->behind[t]);
		}
		s->n_behind = n;
	}
	return (tier == TIER_DEVICE ? s->slots : s->behind[tier]) + page * bs;
}

static void run_up_to(struct shadow_kv *s, enum tier from, enum tier to, int64_t ticket);

/* Does copy i, and before it what it waits for. */
static void run_copy(struct shadow_kv *s, int64_t i)
{
	struct shadow_copy c = s->copies[i];
	s->n_copies--;
	memmove(s->copies + i, s->copies + i + 1, (size_t)(s->n_copies - i) * sizeof c);
	for (int l = 0; l < N_LINKS; l++)
		for (int64_t k = 0; k < s->n_copies && c.after[l]; k++)
			if (s->copies[k].ticket == c.after[l]) {
				run_up_to(s, s->copies[k].from, s->copies[k].to, c.after[l]);
				break;
			}
	make_room(s, s->cfg);
	for (int32_t p = 0; p < c.n; p++) {
		page_at(s, c.to, c.dst[p]); /* makes room */
		const struct shadow_slot *from = page_at(s, c.from, c.src[p]);
		memcpy(page_at(s, c.to, c.dst[p]), from, (size_t)s->cfg->block_size * sizeof *s->slots);
	}
	free(c.src);
	free(c.dst);
}

/* Copies between two tiers are done in order. */
static void run_up_to(struct shadow_kv *s, enum tier from, enum tier to, int64_t ticket)
{
	for (int64_t i = 0; i < s->n_copies;) {
		const struct shadow_copy *c = &s->copies[i];
		if (c->ticket > ticket || c->from != from || c->to != to) {
			i++;
			continue;
		}
		run_copy(s, i);
		i = 0; /* it may have run others */
	}
}

static int shadow_transfer(void *self, const struct transfer *t, struct err *e)
{
	struct shadow_kv *s = self;
	size_t bytes = (size_t)t->n * sizeof *t->src;
	struct shadow_copy c = {.ticket = t->ticket,
				.from = t->from,
				.to = t->to,
				.src = must(malloc(bytes + 1)),
				.dst = must(malloc(bytes + 1)),
				.n = t->n};
	memcpy(c.after, t->after, sizeof c.after);
	memcpy(c.src, t->src, bytes);
	memcpy(c.dst, t->dst, bytes);
	s->copies = must(realloc(s->copies, (size_t)(s->n_copies + 1) * sizeof c));
	s->copies[s->n_copies++] = c;
	if (s->eager)
		run_up_to(s, t->from, t->to, t->ticket);
	return s->inner.ops->transfer(s->inner.self, t, e);
}

static int shadow_done(void *self, struct transfer_news *out, struct err *e)
{
	struct shadow_kv *s = self;
	int rc = s->inner.ops->transfers_done(s->inner.self, out, e);
	for (int32_t i = 0; i < out->n && !rc; i++)
		for (int64_t k = 0; k < s->n_copies; k++)
			if (s->copies[k].ticket == out->done[i]) {
				run_up_to(s, s->copies[k].from, s->copies[k].to, out->done[i]);
				break;
			}
	return rc;
}

static const struct backend_ops shadow_ops = {
	.name = "shadow", .transfer = shadow_transfer, .transfers_done = shadow_done};

void shadow_kv_backend(struct shadow_kv *s, const struct backend *inner, const struct engine_config *c,
		       struct backend *out)
{
	s->inner = *inner;
	s->cfg = c;
	*out = (struct backend){&shadow_ops, s};
}

bool shadow_kv_step(struct shadow_kv *s, const struct engine *g, const struct batch *b, char why[256])
{
	struct err e = {0};
	if (batch_build(g, b, &s->tables, &e))
		return WRONG("%.250s", e.text);
	if (!make_room(s, engine_config(g)))
		return WRONG("out of memory");
	if (b->after_out)
		run_up_to(s, TIER_DEVICE, TIER_HOST, b->after_out);
	if (b->after_in)
		run_up_to(s, TIER_HOST, TIER_DEVICE, b->after_in);
	if (!s->asked && workload_fork_parents(engine_workload(g), &s->parents, &e))
		return WRONG("out of memory");
	s->asked = true;
	if (!copy_pages(s, engine_config(g), why) || !write_rows(s, why))
		return false;
	for (int32_t q = 0; q < s->tables.n_seqs; q++)
		if (!read_context(s, q, g, why))
			return false;
	return true;
}

void shadow_kv_free(struct shadow_kv *s)
{
	batch_tables_free(&s->tables);
	free(s->slots);
	free(s->behind[TIER_HOST]);
	free(s->behind[TIER_DISK]);
	for (int64_t i = 0; i < s->n_copies; i++) {
		free(s->copies[i].src);
		free(s->copies[i].dst);
	}
	free(s->copies);
	mem_free(s->parents);
	*s = (struct shadow_kv){0};
}
