/* Every allocation of the store fails once, SQLite's own among them. The database stays whole whatever happens. */
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "analysis/rerun.h"
#include "analysis/run.h"
#include "analysis/store.h"
#include "analysis/timeline.h"
#include "core/mem.h"
#include "tests/support/failing_mem.h"
#include "tests/unit/analysis_fixture.h"

/* --- SQLite's allocator over ours --------------------------------------------------------------------------------- */

/* SQLite makes thousands of allocations to open a database, and each that fails costs a database made from the start. So
 * only every so many-th of them goes through core/mem.h, and may fail: a prime number, and `turn` is never set back, so
 * that the places differ from try to try. All of them do with LOCKSTEP_THOROUGH set in the environment (minutes). */
static int64_t every, turn;

/* In front of each piece: SQLite wants to know sizes, and we where it came from. */
struct front {
	int64_t size, ours;
};

static void *sq_malloc(int n)
{
	bool ours = turn++ % every == 0;
	struct front *p = ours ? mem_alloc((size_t)n + sizeof *p) : malloc((size_t)n + sizeof *p);
	if (!p)
		return NULL;
	*p = (struct front){n, ours};
	return p + 1;
}

static void sq_free(void *piece)
{
	struct front *p = piece;
	if (!p)
		return;
	if (p[-1].ours)
		mem_free(p - 1);
	else
		free(p - 1);
}

static void *sq_realloc(void *piece, int n)
{
	struct front *p = piece;
	size_t size = (size_t)n + sizeof *p;
	p = p[-1].ours ? mem_realloc(p - 1, size) : realloc(p - 1, size);
	if (!p)
		return NULL;
	p->size = n;
	return p + 1;
}

static int sq_size(void *p)
{
	return p ? (int)((struct front *)p)[-1].size : 0;
}

static int sq_roundup(int n)
{
	return (n + 7) & ~7;
}

static int sq_init(void *unused)
{
	(void)unused;
	return SQLITE_OK;
}

static void sq_shutdown(void *unused)
{
	(void)unused;
}

static sqlite3_mem_methods methods = {sq_malloc, sq_free, sq_realloc, sq_size, sq_roundup, sq_init, sq_shutdown, NULL};

/* --- what is tried ------------------------------------------------------------------------------------------------ */

static char path[300], empty_path[320], full_path[320]; /* being tried; made before: without and with a run */
static struct workload work;
static struct run_settings settings;
static struct run_result result; /* of a run, to be stored again and again */

static void remove_database(const char *name)
{
	static const char *const ends[] = {"", "-wal", "-shm"};
	char file[360];
	for (int i = 0; i < 3; i++) {
		snprintf(file, sizeof file, "%s%s", name, ends[i]);
		unlink(file);
	}
}

/* Without the allocator, which may be about to fail. */
static void copy_database(const char *from)
{
	static char buffer[1 << 20];
	remove_database(path);
	int in = open(from, O_RDONLY), out = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	ssize_t n;
	while ((n = read(in, buffer, sizeof buffer)) > 0)
		CU_ASSERT(write(out, buffer, (size_t)n) == n);
	close(in);
	close(out);
}

static int told(const struct err *e, int rc, char text[1024])
{
	snprintf(text, 1024, "%s", e->text);
	return rc;
}

/* Whole, and with so many runs that are complete and have all their requests. */
static void check_database(int complete)
{
	static const char sql[] = "SELECT (SELECT integrity_check FROM pragma_integrity_check),"
				  " (SELECT count(*) FROM runs WHERE status = 'complete'),"
				  " (SELECT count(*) FROM requests), (SELECT count(DISTINCT run_id) FROM metrics)";
	sqlite3 *db;
	sqlite3_stmt *q;
	CHECK_INT(sqlite3_open(path, &db), SQLITE_OK);
	CHECK_INT(sqlite3_prepare_v2(db, sql, -1, &q, NULL), SQLITE_OK);
	CHECK_INT(sqlite3_step(q), SQLITE_ROW);
	CHECK_STR((const char *)sqlite3_column_text(q, 0), "ok");
	CHECK_INT(sqlite3_column_int(q, 1), complete);
	CHECK_INT(sqlite3_column_int64(q, 2), complete * work.n);
	CHECK_INT(sqlite3_column_int(q, 3), complete);
	sqlite3_finalize(q);
	sqlite3_close(db);
}

