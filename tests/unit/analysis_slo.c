/* The search for the highest rate that meets objectives: capacities known by hand, attainment that is not monotone, who is
 * named as the limit. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analysis/slo.h"
#include "core/err.h"
#include "tests/support/suite.h"

/* n requests, one a second, each of one prompt token and so many outputs. */
static void even_workload(struct workload *w, int64_t n, int32_t outputs)
{
	struct err e = {0};
	workload_init(w);
	for (int64_t i = 0; i < n; i++) {
		struct spec s = {.arrival_ns = i * NS_PER_S,
				 .name_at = -1,
				 .session = -1,
				 .row = (int32_t)i + 1,
				 .prompt_tokens = 1,
				 .output_tokens = outputs};
		CU_ASSERT_EQUAL_FATAL(workload_add(w, &s, &e), ERR_NONE);
	}
	workload_set_max_tokens(w, MAX_TOKENS_MAX, 64);
}

/* Every step takes 10 ms. */
static struct run_settings ten_ms_steps(int32_t seats, double ttft_ms, double tpot_ms)
{
	struct run_settings s;
	run_settings_default(&s);
	s.policy = "chunked";
	s.cost = "constant:10ms";
	s.num_gpu_blocks_override = 1000;
	s.engine.max_num_seqs = seats;
	s.record = RECORD_NONE;
	s.label = "by hand";
	s.slo = GOODPUT_NONE;
	if (ttft_ms > 0)
		s.slo.ttft_ns = (int64_t)(ttft_ms * 1e6);
	if (tpot_ms > 0)
		s.slo.tpot_ns = (int64_t)(tpot_ms * 1e6);
	return s;
}

static const struct slo_options options = {.attainment = 0.99, .precision = 0.01, .max_points = SLO_POINTS_MAX};

static struct slo_result search(const struct run_settings *s, struct workload *w)
{
	struct slo_result r;
	struct err e = {0};
	int rc = slo_search(s, w, &options, NULL, &r, &e);
	if (rc)
		fprintf(stderr, "%s\n", e.text);
	CHECK_INT(rc, ERR_NONE);
	/* Points in order, the bracket among them, passes below. */
	for (int32_t i = 0; i < r.n_points; i++) {
		if (i)
			CU_ASSERT(r.points[i].rate > r.points[i - 1].rate);
		if (r.points[i].rate <= r.low)
			CU_ASSERT(r.points[i].passes);
		CU_ASSERT(!(r.points[i].passes && r.points[i].attainment < options.attainment));
	}
	return r;
}

/* One request at a time, one step each: 100 a second are served. Above, each waits longer than the one before by what the
 * gaps lack, and at most 30 of 3,000 may wait longer than 5 ms: 2970 x (10 ms - gap) = 5 ms, 100.017 a second. */
static void a_capacity_known_by_hand_is_bracketed(void)
{
	struct workload w;
	even_workload(&w, 3000, 1);
	struct run_settings s = ten_ms_steps(1, 15, 0);
	struct slo_result r = search(&s, &w);
	CHECK_INT(r.outcome, SLO_BRACKETED);
	CU_ASSERT(r.low <= 100.0169 && r.high > 100.0168);
	CU_ASSERT(r.high / r.low <= 1.0101);
	CU_ASSERT(r.again == 0);
	CHECK_STR(slo_limit_names[r.points[r.at_fail].limit], "places");
	CHECK_INT(r.points[r.at_pass].state, SLO_STABLE);
	/* A rate far above is given up long before its end. */
	CU_ASSERT(r.points[r.n_points - 1].cut_short);
	CU_ASSERT(r.points[r.n_points - 1].attainment < 0.99);
	CHECK_INT(w.specs[7].arrival_ns, 7 * NS_PER_S);
	workload_free(&w);
}

/* Four steps each, five at once at most, steps of 10 ms that follow each other without a gap: who comes while one runs
 * waits for its end. So 10.5 ms are met by those who come at an idle moment, up to 25 a second, and once more at 100 a second
 * exactly, when each comes as a step ends. The search begins at 100. */
