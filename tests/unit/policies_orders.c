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
	/* A cache keeps full blocks: A, C and D would lose nothing, and D came after them. */
	CHECK_INT(first_victim(of, 5, 19, VICTIM_LEAST_WORK_LOST, true), 3);
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
		begin(&s, cases[i].policy, cases[i].params, cases[i].order ? QUEUE_SJF : QUEUE_FCFS);
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
		{"each_choice_names_another_victim", each_choice_names_another_victim},
		{"the_shortest_is_not_always_the_least_work", the_shortest_is_not_always_the_least_work},
		{"what_is_not_heeded_is_refused", what_is_not_heeded_is_refused},
		{"every_policy_heeds_it", every_policy_heeds_it},
		{"many_waiting_stay_in_order", many_waiting_stay_in_order},
	};
	return SUITE_RUN("policies_orders", tests);
}
