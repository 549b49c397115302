/* The tokens of every request. A sequence is made when it is first asked for and gives up all but its outputs when it
 * has ended, so that a long trace needs memory for what runs and waits, not for what it holds.
 *
 * Tag of token j: mixed from the tag of token j - 1 and token j, from a start that is the same for all (shared_tags) or
 * the request's own. So a tag stands for everything up to its token: which sequence, which place, which token. A fork's tags are its
 * parent's as far as it is one, and its own from there on. */
#include "exec/sequences.h"

#include <string.h>

#include "core/err.h"
#include "core/mem.h"
#include "core/rng.h"
#include "exec/prompts.h"

struct sequence {
	int32_t *tokens; /* [n] prompt, then outputs; when ended outputs alone */
	uint64_t *tags; /* [n_tags] of the first so many tokens */
	int64_t cap, cap_tags;
	int32_t prompt, n, n_tags; /* prompt = 0 when ended */
	bool ended;
};

struct sequences {
	const struct workload *w;
	struct sequence **of; /* [w->n] NULL until asked for */
	int32_t vocab;
	uint64_t seed;
	bool shared_tags;
	int32_t *parents; /* [w->n] whose fork each is, -1; NULL = nobody's */
};

int sequences_create(struct sequences **out, const struct workload *w, int32_t vocab, uint64_t seed, bool shared_tags,
		     struct err *e)
{
	struct sequences *s = mem_zalloc(1, sizeof *s);
	if (s)
		s->of = mem_zalloc((size_t)(w->n > 0 ? w->n : 1), sizeof *s->of);
	if (!s || !s->of || workload_fork_parents(w, &s->parents, NULL)) {
		if (s)
			mem_free(s->of);
		mem_free(s);
		return err_no_memory(e, "the requests' tokens");
	}
	s->w = w;
	s->vocab = vocab;
	s->seed = seed;
	s->shared_tags = shared_tags;
	*out = s;
	return ERR_NONE;
}

static void sequence_free(struct sequence *q)
{
	if (!q)
		return;
	mem_free(q->tokens);
	mem_free(q->tags);
	mem_free(q);
}

void sequences_free(struct sequences *s)
{
	if (!s)
		return;
	for (int64_t i = 0; i < s->w->n; i++)
		sequence_free(s->of[i]);
	mem_free(s->of);
	mem_free(s->parents);
	mem_free(s);
}

/* With room for its prompt, the ids of which are the caller's to fill in. */
static struct sequence *make(struct sequences *s, int32_t req, struct err *e)
{
	int32_t prompt = s->w->specs[req].prompt_tokens;
	struct sequence *q = mem_zalloc(1, sizeof *q);
	if (!q || mem_grow((void **)&q->tokens, &q->cap, (int64_t)prompt + 1, sizeof *q->tokens)) {
		mem_free(q);
		err_no_memory(e, "a prompt's tokens");
		return NULL;
	}
	q->prompt = q->n = prompt;
	return s->of[req] = q;
}

static struct sequence *find(struct sequences *s, int32_t req, struct err *e)
{
	char buf[24];
	if (!s->of[req] && make(s, req, e))
		prompt_fill(s->w, req, s->seed, s->vocab, s->of[req]->tokens);
	struct sequence *q = s->of[req];
	if (q && q->ended) {
		err_set(e, ERR_INVARIANT, "request %s runs though it has ended", workload_name(s->w, req, buf));
		return NULL;
	}
	return q;
}

int sequences_set_prompt(struct sequences *s, int32_t req, const int32_t *ids, int32_t n, struct err *e)
{
	char buf[24];
	const char *name = workload_name(s->w, req, buf);
	if (s->of[req])
		return err_set(e, ERR_INVARIANT, "request %s was given its prompt too late", name);
	if (n != s->w->specs[req].prompt_tokens)
		return err_set(e, ERR_INPUT, "request %s: its prompt is %d tokens of this tokenizer, the trace says %d",
			       name, n, s->w->specs[req].prompt_tokens);
	for (int32_t i = 0; i < n; i++)
		if (ids[i] < 0 || ids[i] >= s->vocab)
			return err_set(
				e, ERR_INPUT,
				"request %s: token %d of its prompt is %d, the model knows 0 to %d: use the model's "
				"own tokenizer",
				name, i, ids[i], s->vocab - 1);
	struct sequence *q = make(s, req, e);
	if (!q)
		return ERR_MEMORY;
	memcpy(q->tokens, ids, (size_t)n * sizeof *ids);
	return ERR_NONE;
}

