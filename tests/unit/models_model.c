/* Models: exact counts of published ones, what every architecture implies, and refusals. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/err.h"
#include "models/model.h"
#include "tests/support/suite.h"

static struct model load(const char *name)
{
	struct model m;
	struct err e = {0};
	int rc = model_load(&m, name, &e);
	if (rc)
		fprintf(stderr, "%s\n", e.text);
	CU_ASSERT_EQUAL_FATAL(rc, ERR_NONE);
	return m;
}

static int64_t kv_bytes(const char *name, enum kv_dtype t)
{
	struct model m = load(name);
	int64_t bytes = model_kv_bytes_per_token(&m, t, &m.native);
	model_free(&m);
	return bytes;
}

static int64_t weight_bytes(const char *name, const char *format)
{
	struct model m = load(name);
	struct weight_format asked, f;
	struct err e = {0};
	CU_ASSERT_EQUAL_FATAL(weight_format_parse(format, &asked, &e), ERR_NONE);
	CU_ASSERT_EQUAL_FATAL(model_weight_format(&m, &asked, &f, &e), ERR_NONE);
	int64_t bytes = model_weight_bytes(&m, &f);
	model_free(&m);
	return bytes;
}

/* As the checkpoints on the Hugging Face hub count them. */
static void parameters_are_those_of_the_published_checkpoints(void)
{
	static const struct {
		const char *name;
		int64_t params;
	} published[] = {
		{"llama-2-7b", 6738415616},        {"llama-2-13b", 13015864320},      {"llama-2-70b", 68976648192},
		{"llama-3-8b", 8030261248},        {"llama-3.1-8b", 8030261248},      {"llama-3.1-70b", 70553706496},
		{"llama-3.1-405b", 405853388800},  {"llama-3.2-1b", 1235814400},      {"llama-3.2-3b", 3212749824},
		{"mistral-7b", 7248023552},        {"mistral-7b-v0.1", 7241732096},   {"mixtral-8x7b", 46702792704},
		{"mixtral-8x22b", 140620634112},   {"qwen2.5-7b", 7615616512},        {"qwen3-0.6b", 596049920},
		{"qwen3-8b", 8190735360},          {"qwen3-32b", 32762123264},        {"qwen3-30b-a3b", 30532122624},
		{"qwen3-235b-a22b", 235093634560}, {"deepseek-v2-lite", 15706484224}, {"tinyllama-1.1b", 1100048384},
		{"llama-110m", 109529856},
	};
	for (size_t i = 0; i < sizeof published / sizeof published[0]; i++) {
		struct model m = load(published[i].name);
		if (m.params.total != published[i].params)
			fprintf(stderr, "%s: ", published[i].name);
		CHECK_INT(m.params.total, published[i].params);
		model_free(&m);
	}
}

/* 671 B without the layer that predicts a second token, and the correction biases of 58 routers of 256. */
static void deepseek_v3_counts_its_latent_projections(void)
{
	struct model m = load("deepseek-v3");
	CHECK_INT(m.params.total, INT64_C(671026404352) + 58 * 256);
	CHECK_INT(m.params.active / 1000000000, 37);
	CHECK_INT(m.kind, ATTENTION_MLA);
	model_free(&m);
}

static void gpt_oss_weighs_what_its_card_says(void)
{
	struct model m = load("gpt-oss-120b");
	CHECK_NEAR((double)m.params.total / 1e9, 116.8, 0.05);
	CHECK_NEAR((double)weight_bytes("gpt-oss-120b", "bf16") / 1e9, 233.7, 0.05);
	CHECK_NEAR((double)weight_bytes("gpt-oss-120b", "fp8") / 1e9, 116.8, 0.05);
	CHECK_NEAR((double)weight_bytes("gpt-oss-120b", "mxfp4") / 1e9, 65.2, 0.05);
	CHECK_INT(weight_bytes("gpt-oss-120b", "auto"), weight_bytes("gpt-oss-120b", "mxfp4"));
	/* the small one in full, a layer at a time: q, k, v and output with biases, 64 sinks, router, 32 experts, 2 norms */
	int64_t h = 2880, layer = h * 4096 + 4096 + 2 * (h * 512 + 512) + 4096 * h + h + 64 + h * 32 + 32 + 2 * h;
	layer += 32 * (3 * h * h + 2 * h + h);
	struct model small = load("gpt-oss-20b");
	CHECK_INT(small.params.total, 24 * layer + h + 2 * 201088 * h);
	model_free(&small);
	CHECK_INT(m.layers[0].window, 128);
	CHECK_INT(m.layers[1].window, 0);
	CHECK_INT(m.layers[34].window, 128);
	model_free(&m);
}

