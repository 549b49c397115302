/* The right values out of each trace format, the traps of the formats, and the real traces' totals. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "core/err.h"
#include "core/mem.h"
#include "core/workload.h"
#include "tests/support/suite.h"
#include "traces/reader.h"

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

/* Reads a text with `options`; returns the code. */
static int reads(const char *text)
{
	workload_free(&w);
	err_clear(&e);
	return trace_load_memory("trace", text, strlen(text), &options, &w, &report, &e);
}

static void must_read(const char *text, int64_t n)
{
	CHECK_INT(reads(text), ERR_NONE);
	CHECK_STR(e.text, "");
	CHECK_INT(w.n, n);
	CU_ASSERT_FATAL(w.n == n);
	CHECK_INT(report.kept, n);
	CHECK_INT(report.rows, report.kept + report.dropped);
}

static void check_request(int64_t i, int64_t arrival_ns, int32_t prompt, int32_t output)
{
	CHECK_INT(w.specs[i].arrival_ns, arrival_ns);
	CHECK_INT(w.specs[i].prompt_tokens, prompt);
	CHECK_INT(w.specs[i].output_tokens, output);
}

static int64_t dropped_by(const char *rule)
{
	for (int32_t i = 0; i < report.n_rules; i++)
		if (!strcmp(report.rules[i].name, rule))
			return report.rules[i].rows;
	return 0;
}

static int64_t parents_of(int64_t i)
{
	return w.n_parents ? w.n_parents[i] : 0;
}

#define AZURE "TIMESTAMP,ContextTokens,GeneratedTokens\n"

static void azure_times_are_exact_in_every_spelling(void)
{
	fresh();
	must_read(AZURE "2023-11-16 18:15:46.6805900,374,44\n"
			"2023-11-16 18:15:47,396,109\n"
			"2023-11-16 18:15:47.5,1,2\r\n"
			"2024-05-10 00:00:00.009930+00:00,5,6\n"
			"2024-05-10T00:00:01.123456789Z,7,8\n"
			"2024-05-10 02:00:02+02:00,9,0",
		  6);
	CHECK_INT(report.first_ns, INT64_C(1700158546680590000));
	check_request(0, 0, 374, 44);
	check_request(1, 319410000, 396, 109);
	check_request(2, 819410000, 1, 2);
	CHECK_INT(w.specs[3].arrival_ns + report.first_ns, INT64_C(1715299200009930000));
	CHECK_INT(w.specs[4].arrival_ns + report.first_ns, INT64_C(1715299201123456789));
	CHECK_INT(w.specs[5].arrival_ns + report.first_ns, INT64_C(1715299202000000000));
	CHECK_INT(report.zero_outputs, 1);
	CHECK_INT(w.specs[5].row, 7);
	CU_ASSERT_FALSE(report.unsorted);
}

static void columns_go_by_name_whatever_their_order(void)
{
	fresh();
	must_read("Model,generatedtokens,\"TIMESTAMP\",ContextTokens,more\n"
		  "\"a, b\",7,2023-11-16 18:15:47,9,\n\nx,8,\"2023-11-16 18:15:46\",10,\"say \"\"so\"\"\"\n",
		  2);
	check_request(0, 0, 10, 8);
	check_request(1, NS_PER_S, 9, 7);
	CU_ASSERT_TRUE(report.unsorted);
	CHECK_INT(w.specs[0].row, 4);
}

static void ties_keep_the_order_of_the_file(void)
{
	fresh();
	must_read("arrived_at,num_prefill_tokens,num_decode_tokens\n2,1,1\n1,2,1\n2,3,1\n1,4,1\n1,5,1\n", 5);
	static const int prompts[] = {2, 4, 5, 1, 3};
	for (int i = 0; i < 5; i++)
		CHECK_INT(w.specs[i].prompt_tokens, prompts[i]);
	CHECK_INT(report.first_ns, NS_PER_S);
	CU_ASSERT_TRUE(report.unsorted);
}

static void decimal_times_become_nanoseconds_without_floats(void)
{
	fresh();
	must_read("arrived_at,num_prefill_tokens,num_decode_tokens\n0,1,1\n1e-9,1,1\n2.5E-5,1,1\n0.1,1,1\n"
		  "1234567.123456789,1,1\n4503599.6273704960000001,1,1\n",
		  6);
	static const int64_t ns[] = {0, 1, 25000, 100000000, INT64_C(1234567123456789), INT64_C(4503599627370496)};
	for (int i = 0; i < 6; i++)
		CHECK_INT(w.specs[i].arrival_ns, ns[i]);
}

