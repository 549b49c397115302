/* JSON: exactly the keys people's scripts expect, the same bytes for the same run, null where nothing is defined. */
#include <jansson.h>
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analysis/result_json.h"
#include "core/mem.h"
#include "tests/unit/analysis_fixture.h"

/* Keys of `vllm bench serve` with --metric-percentiles 99, in its order. */
static const char *const vllm_keys[] = {
	"date",
	"backend",
	"model_id",
	"num_prompts",
	"request_rate",
	"burstiness",
	"max_concurrency",
	"duration",
	"completed",
	"failed",
	"total_input_tokens",
	"total_output_tokens",
	"request_throughput",
	"request_goodput",
	"output_throughput",
	"total_token_throughput",
	"max_output_tokens_per_s",
	"max_concurrent_requests",
	"mean_ttft_ms",
	"median_ttft_ms",
	"std_ttft_ms",
	"p99_ttft_ms",
	"mean_tpot_ms",
	"median_tpot_ms",
	"std_tpot_ms",
	"p99_tpot_ms",
	"mean_itl_ms",
	"median_itl_ms",
	"std_itl_ms",
	"p99_itl_ms",
	"mean_e2el_ms",
	"median_e2el_ms",
	"std_e2el_ms",
	"p99_e2el_ms",
};
static const char *const detail_keys[] = {"input_lens", "output_lens", "ttfts", "itls", "start_times", "errors"};
#define N_VLLM (sizeof vllm_keys / sizeof *vllm_keys)
#define N_DETAIL (sizeof detail_keys / sizeof *detail_keys)

static json_t *saved(const char *name, const struct run_settings *s, const struct workload *w,
		     const struct run_result *r)
{
	struct err e = {0};
	const char *path = temp_path(name);
	if (result_save(path, s, w, r, &e))
		printf("    %s\n", e.text);
	json_t *o = json_load_file(path, 0, NULL);
	CU_ASSERT_PTR_NOT_NULL_FATAL(o);
	return o;
}

static double number(const json_t *o, const char *key)
{
	return json_number_value(json_object_get(o, key));
}

static double element(const json_t *o, const char *key, size_t i)
{
	return json_number_value(json_array_get(json_object_get(o, key), i));
}

static void the_keys_are_exactly_those_of_vllm_bench(void)
{
	struct workload w;
	struct run_settings s;
	struct run_result r;
	random_workload(&w, 30, 40, 1);
	small_settings(&s, &w);
	for (int detailed = 0; detailed < 2; detailed++) {
		s.save_detailed = detailed;
		must_run(&s, &w, NULL, &r);
		json_t *o = saved("keys.json", &s, &w, &r);
		size_t n = 0;
		for (void *i = json_object_iter(o); i; i = json_object_iter_next(o, i), n++) {
			const char *want = n < N_VLLM              ? vllm_keys[n]
					   : n - N_VLLM < N_DETAIL ? detail_keys[n - N_VLLM]
								   : "";
			CHECK_STR(json_object_iter_key(i), want);
		}
		CHECK_INT(n, N_VLLM + (detailed ? N_DETAIL : 0));
		json_decref(o);
		run_result_free(&r);
	}
	workload_free(&w);
}

static void figures_are_the_metrics(void)
{
	struct workload w;
	struct run_settings s;
	struct run_result r;
	random_workload(&w, 200, 40, 2);
	small_settings(&s, &w);
	s.model = NULL;
	must_run(&s, &w, NULL, &r);
	json_t *o = saved("figures.json", &s, &w, &r);
	CHECK_STR(json_string_value(json_object_get(o, "date")), "20231114-221320");
	CU_ASSERT_TRUE(json_is_null(json_object_get(o, "model_id")));
	CU_ASSERT_TRUE(json_is_null(json_object_get(o, "request_goodput")));
	CU_ASSERT_TRUE(json_is_null(json_object_get(o, "max_concurrency")));
	CHECK_NEAR(number(o, "mean_ttft_ms"), r.metrics.latency[LATENCY_TTFT].mean / 1e6, 0);
	CHECK_NEAR(number(o, "p99_itl_ms"), r.metrics.latency[LATENCY_ITL].p[0] / 1e6, 0);
	CHECK_NEAR(number(o, "request_throughput"), r.metrics.request_throughput, 0);
	CHECK_NEAR(number(o, "duration"), (double)r.metrics.duration_ns / 1e9, 0);
	CHECK_INT(number(o, "completed"), 200);
	CHECK_INT(number(o, "total_output_tokens"), r.metrics.output_tokens);
	/* From the trace's own times: what they amount to. */
	CHECK_NEAR(number(o, "request_rate"), r.metrics.offered_rate, 0);
	json_decref(o);
	run_result_free(&r);
	workload_free(&w);
}

