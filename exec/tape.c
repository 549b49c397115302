/* tape.c: the recording itself, and the backend that makes it. */
#include "exec/tape.h"

#include <string.h>

#include "core/err.h"
#include "core/mem.h"
#include "exec/tape_batch.h"

/* --- the recording ------------------------------------------------------------------------------------------------ */

void tape_free(struct tape *t)
{
	mem_free(t->entries);
	mem_free(t->eos);
	*t = (struct tape){0};
}

static int make_room(struct tape *t, int64_t more, struct err *e)
{
	if (mem_grow((void **)&t->entries, &t->cap, t->n + more, sizeof *t->entries))
		return err_no_memory(e, "what the engine took in");
	return ERR_NONE;
}

int tape_add(struct tape *t, const struct tape_entry *x, struct err *e)
{
	if (make_room(t, 1, e))
		return ERR_MEMORY;
	t->entries[t->n++] = *x;
	return ERR_NONE;
}

int tape_add_eos(struct tape *t, const int32_t *eos, int32_t n, struct err *e)
{
	if (n == 0)
		return ERR_NONE;
	if (mem_grow((void **)&t->eos, &t->cap_eos, t->n_eos + n, sizeof *t->eos))
		return err_no_memory(e, "what the engine took in");
	memcpy(t->eos + t->n_eos, eos, (size_t)n * sizeof *eos);
	t->n_eos += n;
	return ERR_NONE;
}

/* --- the recorder ------------------------------------------------------------------------------------------------- */

struct recording {
	const struct backend *inner;
	struct tape *tape;
	struct tape_flights flights;
	bool lost; /* a clock reading found no room */
};

/* Reading the clock cannot fail: room for it is made before. An engine reads it once between any two other calls. */
static int ready_for_now(struct recording *r, struct err *e)
{
	if (r->lost)
		return err_no_memory(e, "what the engine took in");
	return make_room(r->tape, 2, e);
}

static int record_init(void *self, const struct engine *engine, struct err *e)
{
	struct recording *r = self;
	int rc = ready_for_now(r, e);
	return rc ? rc : r->inner->ops->init(r->inner->self, engine, e);
}

static int64_t record_now(void *self)
{
	struct recording *r = self;
	const struct tape_entry x = {.kind = TAPE_NOW, .a_ns = r->inner->ops->now(r->inner->self)};
	if (tape_add(r->tape, &x, NULL))
		r->lost = true;
	return x.a_ns;
}

static int record_wait_until(void *self, int64_t t_ns, struct err *e)
{
	struct recording *r = self;
	int rc = ready_for_now(r, e);
	return rc ? rc : r->inner->ops->wait_until(r->inner->self, t_ns, e);
}

static int record_submit(void *self, const struct batch *b, struct err *e)
{
	struct recording *r = self;
	int rc = ready_for_now(r, e);
	if (rc == ERR_NONE)
		rc = tape_flight_begin(&r->flights, b, e);
	return rc ? rc : r->inner->ops->submit(r->inner->self, b, e);
}

static int record_step(struct recording *r, const struct step_result *res, int64_t i, struct err *e)
{
	bool last = i == res->steps - 1;
	struct tape_entry x = {.kind = TAPE_STEP,
			       .a_ns = i ? res->end_ns[i - 1] : res->start_ns,
			       .b_ns = res->end_ns[i],
			       .host_ns = res->host_ns,
			       .batch = tape_flight_digest(&r->flights, i),
			       .eos_at = r->tape->n_eos,
			       .n_eos = last ? res->n_eos : 0,
			       .measured = res->part_ns != NULL,
			       .transfer_ns = i ? 0 : res->transfer_ns,
			       .outside = res->outside};
	if (res->part_ns)
		memcpy(x.part_ns, res->part_ns, sizeof x.part_ns);
	int rc = tape_add_eos(r->tape, res->eos, x.n_eos, e);
	return rc ? rc : tape_add(r->tape, &x, e);
}

static int record_wait(void *self, struct step_result *out, struct err *e)
{
	struct recording *r = self;
	int rc = r->inner->ops->wait(r->inner->self, out, e);
	for (int64_t i = 0; rc == ERR_NONE && i < out->steps; i++)
		rc = record_step(r, out, i, e);
	tape_flight_end(&r->flights);
	return rc ? rc : ready_for_now(r, e);
}

static int record_transfer(void *self, const struct transfer *t, struct err *e)
{
	struct recording *r = self;
	if (!r->inner->ops->transfer)
		return err_set(e, ERR_INPUT, "backend %s has one tier of memory", r->inner->ops->name);
	return r->inner->ops->transfer(r->inner->self, t, e);
}

static int record_transfers_done(void *self, struct transfer_news *out, struct err *e)
{
	struct recording *r = self;
	int rc = r->inner->ops->transfers_done(r->inner->self, out, e);
	for (int32_t i = 0; rc == ERR_NONE && i < out->n; i++) {
		const struct tape_entry x = {.kind = TAPE_COPY, .a_ns = out->done[i]};
		rc = tape_add(r->tape, &x, e);
	}
	return rc ? rc : ready_for_now(r, e);
}

static int64_t record_transfer_next_ns(void *self)
{
	struct recording *r = self;
	return r->inner->ops->transfer_next_ns(r->inner->self);
}

static void record_close(void *self)
{
	mem_free(self);
}

static const struct backend_ops recorder_ops = {.name = "recorder",
						.init = record_init,
						.now = record_now,
						.wait_until = record_wait_until,
						.submit = record_submit,
						.wait = record_wait,
						.transfer = record_transfer,
						.transfers_done = record_transfers_done,
						.transfer_next_ns = record_transfer_next_ns,
						.close = record_close};

int tape_recorder_create(struct backend *out, const struct backend *inner, struct tape *t, struct err *e)
{
	struct recording *r = mem_zalloc(1, sizeof *r);
	if (!r)
		return err_no_memory(e, "the recorder");
	r->inner = inner;
	r->tape = t;
	*out = (struct backend){&recorder_ops, r};
	return ERR_NONE;
}

void tape_backend_free(struct backend *b)
{
	if (b->ops)
		b->ops->close(b->self);
	*b = (struct backend){0};
}
