/* lockstep capacity: what fits on a device, and what it could reach at best. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/capacity_view.h"
#include "cli/command.h"
#include "core/err.h"
#include "core/mem.h"

enum { MEMORY_DRIVER, MEMORY_NOMINAL };

struct capacity_opts {
	const char *model, *device, *weight_dtype, *quantization, *kv_cache_dtype, *cost;
	double gpu_memory_utilization;
	int32_t block_size, max_model_len, max_num_seqs, max_num_batched_tokens, tensor_parallel_size;
	int32_t attention, memory;
	double assume_weight_bytes, assume_session_bytes;
	int32_t input_len, output_len, batch, sessions;
	double max_latency;
	int32_t min_batch;
	bool list, json;
};

static const char *const attention_names[] = {"flash", "standard", NULL};
static const char *const memory_names[] = {"driver", "nominal", NULL};

enum opt_at {
	AT_MODEL,
	AT_DEVICE,
	AT_LIST,
	AT_WEIGHT_DTYPE,
	AT_QUANTIZATION,
	AT_KV_CACHE_DTYPE,
	AT_UTILIZATION,
	AT_BLOCK_SIZE,
	AT_MAX_MODEL_LEN,
	AT_MAX_NUM_SEQS,
	AT_MAX_NUM_BATCHED_TOKENS,
	AT_TENSOR_PARALLEL,
	AT_ATTENTION,
	AT_COST,
	AT_MEMORY,
	AT_ASSUME_WEIGHT,
	AT_ASSUME_SESSION,
	AT_INPUT_LEN,
	AT_OUTPUT_LEN,
	AT_BATCH,
	AT_SESSIONS,
	AT_MAX_LATENCY,
	AT_MIN_BATCH,
	AT_JSON,
	N_OPTS,
};

#define FIELD(f) .offset = offsetof(struct capacity_opts, f)

static const struct opt opts[N_OPTS] = {
	[AT_MODEL] = {.name = "model",
		      .type = OPT_STRING,
		      FIELD(model),
		      .arg = "MODEL",
		      .help = "The model: a name (--list) or the path of a Hugging Face config.json."},
	[AT_DEVICE] = {.name = "device",
		       .type = OPT_STRING,
		       FIELD(device),
		       .arg = "DEVICE",
		       .help = "The device: a name (--list) or the path of a JSON file. Default h100-sxm."},
	[AT_LIST] = {.name = "list", .type = OPT_FLAG, FIELD(list), .help = "List the built-in models and devices."},
	[AT_WEIGHT_DTYPE] =
		{.name = "weight-dtype",
		 .type = OPT_STRING,
		 FIELD(weight_dtype),
		 .arg = "TYPE",
		 .help = "How every weight is held: auto (default: as the model's config says), fp32, bf16, fp8, "
			 "int8, int4, nf4, or mxfp4 (experts only, the rest bf16)."},
	[AT_QUANTIZATION] =
		{.name = "quantization",
		 .type = OPT_STRING,
		 FIELD(quantization),
		 .arg = "TYPE",
		 .help = "The same for the layers' matrices only, as serving engines do: fp8, int8, int4, nf4 or "
			 "mxfp4; embedding, LM head, norms and routers stay bf16."},
	[AT_KV_CACHE_DTYPE] =
		{.name = "kv-cache-dtype",
		 .type = OPT_STRING,
		 FIELD(kv_cache_dtype),
		 .arg = "TYPE",
		 .help = "How the KV cache is held: auto (default: bf16, fp32 for fp32 weights), bf16, fp8, or "
			 "int8 (with a 4-byte scale per token, head and K or V)."},
	[AT_UTILIZATION] = {.name = "gpu-memory-utilization",
			    .type = OPT_DOUBLE,
			    FIELD(gpu_memory_utilization),
			    .arg = "F",
			    .min = 0.01,
			    .max = 1,
			    .help = "Share of the device's memory to use. Default 0.9; 1 with nominal memory."},
	[AT_BLOCK_SIZE] = {.name = "block-size",
			   .type = OPT_INT32,
			   FIELD(block_size),
			   .arg = "N",
			   .min = 1,
			   .max = 4096,
			   .help = "Tokens per KV block. Default 16."},
	[AT_MAX_MODEL_LEN] = {.name = "max-model-len",
			      .type = OPT_INT32,
			      FIELD(max_model_len),
			      .arg = "N",
			      .min = 1,
			      .max = INT32_MAX,
			      .help = "Tokens of the longest session. Default: what the model allows."},
	[AT_MAX_NUM_SEQS] = {.name = "max-num-seqs",
			     .type = OPT_INT32,
			     FIELD(max_num_seqs),
			     .arg = "N",
			     .min = 1,
			     .max = 1 << 20,
			     .help = "Most requests running at once; sizes the reserve. Default 256."},
	[AT_MAX_NUM_BATCHED_TOKENS] =
		{.name = "max-num-batched-tokens",
		 .type = OPT_INT32,
		 FIELD(max_num_batched_tokens),
		 .arg = "N",
		 .min = 1,
		 .max = 1 << 24,
		 .help = "Tokens a step may compute; sizes the reserve and the pieces a prompt is "
			 "computed in. Default 2048."},
	[AT_TENSOR_PARALLEL] = {.name = "tensor-parallel-size",
				.type = OPT_INT32,
				FIELD(tensor_parallel_size),
				.arg = "N",
				.min = 1,
				.max = 1024,
				.help = "Devices that hold one model together; figures are of one of them. Default 1."},
	[AT_ATTENTION] =
		{.name = "attention",
		 .type = OPT_CHOICE,
		 FIELD(attention),
		 .choices = attention_names,
		 .help = "flash (default): tiled, scores stay on the chip. standard: the score matrix goes through "
			 "memory, to show what tiling saves."},
	[AT_COST] = {.name = "cost-model",
		     .type = OPT_STRING,
		     FIELD(cost),
		     .arg = "COST",
		     .help = "roofline (default), with parameters if need be: roofline:memory=0.9,step=0."},
	[AT_MEMORY] =
		{.name = "memory",
		 .type = OPT_CHOICE,
		 FIELD(memory),
		 .choices = memory_names,
		 .help = "driver (default): the bytes a program sees, less a reserve. nominal: the decimal GB on the "
			 "box, all of them, as textbooks count; default with --assume-weight-bytes and "
			 "--assume-session-bytes."},
	[AT_ASSUME_WEIGHT] = {.name = "assume-weight-bytes",
			      .type = OPT_DOUBLE,
			      FIELD(assume_weight_bytes),
			      .arg = "BYTES",
			      .min = 1,
			      .max = 1e15,
			      .help = "Weights, instead of counting them: 14e9."},
	[AT_ASSUME_SESSION] = {.name = "assume-session-bytes",
			       .type = OPT_DOUBLE,
			       FIELD(assume_session_bytes),
			       .arg = "BYTES",
			       .min = 1,
			       .max = 1e15,
			       .help = "KV of one session, instead of counting it: 2e9."},
	[AT_INPUT_LEN] = {.name = "input-len",
			  .type = OPT_INT32,
			  FIELD(input_len),
			  .arg = "N",
			  .min = 1,
			  .max = 1 << 26,
			  .help = "Prompt tokens of the ideal figures. Default 1024."},
	[AT_OUTPUT_LEN] = {.name = "output-len",
			   .type = OPT_INT32,
			   FIELD(output_len),
			   .arg = "N",
			   .min = 1,
			   .max = 1 << 26,
			   .help = "Output tokens of the ideal figures. Default 256."},
	[AT_BATCH] = {.name = "batch",
		      .type = OPT_INT32,
		      FIELD(batch),
		      .arg = "N",
		      .min = 1,
		      .max = 1 << 20,
		      .help = "Batch of the decode operator table. Default 32."},
	[AT_SESSIONS] = {.name = "sessions",
			 .type = OPT_INT32,
			 FIELD(sessions),
			 .arg = "N",
			 .min = 1,
			 .max = 1 << 24,
			 .help = "Show the KV bytes of that many sessions beside those of one, per context length. "
				 "Default 80."},
	[AT_MAX_LATENCY] =
		{.name = "max-latency",
		 .type = OPT_DOUBLE,
		 FIELD(max_latency),
		 .arg =
			 "MS",
		 .min =
			 1e-6,
		 .max =
			 1e9,
		 .help = "Compare all devices: the largest batch each can decode within MS per token, by dollars "
			 "per million tokens."},
	[AT_MIN_BATCH] =
		{.name = "min-batch",
		 .type = OPT_INT32,
		 FIELD(min_batch),
		 .arg =
			 "N",
		 .min =
			 1,
		 .max =
			 1 << 20,
		 .help = "Compare all devices, of those that hold at least N sessions of input-len + output-len."},
	[AT_JSON] = {.name = "json", .type = OPT_FLAG, FIELD(json), .help = "Print one JSON object instead of text."},
};

/* --- --list ------------------------------------------------------------------------------------------------------ */

