/* Orders of the waiting and choices of who gives way, solved by hand. Unless a test says otherwise a step takes 10 ns, a block
 * holds 4 tokens, there are 64 blocks and a step may compute 64 tokens. */
#include <string.h>

#include "core/rng.h"
#include "core/wait_tree.h"
#include "tests/support/sched.h"
#include "tests/support/suite.h"

static void begin(struct sched *s, const char *policy, const char *params, enum queue_order order)
{
	sched_init(s, policy, params);
	s->cfg.queue_order = order;
}

/* --- sjf ---------------------------------------------------------------------------------------------------------- */

/* One place. A, B and C come at 0 with 4, 2 and 1 outputs, D at 5 with 1.
 * fcfs: A 0-40, B 40-60, C 60-70, D 70-80. sjf, told the truth: C 0-10, D 10-20, B 20-40, A 40-80. */
static void sjf_serves_the_shortest_of_those_that_wait(void)
{
	for (int order = 0; order < 2; order++) {
		struct sched s;
		begin(&s, "vllm_v1", "", order ? QUEUE_SJF : QUEUE_FCFS);
		s.cfg.predictor.kind = PREDICT_ORACLE;
		s.cfg.max_num_seqs = 1;
		sched_add(&s, 0, 4, 4);
		sched_add(&s, 0, 4, 2);
		sched_add(&s, 0, 4, 1);
		sched_add(&s, 5, 4, 1);
		CHECK_INT(sched_run(&s), ERR_NONE);
		TIMES(s, 0, order ? 40 : 0, order ? 50 : 10, order ? 80 : 40);
		TIMES(s, 1, order ? 20 : 40, order ? 30 : 50, order ? 40 : 60);
		TIMES(s, 2, order ? 0 : 60, order ? 10 : 70, order ? 10 : 70);
		TIMES(s, 3, order ? 10 : 70, order ? 20 : 80, order ? 20 : 80);
		sched_free(&s);
	}
}

/* One place. A and B allow 10 and 5 outputs and produce 1 and 5: by what they allow B is shorter, in truth A is. */
static void sjf_knows_no_more_than_its_predictor(void)
{
	static const struct {
		enum predict_kind kind;
		int32_t first;
	} cases[] = {{PREDICT_MAX, 1}, {PREDICT_ORACLE, 0}, {PREDICT_MEAN, 1}};
	for (int i = 0; i < 3; i++) {
		struct sched s;
		begin(&s, "vllm_v1", "", QUEUE_SJF);
		s.cfg.predictor.kind = cases[i].kind;
		s.cfg.max_num_seqs = 1;
		sched_add(&s, 0, 4, 1);
		sched_add(&s, 0, 4, 5);
		s.w.specs[0].max_tokens = 10;
		CHECK_INT(sched_run(&s), ERR_NONE);
		CHECK_INT(sched_event(&s, EVENT_ADMIT, -1, 0).req, cases[i].first);
		sched_free(&s);
	}
}

/* One place; all allow 30. Tenant 1's A (0) has 2 outputs, tenant 2's B (1) 6. At 20 A has ended and B runs to 80. C of tenant 2
 * and D of tenant 1 come at 30: the mean of tenant 1 is 2, so D goes before C, of whose tenant it is 6. */
static void the_mean_is_that_of_the_tenant(void)
{
	struct sched s;
	int32_t tenant;
	begin(&s, "vllm_v1", "", QUEUE_SJF);
	s.cfg.predictor.kind = PREDICT_MEAN;
	s.cfg.max_num_seqs = 1;
	CHECK_INT(workload_tenant(&s.w, "one", &tenant, NULL), ERR_NONE);
	int32_t one = tenant;
	CHECK_INT(workload_tenant(&s.w, "two", &tenant, NULL), ERR_NONE);
	static const int32_t outputs[] = {2, 6, 6, 2}, arrival[] = {0, 0, 81, 81};
	for (int i = 0; i < 4; i++) {
		sched_add(&s, arrival[i], 4, outputs[i]);
		s.w.specs[i].max_tokens = 30;
		s.w.specs[i].tenant = i == 0 || i == 3 ? one : tenant;
	}
	CHECK_INT(sched_run(&s), ERR_NONE);
	TIMES(s, 1, 20, 30, 80);
	TIMES(s, 3, 81, 91, 101);
	TIMES(s, 2, 101, 111, 161);
	sched_free(&s);
}

