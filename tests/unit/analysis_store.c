/* The database: what goes in comes out; and it stays whole when killed, full, shared, foreign or newer. */
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "analysis/store.h"
#include "analysis/store_internal.h"
#include "analysis/store_outline.h"
#include "core/mem.h"
#include "tests/unit/analysis_fixture.h"

static struct store *open_store(const char *path)
{
	struct store *s = NULL;
	struct err e = {0};
	if (store_open(&s, path, false, &e))
		printf("    %s\n", e.text);
	CU_ASSERT_PTR_NOT_NULL_FATAL(s);
	return s;
}

/* An empty path in the test's folder. */
static const char *fresh(const char *name)
{
	char beside[600];
	const char *path = temp_path(name);
	unlink(path);
	snprintf(beside, sizeof beside, "%s-wal", path);
	unlink(beside);
	snprintf(beside, sizeof beside, "%s-shm", path);
	unlink(beside);
	return path;
}

/* The first value of a query on the file itself. */
static double query(const char *path, const char *sql)
{
	sqlite3 *db;
	sqlite3_stmt *q = NULL;
	double v = NAN;
	CHECK_INT(sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
	sqlite3_busy_timeout(db, 10000);
	if (sqlite3_prepare_v2(db, sql, -1, &q, NULL) != SQLITE_OK)
		printf("    %s: %s\n", sql, sqlite3_errmsg(db));
	else if (sqlite3_step(q) == SQLITE_ROW && sqlite3_column_type(q, 0) != SQLITE_NULL)
		v = sqlite3_column_double(q, 0);
	sqlite3_finalize(q);
	sqlite3_close(db);
	return v;
}

static bool is_whole(const char *path)
{
	return query(path, "SELECT integrity_check = 'ok' FROM pragma_integrity_check") == 1;
}

/* --- what is stored ----------------------------------------------------------------------------------------------- */

static void a_run_with_steps_comes_back(void)
{
	const char *path = fresh("run.db");
	struct workload w;
	struct run_settings s;
	struct run_result r;
	random_workload(&w, 300, 40, 1);
	small_settings(&s, &w);
	s.record = RECORD_STEPS;
	struct store *store = open_store(path);
	must_run(&s, &w, store, &r);
	store_close(store);
	CHECK_INT(r.store_err.code, ERR_NONE);
	CHECK_INT(r.run_id, 1);
	CHECK_INT(query(path, "SELECT count(*) FROM runs WHERE status = 'complete' AND requests = 300"), 1);
	CHECK_INT(query(path, "SELECT count(*) FROM requests"), 300);
	CHECK_INT(query(path, "SELECT count(*) FROM steps"), r.stats.steps);
	CHECK_INT(query(path, "SELECT sum(output_tokens) FROM steps"), r.stats.output_tokens);
	CHECK_INT(query(path, "SELECT sum(duration_ns) FROM steps"), r.stats.busy_ns);
	CHECK_INT(query(path, "SELECT max(step) FROM step_timeline WHERE run_id = 1"), r.stats.steps - 1);
	CHECK_INT(query(path, "SELECT sum(output_tokens) FROM request_latency WHERE run_id = 1"),
		  r.metrics.output_tokens);
	CHECK_INT(query(path, "SELECT sum(e2e_ns) FROM request_detail WHERE state = 'finished'"),
		  r.metrics.sum_e2el_ns);
	CU_ASSERT_TRUE(is_whole(path));
	run_result_free(&r);
	workload_free(&w);
}

/* The views' averages are the metrics that were printed. */
static void views_agree_with_the_metrics(void)
{
	const char *path = fresh("views.db");
	struct workload w;
	struct run_settings s;
	struct run_result r;
	random_workload(&w, 500, 30, 2);
	add_spec(&w, w.specs[w.n - 1].arrival_ns, 5000, 10); /* larger than the memory: rejected */
	w.specs[w.n - 1].max_tokens = 10;
	small_settings(&s, &w);
	struct store *store = open_store(path);
	must_run(&s, &w, store, &r);
	store_close(store);
	const struct dist *d = r.metrics.latency;
	CHECK_NEAR(query(path, "SELECT avg(ttft_ms) FROM request_latency"), d[LATENCY_TTFT].mean / 1e6, 1e-9);
	CHECK_NEAR(query(path, "SELECT avg(tpot_ms) FROM request_latency"), d[LATENCY_TPOT].mean / 1e6, 1e-9);
	CHECK_NEAR(query(path, "SELECT avg(e2el_ms) FROM request_latency"), d[LATENCY_E2EL].mean / 1e6, 1e-9);
	CHECK_NEAR(query(path, "SELECT avg(normalized_latency_ms) FROM request_latency"),
		   d[LATENCY_NORMALIZED].mean / 1e6, 1e-9);
	CHECK_INT(query(path, "SELECT count(tpot_ms) FROM request_latency"), d[LATENCY_TPOT].n);
	CHECK_NEAR(query(path, "SELECT p99_ttft_ms FROM run_summary"), d[LATENCY_TTFT].p[0] / 1e6, 0);
	CHECK_NEAR(query(path, "SELECT request_throughput FROM run_summary"), r.metrics.request_throughput, 0);
	CHECK_INT(query(path, "SELECT count(*) FROM request_failure WHERE why = 'no_memory'"), 1);
	CHECK_INT(query(path, "SELECT prompt_tokens FROM request_failure"), 5000);
	CHECK_INT(query(path, "SELECT count(*) FROM request_detail WHERE state = 'rejected' AND e2e_ns IS NULL"), 1);
	/* No objectives, no goodput: null, not 0. */
	CHECK_INT(query(path, "SELECT count(*) FROM metrics WHERE name = 'request_goodput' AND value IS NULL"), 1);
	run_result_free(&r);
	workload_free(&w);
}

static void names_sessions_tenants_and_priorities_are_kept(void)
{
	const char *path = fresh("names.db");
	struct workload w;
	struct run_settings s;
	struct run_result r;
	struct err e = {0};
	workload_init(&w);
	add_spec(&w, 0, 10, 3);
	add_spec(&w, 1, 10, 3);
	CHECK_INT(workload_add_name(&w, "first \"one\"", 11, &w.specs[0].name_at, &e), ERR_NONE);
	CHECK_INT(workload_tenant(&w, "alice", &w.specs[1].tenant, &e), ERR_NONE);
	w.specs[1].session = 7;
	w.specs[1].priority = -3;
	workload_set_max_tokens(&w, MAX_TOKENS_MAX, 100);
	small_settings(&s, &w);
	struct store *store = open_store(path);
	must_run(&s, &w, store, &r);
	store_close(store);
	CHECK_INT(query(path, "SELECT request FROM request_detail WHERE name = 'first \"one\"' AND tenant IS NULL"), 0);
	CHECK_INT(query(path, "SELECT request FROM request_detail WHERE name = '3' AND tenant = 'alice'"
			      " AND session = 7 AND priority = -3"),
		  1);
	run_result_free(&r);
	workload_free(&w);
}

static void record_none_keeps_the_figures_alone(void)
{
	const char *path = fresh("none.db");
	struct workload w;
	struct run_settings s;
	struct run_result r;
	random_workload(&w, 50, 40, 3);
	small_settings(&s, &w);
	s.record = RECORD_NONE;
	struct store *store = open_store(path);
	must_run(&s, &w, store, &r);
	store_close(store);
	CHECK_INT(query(path, "SELECT count(*) FROM requests"), 0);
	CHECK_INT(query(path, "SELECT completed FROM run_summary"), 50);
	run_result_free(&r);
	workload_free(&w);
}

/* A run's rows are found through the key, not by reading every run's. */
static void views_read_only_the_run_that_is_asked_for(void)
{
	const char *path = fresh("plan.db");
	store_close(open_store(path));
	static const char *const sql[] = {"EXPLAIN QUERY PLAN SELECT * FROM request_latency WHERE run_id = 2",
					  "EXPLAIN QUERY PLAN SELECT * FROM step_timeline WHERE run_id = 2"};
	sqlite3 *db;
	CHECK_INT(sqlite3_open(path, &db), SQLITE_OK);
	for (int i = 0; i < 2; i++) {
		sqlite3_stmt *q;
		int searches = 0;
		CHECK_INT(sqlite3_prepare_v2(db, sql[i], -1, &q, NULL), SQLITE_OK);
		while (sqlite3_step(q) == SQLITE_ROW) {
			const char *line = (const char *)sqlite3_column_text(q, 3);
			CU_ASSERT_PTR_NULL(strstr(line, "SCAN"));
			searches += strstr(line, "(rowid>? AND rowid<?)") != NULL;
		}
		CHECK_INT(searches, 1);
		sqlite3_finalize(q);
	}
	sqlite3_close(db);
}

/* --- listing and deleting ----------------------------------------------------------------------------------------- */

static void runs_are_listed_shown_and_deleted(void)
{
	const char *path = fresh("list.db");
	struct workload w;
	struct run_settings s;
	struct run_result r;
	struct err e = {0};
	struct store_list l;
	random_workload(&w, 40, 40, 4);
	small_settings(&s, &w);
	s.record = RECORD_STEPS;
	struct store *store = open_store(path);
	for (int i = 0; i < 3; i++) {
		s.label = i == 1 ? "the second" : NULL;
		must_run(&s, &w, store, &r);
		run_result_free(&r);
	}
	CHECK_INT(store_list(store, &l, &e), ERR_NONE);
	CHECK_INT(l.n, 3);
	CHECK_INT(l.runs[1].run_id, 2);
	CHECK_STR(l.runs[1].label, "the second");
	CHECK_STR(l.runs[2].label, "chunked");
	CHECK_STR(l.runs[1].status, "complete");
	CHECK_STR(l.runs[1].started, "2023-11-14 22:13:20");
	CHECK_STR(l.runs[1].trace, "folder/small.csv");
	CHECK_INT(l.runs[1].completed, 40);
	CU_ASSERT_TRUE(l.runs[1].workload_hash == s.workload_hash);
	CU_ASSERT_TRUE(l.runs[1].mean_ttft_ms > 0);
	store_list_free(&l);

	int64_t id = 0;
	CHECK_INT(store_resolve(store, "latest", &id, &e), ERR_NONE);
	CHECK_INT(id, 3);
	CHECK_INT(store_resolve(store, "2", &id, &e), ERR_NONE);
	CHECK_INT(id, 2);
	CHECK_INT(store_resolve(store, "9", &id, &e), ERR_INPUT);
	err_clear(&e);
	CHECK_INT(store_resolve(store, "2x", &id, &e), ERR_INPUT);
	err_clear(&e);

	/* One of the two is not there: neither goes. */
	const int64_t missing[] = {1, 77}, two[] = {1, 3};
	CHECK_INT(store_delete(store, missing, 2, true, &e), ERR_INPUT);
	err_clear(&e);
	CHECK_INT(query(path, "SELECT count(*) FROM runs"), 3);
	CHECK_INT(store_delete(store, two, 2, true, &e), ERR_NONE);
	CHECK_INT(query(path, "SELECT count(*) FROM runs"), 1);
	CHECK_INT(query(path, "SELECT count(*) FROM requests"), 40);
	CHECK_INT(query(path, "SELECT count(DISTINCT id >> 32) FROM steps"), 1);
	CHECK_INT(query(path, "SELECT count(DISTINCT run_id) FROM metrics"), 1);
	CHECK_INT(query(path, "SELECT count(*) FROM requests WHERE id >> 32 = 2"), 40);
	/* Numbers are not used again. */
	must_run(&s, &w, store, &r);
	CHECK_INT(r.run_id, 4);
	run_result_free(&r);
	store_close(store);
	CU_ASSERT_TRUE(is_whole(path));
	workload_free(&w);
}

static void the_stored_object_is_the_one_that_was_printed(void)
{
	const char *path = fresh("json.db");
	struct workload w;
	struct run_settings s;
	struct run_result r;
	struct err e = {0};
	char *json = NULL;
	random_workload(&w, 20, 40, 5);
	small_settings(&s, &w);
	struct store *store = open_store(path);
	must_run(&s, &w, store, &r);
	CHECK_INT(store_run_json(store, r.run_id, &json, &e), ERR_NONE);
	json_t *o = json_loads(json, 0, NULL);
	CU_ASSERT_PTR_NOT_NULL_FATAL(o);
	CHECK_INT(json_integer_value(json_object_get(o, "run_id")), 1);
	CHECK_INT(json_integer_value(json_object_get(o, "completed")), 20);
	json_decref(o);
	mem_free(json);
	CHECK_INT(store_run_json(store, 5, &json, &e), ERR_INPUT);
	store_close(store);
	run_result_free(&r);
	workload_free(&w);
}

/* --- killed ------------------------------------------------------------------------------------------------------- */

static void die(void *ctx, int64_t ended, int64_t total)
{
	(void)total;
	if (ended >= *(const int64_t *)ctx)
		kill(getpid(), SIGKILL);
}

static void run_in_child(const char *path, const struct workload *w, struct run_io *io, enum run_record record)
{
	struct run_settings s;
	struct run_result r;
	struct err e = {0};
	small_settings(&s, w);
	s.record = record;
	if (store_open(&io->store, path, false, &e) || run_execute(&s, w, io, &r, &e))
		_exit(3);
	store_close(io->store);
	_exit(r.store_err.code ? 4 : 0);
}

static void killed_in_mid_run_leaves_a_whole_database_that_says_so(void)
{
	const char *path = fresh("killed.db");
	struct workload w;
	random_workload(&w, 12000, 30, 6);
	fflush(stdout);
	pid_t child = fork();
	if (child == 0) {
		int64_t after = 11000;
		struct run_io io = {.progress = die, .ctx = &after};
		run_in_child(path, &w, &io, RECORD_STEPS);
	}
	int status;
	CHECK_INT(waitpid(child, &status, 0), child);
	CU_ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);

	CU_ASSERT_TRUE(is_whole(path));
	struct store *store = open_store(path);
	struct store_list l;
	struct err e = {0};
	char *json;
	CHECK_INT(store_list(store, &l, &e), ERR_NONE);
	CHECK_INT(l.n, 1);
	CHECK_STR(l.runs[0].status, "running");
	CHECK_INT(l.runs[0].requests, 12000);
	CU_ASSERT_TRUE(isnan(l.runs[0].mean_ttft_ms));
	store_list_free(&l);
	/* What was written up to then is there, in whole batches; what makes it repeatable too. */
	double steps = query(path, "SELECT count(*) FROM steps");
	CU_ASSERT_TRUE(steps > 0);
	CHECK_INT((int64_t)steps % STORE_STEPS_BUFFERED, 0);
	CHECK_INT(query(path, "SELECT count(*) FROM requests"), 0);
	CHECK_INT(store_run_json(store, 1, &json, &e), ERR_NONE);
	CU_ASSERT_PTR_NOT_NULL(strstr(json, "\"num_gpu_blocks\": 200"));
	CU_ASSERT_PTR_NOT_NULL(strstr(json, "\"status\": \"running\""));
	mem_free(json);

	/* And the next run goes in. */
	struct run_settings s;
	struct run_result r;
	small_settings(&s, &w);
	must_run(&s, &w, store, &r);
	CHECK_INT(r.run_id, 2);
	CHECK_INT(r.store_err.code, ERR_NONE);
	run_result_free(&r);
	store_close(store);
	workload_free(&w);
}