static void kv_per_token_is_as_published(void)
{
	CHECK_INT(kv_bytes("llama-2-7b", KV_AUTO), 524288);
	CHECK_INT(kv_bytes("llama-3-8b", KV_AUTO), 131072);
	CHECK_INT(kv_bytes("mistral-7b", KV_AUTO), 131072);
	CHECK_INT(kv_bytes("llama-3-8b", KV_FP8), 65536);
	/* int8: 4 bytes of scale for each of 8 heads, K and V, 32 layers */
	CHECK_INT(kv_bytes("llama-3-8b", KV_INT8), 65536 + 4 * 8 * 2 * 32);
	CHECK_INT(kv_bytes("llama-110m", KV_AUTO), 2 * 768 * 12 * 4); /* fp32 weights: an fp32 cache */
	CHECK_INT(kv_bytes("llama-110m", KV_BF16), 2 * 768 * 12 * 2);
}

static void mistral_contexts_take_the_published_gigabytes(void)
{
	double token = (double)kv_bytes("mistral-7b", KV_AUTO);
	CHECK_NEAR(4096 * token / 1e9, 0.54, 0.005);
	CHECK_NEAR(16384 * token / 1e9, 2.15, 0.005);
	CHECK_NEAR(80 * 4096 * token / 1e9, 42.9, 0.06);
}

static void latent_attention_saves_what_deepseek_reports(void)
{
	struct model m = load("deepseek-v3");
	double own = (double)model_kv_bytes_per_token(&m, KV_AUTO, &m.native);
	CHECK_INT((int64_t)own, 70272);
	CHECK_NEAR((double)model_mha_kv_bytes(&m, 128, 192, 128) / own, 71.1, 0.05);
	CHECK_NEAR((double)model_mha_kv_bytes(&m, 128, 128, 128) / own, 56.9, 0.05);
	CHECK_NEAR((double)model_mha_kv_bytes(&m, 32, 128, 128) / own, 14.2, 0.05);
	model_free(&m);
}

static void weight_formats_count_scales_and_scopes(void)
{
	int64_t n = 8030261248, rest = 2 * INT64_C(128256) * 4096 + 65 * 4096, layers = n - rest;
	CHECK_INT(weight_bytes("llama-3.1-8b", "fp32"), 4 * n);
	CHECK_INT(weight_bytes("llama-3.1-8b", "bf16"), 2 * n);
	CHECK_INT(weight_bytes("llama-3.1-8b", "int8"), n);
	CHECK_INT(weight_bytes("llama-3.1-8b", "fp8:linear"), layers + 2 * rest);
	CHECK_INT(weight_bytes("llama-3.1-8b", "int4:linear"), layers / 8 * 33 / 8 + 2 * rest); /* 4.125 bits */
	CHECK_NEAR((double)weight_bytes("llama-3.1-8b", "nf4:linear"), (double)layers * 4.126953125 / 8 + 2.0 * rest,
		   1);
}

static void mxfp4_without_experts_is_refused(void)
{
	struct model m = load("llama-3.1-8b");
	struct weight_format asked, f;
	struct err e = {0};
	CHECK_INT(weight_format_parse("mxfp4", &asked, &e), ERR_NONE);
	CHECK_INT(model_weight_format(&m, &asked, &f, &e), ERR_INPUT);
	CU_ASSERT_PTR_NOT_NULL(strstr(e.text, "llama-3.1-8b has no experts"));
	model_free(&m);
}

