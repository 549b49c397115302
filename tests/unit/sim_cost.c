/* Cost models: FLOPs and bytes by hand for a tiny model, the rules of thumb, monotonicity, words. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/err.h"
#include "core/rng.h"
#include "sim/cost_models.h"
#include "sim/cost_ops.h"
#include "sim/work.h"
#include "tests/support/suite.h"

/* hidden 8, 2 layers, 2 query heads and 1 KV head of 4, MLP 16, vocabulary 32 */
#define TINY                                                                                                           \
	"\"hidden_size\": 8, \"num_hidden_layers\": 2, \"num_attention_heads\": 2, \"num_key_value_heads\": 1, "       \
	"\"vocab_size\": 32, \"intermediate_size\": 16, \"max_position_embeddings\": 64}"
static const char tiny_llama[] = "{\"architectures\": [\"LlamaForCausalLM\"], " TINY;

/* 1 byte per ns and 1000 FLOP per ns, all of it reached, no overhead: memory bounds everything. */
static const char memory_device[] =
	"{\"memory_bytes\": 1e9, \"bandwidth_gb_s\": 1, \"peak_tflops\": {\"bf16\": 1, \"fp32\": 1}, "
	"\"gemm_efficiency\": 1, \"attention_efficiency\": 1, \"memory_efficiency\": 1, "
	"\"step_us\": 0, \"request_us\": 0, \"kernel_us\": 0, \"launch_us\": 0}";
/* 1 FLOP per ns and plenty of bandwidth: compute bounds everything. */
static const char compute_device[] =
	"{\"memory_bytes\": 1e9, \"bandwidth_gb_s\": 1e6, \"peak_tflops\": {\"bf16\": 0.001, \"fp32\": 0.001}, "
	"\"gemm_efficiency\": 1, \"attention_efficiency\": 1, \"memory_efficiency\": 1, "
	"\"step_us\": 0, \"request_us\": 0, \"kernel_us\": 0, \"launch_us\": 0}";

struct setting {
	struct model model;
	struct device device;
	struct cost_setup setup;
};

static void set_up(struct setting *s, const char *model, const char *device)
{
	struct err e = {0};
	int rc = *model == '{' ? model_parse(&s->model, model, "tiny", &e) : model_load(&s->model, model, &e);
	if (!rc)
		rc = *device == '{' ? device_parse(&s->device, device, "dev", &e) : device_load(&s->device, device, &e);
	if (rc)
		fprintf(stderr, "%s\n", e.text);
	CU_ASSERT_EQUAL_FATAL(rc, ERR_NONE);
	cost_setup_default(&s->setup, &s->model, &s->device);
}

static struct cost *open_cost(const struct setting *s, const char *text)
{
	struct cost *c;
	struct err e = {0};
	int rc = cost_open(&c, text, s ? &s->setup : NULL, &e);
	if (rc)
		fprintf(stderr, "%s\n", e.text);
	CU_ASSERT_EQUAL_FATAL(rc, ERR_NONE);
	return c;
}

static struct batch decode_batch(int32_t rows, int64_t ctx)
{
	return (struct batch){
		.decodes = rows, .decode_ctx = ctx, .decode_ctx_window = ctx, .sampled = rows, .running = rows};
}

static struct batch prefill_batch(const struct chunk *c)
{
	return (struct batch){.n_chunks = 1,
			      .chunks = c,
			      .prefill_tokens = (int64_t)c->len + c->pad,
			      .sampled = c->samples,
			      .running = 1};
}

static struct cost_time ask(const struct cost *c, struct batch b)
{
	struct cost_time t = {-1, -1, -1};
	cost_step(c, &b, &t);
	CU_ASSERT(t.outside == 0);
	return t;
}

/* --- by hand ----------------------------------------------------------------------------------------------------- */

/* One decode with 5 tokens of context; both layers together; bf16.
 *              FLOPs                                  bytes
 * embedding    0                                      8 (read 2 + written 2) = 32
 * norms        160 numbers x 1.25 = 200               4 x 8 x (2 x 2 + 1) = 160 numbers x 2 = 320
 * qkv          2 x 8 (8 + 2 x 4) x 2 = 512            (128 weights + 8 in + 8 q + 8 kv) x 2 x 2 = 608
 * rope+cache   3 (8 + 4) x 2 = 72                     (2 x 8 q + 2 x 4 k + 8 kv) x 2 x 2 + cache 16 x 2 = 160
 * attention    2 heads x 5 x (4 + 4) x 2 x 2 = 320    (5 x 16 + (8 q + 8 out) x 2) x 2 = 224
 * out_proj     2 x 64 x 2 = 256                       (64 + 8 + 8) x 2 x 2 = 320
 * mlp          (2 x 384 + 5 x 16) x 2 = 1696          (384 + 2 x 8 + 3 x 16 + 3 x 16) x 2 x 2 = 1984
 * lm_head      2 x 8 x 32 = 512                       (256 + 8 + 32) x 2 = 592
 * sampling     5 x 32 = 160                           32 x 14 = 448 */
static const struct {
	const char *name;
	double flops, bytes;
} by_hand[] = {{"embedding", 0, 32},
	       {"norms", 200, 320},
	       {"qkv", 512, 608},
	       {"rope+cache", 72, 160},
	       {"attention (decode)", 320, 224},
	       {"out_proj", 256, 320},
	       {"mlp", 1696, 1984},
	       {"lm_head", 512, 592},
	       {"sampling", 160, 448}};
enum { N_BY_HAND = sizeof by_hand / sizeof by_hand[0] };

