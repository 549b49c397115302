/* validate: an error that was put in comes out as what it is; an executor's spread is measured; logs that differ part where
 * they do. The executed side is the simulator under another clock: exact, quick and the same every time. */
#include <jansson.h>
#include <math.h>
#include <unistd.h>

#include "analysis/jout.h"
#include "analysis/store.h"
#include "analysis/store_internal.h"
#include "analysis/validate.h"
#include "analysis/validate_figures.h"
#include "analysis/validate_passes.h"
#include "core/mem.h"
#include "exec/tape.h"
#include "tests/unit/analysis_fixture.h"
#include "traces/shape.h"

/* --- an executor that takes what we say ----------------------------------------------------------------------------- */

/* Each step takes `factor` times what the cost model behind it says, give or take `noise`. */
struct machine {
	double factor, noise;
	double again; /* of every execution but the first, times that */
	struct rng rng;
	int runs;
	volatile int *stop_at; /* becomes 1 in the second execution */
};

struct stand_in {
	struct machine *machine;
	struct backend inner;
	double factor;
	int64_t now_ns, start_ns, end_ns, part_ns[STEP_PARTS];
	int64_t steps;
};

static int in_init(void *self, const struct engine *engine, struct err *e)
{
	struct stand_in *s = self;
	return s->inner.ops->init(s->inner.self, engine, e);
}

static int64_t in_now(void *self)
{
	return ((struct stand_in *)self)->now_ns;
}

static int in_wait_until(void *self, int64_t t_ns, struct err *e)
{
	struct stand_in *s = self;
	(void)e;
	if (t_ns > s->now_ns)
		s->now_ns = t_ns;
	return ERR_NONE;
}

static int in_submit(void *self, const struct batch *b, struct err *e)
{
	struct stand_in *s = self;
	s->start_ns = s->now_ns;
	return s->inner.ops->submit(s->inner.self, b, e);
}

static int in_wait(void *self, struct step_result *out, struct err *e)
{
	struct stand_in *s = self;
	struct machine *m = s->machine;
	int rc = s->inner.ops->wait(s->inner.self, out, e);
	if (rc)
		return rc;
	double took = (double)(out->end_ns[0] - out->start_ns) * s->factor;
	took *= 1 + m->noise * (2 * rng_unit(&m->rng) - 1);
	s->now_ns = s->end_ns = s->start_ns + (int64_t)(took + 0.5);
	for (int i = 0; i < STEP_PARTS; i++)
		s->part_ns[i] = (s->end_ns - s->start_ns) / 4;
	*out = (struct step_result){
		.steps = 1, .start_ns = s->start_ns, .end_ns = &s->end_ns, .host_ns = 0, .part_ns = s->part_ns};
	if (++s->steps == 5 && m->runs == 2 && m->stop_at)
		*m->stop_at = 1;
	return ERR_NONE;
}

static int in_transfer(void *self, const struct transfer *t, struct err *e)
{
	struct stand_in *w = self;
	return w->inner.ops->transfer(w->inner.self, t, e);
}

static int in_transfers_done(void *self, struct transfer_news *out, struct err *e)
{
	struct stand_in *w = self;
	return w->inner.ops->transfers_done(w->inner.self, out, e);
}

static int64_t in_transfer_next_ns(void *self)
{
	struct stand_in *w = self;
	return w->inner.ops->transfer_next_ns(w->inner.self);
}

static void in_close(void *self)
{
	mem_free(self);
}

static const struct backend_ops in_ops = {.name = "stand-in",
					  .init = in_init,
					  .now = in_now,
					  .wait_until = in_wait_until,
					  .submit = in_submit,
					  .wait = in_wait,
					  .transfer = in_transfer,
					  .transfers_done = in_transfers_done,
					  .transfer_next_ns = in_transfer_next_ns,
					  .close = in_close};

static int stand_in(void *ctx, struct backend *b, struct err *e)
{
	struct machine *m = ctx;
	struct stand_in *s = mem_zalloc(1, sizeof *s);
	if (!s)
		return err_no_memory(e, "the stand-in");
	s->machine = m;
	s->inner = *b;
	s->factor = m->factor * (m->runs++ && m->again > 0 ? m->again : 1);
	*b = (struct backend){&in_ops, s};
	return ERR_NONE;
}

/* --- set up ----------------------------------------------------------------------------------------------------------- */

