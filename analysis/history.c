/* Each request is in one state, whose story is told up to `at_ns`. A turn in a step carries it on to the step's end; what lies
 * between two turns is part of the later one, unless steps ran without it. */
#include "analysis/history.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/rerun.h"
#include "core/engine.h"
#include "core/err.h"
#include "core/mem.h"

const char *const phase_names[] = {"queued",    "prefill", "recompute", "decode", "stalled",
				   "preempted", "swapped", "loading",   "held",   NULL};

enum life_state { LIFE_NONE, LIFE_WAITING, LIFE_RUNNING, LIFE_LOADING, LIFE_HELD };

/* One request. */
struct life {
	uint8_t state; /* enum life_state */
	uint8_t waiting; /* enum phase_kind of its waiting */
	bool held; /* its row goes on after its last turn */
	uint32_t epoch; /* rows of an earlier one came to nothing */
	int32_t peak; /* tokens computed before a preemption */
	int32_t by, next_victim; /* who got its memory; chain of those of whom that is not known yet */
	int32_t replica;
	int64_t at_ns, step; /* told up to then; its last turn */
	int64_t back_step; /* in which its KV comes back while it goes on; -1 */
	int64_t waited_ns[WAIT_CAUSES]; /* before the waiting that goes on */
	struct {
		int64_t begin_ns, end_ns, first, last, tokens;
	} decode; /* a decode phase that may go on; first = -1: none */
};

struct row {
	int32_t req;
	uint32_t epoch;
	int32_t start, len;
	bool chunk;
};

/* The rows of a step that has not ended. */
struct rows {
	struct row *at; /* [n] */
	int64_t n, cap;
	int64_t step;
};

/* One engine. */
struct replica {
	const struct engine *engine;
	struct rows rows[2]; /* by step, as many as may be in flight */
	int64_t last_step; /* that ended; -1 */
	int64_t transfer_ns; /* of the step that ends */
	int32_t victims; /* first of the chain; -1 */
	int32_t *finished; /* [n_finished] with this step */
	int64_t n_finished, cap_finished;
};

struct history {
	struct history_sink sink;
	struct replica *replicas; /* [n_replicas] */
	int64_t n_replicas, cap_replicas;
	struct life *lives; /* [n] */
	int64_t n;
	int64_t now_ns;
	bool no_memory;
	bool over; /* the run is: what is told now was cut off */
};

int history_create(struct history **out, int64_t n, const struct history_sink *sink, struct err *e)
{
	struct history *h = mem_zalloc(1, sizeof *h);
	*out = NULL;
	if (h)
		h->lives = mem_zalloc((size_t)n + 1, sizeof *h->lives);
	if (!h || !h->lives) {
		history_free(h);
		return err_no_memory(e, "the history of a run");
	}
	h->sink = *sink;
	h->n = n;
	*out = h;
	return ERR_NONE;
}

void history_free(struct history *h)
{
	if (!h)
		return;
	for (int64_t m = 0; m < h->n_replicas; m++) {
		struct replica *x = &h->replicas[m];
		mem_free(x->finished);
		mem_free(x->rows[0].at);
		mem_free(x->rows[1].at);
	}
	mem_free(h->replicas);
	mem_free(h->lives);
	mem_free(h);
}

void history_engine(void *ctx, const struct engine *g)
{
	struct history *h = ctx;
	if (mem_grow((void **)&h->replicas, &h->cap_replicas, h->n_replicas + 1, sizeof *h->replicas))
		h->no_memory = true;
	else
		h->replicas[h->n_replicas++] = (struct replica){
			.engine = g, .last_step = -1, .victims = -1, .rows = {{.step = -1}, {.step = -1}}};
	if (h->sink.engine)
		h->sink.engine(h->sink.ctx, g);
}

static struct replica *replica_of(const struct history *h, int32_t req)
{
	return &h->replicas[h->lives[req].replica];
}

/* --- phases ------------------------------------------------------------------------------------------------------- */

static void tell(struct history *h, const struct phase *p)
{
	if (h->sink.phase && (p->end_ns > p->begin_ns || p->first_step >= 0))
		h->sink.phase(h->sink.ctx, p);
}

