/* Calibration: what was put in comes out, within what it claims; what a log cannot tell is not claimed. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analysis/calibrate.h"
#include "analysis/calibrate_internal.h"
#include "analysis/store.h"
#include "core/err.h"
#include "core/mem.h"
#include "core/rng.h"
#include "tests/support/suite.h"
#include "traces/reader.h"

/* A log made by the simulator itself. */
struct made {
	struct workload w;
	struct measured m;
	struct run_settings s;
	struct calibrate_options o;
	struct calibrate_result r;
	struct err e;
};

enum { REQUESTS = 80 };

static void settings(struct run_settings *s)
{
	run_settings_default(s);
	s->policy = "chunked";
	s->model = "llama-3.2-1b";
	s->device = "h100-sxm";
	s->num_gpu_blocks_override = 1500;
	s->engine.max_num_seqs = 16;
	s->record = RECORD_NONE;
}

/* Bursts of requests: alone, together, and more than fit. */
static void make_workload(struct workload *w, bool alike)
{
	struct rng rng;
	struct err e = {0};
	rng_init(&rng, 7, 1);
	workload_init(w);
	int64_t at = 0;
	for (int32_t i = 0; i < REQUESTS; i++) {
		struct spec s = {.arrival_ns = at, .name_at = -1, .session = -1, .row = i + 1};
		s.prompt_tokens = alike ? 64 : 20 + (int32_t)rng_below(&rng, 1500);
		s.output_tokens = s.max_tokens = alike ? 4 : 4 + (int32_t)rng_below(&rng, 60);
		at += alike ? NS_PER_S : (int64_t)rng_below(&rng, i % 20 < 10 ? 8000000 : 60000000);
		CHECK_INT(workload_add(w, &s, &e), ERR_NONE);
	}
}

static void make_log(struct made *x, const char *cost, bool alike)
{
	struct run_result r;
	memset(x, 0, sizeof *x);
	settings(&x->s);
	make_workload(&x->w, alike);
	x->s.cost = cost;
	CHECK_INT(run_execute(&x->s, &x->w, NULL, &r, &x->e), ERR_NONE);
	x->m = (struct measured){.format = MEASURED_RUN, .has_scheduled = true};
	for (int64_t i = 0; i < r.n; i++) {
		const struct measured_request q = {.prompt_tokens = x->w.specs[i].prompt_tokens,
						   .output_tokens = x->w.specs[i].output_tokens,
						   .row = (int32_t)i + 1,
						   .arrival_ns = r.requests[i].arrival_ns,
						   .scheduled_ns = r.requests[i].first_sched_ns,
						   .first_token_ns = r.requests[i].first_token_ns,
						   .last_token_ns = r.requests[i].last_token_ns};
		CHECK_INT(measured_add(&x->m, &q, "made", &x->e), ERR_NONE);
	}
	run_result_free(&r);
	x->s.cost = NULL;
	calibrate_options_default(&x->o);
	x->o.settings = &x->s;
	x->o.workload = &x->w;
	x->o.measured = &x->m;
	x->o.max_evals = 200;
}

static void drop(struct made *x)
{
	workload_free(&x->w);
	measured_free(&x->m);
}

static uint32_t mask(const char *names)
{
	uint32_t m = 0;
	struct err e = {0};
	CHECK_INT(calibrate_parse_params(names, &m, &e), ERR_NONE);
	return m;
}

/* Within two standard deviations and `percent` of what it was made with. */
static void check_recovered(const struct made *x, enum calibrate_param p, double truth, double percent)
{
	const struct calibrate_estimate *q = &x->r.estimates[p];
	CU_ASSERT_TRUE(q->fitted);
	CHECK_NEAR(q->value / truth, 1, percent / 100);
	double sd = log(q->high / q->value);
	CU_ASSERT_TRUE(sd > 0);
	CU_ASSERT_TRUE(fabs(log(truth / q->value)) <= 3 * sd + 1e-3);
}

static void known_parameters_are_recovered(void)
{
	struct made x;
	make_log(&x, "roofline:gemm=0.55,memory=0.62", false);
	x.o.params = mask("gemm,memory");
	x.o.max_evals = 400;
	x.o.params_given = true;
	CHECK_INT(calibrate(&x.o, &x.r, &x.e), ERR_NONE);
	check_recovered(&x, CALIBRATE_GEMM, 0.55, 5);
	check_recovered(&x, CALIBRATE_MEMORY, 0.62, 5);
	for (int m = CALIBRATE_TTFT; m < CALIBRATE_METRICS; m++)
		for (int k = 0; k < CALIBRATE_STATS; k++)
			CHECK_NEAR(x.r.after[CALIBRATE_HELD].percent[m][k], 0, 2);
	CU_ASSERT_TRUE(x.r.after[CALIBRATE_FIT].loss < x.r.before[CALIBRATE_FIT].loss / 5);
	CU_ASSERT_TRUE(x.r.evals <= 405);
	drop(&x);
}

