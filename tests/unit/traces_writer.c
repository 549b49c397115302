/* What is written is read back as the same workload; what a format cannot hold is said. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/err.h"
#include "core/rng.h"
#include "tests/support/suite.h"
#include "traces/generate.h"
#include "traces/reader.h"
#include "traces/subset.h"
#include "traces/writer.h"

struct bytes {
	char *s;
	size_t n;
	struct writer_loss loss;
};

static struct bytes written(enum writer_format format, const struct workload *w)
{
	struct bytes b = {0};
	struct err e = {0};
	FILE *f = open_memstream(&b.s, &b.n);
	if (writer_write(f, format, w, &b.loss, &e))
		CU_FAIL_FATAL(e.text);
	fclose(f);
	return b;
}

static struct workload parsed(const char *text, size_t n, enum trace_format format)
{
	struct workload w = {0};
	struct trace_options o;
	struct err e = {0};
	trace_options_init(&o);
	o.format = format;
	if (trace_load_memory("test", text, n, &o, &w, NULL, &e))
		CU_FAIL_FATAL(e.text);
	return w;
}

/* Through lockstep JSONL and back: the same workload, and the same bytes again. */
static void round_trip(const struct workload *w)
{
	struct bytes first = written(WRITER_LOCKSTEP, w);
	struct workload back = parsed(first.s, first.n, TRACE_LOCKSTEP);
	CHECK_INT(back.n, w->n);
	CU_ASSERT_EQUAL(workload_hash(&back), workload_hash(w));
	CU_ASSERT_EQUAL(back.lengths_estimated, w->lengths_estimated);
	struct bytes second = written(WRITER_LOCKSTEP, &back);
	CU_ASSERT(first.n == second.n && !memcmp(first.s, second.s, first.n));
	free(first.s);
	free(second.s);
	workload_free(&back);
}

static void native_text(const char *text)
{
	struct workload w = parsed(text, strlen(text), TRACE_LOCKSTEP);
	struct bytes b = written(WRITER_LOCKSTEP, &w);
	CHECK_STR(b.s, text);
	round_trip(&w);
	free(b.s);
	workload_free(&w);
}

static void the_native_format_keeps_every_byte(void)
{
	native_text("{\"arrival_s\":0,\"input_tokens\":10,\"output_tokens\":0}\n"
		    "{\"arrival_s\":0.000000001,\"input_tokens\":1,\"output_tokens\":2,\"max_tokens\":7,\"session\":0,"
		    "\"priority\":-3,\"class\":\"gold \\\"a\\\"\\\\\\u0001\"}\n"
		    "{\"id\":\"caf\303\251\",\"arrival_s\":12.5,\"input_tokens\":3,\"output_tokens\":4}\n");
	native_text("{\"arrival_s\":0,\"input_tokens\":3,\"output_tokens\":4,\"estimated\":true}\n");
}

static void ids_of_64_bits_survive(void)
{
	native_text("{\"arrival_s\":0,\"input_tokens\":1000,\"output_tokens\":1,"
		    "\"hash_ids\":[18446744073709551615,9223372036854775808,0],\"hash_block\":400}\n"
		    "{\"arrival_s\":1,\"input_tokens\":800,\"output_tokens\":1,"
		    "\"hash_ids\":[18446744073709551615,9007199254740993],\"hash_block\":400}\n");
	native_text("{\"arrival_s\":0,\"input_tokens\":90,\"output_tokens\":5,"
		    "\"prefix\":[{\"id\":18446744073709551615,\"tokens\":64},{\"id\":1,\"tokens\":20}],"
		    "\"output_id\":9223372036854775809}\n"
		    "{\"arrival_s\":3,\"input_tokens\":70,\"output_tokens\":5,"
		    "\"prefix\":[{\"id\":18446744073709551615,\"tokens\":64}]}\n");
}

