/* dtype.h: number formats of weights and of the KV cache, and how many bits one number takes, scales included. */
#ifndef MODELS_DTYPE_H
#define MODELS_DTYPE_H

#include <stdbool.h>

struct err;

enum dtype {
	DTYPE_FP32, /* 32 bits */
	DTYPE_BF16, /* 16; fp16 is the same as far as bytes and speed go */
	DTYPE_FP8, /* 8; its few scales are not counted */
	DTYPE_INT8, /* 8; one scale per output channel, not counted */
	DTYPE_INT4, /* 4.125: groups of 128 with a 16-bit scale (GPTQ, AWQ without zero points) */
	DTYPE_MXFP4, /* 4.25: blocks of 32 with an 8-bit scale (OCP MX) */
	DTYPE_NF4, /* 4.127: blocks of 64 with an 8-bit absmax, itself in blocks of 256 with 32 bits (QLoRA) */
	DTYPE_COUNT,
};

const char *dtype_name(enum dtype t);
double dtype_bits(enum dtype t);
/* "bf16", also "bfloat16", "float16", "fp16", "half", "float32", "float" and the like. */
bool dtype_find(const char *text, enum dtype *out);

/* How a model's weights are held.
 * SCOPE_ALL: every parameter in this format, the textbook's way of counting.
 * SCOPE_LINEAR: the matrices inside the layers, experts included; embedding, LM head, norms, biases and MoE routers stay
 * bf16, as serving engines quantise.
 * SCOPE_EXPERTS: the routed experts' matrices only; the rest bf16 (mxfp4 checkpoints). */
enum weight_scope { SCOPE_ALL, SCOPE_LINEAR, SCOPE_EXPERTS };

struct weight_format {
	bool automatic; /* what the model's config says; dtype and scope are then ignored */
	enum dtype dtype;
	enum weight_scope scope;
};

/* --weight-dtype: auto, fp32, bf16, fp8, int8, int4, nf4 (SCOPE_ALL), mxfp4 (SCOPE_EXPERTS); the same words with
 * ":linear" behind them, or --quantization's, give SCOPE_LINEAR. ERR_INPUT lists the words. */
int weight_format_parse(const char *text, struct weight_format *out, struct err *e);
/* --quantization fp8|int8|int4|nf4|mxfp4. */
int weight_quantization_parse(const char *text, struct weight_format *out, struct err *e);

/* KV cache. auto: bf16 (fp32 for a model run in fp32). int8: one fp32 scale per token, KV head and K or V. */
enum kv_dtype { KV_AUTO, KV_FP8, KV_INT8, KV_BF16, KV_FP32 };
const char *kv_dtype_name(enum kv_dtype t);
int kv_dtype_parse(const char *text, enum kv_dtype *out, struct err *e); /* auto, fp8 (fp8_e4m3, ...), int8, bf16,
										     * fp32 */

#endif
