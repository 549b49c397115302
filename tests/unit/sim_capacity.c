/* Capacity: the published figures, the measured block count, and what cannot be. */
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "core/err.h"
#include "sim/capacity.h"
#include "sim/cost_models.h"
#include "sim/serving.h"
#include "tests/support/suite.h"

struct setting {
	struct model model;
	struct device device;
	struct capacity_options options;
};

static struct setting setting(const char *model, const char *device)
{
	struct setting s;
	struct err e = {0};
	CU_ASSERT_EQUAL_FATAL(model_load(&s.model, model, &e), ERR_NONE);
	CU_ASSERT_EQUAL_FATAL(device_load(&s.device, device, &e), ERR_NONE);
	capacity_options_default(&s.options);
	return s;
}

static struct capacity compute(const struct setting *s)
{
	struct capacity c;
	struct err e = {0};
	int rc = capacity_compute(&c, &s->model, &s->device, &s->options, &e);
	if (rc)
		fprintf(stderr, "%s\n", e.text);
	CU_ASSERT_EQUAL_FATAL(rc, ERR_NONE);
	return c;
}

/* vLLM 0.19 on an RTX 4090, Llama-3.1-8B in bf16, utilization 0.9, 256 sequences, 2,048 tokens a step, max_model_len
 * 32,768: 2,588 blocks of 16. */
static void an_rtx_4090_gets_the_blocks_vllm_measured(void)
{
	struct setting s = setting("llama-3.1-8b", "rtx-4090");
	s.options.max_model_len = 32768;
	struct capacity c = compute(&s);
	CHECK_NEAR(c.num_blocks, 2588, 0.01 * 2588);
	/* by hand: 0.9 x 25,250,627,584 - 2 x 8,030,261,248 - (2048 x 4096 x 2 + 256 x 128256 x 36) - 131072 x 128 x 2 */
	CHECK_INT(c.kv_bytes, INT64_C(22725564825) - INT64_C(16060522496) - (16777216 + 1182007296) - 33554432);
	CHECK_INT(c.num_blocks, c.kv_bytes / (16 * 131072));
	CHECK_INT(c.tokens, 16 * (int64_t)c.num_blocks);
	model_free(&s.model);
}

static void the_textbook_counts_33_and_64_sessions(void)
{
	struct setting s = setting("llama-2-7b", "a100-80g");
	s.options.nominal = true;
	s.options.utilization = 1;
	s.options.assume_weight_bytes = 14000000000;
	s.options.assume_session_bytes = 2000000000;
	struct capacity c = compute(&s);
	CHECK_INT(capacity_sessions(&c, &s.options, 4096), 33);
	model_free(&s.model);

	s = setting("llama-3-8b", "a100-80g");
	s.options.nominal = true;
	s.options.utilization = 1;
	s.options.assume_weight_bytes = 16000000000;
	s.options.assume_session_bytes = 1000000000;
	c = compute(&s);
	CHECK_INT(capacity_sessions(&c, &s.options, 8192), 64);
	model_free(&s.model);
}

static void exact_counting_gives_30_sessions_of_the_7b(void)
{
	struct setting s = setting("llama-2-7b", "a100-80g");
	s.options.nominal = true;
	s.options.utilization = 1;
	struct capacity c = compute(&s);
	CHECK_INT(c.device_bytes, INT64_C(80000000000));
	CHECK_INT(c.weight_bytes, INT64_C(13476831232));
	CHECK_INT(c.activation_bytes + c.buffer_bytes + c.context_bytes, 0);
	CHECK_INT(capacity_sessions(&c, &s.options, 4096), 30);
	model_free(&s.model);
}

static void sessions_round_up_to_whole_blocks(void)
{
	struct setting s = setting("llama-3-8b", "h100-sxm");
	struct capacity c = compute(&s);
	CHECK_INT(capacity_sessions(&c, &s.options, 16), c.num_blocks);
	CHECK_INT(capacity_sessions(&c, &s.options, 17), c.num_blocks / 2);
	CHECK_INT(capacity_sessions(&c, &s.options, 1), c.num_blocks);
	CHECK_INT(capacity_sessions(&c, &s.options, c.tokens), 1);
	CHECK_INT(capacity_sessions(&c, &s.options, c.tokens + 1), 0);
	model_free(&s.model);
}

