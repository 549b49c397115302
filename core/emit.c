/* What a finished step means for each request: tokens come out, prompts are done, requests end. */
#include <string.h>

#include "core/engine_state.h"
#include "core/mem.h"
#include "core/order_fair.h"

static void tell_gap(struct engine *g, int64_t gap_ns, int64_t count)
{
	if (g->rec.gap && count > 0)
		g->rec.gap(g->rec.ctx, gap_ns, count);
}

static void tell_token(struct engine *g, int32_t req, int32_t n, int64_t end_ns)
{
	if (g->rec.token)
		g->rec.token(g->rec.ctx, req, n, end_ns);
}

/* --- the lazy cohort --------------------------------------------------------------------------------------------- */

/* Everybody in it had a token at end_ns. */
static void emit_uniform(struct engine *g, struct step *st, int64_t end_ns)
{
	struct cohort *c = &g->cohort;
	int32_t n = c->list.n - st->joined;
	int64_t apart = c->n_fresh;
	while (c->n_fresh) {
		struct slot *s = &g->slots[c->fresh[c->n_fresh - 1]];
		tell_gap(g, end_ns - s->last_ns, 1);
		cohort_clear_fresh(g, s);
	}
	tell_gap(g, end_ns - c->last_ns, n - apart);
	c->last_ns = end_ns;
	g->stats.output_tokens += n;
}

/* Only the scheduled ones had; the others were marked fresh when the step was planned. */
static void emit_some(struct engine *g, struct step *st, int64_t end_ns)
{
	for (int64_t i = 0; i < st->n_rows; i++) {
		const struct row *r = &st->rows[i];
		struct slot *s = &g->slots[r->slot];
		if (r->chunk >= 0 || s->epoch != r->epoch)
			continue;
		tell_gap(g, end_ns - cohort_last_ns(g, s), 1);
		cohort_clear_fresh(g, s);
		g->stats.output_tokens++;
	}
	g->cohort.last_ns = end_ns;
}

/* --- rows -------------------------------------------------------------------------------------------------------- */

/* A row's token, where each is accounted for by itself. */
static void emit_token(struct engine *g, struct slot *s, int64_t end_ns)
{
	struct request *r = &g->requests[s->req];
	if (r->first_token_ns < 0)
		r->first_token_ns = end_ns;
	else
		tell_gap(g, end_ns - r->last_token_ns, 1);
	r->last_token_ns = end_ns;
	tell_token(g, s->req, s->emitted, end_ns);
	s->emitted++;
	g->stats.output_tokens++;
	if (g->waiting.fair)
		fair_charge(g->waiting.fair, s->req, 0, 1);
}

static int emit_chunk(struct engine *g, struct step *st, const struct row *row, struct slot *s, int64_t end_ns)
{
	struct request *r = &g->requests[s->req];
	r->chunks++;
	if (row->samples)
		emit_token(g, s, end_ns);
	else if (row->completes) /* no output asked for: the end of its prefill stands for the first token */
		r->first_token_ns = r->last_token_ns = end_ns;
	if (!row->completes || g->flat)
		return ERR_NONE;
	if (st->was_empty && st->joined)
		g->cohort.last_ns = end_ns;
	else if (g->cohort.last_ns != end_ns)
		return cohort_set_fresh(g, s, end_ns);
	return ERR_NONE;
}

/* Forks of requests that have come so far with this step become ready. */
static int start_branches(struct engine *g, int64_t end_ns, struct err *e)
{
	struct cohort *c = &g->cohort;
	while (tick_heap_first(&c->branches) <= c->tick) {
		struct slot *s = &g->slots[c->branches.at[0].slot];
		if (fork_reached(g, s, slot_computed(g, s), end_ns, e))
			return ERR_MEMORY;
		cohort_branch(g, s);
	}
	return ERR_NONE;
}

/* The same for one row: tokens its request has computed with it. */
static int start_forks(struct engine *g, const struct step *st, const struct row *row, struct slot *s, int64_t end_ns)
{
	int32_t computed = s->prompt + s->emitted - 1;
	if (row->chunk >= 0) {
		const struct chunk *c = &st->chunks[row->chunk];
		computed = c->start + c->len - (c->pad || g->cfg.kv_off ? 0 : s->pad);
	} else if (!g->flat) {
		return ERR_NONE;
	}
	return fork_reached(g, s, computed, end_ns, &g->fault);
}

static int note_finished(struct engine *g, const struct slot *s)
{
	if (mem_grow((void **)&g->finished, &g->cap_finished, g->n_finished + 1, sizeof *g->finished))
		return err_no_memory(&g->fault, "finished requests");
	g->finished[g->n_finished++] = (int32_t)(s - g->slots);
	return ERR_NONE;
}