/* What is mixed into token j's tag besides: whose tokens begin there. Of an ancestor's forks that lie beyond where a nearer one
 * left it nothing is seen. */
static uint64_t whose(const struct sequences *s, int32_t req, int32_t j)
{
	int32_t seen = INT32_MAX;
	for (int32_t x = req; s->parents; x = s->parents[x]) {
		int32_t at = s->parents[x] < 0 ? 0 : spec_fork_tokens(&s->w->specs[x]);
		if (at < seen && at == j)
			return rng_mix((uint64_t)(uint32_t)x + 1);
		if (s->parents[x] < 0)
			return 0;
		seen = at < seen ? at : seen;
	}
	return j == 0 ? rng_mix((uint64_t)(uint32_t)req + 1) : 0;
}

static int extend_tags(const struct sequences *s, struct sequence *q, int32_t req, struct err *e)
{
	if (mem_grow((void **)&q->tags, &q->cap_tags, q->n, sizeof *q->tags))
		return err_no_memory(e, "tags of tokens");
	uint64_t tag = q->n_tags ? q->tags[q->n_tags - 1] : 0;
	for (; q->n_tags < q->n; q->n_tags++) {
		if (!s->shared_tags && (s->parents || !q->n_tags))
			tag ^= whose(s, req, q->n_tags);
		q->tags[q->n_tags] = tag = rng_mix(tag ^ rng_mix((uint64_t)(uint32_t)q->tokens[q->n_tags]));
	}
	return ERR_NONE;
}

int sequences_get(struct sequences *s, int32_t req, const int32_t **tokens, const uint64_t **tags, int32_t *n,
		  struct err *e)
{
	struct sequence *q = find(s, req, e);
	if (!q)
		return e ? (int)e->code : ERR_MEMORY;
	if (tags && extend_tags(s, q, req, e))
		return ERR_MEMORY;
	if (tags)
		*tags = q->tags;
	*tokens = q->tokens;
	*n = q->n;
	return ERR_NONE;
}

int sequences_append(struct sequences *s, int32_t req, int32_t token, struct err *e)
{
	struct sequence *q = find(s, req, e);
	if (!q)
		return e ? (int)e->code : ERR_MEMORY;
	if (mem_grow((void **)&q->tokens, &q->cap, (int64_t)q->n + 1, sizeof *q->tokens))
		return err_no_memory(e, "a request's tokens");
	uint64_t id = s->w->specs[req].output_id;
	q->tokens[q->n] = id ? prompt_token(s->w, s->seed, id, q->n - q->prompt, s->vocab) : token;
	q->n++;
	return ERR_NONE;
}

const int32_t *sequences_outputs(const struct sequences *s, int32_t req, int32_t *n)
{
	const struct sequence *q = s->of[req];
	*n = q ? q->n - q->prompt : 0;
	return q && *n ? q->tokens + q->prompt : NULL;
}

void sequences_ended(struct sequences *s, int32_t req)
{
	struct sequence *q = s->of[req];
	if (!q || q->ended)
		return;
	int32_t outputs = q->n - q->prompt;
	mem_free(q->tags);
	q->tags = NULL;
	memmove(q->tokens, q->tokens + q->prompt, (size_t)outputs * sizeof *q->tokens);
	/* Smaller never fails in earnest; when it does, the larger one serves. */
	int32_t *kept = mem_realloc(q->tokens, (size_t)(outputs ? outputs : 1) * sizeof *kept);
	if (kept)
		q->tokens = kept;
	q->n = outputs;
	q->prompt = q->n_tags = 0;
	q->ended = true;
}
