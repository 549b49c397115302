/* profile_table.c: measured points laid out for asking.
 *
 * Operations of one argument are curves. Those of two are rails: for each x measured, its points by y. A question lies on
 * or between two rails: each is followed to the asked y, then the two are blended. For decodes, whose work is
 * rows x (a + b mean), both are straight lines. A chunk of n tokens after s has s n + n (n + 1) / 2 query-key pairs: the
 * blend over n follows n (s + c0) + n (n + 1) / 2, where c0 (what a row costs besides, in keys) comes from a fit of
 * a + b n + c pairs to all points. So it is exact for any cost of that form, and never falls when n grows. */
#include <math.h>
#include <string.h>

#include "core/err.h"
#include "core/mem.h"
#include "sim/profile.h"

#define Y_MAX ((int64_t)1 << 31)

struct rail {
	int32_t x;
	int32_t first, n; /* its points */
};

struct surface {
	enum profile_op op;
	struct rail *rails; /* [n_rails] by x */
	int32_t n_rails;
	int64_t *y; /* by rail, then y */
	double *ns;
	double base, per_x, per_pair; /* the fit: base + per_x * x + per_pair * pairs(x, y) */
	int64_t y_last; /* the largest of all rails */
};

struct profile_table {
	struct surface ops[PROFILE_HOST]; /* a curve has one point a rail */
	double host_step, host_sequence, host_token;
	bool windowed;
};

/* --- fits --------------------------------------------------------------------------------------------------------- */

/* Sums of a least-squares fit of three terms. */
struct sums {
	double a[3][3], b[3];
};

static void sums_add(struct sums *s, const double term[3], double value, double weight)
{
	for (int i = 0; i < 3; i++) {
		for (int k = 0; k < 3; k++)
			s->a[i][k] += weight * term[i] * term[k];
		s->b[i] += weight * term[i] * value;
	}
}

/* Solves for the terms in use (the others 0) by elimination; terms that cannot be told apart from others get 0. */
static void solve(const struct sums *s, const bool use[3], double x[3])
{
	double a[3][4];
	bool pivot[3];
	for (int i = 0; i < 3; i++) {
		for (int k = 0; k < 3; k++)
			a[i][k] = use[i] && use[k] ? s->a[i][k] : 0;
		a[i][3] = use[i] ? s->b[i] : 0;
	}
	for (int i = 0; i < 3; i++) {
		pivot[i] = a[i][i] > 1e-9 * s->a[i][i] && a[i][i] > 0;
		for (int r = 0; pivot[i] && r < 3; r++) {
			double f = r == i ? 0 : a[r][i] / a[i][i];
			for (int k = 0; k < 4 && r != i; k++)
				a[r][k] -= f * a[i][k];
		}
	}
	for (int i = 0; i < 3; i++)
		x[i] = pivot[i] ? a[i][3] / a[i][i] : 0;
}

/* None of the terms can be negative: the most negative one is left out, and the rest fitted again. */
static void solve_positive(const struct sums *s, double x[3])
{
	bool use[3] = {true, true, true};
	for (int round = 0; round < 3; round++) {
		int worst = -1;
		solve(s, use, x);
		for (int i = 0; i < 3; i++)
			if (x[i] < 0 && (worst < 0 || x[i] < x[worst]))
				worst = i;
		if (worst < 0)
			return;
		use[worst] = false;
		x[worst] = 0;
	}
}

static double pairs(enum profile_op op, double x, double y)
{
	return op == PROFILE_PREFILL ? x * y + x * (x + 1) / 2 : x * y;
}

static void fit_surface(struct surface *s)
{
	struct sums sums = {0};
	double x[3];
	for (int32_t r = 0; r < s->n_rails; r++) {
		for (int32_t i = s->rails[r].first; i < s->rails[r].first + s->rails[r].n; i++) {
			const double rx = s->rails[r].x;
			const double term[3] = {1, rx, pairs(s->op, rx, (double)s->y[i])};
			double ns = s->ns[i] > 1 ? s->ns[i] : 1;
			sums_add(&sums, term, s->ns[i], 1 / (ns * ns));
		}
	}
	solve_positive(&sums, x);
	s->base = x[0];
	s->per_x = x[1];
	s->per_pair = x[2];
}

static void fit_host(struct profile_table *t, const struct profile *p)
{
	struct sums sums = {0};
	double x[3];
	for (int32_t i = 0; i < p->n_points; i++) {
		const struct profile_point *q = &p->points[i];
		const double term[3] = {1, q->x, (double)q->y};
		double ns = q->ns + 1000; /* a microsecond is as good as nothing */
		if (q->op == PROFILE_HOST)
			sums_add(&sums, term, q->ns, 1 / (ns * ns));
	}
	solve_positive(&sums, x);
	t->host_step = x[0];
	t->host_sequence = x[1];
	t->host_token = x[2];
}