/* Microseconds that one run in a process of its own takes here and now. */
static int64_t run_in_child_us(const char *path, const struct workload *w)
{
	struct timespec a, b;
	int status;
	fflush(stdout);
	clock_gettime(CLOCK_MONOTONIC, &a);
	pid_t child = fork();
	if (child == 0) {
		struct run_io io = {0};
		run_in_child(path, w, &io, RECORD_REQUESTS);
	}
	waitpid(child, &status, 0);
	clock_gettime(CLOCK_MONOTONIC, &b);
	return (b.tv_sec - a.tv_sec) * 1000000 + (b.tv_nsec - a.tv_nsec) / 1000;
}

/* Whatever the moment: all of a run's requests, or none and 'running'. */
static void killed_at_any_moment_is_all_or_nothing(void)
{
	const char *path = fresh("anytime.db");
	struct workload w;
	random_workload(&w, 8000, 8, 7);
	int complete = 0, running = 0, moments = test_short() ? 7 : 14;
	/* The moments are spread over a whole run, however fast this machine and build are: closest at its beginning, since this
	 * one may take longer than those that follow. */
	store_close(open_store(path));
	int64_t whole_us = run_in_child_us(path, &w);
	for (int i = 0; i < moments; i++) {
		pid_t child = fork();
		if (child == 0) {
			int64_t us = 1 + whole_us * (i + 1) * (i + 1) / (moments * moments);
			struct itimerval t = {.it_value = {.tv_sec = us / 1000000, .tv_usec = us % 1000000}};
			signal(SIGALRM, SIG_DFL); /* which ends the process on the spot */
			setitimer(ITIMER_REAL, &t, NULL);
			struct run_io io = {0};
			run_in_child(path, &w, &io, RECORD_REQUESTS);
		}
		int status;
		waitpid(child, &status, 0);
	}
	store_close(open_store(path));
	CU_ASSERT_TRUE(is_whole(path));
	complete = (int)query(path, "SELECT count(*) FROM runs WHERE status = 'complete'");
	running = (int)query(path, "SELECT count(*) FROM runs WHERE status = 'running'");
	CU_ASSERT_TRUE(running > 0);
	CHECK_INT(query(path, "SELECT count(*) FROM runs"), complete + running);
	CHECK_INT(query(path, "SELECT count(*) FROM requests"), 8000 * complete);
	CHECK_INT(query(path, "SELECT count(*) FROM runs r WHERE status = 'complete' AND 8000 <> (SELECT count(*)"
			      " FROM request_detail d WHERE d.run_id = r.run_id)"),
		  0);
	workload_free(&w);
}