struct bench {
	struct workload w;
	struct validate_setup setup;
	struct validate_io io;
	struct machine machine;
	struct validate_result r;
};

static void set_up(struct bench *b, int64_t n, int64_t gap_ms, double factor)
{
	*b = (struct bench){.machine = {.factor = factor}};
	random_workload(&b->w, n, gap_ms, 1);
	small_settings(&b->setup.executed, &b->w);
	b->setup.simulated = b->setup.executed;
	b->setup.executions = 2;
	b->setup.max_error = NAN;
	b->io = (struct validate_io){.stand_before = stand_in, .before_ctx = &b->machine};
	rng_init(&b->machine.rng, 5, 5);
}

static void everybody_at_once(struct bench *b)
{
	for (int64_t i = 0; i < b->w.n; i++)
		b->w.specs[i].arrival_ns = 0;
}

static void go(struct bench *b)
{
	struct err e = {0};
	int rc = validate_policy(&b->setup, &b->w, &b->io, &b->r, &e);
	if (rc)
		printf("    %s\n", e.text);
	CU_ASSERT_EQUAL_FATAL(rc, ERR_NONE);
	if (b->r.status != RUN_COMPLETE)
		printf("    %s\n", b->r.status_text);
}

static void tear_down(struct bench *b)
{
	validate_free(&b->r);
	workload_free(&b->w);
}

/* --- errors ----------------------------------------------------------------------------------------------------------- */

static void a_true_simulator_is_found_true(void)
{
	static const char *const policies[] = {"naive", "continuous", "chunked"};
	for (int p = 0; p < 3; p++) {
		struct bench b;
		set_up(&b, 120, 40, 1);
		b.setup.executed.policy = b.setup.simulated.policy = policies[p];
		b.setup.max_error = 0;
		go(&b);
		CU_ASSERT_TRUE(validate_passed(&b.r));
		CU_ASSERT_TRUE(b.r.decisions_identical);
		CU_ASSERT_TRUE(b.r.memory_identical);
		CHECK_NEAR(b.r.steps[VALIDATE_ALL].mape, 0, 0);
		CHECK_NEAR(b.r.steps[VALIDATE_ALL].spread, 0, 0);
		for (int t = 0; t < VALIDATE_TIMES; t++) {
			for (int k = 0; k < VALIDATE_STATS; k++) {
				CHECK_NEAR(b.r.times[t][k].error, 0, 0);
				CHECK_NEAR(b.r.times[t][k].spread, 0, 0);
			}
			CHECK_NEAR(b.r.request_mape[t], 0, 0);
		}
		for (int k = 0; k < VALIDATE_RATES; k++)
			CHECK_NEAR(b.r.rates[k].error, 0, 0);
		CHECK_INT(b.r.executed.metrics.completed, 120);
		CHECK_INT(b.r.steps[VALIDATE_ALL].n, b.r.executed.stats.steps);
		CHECK_INT(b.r.steps[VALIDATE_PREFILLS].n + b.r.steps[VALIDATE_DECODES].n + b.r.steps[VALIDATE_MIXED].n,
			  b.r.executed.stats.steps);
		tear_down(&b);
	}
}

/* A machine that takes a tenth longer than foretold: everything foretold is 1/1.1 of it. */
static void a_tenth_too_slow_is_a_bias_of_minus_9_09(void)
{
	const double expected = (1 / 1.1 - 1) * 100;
	struct bench b;
	set_up(&b, 80, 40, 1.1);
	everybody_at_once(&b);
	go(&b);
	CU_ASSERT_TRUE(b.r.decisions_identical);
	CU_ASSERT_TRUE(b.r.memory_identical);
	for (int k = 0; k < VALIDATE_KINDS; k++) {
		const struct validate_steps *s = &b.r.steps[k];
		if (!s->n)
			continue;
		CHECK_NEAR(s->mape, -expected, 1e-4);
		CHECK_NEAR(s->bias, expected, 1e-4);
		CHECK_NEAR(s->total, expected, 1e-4);
		CHECK_NEAR(s->p90, -expected, 1e-4);
		CHECK_NEAR(s->spread, 0, 0);
	}
	for (int t = 0; t < VALIDATE_TIMES; t++)
		for (int k = 0; k < VALIDATE_STATS; k++)
			if (b.r.times[t][k].measured > 0)
				CHECK_NEAR(b.r.times[t][k].error, expected, 1e-3);
	CHECK_NEAR(b.r.request_mape[VALIDATE_E2E], -expected, 1e-3);
	for (int k = 0; k < VALIDATE_RATES; k++)
		CHECK_NEAR(b.r.rates[k].error, 10, 1e-3);
	tear_down(&b);
}