static int list_json(struct err *e)
{
	char name[64];
	json_t *models = json_array(), *devices = json_array();
	for (int32_t i = 0; model_name_at(i, name, sizeof name); i++)
		json_array_append_new(models, json_string(name));
	for (int32_t i = 0; device_name_at(i, name, sizeof name); i++)
		json_array_append_new(devices, json_string(name));
	json_t *all = json_pack("{s:o, s:o}", "models", models, "devices", devices);
	char *text = all ? json_dumps(all, JSON_INDENT(2) | JSON_REAL_PRECISION(12)) : NULL;
	json_decref(all);
	if (!text)
		return err_no_memory(e, "JSON");
	puts(text);
	free(text); /* jansson's own allocation */
	return ERR_NONE;
}

static int list_text(struct err *e)
{
	char name[64];
	printf("Models%*sparameters   attention  KV bytes/token\n", 13, "");
	for (int32_t i = 0; model_name_at(i, name, sizeof name); i++) {
		struct model m;
		int rc = model_load(&m, name, e);
		if (rc)
			return rc;
		printf("  %-16s %8.3f B   %-9s %10lld\n", m.name, (double)m.params.total / 1e9,
		       attention_kind_name(m.kind), (long long)model_kv_bytes_per_token(&m, KV_AUTO, &m.native));
		model_free(&m);
	}
	printf("\nDevices%*sGB    GB/s  bf16 TFLOP/s    $/h\n", 12, "");
	for (int32_t i = 0; device_name_at(i, name, sizeof name); i++) {
		struct device d;
		int rc = device_load(&d, name, e);
		if (rc)
			return rc;
		printf("  %-14s %6.1f %7.0f %13.0f %6.2f  %s\n", d.name, (double)d.memory_bytes / 1e9,
		       d.bandwidth / 1e9, device_peak(&d, DTYPE_BF16) / 1e12, d.price_per_hour, d.title);
	}
	return ERR_NONE;
}

