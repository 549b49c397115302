/* Forks: what they share with their parent, said in content ids, so that whoever looks at contents (prefix caches, prompts
 * for real models, statistics) need not know of forks. */
#include "core/mem.h"
#include "core/rng.h"
#include "core/workload.h"
#include "core/err.h"

/* An id that nothing else has but by accident. */
static uint64_t made_up(int32_t req, uint64_t salt)
{
	return rng_mix(salt ^ rng_mix((uint64_t)(uint32_t)req + 1));
}

/* Ids of equal blocks become ids with a length each: a fork's contents end where they like. */
static int give_lengths(struct workload *w, struct err *e)
{
	if (w->seg_tokens || !w->n_hash_ids)
		return ERR_NONE;
	w->seg_tokens = mem_alloc((size_t)w->cap_hash_ids * sizeof *w->seg_tokens);
	if (!w->seg_tokens)
		return err_no_memory(e, "segment lengths");
	w->cap_seg_tokens = w->cap_hash_ids;
	for (int64_t k = 0; k < w->n_hash_ids; k++)
		w->seg_tokens[k] = w->hash_block;
	w->hash_block = 0;
	return ERR_NONE;
}

/* Tokens of a prompt that its ids cover. */
static int64_t covered(const struct workload *w, const struct spec *s)
{
	int64_t n = 0;
	for (int64_t k = s->hash_at; k < s->hash_at + s->n_hashes; k++)
		n += w->seg_tokens ? w->seg_tokens[k] : w->hash_block;
	return n < s->prompt_tokens ? n : s->prompt_tokens;
}

/* The first `tokens` tokens of what from's ids cover, as ids of `to`, whose own they replace. */
static int copy_ids(struct workload *w, const struct spec *from, int64_t tokens, struct spec *to, struct err *e)
{
	int64_t at = 0, first = from->hash_at, n = from->n_hashes;
	to->hash_at = w->n_hash_ids;
	to->n_hashes = 0;
	for (int64_t k = first; k < first + n && at < tokens; k++) {
		int64_t len = w->seg_tokens[k] < tokens - at ? w->seg_tokens[k] : tokens - at;
		if (len > 0 && workload_add_segment(w, w->hash_ids[k], (int32_t)len, e))
			return ERR_MEMORY;
		to->n_hashes += len > 0;
		at += len;
	}
	return ERR_NONE;
}

static int add_id(struct workload *w, struct spec *s, uint64_t id, int64_t tokens, struct err *e)
{
	if (tokens <= 0)
		return ERR_NONE;
	s->n_hashes++;
	return workload_add_segment(w, id, (int32_t)tokens, e);
}

/* The whole prompt has ids from now on. */
static int cover_prompt(struct workload *w, int32_t req, struct err *e)
{
	struct spec s = w->specs[req];
	int64_t known = covered(w, &s);
	if (known == s.prompt_tokens)
		return ERR_NONE;
	if (give_lengths(w, e) || copy_ids(w, &w->specs[req], known, &s, e) ||
	    add_id(w, &s, made_up(req, 0x666f726b70726f6du), s.prompt_tokens - known, e))
		return ERR_MEMORY;
	w->specs[req] = s;
	return ERR_NONE;
}

int workload_fork(struct workload *w, int32_t parent, int32_t child, int32_t tokens, bool live, struct err *e)
{
	struct spec *p = &w->specs[parent], c = w->specs[child];
	c.fork_at = live ? tokens : -tokens;
	if (tokens > covered(w, p) && cover_prompt(w, parent, e))
		return ERR_MEMORY;
	if (tokens == p->prompt_tokens && tokens == c.prompt_tokens) { /* another sample: the same ids */
		c.hash_at = p->hash_at;
		c.n_hashes = p->n_hashes;
		w->specs[child] = c;
		return ERR_NONE;
	}
	if (tokens > p->prompt_tokens && !p->output_id)
		p->output_id = made_up(parent, 0x666f726b6f757470u);
	int64_t of_prompt = tokens < p->prompt_tokens ? tokens : p->prompt_tokens;
	if (give_lengths(w, e) || copy_ids(w, p, of_prompt, &c, e) ||
	    add_id(w, &c, p->output_id, tokens - of_prompt, e))
		return ERR_MEMORY;
	w->specs[child] = c;
	return ERR_NONE;
}

int workload_fork_parents(const struct workload *w, int32_t **parents, struct err *e)
{
	bool any = false;
	*parents = NULL;
	for (int64_t i = 0; i < w->n && !any && w->child_at; i++)
		any = w->specs[i].fork_at != 0;
	if (!any)
		return ERR_NONE;
	int32_t *of = mem_alloc((size_t)w->n * sizeof *of);
	if (!of)
		return err_no_memory(e, "forks");
	for (int64_t i = 0; i < w->n; i++)
		of[i] = -1;
	for (int64_t i = 0; i < w->n; i++)
		for (int64_t k = w->child_at[i]; k < w->child_at[i + 1]; k++)
			if (w->specs[w->child[k]].fork_at)
				of[w->child[k]] = (int32_t)i;
	*parents = of;
	return ERR_NONE;
}
