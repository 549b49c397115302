/* Agents' traces: the graphs that files of trees, rounds and spans become, and the real files' totals. */
#include <stdio.h>
#include <string.h>

#include "core/err.h"
#include "core/mem.h"
#include "core/workload.h"
#include "tests/support/suite.h"
#include "traces/reader.h"
#include "traces/writer.h"

static struct workload w;
static struct trace_report report;
static struct trace_options options;
static struct err e;

static void fresh(void)
{
	workload_free(&w);
	trace_options_init(&options);
	err_clear(&e);
}

static void must_read(const char *text, int64_t n)
{
	workload_free(&w);
	err_clear(&e);
	CHECK_INT(trace_load_memory("trace", text, strlen(text), &options, &w, &report, &e), ERR_NONE);
	CHECK_STR(e.text, "");
	CU_ASSERT_FATAL(w.n == n);
	CHECK_INT(report.rows, report.kept + report.dropped);
}

static int64_t find(const char *name)
{
	char buf[24];
	for (int64_t i = 0; i < w.n; i++)
		if (!strcmp(workload_name(&w, i, buf), name))
			return i;
	CU_FAIL_FATAL("no request of that name");
	return 0;
}

static bool waits(const char *child, const char *parent)
{
	int64_t p = find(parent), c = find(child);
	for (int64_t k = w.child_at[p]; k < w.child_at[p + 1]; k++)
		if (w.child[k] == c)
			return true;
	return false;
}

/* How many tokens the prompts of a and b share: pieces of the same id, the shorter of two lengths at the end. */
static int64_t shared(const struct spec *a, const struct spec *b)
{
	int64_t tokens = 0;
	for (int32_t k = 0; k < a->n_hashes && k < b->n_hashes; k++) {
		int32_t x = w.seg_tokens[a->hash_at + k], y = w.seg_tokens[b->hash_at + k];
		if (w.hash_ids[a->hash_at + k] != w.hash_ids[b->hash_at + k])
			break;
		tokens += x < y ? x : y;
		if (x != y)
			break;
	}
	return tokens;
}

static void a_thought_repeats_the_thoughts_before_it(void)
{
	fresh();
	must_read("problem,node,parent_node,chars_new\n"
		  "p,1,0,25\np,2,0,27\np,3,1,30\nq,1,0,9\np,4,3,6\np,5,2,1\n",
		  6);
	CHECK_STR(report.format_name, "tot");
	const struct spec *one = &w.specs[find("p/1")], *three = &w.specs[find("p/3")], *four = &w.specs[find("p/4")];
	CHECK_INT(one->prompt_tokens, 16);
	CHECK_INT(one->output_tokens, 17); /* 25 characters, two thirds of them */
	CHECK_INT(three->prompt_tokens, 16 + 17);
	CHECK_INT(three->output_tokens, 20);
	CHECK_INT(four->prompt_tokens, 16 + 17 + 20);
	CHECK_INT(shared(three, four), 33);
	CHECK_INT(shared(one, four), 16);
	CHECK_INT(w.hash_ids[four->hash_at + 1], (long long)one->output_id);
	CHECK_INT(w.hash_ids[four->hash_at + 2], (long long)three->output_id);
	CHECK_INT(shared(one, &w.specs[find("q/1")]), 0);
	CU_ASSERT_TRUE(waits("p/3", "p/1") && waits("p/4", "p/3") && waits("p/5", "p/2"));
	CHECK_INT(w.n_parents[find("p/1")] + w.n_parents[find("p/2")] + w.n_parents[find("q/1")], 0);
	CHECK_INT(one->session, four->session);
	CU_ASSERT(one->session != w.specs[find("q/1")].session);
	CU_ASSERT_TRUE(report.lengths_estimated && !report.has_arrivals);
}

static void a_deep_tree_stays_small(void)
{
	enum { DEEP = 20000 };
	fresh();
	char *text = mem_alloc(DEEP * 32 + 64);
	size_t at = (size_t)sprintf(text, "problem,node,parent_node,chars_new\n");
	for (int i = 1; i <= DEEP; i++)
		at += (size_t)sprintf(text + at, "p,%d,%d,3\n", i, i - 1);
	must_read(text, DEEP);
	mem_free(text);
	CHECK_INT(w.specs[find("p/20000")].prompt_tokens, 16 + 2 * (DEEP - 1));
	CHECK_INT(w.n_hash_ids, DEEP);
}

