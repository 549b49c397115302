/* Why requests were late: schedules solved by hand to the nanosecond, and in any run the causes add up to TTFT and E2E. */
#include <stdlib.h>
#include <unistd.h>

#include "analysis/explain.h"
#include "analysis/store.h"
#include "core/mem.h"
#include "policies/registry.h"
#include "tests/support/case_run.h"
#include "tests/unit/analysis_fixture.h"
#include "traces/reader.h"

/* --- by hand ------------------------------------------------------------------------------------------------------- */

/* A step takes 100 ns, 10 more for each prompt token, 5 for each decode; a block holds 4 tokens. */
struct hand {
	struct run_settings s;
	struct workload w;
	struct explain x;
	struct run_result r;
	struct history *history;
};

static void hand_init(struct hand *h, const char *policy)
{
	memset(h, 0, sizeof *h);
	workload_init(&h->w);
	run_settings_default(&h->s);
	h->s.policy = policy;
	h->s.cost = "linear:a=100ns,b=10ns,c=5ns";
	h->s.num_gpu_blocks_override = 64;
	h->s.engine.block_size = 4;
	h->s.engine.max_num_seqs = 8;
	h->s.engine.max_num_batched_tokens = 64;
}

static void hand_engine(void *ctx, const struct engine *g)
{
	history_engine(((struct hand *)ctx)->history, g);
}

static void hand_event(void *ctx, const struct event *ev)
{
	history_event(((struct hand *)ctx)->history, ev);
}

static void hand_step(void *ctx, const struct step_row *row)
{
	history_step(((struct hand *)ctx)->history, row);
}

static int hand_before(void *ctx, struct backend *b, struct err *e)
{
	return explain_stand_before(&((struct hand *)ctx)->x, b, e);
}

static void hand_run(struct hand *h, int32_t focus)
{
	struct err e = {0};
	workload_set_max_tokens(&h->w, MAX_TOKENS_ORACLE, 0);
	CHECK_INT(explain_init(&h->x, &h->w, focus, NULL, &e), ERR_NONE);
	const struct history_sink sink = explain_sink(&h->x);
	CHECK_INT(history_create(&h->history, h->w.n, &sink, &e), ERR_NONE);
	const struct run_io io = {
		.ctx = h, .engine = hand_engine, .event = hand_event, .step = hand_step, .stand_before = hand_before};
	CHECK_INT(run_execute(&h->s, &h->w, &io, &h->r, &e), ERR_NONE);
	CHECK_STR(e.text, "");
	CHECK_INT(history_finish(h->history, &e), ERR_NONE);
	CHECK_INT(explain_finish(&h->x, &e), ERR_NONE);
}

static void hand_free(struct hand *h)
{
	history_free(h->history);
	explain_free(&h->x);
	run_result_free(&h->r);
	workload_free(&h->w);
}

static size_t say(char *text, size_t size, size_t n, const int64_t ns[CAUSES])
{
	const char *between = "";
	for (int c = 0; c < CAUSES; c++) {
		if (!ns[c])
			continue;
		n += (size_t)snprintf(text + n, size - n, "%s%s %lld", between, cause_names[c], (long long)ns[c]);
		between = ", ";
	}
	return n;
}

/* "entry 90, own_prefill 180 | own_decode 210": up to the first token | after it. */
static void check_causes(const struct hand *h, int32_t req, const char *expected)
{
	char text[1024] = "";
	size_t n = say(text, sizeof text, 0, h->x.each[req].first);
	n += (size_t)snprintf(text + n, sizeof text - n, " | ");
	say(text, sizeof text, n, h->x.each[req].after);
	CHECK_STR(text, expected);
	const struct request *r = &h->r.requests[req];
	CHECK_INT(explained_sum(h->x.each[req].first), request_ttft_ns(r));
	CHECK_INT(explained_sum(h->x.each[req].after), r->last_token_ns - r->first_token_ns);
}