/* Cells of up to 7 digits are read in another way than longer ones. */
static void numbers_are_exact_whatever_their_length(void)
{
	char text[200];
	int64_t tokens = 0, seconds = 0;
	fresh();
	for (int n = 1; n <= 10; n++) {
		tokens = n <= 9 ? tokens * 10 + n : 1000000000;
		int64_t ns = 0, unit = 1000000000;
		for (int m = 0; m <= 9; m++) {
			seconds = m ? seconds : seconds * 10 + n % 10;
			int at = snprintf(text, sizeof text,
					  "arrived_at,num_prefill_tokens,num_decode_tokens\n0,1,1\n%lld%s",
					  (long long)seconds, m ? "." : "");
			for (int k = 1; k <= m; k++)
				text[at++] = (char)('0' + (k + n) % 10);
			unit /= m ? 10 : 1;
			ns += m ? (m + n) % 10 * unit : 0;
			snprintf(text + at, sizeof text - (size_t)at, ",%lld,%lld%s", (long long)tokens,
				 (long long)(tokens % 1000), m % 2 ? "" : "\r\n");
			must_read(text, 2);
			check_request(1, seconds * 1000000000 + ns, (int32_t)tokens, (int32_t)(tokens % 1000));
		}
	}
	CHECK_INT(reads("num_prefill_tokens,num_decode_tokens\n1234567,12a\n"), ERR_INPUT);
	CU_ASSERT_PTR_NOT_NULL(strstr(e.text, "\"12a\" is not a whole number"));
	CHECK_INT(reads(AZURE "2023-11-16 18:15:4/,1,1\n"), ERR_INPUT);
	CHECK_INT(reads(AZURE "2023-11-1: 18:15:46,1,1\n"), ERR_INPUT);
	CHECK_INT(reads(AZURE "2023-11/16 18:15:46,1,1\n"), ERR_INPUT);
	CHECK_INT(reads(AZURE "2023-11-16 18:15:46.,1,1\n"), ERR_INPUT);
	CHECK_INT(reads(AZURE "2023-02-29 18:15:46.5,1,1\n"), ERR_INPUT);
	CU_ASSERT_PTR_NOT_NULL(strstr(e.text, "is no date and time that exists"));
}

static void milliseconds_and_seconds_are_the_formats_own(void)
{
	fresh();
	must_read("{\"timestamp\": 1000, \"input_length\": 5, \"output_length\": 1, \"hash_ids\": [1]}\n"
		  "{\"timestamp\": 46926.808, \"input_length\": 5, \"output_length\": 1, \"hash_ids\": [1]}\n",
		  2);
	CHECK_STR(report.format_name, "mooncake");
	CHECK_INT(report.first_ns, NS_PER_S);
	CHECK_INT(w.specs[1].arrival_ns, INT64_C(45926808000));
	must_read("{\"chat_id\": 1, \"parent_chat_id\": -1, \"timestamp\": 1000, \"input_length\": 5, "
		  "\"output_length\": 1}\n"
		  "{\"chat_id\": 2, \"parent_chat_id\": -1, \"timestamp\": 1000.5, \"input_length\": 5, "
		  "\"output_length\": 1}\n",
		  2);
	CHECK_STR(report.format_name, "bailian");
	CHECK_INT(report.first_ns, 1000 * NS_PER_S);
	CHECK_INT(w.specs[1].arrival_ns, NS_PER_S / 2);
}

static void hash_ids_of_64_bits_survive(void)
{
	fresh();
	must_read(
		"{\"timestamp\": 0, \"input_length\": 2048, \"output_length\": 1, \"hash_ids\": [18446744073709551615, "
		"9223372036854775809,9007199254740993, -1]}\n",
		1);
	CU_ASSERT_EQUAL(w.hash_ids[0], UINT64_MAX);
	CU_ASSERT_EQUAL(w.hash_ids[1], UINT64_C(9223372036854775809));
	CU_ASSERT_EQUAL(w.hash_ids[2], UINT64_C(9007199254740993));
	CU_ASSERT_EQUAL(w.hash_ids[3], UINT64_MAX);
	CHECK_INT(w.hash_block, 512);
}

#define MOON(t, in, out, ids)                                                                                          \
	"{\"timestamp\": " #t ", \"input_length\": " #in ", \"output_length\": " #out ", \"hash_ids\": [" ids "]}\n"

static void block_size_other_than_usual_is_found_and_said(void)
{
	fresh();
	const char *full = MOON(0, 47, 1, "1, 2") MOON(0, 15, 1, "") MOON(1, 100, 0, "1, 3, 4, 5, 6, 7");
	must_read(full, 3);
	CHECK_INT(w.hash_block, 16);
	CU_ASSERT_TRUE(report.hash_floor);
	CU_ASSERT_PTR_NOT_NULL(strstr(report.notes[0], "blocks of 16 tokens"));
	options.hash_block = 16;
	must_read(full, 3);
	CHECK_INT(report.n_notes, 1); /* that ids are of full blocks only */
	options.hash_block = 512;
	CHECK_INT(reads(full), ERR_INPUT);
	CU_ASSERT_PTR_NOT_NULL(strstr(e.text, "trace:1: hash_ids: 2 ids"));
	/* Full blocks of 16 or begun ones of 32: no guess. */
	options.hash_block = 0;
	CHECK_INT(reads(MOON(0, 47, 1, "1, 2") MOON(1, 33, 1, "1, 3")), ERR_INPUT);
}

