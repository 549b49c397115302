/* timeline_rerun.c: phases and steps of a stored run made once more. */
#include <string.h>

#include "analysis/rerun.h"
#include "analysis/timeline.h"
#include "core/err.h"
#include "core/mem.h"

struct watcher {
	struct timeline *t;
	const struct run_io *io; /* the caller's */
	struct history *history;
	struct history_table table;
	struct history_sink keep; /* into the table */
	volatile int stop;
	bool past; /* the window is over: nothing more is needed */
	int step_rc;
	struct err step_err;
};

static void on_phase(void *ctx, const struct phase *p)
{
	struct watcher *x = ctx;
	x->keep.phase(x->keep.ctx, p);
}

static void on_step(void *ctx, const struct step_row *row)
{
	struct watcher *x = ctx;
	struct timeline *t = x->t;
	if (row->end_ns > t->last_ns)
		t->last_ns = row->end_ns;
	int32_t m = row->replica, n = timeline_replicas(t);
	if (x->step_rc == ERR_NONE && m >= 0 && m < n && row->start_ns < t->o.to_ns && row->end_ns > t->o.from_ns)
		x->step_rc = step_groups_add(&t->steps[m], row, &x->step_err);
	/* Another replica may still be in a step that began before. */
	x->past = n == 1 && row->start_ns >= t->o.to_ns;
	if (x->past || x->step_rc)
		x->stop = 1;
	else if (x->io->stop)
		x->stop = *x->io->stop;
}

static void to_engine(void *ctx, const struct engine *g)
{
	history_engine(((struct watcher *)ctx)->history, g);
}

static void to_event(void *ctx, const struct event *ev)
{
	history_event(((struct watcher *)ctx)->history, ev);
}

static void to_step(void *ctx, const struct step_row *row)
{
	history_step(((struct watcher *)ctx)->history, row);
}

static void to_progress(void *ctx, int64_t ended, int64_t total)
{
	const struct watcher *x = ctx;
	x->io->progress(x->io->ctx, ended, total);
}

static int run_again(struct watcher *x, const struct store_recipe *recipe, const struct run_settings *s,
		     const struct workload *w, struct err *e)
{
	struct run_result r = {0};
	const struct history_sink sink = {.ctx = x, .phase = on_phase, .step = on_step};
	/* Steps alone are much faster to have than what became of each request in each of them. */
	bool phases = x->t->n > 0;
	const struct run_io io = {.stop = &x->stop,
				  .ctx = x,
				  .engine = phases ? to_engine : NULL,
				  .event = phases ? to_event : NULL,
				  .step = phases ? to_step : on_step,
				  .progress = x->io->progress ? to_progress : NULL};
	int rc = phases ? history_create(&x->history, w->n, &sink, e) : ERR_NONE;
	if (rc)
		return rc;
	rc = rerun_execute(recipe, s, w, &io, &r, e);
	run_result_free(&r);
	if (x->step_rc)
		rc = err_set(e, (enum err_code)x->step_rc, "%s", x->step_err.text);
	else if (rc == ERR_INTERRUPTED && x->past && !(x->io->stop && *x->io->stop)) {
		err_clear(e);
		rc = ERR_NONE;
	}
	if (rc == ERR_NONE && phases)
		rc = history_finish(x->history, e);
	if (phases)
		history_free(x->history);
	return rc;
}

/* Both are in the order of the workload. */
static void share_out(struct timeline *t)
{
	int64_t at = 0;
	for (int64_t i = 0; i < t->n; i++) {
		struct timeline_request *r = &t->requests[i];
		r->first = at;
		while (at < t->n_phases && t->phases[at].req == r->q.index)
			at++;
		r->n = at - r->first;
	}
}

int timeline_rerun(struct timeline *t, const struct store_recipe *recipe, const struct run_settings *s,
		   const struct workload *w, const struct run_io *io, struct err *e)
{
	struct watcher x = {.t = t, .io = io};
	bool *wanted = mem_zalloc((size_t)w->n + 1, sizeof *wanted);
	if (!wanted)
		return err_no_memory(e, "requests");
	for (int64_t i = 0; i < w->n && i < t->run.requests; i++)
		wanted[i] = t->slot[i] >= 0;
	x.table = (struct history_table){
		.wanted = wanted, .from_ns = t->o.from_ns, .to_ns = t->o.to_ns, .most = TIMELINE_PHASES};
	x.keep = history_table_sink(&x.table);
	int rc = run_again(&x, recipe, s, w, e);
	if (rc == ERR_NONE)
		rc = history_table_sort(&x.table, e);
	if (rc == ERR_NONE) {
		mem_free(t->phases);
		t->phases = x.table.phases;
		t->n_phases = x.table.n;
		t->cap_phases = x.table.cap;
		t->phases_left_out = x.table.left_out;
		x.table = (struct history_table){0};
		t->exact = true;
		share_out(t);
	}
	history_table_free(&x.table);
	mem_free(wanted);
	return rc;
}
