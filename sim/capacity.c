/* capacity.c: what an engine that profiles itself at start would find left for KV. The reserve follows vLLM's profiling:
 * one forward pass of max_num_batched_tokens, then sampling for max_num_seqs with top-k and top-p on; the larger of the
 * two peaks is set aside for good. docs/capacity.md derives the bytes and compares them with a measured run. */
#include "sim/capacity.h"

#include <string.h>

#include "core/err.h"
#include "models/shard.h"

/* Bytes alive per logit while sampling with top-p sorts a row: float32 logits 4; sorted values 4 and their 64-bit
 * positions 8; the sort's own input positions 8 and second buffers 4 + 8. */
enum { SAMPLING_BYTES_PER_LOGIT = 4 + 4 + 8 + 8 + 4 + 8 };

void capacity_options_default(struct capacity_options *o)
{
	*o = (struct capacity_options){
		.utilization = 0.9,
		.block_size = 16,
		.max_num_seqs = 256,
		.max_num_batched_tokens = 2048,
		.weights = {.automatic = true},
		.kv = KV_AUTO,
		.tensor_parallel = 1,
	};
}

static int64_t act_bytes(const struct weight_format *f)
{
	return f->scope == SCOPE_ALL && f->dtype == DTYPE_FP32 ? 4 : 2;
}

/* Numbers alive per token at the widest place of a layer, beside the hidden state and the residual. */
static int64_t widest(const struct model *m)
{
	int64_t q = (int64_t)m->n_heads * m->head_dim, v = (int64_t)m->n_heads * m->v_head_dim;
	int64_t kv = m->kind == ATTENTION_MLA ? q + v : 2 * (int64_t)m->n_kv_heads * m->head_dim;
	int64_t best = q + kv + v; /* queries, keys and values, attention's output */
	int64_t mlp = 3 * (int64_t)m->intermediate; /* gate and up, their product */
	int64_t experts = m->experts_per_token * (3 * (int64_t)m->expert_intermediate + m->hidden);
	best = mlp > best ? mlp : best;
	return experts > best ? experts : best;
}

/* Logits are gathered: rows of all of the vocabulary are sampled from. */
static int64_t activation_peak(const struct model *m, int32_t vocab, const struct capacity_options *o,
			       const struct weight_format *f)
{
	/* In doubles, which are exact below 2^53 and cannot overflow: a user may ask for 2^31 tokens a step. */
	double tokens = o->max_num_batched_tokens, act = (double)act_bytes(f);
	double rows = o->max_num_seqs < tokens ? o->max_num_seqs : tokens;
	double forward = tokens * act * (2.0 * m->hidden + (double)widest(m));
	double sampling = tokens * act * m->hidden + rows * vocab * SAMPLING_BYTES_PER_LOGIT;
	double peak = forward > sampling ? forward : sampling;
	return peak < 1e18 ? (int64_t)peak : INT64_C(1000000000000000000);
}

/* Cosines and sines of every position, in the activations' type. */
static int64_t rotary_table(const struct model *m, const struct weight_format *f)
{
	int64_t dim = m->kind == ATTENTION_MLA ? m->rope_dim : m->head_dim;
	return m->max_len * dim * act_bytes(f);
}

static int check_options(const struct capacity_options *o, const struct model *m, struct err *e)
{
	if (!(o->utilization > 0 && o->utilization <= 1))
		return err_set(e, ERR_INPUT, "gpu-memory-utilization %g must be above 0 and at most 1", o->utilization);
	if (o->block_size < 1 || o->block_size > 1 << 20)
		return err_set(e, ERR_INPUT, "block-size %d must be between 1 and %d", o->block_size, 1 << 20);
	if (o->max_num_seqs < 1 || o->max_num_batched_tokens < 1)
		return err_set(e, ERR_INPUT, "max-num-seqs %d and max-num-batched-tokens %d must be at least 1",
			       o->max_num_seqs, o->max_num_batched_tokens);
	if (o->max_model_len < 0)
		return err_set(e, ERR_INPUT, "max-model-len %d must be at least 1", o->max_model_len);
	if (o->max_model_len > m->max_len)
		return err_set(e, ERR_INPUT, "max-model-len %d is more than the %d positions %s has", o->max_model_len,
			       m->max_len, m->name);
	if (o->tensor_parallel < 1)
		return err_set(e, ERR_INPUT, "tensor-parallel-size %d must be at least 1", o->tensor_parallel);
	return ERR_NONE;
}

