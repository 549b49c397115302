#include "sim/cluster.h"

#include <string.h>

#include "core/err.h"
#include "core/mem.h"

struct member_state {
	struct step_result res; /* of the step whose end is the member's next event */
	int64_t end_ns; /* INT64_MAX: no step is running */
	int64_t wake_ns; /* idle: when it wants another round; INT64_MAX: when something comes */
	struct batch flights[2]; /* batches in flight, by the parity of their step */
	int64_t in_flight;
	bool ready; /* to begin a round now */
	int32_t told; /* requests of its engine's list of ended ones that the router knows of */
};

struct cluster {
	struct cluster_member *members;
	struct member_state *states; /* [n] */
	int32_t *heap; /* [n_heap] members with a step running, by (end, number) */
	int32_t n, n_heap;
	struct source *source;
	const struct cluster_router *router;
	int64_t told, now_ns;
	bool dependent; /* what ends may cause arrivals before the next known one */
};

static bool earlier(const struct cluster *c, int32_t a, int32_t b)
{
	int64_t x = c->states[a].end_ns, y = c->states[b].end_ns;
	return x != y ? x < y : a < b;
}

static void heap_push(struct cluster *c, int32_t m)
{
	int32_t k = c->n_heap++;
	for (; k > 0 && earlier(c, m, c->heap[(k - 1) / 2]); k = (k - 1) / 2)
		c->heap[k] = c->heap[(k - 1) / 2];
	c->heap[k] = m;
}

static int32_t heap_pop(struct cluster *c)
{
	int32_t top = c->heap[0], last = c->heap[--c->n_heap];
	int32_t k = 0;
	for (int32_t child; (child = 2 * k + 1) < c->n_heap; k = child) {
		if (child + 1 < c->n_heap && earlier(c, c->heap[child + 1], c->heap[child]))
			child++;
		if (!earlier(c, c->heap[child], last))
			break;
		c->heap[k] = c->heap[child];
	}
	c->heap[k] = last;
	return top;
}

static int submit(struct cluster *c, int32_t m, const struct batch *batch, struct err *e)
{
	struct backend *b = c->members[m].backend;
	struct member_state *s = &c->states[m];
	struct batch *mine = &s->flights[batch->step & 1];
	int64_t next = source_next_ns(c->source);
	*mine = *batch;
	if (mine->until_ns > next)
		mine->until_ns = next;
	if (c->dependent || next == INT64_MAX)
		mine->repeat = 1;
	s->in_flight++;
	return b->ops->submit(b->self, mine, e);
}

/* Its clock moves to now_ns, and it hears of the copies between tiers that were done on the way. */
static int catch_up(struct cluster *c, int32_t m, int64_t now_ns, struct err *e)
{
	struct backend *b = c->members[m].backend;
	int code;
	do {
		code = b->ops->wait_until(b->self, now_ns, e);
		if (!code)
			code = engine_transfers_done(c->members[m].engine, b, now_ns, e);
	} while (!code && b->ops->now(b->self) < now_ns);
	return code;
}

/* The router hears of the requests that have ended since; `anew`: the engine has begun another list. */
static void tell_ended(struct cluster *c, int32_t m, bool anew)
{
	int32_t n, *told = &c->states[m].told;
	const int32_t *ended = engine_ended(c->members[m].engine, &n);
	for (int32_t i = anew ? 0 : *told; c->router->ended && i < n; i++)
		c->router->ended(c->router->ctx, m, ended[i]);
	*told = n;
}

static int take_in(struct cluster *c, int32_t m, int64_t now_ns, struct err *e)
{
	int code = engine_ingest(c->members[m].engine, now_ns, e);
	tell_ended(c, m, false);
	return code;
}

static int route_arrivals(struct cluster *c, int64_t now_ns, struct err *e)
{
	int64_t arrival_ns;
	int32_t req;
	while ((req = source_pop(c->source, now_ns, &arrival_ns)) >= 0) {
		int32_t m = c->router->route(c->router->ctx, req, now_ns);
		if (m < 0 || m >= c->n)
			return err_set(e, ERR_INPUT, "the router chose replica %d of %d", m, c->n);
		if (source_push(c->members[m].inbox, req, arrival_ns, e))
			return ERR_MEMORY;
		if (c->states[m].end_ns == INT64_MAX) {
			c->states[m].ready = true;
			c->states[m].wake_ns = now_ns;
		}
	}
	if (source_done(c->source))
		for (int32_t m = 0; m < c->n; m++)
			source_close(c->members[m].inbox);
	return ERR_NONE;
}

/* Rounds of one member at now_ns until a step's end has to be waited for, or it is idle. */
static int go(struct cluster *c, int32_t m, int64_t now_ns, struct err *e)
{
	struct member_state *s = &c->states[m];
	struct engine *g = c->members[m].engine;
	struct backend *b = c->members[m].backend;
	bool async = engine_config(g)->async_scheduling;
	for (;;) {
		enum engine_next next;
		const struct batch *batch;
		int64_t until = INT64_MAX;
		int code = catch_up(c, m, now_ns, e);
		if (code)
			return code;
		code = engine_begin(g, now_ns, &next, &batch, &until, e);
		tell_ended(c, m, true);
		if (!code)
			code = engine_start_transfers(g, b, e);
		if (!code && next == ENGINE_BATCH)
			code = submit(c, m, batch, e);
		if (code)
			return code;
		bool more = async && s->in_flight < 2;
		if (source_next_ns(c->source) <= now_ns && (more || next == ENGINE_IDLE)) {
			/* The policy rejected somebody, who made room at the client; of those who come, some may be as well. */
			do
				code = route_arrivals(c, now_ns, e);
			while (!code && !(code = take_in(c, m, now_ns, e)) && source_next_ns(c->source) <= now_ns);
			if (code)
				return code;
			continue;
		}
		if (next == ENGINE_BATCH && more)
			continue;
		s->ready = false; /* what came meanwhile was planned with */
		s->wake_ns = next == ENGINE_IDLE ? until : INT64_MAX;
		if (next == ENGINE_IDLE && engine_transfers_open(g) && b->ops->transfer_next_ns(b->self) < s->wake_ns)
			s->wake_ns = b->ops->transfer_next_ns(b->self);
		if (!s->in_flight)
			return ERR_NONE;
		code = b->ops->wait(b->self, &s->res, e);
		s->end_ns = code ? INT64_MAX : s->res.end_ns[s->res.steps - 1];
		if (!code)
			heap_push(c, m);
		return code;
	}
}

