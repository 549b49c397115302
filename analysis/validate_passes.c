#include "analysis/validate_passes.h"

#include "core/err.h"
#include "exec/tape.h"

/* What stands between engine and backend: recorder, then watch, then what the caller put there. run_execute closes the
 * outermost; the others are closed here. */
struct front {
	struct pass *pass;
	struct backend given, watching;
};

static int put_given(struct front *f, struct backend *b, struct err *e)
{
	const struct validate_io *io = f->pass->io;
	if (!f->pass->executes || !io->stand_before)
		return ERR_NONE;
	int rc = io->stand_before(io->before_ctx, b, e);
	if (rc == ERR_NONE)
		f->given = *b;
	return rc;
}

/* Closing a watch twice does no harm: it is the outermost where nothing is recorded. */
static void close_inner(struct front *f)
{
	if (f->watching.ops)
		f->watching.ops->close(f->watching.self);
	if (f->given.ops)
		f->given.ops->close(f->given.self);
	f->given = f->watching = (struct backend){0};
}

static int stand_before(void *ctx, struct backend *b, struct err *e)
{
	struct front *f = ctx;
	struct pass *p = f->pass;
	int rc = put_given(f, b, e);
	if (rc == ERR_NONE)
		rc = watch_stand_before(p->watch, b, e);
	if (rc)
		return rc;
	f->watching = *b;
	return p->record ? tape_recorder_create(b, &f->watching, p->record, e) : ERR_NONE;
}

static void on_event(void *ctx, const struct event *ev)
{
	struct pass *p = ((struct front *)ctx)->pass;
	if (p->log)
		event_log_add(p->log, ev);
	if (p->check)
		log_check_add(p->check, ev);
}

static void on_step(void *ctx, int64_t steps, int64_t busy_ns)
{
	const struct pass *p = ctx;
	double share = p->steps     ? (double)steps / (double)p->steps
		       : p->busy_ns ? (double)busy_ns / (double)p->busy_ns
				    : 0;
	p->io->progress(p->io->ctx, p->what, share < 1 ? share : 1);
}

int pass_run(struct pass *p, struct run_result *r, struct err *e)
{
	struct front f = {.pass = p};
	struct run_io io = {.stop = p->executes ? p->io->stop : NULL,
			    .ctx = &f,
			    .store = p->stored ? p->io->store : NULL,
			    .executor = p->executes ? p->io->executor : NULL,
			    .event = p->log || p->check ? on_event : NULL};
	struct run_settings s = *p->settings;
	if (p->watch) {
		io.stand_before = stand_before;
		s.engine.exact_walk = true; /* one step at a time, row by row */
		if (p->io->progress) {
			p->watch->progress = on_step;
			p->watch->ctx = p;
		}
	}
	int rc = run_execute(&s, p->workload, &io, r, e);
	close_inner(&f);
	return rc;
}
