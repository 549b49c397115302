/* Logs of real servers: what is read, and what a bad one is told. */
#include <string.h>

#include "analysis/measured.h"
#include "core/err.h"
#include "tests/support/suite.h"

static const char two_lines[] =
	"{\"request_id\": \"a\", \"input_toks\": 10, \"output_toks\": 3, \"arrival_time\": 9e8, \"queued_ts\": 100.5, "
	"\"scheduled_ts\": 100.75, \"first_token_ts\": 101, \"last_token_ts\": 102}\n"
	"\n"
	"{\"input_toks\": 20, \"output_toks\": 1, \"queued_ts\": 100.25, \"scheduled_ts\": 100.25, \"first_token_ts\": "
	"101.5, "
	"\"last_token_ts\": 101.5}";

static int parse(struct measured *m, const char *text, struct err *e)
{
	err_clear(e);
	return measured_parse(m, "log", text, strlen(text), e);
}

static void engine_stamps_count_from_the_earliest_arrival(void)
{
	struct measured m;
	struct err e = {0};
	CHECK_INT(parse(&m, two_lines, &e), ERR_NONE);
	CHECK_INT(m.n, 2);
	CHECK_INT(m.format, MEASURED_TIMESTAMPS);
	CU_ASSERT_TRUE(m.has_scheduled);
	CHECK_INT(m.at[0].arrival_ns, 250000000);
	CHECK_INT(m.at[0].scheduled_ns, 500000000);
	CHECK_INT(m.at[0].first_token_ns, 750000000);
	CHECK_INT(m.at[0].last_token_ns, 1750000000);
	CHECK_INT(m.at[1].arrival_ns, 0);
	CHECK_INT(m.at[1].row, 3);
	measured_free(&m);
}

static void schedule_times_may_be_absent(void)
{
	struct measured m;
	struct err e = {0};
	CHECK_INT(parse(&m,
			"{\"input_toks\": 4, \"output_toks\": 2, \"queued_ts\": 1, \"first_token_ts\": 2, "
			"\"last_token_ts\": 3}",
			&e),
		  ERR_NONE);
	CU_ASSERT_FALSE(m.has_scheduled);
	CHECK_INT(m.at[0].scheduled_ns, -1);
	measured_free(&m);
}

static void benchmark_result_is_read_without_its_failures(void)
{
	struct measured m;
	struct err e = {0};
	CHECK_INT(parse(&m,
			"{\"date\": \"x\", \"input_lens\": [5, 6, 7], \"output_lens\": [3, 0, 1], \"ttfts\": [0.5, 0, "
			"0.25],"
			" \"itls\": [[0.1, 0.2], [], []], \"start_times\": [10, 10.5, 9], \"errors\": [\"\", "
			"\"broken\", \"\"]}",
			&e),
		  ERR_NONE);
	CHECK_INT(m.format, MEASURED_BENCH);
	CHECK_INT(m.n, 2);
	CHECK_INT(m.failed, 1);
	CU_ASSERT_FALSE(m.has_scheduled);
	CHECK_INT(m.at[0].arrival_ns, 1000000000);
	CHECK_INT(m.at[0].first_token_ns, 1500000000);
	CHECK_INT(m.at[0].last_token_ns, 1800000000);
	CHECK_INT(m.at[1].prompt_tokens, 7);
	measured_free(&m);
}

#define ROW(in, out, q, s, f, l)                                                                                       \
	"{\"input_toks\": " in ", \"output_toks\": " out ", \"queued_ts\": " q ", \"scheduled_ts\": " s                \
	", \"first_token_ts\": " f ", \"last_token_ts\": " l "}"