static void errors_of_kinds_are_kept_apart(void)
{
	struct bench b;
	set_up(&b, 80, 40, 1);
	/* What prompts cost is foretold at half of what it is, what decodes cost exactly. */
	b.setup.executed.cost = "linear:b=40us,c=100us";
	b.setup.simulated.cost = "linear:b=20us,c=100us";
	b.setup.executed.policy = b.setup.simulated.policy = "continuous";
	go(&b);
	CHECK_NEAR(b.r.steps[VALIDATE_PREFILLS].bias, -50, 0.01);
	CHECK_NEAR(b.r.steps[VALIDATE_DECODES].bias, 0, 0);
	CU_ASSERT(b.r.steps[VALIDATE_ALL].bias < 0 && b.r.steps[VALIDATE_ALL].bias > -50);
	CU_ASSERT_TRUE(b.r.decisions_identical);
	tear_down(&b);
}

static void what_is_allowed_is_the_limit_or_the_spread(void)
{
	struct bench b;
	set_up(&b, 80, 40, 1.1);
	everybody_at_once(&b);
	b.setup.max_error = 9;
	go(&b);
	CU_ASSERT_FALSE(validate_passed(&b.r));
	CU_ASSERT(b.r.beyond > 10);
	CU_ASSERT(strlen(b.r.worst) > 0);
	validate_free(&b.r);
	b.setup.max_error = 10.1;
	go(&b);
	CHECK_INT(b.r.beyond, 0);
	CU_ASSERT_TRUE(validate_passed(&b.r));
	validate_free(&b.r);
	/* An executor that differs from itself by 20 % cannot be held to 9 %. */
	b.setup.max_error = 9;
	b.machine.runs = 0;
	b.machine.again = 1.2;
	go(&b);
	CHECK_NEAR(b.r.steps[VALIDATE_ALL].spread, 20, 1e-3);
	CHECK_INT(b.r.beyond, 0);
	tear_down(&b);
}

/* --- spread ------------------------------------------------------------------------------------------------------------ */

/* Two times u and v, each within 10 % of the same: |u / v - 1| is 6.71 % on average. */
static void the_executors_own_spread_is_measured(void)
{
	struct bench b;
	set_up(&b, 150, 30, 1);
	b.machine.noise = 0.1;
	b.setup.executions = 4;
	go(&b);
	CHECK_INT(b.r.executions, 4);
	CHECK_INT(b.machine.runs, 4);
	CHECK_NEAR(b.r.steps[VALIDATE_ALL].spread, 6.71, 0.4);
	CU_ASSERT(b.r.times[VALIDATE_TPOT][VALIDATE_P50].spread > 0);
	CU_ASSERT(b.r.times[VALIDATE_TPOT][VALIDATE_P50].spread < 6);
	/* And the decisions were those of the first one all along. */
	CU_ASSERT_TRUE(b.r.decisions_identical);
	/* One time u against 1: 5.03 %. */
	CHECK_NEAR(b.r.steps[VALIDATE_ALL].mape, 5.03, 0.4);
	tear_down(&b);
}

static void one_execution_has_no_spread(void)
{
	struct bench b;
	set_up(&b, 60, 30, 1);
	b.setup.executions = 1;
	go(&b);
	CHECK_INT(b.machine.runs, 1);
	CU_ASSERT_TRUE(isnan(b.r.steps[VALIDATE_ALL].spread));
	CU_ASSERT_TRUE(isnan(b.r.times[VALIDATE_TTFT][VALIDATE_P50].spread));
	CU_ASSERT_TRUE(isnan(b.r.rates[0].spread));
	CHECK_NEAR(b.r.times[VALIDATE_TTFT][VALIDATE_P50].error, 0, 0);
	tear_down(&b);
}

