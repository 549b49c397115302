/* content.h: what a request's tokens are, as far as sharing goes, without the tokens: identities of full pages, chained
 * so that equal identities mean equal prefixes. */
#ifndef CORE_CONTENT_H
#define CORE_CONTENT_H

#include <stdint.h>

#include "core/workload.h"

/* Walks the pages of one request from its first token: content ids of the prompt, then whatever of the prompt no id
 * covers (this request's alone), then generated tokens (spec.output_id, or this request's alone). */
struct content_walk {
	const struct workload *w;
	const struct spec *spec;
	uint64_t chain; /* identity of the last page, 0 before the first */
	int64_t token; /* first token of the next page */
	int64_t piece; /* current content id: index into spec's ids; n_hashes = the prompt's rest; + 1 = generated */
	int64_t begin, end; /* tokens the current piece covers */
	uint64_t id;
	int32_t page;
	int32_t req;
};

void content_begin(struct content_walk *c, const struct workload *w, int32_t req, int32_t page_tokens);
/* Identity of the next page, never 0; the walk moves on by one page. */
uint64_t content_next(struct content_walk *c);

#endif