static void tell_decode(struct history *h, int32_t req)
{
	struct life *l = &h->lives[req];
	if (l->decode.first < 0)
		return;
	tell(h, &(struct phase){.req = req,
				.replica = l->replica,
				.kind = PHASE_DECODE,
				.begin_ns = l->decode.begin_ns,
				.end_ns = l->decode.end_ns,
				.first_step = l->decode.first,
				.last_step = l->decode.last,
				.tokens = l->decode.tokens,
				.by = -1});
	l->decode.first = -1;
}

/* From where its story ended until end_ns it was in a phase without a turn. */
static void tell_idle(struct history *h, int32_t req, enum phase_kind kind, int64_t end_ns)
{
	struct life *l = &h->lives[req];
	tell_decode(h, req);
	tell(h, &(struct phase){.req = req,
				.replica = l->replica,
				.kind = kind,
				.begin_ns = l->at_ns,
				.end_ns = end_ns,
				.first_step = -1,
				.last_step = replica_of(h, req)->last_step,
				.by = -1,
				.open = h->over});
	l->at_ns = end_ns;
}

/* It waits no more. */
static void tell_wait(struct history *h, int32_t req, int64_t end_ns, int64_t step)
{
	bool open = h->over;
	struct life *l = &h->lives[req];
	struct phase p = {.req = req,
			  .replica = l->replica,
			  .kind = (enum phase_kind)l->waiting,
			  .begin_ns = l->at_ns,
			  .end_ns = end_ns,
			  .first_step = -1,
			  .last_step = step,
			  .by = l->by,
			  .open = open};
	int64_t rest_ns = end_ns - l->at_ns;
	for (int c = 0; c < WAIT_CAUSES && !open; c++) {
		int64_t all_ns = engine_request(replica_of(h, req)->engine, req)->waited_ns[c];
		p.waited_ns[c] = all_ns - l->waited_ns[c];
		rest_ns -= p.waited_ns[c];
		l->waited_ns[c] = all_ns;
	}
	p.waited_ns[WAIT_ENTRY] += open ? 0 : rest_ns; /* of those turned away at the door */
	tell(h, &p);
	l->at_ns = end_ns;
}

/* What lies between its last turn and end_ns, where it stops running. */
static void tell_rest(struct history *h, int32_t req, int64_t end_ns)
{
	tell_idle(h, req, h->lives[req].state == LIFE_LOADING ? PHASE_LOADING : PHASE_STALLED, end_ns);
}

/* --- turns -------------------------------------------------------------------------------------------------------- */

static void add_row(struct history *h, const struct event *ev)
{
	struct rows *r = &replica_of(h, ev->req)->rows[ev->step & 1];
	if (r->step != ev->step)
		*r = (struct rows){.at = r->at, .cap = r->cap, .step = ev->step};
	if (mem_grow((void **)&r->at, &r->cap, r->n + 1, sizeof *r->at)) {
		h->no_memory = true;
		return;
	}
	r->at[r->n++] = (struct row){.req = ev->req,
				     .epoch = h->lives[ev->req].epoch,
				     .start = (int32_t)ev->a,
				     .len = ev->kind == EVENT_CHUNK ? (int32_t)ev->b : 1,
				     .chunk = ev->kind == EVENT_CHUNK};
}

/* Of a piece's tokens, those computed before. */
static int32_t lost_before(const struct life *l, const struct row *row)
{
	int32_t end = row->start + row->len, again = (end < l->peak ? end : l->peak) - row->start;
	return row->chunk && again > 0 ? again : 0;
}

static struct turn turn_of(const struct history *h, const struct row *row, const struct event *ev)
{
	const struct life *l = &h->lives[row->req];
	const struct replica *x = &h->replicas[l->replica];
	const struct request *r = engine_request(x->engine, row->req);
	struct turn t = {.req = row->req,
			 .replica = l->replica,
			 .kind = PHASE_DECODE,
			 .since_ns = l->at_ns,
			 .since_step = l->step,
			 .step = ev->step,
			 .start_ns = ev->a > l->at_ns ? ev->a : l->at_ns,
			 .end_ns = ev->b,
			 .tokens = row->len,
			 .ctx = row->start,
			 .chunk = row->chunk,
			 .first_token = r->first_token_ns == ev->b,
			 .transfer_ns = l->back_step == ev->step ? x->transfer_ns : 0};
	/* Without a KV cache the whole prompt is computed again for every token. */
	bool goes_on = engine_config(x->engine)->kv_off && r->first_token_ns >= 0 && !t.first_token;
	if (!row->chunk || goes_on)
		return t;
	t.again = engine_config(x->engine)->kv_off ? 0 : lost_before(l, row);
	t.kind = 2 * t.again > t.tokens ? PHASE_RECOMPUTE : PHASE_PREFILL;
	return t;
}