/* What the totals of a step add up to is what its operators do. */
static void check_work(const char *model, const char *device, struct batch b)
{
	struct setting s;
	struct cost_op ops[COST_OPS_MAX];
	struct work *w;
	struct err e = {0};
	double flops = 0, bytes = 0, counted_flops, counted_bytes, peak, bandwidth;
	enum dtype weights;
	set_up(&s, model, device);
	struct cost *c = open_cost(&s, "roofline");
	int32_t n = cost_roofline_ops(c, &b, ops);
	for (int32_t i = 0; i < n; i++) {
		flops += ops[i].flops;
		bytes += ops[i].bytes;
	}
	CU_ASSERT_FATAL(work_create(&w, &s.setup, &e) == ERR_NONE);
	const struct work_totals t = {b.decodes, b.decode_ctx, b.n_chunks, b.prefill_tokens, b.sampled};
	for (int again = 0; again < 2; again++) { /* the second time from its table */
		work_step(w, &t, &counted_flops, &counted_bytes);
		CHECK_NEAR(counted_flops / flops, 1, 1e-12);
		CHECK_NEAR(counted_bytes / bytes, 1, 1e-12);
	}
	work_roofs(w, &peak, &bandwidth, &weights);
	CHECK_NEAR(peak, device_peak(&s.device, weights), 0);
	CHECK_NEAR(bandwidth, s.device.bandwidth, 0);
	work_free(w);
	cost_free(c);
	model_free(&s.model);
}

static void totals_of_a_step_are_what_its_operators_do(void)
{
	static const char *const models[] = {"llama-3.1-8b", "qwen3-8b", "mixtral-8x7b", "deepseek-v3"};
	for (size_t m = 0; m < sizeof models / sizeof *models; m++) {
		const struct chunk prompts[] = {{.len = 700}, {.len = 700}};
		struct batch b = decode_batch(17, 17 * 300);
		check_work(models[m], "h100-sxm", b);
		b.n_chunks = 2; /* whole prompts of one length: nothing has to be guessed */
		b.chunks = prompts;
		b.prefill_tokens = 1400;
		b.sampled += 2;
		check_work(models[m], "h100-sxm", b);
		b.decodes = 0;
		b.decode_ctx = 0;
		b.sampled = 2;
		check_work(models[m], "h100-sxm", b);
	}
	struct batch large = decode_batch(20000, 20000 * 40);
	check_work("llama-3.1-8b", "h100-sxm", large);
}

static void a_decode_step_of_a_tiny_model_is_counted_by_hand(void)
{
	struct setting s;
	struct cost_op ops[COST_OPS_MAX];
	struct batch b = decode_batch(1, 5);
	int64_t flops = 0, bytes = 0;
	set_up(&s, tiny_llama, memory_device);
	struct cost *memory = open_cost(&s, "roofline");
	CU_ASSERT_EQUAL_FATAL(cost_roofline_ops(memory, &b, ops), N_BY_HAND);
	for (int i = 0; i < N_BY_HAND; i++) {
		CHECK_STR(ops[i].name, by_hand[i].name);
		CHECK_NEAR(ops[i].flops, by_hand[i].flops, 1e-9);
		CHECK_NEAR(ops[i].bytes, by_hand[i].bytes, 1e-9);
		CHECK_INT(ops[i].compute_bound, false);
		flops += (int64_t)by_hand[i].flops;
		bytes += (int64_t)by_hand[i].bytes;
	}
	CHECK_INT(ask(memory, b).device_ns, bytes); /* 4,688 */
	CHECK_INT(ask(memory, b).host_ns, 0);
	cost_free(memory);
	model_free(&s.model);
	set_up(&s, tiny_llama, compute_device);
	struct cost *compute = open_cost(&s, "roofline");
	CHECK_INT(ask(compute, b).device_ns, flops); /* 3,728 */
	cost_free(compute);
	model_free(&s.model);
}

/* 3 new tokens after 2 cached ones: 3 + 4 + 5 = 12 pairs of the 15 in the rectangle. */
static void prefill_attention_counts_its_causal_pairs(void)
{
	struct setting s;
	struct op_shapes shapes;
	struct op_work w;
	set_up(&s, tiny_llama, memory_device);
	op_shapes_init(&shapes, &s.model, &s.model.native, KV_AUTO, ATTENTION_FLASH);
	op_prefill_attention(&shapes, 2, 3, 0, &w);
	CHECK_NEAR(w.flops, 2 * 2 * 12 * 8, 1e-9);
	CHECK_NEAR(w.bytes, 3 * 16 * 2 + 5 * 16, 1e-9);
	/* a window of 4: the queries see 3, 4, 4, 4 */
	op_prefill_attention(&shapes, 2, 4, 4, &w);
	CHECK_NEAR(w.flops, 2 * 2 * 15 * 8, 1e-9);
	/* a window the chunk begins beyond: 3 earlier keys and the 2 new ones are read */
	op_prefill_attention(&shapes, 10, 2, 4, &w);
	CHECK_NEAR(w.flops, 2 * 2 * 8 * 8, 1e-9);
	CHECK_NEAR(w.bytes, 2 * 16 * 2 + 5 * 16, 1e-9);
	op_prefill_attention(&shapes, 0, 4, 4, &w);
	CHECK_NEAR(w.flops, 2 * 2 * 10 * 8, 1e-9);
	op_shapes_init(&shapes, &s.model, &s.model.native, KV_AUTO, ATTENTION_STANDARD);
	op_prefill_attention(&shapes, 2, 3, 0, &w);
	CHECK_NEAR(w.flops, 2 * 2 * 15 * 8, 1e-9);
	CHECK_NEAR(w.bytes, 3 * 16 * 2 + 5 * 16 + 4 * 2 * 15 * 2, 1e-9); /* scores of 2 heads, 4 times over the bus */
	op_decode_attention(&shapes, 1, 5, &w);
	CHECK_NEAR(w.bytes, 5 * 16 + 16 * 2 + 4 * 2 * 5 * 2, 1e-9);
	CHECK_INT(w.kernels, 3);
	model_free(&s.model);
}