/* --- making it ---------------------------------------------------------------------------------------------------- */

static int check_point(const struct profile *p, int32_t i, struct err *e)
{
	const struct profile_point *q = &p->points[i];
	bool after = i == 0 || p->points[i - 1].op < q->op ||
		     (p->points[i - 1].op == q->op &&
		      (p->points[i - 1].x < q->x || (p->points[i - 1].x == q->x && p->points[i - 1].y < q->y)));
	char who[112];
	profile_describe(p, who, sizeof who);
	if ((unsigned)q->op >= PROFILE_OPS || q->x < 1 || q->y < 0 || q->y > Y_MAX || !(q->ns >= 0 && q->ns < 1e18))
		return err_set(e, ERR_INPUT, "%s: %s at (%d, %lld) takes %g ns: such a point cannot be", who,
			       (unsigned)q->op < PROFILE_OPS ? profile_op_names[q->op] : "an unknown operation", q->x,
			       (long long)q->y, q->ns);
	if (q->op < PROFILE_DECODE && q->y != 0)
		return err_set(e, ERR_INPUT, "%s: %s has one argument, not a second one of %lld", who,
			       profile_op_names[q->op], (long long)q->y);
	return after ? ERR_NONE : err_set(e, ERR_INVARIANT, "%s: its points are not in order", who);
}

static int make_surface(struct surface *s, const struct profile *p, enum profile_op op, struct err *e)
{
	int32_t from = 0, n = 0, rails = 0;
	while (from < p->n_points && p->points[from].op < op)
		from++;
	for (; from + n < p->n_points && p->points[from + n].op == op; n++)
		rails += n == 0 || p->points[from + n].x != p->points[from + n - 1].x;
	s->op = op;
	if (n == 0) {
		char who[112];
		profile_describe(p, who, sizeof who);
		return err_set(e, ERR_INPUT,
			       "%s has no points of %s%s, so whole steps cannot be timed with it; `lockstep profile "
			       "import --fill roofline` puts an estimate in their place",
			       who, profile_op_names[op], op >= PROFILE_DECODE ? " attention" : "");
	}
	s->rails = mem_zalloc((size_t)rails, sizeof *s->rails);
	s->y = mem_zalloc((size_t)n, sizeof *s->y);
	s->ns = mem_zalloc((size_t)n, sizeof *s->ns);
	if (!s->rails || !s->y || !s->ns)
		return err_no_memory(e, "a profile's table");
	for (int32_t i = 0; i < n; i++) {
		const struct profile_point *q = &p->points[from + i];
		if (i == 0 || q->x != q[-1].x)
			s->rails[s->n_rails++] = (struct rail){.x = q->x, .first = i};
		s->rails[s->n_rails - 1].n++;
		s->y[i] = q->y;
		s->ns[i] = q->ns;
		s->y_last = q->y > s->y_last ? q->y : s->y_last;
	}
	fit_surface(s);
	return ERR_NONE;
}

int profile_table_create(struct profile_table **out, const struct profile *p, struct err *e)
{
	int rc = ERR_NONE;
	*out = NULL;
	for (int32_t i = 0; rc == ERR_NONE && i < p->n_points; i++)
		rc = check_point(p, i, e);
	if (rc)
		return rc;
	struct profile_table *t = mem_zalloc(1, sizeof *t);
	if (!t)
		return err_no_memory(e, "a profile's table");
	for (int op = 0; rc == ERR_NONE && op < PROFILE_HOST; op++)
		rc = make_surface(&t->ops[op], p, (enum profile_op)op, e);
	if (rc) {
		profile_table_free(t);
		return rc;
	}
	fit_host(t, p);
	t->windowed = p->window > 0;
	*out = t;
	return ERR_NONE;
}

void profile_table_free(struct profile_table *t)
{
	if (!t)
		return;
	for (int op = 0; op < PROFILE_HOST; op++) {
		mem_free(t->ops[op].rails);
		mem_free(t->ops[op].y);
		mem_free(t->ops[op].ns);
	}
	mem_free(t);
}

/* --- along one rail ----------------------------------------------------------------------------------------------- */