static void attainment_that_is_not_monotone_is_told(void)
{
	struct workload w;
	even_workload(&w, 500, 4);
	struct run_settings s = ten_ms_steps(5, 10.5, 0);
	struct slo_result r = search(&s, &w);
	CHECK_INT(r.outcome, SLO_BRACKETED);
	CU_ASSERT(r.low > 20 && r.low < 27);
	CU_ASSERT(r.high > r.low && r.high < 30);
	CHECK_NEAR(r.again, 100, 1e-6);
	workload_free(&w);
}

static void what_always_or_never_holds_is_said(void)
{
	struct workload w;
	even_workload(&w, 200, 3);
	struct run_settings s = ten_ms_steps(256, 1e6, 0);
	struct slo_result r = search(&s, &w);
	CHECK_INT(r.outcome, SLO_ALWAYS);
	CU_ASSERT(isinf(r.high) && r.low > 1000);
	s = ten_ms_steps(256, 9, 0); /* a step takes 10 */
	r = search(&s, &w);
	CHECK_INT(r.outcome, SLO_NEVER);
	CHECK_STR(slo_limit_names[r.points[0].limit], "prefill");
	s = ten_ms_steps(256, 0, 9);
	r = search(&s, &w);
	CHECK_INT(r.outcome, SLO_NEVER);
	CHECK_STR(slo_limit_names[r.points[0].limit], "decode");
	/* Neither can a configuration that refuses every request. */
	s = ten_ms_steps(256, 100, 0);
	s.engine.max_model_len = 1;
	r = search(&s, &w);
	CHECK_INT(r.outcome, SLO_IMPOSSIBLE);
	CU_ASSERT(r.text[0] != '\0');
	workload_free(&w);
}

/* 16 tokens a block, 4 blocks: two requests of 32 tokens. */
static void memory_is_named_as_the_limit(void)
{
	struct workload w;
	even_workload(&w, 400, 31);
	struct run_settings s = ten_ms_steps(256, 100, 0);
	s.num_gpu_blocks_override = 4;
	struct slo_result r = search(&s, &w);
	CHECK_INT(r.outcome, SLO_BRACKETED);
	CHECK_STR(slo_limit_names[r.points[r.at_fail].limit], "memory");
	workload_free(&w);
}

/* --- fewest replicas ---------------------------------------------------------------------------------------------- */

static struct slo_result fewest(const struct run_settings *s, struct workload *w, double rate, int32_t most)
{
	struct slo_result r;
	struct err e = {0};
	struct slo_options o = options;
	o.find = SLO_FIND_REPLICAS;
	o.rate = rate;
	o.max_replicas = most;
	int rc = slo_search(s, w, &o, NULL, &r, &e);
	if (rc)
		fprintf(stderr, "%s\n", e.text);
	CHECK_INT(rc, ERR_NONE);
	for (int32_t i = 0; i < r.n_points; i++) {
		CHECK_NEAR(r.points[i].rate, rate > 0 ? rate : 1, 1e-9);
		if (i)
			CU_ASSERT(r.points[i].replicas > r.points[i - 1].replicas);
		CU_ASSERT(r.points[i].replicas <= most);
	}
	return r;
}

/* One request at a time, 10 ms each, one every 4 ms in turns: each of three gets one every 12 ms, each of two every 8. */
static void the_fewest_replicas_are_found(void)
{
	struct workload w;
	even_workload(&w, 3000, 1);
	struct run_settings s = ten_ms_steps(1, 15, 0);
	struct slo_result r = fewest(&s, &w, 250, 64);
	CHECK_INT(r.outcome, SLO_BRACKETED);
	CHECK_NEAR(r.high, 3, 0);
	CHECK_NEAR(r.low, 2, 0);
	CHECK_NEAR(r.sure_high, 3, 0);
	CHECK_NEAR(r.sure_low, 2, 0);
	CU_ASSERT(r.again == 0);
	CHECK_INT(r.points[r.at_pass].replicas, 3);
	CHECK_STR(slo_limit_names[r.points[r.at_fail].limit], "places");
	/* As it is, one a second, one is enough; and two are not when no more may be. */
	r = fewest(&s, &w, 0, 64);
	CHECK_INT(r.outcome, SLO_ALWAYS);
	CHECK_NEAR(r.high, 1, 0);
	r = fewest(&s, &w, 250, 2);
	CHECK_INT(r.outcome, SLO_NEVER);
	CHECK_INT(r.points[r.n_points - 1].replicas, 2);
	CU_ASSERT(isinf(r.sure_high));
	/* 100 a second fill each: 47 for 4,700. */
	r = fewest(&s, &w, 4699, 64);
	CHECK_NEAR(r.high, 47, 0);
	CHECK_INT(w.specs[7].arrival_ns, 7 * NS_PER_S);
	workload_free(&w);
}

