/* tape_player.c: a backend that answers with what was recorded, and notices when it is asked for something else. */
#include <stdarg.h>
#include <stdio.h>

#include "core/engine.h"
#include "core/err.h"
#include "core/mem.h"
#include "core/tables.h"
#include "exec/tape.h"
#include "exec/tape_batch.h"

enum { REPEATS = 4096 }; /* steps given back at once, at most */
#define LATEST_NS (INT64_C(1) << 61) /* 73 years: anything later is no time */

struct player {
	const struct tape *tape;
	int64_t at; /* the entry that comes next */
	int64_t clock_ns; /* the latest reading or end that was given */
	int64_t end_ns; /* of the last step */
	int64_t host_ns; /* of all steps */
	const struct engine *engine;
	struct tape_flights flights;
	struct batch_tables tables; /* only built for steps that ended a sequence */
	struct err fault; /* found where it could not be said: told with the next call */
	volatile int stop;
	const volatile int *also; /* the user's */
	int64_t *open; /* [n_open] copies that were started and not told of, growing */
	int64_t n_open, cap_open;
	int64_t *done; /* told of last */
	int64_t cap_done;
	int64_t ends[REPEATS];
};

/* --- what may be wrong -------------------------------------------------------------------------------------------- */

static int64_t step_of(const struct player *p)
{
	const struct tape_flight *f = tape_flight_oldest(&p->flights);
	return f ? f->step : p->flights.begun ? p->flights.at[(p->flights.begun - 1) & 1].step + 1 : 0;
}

__attribute__((format(printf, 3, 4))) static int part_ways(const struct player *p, struct err *e, const char *fmt, ...)
{
	char what[400];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(what, sizeof what, fmt, ap);
	va_end(ap);
	return err_set(e, ERR_INPUT,
		       "step %lld: %s (entry %lld of %lld): the recording is of another workload, policy or version",
		       (long long)step_of(p), what, (long long)p->at + 1, (long long)p->tape->n);
}

/* The recording has ended. Of a run that was stopped there, so has the run. */
static int past_end(const struct player *p, struct err *e)
{
	if (p->tape->interrupted)
		return err_set(e, ERR_INTERRUPTED, "interrupted, as the recorded run was");
	return part_ways(p, e, "the recording ends here, but the engine goes on");
}

static bool at_end(const struct player *p)
{
	return p->at >= p->tape->n;
}

/* Where a run was stopped, and when the user says so. */
static void look_for_stop(struct player *p)
{
	if ((at_end(p) && p->tape->interrupted) || (p->also && *p->also))
		p->stop = 1;
}

static int told_fault(const struct player *p, struct err *e)
{
	return p->fault.code ? err_set(e, p->fault.code, "%s", p->fault.text) : ERR_NONE;
}

/* --- the clock ---------------------------------------------------------------------------------------------------- */

static int play_init(void *self, const struct engine *engine, struct err *e)
{
	struct player *p = self;
	(void)e;
	p->engine = engine;
	look_for_stop(p);
	return ERR_NONE;
}

/* An engine that walks its rows submits one by one what was recorded as repeats of one batch; between them the clock was
 * not read, and stands at the end of the last. */
static bool between_repeats(const struct player *p)
{
	return p->at > 0 && !at_end(p) && p->tape->entries[p->at].kind == TAPE_STEP &&
	       p->tape->entries[p->at - 1].kind == TAPE_STEP && !tape_flight_oldest(&p->flights);
}

static int64_t play_now(void *self)
{
	struct player *p = self;
	if (p->fault.code || between_repeats(p))
		return p->clock_ns;
	if (at_end(p)) {
		past_end(p, &p->fault);
		return p->clock_ns;
	}
	const struct tape_entry *x = &p->tape->entries[p->at];
	if (x->kind != TAPE_NOW)
		part_ways(p, &p->fault, "the engine reads the clock where %s",
			  x->kind == TAPE_STEP ? "a step came back" : "a copy between tiers was done");
	else if (x->a_ns < p->clock_ns || x->a_ns > LATEST_NS)
		part_ways(p, &p->fault, "the clock goes from %lld to %lld ns", (long long)p->clock_ns,
			  (long long)x->a_ns);
	else
		p->clock_ns = x->a_ns;
	p->at++;
	look_for_stop(p);
	return p->clock_ns;
}

