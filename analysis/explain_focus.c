/* One request in detail: who held what it waited for, whose prompts were in its way. */
#include <string.h>

#include "analysis/explain_state.h"
#include "core/engine.h"
#include "core/err.h"
#include "core/mem.h"

struct explain_focus_state {
	double *held; /* [n] blocks x ns, while the focus waited for memory or a place */
	double *prefilled; /* [n] ns of others' prompts in its way */
	int32_t *running; /* [n_running] */
	int32_t *place; /* [n] in it + 1; 0 = it is not */
	int32_t n_running;
	int32_t replica; /* that serves the focus; -1: it has not come */
	bool waits, queued;
	int64_t since_ns; /* it has waited */
};

int explain_focus_init(struct explain *x, const struct workload *w)
{
	size_t n = (size_t)w->n + 1;
	struct explain_focus_state *f = x->state->focus = mem_zalloc(1, sizeof *f);
	if (!f)
		return ERR_MEMORY;
	f->held = mem_zalloc(n, sizeof *f->held);
	f->prefilled = mem_zalloc(n, sizeof *f->prefilled);
	f->running = mem_alloc(n * sizeof *f->running);
	f->place = mem_zalloc(n, sizeof *f->place);
	x->focus.first_overtaker = -1;
	f->replica = -1;
	return f->held && f->prefilled && f->running && f->place ? ERR_NONE : ERR_MEMORY;
}

void explain_focus_free(struct explain *x)
{
	struct explain_focus_state *f = x->state->focus;
	if (!f)
		return;
	mem_free(f->held);
	mem_free(f->prefilled);
	mem_free(f->running);
	mem_free(f->place);
	mem_free(f);
}

static void add_running(struct explain_focus_state *f, int32_t req)
{
	f->running[f->n_running++] = req;
	f->place[req] = f->n_running;
}

static void drop_running(struct explain_focus_state *f, int32_t req)
{
	if (!f->place[req])
		return;
	int32_t at = f->place[req] - 1, last = f->running[--f->n_running];
	f->running[at] = last;
	f->place[last] = at + 1;
	f->place[req] = 0;
}

/* Several replicas: does the one of the focus serve it? */
static bool is_here(const struct explain *x, int32_t req)
{
	const struct explain_state *s = x->state;
	return engine_request(s->replicas[0]->engine, req)->replica == s->focus->replica;
}

static void on_own_event(struct explain *x, const struct event *ev)
{
	struct explain_focus_state *f = x->state->focus;
	switch (ev->kind) {
	case EVENT_ARRIVE:
		x->focus.ahead = (int32_t)(ev->a > 0 ? ev->a - 1 : 0);
		f->replica = ev->replica;
		for (int32_t i = 0; i < f->n_running; i++)
			x->focus.running += is_here(x, f->running[i]);
		f->waits = f->queued = true;
		f->since_ns = ev->at_ns;
		break;
	case EVENT_PREEMPT:
	case EVENT_SWAP_OUT:
		f->waits = true;
		f->since_ns = ev->at_ns;
		break;
	case EVENT_ADMIT:
	case EVENT_SWAP_IN:
	case EVENT_REJECT:
	case EVENT_ABORT:
		f->waits = f->queued = false;
		break;
	default:
		break;
	}
}

void explain_focus_event(struct explain *x, const struct event *ev)
{
	const struct explain_state *s = x->state;
	struct explain_focus_state *f = s->focus;
	if (ev->req == x->focus.req)
		on_own_event(x, ev);
	switch (ev->kind) {
	case EVENT_ADMIT:
		if (f->queued && !ev->b && ev->replica == f->replica &&
		    s->queue[ev->req].seq > s->queue[x->focus.req].seq && x->focus.overtakers++ == 0)
			x->focus.first_overtaker = ev->req;
		add_running(f, ev->req);
		break;
	case EVENT_SWAP_IN:
	case EVENT_HOLD:
		add_running(f, ev->req);
		break;
	case EVENT_PREEMPT:
	case EVENT_SWAP_OUT:
	case EVENT_FINISH:
	case EVENT_RELEASE:
	case EVENT_ABORT:
		drop_running(f, ev->req);
		break;
	default:
		break;
	}
}

