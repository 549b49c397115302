/* validate.c: the passes, in order: execute, replay, predict, again, simulate; then the figures. */
#include "analysis/validate.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analysis/store.h"
#include "analysis/validate_figures.h"
#include "analysis/validate_log.h"
#include "analysis/validate_machine.h"
#include "analysis/validate_passes.h"
#include "core/err.h"
#include "core/mem.h"
#include "exec/tape.h"

const char *const validate_time_keys[VALIDATE_TIMES] = {"queue", "prefill", "ttft", "tpot", "e2e"};
const char *const validate_time_labels[VALIDATE_TIMES] = {"queue", "prefill", "TTFT", "TPOT", "E2E"};
const char *const validate_stat_keys[VALIDATE_STATS] = {"mean", "p50", "p90", "p99"};
const char *const validate_kind_keys[VALIDATE_KINDS] = {"all", "prefill", "decode", "mixed"};
const char *const validate_part_keys[VALIDATE_PARTS] = {"matmul", "attention", "head", "other", "host"};
const char *const validate_rate_keys[VALIDATE_RATES] = {"request_throughput", "output_throughput"};

/* Everything of one validation that does not outlive it. */
struct work {
	const struct validate_setup *setup;
	const struct workload *workload;
	const struct validate_io *io;
	struct validate_result *result;

	struct run_settings simulated; /* with the executed run's memory */
	struct tape tape;
	struct event_log log;
	struct watch first, predicted;
	struct watch again[VALIDATE_EXECUTIONS];
	struct request_times measured, expected; /* what was simulated */
	struct request_times relaid[VALIDATE_EXECUTIONS];
	int64_t relaid_end_ns[VALIDATE_EXECUTIONS];
	int32_t n_again;
	bool predicts; /* the recording could be played to the cost model */
};

/* --- the passes --------------------------------------------------------------------------------------------------- */

static void fail(struct validate_result *r, enum run_status status, const char *what, const char *why)
{
	if (r->status != RUN_COMPLETE)
		return;
	r->status = status;
	snprintf(r->status_text, sizeof r->status_text, "%s%s%.400s", what, *what ? ": " : "", why);
}

/* Did a run that failed begin? What was wrong then lies in the run, else in what was asked for. */
static bool has_begun(const struct run_result *run)
{
	return run->status == RUN_STALLED || run->status == RUN_FAILED;
}

/* The worst of all executions counts. */
static void note_contention(struct validate_result *r, const struct machine_clock *before)
{
	struct machine_clock after;
	struct validate_contention c, *kept = &r->contention;
	machine_clock_read(&after);
	machine_contention(&c, before, &after);
	bool first = r->executions == 0;
	if (first || c.others > kept->others)
		kept->others = c.others;
	if (first || c.steal > kept->steal)
		kept->steal = c.steal;
	if (first)
		kept->load = c.load;
	kept->busy |= c.busy;
}

/* Once on the executor. *stopped: not to its end. */
static int execute_once(struct work *k, struct pass *p, struct run_result *run, bool *stopped, struct err *e)
{
	struct machine_clock before;
	machine_clock_read(&before);
	p->executes = true;
	p->workload = k->workload;
	p->io = k->io;
	int rc = pass_run(p, run, e);
	*stopped = rc == ERR_NONE && run->status == RUN_INTERRUPTED;
	if (rc || *stopped)
		return rc;
	note_contention(k->result, &before);
	k->result->executed_s += run->sim_wall_s;
	k->result->executions++;
	return rc;
}