static void same_seed_same_answer(void)
{
	struct made x, y;
	make_log(&x, "roofline:memory=0.6", false);
	x.o.params = mask("memory");
	x.o.max_evals = 30;
	CHECK_INT(calibrate(&x.o, &x.r, &x.e), ERR_NONE);
	y = x;
	CHECK_INT(calibrate(&y.o, &y.r, &y.e), ERR_NONE);
	CHECK_STR(x.r.cost, y.r.cost);
	CU_ASSERT_EQUAL(x.r.estimates[CALIBRATE_MEMORY].low, y.r.estimates[CALIBRATE_MEMORY].low);
	/* A parameter alone is found all the same. */
	check_recovered(&x, CALIBRATE_MEMORY, 0.6, 5);
	drop(&x);
}

static void held_out_part_has_no_say(void)
{
	struct made x;
	make_log(&x, "roofline:memory=0.6", false);
	x.o.params = mask("memory");
	x.o.max_evals = 40;
	CHECK_INT(calibrate(&x.o, &x.r, &x.e), ERR_NONE);
	struct calibrate_result honest = x.r;
	for (int64_t i = REQUESTS / 2; i < REQUESTS; i++) /* a server that became slow */
		x.m.at[i].last_token_ns += 10 * NS_PER_S;
	CHECK_INT(calibrate(&x.o, &x.r, &x.e), ERR_NONE);
	CHECK_STR(x.r.cost, honest.cost);
	CU_ASSERT_TRUE(x.r.after[CALIBRATE_HELD].percent[CALIBRATE_E2E][CALIBRATE_P50] < -50);
	drop(&x);
}

static void parameter_nothing_depends_on_is_left_alone(void)
{
	struct made x;
	make_log(&x, "roofline:memory=0.6", true);
	x.o.params = mask("memory,mixed");
	x.o.max_evals = 40;
	/* One request at a time: no step holds prompts beside decodes. */
	CHECK_INT(calibrate(&x.o, &x.r, &x.e), ERR_NONE);
	CU_ASSERT_TRUE(x.r.estimates[CALIBRATE_MIXED].undetermined);
	CU_ASSERT_FALSE(x.r.estimates[CALIBRATE_MIXED].fitted);
	CHECK_NEAR(x.r.estimates[CALIBRATE_MIXED].value, 1, 0);
	CU_ASSERT_PTR_NULL(strstr(x.r.cost, "mixed"));
	check_recovered(&x, CALIBRATE_MEMORY, 0.6, 5);
	/* Named, it is an error that names it; forced, it is fitted. */
	x.o.params_given = true;
	CHECK_INT(calibrate(&x.o, &x.r, &x.e), ERR_STALL);
	CU_ASSERT_PTR_NOT_NULL(strstr(x.e.text, "cannot determine mixed"));
	err_clear(&x.e);
	x.o.force = true;
	CHECK_INT(calibrate(&x.o, &x.r, &x.e), ERR_NONE);
	CU_ASSERT_TRUE(x.r.estimates[CALIBRATE_MIXED].fitted);
	drop(&x);
}

/* All steps alike: their time can be told, but not which of two parts it is made of. */
static void parts_that_cannot_be_told_apart_are_not_claimed(void)
{
	struct made x;
	make_log(&x, "roofline:memory=0.6,step=900us", true);
	x.o.params = mask("memory,step");
	CHECK_INT(calibrate(&x.o, &x.r, &x.e), ERR_NONE);
	const struct calibrate_estimate *memory = &x.r.estimates[CALIBRATE_MEMORY],
					*step = &x.r.estimates[CALIBRATE_STEP];
	bool wide = log(memory->high / memory->low) > 0.05 || log(step->high / step->low) > 0.05;
	CU_ASSERT_TRUE(wide || memory->undetermined || step->undetermined);
	drop(&x);
}

static void too_few_requests_are_refused(void)
{
	struct made x;
	make_log(&x, "roofline", false);
	x.o.train_fraction = 0.2;
	CHECK_INT(calibrate(&x.o, &x.r, &x.e), ERR_STALL);
	CU_ASSERT_PTR_NOT_NULL(strstr(x.e.text, "16 requests to fit to are too few"));
	drop(&x);
}

static void settings_that_cannot_serve_the_log_are_refused(void)
{
	struct made x;
	make_log(&x, "roofline", false);
	x.s.num_gpu_blocks_override = 20;
	CHECK_INT(calibrate(&x.o, &x.r, &x.e), ERR_INPUT);
	CU_ASSERT_PTR_NOT_NULL(strstr(x.e.text, "was served in the log"));
	drop(&x);
}