/* --- working it out ---------------------------------------------------------------------------------------------- */

/* Options into the view. */
static int set_options(struct capacity_view *v, const struct capacity_opts *o, const bool *given, struct err *e)
{
	struct capacity_options *c = &v->options;
	int rc = ERR_NONE;
	capacity_options_default(c);
	if (given[AT_QUANTIZATION] && given[AT_WEIGHT_DTYPE])
		return err_set(e, ERR_INPUT,
			       "--quantization and --weight-dtype both say how weights are held; give one");
	if (given[AT_QUANTIZATION])
		rc = weight_quantization_parse(o->quantization, &c->weights, e);
	else if (given[AT_WEIGHT_DTYPE])
		rc = weight_format_parse(o->weight_dtype, &c->weights, e);
	if (!rc && given[AT_KV_CACHE_DTYPE])
		rc = kv_dtype_parse(o->kv_cache_dtype, &c->kv, e);
	if (rc)
		return rc;
	bool assumed = given[AT_ASSUME_WEIGHT] || given[AT_ASSUME_SESSION];
	c->nominal = given[AT_MEMORY] ? o->memory == MEMORY_NOMINAL : assumed;
	c->utilization = given[AT_UTILIZATION] ? o->gpu_memory_utilization : c->nominal ? 1 : 0.9;
	c->block_size = o->block_size;
	c->max_model_len = o->max_model_len;
	c->max_num_seqs = o->max_num_seqs;
	c->max_num_batched_tokens = o->max_num_batched_tokens;
	c->tensor_parallel = o->tensor_parallel_size;
	c->assume_weight_bytes = (int64_t)o->assume_weight_bytes;
	c->assume_session_bytes = (int64_t)o->assume_session_bytes;
	v->textbook = *c;
	v->textbook.nominal = true;
	v->textbook.utilization = 1;
	v->load = (struct serving_load){o->input_len, o->output_len, o->max_num_batched_tokens, v->model.window};
	if (!given[AT_INPUT_LEN] && !given[AT_OUTPUT_LEN] && v->load.prompt + v->load.output > v->model.max_len) {
		v->load.output = (v->model.max_len + 4) / 5; /* a model of few positions: defaults of its size */
		v->load.prompt = v->model.max_len - v->load.output + (v->model.max_len == 1);
	}
	v->kv_sessions = o->sessions;
	v->decode_batch = o->batch;
	v->decode_context = v->load.prompt + v->load.output / 2;
	v->cost_text = o->cost;
	v->ranking = given[AT_MAX_LATENCY] || given[AT_MIN_BATCH];
	v->need = (struct serving_need){given[AT_MAX_LATENCY] ? o->max_latency * 1e6 : INFINITY, o->min_batch,
					o->max_num_seqs};
	if (v->need.min_batch > v->need.max_batch)
		return err_set(e, ERR_INPUT, "--min-batch %d is more than --max-num-seqs %d", o->min_batch,
			       o->max_num_seqs);
	if (v->load.prompt + v->load.output > v->model.max_len && v->model.max_len > 1)
		return err_set(e, ERR_INPUT, "--input-len %d + --output-len %d is more than the %d positions %s has",
			       o->input_len, o->output_len, v->model.max_len, v->model.name);
	return ERR_NONE;
}

