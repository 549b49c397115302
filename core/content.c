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
	uint64_t id;
	c->begin = c->end;
	if (c->piece < s->n_hashes) {
		int64_t at = s->hash_at + c->piece;
		id = c->w->hash_ids[at];
		c->end += c->w->seg_tokens ? c->w->seg_tokens[at] : c->w->hash_block;
		if (c->end > s->prompt_tokens)
			c->end = s->prompt_tokens;
	} else if (c->piece == s->n_hashes) {
		id = private_id(c->req, 0x70726f6d70747461u);
		c->end = s->prompt_tokens;
	} else {
		id = s->output_id ? s->output_id : private_id(c->req, 0x6f75747075747461u);
		c->end = INT64_MAX;
	}
	c->id = rng_mix(c->before ^ rng_mix(id));
}

uint64_t content_salt(const struct workload *w, int32_t req, enum cache_salt salt)
{
	const struct spec *s = &w->specs[req];
	int32_t who = salt == CACHE_SALT_TENANT ? s->tenant : salt == CACHE_SALT_SESSION ? s->session + 1 : 0;
	return who ? rng_mix(0x73616c7473616c74u ^ rng_mix((uint64_t)(uint32_t)who)) : 0;
}

void content_begin_salted(struct content_walk *c, const struct workload *w, int32_t req, int32_t page_tokens,
			  enum cache_salt salt)
{
	*c = (struct content_walk){.w = w,
				   .spec = &w->specs[req],
				   .before = content_salt(w, req, salt),
				   .page = page_tokens,
				   .req = req,
				   .index = -1};
	enter_piece(c);
}

void content_begin(struct content_walk *c, const struct workload *w, int32_t req, int32_t page_tokens)
{
	content_begin_salted(c, w, req, page_tokens, CACHE_SALT_NONE);
}

void content_turn(struct content_walk *c)
{
	while (c->token > c->end) {
		/* An empty piece leaves no trace. */
		if (c->end > c->begin)
			c->before = rng_mix(c->id + (uint64_t)(c->end - c->begin) * 0x9e3779b97f4a7c15u);
		c->piece++;
		enter_piece(c);
	}
	c->group = rng_mix(c->id ^ rng_mix((uint64_t)(c->index / CONTENT_GROUP)));
	if (c->group < CONTENT_GROUP) /* 0 is no identity */
		c->group += CONTENT_GROUP;
}

void content_fill(struct content_walk *c, uint64_t *keys, int32_t n)
{
	struct content_walk walk = *c; /* in registers */
	for (int32_t i = 0; i < n;) {
		keys[i++] = content_next(&walk);
		/* The rest of its group follows from it, unless a piece ends within. */
		int32_t place = (int32_t)(walk.index % CONTENT_GROUP), rest = CONTENT_GROUP - 1 - place;
		if (rest > n - i || walk.token + (int64_t)rest * walk.page > walk.end)
			continue;
		for (int32_t k = 1; k <= rest; k++)
			keys[i++] = walk.group ^ (uint64_t)(place + k);
		walk.index += rest;
		walk.token += (int64_t)rest * walk.page;
	}
	*c = walk;
}

void content_skip(struct content_walk *c, int64_t pages)
{
	if (pages <= 0)
		return;
	c->token += pages * c->page;
	c->index += pages;
	content_turn(c);
}