static volatile int stop;

static void stop_soon(void *ctx, int64_t done, int64_t total)
{
	(void)ctx, (void)total;
	stop = done >= 25;
}

static void interrupted_search_gives_its_best(void)
{
	struct made x;
	make_log(&x, "roofline:memory=0.6", false);
	x.o.params = mask("memory");
	x.o.stop = &stop;
	x.o.progress = stop_soon;
	CHECK_INT(calibrate(&x.o, &x.r, &x.e), ERR_NONE);
	CU_ASSERT_TRUE(x.r.interrupted);
	CU_ASSERT_TRUE(x.r.evals < 40);
	CU_ASSERT_TRUE(x.r.after[CALIBRATE_FIT].loss < x.r.before[CALIBRATE_FIT].loss);
	stop = 0;
	drop(&x);
}

static void unknown_parameters_have_near_names(void)
{
	uint32_t m;
	struct err e = {0};
	CHECK_INT(calibrate_parse_params("gemm,memroy", &m, &e), ERR_INPUT);
	CU_ASSERT_PTR_NOT_NULL(strstr(e.text, "memory"));
	err_clear(&e);
	CHECK_INT(calibrate_parse_params("", &m, &e), ERR_INPUT);
}

static void calibrations_and_runs_go_through_the_database(void)
{
	struct made x;
	struct run_result r;
	struct measured m;
	struct store *s;
	make_log(&x, "roofline:memory=0.6", false);
	x.o.params = mask("memory");
	x.o.max_evals = 25;
	CHECK_INT(calibrate(&x.o, &x.r, &x.e), ERR_NONE);
	CHECK_INT(store_open(&s, temp_path("calibrate.db"), false, &x.e), ERR_NONE);
	CHECK_INT(store_calibration(s, &x.o, "made", &x.r, &x.e), ERR_NONE);
	CHECK_INT(x.r.calibration_id, 1);
	/* The same requests come back out of a stored run. */
	const struct run_io io = {.store = s};
	x.s.cost = "roofline:memory=0.6";
	x.s.record = RECORD_REQUESTS;
	CHECK_INT(run_execute(&x.s, &x.w, &io, &r, &x.e), ERR_NONE);
	CHECK_INT(r.store_err.code, ERR_NONE);
	CHECK_INT(store_measured(s, "latest", &m, &x.e), ERR_NONE);
	CHECK_INT(m.n, REQUESTS);
	CHECK_INT(m.hints.num_gpu_blocks, 1500);
	for (int64_t i = 0; i < m.n; i++) {
		CHECK_INT(m.at[i].scheduled_ns, x.m.at[i].scheduled_ns);
		CHECK_INT(m.at[i].first_token_ns, x.m.at[i].first_token_ns);
		CHECK_INT(m.at[i].last_token_ns, x.m.at[i].last_token_ns);
	}
	measured_free(&m);
	CHECK_INT(store_measured(s, "99", &m, &x.e), ERR_INPUT);
	measured_free(&m);
	run_result_free(&r);
	store_close(s);
	drop(&x);
}

/* A valley that bends, with ripples: Rosenbrock's, two variables. */
static int valley(void *ctx, const double *x, double *f, struct err *e)
{
	(void)ctx, (void)e;
	double a = 1 - x[0], b = x[1] - x[0] * x[0];
	*f = a * a + 100 * b * b + 0.001 * fabs(sin(500 * x[0]));
	return 0;
}

static void search_follows_a_bent_rough_valley(void)
{
	struct search s = {.n = 2,
			   .low = {-3, -3},
			   .high = {3, 3},
			   .start = {-1.5, 2},
			   .spread = {0.5, 0.5},
			   .evals = 1500,
			   .seed = 1,
			   .ask = valley};
	struct err e = {0};
	CHECK_INT(search_run(&s, &e), 0);
	CU_ASSERT_TRUE(s.best_f < 0.01);
	CHECK_NEAR(s.best[0], 1, 0.1);
}

static void eigenvectors_rebuild_the_matrix(void)
{
	double a[SEARCH_MAX][SEARCH_MAX] = {{4, 1, -2}, {1, 2, 0}, {-2, 0, 3}}, work[SEARCH_MAX][SEARCH_MAX];
	double d[SEARCH_MAX], v[SEARCH_MAX][SEARCH_MAX];
	memcpy(work, a, sizeof a);
	search_eigen(3, work, d, v);
	for (int i = 0; i < 3; i++)
		for (int j = 0; j < 3; j++) {
			double sum = 0;
			for (int k = 0; k < 3; k++)
				sum += v[i][k] * d[k] * v[j][k];
			CHECK_NEAR(sum, a[i][j], 1e-9);
		}
}

