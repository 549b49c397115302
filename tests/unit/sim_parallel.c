/* Models split over several devices: who holds what, a step by hand, collectives against measured ones. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/err.h"
#include "models/shard.h"
#include "sim/capacity.h"
#include "sim/cost_models.h"
#include "sim/network.h"
#include "tests/support/suite.h"

/* hidden 8, 2 layers, 2 query heads and 1 KV head of 4, MLP 16, vocabulary 32 */
static const char tiny[] =
	"{\"architectures\": [\"LlamaForCausalLM\"], \"hidden_size\": 8, \"num_hidden_layers\": 2, "
	"\"num_attention_heads\": 2, \"num_key_value_heads\": 1, \"vocab_size\": 32, \"intermediate_size\": 16, "
	"\"max_position_embeddings\": 64}";
/* 1 byte per ns from memory and over a link, 100 ns a collective, 10 more for each further device. */
static const char slow_device[] =
	"{\"memory_bytes\": 1e9, \"bandwidth_gb_s\": 1, \"link_gb_s\": 1, \"link_efficiency\": 1, \"collective_us\": "
	"0.1, "
	"\"hop_us\": 0.01, \"peak_tflops\": {\"bf16\": 1, \"fp32\": 1}, \"gemm_efficiency\": 1, "
	"\"attention_efficiency\": 1, \"memory_efficiency\": 1, \"step_us\": 0, \"request_us\": 0, \"kernel_us\": 0}";

static void must_load(struct model *m, const char *name)
{
	struct err e = {0};
	int rc = *name == '{' ? model_parse(m, name, "tiny", &e) : model_load(m, name, &e);
	if (rc)
		fprintf(stderr, "%s\n", e.text);
	CU_ASSERT_EQUAL_FATAL(rc, ERR_NONE);
}

static void must_load_device(struct device *d, const char *name)
{
	struct err e = {0};
	int rc = *name == '{' ? device_parse(d, name, "dev", &e) : device_load(d, name, &e);
	if (rc)
		fprintf(stderr, "%s\n", e.text);
	CU_ASSERT_EQUAL_FATAL(rc, ERR_NONE);
}

/* One decode with 5 tokens of context on each of two devices; bytes of both layers, bf16:
 * embedding   8 (2 read + 2 written) = 32
 * norms       4 x 8 x (2 x 2 + 1) x 2 = 320, whole on both
 * qkv         (96 weights + 8 in + 4 q + 8 kv) x 2 x 2 = 464: one query head, and the KV head on both
 * rope+cache  (2 x 4 q + 2 x 4 k + 8 kv) x 2 x 2 + cache 16 x 2 = 128
 * attention   (5 x 16 + (4 q + 4 out) x 2) x 2 = 192
 * out_proj    (32 + 4 + 8) x 2 x 2 = 176
 * mlp         (192 + 2 x 8 + 3 x 8 + 3 x 8) x 2 x 2 = 1024
 * lm_head     (128 + 8 + 16) x 2 = 304
 * sampling    32 x 14 = 448: of all logits
 * all-reduce  5 times (1 embedding, 2 a layer) 100 + 10 + 2 x 1 / 2 x 16 bytes = 630 ns
 * all-gather  100 + 10 + 1 / 2 x 64 bytes = 142 ns */
static void a_step_on_two_devices_is_counted_by_hand(void)
{
	static const struct {
		const char *name;
		double ns;
	} by_hand[] = {{"embedding", 32},
		       {"norms", 320},
		       {"qkv", 464},
		       {"rope+cache", 128},
		       {"attention (decode)", 192},
		       {"out_proj", 176},
		       {"mlp", 1024},
		       {"lm_head", 304},
		       {"sampling", 448},
		       {"all-reduce", 630},
		       {"all-gather (logits)", 142}};
	const struct batch b = {.decodes = 1, .decode_ctx = 5, .decode_ctx_window = 5, .sampled = 1, .running = 1};
	struct model m;
	struct device d;
	struct cost_setup setup;
	struct cost *c;
	struct cost_op ops[COST_OPS_MAX];
	struct cost_time t;
	struct err e = {0};
	double sum = 0;
	must_load(&m, tiny);
	must_load_device(&d, slow_device);
	cost_setup_default(&setup, &m, &d);
	setup.tensor_parallel = 2;
	CU_ASSERT_EQUAL_FATAL(cost_open(&c, "roofline", &setup, &e), ERR_NONE);
	CU_ASSERT_EQUAL_FATAL(cost_roofline_ops(c, &b, ops), (int32_t)(sizeof by_hand / sizeof *by_hand));
	for (size_t i = 0; i < sizeof by_hand / sizeof *by_hand; i++) {
		CHECK_STR(ops[i].name, by_hand[i].name);
		CHECK_NEAR(ops[i].ns, by_hand[i].ns, 1e-9);
		sum += by_hand[i].ns;
	}
	cost_step(c, &b, &t);
	CHECK_INT(t.device_ns, (int64_t)sum);
	double parts[STEP_PARTS], all = 0;
	c->ops->parts(c, &b, parts);
	for (int i = 0; i < STEP_PARTS; i++)
		all += parts[i];
	CHECK_NEAR(all, sum, 1e-9);
	cost_free(c);
	model_free(&m);
}

