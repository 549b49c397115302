/* Every allocation of recording a run, playing it back, making it again and comparing two fails once. */
#include "analysis/diverge.h"
#include "analysis/rerun.h"
#include "exec/tape.h"
#include "tests/support/failing_mem.h"
#include "tests/unit/analysis_fixture.h"

static struct workload work;
static struct run_settings settings;

struct recording {
	struct tape tape;
	struct backend inner;
};

static int stand_before(void *ctx, struct backend *b, struct err *e)
{
	struct recording *r = ctx;
	r->inner = *b;
	return tape_recorder_create(b, &r->inner, &r->tape, e);
}

static void ignore_event(void *ctx, const struct event *ev)
{
	(void)ctx, (void)ev;
}

static int told(const struct err *e, int rc, char text[1024])
{
	snprintf(text, 1024, "%s", e->text);
	return rc;
}

static int record_and_play(void *ctx, char text[1024])
{
	(void)ctx;
	static char status[] = "complete", backend[] = "cpu";
	struct recording rec = {0};
	struct run_result r;
	struct err e = {0};
	const struct run_io io = {.ctx = &rec, .stand_before = stand_before, .event = ignore_event}, plain = {0};
	int rc = run_execute(&settings, &work, &io, &r, &e);
	struct store_recipe recipe = {
		.run_id = 1, .status = status, .backend = backend, .decision_hash = r.decision_hash};
	run_result_free(&r);
	if (rc == ERR_NONE) {
		struct run_settings again = settings;
		rerun_settings(&again, &recipe, &rec.tape);
		rc = rerun_execute(&recipe, &again, &work, &plain, &r, &e);
		run_result_free(&r);
	}
	tape_free(&rec.tape);
	return told(&e, rc, text);
}

static int compare(void *ctx, char text[1024])
{
	(void)ctx;
	static char status[] = "complete", backend[] = "simulator";
	const struct store_recipe recipe = {.run_id = 1, .status = status, .backend = backend};
	struct run_settings other = settings;
	struct divergence d;
	struct err e = {0};
	other.engine.max_num_seqs = 4;
	const struct diverge_run runs[2] = {{&recipe, &settings, &work}, {&recipe, &other, &work}};
	int rc = diverge(runs, (struct diverge_scope){0}, NULL, &d, &e);
	if (rc == ERR_NONE)
		CU_ASSERT(d.differs && d.side[0].n > 0);
	divergence_free(&d);
	return told(&e, rc, text);
}

static void recording_and_playing_survive(void)
{
	CU_ASSERT(failing_mem_each(record_and_play, NULL, 0) > 30);
}

static void comparing_survives(void)
{
	CU_ASSERT(failing_mem_each(compare, NULL, 0) > 30);
}

int main(void)
{
	static const struct test tests[] = {
		{"recording_and_playing_survive", recording_and_playing_survive},
		{"comparing_survives", comparing_survives},
	};
	random_workload(&work, 40, 15, 1);
	small_settings(&settings, &work);
	int rc = SUITE_RUN("failmem_tape", tests);
	workload_free(&work);
	return rc;
}