static void interrupted_keeps_what_was_done(void)
{
	const char *path = fresh("stopped.db");
	struct workload w;
	struct run_settings s;
	struct run_result r;
	struct err e = {0};
	int stop = 1;
	random_workload(&w, 100, 40, 8);
	small_settings(&s, &w);
	struct run_io io = {.stop = &stop, .store = open_store(path)};
	CHECK_INT(run_execute(&s, &w, &io, &r, &e), ERR_NONE);
	CHECK_INT(r.status, RUN_INTERRUPTED);
	store_close(io.store);
	CHECK_INT(query(path, "SELECT count(*) FROM runs WHERE status = 'interrupted'"), 1);
	CHECK_INT(query(path, "SELECT count(*) FROM request_failure WHERE state = 'pending' AND arrival_s IS NULL"),
		  100);
	CHECK_INT(query(path, "SELECT count(*) FROM metrics WHERE name = 'mean_ttft_ms' AND value IS NULL"), 1);
	run_result_free(&r);
	workload_free(&w);
}

/* --- full --------------------------------------------------------------------------------------------------------- */

/* With room for `pages` more than an empty database has. */
static void run_with_pages(const char *path, const struct workload *w, int pages, struct run_result *r)
{
	struct run_settings s;
	char sql[80];
	small_settings(&s, w);
	s.record = RECORD_STEPS;
	struct store *store = open_store(path);
	snprintf(sql, sizeof sql, "PRAGMA max_page_count = %d", (int)query(path, "PRAGMA page_count") + pages);
	CHECK_INT(sqlite3_exec(store->db, sql, NULL, NULL, NULL), SQLITE_OK);
	must_run(&s, w, store, r);
	store_close(store);
}