/* A second execution that may not take long: what it did not come to differs as what it did. */
static void a_spread_may_be_measured_in_part(void)
{
	struct bench b;
	set_up(&b, 80, 40, 1);
	everybody_at_once(&b);
	b.machine.again = 1.2;
	b.setup.spread_s = 1;
	go(&b);
	CHECK_INT(b.r.executions, 2);
	CU_ASSERT(b.r.again_steps > 10 && b.r.again_steps < b.r.n_points);
	CHECK_NEAR(b.r.steps[VALIDATE_ALL].spread, 20, 1e-3);
	CHECK_NEAR(b.r.times[VALIDATE_E2E][VALIDATE_P90].spread, 20, 1e-3);
	CHECK_NEAR(b.r.rates[0].spread, (1 - 1 / 1.2) * 100, 1e-3);
	CU_ASSERT_TRUE(isnan(b.r.points[b.r.n_points - 1].again_ns));
	validate_free(&b.r);
	/* No limit, and one that no step fits in. */
	b.setup.spread_s = 0;
	go(&b);
	CHECK_INT(b.r.again_steps, b.r.n_points);
	validate_free(&b.r);
	b.setup.spread_s = 1e-6;
	go(&b);
	CHECK_INT(b.r.status, RUN_COMPLETE);
	CHECK_INT(b.r.executions, 1);
	CU_ASSERT_TRUE(isnan(b.r.steps[VALIDATE_ALL].spread));
	tear_down(&b);
}

/* Everything that a request sees in a second execution: the same as if it had really been run like that, where the
 * decisions are the same anyway. */
static void steps_laid_along_a_schedule_give_what_a_run_gives(void)
{
	struct workload w;
	struct run_settings s;
	workload_init(&w);
	/* Far apart at first, each alone; then a crowd that fills the memory and is preempted, whatever a step takes. */
	for (int i = 0; i < 5; i++)
		add_spec(&w, i * S, 100 + 50 * i, 10 + i);
	for (int i = 0; i < 30; i++)
		add_spec(&w, 20 * S, 100, 100);
	workload_set_max_tokens(&w, MAX_TOKENS_MAX, 100);
	small_settings(&s, &w);
	struct machine slow = {.factor = 1}, fast = {.factor = 0.5};
	const struct validate_io slowly = {.stand_before = stand_in, .before_ctx = &slow};
	const struct validate_io quickly = {.stand_before = stand_in, .before_ctx = &fast};
	struct watch a = {0}, b = {0}, c = {0};
	struct tape tape = {0};
	struct event_log log = {0};
	struct run_result first, second, really;
	struct err e = {0};
	struct pass p = {.settings = &s,
			 .workload = &w,
			 .io = &slowly,
			 .executes = true,
			 .watch = &a,
			 .record = &tape,
			 .log = &log};
	CHECK_INT(pass_run(&p, &first, &e), ERR_NONE);
	b.play = &tape;
	struct pass q = {.settings = &s, .workload = &w, .io = &quickly, .executes = true, .watch = &b};
	CHECK_INT(pass_run(&q, &second, &e), ERR_NONE);
	struct pass t = {.settings = &s, .workload = &w, .io = &quickly, .executes = true, .watch = &c};
	CHECK_INT(pass_run(&t, &really, &e), ERR_NONE);
	CHECK_INT(a.n, b.n);
	CHECK_INT(a.n, c.n);
	CU_ASSERT(first.stats.preemptions > 0);

	struct request_times laid, ran;
	int64_t end_ns;
	const struct relay in = {&w, first.requests, &log, &a, &b};
	CHECK_INT(times_relaid(&laid, &end_ns, &in, &e), ERR_NONE);
	CHECK_INT(times_of_requests(&ran, really.requests, w.n, &e), ERR_NONE);
	CHECK_INT(end_ns, really.metrics.last_finish_ns);
	for (int time = 0; time < VALIDATE_TIMES; time++)
		for (int64_t i = 0; i < w.n; i++)
			CHECK_NEAR(laid.of[time][i], ran.of[time][i], 0);
	times_free(&laid);
	times_free(&ran);
	run_result_free(&first);
	run_result_free(&second);
	run_result_free(&really);
	watch_free(&a);
	watch_free(&b);
	watch_free(&c);
	event_log_free(&log);
	tape_free(&tape);
	workload_free(&w);
}

/* --- decisions ---------------------------------------------------------------------------------------------------------- */

struct recorded {
	struct workload w;
	struct run_settings s;
	struct watch watch;
	struct tape tape;
	struct event_log log;
	struct validate_result r;
	struct pass pass;
};