/* The errors of noisy:SIGMA are drawn per request, from the seed, and have that spread. */
static void predictions_err_as_much_as_asked(void)
{
	enum { N = 4000 };
	struct workload w;
	struct predictor p, again;
	struct predict_config c;
	workload_init(&w);
	for (int i = 0; i < N; i++) {
		struct spec s = {.name_at = -1, .prompt_tokens = 1, .output_tokens = 1000, .max_tokens = 5000};
		CHECK_INT(workload_add(&w, &s, NULL), ERR_NONE);
	}
	CHECK_INT(predict_parse(&c, "noisy:0.25", NULL), ERR_NONE);
	CHECK_INT(predict_init(&p, &c, &w, 1, NULL), ERR_NONE);
	CHECK_INT(predict_init(&again, &c, &w, 2, NULL), ERR_NONE);
	double sum = 0, squares = 0;
	int32_t differ = 0;
	for (int32_t i = 0; i < N; i++) {
		double x = predict_outputs(&p, i, 5000);
		CHECK_INT(predict_outputs(&p, i, 5000), (int64_t)x);
		differ += predict_outputs(&again, i, 5000) != (int32_t)x;
		sum += x;
		squares += x * x;
	}
	double mean = sum / N, variance = squares / N - mean * mean;
	CU_ASSERT(mean > 985 && mean < 1015);
	CU_ASSERT(variance > 240 * 240 && variance < 260 * 260);
	CU_ASSERT(differ > N * 9 / 10);
	CHECK_INT(predict_outputs(&p, 0, 3), 3);
	workload_free(&w);
}

static void predictors_are_named_by_text(void)
{
	static const char *const good[] = {"max", "oracle", "mean", "noisy:0", "noisy:0.5", "noisy:10"};
	static const char *const bad[] = {"",         "noisy",     "noisy:",  "noisy:-1",
					  "noisy:11", "noisy:1e3", "noisy:.", "Mean"};
	struct predict_config c;
	char buf[40];
	for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
		CHECK_INT(predict_parse(&c, good[i], NULL), ERR_NONE);
		CHECK_STR(predict_text(&c, buf), good[i]);
		CHECK_INT(predict_is_oracle(&c), i == 1 || i == 3);
	}
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		CHECK_INT(predict_parse(&c, bad[i], NULL), ERR_INPUT);
}

/* --- edf ---------------------------------------------------------------------------------------------------------- */

/* One place, a step takes 1 ms. A runs 0-3 ms. B comes at 0.1 ms, C at 0.2 ms; a first token is due 20 ms after arrival, C's own
 * after 2. fcfs takes B at 3 ms; edf takes C, which is due at 2.2 ms, and then B, due at 20.1 ms. */
static void edf_serves_what_is_due_first(void)
{
	for (int order = 0; order < 2; order++) {
		struct sched s;
		begin(&s, "vllm_v1", "", order ? QUEUE_EDF : QUEUE_FCFS);
		s.cfg.order.slo_ttft_ns = 20 * NS_PER_MS;
		s.cfg.max_num_seqs = 1;
		s.a = NS_PER_MS;
		sched_add(&s, 0, 4, 3);
		sched_add(&s, NS_PER_MS / 10, 4, 1);
		sched_add(&s, NS_PER_MS / 5, 4, 1);
		s.w.specs[2].slo_ttft_ms = 2;
		CHECK_INT(sched_run(&s), ERR_NONE);
		CHECK_INT(s.requests[1].first_sched_ns, (order ? 4 : 3) * NS_PER_MS);
		CHECK_INT(s.requests[2].first_sched_ns, (order ? 3 : 4) * NS_PER_MS);
		sched_free(&s);
	}
}

/* --- fair --------------------------------------------------------------------------------------------------------- */

static void of_tenant(struct sched *s, int32_t tenant)
{
	static const char *const names[] = {"", "one", "two"};
	int32_t index;
	for (int32_t t = 1; t <= 2; t++)
		CHECK_INT(workload_tenant(&s->w, names[t], &index, NULL), ERR_NONE);
	s->w.specs[s->w.n - 1].tenant = tenant;
}

/* One place; four requests of 4 tokens and 1 output, three of tenant one, then one of tenant two. One is at 6 (4 + 2) after its
 * first, two at 0: it is two's turn, then one's again. */
