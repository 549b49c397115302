/* model_config.c: reads a Hugging Face config.json. What each architecture implies (biases, norms, which layers have
 * experts or a window) is in the table below; an architecture that is not in it is refused, never guessed. Keys are
 * those of the transformers library; sources of the shapes: its modelling files, by architecture. */
#include "models/model.h"

#include <stdio.h>
#include <string.h>

#include "core/err.h"
#include "core/mem.h"
#include "models/json_read.h"
#include "models/model_numerics.h"

enum family { LLAMA, MISTRAL, MIXTRAL, QWEN2, QWEN2_MOE, QWEN3, QWEN3_MOE, DEEPSEEK, GPT_OSS };

static const struct architecture {
	const char *name;
	const char *model_type; /* accepted when "architectures" is absent */
	enum family family;
} architectures[] = {
	{"LlamaForCausalLM", "llama", LLAMA},
	{"MistralForCausalLM", "mistral", MISTRAL},
	{"MixtralForCausalLM", "mixtral", MIXTRAL},
	{"Qwen2ForCausalLM", "qwen2", QWEN2},
	{"Qwen2MoeForCausalLM", "qwen2_moe", QWEN2_MOE},
	{"Qwen3ForCausalLM", "qwen3", QWEN3},
	{"Qwen3MoeForCausalLM", "qwen3_moe", QWEN3_MOE},
	{"DeepseekV2ForCausalLM", "deepseek_v2", DEEPSEEK},
	{"DeepseekV3ForCausalLM", "deepseek_v3", DEEPSEEK},
	{"DeepseekV3ForCausalLM", "kimi_k2", DEEPSEEK},
	{"GptOssForCausalLM", "gpt_oss", GPT_OSS},
};

/* Bounds far above any model made, low enough that no product below overflows 64 bits. */
enum {
	MAX_HIDDEN = 1 << 17,
	MAX_WIDTH = 1 << 19,
	MAX_LAYERS = 1 << 10,
	MAX_HEADS = 1 << 12,
	MAX_HEAD_DIM = 1 << 13,
	MAX_VOCAB = 1 << 24,
	MAX_EXPERTS = 1 << 12,
	MAX_LEN = 1 << 30,
};
#define MAX_PARAMS INT64_C(1000000000000000)

/* NULL: an error has been set. */
static const struct architecture *find_architecture(const struct json_reader *r)
{
	const json_t *list = json_read_present(r, "architectures");
	const char *name = json_string_value(json_array_get(list, 0));
	const char *type = json_string_value(json_object_get(r->object, "model_type"));
	if (!name && !type) {
		err_set(r->e, ERR_INPUT,
			"%s: neither architectures (a list of strings) nor model_type says what this is", r->where);
		return NULL;
	}
	char known[300] = "";
	for (size_t i = 0; i < sizeof architectures / sizeof architectures[0]; i++) {
		const struct architecture *a = &architectures[i];
		if (name ? !strcmp(name, a->name) : !strcmp(type, a->model_type))
			return a;
		size_t n = strlen(known);
		if (!strstr(known, a->name))
			snprintf(known + n, sizeof known - n, "%s%s", n ? ", " : "", a->name);
	}
	err_set(r->e, ERR_INPUT, "%s: architecture %.100s is not known here, and its shapes are not guessed. Known: %s",
		r->where, name ? name : type, known);
	return NULL;
}

