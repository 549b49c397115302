/* Every allocation of reading a measured log and of calibrating to it fails once. */
#include <stdio.h>
#include <string.h>

#include "analysis/calibrate.h"
#include "core/err.h"
#include "core/mem.h"
#include "tests/support/failing_mem.h"
#include "tests/support/suite.h"

static const char *log_path;

static void write_log(void)
{
	static char text[8192];
	size_t at = 0;
	for (int i = 0; i < 24; i++)
		at += (size_t)snprintf(
			text + at, sizeof text - at,
			"{\"input_toks\": %d, \"output_toks\": 3, \"queued_ts\": %d, \"scheduled_ts\": %d, "
			"\"first_token_ts\": %d.5, \"last_token_ts\": %d.9}\n",
			50 + i, i, i, i, i);
	log_path = temp_file("requests.jsonl", text);
}

static int once(void *ctx, char text[1024])
{
	struct measured m = {0};
	struct workload w;
	struct run_settings s;
	struct calibrate_options o;
	struct calibrate_result r;
	char *json = NULL;
	struct err e = {0};
	(void)ctx;
	workload_init(&w);
	run_settings_default(&s);
	calibrate_options_default(&o);
	s.policy = "chunked";
	s.model = "llama-3.2-1b";
	s.device = "h100-sxm";
	s.num_gpu_blocks_override = 100;
	o.settings = &s;
	o.workload = &w;
	o.measured = &m;
	o.train_fraction = 1;
	o.params = 1u << CALIBRATE_MEMORY;
	o.force = true;
	o.max_evals = 4;
	int rc = measured_load(&m, log_path, &e);
	if (rc == ERR_NONE)
		rc = measured_make_workload(&m, &w, &e);
	if (rc == ERR_NONE)
		rc = calibrate(&o, &r, &e);
	if (rc == ERR_NONE)
		rc = calibrate_json(&o, "log", &r, &json, &e);
	mem_free(json);
	workload_free(&w);
	measured_free(&m);
	snprintf(text, 1024, "%s", e.text);
	return rc;
}

static void calibration_reports_lost_memory_and_keeps_none(void)
{
	write_log();
	CU_ASSERT(failing_mem_each(once, NULL, 0) > 30);
}

int main(void)
{
	static const struct test tests[] = {
		{"calibration_reports_lost_memory_and_keeps_none", calibration_reports_lost_memory_and_keeps_none},
	};
	return SUITE_RUN("failmem_calibrate", tests);
}