/* However a prompt is cut, its attention is the same work. */
static void chunks_add_up_to_the_whole_prompt(void)
{
	struct setting s;
	struct op_shapes shapes;
	struct op_work whole, part;
	struct rng r;
	rng_init(&r, 1, 1);
	set_up(&s, tiny_llama, memory_device);
	op_shapes_init(&shapes, &s.model, &s.model.native, KV_AUTO, ATTENTION_FLASH);
	for (int i = 0; i < 200; i++) {
		double n = (double)(1 + rng_below(&r, 5000)), window = i % 2 ? 0 : (double)(1 + rng_below(&r, 3000)),
		       sum = 0;
		op_prefill_attention(&shapes, 0, n, window, &whole);
		for (double done = 0; done < n;) {
			double len = (double)(1 + rng_below(&r, 700));
			len = len < n - done ? len : n - done;
			op_prefill_attention(&shapes, done, len, window, &part);
			sum += part.flops;
			done += len;
		}
		CHECK_NEAR(sum, whole.flops, 1e-6);
	}
	model_free(&s.model);
}

/* Counted one by one for small cases. */
static void windows_count_what_each_query_sees(void)
{
	struct setting s;
	struct op_shapes shapes;
	struct op_work w;
	set_up(&s, tiny_llama, memory_device);
	op_shapes_init(&shapes, &s.model, &s.model.native, KV_AUTO, ATTENTION_FLASH);
	for (int start = 0; start < 12; start++) {
		for (int n = 1; n < 12; n++) {
			for (int window = 1; window < 25; window++) {
				int pairs = 0;
				for (int i = 1; i <= n; i++)
					pairs += start + i < window ? start + i : window;
				op_prefill_attention(&shapes, start, n, window, &w);
				CU_ASSERT(fabs(w.flops - 32.0 * pairs) < 1e-9);
			}
		}
	}
	model_free(&s.model);
}

/* --- the rules of thumb ------------------------------------------------------------------------------------------ */

static void shapes_of(struct op_shapes *shapes, struct setting *s, const char *model, enum attention_algorithm a)
{
	set_up(s, model, "h100-sxm");
	op_shapes_init(shapes, &s->model, &s->model.native, KV_AUTO, a);
}

static void decode_attention_has_intensity_gs_over_s_plus_g(void)
{
	static const struct {
		const char *model;
		double g;
	} cases[] = {{"llama-2-7b", 1}, {"llama-3-8b", 4}, {"llama-3-70b", 8}};
	for (int i = 0; i < 3; i++) {
		struct setting s;
		struct op_shapes shapes;
		struct op_work w;
		double g = cases[i].g, ctx = 1000;
		shapes_of(&shapes, &s, cases[i].model, ATTENTION_FLASH);
		op_decode_attention(&shapes, 1, ctx, &w);
		CHECK_NEAR(w.flops / w.bytes, g * ctx / (ctx + g), 1e-9);
		op_decode_attention(&shapes, 64, 64 * ctx, &w); /* a batch does not help */
		CHECK_NEAR(w.flops / w.bytes, g * ctx / (ctx + g), 1e-9);
		model_free(&s.model);
	}
}

static void prefill_attention_has_half_the_length_and_the_causal_half_of_that(void)
{
	struct setting s;
	struct op_shapes shapes;
	struct op_work w, full;
	double n = 2048;
	shapes_of(&shapes, &s, "llama-2-7b", ATTENTION_FLASH);
	op_prefill_attention(&shapes, 0, n, 0, &w);
	CHECK_NEAR(w.flops / w.bytes, (n + 1) / 4, 1e-9);
	shapes.standard = true;
	op_prefill_attention(&shapes, 0, n, 0, &full);
	CHECK_NEAR(full.flops / w.bytes, n / 2, 1e-9); /* the full square over the same Q, K, V and output */
	/* standard: 32 heads x 2048^2 scores, 2 bytes, 4 times */
	CHECK_NEAR(full.bytes - w.bytes, 4 * 2 * 32 * n * n, 1);
	model_free(&s.model);
}

static void the_mlp_tends_to_batch_times_length(void)
{
	struct setting s;
	struct op_shapes shapes;
	struct op_work w;
	shapes_of(&shapes, &s, "llama-3-8b", ATTENTION_FLASH);
	op_tokens(&shapes, OP_MLP, 1, &w);
	CHECK_NEAR(w.flops / w.bytes, 1, 0.01);
	op_tokens(&shapes, OP_MLP, 32, &w);
	CHECK_NEAR(w.flops / w.bytes, 32, 0.9);
	model_free(&s.model);
}

/* Six of 36 outcomes of two dice show one face twice: 1 + 5/6 different faces. */
static void experts_reached_are_counted_like_dice(void)
{
	CHECK_NEAR(op_distinct_experts(6, 1, 2), 1 + 5.0 / 6, 1e-12);
	CHECK_NEAR(op_distinct_experts(8, 2, 1), 2, 1e-12);
	CHECK_NEAR(op_distinct_experts(8, 8, 5), 8, 1e-12);
	CHECK_NEAR(op_distinct_experts(8, 2, 100000), 8, 1e-9);
	CHECK_NEAR(op_distinct_experts(8, 2, 0), 0, 1e-12);
}

static void decode_weights_are_read_once_and_experts_as_reached(void)
{
	struct setting s;
	struct op_shapes shapes;
	struct op_work w;
	shapes_of(&shapes, &s, "mixtral-8x7b", ATTENTION_FLASH);
	op_tokens(&shapes, OP_EXPERTS, 1, &w);
	double expert = 3.0 * 4096 * 14336;
	CHECK_NEAR(w.bytes / (32 * 2 * expert * 2), 1, 0.001); /* 2 experts in 32 layers, activations beside it */
	CHECK_NEAR(w.flops / (32 * 2 * 2 * expert), 1, 0.001);
	op_tokens(&shapes, OP_EXPERTS, 64, &w);
	CHECK_NEAR(w.bytes / (32 * 8 * expert * 2), 1, 0.01); /* all 8 */
	model_free(&s.model);
}