static void read_attention(struct model *m, const struct json_reader *r, enum family f)
{
	m->n_heads = json_read_int(r, "num_attention_heads", 1, MAX_HEADS);
	m->n_kv_heads = json_read_int_or(r, "num_key_value_heads", 1, MAX_HEADS, m->n_heads);
	if (m->n_heads % m->n_kv_heads)
		err_set(r->e, ERR_INPUT, "%s: num_attention_heads %d is not a multiple of num_key_value_heads %d",
			r->where, m->n_heads, m->n_kv_heads);
	if (f == DEEPSEEK) {
		m->kind = ATTENTION_MLA;
		m->q_lora_rank = json_read_int_or(r, "q_lora_rank", 1, MAX_HIDDEN, 0);
		m->kv_lora_rank = json_read_int(r, "kv_lora_rank", 1, MAX_HIDDEN);
		m->rope_dim = json_read_int(r, "qk_rope_head_dim", 1, MAX_HEAD_DIM / 2);
		m->head_dim = json_read_int(r, "qk_nope_head_dim", 1, MAX_HEAD_DIM / 2) + m->rope_dim;
		m->v_head_dim = json_read_int(r, "v_head_dim", 1, MAX_HEAD_DIM);
		m->n_kv_heads = m->n_heads; /* once expanded */
	} else {
		int32_t derived = m->hidden / m->n_heads;
		if (!json_read_present(r, "head_dim") && (derived == 0 || m->hidden % m->n_heads))
			err_set(r->e, ERR_INPUT,
				"%s: hidden_size %d is not a multiple of num_attention_heads %d, and head_dim is "
				"missing",
				r->where, m->hidden, m->n_heads);
		m->head_dim = json_read_int_or(r, "head_dim", 1, MAX_HEAD_DIM, derived);
		m->v_head_dim = m->head_dim;
		m->kind = m->n_kv_heads == m->n_heads ? ATTENTION_MHA
			  : m->n_kv_heads == 1        ? ATTENTION_MQA
						      : ATTENTION_GQA;
	}
	bool bias = json_read_bool_or(r, "attention_bias", f == GPT_OSS);
	m->qkv_bias = bias || f == QWEN2 || f == QWEN2_MOE;
	m->o_bias = bias;
	m->qk_norm = f == QWEN3 || f == QWEN3_MOE;
	m->sinks = f == GPT_OSS;
}

static void read_experts(struct model *m, const struct json_reader *r, enum family f)
{
	switch (f) {
	case MIXTRAL:
	case GPT_OSS:
		m->n_experts = json_read_int(r, "num_local_experts", 1, MAX_EXPERTS);
		m->experts_per_token = json_read_int(r, "num_experts_per_tok", 1, MAX_EXPERTS);
		m->expert_intermediate = m->intermediate;
		m->router_bias = m->expert_bias = f == GPT_OSS;
		break;
	case QWEN2_MOE:
		m->shared_intermediate = json_read_int(r, "shared_expert_intermediate_size", 1, MAX_WIDTH);
		m->shared_gate = true;
		/* fall through */
	case QWEN3_MOE:
		m->n_experts = json_read_int(r, "num_experts", 1, MAX_EXPERTS);
		m->experts_per_token = json_read_int(r, "num_experts_per_tok", 1, MAX_EXPERTS);
		m->expert_intermediate = json_read_int(r, "moe_intermediate_size", 1, MAX_WIDTH);
		break;
	case DEEPSEEK:
		m->n_experts = json_read_int_or(r, "n_routed_experts", 1, MAX_EXPERTS, 0);
		if (m->n_experts == 0)
			break;
		m->experts_per_token = json_read_int(r, "num_experts_per_tok", 1, MAX_EXPERTS);
		m->expert_intermediate = json_read_int(r, "moe_intermediate_size", 1, MAX_WIDTH);
		m->shared_intermediate = json_read_int_or(r, "n_shared_experts", 0, 64, 0) * m->expert_intermediate;
		char topk[32] = "";
		json_read_string(r, "topk_method", topk, sizeof topk);
		m->router_bias = !strcmp(topk, "noaux_tc"); /* the correction that balances load without a loss */
		break;
	default:
		break;
	}
	if (m->experts_per_token > m->n_experts)
		err_set(r->e, ERR_INPUT, "%s: num_experts_per_tok %d is more than the %d experts there are", r->where,
			m->experts_per_token, m->n_experts);
}