static void the_reserve_grows_with_rows_and_tokens(void)
{
	struct setting s = setting("llama-3.1-8b", "h100-sxm");
	int64_t base = compute(&s).activation_bytes;
	s.options.max_num_seqs = 512;
	CHECK_INT(compute(&s).activation_bytes - base, INT64_C(256) * 128256 * 36);
	s.options.max_num_seqs = 1; /* now the forward pass is the peak: 2048 x 2 x (2 x 4096 + 3 x 14336) */
	CHECK_INT(compute(&s).activation_bytes, INT64_C(2048) * 2 * (2 * 4096 + 3 * 14336));
	s.options.max_num_seqs = 256;
	s.options.max_num_batched_tokens = 8; /* no more rows than tokens */
	CHECK_INT(compute(&s).activation_bytes, INT64_C(8) * 128256 * 36 + 8 * 2 * 4096);
	model_free(&s.model);
}

static void steps_of_any_size_do_not_overflow(void)
{
	struct setting s = setting("kimi-k2", "b200");
	s.options.max_num_batched_tokens = s.options.max_num_seqs = INT32_MAX;
	struct capacity c = compute(&s);
	CHECK_INT(c.num_blocks, 0);
	CU_ASSERT(c.activation_bytes > INT64_C(1000000000000000));
	CU_ASSERT(c.kv_bytes < 0);
	model_free(&s.model);
}

static void smaller_formats_leave_room_for_more_blocks(void)
{
	struct setting s = setting("llama-3.1-8b", "rtx-4090");
	struct err e = {0};
	int32_t bf16 = compute(&s).num_blocks;
	CU_ASSERT_EQUAL(weight_quantization_parse("fp8", &s.options.weights, &e), ERR_NONE);
	int32_t fp8 = compute(&s).num_blocks;
	s.options.kv = KV_FP8;
	int32_t both = compute(&s).num_blocks;
	CU_ASSERT(fp8 > 2 * bf16);
	CU_ASSERT(both == 2 * fp8 || both == 2 * fp8 + 1);
	model_free(&s.model);
}

static void a_model_too_large_says_by_how_much(void)
{
	struct setting s = setting("llama-3.1-70b", "h100-sxm");
	struct err e = {0};
	int32_t blocks;
	CHECK_INT(capacity_blocks(&s.model, &s.device, &s.options, &blocks, &e), ERR_INPUT);
	CHECK_INT(blocks, 0);
	CU_ASSERT_PTR_NOT_NULL(strstr(e.text, "141.11 GB of weights"));
	struct capacity c = compute(&s); /* the figures are there all the same */
	CHECK_INT(c.num_blocks, 0);
	CHECK_INT(c.weight_bytes, INT64_C(141107412992));
	CHECK_INT(capacity_sessions(&c, &s.options, 1), 0);
	model_free(&s.model);
}

static void impossible_options_are_named(void)
{
	struct setting s = setting("llama-3.1-8b", "h100-sxm");
	static const struct {
		size_t offset;
		int32_t value;
		const char *says;
	} bad[] = {
		{offsetof(struct capacity_options, block_size), 0, "block-size 0"},
		{offsetof(struct capacity_options, max_num_seqs), 0, "max-num-seqs 0"},
		{offsetof(struct capacity_options, max_num_batched_tokens), -1, "max-num-batched-tokens -1"},
		{offsetof(struct capacity_options, max_model_len), 131073, "max-model-len 131073"},
		{offsetof(struct capacity_options, tensor_parallel), 0, "tensor-parallel-size 0"},
		{offsetof(struct capacity_options, tensor_parallel), 3,
		 "over 3 devices: its attention heads 32 do not"},
	};
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		struct capacity_options o = s.options;
		struct capacity c;
		struct err e = {0};
		memcpy((char *)&o + bad[i].offset, &bad[i].value, sizeof bad[i].value);
		CHECK_INT(capacity_compute(&c, &s.model, &s.device, &o, &e), ERR_INPUT);
		CU_ASSERT_PTR_NOT_NULL(strstr(e.text, bad[i].says));
	}
	static const double shares[] = {0, -1, 1.01, NAN};
	for (size_t i = 0; i < 4; i++) {
		struct capacity_options o = s.options;
		struct capacity c;
		struct err e = {0};
		o.utilization = shares[i];
		CHECK_INT(capacity_compute(&c, &s.model, &s.device, &o, &e), ERR_INPUT);
	}
	model_free(&s.model);
}

