/* capacity_text.c: `lockstep capacity` as text. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "cli/capacity_view.h"

#define GIB (1024.0 * 1024 * 1024)

/* 12345678 -> "12,345,678" */
static const char *grouped(int64_t x, char buf[32])
{
	char digits[24];
	int n = snprintf(digits, sizeof digits, "%" PRId64, x), at = 0;
	for (int i = 0; i < n; i++) {
		buf[at++] = digits[i];
		if (i < n - 1 && (n - 1 - i) % 3 == 0 && digits[i] != '-')
			buf[at++] = ',';
	}
	buf[at] = '\0';
	return buf;
}

static void print_model(const struct capacity_view *v)
{
	const struct model *m = &v->model;
	char a[32], b[32];
	printf("%s on %s (%s)\n\n", m->name, v->device.title, v->device.name);
	printf("Model: %s, %d layers, %s with %d query", m->architecture, m->n_layers, attention_kind_name(m->kind),
	       m->n_heads);
	if (m->kind == ATTENTION_MLA)
		printf(" heads over a latent of %d + %d", m->kv_lora_rank, m->rope_dim);
	else
		printf(" and %d KV heads of %d", m->n_kv_heads, m->head_dim);
	if (m->window)
		printf(", sliding window %d", m->window);
	if (m->n_experts)
		printf(", %d of %d experts per token", m->experts_per_token, m->n_experts);
	printf("\n       %s parameters", grouped(m->params.total, a));
	if (m->params.active != m->params.total)
		printf(", %s active per token", grouped(m->params.active, b));
	printf(", up to %s tokens\n\n", grouped(m->max_len, a));
}

static void memory_line(const char *what, int64_t bytes, const char *note)
{
	printf("  %-24s %9.3f GB   %s\n", what, (double)bytes / 1e9, note);
}

static const char *weights_note(const struct capacity_view *v, char *buf, size_t size)
{
	static const char *const scopes[] = {"every weight", "layers' matrices, the rest bf16",
					     "experts, the rest bf16"};
	if (v->options.assume_weight_bytes)
		snprintf(buf, size, "assumed; counted: %.3f GB",
			 (double)model_weight_bytes(&v->model, &v->capacity.weights) / 1e9);
	else
		snprintf(buf, size, "%s: %s", dtype_name(v->capacity.weights.dtype), scopes[v->capacity.weights.scope]);
	return buf;
}

static const char *kv_note(const struct capacity_view *v)
{
	switch (v->options.kv) {
	case KV_FP8:
		return "fp8";
	case KV_INT8:
		return "int8, with a 4-byte scale per head and K or V";
	default:
		return v->options.kv == KV_FP32 || (v->options.kv == KV_AUTO && v->capacity.weights.dtype == DTYPE_FP32)
			       ? "fp32"
			       : "bf16";
	}
}

static void print_memory(const struct capacity_view *v)
{
	const struct capacity *c = &v->capacity;
	char note[160], a[32], b[32];
	printf("Memory\n");
	snprintf(note, sizeof note,
		 v->options.nominal ? "as the box says, decimal GB" : "as the driver reports it (%.2f GiB)",
		 (double)c->device_bytes / GIB);
	memory_line("device", c->device_bytes, note);
	snprintf(note, sizeof note, "gpu-memory-utilization %g", v->options.utilization);
	memory_line("taken by the engine", c->budget_bytes, note);
	memory_line("- weights", c->weight_bytes, weights_note(v, note, sizeof note));
	if (!v->options.nominal) {
		snprintf(note, sizeof note, "peak of a step with %d tokens, sampling %d rows",
			 v->options.max_num_batched_tokens, v->options.max_num_seqs);
		memory_line("- activations", c->activation_bytes, note);
		memory_line("- rotary table", c->buffer_bytes, "");
		if (c->context_bytes)
			memory_line("- libraries", c->context_bytes, "outside the allocator");
	}
	memory_line("= for KV", c->kv_bytes, "");
	printf("  KV per token             %s bytes (%s)\n", grouped(c->kv_bytes_per_token, a), kv_note(v));
	if (c->num_blocks == 0)
		printf("  IT DOES NOT FIT: weights and reserve leave no room for a block of KV.\n");
	else
		printf("  KV blocks                %s of %d tokens = %s tokens\n", grouped(c->num_blocks, a),
		       c->block_size, grouped(c->tokens, b));
	putchar('\n');
}