static int play_wait_until(void *self, int64_t t_ns, struct err *e)
{
	struct player *p = self;
	int rc = told_fault(p, e);
	look_for_stop(p);
	if (rc)
		return rc;
	if (at_end(p))
		return past_end(p, e);
	const struct tape_entry *x = &p->tape->entries[p->at];
	/* The end of a copy ends a wait, too. */
	if (x->kind != TAPE_NOW || (x->a_ns < t_ns && !p->n_open))
		return part_ways(p, e, "the engine waits until %lld ns, where the recording has %s at %lld ns",
				 (long long)t_ns, x->kind == TAPE_NOW ? "a clock reading" : "something else",
				 (long long)x->a_ns);
	return ERR_NONE;
}

/* --- steps -------------------------------------------------------------------------------------------------------- */

/* Also so that no sum of times can overflow. */
static bool can_have_happened(const struct player *p, const struct tape_entry *x)
{
	bool parts_fit = true;
	for (int i = 0; x->measured && i < STEP_PARTS; i++)
		parts_fit = parts_fit && x->part_ns[i] >= 0 && x->part_ns[i] <= LATEST_NS;
	return parts_fit && x->a_ns >= 0 && x->b_ns >= x->a_ns && x->b_ns >= p->end_ns && x->b_ns <= LATEST_NS &&
	       x->transfer_ns >= 0 && x->transfer_ns <= x->b_ns - x->a_ns && x->host_ns >= 0 &&
	       x->host_ns <= LATEST_NS - p->host_ns;
}

/* Does entry x stand for the batch's i-th repetition, and can it have happened? */
static int check_step(const struct player *p, const struct tape_entry *x, int64_t i, struct err *e)
{
	if (x->kind != TAPE_STEP)
		return part_ways(p, e, "the engine waits for a step where %s",
				 x->kind == TAPE_NOW ? "the clock was read" : "a copy between tiers was done");
	if (x->batch != tape_flight_digest(&p->flights, i))
		return part_ways(p, e, "the engine runs another batch than was recorded");
	return can_have_happened(p, x) ? ERR_NONE
				       : part_ways(p, e, "its times (%lld to %lld ns) are impossible",
						   (long long)x->a_ns, (long long)x->b_ns);
}

/* May x be the next repetition in the same answer as the one before it? */
static bool goes_with(const struct player *p, const struct tape_entry *x, int64_t i)
{
	const struct tape_entry *before = x - 1;
	const struct tape_flight *f = tape_flight_oldest(&p->flights);
	return i < f->repeat && i < REPEATS && x->kind == TAPE_STEP && x->a_ns == before->b_ns &&
	       x->a_ns < f->until_ns && x->host_ns == before->host_ns && !x->transfer_ns &&
	       !(x->outside > before->outside) && !(x->outside < before->outside) && !x->measured &&
	       !before->measured && before->n_eos == 0;
}

/* Only a sequence that had a token may have ended with it. */
static int check_eos(struct player *p, const struct batch *b, const struct tape_entry *x, struct err *e)
{
	const struct tape *t = p->tape;
	if (x->eos_at < 0 || x->n_eos < 0 || x->n_eos > t->n_eos - x->eos_at)
		return part_ways(p, e, "its ends of sequences are missing");
	int rc = batch_build(p->engine, b, &p->tables, e);
	for (int32_t i = 0; rc == ERR_NONE && i < x->n_eos; i++) {
		bool had_token = false;
		for (int32_t s = 0; !had_token && s < p->tables.n_seqs; s++)
			had_token =
				p->tables.req[s] == t->eos[x->eos_at + i] && p->tables.samples[s] && !p->tables.held[s];
		if (!had_token)
			rc = part_ways(p, e, "request %d ended without having had a token", t->eos[x->eos_at + i]);
	}
	return rc;
}

/* The entry that answers the batch submitted last: the first step from here on, past the one that another in flight is
 * waiting for. */
static const struct tape_entry *answer_to_last(const struct player *p)
{
	int64_t nth = p->flights.begun - p->flights.ended;
	for (int64_t i = p->at; i < p->tape->n; i++)
		if (p->tape->entries[i].kind == TAPE_STEP && --nth == 0)
			return &p->tape->entries[i];
	return NULL;
}

static int play_submit(void *self, const struct batch *b, struct err *e)
{
	struct player *p = self;
	int rc = told_fault(p, e);
	if (rc == ERR_NONE)
		rc = tape_flight_begin(&p->flights, b, e);
	if (rc)
		return rc;
	const struct tape_entry *x = answer_to_last(p);
	return x && x->n_eos ? check_eos(p, b, x, e) : ERR_NONE;
}