/* ns go to the step's prompts by their tokens, the focus' own left out. */
static void blame_prompts(struct explain *x, const struct batch *b, double ns)
{
	struct explain_focus_state *f = x->state->focus;
	double tokens = 0;
	for (int32_t i = 0; i < b->n_chunks; i++)
		if (b->chunks[i].req != x->focus.req)
			tokens += b->chunks[i].len + b->chunks[i].pad;
	for (int32_t i = 0; tokens > 0 && i < b->n_chunks; i++)
		if (b->chunks[i].req != x->focus.req)
			f->prefilled[b->chunks[i].req] += ns * (b->chunks[i].len + b->chunks[i].pad) / tokens;
}

/* It waited while the step ran: for what somebody else had. */
void explain_focus_step(struct explain *x, const struct step_row *row)
{
	const struct explain_state *s = x->state;
	struct explain_focus_state *f = s->focus;
	int64_t from_ns = row->start_ns > f->since_ns ? row->start_ns : f->since_ns;
	double ns = (double)(row->end_ns - from_ns);
	if (!f->waits || row->replica != f->replica || ns <= 0)
		return;
	const struct explain_replica *r = s->replicas[f->replica];
	enum wait_cause cause = engine_waits_for(r->engine);
	if (cause == WAIT_PREFILL || cause == WAIT_BUDGET)
		blame_prompts(x, r->step.batch, ns);
	if (cause != WAIT_MEMORY && cause != WAIT_PLACE)
		return;
	for (int32_t i = 0; i < f->n_running; i++) {
		int32_t blocks; /* 0: another replica's */
		engine_block_table(r->engine, f->running[i], &blocks);
		f->held[f->running[i]] += ns * blocks;
	}
}

void explain_focus_turn(struct explain *x, const struct turn *t, int64_t slowed_ns)
{
	const struct batch *b = x->state->replicas[t->replica]->step.batch;
	int kind = t->kind == PHASE_DECODE ? 1 : t->kind == PHASE_RECOMPUTE ? 2 : 0;
	x->focus.turns[kind]++;
	x->focus.rows[kind] += b->decodes + b->n_chunks - 1;
	x->focus.tokens[kind] += b->prefill_tokens - (t->chunk ? t->tokens : 0);
	if (slowed_ns > 0)
		blame_prompts(x, b, (double)slowed_ns);
}

void explain_focus_phase(struct explain *x, const struct phase *p)
{
	struct history_sink keep = history_table_sink(&x->focus.story);
	keep.phase(keep.ctx, p);
	/* The steps that had no turn for it: the last stands for them. */
	const struct batch *b = x->state->replicas[p->replica]->step.batch;
	if (p->kind == PHASE_STALLED && !p->open && b)
		blame_prompts(x, b, (double)(p->end_ns - p->begin_ns));
}

/* The EXPLAIN_WHO largest, the first request among equals. */
static void list_largest(struct explain_list *l, const double *amount, int64_t n)
{
	int32_t any = 0;
	for (int64_t i = 0; i < n; i++) {
		if (!(amount[i] > 0))
			continue;
		l->total += amount[i];
		any++;
		int32_t at = l->n;
		for (; at > 0 && l->at[at - 1].amount < amount[i]; at--)
			if (at < EXPLAIN_WHO)
				l->at[at] = l->at[at - 1];
		if (at < EXPLAIN_WHO)
			l->at[at] = (struct explain_who){(int32_t)i, amount[i]};
		l->n += l->n < EXPLAIN_WHO;
	}
	l->others = any - l->n;
}

void explain_focus_finish(struct explain *x)
{
	const struct explain_focus_state *f = x->state->focus;
	list_largest(&x->focus.holders, f->held, x->n);
	list_largest(&x->focus.prefills, f->prefilled, x->n);
	history_table_sort(&x->focus.story, NULL);
}
