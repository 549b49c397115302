/* What running a model needs to know of its config, and what is said of models that cannot be run. */
#include <stdio.h>
#include <string.h>

#include "core/err.h"
#include "models/model.h"
#include "tests/support/suite.h"

#define SHAPE                                                                                                          \
	"\"hidden_size\": 64, \"intermediate_size\": 128, \"num_hidden_layers\": 2, \"num_attention_heads\": 4, "      \
	"\"vocab_size\": 100, \"max_position_embeddings\": 64"

static struct model parse(const char *type, const char *more)
{
	char text[1000];
	struct model m;
	struct err e = {0};
	snprintf(text, sizeof text, "{\"model_type\": \"%s\", " SHAPE "%s%s}", type, more[0] ? ", " : "", more);
	int rc = model_parse(&m, text, "config.json", &e);
	if (rc)
		fprintf(stderr, "%s\n", e.text);
	CU_ASSERT_EQUAL_FATAL(rc, ERR_NONE);
	return m;
}

static struct model_numerics numerics(const char *type, const char *more)
{
	struct model m = parse(type, more);
	struct model_numerics n = m.numerics;
	model_free(&m);
	return n;
}

static void what_a_config_leaves_out_is_as_in_transformers(void)
{
	struct model_numerics n = numerics("llama", "");
	CHECK_NEAR(n.norm_eps, 1e-6, 0);
	CHECK_NEAR(n.rope_theta, 10000, 0);
	CHECK_INT(n.rope_scaling, ROPE_PLAIN);
	CHECK_INT(n.bos, -1);
	CHECK_INT(n.n_eos, 0);
	CHECK_STR(n.unsupported, "");
}

static void llama3_scaling_is_read_whole(void)
{
	struct model_numerics n =
		numerics("llama", "\"rms_norm_eps\": 1e-5, \"rope_theta\": 500000.0, \"rope_scaling\": {\"rope_type\": "
				  "\"llama3\", \"factor\": 8.0, \"low_freq_factor\": 1.0, \"high_freq_factor\": 4.0, "
				  "\"original_max_position_embeddings\": 32}, \"bos_token_id\": 9");
	CHECK_NEAR(n.norm_eps, 1e-5, 0);
	CHECK_NEAR(n.rope_theta, 500000, 0);
	CHECK_INT(n.rope_scaling, ROPE_LLAMA3);
	CHECK_NEAR(n.rope_factor, 8, 0);
	CHECK_NEAR(n.rope_low, 1, 0);
	CHECK_NEAR(n.rope_high, 4, 0);
	CHECK_INT(n.rope_original_len, 32);
	CHECK_INT(n.bos, 9);
}

static void both_names_and_both_places_of_rope_scaling_are_known(void)
{
	struct model_numerics n = numerics("llama", "\"rope_scaling\": {\"type\": \"linear\", \"factor\": 2.5}");
	CHECK_INT(n.rope_scaling, ROPE_LINEAR);
	CHECK_NEAR(n.rope_factor, 2.5, 0);
	n = numerics("llama", "\"rope_parameters\": {\"rope_type\": \"default\", \"rope_theta\": 777}");
	CHECK_INT(n.rope_scaling, ROPE_PLAIN);
	CHECK_NEAR(n.rope_theta, 777, 0);
	n = numerics("llama", "\"rope_scaling\": null");
	CHECK_INT(n.rope_scaling, ROPE_PLAIN);
}

static void special_tokens_may_be_one_many_or_none(void)
{
	struct model_numerics n = numerics("llama", "\"eos_token_id\": [7, 8, 9]");
	CHECK_INT(n.n_eos, 3);
	CHECK_INT(n.eos[0], 7);
	CHECK_INT(n.eos[2], 9);
	n = numerics("llama", "\"eos_token_id\": 5, \"bos_token_id\": null");
	CHECK_INT(n.n_eos, 1);
	CHECK_INT(n.eos[0], 5);
	CHECK_INT(n.bos, -1);
	n = numerics("llama", "\"eos_token_id\": -1, \"bos_token_id\": -1");
	CHECK_INT(n.n_eos, 0);
	CHECK_INT(n.bos, -1);
}

static void what_cannot_be_run_says_why(void)
{
	static const struct {
		const char *type, *more, *why;
	} cases[] = {
		{"mixtral", "\"num_local_experts\": 4, \"num_experts_per_tok\": 2", "mixture of experts"},
		{"deepseek_v2",
		 "\"kv_lora_rank\": 16, \"qk_rope_head_dim\": 8, \"qk_nope_head_dim\": 8, \"v_head_dim\": 8",
		 "latent attention"},
		{"gpt_oss", "\"num_local_experts\": 4, \"num_experts_per_tok\": 2", "mixture of experts"},
		{"llama", "\"hidden_act\": \"gelu\"", "hidden_act \"gelu\""},
		{"llama", "\"partial_rotary_factor\": 0.5", "partial_rotary_factor 0.5"},
		{"llama", "\"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 4}", "rope scaling \"yarn\""},
		{"llama", "\"rope_scaling\": {\"type\": \"dynamic\", \"factor\": 4}", "rope scaling \"dynamic\""},
		{"llama", "\"head_dim\": 15", "odd head_dim (15)"},
		{"llama", "\"use_cla\": true, \"cla_share_factor\": 2", "share one KV"},
		{"llama", "\"rope_parameters\": {\"full_attention\": {}, \"sliding_attention\": {}}",
		 "differ by layer"},
	};
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct model_numerics n = numerics(cases[i].type, cases[i].more);
		if (!strstr(n.unsupported, cases[i].why))
			fprintf(stderr, "  %s is not in \"%s\"\n", cases[i].why, n.unsupported);
		CU_ASSERT(strstr(n.unsupported, cases[i].why) != NULL);
	}
	CHECK_STR(numerics("llama", "\"hidden_act\": \"swish\", \"partial_rotary_factor\": 1").unsupported, "");
	CHECK_STR(numerics("qwen2", "").unsupported, "");
	CHECK_STR(numerics("qwen3", "").unsupported, "");
	CHECK_STR(numerics("mistral", "\"sliding_window\": 8").unsupported, "");
}