static void check_held_out(const struct run_settings *s, const struct measured *m, const struct workload *w,
			   const char *cost)
{
	static const double limit[CALIBRATE_METRICS][CALIBRATE_STATS] = {
		[CALIBRATE_PREFILL] = {10, 10, 10, 10},
		[CALIBRATE_TTFT] = {2, 2, 2, 3},
		[CALIBRATE_TPOT] = {2, 2, 2, 3},
		[CALIBRATE_E2E] = {2, 2, 2, 3},
	};
	struct calibrate_options o;
	struct calibrate_errors x;
	struct trials t;
	struct err e = {0};
	calibrate_options_default(&o);
	o.settings = s;
	o.workload = w;
	o.measured = m;
	CHECK_INT(trials_open(&t, &o, &e), ERR_NONE);
	t.whole = true;
	snprintf(t.cost, sizeof t.cost, "%s", cost);
	CHECK_INT(trials_run(&t, &e), ERR_NONE);
	CHECK_INT(trials_errors(&t, CALIBRATE_HELD, &x, &e), ERR_NONE);
	CHECK_INT(x.n, 150);
	for (int i = CALIBRATE_PREFILL; i < CALIBRATE_METRICS; i++)
		for (int k = 0; k < CALIBRATE_STATS; k++)
			CHECK_NEAR(x.percent[i][k], 0, limit[i][k]);
	trials_free(&t);
}

/* What was fitted to the first half of each staged run, on that half alone (docs/validation.md): the second half is within
 * 2 % at p50 and p90, 3 % at p99, prefill 10 %. tests/e2e/e2e_calibrate.sh fits them anew. */
static void staged_runs_are_met(void)
{
	static const struct {
		const char *log, *device, *cost;
		int32_t blocks, seqs;
	} runs[] = {
		{"measured/vllm_rtx4090_llama-3_1-8b/requests.jsonl", "rtx-4090",
		 "roofline:gemm=0.91536,attn=0.58539,memory=0.83343,kv=0.85931,mixed=0.77112,prompt=2611.4us", 2588,
		 256},
		{"measured/vllm_rtxpro6000_llama-3_1-8b/requests.jsonl", "rtx-pro-6000",
		 "roofline:gemm=0.82169,attn=0.81454,memory=0.59804,kv=0.90555,mixed=0.51776,prompt=10543us", 0, 128},
	};
	for (int i = 0; i < 2; i++) {
		const char *log = shared_data(runs[i].log), *trace = shared_data("traces/sharegpt_300_hashed.jsonl");
		struct measured m;
		struct workload w;
		struct run_settings s;
		struct err e = {0};
		if (!log || !trace) {
			test_skip("no measured runs here");
			return;
		}
		workload_init(&w);
		CHECK_INT(measured_load(&m, log, &e), ERR_NONE);
		CHECK_INT(trace_load(trace, NULL, &w, NULL, &e), ERR_NONE);
		CHECK_INT(measured_apply(&m, &w, trace, &e), ERR_NONE);
		settings(&s);
		s.model = "llama-3.1-8b";
		s.device = runs[i].device;
		s.num_gpu_blocks_override = runs[i].blocks;
		s.engine.max_num_seqs = runs[i].seqs;
		s.engine.prefix_caching = s.engine.async_scheduling = true;
		check_held_out(&s, &m, &w, runs[i].cost);
		workload_free(&w);
		measured_free(&m);
	}
}

int main(void)
{
	static const struct test tests[] = {
		{"known_parameters_are_recovered", known_parameters_are_recovered},
		{"same_seed_same_answer", same_seed_same_answer},
		{"held_out_part_has_no_say", held_out_part_has_no_say},
		{"parameter_nothing_depends_on_is_left_alone", parameter_nothing_depends_on_is_left_alone},
		{"parts_that_cannot_be_told_apart_are_not_claimed", parts_that_cannot_be_told_apart_are_not_claimed},
		{"too_few_requests_are_refused", too_few_requests_are_refused},
		{"settings_that_cannot_serve_the_log_are_refused", settings_that_cannot_serve_the_log_are_refused},
		{"interrupted_search_gives_its_best", interrupted_search_gives_its_best},
		{"unknown_parameters_have_near_names", unknown_parameters_have_near_names},
		{"calibrations_and_runs_go_through_the_database", calibrations_and_runs_go_through_the_database},
		{"search_follows_a_bent_rough_valley", search_follows_a_bent_rough_valley},
		{"eigenvectors_rebuild_the_matrix", eigenvectors_rebuild_the_matrix},
		{"staged_runs_are_met", staged_runs_are_met},
	};
	return SUITE_RUN("analysis_calibrate", tests);
}