static void print_latent(const struct capacity_view *v)
{
	const struct model *m = &v->model;
	int64_t own = model_kv_bytes_per_token(m, KV_BF16, &v->capacity.weights);
	const struct {
		int32_t heads, k, v;
	} others[] = {{m->n_heads, m->head_dim, m->v_head_dim}, {128, 128, 128}, {32, 128, 128}};
	printf("What the latent saves (bf16)\n");
	for (int i = 0; i < 3; i++) {
		int64_t bytes = model_mha_kv_bytes(m, others[i].heads, others[i].k, others[i].v);
		printf("  %3d heads of %d/%d would take %9" PRId64 " bytes per token: %.1f times as much\n",
		       others[i].heads, others[i].k, others[i].v, bytes, (double)bytes / (double)own);
	}
	putchar('\n');
}

static void print_contexts(const struct capacity_view *v)
{
	char a[32], b[32], c[32];
	printf("Sessions at once\n  context     KV each  KV of %-8" PRId64 " sessions   textbook*\n", v->kv_sessions);
	for (int32_t i = 0; i < v->n_contexts; i++) {
		const struct context_row *r = &v->contexts[i];
		double gb = (double)r->kv_bytes / 1e9;
		printf("  %7s %8.3f GB %11.3f GB %8s %11s\n", grouped(r->tokens, a), gb, gb * (double)v->kv_sessions,
		       grouped(r->sessions, b), grouped(r->textbook_sessions, c));
	}
	printf("  * all of %.0f GB, no reserve, no rounding to blocks\n\n", (double)v->device.nominal_bytes / 1e9);
}

static void print_operators(const struct operator_table *t, const char *title)
{
	double flops = 0, bytes = 0;
	printf("%s\n  operator                 GFLOP          MB   FLOP/B  bound          ms\n", title);
	for (int32_t i = 0; i < t->n; i++) {
		const struct cost_op *o = &t->ops[i];
		printf("  %-20s %10.2f %11.2f %8.1f  %-7s %9.4f\n", o->name, o->flops / 1e9, o->bytes / 1e6,
		       o->bytes > 0 ? o->flops / o->bytes : 0, o->compute_bound ? "compute" : "memory", o->ns / 1e6);
		flops += o->flops;
		bytes += o->bytes;
	}
	printf("  %-20s %10.2f %11.2f %8.1f           %9.4f + host %.4f\n\n", "whole step", flops / 1e9, bytes / 1e6,
	       bytes > 0 ? flops / bytes : 0, (double)t->time.device_ns / 1e6, (double)t->time.host_ns / 1e6);
}

/* The rules of thumb, for a KV group of g query heads. */
static void print_intensity(const struct capacity_view *v)
{
	const struct model *m = &v->model;
	double s = (double)v->decode_context, g = (double)m->n_heads / m->n_kv_heads;
	double balance = device_peak(&v->device, DTYPE_BF16) / v->device.bandwidth;
	printf("Arithmetic intensity, FLOP per byte (bf16); the device balances at %.0f\n", balance);
	if (m->kind != ATTENTION_MLA) {
		double p = (double)v->load.prompt;
		printf("  attention, decode     g S/(S+g) = %.2f with g = %g query heads per KV head, S = %.0f\n",
		       g * s / (s + g), g, s);
		printf("  attention, prefill    S g/(1+g) = %.0f for the full square of S = %.0f, %.0f for the causal "
		       "half (S/2 and S/4 for g = 1)\n",
		       p * g / (1 + g), p, (p + 1) * g / (1 + g) / 2);
	}
	printf("  MLP                   tends to B x T: %d for a decode batch of %d, %" PRId64 " for a prompt\n\n",
	       v->decode_batch, v->decode_batch, v->load.prompt);
}

