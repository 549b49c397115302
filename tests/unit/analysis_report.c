/* The report: what is left out of a picture leaves its extremes; nothing that a run says becomes markup or script. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/report.h"
#include "analysis/report_page.h"
#include "analysis/report_series.h"
#include "analysis/store.h"
#include "core/mem.h"
#include "tests/unit/analysis_fixture.h"

/* --- what is shown ------------------------------------------------------------------------------------------------ */

static void few_values_are_all_shown(void)
{
	int64_t rank[64];
	CHECK_INT(report_ranks(0, 64, rank), 0);
	CHECK_INT(report_ranks(64, 64, rank), 64);
	for (int i = 0; i < 64; i++)
		CHECK_INT(rank[i], i);
}

static void many_values_keep_the_least_and_the_greatest(void)
{
	static const int64_t sizes[] = {65, 66, 100, 1000, 12345, 1000000, INT64_C(4000000000)};
	for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
		for (int32_t most = 64; most <= 1000 && most < sizes[s]; most += 117) {
			int64_t rank[1000];
			CHECK_INT(report_ranks(sizes[s], most, rank), most);
			for (int32_t i = 1; i < most; i++)
				CU_ASSERT(rank[i] > rank[i - 1]);
			CHECK_INT(rank[0], 0);
			for (int32_t i = 0; i < most / 4; i++)
				CHECK_INT(rank[most - 1 - i], sizes[s] - 1 - i);
		}
}

#define SERIES 3
#define MOST 16

/* Rows at random times into an envelope, and the same summed up plainly. */
static void check_envelope(int64_t rows, int64_t reach_ns, uint64_t seed)
{
	struct envelope v;
	struct err e = {0};
	struct rng r;
	int64_t *at = mem_zalloc((size_t)rows, sizeof *at),
		(*values)[SERIES] = mem_zalloc((size_t)rows, sizeof *values);
	rng_init(&r, seed, 1);
	CU_ASSERT_FATAL(at && values && envelope_init(&v, SERIES, MOST, &e) == ERR_NONE);
	for (int64_t i = 0; i < rows; i++) {
		at[i] = (int64_t)rng_below(&r, (uint64_t)reach_ns);
		for (int k = 0; k < SERIES; k++)
			values[i][k] = (int64_t)rng_below(&r, 1000) - 200;
		CHECK_INT(envelope_add(&v, at[i], values[i], &e), ERR_NONE);
	}
	CHECK_INT(v.rows, rows);
	CHECK_INT(v.exact, rows <= MOST);
	int64_t seen = 0;
	for (int32_t c = 0; !v.exact && c < MOST; c++) {
		struct envelope_cell want = {0};
		for (int64_t i = 0; i < rows; i++) {
			if (at[i] / v.width_ns != c)
				continue;
			for (int k = 0; k < SERIES; k++) {
				int64_t x = values[i][k];
				want.v[k].min = want.n == 0 || x < want.v[k].min ? x : want.v[k].min;
				want.v[k].max = want.n == 0 || x > want.v[k].max ? x : want.v[k].max;
				want.v[k].sum += x;
			}
			want.n++;
		}
		CHECK_INT(v.cells[c].n, want.n);
		for (int k = 0; want.n && k < SERIES; k++)
			CU_ASSERT(memcmp(&v.cells[c].v[k], &want.v[k], sizeof want.v[k]) == 0);
		seen += want.n;
	}
	CHECK_INT(seen, v.exact ? 0 : rows);
	for (int64_t i = 0; v.exact && i < rows; i++)
		CHECK_INT(v.raw[i * (1 + SERIES)], at[i]);
	/* Another that takes its stretches, of half as many: the same. */
	struct envelope half;
	CU_ASSERT_FATAL(envelope_init(&half, SERIES, MOST / 2, &e) == ERR_NONE);
	for (int32_t c = 0; !v.exact && c < MOST; c++)
		if (v.cells[c].n)
			CHECK_INT(envelope_take(&half, v.width_ns, c, &v.cells[c], &e), ERR_NONE);
	for (int32_t c = 0; !v.exact && c < MOST; c++)
		if (v.cells[c].n) {
			const struct envelope_cell *to = &half.cells[(int64_t)c * v.width_ns / half.width_ns];
			CU_ASSERT(to->v[0].min <= v.cells[c].v[0].min && to->v[0].max >= v.cells[c].v[0].max);
		}
	CHECK_INT(half.rows, v.exact ? 0 : rows);
	envelope_free(&half);
	envelope_free(&v);
	mem_free(at);
	mem_free(values);
}