static int nothing_left(const struct capacity *c, const struct model *m, const struct device *d, struct err *e)
{
	int64_t reserve = c->activation_bytes + c->buffer_bytes + c->context_bytes;
	return err_set(
		e, ERR_INPUT,
		"%s does not fit on %s: %.2f GB of weights and %.2f GB of reserve leave nothing for KV in %.2f GB (a "
		"larger device, a smaller weight format, a higher gpu-memory-utilization or smaller max-num-seqs and "
		"max-num-batched-tokens would)",
		m->name, d->name, (double)c->weight_bytes / 1e9, (double)reserve / 1e9, (double)c->budget_bytes / 1e9);
}

int capacity_compute(struct capacity *out, const struct model *whole, const struct device *d,
		     const struct capacity_options *o, struct err *e)
{
	struct capacity c = {.block_size = o->block_size};
	struct model part;
	const struct model *m = &part;
	int rc = check_options(o, whole, e);
	memset(out, 0, sizeof *out);
	if (rc || (rc = model_weight_format(whole, &o->weights, &c.weights, e)) ||
	    (rc = model_shard(&part, whole, o->tensor_parallel, e)))
		return rc;
	c.max_model_len = o->max_model_len ? o->max_model_len : m->max_len;
	c.weight_bytes = o->assume_weight_bytes ? o->assume_weight_bytes : model_weight_bytes(m, &c.weights);
	c.kv_bytes_per_token = model_kv_bytes_per_token(m, o->kv, &c.weights);
	c.device_bytes = o->nominal ? d->nominal_bytes : d->memory_bytes;
	c.budget_bytes = (int64_t)((double)c.device_bytes * o->utilization);
	if (!o->nominal) {
		c.activation_bytes = activation_peak(m, whole->vocab, o, &c.weights);
		c.buffer_bytes = rotary_table(m, &c.weights);
		c.context_bytes = d->context_bytes;
	}
	c.kv_bytes = c.budget_bytes - c.weight_bytes - c.activation_bytes - c.buffer_bytes - c.context_bytes;
	int64_t block_bytes = c.kv_bytes_per_token * c.block_size;
	int64_t blocks = c.kv_bytes > 0 ? c.kv_bytes / block_bytes : 0;
	c.num_blocks = blocks < INT32_MAX ? (int32_t)blocks : INT32_MAX;
	c.tokens = (int64_t)c.num_blocks * c.block_size;
	*out = c;
	return ERR_NONE;
}

int capacity_blocks(const struct model *m, const struct device *d, const struct capacity_options *o,
		    int32_t *num_blocks, struct err *e)
{
	struct capacity c;
	int rc = capacity_compute(&c, m, d, o, e);
	*num_blocks = c.num_blocks;
	return rc || c.num_blocks > 0 ? rc : nothing_left(&c, m, d, e);
}

int64_t capacity_sessions(const struct capacity *c, const struct capacity_options *o, int64_t tokens)
{
	if (c->kv_bytes <= 0)
		return 0;
	if (tokens < 1)
		tokens = 1;
	if (o->assume_session_bytes)
		return c->kv_bytes / o->assume_session_bytes;
	if (o->nominal)
		return c->kv_bytes / c->kv_bytes_per_token / tokens;
	return c->num_blocks / ((tokens + c->block_size - 1) / c->block_size);
}
