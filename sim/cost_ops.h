/* cost_ops.h: what a transformer's operators compute and move, as plain counts; the roofline times them. Inside sim. */
#ifndef SIM_COST_OPS_H
#define SIM_COST_OPS_H

#include "sim/cost_models.h"

/* Work of one operator in one step, all layers together. */
struct op_work {
	double flops;
	double bytes; /* to and from device memory */
	int32_t kernels;
};

/* The shapes that counting needs, worked out once from model and formats. */
struct op_shapes {
	const struct model *m;
	double act; /* bytes of one activation */
	double qkv_params[2]; /* one layer's projections before attention: with its own KV, reading another's */
	double out_params; /* after it */
	double attention_each, mlp_each, experts_each, rest_each; /* bytes of one parameter */
	double q_width, kv_width, o_width; /* numbers per token: queries, new K and V, attention's output */
	double kv_bytes; /* of one token in one layer's cache */
	int32_t n_full, n_window; /* layers by what their attention sees */
	int32_t n_own[2]; /* layers with their own KV [0], sharing another's [1] */
	int32_t n_dense, n_moe;
	bool standard; /* attention algorithm */
	double sampled_vocab; /* logits of a row that is sampled from: of the whole model, where m is a part of one */
};

void op_shapes_init(struct op_shapes *s, const struct model *m, const struct weight_format *f, enum kv_dtype kv,
		    enum attention_algorithm a);

/* Those that depend on the tokens of the step alone, T of them. */
enum token_op { OP_EMBED, OP_NORM, OP_QKV, OP_ROPE, OP_OUT, OP_MLP, OP_ROUTER, OP_EXPERTS, TOKEN_OPS };
const char *token_op_name(enum token_op op);
void op_tokens(const struct op_shapes *s, enum token_op op, double tokens, struct op_work *out);

/* Logits of the rows a token is sampled from, and sampling itself. */
void op_lm_head(const struct op_shapes *s, double rows, struct op_work *out);
void op_sample(const struct op_shapes *s, double rows, struct op_work *out);

/* Attention of decode rows in one layer: their contexts add up to ctx. Affine in both. */
void op_decode_attention(const struct op_shapes *s, double rows, double ctx, struct op_work *out);

/* Attention of n new tokens after `start` cached ones, in one layer with that window (0 = none). */
void op_prefill_attention(const struct op_shapes *s, double start, double n, double window, struct op_work *out);

/* Different experts that T tokens reach, if each picks its k of E at random: E (1 - (1 - k/E)^T). */
double op_distinct_experts(double experts, double per_token, double tokens);

#endif
