/* Every allocation of reading, shaping, describing and writing a trace fails once, for each format. */
#include <stdio.h>
#include <string.h>

#include "core/err.h"
#include "core/mem.h"
#include "core/workload.h"
#include "tests/support/failing_mem.h"
#include "tests/support/suite.h"
#include "traces/info.h"
#include "traces/reader.h"
#include "traces/shape.h"
#include "traces/writer.h"

struct sample {
	const char *name, *text;
};

static const struct sample samples[] = {
	{"sharegpt",
	 "[{\"id\":\"a\",\"conversations\":[{\"from\":\"human\",\"value\":\"Tell me a long story about a small "
	 "fox, please, and take your time\"},{\"from\":\"gpt\",\"value\":\"Once upon a time there was a fox who "
	 "lived at the edge of a wood.\"}]}]"},
	{"azure", "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n2023-11-16 "
		  "18:15:45.9951690,396,109\n"},
	{"mooncake", "{\"timestamp\": 0, \"input_length\": 1000, \"output_length\": 5, \"hash_ids\": [1, 2]}\n"
		     "{\"timestamp\": 3, \"input_length\": 1024, \"output_length\": 7, \"hash_ids\": [1, 3]}\n"},
	{"burstgpt",
	 "Timestamp,Session ID,Model,Request tokens,Response tokens,Total tokens,Log Type\n5,s1,ChatGPT,472,18,490,"
	 "Conversation log\n45,s2,GPT-4,1087,230,1317,API log\n"},
	{"bailian",
	 "{\"chat_id\": 1, \"parent_chat_id\": -1, \"timestamp\": 0.5, \"input_length\": 20, \"output_length\": 9, "
	 "\"type\": \"text\", \"turn\": 1, \"hash_ids\": [7, 8]}\n{\"chat_id\": 2, \"parent_chat_id\": 1, "
	 "\"timestamp\": 9.5, \"input_length\": 50, \"output_length\": 9, \"type\": \"text\", \"turn\": 2, "
	 "\"hash_ids\": [7, 8, 9, 10]}\n"},
	{"vidur", "arrived_at,num_prefill_tokens,num_decode_tokens\n0.0,100,10\n1.5,200,20\n"},
	{"aiperf",
	 "{\"timestamp\": 10, \"input_length\": 100, \"output_length\": 10, \"session_id\": \"a\"}\n{\"delay\": 5, "
	 "\"input_length\": 100, \"output_length\": 10, \"session_id\": \"a\"}\n"},
	{"lockstep",
	 "{\"id\": \"a\", \"arrival_s\": 0, \"input_tokens\": 40, \"output_tokens\": 4, \"prefix\": [{\"id\": \"sys\", "
	 "\"tokens\": 32}], \"class\": \"x\"}\n{\"id\": \"b\", \"after\": [\"a\"], \"delay_s\": 1, \"input_tokens\": "
	 "60, "
	 "\"output_tokens\": 6, \"prefix\": [{\"id\": \"sys\", \"tokens\": 32}]}\n"},
	{"tot", "problem,node,parent_node,chars_new\na,1,0,25\na,2,0,27\na,3,1,30\nb,1,0,9\na,4,2,3\n"},
	{"openhands", "session,round,prompt_tokens,completion_tokens,tool,tool_ms\na,0,100,20,run,9\nb,0,90,10,run,1\n"
		      "a,1,150,30,read,12\na,2,60,5,finish,\n"},
	{"tracelab", "session_id,arrival_time,round_idx,prefix_len,input_len,output_len,tool_wait_after_ms\n"
		     "0,117,0,0,231,20,300\n1,100,0,0,10,5,\n0,117,1,251,34,13,15\n"},
	{"otel", "{\"spans\": [{\"span_id\": \"a\", \"start_time\": \"2026-02-25T10:00:00\", \"end_time\": "
		 "\"2026-02-25T10:00:01\", \"attributes\": {\"gen_ai.input.messages\": \"Is C quick?\", "
		 "\"gen_ai.output.text\": \"Yes.\"}}, {\"span_id\": \"b\", \"start_time\": \"2026-02-25T10:00:02\", "
		 "\"end_time\": \"2026-02-25T10:00:03\", \"attributes\": {\"gen_ai.input.messages\": "
		 "[{\"content\": \"Is C quick?\"}, {\"content\": \"Yes.\"}], \"gen_ai.output.text\": \"Indeed.\"}}]}"},
};

static int once(void *ctx, char text[1024])
{
	const struct sample *s = ctx;
	struct workload w;
	struct trace_report report;
	struct shape shape;
	struct info info;
	struct writer_loss loss;
	struct err e = {0};
	workload_init(&w);
	int rc = trace_load_memory(s->name, s->text, strlen(s->text), NULL, &w, &report, &e);
	CU_ASSERT(rc == ERR_NONE || w.n == 0);
	shape_default(&shape);
	shape.num_prompts = 1;
	shape.length_scale = 1.5;
	if (rc == ERR_NONE)
		rc = shape_apply(&w, &shape, &e);
	if (rc == ERR_NONE)
		rc = info_compute(&w, &info, &e);
	if (rc == ERR_NONE)
		rc = writer_file(temp_path("out.jsonl"), WRITER_LOCKSTEP, &w, &loss, &e);
	workload_free(&w);
	snprintf(text, 1024, "%s", e.text);
	return rc;
}

static void every_format_survives(void)
{
	for (size_t i = 0; i < sizeof samples / sizeof *samples; i++) {
		struct sample s = samples[i];
		CU_ASSERT(failing_mem_each(once, &s, 0) > 3);
	}
}

int main(void)
{
	static const struct test tests[] = {{"every_format_survives", every_format_survives}};
	return SUITE_RUN("failmem_traces", tests);
}
