#include "exec/tape_batch.h"

#include <stddef.h>

#include "core/err.h"
#include "core/rng.h"

static uint64_t fold(uint64_t h, int64_t v)
{
	return rng_mix(h ^ (uint64_t)v) + (h << 1);
}

int tape_flight_begin(struct tape_flights *f, const struct batch *b, struct err *e)
{
	if (f->begun - f->ended > 1)
		return err_set(e, ERR_INVARIANT, "step %lld is the third in flight", (long long)b->step);
	uint64_t h = fold(fold(fold(0, b->n_chunks), b->prefill_tokens), b->sampled);
	h = fold(h, b->running);
	for (int32_t i = 0; i < b->n_chunks; i++) {
		const struct chunk *c = &b->chunks[i];
		h = fold(fold(fold(h, c->req), c->start), c->len);
		h = fold(fold(h, c->pad), c->samples);
	}
	f->at[f->begun++ & 1] = (struct tape_flight){.step = b->step,
						     .decode_ctx = b->decode_ctx,
						     .repeat = b->repeat,
						     .until_ns = b->until_ns,
						     .decodes = b->decodes,
						     .rest = h};
	return ERR_NONE;
}

const struct tape_flight *tape_flight_oldest(const struct tape_flights *f)
{
	return f->begun > f->ended ? &f->at[f->ended & 1] : NULL;
}

uint64_t tape_flight_digest(const struct tape_flights *f, int64_t i)
{
	const struct tape_flight *x = &f->at[f->ended & 1];
	return fold(fold(fold(x->rest, x->step + i), x->decodes), x->decode_ctx + i * x->decodes);
}

void tape_flight_end(struct tape_flights *f)
{
	f->ended++;
}