static void unlimited_rates_are_the_word_inf(void)
{
	struct workload w;
	struct run_settings s;
	struct run_result r;
	workload_init(&w);
	for (int i = 0; i < 10; i++)
		add_spec(&w, 0, 20, 5);
	workload_set_max_tokens(&w, MAX_TOKENS_MAX, 100);
	small_settings(&s, &w);
	s.request_rate = INFINITY;
	s.burstiness = INFINITY;
	s.engine.max_concurrency = 4;
	must_run(&s, &w, NULL, &r);
	json_t *o = saved("inf.json", &s, &w, &r);
	CHECK_STR(json_string_value(json_object_get(o, "request_rate")), "inf");
	CHECK_STR(json_string_value(json_object_get(o, "burstiness")), "inf");
	CHECK_INT(number(o, "max_concurrency"), 4);
	CHECK_INT(number(o, "max_concurrent_requests"), 4);
	json_decref(o);
	run_result_free(&r);
	workload_free(&w);
}

/* E2E = TTFT + the sum of n - 1 gaps, with no and with one token too; rejected ones have their reason. */
static void detailed_arrays_add_up(void)
{
	struct workload w;
	struct run_settings s;
	struct run_result r;
	random_workload(&w, 150, 15, 3);
	add_spec(&w, w.specs[w.n - 1].arrival_ns, 9999, 5);
	w.specs[w.n - 1].max_tokens = 5;
	small_settings(&s, &w);
	s.save_detailed = true;
	must_run(&s, &w, NULL, &r);
	json_t *o = saved("detailed.json", &s, &w, &r);
	for (size_t i = 0; i < N_DETAIL; i++)
		CHECK_INT(json_array_size(json_object_get(o, detail_keys[i])), 151);
	double gaps = 0;
	int64_t n_gaps = 0;
	for (int64_t i = 0; i < 150; i++) {
		const struct request *q = &r.requests[i];
		json_t *itls = json_array_get(json_object_get(o, "itls"), (size_t)i);
		double sum = element(o, "ttfts", (size_t)i);
		CHECK_INT(json_array_size(itls), q->outputs > 1 ? q->outputs - 1 : 0);
		for (size_t k = 0; k < json_array_size(itls); k++, n_gaps++)
			sum += json_number_value(json_array_get(itls, k));
		gaps += sum - element(o, "ttfts", (size_t)i);
		CHECK_NEAR(sum, (double)request_e2e_ns(q) / 1e9, 1e-9);
		CHECK_INT(element(o, "input_lens", (size_t)i), w.specs[i].prompt_tokens);
		CHECK_INT(element(o, "output_lens", (size_t)i), w.specs[i].output_tokens);
		CHECK_NEAR(element(o, "start_times", (size_t)i), (double)w.specs[i].arrival_ns / 1e9, 1e-12);
		CHECK_STR(json_string_value(json_array_get(json_object_get(o, "errors"), (size_t)i)), "");
	}
	/* The gaps gathered step by step are the same ones. */
	CHECK_INT(r.metrics.latency[LATENCY_ITL].n, n_gaps);
	CHECK_NEAR(r.metrics.latency[LATENCY_ITL].mean / 1e9, gaps / (double)n_gaps, 1e-12);
	CHECK_STR(json_string_value(json_array_get(json_object_get(o, "errors"), 150)), "no_memory");
	CHECK_INT(json_array_size(json_array_get(json_object_get(o, "itls"), 150)), 0);
	json_decref(o);
	run_result_free(&r);
	workload_free(&w);
}