static int emit_rows(struct engine *g, struct step *st, int64_t end_ns)
{
	for (int64_t i = 0; i < st->n_rows; i++) {
		const struct row *row = &st->rows[i];
		struct slot *s = &g->slots[row->slot];
		/* It ended (perhaps held since) or was preempted while the step ran. */
		if (s->epoch != row->epoch || s->part == PART_HELD) {
			g->stats.wasted_tokens += row->tokens;
			continue;
		}
		if (row->chunk >= 0) {
			if (emit_chunk(g, st, row, s, end_ns))
				return ERR_MEMORY;
		} else if (g->flat && row->samples) {
			emit_token(g, s, end_ns);
		}
		if (s->next_fork < INT32_MAX && start_forks(g, st, row, s, end_ns))
			return ERR_MEMORY;
		if (g->flat && row->completes && s->emitted >= s->bound && note_finished(g, s))
			return ERR_MEMORY;
	}
	return ERR_NONE;
}

/* --- ends -------------------------------------------------------------------------------------------------------- */

int engine_note_ended(struct engine *g, int32_t req, int64_t now_ns, struct err *e)
{
	if (mem_grow((void **)&g->ended_list, &g->cap_ended, g->n_ended + 1, sizeof *g->ended_list))
		return err_no_memory(e, "ended requests");
	g->ended_list[g->n_ended++] = req;
	if (source_ended(g->src, req, now_ns, g->requests[req].state == REQUEST_FINISHED, e))
		return ERR_MEMORY;
	if (g->rec.ended)
		g->rec.ended(g->rec.ctx, req);
	return ERR_NONE;
}

static int finish(struct engine *g, struct slot *s, int64_t end_ns, struct err *e)
{
	int32_t req = s->req;
	struct request *r = &g->requests[req];
	r->outputs = g->flat ? s->emitted : slot_outputs(g, s);
	r->last_token_ns = end_ns;
	r->state = REQUEST_FINISHED;
	r->held_until_ns = end_ns;
	g->stats.finished++;
	predict_saw(&g->predictor, req, r->outputs);
	engine_event(g, EVENT_FINISH, end_ns, req, r->outputs, 0);
	/* The KV of its last token was never written. */
	if (g->cfg.prefix_caching && memory_ends(g, s, s->prompt + r->outputs - 1))
		return err_set(e, ERR_MEMORY, "%s", g->fault.text);
	if (g->policy->desc->on_finish) {
		g->in_finish = true;
		g->policy->desc->on_finish(g->policy->self, engine_plan(g), req);
		g->in_finish = false;
		s = &g->slots[g->slot_of[req]];
	}
	if (s->part == PART_HELD)
		engine_event(g, EVENT_HOLD, end_ns, req, 0, 0);
	else
		slot_drop(g, s);
	return engine_note_ended(g, req, end_ns, e);
}

/* Those whose tick has come, and those the backend says are at an end-of-sequence. */
static int collect_finished(struct engine *g, const struct step_result *res)
{
	struct cohort *c = &g->cohort;
	while (!g->flat && tick_heap_first(&c->ends) <= c->tick) {
		struct slot *s = &g->slots[c->ends.at[0].slot];
		tick_heap_take(&c->ends, (int32_t)(s - g->slots));
		if (note_finished(g, s))
			return ERR_MEMORY;
	}
	for (int32_t i = 0; i < res->n_eos; i++) {
		int32_t id = g->slot_of[res->eos[i]];
		bool known = id < 0;
		for (int64_t k = 0; k < g->n_finished; k++)
			known |= g->finished[k] == id;
		if (!known && note_finished(g, &g->slots[id]))
			return ERR_MEMORY;
	}
	return ERR_NONE;
}

/* In admission order; there are rarely more than two. */
static void sort_finished(struct engine *g)
{
	for (int64_t i = 1; i < g->n_finished; i++) {
		int32_t id = g->finished[i];
		int64_t k = i;
		for (; k > 0 && g->slots[g->finished[k - 1]].order > g->slots[id].order; k--)
			g->finished[k] = g->finished[k - 1];
		g->finished[k] = id;
	}
}

static int finish_all(struct engine *g, const struct step_result *res, int64_t end_ns, struct err *e)
{
	if (collect_finished(g, res))
		return err_set(e, ERR_MEMORY, "%s", g->fault.text);
	sort_finished(g);
	for (int64_t i = 0; i < g->n_finished; i++)
		if (finish(g, &g->slots[g->finished[i]], end_ns, e))
			return ERR_MEMORY;
	g->n_finished = 0;
	return g->fault.code ? err_set(e, g->fault.code, "%s", g->fault.text) : ERR_NONE;
}