static void unknown_formats_list_the_known_ones(void)
{
	struct weight_format f;
	enum kv_dtype kv;
	struct err e = {0};
	CHECK_INT(weight_format_parse("fp7", &f, &e), ERR_INPUT);
	CU_ASSERT_PTR_NOT_NULL(strstr(e.text, "nf4"));
	err_clear(&e);
	CHECK_INT(weight_quantization_parse("bf16", &f, &e), ERR_INPUT);
	err_clear(&e);
	CHECK_INT(kv_dtype_parse("int3", &kv, &e), ERR_INPUT);
	err_clear(&e);
	CHECK_INT(weight_format_parse("a-very-long-word-that-does-not-fit-anywhere:linear", &f, &e), ERR_INPUT);
}

static void names_work_as_people_write_them(void)
{
	static const char *const same[] = {
		"llama-3.1-8b", "Llama-3.1-8B", "meta-llama/Llama-3.1-8B", "meta-llama/Meta-Llama-3.1-8B-Instruct",
		"llama3.1-8b",  "llama-3-1-8b"};
	for (size_t i = 0; i < sizeof same / sizeof same[0]; i++) {
		struct model m = load(same[i]);
		CHECK_STR(m.name, "llama-3.1-8b");
		model_free(&m);
	}
	struct model m = load("meta-llama/Llama-2-7b-chat-hf");
	CHECK_STR(m.name, "llama-2-7b");
	model_free(&m);
}

static void an_unknown_name_offers_near_ones(void)
{
	struct model m;
	struct err e = {0};
	CHECK_INT(model_load(&m, "lama-3.1-8b", &e), ERR_INPUT);
	CU_ASSERT_PTR_NOT_NULL(strstr(e.text, "llama-3.1-8b"));
	err_clear(&e);
	CHECK_INT(model_load(&m, "no/such/config.json", &e), ERR_INPUT);
	CU_ASSERT_PTR_NOT_NULL(strstr(e.text, "no such file"));
	err_clear(&e);
	CHECK_INT(model_load(&m, "", &e), ERR_INPUT);
}

static void every_built_in_loads_and_keeps_its_name(void)
{
	char name[64];
	int32_t n = 0;
	for (; model_name_at(n, name, sizeof name); n++) {
		struct model m = load(name);
		CHECK_STR(m.name, name);
		CU_ASSERT(m.params.total > 0 && m.params.active <= m.params.total);
		model_free(&m);
	}
	CU_ASSERT(n >= 20);
}

static void a_path_is_named_after_its_folder(void)
{
	const char *path = temp_file("config.json", "{\"architectures\": [\"LlamaForCausalLM\"], \"hidden_size\": 8, "
						    "\"num_hidden_layers\": 2, \"num_attention_heads\": 2, "
						    "\"vocab_size\": 32, \"intermediate_size\": 16, "
						    "\"max_position_embeddings\": 64}");
	struct model by_file = load(path), by_folder = load(temp_dir());
	CHECK_STR(by_file.name, strrchr(temp_dir(), '/') + 1);
	CHECK_STR(by_folder.name, by_file.name);
	/* embed and head 2 x 32 x 8; each layer 4 x 8 x 8 + 3 x 8 x 16 + 2 x 8; last norm 8 */
	CHECK_INT(by_file.params.total, 512 + 2 * (256 + 384 + 16) + 8);
	model_free(&by_file);
	model_free(&by_folder);
}

/* --- the table of architectures ---------------------------------------------------------------------------------- */

#define SHAPES                                                                                                         \
	"\"hidden_size\": 8, \"num_hidden_layers\": 4, \"num_attention_heads\": 2, \"vocab_size\": 32, "               \
	"\"intermediate_size\": 16, \"max_position_embeddings\": 64"

static int parse(struct model *m, const char *keys, struct err *e)
{
	char text[2000];
	snprintf(text, sizeof text, "{%s}", keys);
	err_clear(e);
	return model_parse(m, text, "test.json", e);
}

static struct model good(const char *keys)
{
	struct model m;
	struct err e = {0};
	int rc = parse(&m, keys, &e);
	if (rc)
		fprintf(stderr, "%s\n", e.text);
	CU_ASSERT_EQUAL_FATAL(rc, ERR_NONE);
	return m;
}