static void fair_takes_turns(void)
{
	for (int order = 0; order < 2; order++) {
		struct sched s;
		begin(&s, "vllm_v1", "", order ? QUEUE_FAIR : QUEUE_FCFS);
		s.cfg.max_num_seqs = 1;
		for (int i = 0; i < 4; i++) {
			sched_add(&s, 0, 4, 1);
			of_tenant(&s, i < 3 ? 1 : 2);
		}
		CHECK_INT(sched_run(&s), ERR_NONE);
		TIMES(s, 0, 0, 10, 10);
		TIMES(s, 1, order ? 20 : 10, order ? 30 : 20, order ? 30 : 20);
		TIMES(s, 2, order ? 30 : 20, order ? 40 : 30, order ? 40 : 30);
		TIMES(s, 3, order ? 10 : 30, order ? 20 : 40, order ? 20 : 40);
		sched_free(&s);
	}
}

/* One place; tenant one sends five at 0, tenant two two at 35. At 40 one has been charged 4 x 6 = 24, to which two is lifted: it
 * is even, and one's fifth was there before; then two's turn. Had two kept its 0 it would have gone twice. */
static void having_been_idle_earns_nothing(void)
{
	struct sched s;
	begin(&s, "vllm_v1", "", QUEUE_FAIR);
	s.cfg.max_num_seqs = 1;
	for (int i = 0; i < 7; i++) {
		sched_add(&s, i < 5 ? 0 : 35, 4, 1);
		of_tenant(&s, i < 5 ? 1 : 2);
	}
	CHECK_INT(sched_run(&s), ERR_NONE);
	TIMES(s, 3, 30, 40, 40);
	TIMES(s, 4, 40, 50, 50);
	TIMES(s, 5, 50, 60, 60);
	TIMES(s, 6, 60, 70, 70);
	sched_free(&s);
}

/* Three places. From 0 run A and B of tenant one (4 tokens, 9 outputs) and C of two (10, 3); D of one comes at 1, E of two at 2. A
 * place is free at 30: by prompts alone one is at 8 and two at 10, with outputs at 8 + 6 x 2 and 10 + 3 x 2: E goes before D. */
static void decoding_is_charged_as_tokens_come(void)
{
	static const struct {
		int64_t at_ns;
		int32_t prompt, output, tenant;
	} of[] = {{0, 4, 9, 1}, {0, 4, 9, 1}, {0, 10, 3, 2}, {1, 4, 1, 1}, {2, 4, 1, 2}};
	for (int lazy = 0; lazy < 2; lazy++) {
		struct sched s;
		begin(&s, "vllm_v1", "", QUEUE_FAIR);
		s.cfg.max_num_seqs = 3;
		s.log = !lazy;
		for (int i = 0; i < 5; i++) {
			sched_add(&s, of[i].at_ns, of[i].prompt, of[i].output);
			of_tenant(&s, of[i].tenant);
		}
		CHECK_INT(sched_run(&s), ERR_NONE);
		TIMES(s, 4, 30, 40, 40);
		TIMES(s, 3, 40, 50, 50);
		sched_free(&s);
	}
}

/* --- mlfq --------------------------------------------------------------------------------------------------------- */

static void with_levels(struct sched *s, int32_t levels, int64_t quantum, int64_t promote_ns)
{
	s->cfg.queue_order = QUEUE_MLFQ;
	s->cfg.order = (struct order_params){
		.input_weight = 1, .output_weight = 2, .levels = levels, .quantum = quantum, .promote_ns = promote_ns};
	s->cfg.max_num_seqs = 1;
}

/* One place, quantum 8. A (4 tokens, 10 outputs) has had 4 + 2 x 2 = 8 at 20 and sinks; B (4, 2), there since 15, takes its place.
 *   0-20 A1 A2; 20-40 B1 B2; 40-50 A's 6 tokens again: A3; 50-120 A4 .. A10 */
static void mlfq_lets_the_new_overtake_the_long(void)
{
	struct sched s;
	begin(&s, "vllm_v1", "", QUEUE_MLFQ);
	with_levels(&s, 3, 8, 0);
	sched_add(&s, 0, 4, 10);
	sched_add(&s, 15, 4, 2);
	CHECK_INT(sched_run(&s), ERR_NONE);
	TIMES(s, 0, 0, 10, 120);
	TIMES(s, 1, 20, 30, 40);
	CHECK_INT(s.requests[0].preemptions, 1);
	CHECK_INT(s.requests[0].recomputed_tokens, 5);
	sched_free(&s);
}