static void impossible_values_are_refused(void)
{
	static const struct {
		const char *more, *why;
	} cases[] = {
		{"\"rms_norm_eps\": -1", "rms_norm_eps"},
		{"\"rope_theta\": 0", "rope_theta"},
		{"\"rope_scaling\": 3", "rope_scaling must be an object"},
		{"\"rope_scaling\": {\"type\": \"linear\"}", "rope_scaling needs factor"},
		{"\"rope_scaling\": {\"type\": \"llama3\", \"factor\": 8, \"low_freq_factor\": 1, "
		 "\"high_freq_factor\": 4}",
		 "original_max_position_embeddings is missing"},
		{"\"rope_scaling\": {\"type\": \"llama3\", \"factor\": 8, \"low_freq_factor\": 4, "
		 "\"high_freq_factor\": "
		 "4, \"original_max_position_embeddings\": 32}",
		 "must be below"},
		{"\"eos_token_id\": 100", "eos_token_id must be a token id below vocab_size 100"},
		{"\"eos_token_id\": [1, \"x\"]", "eos_token_id"},
		{"\"eos_token_id\": [1,2,3,4,5,6,7,8,9]", "more than 8"},
		{"\"bos_token_id\": 1.5", "bos_token_id"},
	};
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		char text[1000];
		struct model m;
		struct err e = {0};
		snprintf(text, sizeof text, "{\"model_type\": \"llama\", " SHAPE ", %s}", cases[i].more);
		CHECK_INT(model_parse(&m, text, "config.json", &e), ERR_INPUT);
		if (!strstr(e.text, cases[i].why))
			fprintf(stderr, "  %s is not in \"%s\"\n", cases[i].why, e.text);
		CU_ASSERT(strstr(e.text, cases[i].why) != NULL);
	}
}

/* --model NAME with weights from a checkpoint must compute what its own config.json says. */
static void built_ins_compute_as_published(void)
{
	static const char *const names[][2] = {
		{"llama-2-7b-hf", "llama-2-7b"},      {"llama-3-70b", "llama-3-70b"},
		{"llama-3.1-8b", "llama-3.1-8b"},     {"llama-3.1-70b", "llama-3.1-70b"},
		{"llama-3.1-405b", "llama-3.1-405b"}, {"qwen2.5-7b-instruct", "qwen2.5-7b"},
		{"qwen3-0.6b", "qwen3-0.6b"},         {"qwen3-8b", "qwen3-8b"},
		{"qwen3-32b", "qwen3-32b"},
	};
	if (!shared_data("models/configs")) {
		test_skip("no published configs here");
		return;
	}
	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
		char path[200];
		struct model a, b;
		struct err e = {0};
		snprintf(path, sizeof path, "models/configs/%s", names[i][0]);
		CU_ASSERT_EQUAL_FATAL(model_load(&a, shared_data(path), &e), ERR_NONE);
		CU_ASSERT_EQUAL_FATAL(model_load(&b, names[i][1], &e), ERR_NONE);
		const struct model_numerics *x = &a.numerics, *y = &b.numerics;
		CHECK_NEAR(y->norm_eps, x->norm_eps, 0);
		CHECK_NEAR(y->rope_theta, x->rope_theta, 0);
		CHECK_INT(y->rope_scaling, x->rope_scaling);
		CHECK_NEAR(y->rope_factor, x->rope_factor, 0);
		CHECK_NEAR(y->rope_low, x->rope_low, 0);
		CHECK_NEAR(y->rope_high, x->rope_high, 0);
		CHECK_INT(y->rope_original_len, x->rope_original_len);
		CHECK_INT(y->bos, x->bos);
		CHECK_INT(y->n_eos, x->n_eos);
		CHECK_INT(y->eos[0], x->eos[0]);
		CHECK_STR(x->unsupported, "");
		CHECK_STR(y->unsupported, "");
		model_free(&a);
		model_free(&b);
	}
}

int main(void)
{
	static const struct test tests[] = {
		{"what_a_config_leaves_out_is_as_in_transformers", what_a_config_leaves_out_is_as_in_transformers},
		{"llama3_scaling_is_read_whole", llama3_scaling_is_read_whole},
		{"both_names_and_both_places_of_rope_scaling_are_known",
		 both_names_and_both_places_of_rope_scaling_are_known},
		{"special_tokens_may_be_one_many_or_none", special_tokens_may_be_one_many_or_none},
		{"what_cannot_be_run_says_why", what_cannot_be_run_says_why},
		{"impossible_values_are_refused", impossible_values_are_refused},
		{"built_ins_compute_as_published", built_ins_compute_as_published},
	};
	return SUITE_RUN("models_numerics", tests);
}