/* --- accounts ---------------------------------------------------------------------------------------------------- */

/* What a step, begun then, waited for copies between tiers: only the first of several may have. */
static int64_t step_wait(const struct step_result *res, int64_t start_ns)
{
	return start_ns == res->start_ns ? res->transfer_ns : 0;
}

/* For whom it waited: those whose pages came back in it. */
static void tell_waits(struct engine *g, const struct step *st, const struct step_result *res)
{
	for (int64_t i = 0; i < st->n_back; i++) {
		const struct slot *s = &g->slots[st->back[i].slot];
		struct request *r = &g->requests[s->req];
		if (s->epoch != st->back[i].epoch)
			continue;
		r->transfer_ns += res->transfer_ns;
		if (r->first_token_ns < 0)
			r->transfer_in_prefill_ns += res->transfer_ns;
	}
}

static void account(struct engine *g, const struct step *st, int64_t start_ns, int64_t end_ns,
		    const struct step_result *res)
{
	struct engine_stats *t = &g->stats;
	const struct snapshot *m = &st->mem;
	int64_t dt = end_ns - start_ns;
	if (!t->steps)
		t->first_ns = start_ns;
	t->steps++;
	t->end_ns = end_ns;
	t->busy_ns += dt;
	t->host_ns += res->host_ns;
	t->transfer_ns += step_wait(res, start_ns);
	if (res->outside > 0) {
		t->outside_steps++;
		if (res->outside > t->outside_max)
			t->outside_max = res->outside;
	}
	if (m->used > t->max_blocks_used)
		t->max_blocks_used = m->used;
	/* Exact: products of slots and nanoseconds outgrow 64 bits. */
	g->usage.token += (__int128)m->tokens * dt;
	g->usage.used += (__int128)m->used * dt;
	if (m->shared)
		g->usage.shared += (__int128)m->shared * dt;
	if (g->contiguous) {
		g->usage.reserved += (__int128)m->reserved * dt;
		g->usage.external += (__int128)m->external * dt;
	}
}

static void tell_step(struct engine *g, const struct step *st, int64_t start_ns, int64_t end_ns,
		      const struct step_result *res)
{
	if (!g->rec.step)
		return;
	const struct batch *b = &st->batch;
	struct step_row row = {.step = b->step,
			       .start_ns = start_ns,
			       .end_ns = end_ns,
			       .host_ns = res->host_ns,
			       .decodes = b->decodes,
			       .chunks = b->n_chunks,
			       .sampled = b->sampled,
			       .prefill_tokens = b->prefill_tokens,
			       .decode_ctx = b->decode_ctx,
			       .running = b->running,
			       .waiting = st->mem.waiting,
			       .preempted = st->preempted,
			       .replica = g->cfg.replica,
			       .blocks_used = st->mem.used,
			       .blocks_cached = st->mem.cached,
			       .outside = res->outside,
			       .transfer_ns = step_wait(res, start_ns)};
	if (res->part_ns)
		memcpy(row.part_ns, res->part_ns, sizeof row.part_ns);
	g->rec.step(g->rec.ctx, &row);
}

/* A uniform batch run once more: what planning it again would have done. */
static int repeat_uniform(struct engine *g, struct step *st)
{
	int32_t taken = g->contiguous ? 0 : cohort_take_blocks(g), n = g->cohort.list.n;
	if (taken < 0)
		return ERR_MEMORY;
	struct batch *b = &st->batch;
	b->step++;
	b->decode_ctx += b->decodes;
	b->decode_ctx_window += b->window_growing;
	if (g->held.n) {
		g->stats.pad_tokens += g->held.n;
		g->held_ctx += g->held.n;
		g->held_ticks++;
	}
	if (cohort_advance(g, st))
		return ERR_MEMORY;
	st->mem.used += taken;
	st->mem.cached = g->pool.n_cached;
	st->mem.tokens += n;
	st->mem.reserved -= g->contiguous ? n : 0;
	return ERR_NONE;
}

/* The rest of a run of uniform steps where nobody wants to hear of each: the sums in closed form, the wheel turned once
 * per step. */
