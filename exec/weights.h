/* weights.h: a model's weights, one tensor at a time, from wherever they are: Hugging Face safetensors (one file, or a
 * folder with shards), llama2.c's .bin, or seeded random numbers of any shape. Files are memory-mapped. */
#ifndef EXEC_WEIGHTS_H
#define EXEC_WEIGHTS_H

#include <stdint.h>

#include "kernels/ops.h"
#include "models/model.h"

struct err;
struct weights;

enum tensor {
	TENSOR_EMBED, /* [vocab][hidden] */
	TENSOR_FINAL_NORM, /* [hidden] */
	TENSOR_HEAD, /* [vocab][hidden]; a tied model's is its embedding */
	/* Of each layer: */
	TENSOR_ATTENTION_NORM, /* [hidden] */
	TENSOR_Q, /* [n_heads * head_dim][hidden] */
	TENSOR_K, /* [n_kv_heads * head_dim][hidden] */
	TENSOR_V,
	TENSOR_O, /* [hidden][n_heads * head_dim] */
	TENSOR_Q_BIAS, /* [n_heads * head_dim]; the biases where the model has them (qkv_bias, o_bias, mlp_bias) */
	TENSOR_K_BIAS,
	TENSOR_V_BIAS,
	TENSOR_O_BIAS,
	TENSOR_Q_NORM, /* [head_dim]; qk_norm models */
	TENSOR_K_NORM,
	TENSOR_MLP_NORM, /* [hidden] */
	TENSOR_GATE, /* [intermediate][hidden] */
	TENSOR_UP,
	TENSOR_DOWN, /* [hidden][intermediate] */
	TENSOR_GATE_BIAS, /* [intermediate] */
	TENSOR_UP_BIAS,
	TENSOR_DOWN_BIAS, /* [hidden] */
	N_TENSORS
};

struct tensor_data {
	const void *data;
	enum num type; /* f32, bf16, f16 */
	int64_t rows, cols; /* a vector: 1 row */
};

/* `source`: "random:SEED"; a .bin of llama2.c; a .safetensors file, or a folder with them (and
 * model.safetensors.index.json). Everything is checked against m before it returns: ERR_INPUT names file and tensor.
 * Rows of q and k are in Hugging Face's order (RoPE pairs i, i + head_dim / 2) whatever the file's is. */
int weights_open(struct weights **out, const char *source, const struct model *m, struct err *e);
void weights_close(struct weights *w);
/* What is told by the source itself: the .bin's header, or config.json beside the safetensors. ERR_INPUT when it tells
 * nothing ("random:1"). Release with model_free. */
int weights_model(const char *source, struct model *m, struct err *e);

/* data lives until the next call (random, converted) or weights_close (mapped). Asking for what the model has not
 * (a bias, say) is ERR_INVARIANT. */
int weights_get(struct weights *w, enum tensor t, int32_t layer, struct tensor_data *out, struct err *e);
const char *weights_describe(const struct weights *w); /* "random:1 (bf16)", "model.safetensors (2 files, bf16)" */

#endif