static void rounds_wait_for_the_tool_before_them(void)
{
	fresh();
	must_read("session_id,arrival_time,round_idx,prefix_len,input_len,output_len,tool_wait_after_ms\n"
		  "a,117,0,0,100,20,300\nb,100.5,0,0,10,5,\na,117,1,120,30,10,1.5\na,117,2,110,40,1,0\n",
		  4);
	CHECK_STR(report.format_name, "tracelab");
	const struct spec *first = &w.specs[find("a/0")], *second = &w.specs[find("a/1")],
			  *third = &w.specs[find("a/2")];
	CHECK_INT(first->arrival_ns, 16500000);
	CHECK_INT(w.specs[find("b/0")].arrival_ns, 0);
	CHECK_INT(second->arrival_ns, 300 * NS_PER_MS);
	CHECK_INT(third->arrival_ns, 1500000);
	CHECK_INT(second->prompt_tokens, 150);
	CHECK_INT(third->prompt_tokens, 150);
	CU_ASSERT_TRUE(waits("a/1", "a/0") && waits("a/2", "a/1") && !waits("a/2", "a/0"));
	CHECK_INT(w.hash_ids[second->hash_at + 1], (long long)first->output_id);
	CHECK_INT(shared(first, second), 100);
	/* The first 110 of 150 tokens, and so within the first answer. */
	CHECK_INT(shared(second, third), 110);
}

static void condensed_prompts_keep_what_they_can(void)
{
	fresh();
	must_read("session,round,t_llm_done_s,llm_gap_ms,prompt_tokens,completion_tokens,tool,tool_ms\n"
		  "a,0,3,3,100,20,run,620\na,1,6,2,150,30,read,12.5\na,2,8,2,170,5,edit,4\na,3,9,2,120,5,finish,\n",
		  4);
	CHECK_STR(report.format_name, "openhands");
	CHECK_INT(report.n_notes, 1);
	CHECK_INT(shared(&w.specs[0], &w.specs[1]), 100);
	CHECK_INT(shared(&w.specs[1], &w.specs[2]), 150); /* 170 is less than 150 + 30 */
	CHECK_INT(shared(&w.specs[2], &w.specs[3]), 100); /* 120 is less than 170: the first prompt */
	CHECK_INT(w.specs[1].arrival_ns, 620 * NS_PER_MS);
	CHECK_INT(w.specs[2].arrival_ns, 12500000);
	CHECK_INT(w.specs[3].arrival_ns, 4 * NS_PER_MS);
}

/* Seconds at which each span began and ended, in the order of the file. */
static void must_read_spans(const double *times, int n)
{
	char text[8192];
	size_t at = (size_t)sprintf(text, "{\"spans\": [");
	for (int i = 0; i < n; i++)
		at += (size_t)sprintf(text + at,
				      "%s{\"span_id\": \"%c\", \"start_time\": \"2026-01-01T00:00:%06.3f\", "
				      "\"end_time\": \"2026-01-01T00:00:%06.3f\", \"attributes\": "
				      "{\"gen_ai.operation.name\": \"chat\", \"gen_ai.usage.input_tokens\": 5, "
				      "\"gen_ai.usage.output_tokens\": 5}}",
				      i ? "," : "", 'a' + i, times[2 * i], times[2 * i + 1]);
	sprintf(text + at, "]}");
	must_read(text, n);
}