/* Every other request takes 40 ms, the rest 10, one every 9 ms. In turns among three each gets one of either kind every 54 ms;
 * among four two get the long ones alone, one every 36 ms. */
static void more_replicas_that_do_worse_are_told(void)
{
	struct workload w;
	even_workload(&w, 3000, 1);
	for (int64_t i = 0; i < w.n; i += 2)
		w.specs[i].output_tokens = w.specs[i].max_tokens = 4;
	struct run_settings s = ten_ms_steps(1, 30, 0);
	struct slo_result r = fewest(&s, &w, 1000 / 9.0, 64);
	CHECK_INT(r.outcome, SLO_BRACKETED);
	CHECK_NEAR(r.high, 3, 0);
	CHECK_NEAR(r.low, 2, 0);
	CHECK_NEAR(r.again, 4, 0);
	workload_free(&w);
}

/* --- classes ------------------------------------------------------------------------------------------------------ */

static void must_parse(struct goodput_slo *g, const char *word)
{
	struct err e = {0};
	CHECK_INT(goodput_parse(g, word, &e), ERR_NONE);
	CHECK_STR(e.text, "");
}

/* One in fifty is of class rare and asks for 12 ms where others ask for 50: too few to be missed if all counted alike. */
static void each_class_must_reach_the_attainment(void)
{
	struct workload w;
	struct err e = {0};
	int32_t rare;
	even_workload(&w, 3000, 1);
	CHECK_INT(workload_tenant(&w, "rare", &rare, &e), ERR_NONE);
	for (int64_t i = 49; i < w.n; i += 50)
		w.specs[i].tenant = rare;
	/* Two at a time: the second waits for the first. Rare ones are second. */
	for (int64_t i = 1; i < w.n; i += 2)
		w.specs[i].arrival_ns = w.specs[i - 1].arrival_ns;
	struct run_settings s = ten_ms_steps(1, 50, 0);
	struct slo_result all = search(&s, &w);
	CHECK_INT(all.outcome, SLO_BRACKETED);
	must_parse(&s.slo, "rare/ttft:12");
	struct slo_result r = search(&s, &w);
	CHECK_INT(r.outcome, SLO_NEVER); /* it waits 10 and takes 10, whatever the rate */
	const struct slo_point *p = &r.points[0];
	CHECK_INT(p->worst, 0);
	CHECK_INT(p->shares[0].n, 60);
	CHECK_INT(p->shares[1].n, 2940);
	/* Where it may be later than others it is they who decide. */
	must_parse(&s.slo, "rare/ttft:none");
	r = search(&s, &w);
	CHECK_INT(r.outcome, SLO_BRACKETED);
	CU_ASSERT(r.low >= all.low * 0.99 && r.low <= all.high * 1.01);
	CHECK_INT(r.points[r.at_fail].worst, 1);
	workload_free(&w);
}

