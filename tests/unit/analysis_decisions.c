/* Decision logs: how lines read, what hashes notice, what is stored of a run so that it can be run again, that it then
 * decides the same, and where two runs part. */
#include <sqlite3.h>
#include <unistd.h>

#include "analysis/decisions.h"
#include "analysis/diverge.h"
#include "analysis/rerun.h"
#include "analysis/store.h"
#include "core/mem.h"
#include "exec/tape.h"
#include "tests/unit/analysis_fixture.h"

/* --- lines and hashes --------------------------------------------------------------------------------------------- */

static void lines_read_as_the_golden_logs_do(void)
{
	char line[DECISION_LINE];
	struct event ev = {.kind = EVENT_CHUNK, .step = 12, .at_ns = 1234567, .req = 3, .a = 16, .b = 48};
	CHECK_STR(decision_line(&ev, line), "12 1.235 ms: chunk 3 16 48\n");
	ev = (struct event){.kind = EVENT_STEP, .step = 12, .at_ns = 2000000, .req = -1, .a = 1234567, .b = 2000000};
	CHECK_STR(decision_line(&ev, line), "12 1.235 ms: step ends at 2.000 ms\n");
	ev = (struct event){.kind = EVENT_PREEMPT,
			    .step = INT64_MAX,
			    .at_ns = INT64_MAX,
			    .req = INT32_MIN,
			    .a = INT64_MIN,
			    .b = INT64_MIN};
	CU_ASSERT_TRUE(strlen(decision_line(&ev, line)) < DECISION_LINE - 1 && strchr(line, '\n') != NULL);
}

static uint64_t hash_of(const struct event *events, int n, bool memory)
{
	struct decision_hash h = {0};
	for (int i = 0; i < n; i++)
		decision_hash_add(&h, &events[i]);
	return memory ? decision_hash_memory(&h) : decision_hash_value(&h);
}

static void the_hash_notices_every_field_and_the_order(void)
{
	struct event e[2] = {{.kind = EVENT_BLOCK, .step = 5, .at_ns = 100, .req = 1, .a = 2, .b = 3},
			     {.kind = EVENT_DECODE, .step = 5, .at_ns = 100, .req = 2, .a = 9, .b = 0}};
	struct event was = e[0];
	uint64_t h = hash_of(e, 2, false), m = hash_of(e, 2, true);
	CHECK_INT(hash_of(e, 0, false), 0);
	CU_ASSERT_TRUE(h != 0 && m != 0 && h != m);
	CU_ASSERT_NOT_EQUAL(hash_of(e, 1, false), h);
	int64_t *const fields[] = {&e[0].step, &e[0].at_ns, &e[0].a, &e[0].b};
	for (int i = 0; i < 4; i++) {
		for (int bit = 0; bit < 64; bit += 7) {
			*fields[i] ^= (int64_t)(UINT64_C(1) << bit);
			CU_ASSERT_NOT_EQUAL(hash_of(e, 2, false), h);
			/* The memory's: who was given which block, not when. */
			CHECK_INT(hash_of(e, 2, true) == m, i < 2);
			e[0] = was;
		}
	}
	e[0].req = 7;
	CU_ASSERT_NOT_EQUAL(hash_of(e, 2, false), h);
	CU_ASSERT_NOT_EQUAL(hash_of(e, 2, true), m);
	e[0] = was;
	e[1].a = 10;
	CU_ASSERT_NOT_EQUAL(hash_of(e, 2, false), h);
	CHECK_INT(hash_of(e, 2, true), m);
	struct event turned[2] = {e[1], e[0]};
	e[1].a = 9;
	CU_ASSERT_NOT_EQUAL(hash_of(turned, 2, false), h);
}

/* --- what is stored ----------------------------------------------------------------------------------------------- */

static const char *fresh(const char *name)
{
	const char *path = temp_path(name);
	unlink(path);
	return path;
}

