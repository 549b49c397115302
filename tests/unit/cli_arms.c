#include <math.h>
#include <string.h>

#include "cli/run_opts.h"
#include "core/err.h"
#include "tests/support/suite.h"

static struct run_opts opts;
static struct arms arms;
static struct err err;

static void begin(const char *policies)
{
	run_opts_default(&opts);
	opts.policies = policies;
	opts.texts.model = "llama-3.1-8b";
	opts.texts.device = "h100-sxm";
	err = (struct err){0};
}

static void one_policy_is_one_arm_called_by_its_name(void)
{
	begin("chunked");
	CHECK_INT(arms_make(&arms, &opts, false, &err), ERR_NONE);
	CHECK_INT(arms.n, 1);
	CHECK_STR(arms.at[0].s.policy, "chunked");
	CHECK_STR(arms.at[0].s.label, "chunked");
	CU_ASSERT_FALSE(arms.at[0].s.engine.kv_off);
	arms_free(&arms);
}

static void lists_make_the_cross_product_named_by_what_differs(void)
{
	begin("naive");
	opts.texts.kv_cache = "off,on";
	opts.texts.max_num_seqs = "1";
	CHECK_INT(arms_make(&arms, &opts, true, &err), ERR_NONE);
	CHECK_INT(arms.n, 2);
	CHECK_STR(arms.at[0].s.label, "kv-cache=off");
	CHECK_STR(arms.at[1].s.label, "kv-cache=on");
	CU_ASSERT_TRUE(arms.at[0].s.engine.kv_off);
	CU_ASSERT_FALSE(arms.at[1].s.engine.kv_off);
	CHECK_INT(arms.at[1].s.engine.max_num_seqs, 1);
	arms_free(&arms);

	begin("naive,chunked");
	opts.texts.max_num_seqs = "8,16,32";
	CHECK_INT(arms_make(&arms, &opts, true, &err), ERR_NONE);
	CHECK_INT(arms.n, 6);
	CHECK_STR(arms.at[0].s.label, "naive max-num-seqs=8");
	CHECK_STR(arms.at[2].s.label, "naive max-num-seqs=32");
	CHECK_STR(arms.at[3].s.label, "chunked max-num-seqs=8");
	CHECK_INT(arms.at[5].s.engine.max_num_seqs, 32);
	arms_free(&arms);
}

static void parameters_with_commas_stay_with_their_policy(void)
{
	begin("naive:pad=off,hold_finished=off,chunked:watermark=0.01,chunked,continuous");
	CHECK_INT(arms_make(&arms, &opts, true, &err), ERR_NONE);
	CHECK_INT(arms.n, 4);
	CHECK_STR(arms.at[0].s.policy, "naive");
	CHECK_STR(arms.at[0].s.policy_params, "pad=off,hold_finished=off");
	CHECK_STR(arms.at[0].s.label, "naive");
	CHECK_STR(arms.at[1].s.label, "chunked:watermark=0.01");
	CHECK_STR(arms.at[2].s.label, "chunked");
	CU_ASSERT_PTR_NULL(arms.at[2].s.policy_params);
	arms_free(&arms);

	begin("chunked");
	opts.texts.cost = "linear:a=5ms,b=20us,constant:10ms";
	CHECK_INT(arms_make(&arms, &opts, true, &err), ERR_NONE);
	CHECK_INT(arms.n, 2);
	CHECK_STR(arms.at[0].s.cost, "linear:a=5ms,b=20us");
	CHECK_STR(arms.at[1].s.cost, "constant:10ms");
	arms_free(&arms);
}

static void vllm_flags_reach_the_policies_that_know_them(void)
{
	begin("naive,chunked:watermark=0.5");
	opts.texts.long_prefill_token_threshold = "512";
	opts.texts.enable_chunked_prefill = "off";
	CHECK_INT(arms_make(&arms, &opts, true, &err), ERR_NONE);
	CU_ASSERT_PTR_NULL(arms.at[0].s.policy_params);
	CHECK_STR(arms.at[1].s.policy_params,
		  "watermark=0.5,enable_chunked_prefill=off,long_prefill_token_threshold=512");
	arms_free(&arms);

	begin("naive");
	opts.texts.long_prefill_token_threshold = "512";
	CHECK_INT(arms_make(&arms, &opts, false, &err), ERR_INPUT);
	CHECK_STR(err.text,
		  "--long-prefill-token-threshold has no meaning for naive: `lockstep policies` lists what each "
		  "policy takes");
	arms_free(&arms);
}