static void dependencies_survive(void)
{
	native_text("{\"id\":\"plan\",\"arrival_s\":0,\"input_tokens\":10,\"output_tokens\":5}\n"
		    "{\"id\":\"left\",\"input_tokens\":11,\"output_tokens\":5,\"after\":[\"plan\"]}\n"
		    "{\"id\":\"right\",\"input_tokens\":12,\"output_tokens\":5,\"after\":[\"plan\"]}\n"
		    "{\"id\":\"join\",\"input_tokens\":13,\"output_tokens\":5,\"after\":[\"left\",\"right\"],"
		    "\"delay_s\":0.25}\n");
}

static void an_unsorted_file_and_its_sorted_copy_are_the_same_workload(void)
{
	const char *text =
		"{\"id\":\"x\",\"arrival_s\":9,\"input_tokens\":5,\"output_tokens\":5,\"session\":\"late\","
		"\"class\":\"silver\"}\n"
		"{\"id\":\"y\",\"input_tokens\":6,\"output_tokens\":5,\"session\":\"late\",\"after\":[\"z\",\"x\"]}\n"
		"{\"id\":\"w\",\"input_tokens\":7,\"output_tokens\":5,\"after\":[\"z\"],\"class\":\"gold\",\"delay_s\":"
		"3}\n"
		"{\"id\":\"v\",\"input_tokens\":7,\"output_tokens\":5,\"after\":[\"z\"],\"class\":\"iron\"}\n"
		"{\"id\":\"z\",\"arrival_s\":2,\"input_tokens\":8,\"output_tokens\":5,\"session\":\"early\","
		"\"class\":\"gold\"}\n";
	struct workload w = parsed(text, strlen(text), TRACE_LOCKSTEP);
	round_trip(&w);
	workload_free(&w);
}

static struct workload sessions(void)
{
	struct generate g;
	struct workload w = {0};
	struct err e = {0};
	generate_default(&g);
	g.n = 200;
	g.seed = 5;
	g.turns = (struct dist){.kind = DIST_UNIFORM, .a = 1, .b = 5};
	g.think = (struct dist){.kind = DIST_EXPONENTIAL, .a = 2, .hi = 1e6};
	g.input = (struct dist){.kind = DIST_UNIFORM, .a = 5, .b = 60};
	g.output = (struct dist){.kind = DIST_UNIFORM, .a = 5, .b = 90};
	g.system_tokens = 30;
	if (generate_workload(&w, &g, &e))
		CU_FAIL_FATAL(e.text);
	return w;
}

static void generated_sessions_survive(void)
{
	struct workload w = sessions();
	round_trip(&w);
	/* and so does a slice of them, whose requests keep their ids */
	struct slice s;
	struct err e = {0};
	slice_default(&s);
	s.start_ns = 20 * NS_PER_S;
	s.every = 3;
	CHECK_INT(slice_apply(&w, &s, NULL, &e), ERR_NONE);
	round_trip(&w);
	workload_free(&w);
}