/* A step of a whole model reads each weight once, embedding rows aside. */
static void one_decode_reads_every_weight(void)
{
	static const char *const models[] = {"llama-2-7b", "llama-3.1-8b", "qwen3-8b", "deepseek-v2-lite",
					     "llama-3.2-1b"};
	for (int m = 0; m < 5; m++) {
		struct setting s;
		struct cost_op ops[COST_OPS_MAX];
		struct batch b = decode_batch(1, 1);
		double flops = 0, bytes = 0;
		set_up(&s, models[m], "h100-sxm");
		struct cost *c = open_cost(&s, "roofline");
		int32_t n = cost_roofline_ops(c, &b, ops);
		for (int32_t i = 0; i < n; i++) {
			flops += ops[i].flops;
			bytes += ops[i].bytes;
		}
		const struct model_params *p = &s.model.params;
		double used = (double)(p->active - (s.model.tied ? 0 : p->embed));
		CHECK_NEAR(bytes / (2 * used), 1, 0.02);
		CHECK_NEAR(flops / (2 * used), 1, 0.02);
		cost_free(c);
		model_free(&s.model);
	}
}

/* --- what a step costs ------------------------------------------------------------------------------------------- */

/* 2 norms, qkv, rope, cache write, attention, out, 3 of the MLP in each layer: 10; embedding, last norm, LM head, 3 of
 * sampling: 6. */
static void kernels_and_the_host_cost_what_they_are_set_to(void)
{
	struct setting s;
	set_up(&s, tiny_llama, memory_device);
	struct cost *base = open_cost(&s, "roofline"),
		    *slow = open_cost(&s, "roofline:kernel=1us,step=5us,request=2us");
	struct batch b = decode_batch(3, 20);
	CHECK_INT(ask(slow, b).device_ns - ask(base, b).device_ns, 1000 * (2 * 10 + 6));
	CHECK_INT(ask(slow, b).host_ns, 5000 + 3 * 2000);
	struct chunk c = {.len = 4};
	struct batch p = prefill_batch(&c); /* samples nothing: no LM head */
	CHECK_INT(ask(slow, p).device_ns - ask(base, p).device_ns, 1000 * (2 * 10 + 2));
	CHECK_INT(ask(slow, p).host_ns, 5000 + 2000);
	cost_free(base);
	cost_free(slow);
	model_free(&s.model);
}

/* Without graphs a step cannot end before its last kernel is launched. */
static void eager_steps_wait_for_their_launches(void)
{
	struct setting s;
	set_up(&s, tiny_llama, memory_device);
	struct cost *eager = open_cost(&s, "roofline:eager=on,launch=1us");
	struct batch b = decode_batch(1, 5);
	struct cost_time t = ask(eager, b);
	CHECK_INT(t.device_ns, 4688);
	CHECK_INT(t.host_ns, 26 * 1000 - 4688);
	cost_free(eager);
	struct cost *fast = open_cost(&s, "roofline:eager=on,launch=1ns");
	CHECK_INT(ask(fast, b).host_ns, 0);
	cost_free(fast);
	model_free(&s.model);
}

static void sliding_layers_read_their_window_only(void)
{
	struct setting s;
	struct cost_op ops[COST_OPS_MAX];
	struct batch b = decode_batch(1, 20);
	set_up(&s,
	       "{\"architectures\": [\"MistralForCausalLM\"], \"sliding_window\": 4, \"layer_types\": "
	       "[\"sliding_attention\", \"full_attention\"], " TINY,
	       memory_device);
	struct cost *c = open_cost(&s, "roofline");
	b.decode_ctx_window = 4;
	cost_roofline_ops(c, &b, ops);
	CHECK_STR(ops[4].name, "attention (decode)");
	CHECK_NEAR(ops[4].bytes, 20 * 16 + 4 * 16 + 2 * 32, 1e-9);
	int64_t with = ask(c, b).device_ns;
	b.decode_ctx_window = 20;
	CHECK_INT(ask(c, b).device_ns - with, 16 * 16);
	cost_free(c);
	model_free(&s.model);
}

static void padding_is_computed_like_tokens(void)
{
	struct setting s;
	set_up(&s, "llama-3.1-8b", "h100-sxm");
	struct cost *c = open_cost(&s, "roofline");
	struct chunk padded = {.len = 100, .pad = 400, .samples = true}, plain = {.len = 500, .samples = true};
	CHECK_INT(ask(c, prefill_batch(&padded)).device_ns, ask(c, prefill_batch(&plain)).device_ns);
	cost_free(c);
	model_free(&s.model);
}

static struct batch random_batch(struct rng *r, struct chunk *chunks)
{
	struct batch b = decode_batch((int32_t)rng_below(r, 300), 0);
	b.decode_ctx = b.decodes * (int64_t)(1 + rng_below(r, 4000));
	b.decode_ctx_window = b.decode_ctx / (1 + (int64_t)rng_below(r, 3));
	b.n_chunks = (int32_t)rng_below(r, 4);
	b.chunks = chunks;
	for (int32_t i = 0; i < b.n_chunks; i++) {
		chunks[i] =
			(struct chunk){.start = (int32_t)rng_below(r, 3000), .len = 1 + (int32_t)rng_below(r, 2000)};
		chunks[i].samples = rng_below(r, 2);
		chunks[i].pad = (int32_t)rng_below(r, 3) * 7;
		b.prefill_tokens += chunks[i].len + chunks[i].pad;
		b.sampled += chunks[i].samples;
	}
	return b;
}

