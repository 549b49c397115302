/* Timelines: what is read back of a run is what was stored; groups of steps keep sums and extremes; trace events keep the rules of the
 * format and of Perfetto; hostile text stays text. */
#include <jansson.h>
#include <math.h>
#include <sqlite3.h>
#include <unistd.h>

#include "analysis/jout.h"
#include "analysis/store.h"
#include "analysis/store_series.h"
#include "analysis/text.h"
#include "analysis/timeline.h"
#include "core/mem.h"
#include "tests/unit/analysis_fixture.h"

static const char *fresh(const char *name)
{
	const char *path = temp_path(name);
	unlink(path);
	return path;
}

static struct store *open_store(const char *path, bool read_only)
{
	struct store *s = NULL;
	struct err e = {0};
	if (store_open(&s, path, read_only, &e))
		printf("    %s\n", e.text);
	CU_ASSERT_PTR_NOT_NULL_FATAL(s);
	return s;
}

static int64_t query(const char *path, const char *sql)
{
	sqlite3 *db;
	sqlite3_stmt *q = NULL;
	int64_t v = -1;
	CHECK_INT(sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
	if (sqlite3_prepare_v2(db, sql, -1, &q, NULL) != SQLITE_OK)
		printf("    %s: %s\n", sql, sqlite3_errmsg(db));
	else if (sqlite3_step(q) == SQLITE_ROW)
		v = sqlite3_column_int64(q, 0);
	sqlite3_finalize(q);
	sqlite3_close(db);
	return v;
}

/* --- text --------------------------------------------------------------------------------------------------------- */

static const char hostile[] =
	"a\"b\\c\x1b[31m\n\r\t</script>\x7f\xff\xc3(\xe2\x80\xae\xf0\x9f\x98\x80\xc3\xa9\xed\xa0\x80";

static void terminals_get_nothing_but_characters(void)
{
	char buf[TEXT_CLEAN], small[8], same[8];
	CHECK_STR(text_clean(hostile, buf, sizeof buf), "a\"b\\c?[31m?"
							"?"
							"?</script>?"
							"?"
							"?(?\xf0\x9f\x98\x80\xc3\xa9?"
							"?"
							"?");
	CHECK_STR(text_clean("1234567", same, sizeof same), "1234567");
	CHECK_STR(text_clean("12345678", small, sizeof small), "1234...");
	/* A character that does not fit is not cut in two. */
	CHECK_STR(text_clean("123\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9", small, sizeof small), "123...");
	CHECK_STR(text_clean("", small, sizeof small), "");
	CHECK_STR(text_clean("\xc2\x9b"
			     "31m\xe2\x80\xa8",
			     small, sizeof small),
		  "?31m?");
}

static void utf8_is_told_from_what_is_not(void)
{
	static const struct {
		const char *s;
		int n;
		uint32_t code;
	} cases[] = {{"A", 1, 'A'},
		     {"\x7f", 1, 0x7f},
		     {"\x80", 0, 0},
		     {"\xc0\x80", 0, 0},
		     {"\xc1\xbf", 0, 0},
		     {"\xc2\x80", 2, 0x80},
		     {"\xdf\xbf", 2, 0x7ff},
		     {"\xe0\x80\x80", 0, 0},
		     {"\xe0\x9f\xbf", 0, 0},
		     {"\xe0\xa0\x80", 3, 0x800},
		     {"\xed\x9f\xbf", 3, 0xd7ff},
		     {"\xed\xa0\x80", 0, 0},
		     {"\xef\xbf\xbf", 3, 0xffff},
		     {"\xf0\x8f\xbf\xbf", 0, 0},
		     {"\xf0\x90\x80\x80", 4, 0x10000},
		     {"\xf4\x8f\xbf\xbf", 4, 0x10ffff},
		     {"\xf4\x90\x80\x80", 0, 0},
		     {"\xf5\x80\x80\x80", 0, 0},
		     {"\xe2\x82", 0, 0},
		     {"\xff", 0, 0}};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		uint32_t code = 0;
		CHECK_INT(text_utf8(cases[i].s, &code), cases[i].n);
		CHECK_INT(code, cases[i].code);
	}
}