static int execute(struct work *k, struct err *e)
{
	struct validate_result *r = k->result;
	double expected_s = 0;
	bool stopped;
	validate_estimate(k->setup, k->workload, 0, &expected_s, NULL, NULL);
	k->first.tables = true;
	struct pass p = {.what = "executing",
			 .settings = &k->setup->executed,
			 .busy_ns = (int64_t)(expected_s * 1e9),
			 .stored = true,
			 .watch = &k->first,
			 .record = &k->tape,
			 .log = &k->log};
	int rc = execute_once(k, &p, &r->executed, &stopped, e);
	if (rc && rc != ERR_MEMORY && has_begun(&r->executed)) {
		fail(r, r->executed.status, "the executed run", e->text);
		err_clear(e);
		return ERR_NONE;
	}
	if (stopped)
		fail(r, RUN_INTERRUPTED, "", "stopped while the workload was executed: there is nothing to compare");
	if (rc == ERR_NONE && k->log.no_memory)
		rc = err_no_memory(e, "the decision log");
	if (rc == ERR_NONE && r->status == RUN_COMPLETE)
		rc = times_of_requests(&k->measured, r->executed.requests, k->workload->n, e);
	return rc;
}

/* As much memory, and the limits of the same model, where it is the weights that told it. */
static void take_memory(struct run_settings *s, const struct engine_config *executed)
{
	s->num_gpu_blocks_override = executed->num_blocks;
	s->engine.model_max_len = executed->model_max_len;
	s->engine.window = executed->window;
}

/* Where the block tables part: by the block events, or else by the first step whose tables differ. */
static void compare_tables(struct validate_result *r, const struct watch *a, const struct watch *b,
			   const struct validate_parting *blocks)
{
	r->memory = *blocks;
	for (int64_t i = 0; i < a->n && r->memory.step < 0; i++) {
		bool there = i < b->n;
		if (there && a->steps[i].tables == b->steps[i].tables)
			continue;
		r->memory.step = i;
		snprintf(r->memory.executed, DECISION_LINE, "block tables %016" PRIx64, a->steps[i].tables);
		if (there)
			snprintf(r->memory.replayed, DECISION_LINE, "block tables %016" PRIx64, b->steps[i].tables);
	}
	r->memory_identical = r->memory.step < 0 && a->n == b->n;
}

int validate_replay(struct validate_result *r, const struct pass *executed, const struct tape *tape,
		    const struct validate_io *io, struct err *e)
{
	struct run_settings s = *executed->settings;
	struct watch w = {.tables = true};
	struct log_check check;
	struct run_result run;
	struct err why = {0};
	s.backend = BACKEND_REPLAY;
	s.tape = tape;
	take_memory(&s, &r->executed.engine);
	log_check_begin(&check, executed->log);
	struct pass p = {.what = "replaying",
			 .settings = &s,
			 .workload = executed->workload,
			 .io = io,
			 .steps = executed->watch->n,
			 .watch = &w,
			 .check = &check};
	int rc = pass_run(&p, &run, &why);
	log_check_end(&check);
	if (rc == ERR_MEMORY) {
		err_set(e, ERR_MEMORY, "%s", why.text);
	} else {
		r->replayed = true;
		r->log_lines = executed->log->n;
		r->decisions = check.all;
		r->decisions_identical = rc == ERR_NONE && check.all.step < 0;
		compare_tables(r, executed->watch, &w, &check.blocks);
		if (rc)
			snprintf(r->replay_text, sizeof r->replay_text, "%.500s", why.text);
	}
	run_result_free(&run);
	watch_free(&w);
	return rc == ERR_MEMORY ? ERR_MEMORY : ERR_NONE;
}

static int replay(struct work *k, struct err *e)
{
	const struct pass executed = {
		.settings = &k->setup->executed, .workload = k->workload, .watch = &k->first, .log = &k->log};
	return validate_replay(k->result, &executed, &k->tape, k->io, e);
}

/* What a pass says that only memory may stop: whether it went through, and through the same steps. */
static bool same_steps(const struct work *k, const struct watch *w, int rc)
{
	return rc == ERR_NONE && w->n == k->first.n;
}

static int predict(struct work *k, struct err *e)
{
	struct run_result run;
	struct err why = {0};
	k->predicted.play = &k->tape;
	struct pass p = {.what = "predicting",
			 .settings = &k->simulated,
			 .workload = k->workload,
			 .io = k->io,
			 .steps = k->first.n,
			 .watch = &k->predicted};
	int rc = pass_run(&p, &run, &why);
	bool begun = has_begun(&run);
	k->predicts = same_steps(k, &k->predicted, rc);
	run_result_free(&run);
	if (rc == ERR_MEMORY || (rc && !begun))
		return err_set(e, why.code, "%s", why.text);
	if (!k->predicts)
		fail(k->result, RUN_FAILED, "asking the cost model for the executed steps", why.text);
	return ERR_NONE;
}