static const char *const some_models[] = {"llama-3.1-8b", "gpt-oss-20b", "deepseek-v2-lite", "mistral-7b-v0.1"};

static void the_operators_add_up_to_the_step(void)
{
	struct rng r;
	rng_init(&r, 7, 0);
	for (int m = 0; m < 4; m++) {
		struct setting s;
		set_up(&s, some_models[m], "a100-80g");
		struct cost *c = open_cost(&s, m == 0 ? "roofline:attention=standard" : "roofline");
		for (int i = 0; i < 300; i++) {
			struct chunk chunks[4];
			struct cost_op ops[COST_OPS_MAX];
			struct batch b = random_batch(&r, chunks);
			double sum = 0;
			int32_t n = cost_roofline_ops(c, &b, ops);
			for (int32_t k = 0; k < n; k++)
				sum += ops[k].ns;
			CHECK_NEAR((double)ask(c, b).device_ns, sum, 1);
			CHECK_INT(ask(c, b).device_ns, ask(c, b).device_ns); /* the table gives what counting gave */
			double part_ns[STEP_PARTS];
			c->ops->parts(c, &b, part_ns);
			CHECK_NEAR(part_ns[0] + part_ns[1] + part_ns[2] + part_ns[3], sum, 1e-9 * sum + 1e-6);
		}
		cost_free(c);
		model_free(&s.model);
	}
}

static void more_work_never_takes_less_time(void)
{
	struct rng r;
	rng_init(&r, 8, 0);
	for (int m = 0; m < 4; m++) {
		struct setting s;
		set_up(&s, some_models[m], "h100-sxm");
		struct cost *c = open_cost(&s, "roofline");
		for (int i = 0; i < 500; i++) {
			struct chunk chunks[4], longer[4];
			struct batch b = random_batch(&r, chunks), more = b;
			int64_t before = ask(c, b).device_ns;
			more.decode_ctx += 1000;
			CU_ASSERT(ask(c, more).device_ns >= before);
			more.decodes += 1;
			more.sampled += 1;
			CU_ASSERT(ask(c, more).device_ns >= before);
			CU_ASSERT(ask(c, more).host_ns > ask(c, b).host_ns);
			memcpy(longer, chunks, sizeof longer);
			more = b;
			more.chunks = longer;
			if (b.n_chunks > 0) {
				longer[0].len += 1;
				more.prefill_tokens += 1;
				CU_ASSERT(ask(c, more).device_ns > before);
				longer[0].start += 500;
				CU_ASSERT(ask(c, more).device_ns > before);
			}
		}
		cost_free(c);
		model_free(&s.model);
	}
}

/* Many steps in one call: each ends when it would have, asked singly, to the nanosecond. */
static void a_run_is_priced_like_its_steps(void)
{
	static const char *const texts[] = {"roofline", "roofline:eager=on", "linear:a=5ms,c=3.3us,d=0.7",
					    "constant:3ms"};
	enum { MOST = 300 };
	struct rng r;
	rng_init(&r, 9, 0);
	for (int m = 0; m < 16; m++) {
		struct setting s;
		set_up(&s, some_models[m % 4], "rtx-4090");
		struct cost *c = open_cost(&s, texts[m / 4]);
		for (int i = 0; i < 40; i++) {
			int32_t rows = 1 + (int32_t)rng_below(&r, i % 8 ? 300 : 6000);
			struct batch b = decode_batch(rows, rows * (int64_t)(1 + rng_below(&r, 300))), single;
			int64_t end_ns[MOST], start = (int64_t)rng_below(&r, 1000000), t = start, n,
					      most = 1 + (int64_t)rng_below(&r, MOST);
			struct cost_time all, one;
			b.window_growing = (int32_t)rng_below(&r, (uint64_t)rows + 1);
			b.sampled -= (int32_t)rng_below(&r, 2);
			b.until_ns = i % 3 ? INT64_MAX : start + 20000000;
			single = b;
			n = cost_run(c, &b, start, end_ns, most, &all);
			CU_ASSERT(n >= 1 && n <= most);
			for (int64_t k = 0; k < n; k++) {
				CU_ASSERT(k == 0 || t < b.until_ns);
				cost_step(c, &single, &one);
				t += one.device_ns + one.host_ns;
				CU_ASSERT_EQUAL(end_ns[k], t);
				CU_ASSERT_EQUAL(all.host_ns, one.host_ns);
				single.decode_ctx += rows;
				single.decode_ctx_window += single.window_growing;
			}
			CU_ASSERT_EQUAL(all.device_ns, one.device_ns);
			cost_step(c, &single, &one);
			CU_ASSERT(n == most || t >= b.until_ns || one.host_ns != all.host_ns);
		}
		cost_free(c);
		model_free(&s.model);
	}
}

/* The tables end somewhere; nobody may notice where. */
static void steps_beyond_the_tables_cost_on(void)
{
	struct setting s;
	set_up(&s, "llama-3.1-8b", "h100-sxm");
	struct cost *c = open_cost(&s, "roofline");
	int64_t before = 0;
	for (int32_t n = 32760; n < 32780; n++) {
		struct chunk chunk = {.len = n, .samples = true};
		int64_t ns = ask(c, prefill_batch(&chunk)).device_ns;
		CU_ASSERT(ns > before);
		CU_ASSERT(before == 0 || ns - before < before / 1000);
		before = ns;
	}
	before = 0;
	for (int32_t n = 4090; n < 4100; n++) {
		int64_t ns = ask(c, decode_batch(n, n)).device_ns;
		CU_ASSERT(ns >= before && (before == 0 || ns - before < before / 100));
		before = ns;
	}
	cost_free(c);
	model_free(&s.model);
}

