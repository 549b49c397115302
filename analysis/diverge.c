#include "analysis/diverge.h"

#include <string.h>

#include "analysis/decisions.h"
#include "analysis/rerun.h"
#include "core/err.h"
#include "core/mem.h"

bool diverge_decides(const struct event *ev)
{
	return ev->kind != EVENT_ARRIVE;
}

/* An event as far as it counts. */
static struct event essence(const struct event *ev, struct diverge_scope scope)
{
	struct event x = *ev;
	if (scope.any_block && (x.kind == EVENT_BLOCK || x.kind == EVENT_DROP))
		x.b = 0;
	if (scope.times)
		return x;
	x.at_ns = 0;
	if (x.kind == EVENT_STEP)
		x.a = x.b = 0;
	return x;
}

bool diverge_same(const struct event *a, const struct event *b, struct diverge_scope scope)
{
	struct event x = essence(a, scope), y = essence(b, scope);
	return x.kind == y.kind && x.step == y.step && x.at_ns == y.at_ns && x.req == y.req && x.a == y.a && x.b == y.b;
}

/* --- the first time: a few numbers a stretch --------------------------------------------------------------------- */

/* Decisions in a row that belong to one step. With asynchronous scheduling the plan of the next step lies between a
 * step's own and its end, which makes two stretches of it. */
struct stretch {
	uint64_t hash;
	int64_t step, decisions;
	int64_t start_ns, end_ns; /* of the step, where it ends in this stretch; else 0 */
};

struct stretches {
	struct stretch *at;
	int64_t n, cap;
};

/* What one pass over one run knows. */
struct pass {
	struct stretches *kept; /* the first run's, filled by its pass */
	const struct stretches *other; /* the same, compared with, by the second's */
	struct divergence *d;
	struct diverge_scope scope;
	struct decision_hash hash; /* of the stretch that is going on */
	struct stretch now;
	int64_t nth; /* of the stretches that are over */
	bool found, no_memory;
	int64_t found_step; /* where the second run's stretch is another */
	const volatile int *user_stop;
	volatile int stop;
	/* the second time */
	int64_t wanted; /* the stretch to keep */
	struct diverge_side *side;
	const struct engine *engine;
	bool done;
};

static void compare_clocks(struct divergence *d, const struct stretch *a, const struct stretch *b)
{
	if (d->clock_step >= 0 || (a->start_ns == b->start_ns && a->end_ns == b->end_ns))
		return;
	d->clock_step = a->step;
	d->start_ns[0] = a->start_ns;
	d->start_ns[1] = b->start_ns;
	d->end_ns[0] = a->end_ns;
	d->end_ns[1] = b->end_ns;
}

static void stretch_ends(struct pass *p)
{
	struct stretch *now = &p->now;
	if (p->hash.n == 0)
		return;
	now->hash = decision_hash_value(&p->hash);
	now->decisions = p->hash.n;
	if (p->kept) {
		p->no_memory |=
			mem_grow((void **)&p->kept->at, &p->kept->cap, p->kept->n + 1, sizeof *p->kept->at) != 0;
		if (!p->no_memory)
			p->kept->at[p->kept->n++] = *now;
	} else if (!p->found) {
		const struct stretch *was = p->nth < p->other->n ? &p->other->at[p->nth] : NULL;
		p->found = !was || was->hash != now->hash || was->step != now->step;
		p->found_step = now->step;
		if (was && !p->found)
			compare_clocks(p->d, was, now);
	}
	if (!p->found)
		p->nth++;
	p->stop |= p->found || p->no_memory;
	p->hash = (struct decision_hash){0};
	*now = (struct stretch){0};
}

static void first_look(void *ctx, const struct event *ev)
{
	struct pass *p = ctx;
	if (*p->user_stop)
		p->stop = 1;
	if (!diverge_decides(ev) || p->found)
		return;
	if (p->hash.n && ev->step != p->now.step)
		stretch_ends(p);
	struct event x = essence(ev, p->scope);
	p->now.step = ev->step;
	decision_hash_add(&p->hash, &x);
	if (ev->kind == EVENT_STEP) {
		p->now.start_ns = ev->a;
		p->now.end_ns = ev->b;
	}
}

/* --- the second time: one stretch in full ------------------------------------------------------------------------ */

static void keep_event(struct pass *p, const struct event *ev)
{
	struct diverge_side *s = p->side;
	if (mem_grow((void **)&s->events, &s->cap, s->n + 1, sizeof *s->events)) {
		p->no_memory = true;
		p->stop = 1;
		return;
	}
	s->events[s->n++] = *ev;
}

