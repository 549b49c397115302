/* The replica that was given the longest beginning of this prompt before, as far as the trace tells what prompts share;
 * SGLang's cache-aware router does so (Zheng et al., 2024). When loads differ too much (more than 32 requests and more
 * than 1.1 times), or when less than half of the prompt was seen anywhere, the least loaded.
 *
 * What was given to whom is a table of prefixes: the chain of content ids up to each, and a bit for each replica. It
 * grows with what is routed and forgets nothing: an upper bound of what replicas still have. */
#include "sim/router.h"

#include "core/err.h"
#include "core/mem.h"

struct seen_prefix {
	uint64_t key; /* 0 = empty place */
	uint64_t replicas; /* a bit each */
};

struct prefixes {
	struct seen_prefix *at; /* [mask + 1] open addressing */
	int64_t mask, n;
};

enum { MAX_BITS = 64, ABS_IMBALANCE = 32 };

static int grow(struct prefixes *p, int64_t places)
{
	struct seen_prefix *old = p->at;
	int64_t n_old = p->at ? p->mask + 1 : 0;
	struct seen_prefix *at = mem_zalloc((size_t)places, sizeof *at);
	if (!at)
		return ERR_MEMORY;
	p->at = at;
	p->mask = places - 1;
	for (int64_t i = 0; i < n_old; i++) {
		if (!old[i].key)
			continue;
		int64_t k = (int64_t)(old[i].key & (uint64_t)p->mask);
		while (p->at[k].key)
			k = (k + 1) & p->mask;
		p->at[k] = old[i];
	}
	mem_free(old);
	return ERR_NONE;
}

static struct seen_prefix *find(struct prefixes *p, uint64_t key)
{
	int64_t k = (int64_t)(key & (uint64_t)p->mask);
	while (p->at[k].key && p->at[k].key != key)
		k = (k + 1) & p->mask;
	return &p->at[k];
}

static int open_prefixes(struct router *r, struct err *e)
{
	if (r->n > MAX_BITS)
		return err_set(e, ERR_INPUT, "prefix_affinity routes to %d replicas at most, not %d", MAX_BITS, r->n);
	struct prefixes *p = r->self = mem_zalloc(1, sizeof *p);
	if (!p || grow(p, 1 << 12))
		return err_no_memory(e, "a router");
	return ERR_NONE;
}

static void close_prefixes(struct router *r)
{
	struct prefixes *p = r->self;
	mem_free(p->at);
	mem_free(p);
}

static bool unbalanced(const struct router *r)
{
	int64_t least = INT64_MAX, most = 0;
	for (int32_t m = 0; m < r->n; m++) {
		least = r->seen[m].requests < least ? r->seen[m].requests : least;
		most = r->seen[m].requests > most ? r->seen[m].requests : most;
	}
	return most - least > ABS_IMBALANCE && 10 * most > 11 * least;
}

static uint64_t chain(uint64_t before, uint64_t id)
{
	uint64_t key = rng_mix(before ^ rng_mix(id));
	return key ? key : 1;
}

/* Replicas that were given the longest beginning; *pages of it. 0: nobody was given any. */
static uint64_t holders(struct prefixes *p, const struct workload *w, const struct spec *s, int32_t *pages)
{
	uint64_t all = ~UINT64_C(0), key = 0;
	*pages = 0;
	for (int32_t i = 0; i < s->n_hashes; i++) {
		key = chain(key, w->hash_ids[s->hash_at + i]);
		uint64_t here = find(p, key)->replicas & all;
		if (!here)
			break;
		all = here;
		*pages = i + 1;
	}
	return *pages ? all : 0;
}

/* Without memory for more of the table it forgets what is new: choices stay valid, and become less clever. */
static void note(struct prefixes *p, const struct workload *w, const struct spec *s, int32_t m)
{
	uint64_t key = 0;
	for (int32_t i = 0; i < s->n_hashes; i++) {
		key = chain(key, w->hash_ids[s->hash_at + i]);
		struct seen_prefix *x = find(p, key);
		if (!x->key) {
			if (2 * (p->n + 1) > p->mask && grow(p, 2 * (p->mask + 1)))
				return;
			x = find(p, key);
			x->key = key;
			p->n++;
		}
		x->replicas |= UINT64_C(1) << m;
	}
}

static int32_t choose(struct router *r, int32_t req)
{
	struct prefixes *p = r->self;
	const struct spec *s = &r->workload->specs[req];
	int32_t pages, best = -1;
	uint64_t who = unbalanced(r) ? 0 : holders(p, r->workload, s, &pages);
	if (who && 2 * pages >= s->n_hashes)
		for (int32_t m = 0; m < r->n; m++)
			if (who >> m & 1 && (best < 0 || r->seen[m].requests < r->seen[best].requests))
				best = m;
	if (best < 0)
		best = route_least(r, false);
	note(p, r->workload, s, best);
	return best;
}

const struct router_desc route_prefix_affinity = {
	"prefix_affinity", "who was given the longest beginning of the prompt before, unless that is much busier",
	open_prefixes, choose, close_prefixes};