static void biases_follow_the_architecture(void)
{
	struct model m = good("\"architectures\": [\"LlamaForCausalLM\"], " SHAPES);
	CHECK_INT(m.params.bias, 0);
	model_free(&m);
	m = good("\"architectures\": [\"LlamaForCausalLM\"], \"attention_bias\": true, \"mlp_bias\": true, " SHAPES);
	CHECK_INT(m.params.bias, 4 * (8 + 16 + 8 + 2 * 16 + 8));
	model_free(&m);
	m = good("\"architectures\": [\"Qwen2ForCausalLM\"], \"num_key_value_heads\": 1, " SHAPES);
	CHECK_INT(m.kind, ATTENTION_MQA);
	CHECK_INT(m.params.bias, 4 * (8 + 4 + 4)); /* q, k, v always; the output never */
	model_free(&m);
	m = good("\"model_type\": \"qwen3\", \"num_key_value_heads\": 2, " SHAPES);
	CHECK_INT(m.kind, ATTENTION_MHA);
	CHECK_INT(m.params.norm, 4 * (16 + 4 + 4) + 8); /* a norm over each query and key head */
	model_free(&m);
}

static void experts_sit_in_the_layers_the_config_says(void)
{
	struct model m =
		good("\"architectures\": [\"Qwen3MoeForCausalLM\"], \"num_experts\": 4, \"num_experts_per_tok\": 2, "
		     "\"moe_intermediate_size\": 3, \"decoder_sparse_step\": 2, \"mlp_only_layers\": [3], " SHAPES);
	CHECK_INT(m.layers[0].moe, false);
	CHECK_INT(m.layers[1].moe, true);
	CHECK_INT(m.layers[2].moe, false);
	CHECK_INT(m.layers[3].moe, false);
	CHECK_INT(m.params.experts, 4 * 3 * 8 * 3);
	CHECK_INT(m.params.router, 8 * 4);
	CHECK_INT(m.params.total - m.params.active, 2 * 3 * 8 * 3);
	model_free(&m);
	m = good("\"architectures\": [\"Qwen2MoeForCausalLM\"], \"num_experts\": 4, \"num_experts_per_tok\": 2, "
		 "\"moe_intermediate_size\": 3, \"shared_expert_intermediate_size\": 5, " SHAPES);
	CHECK_INT(m.params.mlp, 4 * 3 * 8 * 5);
	CHECK_INT(m.params.router, 4 * (8 * 4 + 8)); /* and the shared expert's gate */
	model_free(&m);
}

static void windows_follow_the_architecture(void)
{
	struct model m = good("\"architectures\": [\"MistralForCausalLM\"], \"sliding_window\": 16, " SHAPES);
	CHECK_INT(m.window, 16);
	CHECK_INT(m.layers[3].window, 16);
	model_free(&m);
	m = good("\"architectures\": [\"Qwen2ForCausalLM\"], \"sliding_window\": 16, \"use_sliding_window\": true, "
		 "\"max_window_layers\": 3, " SHAPES);
	CHECK_INT(m.layers[2].window, 0);
	CHECK_INT(m.layers[3].window, 16);
	model_free(&m);
	m = good("\"architectures\": [\"Qwen2ForCausalLM\"], \"sliding_window\": 16, \"use_sliding_window\": "
		 "false, " SHAPES);
	CHECK_INT(m.window, 0);
	model_free(&m);
	m = good("\"architectures\": [\"MistralForCausalLM\"], \"sliding_window\": 16, \"layer_types\": "
		 "[\"full_attention\", "
		 "\"full_attention\", \"sliding_attention\", \"full_attention\"], " SHAPES);
	CHECK_INT(m.layers[1].window, 0);
	CHECK_INT(m.layers[2].window, 16);
	model_free(&m);
}