static void each_device_holds_its_part(void)
{
	struct model m, part;
	struct weight_format f;
	struct err e = {0};
	must_load(&m, "llama-3.1-70b");
	CHECK_INT(model_weight_format(&m, &(struct weight_format){.automatic = true}, &f, &e), ERR_NONE);
	CHECK_INT(model_shard(&part, &m, 8, &e), ERR_NONE);
	CHECK_INT(part.n_heads, 8);
	CHECK_INT(part.n_kv_heads, 1);
	CHECK_INT(part.hidden, m.hidden);
	CHECK_INT(part.intermediate, m.intermediate / 8);
	/* All that is held more than once are the norms. */
	CHECK_INT(8 * part.params.total - m.params.total, 7 * m.params.norm);
	CHECK_INT(8 * model_kv_bytes_per_token(&part, KV_AUTO, &f), model_kv_bytes_per_token(&m, KV_AUTO, &f));
	/* Eight KV heads on sixteen devices: two hold the same. */
	CHECK_INT(model_shard(&part, &m, 16, &e), ERR_NONE);
	CHECK_INT(part.n_kv_heads, 1);
	CHECK_INT(8 * model_kv_bytes_per_token(&part, KV_AUTO, &f), model_kv_bytes_per_token(&m, KV_AUTO, &f));
	CHECK_INT(model_shard(&part, &m, 1, &e), ERR_NONE);
	CHECK_INT(part.params.total, m.params.total);
	model_free(&m);
	/* The latents of MLA are whole everywhere. */
	must_load(&m, "deepseek-v2-lite");
	CHECK_INT(model_shard(&part, &m, 4, &e), ERR_NONE);
	CHECK_INT(part.n_heads, m.n_heads / 4);
	CHECK_INT(model_kv_bytes_per_token(&part, KV_AUTO, &f), model_kv_bytes_per_token(&m, KV_AUTO, &f));
	model_free(&m);
}

static void what_cannot_be_split_is_refused(void)
{
	static const struct {
		const char *model;
		int32_t ranks;
		const char *says;
	} bad[] = {{"llama-3.1-8b", 3, "attention heads 32 do not divide"},
		   {"llama-3.1-8b", 64, "attention heads 32 do not divide"},
		   {"qwen2.5-7b", 7, "cannot share its 4 KV heads evenly"}};
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		struct model m, part;
		struct err e = {0};
		must_load(&m, bad[i].model);
		CHECK_INT(model_shard(&part, &m, bad[i].ranks, &e), ERR_INPUT);
		if (!strstr(e.text, bad[i].says))
			fprintf(stderr, "wanted \"%s\" in \"%s\"\n", bad[i].says, e.text);
		CU_ASSERT_PTR_NOT_NULL(strstr(e.text, bad[i].says));
		model_free(&m);
	}
}

/* 70.55e9 parameters in bf16 on four 80 GB devices: 35.3 GB each, and a quarter of the KV. */
static void capacity_is_of_one_device(void)
{
	struct model m;
	struct device d;
	struct capacity_options o;
	struct capacity c;
	struct err e = {0};
	must_load(&m, "llama-3.1-70b");
	must_load_device(&d, "h100-sxm");
	capacity_options_default(&o);
	o.tensor_parallel = 4;
	CHECK_INT(capacity_compute(&c, &m, &d, &o, &e), ERR_NONE);
	CHECK_NEAR((double)c.weight_bytes, 70553706496.0 * 2 / 4, 1e7);
	CHECK_INT(c.kv_bytes_per_token, 80 * 2 * 2 * 128 * 2);
	CU_ASSERT(c.num_blocks > 20000);
	model_free(&m);
}