static void go_on_decoding(struct history *h, const struct turn *t, int64_t begin_ns)
{
	struct life *l = &h->lives[t->req];
	if (l->decode.first < 0) {
		l->decode.begin_ns = begin_ns;
		l->decode.first = t->step;
		l->decode.tokens = 0;
	}
	l->decode.end_ns = t->end_ns;
	l->decode.last = t->step;
	l->decode.tokens += t->tokens;
}

static void tell_turn(struct history *h, const struct row *row, const struct event *ev)
{
	struct life *l = &h->lives[row->req];
	struct turn t = turn_of(h, row, ev);
	if (t.step > l->step + 1)
		tell_idle(h, row->req, PHASE_STALLED, t.start_ns);
	int64_t loaded_ns = t.start_ns + t.transfer_ns;
	if (t.transfer_ns)
		tell_idle(h, row->req, PHASE_LOADING, loaded_ns < t.end_ns ? loaded_ns : t.end_ns);
	if (h->sink.turn)
		h->sink.turn(h->sink.ctx, &t);
	if (t.kind == PHASE_DECODE) {
		go_on_decoding(h, &t, l->at_ns);
	} else {
		tell_decode(h, row->req);
		tell(h, &(struct phase){.req = row->req,
					.replica = l->replica,
					.kind = t.kind,
					.begin_ns = l->at_ns,
					.end_ns = t.end_ns,
					.first_step = t.step,
					.last_step = t.step,
					.tokens = t.tokens,
					.again = t.again,
					.by = -1});
	}
	l->at_ns = t.end_ns;
	l->step = t.step;
}

/* The request has had its last turn. */
static void close_life(struct history *h, int32_t req)
{
	struct life *l = &h->lives[req];
	tell_decode(h, req);
	l->epoch++;
	l->state = l->held ? LIFE_HELD : LIFE_NONE;
}

static void end_step(struct history *h, const struct event *ev)
{
	struct replica *x = &h->replicas[ev->replica];
	struct rows *rows = &x->rows[ev->step & 1];
	for (int64_t i = 0; rows->step == ev->step && i < rows->n; i++)
		if (rows->at[i].epoch == h->lives[rows->at[i].req].epoch)
			tell_turn(h, &rows->at[i], ev);
	rows->n = 0;
	for (int64_t i = 0; i < x->n_finished; i++)
		close_life(h, x->finished[i]);
	x->n_finished = 0;
	x->last_step = ev->step;
	x->transfer_ns = 0;
	x->victims = -1;
}

/* --- events ------------------------------------------------------------------------------------------------------- */

/* Who is served next in the step is whom the memory was taken for. */
static void name_taker(struct history *h, struct replica *x, int32_t req)
{
	for (int32_t v = x->victims; v >= 0; v = h->lives[v].next_victim)
		if (v == req) /* let in again at once: nobody else's gain */
			return;
	for (int32_t v = x->victims; v >= 0; v = h->lives[v].next_victim)
		h->lives[v].by = req;
	x->victims = -1;
}

static void arrive(struct history *h, const struct event *ev)
{
	struct life *l = &h->lives[ev->req];
	*l = (struct life){.state = LIFE_WAITING,
			   .waiting = PHASE_QUEUED,
			   .by = -1,
			   .back_step = -1,
			   .replica = ev->replica,
			   .at_ns = engine_request(h->replicas[ev->replica].engine, ev->req)->arrival_ns};
	l->decode.first = -1;
}

static void let_in(struct history *h, const struct event *ev)
{
	struct life *l = &h->lives[ev->req];
	tell_wait(h, ev->req, ev->at_ns, ev->step);
	l->state = LIFE_RUNNING;
	l->step = ev->step - 1;
	l->by = -1;
	if (ev->kind == EVENT_SWAP_IN && ev->b)
		l->back_step = ev->step;
	else if (ev->kind == EVENT_SWAP_IN)
		l->state = LIFE_LOADING;
}

static void load(struct history *h, const struct event *ev)
{
	struct life *l = &h->lives[ev->req];
	if (engine_config(replica_of(h, ev->req)->engine)->kv_transfer == KV_TRANSFER_SYNC)
		l->back_step = ev->step;
	else
		l->state = LIFE_LOADING;
}

