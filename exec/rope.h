/* rope.h: the angles of rotary position embeddings. */
#ifndef EXEC_ROPE_H
#define EXEC_ROPE_H

#include <stdint.h>

#include "models/model.h"

/* Frequencies of the head_dim / 2 pairs, scaled as the model says, into freq. */
void rope_frequencies(const struct model *m, double *freq);
/* cos and sin of positions from .. to - 1: each [to - from][head_dim / 2]. */
void rope_fill(const double *freq, int32_t pairs, int32_t from, int32_t to, float *cosines, float *sines);

#endif