static int create(void *ctx, char text[1024])
{
	(void)ctx;
	struct store *s;
	struct err e = {0};
	remove_database(path);
	int rc = store_open(&s, path, false, &e);
	store_close(s);
	return told(&e, rc, text);
}

static int store_it(struct store *s, struct err *e)
{
	int64_t id;
	int rc = store_begin_run(s, &settings, &work, &result, &id, e);
	for (int64_t i = 0; rc == ERR_NONE && i < 100; i++) {
		const struct step_row row = {.step = i, .start_ns = i, .end_ns = i + 1};
		rc = store_step(s, &row, e);
	}
	return rc ? rc : store_end_run(s, &settings, &work, &result, e);
}

static int write_run(void *ctx, char text[1024])
{
	(void)ctx;
	struct store *s;
	struct err e = {0};
	copy_database(empty_path);
	int rc = store_open(&s, path, false, &e);
	if (rc == ERR_NONE)
		rc = store_it(s, &e);
	store_close(s);
	if (failing_mem_failed())
		check_database(rc == ERR_NONE);
	return told(&e, rc, text);
}

static int read_runs(void *ctx, char text[1024])
{
	(void)ctx;
	struct store *s;
	struct store_list l = {0};
	struct tape tape = {0};
	struct err e = {0};
	char *json = NULL;
	int64_t id = 0;
	int rc = store_open(&s, full_path, true, &e);
	if (rc == ERR_NONE)
		rc = store_list(s, &l, &e);
	if (rc == ERR_NONE)
		rc = store_resolve(s, "latest", &id, &e);
	if (rc == ERR_NONE)
		rc = store_run_json(s, id, &json, &e);
	if (rc == ERR_NONE)
		rc = store_load_tape(s, id, &tape, &e);
	if (rc == ERR_NONE)
		CU_ASSERT(tape.n == result.tape.n && tape.n_eos == result.tape.n_eos);
	if (rc == ERR_NONE)
		CU_ASSERT(l.n == 1 && l.runs[0].completed == work.n && strstr(json, "\"completed\"") != NULL);
	mem_free(json);
	tape_free(&tape);
	store_list_free(&l);
	store_close(s);
	return told(&e, rc, text);
}

/* Of totals, and of the run made again. */
static int draw_run(void *ctx, char text[1024])
{
	bool again = ctx != NULL;
	struct store *s;
	struct err e = {0};
	struct timeline t = {0};
	struct timeline_options o;
	struct store_recipe recipe = {0};
	struct run_settings as = settings;
	const struct run_io io = {0};
	timeline_options_default(&o);
	o.max_requests = 20;
	o.max_steps = 16;
	int rc = store_open(&s, full_path, true, &e);
	if (rc == ERR_NONE)
		rc = timeline_read(&t, s, 1, &o, &e);
	if (rc == ERR_NONE && !again)
		rc = timeline_read_steps(&t, s, &e);
	if (rc == ERR_NONE && again)
		rc = store_recipe(s, 1, &recipe, &e);
	if (rc == ERR_NONE && again) {
		rerun_settings(&as, &recipe, NULL);
		rc = timeline_rerun(&t, &recipe, &as, &work, &io, &e);
	}
	if (rc == ERR_NONE)
		rc = timeline_write_trace(&t, path, NULL, &e);
	if (rc == ERR_NONE)
		CU_ASSERT(t.n == 20 && t.steps[0].n > 8 && t.n_phases >= 40 && t.exact == again);
	timeline_free(&t);
	store_recipe_free(&recipe);
	store_close(s);
	return told(&e, rc, text);
}

