#include "analysis/explain.h"

#include <string.h>

#include "analysis/explain_state.h"
#include "core/engine.h"
#include "core/err.h"
#include "core/mem.h"
#include "sim/backend.h"

const char *const cause_names[] = {"client",        "entry",     "memory",      "place",      "budget",
				   "prefill",       "policy",    "order",       "preempted",  "swapped",
				   "transfer",      "stalled",   "pipeline",    "host",       "others_prefill",
				   "others_decode", "recompute", "own_prefill", "own_decode", NULL};

const char *const cause_words[] = {"held back by its client",
				   "came while a step ran",
				   "waited for KV memory",
				   "waited for a place (max-num-seqs)",
				   "waited: the steps' tokens were spent",
				   "waited behind a long prompt",
				   "waited: the policy's choice",
				   "waited: others let in out of turn",
				   "preempted, waiting to come back",
				   "swapped out, waiting to come back",
				   "copies of KV",
				   "held memory, had no turn",
				   "planned, the step before still ran",
				   "host overhead",
				   "slowed by others' prompts",
				   "slowed by others' tokens",
				   "computed again what was lost",
				   "its own prompt",
				   "its own tokens",
				   NULL};

int64_t explained_sum(const int64_t ns[CAUSES])
{
	int64_t sum = 0;
	for (int c = 0; c < CAUSES; c++)
		sum += ns[c];
	return sum;
}

int explain_init(struct explain *x, const struct workload *w, int32_t focus, const struct cost *cost, struct err *e)
{
	size_t n = (size_t)w->n + 1;
	*x = (struct explain){.n = w->n, .focus.req = focus};
	struct explain_state *s = x->state = mem_zalloc(1, sizeof *s);
	x->each = mem_zalloc(n, sizeof *x->each);
	if (s) {
		s->cost = cost;
		s->measured = cost != NULL;
		s->has_token = mem_zalloc(n, sizeof *s->has_token);
		s->queue = mem_zalloc(n, sizeof *s->queue);
	}
	bool ok = s && x->each && s->has_token && s->queue;
	if (ok && focus >= 0)
		ok = explain_focus_init(x, w) == ERR_NONE;
	if (ok)
		return ERR_NONE;
	explain_free(x);
	return err_no_memory(e, "the causes of a run's latencies");
}

void explain_free(struct explain *x)
{
	struct explain_state *s = x->state;
	if (s) {
		explain_focus_free(x);
		mem_free(s->has_token);
		mem_free(s->queue);
		for (int32_t m = 0; m < s->n_replicas; m++) {
			mem_free(s->replicas[m]->arrived);
			mem_free(s->replicas[m]);
		}
		mem_free(s->replicas);
		mem_free(s->marks);
		mem_free(s);
	}
	history_table_free(&x->focus.story);
	mem_free(x->each);
	*x = (struct explain){.focus.req = -1};
}

/* --- the backend's side: what each step was asked for ------------------------------------------------------------------ */

static int see_init(void *self, const struct engine *engine, struct err *e)
{
	const struct explain_replica *r = self;
	return r->inner.ops->init(r->inner.self, engine, e);
}

static int64_t see_now(void *self)
{
	const struct explain_replica *r = self;
	return r->inner.ops->now(r->inner.self);
}

static int see_wait_until(void *self, int64_t t_ns, struct err *e)
{
	const struct explain_replica *r = self;
	return r->inner.ops->wait_until(r->inner.self, t_ns, e);
}

/* What the batch points at lives until its step has been told. */
static int see_submit(void *self, const struct batch *b, struct err *e)
{
	struct explain_replica *r = self;
	r->flights[b->step & 1] = *b;
	return r->inner.ops->submit(r->inner.self, b, e);
}

static int see_wait(void *self, struct step_result *out, struct err *e)
{
	const struct explain_replica *r = self;
	return r->inner.ops->wait(r->inner.self, out, e);
}

static int see_transfer(void *self, const struct transfer *t, struct err *e)
{
	const struct explain_replica *r = self;
	return r->inner.ops->transfer(r->inner.self, t, e);
}

static int see_transfers_done(void *self, struct transfer_news *out, struct err *e)
{
	const struct explain_replica *r = self;
	return r->inner.ops->transfers_done(r->inner.self, out, e);
}

static int64_t see_transfer_next_ns(void *self)
{
	const struct explain_replica *r = self;
	return r->inner.ops->transfer_next_ns(r->inner.self);
}