static void without_success_figures_are_null(void)
{
	struct workload w;
	struct run_settings s;
	struct run_result r;
	struct err e = {0};
	char *text;
	workload_init(&w);
	add_spec(&w, 0, 9999, 5);
	workload_set_max_tokens(&w, MAX_TOKENS_MAX, 100);
	small_settings(&s, &w);
	must_run(&s, &w, NULL, &r);
	json_t *o = saved("none.json", &s, &w, &r);
	CHECK_INT(number(o, "completed"), 0);
	CHECK_INT(number(o, "failed"), 1);
	CU_ASSERT_TRUE(json_is_null(json_object_get(o, "duration")));
	for (size_t i = 12; i < N_VLLM; i++) {
		if (!json_is_null(json_object_get(o, vllm_keys[i])))
			printf("    %s is not null\n", vllm_keys[i]);
		CU_ASSERT_TRUE(json_is_null(json_object_get(o, vllm_keys[i])));
	}
	json_decref(o);
	CHECK_INT(result_json(&s, &r, &text, &e), ERR_NONE);
	o = json_loads(text, 0, NULL);
	CHECK_INT(number(json_object_get(o, "failed_why"), "no_memory"), 1);
	CU_ASSERT_TRUE(json_is_null(json_object_get(json_object_get(o, "steady_state"), "request_throughput")));
	json_decref(o);
	mem_free(text);
	run_result_free(&r);
	workload_free(&w);
}

static void the_whole_object_has_what_repeats_the_run(void)
{
	struct workload w;
	struct run_settings s;
	struct run_result r;
	struct err e = {0};
	char *text, hash[24];
	random_workload(&w, 60, 40, 4);
	small_settings(&s, &w);
	s.seed = UINT64_MAX;
	must_run(&s, &w, NULL, &r);
	CHECK_INT(result_json(&s, &r, &text, &e), ERR_NONE);
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "\"seed\": \"18446744073709551615\""));
	CU_ASSERT_PTR_NULL(strchr(text, '\n'));
	json_error_t bad;
	json_t *o = json_loads(text, 0, &bad);
	CU_ASSERT_PTR_NOT_NULL_FATAL(o);
	static const char *const wanted[] = {"policy",       "run_id",       "steps",         "preemptions",
					     "rejected",     "sim_wall_s",   "workload_hash", "prefix_hit_ratio",
					     "kv_used",      "steady_state", "settings",      "status",
					     "offered_rate", "uncertain",    "itl_exact"};
	for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
		CU_ASSERT_PTR_NOT_NULL(json_object_get(o, wanted[i]));
	snprintf(hash, sizeof hash, "%016llx", (unsigned long long)s.workload_hash);
	CHECK_STR(json_string_value(json_object_get(o, "workload_hash")), hash);
	CHECK_STR(json_string_value(json_object_get(o, "status")), "complete");
	CU_ASSERT_TRUE(json_is_null(json_object_get(o, "run_id")));
	json_t *settings = json_object_get(o, "settings");
	CHECK_INT(number(settings, "num_gpu_blocks"), 200);
	CHECK_STR(json_string_value(json_object_get(settings, "cost")), s.cost);
	CHECK_STR(json_string_value(json_object_get(settings, "cache_at_start")), "cold");
	/* 60 samples are too few for a p99, and it says so. */
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "\"uncertain\": [\"p99_ttft_ms\""));
	json_decref(o);
	mem_free(text);
	run_result_free(&r);
	workload_free(&w);
}

static void numbers_are_short_and_read_back_the_same(void)
{
	char buf[32];
	CHECK_STR(json_number(0.1, buf), "0.1");
	CHECK_STR(json_number(5, buf), "5");
	CHECK_STR(json_number(1.0 / 3, buf), "0.3333333333333333");
	CHECK_STR(json_number(-2.5e-7, buf), "-2.5e-07");
	CHECK_STR(json_number(NAN, buf), "null");
	CHECK_STR(json_number(INFINITY, buf), "null");
	struct rng r;
	rng_init(&r, 1, 1);
	for (int i = 0; i < 20000; i++) {
		double v = rng_unit(&r) * pow(10, (double)rng_below(&r, 30) - 15);
		CHECK_NEAR(strtod(json_number(v, buf), NULL), v, 0);
	}
}