/* --- the ideal --------------------------------------------------------------------------------------------------- */

static void ideal_figures_follow_from_the_cost_model(void)
{
	struct cost *c;
	struct err e = {0};
	struct serving_load l = {.prompt = 100, .output = 10, .budget = 40};
	struct serving_point p;
	CU_ASSERT_EQUAL_FATAL(cost_linear_create(&c, 1000, 10, 100, 1, &e), ERR_NONE);
	/* three chunks: 40, 40, 20 */
	CHECK_NEAR(serving_ttft_ns(c, &l), 3 * 1000 + 100 * 10, 1e-9);
	/* 4 rows at 105 tokens each */
	serving_point(c, &l, 3.6, 4, &p);
	CHECK_NEAR(p.tpot_ns, 1000 + 4 * 100 + 4 * 105, 1e-9);
	CHECK_NEAR(p.decode_tokens_s, 4 / 1820e-9, 1e-3);
	double tokens_s = 4 * 10 / (4 * 4000e-9 + 10 * 1820e-9);
	CHECK_NEAR(p.tokens_s, tokens_s, 1e-3);
	CHECK_NEAR(p.dollars, 3.6 / 3600 / tokens_s * 1e6, 1e-9);
	serving_point(c, &l, 0, 4, &p);
	CU_ASSERT(p.dollars < 0);
	cost_free(c);
}

static void the_best_batch_is_the_largest_within_the_bounds(void)
{
	struct cost *c;
	struct err e = {0};
	struct serving_load l = {.prompt = 1, .output = 1, .budget = 40};
	struct serving_need need = {.max_tpot_ns = 1050, .min_batch = 1, .max_batch = 256};
	struct serving_point p;
	CU_ASSERT_EQUAL_FATAL(cost_linear_create(&c, 1000, 0, 10, 0, &e), ERR_NONE);
	CHECK_INT(serving_best(c, &l, &need, 1, 1000, &p), SERVING_OK);
	CHECK_INT(p.batch, 5);
	CHECK_INT(serving_best(c, &l, &need, 1, 3, &p), SERVING_OK);
	CHECK_INT(p.batch, 3);
	need.min_batch = 4;
	CHECK_INT(serving_best(c, &l, &need, 1, 3, &p), SERVING_TOO_FEW);
	CHECK_INT(serving_best(c, &l, &need, 1, 0, &p), SERVING_NO_FIT);
	need.min_batch = 6;
	CHECK_INT(serving_best(c, &l, &need, 1, 1000, &p), SERVING_TOO_SLOW);
	CHECK_NEAR(p.tpot_ns, 1060, 1e-9);
	need = (struct serving_need){.max_tpot_ns = INFINITY, .min_batch = 1, .max_batch = 256};
	CHECK_INT(serving_best(c, &l, &need, 1, 1000, &p), SERVING_OK);
	CHECK_INT(p.batch, 256);
	cost_free(c);
}

int main(void)
{
	static const struct test tests[] = {
		{"an_rtx_4090_gets_the_blocks_vllm_measured", an_rtx_4090_gets_the_blocks_vllm_measured},
		{"the_textbook_counts_33_and_64_sessions", the_textbook_counts_33_and_64_sessions},
		{"exact_counting_gives_30_sessions_of_the_7b", exact_counting_gives_30_sessions_of_the_7b},
		{"sessions_round_up_to_whole_blocks", sessions_round_up_to_whole_blocks},
		{"the_reserve_grows_with_rows_and_tokens", the_reserve_grows_with_rows_and_tokens},
		{"steps_of_any_size_do_not_overflow", steps_of_any_size_do_not_overflow},
		{"smaller_formats_leave_room_for_more_blocks", smaller_formats_leave_room_for_more_blocks},
		{"a_model_too_large_says_by_how_much", a_model_too_large_says_by_how_much},
		{"impossible_options_are_named", impossible_options_are_named},
		{"ideal_figures_follow_from_the_cost_model", ideal_figures_follow_from_the_cost_model},
		{"the_best_batch_is_the_largest_within_the_bounds", the_best_batch_is_the_largest_within_the_bounds},
	};
	return SUITE_RUN("sim_capacity", tests);
}