static void a_full_disk_costs_the_stored_run_not_the_results(void)
{
	struct workload w;
	struct run_result r, free_run;
	struct run_settings s;
	random_workload(&w, 3000, 8, 9);
	small_settings(&s, &w);
	must_run(&s, &w, NULL, &free_run);
	int failures = 0;
	for (int pages = 0; pages < 200; pages += pages < 12 ? 1 : 23) {
		const char *path = fresh("full.db");
		run_with_pages(path, &w, pages, &r);
		/* The figures are those of a run that was not stored. */
		CHECK_INT(r.status, RUN_COMPLETE);
		CHECK_INT(r.metrics.sum_e2el_ns, free_run.metrics.sum_e2el_ns);
		CU_ASSERT_TRUE(is_whole(path));
		bool complete = query(path, "SELECT count(*) FROM runs WHERE status = 'complete'") == 1;
		CHECK_INT(complete, r.store_err.code == ERR_NONE);
		CHECK_INT(query(path, "SELECT count(*) FROM requests"), complete ? 3000 : 0);
		if (!complete) {
			failures++;
			CHECK_INT(r.store_err.code, ERR_IO);
			CU_ASSERT_PTR_NOT_NULL(strstr(r.store_err.text, "storing the run: the disk is full"));
		}
		run_result_free(&r);
	}
	CU_ASSERT_TRUE(failures > 12);
	run_result_free(&free_run);
	workload_free(&w);
}