static void words_of_classes_come_back(void)
{
	struct goodput_slo g = GOODPUT_NONE;
	struct err e = {0};
	struct workload w;
	char text[GOODPUT_TEXT];
	const char *const words[] = {"tpot:40", "chat/ttft:200", "priority=-1/e2el:0.5", "a/b/ttft:1",
				     "chat/tpot:none"};
	for (int i = 0; i < 5; i++)
		must_parse(&g, words[i]);
	CHECK_STR(goodput_text(&g, text), "tpot:40 chat/ttft:200 chat/tpot:none priority=-1/e2el:0.5 a/b/ttft:1");
	CHECK_INT(goodput_parse(&g, "/ttft:5", &e), ERR_INPUT);
	err_clear(&e);
	CHECK_INT(goodput_parse(&g, "ttft:none", &e), ERR_INPUT);
	err_clear(&e);
	/* Of a class and a priority both listed, the first listed counts. */
	even_workload(&w, 3, 1);
	int32_t chat;
	CHECK_INT(workload_tenant(&w, "chat", &chat, &e), ERR_NONE);
	w.specs[0].tenant = chat;
	w.specs[0].priority = w.specs[1].priority = -1;
	CHECK_INT(goodput_class_of(&g, &w, &w.specs[0]), 0);
	CHECK_INT(goodput_class_of(&g, &w, &w.specs[1]), 1);
	CHECK_INT(goodput_class_of(&g, &w, &w.specs[2]), -1);
	struct goodput_limits l = goodput_limits(&g, &w, &w.specs[0]);
	CHECK_INT(l.ttft_ns, 200 * NS_PER_MS);
	CHECK_INT(l.tpot_ns, -2);
	l = goodput_limits(&g, &w, &w.specs[1]);
	CHECK_INT(l.tpot_ns, 40 * NS_PER_MS);
	CHECK_INT(l.e2el_ns, NS_PER_MS / 2);
	CHECK_INT(goodput_check(&g, &w, &e), ERR_INPUT);
	CHECK_STR(e.text, "--goodput a/b/...: no request is of that class; there are chat");
	workload_free(&w);
}

static void what_cannot_be_asked_is_refused(void)
{
	struct workload w;
	struct slo_result r;
	struct err e = {0};
	even_workload(&w, 10, 1);
	struct run_settings s = ten_ms_steps(1, 0, 0);
	CHECK_INT(slo_search(&s, &w, &options, NULL, &r, &e), ERR_INPUT);
	CU_ASSERT_PTR_NOT_NULL(strstr(e.text, "no objective"));
	err_clear(&e);
	s = ten_ms_steps(1, 15, 0);
	for (int64_t i = 0; i < w.n; i++)
		w.specs[i].arrival_ns = 5;
	CHECK_INT(slo_search(&s, &w, &options, NULL, &r, &e), ERR_INPUT);
	CU_ASSERT_PTR_NOT_NULL(strstr(e.text, "all requests arrive at once"));
	err_clear(&e);
	struct slo_options bad = options;
	bad.attainment = 0;
	w.specs[9].arrival_ns = 6;
	CHECK_INT(slo_search(&s, &w, &bad, NULL, &r, &e), ERR_INPUT);
	CU_ASSERT_PTR_NOT_NULL(strstr(e.text, "attainment 0"));
	workload_free(&w);
}

static void a_stop_ends_it(void)
{
	struct workload w;
	struct slo_result r;
	struct err e = {0};
	volatile int stop = 1;
	even_workload(&w, 10, 1);
	struct run_settings s = ten_ms_steps(1, 15, 0);
	CHECK_INT(slo_search(&s, &w, &options, &stop, &r, &e), ERR_INTERRUPTED);
	CHECK_INT(w.specs[7].arrival_ns, 7 * NS_PER_S);
	workload_free(&w);
}

int main(void)
{
	static const struct test tests[] = {
		{"a_capacity_known_by_hand_is_bracketed", a_capacity_known_by_hand_is_bracketed},
		{"attainment_that_is_not_monotone_is_told", attainment_that_is_not_monotone_is_told},
		{"what_always_or_never_holds_is_said", what_always_or_never_holds_is_said},
		{"memory_is_named_as_the_limit", memory_is_named_as_the_limit},
		{"the_fewest_replicas_are_found", the_fewest_replicas_are_found},
		{"more_replicas_that_do_worse_are_told", more_replicas_that_do_worse_are_told},
		{"each_class_must_reach_the_attainment", each_class_must_reach_the_attainment},
		{"words_of_classes_come_back", words_of_classes_come_back},
		{"what_cannot_be_asked_is_refused", what_cannot_be_asked_is_refused},
		{"a_stop_ends_it", a_stop_ends_it},
	};
	return SUITE_RUN("analysis_slo", tests);
}
