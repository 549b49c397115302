/* Every allocation of a report fails once. Memory of SQLite's own is not touched here: tests/failmem/store.c does that. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "analysis/report.h"
#include "analysis/report_page.h"
#include "analysis/store.h"
#include "analysis/store_internal.h"
#include "core/mem.h"
#include "tests/support/failing_mem.h"
#include "tests/unit/analysis_fixture.h"

static int make_page(void *ctx, char text[1024])
{
	struct store *s = ctx;
	struct err e = {0};
	static const int64_t ids[] = {1, 2, 3};
	const struct report_options o = {.run_ids = ids, .n_runs = 3, .all = true, .vega_folder = REPORT_VEGA_FOLDER};
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
	struct workload w;
	struct run_settings settings;
	struct run_result r;
	random_workload(&w, 100, 20, 9);
	small_settings(&settings, &w);
	settings.record = RECORD_STEPS;
	for (int i = 0; i < 3; i++) {
		s->outline_from = i ? 1000000 : 1;
		settings.model = i == 1 ? "llama-3.1-8b" : NULL;
		settings.device = i == 1 ? "h100-sxm" : NULL;
		must_run(&settings, &w, s, &r);
		run_result_free(&r);
	}
	workload_free(&w);
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
	CU_ASSERT(failing_mem_each(make_page, s, test_short() ? 100 : 0) > 20);
	store_close(s);
}

int main(void)
{
	static const struct test tests[] = {
		{"every_allocation_of_a_report_fails_once", every_allocation_of_a_report_fails_once},
	};
	return SUITE_RUN("report", tests);
}