static void rows_at_odds_with_the_block_size_are_bad_rows(void)
{
	fresh();
	const char *text = MOON(5, 1024, 1, "1, 2") MOON(6, 600, 1, "1, 2, 3") MOON(7, 513, 1, "1, 4");
	CHECK_INT(reads(text), ERR_INPUT);
	CU_ASSERT_PTR_NOT_NULL(strstr(e.text, "trace:2: hash_ids: 3 ids"));
	options.on_bad_row = TRACE_BAD_ROW_SKIP;
	must_read(text, 2);
	CHECK_INT(dropped_by("bad row"), 1);
	CU_ASSERT_PTR_NOT_NULL(strstr(report.first_bad, "trace:2: hash_ids"));
	check_request(1, 2 * NS_PER_MS, 513, 1);
}

static void bad_rows_are_skipped_and_counted_when_asked(void)
{
	fresh();
	options.on_bad_row = TRACE_BAD_ROW_SKIP;
	must_read(MOON(0, 100, 1, "1") MOON(1, 100, 1, "2, 3.5") MOON(9, 0, 1, "") "{oops\n" MOON(2, 100, 1, "7"), 2);
	CHECK_INT(dropped_by("bad row"), 3);
	/* What a bad row had added is gone. */
	CHECK_INT(w.n_hash_ids, 2);
	CU_ASSERT_EQUAL(w.hash_ids[w.specs[1].hash_at], 7);
	CU_ASSERT_PTR_NOT_NULL(strstr(report.first_bad, "trace:2: hash_ids: entry 2 is not a whole number"));
}

static void burstgpt_failures_are_dropped_by_name(void)
{
	fresh();
	const char *text =
		"Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
		"5,s1,3.1,ChatGPT,472,18,490,Conversation log\n7,s2,1,GPT-4,10,0,10,API log\n"
		"9.25,s1,1,GPT-4,600,30,630,API log\n";
	must_read(text, 2);
	CHECK_STR(report.format_name, "burstgpt");
	CHECK_INT(dropped_by("failed (no response tokens)"), 1);
	check_request(1, INT64_C(4250000000), 600, 30);
	CHECK_INT(w.specs[0].session, w.specs[1].session);
	options.keep_failed = true;
	must_read(text, 3);
	CHECK_INT(report.zero_outputs, 1);
}

static void vidur_lengths_alone_have_no_arrivals(void)
{
	fresh();
	must_read("num_prefill_tokens,num_decode_tokens,num_total_tokens,pd_ratio\n74,918,992,0.08\n290,905,1195,0.3\n",
		  2);
	CU_ASSERT_FALSE(report.has_arrivals);
	check_request(1, 0, 290, 905);
}

/* Bailian's inputs are whole prompts: what is replayed is what the file says. */
static void cumulative_inputs_are_no_deltas(void)
{
	fresh();
	must_read(
		"{\"chat_id\": 1, \"parent_chat_id\": -1, \"timestamp\": 1, \"input_length\": 20, \"output_length\": "
		"9, "
		"\"type\": \"text\", \"hash_ids\": [7, 8]}\n"
		"{\"chat_id\": 2, \"parent_chat_id\": 1, \"timestamp\": 9.5, \"input_length\": 50, \"output_length\": "
		"9, "
		"\"type\": \"file\", \"hash_ids\": [7, 8, 9, 10]}\n"
		"{\"chat_id\": 3, \"parent_chat_id\": -1, \"timestamp\": 2, \"input_length\": 4, \"output_length\": 9, "
		"\"type\": \"text\", \"hash_ids\": [11]}\n"
		"{\"chat_id\": 4, \"parent_chat_id\": 2, \"timestamp\": 20, \"input_length\": 90, \"output_length\": "
		"1, "
		"\"type\": \"text\", \"hash_ids\": [7, 8, 9, 10, 12, 13]}\n",
		4);
	CHECK_INT(w.hash_block, 16);
	check_request(0, 0, 20, 9);
	check_request(1, NS_PER_S, 4, 9);
	check_request(2, INT64_C(8500000000), 50, 9);
	check_request(3, 19 * NS_PER_S, 90, 1);
	CU_ASSERT_PTR_NULL(w.n_parents);
	CHECK_INT(w.specs[0].session, w.specs[2].session);
	CHECK_INT(w.specs[0].session, w.specs[3].session);
	CU_ASSERT(w.specs[0].session != w.specs[1].session);
	CHECK_STR(w.tenants[w.specs[2].tenant], "file");
	char buf[24];
	CHECK_STR(workload_name(&w, 2, buf), "2");
}

