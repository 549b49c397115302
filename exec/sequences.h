/* sequences.h: the tokens of every request of a workload: its prompt, then what was generated.
 *
 * A prompt's ids come from its text where a tokenizer is given and the trace has text, else they are seeded: each
 * content id of the trace stands for the same tokens wherever it appears, so that prompts share exactly what the trace
 * says they share; the rest is drawn for that request alone. Where a request's output has an identity (later prompts
 * hold it), its tokens are seeded by that identity as well, whatever the model would say: the trace tells the output. */
#ifndef EXEC_SEQUENCES_H
#define EXEC_SEQUENCES_H

#include <stdbool.h>
#include <stdint.h>

#include "core/workload.h"

struct err;
struct sequences;

/* w outlives it. Ids are below vocab. shared_tags: equal prefixes have equal tags (prefix caching); else each request's
 * are its own. */
int sequences_create(struct sequences **out, const struct workload *w, int32_t vocab, uint64_t seed, bool shared_tags,
		     struct err *e);
void sequences_free(struct sequences *s);
/* Gives request req these prompt ids (text that was tokenized); n must be its prompt_tokens. Before its first step. */
int sequences_set_prompt(struct sequences *s, int32_t req, const int32_t *ids, int32_t n, struct err *e);

/* Makes sure the prompt is there; then tokens[0 .. n) are prompt and outputs so far, tags the same (sequences.c says what a
 * tag is; NULL = not wanted). Both live until the next call for this request. */
int sequences_get(struct sequences *s, int32_t req, const int32_t **tokens, const uint64_t **tags, int32_t *n,
		  struct err *e);
/* Appends an output: `token`, or what the trace says it is (spec.output_id). */
int sequences_append(struct sequences *s, int32_t req, int32_t token, struct err *e);
/* Outputs so far. */
const int32_t *sequences_outputs(const struct sequences *s, int32_t req, int32_t *n);
/* The request will not run again: only its outputs are kept. */
void sequences_ended(struct sequences *s, int32_t req);

#endif