static void spans_fan_out_and_join_by_their_times(void)
{
	/* a, then b, c and d, of which c begins before b has ended; e after all of them; f while e runs */
	static const double times[] = {0, 1, 1.5, 3, 2, 4, 2.25, 3.5, 5, 7, 5.5, 6};
	fresh();
	must_read_spans(times, 6);
	CHECK_STR(report.format_name, "otel");
	CU_ASSERT_TRUE(waits("1/b", "1/a") && waits("1/c", "1/a") && waits("1/d", "1/a"));
	CU_ASSERT_TRUE(waits("1/e", "1/b") && waits("1/e", "1/c") && waits("1/e", "1/d"));
	CU_ASSERT_TRUE(!waits("1/e", "1/a") && !waits("1/c", "1/b") && !waits("1/f", "1/e"));
	CHECK_INT(w.specs[find("1/e")].arrival_ns, NS_PER_S); /* c ended at 4 */
	CHECK_INT(w.specs[find("1/d")].arrival_ns, 1250 * NS_PER_MS);
}

/* Playing the graph with the recorded durations gives the recorded times. */
static void spans_replay_as_they_were_recorded(void)
{
	double times[40];
	uint64_t seed = 7;
	fresh();
	for (int round = 0; round < 50; round++) {
		for (int i = 0; i < 20; i++) {
			seed = seed * 6364136223846793005u + 1442695040888963407u;
			times[2 * i] = (double)(seed >> 33) / (double)(1u << 31) * 20;
			times[2 * i] = (double)(int)(times[2 * i] * 1000) / 1000;
			seed = seed * 6364136223846793005u + 1442695040888963407u;
			times[2 * i + 1] = times[2 * i] + (double)(seed >> 53) / 1000;
		}
		must_read_spans(times, 20);
		int64_t end[20] = {0}, begin = INT64_MAX;
		for (int i = 0; i < 20; i++)
			begin = (int64_t)(times[2 * i] * 1e9 + 0.5) < begin ? (int64_t)(times[2 * i] * 1e9 + 0.5)
									    : begin;
		for (int64_t k = 0; k < w.n; k++) {
			char buf[24];
			int i = workload_name(&w, k, buf)[2] - 'a';
			int64_t start = (w.n_parents && w.n_parents[k] ? end[k] : 0) + w.specs[k].arrival_ns;
			int64_t took = (int64_t)((times[2 * i + 1] - times[2 * i]) * 1000 + 0.5) * NS_PER_MS;
			CHECK_INT(start, (int64_t)(times[2 * i] * 1000 + 0.5) * NS_PER_MS - begin);
			took += took == 0;
			for (int64_t c = w.child_at ? w.child_at[k] : 0; w.child_at && c < w.child_at[k + 1]; c++)
				if (end[w.child[c]] < start + took)
					end[w.child[c]] = start + took;
		}
	}
}

static void messages_are_the_content_of_spans(void)
{
	fresh();
	CHECK_INT(trace_load("tests/corpus/otel/good.json", &options, &w, &report, &e), ERR_NONE);
	CU_ASSERT_FATAL(w.n == 2);
	CHECK_INT(report.dropped, 2);
	CHECK_INT(report.rows, 4);
	const struct spec *a = &w.specs[find("1/a")], *b = &w.specs[find("1/b")];
	CHECK_INT(a->prompt_tokens, trace_estimate_tokens("Is C quick?", 11));
	CHECK_INT(a->output_tokens, trace_estimate_tokens("Rust and C are both quick.", 26));
	CHECK_INT(b->n_hashes, 3);
	CHECK_INT(shared(a, b), a->prompt_tokens);
	CHECK_INT(w.hash_ids[b->hash_at + 1], (long long)a->output_id);
	CHECK_INT(w.seg_tokens[b->hash_at + 1], a->output_tokens);
	CHECK_INT(b->max_tokens, 500);
	CHECK_INT(b->arrival_ns, NS_PER_S / 2);
	options.keep_failed = true;
	workload_free(&w);
	CHECK_INT(trace_load("tests/corpus/otel/good.json", &options, &w, &report, &e), ERR_NONE);
	CHECK_INT(w.n, 3);
}

static void enough_calls_end_a_workflow_early(void)
{
	static const double times[] = {0, 1, 1.5, 3, 4, 5};
	fresh();
	options.num_prompts = 2;
	must_read_spans(times, 2);
	CU_ASSERT_FALSE(report.stopped_early);
	workload_free(&w);
	CHECK_INT(trace_load("tests/corpus/otel/good.json", &options, &w, &report, &e), ERR_NONE);
	options.num_prompts = 1;
	workload_free(&w);
	CHECK_INT(trace_load("tests/corpus/otel/good.json", &options, &w, &report, &e), ERR_NONE);
	CHECK_INT(w.n, 1);
	CU_ASSERT_TRUE(report.stopped_early);
}