static int delete_run(void *ctx, char text[1024])
{
	(void)ctx;
	struct store *s;
	struct err e = {0};
	const int64_t id = 1;
	copy_database(full_path);
	int rc = store_open(&s, path, false, &e);
	if (rc == ERR_NONE)
		rc = store_delete(s, &id, 1, true, &e);
	store_close(s);
	if (failing_mem_failed())
		check_database(rc != ERR_NONE && !strstr(e.text, "giving space back"));
	return told(&e, rc, text);
}

/* --- tests -------------------------------------------------------------------------------------------------------- */

static void make_a_database_survives(void)
{
	CU_ASSERT(failing_mem_each(create, NULL, 0) > 20);
	check_database(0);
}

static void storing_a_run_survives(void)
{
	CU_ASSERT(failing_mem_each(write_run, NULL, 0) > 20);
	check_database(1);
}

static void reading_runs_survives(void)
{
	CU_ASSERT(failing_mem_each(read_runs, NULL, 0) > 20);
}

static void drawing_a_run_survives(void)
{
	CU_ASSERT(failing_mem_each(draw_run, NULL, 0) > 20);
	CU_ASSERT(failing_mem_each(draw_run, &work, 0) > 20);
	CHECK_INT(access(path, R_OK), 0);
	unlink(path);
}

static void deleting_a_run_survives(void)
{
	CU_ASSERT(failing_mem_each(delete_run, NULL, 0) > 20);
	check_database(0);
}

/* As if it had been executed: inputs and outputs. */
static void record_something(struct err *e)
{
	static const int32_t eos[] = {3, 17};
	for (int i = 0; i < 40; i++) {
		struct tape_entry x = {.kind = (uint8_t)(i % 2), .a_ns = i, .b_ns = i + 1, .measured = i % 4 == 1};
		x.eos_at = result.tape.n_eos;
		x.n_eos = i % 8 == 7 ? 2 : 0;
		tape_add_eos(&result.tape, eos, x.n_eos, e);
		tape_add(&result.tape, &x, e);
	}
	result.output_at = mem_zalloc((size_t)result.n + 1, sizeof *result.output_at);
	result.output_ids = mem_zalloc((size_t)result.n, sizeof *result.output_ids);
	for (int64_t i = 0; i <= result.n; i++)
		result.output_at[i] = i;
	settings.arguments = "[\"replay\", \"small.csv\"]";
}

/* In memory where there is such a folder: thousands of databases are made and synchronised. */
static void set_up(void)
{
	struct store *s;
	struct err e = {0};
	const char *folder = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : temp_dir();
	snprintf(path, sizeof path, "%s/lockstep-failmem-%d", folder, getpid());
	snprintf(empty_path, sizeof empty_path, "%s-empty", path);
	snprintf(full_path, sizeof full_path, "%s-full", path);
	random_workload(&work, 60, 20, 1);
	small_settings(&settings, &work);
	must_run(&settings, &work, NULL, &result);
	record_something(&e);
	if (store_open(&s, empty_path, false, &e) == ERR_NONE)
		store_close(s);
	if (store_open(&s, full_path, false, &e) == ERR_NONE) {
		store_it(s, &e);
		store_close(s);
	}
	if (e.code) {
		fprintf(stderr, "%s\n", e.text);
		exit(1);
	}
}

static void tear_down(void)
{
	remove_database(path);
	remove_database(empty_path);
	remove_database(full_path);
	run_result_free(&result);
	workload_free(&work);
}

int main(void)
{
	static const struct test tests[] = {
		{"make_a_database_survives", make_a_database_survives},
		{"storing_a_run_survives", storing_a_run_survives},
		{"reading_runs_survives", reading_runs_survives},
		{"drawing_a_run_survives", drawing_a_run_survives},
		{"deleting_a_run_survives", deleting_a_run_survives},
	};
	every = getenv("LOCKSTEP_THOROUGH") ? 1 : test_short() ? 131 : 61;
	sqlite3_config(SQLITE_CONFIG_MALLOC, &methods);
	set_up();
	int rc = SUITE_RUN("failmem_store", tests);
	tear_down();
	return rc;
}
