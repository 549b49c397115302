#include "core/queue.h"

#include <string.h>

#include "core/err.h"
#include "core/mem.h"

static int add_level(struct wait_queue *q, int64_t at, int32_t priority, struct err *e)
{
	if (mem_grow((void **)&q->levels, &q->cap_levels, q->n_levels + 1, sizeof *q->levels))
		return err_no_memory(e, "priority levels");
	memmove(&q->levels[at + 1], &q->levels[at], (size_t)(q->n_levels - at) * sizeof *q->levels);
	q->levels[at] = (struct wait_level){priority, -1, -1};
	q->n_levels++;
	return ERR_NONE;
}

int queue_init(struct wait_queue *q, const struct workload *w, const struct request *requests, bool by_priority,
	       struct err *e)
{
	memset(q, 0, sizeof *q);
	q->w = w;
	q->requests = requests;
	q->by_priority = by_priority;
	q->next = mem_alloc((size_t)w->n * sizeof *q->next);
	q->prev = mem_alloc((size_t)w->n * sizeof *q->prev);
	if (!q->next || !q->prev)
		return err_no_memory(e, "waiting queue");
	return by_priority ? ERR_NONE : add_level(q, 0, 0, e);
}

void queue_free(struct wait_queue *q)
{
	mem_free(q->next);
	mem_free(q->prev);
	mem_free(q->levels);
	memset(q, 0, sizeof *q);
}

/* The first level whose priority is not below the request's. */
static int64_t level_at(const struct wait_queue *q, int32_t req)
{
	if (!q->by_priority)
		return 0;
	int64_t lo = 0, hi = q->n_levels;
	while (lo < hi) {
		int64_t mid = (lo + hi) / 2;
		if (q->levels[mid].priority < q->w->specs[req].priority)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static void insert_after(struct wait_queue *q, struct wait_level *l, int32_t req, int32_t after)
{
	int32_t before = after < 0 ? l->head : q->next[after];
	q->prev[req] = after;
	q->next[req] = before;
	*(after < 0 ? &l->head : &q->next[after]) = req;
	*(before < 0 ? &l->tail : &q->prev[before]) = req;
	q->count++;
}

static bool goes_before(const struct wait_queue *q, int32_t a, int32_t b)
{
	int64_t x = q->requests[a].arrival_ns, y = q->requests[b].arrival_ns;
	return x != y ? x < y : a < b;
}

int queue_arrive(struct wait_queue *q, int32_t req, struct err *e)
{
	int64_t at = level_at(q, req);
	if (at == q->n_levels || (q->by_priority && q->levels[at].priority != q->w->specs[req].priority))
		if (add_level(q, at, q->w->specs[req].priority, e))
			return ERR_MEMORY;
	struct wait_level *l = &q->levels[at];
	int32_t after = l->tail;
	while (q->by_priority && after >= 0 && goes_before(q, req, after))
		after = q->prev[after];
	insert_after(q, l, req, after);
	return ERR_NONE;
}

void queue_return(struct wait_queue *q, int32_t req)
{
	struct wait_level *l = &q->levels[level_at(q, req)];
	int32_t after = -1, next = l->head;
	while (q->by_priority && next >= 0 && goes_before(q, next, req)) {
		after = next;
		next = q->next[next];
	}
	insert_after(q, l, req, after);
}

void queue_remove(struct wait_queue *q, int32_t req)
{
	struct wait_level *l = &q->levels[level_at(q, req)];
	int32_t prev = q->prev[req], next = q->next[req];
	*(prev < 0 ? &l->head : &q->next[prev]) = next;
	*(next < 0 ? &l->tail : &q->prev[next]) = prev;
	q->count--;
}

static int32_t first_from(const struct wait_queue *q, int64_t level)
{
	for (; level < q->n_levels; level++)
		if (q->levels[level].head >= 0)
			return q->levels[level].head;
	return -1;
}

int32_t queue_first(const struct wait_queue *q)
{
	return first_from(q, 0);
}

int32_t queue_next(const struct wait_queue *q, int32_t req)
{
	return q->next[req] >= 0 ? q->next[req] : first_from(q, level_at(q, req) + 1);
}