/* What was read can be written as our own format and is the same again. */
static void writes_and_reads_back(void)
{
	struct workload again = {0};
	struct writer_loss loss;
	const char *path = temp_path("again.jsonl");
	CHECK_INT(writer_file(path, WRITER_LOCKSTEP, &w, &loss, &e), ERR_NONE);
	CHECK_INT(trace_load(path, NULL, &again, NULL, &e), ERR_NONE);
	CHECK_STR(e.text, "");
	CHECK_INT(workload_hash(&again), (long long)workload_hash(&w));
	workload_free(&again);
}

static bool real(const char *path, const char *format, int64_t n, int64_t inputs, int64_t outputs, int64_t links)
{
	const char *file = shared_data(path);
	int64_t in = 0, out = 0;
	fresh();
	if (!file) {
		test_skip("no shared data");
		return false;
	}
	CHECK_INT(trace_load(file, NULL, &w, &report, &e), ERR_NONE);
	CHECK_STR(e.text, "");
	CHECK_STR(report.format_name, format);
	CHECK_INT(w.n, n);
	for (int64_t i = 0; i < w.n; i++) {
		in += w.specs[i].prompt_tokens;
		out += w.specs[i].output_tokens;
	}
	CHECK_INT(in, inputs);
	CHECK_INT(out, outputs);
	CHECK_INT(w.child_at ? w.child_at[w.n] : 0, links);
	writes_and_reads_back();
	return true;
}

static void real_files_keep_all_their_tokens(void)
{
	/* Of the tree: 16 tokens a node, and two thirds of the characters, rounded up node by node. */
	if (!real("traces/agentic/tree_of_thought_game24_nodes.csv", "tot", 8412, 381708, 153138, 8412 - 947))
		return;
	real("traces/agentic/openhands_rounds.csv", "openhands", 105, 1913342, 13341, 102);
	real("traces/agentic/tracelab_sessions.csv", "tracelab", 303, 1150397, 58678, 303 - 48);
	real("traces/agentic/otel/prefix_sharing_example.json", "otel", 7, 1065, 280, 6);
}

static void real_fan_in_joins(void)
{
	if (!shared_data("traces/agentic/otel/fan_in_dependencies.json")) {
		test_skip("no shared data");
		return;
	}
	fresh();
	CHECK_INT(trace_load(shared_data("traces/agentic/otel/fan_in_dependencies.json"), NULL, &w, &report, &e),
		  ERR_NONE);
	CU_ASSERT_FATAL(w.n == 4);
	CU_ASSERT_TRUE(waits("1/span_004", "1/span_002") && waits("1/span_004", "1/span_003"));
	CHECK_INT(w.specs[3].arrival_ns, NS_PER_S);
	writes_and_reads_back();
}

static const struct test tests[] = {
	{"a_thought_repeats_the_thoughts_before_it", a_thought_repeats_the_thoughts_before_it},
	{"a_deep_tree_stays_small", a_deep_tree_stays_small},
	{"rounds_wait_for_the_tool_before_them", rounds_wait_for_the_tool_before_them},
	{"condensed_prompts_keep_what_they_can", condensed_prompts_keep_what_they_can},
	{"spans_fan_out_and_join_by_their_times", spans_fan_out_and_join_by_their_times},
	{"spans_replay_as_they_were_recorded", spans_replay_as_they_were_recorded},
	{"messages_are_the_content_of_spans", messages_are_the_content_of_spans},
	{"enough_calls_end_a_workflow_early", enough_calls_end_a_workflow_early},
	{"real_files_keep_all_their_tokens", real_files_keep_all_their_tokens},
	{"real_fan_in_joins", real_fan_in_joins},
};

int main(void)
{
	int failed = SUITE_RUN("traces_agentic", tests);
	workload_free(&w);
	return failed;
}
