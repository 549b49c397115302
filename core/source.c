#include "core/source.h"

#include <stddef.h>
#include <string.h>

#include "core/err.h"
#include "core/mem.h"

struct ready {
	int64_t at_ns;
	int32_t req;
};

struct source {
	const struct workload *w;
	int64_t cursor; /* next of the trace's own arrivals; those with parents are stepped over */
	int64_t handed; /* requests handed out so far, orphans included */
	int64_t total; /* requests there will be; an inbox does not know */

	struct ready *heap; /* released or pushed, by (time, index) */
	int64_t n_heap, cap_heap;

	int32_t *parents_left; /* [w->n]; -1: orphaned. NULL without dependencies */
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
		if (!s->parents_left) {
			mem_free(s);
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
	mem_free(s->heap);
	mem_free(s->parents_left);
	mem_free(s->orphans);
	mem_free(s);
}

static bool earlier(struct ready a, struct ready b)
{
	return a.at_ns != b.at_ns ? a.at_ns < b.at_ns : a.req < b.req;
}

static int heap_push(struct source *s, struct ready r, struct err *e)
{
	if (mem_grow((void **)&s->heap, &s->cap_heap, s->n_heap + 1, sizeof *s->heap))
		return err_no_memory(e, "released arrivals");
	int64_t k = s->n_heap++;
	for (; k > 0 && earlier(r, s->heap[(k - 1) / 2]); k = (k - 1) / 2)
		s->heap[k] = s->heap[(k - 1) / 2];
	s->heap[k] = r;
	return ERR_NONE;
}

static void heap_pop(struct source *s)
{
	struct ready last = s->heap[--s->n_heap];
	int64_t k = 0;
	for (;;) {
		int64_t child = 2 * k + 1;
		if (child >= s->n_heap)
			break;
		if (child + 1 < s->n_heap && earlier(s->heap[child + 1], s->heap[child]))
			child++;
		if (!earlier(s->heap[child], last))
			break;
		s->heap[k] = s->heap[child];
		k = child;
	}
	s->heap[k] = last;
}

/* The earlier of the trace's next arrival and the heap's first; false when neither has one. */
static bool peek(const struct source *s, struct ready *out, bool *from_heap)
{
	bool have = s->cursor < s->w->n;
	if (have)
		*out = (struct ready){s->w->specs[s->cursor].arrival_ns, (int32_t)s->cursor};
	*from_heap = s->n_heap && (!have || earlier(s->heap[0], *out));
	if (*from_heap)
		*out = s->heap[0];
	return have || *from_heap;
}

static bool client_is_full(const struct source *s)
{
	return s->max_concurrency > 0 && s->in_flight >= s->max_concurrency;
}

int64_t source_next_ns(const struct source *s)
{
	struct ready r;
	bool from_heap;
	if (client_is_full(s) || !peek(s, &r, &from_heap))
		return INT64_MAX;
	return r.at_ns;
}

int32_t source_pop(struct source *s, int64_t now_ns, int64_t *arrival_ns)
{
	struct ready r;
	bool from_heap;
	if (client_is_full(s) || !peek(s, &r, &from_heap) || r.at_ns > now_ns)
		return -1;
	if (from_heap) {
		heap_pop(s);
	} else {
		s->cursor++;
		skip_dependents(s);
	}
	s->handed++;
	s->in_flight++;
	*arrival_ns = r.at_ns;
	return r.req;
}

bool source_done(const struct source *s)
{
	if (s->upstream)
		return s->closed && s->n_heap == 0;
	return s->handed == s->total;
}

static int release_child(struct source *s, int32_t child, int64_t now_ns, bool finished, struct err *e)
{
	if (s->parents_left[child] < 0)
		return ERR_NONE;
	if (!finished) {
		s->parents_left[child] = -1;
		if (mem_grow((void **)&s->orphans, &s->cap_orphans, s->n_orphans + 1, sizeof *s->orphans))
			return err_no_memory(e, "orphaned requests");
		s->orphans[s->n_orphans++] = child;
		return ERR_NONE;
	}
	if (--s->parents_left[child] > 0)
		return ERR_NONE;
	return heap_push(s, (struct ready){now_ns + s->w->specs[child].arrival_ns, child}, e);
}

int source_ended(struct source *s, int32_t req, int64_t now_ns, bool finished, struct err *e)
{
	if (s->upstream)
		return source_ended(s->upstream, req, now_ns, finished, e);
	/* An orphan never went to the server, so it takes no place at the client. */
	if (!s->parents_left || s->parents_left[req] >= 0)
		s->in_flight--;
	if (!s->parents_left)
		return ERR_NONE;
	for (int64_t k = s->w->child_at[req]; k < s->w->child_at[req + 1]; k++)
		if (release_child(s, s->w->child[k], now_ns, finished, e))
			return ERR_MEMORY;
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
	return heap_push(s, (struct ready){arrival_ns, req}, e);
}

void source_close(struct source *s)
{
	s->closed = true;
}