static void bad_logs_are_told_where_and_why(void)
{
	static const struct {
		const char *text, *says;
	} cases[] = {
		{"", "log: no request in it"},
		{"{\"input_toks\": 1}\n", "log: no list input_lens"},
		{ROW("1", "2", "1", "1", "2", "3") "\nnonsense\n", "log:2: not valid JSON"},
		{ROW("1", "2", "1", "1", "2", "3") "\n[1]\n", "log:2: a line must hold one JSON object"},
		{ROW("1.5", "2", "1", "1", "2", "3"), "log:1: input_toks is not a whole number"},
		{ROW("-1", "2", "1", "1", "2", "3"), "log:1: input_toks is not a whole number"},
		{ROW("0", "2", "1", "1", "2", "3"), "log:1: 0 prompt and 2 output tokens"},
		{ROW("1", "2", "\"x\"", "1", "2", "3"), "log:1: queued_ts is not a time"},
		{ROW("1", "2", "2", "1", "3", "4"), "log:1: scheduled before it arrived"},
		{ROW("1", "2", "1", "2", "2", "4"), "log:1: its first token came before it was scheduled"},
		{ROW("1", "2", "1", "1", "3", "2"), "log:1: its last token came before its first"},
		{ROW("1", "2", "1", "1", "3", "3"), "log:1: 2 output tokens at one moment"},
		{"{\"input_toks\": 1, \"output_toks\": 2, \"queued_ts\": 1, \"last_token_ts\": 3}",
		 "log:1: first_token_ts is missing"},
		{"{\"input_lens\": [1], \"output_lens\": [1, 2], \"ttfts\": [1], \"itls\": [[]], \"start_times\": [1]}",
		 "output_lens holds 2 entries, input_lens 1"},
		{"{\"input_lens\": [1], \"output_lens\": [1], \"ttfts\": [1], \"itls\": [[-1]], \"start_times\": [1]}",
		 "request 1: itls holds no list of times for it"},
		{"{\"input_lens\": [1], \"output_lens\": [1.5], \"ttfts\": [1], \"itls\": [[]], \"start_times\": [1]}",
		 "request 1: output_lens is not a whole number"},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct measured m;
		struct err e = {0};
		CHECK_INT(parse(&m, cases[i].text, &e), ERR_INPUT);
		if (!strstr(e.text, cases[i].says))
			CHECK_STR(e.text, cases[i].says);
		measured_free(&m);
	}
}

static void settings_beside_the_log_are_its_defaults(void)
{
	struct measured_hints h = {0};
	struct err e = {0};
	CHECK_INT(measured_parse_hints(&h, "meta.json",
				       "{\"vllm_version\": \"0.19.0\", \"engine_kwargs\": {\"max_num_seqs\": 128,"
				       " \"max_model_len\": null}, \"kv_cache\": {\"num_gpu_blocks\": 77,"
				       " \"enable_prefix_caching\": false}}",
				       &e),
		  ERR_NONE);
	CHECK_INT(h.max_num_seqs, 128);
	CHECK_INT(h.num_gpu_blocks, 77);
	CHECK_INT(h.max_model_len, 0);
	CU_ASSERT_TRUE(h.has_prefix_caching && !h.prefix_caching);
	CU_ASSERT_TRUE(h.has_async_scheduling && h.async_scheduling);
	struct measured_hints old = {0};
	CHECK_INT(measured_parse_hints(&old, "meta.json", "{\"vllm_version\": \"0.10.2\"}", &e), ERR_NONE);
	CU_ASSERT_TRUE(old.prefix_caching && !old.async_scheduling);
	CHECK_INT(measured_parse_hints(&h, "meta.json", "{\"engine_kwargs\": {\"max_num_seqs\": \"many\"}}", &e),
		  ERR_INPUT);
	CU_ASSERT_PTR_NOT_NULL(strstr(e.text, "max_num_seqs"));
}

static void settings_are_found_in_the_logs_folder(void)
{
	struct measured m;
	struct err e = {0};
	temp_file("meta.json", "{\"engine_kwargs\": {\"max_num_seqs\": 3}}");
	const char *path = temp_file("requests.jsonl", two_lines);
	CHECK_INT(measured_load(&m, path, &e), ERR_NONE);
	CHECK_INT(m.hints.max_num_seqs, 3);
	CU_ASSERT_PTR_NOT_NULL(strstr(m.hints.from, "meta.json"));
	measured_free(&m);
	CHECK_INT(measured_load(&m, temp_path("nowhere.jsonl"), &e), ERR_INPUT);
	measured_free(&m);
}

static void fill(struct workload *w, int32_t a_prompt, int32_t a_output)
{
	struct err e = {0};
	const struct spec a = {
		.name_at = -1, .prompt_tokens = a_prompt, .output_tokens = a_output, .session = -1, .row = 1};
	const struct spec b = {
		.arrival_ns = 5, .name_at = -1, .prompt_tokens = 20, .output_tokens = 1, .session = -1, .row = 2};
	workload_init(w);
	CHECK_INT(workload_add(w, &a, &e), ERR_NONE);
	CHECK_INT(workload_add(w, &b, &e), ERR_NONE);
}

