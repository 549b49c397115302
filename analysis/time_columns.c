#include "analysis/time_columns.h"

struct span {
	int first, last; /* columns it touches */
};

/* Columns of [start, end), which overlaps [from, to). An empty one touches the column it lies in. */
static struct span columns_of(int64_t start, int64_t end, int n, int64_t from, int64_t to)
{
	double wide = (double)(to - from) / n;
	int64_t a = (start > from ? start : from) - from, b = (end < to ? end : to) - from;
	struct span s = {(int)((double)a / wide), (int)((double)b / wide)};
	if (s.first >= n)
		s.first = n - 1;
	if (s.last >= n)
		s.last = n - 1;
	if (s.last > s.first && wide * s.last >= (double)b)
		s.last--;
	return s;
}

/* How much of [start, end) lies in column c. */
static double overlap(int64_t start, int64_t end, int c, int n, int64_t from, int64_t to)
{
	double wide = (double)(to - from) / n, a = (double)from + wide * c, b = a + wide;
	if ((double)start > a)
		a = (double)start;
	if ((double)end < b)
		b = (double)end;
	return b > a ? b - a : 0;
}

#define KEEP_MOST(a, b) ((a) = (b) > (a) ? (b) : (a))

static void add_share(struct time_column *c, const struct step_group *g, double share)
{
	c->busy_ns += share * (double)g->busy_ns;
	c->steps += share * (double)g->steps;
	c->decodes += share * (double)g->decodes;
	c->prefill_tokens += share * (double)g->prefill_tokens;
	c->running_ns += share * g->running_ns;
	c->waiting_ns += share * g->waiting_ns;
	c->used_ns += share * g->used_ns;
	KEEP_MOST(c->running, g->running);
	KEEP_MOST(c->waiting, g->waiting);
	KEEP_MOST(c->blocks_used, g->blocks_used);
}

void time_columns_add_steps(struct time_column *at, int n, int64_t from_ns, int64_t to_ns, const struct step_groups *g)
{
	if (to_ns <= from_ns)
		return;
	for (int64_t i = 0; i < g->n; i++) {
		const struct step_group *x = &g->at[i];
		if (x->start_ns >= to_ns || x->end_ns < from_ns)
			continue;
		struct span s = columns_of(x->start_ns, x->end_ns, n, from_ns, to_ns);
		double all = (double)(x->end_ns - x->start_ns);
		for (int c = s.first; c <= s.last; c++)
			add_share(&at[c], x,
				  all > 0 ? overlap(x->start_ns, x->end_ns, c, n, from_ns, to_ns) / all
					  : 1.0 / (s.last - s.first + 1));
	}
}

void time_columns_add_load(struct time_column *at, int n, int64_t from_ns, int64_t to_ns,
			   const struct timeline_load *load, int64_t n_load)
{
	if (to_ns <= from_ns || !n_load)
		return;
	for (int c = 0; c < n; c++)
		at[c].busy_ns = (double)(to_ns - from_ns) / n;
	for (int64_t i = 0; i < n_load; i++) {
		bool last = i + 1 == n_load || load[i + 1].replica != load[i].replica;
		int64_t start = load[i].t_ns, end = last ? to_ns : load[i + 1].t_ns;
		if (start >= to_ns || end <= from_ns)
			continue;
		struct span s = columns_of(start, end, n, from_ns, to_ns);
		for (int c = s.first; c <= s.last; c++) {
			double ns = overlap(start, end, c, n, from_ns, to_ns);
			at[c].waiting_ns += ns * load[i].waiting;
			at[c].running_ns += ns * load[i].running;
		}
	}
}