/* How many points of r lie at or before y. */
static int32_t points_until(const struct surface *s, const struct rail *r, double y)
{
	int32_t low = 0, high = r->n;
	while (low < high) {
		int32_t mid = (low + high) / 2;
		if ((double)s->y[r->first + mid] <= y)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static double between(double x0, double f0, double x1, double f1, double x)
{
	return f0 + (f1 - f0) * ((x - x0) / (x1 - x0));
}

static double rail_inside(const struct surface *s, const struct rail *r, double y)
{
	const int64_t *at = s->y + r->first;
	const double *ns = s->ns + r->first;
	int32_t k = points_until(s, r, y);
	if (k == 0 || k == r->n || (double)at[k - 1] == y)
		return ns[k ? k - 1 : 0];
	return between((double)at[k - 1], ns[k - 1], (double)at[k], ns[k], y);
}

/* What a rail of a single point lacks, and what goes on before the first: the fit's slope. */
static double rail_slope(const struct surface *s, const struct rail *r)
{
	return s->per_pair * r->x;
}

static double rail_at(const struct surface *s, const struct rail *r, double y)
{
	double first = (double)s->y[r->first], last = (double)s->y[r->first + r->n - 1];
	if (y < first) {
		double ns = s->ns[r->first], slope = rail_slope(s, r), most = ns / first;
		return ns - (slope < most ? slope : most) * (first - y);
	}
	if (y <= last)
		return rail_inside(s, r, y);
	double end = s->ns[r->first + r->n - 1], slope = rail_slope(s, r);
	if (r->n > 1) {
		double half = (first + last) / 2;
		slope = (end - rail_inside(s, r, half)) / (last - half);
	}
	return end + (slope > 0 ? slope : 0) * (y - last);
}

/* --- between rails ------------------------------------------------------------------------------------------------ */

/* The last rail with x at or below the asked one; -1: none. */
static int32_t rail_before(const struct surface *s, double x)
{
	int32_t low = 0, high = s->n_rails;
	while (low < high) {
		int32_t mid = (low + high) / 2;
		if ((double)s->rails[mid].x <= x)
			low = mid + 1;
		else
			high = mid;
	}
	return low - 1;
}

/* What the blend over x is linear in. */
static double along(const struct surface *s, double x, double y)
{
	if (s->op != PROFILE_PREFILL || s->per_pair <= 0)
		return x;
	return s->per_x / s->per_pair * x + pairs(s->op, x, y);
}

static double surface_inside(const struct surface *s, double x, double y)
{
	int32_t k = rail_before(s, x);
	if (k < 0)
		return rail_at(s, &s->rails[0], y);
	double here = rail_at(s, &s->rails[k], y);
	if (s->rails[k].x == x || k + 1 == s->n_rails)
		return here;
	return between(along(s, s->rails[k].x, y), here, along(s, s->rails[k + 1].x, y),
		       rail_at(s, &s->rails[k + 1], y), along(s, x, y));
}

static double surface_at(const struct surface *s, double x, double y)
{
	double largest = s->rails[s->n_rails - 1].x;
	if (x <= largest)
		return surface_inside(s, x, y);
	double half = largest / 2, end = surface_inside(s, largest, y), before = surface_inside(s, half, y);
	if (end <= before)
		return end;
	return between(along(s, half, y), before, along(s, largest, y), end, along(s, x, y));
}

/* --- how far outside ---------------------------------------------------------------------------------------------- */

static void farther(double *outside, double ratio)
{
	if (ratio - 1 > *outside)
		*outside = ratio - 1;
}

static void outside_x(const struct surface *s, double x, double *outside)
{
	farther(outside, x / s->rails[s->n_rails - 1].x);
	farther(outside, s->rails[0].x / x);
}

/* The last y that r knows of. What a rail of a single point lacks, it has from the fit, which knows them all. */
static double rail_last(const struct surface *s, const struct rail *r)
{
	return (double)(r->n > 1 ? s->y[r->first + r->n - 1] : s->y_last);
}

/* First and last y at x: between two rails the line between theirs. */
static void reach(const struct surface *s, double x, double *first, double *last)
{
	int32_t k = rail_before(s, x);
	const struct rail *a = &s->rails[k < 0 ? 0 : k], *b = k < 0 || k + 1 == s->n_rails ? a : a + 1;
	*first = (double)s->y[a->first];
	*last = rail_last(s, a);
	if (b != a && a->x != x) {
		*first = between(a->x, *first, b->x, (double)s->y[b->first], x);
		*last = between(a->x, *last, b->x, rail_last(s, b), x);
	}
}

static void outside_xy(const struct surface *s, double x, double y, double *outside)
{
	double first, last, own = s->op == PROFILE_PREFILL ? x : 0; /* a chunk sees itself as well */
	outside_x(s, x, outside);
	reach(s, x, &first, &last);
	if (y > last)
		farther(outside, (y + own) / (last + own > 1 ? last + own : 1));
	if (y < first)
		farther(outside, (first + own) / (y + own > 1 ? y + own : 1));
}

/* --- questions ---------------------------------------------------------------------------------------------------- */

double profile_op_ns(const struct profile_table *t, enum profile_op op, int64_t x, double *outside)
{
	if (x <= 0)
		return 0;
	outside_x(&t->ops[op], (double)x, outside);
	return surface_at(&t->ops[op], (double)x, 0);
}

double profile_tokens_ns(const struct profile_table *t, int64_t tokens, double *outside)
{
	return profile_op_ns(t, PROFILE_MATMUL, tokens, outside) + profile_op_ns(t, PROFILE_OTHER, tokens, outside);
}

int64_t profile_decode_ctx(const struct profile_table *t, const struct batch *b)
{
	return t->windowed ? b->decode_ctx_window : b->decode_ctx;
}

/* The nearest y of r's points at or before the asked one, and after it. */
static void narrow(const struct surface *s, const struct rail *r, double y, int64_t *before, int64_t *after)
{
	int32_t k = points_until(s, r, y);
	if (k > 0 && s->y[r->first + k - 1] > *before)
		*before = s->y[r->first + k - 1];
	if (k < r->n && s->y[r->first + k] < *after)
		*after = s->y[r->first + k];
}

static void narrow_at(const struct surface *s, double x, double y, int64_t *before, int64_t *after)
{
	int32_t k = rail_before(s, x);
	narrow(s, &s->rails[k < 0 ? 0 : k], y, before, after);
	if (k >= 0 && k + 1 < s->n_rails && s->rails[k].x != x)
		narrow(s, &s->rails[k + 1], y, before, after);
}

void profile_decode_cell(const struct profile_table *t, int32_t rows, int64_t ctx, struct profile_cell *c)
{
	const struct surface *s = &t->ops[PROFILE_DECODE];
	double largest = s->rails[s->n_rails - 1].x, mean = (double)ctx / rows;
	int64_t before = 0, after = INT64_MAX;
	if (rows <= largest) {
		narrow_at(s, rows, mean, &before, &after);
	} else {
		narrow_at(s, largest, mean, &before, &after);
		narrow_at(s, largest / 2, mean, &before, &after);
	}
	/* The last piece goes on for ever: its slope is that of as much again. */
	bool open = after == INT64_MAX;
	int64_t next = open ? 2 * before + 1 : after;
	c->from = before * rows;
	c->to = open ? INT64_MAX : after * rows;
	c->at = surface_at(s, rows, (double)before);
	c->slope = (surface_at(s, rows, (double)next) - c->at) / ((double)(next - before) * rows);
}

void profile_decode_reach(const struct profile_table *t, int32_t rows, struct profile_reach *r)
{
	const struct surface *s = &t->ops[PROFILE_DECODE];
	*r = (struct profile_reach){0};
	outside_x(s, rows, &r->outside);
	reach(s, rows, &r->first, &r->last);
}

double profile_decode_outside(const struct profile_table *t, int32_t rows, int64_t ctx)
{
	struct profile_reach r;
	if (rows <= 0)
		return 0;
	profile_decode_reach(t, rows, &r);
	return profile_reach_outside(&r, (double)ctx / rows);
}

double profile_decode_ns(const struct profile_table *t, int32_t rows, int64_t ctx, double *outside)
{
	struct profile_cell c;
	if (rows <= 0)
		return 0;
	farther(outside, 1 + profile_decode_outside(t, rows, ctx));
	profile_decode_cell(t, rows, ctx, &c);
	return c.at + c.slope * (double)(ctx - c.from);
}

double profile_prefill_ns(const struct profile_table *t, int64_t tokens, int64_t start, double *outside)
{
	const struct surface *s = &t->ops[PROFILE_PREFILL];
	if (tokens <= 0)
		return 0;
	outside_xy(s, (double)tokens, (double)start, outside);
	return surface_at(s, (double)tokens, (double)start);
}

double profile_host_ns(const struct profile_table *t, int64_t sequences, int64_t tokens)
{
	return t->host_step + t->host_sequence * (double)sequences + t->host_token * (double)tokens;
}

void profile_batch(const struct profile_table *t, const struct batch *b, double op_ns[PROFILE_OPS], double *outside)
{
	int64_t tokens = b->decodes + b->prefill_tokens;
	op_ns[PROFILE_MATMUL] = profile_op_ns(t, PROFILE_MATMUL, tokens, outside);
	op_ns[PROFILE_OTHER] = profile_op_ns(t, PROFILE_OTHER, tokens, outside);
	op_ns[PROFILE_HEAD] = profile_op_ns(t, PROFILE_HEAD, b->sampled, outside);
	op_ns[PROFILE_DECODE] = profile_decode_ns(t, b->decodes, profile_decode_ctx(t, b), outside);
	op_ns[PROFILE_PREFILL] = 0;
	for (int32_t i = 0; i < b->n_chunks; i++)
		op_ns[PROFILE_PREFILL] += profile_prefill_ns(t, (int64_t)b->chunks[i].len + b->chunks[i].pad,
							     b->chunks[i].start, outside);
	op_ns[PROFILE_HOST] = profile_host_ns(t, (int64_t)b->decodes + b->n_chunks, tokens);
}