static void record(struct recorded *x)
{
	static const struct validate_io io;
	struct err e = {0};
	*x = (struct recorded){.watch = {.tables = true}};
	random_workload(&x->w, 60, 40, 3);
	small_settings(&x->s, &x->w);
	x->pass = (struct pass){.settings = &x->s,
				.workload = &x->w,
				.io = &io,
				.watch = &x->watch,
				.record = &x->tape,
				.log = &x->log};
	CHECK_INT(pass_run(&x->pass, &x->r.executed, &e), ERR_NONE);
}

static void replay(struct recorded *x)
{
	static const struct validate_io io;
	struct err e = {0};
	x->r.decisions.step = x->r.memory.step = -1;
	CHECK_INT(validate_replay(&x->r, &x->pass, &x->tape, &io, &e), ERR_NONE);
	CU_ASSERT_TRUE(x->r.replayed);
}

static void forget(struct recorded *x)
{
	validate_free(&x->r);
	watch_free(&x->watch);
	tape_free(&x->tape);
	event_log_free(&x->log);
	workload_free(&x->w);
}

/* The place of the n-th step in the recording. */
static int64_t step_at(const struct tape *t, int64_t n)
{
	for (int64_t i = 0; i < t->n; i++)
		if (t->entries[i].kind == TAPE_STEP && n-- == 0)
			return i;
	CU_FAIL_FATAL("no such step");
	return 0;
}

static void a_recording_gives_the_same_decisions(void)
{
	struct recorded x;
	record(&x);
	replay(&x);
	CU_ASSERT_TRUE(x.r.decisions_identical);
	CU_ASSERT_TRUE(x.r.memory_identical);
	CHECK_STR(x.r.replay_text, "");
	CU_ASSERT(x.r.log_lines > 500);
	forget(&x);
}

static void a_changed_time_is_found_in_its_step(void)
{
	struct recorded x;
	record(&x);
	x.tape.entries[step_at(&x.tape, 7)].b_ns -= 1;
	replay(&x);
	CU_ASSERT_FALSE(x.r.decisions_identical);
	CHECK_INT(x.r.decisions.step, 7);
	CU_ASSERT(strstr(x.r.decisions.executed, "step ends") != NULL);
	CU_ASSERT_TRUE(x.r.memory_identical); /* nobody decided otherwise for it */
	forget(&x);
}

/* A request that is seen a step early takes other blocks from then on. */
static void other_decisions_are_shown_where_they_begin(void)
{
	struct recorded x;
	record(&x);
	int64_t late = x.w.specs[20].arrival_ns, at = 0, step = 0;
	for (int64_t i = 0; x.tape.entries[i].a_ns < late; i++)
		if (x.tape.entries[i].kind == TAPE_NOW)
			at = i; /* the last reading before it came */
	for (int64_t i = 0; i < at; i++)
		step += x.tape.entries[i].kind == TAPE_STEP;
	x.tape.entries[at].a_ns = late;
	replay(&x);
	CU_ASSERT_FALSE(x.r.decisions_identical);
	CHECK_INT(x.r.decisions.step, step);
	CU_ASSERT(strstr(x.r.decisions.replayed, "arrive") != NULL);
	CU_ASSERT(strstr(x.r.decisions.executed, "arrive") == NULL);
	CU_ASSERT_FALSE(x.r.memory_identical);
	CU_ASSERT(strlen(x.r.replay_text) > 0);
	forget(&x);
}

static void other_blocks_are_shown_too(void)
{
	struct recorded x;
	record(&x);
	int64_t i = 0, seen = 0;
	while (x.log.at[i].kind != EVENT_BLOCK || seen++ < 30)
		i++;
	x.log.at[i].b++; /* as if another block had been taken */
	replay(&x);
	CU_ASSERT_FALSE(x.r.decisions_identical);
	CU_ASSERT_FALSE(x.r.memory_identical);
	CHECK_INT(x.r.memory.step, x.log.at[i].step);
	CHECK_INT(x.r.decisions.line, i + 1);
	CU_ASSERT(strcmp(x.r.memory.executed, x.r.memory.replayed) != 0);
	x.log.at[i].b--;
	/* And where only what a kernel saw was other. */
	x.watch.steps[11].tables ^= 1;
	replay(&x);
	CU_ASSERT_TRUE(x.r.decisions_identical);
	CU_ASSERT_FALSE(x.r.memory_identical);
	CHECK_INT(x.r.memory.step, 11);
	forget(&x);
}