static void texts_with_odd_characters_stay_one_string(void)
{
	struct workload w;
	struct run_settings s;
	struct run_result r;
	struct err e = {0};
	char *text;
	random_workload(&w, 3, 40, 5);
	small_settings(&s, &w);
	s.label = "a \"quoted\" \\ label\n\twith \001 and \xc3\xa9";
	must_run(&s, &w, NULL, &r);
	CHECK_INT(result_json(&s, &r, &text, &e), ERR_NONE);
	json_t *o = json_loads(text, 0, NULL);
	CU_ASSERT_PTR_NOT_NULL_FATAL(o);
	CHECK_STR(json_string_value(json_object_get(o, "label")), s.label);
	json_decref(o);
	mem_free(text);
	run_result_free(&r);
	workload_free(&w);
}

static void several_runs_are_one_object(void)
{
	char *texts[] = {(char *)"{\"a\": 1}", (char *)"{\"b\": 2}"};
	struct err e = {0};
	const char *path = temp_path("runs.json");
	FILE *f = fopen(path, "w");
	CHECK_INT(result_json_runs(f, texts, 2, &e), ERR_NONE);
	fclose(f);
	char line[100] = "";
	f = fopen(path, "r");
	CU_ASSERT_PTR_NOT_NULL(fgets(line, sizeof line, f));
	fclose(f);
	CHECK_STR(line, "{\"runs\": [{\"a\": 1}, {\"b\": 2}]}\n");
}

static void a_file_that_cannot_be_written_is_named_and_the_old_one_kept(void)
{
	struct workload w;
	struct run_settings s;
	struct run_result r;
	struct err e = {0};
	struct stat st;
	random_workload(&w, 3, 40, 6);
	small_settings(&s, &w);
	must_run(&s, &w, NULL, &r);
	CHECK_INT(result_save(temp_path("no/such.json"), &s, &w, &r, &e), ERR_IO);
	CU_ASSERT_PTR_NOT_NULL(strstr(e.text, "no/such.json"));
	err_clear(&e);
	/* A device is written in place. */
	CHECK_INT(result_save("/dev/full", &s, &w, &r, &e), ERR_IO);
	CU_ASSERT_PTR_NOT_NULL(strstr(e.text, "/dev/full: cannot be written: No space left on device"));
	CHECK_INT(stat("/dev/full", &st), 0);
	CU_ASSERT_TRUE(S_ISCHR(st.st_mode));
	err_clear(&e);
	/* Nothing is left beside a file that was saved. */
	const char *path = temp_path("saved.json");
	char beside[600];
	CHECK_INT(result_save(path, &s, &w, &r, &e), ERR_NONE);
	snprintf(beside, sizeof beside, "%s.part", path);
	CHECK_INT(access(beside, F_OK), -1);
	run_result_free(&r);
	workload_free(&w);
}

int main(void)
{
	static const struct test tests[] = {
		{"the_keys_are_exactly_those_of_vllm_bench", the_keys_are_exactly_those_of_vllm_bench},
		{"figures_are_the_metrics", figures_are_the_metrics},
		{"unlimited_rates_are_the_word_inf", unlimited_rates_are_the_word_inf},
		{"detailed_arrays_add_up", detailed_arrays_add_up},
		{"without_success_figures_are_null", without_success_figures_are_null},
		{"the_whole_object_has_what_repeats_the_run", the_whole_object_has_what_repeats_the_run},
		{"numbers_are_short_and_read_back_the_same", numbers_are_short_and_read_back_the_same},
		{"texts_with_odd_characters_stay_one_string", texts_with_odd_characters_stay_one_string},
		{"several_runs_are_one_object", several_runs_are_one_object},
		{"a_file_that_cannot_be_written_is_named_and_the_old_one_kept",
		 a_file_that_cannot_be_written_is_named_and_the_old_one_kept},
	};
	return SUITE_RUN("analysis_result_json", tests);
}
