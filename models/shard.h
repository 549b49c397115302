/* shard.h: one device's part of a model that several devices hold together (tensor parallelism as in Megatron-LM: Shoeybi
 * et al., 2019, arXiv:1909.08053).
 *
 * Split: query heads, KV heads (kept whole, so held several times, where there are fewer of them than devices), the width
 * of MLPs and of each expert, and the vocabulary of embedding and LM head (rounded up). Whole on every device: the hidden
 * state, norms, routers, MLA's latents and so its KV cache. */
#ifndef MODELS_SHARD_H
#define MODELS_SHARD_H

#include "models/model.h"

/* The part of one of `ranks` devices, its params counted anew. Its layers are m's own: m must outlive it, and it needs no
 * model_free. ranks = 1: m itself. ERR_INPUT: heads or widths cannot be split so. */
int model_shard(struct model *out, const struct model *m, int32_t ranks, struct err *e);

#endif