/* What a further execution may take. */
static int64_t spread_budget_ns(const struct work *k)
{
	double s = k->setup->spread_s, tenth = (double)k->result->executed.stats.busy_ns / 1e10;
	if (s < 0)
		s = tenth < 2 ? 2 : tenth > 20 ? 20 : tenth;
	return (int64_t)(s * 1e9);
}

static int again(struct work *k, bool *stopped, struct err *e)
{
	char what[48];
	struct run_result run = {0};
	struct watch *w = &k->again[k->n_again];
	snprintf(what, sizeof what, "executing again (%d of %d)", (int)k->n_again + 2, (int)k->setup->executions);
	w->play = &k->tape;
	w->first = &k->first;
	w->budget_ns = spread_budget_ns(k);
	struct pass p = {.what = what, .settings = &k->setup->executed, .steps = k->first.n, .watch = w};
	struct err why = {0};
	int rc = execute_once(k, &p, &run, stopped, &why);
	bool there = !*stopped && same_steps(k, w, rc);
	run_result_free(&run);
	if (rc == ERR_MEMORY)
		return err_set(e, ERR_MEMORY, "%s", why.text);
	if (!there) {
		if (!*stopped)
			fail(k->result, RUN_FAILED, "executing the same decisions again", why.text);
		watch_free(w);
		*stopped = true;
		return ERR_NONE;
	}
	if (w->cut == 0) {
		*stopped =
			true; /* not even the first step fits in what it may take: nothing is learnt from any other */
		watch_free(w);
		k->result->executions--;
		return ERR_NONE;
	}
	figures_fill_rest(w, &k->first);
	if (k->n_again == 0 || w->cut < k->result->again_steps)
		k->result->again_steps = w->cut;
	const struct relay in = {k->workload, k->result->executed.requests, &k->log, &k->first, w};
	rc = times_relaid(&k->relaid[k->n_again], &k->relaid_end_ns[k->n_again], &in, e);
	k->n_again++;
	return rc;
}

static int execute_again(struct work *k, struct err *e)
{
	int rc = ERR_NONE;
	bool stopped = false;
	int32_t more = k->setup->executions - 1;
	while (rc == ERR_NONE && !stopped && k->n_again < more && k->n_again < VALIDATE_EXECUTIONS - 1)
		rc = again(k, &stopped, e);
	if (stopped && k->io->stop && *k->io->stop)
		fail(k->result, RUN_INTERRUPTED, "",
		     k->n_again
			     ? "stopped before all executions were done"
			     : "stopped before the second execution was done: the executor's own spread is not known");
	return rc;
}

static int simulate(struct work *k, struct err *e)
{
	struct validate_result *r = k->result;
	struct err why = {0};
	struct pass p = {
		.what = "simulating", .settings = &k->simulated, .workload = k->workload, .io = k->io, .stored = true};
	int rc = pass_run(&p, &r->simulated, &why);
	if (rc == ERR_NONE)
		return times_of_requests(&k->expected, r->simulated.requests, k->workload->n, e);
	if (rc == ERR_MEMORY || !has_begun(&r->simulated))
		return err_set(e, why.code, "%s", why.text);
	fail(r, r->simulated.status, "the simulated run", why.text);
	return ERR_NONE;
}

/* --- put together ------------------------------------------------------------------------------------------------- */

static void share_memory(struct work *k)
{
	k->simulated = k->setup->simulated;
	take_memory(&k->simulated, &k->result->executed.engine);
}

