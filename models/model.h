/* model.h: a transformer's shapes, read from a Hugging Face config.json, and what follows from them exactly: parameters,
 * bytes of weights, bytes of KV per token. */
#ifndef MODELS_MODEL_H
#define MODELS_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "models/dtype.h"

struct err;

enum attention_kind {
	ATTENTION_MHA, /* KV heads = query heads */
	ATTENTION_GQA,
	ATTENTION_MQA, /* one KV head */
	ATTENTION_MLA, /* DeepSeek: one latent vector per token, for all heads */
};
const char *attention_kind_name(enum attention_kind k);

struct model_layer {
	int32_t window; /* tokens its attention sees; 0 = all */
	int32_t kv_from; /* the layer whose KV it reads: its own index, or an earlier one that shares */
	bool moe; /* its MLP is a mixture of experts */
};

/* Parameters by what they are; each name is also an operator of the cost model. */
struct model_params {
	int64_t embed; /* vocab x hidden */
	int64_t lm_head; /* 0 when tied to embed */
	int64_t attention; /* projections of all layers */
	int64_t mlp; /* dense MLPs and shared experts */
	int64_t experts; /* routed experts, all of them */
	int64_t router;
	int64_t norm;
	int64_t bias; /* every bias, attention sinks, router corrections */
	int64_t total;
	int64_t active; /* used by one token: of the routed experts only those it is sent to */
};

/* What running it needs and timing it does not. */
enum rope_scaling {
	ROPE_PLAIN,
	ROPE_LINEAR, /* positions / factor */
	ROPE_LLAMA3, /* low frequencies / factor, high ones kept, a ramp between */
};
struct model_numerics {
	double norm_eps; /* rms_norm_eps */
	double rope_theta;
	enum rope_scaling rope_scaling;
	double rope_factor, rope_low, rope_high; /* factor, low_freq_factor, high_freq_factor */
	int32_t rope_original_len; /* original_max_position_embeddings */
	int32_t bos; /* token ids; -1 = none said */
	int32_t eos[8], n_eos;
	char unsupported[96]; /* why the model runner cannot run it ("mixture of experts"), or "" */
};

struct model {
	char name[64]; /* "llama-3.1-8b"; of a file: its folder's or its own name */
	char architecture[64]; /* "LlamaForCausalLM" */
	enum attention_kind kind;
	int32_t hidden, n_layers, vocab;
	int32_t n_heads, n_kv_heads;
	int32_t head_dim; /* of queries and keys; MLA: qk_nope + qk_rope */
	int32_t v_head_dim; /* of values; = head_dim except for MLA */
	int32_t intermediate; /* width of a dense MLP */
	int32_t max_len; /* max_position_embeddings */
	bool tied; /* LM head = embedding */
	bool qkv_bias, o_bias;
	bool mlp_bias;
	bool qk_norm; /* norms over each query and key head */
	bool sinks; /* one learned attention sink per head */

	/* MLA only, else 0. */
	int32_t q_lora_rank; /* 0 = queries are projected in one step */
	int32_t kv_lora_rank, rope_dim;

	/* Mixture of experts; n_experts = 0 without. */
	int32_t n_experts, experts_per_token;
	int32_t expert_intermediate;
	int32_t shared_intermediate; /* width of all shared experts together; 0 = none */
	bool shared_gate; /* the shared expert has a gate of its own (Qwen2-MoE) */
	bool expert_bias;
	bool router_bias;

	int32_t window; /* the sliding window of those layers that have one; 0 = none has */
	struct weight_format native; /* what the config says its weights are in */
	struct model_layer *layers; /* [n_layers] */
	struct model_params params;
	struct model_numerics numerics;
};

/* By name ("llama-3.1-8b", aliases too) or by path: a config.json, or a folder holding one (anything with a slash or
 * ending in .json). *out is the caller's; release with model_free. ERR_INPUT: unknown name (near matches listed),
 * architecture refused by name, missing or impossible key. */
int model_load(struct model *out, const char *name_or_path, struct err *e);
/* From text, for embedded specs and tests; `where` names it in errors. */
int model_parse(struct model *out, const char *text, const char *where, struct err *e);
void model_free(struct model *m);

/* The i-th built-in name, in the order of their files, written into buf; NULL past the last. */
const char *model_name_at(int32_t i, char *buf, size_t size);

/* Fills params from the rest; model_parse has done it. */
void model_count_params(struct model *m);

/* Resolves "auto" and checks that the model can be held so (mxfp4 needs experts). */
int model_weight_format(const struct model *m, const struct weight_format *asked, struct weight_format *out,
			struct err *e);
/* What --weight-dtype and --kv-cache-dtype say (NULL or "": auto) comes to for m: the weights' format resolved. m = NULL:
 * the words are checked, and the format stays as it was asked for. */
int model_formats(const struct model *m, const char *weights, const char *kv, struct weight_format *weights_out,
		  enum kv_dtype *kv_out, struct err *e);
/* All weights, in a resolved format. */
int64_t model_weight_bytes(const struct model *m, const struct weight_format *f);

/* KV of one token in all layers, sliding-window ones counted in full (a paged pool holds their old tokens too). */
int64_t model_kv_bytes_per_token(const struct model *m, enum kv_dtype t, const struct weight_format *f);
/* The same of one layer that keeps its own. */
int64_t model_layer_kv_bytes(const struct model *m, enum kv_dtype t, const struct weight_format *f);
/* The window that every layer has; 0 when some see the whole context, or windows differ. */
int32_t model_common_window(const struct model *m);
/* What its KV would be with that many KV heads of those dimensions, bf16: to compare MLA with. */
int64_t model_mha_kv_bytes(const struct model *m, int32_t heads, int32_t k_dim, int32_t v_dim);

/* Bytes of one parameter of a group, in a resolved format; scales included, so not always whole. */
enum weight_group { WEIGHTS_ATTENTION, WEIGHTS_MLP, WEIGHTS_EXPERTS, WEIGHTS_REST };
double weight_bytes_each(const struct weight_format *f, enum weight_group g);

#endif
