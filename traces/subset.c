#include "traces/subset.h"

#include <stdlib.h>
#include <string.h>

#include "core/err.h"
#include "core/mem.h"
#include "core/rng.h"

struct key {
	int64_t at;
	int32_t i;
};

static bool before(struct key a, struct key b)
{
	return a.at != b.at ? a.at < b.at : a.i < b.i;
}

static void push(struct key *heap, int64_t *n, struct key k)
{
	int64_t at = (*n)++;
	for (; at > 0 && before(k, heap[(at - 1) / 2]); at = (at - 1) / 2)
		heap[at] = heap[(at - 1) / 2];
	heap[at] = k;
}

static struct key pop(struct key *heap, int64_t *n)
{
	struct key top = heap[0], last = heap[--*n];
	int64_t at = 0;
	for (int64_t c; (c = 2 * at + 1) < *n; at = c) {
		if (c + 1 < *n && before(heap[c + 1], heap[c]))
			c++;
		if (!before(heap[c], last))
			break;
		heap[at] = heap[c];
	}
	heap[at] = last;
	return top;
}

static int64_t add_capped(int64_t a, int64_t b)
{
	int64_t sum;
	return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

/* Kahn's algorithm with a heap: whoever could start first goes first, so parents always go before children. */
static void ready_in_order(const struct workload *w, int64_t *ready_ns, int32_t *order, int32_t *left, struct key *heap)
{
	int64_t n = 0, done = 0;
	memcpy(left, w->n_parents, (size_t)w->n * sizeof *left);
	for (int64_t i = 0; i < w->n; i++) {
		ready_ns[i] = w->specs[i].arrival_ns;
		if (!left[i])
			push(heap, &n, (struct key){ready_ns[i], (int32_t)i});
		else
			ready_ns[i] = 0;
	}
	while (n > 0) {
		struct key k = pop(heap, &n);
		if (order)
			order[done++] = k.i;
		for (int64_t c = w->child_at[k.i]; c < w->child_at[k.i + 1]; c++) {
			int32_t child = w->child[c];
			/* until its last parent is known, its place holds the latest one so far */
			if (ready_ns[child] < k.at)
				ready_ns[child] = k.at;
			if (--left[child])
				continue;
			ready_ns[child] = add_capped(ready_ns[child], w->specs[child].arrival_ns);
			push(heap, &n, (struct key){ready_ns[child], child});
		}
	}
}

int subset_ready(const struct workload *w, int64_t *ready_ns, int32_t *order, struct err *e)
{
	if (!w->n_parents) {
		for (int64_t i = 0; i < w->n; i++) {
			ready_ns[i] = w->specs[i].arrival_ns;
			if (order)
				order[i] = (int32_t)i;
		}
		return ERR_NONE;
	}
	int32_t *left = mem_alloc((size_t)w->n * sizeof *left);
	struct key *heap = mem_alloc((size_t)w->n * sizeof *heap);
	int code = left && heap ? ERR_NONE : err_no_memory(e, "the order of dependent requests");
	if (!code)
		ready_in_order(w, ready_ns, order, left, heap);
	mem_free(left);
	mem_free(heap);
	return code;
}

int subset_parents(const struct workload *w, int64_t **at, int32_t **parent, struct err *e)
{
	*at = NULL;
	*parent = NULL;
	if (!w->n_parents)
		return ERR_NONE;
	*at = mem_zalloc((size_t)w->n + 1, sizeof **at);
	*parent = mem_alloc((size_t)w->child_at[w->n] * sizeof **parent);
	if (!*at || !*parent) {
		mem_free(*at);
		mem_free(*parent);
		*at = NULL;
		*parent = NULL;
		return err_no_memory(e, "dependencies");
	}
	for (int64_t i = 0; i < w->n; i++)
		(*at)[i + 1] = (*at)[i] + w->n_parents[i];
	/* Parents come in ascending order, so filling each child's row from its start sorts it; the start of row i is
	 * moved on while filling, and ends as the start of row i + 1. */
	for (int64_t i = 0; i < w->n; i++)
		for (int64_t k = w->child_at[i]; k < w->child_at[i + 1]; k++)
			(*parent)[(*at)[w->child[k]]++] = (int32_t)i;
	memmove(*at + 1, *at, (size_t)w->n * sizeof **at);
	(*at)[0] = 0;
	return ERR_NONE;
}

/* The links among kept requests as pairs of new indices, by child (then the children of each parent are ascending, as
 * in a file read in this order); new_of is -1 for dropped ones. */
struct links {
	int32_t *parent, *child;
	int64_t n;
};

static int collect_links(const struct workload *w, const int32_t *from, int64_t n, const int32_t *new_of,
			 struct links *l, struct err *e)
{
	int64_t *at;
	int32_t *old;
	int code = subset_parents(w, &at, &old, e);
	if (code)
		return code;
	l->parent = mem_alloc((size_t)w->child_at[w->n] * sizeof *l->parent);
	l->child = mem_alloc((size_t)w->child_at[w->n] * sizeof *l->child);
	if (!l->parent || !l->child)
		code = err_no_memory(e, "dependencies");
	for (int64_t i = 0; i < n && !code; i++)
		for (int64_t k = at[from[i]]; k < at[from[i] + 1]; k++)
			if (new_of[old[k]] >= 0) {
				l->parent[l->n] = new_of[old[k]];
				l->child[l->n++] = (int32_t)i;
			}
	mem_free(at);
	mem_free(old);
	return code;
}

static void drop_links(struct workload *w)
{
	mem_free(w->child_at);
	mem_free(w->child);
	mem_free(w->n_parents);
	w->child_at = NULL;
	w->child = NULL;
	w->n_parents = NULL;
}

/* Makes w of the n requests in `from` (old indices, in their new order), with the links among them. new_of is [w->n]
 * scratch. */
static int rebuild(struct workload *w, const int32_t *from, int64_t n, int32_t *new_of, struct err *e)
{
	struct links l = {0};
	struct spec *specs = mem_alloc((size_t)(n > 0 ? n : 1) * sizeof *specs);
	if (!specs)
		return err_no_memory(e, "requests");
	for (int64_t i = 0; i < w->n; i++)
		new_of[i] = -1;
	for (int64_t k = 0; k < n; k++) {
		new_of[from[k]] = (int32_t)k;
		specs[k] = w->specs[from[k]];
	}
	int code = collect_links(w, from, n, new_of, &l, e);
	if (!code) {
		drop_links(w);
		mem_free(w->specs);
		w->specs = specs;
		w->n = w->cap = n;
		specs = NULL;
		code = workload_link(w, l.parent, l.child, l.n, e);
	}
	mem_free(specs);
	mem_free(l.parent);
	mem_free(l.child);
	return code;
}

/* The kept requests in their old order. One that loses all its parents arrives when it could have started. */
static int64_t survivors(struct workload *w, const bool *keep, const int64_t *ready, int32_t *parents, int32_t *from,
			 int64_t *cut)
{
	int64_t n = 0;
	memset(parents, 0, (size_t)w->n * sizeof *parents);
	for (int64_t i = 0; i < w->n; i++)
		for (int64_t k = w->child_at[i]; keep[i] && k < w->child_at[i + 1]; k++)
			parents[w->child[k]]++;
	for (int64_t i = 0; i < w->n; i++) {
		if (!keep[i])
			continue;
		if (w->n_parents[i] && !parents[i]) {
			w->specs[i].arrival_ns = ready[i];
			w->specs[i].fork_at = 0;
			++*cut;
		}
		from[n++] = (int32_t)i;
	}
	return n;
}

static int keep_linked(struct workload *w, const bool *keep, int64_t *cut, struct err *e)
{
	int64_t *ready = mem_alloc((size_t)w->n * sizeof *ready);
	int32_t *scratch = mem_alloc((size_t)w->n * sizeof *scratch);
	int32_t *from = mem_alloc((size_t)w->n * sizeof *from);
	int code = ready && scratch && from ? subset_ready(w, ready, NULL, e) : err_no_memory(e, "part of a trace");
	if (!code)
		code = rebuild(w, from, survivors(w, keep, ready, scratch, from, cut), scratch, e);
	mem_free(ready);
	mem_free(scratch);
	mem_free(from);
	return code ? code : subset_sort(w, e);
}

int subset_keep(struct workload *w, const bool *keep, int64_t *cut, struct err *e)
{
	int64_t lost = 0, n = 0;
	if (!cut)
		cut = &lost;
	*cut = 0;
	if (w->n_parents)
		return keep_linked(w, keep, cut, e);
	for (int64_t i = 0; i < w->n; i++)
		if (keep[i])
			w->specs[n++] = w->specs[i];
	w->n = n;
	return subset_renumber(w, e);
}

static bool in_order(const int32_t *order, int64_t n)
{
	for (int64_t k = 0; k < n; k++)
		if (order[k] != k)
			return false;
	return true;
}

static int sort_linked(struct workload *w, struct err *e)
{
	int64_t *ready = mem_alloc((size_t)w->n * sizeof *ready);
	int32_t *scratch = mem_alloc((size_t)w->n * sizeof *scratch);
	int32_t *order = mem_alloc((size_t)w->n * sizeof *order);
	int code = ready && scratch && order ? subset_ready(w, ready, order, e) : err_no_memory(e, "sorting the trace");
	if (!code && !in_order(order, w->n))
		code = rebuild(w, order, w->n, scratch, e);
	mem_free(ready);
	mem_free(scratch);
	mem_free(order);
	return code;
}

int subset_sort(struct workload *w, struct err *e)
{
	int code = w->n_parents ? sort_linked(w, e) : workload_sort(w, NULL, e);
	return code ? code : subset_renumber(w, e);
}

static int renumber_sessions(struct workload *w, struct err *e)
{
	int32_t most = -1, next = 0;
	for (int64_t i = 0; i < w->n; i++)
		most = w->specs[i].session > most ? w->specs[i].session : most;
	if (most < 0)
		return ERR_NONE;
	int32_t *number = mem_zalloc((size_t)most + 1, sizeof *number); /* of each session, from 1; 0 = not seen */
	if (!number)
		return err_no_memory(e, "sessions");
	for (int64_t i = 0; i < w->n; i++) {
		int32_t s = w->specs[i].session;
		if (s < 0)
			continue;
		if (!number[s])
			number[s] = ++next;
		w->specs[i].session = number[s] - 1;
	}
	mem_free(number);
	return ERR_NONE;
}

/* The same for classes; those nobody has any more go. tenants[0], "none given", stays the first. */
static int renumber_tenants(struct workload *w, struct err *e)
{
	if (w->n_tenants <= 1)
		return ERR_NONE;
	int32_t *number = mem_zalloc((size_t)w->n_tenants, sizeof *number), next = 1;
	char **names = mem_alloc((size_t)w->n_tenants * sizeof *names);
	if (!number || !names) {
		mem_free(number);
		mem_free(names);
		return err_no_memory(e, "classes");
	}
	names[0] = w->tenants[0];
	for (int64_t i = 0; i < w->n; i++) {
		int32_t t = w->specs[i].tenant;
		if (t > 0 && !number[t]) {
			number[t] = next;
			names[next++] = w->tenants[t];
		}
		w->specs[i].tenant = number[t];
	}
	for (int32_t t = 1; t < w->n_tenants; t++)
		if (!number[t])
			mem_free(w->tenants[t]);
	mem_free(w->tenants);
	mem_free(number);
	w->tenants = names;
	w->n_tenants = next;
	return ERR_NONE;
}

int subset_renumber(struct workload *w, struct err *e)
{
	int code = renumber_sessions(w, e);
	return code ? code : renumber_tenants(w, e);
}

void slice_default(struct slice *s)
{
	*s = (struct slice){.end_ns = INT64_MAX, .every = 1, .sample = 1};
}

static int slice_check(const struct slice *s, struct err *e)
{
	if (s->start_ns < 0 || s->end_ns <= s->start_ns)
		return err_set(e, ERR_INPUT, "the slice ends (%.9g s) before it starts (%.9g s)",
			       (double)s->end_ns / 1e9, (double)s->start_ns / 1e9);
	if (s->every < 1)
		return err_set(e, ERR_INPUT, "every %lld-th request: must be at least 1", (long long)s->every);
	if (!(s->sample > 0 && s->sample <= 1))
		return err_set(e, ERR_INPUT, "a sample of %g: must be above 0 and at most 1", s->sample);
	if (s->num_prompts < 0)
		return err_set(e, ERR_INPUT, "%lld requests: must be at least 0", (long long)s->num_prompts);
	return ERR_NONE;
}

/* The requests in the order they become ready, through the four sieves. */
static int64_t slice_choose(const struct workload *w, const struct slice *s, const int64_t *ready, const int32_t *order,
			    bool *keep)
{
	struct rng r;
	rng_init(&r, s->seed, 0x736c696365);
	int64_t within = 0, chosen = 0, kept = 0;
	for (int64_t k = 0; k < w->n; k++) {
		int32_t i = order[k];
		keep[i] = false;
		if (ready[i] < s->start_ns || ready[i] >= s->end_ns)
			continue;
		if (s->num_prompts && within >= s->num_prompts)
			continue;
		within++;
		if (chosen++ % s->every)
			continue;
		keep[i] = s->sample >= 1 || rng_unit(&r) < s->sample;
		kept += keep[i];
	}
	return kept;
}

/* The first request, which has no parents, arrives at 0, as readers see to. */
static void from_zero(struct workload *w)
{
	int64_t first = w->n ? w->specs[0].arrival_ns : 0;
	for (int64_t i = 0; i < w->n; i++)
		if (!w->n_parents || !w->n_parents[i])
			w->specs[i].arrival_ns -= first;
}

int slice_apply(struct workload *w, const struct slice *s, int64_t *cut, struct err *e)
{
	int code = slice_check(s, e);
	if (code)
		return code;
	int64_t *ready = mem_alloc((size_t)(w->n + 1) * sizeof *ready);
	int32_t *order = mem_alloc((size_t)(w->n + 1) * sizeof *order);
	bool *keep = mem_alloc((size_t)(w->n + 1) * sizeof *keep);
	code = ready && order && keep ? subset_ready(w, ready, order, e) : err_no_memory(e, "part of a trace");
	if (code)
		goto out;
	if (!slice_choose(w, s, ready, order, keep)) {
		code = err_set(e, ERR_INPUT, "no request is left: the trace's %lld start from %.9g s to %.9g s",
			       (long long)w->n, w->n ? (double)ready[order[0]] / 1e9 : 0,
			       w->n ? (double)ready[order[w->n - 1]] / 1e9 : 0);
		goto out;
	}
	code = subset_keep(w, keep, cut, e);
	if (!code)
		from_zero(w);
out:
	mem_free(ready);
	mem_free(order);
	mem_free(keep);
	return code;
}