static void a_batch_of_any_size_gets_an_answer(void)
{
	static const char *const texts[] = {"roofline", "linear:a=1s,b=1s,c=1s,d=1s", "constant:1ms"};
	struct setting s;
	set_up(&s, "gpt-oss-120b", "cpu");
	struct chunk huge = {.start = INT32_MAX - 1, .len = INT32_MAX, .pad = INT32_MAX, .samples = true};
	struct batch b = {.decodes = INT32_MAX,
			  .decode_ctx = INT64_MAX / 2,
			  .decode_ctx_window = INT64_MAX / 2,
			  .n_chunks = 1,
			  .chunks = &huge,
			  .prefill_tokens = 2 * (int64_t)INT32_MAX,
			  .sampled = INT32_MAX};
	for (int i = 0; i < 3; i++) {
		struct cost *c = open_cost(&s, texts[i]);
		struct cost_time t = ask(c, b);
		CU_ASSERT(t.device_ns > 0 && t.host_ns >= 0);
		t = ask(c, (struct batch){0});
		CU_ASSERT(t.device_ns >= 0);
		cost_free(c);
	}
	struct cost *c = open_cost(&s, "roofline");
	struct cost_op ops[COST_OPS_MAX];
	b = (struct batch){0};
	CHECK_INT(cost_roofline_ops(c, &b, ops), 0);
	CHECK_INT(ask(c, b).device_ns, 0);
	cost_free(c);
	model_free(&s.model);
}

static void smaller_formats_and_flash_are_faster(void)
{
	struct setting s;
	struct err e = {0};
	set_up(&s, "llama-3.1-8b", "h100-sxm");
	struct batch b = decode_batch(16, 16 * 2000);
	struct chunk chunk = {.len = 2000, .samples = true};
	struct cost *bf16 = open_cost(&s, "roofline"), *standard = open_cost(&s, "roofline:attention=standard");
	CU_ASSERT(ask(standard, b).device_ns > ask(bf16, b).device_ns);
	CU_ASSERT(ask(standard, prefill_batch(&chunk)).device_ns > ask(bf16, prefill_batch(&chunk)).device_ns);
	CU_ASSERT_EQUAL(weight_quantization_parse("fp8", &s.setup.weights, &e), ERR_NONE);
	struct cost *fp8 = open_cost(&s, "roofline");
	CU_ASSERT(ask(fp8, b).device_ns < ask(bf16, b).device_ns);
	CU_ASSERT(ask(fp8, prefill_batch(&chunk)).device_ns < ask(bf16, prefill_batch(&chunk)).device_ns);
	s.setup.kv = KV_FP8;
	struct cost *kv8 = open_cost(&s, "roofline");
	CU_ASSERT(ask(kv8, b).device_ns < ask(fp8, b).device_ns);
	cost_free(bf16);
	cost_free(standard);
	cost_free(fp8);
	cost_free(kv8);
	model_free(&s.model);
}

static void latent_attention_is_counted_absorbed_in_decode_and_expanded_in_prefill(void)
{
	struct setting s;
	struct op_shapes shapes;
	struct op_work w;
	shapes_of(&shapes, &s, "deepseek-v3", ATTENTION_FLASH);
	op_decode_attention(&shapes, 0, 1000, &w);
	CHECK_NEAR(w.flops, 2.0 * 128 * 1000 * (576 + 512), 1);
	CHECK_NEAR(w.bytes, 1000 * 576 * 2, 1);
	op_prefill_attention(&shapes, 0, 1000, 0, &w);
	CHECK_NEAR(w.flops, 2.0 * 128 * 500500 * (192 + 128), 1);
	op_prefill_attention(&shapes, 500, 1, 0, &w); /* 500 cached latents are expanded again */
	CHECK_NEAR(w.flops, 2.0 * 128 * 501 * 320 + 2.0 * 512 * 128 * 256 * 500, 1);
	model_free(&s.model);
}

/* --- linear, constant, words ------------------------------------------------------------------------------------- */

static void linear_is_a_b_c_d(void)
{
	struct cost *c = open_cost(NULL, "linear:a=5ms,b=20us,c=1ms,d=10ns");
	struct chunk chunks[2] = {{.len = 10, .pad = 2}, {.start = 7, .len = 5}};
	struct batch b = decode_batch(3, 1000);
	b.n_chunks = 2;
	b.chunks = chunks;
	b.prefill_tokens = 17;
	CHECK_INT(ask(c, b).device_ns, 5000000 + 17 * 20000 + 3 * 1000000 + 1000 * 10);
	CHECK_INT(ask(c, b).host_ns, 0);
	cost_free(c);
	c = open_cost(NULL, "linear:d=0.25");
	CHECK_INT(ask(c, decode_batch(1, 10)).device_ns, 3); /* 2.5 to the nearest, half up */
	cost_free(c);
	c = open_cost(NULL, "linear");
	CHECK_INT(ask(c, decode_batch(1, 10)).device_ns, 0);
	cost_free(c);
}

static void constant_is_constant(void)
{
	static const char *const texts[] = {"constant:10ms",    "constant:time=10ms", "constant:10000000",
					    "constant:10000us", "constant:0.01s",     "constant:1e7ns"};
	for (int i = 0; i < 6; i++) {
		struct cost *c = open_cost(NULL, texts[i]);
		CHECK_INT(ask(c, decode_batch(3, 99)).device_ns, 10000000);
		CHECK_INT(ask(c, (struct batch){0}).device_ns, 10000000);
		cost_free(c);
	}
	cost_free(NULL);
}