/* Which layers have experts. */
static void place_experts(struct model *m, const struct json_reader *r, enum family f)
{
	int32_t first = 0, step = 1, phase = 0;
	if (f == DEEPSEEK) {
		first = json_read_int_or(r, "first_k_dense_replace", 0, MAX_LAYERS, 0);
		step = json_read_int_or(r, "moe_layer_freq", 1, MAX_LAYERS, 1);
	} else if (f == QWEN2_MOE || f == QWEN3_MOE) {
		step = json_read_int_or(r, "decoder_sparse_step", 1, MAX_LAYERS, 1);
		phase = 1; /* layers count from 1 in its rule */
	}
	for (int32_t i = 0; i < m->n_layers; i++)
		m->layers[i].moe = m->n_experts > 0 && i >= first && (i + phase) % step == 0;
	const json_t *dense = json_read_present(r, "mlp_only_layers");
	for (size_t i = 0; i < json_array_size(dense); i++) {
		json_int_t at = json_integer_value(json_array_get(dense, i));
		if (!json_is_integer(json_array_get(dense, i)) || at < 0 || at >= m->n_layers)
			err_set(r->e, ERR_INPUT, "%s: mlp_only_layers must list layer numbers below %d", r->where,
				m->n_layers);
		else
			m->layers[at].moe = false;
	}
}

/* Which layers slide: an explicit list, or the architecture's rule. */
static void place_windows(struct model *m, const struct json_reader *r, enum family f)
{
	bool uses = f == MISTRAL || f == MIXTRAL || f == GPT_OSS ||
		    ((f == QWEN2 || f == QWEN2_MOE || f == QWEN3 || f == QWEN3_MOE) &&
		     json_read_bool_or(r, "use_sliding_window", false));
	int32_t window = uses ? json_read_int_or(r, "sliding_window", 1, MAX_LEN, 0) : 0;
	if (window == 0)
		return;
	int32_t full_below = f == MISTRAL || f == MIXTRAL || f == GPT_OSS
				     ? 0
				     : json_read_int_or(r, "max_window_layers", 0, MAX_LAYERS, 28);
	const json_t *types = json_read_present(r, "layer_types");
	if (types && json_array_size(types) != (size_t)m->n_layers)
		err_set(r->e, ERR_INPUT, "%s: layer_types must list %d layers", r->where, m->n_layers);
	for (int32_t i = 0; i < m->n_layers; i++) {
		bool slides = f == GPT_OSS ? i % 2 == 0 : i >= full_below;
		if (types) {
			const char *t = json_string_value(json_array_get(types, (size_t)i));
			slides = t && !strcmp(t, "sliding_attention");
			if (!slides && !(t && !strcmp(t, "full_attention")))
				err_set(r->e, ERR_INPUT,
					"%s: layer_types[%d] must be \"full_attention\" or \"sliding_attention\"",
					r->where, i);
		}
		m->layers[i].window = slides ? window : 0;
		m->window = slides ? window : m->window;
	}
}

/* Cross-layer sharing (CLA): every cla_share_factor layers, the first one's KV serves all, and the others have no K and V
 * projections. The key is Hunyuan's. */
static void place_sharing(struct model *m, const struct json_reader *r)
{
	int32_t factor =
		json_read_bool_or(r, "use_cla", true) ? json_read_int_or(r, "cla_share_factor", 1, MAX_LAYERS, 1) : 1;
	for (int32_t i = 0; i < m->n_layers; i++)
		m->layers[i].kv_from = i - i % factor;
	if (factor > 1 && m->window)
		err_set(r->e, ERR_INPUT, "%s: cla_share_factor and sliding windows together are not supported",
			r->where);
}

