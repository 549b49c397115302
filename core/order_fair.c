#include "core/order_fair.h"

#include <stdbool.h>
#include <string.h>

#include "core/err.h"
#include "core/mem.h"

struct tenant {
	int64_t counter; /* as of fair.settled */
	int32_t decoding; /* of its requests, in the lazy cohort */
	int32_t head, tail; /* its waiting requests, -1 = none */
	int32_t heap_at, active_at; /* its place in the lists below, -1 = none */
};

/* A tenant in a walk through the queue that changes nothing. */
struct walker {
	int64_t counter;
	int32_t req; /* its next one */
};

struct fair {
	const struct workload *w;
	const struct request *requests;
	const int64_t *tick;
	int64_t settled; /* the tick up to which decodes have been charged */
	int64_t input_weight, output_weight;
	struct tenant *tenants; /* [n] */
	int32_t n;
	int32_t *heap; /* [n_heap] tenants with waiting requests, the smallest counter first */
	int32_t n_heap;
	int32_t *active; /* [n_active] tenants with decoding requests */
	int32_t n_active;
	int32_t last_to_wait; /* -1 = nobody yet */
	int32_t *next, *prev; /* [w->n] within a tenant */
	/* The walk so far: it goes on as long as it is asked for the one after the last and nothing has changed. */
	struct walker *walk; /* [n_walk] a heap */
	int32_t n_walk, walked; /* -1 = no walk */
};

int fair_create(struct fair **out, const struct workload *w, const struct request *requests,
		const struct order_params *o, const int64_t *tick, struct err *e)
{
	struct fair *f = mem_zalloc(1, sizeof *f);
	if (!f)
		return err_no_memory(e, "waiting queue");
	*f = (struct fair){.w = w,
			   .requests = requests,
			   .tick = tick,
			   .input_weight = o->input_weight,
			   .output_weight = o->output_weight,
			   .n = w->n_tenants > 0 ? w->n_tenants : 1,
			   .last_to_wait = -1,
			   .walked = -1};
	size_t n = (size_t)f->n, all = (size_t)(w->n ? w->n : 1);
	f->tenants = mem_zalloc(n, sizeof *f->tenants);
	f->heap = mem_alloc(n * sizeof *f->heap);
	f->active = mem_alloc(n * sizeof *f->active);
	f->walk = mem_alloc(n * sizeof *f->walk);
	f->next = mem_alloc(all * sizeof *f->next);
	f->prev = mem_alloc(all * sizeof *f->prev);
	if (!f->tenants || !f->heap || !f->active || !f->walk || !f->next || !f->prev) {
		fair_free(f);
		return err_no_memory(e, "waiting queue");
	}
	for (int32_t t = 0; t < f->n; t++)
		f->tenants[t].head = f->tenants[t].tail = f->tenants[t].heap_at = f->tenants[t].active_at = -1;
	*out = f;
	return ERR_NONE;
}

void fair_free(struct fair *f)
{
	if (!f)
		return;
	mem_free(f->tenants);
	mem_free(f->heap);
	mem_free(f->active);
	mem_free(f->walk);
	mem_free(f->next);
	mem_free(f->prev);
	mem_free(f);
}

static struct tenant *tenant_of(const struct fair *f, int32_t req)
{
	return &f->tenants[f->w->specs[req].tenant];
}

/* --- the heap of tenants that wait -------------------------------------------------------------------------------- */

static bool arrived_before(const struct fair *f, int32_t a, int32_t b)
{
	int64_t x = f->requests[a].arrival_ns, y = f->requests[b].arrival_ns;
	return x != y ? x < y : a < b;
}

static bool goes_before(const struct fair *f, int32_t a, int32_t b)
{
	const struct tenant *x = &f->tenants[a], *y = &f->tenants[b];
	return x->counter != y->counter ? x->counter < y->counter : arrived_before(f, x->head, y->head);
}

static void put(struct fair *f, int32_t k, int32_t tenant)
{
	f->heap[k] = tenant;
	f->tenants[tenant].heap_at = k;
}

/* Puts a tenant into place k of the heap, or wherever it belongs from there. */
static void sift(struct fair *f, int32_t k, int32_t tenant)
{
	for (; k > 0 && goes_before(f, tenant, f->heap[(k - 1) / 2]); k = (k - 1) / 2)
		put(f, k, f->heap[(k - 1) / 2]);
	for (int32_t child; (child = 2 * k + 1) < f->n_heap; k = child) {
		if (child + 1 < f->n_heap && goes_before(f, f->heap[child + 1], f->heap[child]))
			child++;
		if (!goes_before(f, f->heap[child], tenant))
			break;
		put(f, k, f->heap[child]);
	}
	put(f, k, tenant);
}

static void resift(struct fair *f, const struct tenant *t)
{
	f->walked = -1;
	if (t->heap_at >= 0)
		sift(f, t->heap_at, (int32_t)(t - f->tenants));
}

static void into_heap(struct fair *f, struct tenant *t)
{
	f->walked = -1;
	sift(f, f->n_heap++, (int32_t)(t - f->tenants));
}

