#include "analysis/decisions.h"

#include <stdio.h>

#include "core/rng.h"

const char *decision_line(const struct event *ev, char line[DECISION_LINE])
{
	if (ev->kind == EVENT_STEP)
		snprintf(line, DECISION_LINE, "%lld %.3f ms: step ends at %.3f ms\n", (long long)ev->step,
			 (double)ev->a / 1e6, (double)ev->b / 1e6);
	else
		snprintf(line, DECISION_LINE, "%lld %.3f ms: %s %d %lld %lld\n", (long long)ev->step,
			 (double)ev->at_ns / 1e6, event_name(ev->kind), ev->req, (long long)ev->a, (long long)ev->b);
	return line;
}

static uint64_t fold(uint64_t h, int64_t v)
{
	return rng_mix(h ^ (uint64_t)v) + (h << 1);
}

void decision_hash_add(struct decision_hash *h, const struct event *ev)
{
	uint64_t what = fold(fold(fold((uint64_t)ev->kind, ev->req), ev->a), ev->b);
	h->all = fold(fold(fold(h->all, (int64_t)what), ev->at_ns), ev->step);
	h->n++;
	if (ev->kind != EVENT_BLOCK && ev->kind != EVENT_DROP)
		return;
	h->memory = fold(h->memory, (int64_t)what);
	h->n_memory++;
}

/* The number of events tells an empty log from none, and a log from its beginning. */
static uint64_t value(uint64_t h, int64_t n)
{
	uint64_t v = rng_mix(h ^ rng_mix((uint64_t)n));
	return n == 0 ? 0 : v ? v : 1;
}

uint64_t decision_hash_value(const struct decision_hash *h)
{
	return value(h->all, h->n);
}

uint64_t decision_hash_memory(const struct decision_hash *h)
{
	return value(h->memory, h->n_memory);
}