static void loaded(struct history *h, const struct event *ev)
{
	struct life *l = &h->lives[ev->req];
	tell_idle(h, ev->req, PHASE_LOADING, ev->at_ns);
	l->state = LIFE_RUNNING;
	l->step = replica_of(h, ev->req)->last_step;
}

static void lose_memory(struct history *h, const struct event *ev)
{
	struct life *l = &h->lives[ev->req];
	tell_rest(h, ev->req, ev->at_ns);
	l->epoch++;
	l->state = LIFE_WAITING;
	l->waiting = ev->kind == EVENT_PREEMPT ? PHASE_PREEMPTED : PHASE_SWAPPED;
	if (ev->kind == EVENT_PREEMPT && ev->a > l->peak)
		l->peak = (int32_t)ev->a;
	l->by = -1;
	l->next_victim = replica_of(h, ev->req)->victims;
	replica_of(h, ev->req)->victims = ev->req;
}

static void finish(struct history *h, const struct event *ev)
{
	struct replica *x = replica_of(h, ev->req);
	if (mem_grow((void **)&x->finished, &x->cap_finished, x->n_finished + 1, sizeof *x->finished))
		h->no_memory = true;
	else
		x->finished[x->n_finished++] = ev->req;
}

/* Rejected or aborted, whatever it was doing. */
static void cut_off(struct history *h, const struct event *ev)
{
	struct life *l = &h->lives[ev->req];
	if (l->state == LIFE_WAITING)
		tell_wait(h, ev->req, ev->at_ns, ev->step);
	else if (l->state != LIFE_NONE)
		tell_rest(h, ev->req, ev->at_ns);
	l->epoch++;
	l->state = LIFE_NONE;
}

static void release(struct history *h, const struct event *ev)
{
	tell_idle(h, ev->req, PHASE_HELD, ev->at_ns);
	h->lives[ev->req].state = LIFE_NONE;
}

static void serve(struct history *h, const struct event *ev)
{
	struct replica *x = &h->replicas[ev->replica];
	if (x->victims >= 0)
		name_taker(h, x, ev->req);
	if (ev->kind == EVENT_CHUNK || ev->kind == EVENT_DECODE)
		add_row(h, ev);
	else if (ev->kind != EVENT_BLOCK)
		let_in(h, ev);
}

void history_event(void *ctx, const struct event *ev)
{
	struct history *h = ctx;
	if (ev->replica >= h->n_replicas)
		return;
	if (h->sink.event)
		h->sink.event(h->sink.ctx, ev);
	h->now_ns = ev->at_ns;
	switch (ev->kind) {
	case EVENT_ARRIVE:
		arrive(h, ev);
		break;
	case EVENT_ADMIT:
	case EVENT_SWAP_IN:
	case EVENT_CHUNK:
	case EVENT_DECODE:
	case EVENT_BLOCK:
		serve(h, ev);
		break;
	case EVENT_PREEMPT:
	case EVENT_SWAP_OUT:
		lose_memory(h, ev);
		break;
	case EVENT_LOAD:
		load(h, ev);
		break;
	case EVENT_LOADED:
		loaded(h, ev);
		break;
	case EVENT_FINISH:
		finish(h, ev);
		break;
	case EVENT_HOLD:
		h->lives[ev->req].held = true;
		break;
	case EVENT_RELEASE:
		release(h, ev);
		break;
	case EVENT_REJECT:
	case EVENT_ABORT:
		cut_off(h, ev);
		break;
	case EVENT_STEP:
		end_step(h, ev);
		break;
	case EVENT_DROP:
	case EVENT_COPY:
	case EVENT_PREFETCH:
		break;
	}
}

void history_step(void *ctx, const struct step_row *row)
{
	struct history *h = ctx;
	if (row->replica >= h->n_replicas) /* there was no memory for it */
		return;
	h->replicas[row->replica].transfer_ns = row->transfer_ns;
	if (h->sink.step)
		h->sink.step(h->sink.ctx, row);
}

int history_finish(struct history *h, struct err *e)
{
	h->over = true;
	for (int32_t i = 0; i < h->n; i++) {
		struct life *l = &h->lives[i];
		if (l->state == LIFE_WAITING)
			tell_wait(h, i, h->now_ns, replica_of(h, i)->last_step);
		else if (l->state == LIFE_HELD)
			tell_idle(h, i, PHASE_HELD, h->now_ns);
		else if (l->state != LIFE_NONE)
			tell_rest(h, i, h->now_ns);
		l->state = LIFE_NONE;
	}
	return h->no_memory ? err_no_memory(e, "the history of a run") : ERR_NONE;
}