static void bailian_orphans_start_conversations_when_bad_rows_are_skipped(void)
{
	fresh();
	const char *text = "{\"chat_id\": 1, \"parent_chat_id\": 55, \"timestamp\": 1, \"input_length\": 20, "
			   "\"output_length\": 9}\n"
			   "{\"chat_id\": 2, \"parent_chat_id\": 1, \"timestamp\": 2, \"input_length\": 20, "
			   "\"output_length\": 9}\n";
	CHECK_INT(reads(text), ERR_INPUT);
	options.on_bad_row = TRACE_BAD_ROW_SKIP;
	must_read(text, 2);
	CHECK_INT(w.specs[0].session, w.specs[1].session);
	CHECK_INT(report.n_notes, 1);
}

static void single_turns_are_not_one_conversation(void)
{
	fresh();
	must_read("{\"prompt\": \"What is the capital of France?\", \"output_tokens\": 10}\n"
		  "{\"prompt\": \"And of Spain, if I may ask?\", \"output_tokens\": 11}\n",
		  2);
	CHECK_STR(report.format_name, "aiperf");
	CU_ASSERT_PTR_NULL(w.n_parents);
	CHECK_INT(w.specs[0].session, -1);
	CHECK_INT(w.specs[1].session, -1);
	CU_ASSERT_TRUE(report.lengths_estimated);
	CU_ASSERT_FALSE(report.has_arrivals);
}

static void aiperf_goes_by_time_if_the_first_row_has_one(void)
{
	fresh();
	must_read("{\"timestamp\": 1000, \"session_id\": \"a\", \"input_length\": 100, \"output_length\": 10}\n"
		  "{\"timestamp\": 1500.25, \"session_id\": \"b\", \"input_length\": 30, \"output_length\": 3}\n"
		  "{\"session_id\": \"a\", \"delay\": 250, \"input_length\": 210, \"output_length\": 20}\n"
		  "{\"timestamp\": 1700, \"session_id\": \"b\", \"input_length\": 60, \"output_length\": 6}\n",
		  4);
	CU_ASSERT_TRUE(report.has_arrivals);
	int64_t prompts = 0, linked = 0;
	for (int i = 0; i < 4; i++) {
		prompts += w.specs[i].prompt_tokens;
		if (!parents_of(i))
			continue;
		linked++;
		check_request(i, 250 * NS_PER_MS, 210, 20);
	}
	CHECK_INT(prompts, 400);
	CHECK_INT(linked, 1);
	check_request(0, 0, 100, 10);
}

static void aiperf_sessions_without_times_go_turn_by_turn(void)
{
	fresh();
	must_read("{\"session_id\": \"a\", \"text\": \"hello there my friend\", \"output_length\": 10}\n"
		  "{\"session_id\": 7, \"text\": \"hello there my friend\", \"output_length\": 10}\n"
		  "{\"session_id\": \"a\", \"text\": \"and what now?\", \"output_length\": 20, \"delay\": 3}\n",
		  3);
	CU_ASSERT_FALSE(report.has_arrivals);
	int64_t k = -1;
	for (int64_t i = 0; i < 3; i++)
		if (parents_of(i))
			k = i;
	CU_ASSERT_FATAL(k > 0);
	/* The prompt is the conversation so far and the new words. */
	int64_t first = trace_estimate_tokens("hello there my friend", 21),
		now = trace_estimate_tokens("and what now?", 13);
	check_request(k, 3 * NS_PER_MS, (int32_t)(first + 10 + now), 20);
	CHECK_INT(w.specs[k].n_hashes, 3);
	int64_t at = w.specs[k].hash_at;
	CU_ASSERT_EQUAL(w.hash_ids[at], w.hash_ids[w.specs[0].hash_at]);
	CU_ASSERT_EQUAL(w.hash_ids[at + 1], w.specs[0].output_id);
	CHECK_INT(w.seg_tokens[at + 1], 10);
	CU_ASSERT(w.specs[0].output_id != w.specs[k == 1 ? 2 : 1].output_id);
}

static void aiperf_turns_behind_a_bad_one_are_dropped_with_it(void)
{
	fresh();
	options.on_bad_row = TRACE_BAD_ROW_SKIP;
	must_read("{\"session_id\": 1, \"input_length\": 600, \"output_length\": 1, \"hash_ids\": [1, 2]}\n"
		  "{\"session_id\": 2, \"input_length\": 600, \"output_length\": 2, \"hash_ids\": [1, 2, 3]}\n"
		  "{\"session_id\": 2, \"input_length\": 700, \"output_length\": 3, \"hash_ids\": [1, 2]}\n"
		  "{\"session_id\": 1, \"input_length\": 1600, \"output_length\": 4, \"hash_ids\": [1, 2, 3, 4]}\n",
		  2);
	CHECK_INT(dropped_by("bad row"), 1);
	CHECK_INT(dropped_by("waits for a request left out"), 1);
	check_request(0, 0, 600, 1);
	check_request(1, 0, 1600, 4);
	CHECK_INT(parents_of(1), 1);
}

