/* cost_ops.c: the counting. One multiply-add is two FLOPs. Bytes are what must cross the memory bus at least: each weight
 * and each activation of an operator once, caches beyond that not modelled. docs/cost-model.md has the formulas. */
#include "sim/cost_ops.h"

/* Projections of one layer that lie before attention. */
static double qkv_params(const struct model *m, bool own_kv)
{
	double h = m->hidden, q = (double)m->n_heads * m->head_dim;
	if (m->kind != ATTENTION_MLA)
		return h * (q + (own_kv ? 2.0 * m->n_kv_heads * m->head_dim : 0));
	double latent = m->kv_lora_rank, nope = m->head_dim - m->rope_dim;
	double query = m->q_lora_rank ? m->q_lora_rank * (h + q) : h * q;
	return query + h * (latent + m->rope_dim) + latent * m->n_heads * (nope + m->v_head_dim);
}

void op_shapes_init(struct op_shapes *s, const struct model *m, const struct weight_format *f, enum kv_dtype kv,
		    enum attention_algorithm a)
{
	*s = (struct op_shapes){.m = m, .standard = a == ATTENTION_STANDARD, .sampled_vocab = m->vocab};
	s->act = f->scope == SCOPE_ALL && f->dtype == DTYPE_FP32 ? 4 : 2;
	s->qkv_params[0] = qkv_params(m, true);
	s->qkv_params[1] = qkv_params(m, false);
	s->out_params = (double)m->n_heads * m->v_head_dim * m->hidden;
	s->attention_each = weight_bytes_each(f, WEIGHTS_ATTENTION);
	s->mlp_each = weight_bytes_each(f, WEIGHTS_MLP);
	s->experts_each = weight_bytes_each(f, WEIGHTS_EXPERTS);
	s->rest_each = weight_bytes_each(f, WEIGHTS_REST);
	s->q_width = (double)m->n_heads * m->head_dim;
	s->o_width = (double)m->n_heads * m->v_head_dim;
	s->kv_width = m->kind == ATTENTION_MLA ? m->kv_lora_rank + m->rope_dim : 2.0 * m->n_kv_heads * m->head_dim;
	s->kv_bytes = (double)model_layer_kv_bytes(m, kv, f);
	for (int32_t i = 0; i < m->n_layers; i++) {
		*(m->layers[i].window ? &s->n_window : &s->n_full) += 1;
		s->n_own[m->layers[i].kv_from != i] += 1;
		*(m->layers[i].moe ? &s->n_moe : &s->n_dense) += 1;
	}
}

/* A matrix product of T rows: weights once, inputs and outputs once. */
static struct op_work matmul(const struct op_shapes *s, double tokens, double params, double each, double widths)
{
	return (struct op_work){2 * tokens * params, params * each + tokens * widths * s->act, 0};
}

static void add(struct op_work *to, struct op_work w, double times, int32_t kernels)
{
	to->flops += w.flops * times;
	to->bytes += w.bytes * times;
	to->kernels += kernels;
}

double op_distinct_experts(double experts, double per_token, double tokens)
{
	double miss = 1 - per_token / experts, p = 1;
	for (int64_t t = (int64_t)tokens; t > 0; t >>= 1) { /* p = miss^tokens by squaring: no libm */
		if (t & 1)
			p *= miss;
		miss *= miss;
	}
	return experts * (1 - p);
}

static void qkv_work(const struct op_shapes *s, double t, struct op_work *w)
{
	const struct model *m = s->m;
	bool mla = m->kind == ATTENTION_MLA;
	double in = m->hidden, out = s->q_width + s->kv_width;
	if (mla) /* the latents between the two steps, and expanded K and V */
		out += 2.0 * m->q_lora_rank + m->kv_lora_rank +
		       (double)m->n_heads * (m->head_dim - m->rope_dim + m->v_head_dim);
	int32_t kernels = mla ? (m->q_lora_rank ? 4 : 3) : 1;
	add(w, matmul(s, t, s->qkv_params[0], s->attention_each, in + out), s->n_own[0], kernels * s->n_own[0]);
	add(w, matmul(s, t, s->qkv_params[1], s->attention_each, in + s->q_width), s->n_own[1], kernels * s->n_own[1]);
}

/* Norms read and write the hidden state and the residual; of q and k as well where the model has them. */
static void norm_work(const struct op_shapes *s, double t, struct op_work *w)
{
	double h = s->m->hidden, layers = s->m->n_layers, numbers = 4 * h * (2 * layers + 1);
	if (s->m->qk_norm)
		numbers += 2 * layers * s->q_width + s->n_own[0] * s->kv_width;
	w->flops = 1.25 * t * numbers; /* about 5 per element: square, add, scale, weight, residual */
	w->bytes = t * numbers * s->act;
	w->kernels = 2 * s->m->n_layers + 1 + (s->m->qk_norm ? s->m->n_layers : 0);
}

/* Rotates q and k in place and writes K and V into the cache. */
static void rope_work(const struct op_shapes *s, double t, struct op_work *w)
{
	double k = s->m->kind == ATTENTION_MLA ? s->m->rope_dim : s->kv_width / 2;
	double q = s->m->kind == ATTENTION_MLA ? (double)s->m->n_heads * s->m->rope_dim : s->q_width;
	w->flops = 3 * t * (q * s->m->n_layers + k * s->n_own[0]);
	w->bytes = t * (2 * q * s->act * s->m->n_layers + (2 * k + s->kv_width) * s->act * s->n_own[0]);
	w->bytes += t * s->kv_bytes * s->n_own[0];
	w->kernels = s->m->n_layers + s->n_own[0];
}