static void mistakes_are_found_before_anything_runs(void)
{
	static const struct {
		const char *policies, *seqs;
		bool several;
		const char *text; /* the beginning of the error */
	} cases[] = {
		{"chunkd", NULL, true, "no policy is called \"chunkd\""},
		{"chunked,", NULL, true, "--policies: a value is missing"},
		{"chunked,chunked", NULL, true, "--policies: chunked is listed twice"},
		{"chunked,naive", NULL, false, "--policy: one at a time"},
		{"chunked", "8,16", false, "--max-num-seqs: one value at a time"},
		{"chunked", "8,0", true, "--max-num-seqs: 0 is not between 1 and"},
		{"chunked:watermark=2", NULL, true, ""},
		{"chunked:nonsense=2", NULL, true, ""},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		begin(cases[i].policies);
		opts.texts.max_num_seqs = cases[i].seqs;
		CHECK_INT(arms_make(&arms, &opts, cases[i].several, &err), ERR_INPUT);
		err.text[strlen(cases[i].text)] = '\0';
		CHECK_STR(err.text, cases[i].text);
		arms_free(&arms);
	}
}

static void the_roofline_asks_for_model_and_device(void)
{
	begin("chunked");
	opts.texts.device = NULL;
	CHECK_INT(arms_make(&arms, &opts, false, &err), ERR_INPUT);
	CU_ASSERT(strstr(err.text, "--model and --device") != NULL);
	arms_free(&arms);
	begin("chunked");
	opts.texts.model = opts.texts.device = NULL;
	opts.texts.cost = "constant:10ms";
	CHECK_INT(arms_make(&arms, &opts, false, &err), ERR_NONE);
	arms_free(&arms);
}

static void what_goes_by_lengths_is_told_how_they_are_guessed(void)
{
	static const struct {
		const char *order, *victim, *predictor, *text; /* NULL: accepted */
	} tries[] = {
		{"sjf", NULL, NULL, "--scheduling-policy sjf goes by predicted output lengths"},
		{NULL, "longest-left", NULL, "--victim longest-left goes by predicted output lengths"},
		{"fcfs", "last", "mean", "--predictor goes with --scheduling-policy sjf or --victim longest-left"},
		{"sjf", NULL, "best", "predictor \"best\": expected max, oracle, mean, or noisy:SIGMA"},
		{"fcfs,sjf", NULL, "mean", NULL},
		{NULL, "last,longest-left", "noisy:0.5", NULL},
	};
	for (size_t i = 0; i < sizeof tries / sizeof *tries; i++) {
		begin("chunked");
		opts.texts.scheduling_policy = tries[i].order;
		opts.texts.victim = tries[i].victim;
		opts.texts.predictor = tries[i].predictor;
		CHECK_INT(arms_make(&arms, &opts, true, &err), tries[i].text ? ERR_INPUT : ERR_NONE);
		CHECK_STR(tries[i].text ? strstr(err.text, tries[i].text) : "", tries[i].text ? err.text : "");
		if (!tries[i].text)
			CU_ASSERT(arms.at[1].s.engine.predictor.kind != PREDICT_MAX);
		arms_free(&arms);
	}
}

static void too_many_runs_are_refused(void)
{
	begin("naive,chunked,continuous");
	opts.texts.max_num_seqs = "1,2,3,4,5,6,7,8";
	opts.texts.block_size = "8,16,32";
	CHECK_INT(arms_make(&arms, &opts, true, &err), ERR_INPUT);
	CHECK_STR(err.text, "these lists make more than 64 runs: compare fewer at a time");
	arms_free(&arms);
}

static void goodput_and_percentiles_reach_every_arm(void)
{
	char *words[] = {(char *)"ttft:500", (char *)"tpot:50"};
	begin("naive,chunked");
	opts.goodput = (struct words){words, 2};
	opts.metric_percentiles = "50,90,99";
	CHECK_INT(arms_make(&arms, &opts, true, &err), ERR_NONE);
	for (int i = 0; i < 2; i++) {
		CHECK_INT(arms.at[i].s.slo.ttft_ns, 500 * NS_PER_MS);
		CHECK_INT(arms.at[i].s.slo.tpot_ns, 50 * NS_PER_MS);
		CHECK_INT(arms.at[i].s.percentiles.n, 3);
	}
	arms_free(&arms);
}

int main(void)
{
	static const struct test tests[] = {
		{"one_policy_is_one_arm_called_by_its_name", one_policy_is_one_arm_called_by_its_name},
		{"lists_make_the_cross_product_named_by_what_differs",
		 lists_make_the_cross_product_named_by_what_differs},
		{"parameters_with_commas_stay_with_their_policy", parameters_with_commas_stay_with_their_policy},
		{"vllm_flags_reach_the_policies_that_know_them", vllm_flags_reach_the_policies_that_know_them},
		{"mistakes_are_found_before_anything_runs", mistakes_are_found_before_anything_runs},
		{"the_roofline_asks_for_model_and_device", the_roofline_asks_for_model_and_device},
		{"what_goes_by_lengths_is_told_how_they_are_guessed",
		 what_goes_by_lengths_is_told_how_they_are_guessed},
		{"too_many_runs_are_refused", too_many_runs_are_refused},
		{"goodput_and_percentiles_reach_every_arm", goodput_and_percentiles_reach_every_arm},
	};
	return SUITE_RUN("cli_arms", tests);
}