static int play_wait(void *self, struct step_result *out, struct err *e)
{
	struct player *p = self;
	int rc = told_fault(p, e);
	if (rc)
		return rc;
	if (!tape_flight_oldest(&p->flights))
		return err_set(e, ERR_INVARIANT, "the engine waits for a step, but none is in flight");
	if (at_end(p))
		return past_end(p, e);
	const struct tape_entry *x = &p->tape->entries[p->at];
	int64_t n = 0;
	do {
		rc = check_step(p, &p->tape->entries[p->at], n, e);
		if (rc)
			return rc;
		p->host_ns += p->tape->entries[p->at].host_ns;
		p->end_ns = p->ends[n++] = p->tape->entries[p->at++].b_ns;
	} while (!at_end(p) && goes_with(p, &p->tape->entries[p->at], n));
	const struct tape_entry *last = &x[n - 1];
	*out = (struct step_result){.steps = n,
				    .end_ns = p->ends,
				    .start_ns = x->a_ns,
				    .host_ns = x->host_ns,
				    .part_ns = x->measured ? x->part_ns : NULL,
				    .eos = last->n_eos ? p->tape->eos + last->eos_at : NULL,
				    .n_eos = last->n_eos,
				    .transfer_ns = x->transfer_ns,
				    .outside = x->outside};
	if (p->end_ns > p->clock_ns)
		p->clock_ns = p->end_ns;
	tape_flight_end(&p->flights);
	look_for_stop(p);
	return ERR_NONE;
}

/* --- copies between tiers ------------------------------------------------------------------------------------------ */

static int play_transfer(void *self, const struct transfer *t, struct err *e)
{
	struct player *p = self;
	int rc = told_fault(p, e);
	if (rc)
		return rc;
	if (mem_grow((void **)&p->open, &p->cap_open, p->n_open + 1, sizeof *p->open) ||
	    mem_grow((void **)&p->done, &p->cap_done, p->n_open + 1, sizeof *p->done))
		return err_no_memory(e, "copies between tiers");
	p->open[p->n_open++] = t->ticket;
	return ERR_NONE;
}

static bool take_open(struct player *p, int64_t ticket)
{
	int64_t at = 0;
	while (at < p->n_open && p->open[at] != ticket)
		at++;
	if (at == p->n_open)
		return false;
	p->n_open--;
	for (; at < p->n_open; at++)
		p->open[at] = p->open[at + 1];
	return true;
}

static int play_transfers_done(void *self, struct transfer_news *out, struct err *e)
{
	struct player *p = self;
	int rc = told_fault(p, e);
	*out = (struct transfer_news){.done = p->done};
	for (; rc == ERR_NONE && !at_end(p) && p->tape->entries[p->at].kind == TAPE_COPY; p->at++) {
		if (!take_open(p, p->tape->entries[p->at].a_ns))
			return part_ways(p, e, "copy %lld between tiers is done, which is not under way",
					 (long long)p->tape->entries[p->at].a_ns);
		p->done[out->n++] = p->tape->entries[p->at].a_ns;
	}
	look_for_stop(p);
	return rc;
}

static int64_t play_transfer_next_ns(void *self)
{
	(void)self;
	return INT64_MAX;
}

static void play_close(void *self)
{
	struct player *p = self;
	batch_tables_free(&p->tables);
	mem_free(p->open);
	mem_free(p->done);
	mem_free(p);
}

static const struct backend_ops player_ops = {.name = "replay",
					      .init = play_init,
					      .now = play_now,
					      .wait_until = play_wait_until,
					      .submit = play_submit,
					      .wait = play_wait,
					      .transfer = play_transfer,
					      .transfers_done = play_transfers_done,
					      .transfer_next_ns = play_transfer_next_ns,
					      .close = play_close};

int tape_player_create(struct backend *out, const struct tape *t, struct err *e)
{
	struct player *p = mem_zalloc(1, sizeof *p);
	if (!p)
		return err_no_memory(e, "the player of a recording");
	p->tape = t;
	*out = (struct backend){&player_ops, p};
	return ERR_NONE;
}

const volatile int *tape_player_stop(struct backend *b, const volatile int *stop)
{
	struct player *p = b->self;
	p->also = stop;
	look_for_stop(p);
	return &p->stop;
}

int tape_player_finish(const struct backend *b, struct err *e)
{
	const struct player *p = b->self;
	int rc = told_fault(p, e);
	if (rc || at_end(p))
		return rc;
	return part_ways(p, e, "the engine is done, but the recording goes on");
}