/* 1K, 2K, 4K ... up to the longest session, and that itself. */
static int context_rows(struct capacity_view *v, struct err *e)
{
	struct capacity textbook;
	int rc = capacity_compute(&textbook, &v->model, &v->device, &v->textbook, e);
	int64_t last = v->capacity.max_model_len;
	for (int64_t t = 1024; !rc && v->n_contexts < CONTEXTS_MAX; t *= 2) {
		bool end = t >= last || v->n_contexts == CONTEXTS_MAX - 1;
		int64_t tokens = end ? last : t;
		v->contexts[v->n_contexts++] = (struct context_row){
			.tokens = tokens,
			.kv_bytes = v->options.assume_session_bytes ? v->options.assume_session_bytes
								    : tokens * v->capacity.kv_bytes_per_token,
			.sessions = capacity_sessions(&v->capacity, &v->options, tokens),
			.textbook_sessions = capacity_sessions(&textbook, &v->textbook, tokens),
		};
		if (end)
			break;
	}
	return rc;
}

static void operator_tables(struct capacity_view *v, const struct cost *c)
{
	int64_t prompt = v->load.prompt < v->load.budget ? v->load.prompt : v->load.budget;
	int64_t seen = v->load.window && v->decode_context > v->load.window ? v->load.window : v->decode_context;
	struct chunk chunk = {.len = (int32_t)prompt, .samples = true};
	struct batch prefill = {.n_chunks = 1, .chunks = &chunk, .prefill_tokens = prompt, .sampled = 1, .running = 1};
	struct batch decode = {.decodes = v->decode_batch,
			       .decode_ctx = v->decode_batch * v->decode_context,
			       .decode_ctx_window = v->decode_batch * seen,
			       .sampled = v->decode_batch,
			       .running = v->decode_batch};
	v->prefill.n = cost_roofline_ops(c, &prefill, v->prefill.ops);
	cost_step(c, &prefill, &v->prefill.time);
	v->decode.n = cost_roofline_ops(c, &decode, v->decode.ops);
	cost_step(c, &decode, &v->decode.time);
}