static void see_close(void *self)
{
	(void)self;
}

static const struct backend_ops see_ops = {.name = "explain",
					   .init = see_init,
					   .now = see_now,
					   .wait_until = see_wait_until,
					   .submit = see_submit,
					   .wait = see_wait,
					   .transfer = see_transfer,
					   .transfers_done = see_transfers_done,
					   .transfer_next_ns = see_transfer_next_ns,
					   .close = see_close};

int explain_stand_before(void *ctx, struct backend *b, struct err *e)
{
	struct explain_state *s = ((struct explain *)ctx)->state;
	struct explain_replica *r = mem_zalloc(1, sizeof *r);
	if (!r ||
	    mem_grow((void **)&s->replicas, &s->cap_replicas, s->n_replicas + 1, sizeof(struct explain_replica *))) {
		mem_free(r);
		return err_no_memory(e, "the causes of a run's latencies");
	}
	s->replicas[s->n_replicas++] = r;
	r->inner = *b;
	r->cost = s->cost ? s->cost : sim_backend_cost(b);
	*b = (struct backend){&see_ops, r};
	return ERR_NONE;
}

/* --- one step ---------------------------------------------------------------------------------------------------------- */

static int64_t device_ns(const struct explain_replica *r, const struct batch *b)
{
	struct cost_time t = {0};
	cost_step(r->cost, b, &t);
	return t.device_ns;
}

static void on_step(void *ctx, const struct step_row *row)
{
	struct explain *x = ctx;
	struct explain_state *s = x->state;
	struct explain_replica *r = s->replicas[row->replica];
	const struct batch *b = &r->flights[row->step & 1];
	int64_t work_ns = row->end_ns - row->start_ns - row->transfer_ns;
	struct explain_step *k = &r->step;
	*k = (struct explain_step){.batch = b, .transfer_ns = row->transfer_ns};
	k->model_ns = k->no_chunks_ns = device_ns(r, b);
	int64_t rest_ns = s->measured ? work_ns : work_ns - k->model_ns;
	rest_ns = rest_ns > 0 ? rest_ns : 0;
	k->host_ns = row->host_ns < rest_ns ? row->host_ns : rest_ns;
	/* The simulator charges copies of shared pages beside what its model says. */
	k->copies_ns = s->measured ? 0 : rest_ns - k->host_ns;
	k->device_ns = work_ns - k->host_ns - k->copies_ns;
	if (b->n_chunks && b->decodes) {
		struct batch decodes = *b;
		decodes.n_chunks = 0;
		decodes.chunks = NULL;
		decodes.prefill_tokens = 0;
		decodes.sampled = b->decodes;
		k->no_chunks_ns = device_ns(r, &decodes);
	}
	if (x->focus.req >= 0)
		explain_focus_step(x, row);
}

/* --- one turn ---------------------------------------------------------------------------------------------------------- */

static struct batch row_alone(const struct explain_replica *r, int32_t ctx)
{
	int32_t window = engine_config(r->engine)->window;
	bool below = !window || ctx < window;
	return (struct batch){.decodes = 1,
			      .decode_ctx = ctx,
			      .decode_ctx_window = below ? ctx : window,
			      .window_growing = below,
			      .sampled = 1,
			      .running = 1,
			      .repeat = 1,
			      .until_ns = INT64_MAX};
}

/* The piece alone, or with the step's decodes beside it. */
static struct batch piece_alone(const struct explain_replica *r, struct chunk *own, bool decodes)
{
	struct batch b = *r->step.batch;
	b.n_chunks = 1;
	b.chunks = own;
	b.prefill_tokens = own->len;
	b.repeat = 1;
	if (!decodes)
		b.decodes = b.window_growing = 0, b.decode_ctx = b.decode_ctx_window = 0, b.running = 1;
	b.sampled = b.decodes + own->samples;
	return b;
}

static bool find_chunk(const struct batch *b, int32_t req, struct chunk *out)
{
	for (int32_t i = 0; i < b->n_chunks; i++)
		if (b->chunks[i].req == req) {
			*out = b->chunks[i];
			out->pad = 0; /* that is for the others' sake */
			return true;
		}
	return false;
}