/* --- what is missing is said --------------------------------------------------------------------------------------------- */

static void stopping_keeps_what_there_is(void)
{
	struct bench b;
	volatile int stop = 0;
	set_up(&b, 60, 30, 1.1);
	b.io.stop = &stop;
	b.machine.stop_at = &stop;
	go(&b);
	CHECK_INT(b.r.status, RUN_INTERRUPTED);
	CHECK_INT(b.r.executions, 1);
	CU_ASSERT_TRUE(isnan(b.r.steps[VALIDATE_ALL].spread));
	CHECK_NEAR(b.r.steps[VALIDATE_ALL].bias, (1 / 1.1 - 1) * 100, 1e-4);
	CU_ASSERT_FALSE(isnan(b.r.times[VALIDATE_TTFT][VALIDATE_P50].error));
	CU_ASSERT_TRUE(b.r.decisions_identical);
	CU_ASSERT_FALSE(validate_passed(&b.r));
	validate_free(&b.r);
	/* At the very beginning: nothing. */
	go(&b);
	CHECK_INT(b.r.status, RUN_INTERRUPTED);
	CHECK_INT(b.r.n_points, 0);
	CU_ASSERT_FALSE(b.r.replayed);
	tear_down(&b);
}

static void bad_input_is_an_error(void)
{
	struct bench b;
	struct err e = {0};
	set_up(&b, 20, 30, 1);
	b.setup.executed.policy = "no such policy";
	CHECK_INT(validate_policy(&b.setup, &b.w, &b.io, &b.r, &e), ERR_INPUT);
	CU_ASSERT(strstr(e.text, "no such policy") != NULL);
	err_clear(&e);
	b.setup.executed.policy = "chunked";
	b.setup.simulated.cost = "linear:q=1";
	CHECK_INT(validate_policy(&b.setup, &b.w, &b.io, &b.r, &e), ERR_INPUT);
	tear_down(&b);
}

/* Alone, a request never queues for longer than a step lasts: no model can be off there. */
static void queues_below_a_step_are_not_judged(void)
{
	struct bench b;
	set_up(&b, 40, 2000, 1);
	b.setup.executed.cost = "linear:a=6ms,b=20us,c=100us,d=10ns";
	b.setup.max_error = 30;
	go(&b);
	CU_ASSERT_TRUE(b.r.times[VALIDATE_QUEUE][VALIDATE_P50].below_step);
	CU_ASSERT_FALSE(b.r.times[VALIDATE_E2E][VALIDATE_P50].below_step);
	CU_ASSERT_TRUE(b.r.times[VALIDATE_TTFT][VALIDATE_P99].thin);
	CU_ASSERT_FALSE(b.r.times[VALIDATE_TTFT][VALIDATE_MEAN].thin);
	CHECK_INT(b.r.beyond, 0);
	tear_down(&b);
}

/* --- load ------------------------------------------------------------------------------------------------------------- */

static void a_load_is_a_share_of_what_is_served_at_once(void)
{
	struct bench b;
	struct err e = {0};
	struct shape shape;
	double rate = 0, speedup = 0, s = 0;
	int64_t steps = 0;
	set_up(&b, 80, 40, 1);
	int64_t last = b.w.specs[79].arrival_ns;
	CHECK_INT(validate_capacity(&b.setup.simulated, &b.w, 0, &rate, &e), ERR_NONE);
	CHECK_INT(b.w.specs[79].arrival_ns, last); /* the workload stays as it is */
	CHECK_INT(validate_speedup(&b.w, 0.7 * rate, &speedup, &e), ERR_NONE);
	shape_default(&shape);
	shape.replay_speedup = speedup;
	CHECK_INT(shape_apply(&b.w, &shape, &e), ERR_NONE);
	go(&b);
	CHECK_NEAR(b.r.offered_rate, 0.7 * rate, 1e-6 * rate);
	CHECK_INT(validate_estimate(&b.setup, &b.w, 0, &s, &steps, &e), ERR_NONE);
	CHECK_INT(steps, b.r.executed.stats.steps);
	CHECK_NEAR(s, (double)b.r.executed.stats.busy_ns / 1e9, 1e-9);
	validate_free(&b.r);
	/* All at once is what the capacity was. */
	everybody_at_once(&b);
	go(&b);
	CHECK_NEAR(b.r.executed.metrics.request_throughput, rate, 1e-9 * rate);
	CHECK_INT(validate_speedup(&b.w, 1, &speedup, &e), ERR_INPUT);
	CU_ASSERT(strstr(e.text, "--request-rate") != NULL);
	tear_down(&b);
}

