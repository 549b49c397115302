#include "core/source.h"

#include <stddef.h>
#include <string.h>

#include "core/err.h"
#include "core/mem.h"

struct ready {
	int64_t at_ns;
	int32_t req;
};

struct ready_heap { /* by (time, index) */
	struct ready *at;
	int64_t n, cap;
};

struct source {
	const struct workload *w;
	int64_t cursor; /* next of the trace's own arrivals; those with parents are stepped over */
	int64_t handed; /* requests handed out so far, orphans included */
	int64_t total; /* requests there will be; an inbox does not know */

	struct ready_heap heap; /* released or pushed */
	struct ready_heap forks; /* live forks: they wait for no place at the client */

	int32_t *parents_left; /* [w->n]; 0: released or never had any, -1: orphaned. NULL without dependencies */
	/* Whose place at the client each takes, and how many have not ended for whom it is. NULL without forks. */
	int32_t *place_of, *on_place; /* [w->n] */
	int32_t *orphans; /* a stack */
	int64_t n_orphans, cap_orphans;

	int32_t max_concurrency;
	int32_t in_flight;
	struct source *upstream; /* of an inbox */
	bool closed;
};

static void skip_dependents(struct source *s)
{
	const int32_t *parents = s->w->n_parents;
	if (!s->upstream && parents)
		while (s->cursor < s->w->n && parents[s->cursor])
			s->cursor++;
}

static int make_places(struct source *s, struct err *e)
{
	int64_t n = s->w->n;
	bool any = false;
	for (int64_t i = 0; i < n && !any; i++)
		any = s->w->specs[i].fork_at > 0;
	if (!any)
		return ERR_NONE;
	s->place_of = mem_alloc((size_t)n * sizeof *s->place_of);
	s->on_place = mem_alloc((size_t)n * sizeof *s->on_place);
	if (!s->place_of || !s->on_place)
		return err_no_memory(e, "arrivals");
	for (int64_t i = 0; i < n; i++) {
		s->place_of[i] = (int32_t)i;
		s->on_place[i] = 1;
	}
	return ERR_NONE;
}

static int create(struct source **out, const struct workload *w, struct source *upstream, int32_t max_concurrency,
		  struct err *e)
{
	struct source *s = mem_zalloc(1, sizeof *s);
	if (!s)
		return err_no_memory(e, "arrivals");
	s->w = w;
	s->upstream = upstream;
	s->cursor = upstream ? w->n : 0;
	s->total = w->n;
	s->max_concurrency = max_concurrency;
	if (!upstream && w->n_parents) {
		s->parents_left = mem_alloc((size_t)w->n * sizeof *s->parents_left);
		if (!s->parents_left || make_places(s, e)) {
			source_free(s);
			return err_no_memory(e, "arrivals");
		}
		memcpy(s->parents_left, w->n_parents, (size_t)w->n * sizeof *s->parents_left);
	}
	skip_dependents(s);
	*out = s;
	return ERR_NONE;
}

int source_create(struct source **out, const struct workload *w, int32_t max_concurrency, struct err *e)
{
	return create(out, w, NULL, max_concurrency, e);
}

int source_create_inbox(struct source **out, struct source *upstream, struct err *e)
{
	return create(out, upstream->w, upstream, 0, e);
}

void source_free(struct source *s)
{
	if (!s)
		return;
	mem_free(s->heap.at);
	mem_free(s->forks.at);
	mem_free(s->parents_left);
	mem_free(s->place_of);
	mem_free(s->on_place);
	mem_free(s->orphans);
	mem_free(s);
}

static bool earlier(struct ready a, struct ready b)
{
	return a.at_ns != b.at_ns ? a.at_ns < b.at_ns : a.req < b.req;
}

static int heap_push(struct ready_heap *h, struct ready r, struct err *e)
{
	if (mem_grow((void **)&h->at, &h->cap, h->n + 1, sizeof *h->at))
		return err_no_memory(e, "released arrivals");
	int64_t k = h->n++;
	for (; k > 0 && earlier(r, h->at[(k - 1) / 2]); k = (k - 1) / 2)
		h->at[k] = h->at[(k - 1) / 2];
	h->at[k] = r;
	return ERR_NONE;
}

static void heap_pop(struct ready_heap *h)
{
	struct ready last = h->at[--h->n];
	int64_t k = 0;
	for (;;) {
		int64_t child = 2 * k + 1;
		if (child >= h->n)
			break;
		if (child + 1 < h->n && earlier(h->at[child + 1], h->at[child]))
			child++;
		if (!earlier(h->at[child], last))
			break;
		h->at[k] = h->at[child];
		k = child;
	}
	h->at[k] = last;
}

static bool client_is_full(const struct source *s)
{
	return s->max_concurrency > 0 && s->in_flight >= s->max_concurrency;
}