static void native_rows_form_a_graph(void)
{
	fresh();
	must_read("{\"id\": \"join\", \"after\": [\"l\", \"r\"], \"delay_s\": 1.5, \"input_tokens\": 60, "
		  "\"output_tokens\": 6}\n"
		  "{\"id\": \"root\", \"arrival_s\": 2, \"input_tokens\": 40, \"output_tokens\": 4, \"class\": \"x\", "
		  "\"priority\": -2, \"output_id\": 99, \"prefix\": [{\"id\": \"sys\", \"tokens\": 32}]}\n"
		  "{\"id\": \"l\", \"after\": \"root\", \"input_tokens\": 50, \"output_tokens\": 5, \"prefix\": "
		  "[{\"tokens\": 32, "
		  "\"id\": \"sys\"}, {\"id\": 99, \"tokens\": 4}]}\n"
		  "{\"id\": \"r\", \"after\": [\"root\"], \"input_tokens\": 51, \"output_tokens\": 5, \"max_tokens\": "
		  "64}\n",
		  4);
	char buf[24];
	CHECK_STR(workload_name(&w, 0, buf), "root");
	CHECK_STR(workload_name(&w, 3, buf), "join");
	check_request(0, 0, 40, 4);
	check_request(3, INT64_C(1500000000), 60, 6);
	CHECK_INT(parents_of(3), 2);
	CHECK_INT(parents_of(1), 1);
	CHECK_INT(w.specs[0].priority, -2);
	CHECK_STR(w.tenants[w.specs[0].tenant], "x");
	CHECK_INT(w.specs[2].max_tokens, 64);
	CU_ASSERT_EQUAL(w.specs[0].output_id, 99);
	CU_ASSERT_EQUAL(w.hash_ids[w.specs[1].hash_at], w.hash_ids[w.specs[0].hash_at]);
	CU_ASSERT_EQUAL(w.hash_ids[w.specs[1].hash_at + 1], 99);
}

static void native_rows_behind_a_bad_one_are_dropped_with_it(void)
{
	fresh();
	const char *text = "{\"id\": \"a\", \"arrival_s\": 5, \"input_tokens\": 40, \"output_tokens\": 4}\n"
			   "{\"id\": \"b\", \"after\": [\"a\"], \"input_tokens\": \"many\", \"output_tokens\": 4}\n"
			   "{\"id\": \"c\", \"after\": [\"b\"], \"input_tokens\": 40, \"output_tokens\": 4}\n"
			   "{\"id\": \"d\", \"after\": [\"c\", \"a\"], \"input_tokens\": 40, \"output_tokens\": 4}\n"
			   "{\"id\": \"e\", \"after\": [\"a\"], \"input_tokens\": 41, \"output_tokens\": 4}\n"
			   "{\"id\": \"f\", \"after\": [\"g\"], \"input_tokens\": 41, \"output_tokens\": 4}\n"
			   "{\"id\": \"g\", \"after\": [\"f\"], \"input_tokens\": 41, \"output_tokens\": 4}\n";
	options.on_bad_row = TRACE_BAD_ROW_SKIP;
	must_read(text, 2);
	CHECK_INT(dropped_by("bad row"), 1);
	CHECK_INT(dropped_by("waits for a request left out"), 2);
	CHECK_INT(dropped_by("waits in a circle"), 2);
	CHECK_INT(w.specs[1].prompt_tokens, 41);
	CHECK_INT(parents_of(1), 1);
}

#define SAY(from, text) "{\"from\": \"" from "\", \"value\": \"" text "\"}"
#define ASK "Tell me a long story about a small fox, please."
#define TALE "Once upon a time there was a fox who lived at the edge of a wood."

static void sharegpt_filter_drops_by_its_bounds(void)
{
	fresh();
	const char *text = "[{\"id\": \"a\", \"conversations\": [" SAY("human", ASK) "," SAY(
		"gpt", TALE) "]},"
			     "{\"conversations\": [" SAY("human", "Hi") "," SAY(
				     "gpt", TALE) "]},\n"
						  "{\"conversations\": [" SAY("human", ASK) "," SAY(
							  "gpt", "No") "]},\n"
								       "{\"conversations\": [" SAY("human", ASK) "]}]";
	must_read(text, 1);
	CHECK_INT(report.rows, 4);
	CHECK_INT(dropped_by("prompt too short"), 1);
	CHECK_INT(dropped_by("answer too short"), 1);
	CHECK_INT(dropped_by("too few turns"), 1);
	CU_ASSERT_TRUE(w.lengths_estimated);
	CU_ASSERT_FALSE(report.has_arrivals);
	CHECK_INT(w.specs[0].row, 1);
	int32_t prompt = w.specs[0].prompt_tokens, total = prompt + w.specs[0].output_tokens;
	options.sharegpt.max_prompt = prompt;
	options.sharegpt.max_total = total;
	must_read(text, 1);
	options.sharegpt.max_total = total - 1;
	CHECK_INT(reads(text), ERR_INPUT);
	CHECK_INT(dropped_by("prompt and answer too long"), 1);
	options.sharegpt.max_prompt = prompt - 1;
	CHECK_INT(reads(text), ERR_INPUT);
	CHECK_INT(dropped_by("prompt too long"), 1);
	options.sharegpt = (struct trace_sharegpt_options){2, 0, 0, 1024, 2048, false};
	must_read(text, 3);
}