static void steps_over_time_keep_every_extreme(void)
{
	check_envelope(0, 100, 1);
	check_envelope(MOST, 1000, 2);
	check_envelope(MOST + 1, 1, 3);
	check_envelope(200, 5000, 4);
	check_envelope(1000, INT64_C(3600) * NS_PER_S, 5);
	check_envelope(1000, INT64_MAX / 4, 6);
}

/* --- what is said ------------------------------------------------------------------------------------------------- */

static const char *put(const char *json, int64_t n)
{
	static char out[4096];
	FILE *f = tmpfile();
	CU_ASSERT_PTR_NOT_NULL_FATAL(f);
	report_put_json(f, json, n);
	rewind(f);
	out[fread(out, 1, sizeof out - 1, f)] = '\0';
	fclose(f);
	return out;
}

static void text_cannot_leave_the_data(void)
{
	static const struct {
		const char *in, *out;
	} cases[] = {
		{"{\"a\": [1, -2.5e3, null]}", "{\"a\": [1, -2.5e3, null]}"},
		{"</script><script>alert(1)</script>",
		 "\\u003c/script\\u003e\\u003cscript\\u003ealert(1)\\u003c/script\\u003e"},
		{"<!--&amp;-->", "\\u003c!--\\u0026amp;--\\u003e"},
		{"\xe2\x80\xa8|\xe2\x80\xa9|\xef\xbb\xbf", "\\u2028|\\u2029|\\ufeff"},
		{"gr\xc3\xb6\xc3\x9f"
		 "er \xf0\x9f\x98\x80",
		 "gr\xc3\xb6\xc3\x9f"
		 "er \xf0\x9f\x98\x80"},
		{"\x7f|\xc2\x85", "\\u007f|\\u0085"},
		/* no UTF-8: stray, cut short, overlong, surrogate, beyond Unicode */
		{"a\xff"
		 "b\x80",
		 "a\\ufffdb\\ufffd"},
		{"\xe2\x82", "\\ufffd\\ufffd"},
		{"\xc0\xbc", "\\ufffd\\ufffd"},
		{"\xe0\x80\xbc", "\\ufffd\\ufffd\\ufffd"},
		{"\xed\xa0\x80", "\\ufffd\\ufffd\\ufffd"},
		{"\xf4\x90\x80\x80", "\\ufffd\\ufffd\\ufffd\\ufffd"},
		{"", ""},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		CHECK_STR(put(cases[i].in, (int64_t)strlen(cases[i].in)), cases[i].out);
}

/* Whatever bytes come, what goes out is UTF-8 without anything that means something to a browser. */
static void random_bytes_come_out_harmless(void)
{
	struct rng r;
	rng_init(&r, 7, 7);
	for (int round = 0; round < 2000; round++) {
		char in[64];
		int n = (int)rng_below(&r, sizeof in);
		for (int i = 0; i < n; i++)
			in[i] = (char)(1 + rng_below(&r, 255));
		const char *out = put(in, n);
		CU_ASSERT(!strpbrk(out, "<>&"));
		json_t *text = json_stringn(out, strlen(out));
		CU_ASSERT_PTR_NOT_NULL(text);
		json_decref(text);
	}
}

/* --- the page ----------------------------------------------------------------------------------------------------- */

static bool has_vega(void)
{
	struct report_page p;
	struct err e = {0};
	int rc = report_page_open(&p, REPORT_VEGA_FOLDER, &e);
	if (rc) {
		CHECK_INT(rc, ERR_INPUT);
		CU_ASSERT(strstr(e.text, "libjs-vega") != NULL);
		test_skip("Vega is not installed");
		return false;
	}
	report_page_free(&p);
	return true;
}

/* The page of the runs of a database, its data as JSON. */
static char *make_page(const char *db, const int64_t *ids, int64_t n, json_t **data)
{
	struct store *s = NULL;
	struct err e = {0};
	char *page = NULL;
	size_t size = 0;
	FILE *f = open_memstream(&page, &size);
	CU_ASSERT_FATAL(f && store_open(&s, db, true, &e) == ERR_NONE);
	const struct report_options o = {.run_ids = ids, .n_runs = n, .vega_folder = REPORT_VEGA_FOLDER};
	CHECK_INT(report_write(s, &o, f, &e), ERR_NONE);
	CHECK_STR(e.text, "");
	fclose(f);
	store_close(s);
	static const char open[] = "<script type=\"application/json\" id=\"data\">";
	char *begin = strstr(page, open), *end = begin ? strstr(begin, "</script>") : NULL;
	CU_ASSERT_FATAL(end != NULL);
	begin += sizeof open - 1;
	*data = json_loadb(begin, (size_t)(end - begin), 0, NULL);
	CU_ASSERT_PTR_NOT_NULL_FATAL(*data);
	return page;
}

static int count(const char *text, const char *what)
{
	int n = 0;
	for (; (text = strstr(text, what)); text += strlen(what))
		n++;
	return n;
}

static void hostile_names_stay_text(void)
{
	static const char name[] = "x\"'></script><script>alert(1)</script><!--\xe2\x80\xa8\xff\n.csv";
	struct workload w;
	struct run_settings settings;
	struct run_result r;
	struct store *s = NULL;
	struct err e = {0};
	int64_t id = 1;
	json_t *data;
	if (!has_vega())
		return;
	const char *db = temp_path("hostile.db");
	random_workload(&w, 20, 30, 3);
	small_settings(&settings, &w);
	settings.trace_path = name;
	settings.label = name;
	settings.record = RECORD_STEPS;
	CU_ASSERT_FATAL(store_open(&s, db, false, &e) == ERR_NONE);
	must_run(&settings, &w, s, &r);
	store_close(s);
	char *page = make_page(db, &id, 1, &data);
	/* Its own two, and no other. */
	CHECK_INT(count(page, "<script"), 2);
	CHECK_INT(count(page, "</script"), 2);
	CU_ASSERT(!strstr(page, "alert(1)<"));
	CU_ASSERT(!strstr(page, "\xe2\x80\xa8"));
	const json_t *run = json_array_get(json_object_get(data, "runs"), 0);
	CHECK_STR(json_string_value(json_object_get(run, "label")),
		  "x\"'></script><script>alert(1)</script><!--\xe2\x80\xa8\xef\xbf\xbd\n.csv");
	json_decref(data);
	free(page);
	run_result_free(&r);
	workload_free(&w);
}

static double number_at(const json_t *o, const char *a, const char *b, size_t i)
{
	return json_number_value(json_array_get(json_object_get(json_object_get(o, a), b), i));
}

static void figures_are_those_of_the_run(void)
{
	struct workload w;
	struct run_settings settings;
	struct run_result r;
	struct store *s = NULL;
	struct err e = {0};
	int64_t id = 1;
	json_t *data;
	if (!has_vega())
		return;
	const char *db = temp_path("figures.db");
	random_workload(&w, 3000, 10, 11);
	small_settings(&settings, &w);
	CU_ASSERT_FATAL(store_open(&s, db, false, &e) == ERR_NONE);
	must_run(&settings, &w, s, &r);
	store_close(s);
	char *page = make_page(db, &id, 1, &data);
	const json_t *run = json_array_get(json_object_get(data, "runs"), 0);
	const json_t *ttft = json_object_get(json_object_get(run, "curves"), "ttft");
	const struct dist *d = &r.metrics.latency[LATENCY_TTFT];
	CHECK_INT(json_integer_value(json_object_get(ttft, "n")), d->n);
	CHECK_NEAR(number_at(run, "metrics", "p99_ttft_ms", 0), d->p[0] / 1e6, 0);
	const json_t *q = json_object_get(ttft, "quantiles"), *value = json_object_get(ttft, "value");
	CHECK_INT(json_array_size(value), 1000);
	CHECK_NEAR(json_number_value(json_array_get(q, 0)), d->min / 1e6, 0);
	CHECK_NEAR(json_number_value(json_array_get(q, 5)), d->median / 1e6, 1e-9 * d->median / 1e6);
	CHECK_NEAR(json_number_value(json_array_get(q, 9)), d->p[0] / 1e6, 1e-9 * d->p[0] / 1e6);
	CHECK_NEAR(json_number_value(json_array_get(q, 11)), d->max / 1e6, 0);
	CHECK_NEAR(json_number_value(json_array_get(value, 0)), d->min / 1e6, 0);
	CHECK_NEAR(json_number_value(json_array_get(value, 999)), d->max / 1e6, 0);
	/* Everybody arrived in some stretch of time, and finished in some. */
	int64_t arrived = 0, finished = 0;
	const json_t *n = json_object_get(json_object_get(run, "arrivals"), "n");
	const json_t *f = json_object_get(json_object_get(run, "rates"), "finished");
	for (size_t i = 0; i < json_array_size(n); i++)
		arrived += json_integer_value(json_array_get(n, i));
	for (size_t i = 0; i < json_array_size(f); i++)
		finished += json_integer_value(json_array_get(f, i));
	CHECK_INT(arrived, w.n);
	CHECK_INT(finished, r.metrics.completed);
	CU_ASSERT(json_array_size(n) >= 50 && json_array_size(n) <= 201);
	json_decref(data);
	free(page);
	run_result_free(&r);
	workload_free(&w);
}

static void without_the_library_it_says_what_to_install(void)
{
	struct report_page p;
	struct err e = {0};
	CHECK_INT(report_page_open(&p, "/nowhere/at/all", &e), ERR_INPUT);
	CU_ASSERT(strstr(e.text, "apt-get install libjs-vega") != NULL);
	err_clear(&e);
	CHECK_INT(report_page_open(&p, temp_dir(), &e), ERR_INPUT); /* a folder without all of it */
	CU_ASSERT(strstr(e.text, "another version: vega-util.min.js") != NULL);
}

/* Compiled in or read when a report is made: the same page. */
static void the_library_is_the_same_wherever_it_comes_from(void)
{
	struct report_page p, q;
	struct err e = {0};
	if (report_page_open(&q, REPORT_VEGA_FOLDER "/.", &e)) {
		test_skip("Vega is not installed");
		return;
	}
	CHECK_INT(report_page_open(&p, REPORT_VEGA_FOLDER, &e), ERR_NONE);
	CU_ASSERT(strcmp(p.script, q.script) == 0);
	CHECK_STR(p.policy, q.policy);
	CU_ASSERT(strstr(p.script, "modules.add(\"vega-view\"") != NULL);
	CU_ASSERT(!strstr(p.script, "</script"));
	CHECK_INT(strncmp(p.policy, "'sha256-", 8), 0);
	CHECK_INT(strlen(p.policy), 8 + 44 + 1);
	report_page_free(&p);
	report_page_free(&q);
}

int main(void)
{
	static const struct test tests[] = {
		{"few_values_are_all_shown", few_values_are_all_shown},
		{"many_values_keep_the_least_and_the_greatest", many_values_keep_the_least_and_the_greatest},
		{"steps_over_time_keep_every_extreme", steps_over_time_keep_every_extreme},
		{"text_cannot_leave_the_data", text_cannot_leave_the_data},
		{"random_bytes_come_out_harmless", random_bytes_come_out_harmless},
		{"hostile_names_stay_text", hostile_names_stay_text},
		{"figures_are_those_of_the_run", figures_are_those_of_the_run},
		{"without_the_library_it_says_what_to_install", without_the_library_it_says_what_to_install},
		{"the_library_is_the_same_wherever_it_comes_from", the_library_is_the_same_wherever_it_comes_from},
	};
	return SUITE_RUN("analysis_report", tests);
}
