/* sampler.c: temperature first, then the k most likely, then of those the nucleus, as transformers and vLLM order them.
 * Where a rank is asked for, candidates come off a heap, most likely first, ties by the lower id: only as many as are
 * needed, never a sort of the whole vocabulary. */
#include "exec/sampler.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>

#include "core/err.h"
#include "core/mem.h"

struct candidate {
	double weight; /* e^((logit - largest) / temperature): in (0, 1] */
	int32_t id;
};

struct sampler {
	struct sampling how;
	int32_t vocab;
	struct candidate *candidates; /* [vocab]; NULL for greedy */
};

int sampling_check(const struct sampling *s, struct err *e)
{
	if (!(s->temperature >= 0 && s->temperature <= 1e6))
		return err_set(e, ERR_INPUT, "temperature is %g; it must be a number from 0 (greedy) on",
			       s->temperature);
	if (!(s->top_p > 0 && s->top_p <= 1))
		return err_set(e, ERR_INPUT, "top-p is %g; it must be above 0 and at most 1 (all)", s->top_p);
	if (s->top_k < 0)
		return err_set(e, ERR_INPUT, "top-k is %d; it must be 0 (all) or a number of tokens", s->top_k);
	return ERR_NONE;
}

int sampler_create(struct sampler **out, const struct sampling *s, int32_t vocab, struct err *e)
{
	int rc = sampling_check(s, e);
	*out = NULL;
	if (rc)
		return rc;
	struct sampler *p = mem_zalloc(1, sizeof *p);
	if (p && s->temperature > 0)
		p->candidates = mem_zalloc((size_t)vocab, sizeof *p->candidates);
	if (!p || (s->temperature > 0 && !p->candidates)) {
		mem_free(p);
		return err_no_memory(e, "a sampler");
	}
	p->how = *s;
	p->vocab = vocab;
	*out = p;
	return ERR_NONE;
}

void sampler_free(struct sampler *s)
{
	if (s)
		mem_free(s->candidates);
	mem_free(s);
}

static int32_t largest(const float *logits, int32_t n)
{
	int32_t at = 0;
	float best = -INFINITY;
	for (int32_t i = 0; i < n; i++)
		if (logits[i] > best) {
			best = logits[i];
			at = i;
		}
	return at;
}

static bool before(const struct candidate *a, const struct candidate *b)
{
	return a->weight != b->weight ? a->weight > b->weight : a->id < b->id;
}

/* heap[i]'s children may come before it: sink it. */
static void sink(struct candidate *heap, int32_t n, int32_t i)
{
	struct candidate c = heap[i];
	for (int64_t child; (child = 2 * (int64_t)i + 1) < n; i = (int32_t)child) {
		if (child + 1 < n && before(&heap[child + 1], &heap[child]))
			child++;
		if (!before(&heap[child], &c))
			break;
		heap[i] = heap[child];
	}
	heap[i] = c;
}

/* Takes off the most likely until there are `most` of them or their weights reach `mass`. They end up at the array's end,
 * the first at n - 1, downwards. Returns how many, and their weight in *got. */
static int32_t take(struct candidate *heap, int32_t n, int32_t most, double mass, double *got)
{
	int32_t taken = 0;
	*got = 0;
	while (taken < most && *got < mass) {
		int32_t last = n - 1 - taken;
		struct candidate top = heap[0];
		heap[0] = heap[last];
		heap[last] = top;
		sink(heap, last, 0);
		*got += top.weight;
		taken++;
	}
	return taken;
}

/* Fills the candidates whose weight is not 0; returns how many. */
static int32_t weigh(struct sampler *s, const float *logits, float best, double *total)
{
	int32_t n = 0;
	*total = 0;
	for (int32_t i = 0; i < s->vocab; i++) {
		double w = exp(((double)logits[i] - (double)best) / s->how.temperature);
		if (!(w >= DBL_MIN))
			continue;
		s->candidates[n++] = (struct candidate){w, i};
		*total += w;
	}
	return n;
}

/* Keeps the k most likely, then the nucleus. They are then the last *n of the array, first at its end. */
static struct candidate *cut(struct sampler *s, int32_t *n, double *total)
{
	struct candidate *c = s->candidates;
	int32_t k = s->how.top_k > 0 && s->how.top_k < *n ? s->how.top_k : *n;
	double got;
	if (k == *n && s->how.top_p >= 1)
		return c;
	for (int32_t i = *n / 2 - 1; i >= 0; i--)
		sink(c, *n, i);
	if (k == *n) {
		int32_t kept = take(c, *n, k, s->how.top_p * *total, &got);
		c += *n - kept;
		*n = kept;
		*total = got;
		return c;
	}
	take(c, *n, k, INFINITY, total);
	c += *n - k;
	*n = k;
	if (s->how.top_p >= 1)
		return c;
	int32_t kept = 0;
	for (got = 0; kept < k && got < s->how.top_p * *total; kept++)
		got += c[k - 1 - kept].weight;
	*n = kept;
	*total = got;
	return c + k - kept;
}

int32_t sampler_next(struct sampler *s, const float *logits, uint64_t stream, int64_t nth)
{
	struct rng r;
	double total;
	int32_t first = largest(logits, s->vocab);
	if (s->how.temperature <= 0 || !isfinite(logits[first]))
		return first;
	int32_t n = weigh(s, logits, logits[first], &total);
	const struct candidate *c = cut(s, &n, &total);
	rng_init(&r, s->how.seed, rng_mix(stream) + (uint64_t)nth);
	double at = rng_unit(&r) * total;
	for (int32_t i = 0; i < n; i++) {
		at -= c[i].weight;
		if (at < 0)
			return c[i].id;
	}
	return first; /* rounding at the very end */
}