static void sharegpt_turns_grow_one_prompt(void)
{
	fresh();
	options.sharegpt.multi_turn = true;
	must_read(
		"[{\"id\": \"a\", \"conversations\": [" SAY("human", ASK) "," SAY("gpt", TALE) "," SAY(
			"human",
			"And then?") "," SAY("gpt",
					     "The end of it came.") "," SAY("human",
									    "Thanks") "]},"
										      "{\"id\": \"b\", "
										      "\"conversations\": [" SAY(
											      "human",
											      ASK) "," SAY("gpt",
													   "Not now.") "]}]",
		3);
	char buf[24];
	int64_t ask = trace_estimate_tokens(ASK, strlen(ASK)), tale = trace_estimate_tokens(TALE, strlen(TALE));
	int64_t then = trace_estimate_tokens("And then?", 9), end = trace_estimate_tokens("The end of it came.", 19);
	CHECK_STR(workload_name(&w, 0, buf), "1/1");
	CHECK_STR(workload_name(&w, 1, buf), "1/2");
	check_request(0, 0, (int32_t)ask, (int32_t)tale);
	check_request(1, 0, (int32_t)(ask + tale + then), (int32_t)end);
	CHECK_INT(parents_of(1), 1);
	CHECK_INT(parents_of(2), 0);
	CHECK_INT(w.specs[1].n_hashes, 3);
	CU_ASSERT_EQUAL(w.hash_ids[w.specs[1].hash_at + 1], w.specs[0].output_id);
	/* The other conversation begins with the same words and goes on with others. */
	CU_ASSERT_EQUAL(w.hash_ids[w.specs[2].hash_at], w.hash_ids[w.specs[0].hash_at]);
	CU_ASSERT(w.specs[2].output_id != w.specs[0].output_id);
	CHECK_INT(w.specs[0].session, w.specs[1].session);
	CU_ASSERT(w.specs[2].session != w.specs[0].session);
}

/* One token a byte, 1000 before those that begin a prompt. */
static int bytes_as_tokens(void *ctx, const char *s, size_t n, bool first, int32_t **ids, int64_t *count, int64_t *cap,
			   struct err *er)
{
	(void)ctx;
	if (mem_grow((void **)ids, cap, *count + (int64_t)n + 1, sizeof **ids))
		return err_no_memory(er, "tokens");
	if (first)
		(*ids)[(*count)++] = 1000;
	for (size_t i = 0; i < n; i++)
		(*ids)[(*count)++] = (unsigned char)s[i];
	return ERR_NONE;
}

static void check_text(uint64_t id, const char *want, bool first)
{
	int32_t n;
	const int32_t *ids = workload_text(&w, id, &n);
	CHECK_INT(n, (int)strlen(want) + first);
	CU_ASSERT_FATAL(ids != NULL);
	CHECK_INT(ids[0], first ? 1000 : want[0]);
	for (int32_t i = 0; want[i]; i++)
		CHECK_INT(ids[i + first], want[i]);
}

static void text_is_counted_and_kept_by_a_tokenizer(void)
{
	const struct trace_tokenizer t = {.encode = bytes_as_tokens};
	const char *text = "[{\"id\":\"a\",\"conversations\":[{\"from\":\"human\",\"value\":\"hello\"},"
			   "{\"from\":\"gpt\",\"value\":\"good day\"},{\"from\":\"human\",\"value\":\"bye\"},"
			   "{\"from\":\"gpt\",\"value\":\"so long\"}]}]";
	fresh();
	options.tokenizer = &t;
	must_read(text, 1);
	CHECK_INT(w.specs[0].prompt_tokens, 6);
	CHECK_INT(w.specs[0].output_tokens, 8);
	CHECK_INT(w.lengths_estimated, 0);
	check_text(w.hash_ids[w.specs[0].hash_at], "hello", true);

	options.sharegpt.multi_turn = true;
	must_read(text, 2);
	CHECK_INT(w.specs[1].prompt_tokens, 6 + 8 + 3);
	check_text(w.hash_ids[w.specs[1].hash_at + 2], "bye", false);
	check_text(w.specs[0].output_id, "good day", false);

	must_read("{\"text\":\"hi\",\"output_length\":3}\n", 1);
	CHECK_INT(w.specs[0].prompt_tokens, 3);
	check_text(w.hash_ids[w.specs[0].hash_at], "hi", true);
	int32_t n;
	CU_ASSERT(workload_text(&w, 12345, &n) == NULL);
	fresh();
}

