/* content.h: what a request's tokens are, as far as sharing goes, without the tokens: identities of full pages, each of
 * the page and everything before it, so that equal identities mean equal prefixes.
 *
 * A prefix is known by the pieces it consists of: the identities and lengths of those that ended, that of the one it ends
 * in, and how far it reaches. So a page costs a few instructions, however many tokens it holds. The identities of
 * CONTENT_GROUP neighbours differ in their last bits alone: an index by identity (core/kv_pool.h) finds them side by side. */
#ifndef CORE_CONTENT_H
#define CORE_CONTENT_H

#include <stdint.h>

#include "core/prefix.h"
#include "core/workload.h"

#define CONTENT_GROUP 8 /* pages; a power of two */

/* Walks the pages of one request from its first token: content ids of the prompt, then whatever of the prompt no id
 * covers (this request's alone), then generated tokens (spec.output_id, or this request's alone). */
struct content_walk {
	const struct workload *w;
	const struct spec *spec;
	uint64_t before; /* identity of the pieces that have ended */
	uint64_t id; /* of the current piece, after them */
	uint64_t group; /* identity of the last page, but for its place in its group */
	int64_t token; /* where the last page ended */
	int64_t piece; /* current content id: index into spec's ids; n_hashes = the prompt's rest; + 1 = generated */
	int64_t begin, end; /* tokens the current piece covers */
	int64_t index; /* of the last page, -1 before the first */
	int32_t page; /* tokens */
	int32_t req;
};

void content_begin(struct content_walk *c, const struct workload *w, int32_t req, int32_t page_tokens);
/* The same where only requests of one tenant or session share. */
void content_begin_salted(struct content_walk *c, const struct workload *w, int32_t req, int32_t page_tokens,
			  enum cache_salt salt);
/* What keeps this request's contents apart from others'; 0 = nothing. */
uint64_t content_salt(const struct workload *w, int32_t req, enum cache_salt salt);
/* Identities of the next n pages. */
void content_fill(struct content_walk *c, uint64_t *keys, int32_t n);
/* Moves on by some pages at once. */
void content_skip(struct content_walk *c, int64_t pages);

/* The walk's token and index have moved on past a piece or group. */
void content_turn(struct content_walk *c);

/* Identity of the next page, never 0; the walk moves on by one page. */
static inline uint64_t content_next(struct content_walk *c)
{
	c->token += c->page;
	c->index++;
	if (c->token > c->end || c->index % CONTENT_GROUP == 0)
		content_turn(c);
	return c->group ^ (uint64_t)(c->index % CONTENT_GROUP);
}

#endif