static void a_full_disk_says_so_in_the_runs_row_if_it_can(void)
{
	const char *path = fresh("fullrow.db");
	struct workload w;
	struct run_result r;
	random_workload(&w, 3000, 8, 9);
	run_with_pages(path, &w, 40, &r);
	CU_ASSERT_TRUE(r.store_err.code != ERR_NONE);
	CHECK_INT(query(path,
			"SELECT count(*) FROM runs WHERE status = 'failed' AND status_text LIKE '%the disk is full'"),
		  1);
	run_result_free(&r);
	workload_free(&w);
}

/* --- shared ------------------------------------------------------------------------------------------------------- */

/* Children wait here until all of them are there: the parent closes the writing end. */
struct barrier {
	int end[2];
};

static void barrier_make(struct barrier *b)
{
	CHECK_INT(pipe(b->end), 0);
	fflush(stdout);
}

static void barrier_wait(struct barrier *b)
{
	char c;
	close(b->end[1]);
	while (read(b->end[0], &c, 1) < 0 && errno == EINTR)
		;
}

/* Lets them go, and waits until all have ended well. */
static void barrier_open(struct barrier *b, const pid_t *children, int n)
{
	close(b->end[1]);
	for (int i = 0; i < n; i++) {
		int status;
		CHECK_INT(waitpid(children[i], &status, 0), children[i]);
		CU_ASSERT_TRUE(WIFEXITED(status));
		CHECK_INT(WEXITSTATUS(status), 0);
	}
	close(b->end[0]);
}

static _Noreturn void give_up(int status, const char *what, const struct err *e)
{
	printf("    %s: %s\n", what, e->text);
	fflush(stdout);
	_exit(status);
}

/* A new file, its switch to a log, its tables, and a last one leaving, which takes the log away, all at the same time:
 * whoever loses a race waits, and nobody fails. */
static void many_processes_make_one_database_at_once(void)
{
	enum { PROCESSES = 8, OPENINGS = 3 };
	const int rounds = test_short() ? 8 : 25;
	struct workload w;
	struct run_settings s;
	random_workload(&w, 10, 20, 13);
	small_settings(&s, &w);
	for (int round = 0; round < rounds; round++) {
		const char *path = fresh("raced.db");
		struct barrier b;
		pid_t children[PROCESSES];
		barrier_make(&b);
		for (int i = 0; i < PROCESSES; i++) {
			children[i] = fork();
			if (children[i] != 0)
				continue;
			barrier_wait(&b);
			for (int k = 0; k < OPENINGS; k++) {
				struct err e = {0};
				struct store *store;
				struct run_result r = {.status = RUN_RUNNING};
				int64_t id;
				if (store_open(&store, path, false, &e))
					give_up(2, "opening", &e);
				if (store_begin_run(store, &s, &w, &r, &id, &e))
					give_up(3, "storing", &e);
				store_close(store);
			}
			_exit(0);
		}
		barrier_open(&b, children, PROCESSES);
		CHECK_INT(query(path, "SELECT count(*) FROM runs"), PROCESSES * OPENINGS);
		CHECK_INT(query(path, "SELECT max(run_id) FROM runs"), PROCESSES * OPENINGS);
		CU_ASSERT_TRUE(is_whole(path));
	}
	workload_free(&w);
}

static void several_processes_store_into_one_database(void)
{
	const char *path = fresh("shared.db");
	struct workload w;
	random_workload(&w, 1500, 20, 10);
	enum { PROCESSES = 3, RUNS = 4 };
	struct barrier b;
	pid_t children[PROCESSES];
	barrier_make(&b);
	for (int i = 0; i < PROCESSES; i++) {
		children[i] = fork();
		if (children[i] != 0)
			continue;
		barrier_wait(&b);
		struct err e = {0};
		struct store *store; /* all of them make the new database at once */
		if (store_open(&store, path, false, &e))
			give_up(2, "opening", &e);
		for (int k = 0; k < RUNS; k++) {
			struct run_settings s;
			struct run_result r;
			const struct run_io io = {.store = store};
			small_settings(&s, &w);
			s.record = RECORD_STEPS;
			if (run_execute(&s, &w, &io, &r, &e))
				give_up(3, "running", &e);
			if (r.store_err.code)
				give_up(4, "storing", &r.store_err);
			run_result_free(&r);
		}
		store_close(store);
		_exit(0);
	}
	barrier_open(&b, children, PROCESSES);
	CHECK_INT(query(path, "SELECT count(*) FROM runs WHERE status = 'complete'"), PROCESSES * RUNS);
	CHECK_INT(query(path, "SELECT count(*) FROM requests"), PROCESSES * RUNS * 1500);
	/* All runs had the same input, so that all have the same rows. */
	CHECK_INT(query(path, "SELECT count(DISTINCT n) FROM (SELECT count(*) AS n FROM steps GROUP BY id >> 32)"), 1);
	CU_ASSERT_TRUE(is_whole(path));
	workload_free(&w);
}