static int64_t query(const char *path, const char *sql)
{
	sqlite3 *db;
	sqlite3_stmt *q = NULL;
	int64_t v = -1;
	CHECK_INT(sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
	if (sqlite3_prepare_v2(db, sql, -1, &q, NULL) != SQLITE_OK)
		printf("    %s: %s\n", sql, sqlite3_errmsg(db));
	else if (sqlite3_step(q) == SQLITE_ROW)
		v = sqlite3_column_int64(q, 0);
	sqlite3_finalize(q);
	sqlite3_close(db);
	return v;
}

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

/* A simulation with its inputs recorded, as if they were an executor's: with a split of time and ends of sequences in
 * places, which a recording is free to have. */
static void record_run(const struct run_settings *s, const struct workload *w, struct recording *rec,
		       struct run_result *r)
{
	struct err e = {0};
	*rec = (struct recording){0};
	const struct run_io io = {.ctx = rec, .stand_before = stand_before, .event = ignore_event};
	CHECK_INT(run_execute(s, w, &io, r, &e), ERR_NONE);
	CU_ASSERT_TRUE(rec->tape.n > 100);
	for (int64_t i = 0; i < rec->tape.n; i += 3) {
		struct tape_entry *x = &rec->tape.entries[i];
		x->measured = x->kind == TAPE_STEP;
		for (int k = 0; k < STEP_PARTS; k++)
			x->part_ns[k] = i * k;
		x->outside = x->measured ? 0.25 : 0;
	}
}

static void same_tape(const struct tape *a, const struct tape *b)
{
	CHECK_INT(b->n, a->n);
	CHECK_INT(b->n_eos, a->n_eos);
	CHECK_INT(b->interrupted, a->interrupted);
	for (int64_t i = 0; i < a->n && i < b->n; i++) {
		const struct tape_entry *x = &a->entries[i], *y = &b->entries[i];
		bool step = x->kind == TAPE_STEP;
		bool same = x->kind == y->kind && x->a_ns == y->a_ns && x->b_ns == y->b_ns &&
			    x->host_ns == y->host_ns && x->batch == y->batch && x->n_eos == y->n_eos &&
			    (step ? x->measured : 0) == y->measured;
		for (int k = 0; same && step && x->measured && k < STEP_PARTS; k++)
			same = x->part_ns[k] == y->part_ns[k];
		for (int k = 0; same && k < x->n_eos; k++)
			same = a->eos[x->eos_at + k] == b->eos[y->eos_at + k];
		CU_ASSERT_TRUE(same);
		CHECK_NEAR(y->outside, step ? x->outside : 0, 0);
	}
}

/* Stores r as a run that real kernels made: with tape and outputs. */
static void store_as(const char *path, const struct run_settings *s, const struct workload *w, struct run_result *r)
{
	struct store *store;
	struct err e = {0};
	CHECK_INT(store_open(&store, path, false, &e), ERR_NONE);
	CHECK_INT(store_begin_run(store, s, w, r, &r->run_id, &e), ERR_NONE);
	CHECK_INT(store_end_run(store, s, w, r, &e), ERR_NONE);
	CHECK_STR(e.text, "");
	store_close(store);
}

static void inputs_and_outputs_come_back_and_go_with_their_run(void)
{
	const char *path = fresh("tape.db");
	struct workload w;
	struct run_settings s;
	struct run_result r;
	struct recording rec;
	struct err e = {0};
	random_workload(&w, 60, 30, 5);
	small_settings(&s, &w);
	record_run(&s, &w, &rec, &r);
	int32_t eos[] = {7, 59, 0};
	rec.tape.entries[4].n_eos = rec.tape.entries[4].kind == TAPE_STEP ? 3 : 0;
	rec.tape.entries[5].n_eos = rec.tape.entries[5].kind == TAPE_STEP ? 3 : 0;
	CHECK_INT(rec.tape.entries[4].n_eos + rec.tape.entries[5].n_eos, 3);
	CHECK_INT(tape_add_eos(&rec.tape, eos, 3, &e), ERR_NONE);
	r.tape = rec.tape;
	r.tape.interrupted = true;
	r.status = RUN_INTERRUPTED;
	r.backend = "cpu";
	r.output_at = mem_zalloc((size_t)r.n + 1, sizeof *r.output_at);
	r.output_ids = mem_zalloc(8, sizeof *r.output_ids);
	for (int64_t i = 3; i <= r.n; i++)
		r.output_at[i] = i == 3 ? 2 : 5; /* request 2 has two, request 3 has three, the others none */
	static const int32_t ids[] = {1, 2, 31999, 0, -1};
	memcpy(r.output_ids, ids, sizeof ids);
	s.arguments = "[\"replay\", \"small.csv\"]";
	s.arm = 2;
	s.backend = BACKEND_CPU;
	s.threads = 4;
	store_as(path, &s, &w, &r);
	s.backend = BACKEND_SIM;
	store_as(path, &s, &w, &r);
	s.backend = BACKEND_CUDA;
	s.enforce_eager = true;
	store_as(path, &s, &w, &r);

	struct store *store;
	struct tape back;
	struct store_recipe recipe;
	CHECK_INT(store_open(&store, path, true, &e), ERR_NONE);
	CHECK_INT(store_load_tape(store, 1, &back, &e), ERR_NONE);
	same_tape(&r.tape, &back);
	CHECK_INT(store_recipe(store, 1, &recipe, &e), ERR_NONE);
	CHECK_STR(recipe.arguments, s.arguments);
	CHECK_STR(recipe.backend, "cpu");
	CHECK_STR(recipe.status, "interrupted");
	CHECK_INT(recipe.arm, 2);
	CHECK_INT(recipe.steps, r.stats.steps);
	CHECK_INT(recipe.num_gpu_blocks, 200);
	CU_ASSERT_TRUE(recipe.decision_hash == r.decision_hash && recipe.decision_hash != 0);
	CU_ASSERT_TRUE(recipe.memory_hash == r.memory_hash && recipe.memory_hash != 0);
	CU_ASSERT_TRUE(recipe.workload_hash == s.workload_hash);
	store_recipe_free(&recipe);
	tape_free(&back);
	store_close(store);
	CHECK_INT(query(path, "SELECT count(*) FROM outputs WHERE id >> 32 = 1"), 2);
	CHECK_INT(query(path, "SELECT hex(tokens) = '0100000002000000' FROM outputs WHERE id = (1 << 32) + 2"), 1);
	CHECK_INT(query(path, "SELECT hex(tokens) = 'FF7C000000000000FFFFFFFF' FROM outputs WHERE id = (1 << 32) + 3"),
		  1);
	CHECK_INT(query(path,
			"SELECT threads = 4 AND temperature = 0 AND ignore_eos = 1 AND exec_time = 'warp' FROM runs"
			" WHERE run_id = 1"),
		  1);
	CHECK_INT(query(path, "SELECT threads IS NULL AND temperature IS NULL FROM runs WHERE run_id = 2"), 1);
	CHECK_INT(query(path, "SELECT enforce_eager FROM runs WHERE run_id = 3"), 1);
	CHECK_INT(query(path, "SELECT count(*) FROM runs WHERE enforce_eager IS NULL"), 2);

	const int64_t first = 1;
	CHECK_INT(store_open(&store, path, false, &e), ERR_NONE);
	CHECK_INT(store_delete(store, &first, 1, false, &e), ERR_NONE);
	store_close(store);
	CHECK_INT(query(path, "SELECT count(*) FROM inputs WHERE id >> 32 = 1"), 0);
	CHECK_INT(query(path, "SELECT count(*) FROM inputs WHERE id >> 32 = 2"), r.tape.n);
	CHECK_INT(query(path, "SELECT count(*) FROM outputs"), 4);
	run_result_free(&r);
	workload_free(&w);
}

static void damaged_inputs_are_named(void)
{
	const char *path = fresh("damaged.db");
	struct workload w;
	struct run_settings s;
	struct run_result r;
	struct recording rec;
	struct err e = {0};
	struct store *store;
	struct tape back;
	random_workload(&w, 60, 30, 5);
	small_settings(&s, &w);
	record_run(&s, &w, &rec, &r);
	r.tape = rec.tape;
	store_as(path, &s, &w, &r);
	static const char *const damage[] = {
		"DELETE FROM inputs WHERE id = (1 << 32) + 17 RETURNING 1",
		"UPDATE inputs SET eos = x'010203' WHERE id = (1 << 32) + 16 RETURNING 1",
		"UPDATE inputs SET parts = x'00' WHERE id = (1 << 32) + 15 RETURNING 1",
		"UPDATE inputs SET parts = zeroblob(8) WHERE id = (1 << 32) + 14 RETURNING 1"};
	for (int i = 0; i < 4; i++) {
		char words[64];
		CHECK_INT(query(path, damage[i]), 1);
		snprintf(words, sizeof words, "its recorded inputs are damaged at number %d", 17 - i);
		err_clear(&e);
		CHECK_INT(store_open(&store, path, true, &e), ERR_NONE);
		CHECK_INT(store_load_tape(store, 1, &back, &e), ERR_INPUT);
		CU_ASSERT_PTR_NOT_NULL(strstr(e.text, words));
		store_close(store);
	}
	CHECK_INT(query(path, "DELETE FROM inputs RETURNING 1"), 1);
	err_clear(&e);
	CHECK_INT(store_open(&store, path, true, &e), ERR_NONE);
	CHECK_INT(store_load_tape(store, 1, &back, &e), ERR_INPUT);
	CU_ASSERT_PTR_NOT_NULL(strstr(e.text, "nothing is recorded of run 1"));
	err_clear(&e);
	CHECK_INT(store_load_tape(store, 9, &back, &e), ERR_INPUT);
	CU_ASSERT_PTR_NOT_NULL(strstr(e.text, "there is no run 9"));
	store_close(store);
	run_result_free(&r);
	workload_free(&w);
}

/* --- once more ---------------------------------------------------------------------------------------------------- */

struct log {
	struct event *events;
	int64_t n, cap;
	int64_t stop_at; /* this many events: stop; 0 = never */
	volatile int stop;
};

static void keep_event(void *ctx, const struct event *ev)
{
	struct log *l = ctx;
	CHECK_INT(mem_grow((void **)&l->events, &l->cap, l->n + 1, sizeof *l->events), 0);
	l->events[l->n++] = *ev;
	if (l->n == l->stop_at)
		l->stop = 1;
}

static bool same_log(const struct log *a, const struct log *b)
{
	bool same = a->n == b->n;
	for (int64_t i = 0; same && i < a->n; i++)
		same = diverge_same(&a->events[i], &b->events[i], (struct diverge_scope){.times = true});
	return same;
}

static void a_simulation_decides_the_same_again(void)
{
	static const char *const policies[] = {"naive", "continuous", "chunked"};
	struct workload w;
	random_workload(&w, 120, 30, 6);
	for (int k = 0; k < 6; k++) {
		struct run_settings s;
		struct run_result r;
		struct err e = {0};
		struct log was = {.stop_at = k >= 3 ? 500 : 0}, is = {0};
		small_settings(&s, &w);
		s.policy = policies[k % 3];
		s.engine.async_scheduling = k == 5;
		const struct run_io io = {.ctx = &was, .event = keep_event, .stop = &was.stop};
		CHECK_INT(run_execute(&s, &w, &io, &r, &e), ERR_NONE);
		CHECK_INT(r.status, k >= 3 ? RUN_INTERRUPTED : RUN_COMPLETE);
		char status[16], backend[] = "simulator";
		snprintf(status, sizeof status, "%s", run_status_name(r.status));
		struct store_recipe recipe = {.run_id = 4,
					      .status = status,
					      .backend = backend,
					      .steps = r.stats.steps,
					      .decision_hash = r.decision_hash};
		run_result_free(&r);
		rerun_settings(&s, &recipe, NULL);
		const struct run_io again = {.ctx = &is, .event = keep_event};
		CHECK_INT(rerun_execute(&recipe, &s, &w, &again, &r, &e), ERR_NONE);
		CHECK_STR(e.text, "");
		/* A stop is heard at the end of a step; what was decided until then is the same. */
		CU_ASSERT_TRUE(same_log(&was, &is));
		run_result_free(&r);
		recipe.decision_hash ^= 1;
		CHECK_INT(rerun_execute(&recipe, &s, &w, &again, &r, &e), ERR_INVARIANT);
		CU_ASSERT_PTR_NOT_NULL(strstr(e.text, "run 4: run again, it decides otherwise"));
		run_result_free(&r);
		mem_free(was.events);
		mem_free(is.events);
	}
	workload_free(&w);
}

static void a_recorded_run_decides_the_same_and_its_recording_must_fit(void)
{
	struct workload w;
	struct run_settings s;
	struct run_result r;
	struct recording rec;
	struct err e = {0};
	random_workload(&w, 80, 30, 7);
	small_settings(&s, &w);
	record_run(&s, &w, &rec, &r);
	char status[] = "complete", backend[] = "cpu";
	struct store_recipe recipe = {.run_id = 3,
				      .status = status,
				      .backend = backend,
				      .num_gpu_blocks = 200,
				      .decision_hash = r.decision_hash};
	run_result_free(&r);
	s.num_gpu_blocks_override = 7777; /* what this machine would have had room for */
	rerun_settings(&s, &recipe, &rec.tape);
	CHECK_INT(s.backend, BACKEND_REPLAY);
	CHECK_INT(s.num_gpu_blocks_override, 200);
	const struct run_io io = {0};
	CHECK_INT(rerun_execute(&recipe, &s, &w, &io, &r, &e), ERR_NONE);
	CHECK_STR(e.text, "");
	CHECK_STR(r.backend, "replay");
	CU_ASSERT_TRUE(r.decision_hash == recipe.decision_hash);
	run_result_free(&r);
	/* Another policy than the one that was recorded. */
	s.policy = "continuous";
	CHECK_INT(rerun_execute(&recipe, &s, &w, &io, &r, &e), ERR_INVARIANT);
	CU_ASSERT_PTR_NOT_NULL(strstr(e.text, "run 3: run again, it is failed where it was complete: step "));
	run_result_free(&r);
	tape_free(&rec.tape);
	workload_free(&w);
}

static void a_stop_is_not_a_difference(void)
{
	struct workload w;
	struct run_settings s;
	struct run_result r;
	struct err e = {0};
	random_workload(&w, 80, 30, 7);
	small_settings(&s, &w);
	char status[] = "complete", backend[] = "simulator";
	struct store_recipe recipe = {.run_id = 3, .status = status, .backend = backend, .decision_hash = 1};
	struct log l = {.stop_at = 40};
	const struct run_io io = {.ctx = &l, .event = keep_event, .stop = &l.stop};
	CHECK_INT(rerun_execute(&recipe, &s, &w, &io, &r, &e), ERR_INTERRUPTED);
	CU_ASSERT_TRUE(l.n < 200);
	run_result_free(&r);
	mem_free(l.events);
	workload_free(&w);
}

static const struct diverge_scope plain, timed = {.times = true}, any_block = {.any_block = true};

/* --- where two runs part ------------------------------------------------------------------------------------------ */

static void whole_log(const struct run_settings *s, const struct workload *w, struct log *l)
{
	struct run_result r;
	struct err e = {0};
	const struct run_io io = {.ctx = l, .event = keep_event};
	*l = (struct log){0};
	CHECK_INT(run_execute(s, w, &io, &r, &e), ERR_NONE);
	run_result_free(&r);
}

/* The first decision that differs, found the plain way: its step, or -1. *alike: decisions before its step. */
static int64_t first_difference(const struct log *a, const struct log *b, struct diverge_scope scope)
{
	int64_t i = 0, k = 0;
	for (;; i++, k++) {
		while (i < a->n && !diverge_decides(&a->events[i]))
			i++;
		while (k < b->n && !diverge_decides(&b->events[k]))
			k++;
		if (i == a->n || k == b->n)
			return i == a->n && k == b->n ? -1 : i == a->n ? b->events[k].step : a->events[i].step;
		if (!diverge_same(&a->events[i], &b->events[k], scope))
			return a->events[i].step < b->events[k].step ? a->events[i].step : b->events[k].step;
	}
}

/* All that one side was seen to decide in a step is what it decides in it. */
static void check_side(const struct diverge_side *side, const struct log *l, int64_t step)
{
	int64_t n = 0, seen = 0, arrived = 0;
	for (int64_t i = 0; i < l->n; i++)
		n += l->events[i].step == step && diverge_decides(&l->events[i]);
	for (int64_t i = 0; i < side->n; i++)
		seen += diverge_decides(&side->events[i]) && side->events[i].step == step;
	for (int64_t i = 0; i < l->n && l->events[i].step <= step; i++)
		arrived += l->events[i].kind == EVENT_ARRIVE;
	CHECK_INT(seen, n);
	CHECK_INT(side->ended, n == 0);
	CHECK_INT(side->arrived, arrived);
	CU_ASSERT_PTR_NOT_NULL(strstr(side->before, " running, "));
}

static void compare_runs(const struct run_settings *x, const struct run_settings *y, const struct workload *w,
			 struct diverge_scope scope)
{
	char status[] = "complete", backend[] = "simulator";
	const struct store_recipe recipe = {.run_id = 1, .status = status, .backend = backend};
	const struct diverge_run runs[2] = {{&recipe, x, w}, {&recipe, y, w}};
	struct divergence d;
	struct log a, b;
	struct err e = {0};
	whole_log(x, w, &a);
	whole_log(y, w, &b);
	int64_t step = first_difference(&a, &b, scope);
	CHECK_INT(diverge(runs, scope, NULL, &d, &e), ERR_NONE);
	CHECK_STR(e.text, "");
	CHECK_INT(d.differs, step >= 0);
	if (step >= 0) {
		CHECK_INT(d.step, step);
		check_side(&d.side[0], &a, step);
		check_side(&d.side[1], &b, step);
	} else {
		CHECK_INT(d.step, a.events[a.n - 1].step + 1);
	}
	divergence_free(&d);
	mem_free(a.events);
	mem_free(b.events);
}

static void the_first_step_that_differs_is_found(void)
{
	static const char *const policies[] = {"naive", "continuous", "chunked"};
	struct workload w;
	for (uint64_t seed = 1; seed <= 4; seed++) {
		random_workload(&w, 100, 25, seed);
		for (int p = 0; p < 3; p++) {
			struct run_settings s, other;
			small_settings(&s, &w);
			s.policy = policies[p];
			compare_runs(&s, &s, &w, timed);
			other = s;
			other.engine.max_num_seqs = 5; /* parts when the sixth would run */
			compare_runs(&s, &other, &w, plain);
			other = s;
			other.num_gpu_blocks_override =
				60; /* parts when the first block comes back, or memory runs out */
			compare_runs(&s, &other, &w, plain);
			compare_runs(&s, &other, &w, any_block);
			other = s;
			other.cost = "linear:a=5ms,b=20us,c=100us,d=11ns"; /* other clocks */
			compare_runs(&s, &other, &w, plain);
			compare_runs(&s, &other, &w, timed);
			other.policy = policies[(p + 1) % 3];
			compare_runs(&s, &other, &w, plain);
		}
		workload_free(&w);
	}
}

/* All at once, so that no clock can change what is decided: other step times make no difference but of clocks. */
static void clocks_alone_make_no_difference(void)
{
	struct workload w;
	struct run_settings s, other;
	struct divergence d;
	struct err e = {0};
	char status[] = "complete", backend[] = "simulator";
	const struct store_recipe recipe = {.run_id = 1, .status = status, .backend = backend};
	random_workload(&w, 50, 1, 3);
	for (int64_t i = 0; i < w.n; i++)
		w.specs[i].arrival_ns = 0;
	small_settings(&s, &w);
	other = s;
	other.cost = "linear:a=7ms";
	const struct diverge_run runs[2] = {{&recipe, &s, &w}, {&recipe, &other, &w}};
	CHECK_INT(diverge(runs, plain, NULL, &d, &e), ERR_NONE);
	CHECK_INT(d.differs, 0);
	CHECK_INT(d.clock_step, 0);
	CHECK_INT(d.end_ns[1], 7 * MS);
	CU_ASSERT_TRUE(d.end_ns[0] > 5 * MS && d.end_ns[0] != d.end_ns[1]);
	divergence_free(&d);
	CHECK_INT(diverge(runs, timed, NULL, &d, &e), ERR_NONE);
	CHECK_INT(d.differs, 1);
	CHECK_INT(d.step, 0);
	divergence_free(&d);
	static const volatile int stop = 2;
	CHECK_INT(diverge(runs, plain, &stop, &d, &e), ERR_INTERRUPTED);
	divergence_free(&d);
	workload_free(&w);
}

int main(void)
{
	static const struct test tests[] = {
		{"lines_read_as_the_golden_logs_do", lines_read_as_the_golden_logs_do},
		{"the_hash_notices_every_field_and_the_order", the_hash_notices_every_field_and_the_order},
		{"inputs_and_outputs_come_back_and_go_with_their_run",
		 inputs_and_outputs_come_back_and_go_with_their_run},
		{"damaged_inputs_are_named", damaged_inputs_are_named},
		{"a_simulation_decides_the_same_again", a_simulation_decides_the_same_again},
		{"a_recorded_run_decides_the_same_and_its_recording_must_fit",
		 a_recorded_run_decides_the_same_and_its_recording_must_fit},
		{"a_stop_is_not_a_difference", a_stop_is_not_a_difference},
		{"the_first_step_that_differs_is_found", the_first_step_that_differs_is_found},
		{"clocks_alone_make_no_difference", clocks_alone_make_no_difference},
	};
	return SUITE_RUN("analysis_decisions", tests);
}
