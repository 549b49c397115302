#include "analysis/profile_points.h"

#include <math.h>
#include <stdlib.h>

#include "core/err.h"
#include "core/mem.h"

struct timed {
	enum profile_op op;
	int32_t x;
	int64_t y;
	double ns, half_ns;
	bool warm_up;
};

void timings_free(struct timings *t)
{
	mem_free(t->at);
	*t = (struct timings){0};
}

int timings_add(struct timings *t, enum profile_op op, int64_t x, int64_t y, double ns, bool warm_up, double half_ns,
		struct err *e)
{
	if (x < 1)
		return ERR_NONE;
	if (mem_grow((void **)&t->at, &t->cap, t->n + 1, sizeof *t->at))
		return err_no_memory(e, "samples");
	t->at[t->n++] = (struct timed){op, (int32_t)x, y, ns > 0 ? ns : 0, half_ns, warm_up};
	return ERR_NONE;
}

/* By place; what is no warm-up first; then by time. */
static int in_order(const void *a, const void *b)
{
	const struct timed *p = a, *q = b;
	if (p->op != q->op)
		return p->op < q->op ? -1 : 1;
	if (p->x != q->x)
		return p->x < q->x ? -1 : 1;
	if (p->y != q->y)
		return p->y < q->y ? -1 : 1;
	if (p->warm_up != q->warm_up)
		return p->warm_up ? 1 : -1;
	return p->ns < q->ns ? -1 : p->ns > q->ns;
}

static bool same_place(const struct timed *a, const struct timed *b)
{
	return a->op == b->op && a->x == b->x && a->y == b->y;
}

double timings_quantile(const double *ordered, int64_t n, double q)
{
	double place = q * (double)(n - 1);
	int64_t k = (int64_t)place;
	double low = ordered[k], high = ordered[k + 1 < n ? k + 1 : k];
	return low + (high - low) * (place - (double)k);
}

static int add_point(struct profile *p, const struct timed *first, int64_t n, double *ns, struct err *e)
{
	for (int64_t i = 0; i < n; i++)
		ns[i] = first[i].ns;
	struct profile_point pt = {.op = first->op,
				   .x = first->x,
				   .y = first->y,
				   .ns = timings_quantile(ns, n, 0.5),
				   .low_ns = timings_quantile(ns, n, 0.25),
				   .high_ns = timings_quantile(ns, n, 0.75),
				   .repeats = (int32_t)n};
	if (n == 1) {
		pt.low_ns = pt.ns > first->half_ns ? pt.ns - first->half_ns : 0;
		pt.high_ns = pt.ns + first->half_ns;
	}
	return profile_add(p, &pt, e);
}

int timings_reduce(struct profile *p, struct timings *t, struct err *e)
{
	int rc = ERR_NONE;
	double *ns = mem_alloc((size_t)(t->n + 1) * sizeof *ns);
	if (!ns)
		return err_no_memory(e, "samples");
	if (t->n)
		qsort(t->at, (size_t)t->n, sizeof *t->at, in_order);
	for (int64_t i = 0, all; rc == ERR_NONE && i < t->n; i += all) {
		const struct timed *first = &t->at[i];
		int64_t n = 0;
		for (all = 0; i + all < t->n && same_place(first, &first[all]); all++)
			n += first[all].warm_up == first->warm_up;
		rc = add_point(p, first, n, ns, e);
	}
	mem_free(ns);
	return rc ? rc : profile_sort(p, e);
}

/* --- points that cannot be ---------------------------------------------------------------------------------------- */

enum { TOLERATED = 20 }; /* beyond 1 / TOLERATED */

/* Between the points at[0 .. n), by x; x lies among them. */
static double between(const struct profile_point *at, int32_t n, int32_t x)
{
	int32_t k = 1;
	while (k < n - 1 && at[k].x < x)
		k++;
	if (n < 2)
		return at[0].ns;
	const struct profile_point *a = &at[k - 1], *b = &at[k];
	return a->ns + (b->ns - a->ns) * (x - a->x) / (b->x - a->x);
}

/* The quickest way of computing at[k]'s rows in two products of those before it. */
static double in_two(const struct profile_point *at, int32_t k)
{
	double best = INFINITY;
	for (int32_t i = 0; i < k; i++) {
		int32_t rest = at[k].x - at[i].x;
		if (rest < at[0].x || rest > at[k - 1].x)
			continue;
		double ns = at[i].ns + between(at, k, rest);
		best = ns < best ? ns : best;
	}
	return best;
}

static void lower(struct profile_point *p, double ns)
{
	p->ns = ns;
	if (p->low_ns > ns)
		p->low_ns = ns;
}

static int32_t bound(struct profile_point *at, int32_t n)
{
	int32_t moved = 0;
	for (int32_t k = 1; k < n; k++) {
		double most = in_two(at, k);
		if (at[k].ns <= most + most / TOLERATED)
			continue;
		lower(&at[k], most);
		moved++;
	}
	for (int32_t k = n - 2; k >= 0; k--) {
		if (at[k].ns <= at[k + 1].ns + at[k + 1].ns / TOLERATED)
			continue;
		lower(&at[k], at[k + 1].ns);
		moved++;
	}
	return moved;
}

int32_t timings_bound_products(struct profile *p)
{
	static const enum profile_op ops[] = {PROFILE_MATMUL, PROFILE_HEAD};
	int32_t moved = 0;
	for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
		int32_t first = 0, n = 0;
		while (first < p->n_points && p->points[first].op != ops[i])
			first++;
		while (first + n < p->n_points && p->points[first + n].op == ops[i])
			n++;
		moved += bound(p->points + first, n);
	}
	return moved;
}

/* --- rows without a beginning ------------------------------------------------------------------------------------- */

int32_t timings_drop_headless(struct profile *p)
{
	int64_t least[PROFILE_OPS];
	int32_t kept = 0, dropped = 0;
	for (int op = 0; op < PROFILE_OPS; op++)
		least[op] = INT64_MAX;
	for (int32_t i = 0; i < p->n_points; i++)
		if (p->points[i].y < least[p->points[i].op])
			least[p->points[i].op] = p->points[i].y;
	bool headless = false;
	for (int32_t i = 0; i < p->n_points; i++) {
		const struct profile_point pt = p->points[i];
		bool grid = pt.op == PROFILE_DECODE || pt.op == PROFILE_PREFILL;
		/* Sorted by y last: a row begins with its shortest context. */
		if (i == 0 || pt.op != p->points[i - 1].op || pt.x != p->points[i - 1].x)
			headless = grid && pt.y != least[pt.op];
		if (headless)
			dropped++;
		else
			p->points[kept++] = pt;
	}
	p->n_points = kept;
	return dropped;
}