static void a_run_deleted_while_it_goes_on_is_not_stored_by_halves(void)
{
	const char *path = fresh("deleted.db");
	struct workload w;
	struct run_settings s;
	struct run_result r = {.status = RUN_COMPLETE};
	struct err e = {0};
	int64_t id;
	random_workload(&w, 10, 20, 11);
	small_settings(&s, &w);
	struct store *writer = open_store(path), *other = open_store(path);
	CHECK_INT(store_begin_run(writer, &s, &w, &r, &id, &e), ERR_NONE);
	CHECK_INT(store_delete(other, &id, 1, false, &e), ERR_NONE);
	r.requests = mem_zalloc(10, sizeof *r.requests);
	r.n = 10;
	CHECK_INT(store_end_run(writer, &s, &w, &r, &e), ERR_IO);
	CU_ASSERT_PTR_NOT_NULL(strstr(e.text, "was deleted while it was going on"));
	store_close(other);
	store_close(writer);
	CHECK_INT(query(path, "SELECT count(*) FROM requests"), 0);
	run_result_free(&r);
	workload_free(&w);
}

/* --- not ours ----------------------------------------------------------------------------------------------------- */

static void expect_refusal(const char *path, enum err_code code, const char *words)
{
	struct store *s;
	struct err e = {0};
	for (int read_only = 0; read_only < 2; read_only++) {
		err_clear(&e);
		CHECK_INT(store_open(&s, path, read_only, &e), code);
		CU_ASSERT_PTR_NULL(s);
		if (!strstr(e.text, words))
			printf("    \"%s\" lacks \"%s\"\n", e.text, words);
		CU_ASSERT_PTR_NOT_NULL(strstr(e.text, words));
		CU_ASSERT_PTR_NOT_NULL(strstr(e.text, path));
	}
}