static void print_points(const struct capacity_view *v)
{
	printf("Ideal serving: %" PRId64 " prompt and %" PRId64 " output tokens, TTFT %.2f ms alone", v->load.prompt,
	       v->load.output, v->ttft_ns / 1e6);
	if (v->device.price_per_hour > 0)
		printf(", $%.3f per hour (%s, %s)", v->device.price_per_hour, v->device.price_source,
		       v->device.price_date);
	printf("\n  batch   TPOT ms   tokens/s decoding   tokens/s with prefill   $ per M output tokens\n");
	for (int32_t i = 0; i < v->n_points; i++) {
		const struct serving_point *p = &v->points[i];
		printf("  %5d %9.3f %19.0f %23.0f", p->batch, p->tpot_ns / 1e6, p->decode_tokens_s, p->tokens_s);
		if (p->dollars < 0)
			printf("   %21s\n", "-");
		else
			printf("   %21.4f\n", p->dollars);
	}
	if (v->n_points == 0)
		printf("  no session of that length fits\n");
}

static const char *verdict_text(const struct capacity_view *v, const struct rank_row *r, char *buf, size_t size)
{
	switch (r->verdict) {
	case SERVING_OK:
		snprintf(buf, size, "%s", "");
		break;
	case SERVING_NO_FIT:
		snprintf(buf, size, "no session fits (%.1f GB of weights)", (double)r->capacity.weight_bytes / 1e9);
		break;
	case SERVING_TOO_FEW:
		snprintf(buf, size, "holds %" PRId64 " sessions, %d asked", r->sessions, v->need.min_batch);
		break;
	case SERVING_TOO_SLOW:
		snprintf(buf, size, "%.2f ms per token at a batch of %d", r->point.tpot_ns / 1e6, v->need.min_batch);
		break;
	}
	return buf;
}

static void print_ranks(const struct capacity_view *v)
{
	char note[80];
	printf("\nAll devices: batch of at least %d", v->need.min_batch);
	if (isfinite(v->need.max_tpot_ns))
		printf(", at most %g ms per token", v->need.max_tpot_ns / 1e6);
	printf(", cheapest first\n       device           batch   TPOT ms   TTFT ms  tokens/s     $/h   $ per M output "
	       "tokens\n");
	for (int32_t i = 0; i < v->n_ranks; i++) {
		const struct rank_row *r = &v->ranks[i];
		if (r->verdict != SERVING_OK) {
			printf("    -  %-14s %s\n", r->device.name, verdict_text(v, r, note, sizeof note));
			continue;
		}
		printf("  %3d  %-14s %7d %9.3f %9.1f %9.0f %7.2f %14.4f\n", i + 1, r->device.name, r->point.batch,
		       r->point.tpot_ns / 1e6, r->ttft_ns / 1e6, r->point.tokens_s, r->device.price_per_hour,
		       r->point.dollars);
	}
}

void capacity_print(const struct capacity_view *v)
{
	char title[120];
	print_model(v);
	print_memory(v);
	if (v->model.kind == ATTENTION_MLA)
		print_latent(v);
	print_contexts(v);
	snprintf(title, sizeof title, "Operators of a prefill step, %" PRId64 " tokens (%s attention)",
		 v->load.prompt < v->load.budget ? v->load.prompt : v->load.budget,
		 v->setup.attention == ATTENTION_STANDARD ? "standard" : "flash");
	print_operators(&v->prefill, title);
	snprintf(title, sizeof title, "Operators of a decode step, batch %d at %" PRId64 " tokens each",
		 v->decode_batch, v->decode_context);
	print_operators(&v->decode, title);
	print_intensity(v);
	print_points(v);
	if (v->ranking)
		print_ranks(v);
}