/* One place, quantum 8: C's 20 tokens fit neither 8 nor 16, so it joins the third level, behind D (4), which came after it. */
static void mlfq_long_prompts_skip_levels(void)
{
	struct sched s;
	begin(&s, "vllm_v1", "", QUEUE_MLFQ);
	with_levels(&s, 3, 8, 0);
	sched_add(&s, 0, 20, 1);
	sched_add(&s, 0, 4, 1);
	CHECK_INT(sched_run(&s), ERR_NONE);
	TIMES(s, 1, 0, 10, 10);
	TIMES(s, 0, 10, 20, 20);
	sched_free(&s);
}

/* One place. A (20 tokens, level 2) and D (4, 3 outputs, 0-30) come at 0, E (4, 1) at 25, F (4, 1) at 35. At 30 A has waited 30 and
 * rises behind E: E 30-40, A 40-50, F 50-60. Without rising F comes before A, at 40. */
static void mlfq_who_waits_long_rises(void)
{
	for (int rises = 0; rises < 2; rises++) {
		struct sched s;
		begin(&s, "vllm_v1", "", QUEUE_MLFQ);
		with_levels(&s, 3, 8, rises ? 30 : 0);
		sched_add(&s, 0, 20, 1);
		sched_add(&s, 0, 4, 3);
		sched_add(&s, 25, 4, 1);
		sched_add(&s, 35, 4, 1);
		CHECK_INT(sched_run(&s), ERR_NONE);
		TIMES(s, 0, rises ? 40 : 50, rises ? 50 : 60, rises ? 50 : 60);
		sched_free(&s);
	}
}

static void every_policy_that_stops_requests_heeds_levels(void)
{
	static const char *const of[][2] = {{"vllm_v1", ""},
					    {"vllm_v0", "watermark=0"},
					    {"sarathi", "watermark=0"},
					    {"orca", "paged=on"},
					    {"trtllm", "capacity_scheduler=max_utilization"},
					    {"sglang", ""}};
	for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
		struct sched s;
		begin(&s, of[i][0], of[i][1], QUEUE_MLFQ);
		with_levels(&s, 3, 8, 0);
		sched_add(&s, 0, 4, 10);
		sched_add(&s, 15, 4, 2);
		CHECK_INT(sched_run(&s), ERR_NONE);
		CHECK_INT(s.requests[0].preemptions, 1);
		CHECK_INT(s.requests[1].first_sched_ns, 20);
		sched_free(&s);
	}
}

/* --- who gives way ------------------------------------------------------------------------------------------------ */

struct five {
	int32_t prompt, output, priority;
	int64_t at_ns;
};

/* The first to give way when these run together under vllm_v1 with pieces of 4 tokens. */
static int32_t first_victim(const struct five *of, int n, int32_t blocks, enum victim who, bool caching)
{
	struct sched s;
	begin(&s, "vllm_v1", "long_prefill_token_threshold=4,reserve_full_prompt=off", QUEUE_FCFS);
	s.cfg.num_blocks = blocks;
	s.cfg.victim = who;
	s.cfg.prefix_caching = caching;
	s.cfg.max_model_len = 4 * blocks;
	for (int i = 0; i < n; i++) {
		sched_add(&s, of[i].at_ns, of[i].prompt, of[i].output);
		s.w.specs[i].priority = of[i].priority;
	}
	CHECK_INT(sched_run(&s), ERR_NONE);
	struct event ev = sched_event(&s, EVENT_PREEMPT, -1, 0);
	CHECK_INT(ev.step, 6);
	CHECK_INT(s.stats.finished, n);
	sched_free(&s);
	return ev.req;
}

/* Five requests A to E, pieces of 4 tokens: after six steps they hold 3 + 3 + 3 + 6 + 4 = 19 blocks, all there are, and A's 13th
 * token needs another. By then
 *      tokens in all  computed  may still produce  priority
 *   A  8 + 5          12        35                 0
 *   B  4 + 6           9        14                 0
 *   C  8 + 5          12        15                 5
 *   D  60 + 0         24        20                 0
 *   E  12 + 4         15        16                 0       the last */