/* A random graph with everything a workload can hold: names, classes, sessions, priorities, shared content. */
static struct workload random_graph(struct rng *r)
{
	static const char *const classes[] = {"a", "b b", "\xc3\xa9\"\\"};
	struct workload w = {0};
	int32_t parent[400], child[400];
	int64_t links = 0, n = 1 + (int64_t)rng_below(r, 40);
	bool segments = rng_below(r, 2);
	w.hash_block = segments ? 0 : 16;
	for (int32_t i = 0; i < n; i++) {
		struct spec s = {.name_at = -1, .session = (int32_t)rng_below(r, 6) - 1, .row = i + 1};
		char name[32];
		int32_t parents = i ? (int32_t)rng_below(r, 4) : 0;
		for (int32_t k = 0; k < parents && links < 400; k++) {
			int32_t p = (int32_t)rng_below(r, (uint64_t)i);
			bool twice = false;
			for (int64_t l = 0; l < links; l++)
				twice |= child[l] == i && parent[l] == p;
			if (!twice) {
				parent[links] = p;
				child[links++] = i;
			}
		}
		s.arrival_ns = rng_below(r, 3) ? (int64_t)rng_below(r, 1000000000000) : 0;
		s.output_tokens = (int32_t)rng_below(r, 50);
		s.max_tokens = rng_below(r, 2) ? (int32_t)rng_below(r, 5000) : 0;
		s.priority = (int32_t)rng_below(r, 5) - 2;
		s.output_id = rng_below(r, 2) ? rng_next(r) : 0;
		s.hash_at = w.n_hash_ids;
		s.n_hashes = (int32_t)rng_below(r, 6);
		s.prompt_tokens = 1 + (int32_t)rng_below(r, 20);
		for (int32_t k = 0; k < s.n_hashes; k++) {
			int32_t tokens = segments ? 1 + (int32_t)rng_below(r, 30) : 16;
			uint64_t id = rng_below(r, 3) ? rng_below(r, 4) : rng_next(r);
			s.prompt_tokens += tokens;
			CHECK_INT(segments ? workload_add_segment(&w, id, tokens, NULL)
					   : workload_add_hash(&w, id, NULL),
				  0);
		}
		snprintf(name, sizeof name, "n%d \"q\"", i);
		if (rng_below(r, 2))
			workload_add_name(&w, name, (int64_t)strlen(name), &s.name_at, NULL);
		if (rng_below(r, 2))
			workload_tenant(&w, classes[rng_below(r, 3)], &s.tenant, NULL);
		/* the native format makes rows of one session without times or parents follow each other, but these
		 * have one or the other */
		workload_add(&w, &s, NULL);
	}
	struct err e = {0};
	if (workload_link(&w, parent, child, links, &e) || subset_sort(&w, &e))
		CU_FAIL_FATAL(e.text);
	struct slice all; /* makes the first arrival 0, as a file's is */
	slice_default(&all);
	CHECK_INT(slice_apply(&w, &all, NULL, &e), ERR_NONE);
	return w;
}

static void random_graphs_survive(void)
{
	struct rng r;
	for (uint64_t seed = 0; seed < 300; seed++) {
		rng_init(&r, seed, 0);
		struct workload w = random_graph(&r);
		round_trip(&w);
		workload_free(&w);
	}
}

static void every_real_trace_survives(void)
{
	static const char *const files[] = {
		"traces/AzureLLMInferenceTrace_conv.csv", "traces/AzureLLMInferenceTrace_code.csv",
		"traces/mooncake_conversation.jsonl",     "traces/mooncake_synthetic.jsonl",
		"traces/sharegpt_300_hashed.jsonl",       "traces/sharegpt_format_fixture.json",
	};
	for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
		const char *path = shared_data(files[i]);
		if (!path) {
			test_skip("shared data is not here");
			return;
		}
		struct workload w = {0};
		struct trace_options o;
		struct err e = {0};
		trace_options_init(&o);
		o.sharegpt.multi_turn = true;
		if (trace_load(path, &o, &w, NULL, &e))
			CU_FAIL_FATAL(e.text);
		round_trip(&w);
		workload_free(&w);
	}
}

static void mooncakes_own_file_comes_out_byte_for_byte(void)
{
	const char *path = shared_data("traces/mooncake_conversation.jsonl");
	if (!path) {
		test_skip("shared data is not here");
		return;
	}
	struct workload w = {0};
	struct err e = {0};
	if (trace_load(path, NULL, &w, NULL, &e))
		CU_FAIL_FATAL(e.text);
	struct bytes b = written(WRITER_MOONCAKE, &w);
	FILE *f = fopen(path, "r");
	char *want = malloc(b.n + 2);
	CHECK_INT(fread(want, 1, b.n + 2, f), b.n);
	CU_ASSERT(!memcmp(want, b.s, b.n));
	fclose(f);
	free(want);
	free(b.s);
	workload_free(&w);
}