static void alone(void)
{
	struct hand h;
	hand_init(&h, "vllm_v1");
	add_spec(&h.w, 0, 8, 3);
	hand_run(&h, -1);
	check_causes(&h, 0, "own_prefill 180 | own_decode 210");
	hand_free(&h);
}

/* A's prompt takes 0-140. B came at 50: its 8 tokens and A's decode take 140-325, A's last one 325-430. */
static void a_prompt_slows_a_decode_and_a_decode_a_prompt(void)
{
	struct hand h;
	hand_init(&h, "vllm_v1");
	add_spec(&h.w, 0, 4, 3);
	add_spec(&h.w, 50, 8, 1);
	hand_run(&h, 0);
	check_causes(&h, 0, "own_prefill 140 | others_prefill 80, own_decode 210");
	check_causes(&h, 1, "entry 90, others_decode 5, own_prefill 180 | ");
	CHECK_INT(h.x.focus.turns[1], 2);
	CHECK_INT(h.x.focus.tokens[1], 8);
	CHECK_INT(h.x.focus.prefills.n, 1);
	CHECK_INT(h.x.focus.prefills.at[0].req, 1);
	CHECK_NEAR(h.x.focus.prefills.at[0].amount, 80, 0);
	hand_free(&h);
}

/* Two prompts in one step, 100 + 40 + 80, then two decodes, 110. */
static void two_prompts_in_one_step(void)
{
	struct hand h;
	hand_init(&h, "vllm_v1");
	add_spec(&h.w, 0, 4, 2);
	add_spec(&h.w, 0, 8, 2);
	hand_run(&h, -1);
	check_causes(&h, 0, "others_prefill 80, own_prefill 140 | others_decode 5, own_decode 105");
	check_causes(&h, 1, "others_prefill 40, own_prefill 180 | others_decode 5, own_decode 105");
	hand_free(&h);
}

/* A's 24 tokens take three steps of 8, 180 each; B came at 1, is looked at from 180 on and let in at 540, with A's decode
 * beside it: 145. */
static void behind_a_long_prompt(void)
{
	struct hand h;
	hand_init(&h, "vllm_v1");
	h.s.engine.max_num_batched_tokens = 8;
	add_spec(&h.w, 0, 24, 2);
	add_spec(&h.w, 1, 4, 1);
	hand_run(&h, 1);
	check_causes(&h, 1, "entry 179, prefill 360, others_decode 5, own_prefill 140 | ");
	CHECK_INT(h.x.focus.ahead, 0);
	CHECK_INT(h.x.focus.running, 1);
	CHECK_INT(h.x.focus.prefills.n, 1);
	CHECK_NEAR(h.x.focus.prefills.at[0].amount, 360, 0);
	hand_free(&h);
}

/* One place. A: 0-140, decodes to 350. */
static void for_a_place(void)
{
	struct hand h;
	hand_init(&h, "vllm_v1");
	h.s.engine.max_num_seqs = 1;
	add_spec(&h.w, 0, 4, 3);
	add_spec(&h.w, 1, 4, 1);
	hand_run(&h, 1);
	check_causes(&h, 1, "entry 139, place 210, own_prefill 140 | ");
	CHECK_INT(h.x.focus.holders.n, 1);
	/* Its 5th token wants a second block. */
	CHECK_NEAR(h.x.focus.holders.at[0].amount, 210 * 2, 0);
	hand_free(&h);
}

/* One in flight at once: the client keeps B until A has ended at 350. */
static void held_back_by_the_client(void)
{
	struct hand h;
	hand_init(&h, "vllm_v1");
	h.s.engine.max_concurrency = 1;
	add_spec(&h.w, 0, 4, 3);
	add_spec(&h.w, 1, 4, 1);
	hand_run(&h, -1);
	check_causes(&h, 1, "client 349, own_prefill 140 | ");
	hand_free(&h);
}

/* Shortest first, one place: B (10 outputs) was there before C (1 output), which came at 1 and is let in at 140, when A has
 * ended; B's wait is for the place until then, and out of turn from there on. */