/* --- how it is shown ------------------------------------------------------------------------------------------------------ */

static void json_has_what_was_promised(void)
{
	struct bench b;
	struct err e = {0};
	struct jout j;
	char *text = NULL;
	set_up(&b, 60, 30, 1.1);
	go(&b);
	jout_open(&j, NULL);
	validate_put_json(&j, &b.r);
	CHECK_INT(jout_close(&j, &text, &e), ERR_NONE);
	json_error_t why;
	json_t *o = json_loads(text, 0, &why);
	CU_ASSERT_PTR_NOT_NULL_FATAL(o);
	CHECK_STR(json_string_value(json_object_get(o, "policy")), "chunked");
	CU_ASSERT_TRUE(json_is_true(json_object_get(o, "decisions_identical")));
	CU_ASSERT_TRUE(json_is_true(json_object_get(o, "memory_identical")));
	static const char *const numbers[] = {"step_mape",
					      "ttft_p50_err",
					      "ttft_p99_err",
					      "tpot_p50_err",
					      "e2e_p50_err",
					      "queue_mean_err",
					      "prefill_p90_err",
					      "executor_spread",
					      "ttft_p50_spread",
					      "measured_ttft_p50_ms",
					      "simulated_e2e_p99_ms",
					      "request_throughput_err",
					      "output_throughput_spread"};
	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
		if (!json_is_number(json_object_get(o, numbers[i])))
			CU_FAIL("a number is missing");
	CHECK_NEAR(json_number_value(json_object_get(o, "step_mape")), b.r.steps[VALIDATE_ALL].mape, 0);
	CHECK_NEAR(json_number_value(json_object_get(o, "measured_ttft_p50_ms")),
		   b.r.times[VALIDATE_TTFT][VALIDATE_P50].measured / 1e6, 1e-9);
	json_t *kinds = json_object_get(o, "step_errors");
	CHECK_INT(json_object_size(kinds), VALIDATE_KINDS);
	CU_ASSERT_TRUE(json_is_null(json_object_get(o, "max_error")));
	json_decref(o);
	mem_free(text);
	tear_down(&b);
}