static void out_of_heap(struct fair *f, struct tenant *t)
{
	int32_t k = t->heap_at, last = f->heap[--f->n_heap];
	f->walked = -1;
	t->heap_at = -1;
	f->last_to_wait = (int32_t)(t - f->tenants);
	if (k < f->n_heap)
		sift(f, k, last);
}

/* --- charges ------------------------------------------------------------------------------------------------------ */

static void settle(struct fair *f)
{
	int64_t ticks = *f->tick - f->settled;
	f->settled = *f->tick;
	for (int32_t i = 0; i < f->n_active && ticks; i++) {
		struct tenant *t = &f->tenants[f->active[i]];
		t->counter += f->output_weight * t->decoding * ticks;
		resift(f, t);
	}
}

void fair_charge(struct fair *f, int32_t req, int64_t input_tokens, int64_t output_tokens)
{
	struct tenant *t = tenant_of(f, req);
	t->counter += f->input_weight * input_tokens + f->output_weight * output_tokens;
	resift(f, t);
}

void fair_decodes(struct fair *f, int32_t req, int32_t more)
{
	struct tenant *t = tenant_of(f, req);
	settle(f);
	t->decoding += more;
	if (t->decoding > 0 && t->active_at < 0) {
		t->active_at = f->n_active;
		f->active[f->n_active++] = (int32_t)(t - f->tenants);
	} else if (t->decoding == 0 && t->active_at >= 0) {
		int32_t last = f->active[--f->n_active];
		f->active[t->active_at] = last;
		f->tenants[last].active_at = t->active_at;
		t->active_at = -1;
	}
}

int64_t fair_counter(struct fair *f, int32_t tenant)
{
	settle(f);
	return f->tenants[tenant].counter;
}

/* --- coming and going --------------------------------------------------------------------------------------------- */

static void lift(struct fair *f, struct tenant *t)
{
	int64_t least = t->counter;
	if (f->n_heap)
		least = f->tenants[f->heap[0]].counter;
	else if (f->last_to_wait >= 0)
		least = f->tenants[f->last_to_wait].counter;
	t->counter = t->counter > least ? t->counter : least;
}

void fair_arrive(struct fair *f, int32_t req)
{
	struct tenant *t = tenant_of(f, req);
	settle(f);
	f->walked = -1;
	if (t->head < 0 && f->requests[req].state == REQUEST_WAITING)
		lift(f, t);
	f->prev[req] = t->tail;
	f->next[req] = -1;
	*(t->tail < 0 ? &t->head : &f->next[t->tail]) = req;
	t->tail = req;
	if (t->heap_at < 0)
		into_heap(f, t);
}

void fair_return(struct fair *f, int32_t req)
{
	struct tenant *t = tenant_of(f, req);
	settle(f);
	f->prev[req] = -1;
	f->next[req] = t->head;
	*(t->head < 0 ? &t->tail : &f->prev[t->head]) = req;
	t->head = req;
	if (t->heap_at < 0)
		into_heap(f, t);
	else
		resift(f, t);
}

void fair_remove(struct fair *f, int32_t req)
{
	struct tenant *t = tenant_of(f, req);
	int32_t prev = f->prev[req], next = f->next[req];
	settle(f);
	*(prev < 0 ? &t->head : &f->next[prev]) = next;
	*(next < 0 ? &t->tail : &f->prev[next]) = prev;
	if (t->head < 0)
		out_of_heap(f, t);
	else
		resift(f, t);
}

int32_t fair_first(struct fair *f)
{
	settle(f);
	return f->n_heap ? f->tenants[f->heap[0]].head : -1;
}

/* --- walking through all of it ------------------------------------------------------------------------------------ */

static bool walks_before(const struct fair *f, const struct walker *x, const struct walker *y)
{
	return x->counter != y->counter ? x->counter < y->counter : arrived_before(f, x->req, y->req);
}

static void sink(struct fair *f, struct walker x)
{
	int32_t k = 0;
	for (int32_t child; (child = 2 * k + 1) < f->n_walk; k = child) {
		if (child + 1 < f->n_walk && walks_before(f, &f->walk[child + 1], &f->walk[child]))
			child++;
		if (!walks_before(f, &f->walk[child], &x))
			break;
		f->walk[k] = f->walk[child];
	}
	f->walk[k] = x;
}

/* As if the first of the walk had been let in. */
static void walk_on(struct fair *f)
{
	struct walker x = f->walk[0];
	if (f->requests[x.req].state == REQUEST_WAITING)
		x.counter += f->input_weight * f->w->specs[x.req].prompt_tokens;
	x.req = f->next[x.req];
	if (x.req < 0)
		x = f->walk[--f->n_walk];
	if (f->n_walk)
		sink(f, x);
}

int32_t fair_next(struct fair *f, int32_t req)
{
	settle(f);
	if (f->walked != req || !f->n_walk) {
		/* A heap by the same key is one already. */
		f->n_walk = f->n_heap;
		for (int32_t k = 0; k < f->n_heap; k++)
			f->walk[k] = (struct walker){f->tenants[f->heap[k]].counter, f->tenants[f->heap[k]].head};
		while (f->n_walk && f->walk[0].req != req)
			walk_on(f);
	}
	if (f->n_walk)
		walk_on(f);
	f->walked = f->n_walk ? f->walk[0].req : -1;
	return f->walked;
}