static void read_format(struct model *m, const struct json_reader *r)
{
	char word[32] = "bfloat16", method[32] = "";
	json_read_string(r, "dtype", word, sizeof word);
	json_read_string(r, "torch_dtype", word, sizeof word);
	m->native = (struct weight_format){.dtype = DTYPE_BF16, .scope = SCOPE_ALL};
	if (!dtype_find(word, &m->native.dtype) || dtype_bits(m->native.dtype) < 16)
		err_set(r->e, ERR_INPUT, "%s: torch_dtype \"%s\" is not float32, bfloat16 or float16", r->where, word);
	const json_t *q = json_read_present(r, "quantization_config");
	if (!q)
		return;
	struct json_reader qr = {q, r->where, r->e};
	json_read_string(&qr, "quant_method", method, sizeof method);
	m->native.scope = SCOPE_LINEAR;
	if (!strcmp(method, "fp8")) {
		m->native.dtype = DTYPE_FP8;
	} else if (!strcmp(method, "mxfp4")) {
		m->native.dtype = DTYPE_MXFP4;
		m->native.scope = SCOPE_EXPERTS;
	} else if (!strcmp(method, "gptq") || !strcmp(method, "awq")) {
		int32_t bits = json_read_int_or(&qr, "bits", 1, 8, 4);
		m->native.dtype = bits == 8 ? DTYPE_INT8 : DTYPE_INT4;
		if (bits != 4 && bits != 8)
			err_set(r->e, ERR_INPUT, "%s: %s with %d bits is not known here", r->where, method, bits);
	} else {
		err_set(r->e, ERR_INPUT, "%s: quant_method \"%s\" is not known here (fp8, mxfp4, gptq, awq are)",
			r->where, method);
	}
}

static void read_shapes(struct model *m, const struct json_reader *r, const struct architecture *a)
{
	snprintf(m->architecture, sizeof m->architecture, "%s", a->name);
	m->hidden = json_read_int(r, "hidden_size", 1, MAX_HIDDEN);
	m->n_layers = json_read_int(r, "num_hidden_layers", 1, MAX_LAYERS);
	m->vocab = json_read_int(r, "vocab_size", 1, MAX_VOCAB);
	m->intermediate = json_read_int(r, "intermediate_size", 1, MAX_WIDTH);
	m->max_len = json_read_int(r, "max_position_embeddings", 1, MAX_LEN);
	m->tied = json_read_bool_or(r, "tie_word_embeddings", false);
	m->mlp_bias = json_read_bool_or(r, "mlp_bias", false);
	read_attention(m, r, a->family);
	read_experts(m, r, a->family);
	read_format(m, r);
	if ((int64_t)m->n_heads * m->head_dim > INT64_C(1) << 20 || (int64_t)m->n_heads * m->v_head_dim > INT64_C(1)
														  << 20)
		err_set(r->e, ERR_INPUT, "%s: %d heads of %d are wider than any model", r->where, m->n_heads,
			m->head_dim);
}

int model_parse(struct model *out, const char *text, const char *where, struct err *e)
{
	struct err own = {0};
	struct json_reader r = {.where = where, .e = e ? e : &own};
	struct model m = {0};
	const struct architecture *a = NULL;
	json_t *root = json_read_object(text, where, r.e);

	memset(out, 0, sizeof *out);
	if (!root)
		return r.e->code;
	r.object = root;
	snprintf(m.name, sizeof m.name, "%s", where);
	a = find_architecture(&r);
	if (!a)
		goto out;
	read_shapes(&m, &r, a);
	if (r.e->code)
		goto out;
	m.layers = mem_zalloc((size_t)m.n_layers, sizeof *m.layers);
	if (!m.layers) {
		err_no_memory(r.e, "a model's layers");
		goto out;
	}
	place_experts(&m, &r, a->family);
	place_windows(&m, &r, a->family);
	place_sharing(&m, &r);
	model_count_params(&m);
	model_read_numerics(&m, &r);
	if (m.params.total > MAX_PARAMS)
		err_set(r.e, ERR_INPUT, "%s: %.3g parameters are more than any device holds; check the sizes", where,
			(double)m.params.total);
	if (m.native.scope == SCOPE_EXPERTS && !m.n_experts)
		err_set(r.e, ERR_INPUT, "%s: quant_method mxfp4 is for experts, and there are none", where);
out:
	json_decref(root);
	if (r.e->code) {
		model_free(&m);
		return r.e->code;
	}
	*out = m;
	return ERR_NONE;
}