static int figures(struct work *k, struct err *e)
{
	struct validate_result *r = k->result;
	struct watched w = {.first = &k->first, .predicted = k->predicts ? &k->predicted : NULL, .n_again = k->n_again};
	for (int32_t i = 0; i < k->n_again; i++)
		w.again[i] = &k->again[i];
	int rc = figures_of_steps(r, &w, e);
	if (rc || !k->expected.n)
		return rc;
	rc = figures_of_requests(r, &k->measured, &k->expected, k->relaid, k->n_again, e);
	figures_of_rates(r, k->relaid_end_ns, k->n_again);
	return rc;
}

static int passes(struct work *k, struct err *e)
{
	struct validate_result *r = k->result;
	int rc = execute(k, e);
	if (rc || r->status != RUN_COMPLETE)
		return rc;
	share_memory(k);
	int (*const rest[])(struct work *, struct err *) = {replay, predict, simulate, execute_again, figures};
	for (size_t i = 0; rc == ERR_NONE && i < sizeof rest / sizeof *rest; i++)
		rc = rest[i](k, e);
	return rc;
}

static void free_work(struct work *k)
{
	tape_free(&k->tape);
	event_log_free(&k->log);
	watch_free(&k->first);
	watch_free(&k->predicted);
	for (int i = 0; i < VALIDATE_EXECUTIONS; i++) {
		watch_free(&k->again[i]);
		times_free(&k->relaid[i]);
	}
	times_free(&k->measured);
	times_free(&k->expected);
}

static void begin(struct validate_result *r, const struct validate_setup *s)
{
	*r = (struct validate_result){.cost = s->simulated.cost ? s->simulated.cost : "roofline",
				      .load = s->load,
				      .capacity = s->capacity,
				      .status = RUN_COMPLETE,
				      .settings = s->executed,
				      .decisions = {.step = -1},
				      .memory = {.step = -1},
				      .allowed = NAN,
				      .contention = {.load = NAN, .others = NAN, .steal = NAN}};
	const struct validate_figure none = {.measured = NAN, .simulated = NAN, .error = NAN, .spread = NAN};
	for (int t = 0; t < VALIDATE_TIMES; t++) {
		r->request_mape[t] = NAN;
		for (int k = 0; k < VALIDATE_STATS; k++)
			r->times[t][k] = none;
	}
	for (int k = 0; k < VALIDATE_RATES; k++)
		r->rates[k] = none;
	for (int k = 0; k < VALIDATE_KINDS; k++)
		r->steps[k] =
			(struct validate_steps){.mape = NAN, .bias = NAN, .total = NAN, .p90 = NAN, .spread = NAN};
}

int validate_policy(const struct validate_setup *s, const struct workload *w, const struct validate_io *io,
		    struct validate_result *r, struct err *e)
{
	static const struct validate_io nobody;
	struct work *k = mem_zalloc(1, sizeof *k);
	*r = (struct validate_result){0};
	if (!k)
		return err_no_memory(e, "a validation");
	begin(r, s);
	*k = (struct work){.setup = s, .workload = w, .io = io ? io : &nobody, .result = r};
	const char *label = s->executed.label ? s->executed.label : s->executed.policy;
	r->label = mem_strdup(label);
	int rc = r->label ? passes(k, e) : err_no_memory(e, "a validation");
	r->offered_rate = r->executed.metrics.offered_rate;
	run_result_drop_requests(&r->executed);
	run_result_drop_requests(&r->simulated);
	free_work(k);
	mem_free(k);
	if (rc) {
		validate_free(r);
		return rc;
	}
	figures_judge(r, s->max_error);
	if (io && io->store)
		store_validation(io->store, r, &r->id, &r->store_err);
	return ERR_NONE;
}

bool validate_passed(const struct validate_result *r)
{
	return r->status == RUN_COMPLETE && r->replayed && r->decisions_identical && r->memory_identical && !r->beyond;
}

void validate_free(struct validate_result *r)
{
	run_result_free(&r->executed);
	run_result_free(&r->simulated);
	mem_free(r->label);
	mem_free(r->points);
	for (int t = 0; t < VALIDATE_TIMES; t++)
		for (int side = 0; side < 2; side++)
			mem_free(r->samples[t][side]);
	*r = (struct validate_result){0};
}