static void layers_that_share_kv_store_it_once(void)
{
	struct model plain = good("\"architectures\": [\"LlamaForCausalLM\"], " SHAPES);
	struct model m = good("\"architectures\": [\"LlamaForCausalLM\"], \"cla_share_factor\": 2, " SHAPES);
	CHECK_INT(m.layers[1].kv_from, 0);
	CHECK_INT(m.layers[2].kv_from, 2);
	CHECK_INT(2 * model_kv_bytes_per_token(&m, KV_AUTO, &m.native),
		  model_kv_bytes_per_token(&plain, KV_AUTO, &plain.native));
	CHECK_INT(plain.params.attention - m.params.attention, 2 * 2 * 8 * 8); /* two layers without K and V */
	model_free(&m);
	model_free(&plain);
}

static void quantised_checkpoints_say_their_format(void)
{
	static const struct {
		const char *config;
		enum dtype dtype;
	} known[] = {{"{\"quant_method\": \"fp8\"}", DTYPE_FP8},
		     {"{\"quant_method\": \"awq\", \"bits\": 4}", DTYPE_INT4},
		     {"{\"quant_method\": \"gptq\", \"bits\": 8}", DTYPE_INT8}};
	for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
		char keys[500];
		snprintf(keys, sizeof keys,
			 "\"architectures\": [\"LlamaForCausalLM\"], \"quantization_config\": %s, " SHAPES,
			 known[i].config);
		struct model m = good(keys);
		CHECK_INT(m.native.dtype, known[i].dtype);
		CHECK_INT(m.native.scope, SCOPE_LINEAR);
		model_free(&m);
	}
}

/* --- refusals ---------------------------------------------------------------------------------------------------- */

static void bad_configs_say_what_is_wrong(void)
{
#define LLAMA "\"architectures\": [\"LlamaForCausalLM\"], "
	static const struct {
		const char *keys, *says;
	} bad[] = {
		{"\"architectures\": [\"GPT2LMHeadModel\"]", "GPT2LMHeadModel is not known"},
		{"\"model_type\": \"gemma2\"", "gemma2 is not known"},
		{"\"hidden_size\": 8", "neither architectures"},
		{"\"architectures\": \"LlamaForCausalLM\"", "neither architectures"},
		{"\"architectures\": []", "neither architectures"},
		{"\"architectures\": [3]", "neither architectures"},
		{LLAMA "\"hidden_size\": 8", "num_hidden_layers is missing"},
		{LLAMA "\"hidden_size\": \"8\"", "hidden_size must be a whole number"},
		{LLAMA "\"hidden_size\": 8.5", "hidden_size must be a whole number"},
		{LLAMA "\"hidden_size\": 0", "hidden_size is 0; it must be between 1"},
		{LLAMA "\"hidden_size\": -4", "hidden_size is -4"},
		{LLAMA "\"hidden_size\": 1000000", "hidden_size is 1000000; it must be between 1 and 131072"},
		{LLAMA "\"hidden_size\": 99999999999999999999", "test.json"},
		{LLAMA "\"hidden_size\": 1e300", "hidden_size"},
		{LLAMA "\"num_key_value_heads\": 0, " SHAPES, "num_key_value_heads is 0"},
		{LLAMA "\"num_key_value_heads\": 3, " SHAPES, "not a multiple of num_key_value_heads 3"},
		{LLAMA "\"head_dim\": 0, " SHAPES, "head_dim is 0"},
		{LLAMA "\"tie_word_embeddings\": 1, " SHAPES, "tie_word_embeddings must be true or false"},
		{LLAMA "\"torch_dtype\": \"int3\", " SHAPES, "torch_dtype \"int3\""},
		{LLAMA "\"quantization_config\": {\"quant_method\": \"magic\"}, " SHAPES, "quant_method \"magic\""},
		{LLAMA "\"quantization_config\": {\"quant_method\": \"gptq\", \"bits\": 3}, " SHAPES,
		 "gptq with 3 bits"},
		{LLAMA "\"quantization_config\": {\"quant_method\": \"mxfp4\"}, " SHAPES, "for experts"},
		{LLAMA "\"hidden_size\": 9, \"num_hidden_layers\": 1, \"num_attention_heads\": 2, \"vocab_size\": 1, "
		       "\"intermediate_size\": 1, \"max_position_embeddings\": 1",
		 "head_dim is missing"},
		{LLAMA
		 "\"hidden_size\": 131072, \"num_hidden_layers\": 1024, \"num_attention_heads\": 4096, "
		 "\"head_dim\": 8192, \"vocab_size\": 1, \"intermediate_size\": 1, \"max_position_embeddings\": 1",
		 "wider than any model"},
		{"\"architectures\": [\"MixtralForCausalLM\"], \"num_local_experts\": 4096, \"num_experts_per_tok\": "
		 "1, "
		 "\"hidden_size\": 131072, \"num_hidden_layers\": 1024, \"num_attention_heads\": 2, \"head_dim\": 8, "
		 "\"vocab_size\": 16777216, \"intermediate_size\": 524288, \"max_position_embeddings\": 1",
		 "more than any device holds"},
		{"\"architectures\": [\"MixtralForCausalLM\"], \"num_local_experts\": 2, \"num_experts_per_tok\": "
		 "3, " SHAPES,
		 "num_experts_per_tok 3 is more than the 2"},
		{"\"architectures\": [\"Qwen3MoeForCausalLM\"], \"num_experts\": 2, \"num_experts_per_tok\": 1, "
		 "\"moe_intermediate_size\": 3, \"mlp_only_layers\": [4], " SHAPES,
		 "mlp_only_layers"},
		{"\"architectures\": [\"MistralForCausalLM\"], \"sliding_window\": 4, \"layer_types\": "
		 "[\"x\"], " SHAPES,
		 "layer_types must list 4 layers"},
		{"\"architectures\": [\"MistralForCausalLM\"], \"sliding_window\": 4, \"cla_share_factor\": 2, " SHAPES,
		 "together are not supported"},
		{"\"architectures\": [\"DeepseekV3ForCausalLM\"], " SHAPES, "kv_lora_rank is missing"},
	};
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		struct model m;
		struct err e = {0};
		CHECK_INT(parse(&m, bad[i].keys, &e), ERR_INPUT);
		if (!strstr(e.text, bad[i].says))
			fprintf(stderr, "wanted \"%s\" in \"%s\"\n", bad[i].says, e.text);
		CU_ASSERT_PTR_NOT_NULL(strstr(e.text, bad[i].says));
		CU_ASSERT_PTR_NOT_NULL(strstr(e.text, "test.json"));
		CU_ASSERT_PTR_NULL(m.layers);
	}
}