/* Batches 1, 2, 4 ... and the largest that fits. */
static void batch_points(struct capacity_view *v, const struct cost *c)
{
	int64_t most = capacity_sessions(&v->capacity, &v->options, v->load.prompt + v->load.output);
	if (most > v->options.max_num_seqs)
		most = v->options.max_num_seqs;
	v->ttft_ns = serving_ttft_ns(c, &v->load);
	for (int64_t b = 1; most > 0 && v->n_points < POINTS_MAX; b *= 2) {
		bool end = b >= most || v->n_points == POINTS_MAX - 1;
		serving_point(c, &v->load, v->device.price_per_hour, (int32_t)(end ? most : b),
			      &v->points[v->n_points++]);
		if (end)
			break;
	}
}

/* One device of the comparison. */
static int rank_one(const struct capacity_view *v, struct rank_row *r, const char *name, struct err *e)
{
	struct cost_setup setup = v->setup;
	struct cost *cost = NULL;
	int rc = device_load(&r->device, name, e);
	setup.device = &r->device;
	if (!rc)
		rc = capacity_compute(&r->capacity, &v->model, &r->device, &v->options, e);
	if (!rc)
		rc = cost_open(&cost, v->cost_text, &setup, e);
	if (rc)
		return rc;
	r->sessions = capacity_sessions(&r->capacity, &v->options, v->load.prompt + v->load.output);
	r->ttft_ns = serving_ttft_ns(cost, &v->load);
	r->verdict = serving_best(cost, &v->load, &v->need, r->device.price_per_hour, r->sessions, &r->point);
	cost_free(cost);
	return ERR_NONE;
}

/* Those that can first, the cheapest token first; without prices the fastest. Then by name. */
static int by_rank(const void *pa, const void *pb)
{
	const struct rank_row *a = pa, *b = pb;
	if ((a->verdict == SERVING_OK) != (b->verdict == SERVING_OK))
		return a->verdict == SERVING_OK ? -1 : 1;
	if (a->verdict == SERVING_OK) {
		double ka = a->point.dollars < 0 ? INFINITY : a->point.dollars;
		double kb = b->point.dollars < 0 ? INFINITY : b->point.dollars;
		if (ka != kb)
			return ka < kb ? -1 : 1;
		if (a->point.tokens_s != b->point.tokens_s)
			return a->point.tokens_s > b->point.tokens_s ? -1 : 1;
	}
	return strcmp(a->device.name, b->device.name);
}

static int rank_devices(struct capacity_view *v, const char *own, struct err *e)
{
	char name[64];
	int rc = ERR_NONE;
	for (int32_t i = 0; !rc && v->n_ranks < RANKS_MAX && device_name_at(i, name, sizeof name); i++)
		rc = rank_one(v, &v->ranks[v->n_ranks++], name, e);
	if (!rc && (strchr(own, '/') || strstr(own, ".json")) && v->n_ranks < RANKS_MAX) /* the user's own takes part */
		rc = rank_one(v, &v->ranks[v->n_ranks++], own, e);
	if (!rc)
		qsort(v->ranks, (size_t)v->n_ranks, sizeof v->ranks[0], by_rank);
	return rc;
}