/* --- of a stored run ---------------------------------------------------------------------------------------------- */

struct rerun_io {
	struct history *h;
	const struct run_io *io;
};

static void on_engine(void *ctx, const struct engine *g)
{
	history_engine(((struct rerun_io *)ctx)->h, g);
}

static void on_event(void *ctx, const struct event *ev)
{
	history_event(((struct rerun_io *)ctx)->h, ev);
}

static void on_step(void *ctx, const struct step_row *row)
{
	history_step(((struct rerun_io *)ctx)->h, row);
}

static void on_progress(void *ctx, int64_t ended, int64_t total)
{
	const struct run_io *io = ((struct rerun_io *)ctx)->io;
	io->progress(io->ctx, ended, total);
}

static int stand_before(void *ctx, struct backend *b, struct err *e)
{
	const struct run_io *io = ((struct rerun_io *)ctx)->io;
	return io->stand_before(io->ctx, b, e);
}

int history_rerun(const struct store_recipe *recipe, const struct run_settings *s, const struct workload *w,
		  const struct history_sink *sink, const struct run_io *io, struct run_result *r, struct err *e)
{
	struct rerun_io x = {.io = io};
	*r = (struct run_result){0};
	int rc = history_create(&x.h, w->n, sink, e);
	if (rc)
		return rc;
	const struct run_io inner = {.stop = io->stop,
				     .ctx = &x,
				     .progress = io->progress ? on_progress : NULL,
				     .engine = on_engine,
				     .event = on_event,
				     .step = on_step,
				     .stand_before = io->stand_before ? stand_before : NULL};
	rc = rerun_execute(recipe, s, w, &inner, r, e);
	/* The engine is gone: only what needs none of it may follow. */
	if (rc == ERR_NONE)
		rc = history_finish(x.h, e);
	history_free(x.h);
	return rc;
}

/* --- in arrays ---------------------------------------------------------------------------------------------------- */

static bool in_window(const struct history_table *t, int64_t begin_ns, int64_t end_ns)
{
	return (!t->from_ns && !t->to_ns) || (end_ns >= t->from_ns && begin_ns <= t->to_ns);
}

static void keep_phase(void *ctx, const struct phase *p)
{
	struct history_table *t = ctx;
	if ((t->wanted && !t->wanted[p->req]) || !in_window(t, p->begin_ns, p->end_ns))
		return;
	if (t->most && t->n >= t->most) {
		t->left_out++;
		return;
	}
	if (mem_grow((void **)&t->phases, &t->cap, t->n + 1, sizeof *t->phases))
		t->no_memory = true;
	else
		t->phases[t->n++] = *p;
}

static void keep_step(void *ctx, const struct step_row *row)
{
	struct history_table *t = ctx;
	if (!in_window(t, row->start_ns, row->end_ns))
		return;
	if (mem_grow((void **)&t->step, &t->cap_steps, t->n_steps + 1, sizeof *t->step))
		t->no_memory = true;
	else
		t->step[t->n_steps++] = *row;
}

struct history_sink history_table_sink(struct history_table *t)
{
	return (struct history_sink){.ctx = t, .phase = keep_phase, .step = t->steps ? keep_step : NULL};
}

static int by_request(const void *x, const void *y)
{
	const struct phase *a = x, *b = y;
	if (a->req != b->req)
		return a->req < b->req ? -1 : 1;
	if (a->begin_ns != b->begin_ns)
		return a->begin_ns < b->begin_ns ? -1 : 1;
	return (a->end_ns > b->end_ns) - (a->end_ns < b->end_ns);
}

int history_table_sort(struct history_table *t, struct err *e)
{
	if (t->n)
		qsort(t->phases, (size_t)t->n, sizeof *t->phases, by_request);
	return t->no_memory ? err_no_memory(e, "the history of a run") : ERR_NONE;
}

void history_table_free(struct history_table *t)
{
	mem_free(t->phases);
	mem_free(t->step);
	t->phases = NULL;
	t->step = NULL;
	t->n = t->cap = t->n_steps = t->cap_steps = 0;
}