static void bad_words_say_what_is_wrong(void)
{
	static const struct {
		const char *text, *says;
	} bad[] = {
		{"", "unknown: use roofline"},
		{"rooflin", "\"rooflin\" is unknown"},
		{"constant", "needs a time"},
		{"constant:", "needs a time"},
		{"constant:fast", "time=fast is not a time"},
		{"constant:10 parsecs", "not a time"},
		{"constant:-5ms", "not a time"},
		{"constant:inf", "not a time"},
		{"constant:1e30s", "not a time"},
		{"linear:a", "NAME=VALUE"},
		{"linear:e=3", "unknown word \"e\""},
		{"linear:a=nan", "not a time"},
		{"roofline:gemm=0", "gemm=0 must be above 0"},
		{"roofline:gemm=1.1", "at most 1"},
		{"roofline:memry=0.5", "memory"},
		{"roofline:attention=fast", "must be flash or standard"},
		{"roofline:eager=maybe", "must be off or on"},
		{"roofline:request=1000000s", "no overhead"},
		{"roofline:step=7777777777777777777777777777777777777777777777777777777777777777777", "too long"},
	};
	struct setting s;
	set_up(&s, tiny_llama, memory_device);
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		struct cost *c = (struct cost *)&s;
		struct err e = {0};
		CHECK_INT(cost_open(&c, bad[i].text, &s.setup, &e), ERR_INPUT);
		CU_ASSERT_PTR_NULL(c);
		if (!strstr(e.text, bad[i].says))
			fprintf(stderr, "wanted \"%s\" in \"%s\"\n", bad[i].says, e.text);
		CU_ASSERT_PTR_NOT_NULL(strstr(e.text, bad[i].says));
	}
	struct cost *c;
	struct err e = {0};
	CHECK_INT(cost_open(&c, "roofline", NULL, &e), ERR_INPUT);
	err_clear(&e);
	s.setup.tensor_parallel = 64;
	CHECK_INT(cost_open(&c, "roofline", &s.setup, &e), ERR_INPUT);
	CU_ASSERT_PTR_NOT_NULL(strstr(e.text, "its attention heads"));
	model_free(&s.model);
}

/* --- against measurements ---------------------------------------------------------------------------------------- */

/* Closed loop at a fixed concurrency: while one request decodes, each other slot begins one prompt beside the decodes, so TPOT
 * is a decode step plus what (concurrency - 1) prompts add to their steps, spread over the outputs. Measured on one H100 with
 * TensorRT-LLM, 42 settings; analysis_points has the whole file. */
static void h100_tpot_is_within_a_few_percent_of_measurements(void)
{
	const char *path = shared_data("measured/silicon_h100_h200.csv");
	char line[500], *field[11];
	if (!path) {
		test_skip("no measurements here");
		return;
	}
	struct setting s;
	set_up(&s, "llama-3.1-8b", "h100-sxm@trtllm");
	struct cost *c = open_cost(&s, "roofline");
	FILE *f = fopen(path, "r");
	double sum = 0, worst = 0;
	int n = 0;
	CU_ASSERT_PTR_NOT_NULL_FATAL(f);
	while (fgets(line, sizeof line, f)) {
		char *at = line;
		for (int i = 0; i < 11; i++)
			field[i] = strsep(&at, ",");
		if (!strstr(field[0], "8B") || strcmp(field[1], "h100_sxm") != 0 || strcmp(field[8], "1") != 0)
			continue;
		int isl = atoi(field[5]), osl = atoi(field[6]), rows = atoi(field[7]);
		struct chunk chunk = {.len = isl, .samples = true};
		struct cost_time step = ask(c, decode_batch(rows, (int64_t)rows * (isl + osl / 2)));
		struct batch both = decode_batch(rows - 1, (int64_t)(rows - 1) * (isl + osl / 2));
		both.n_chunks = 1;
		both.chunks = &chunk;
		both.prefill_tokens = isl;
		both.sampled = rows;
		struct cost_time mixed = ask(c, both);
		double ms = (double)(step.device_ns + step.host_ns) / 1e6;
		double adds = (double)(mixed.device_ns + mixed.host_ns) / 1e6 - ms;
		ms += (rows - 1) * adds / (osl - 1);
		double error = fabs(ms / atof(field[10]) - 1);
		sum += error;
		worst = error > worst ? error : worst;
		n++;
	}
	fclose(f);
	printf("TPOT of %d measured settings: mean error %.1f %%, worst %.1f %%\n", n, 100 * sum / n, 100 * worst);
	CHECK_INT(n, 42);
	CU_ASSERT(sum / n < 0.05);
	CU_ASSERT(worst < 0.2);
	cost_free(c);
	model_free(&s.model);
}

/* What calibration fits beside the efficiencies, each where it belongs and nowhere else. */
static void cache_reads_and_prompt_steps_have_their_own_words(void)
{
	struct setting s;
	set_up(&s, "llama-3.1-8b", "rtx-4090");
	const struct chunk piece = {.len = 256, .samples = true};
	struct batch alone = decode_batch(40, 40000), prompt = prefill_batch(&piece), both = decode_batch(40, 40000);
	both.n_chunks = 1;
	both.chunks = &piece;
	both.prefill_tokens = 256;
	both.sampled = 41;
	struct {
		const char *words;
		double alone, prompt, both; /* added, ns */
	} cases[] = {
		{"roofline:prompt=3ms", 0, 3e6, 3e6},
		{"roofline:mixed=0.5", 0, 0, 0}, /* both: the decodes' cache read once more; filled in below */
		{"roofline:kv=0.4", 0, 0, 0}, /* half of 0.8: likewise in every step with decodes */
	};
	const double read = (40000.0 * 131072 + 40.0 * 32 * 2 * 4096 * 2) / (1008e9 * 0.8) * 1e9;
	/* The prompt's own attention was bound by compute, and is by memory then. */
	const double moved = 256.0 * (131072 + 32 * 2 * 4096 * 2) / (1008e9 * 0.4) * 1e9;
	const double computed = 32 * 4.0 * 4096 * (256 * 257 / 2) / (165.2e12 * 0.5) * 1e9;
	cases[1].both = cases[2].alone = read;
	cases[2].prompt = moved - computed;
	cases[2].both = read + moved - computed;
	struct cost *plain = open_cost(&s, "roofline");
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct cost *c = open_cost(&s, cases[i].words);
		const struct batch *batches[] = {&alone, &prompt, &both};
		const double added[] = {cases[i].alone, cases[i].prompt, cases[i].both};
		for (int k = 0; k < 3; k++) {
			struct cost_time a, b;
			struct cost_op ops[COST_OPS_MAX];
			cost_step(plain, batches[k], &a);
			cost_step(c, batches[k], &b);
			CHECK_NEAR((double)(b.device_ns - a.device_ns), added[k], added[k] * 0.001 + 2);
			CHECK_INT(b.host_ns, a.host_ns);
			/* The table of operators tells the same. */
			double sum = 0;
			int32_t n = cost_roofline_ops(c, batches[k], ops);
			for (int32_t j = 0; j < n; j++)
				sum += ops[j].ns;
			CHECK_NEAR(sum, (double)b.device_ns, 1);
		}
		cost_free(c);
	}
	cost_free(plain);
	model_free(&s.model);
}