/* Twice the devices never take longer where links are fast, and always do where they are slow. */
static void links_decide_what_splitting_brings(void)
{
	static const char *const texts[] = {"roofline", "roofline:link=0.001,collective=1ms"};
	const struct batch b = {
		.decodes = 64, .decode_ctx = 64 * 2000, .decode_ctx_window = 64 * 2000, .sampled = 64, .running = 64};
	struct model m;
	struct device d;
	struct cost_setup setup;
	must_load(&m, "llama-3.1-70b");
	must_load_device(&d, "h100-sxm");
	cost_setup_default(&setup, &m, &d);
	for (int slow = 0; slow < 2; slow++) {
		int64_t before = 0;
		for (setup.tensor_parallel = 1; setup.tensor_parallel <= 8; setup.tensor_parallel *= 2) {
			struct cost *c;
			struct cost_time t;
			struct err e = {0};
			CU_ASSERT_EQUAL_FATAL(cost_open(&c, texts[slow], &setup, &e), ERR_NONE);
			cost_step(c, &b, &t);
			if (before)
				CU_ASSERT(slow ? t.device_ns > before : t.device_ns < before);
			before = t.device_ns;
			cost_free(c);
		}
	}
	model_free(&m);
}

/* PyTorch's all-reduce over NCCL within one DGX A100 (2, 4 and 8 devices, 2 KB to 65 MB), which launches each from Python:
 * 42 us each, where engines that capture their own in graphs take less. */
static void all_reduce_is_within_a_few_percent_of_measurements(void)
{
	const char *path = shared_data("profiles/vidur/network/a100_dgx_all_reduce.csv");
	char line[500], *field[12];
	double sum[9] = {0}, large[9] = {0};
	int n[9] = {0}, n_large[9] = {0};
	struct device d;
	if (!path) {
		test_skip("no measurements here");
		return;
	}
	must_load_device(&d, "a100-80g");
	d.collective_ns = 42e3;
	FILE *f = fopen(path, "r");
	CU_ASSERT_PTR_NOT_NULL_FATAL(f);
	CU_ASSERT_PTR_NOT_NULL_FATAL(fgets(line, sizeof line, f));
	while (fgets(line, sizeof line, f)) {
		char *at = line;
		for (int i = 0; i < 12; i++)
			field[i] = strsep(&at, ",");
		int ranks = atoi(field[7]);
		if (ranks > 8 || strcmp(field[7], field[10]) != 0)
			continue;
		struct network net;
		network_init(&net, &d, ranks);
		double bytes = atof(field[8]), measured = atof(field[4]) * 1e6;
		double error = fabs((net.all_reduce_ns + bytes * net.all_reduce_byte_ns) / measured - 1);
		sum[ranks] += error;
		n[ranks]++;
		if (bytes > 2e6) {
			large[ranks] += error;
			n_large[ranks]++;
		}
	}
	fclose(f);
	for (int r = 2; r <= 8; r *= 2) {
		printf("all-reduce of %d devices, %d sizes: mean error %.1f %%, above 2 MB %.1f %%\n", r, n[r],
		       100 * sum[r] / n[r], 100 * large[r] / n_large[r]);
		CU_ASSERT(n[r] > 900);
		CU_ASSERT(sum[r] / n[r] < 0.15);
		CU_ASSERT(large[r] / n_large[r] < 0.1);
	}
}

int main(void)
{
	static const struct test tests[] = {
		{"a_step_on_two_devices_is_counted_by_hand", a_step_on_two_devices_is_counted_by_hand},
		{"each_device_holds_its_part", each_device_holds_its_part},
		{"what_cannot_be_split_is_refused", what_cannot_be_split_is_refused},
		{"capacity_is_of_one_device", capacity_is_of_one_device},
		{"links_decide_what_splitting_brings", links_decide_what_splitting_brings},
		{"all_reduce_is_within_a_few_percent_of_measurements",
		 all_reduce_is_within_a_few_percent_of_measurements},
	};
	return SUITE_RUN("sim_parallel", tests);
}