static void azure_and_vidur_keep_times_and_lengths(void)
{
	const char *text = "TIMESTAMP,ContextTokens,GeneratedTokens\n"
			   "2023-11-16 00:00:00.0000000,374,44\n"
			   "2023-11-16 23:59:59.9999999,396,0\n"
			   "2024-02-29 12:00:00.0000001,5,6\n"
			   "2025-01-01 00:00:00.5000000,7,8\n";
	struct workload w = parsed(text, strlen(text), TRACE_AZURE);
	struct bytes azure = written(WRITER_AZURE, &w), vidur = written(WRITER_VIDUR, &w);
	CHECK_STR(azure.s, text);
	CHECK_INT(azure.loss.rounded, 0);
	struct workload back = parsed(vidur.s, vidur.n, TRACE_VIDUR);
	CHECK_INT(back.n, 4);
	for (int i = 0; i < 4; i++)
		CHECK_INT(back.specs[i].arrival_ns, w.specs[i].arrival_ns);
	CU_ASSERT_PTR_NOT_NULL(strstr(vidur.s, "86399.9999999,396,0\n"));
	w.specs[1].arrival_ns += 49; /* a clock finer than the format's */
	struct bytes rounded = written(WRITER_AZURE, &w);
	CHECK_STR(rounded.s, text);
	CHECK_INT(rounded.loss.rounded, 1);
	free(azure.s);
	free(vidur.s);
	free(rounded.s);
	workload_free(&w);
	workload_free(&back);
}

static char said[2000];

static void say(void *ctx, const char *text)
{
	(void)ctx;
	strncat(said, text, sizeof said - strlen(said) - 1);
	strncat(said, "\n", sizeof said - strlen(said) - 1);
}

static void what_a_format_cannot_hold_is_said(void)
{
	const char *text = "{\"id\":\"a\",\"arrival_s\":0,\"input_tokens\":90,\"output_tokens\":5,\"max_tokens\":9,"
			   "\"hash_ids\":[1,2],\"hash_block\":64}\n"
			   "{\"id\":\"b\",\"input_tokens\":13,\"output_tokens\":5,\"session\":0,\"after\":[\"a\"],"
			   "\"delay_s\":2.5,\"priority\":1,\"class\":\"x\",\"output_id\":4}\n";
	struct workload w = parsed(text, strlen(text), TRACE_LOCKSTEP);
	struct bytes b = written(WRITER_VIDUR, &w);
	CHECK_STR(b.s, "arrived_at,num_prefill_tokens,num_decode_tokens\n0,90,5\n2.5,13,5\n");
	said[0] = '\0';
	CU_ASSERT(writer_explain(&b.loss, say, NULL));
	CHECK_STR(said, "dropped: names of 2 requests (rows are numbered instead)\n"
			"dropped: hash ids of 1 requests (what their prompts share)\n"
			"dropped: what 1 requests wait for (they arrive as if serving took no time)\n"
			"dropped: sessions of 1 requests\n"
			"dropped: priorities of 1 requests\n"
			"dropped: classes of 1 requests\n"
			"dropped: max_tokens of 1 requests\n"
			"dropped: identities of the output of 1 requests\n");
	free(b.s);
	b = written(WRITER_MOONCAKE, &w);
	CHECK_INT(b.loss.hashes, 0);
	CHECK_INT(b.loss.hash_block, 64);
	CU_ASSERT_PTR_NOT_NULL(
		strstr(b.s, "{\"timestamp\": 2500, \"input_length\": 13, \"output_length\": 5, \"hash_ids\": []}"));
	said[0] = '\0';
	writer_explain(&b.loss, say, NULL);
	CU_ASSERT_PTR_NOT_NULL(strstr(said, "read it with --hash-block-size 64"));
	free(b.s);
	b = written(WRITER_LOCKSTEP, &w);
	said[0] = '\0';
	CU_ASSERT(!writer_explain(&b.loss, say, NULL));
	CHECK_STR(said, "");
	free(b.s);
	workload_free(&w);
	struct writer_loss many = {.hashes = 12031};
	writer_explain(&many, say, NULL);
	CHECK_STR(said, "dropped: hash ids of 12,031 requests (what their prompts share)\n");
}