static void text_that_is_not_json_has_line_and_column(void)
{
	struct model m;
	struct err e = {0};
	CHECK_INT(model_parse(&m, "{\"a\": 1,\n  oops}", "x.json", &e), ERR_INPUT);
	CU_ASSERT_PTR_NOT_NULL(strstr(e.text, "x.json:2:"));
	err_clear(&e);
	CHECK_INT(model_parse(&m, "[1]", "x.json", &e), ERR_INPUT);
	err_clear(&e);
	CHECK_INT(model_parse(&m, "", "x.json", &e), ERR_INPUT);
	CHECK_INT(model_parse(&m, "{", "x.json", NULL), ERR_INPUT); /* an error nobody asked for */
}

static void a_file_that_is_no_text_is_refused(void)
{
	const char *path = temp_path("zero.json");
	FILE *f = fopen(path, "wb");
	fwrite("{\0}", 1, 3, f);
	fclose(f);
	struct model m;
	struct err e = {0};
	CHECK_INT(model_load(&m, path, &e), ERR_INPUT);
	CU_ASSERT_PTR_NOT_NULL(strstr(e.text, "zero byte"));
}

/* The published files themselves, where they are at hand: the same figures as the built-in ones. */
static void built_ins_equal_the_published_configs(void)
{
	static const char *const pairs[][2] = {
		{"llama-2-7b-hf", "llama-2-7b"},
		{"llama-3-70b", "llama-3-70b"},
		{"llama-3.1-8b", "llama-3.1-8b"},
		{"llama-3.1-70b", "llama-3.1-70b"},
		{"llama-3.1-405b", "llama-3.1-405b"},
		{"qwen3-8b", "qwen3-8b"},
		{"qwen2.5-7b-instruct", "qwen2.5-7b"},
		{"qwen3-0.6b", "qwen3-0.6b"},
		{"qwen3-32b", "qwen3-32b"},
		{"qwen3-30b-a3b", "qwen3-30b-a3b"},
		{"qwen3-235b-a22b", "qwen3-235b-a22b"},
		{"kimi-k2", "kimi-k2"},
		{"mixtral-8x7b-v0.1", "mixtral-8x7b"},
		{"mixtral-8x22b-v0.1", "mixtral-8x22b"},
		{"gpt-oss-20b", "gpt-oss-20b"},
		{"deepseek-v2-lite", "deepseek-v2-lite"},
		{"deepseek-v3", "deepseek-v3"},
		{"gpt-oss-120b", "gpt-oss-120b"},
		{"deepseek-r1", "deepseek-r1"},
	};
	if (!shared_data("models/configs")) {
		test_skip("no published configs here");
		return;
	}
	for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
		char path[200];
		snprintf(path, sizeof path, "models/configs/%s", pairs[i][0]);
		struct model theirs = load(shared_data(path)), ours = load(pairs[i][1]);
		CHECK_INT(ours.params.total, theirs.params.total);
		CHECK_INT(ours.params.active, theirs.params.active);
		CHECK_INT(model_kv_bytes_per_token(&ours, KV_AUTO, &ours.native),
			  model_kv_bytes_per_token(&theirs, KV_AUTO, &theirs.native));
		CHECK_INT(model_weight_bytes(&ours, &ours.native), model_weight_bytes(&theirs, &theirs.native));
		CHECK_INT(ours.max_len, theirs.max_len);
		CHECK_INT(ours.window, theirs.window);
		for (int32_t l = 0; l < ours.n_layers && l < theirs.n_layers; l++)
			CU_ASSERT_EQUAL(ours.layers[l].window, theirs.layers[l].window);
		model_free(&theirs);
		model_free(&ours);
	}
}

