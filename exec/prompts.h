/* prompts.h: token ids for prompts of which the trace tells only lengths and what they share. Place k of content `id` is
 * the same token wherever the id appears: a content id of the trace, the identity of an output that later prompts hold,
 * or a request's own rest. What the memory manager takes for equal pages (core/content.h: the same ids, places and
 * lengths from the start) are therefore equal tokens. */
#ifndef EXEC_PROMPTS_H
#define EXEC_PROMPTS_H

#include <stdint.h>

#include "core/workload.h"

/* The token of the content's text where the workload knows it (its tokenizer must be the model's own), else one drawn
 * below vocab. */
int32_t prompt_token(const struct workload *w, uint64_t seed, uint64_t id, int64_t place, int32_t vocab);
/* The prompt of request req: specs[req].prompt_tokens ids. */
void prompt_fill(const struct workload *w, int32_t req, uint64_t seed, int32_t vocab, int32_t *ids);

#endif