static void trace_takes_the_measured_arrivals(void)
{
	struct measured m;
	struct workload w;
	struct err e = {0};
	parse(&m, two_lines, &e);
	fill(&w, 10, 3);
	CHECK_INT(measured_apply(&m, &w, "trace", &e), ERR_NONE);
	/* The second line came first. */
	CHECK_INT(w.specs[0].prompt_tokens, 20);
	CHECK_INT(w.specs[0].arrival_ns, 0);
	CHECK_INT(w.specs[1].arrival_ns, 250000000);
	CHECK_INT(w.specs[1].max_tokens, 3);
	CHECK_INT(m.at[0].prompt_tokens, 20);
	CHECK_INT(m.at[1].prompt_tokens, 10);
	workload_free(&w);
	measured_free(&m);
}

static void another_trace_is_refused(void)
{
	struct measured m;
	struct workload w;
	struct err e = {0};
	parse(&m, two_lines, &e);
	fill(&w, 11, 3);
	CHECK_INT(measured_apply(&m, &w, "trace", &e), ERR_INPUT);
	CU_ASSERT_PTR_NOT_NULL(
		strstr(e.text, "request 1 is 11 prompt and 3 output tokens in trace (row 1), but 10 and 3"));
	w.n = 1;
	err_clear(&e);
	CHECK_INT(measured_apply(&m, &w, "trace", &e), ERR_INPUT);
	CU_ASSERT_PTR_NOT_NULL(strstr(e.text, "trace holds 1 requests, the measured log 2"));
	workload_free(&w);
	measured_free(&m);
}

static void a_log_alone_makes_a_workload(void)
{
	struct measured m;
	struct workload w;
	struct err e = {0};
	parse(&m, two_lines, &e);
	workload_init(&w);
	CHECK_INT(measured_make_workload(&m, &w, &e), ERR_NONE);
	CHECK_INT(w.n, 2);
	CHECK_INT(w.specs[0].prompt_tokens, 20);
	CHECK_INT(w.specs[1].arrival_ns, 250000000);
	workload_free(&w);
	measured_free(&m);
}

static void staged_logs_are_read_whole(void)
{
	static const char *const logs[] = {"measured/vllm_rtx4090_llama-3_1-8b/requests.jsonl",
					   "measured/vllm_rtxpro6000_llama-3_1-8b/requests.jsonl"};
	for (int i = 0; i < 2; i++) {
		const char *path = shared_data(logs[i]);
		struct measured m;
		struct err e = {0};
		if (!path) {
			test_skip("no measured runs here");
			return;
		}
		CHECK_INT(measured_load(&m, path, &e), ERR_NONE);
		CHECK_INT(m.n, 300);
		CHECK_INT(m.hints.num_gpu_blocks, i ? 0 : 2588);
		CHECK_INT(m.hints.max_num_seqs, i ? 128 : 256);
		CU_ASSERT_TRUE(m.has_scheduled && m.hints.async_scheduling && m.hints.prefix_caching);
		measured_free(&m);
	}
}

int main(void)
{
	static const struct test tests[] = {
		{"engine_stamps_count_from_the_earliest_arrival", engine_stamps_count_from_the_earliest_arrival},
		{"schedule_times_may_be_absent", schedule_times_may_be_absent},
		{"benchmark_result_is_read_without_its_failures", benchmark_result_is_read_without_its_failures},
		{"bad_logs_are_told_where_and_why", bad_logs_are_told_where_and_why},
		{"settings_beside_the_log_are_its_defaults", settings_beside_the_log_are_its_defaults},
		{"settings_are_found_in_the_logs_folder", settings_are_found_in_the_logs_folder},
		{"trace_takes_the_measured_arrivals", trace_takes_the_measured_arrivals},
		{"another_trace_is_refused", another_trace_is_refused},
		{"a_log_alone_makes_a_workload", a_log_alone_makes_a_workload},
		{"staged_logs_are_read_whole", staged_logs_are_read_whole},
	};
	return SUITE_RUN("analysis_measured", tests);
}
