#include "analysis/rerun.h"

#include <string.h>

#include "analysis/decisions.h"

bool rerun_simulates(const struct store_recipe *recipe)
{
	return recipe->backend && strcmp(recipe->backend, "simulator") == 0;
}

void rerun_settings(struct run_settings *s, const struct store_recipe *recipe, const struct tape *tape)
{
	s->record = RECORD_NONE;
	s->save_detailed = false;
	s->arguments = recipe->arguments;
	s->arm = recipe->arm;
	s->backend = BACKEND_SIM;
	if (rerun_simulates(recipe))
		return;
	s->backend = BACKEND_REPLAY;
	s->tape = tape;
	/* How many there were may have depended on the memory that was free. */
	if (recipe->num_gpu_blocks > 0)
		s->num_gpu_blocks_override = recipe->num_gpu_blocks;
}

/* --- looking on --------------------------------------------------------------------------------------------------- */

struct watcher {
	const struct store_recipe *recipe;
	const struct run_io *io; /* the caller's */
	struct decision_hash hash;
	volatile int stop;
	int64_t last_step; /* stop after it: a simulation was interrupted there; -1 = never */
};

static void look_at_stop(struct watcher *w)
{
	if (w->io->stop && *w->io->stop)
		w->stop = *w->io->stop;
}

static void on_event(void *ctx, const struct event *ev)
{
	struct watcher *w = ctx;
	decision_hash_add(&w->hash, ev);
	if (w->io->event)
		w->io->event(w->io->ctx, ev);
	if (ev->kind == EVENT_STEP && ev->step == w->last_step)
		w->stop = 1;
	look_at_stop(w);
}

static void on_step(void *ctx, const struct step_row *row)
{
	const struct watcher *w = ctx;
	w->io->step(w->io->ctx, row);
}

static void on_progress(void *ctx, int64_t ended, int64_t total)
{
	const struct watcher *w = ctx;
	w->io->progress(w->io->ctx, ended, total);
}

static void on_engine(void *ctx, const struct engine *g)
{
	const struct watcher *w = ctx;
	w->io->engine(w->io->ctx, g);
}

static int stand_before(void *ctx, struct backend *b, struct err *e)
{
	const struct watcher *w = ctx;
	return w->io->stand_before(w->io->ctx, b, e);
}

static bool was(const struct store_recipe *recipe, const char *status)
{
	return recipe->status && strcmp(recipe->status, status) == 0;
}

/* --- comparing ---------------------------------------------------------------------------------------------------- */

#define VERSIONS "(it was made by Lockstep %s; this is " LOCKSTEP_VERSION ")"

static const char *version(const struct store_recipe *recipe)
{
	return recipe->program_version ? recipe->program_version : "?";
}

/* Ended as it had? */
static int compare_ends(const struct store_recipe *recipe, int rc, const struct run_result *r, struct err *run_err,
			struct err *e)
{
	long long id = recipe->run_id;
	bool begun = rc == ERR_NONE || r->status == RUN_STALLED || r->status == RUN_FAILED;
	if (!begun || rc == ERR_MEMORY)
		return err_set(e, (enum err_code)rc, "run %lld: %.900s", id, run_err->text);
	/* A killed run has no end to compare with. */
	if (was(recipe, run_status_name(r->status)) || (was(recipe, "running") && rc == ERR_NONE))
		return ERR_NONE;
	return err_set(e, ERR_INVARIANT, "run %lld: run again, it is %s where it was %s%s%.700s " VERSIONS, id,
		       run_status_name(r->status), recipe->status, rc ? ": " : "", rc ? run_err->text : "",
		       version(recipe));
}

/* All there is to compare without the log. */
static int compare_steps(const struct store_recipe *recipe, const struct run_result *r, struct err *e)
{
	if (r->status != RUN_COMPLETE || recipe->steps < 0 || !was(recipe, "complete") ||
	    recipe->steps == r->stats.steps)
		return ERR_NONE;
	return err_set(e, ERR_INVARIANT, "run %lld: run again, it takes %lld steps where it took %lld " VERSIONS,
		       (long long)recipe->run_id, (long long)r->stats.steps, (long long)recipe->steps, version(recipe));
}

static int compare_hash(const struct store_recipe *recipe, const struct decision_hash *h, struct err *e)
{
	uint64_t is = decision_hash_value(h);
	if (!recipe->decision_hash || recipe->decision_hash == is)
		return ERR_NONE;
	return err_set(e, ERR_INVARIANT,
		       "run %lld: run again, it decides otherwise: the decision log's hash is %016llx, and was "
		       "%016llx " VERSIONS,
		       (long long)recipe->run_id, (unsigned long long)is, (unsigned long long)recipe->decision_hash,
		       version(recipe));
}

int rerun_execute(const struct store_recipe *recipe, const struct run_settings *s, const struct workload *w,
		  const struct run_io *io, struct run_result *r, struct err *e)
{
	struct watcher watcher = {.recipe = recipe, .io = io, .last_step = -1};
	bool interrupted = rerun_simulates(recipe) && was(recipe, "interrupted");
	/* Nobody wants the log, and there is nothing to hold it against: then steps need not be walked request by request. */
	bool log = io->event || recipe->decision_hash || interrupted || !rerun_simulates(recipe);
	if (interrupted) {
		watcher.last_step = recipe->steps - 1;
		watcher.stop = recipe->steps == 0;
	}
	look_at_stop(&watcher);
	const struct run_io inner = {.stop = log ? &watcher.stop : io->stop,
				     .ctx = &watcher,
				     .event = log ? on_event : NULL,
				     .step = io->step ? on_step : NULL,
				     .progress = io->progress ? on_progress : NULL,
				     .engine = io->engine ? on_engine : NULL,
				     .stand_before = io->stand_before ? stand_before : NULL};
	struct err run_err = {0};
	int rc = run_execute(s, w, &inner, r, &run_err);
	if (io->stop && *io->stop)
		return err_set(e, ERR_INTERRUPTED, "interrupted");
	rc = compare_ends(recipe, rc, r, &run_err, e);
	if (rc == ERR_NONE && !log)
		rc = compare_steps(recipe, r, e);
	return rc ? rc : compare_hash(recipe, &watcher.hash, e);
}
