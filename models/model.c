/* model.c: a model by name or path, and what its shapes say about bytes. The reading of the config is in
 * model_config.c. */
#include "models/model.h"

#include <string.h>

#include "core/err.h"
#include "core/mem.h"
#include "models/spec_text.h"

const char *attention_kind_name(enum attention_kind k)
{
	static const char *const names[] = {"MHA", "GQA", "MQA", "MLA"};
	return names[k];
}

int model_load(struct model *out, const char *name_or_path, struct err *e)
{
	struct spec_text s;
	memset(out, 0, sizeof *out);
	int rc = spec_text_find(&s, "model", name_or_path, e);
	if (rc)
		return rc;
	rc = model_parse(out, s.text, s.where, e);
	if (!rc)
		memcpy(out->name, s.name, sizeof out->name);
	spec_text_free(&s);
	return rc;
}

void model_free(struct model *m)
{
	mem_free(m->layers);
	memset(m, 0, sizeof *m);
}

const char *model_name_at(int32_t i, char *buf, size_t size)
{
	return spec_name_at("model", i, buf, size);
}

int model_weight_format(const struct model *m, const struct weight_format *asked, struct weight_format *out,
			struct err *e)
{
	*out = asked->automatic ? m->native : *asked;
	if (out->scope == SCOPE_EXPERTS && m->n_experts == 0)
		return err_set(e, ERR_INPUT,
			       "%s weights are for mixture-of-experts models; %s has no experts (int4 or nf4 "
			       "quantises every linear layer)",
			       dtype_name(out->dtype), m->name);
	return ERR_NONE;
}

double weight_bytes_each(const struct weight_format *f, enum weight_group g)
{
	bool quantised = f->scope == SCOPE_ALL || g == WEIGHTS_EXPERTS ||
			 (f->scope == SCOPE_LINEAR && (g == WEIGHTS_ATTENTION || g == WEIGHTS_MLP));
	return dtype_bits(quantised ? f->dtype : DTYPE_BF16) / 8;
}

int64_t model_weight_bytes(const struct model *m, const struct weight_format *f)
{
	const struct model_params *p = &m->params;
	int64_t rest = p->embed + p->lm_head + p->router + p->norm + p->bias;
	double bytes = (double)rest * weight_bytes_each(f, WEIGHTS_REST);
	bytes += (double)p->attention * weight_bytes_each(f, WEIGHTS_ATTENTION);
	bytes += (double)p->mlp * weight_bytes_each(f, WEIGHTS_MLP);
	bytes += (double)p->experts * weight_bytes_each(f, WEIGHTS_EXPERTS);
	return (int64_t)(bytes + 0.5);
}

int model_formats(const struct model *m, const char *weights, const char *kv, struct weight_format *weights_out,
		  enum kv_dtype *kv_out, struct err *e)
{
	struct weight_format asked;
	int rc = weight_format_parse(weights && *weights ? weights : "auto", &asked, e);
	if (rc == ERR_NONE)
		rc = kv_dtype_parse(kv && *kv ? kv : "auto", kv_out, e);
	*weights_out = asked;
	return rc || !m ? rc : model_weight_format(m, &asked, weights_out, e);
}

/* Bytes of one number of the KV cache. */
static int64_t kv_number_bytes(enum kv_dtype t, const struct weight_format *f)
{
	if (t == KV_FP8 || t == KV_INT8)
		return 1;
	return t == KV_FP32 || (t == KV_AUTO && f->dtype == DTYPE_FP32) ? 4 : 2;
}

int64_t model_layer_kv_bytes(const struct model *m, enum kv_dtype t, const struct weight_format *f)
{
	int64_t numbers = (int64_t)m->n_kv_heads * (m->head_dim + m->v_head_dim);
	int64_t vectors = 2 * (int64_t)m->n_kv_heads;
	if (m->kind == ATTENTION_MLA) { /* the latent, and the part of the key that carries the position */
		numbers = m->kv_lora_rank + m->rope_dim;
		vectors = 2;
	}
	return numbers * kv_number_bytes(t, f) + (t == KV_INT8 ? 4 * vectors : 0);
}

int64_t model_kv_bytes_per_token(const struct model *m, enum kv_dtype t, const struct weight_format *f)
{
	int64_t owners = 0;
	for (int32_t i = 0; i < m->n_layers; i++)
		owners += m->layers[i].kv_from == i;
	return owners * model_layer_kv_bytes(m, t, f);
}

int32_t model_common_window(const struct model *m)
{
	for (int32_t i = 0; i < m->n_layers; i++)
		if (m->layers[i].window != m->layers[0].window)
			return 0;
	return m->n_layers ? m->layers[0].window : 0;
}

int64_t model_mha_kv_bytes(const struct model *m, int32_t heads, int32_t k_dim, int32_t v_dim)
{
	return 2 * (int64_t)m->n_layers * heads * ((int64_t)k_dim + v_dim);
}