static void out_of_turn(void)
{
	struct hand h;
	hand_init(&h, "vllm_v1");
	h.s.engine.max_num_seqs = 1;
	h.s.engine.queue_order = QUEUE_SJF;
	h.s.engine.predictor.kind = PREDICT_ORACLE;
	add_spec(&h.w, 0, 4, 1);
	add_spec(&h.w, 0, 4, 10);
	add_spec(&h.w, 1, 4, 1);
	hand_run(&h, 1);
	check_causes(&h, 1, "place 140, order 140, own_prefill 140 | own_decode 945");
	check_causes(&h, 2, "entry 139, own_prefill 140 | ");
	CHECK_INT(h.x.focus.overtakers, 1);
	CHECK_INT(h.x.focus.first_overtaker, 2);
	hand_free(&h);
}

/* 4 blocks, A and B of 4 prompt tokens and 8 outputs: B gives way to A in step 5, at 620, and comes back when A has ended at
 * 935. Of the 9 tokens it computes then, in 190 ns, 8 were lost. */
static void preempted_and_computed_again(void)
{
	struct hand h;
	hand_init(&h, "vllm_v1");
	h.s.num_gpu_blocks_override = 4;
	add_spec(&h.w, 0, 4, 8);
	add_spec(&h.w, 0, 4, 8);
	hand_run(&h, 1);
	check_causes(&h, 1,
		     "others_prefill 40, own_prefill 140 | preempted 315, others_decode 20, recompute 168, own_prefill "
		     "22, own_decode 630");
	CHECK_INT(h.x.focus.holders.n, 1);
	CHECK_INT(h.x.focus.holders.at[0].req, 0);
	hand_free(&h);
}

/* vllm_v0 lets prompts go first: A has no turn in B's step, 150-290 by the clock. */
static void no_turn(void)
{
	struct hand h;
	hand_init(&h, "vllm_v0");
	add_spec(&h.w, 0, 4, 3);
	add_spec(&h.w, 50, 4, 1);
	hand_run(&h, -1);
	check_causes(&h, 0, "own_prefill 140 | stalled 140, own_decode 210");
	check_causes(&h, 1, "entry 90, own_prefill 140 | ");
	hand_free(&h);
}

/* The host plans a step while the one before runs: a request that comes at 1 is planned at 140, when the second begins. */
static void planned_ahead(void)
{
	struct hand h;
	hand_init(&h, "vllm_v1");
	h.s.engine.async_scheduling = true;
	add_spec(&h.w, 0, 4, 6);
	add_spec(&h.w, 1, 4, 1);
	hand_run(&h, -1);
	check_causes(&h, 1, "entry 139, pipeline 105, others_decode 5, own_prefill 140 | ");
	hand_free(&h);
}

/* --- any case ------------------------------------------------------------------------------------------------------- */

struct any {
	struct explain x;
	struct history *history;
};

static void any_engine(void *ctx, const struct engine *g)
{
	history_engine(((struct any *)ctx)->history, g);
}

static int any_before(void *ctx, struct backend *b, struct err *e)
{
	return explain_stand_before(&((struct any *)ctx)->x, b, e);
}

static void check_sums(const struct explain *x, const struct request *requests, int64_t n, int64_t total[CAUSES])
{
	for (int64_t i = 0; i < n; i++) {
		const struct request *r = &requests[i];
		const struct explained *k = &x->each[i];
		bool token = r->state == REQUEST_FINISHED || r->first_token_ns >= 0;
		if (!r->state)
			continue;
		CHECK_INT(explained_sum(k->first), (token ? r->first_token_ns : r->last_token_ns) - r->arrival_ns);
		CHECK_INT(explained_sum(k->after), token ? r->last_token_ns - r->first_token_ns : 0);
		for (int c = 0; c < CAUSES; c++) {
			CU_ASSERT(k->first[c] >= 0 && k->after[c] >= 0);
			total[c] += k->first[c] + k->after[c];
		}
		CHECK_INT(k->after[CAUSE_ENTRY] + k->after[CAUSE_CLIENT] + k->after[CAUSE_ORDER], 0);
		if (!r->preemptions)
			CHECK_INT(k->first[CAUSE_PREEMPTED] + k->first[CAUSE_RECOMPUTE] + k->after[CAUSE_RECOMPUTE], 0);
	}
}