static void json_stays_json_whatever_the_text(void)
{
	struct jout j;
	struct err e = {0};
	char *text;
	jout_open(&j, NULL);
	jout_begin(&j, NULL, '{');
	jout_text(&j, hostile, hostile);
	jout_end(&j, '}');
	CHECK_INT(jout_close(&j, &text, &e), ERR_NONE);
	json_error_t bad;
	json_t *o = json_loads(text, 0, &bad);
	CU_ASSERT_PTR_NOT_NULL_FATAL(o);
	const char *back = json_string_value(json_object_iter_value(json_object_iter(o)));
	/* What is valid comes back; each byte that is not is a replacement character. */
	CHECK_STR(back,
		  "a\"b\\c\x1b[31m\n\r\t</script>\x7f\xef\xbf\xbd\xef\xbf\xbd(\xe2\x80\xae\xf0\x9f\x98\x80\xc3\xa9"
		  "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
	json_decref(o);
	mem_free(text);
}

/* --- groups of steps ---------------------------------------------------------------------------------------------- */

static void groups_keep_sums_and_extremes(void)
{
	static const int64_t mosts[] = {2, 3, 7, 64, 1000};
	struct err e = {0};
	struct rng r;
	for (size_t k = 0; k < sizeof mosts / sizeof *mosts; k++) {
		struct step_groups g;
		int64_t t = 0, decodes = 0, busy = 0, steps = 0;
		int32_t most_waiting = 0;
		double used = 0;
		rng_init(&r, k, 3);
		step_groups_init(&g, mosts[k]);
		for (int64_t n = 1 + (int64_t)rng_below(&r, 900); steps < n; steps++) {
			struct step_row x = {.step = steps, .start_ns = t + (int64_t)rng_below(&r, 3)};
			x.end_ns = t = x.start_ns + 1 + (int64_t)rng_below(&r, 50);
			x.decodes = (int32_t)rng_below(&r, 20);
			x.waiting = (int32_t)rng_below(&r, 1000);
			x.blocks_used = (int32_t)rng_below(&r, 1000);
			decodes += x.decodes;
			busy += x.end_ns - x.start_ns;
			used += (double)(x.end_ns - x.start_ns) * x.blocks_used;
			most_waiting = x.waiting > most_waiting ? x.waiting : most_waiting;
			CHECK_INT(step_groups_add(&g, &x, &e), ERR_NONE);
			CU_ASSERT_TRUE(g.n <= mosts[k]);
		}
		struct step_group sum = {0};
		for (int64_t i = 0; i < g.n; i++) {
			const struct step_group *x = &g.at[i];
			CHECK_INT(x->first, sum.steps);
			CU_ASSERT_TRUE(x->steps == g.per || (i == g.n - 1 && x->steps < g.per));
			CU_ASSERT_TRUE(i == 0 || x->start_ns >= g.at[i - 1].end_ns);
			sum.steps += x->steps;
			sum.decodes += x->decodes;
			sum.busy_ns += x->busy_ns;
			sum.used_ns += x->used_ns;
			sum.waiting = x->waiting > sum.waiting ? x->waiting : sum.waiting;
		}
		CHECK_INT(sum.steps, steps);
		CHECK_INT(g.steps, steps);
		CHECK_INT(sum.decodes, decodes);
		CHECK_INT(sum.busy_ns, busy);
		CHECK_INT(sum.waiting, most_waiting);
		CHECK_NEAR(sum.used_ns, used, 0.5);
		/* No more than it takes. */
		CU_ASSERT_TRUE(g.per == 1 || g.steps > mosts[k] * (g.per / 2));
		step_groups_free(&g);
	}
}

/* --- reading back ------------------------------------------------------------------------------------------------- */

static int check_request(void *ctx, const struct stored_request *q, struct err *e)
{
	const struct run_result *r = *(const struct run_result **)ctx;
	const struct request *was = &r->requests[q->index];
	(void)e;
	CHECK_INT(q->state, was->state);
	CHECK_INT(q->output_tokens, was->outputs);
	CHECK_INT(q->preemptions, was->preemptions);
	CHECK_INT(q->chunks, was->chunks);
	CHECK_INT(q->arrival_ns, was->arrival_ns);
	CHECK_INT(stored_request_finished(q), was->state == REQUEST_FINISHED);
	if (stored_request_finished(q)) {
		CHECK_INT(stored_request_ttft_ns(q), request_ttft_ns(was));
		CHECK_INT(stored_request_e2e_ns(q), request_e2e_ns(was));
	} else {
		CHECK_INT(q->failed_ns, was->last_token_ns - was->arrival_ns);
	}
	++*((int64_t *)ctx + 1);
	return ERR_NONE;
}

static int stop_at_ten(void *ctx, const struct step_row *t, struct err *e)
{
	int64_t *n = ctx;
	(void)t;
	return ++*n == 10 ? err_set(e, ERR_INTERRUPTED, "enough") : ERR_NONE;
}

static int count_steps(void *ctx, const struct step_row *t, struct err *e)
{
	int64_t *x = ctx; /* count, from, to */
	(void)e;
	CU_ASSERT_TRUE(t->start_ns < x[2] && (t->end_ns > x[1] || t->start_ns >= x[1]));
	x[0]++;
	return ERR_NONE;
}

static void what_is_read_is_what_was_stored(void)
{
	const char *path = fresh("series.db");
	struct workload w;
	struct run_settings s;
	struct run_result r;
	struct err e = {0};
	random_workload(&w, 200, 10, 3);
	small_settings(&s, &w);
	s.record = RECORD_STEPS;
	s.num_gpu_blocks_override = 60;
	s.engine.max_model_len = 300; /* some are rejected */
	s.abort_after_s = 3; /* and some given up */
	struct store *store = open_store(path, false);
	must_run(&s, &w, store, &r);
	CU_ASSERT_TRUE(r.metrics.rejected > 0 && r.metrics.aborted > 0 && r.stats.preemptions > 0);
	struct {
		const struct run_result *r;
		int64_t n;
	} x = {&r, 0};
	_Static_assert(sizeof(const struct run_result *) == sizeof(int64_t), "the count is the second word");
	CHECK_INT(store_each_request(store, 1, check_request, &x, &e), ERR_NONE);
	CHECK_INT(x.n, 200);
	struct stored_run run;
	CHECK_INT(store_run(store, 1, &run, &e), ERR_NONE);
	CHECK_INT(run.requests, 200);
	CHECK_INT(run.steps, r.stats.steps);
	CHECK_INT(run.num_gpu_blocks, 60);
	CHECK_INT(run.has_steps, 1);
	CHECK_STR(run.label, "chunked");
	CU_ASSERT_PTR_NULL(run.device);
	stored_run_free(&run);
	int64_t all[] = {0, 0, INT64_MAX}, some[] = {0, S, 2 * S}, n = 0;
	CHECK_INT(store_each_step(store, 1, all[1], all[2], count_steps, all, &e), ERR_NONE);
	CHECK_INT(all[0], r.stats.steps);
	CHECK_INT(store_each_step(store, 1, some[1], some[2], count_steps, some, &e), ERR_NONE);
	CU_ASSERT_TRUE(some[0] > 0 && some[0] < all[0]);
	CHECK_INT(store_each_step(store, 1, 0, INT64_MAX, stop_at_ten, &n, &e), ERR_INTERRUPTED);
	CHECK_INT(n, 10);
	CHECK_INT(store_run(store, 2, &run, &e), ERR_INPUT);
	run_result_free(&r);
	store_close(store);
	workload_free(&w);
}

/* --- trace events ------------------------------------------------------------------------------------------------- */

/* What is known of one track while its events go by. */
struct track {
	int pid;
	bool named;
	int64_t last_ns, begun_ns; /* begun: of the outermost open slice */
	int64_t inner_ns; /* slices within that one, together */
	int depth, slices;
};
enum { MOST_TRACKS = 4096, MOST_PIDS = 16 };

struct rules {
	struct track tracks[MOST_TRACKS]; /* by tid */
	bool process_named[MOST_PIDS];
	int64_t counts[128]; /* by ph */
	int64_t most_waiting, most_running, most_used, decodes, steps;
	int64_t from_ns, to_ns;
};

static int64_t ns_of(const json_t *event)
{
	const json_t *ts = json_object_get(event, "ts");
	CU_ASSERT_TRUE(json_is_number(ts));
	return llround(json_number_value(ts) * 1000);
}

static void keep_most(int64_t *most, const json_t *args, const char *key)
{
	int64_t v = json_integer_value(json_object_get(args, key));
	*most = v > *most ? v : *most;
}

static void check_metadata(struct rules *x, const json_t *ev, int pid, struct track *k)
{
	const char *name = json_string_value(json_object_get(ev, "name"));
	const json_t *args = json_object_get(ev, "args");
	CU_ASSERT_TRUE(name && json_is_object(args));
	if (strcmp(name, "process_name") == 0)
		x->process_named[pid] = json_string_length(json_object_get(args, "name")) > 0;
	else if (strcmp(name, "thread_name") == 0)
		k->named = json_string_length(json_object_get(args, "name")) > 0;
	else if (strcmp(name, "process_labels") == 0)
		CU_ASSERT_TRUE(json_is_string(json_object_get(args, "labels")))
	else
		CU_ASSERT_TRUE(strstr(name, "sort_index") && json_is_integer(json_object_get(args, "sort_index")));
}

static void check_counter(struct rules *x, const json_t *ev)
{
	const char *name = json_string_value(json_object_get(ev, "name")), *key;
	json_t *args = json_object_get(ev, "args"), *v;
	CU_ASSERT_TRUE(name && json_object_size(args) > 0);
	json_object_foreach(args, key, v) CU_ASSERT_TRUE(json_is_integer(v) && json_integer_value(v) >= 0);
	keep_most(strcmp(name, "waiting") == 0 ? &x->most_waiting : &x->most_running, args,
		  strcmp(name, "waiting") == 0 || strcmp(name, "running") == 0 ? "requests" : "-");
	keep_most(&x->most_used, args, "used");
}

static void check_begin(struct rules *x, const json_t *ev, struct track *k, int64_t t)
{
	const char *cat = json_string_value(json_object_get(ev, "cat"));
	const json_t *args = json_object_get(ev, "args");
	CU_ASSERT_TRUE(json_is_string(json_object_get(ev, "name")) && cat && json_is_object(args));
	if (k->depth++ == 0) {
		k->begun_ns = t;
		k->inner_ns = 0;
		k->slices++;
	} else if (k->depth == 2) {
		k->inner_ns -= t;
	}
	if (strcmp(cat, "step") == 0) {
		const json_t *steps = json_object_get(args, "steps");
		x->decodes += json_integer_value(json_object_get(args, "decodes"));
		x->steps += steps ? json_integer_value(steps) : 1;
	}
}

static void check_end(struct track *k, int64_t t, bool whole)
{
	CU_ASSERT_TRUE_FATAL(k->depth > 0);
	if (k->depth-- == 2)
		k->inner_ns += t;
	/* Phases leave no gap in a request that finished. */
	if (k->depth == 0 && whole && k->inner_ns)
		CHECK_INT(k->inner_ns, t - k->begun_ns);
}

static void check_event(struct rules *x, const json_t *ev, bool whole)
{
	const char *ph = json_string_value(json_object_get(ev, "ph"));
	CU_ASSERT_PTR_NOT_NULL_FATAL(ph);
	CU_ASSERT_TRUE_FATAL(strlen(ph) == 1 && strchr("MBECi", *ph) != NULL);
	x->counts[(int)*ph]++;
	int pid = (int)json_integer_value(json_object_get(ev, "pid"));
	int64_t tid = json_integer_value(json_object_get(ev, "tid"));
	CU_ASSERT_TRUE_FATAL(pid > 0 && pid < MOST_PIDS && tid > 0 && tid < MOST_TRACKS);
	struct track *k = &x->tracks[tid];
	CU_ASSERT_TRUE(k->pid == 0 || k->pid == pid);
	k->pid = pid;
	if (*ph == 'M') {
		check_metadata(x, ev, pid, k);
		return;
	}
	CU_ASSERT_TRUE(x->process_named[pid] && k->named);
	int64_t t = ns_of(ev);
	CU_ASSERT_TRUE(t >= x->from_ns && t <= x->to_ns);
	CU_ASSERT_TRUE(t >= k->last_ns);
	k->last_ns = t;
	if (*ph == 'C')
		check_counter(x, ev);
	else if (*ph == 'B')
		check_begin(x, ev, k, t);
	else if (*ph == 'E')
		check_end(k, t, whole);
	else
		CHECK_STR(json_string_value(json_object_get(ev, "s")), "t");
}

/* Reads the file and checks every event; the caller frees the result. `whole`: nothing is cut. */
static struct rules *check_file(const char *path, const struct timeline_options *o, bool whole, json_t **doc)
{
	json_error_t bad;
	json_t *d = json_load_file(path, 0, &bad);
	if (!d)
		printf("    %s: %s\n", path, bad.text);
	CU_ASSERT_PTR_NOT_NULL_FATAL(d);
	struct rules *x = calloc(1, sizeof *x);
	x->from_ns = o->from_ns;
	x->to_ns = o->to_ns;
	const json_t *events = json_object_get(d, "traceEvents");
	size_t i;
	json_t *ev;
	CHECK_STR(json_string_value(json_object_get(d, "displayTimeUnit")), "ms");
	json_array_foreach(events, i, ev) check_event(x, ev, whole);
	for (int t = 0; t < MOST_TRACKS; t++)
		CHECK_INT(x->tracks[t].depth, 0);
	CHECK_INT(x->counts['B'], x->counts['E']);
	if (doc)
		*doc = d;
	else
		json_decref(d);
	return x;
}

static void write_timeline(const char *db, int64_t run, const struct timeline_options *o, const char *to,
			   struct timeline *t)
{
	struct err e = {0};
	int64_t bytes = 0;
	struct store *store = open_store(db, true);
	int rc = timeline_read(t, store, run, o, &e);
	if (rc == ERR_NONE)
		rc = timeline_read_steps(t, store, &e);
	if (rc == ERR_NONE)
		rc = timeline_write_trace(t, to, &bytes, &e);
	if (rc)
		printf("    %s\n", e.text);
	CHECK_INT(rc, ERR_NONE);
	CU_ASSERT_TRUE(bytes > 100);
	store_close(store);
}

/* A run that has everything: failures, preemptions, pieces, names that would break a page. */
static void store_busy_run(const char *path, enum run_record record, int32_t replicas, bool async)
{
	struct workload w;
	struct run_settings s;
	struct run_result r;
	struct err e = {0};
	random_workload(&w, 300, 8, 5);
	for (int64_t i = 0; i < w.n; i += 7)
		CHECK_INT(workload_add_name(&w, hostile, (int64_t)strlen(hostile), &w.specs[i].name_at, &e), ERR_NONE);
	small_settings(&s, &w);
	s.label = hostile;
	s.record = record;
	s.num_gpu_blocks_override = 60;
	s.engine.max_num_batched_tokens = 64;
	s.engine.max_num_seqs = 32;
	s.engine.max_model_len = 290;
	s.engine.async_scheduling = async;
	s.abort_after_s = 3;
	s.replicas = replicas;
	s.router = replicas > 1 ? "least_outstanding" : NULL;
	struct store *store = open_store(path, false);
	must_run(&s, &w, store, &r);
	CHECK_INT(r.store_err.code, ERR_NONE);
	/* Several share the load. */
	CU_ASSERT_TRUE(r.metrics.rejected > 0 && (replicas > 1 || (r.metrics.aborted > 0 && r.stats.preemptions > 0)));
	store_close(store);
	run_result_free(&r);
	workload_free(&w);
}

static void trace_events_keep_the_formats_rules(void)
{
	for (int async = 0; async < 2; async++) {
		const char *path = fresh("busy.db"), *to = temp_path("busy.json");
		struct timeline_options o;
		struct timeline t;
		json_t *doc;
		store_busy_run(path, RECORD_STEPS, 1, async);
		timeline_options_default(&o);
		write_timeline(path, 1, &o, to, &t);
		struct rules *x = check_file(to, &o, true, &doc);
		CHECK_INT(t.n, 300);
		CHECK_INT(x->steps, query(path, "SELECT count(*) FROM steps"));
		CHECK_INT(x->decodes, query(path, "SELECT sum(decodes) FROM steps"));
		CHECK_INT(x->most_waiting, query(path, "SELECT max(waiting) FROM steps"));
		CHECK_INT(x->most_running, query(path, "SELECT max(running) FROM steps"));
		CHECK_INT(x->most_used, query(path, "SELECT max(blocks_used) FROM steps"));
		CHECK_INT(x->counts['i'], query(path, "SELECT count(*) FROM requests WHERE state <> 4"));
		const json_t *other = json_object_get(doc, "otherData");
		CHECK_INT(json_integer_value(json_object_get(other, "requests")), 300);
		CHECK_STR(json_string_value(json_object_get(other, "trace")), "folder/small.csv");
		json_decref(doc);
		free(x);
		timeline_free(&t);
	}
}

static void a_window_holds_what_overlaps_it(void)
{
	const char *path = fresh("window.db"), *to = temp_path("window.json");
	struct timeline_options o;
	struct timeline t;
	store_busy_run(path, RECORD_STEPS, 1, false);
	timeline_options_default(&o);
	o.from_ns = S;
	o.to_ns = 3 * S / 2;
	write_timeline(path, 1, &o, to, &t);
	struct rules *x = check_file(to, &o, false, NULL);
	CHECK_INT(t.n,
		  query(path,
			"SELECT count(*) FROM requests WHERE arrival_ns < 1500000000 AND (arrival_ns >= 1000000000 OR"
			" arrival_ns + coalesce(failed_ns, queue_ns + prefill_ns + decode_ns + preempted_ns)"
			" > 1000000000)"));
	CHECK_INT(x->steps, query(path, "SELECT count(*) FROM steps WHERE start_ns < 1500000000"
					" AND start_ns + duration_ns > 1000000000"));
	CU_ASSERT_TRUE(t.n > 10 && t.n < 300);
	free(x);
	timeline_free(&t);

	/* Few of them: the slowest. */
	char left[256];
	o.max_requests = 5;
	o.max_steps = 10;
	o.slowest = true;
	write_timeline(path, 1, &o, to, &t);
	x = check_file(to, &o, false, NULL);
	CHECK_INT(t.n, 5);
	CU_ASSERT_TRUE(t.steps[0].n <= 10 && t.steps[0].per > 1);
	int64_t shortest = INT64_MAX, longer = 0;
	for (int64_t i = 0; i < t.n; i++)
		if (t.requests[i].end_ns - t.requests[i].q.arrival_ns < shortest)
			shortest = t.requests[i].end_ns - t.requests[i].q.arrival_ns;
	free(x);
	int64_t in_window = t.in_window;
	timeline_left_out(&t, left, sizeof left);
	CU_ASSERT_PTR_NOT_NULL(strstr(left, "5 of the "));
	CU_ASSERT_PTR_NOT_NULL(strstr(left, "the slowest"));
	CU_ASSERT_PTR_NOT_NULL(strstr(left, " in groups of "));
	timeline_free(&t);
	o.max_requests = in_window;
	write_timeline(path, 1, &o, to, &t);
	for (int64_t i = 0; i < t.n; i++)
		longer += t.requests[i].end_ns - t.requests[i].q.arrival_ns > shortest;
	CU_ASSERT_TRUE(longer < 5);
	CHECK_INT(t.n, in_window);
	timeline_free(&t);
}

/* Without steps: how many waited and ran is what the requests' totals say, at every moment. */
static void replicas_are_processes_with_their_own_load(void)
{
	static const int64_t froms[] = {0, S / 2};
	const char *path = fresh("replicas.db"), *to = temp_path("replicas.json");
	struct timeline_options o;
	struct timeline t;
	store_busy_run(path, RECORD_REQUESTS, 3, false);
	for (int k = 0; k < 2; k++) {
		timeline_options_default(&o);
		o.from_ns = froms[k];
		write_timeline(path, 1, &o, to, &t);
		struct rules *x = check_file(to, &o, k == 0, NULL);
		CHECK_INT(x->process_named[1] && x->process_named[2] && x->process_named[3], 1);
		CHECK_INT(x->process_named[4], 0);
		CHECK_INT(t.steps[0].n, 0);
		CU_ASSERT_TRUE(t.n_load > 100);
		for (int64_t i = 0; i < t.n_load; i++) {
			const struct timeline_load *l = &t.load[i];
			int32_t waiting = 0, running = 0;
			for (int64_t q = 0; q < t.n; q++) {
				const struct stored_request *r = &t.requests[q].q;
				if (!stored_request_finished(r) || r->replica != l->replica)
					continue;
				int64_t scheduled = r->arrival_ns + r->queue_ns;
				waiting += r->arrival_ns <= l->t_ns && l->t_ns < scheduled;
				running += scheduled <= l->t_ns && l->t_ns < t.requests[q].end_ns;
			}
			CHECK_INT(l->waiting, waiting);
			CHECK_INT(l->running, running);
			CU_ASSERT_TRUE(i == 0 || l->replica > l[-1].replica || l->t_ns > l[-1].t_ns);
		}
		free(x);
		timeline_free(&t);
	}
	/* Fewer points: at most so many, with the extremes. */
	int32_t most = 0, few_most = 0;
	timeline_options_default(&o);
	write_timeline(path, 1, &o, to, &t);
	for (int64_t i = 0; i < t.n_load; i++)
		most = t.load[i].running > most ? t.load[i].running : most;
	timeline_free(&t);
	o.max_steps = 20;
	write_timeline(path, 1, &o, to, &t);
	CU_ASSERT_TRUE(t.n_load <= 20 + 3);
	for (int64_t i = 0; i < t.n_load; i++)
		few_most = t.load[i].running > few_most ? t.load[i].running : few_most;
	CHECK_INT(few_most, most);
	timeline_free(&t);
}

static void an_unwritable_path_is_an_error_and_leaves_nothing(void)
{
	const char *path = fresh("none.db");
	struct timeline_options o;
	struct timeline t;
	struct err e = {0};
	store_busy_run(path, RECORD_REQUESTS, 1, false);
	struct store *store = open_store(path, true);
	timeline_options_default(&o);
	CHECK_INT(timeline_read(&t, store, 1, &o, &e), ERR_NONE);
	CHECK_INT(timeline_write_trace(&t, temp_path("no-folder/x.json"), NULL, &e), ERR_IO);
	CU_ASSERT_PTR_NOT_NULL(strstr(e.text, "no-folder/x.json"));
	err_clear(&e);
	if (access("/dev/full", W_OK) == 0) {
		CHECK_INT(timeline_write_trace(&t, "/dev/full", NULL, &e), ERR_IO);
		CU_ASSERT_PTR_NOT_NULL(strstr(e.text, "/dev/full"));
	}
	timeline_free(&t);
	err_clear(&e);
	CHECK_INT(timeline_read(&t, store, 7, &o, &e), ERR_INPUT);
	timeline_free(&t);
	store_close(store);
}

int main(void)
{
	static const struct test tests[] = {
		{"terminals_get_nothing_but_characters", terminals_get_nothing_but_characters},
		{"utf8_is_told_from_what_is_not", utf8_is_told_from_what_is_not},
		{"json_stays_json_whatever_the_text", json_stays_json_whatever_the_text},
		{"groups_keep_sums_and_extremes", groups_keep_sums_and_extremes},
		{"what_is_read_is_what_was_stored", what_is_read_is_what_was_stored},
		{"trace_events_keep_the_formats_rules", trace_events_keep_the_formats_rules},
		{"a_window_holds_what_overlaps_it", a_window_holds_what_overlaps_it},
		{"replicas_are_processes_with_their_own_load", replicas_are_processes_with_their_own_load},
		{"an_unwritable_path_is_an_error_and_leaves_nothing",
		 an_unwritable_path_is_an_error_and_leaves_nothing},
	};
	return SUITE_RUN("analysis_timeline", tests);
}