static void see_engine(void *ctx, const struct engine *g)
{
	struct pass *p = ctx;
	p->engine = g;
	engine_describe(g, p->side->before, sizeof p->side->before);
}

static void second_look(void *ctx, const struct event *ev)
{
	struct pass *p = ctx;
	struct diverge_side *s = p->side;
	if (*p->user_stop)
		p->stop = 1;
	if (p->done)
		return;
	bool decides = diverge_decides(ev);
	if (decides && p->hash.n && ev->step != p->now.step) {
		p->nth++;
		p->hash.n = 0;
		if (p->nth > p->wanted) {
			p->done = true;
			p->stop = 1;
			return;
		}
		/* Arrivals since the last decision are kept already. */
	}
	bool later = p->nth == p->wanted && p->hash.n && ev->step != p->now.step;
	s->arrived += ev->kind == EVENT_ARRIVE && !later;
	if (decides) {
		p->now.step = ev->step;
		p->hash.n++;
	}
	/* An arrival after the stretch before belongs to the one to come. */
	bool wanted = decides ? p->nth == p->wanted : p->nth + (p->hash.n > 0) == p->wanted;
	if (wanted) {
		keep_event(p, ev);
	} else if (p->nth == p->wanted - 1) {
		s->n = 0;
		engine_describe(p->engine, s->before, sizeof s->before);
	}
}

/* --- both --------------------------------------------------------------------------------------------------------- */

static int once(struct pass *p, const struct diverge_run *run, bool second, struct err *e)
{
	struct run_result r;
	struct err own = {0};
	const struct run_io io = {.stop = &p->stop,
				  .ctx = p,
				  .event = second ? second_look : first_look,
				  .engine = second ? see_engine : NULL};
	if (*p->user_stop)
		return err_set(e, ERR_INTERRUPTED, "interrupted");
	int rc = rerun_execute(run->recipe, run->settings, run->workload, &io, &r, &own);
	run_result_free(&r);
	if (*p->user_stop)
		return err_set(e, ERR_INTERRUPTED, "interrupted");
	if (p->no_memory)
		return err_no_memory(e, "decisions");
	/* We stopped it ourselves, having seen enough. */
	if (rc == ERR_INTERRUPTED && (p->found || p->done))
		return ERR_NONE;
	return rc ? err_set(e, own.code, "%s", own.text) : ERR_NONE;
}

static void tell_place(struct divergence *d, const struct stretches *kept, const struct pass *b)
{
	for (int64_t i = 0; i < b->nth; i++)
		d->decisions += kept->at[i].decisions;
	d->differs = b->found || b->nth < kept->n;
	if (!d->differs)
		d->step = kept->n ? kept->at[kept->n - 1].step + 1 : 0;
	else
		d->step = b->nth < kept->n ? kept->at[b->nth].step : b->found_step;
}

static int find(const struct diverge_run run[2], struct diverge_scope scope, const volatile int *stop,
		struct stretches *kept, struct divergence *d, int64_t *nth, struct err *e)
{
	struct pass a = {.kept = kept, .d = d, .scope = scope, .user_stop = stop};
	int rc = once(&a, &run[0], false, e);
	if (rc)
		return rc;
	stretch_ends(&a);
	struct pass b = {.other = kept, .d = d, .scope = scope, .user_stop = stop};
	rc = once(&b, &run[1], false, e);
	if (rc)
		return rc;
	if (!b.found)
		stretch_ends(&b);
	if (a.no_memory)
		return err_no_memory(e, "decisions");
	tell_place(d, kept, &b);
	*nth = b.nth;
	return ERR_NONE;
}

int diverge(const struct diverge_run run[2], struct diverge_scope scope, const volatile int *stop, struct divergence *d,
	    struct err *e)
{
	static const volatile int never;
	struct stretches kept = {0};
	int64_t nth = 0;
	*d = (struct divergence){.clock_step = -1};
	stop = stop ? stop : &never;
	int rc = find(run, scope, stop, &kept, d, &nth, e);
	for (int i = 0; rc == ERR_NONE && d->differs && i < 2; i++) {
		struct pass p = {.d = d, .user_stop = stop, .wanted = nth, .side = &d->side[i]};
		rc = once(&p, &run[i], true, e);
		d->side[i].ended = p.nth + (p.hash.n > 0) <= nth;
	}
	mem_free(kept.at);
	return rc;
}

void divergence_free(struct divergence *d)
{
	for (int i = 0; i < 2; i++)
		mem_free(d->side[i].events);
	*d = (struct divergence){0};
}