static void each_choice_names_another_victim(void)
{
	static const struct five of[] = {{8, 40, 0, 0}, {4, 20, 0, 0}, {8, 20, 5, 0}, {60, 15, 0, 0}, {12, 20, 0, 0}};
	CHECK_INT(first_victim(of, 5, 19, VICTIM_DEFAULT, false), 4);
	CHECK_INT(first_victim(of, 5, 19, VICTIM_LAST, false), 4);
	CHECK_INT(first_victim(of, 5, 19, VICTIM_SHORTEST, false), 1);
	CHECK_INT(first_victim(of, 5, 19, VICTIM_LONGEST_LEFT, false), 0);
	CHECK_INT(first_victim(of, 5, 19, VICTIM_LOWEST_PRIORITY, false), 2);
	CHECK_INT(first_victim(of, 5, 19, VICTIM_LEAST_WORK_LOST, false), 1);
	/* A cache knows the full blocks of A, C and D; but nobody else holds them, and A would take them at once. */
	CHECK_INT(first_victim(of, 5, 19, VICTIM_LEAST_WORK_LOST, true), 1);
}

/* A and B begin with the same 16 tokens; B finds them at 10. At 50, with 11 blocks, A needs its sixth. By then A has computed
 * 20 tokens, 4 of them its own, B 23 with 7 of its own, and C 16, which are in full blocks that the cache knows. */
static void what_others_hold_as_well_is_not_lost(void)
{
	struct sched s;
	begin(&s, "vllm_v1", "", QUEUE_FCFS);
	s.cfg.num_blocks = 11;
	s.cfg.victim = VICTIM_LEAST_WORK_LOST;
	s.cfg.prefix_caching = true;
	s.cfg.max_model_len = 44;
	sched_add(&s, 0, 16, 12);
	sched_share(&s, 7, 16);
	sched_add(&s, 0, 12, 12);
	sched_add(&s, 10, 20, 12);
	sched_share(&s, 7, 16);
	CHECK_INT(sched_run(&s), ERR_NONE);
	struct event ev = sched_event(&s, EVENT_PREEMPT, -1, 0);
	CHECK_INT(ev.step, 5);
	CHECK_INT(ev.req, 0);
	CHECK_INT(s.stats.finished, 3);
	sched_free(&s);
}

/* D comes at 40, so that it has computed 8 of its 30 tokens when 3 + 3 + 3 + 2 blocks are taken: little to lose, but not short. */
static void the_shortest_is_not_always_the_least_work(void)
{
	static const struct five of[] = {{8, 30, 0, 0}, {4, 20, 0, 0}, {8, 20, 5, 0}, {30, 10, 0, 40}};
	CHECK_INT(first_victim(of, 4, 11, VICTIM_SHORTEST, false), 1);
	CHECK_INT(first_victim(of, 4, 11, VICTIM_LEAST_WORK_LOST, false), 3);
}

static void what_is_not_heeded_is_refused(void)
{
	static const struct {
		const char *policy, *params, *text;
		bool kv_off, order;
	} cases[] = {
		{"orca", "", "--victim shortest has no meaning for policy orca: it reserves", false, false},
		{"static", "", "--victim shortest has no meaning for policy static: it reserves", false, false},
		{"trtllm", "", "--victim shortest has no meaning for policy trtllm: guaranteed_no_evict", false, false},
		{"random", "", "--victim shortest has no meaning for policy random: it draws", false, false},
		{"random", "", "--scheduling-policy sjf has no meaning for policy random: it draws", false, true},
		{"orca", "paged=on", "--victim shortest has no meaning for policy orca: without a KV cache", true,
		 false},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct sched s;
		begin(&s, cases[i].policy, cases[i].params,
		      !cases[i].order                 ? QUEUE_FCFS
		      : strstr(cases[i].text, "mlfq") ? QUEUE_MLFQ
		      : strstr(cases[i].text, "edf")  ? QUEUE_EDF
						      : QUEUE_SJF);
		s.cfg.victim = cases[i].order ? VICTIM_DEFAULT : VICTIM_SHORTEST;
		s.cfg.kv_off = cases[i].kv_off;
		sched_add(&s, 0, 4, 1);
		CHECK_INT(sched_run(&s), ERR_INPUT);
		CU_ASSERT(strncmp(s.err.text, cases[i].text, strlen(cases[i].text)) == 0);
		sched_free(&s);
	}
}

/* Every policy that can take memory back heeds the choice: B (8 prompt tokens) gives way to A (4), or A to B. A, B: 12 outputs;
 * as soon as neither can have another block, one of the two is out. */