/* What the model says of the row alone, and of the step without others' prompts: alone <= without <= all. */
static void model_parts(const struct explain_replica *r, const struct turn *t, int64_t *alone_ns, int64_t *without_ns)
{
	const struct explain_step *k = &r->step;
	struct chunk own;
	if (t->chunk && find_chunk(k->batch, t->req, &own)) {
		bool only = k->batch->n_chunks == 1 && !k->batch->chunks[0].pad;
		struct batch alone = piece_alone(r, &own, false), without = piece_alone(r, &own, true);
		*without_ns = only ? k->model_ns : device_ns(r, &without);
		*alone_ns = only && !k->batch->decodes ? k->model_ns : device_ns(r, &alone);
	} else {
		struct batch alone = row_alone(r, t->ctx);
		*without_ns = k->no_chunks_ns;
		*alone_ns = device_ns(r, &alone);
	}
	*without_ns = *without_ns < k->model_ns ? *without_ns : k->model_ns;
	*alone_ns = *alone_ns < *without_ns ? *alone_ns : *without_ns;
}

static int64_t scaled(const struct explain_step *k, int64_t ns)
{
	if (k->device_ns == k->model_ns)
		return ns;
	return k->model_ns > 0 ? (int64_t)((__int128)ns * k->device_ns / k->model_ns) : 0;
}

static void share_step(const struct explain_replica *r, const struct turn *t, int64_t to[CAUSES])
{
	const struct explain_step *k = &r->step;
	int64_t alone_ns, without_ns;
	model_parts(r, t, &alone_ns, &without_ns);
	int64_t own_ns = scaled(k, alone_ns), tokens_ns = scaled(k, without_ns);
	to[CAUSE_HOST] += k->host_ns;
	to[CAUSE_TRANSFER] += k->copies_ns + (t->transfer_ns ? 0 : k->transfer_ns);
	to[CAUSE_OTHERS_PREFILL] += k->device_ns - tokens_ns;
	to[CAUSE_OTHERS_DECODE] += tokens_ns - own_ns;
	if (t->kind == PHASE_DECODE) {
		to[CAUSE_OWN_DECODE] += own_ns;
		return;
	}
	int64_t again_ns = t->again ? (int64_t)((__int128)own_ns * t->again / t->tokens) : 0;
	to[CAUSE_RECOMPUTE] += again_ns;
	to[CAUSE_OWN_PREFILL] += own_ns - again_ns;
}

static int64_t *side_of(struct explain *x, int32_t req)
{
	return x->state->has_token[req] ? x->each[req].after : x->each[req].first;
}

static void on_turn(void *ctx, const struct turn *t)
{
	struct explain *x = ctx;
	struct explain_state *s = x->state;
	int64_t *to = side_of(x, t->req);
	if (t->step == t->since_step + 1) /* else it had no turn, which its history tells */
		to[s->async ? CAUSE_PIPELINE : CAUSE_HOST] += t->start_ns - t->since_ns;
	int64_t before_ns = to[CAUSE_OTHERS_PREFILL];
	share_step(s->replicas[t->replica], t, to);
	if (t->req == x->focus.req)
		explain_focus_turn(x, t, to[CAUSE_OTHERS_PREFILL] - before_ns);
	s->has_token[t->req] |= t->first_token;
}

/* --- waiting ----------------------------------------------------------------------------------------------------------- */

/* What those who wait at a replica have waited for so far. */
static bool set_mark(struct explain_state *s, const struct explain_replica *r)
{
	if (mem_grow((void **)&s->marks, &s->cap_marks, s->n_marks + 1, sizeof *s->marks)) {
		s->no_memory = true;
		return false;
	}
	engine_waited(r->engine, s->marks[s->n_marks++].sum_ns);
	return true;
}

/* Who came before a request that is let in and is still queued has been overtaken. */
static void note_overtaken(struct explain_state *s, struct explain_replica *r, int32_t req)
{
	bool marked = false;
	for (; r->front < s->queue[req].seq; r->front++) {
		struct explain_queue *q = &s->queue[r->arrived[r->front]];
		if (!q->queued)
			continue;
		if (!marked && !set_mark(s, r))
			return;
		marked = true;
		q->mark = s->n_marks; /* its place + 1 */
	}
}

static void on_arrive(struct explain_state *s, struct explain_replica *r, int32_t req)
{
	if (mem_grow((void **)&r->arrived, &r->cap_arrived, r->n_arrived + 1, sizeof *r->arrived)) {
		s->no_memory = true;
		return;
	}
	struct explain_queue *q = &s->queue[req];
	*q = (struct explain_queue){.seq = r->n_arrived, .queued = true};
	r->arrived[r->n_arrived++] = req;
	/* So many were in flight up to now that it could not have been sent. */
	q->held_back = s->most_in_flight && s->were_in_flight >= s->most_in_flight;
	s->in_flight++;
}