static void gzip_reads_as_plain_and_missing_files_are_said(void)
{
	fresh();
	const char *text = MOON(0, 100, 1, "1") MOON(5, 100, 1, "2");
	must_read(text, 2);
	uint64_t plain = workload_hash(&w);
	const char *path = temp_path("trace.jsonl.gz");
	/* Two members, as `cat a.gz b.gz` makes. */
	for (int i = 0; i < 2; i++) {
		gzFile f = gzopen(path, i ? "ab" : "wb");
		CU_ASSERT_FATAL(f != NULL);
		gzputs(f, i ? MOON(5, 100, 1, "2") : MOON(0, 100, 1, "1"));
		gzclose(f);
	}
	workload_free(&w);
	CHECK_INT(trace_load(path, &options, &w, &report, &e), ERR_NONE);
	CHECK_INT(w.n, 2);
	CU_ASSERT_EQUAL(workload_hash(&w), plain);
	workload_free(&w);
	CHECK_INT(trace_load(temp_path("nothing-here"), NULL, &w, NULL, &e), ERR_INPUT);
	CU_ASSERT_PTR_NOT_NULL(strstr(e.text, "cannot open: No such file"));
	err_clear(&e);
	CHECK_INT(trace_load(temp_dir(), NULL, &w, NULL, &e), ERR_INPUT);
	CU_ASSERT_PTR_NOT_NULL(strstr(e.text, "is a folder"));
}

static void num_prompts_stops_early_but_the_hash_covers_the_file(void)
{
	fresh();
	const char *text = MOON(0, 100, 1, "1") MOON(5, 100, 1, "2") "{broken\n";
	CHECK_INT(reads(text), ERR_INPUT);
	options.num_prompts = 2;
	must_read(text, 2);
	CU_ASSERT_TRUE(report.stopped_early);
	CHECK_INT(report.bytes, strlen(text));
	uint64_t hash = report.source_hash;
	options.num_prompts = 1;
	must_read(text, 1);
	CU_ASSERT_EQUAL(report.source_hash, hash);
	options.num_prompts = 2;
	must_read(MOON(0, 100, 1, "1") MOON(5, 100, 1, "2") "\n", 2);
	CU_ASSERT_FALSE(report.stopped_early);
	CU_ASSERT(report.source_hash != hash);
}

static void an_element_of_megabytes_is_one_row(void)
{
	fresh();
	size_t big = 5 * 1024 * 1024;
	char *text = malloc(big + 400);
	CU_ASSERT_FATAL(text != NULL);
	size_t n = (size_t)sprintf(text, "[{\"id\": \"");
	memset(text + n, 'x', big);
	n += big;
	sprintf(text + n, "\\\"}\", \"conversations\": [" SAY("human", ASK) "," SAY("gpt", TALE) "]}]");
	options.format = TRACE_SHAREGPT;
	must_read(text, 1);
	free(text);
}

static void format_names_list_the_nearest(void)
{
	enum trace_format f;
	err_clear(&e);
	CHECK_INT(trace_format_find("MoonCake", &f, &e), ERR_NONE);
	CHECK_INT(f, TRACE_MOONCAKE);
	CHECK_INT(trace_format_find("auto", &f, &e), ERR_NONE);
	CHECK_INT(f, TRACE_AUTO);
	CHECK_INT(trace_format_find("azzure", &f, &e), ERR_INPUT);
	CU_ASSERT_PTR_NOT_NULL(strstr(e.text, "did you mean azure?"));
}

static void estimate_is_near_a_tokenizer(void)
{
	/* Counts by Llama 3's tokenizer. */
	static const struct {
		const char *text;
		int tokens;
	} known[] = {
		{"The quick brown fox jumps over the lazy dog.", 10},
		{"Write a letter to the customer, please, and tell them that our product ships next month.", 19},
		{"", 0},
	};
	for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
		CHECK_NEAR((double)trace_estimate_tokens(known[i].text, strlen(known[i].text)), known[i].tokens, 2);
}

static void real(const char *path, const char *format, int64_t n, int64_t prompts, int64_t outputs)
{
	const char *file = shared_data(path);
	if (!file) {
		test_skip("no shared data");
		return;
	}
	workload_free(&w);
	err_clear(&e);
	CHECK_INT(trace_load(file, &options, &w, &report, &e), ERR_NONE);
	CHECK_STR(report.format_name, format);
	int64_t in = 0, out = 0;
	for (int64_t i = 0; i < w.n; i++) {
		in += w.specs[i].prompt_tokens;
		out += w.specs[i].output_tokens;
	}
	CHECK_INT(w.n, n);
	CHECK_INT(in, prompts);
	CHECK_INT(out, outputs);
	CHECK_INT(report.dropped, 0);
	CU_ASSERT_FALSE(report.unsorted);
}