enum from { FROM_NOWHERE, FROM_TRACE, FROM_HEAP, FROM_FORKS };

/* The earlier of the trace's next arrival and the heap's first, of which the client lets none go when it is full. */
static enum from peek(const struct source *s, struct ready *out)
{
	enum from from = FROM_NOWHERE;
	if (client_is_full(s))
		return from;
	if (s->cursor < s->w->n) {
		*out = (struct ready){s->w->specs[s->cursor].arrival_ns, (int32_t)s->cursor};
		from = FROM_TRACE;
	}
	if (s->heap.n && (!from || earlier(s->heap.at[0], *out))) {
		*out = s->heap.at[0];
		from = FROM_HEAP;
	}
	return from;
}

int64_t source_next_ns(const struct source *s)
{
	struct ready r;
	int64_t next = peek(s, &r) ? r.at_ns : INT64_MAX;
	return s->forks.n && s->forks.at[0].at_ns < next ? s->forks.at[0].at_ns : next;
}

int32_t source_pop(struct source *s, int64_t now_ns, int64_t *arrival_ns)
{
	struct ready r;
	/* Forks first: whether the client is full, and a rejection lets others in at this moment, does not matter to them. */
	enum from from = s->forks.n && s->forks.at[0].at_ns <= now_ns ? FROM_FORKS : peek(s, &r);
	if (from == FROM_FORKS)
		r = s->forks.at[0];
	if (!from || r.at_ns > now_ns)
		return -1;
	if (from == FROM_TRACE) {
		s->cursor++;
		skip_dependents(s);
	} else {
		heap_pop(from == FROM_HEAP ? &s->heap : &s->forks);
	}
	s->handed++;
	s->in_flight += from != FROM_FORKS;
	*arrival_ns = r.at_ns;
	return r.req;
}

bool source_done(const struct source *s)
{
	if (s->upstream)
		return s->closed && s->heap.n == 0 && s->forks.n == 0;
	return s->handed == s->total;
}

static int make_ready(struct source *s, int32_t parent, int32_t child, int64_t now_ns, struct err *e)
{
	const struct spec *spec = &s->w->specs[child];
	bool live = spec->fork_at > 0;
	s->parents_left[child] = 0;
	if (live && s->place_of) {
		s->place_of[child] = s->place_of[parent];
		s->on_place[s->place_of[child]]++;
	}
	return heap_push(live ? &s->forks : &s->heap, (struct ready){now_ns + spec->arrival_ns, child}, e);
}

static int release_child(struct source *s, int32_t parent, int32_t child, int64_t now_ns, bool finished, struct err *e)
{
	if (s->parents_left[child] <= 0)
		return ERR_NONE;
	if (!finished) {
		s->parents_left[child] = -1;
		if (mem_grow((void **)&s->orphans, &s->cap_orphans, s->n_orphans + 1, sizeof *s->orphans))
			return err_no_memory(e, "orphaned requests");
		s->orphans[s->n_orphans++] = child;
		return ERR_NONE;
	}
	if (s->parents_left[child] > 1) {
		s->parents_left[child]--;
		return ERR_NONE;
	}
	return make_ready(s, parent, child, now_ns, e);
}

int source_fork(struct source *s, int32_t parent, int32_t fork, int64_t now_ns, struct err *e)
{
	if (s->upstream)
		return source_fork(s->upstream, parent, fork, now_ns, e);
	return s->parents_left && s->parents_left[fork] > 0 ? make_ready(s, parent, fork, now_ns, e) : ERR_NONE;
}

int source_ended(struct source *s, int32_t req, int64_t now_ns, bool finished, struct err *e)
{
	if (s->upstream)
		return source_ended(s->upstream, req, now_ns, finished, e);
	/* An orphan never went to the server, so it takes no place at the client. */
	bool served = !s->parents_left || s->parents_left[req] >= 0;
	for (int64_t k = s->w->child_at ? s->w->child_at[req] : 0; s->w->child_at && k < s->w->child_at[req + 1]; k++)
		if (s->parents_left && release_child(s, req, s->w->child[k], now_ns, finished, e))
			return ERR_MEMORY;
	if (served)
		s->in_flight -= !s->place_of || --s->on_place[s->place_of[req]] == 0;
	return ERR_NONE;
}

int32_t source_pop_orphan(struct source *s)
{
	if (s->upstream)
		return source_pop_orphan(s->upstream);
	if (!s->n_orphans)
		return -1;
	s->handed++;
	return s->orphans[--s->n_orphans];
}

int source_push(struct source *s, int32_t req, int64_t arrival_ns, struct err *e)
{
	struct ready_heap *h = s->w->specs[req].fork_at > 0 ? &s->forks : &s->heap;
	return heap_push(h, (struct ready){arrival_ns, req}, e);
}

void source_close(struct source *s)
{
	s->closed = true;
}
