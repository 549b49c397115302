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
	CHECK_STR(slo_limit_names[r.points[r.at_high].limit], "places");
	CHECK_INT(r.points[r.at_low].state, SLO_STABLE);
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
	CHECK_STR(slo_limit_names[r.points[r.at_high].limit], "memory");
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
		{"what_cannot_be_asked_is_refused", what_cannot_be_asked_is_refused},
		{"a_stop_ends_it", a_stop_ends_it},
	};
	return SUITE_RUN("analysis_slo", tests);
}