static bool run_case(const struct random_case *c, int64_t total[CAUSES])
{
	struct workload w;
	struct err e = {0};
	struct any a = {0};
	if (!random_case_workload(c, &w))
		return false;
	struct request *requests = calloc((size_t)w.n + 1, sizeof *requests);
	CHECK_INT(explain_init(&a.x, &w, w.n ? (int32_t)(c->seed % (uint64_t)w.n) : -1, NULL, &e), ERR_NONE);
	const struct history_sink sink = explain_sink(&a.x);
	CHECK_INT(history_create(&a.history, w.n, &sink, &e), ERR_NONE);
	const struct case_watch watch = {.recorder = {.ctx = a.history, .step = history_step, .event = history_event},
					 .ctx = &a,
					 .engine = any_engine,
					 .stand_before = any_before};
	bool ran = case_run(c, &w, &watch, requests, &e) == ERR_NONE;
	if (ran) {
		CHECK_INT(history_finish(a.history, &e), ERR_NONE);
		CHECK_INT(explain_finish(&a.x, &e), ERR_NONE);
		check_sums(&a.x, requests, w.n, total);
	}
	history_free(a.history);
	explain_free(&a.x);
	free(requests);
	workload_free(&w);
	return ran;
}

static void causes_add_up_in_random_cases(void)
{
	int64_t ran = 0, cases = test_short() ? 60 : 400, total[CAUSES] = {0};
	for (int64_t k = 0; k < cases; k++)
		for (int32_t i = 0; i < policy_count(); i++) {
			struct random_case c;
			unsigned before = CU_get_number_of_failures();
			random_case_make(&c, (uint64_t)(1000 * k + i), policy_at(i), 12);
			ran += run_case(&c, total);
			if (CU_get_number_of_failures() > before && before == 0)
				random_case_print(&c, stdout);
			random_case_free(&c);
		}
	CU_ASSERT(ran > cases);
	/* Nothing is a cause on paper only (the linear model knows no host). */
	for (int c = 0; c < CAUSES && !test_short(); c++) {
		CU_ASSERT(c == CAUSE_HOST || total[c] > 0);
		if (c != CAUSE_HOST && total[c] == 0)
			fprintf(stderr, "cause %s never came up\n", cause_names[c]);
	}
}

/* --- real traces ---------------------------------------------------------------------------------------------------- */

/* Stored, then made again. */
static void explain_workload(const struct workload *w, struct run_settings *s, int64_t total[CAUSES],
			     struct run_result *again)
{
	struct store *store;
	struct store_recipe recipe;
	struct run_result r;
	struct explain x;
	struct err e = {0};
	unlink(temp_path("explain.db"));
	CHECK_INT(store_open(&store, temp_path("explain.db"), false, &e), ERR_NONE);
	must_run(s, w, store, &r);
	CHECK_INT(store_recipe(store, r.run_id, &recipe, &e), ERR_NONE);
	CHECK_INT(explain_init(&x, w, 0, NULL, &e), ERR_NONE);
	CHECK_INT(explain_rerun(&x, &recipe, s, w, NULL, again, &e), ERR_NONE);
	check_sums(&x, again->requests, w->n, total);
	for (int64_t i = 0; i < w->n; i++) {
		CHECK_INT(again->requests[i].first_token_ns, r.requests[i].first_token_ns);
		CHECK_INT(again->requests[i].last_token_ns, r.requests[i].last_token_ns);
	}
	explain_free(&x);
	store_recipe_free(&recipe);
	store_close(store);
	run_result_free(&r);
}

static void explain_trace(const char *trace, enum trace_format format, int64_t n, struct run_settings *s,
			  int64_t total[CAUSES], struct run_result *again)
{
	struct workload w;
	struct err e = {0};
	struct trace_options o;
	trace_options_init(&o);
	o.format = format;
	o.num_prompts = n;
	workload_init(&w);
	CHECK_INT(trace_load(trace, &o, &w, NULL, &e), ERR_NONE);
	CHECK_STR(e.text, "");
	workload_set_max_tokens(&w, MAX_TOKENS_MAX, 2048);
	explain_workload(&w, s, total, again);
	workload_free(&w);
}