static void real_traces_keep_all_their_tokens(void)
{
	fresh();
	real("traces/AzureLLMInferenceTrace_conv.csv", "azure", 19366, 22361870, 4088665);
	real("traces/AzureLLMInferenceTrace_code.csv", "azure", 8819, 18059974, 245896);
	real("traces/sharegpt_lengths_llama2.csv", "vidur", 30731, 71911571, 13481988);
}

static void real_hash_traces_have_their_ideal_hit_ratio(void)
{
	fresh();
	int64_t total, distinct;
	real("traces/mooncake_conversation.jsonl", "mooncake", 12031, 144793823, 4122048);
	if (!w.n)
		return;
	workload_ideal_hits(&w, &total, &distinct, &e);
	CHECK_NEAR(1 - (double)distinct / (double)total, 0.366, 0.0005);
	real("traces/mooncake_synthetic.jsonl", "mooncake", 3993, 61194628, 595432);
	workload_ideal_hits(&w, &total, &distinct, &e);
	CHECK_NEAR(1 - (double)distinct / (double)total, 0.640, 0.0005);
	real("traces/sharegpt_300_hashed.jsonl", "mooncake", 300, 257239, 195753);
	workload_ideal_hits(&w, &total, &distinct, &e);
	CHECK_INT(total, 15942);
	CHECK_INT(total - distinct, 1220);
	CHECK_INT(w.hash_block, 16);
	CU_ASSERT_TRUE(report.hash_floor);
}

static const struct test tests[] = {
	{"azure_times_are_exact_in_every_spelling", azure_times_are_exact_in_every_spelling},
	{"columns_go_by_name_whatever_their_order", columns_go_by_name_whatever_their_order},
	{"ties_keep_the_order_of_the_file", ties_keep_the_order_of_the_file},
	{"decimal_times_become_nanoseconds_without_floats", decimal_times_become_nanoseconds_without_floats},
	{"numbers_are_exact_whatever_their_length", numbers_are_exact_whatever_their_length},
	{"milliseconds_and_seconds_are_the_formats_own", milliseconds_and_seconds_are_the_formats_own},
	{"hash_ids_of_64_bits_survive", hash_ids_of_64_bits_survive},
	{"block_size_other_than_usual_is_found_and_said", block_size_other_than_usual_is_found_and_said},
	{"rows_at_odds_with_the_block_size_are_bad_rows", rows_at_odds_with_the_block_size_are_bad_rows},
	{"bad_rows_are_skipped_and_counted_when_asked", bad_rows_are_skipped_and_counted_when_asked},
	{"burstgpt_failures_are_dropped_by_name", burstgpt_failures_are_dropped_by_name},
	{"vidur_lengths_alone_have_no_arrivals", vidur_lengths_alone_have_no_arrivals},
	{"cumulative_inputs_are_no_deltas", cumulative_inputs_are_no_deltas},
	{"bailian_orphans_start_conversations_when_bad_rows_are_skipped",
	 bailian_orphans_start_conversations_when_bad_rows_are_skipped},
	{"single_turns_are_not_one_conversation", single_turns_are_not_one_conversation},
	{"aiperf_goes_by_time_if_the_first_row_has_one", aiperf_goes_by_time_if_the_first_row_has_one},
	{"aiperf_sessions_without_times_go_turn_by_turn", aiperf_sessions_without_times_go_turn_by_turn},
	{"aiperf_turns_behind_a_bad_one_are_dropped_with_it", aiperf_turns_behind_a_bad_one_are_dropped_with_it},
	{"native_rows_form_a_graph", native_rows_form_a_graph},
	{"native_rows_behind_a_bad_one_are_dropped_with_it", native_rows_behind_a_bad_one_are_dropped_with_it},
	{"sharegpt_filter_drops_by_its_bounds", sharegpt_filter_drops_by_its_bounds},
	{"sharegpt_turns_grow_one_prompt", sharegpt_turns_grow_one_prompt},
	{"text_is_counted_and_kept_by_a_tokenizer", text_is_counted_and_kept_by_a_tokenizer},
	{"gzip_reads_as_plain_and_missing_files_are_said", gzip_reads_as_plain_and_missing_files_are_said},
	{"num_prompts_stops_early_but_the_hash_covers_the_file", num_prompts_stops_early_but_the_hash_covers_the_file},
	{"an_element_of_megabytes_is_one_row", an_element_of_megabytes_is_one_row},
	{"format_names_list_the_nearest", format_names_list_the_nearest},
	{"estimate_is_near_a_tokenizer", estimate_is_near_a_tokenizer},
	{"real_traces_keep_all_their_tokens", real_traces_keep_all_their_tokens},
	{"real_hash_traces_have_their_ideal_hit_ratio", real_hash_traces_have_their_ideal_hit_ratio},
};

int main(void)
{
	int failed = SUITE_RUN("traces_readers", tests);
	workload_free(&w);
	return failed;
}
