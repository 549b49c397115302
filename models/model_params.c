/* model_params.c: how many parameters a model has, exactly, by what they are. */
#include "models/model.h"

/* Projections and norms of one layer's attention. */
static void count_attention(const struct model *m, bool own_kv, struct model_params *p)
{
	int64_t h = m->hidden, q_width = (int64_t)m->n_heads * m->head_dim,
		o_width = (int64_t)m->n_heads * m->v_head_dim;
	int64_t k_width = (int64_t)m->n_kv_heads * m->head_dim;
	if (m->kind == ATTENTION_MLA) {
		int64_t latent = m->kv_lora_rank, nope = m->head_dim - m->rope_dim;
		p->attention += m->q_lora_rank ? m->q_lora_rank * (h + q_width) : h * q_width;
		p->attention += h * (latent + m->rope_dim) + latent * m->n_heads * (nope + m->v_head_dim) + o_width * h;
		p->norm += m->q_lora_rank + latent;
		if (m->qkv_bias)
			p->bias += m->q_lora_rank + latent + m->rope_dim;
	} else {
		int64_t kv_width = own_kv ? 2 * k_width : 0;
		p->attention += h * (q_width + kv_width) + o_width * h;
		if (m->qkv_bias)
			p->bias += q_width + kv_width;
		if (m->qk_norm)
			p->norm += own_kv ? 2 * m->head_dim : m->head_dim;
	}
	if (m->o_bias)
		p->bias += h;
	if (m->sinks)
		p->bias += m->n_heads;
	p->norm += 2 * h; /* before attention, before the MLP */
}

/* Gate, up and down. */
static void count_mlp(const struct model *m, bool moe, struct model_params *p)
{
	int64_t h = m->hidden;
	if (!moe) {
		p->mlp += 3 * h * m->intermediate;
		if (m->mlp_bias)
			p->bias += 2 * (int64_t)m->intermediate + h;
		return;
	}
	p->experts += m->n_experts * 3 * h * m->expert_intermediate;
	p->mlp += 3 * h * m->shared_intermediate;
	p->router += h * m->n_experts + (m->shared_gate ? h : 0);
	if (m->router_bias)
		p->bias += m->n_experts;
	if (m->expert_bias)
		p->bias += m->n_experts * (2 * (int64_t)m->expert_intermediate + h);
}

void model_count_params(struct model *m)
{
	struct model_params p = {0};
	p.embed = (int64_t)m->vocab * m->hidden;
	p.lm_head = m->tied ? 0 : p.embed;
	p.norm = m->hidden; /* the last one */
	int64_t moe_layers = 0;
	for (int32_t i = 0; i < m->n_layers; i++) {
		count_attention(m, m->layers[i].kv_from == i, &p);
		count_mlp(m, m->layers[i].moe, &p);
		moe_layers += m->layers[i].moe;
	}
	p.total = p.embed + p.lm_head + p.attention + p.mlp + p.experts + p.router + p.norm + p.bias;
	int64_t idle = m->n_experts - m->experts_per_token;
	int64_t each = 3 * (int64_t)m->hidden * m->expert_intermediate;
	if (m->expert_bias)
		each += 2 * (int64_t)m->expert_intermediate + m->hidden;
	p.active = p.total - moe_layers * idle * each;
	m->params = p;
}