/* Gate and up in one product, the activation, down. */
static struct op_work mlp_layer(const struct op_shapes *s, double t, double width, double each)
{
	double h = s->m->hidden;
	struct op_work w = matmul(s, t, 3 * h * width, each, 2 * h + 3 * width);
	w.flops += 5 * t * width;
	w.bytes += 3 * t * width * s->act; /* the activation reads both halves and writes one */
	return w;
}

static void experts_work(const struct op_shapes *s, double t, struct op_work *w)
{
	const struct model *m = s->m;
	double h = m->hidden, width = m->expert_intermediate, k = m->experts_per_token;
	double each_expert = 3 * h * width;
	double touched = op_distinct_experts(m->n_experts, k, t);
	struct op_work rows = mlp_layer(s, t * k, width, 0);
	rows.bytes += touched * each_expert * s->experts_each + 2 * t * k * h * s->act; /* gather, combine */
	add(w, rows, s->n_moe, 5 * s->n_moe);
}

void op_tokens(const struct op_shapes *s, enum token_op op, double t, struct op_work *w)
{
	const struct model *m = s->m;
	double h = m->hidden;
	*w = (struct op_work){0};
	switch (op) {
	case OP_EMBED:
		*w = (struct op_work){0, t * h * (s->rest_each + s->act), 1};
		break;
	case OP_NORM:
		norm_work(s, t, w);
		break;
	case OP_QKV:
		qkv_work(s, t, w);
		break;
	case OP_ROPE:
		rope_work(s, t, w);
		break;
	case OP_OUT:
		add(w, matmul(s, t, s->out_params, s->attention_each, s->o_width + h), m->n_layers, m->n_layers);
		break;
	case OP_MLP:
		add(w, mlp_layer(s, t, m->intermediate, s->mlp_each), s->n_dense, 3 * s->n_dense);
		if (m->shared_intermediate)
			add(w, mlp_layer(s, t, m->shared_intermediate, s->mlp_each), s->n_moe, 3 * s->n_moe);
		break;
	case OP_ROUTER:
		if (s->n_moe)
			add(w, matmul(s, t, h * m->n_experts, s->rest_each, h + 2.0 * m->n_experts), s->n_moe,
			    2 * s->n_moe);
		break;
	case OP_EXPERTS:
		if (s->n_moe)
			experts_work(s, t, w);
		break;
	case TOKEN_OPS:
		break;
	}
}

const char *token_op_name(enum token_op op)
{
	static const char *const names[] = {"embedding", "norms", "qkv",    "rope+cache",
					    "out_proj",  "mlp",   "router", "experts"};
	return names[op];
}

void op_lm_head(const struct op_shapes *s, double rows, struct op_work *w)
{
	double h = s->m->hidden, v = s->m->vocab;
	*w = matmul(s, rows, h * v, s->rest_each, h + v);
	w->kernels = 1;
	if (rows == 0)
		*w = (struct op_work){0};
}

/* Logits to float32, softmax, pick one. */
void op_sample(const struct op_shapes *s, double rows, struct op_work *w)
{
	double v = s->sampled_vocab;
	*w = (struct op_work){5 * rows * v, rows * v * (s->act + 4 + 4 + 4), rows > 0 ? 3 : 0};
}

void op_decode_attention(const struct op_shapes *s, double rows, double ctx, struct op_work *w)
{
	const struct model *m = s->m;
	double heads = m->n_heads, scores = heads * ctx;
	if (m->kind == ATTENTION_MLA) { /* on the latents themselves: the expansion is absorbed into q and the output */
		double latent = m->kv_lora_rank, key = latent + m->rope_dim;
		w->flops = 2 * scores * (key + latent);
		w->bytes = ctx * s->kv_bytes + rows * heads * (key + latent) * s->act;
	} else {
		w->flops = 2 * scores * (m->head_dim + m->v_head_dim);
		w->bytes = ctx * s->kv_bytes + rows * (s->q_width + s->o_width) * s->act;
	}
	if (s->standard)
		w->bytes += 4 * scores * s->act; /* scores written, read; weights written, read */
	w->kernels = s->standard ? 3 : 1;
}

/* Pairs (query, key) of n tokens after `start`, each query seeing at most w keys, itself included. */
static double causal_pairs(double start, double n, double w)
{
	if (w <= 0 || start + n <= w)
		return n * start + n * (n + 1) / 2;
	double growing = w - start - 1; /* queries that see less than w */
	if (growing <= 0)
		return n * w;
	return growing * start + growing * (growing + 1) / 2 + (n - growing) * w;
}

void op_prefill_attention(const struct op_shapes *s, double start, double n, double window, struct op_work *w)
{
	const struct model *m = s->m;
	double heads = m->n_heads, dims = (double)m->head_dim + m->v_head_dim;
	double seen = window > 0 && start > window - 1 ? window - 1 + n : start + n; /* keys any of them sees */
	double pairs = s->standard ? n * seen : causal_pairs(start, n, window);
	w->flops = 2 * heads * pairs * dims;
	w->bytes = n * (s->q_width + s->o_width) * s->act + seen * s->kv_bytes;
	w->kernels = s->standard ? 3 : 1;
	if (s->standard)
		w->bytes += 4 * heads * n * seen * s->act;
	if (m->kind == ATTENTION_MLA) { /* reads expanded K and V; those of cached latents are expanded again */
		double expanded = heads * (m->head_dim - m->rope_dim + m->v_head_dim), cached = seen - n;
		w->flops += 2 * m->kv_lora_rank * expanded * cached;
		w->bytes += expanded * s->act * (n + 2 * cached);
		w->kernels += start > 0;
	}
}
