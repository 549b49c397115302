/* sampler.h: the next token from logits: greedy, or temperature with top-k and top-p, from a seeded stream. */
#ifndef EXEC_SAMPLER_H
#define EXEC_SAMPLER_H

#include <stdint.h>

#include "core/rng.h"

struct err;

struct sampling {
	double temperature; /* 0 = greedy: the lowest id of the largest logit */
	int32_t top_k; /* 0 = all */
	double top_p; /* 1 = all: the smallest set of most likely tokens whose probabilities reach it */
	uint64_t seed;
};
#define SAMPLING_GREEDY ((struct sampling){.top_p = 1})

/* ERR_INPUT names what is not a choice. */
int sampling_check(const struct sampling *s, struct err *e);

struct sampler;
int sampler_create(struct sampler **out, const struct sampling *s, int32_t vocab, struct err *e);
void sampler_free(struct sampler *s);
/* Which token follows. `stream` and `nth` (request and output number) choose the random number, so that a request's
 * tokens do not depend on what runs beside it. logits[vocab] on the host, left as they are. */
int32_t sampler_next(struct sampler *s, const float *logits, uint64_t stream, int64_t nth);

#endif