static int repeat_quietly(struct engine *g, struct step *st, const struct step_result *res)
{
	int64_t more = res->steps - 1, n = g->cohort.list.n, start_ns = res->end_ns[0];
	int64_t dt = res->end_ns[more] - start_ns;
	struct wheel_run run;
	if (cohort_turn_run(g, start_ns, res->end_ns + 1, more, &run))
		return ERR_MEMORY;
	/* Tokens grow by n with each step, blocks as the wheel gave them. */
	g->usage.token += (__int128)st->mem.tokens * dt + (__int128)n * run.step_ns;
	g->usage.used += (__int128)st->mem.used * dt + run.block_ns;
	if (st->mem.shared)
		g->usage.shared += (__int128)st->mem.shared * dt;
	if (g->contiguous) {
		g->usage.reserved += (__int128)st->mem.reserved * dt - (__int128)n * run.step_ns;
		g->usage.external += (__int128)st->mem.external * dt;
	}
	if (!g->rec.run)
		for (int64_t i = 1; i <= more; i++)
			tell_gap(g, res->end_ns[i] - res->end_ns[i - 1], n);
	cohort_add_ticks(g, more);
	struct engine_stats *t = &g->stats;
	t->steps += more;
	t->end_ns = g->cohort.last_ns = res->end_ns[more];
	t->busy_ns += dt;
	t->host_ns += res->host_ns * more;
	t->outside_steps += res->outside > 0 ? more : 0;
	t->output_tokens += n * more;
	t->pad_tokens += g->held.n * more;
	g->held_ctx += g->held.n * more;
	g->held_ticks += g->held.n ? more : 0;
	if (st->mem.used + run.taken > t->max_blocks_used)
		t->max_blocks_used = st->mem.used + run.taken;
	return ERR_NONE;
}

/* One step, the cohort's part of it. */
static void emit_one(struct engine *g, struct step *st, const struct step_result *res, int64_t start_ns, int64_t end_ns)
{
	account(g, st, start_ns, end_ns, res);
	if (st->n_pages && memory_commit(g, st))
		return; /* in g->fault, which ends the run */
	if (st->uniform)
		emit_uniform(g, st, end_ns);
	else if (st->cohort_rows && !g->flat)
		emit_some(g, st, end_ns);
	tell_step(g, st, start_ns, end_ns, res);
}

/* A run whose first step, too, is nothing but its end to whoever listens: one call tells all of it. */
static bool is_plain_run(const struct engine *g, const struct step *st, const struct step_result *res)
{
	return g->rec.run && st->uniform && !st->acts && !g->cohort.n_fresh && res->start_ns == g->cohort.last_ns;
}

static int emit_quietly(struct engine *g, struct step *st, const struct step_result *res)
{
	int64_t n = g->cohort.list.n - st->joined;
	bool plain = is_plain_run(g, st, res);
	if (plain) {
		account(g, st, res->start_ns, res->end_ns[0], res);
		g->cohort.last_ns = res->end_ns[0];
		g->stats.output_tokens += n;
	} else {
		emit_one(g, st, res, res->start_ns, res->end_ns[0]);
	}
	if (res->steps > 1 && repeat_quietly(g, st, res))
		return ERR_MEMORY;
	if (plain)
		g->rec.run(g->rec.ctx, res->start_ns, res->end_ns, res->steps, n);
	else if (g->rec.run && res->steps > 1)
		g->rec.run(g->rec.ctx, res->end_ns[0], res->end_ns + 1, res->steps - 1, n);
	return ERR_NONE;
}

static int emit_aloud(struct engine *g, struct step *st, const struct step_result *res)
{
	emit_one(g, st, res, res->start_ns, res->end_ns[0]);
	for (int64_t i = 1; i < res->steps; i++) {
		if (repeat_uniform(g, st))
			return ERR_MEMORY;
		emit_one(g, st, res, res->end_ns[i - 1], res->end_ns[i]);
	}
	return ERR_NONE;
}

int emit_step(struct engine *g, struct step *st, const struct step_result *res, struct err *e)
{
	/* A tree takes in nothing while its requests decode. */
	bool quiet = (g->rec.run || !g->rec.step) && (!g->cfg.prefix_caching || g->pool.cache->tree);
	if (st->n_back)
		tell_waits(g, st, res);
	if (quiet ? emit_quietly(g, st, res) : emit_aloud(g, st, res))
		return err_set(e, ERR_MEMORY, "%s", g->fault.text);
	/* Repeats were steps of their own: they take the numbers that planning each would have given. */
	g->begun += res->steps - 1;
	g->ended += res->steps - 1;
	int64_t end_ns = res->end_ns[res->steps - 1];
	if (emit_rows(g, st, end_ns))
		return err_set(e, ERR_MEMORY, "%s", g->fault.text);
	if (g->cohort.branches.n && start_branches(g, end_ns, e))
		return ERR_MEMORY;
	return finish_all(g, res, end_ns, e);
}