static void sharegpt_text_has_the_asked_lengths(void)
{
	struct workload w = sessions();
	for (int64_t i = 0; i < w.n; i++) /* what comes before a turn in its session, text for text */
		CU_ASSERT_FATAL(w.specs[i].prompt_tokens > 0);
	struct bytes b = written(WRITER_SHAREGPT, &w), again = written(WRITER_SHAREGPT, &w);
	CHECK_STR(b.s, again.s);
	CHECK_INT(b.loss.lengths, 0);
	struct workload back = {0};
	struct trace_options o;
	struct err e = {0};
	trace_options_init(&o);
	o.sharegpt.multi_turn = true;
	if (trace_load_memory("test", b.s, b.n, &o, &back, NULL, &e))
		CU_FAIL_FATAL(e.text);
	CHECK_INT(back.n, w.n);
	CU_ASSERT(back.lengths_estimated);
	int64_t prompt[2] = {0}, output[2] = {0};
	for (int64_t i = 0; i < w.n && i < back.n; i++) {
		prompt[0] += w.specs[i].prompt_tokens;
		prompt[1] += back.specs[i].prompt_tokens;
		output[0] += w.specs[i].output_tokens;
		output[1] += back.specs[i].output_tokens;
	}
	CHECK_INT(prompt[1], prompt[0]);
	CHECK_INT(output[1], output[0]);
	free(b.s);
	free(again.s);
	workload_free(&w);
	workload_free(&back);
}

static void a_full_disk_is_an_error_and_leaves_nothing(void)
{
	struct workload w = sessions();
	struct writer_loss loss;
	struct err e = {0};
	FILE *f = fopen("/dev/full", "w");
	if (f) {
		CHECK_INT(writer_write(f, WRITER_LOCKSTEP, &w, &loss, &e), ERR_IO);
		fclose(f);
	}
	err_clear(&e);
	CHECK_INT(writer_file("/nowhere/x.jsonl", WRITER_LOCKSTEP, &w, &loss, &e), ERR_IO);
	CU_ASSERT_PTR_NOT_NULL(strstr(e.text, "/nowhere/x.jsonl"));
	err_clear(&e);
	const char *path = temp_path("out.jsonl");
	CHECK_INT(writer_file(path, WRITER_LOCKSTEP, &w, &loss, &e), ERR_NONE);
	CHECK_INT(access(path, R_OK), 0);
	/* a folder in its place: the rename fails, and the half-made file goes */
	char tmp[1100];
	snprintf(tmp, sizeof tmp, "%s.tmp", temp_dir());
	CHECK_INT(writer_file(temp_dir(), WRITER_LOCKSTEP, &w, &loss, &e), ERR_IO);
	CU_ASSERT(access(tmp, F_OK) != 0);
	workload_free(&w);
}

int main(void)
{
	static const struct test tests[] = {
		{"the_native_format_keeps_every_byte", the_native_format_keeps_every_byte},
		{"ids_of_64_bits_survive", ids_of_64_bits_survive},
		{"dependencies_survive", dependencies_survive},
		{"an_unsorted_file_and_its_sorted_copy_are_the_same_workload",
		 an_unsorted_file_and_its_sorted_copy_are_the_same_workload},
		{"generated_sessions_survive", generated_sessions_survive},
		{"random_graphs_survive", random_graphs_survive},
		{"every_real_trace_survives", every_real_trace_survives},
		{"mooncakes_own_file_comes_out_byte_for_byte", mooncakes_own_file_comes_out_byte_for_byte},
		{"azure_and_vidur_keep_times_and_lengths", azure_and_vidur_keep_times_and_lengths},
		{"what_a_format_cannot_hold_is_said", what_a_format_cannot_hold_is_said},
		{"sharegpt_text_has_the_asked_lengths", sharegpt_text_has_the_asked_lengths},
		{"a_full_disk_is_an_error_and_leaves_nothing", a_full_disk_is_an_error_and_leaves_nothing},
	};
	return SUITE_RUN("traces_writer", tests);
}