static int work_out(struct capacity_view *v, const struct capacity_opts *o, const bool *given, struct err *e)
{
	struct cost *cost = NULL;
	int rc = model_load(&v->model, o->model, e);
	if (!rc)
		rc = device_load(&v->device, o->device, e);
	if (!rc)
		rc = set_options(v, o, given, e);
	if (rc)
		return rc;
	cost_setup_default(&v->setup, &v->model, &v->device);
	v->setup.weights = v->options.weights;
	v->setup.kv = v->options.kv;
	v->setup.attention = o->attention ? ATTENTION_STANDARD : ATTENTION_FLASH;
	v->setup.tensor_parallel = v->options.tensor_parallel;
	rc = capacity_compute(&v->capacity, &v->model, &v->device, &v->options, e);
	if (!rc)
		rc = cost_open(&cost, v->cost_text, &v->setup, e);
	if (!rc)
		rc = context_rows(v, e);
	if (!rc) {
		operator_tables(v, cost);
		batch_points(v, cost);
	}
	cost_free(cost);
	if (!rc && v->ranking)
		rc = rank_devices(v, o->device, e);
	return rc;
}

static int show(const struct capacity_opts *o, const bool *given, struct err *e)
{
	struct capacity_view *v = mem_zalloc(1, sizeof *v);
	if (!v)
		return err_no_memory(e, "capacity's figures");
	int rc = work_out(v, o, given, e);
	if (!rc && o->json)
		rc = capacity_print_json(v, e);
	else if (!rc)
		capacity_print(v);
	model_free(&v->model);
	mem_free(v);
	return rc;
}

static int run(const struct command *c, int argc, char **argv)
{
	struct capacity_opts o = {.device = "h100-sxm",
				  .cost = "roofline",
				  .block_size = 16,
				  .max_num_seqs = 256,
				  .max_num_batched_tokens = 2048,
				  .tensor_parallel_size = 1,
				  .input_len = 1024,
				  .output_len = 256,
				  .batch = 32,
				  .sessions = 80,
				  .min_batch = 1};
	struct err e = {0};
	bool given[N_OPTS] = {false};
	int n;
	int rc = opts_parse(opts, N_OPTS, &o, argc, argv, &n, given, &e);
	if (!rc && n > 0)
		rc = err_set(&e, ERR_INPUT, "\"%s\" is not an option; the model is given as --model", argv[1]);
	if (!rc && !o.list && !o.model)
		rc = err_set(&e, ERR_INPUT, "--model is missing (--list shows the names)");
	if (!rc && o.list)
		rc = o.json ? list_json(&e) : list_text(&e);
	else if (!rc)
		rc = show(&o, given, &e);
	return rc ? command_fail(c, &e) : 0;
}

const struct command cmd_capacity = {
	.name = "capacity",
	.synopsis = "--model MODEL [--device DEVICE] [OPTIONS]",
	.summary = "What fits on a device, and what it could reach at best",
	.about = "Counts the weights, the KV cache per token, what an engine sets aside, and from them the KV blocks "
		 "and the sessions that fit at once. Then it shows what each operator of a prefill and of a decode "
		 "step computes and moves, whether compute or memory bounds it, and the time to first token, time per "
		 "output token, tokens per second and dollars per million tokens an ideal engine would reach.\n\n"
		 "With --max-latency or --min-batch every built-in device is asked for the largest batch that fits "
		 "and keeps the bound, and they are ranked by dollars per million output tokens.\n\n"
		 "GB are decimal (1e9 bytes), GiB binary. The formulas are in docs/capacity.md and docs/cost-model.md.",
	.examples = "# What a 7B model leaves on an 80 GB A100\n"
		    "lockstep capacity --model mistral-7b --device a100-80g\n"
		    "# The textbook's round figures: 33 sessions\n"
		    "lockstep capacity --model llama-2-7b --device a100-80g --assume-weight-bytes 14e9 "
		    "--assume-session-bytes 2e9\n"
		    "# Which device serves it cheapest at 20 ms per token and at least 16 at once?\n"
		    "lockstep capacity --model llama-3.1-8b --max-latency 20 --min-batch 16\n",
	.opts = opts,
	.n_opts = N_OPTS,
	.run = run,
};