/* A product takes the longer of its two times plus that share of the shorter; attention does not. */
static void the_shorter_of_two_times_shows_by_its_word(void)
{
	struct setting s;
	struct cost_op plain[COST_OPS_MAX], shown[COST_OPS_MAX];
	set_up(&s, "llama-3.1-8b", "rtx-4090");
	const struct chunk piece = {.len = 128, .samples = true};
	struct batch b = prefill_batch(&piece);
	struct cost *a = open_cost(&s, "roofline"), *c = open_cost(&s, "roofline:unhidden=0.3");
	int32_t n = cost_roofline_ops(a, &b, plain), products = 0;
	CHECK_INT(cost_roofline_ops(c, &b, shown), n);
	for (int32_t i = 0; i < n; i++) {
		const char *name = plain[i].name;
		bool product = !strcmp(name, "qkv") || !strcmp(name, "out_proj") || !strcmp(name, "mlp");
		double compute = plain[i].flops / (165.2e12 * 0.75) * 1e9,
		       memory = plain[i].bytes / (1008e9 * 0.8) * 1e9;
		double shorter = compute < memory ? compute : memory;
		if (product)
			CHECK_NEAR(shown[i].ns - plain[i].ns, 0.3 * shorter, 1);
		if (!strncmp(name, "attention", 9))
			CHECK_NEAR(shown[i].ns, plain[i].ns, 1e-6);
		products += product;
	}
	CHECK_INT(products, 3);
	cost_free(a);
	cost_free(c);
	model_free(&s.model);
}

int main(void)
{
	static const struct test tests[] = {
		{"the_shorter_of_two_times_shows_by_its_word", the_shorter_of_two_times_shows_by_its_word},
		{"cache_reads_and_prompt_steps_have_their_own_words",
		 cache_reads_and_prompt_steps_have_their_own_words},
		{"totals_of_a_step_are_what_its_operators_do", totals_of_a_step_are_what_its_operators_do},
		{"a_decode_step_of_a_tiny_model_is_counted_by_hand", a_decode_step_of_a_tiny_model_is_counted_by_hand},
		{"prefill_attention_counts_its_causal_pairs", prefill_attention_counts_its_causal_pairs},
		{"chunks_add_up_to_the_whole_prompt", chunks_add_up_to_the_whole_prompt},
		{"windows_count_what_each_query_sees", windows_count_what_each_query_sees},
		{"decode_attention_has_intensity_gs_over_s_plus_g", decode_attention_has_intensity_gs_over_s_plus_g},
		{"prefill_attention_has_half_the_length_and_the_causal_half_of_that",
		 prefill_attention_has_half_the_length_and_the_causal_half_of_that},
		{"the_mlp_tends_to_batch_times_length", the_mlp_tends_to_batch_times_length},
		{"experts_reached_are_counted_like_dice", experts_reached_are_counted_like_dice},
		{"decode_weights_are_read_once_and_experts_as_reached",
		 decode_weights_are_read_once_and_experts_as_reached},
		{"one_decode_reads_every_weight", one_decode_reads_every_weight},
		{"kernels_and_the_host_cost_what_they_are_set_to", kernels_and_the_host_cost_what_they_are_set_to},
		{"eager_steps_wait_for_their_launches", eager_steps_wait_for_their_launches},
		{"sliding_layers_read_their_window_only", sliding_layers_read_their_window_only},
		{"padding_is_computed_like_tokens", padding_is_computed_like_tokens},
		{"the_operators_add_up_to_the_step", the_operators_add_up_to_the_step},
		{"more_work_never_takes_less_time", more_work_never_takes_less_time},
		{"a_run_is_priced_like_its_steps", a_run_is_priced_like_its_steps},
		{"steps_beyond_the_tables_cost_on", steps_beyond_the_tables_cost_on},
		{"a_batch_of_any_size_gets_an_answer", a_batch_of_any_size_gets_an_answer},
		{"smaller_formats_and_flash_are_faster", smaller_formats_and_flash_are_faster},
		{"latent_attention_is_counted_absorbed_in_decode_and_expanded_in_prefill",
		 latent_attention_is_counted_absorbed_in_decode_and_expanded_in_prefill},
		{"linear_is_a_b_c_d", linear_is_a_b_c_d},
		{"constant_is_constant", constant_is_constant},
		{"bad_words_say_what_is_wrong", bad_words_say_what_is_wrong},
		{"h100_tpot_is_within_a_few_percent_of_measurements",
		 h100_tpot_is_within_a_few_percent_of_measurements},
	};
	return SUITE_RUN("sim_cost", tests);
}