static void on_event(void *ctx, const struct event *ev)
{
	struct explain *x = ctx;
	struct explain_state *s = x->state;
	struct explain_replica *r = s->replicas[ev->replica];
	switch (ev->kind) {
	case EVENT_ARRIVE:
		on_arrive(s, r, ev->req);
		break;
	case EVENT_ADMIT:
		s->queue[ev->req].queued = false;
		if (!ev->b)
			note_overtaken(s, r, ev->req);
		break;
	case EVENT_REJECT:
	case EVENT_ABORT:
	case EVENT_FINISH:
		s->in_flight -= s->in_flight > 0;
		s->queue[ev->req].queued = false;
		break;
	case EVENT_CHUNK:
	case EVENT_DECODE:
		s->were_in_flight = s->in_flight;
		break;
	default:
		break;
	}
	if (x->focus.req >= 0)
		explain_focus_event(x, ev);
}

/* Of its waiting in the queue, by core/waits.c's causes. */
static void share_queue(const struct explain_state *s, const struct phase *p, int64_t to[CAUSES])
{
	static const enum cause cause_of[WAIT_CAUSES] = {
		[WAIT_ENTRY] = CAUSE_ENTRY,   [WAIT_MEMORY] = CAUSE_MEMORY,   [WAIT_PLACE] = CAUSE_PLACE,
		[WAIT_BUDGET] = CAUSE_BUDGET, [WAIT_PREFILL] = CAUSE_PREFILL, [WAIT_POLICY] = CAUSE_POLICY};
	const struct explain_queue *q = &s->queue[p->req];
	int64_t sum_ns[WAIT_CAUSES];
	engine_waited(s->replicas[p->replica]->engine, sum_ns);
	for (int c = 0; c < WAIT_CAUSES; c++) {
		int64_t late_ns = q->mark ? sum_ns[c] - s->marks[q->mark - 1].sum_ns[c] : 0;
		to[CAUSE_ORDER] += late_ns;
		to[c == WAIT_ENTRY && q->held_back ? CAUSE_CLIENT : cause_of[c]] += p->waited_ns[c] - late_ns;
	}
}

static void on_phase(void *ctx, const struct phase *p)
{
	struct explain *x = ctx;
	int64_t *to = side_of(x, p->req), ns = p->end_ns - p->begin_ns;
	if (p->req == x->focus.req)
		explain_focus_phase(x, p);
	if (p->open)
		return;
	if (p->kind == PHASE_QUEUED)
		share_queue(x->state, p, to);
	else if (p->kind == PHASE_PREEMPTED)
		to[CAUSE_PREEMPTED] += ns;
	else if (p->kind == PHASE_SWAPPED)
		to[CAUSE_SWAPPED] += ns;
	else if (p->kind == PHASE_LOADING)
		to[CAUSE_TRANSFER] += ns;
	else if (p->kind == PHASE_STALLED)
		to[CAUSE_STALLED] += ns;
}

static void on_engine(void *ctx, const struct engine *g)
{
	struct explain_state *s = ((struct explain *)ctx)->state;
	if (s->n_engines < s->n_replicas)
		s->replicas[s->n_engines++]->engine = g;
	s->async = engine_config(g)->async_scheduling;
	s->most_in_flight = engine_config(g)->max_concurrency;
}

struct history_sink explain_sink(struct explain *x)
{
	return (struct history_sink){
		.ctx = x, .event = on_event, .step = on_step, .turn = on_turn, .phase = on_phase, .engine = on_engine};
}

int explain_finish(struct explain *x, struct err *e)
{
	struct explain_state *s = x->state;
	if (x->focus.req >= 0)
		explain_focus_finish(x);
	return s->no_memory || x->focus.story.no_memory ? err_no_memory(e, "the causes of a run's latencies")
							: ERR_NONE;
}

int explain_rerun(struct explain *x, const struct store_recipe *recipe, const struct run_settings *s,
		  const struct workload *w, const volatile int *stop, struct run_result *r, struct err *e)
{
	const struct history_sink sink = explain_sink(x);
	const struct run_io io = {.stop = stop, .ctx = x, .stand_before = explain_stand_before};
	int rc = history_rerun(recipe, s, w, &sink, &io, r, e);
	return rc ? rc : explain_finish(x, e);
}