static void execute(const char *path, const char *sql)
{
	sqlite3 *db;
	CHECK_INT(sqlite3_open(path, &db), SQLITE_OK);
	CHECK_INT(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
	sqlite3_close(db);
}

static void a_newer_schema_is_refused_and_left_alone(void)
{
	const char *path = fresh("newer.db");
	store_close(open_store(path));
	execute(path, "PRAGMA user_version = 99; CREATE TABLE future (x)");
	expect_refusal(path, ERR_INPUT, "made by a newer Lockstep (schema version 99;");
	CHECK_INT(query(path, "PRAGMA user_version"), 99);
}

/* A database as Lockstep made it before runs could be made again. */
static void make_version_1(const char *path)
{
	struct store old = {.path = (char *)path};
	struct err e = {0};
	CHECK_INT(sqlite3_open(path, &old.db), SQLITE_OK);
	CHECK_INT(store_migrate_to(&old, 1, &e), ERR_NONE);
	CHECK_STR(e.text, "");
	sqlite3_close(old.db);
	execute(path, "INSERT INTO runs (status, program_version, label, policy, tensor_parallel_size, workload_hash,"
		      " requests, recorded) VALUES ('complete', '0.0.9', 'old', 'naive', 1, 'abc', 3, 'steps');"
		      "INSERT INTO steps (id, start_ns, duration_ns) VALUES ((1 << 32) + 5, 10, 20)");
}

static void an_older_database_is_read_as_it_is_and_brought_up_to_date_by_a_run(void)
{
	const char *path = fresh("old.db");
	struct workload w;
	struct run_settings s;
	struct run_result r;
	struct store *store;
	struct store_list l;
	struct store_recipe recipe;
	struct err e = {0};
	make_version_1(path);
	CHECK_INT(query(path, "SELECT count(*) FROM pragma_table_info('runs') WHERE name = 'arguments'"), 0);
	CHECK_INT(store_open(&store, path, true, &e), ERR_NONE);
	CHECK_INT(store_list(store, &l, &e), ERR_NONE);
	CHECK_INT(l.n, 1);
	store_list_free(&l);
	CHECK_INT(store_recipe(store, 1, &recipe, &e), ERR_INPUT);
	CU_ASSERT_PTR_NOT_NULL(strstr(e.text, "made by an older Lockstep"));
	store_close(store);
	CHECK_INT(query(path, "PRAGMA user_version"), 1);

	err_clear(&e);
	random_workload(&w, 20, 40, 1);
	small_settings(&s, &w);
	s.record = RECORD_STEPS;
	store = open_store(path);
	must_run(&s, &w, store, &r);
	CHECK_INT(r.store_err.code, ERR_NONE);
	CHECK_INT(store_recipe(store, 1, &recipe, &e), ERR_NONE);
	CHECK_STR(recipe.label, "old");
	CU_ASSERT_PTR_NULL(recipe.arguments);
	CHECK_INT(recipe.steps, -1);
	store_recipe_free(&recipe);
	store_close(store);
	CHECK_INT(query(path, "SELECT count(*) FROM runs"), 2);
	CHECK_INT(query(path, "SELECT step FROM step_timeline WHERE run_id = 1 AND matmul_ms IS NULL"), 5);
	CHECK_INT(query(path, "SELECT count(*) FROM step_timeline WHERE run_id = 2"), r.stats.steps);
	CU_ASSERT_TRUE(query(path, "PRAGMA user_version") >= 2 && is_whole(path));
	run_result_free(&r);
	workload_free(&w);
}

static void a_text_file_is_refused_and_left_alone(void)
{
	const char *text = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.9799600,4808,10\n";
	char after[200] = "";
	const char *path = temp_file("notes.csv", text);
	expect_refusal(path, ERR_INPUT, "not an SQLite database");
	FILE *f = fopen(path, "r");
	CU_ASSERT_TRUE(fread(after, 1, sizeof after - 1, f) > 0);
	fclose(f);
	CHECK_STR(after, text);
}

static void another_programs_database_is_refused_and_left_alone(void)
{
	const char *path = fresh("other.db");
	execute(path, "CREATE TABLE songs (title)");
	expect_refusal(path, ERR_INPUT, "not one of Lockstep's");
	CHECK_INT(query(path, "SELECT count(*) FROM sqlite_schema"), 1);
}

static void a_damaged_database_is_named(void)
{
	const char *path = fresh("damaged.db");
	store_close(open_store(path));
	FILE *f = fopen(path, "r+");
	CU_ASSERT_PTR_NOT_NULL_FATAL(f);
	fseek(f, 100, SEEK_SET);
	for (int i = 0; i < 4000; i++)
		fputc(0x5a, f);
	fclose(f);
	struct store *s;
	struct err e = {0};
	CHECK_INT(store_open(&s, path, false, &e), ERR_IO);
	CU_ASSERT_PTR_NOT_NULL(strstr(e.text, "damaged"));
}

static void folders_and_missing_files(void)
{
	struct store *s;
	struct err e = {0};
	CHECK_INT(store_open(&s, temp_dir(), false, &e), ERR_IO);
	err_clear(&e);
	CHECK_INT(store_open(&s, temp_path("no/such/folder.db"), false, &e), ERR_IO);
	CU_ASSERT_PTR_NOT_NULL(strstr(e.text, "folder.db"));
	err_clear(&e);
	const char *path = fresh("missing.db");
	CHECK_INT(store_open(&s, path, true, &e), ERR_INPUT);
	CU_ASSERT_PTR_NOT_NULL(strstr(e.text, "No such file"));
	CHECK_INT(access(path, F_OK), -1);
}

static void reading_leaves_nothing_beside_the_file_and_cannot_write(void)
{
	const char *path = fresh("tidy.db");
	char beside[600];
	struct err e = {0};
	struct store *s;
	const int64_t id = 1;
	store_close(open_store(path));
	CHECK_INT(store_open(&s, path, true, &e), ERR_NONE);
	CHECK_INT(store_delete(s, &id, 1, false, &e), ERR_IO);
	store_close(s);
	snprintf(beside, sizeof beside, "%s-wal", path);
	CHECK_INT(access(beside, F_OK), -1);
	snprintf(beside, sizeof beside, "%s-shm", path);
	CHECK_INT(access(beside, F_OK), -1);
}

/* As another user, in a folder that may only be read: writing is refused, reading works. */
static void a_read_only_database_can_be_read(void)
{
	if (geteuid() != 0) {
		test_skip("needs root, to become someone who may not write");
		return;
	}
	const char *path = fresh("readonly.db");
	struct workload w;
	struct run_settings s;
	struct run_result r;
	random_workload(&w, 30, 40, 12);
	small_settings(&s, &w);
	struct store *store = open_store(path);
	must_run(&s, &w, store, &r);
	store_close(store);
	run_result_free(&r);
	workload_free(&w);
	chmod(temp_dir(), 0755);
	chmod(path, 0444);
	fflush(stdout);
	pid_t child = fork();
	if (child == 0) {
		struct err e = {0};
		struct store_list l;
		if (setgid(65534) || setuid(65534))
			_exit(9);
		if (store_open(&store, path, false, &e) != ERR_IO || !strstr(e.text, "read-only"))
			_exit(1);
		err_clear(&e);
		if (store_open(&store, path, true, &e) || store_list(store, &l, &e) || l.n != 1)
			_exit(2);
		store_list_free(&l);
		store_close(store);
		_exit(0);
	}
	int status;
	waitpid(child, &status, 0);
	CHECK_INT(WEXITSTATUS(status), 0);
}

/* Many steps: every stretch of the outline is what SQL finds in it; few have none; it goes with its run. */
static void an_outline_is_what_its_steps_are(void)
{
	const char *path = fresh("outline.db");
	struct store *s = open_store(path);
	struct run_settings settings;
	struct workload w;
	struct run_result r;
	struct err e = {0};
	random_workload(&w, 4000, 30, 17);
	small_settings(&settings, &w);
	settings.record = RECORD_STEPS;
	must_run(&settings, &w, s, &r);
	CHECK_INT(query(path, "SELECT count(*) FROM step_outline"), 0);
	run_result_free(&r);
	s->outline_from = 10;
	must_run(&settings, &w, s, &r);
	run_result_free(&r);
	CU_ASSERT(query(path, "SELECT count(*) FROM steps WHERE id >> 32 = 2") > STEP_OUTLINE_STRETCHES);
	double stretches = query(path, "SELECT count(*) FROM step_outline WHERE id >> 32 = 2");
	CU_ASSERT(stretches > 2000 && stretches <= STEP_OUTLINE_STRETCHES);
	CHECK_INT(
		query(path,
		      "SELECT count(*) FROM (SELECT start_ns / width AS stretch, count(*) AS n, min(duration_ns) AS a, "
		      "max(duration_ns) AS b, sum(duration_ns) AS c, min(waiting) AS d, max(waiting) AS e, "
		      "sum(prefill_tokens) AS f, max(blocks_used) AS g, sum(output_tokens) AS h FROM steps, "
		      "(SELECT max(width_ns) AS width FROM step_outline) WHERE id >> 32 = 2 GROUP BY 1) x JOIN "
		      "step_outline o ON o.id = (2 << 32) + x.stretch WHERE (o.n, duration_min, duration_max, "
		      "duration_sum, waiting_min, waiting_max, prefill_tokens_sum, blocks_used_max, "
		      "output_tokens_sum) = (x.n, a, b, c, d, e, f, g, h)"),
		stretches);
	CHECK_INT(query(path, "SELECT sum(n) FROM step_outline"),
		  query(path, "SELECT count(*) FROM steps WHERE id >> 32 = 2"));
	CHECK_INT(store_delete(s, &(int64_t){2}, 1, false, &e), ERR_NONE);
	CHECK_INT(query(path, "SELECT count(*) FROM step_outline"), 0);
	store_close(s);
	workload_free(&w);
}

int main(void)
{
	static const struct test tests[] = {
		{"an_outline_is_what_its_steps_are", an_outline_is_what_its_steps_are},
		{"a_run_with_steps_comes_back", a_run_with_steps_comes_back},
		{"views_agree_with_the_metrics", views_agree_with_the_metrics},
		{"names_sessions_tenants_and_priorities_are_kept", names_sessions_tenants_and_priorities_are_kept},
		{"record_none_keeps_the_figures_alone", record_none_keeps_the_figures_alone},
		{"views_read_only_the_run_that_is_asked_for", views_read_only_the_run_that_is_asked_for},
		{"runs_are_listed_shown_and_deleted", runs_are_listed_shown_and_deleted},
		{"the_stored_object_is_the_one_that_was_printed", the_stored_object_is_the_one_that_was_printed},
		{"killed_in_mid_run_leaves_a_whole_database_that_says_so",
		 killed_in_mid_run_leaves_a_whole_database_that_says_so},
		{"killed_at_any_moment_is_all_or_nothing", killed_at_any_moment_is_all_or_nothing},
		{"interrupted_keeps_what_was_done", interrupted_keeps_what_was_done},
		{"a_full_disk_costs_the_stored_run_not_the_results", a_full_disk_costs_the_stored_run_not_the_results},
		{"a_full_disk_says_so_in_the_runs_row_if_it_can", a_full_disk_says_so_in_the_runs_row_if_it_can},
		{"many_processes_make_one_database_at_once", many_processes_make_one_database_at_once},
		{"several_processes_store_into_one_database", several_processes_store_into_one_database},
		{"a_run_deleted_while_it_goes_on_is_not_stored_by_halves",
		 a_run_deleted_while_it_goes_on_is_not_stored_by_halves},
		{"a_newer_schema_is_refused_and_left_alone", a_newer_schema_is_refused_and_left_alone},
		{"an_older_database_is_read_as_it_is_and_brought_up_to_date_by_a_run",
		 an_older_database_is_read_as_it_is_and_brought_up_to_date_by_a_run},
		{"a_text_file_is_refused_and_left_alone", a_text_file_is_refused_and_left_alone},
		{"another_programs_database_is_refused_and_left_alone",
		 another_programs_database_is_refused_and_left_alone},
		{"a_damaged_database_is_named", a_damaged_database_is_named},
		{"folders_and_missing_files", folders_and_missing_files},
		{"reading_leaves_nothing_beside_the_file_and_cannot_write",
		 reading_leaves_nothing_beside_the_file_and_cannot_write},
		{"a_read_only_database_can_be_read", a_read_only_database_can_be_read},
	};
	return SUITE_RUN("analysis_store", tests);
}