static int end_steps(struct cluster *c, int64_t now_ns, struct err *e)
{
	while (c->n_heap && c->states[c->heap[0]].end_ns == now_ns) {
		int32_t m = heap_pop(c);
		struct member_state *s = &c->states[m];
		s->end_ns = INT64_MAX;
		s->in_flight--;
		s->ready = true;
		int code = engine_end(c->members[m].engine, &s->res, e);
		if (code)
			return code;
		tell_ended(c, m, true);
	}
	return ERR_NONE;
}

static int64_t next_event(const struct cluster *c)
{
	int64_t t = source_next_ns(c->source);
	if (c->n_heap && c->states[c->heap[0]].end_ns < t)
		t = c->states[c->heap[0]].end_ns;
	for (int32_t m = 0; m < c->n; m++)
		if (c->states[m].end_ns == INT64_MAX && c->states[m].wake_ns < t)
			t = c->states[m].wake_ns;
	return t;
}

static bool has_work(const struct member_state *s, int64_t now_ns)
{
	return s->ready || (s->end_ns == INT64_MAX && s->wake_ns <= now_ns);
}

/* Arrivals of this moment, those included that a rejection or a request given up lets in. */
static int take_arrivals(struct cluster *c, int64_t now_ns, struct err *e)
{
	int code = ERR_NONE;
	bool any = true;
	while (!code && any) {
		code = route_arrivals(c, now_ns, e);
		for (int32_t m = 0; m < c->n && !code; m++)
			if (has_work(&c->states[m], now_ns)) {
				code = catch_up(c, m, now_ns, e);
				if (!code)
					code = take_in(c, m, now_ns, e);
			}
		any = source_next_ns(c->source) <= now_ns;
		for (int32_t m = 0; m < c->n && !code && !any; m++)
			if (has_work(&c->states[m], now_ns)) {
				code = engine_give_up(c->members[m].engine, now_ns, &any, e);
				tell_ended(c, m, false);
			}
	}
	return code;
}

static int run_event(struct cluster *c, int64_t now_ns, struct err *e)
{
	int code = end_steps(c, now_ns, e);
	if (!code)
		code = take_arrivals(c, now_ns, e);
	for (int32_t m = 0; m < c->n && !code; m++) {
		struct member_state *s = &c->states[m];
		if (!has_work(s, now_ns))
			continue;
		s->ready = false;
		code = go(c, m, now_ns, e);
	}
	return code;
}

static int start(struct cluster *c, struct err *e)
{
	int code = ERR_NONE;
	for (int32_t m = 0; m < c->n && !code; m++) {
		c->states[m].end_ns = c->states[m].wake_ns = INT64_MAX;
		struct backend *b = c->members[m].backend;
		code = b->ops->init(b->self, c->members[m].engine, e);
	}
	return code;
}

static void tell_progress(struct cluster *c, const struct run_hooks *hooks, int64_t total)
{
	int64_t ended = 0;
	for (int32_t m = 0; m < c->n; m++)
		ended += engine_count_ended(c->members[m].engine);
	if (ended - c->told < (hooks->every ? hooks->every : 1024))
		return;
	c->told = ended;
	hooks->progress(hooks->ctx, ended, total);
}

static int loop(struct cluster *c, const struct run_hooks *hooks, int64_t total, struct err *e)
{
	int code = start(c, e);
	while (!code) {
		if (hooks && hooks->stop && *hooks->stop)
			return err_set(e, ERR_INTERRUPTED, "interrupted");
		int64_t now_ns = next_event(c);
		if (now_ns == INT64_MAX)
			break;
		/* A rejection may let somebody in who has waited at the client since before. */
		now_ns = c->now_ns = now_ns > c->now_ns ? now_ns : c->now_ns;
		code = run_event(c, now_ns, e);
		if (hooks && hooks->progress)
			tell_progress(c, hooks, total);
	}
	return code;
}

int cluster_run(struct cluster_member *members, int32_t n, struct source *source, const struct cluster_router *router,
		const struct run_hooks *hooks, struct err *e)
{
	struct cluster c = {.members = members, .n = n, .source = source, .router = router};
	c.states = mem_zalloc((size_t)n, sizeof *c.states);
	c.heap = mem_alloc((size_t)n * sizeof *c.heap);
	int code = c.states && c.heap ? ERR_NONE : err_no_memory(e, "replicas");
	const struct workload *w = engine_workload(members[0].engine);
	c.dependent = w->child_at != NULL;
	if (!code)
		code = loop(&c, hooks, w->n, e);
	mem_free(c.states);
	mem_free(c.heap);
	return code;
}