static double query(const char *path, const char *sql)
{
	sqlite3 *db;
	sqlite3_stmt *q = NULL;
	double v = NAN;
	CHECK_INT(sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
	if (sqlite3_prepare_v2(db, sql, -1, &q, NULL) != SQLITE_OK)
		printf("    %s: %s\n", sql, sqlite3_errmsg(db));
	else if (sqlite3_step(q) == SQLITE_ROW && sqlite3_column_type(q, 0) != SQLITE_NULL)
		v = sqlite3_column_double(q, 0);
	sqlite3_finalize(q);
	sqlite3_close(db);
	return v;
}

static void a_validation_is_stored_with_its_runs(void)
{
	struct bench b;
	struct err e = {0};
	char path[600];
	snprintf(path, sizeof path, "%s", temp_path("validation.db"));
	set_up(&b, 60, 30, 1.1);
	b.setup.max_error = 5;
	CHECK_INT(store_open(&b.io.store, path, false, &e), ERR_NONE);
	go(&b);
	CHECK_INT(b.r.store_err.code, ERR_NONE);
	CHECK_INT(b.r.id, 1);
	CHECK_INT(query(path, "SELECT count(*) FROM runs WHERE status = 'complete'"), 2);
	CHECK_INT(query(path, "SELECT executed_run_id FROM validations"), b.r.executed.run_id);
	CHECK_INT(query(path, "SELECT simulated_run_id FROM validations"), b.r.simulated.run_id);
	CHECK_INT(query(path, "SELECT count(*) FROM validations WHERE passed = 0 AND decisions_identical = 1"
			      " AND memory_identical = 1 AND parted IS NULL AND beyond > 0 AND max_error = 5"),
		  1);
	CHECK_NEAR(query(path, "SELECT step_mape FROM validations"), b.r.steps[VALIDATE_ALL].mape, 0);
	CHECK_NEAR(query(path, "SELECT error FROM validation_errors WHERE what = 'ttft' AND statistic = 'p90'"),
		   b.r.times[VALIDATE_TTFT][VALIDATE_P90].error, 0);
	CHECK_NEAR(query(path, "SELECT measured FROM validation_errors WHERE what = 'e2e' AND statistic = 'mean'"),
		   b.r.times[VALIDATE_E2E][VALIDATE_MEAN].measured, 0);
	CHECK_NEAR(query(path, "SELECT error FROM validation_errors WHERE what = 'step' AND part = 'decode' AND "
			       "statistic = 'bias'"),
		   b.r.steps[VALIDATE_DECODES].bias, 0);
	struct validate_row rows[VALIDATE_ROWS];
	CHECK_INT(query(path, "SELECT count(*) FROM validation_errors"), validate_rows(&b.r, rows));
	CHECK_INT(query(path, "SELECT count(*) FROM validation_steps"), b.r.n_points);
	CHECK_NEAR(query(path, "SELECT avg(abs(predicted_ns / measured_ns - 1)) * 100 FROM validation_steps WHERE "
			       "measured_ns > 0"),
		   b.r.steps[VALIDATE_ALL].mape, 1e-9);
	/* It goes with either of its runs. */
	CHECK_INT(store_delete(b.io.store, &b.r.simulated.run_id, 1, false, &e), ERR_NONE);
	CHECK_INT(query(path, "SELECT count(*) FROM validations"), 0);
	CHECK_INT(query(path, "SELECT count(*) FROM validation_errors"), 0);
	CHECK_INT(query(path, "SELECT count(*) FROM validation_steps"), 0);
	store_close(b.io.store);
	tear_down(&b);
}

static void text_says_what_was_found(void)
{
	struct bench b;
	char *text = NULL;
	size_t size = 0;
	set_up(&b, 60, 30, 1.1);
	b.setup.max_error = 5;
	go(&b);
	FILE *f = open_memstream(&text, &size);
	validate_print(f, &b.r);
	fclose(f);
	static const char *const words[] = {"chunked: 60 requests",
					    "block tables identical in each of",
					    "identical when replayed",
					    "-9.1 %",
					    "TTFT",
					    "BEYOND --max-error 5 %",
					    "output tokens/s",
					    "a second execution",
					    "from too few samples"};
	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		if (!strstr(text, words[i])) {
			printf("    no \"%s\" in:\n%s\n", words[i], text);
			CU_FAIL("missing");
		}
	free(text);
	tear_down(&b);
}

int main(void)
{
	static const struct test tests[] = {
		{"a_true_simulator_is_found_true", a_true_simulator_is_found_true},
		{"a_tenth_too_slow_is_a_bias_of_minus_9_09", a_tenth_too_slow_is_a_bias_of_minus_9_09},
		{"errors_of_kinds_are_kept_apart", errors_of_kinds_are_kept_apart},
		{"what_is_allowed_is_the_limit_or_the_spread", what_is_allowed_is_the_limit_or_the_spread},
		{"the_executors_own_spread_is_measured", the_executors_own_spread_is_measured},
		{"one_execution_has_no_spread", one_execution_has_no_spread},
		{"a_spread_may_be_measured_in_part", a_spread_may_be_measured_in_part},
		{"steps_laid_along_a_schedule_give_what_a_run_gives",
		 steps_laid_along_a_schedule_give_what_a_run_gives},
		{"a_recording_gives_the_same_decisions", a_recording_gives_the_same_decisions},
		{"a_changed_time_is_found_in_its_step", a_changed_time_is_found_in_its_step},
		{"other_decisions_are_shown_where_they_begin", other_decisions_are_shown_where_they_begin},
		{"other_blocks_are_shown_too", other_blocks_are_shown_too},
		{"stopping_keeps_what_there_is", stopping_keeps_what_there_is},
		{"bad_input_is_an_error", bad_input_is_an_error},
		{"queues_below_a_step_are_not_judged", queues_below_a_step_are_not_judged},
		{"a_load_is_a_share_of_what_is_served_at_once", a_load_is_a_share_of_what_is_served_at_once},
		{"json_has_what_was_promised", json_has_what_was_promised},
		{"a_validation_is_stored_with_its_runs", a_validation_is_stored_with_its_runs},
		{"text_says_what_was_found", text_says_what_was_found},
	};
	return SUITE_RUN("analysis_validate", tests);
}
