#include "core/content.h"

#include "core/rng.h"

/* Ids that only this request can have: no trace id is a mix of these salts by anything but accident. */
static uint64_t private_id(int32_t req, uint64_t salt)
{
	return rng_mix(salt ^ rng_mix((uint64_t)(uint32_t)req + 1));
}

static void enter_piece(struct content_walk *c)
{
	const struct spec *s = c->spec;
	c->begin = c->end;
	if (c->piece < s->n_hashes) {
		int64_t at = s->hash_at + c->piece;
		c->id = c->w->hash_ids[at];
		c->end += c->w->seg_tokens ? c->w->seg_tokens[at] : c->w->hash_block;
		if (c->end > s->prompt_tokens)
			c->end = s->prompt_tokens;
	} else if (c->piece == s->n_hashes) {
		c->id = private_id(c->req, 0x70726f6d70747461u);
		c->end = s->prompt_tokens;
	} else {
		c->id = s->output_id ? s->output_id : private_id(c->req, 0x6f75747075747461u);
		c->end = INT64_MAX;
	}
}

void content_begin(struct content_walk *c, const struct workload *w, int32_t req, int32_t page_tokens)
{
	*c = (struct content_walk){.w = w, .spec = &w->specs[req], .page = page_tokens, .req = req};
	enter_piece(c);
}

uint64_t content_next(struct content_walk *c)
{
	uint64_t h = c->chain;
	int64_t stop = c->token + c->page;
	while (c->token < stop) {
		while (c->token >= c->end) {
			c->piece++;
			enter_piece(c);
		}
		int64_t upto = c->end < stop ? c->end : stop;
		h = rng_mix(h ^ rng_mix(c->id));
		h = rng_mix(h + (uint64_t)(c->token - c->begin) * 0x9e3779b97f4a7c15u + (uint64_t)(upto - c->token));
		c->token = upto;
	}
	c->chain = h ? h : 1;
	return c->chain;
}