int main(void)
{
	static const struct test tests[] = {
		{"parameters_are_those_of_the_published_checkpoints",
		 parameters_are_those_of_the_published_checkpoints},
		{"deepseek_v3_counts_its_latent_projections", deepseek_v3_counts_its_latent_projections},
		{"gpt_oss_weighs_what_its_card_says", gpt_oss_weighs_what_its_card_says},
		{"kv_per_token_is_as_published", kv_per_token_is_as_published},
		{"mistral_contexts_take_the_published_gigabytes", mistral_contexts_take_the_published_gigabytes},
		{"latent_attention_saves_what_deepseek_reports", latent_attention_saves_what_deepseek_reports},
		{"weight_formats_count_scales_and_scopes", weight_formats_count_scales_and_scopes},
		{"mxfp4_without_experts_is_refused", mxfp4_without_experts_is_refused},
		{"unknown_formats_list_the_known_ones", unknown_formats_list_the_known_ones},
		{"names_work_as_people_write_them", names_work_as_people_write_them},
		{"an_unknown_name_offers_near_ones", an_unknown_name_offers_near_ones},
		{"every_built_in_loads_and_keeps_its_name", every_built_in_loads_and_keeps_its_name},
		{"a_path_is_named_after_its_folder", a_path_is_named_after_its_folder},
		{"biases_follow_the_architecture", biases_follow_the_architecture},
		{"experts_sit_in_the_layers_the_config_says", experts_sit_in_the_layers_the_config_says},
		{"windows_follow_the_architecture", windows_follow_the_architecture},
		{"layers_that_share_kv_store_it_once", layers_that_share_kv_store_it_once},
		{"quantised_checkpoints_say_their_format", quantised_checkpoints_say_their_format},
		{"bad_configs_say_what_is_wrong", bad_configs_say_what_is_wrong},
		{"text_that_is_not_json_has_line_and_column", text_that_is_not_json_has_line_and_column},
		{"a_file_that_is_no_text_is_refused", a_file_that_is_no_text_is_refused},
		{"built_ins_equal_the_published_configs", built_ins_equal_the_published_configs},
	};
	return SUITE_RUN("models_model", tests);
}