static void every_policy_heeds_it(void)
{
	static const char *const of[][2] = {{"vllm_v1", ""},
					    {"vllm_v0", "watermark=0"},
					    {"sarathi", "watermark=0"},
					    {"orca", "paged=on"},
					    {"static", "reserve=off,pad=off,hold_finished=off"},
					    {"trtllm", "capacity_scheduler=max_utilization"},
					    {"sglang", "schedule_conservativeness=0.01"}};
	for (size_t i = 0; i < sizeof of / sizeof *of; i++)
		for (int short_first = 0; short_first < 2; short_first++) {
			struct sched s;
			begin(&s, of[i][0], of[i][1], QUEUE_FCFS);
			s.cfg.num_blocks = 7;
			s.cfg.victim = VICTIM_SHORTEST;
			sched_add(&s, 0, short_first ? 4 : 8, 12);
			/* sglang would not take both at once. */
			sched_add(&s, i == 6 ? 5 : 0, short_first ? 8 : 4, 12);
			CHECK_INT(sched_run(&s), ERR_NONE);
			CU_ASSERT(s.stats.preemptions > 0);
			CHECK_INT(sched_event(&s, EVENT_PREEMPT, -1, 0).req, !short_first);
			CU_ASSERT(s.stats.recomputed_tokens > 0);
			sched_free(&s);
		}
}

/* A tree of many waiting requests is walked in the order of its keys, whatever came in and went out before. */
static void many_waiting_stay_in_order(void)
{
	enum { N = 20000 };
	struct wait_tree t;
	struct rng r;
	static bool in[N];
	rng_init(&r, 3, 3);
	CHECK_INT(wait_tree_init(&t, N, NULL), ERR_NONE);
	int32_t count = 0;
	for (int32_t k = 0; k < 3 * N; k++) {
		int32_t i = (int32_t)rng_below(&r, N);
		if (in[i])
			wait_tree_take(&t, i);
		else
			wait_tree_add(&t, i, (struct wait_key){(int64_t)rng_below(&r, 50), (int64_t)rng_below(&r, 9)});
		count += in[i] ? -1 : 1;
		in[i] = !in[i];
	}
	int32_t seen = 0, out_of_order = 0;
	for (int32_t i = wait_tree_first(&t), last = -1; i >= 0; last = i, i = wait_tree_next(&t, i)) {
		const struct wait_key *x = last < 0 ? NULL : &t.at[last].key, *y = &t.at[i].key;
		out_of_order += !in[i];
		if (x)
			out_of_order += x->first != y->first     ? x->first > y->first
					: x->second != y->second ? x->second > y->second
								 : last > i;
		seen++;
	}
	CHECK_INT(seen, count);
	CHECK_INT(out_of_order, 0);
	wait_tree_free(&t);
}

int main(void)
{
	static const struct test tests[] = {
		{"sjf_serves_the_shortest_of_those_that_wait", sjf_serves_the_shortest_of_those_that_wait},
		{"sjf_knows_no_more_than_its_predictor", sjf_knows_no_more_than_its_predictor},
		{"the_mean_is_that_of_the_tenant", the_mean_is_that_of_the_tenant},
		{"predictions_err_as_much_as_asked", predictions_err_as_much_as_asked},
		{"predictors_are_named_by_text", predictors_are_named_by_text},
		{"edf_serves_what_is_due_first", edf_serves_what_is_due_first},
		{"fair_takes_turns", fair_takes_turns},
		{"having_been_idle_earns_nothing", having_been_idle_earns_nothing},
		{"decoding_is_charged_as_tokens_come", decoding_is_charged_as_tokens_come},
		{"mlfq_lets_the_new_overtake_the_long", mlfq_lets_the_new_overtake_the_long},
		{"mlfq_long_prompts_skip_levels", mlfq_long_prompts_skip_levels},
		{"mlfq_who_waits_long_rises", mlfq_who_waits_long_rises},
		{"every_policy_that_stops_requests_heeds_levels", every_policy_that_stops_requests_heeds_levels},
		{"each_choice_names_another_victim", each_choice_names_another_victim},
		{"what_others_hold_as_well_is_not_lost", what_others_hold_as_well_is_not_lost},
		{"the_shortest_is_not_always_the_least_work", the_shortest_is_not_always_the_least_work},
		{"what_is_not_heeded_is_refused", what_is_not_heeded_is_refused},
		{"every_policy_heeds_it", every_policy_heeds_it},
		{"many_waiting_stay_in_order", many_waiting_stay_in_order},
	};
	return SUITE_RUN("policies_orders", tests);
}
