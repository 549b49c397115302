/* Every allocation of a report fails once. Memory of SQLite's own is not touched here: tests/failmem/store.c does that. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "analysis/history.h"
#include "analysis/report.h"
#include "analysis/report_page.h"
#include "analysis/store.h"
#include "analysis/store_internal.h"
#include "core/mem.h"
#include "tests/support/failing_mem.h"
#include "tests/unit/analysis_fixture.h"

static struct workload workload;
static struct run_settings settings;

/* The runs were all the same. */
static int make_again(void *ctx, int64_t run_id, const struct history_sink *sink, char why[256], struct err *e)
{
	struct history *h;
	struct run_result r;
	(void)ctx;
	(void)run_id;
	why[0] = '\0';
	int rc = history_create(&h, workload.n, sink, e);
	if (rc)
		return rc;
	const struct run_io io = {.ctx = h, .event = history_event, .engine = history_engine, .step = history_step};
	rc = run_execute(&settings, &workload, &io, &r, e);
	if (rc == ERR_NONE)
		rc = history_finish(h, e);
	run_result_free(&r);
	history_free(h);
	return rc;
}

static int make_page(void *ctx, char text[1024])
{
	struct store *s = ctx;
	struct err e = {0};
	static const int64_t ids[] = {1, 2, 3};
	const struct report_options o = {
		.run_ids = ids, .n_runs = 3, .all = true, .vega_folder = REPORT_VEGA_FOLDER, .make_again = make_again};
	FILE *f = fopen("/dev/null", "w");
	int rc = f ? report_write(s, &o, f, &e) : ERR_IO;
	if (f)
		fclose(f);
	snprintf(text, 1024, "%s", e.text);
	return rc;
}

/* Two of the same workload, with steps, the first with an outline of them; and one that failed requests. */
static void fill(struct store *s)
{
	struct run_result r;
	random_workload(&workload, 60, 20, 9);
	small_settings(&settings, &workload);
	settings.record = RECORD_STEPS;
	for (int i = 0; i < 3; i++) {
		s->outline_from = i ? 1000000 : 1;
		settings.model = i == 1 ? "llama-3.1-8b" : NULL;
		settings.device = i == 1 ? "h100-sxm" : NULL;
		must_run(&settings, &workload, s, &r);
		run_result_free(&r);
	}
}

static void every_allocation_of_a_report_fails_once(void)
{
	struct store *s = NULL;
	struct err e = {0};
	struct report_page p;
	char text[1024] = "";
	if (report_page_open(&p, REPORT_VEGA_FOLDER, &e)) {
		test_skip("Vega is not installed");
		return;
	}
	report_page_free(&p);
	CU_ASSERT_FATAL(store_open(&s, temp_path("report.db"), false, &e) == ERR_NONE);
	fill(s);
	CHECK_INT(make_page(s, text), ERR_NONE);
	CHECK_STR(text, "");
	CU_ASSERT(failing_mem_each(make_page, s, test_short() ? 60 : 500) > 20);
	store_close(s);
	workload_free(&workload);
}

int main(void)
{
	static const struct test tests[] = {
		{"every_allocation_of_a_report_fails_once", every_allocation_of_a_report_fails_once},
	};
	return SUITE_RUN("report", tests);
}
