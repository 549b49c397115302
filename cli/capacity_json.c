/* capacity_json.c: `lockstep capacity --json`. docs/capacity.md lists the keys. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/capacity_view.h"
#include "core/err.h"

static json_t *model_json(const struct model *m)
{
	return json_pack("{s:s, s:s, s:s, s:I, s:I, s:i, s:i, s:i, s:i, s:i, s:i, s:i}", "name", m->name,
			 "architecture", m->architecture, "attention", attention_kind_name(m->kind), "parameters",
			 (json_int_t)m->params.total, "active_parameters", (json_int_t)m->params.active, "layers",
			 m->n_layers, "heads", m->n_heads, "kv_heads", m->n_kv_heads, "head_dim", m->head_dim,
			 "sliding_window", m->window, "experts", m->n_experts, "max_position_embeddings", m->max_len);
}

static json_t *device_json(const struct device *d)
{
	return json_pack("{s:s, s:s, s:I, s:I, s:f, s:f, s:f, s:s, s:s}", "name", d->name, "title", d->title,
			 "memory_bytes", (json_int_t)d->memory_bytes, "nominal_bytes", (json_int_t)d->nominal_bytes,
			 "bandwidth_gb_s", d->bandwidth / 1e9, "bf16_tflops", device_peak(d, DTYPE_BF16) / 1e12,
			 "price_per_hour", d->price_per_hour, "price_source", d->price_source, "price_date",
			 d->price_date);
}

static json_t *contexts_json(const struct capacity_view *v)
{
	json_t *list = json_array();
	for (int32_t i = 0; i < v->n_contexts; i++) {
		const struct context_row *r = &v->contexts[i];
		json_array_append_new(list,
				      json_pack("{s:I, s:I, s:I, s:I}", "context", (json_int_t)r->tokens, "kv_bytes",
						(json_int_t)r->kv_bytes, "sessions", (json_int_t)r->sessions,
						"textbook_sessions", (json_int_t)r->textbook_sessions));
	}
	return list;
}

static json_t *operators_json(const struct operator_table *t)
{
	json_t *list = json_array();
	for (int32_t i = 0; i < t->n; i++) {
		const struct cost_op *o = &t->ops[i];
		json_array_append_new(list, json_pack("{s:s, s:f, s:f, s:f, s:s, s:f, s:i}", "operator", o->name,
						      "flops", o->flops, "bytes", o->bytes, "intensity",
						      o->bytes > 0 ? o->flops / o->bytes : 0.0, "bound",
						      o->compute_bound ? "compute" : "memory", "ms", o->ns / 1e6,
						      "kernels", o->kernels));
	}
	return json_pack("{s:o, s:f, s:f}", "operators", list, "device_ms", (double)t->time.device_ns / 1e6, "host_ms",
			 (double)t->time.host_ns / 1e6);
}

static json_t *dollars_json(double x)
{
	return x < 0 ? json_null() : json_real(x);
}

static json_t *point_json(const struct serving_point *p)
{
	return json_pack("{s:i, s:f, s:f, s:f, s:o}", "batch", p->batch, "tpot_ms", p->tpot_ns / 1e6,
			 "decode_tokens_per_s", p->decode_tokens_s, "output_tokens_per_s", p->tokens_s,
			 "dollars_per_million_output_tokens", dollars_json(p->dollars));
}

static json_t *points_json(const struct capacity_view *v)
{
	json_t *list = json_array();
	for (int32_t i = 0; i < v->n_points; i++)
		json_array_append_new(list, point_json(&v->points[i]));
	return json_pack("{s:I, s:I, s:f, s:o}", "input_len", (json_int_t)v->load.prompt, "output_len",
			 (json_int_t)v->load.output, "ttft_ms", v->ttft_ns / 1e6, "batches", list);
}

static json_t *ranks_json(const struct capacity_view *v)
{
	static const char *const verdicts[] = {"ok", "does not fit", "too few sessions", "too slow"};
	json_t *list = json_array();
	for (int32_t i = 0; i < v->n_ranks; i++) {
		const struct rank_row *r = &v->ranks[i];
		json_t *o = json_pack("{s:s, s:s, s:I, s:f, s:f}", "device", r->device.name, "verdict",
				      verdicts[r->verdict], "max_sessions", (json_int_t)r->sessions, "ttft_ms",
				      r->ttft_ns / 1e6, "price_per_hour", r->device.price_per_hour);
		json_object_set_new(o, "best", r->verdict == SERVING_OK ? point_json(&r->point) : json_null());
		json_array_append_new(list, o);
	}
	return list;
}

static json_t *memory_json(const struct capacity_view *v)
{
	const struct capacity *c = &v->capacity;
	return json_pack("{s:s, s:I, s:f, s:I, s:I, s:I, s:I, s:I, s:I}", "meaning",
			 v->options.nominal ? "nominal" : "driver", "device_bytes", (json_int_t)c->device_bytes,
			 "gpu_memory_utilization", v->options.utilization, "budget_bytes", (json_int_t)c->budget_bytes,
			 "weight_bytes", (json_int_t)c->weight_bytes, "activation_bytes",
			 (json_int_t)c->activation_bytes, "buffer_bytes", (json_int_t)c->buffer_bytes, "context_bytes",
			 (json_int_t)c->context_bytes, "kv_bytes", (json_int_t)c->kv_bytes);
}

int capacity_print_json(const struct capacity_view *v, struct err *e)
{
	const struct capacity *c = &v->capacity;
	json_int_t sessions = capacity_sessions(c, &v->options, c->max_model_len);
	json_t *all = json_pack(
		"{s:o, s:o, s:s, s:s, s:I, s:I, s:i, s:i, s:I, s:i, s:I, s:o, s:o, s:o, s:o, s:o}", "model",
		model_json(&v->model), "device", device_json(&v->device), "weight_dtype", dtype_name(c->weights.dtype),
		"kv_cache_dtype", kv_dtype_name(v->options.kv), "weight_bytes", (json_int_t)c->weight_bytes,
		"kv_bytes_per_token", (json_int_t)c->kv_bytes_per_token, "num_gpu_blocks", c->num_blocks, "block_size",
		c->block_size, "num_kv_tokens", (json_int_t)c->tokens, "max_model_len", c->max_model_len,
		"max_concurrent_sessions", sessions, "memory", memory_json(v), "sessions", contexts_json(v), "prefill",
		operators_json(&v->prefill), "decode", operators_json(&v->decode), "ideal", points_json(v));
	if (all && v->ranking)
		json_object_set_new(all, "devices", ranks_json(v));
	char *text = all ? json_dumps(all, JSON_INDENT(2) | JSON_REAL_PRECISION(12)) : NULL;
	json_decref(all);
	if (!text)
		return err_no_memory(e, "JSON");
	puts(text);
	free(text); /* jansson's own allocation */
	return ERR_NONE;
}
