#include "analysis/validate_watch.h"

#include "core/err.h"
#include "core/mem.h"
#include "core/rng.h"
#include "exec/tape.h"
#include "sim/backend.h"

static int watch_init(void *self, const struct engine *engine, struct err *e)
{
	struct watch *w = self;
	w->engine = engine;
	int rc = w->inner.ops->init(w->inner.self, engine, e);
	return rc || !w->play ? rc : w->player.ops->init(w->player.self, engine, e);
}

static const struct backend *clock_of(const struct watch *w)
{
	return w->play ? &w->player : &w->inner;
}

static int64_t watch_now(void *self)
{
	const struct backend *b = clock_of(self);
	return b->ops->now(b->self);
}

static int watch_wait_until(void *self, int64_t t_ns, struct err *e)
{
	struct watch *w = self;
	const struct backend *b = clock_of(w);
	w->idle = true;
	return b->ops->wait_until(b->self, t_ns, e);
}

/* --- what a step is ----------------------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t h, int64_t v)
{
	return rng_mix(h ^ (uint64_t)v);
}

/* Who computes which tokens, what they see, and in which blocks it lies. */
static int digest_tables(struct watch *w, const struct batch *b, uint64_t *digest, struct err *e)
{
	struct batch_tables *t = &w->scratch;
	int rc = batch_build(w->engine, b, t, e);
	if (rc)
		return rc;
	uint64_t h = mix(0, t->n_seqs);
	for (int32_t s = 0; s < t->n_seqs; s++) {
		h = mix(h, t->req[s]);
		h = mix(h, (int64_t)t->ctx_len[s] << 32 | t->first_token[s]);
		h = mix(h, (int64_t)(t->q_at[s + 1] - t->q_at[s]) << 32 | t->pad[s]);
		for (int32_t i = t->kv_indptr[s]; i < t->kv_indptr[s + 1]; i++)
			h = mix(h, t->kv_indices[i]);
	}
	for (int32_t r = 0; r < t->n_rows; r++)
		h = mix(h, t->slots[r]);
	*digest = h ? h : 1;
	return ERR_NONE;
}

static enum validate_kind kind_of(const struct batch *b)
{
	if (!b->n_chunks)
		return VALIDATE_DECODES;
	return b->decodes ? VALIDATE_MIXED : VALIDATE_PREFILLS;
}

static int note_batch(struct watch *w, const struct batch *b, struct err *e)
{
	if (mem_grow((void **)&w->steps, &w->cap, w->n + 1, sizeof *w->steps))
		return err_no_memory(e, "steps");
	struct watch_step *s = &w->steps[w->n];
	*s = (struct watch_step){.kind = kind_of(b), .idle_before = w->idle};
	s->has_parts = sim_backend_parts(&w->inner, b, s->part_ns);
	int rc = w->tables ? digest_tables(w, b, &s->tables, e) : ERR_NONE;
	if (rc == ERR_NONE)
		w->n++;
	w->idle = false;
	return rc;
}

static void look_at_budget(struct watch *w)
{
	if (w->budget_ns && !w->over && w->n < w->first->n)
		w->over = w->spent_ns + w->first->steps[w->n].took_ns > w->budget_ns;
	if (!w->over)
		w->cut = w->n + 1;
}

static int watch_submit(void *self, const struct batch *b, struct err *e)
{
	struct watch *w = self;
	look_at_budget(w);
	int rc = note_batch(w, b, e);
	if (rc == ERR_NONE && !w->over)
		rc = w->inner.ops->submit(w->inner.self, b, e);
	return rc || !w->play ? rc : w->player.ops->submit(w->player.self, b, e);
}

/* --- what came of it ---------------------------------------------------------------------------------------------- */

static void note_result(struct watch_step *s, const struct step_result *own)
{
	s->took_ns = own->end_ns[0] - own->start_ns;
	s->host_ns = own->host_ns;
	s->outside = own->outside;
	if (!own->part_ns)
		return;
	s->has_parts = true;
	for (int i = 0; i < STEP_PARTS; i++)
		s->part_ns[i] = (double)own->part_ns[i];
}

static int wait_for_inner(struct watch *w, struct watch_step *s, struct step_result *out, struct err *e)
{
	int rc = w->inner.ops->wait(w->inner.self, out, e);
	if (rc)
		return rc;
	if (out->steps != 1)
		return err_set(e, ERR_INVARIANT, "a step that was to be watched came back as %lld",
			       (long long)out->steps);
	note_result(s, out);
	w->spent_ns += s->took_ns;
	return ERR_NONE;
}

static int watch_wait(void *self, struct step_result *out, struct err *e)
{
	struct watch *w = self;
	struct watch_step *s = &w->steps[w->waited];
	int rc = w->waited++ < w->cut ? wait_for_inner(w, s, out, e) : ERR_NONE;
	if (rc == ERR_NONE && w->play)
		rc = w->player.ops->wait(w->player.self, out, e);
	if (rc)
		return rc;
	s->start_ns = out->start_ns;
	s->end_ns = out->end_ns[0];
	w->busy_ns += s->end_ns - s->start_ns;
	if (w->progress)
		w->progress(w->ctx, w->waited, w->busy_ns);
	return ERR_NONE;
}

static int watch_transfer(void *self, const struct transfer *t, struct err *e)
{
	struct watch *w = self;
	/* Both have them: the kernels their pages, the player its tickets. */
	if (!w->over) {
		int rc = w->inner.ops->transfer
				 ? w->inner.ops->transfer(w->inner.self, t, e)
				 : err_set(e, ERR_INPUT, "backend %s has one tier of memory", w->inner.ops->name);
		if (rc || !w->play)
			return rc;
	}
	const struct backend *b = &w->player;
	return b->ops->transfer(b->self, t, e);
}

static int watch_transfers_done(void *self, struct transfer_news *out, struct err *e)
{
	const struct backend *b = clock_of(self);
	return b->ops->transfers_done(b->self, out, e);
}

static int64_t watch_transfer_next_ns(void *self)
{
	const struct backend *b = clock_of(self);
	return b->ops->transfer_next_ns(b->self);
}

/* The struct is the caller's: only what was needed while it ran goes. */
static void watch_close(void *self)
{
	struct watch *w = self;
	tape_backend_free(&w->player);
	batch_tables_free(&w->scratch);
	w->n = w->waited; /* what was in flight when it ended has no result */
	w->cut = w->cut < w->n ? w->cut : w->n;
}

static const struct backend_ops watch_ops = {.name = "watch",
					     .init = watch_init,
					     .now = watch_now,
					     .wait_until = watch_wait_until,
					     .submit = watch_submit,
					     .wait = watch_wait,
					     .transfer = watch_transfer,
					     .transfers_done = watch_transfers_done,
					     .transfer_next_ns = watch_transfer_next_ns,
					     .close = watch_close};

int watch_stand_before(struct watch *w, struct backend *b, struct err *e)
{
	w->inner = *b;
	w->player = (struct backend){0};
	int rc = w->play ? tape_player_create(&w->player, w->play, e) : ERR_NONE;
	if (rc == ERR_NONE)
		*b = (struct backend){&watch_ops, w};
	return rc;
}

void watch_free(struct watch *w)
{
	mem_free(w->steps);
	w->steps = NULL;
	w->n = w->cap = 0;
}
