#include "exec/prompts.h"

#include "core/rng.h"

static int32_t drawn(uint64_t seed, uint64_t id, int64_t place, int32_t vocab)
{
	uint64_t stream = rng_mix(seed) ^ rng_mix(id);
	return (int32_t)(rng_mix(stream + (uint64_t)place * 0x9e3779b97f4a7c15u) % (uint64_t)vocab);
}

int32_t prompt_token(const struct workload *w, uint64_t seed, uint64_t id, int64_t place, int32_t vocab)
{
	int32_t known;
	const int32_t *text = workload_text(w, id, &known);
	return place < known ? text[place] : drawn(seed, id, place, vocab);
}

/* A number no trace's id is but by accident: what no id covers is this request's alone. */
static uint64_t own_id(int32_t req)
{
	return rng_mix(0x6f776e20726573u ^ rng_mix((uint64_t)(uint32_t)req + 1));
}

void prompt_fill(const struct workload *w, int32_t req, uint64_t seed, int32_t vocab, int32_t *ids)
{
	const struct spec *s = &w->specs[req];
	int64_t at = 0, n = s->prompt_tokens;
	for (int32_t k = 0; k <= s->n_hashes; k++) {
		bool rest = k == s->n_hashes;
		uint64_t id = rest ? own_id(req) : w->hash_ids[s->hash_at + k];
		int64_t len = rest ? n : w->seg_tokens ? w->seg_tokens[s->hash_at + k] : w->hash_block;
		int32_t known;
		const int32_t *text = workload_text(w, id, &known);
		for (int64_t place = 0; place < len && at < n; place++)
			ids[at++] = place < known ? text[place] : drawn(seed, id, place, vocab);
	}
}