/* Requests, queues, memory and steps of one replica have nothing to do with another's. */
static void replicas_are_told_apart(void)
{
	struct workload w;
	struct run_settings s;
	struct run_result r;
	int64_t total[CAUSES] = {0}, served[3] = {0};
	random_workload(&w, 400, 3, 9);
	small_settings(&s, &w);
	s.num_gpu_blocks_override = 40;
	s.replicas = 3;
	s.router = "round_robin";
	explain_workload(&w, &s, total, &r);
	for (int64_t i = 0; i < w.n; i++)
		served[r.requests[i].replica]++;
	CU_ASSERT(served[0] > 0 && served[1] > 0 && served[2] > 0 && r.stats.preemptions > 0);
	CU_ASSERT(total[CAUSE_MEMORY] > 0 && total[CAUSE_PREEMPTED] > 0);
	run_result_free(&r);
	workload_free(&w);
}

static void causes_add_up_on_a_production_trace(void)
{
	const char *trace = shared_data("traces/AzureLLMInferenceTrace_conv.csv");
	struct run_settings s;
	struct run_result r;
	int64_t total[CAUSES] = {0};
	if (!trace) {
		test_skip("no shared data");
		return;
	}
	run_settings_default(&s);
	s.policy = "vllm_v1";
	s.model = "llama-3.1-8b";
	s.device = "h100-sxm";
	explain_trace(trace, TRACE_AZURE, test_short() ? 60 : 3000, &s, total, &r);
	CU_ASSERT(total[CAUSE_HOST] > 0 && total[CAUSE_ENTRY] > 0 && total[CAUSE_OTHERS_PREFILL] > 0);
	run_result_free(&r);
}

static void causes_add_up_where_memory_is_short(void)
{
	const char *trace = shared_data("traces/mooncake_conversation.jsonl");
	struct run_settings s;
	struct run_result r;
	int64_t total[CAUSES] = {0};
	if (!trace) {
		test_skip("no shared data");
		return;
	}
	run_settings_default(&s);
	s.policy = "vllm_v1";
	s.policy_params = "reserve_full_prompt=off";
	s.model = "llama-3.1-8b";
	s.device = "h100-sxm";
	s.num_gpu_blocks_override = 8200;
	s.engine.prefix_caching = true;
	explain_trace(trace, TRACE_MOONCAKE, test_short() ? 40 : 600, &s, total, &r);
	CU_ASSERT(test_short() || r.stats.preemptions > 0);
	CU_ASSERT(test_short() ||
		  (total[CAUSE_MEMORY] > 0 && total[CAUSE_PREEMPTED] > 0 && total[CAUSE_RECOMPUTE] > 0));
	run_result_free(&r);
}

int main(void)
{
	static const struct test tests[] = {
		{"alone", alone},
		{"a_prompt_slows_a_decode_and_a_decode_a_prompt", a_prompt_slows_a_decode_and_a_decode_a_prompt},
		{"two_prompts_in_one_step", two_prompts_in_one_step},
		{"behind_a_long_prompt", behind_a_long_prompt},
		{"for_a_place", for_a_place},
		{"held_back_by_the_client", held_back_by_the_client},
		{"out_of_turn", out_of_turn},
		{"preempted_and_computed_again", preempted_and_computed_again},
		{"no_turn", no_turn},
		{"planned_ahead", planned_ahead},
		{"causes_add_up_in_random_cases", causes_add_up_in_random_cases},
		{"replicas_are_told_apart", replicas_are_told_apart},
		{"causes_add_up_on_a_production_trace", causes_add_up_on_a_production_trace},
		{"causes_add_up_where_memory_is_short", causes_add_up_where_memory_is_short},
	};
	return SUITE_RUN("analysis_explain", tests);
}
