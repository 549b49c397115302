#include "analysis/case_shrink.h"

#include <string.h>

static bool still_fails(const struct random_case *c, struct shrink *s)
{
	if (c->n < 1 || s->tries == 0)
		return false;
	s->tries -= s->tries > 0;
	return s->fails(s->ctx, c);
}

/* Keeps what was tried when it still fails. */
static bool keep_if_failing(struct random_case *c, struct random_case *tried, struct shrink *s)
{
	if (still_fails(tried, s)) {
		random_case_free(c);
		*c = *tried;
		return true;
	}
	random_case_free(tried);
	return false;
}

static bool drop_each(struct random_case *c, struct shrink *s)
{
	bool any = false;
	for (int32_t i = c->n - 1; i >= 0 && c->n > 1; i--) {
		struct random_case tried;
		if (random_case_copy(&tried, c))
			return any;
		random_case_drop(&tried, i);
		any |= keep_if_failing(c, &tried, s);
	}
	return any;
}

void case_drop_requests(struct random_case *c, struct shrink *s)
{
	while (drop_each(c, s))
		;
}

static bool shrink_number(struct random_case *c, int32_t *at, int32_t least, struct shrink *s)
{
	int32_t was = *at, tries[] = {least, was / 2, was - 1};
	for (int i = 0; i < 3; i++) {
		if (tries[i] >= was || tries[i] < least)
			continue;
		*at = tries[i];
		if (still_fails(c, s))
			return true;
		*at = was;
	}
	return false;
}

static bool drop_parents(struct random_case *c, int32_t i, struct shrink *s)
{
	struct random_case tried;
	if (!c->reqs[i].n_parents || random_case_copy(&tried, c))
		return false;
	tried.reqs[i].n_parents = 0;
	random_case_tidy(&tried);
	return keep_if_failing(c, &tried, s);
}

static bool shrink_request(struct random_case *c, int32_t i, struct shrink *s)
{
	struct case_req *q = &c->reqs[i], was;
	bool any = false;
	any |= shrink_number(c, &q->prompt, 1, s);
	any |= shrink_number(c, &q->output, 0, s);
	any |= shrink_number(c, &q->max_tokens, 1, s);
	any |= shrink_number(c, &q->priority, 0, s);
	any |= shrink_number(c, &q->tenant, 0, s);
	any |= shrink_number(c, &q->slo_ttft_ms, 0, s);
	any |= shrink_number(c, &q->n_segments, 0, s);
	any |= drop_parents(c, i, s);
	q = &c->reqs[i];
	if (q->fork_at) {
		any |= shrink_number(c, &q->fork_at, 1, s);
		was = *q;
		q->fork_at = 0;
		if (still_fails(c, s))
			any = true;
		else
			*q = was;
	}
	was = *q;
	if (q->output_id) {
		q->output_id = 0;
		if (still_fails(c, s))
			any = true;
		else
			*q = was;
	}
	return any;
}

static bool shrink_features(struct random_case *c, struct shrink *s)
{
	struct engine_config *g = &c->cfg, was = *g;
	bool *const switches[] = {&g->kv_off, &g->cache_prompts_only, &g->async_scheduling};
	bool any = false;
	if (g->prefix_caching) {
		random_case_no_cache(c);
		if (still_fails(c, s))
			any = true;
		else
			*g = was;
	}
	for (int i = 0; i < 3; i++) {
		if (!*switches[i])
			continue;
		*switches[i] = false;
		if (still_fails(c, s))
			any = true;
		else
			*switches[i] = true;
	}
	was = *g;
	g->abort_after_ns = 0;
	if (was.abort_after_ns && still_fails(c, s))
		any = true;
	else
		*g = was;
	return any;
}

static bool shrink_costs(struct random_case *c, struct shrink *s)
{
	int64_t *const costs[] = {&c->cost_a, &c->cost_b, &c->cost_c, &c->cost_d};
	bool any = false;
	for (int i = 0; i < 4; i++) {
		int64_t cost = *costs[i], least = i == 0;
		if (cost == least)
			continue;
		*costs[i] = least;
		if (still_fails(c, s))
			any = true;
		else
			*costs[i] = cost;
	}
	return any;
}

static bool shrink_limits(struct random_case *c, struct shrink *s)
{
	struct engine_config *g = &c->cfg;
	bool any = shrink_number(c, &g->max_concurrency, 0, s);
	any |= shrink_number(c, &g->window, 0, s);
	any |= shrink_number(c, &g->kv_window, 1, s);
	any |= shrink_number(c, &g->kv_sink, 1, s);
	any |= shrink_number(c, &g->max_num_seqs, 1, s);
	any |= shrink_number(c, &g->num_blocks, 1, s);
	any |= shrink_number(c, &g->max_num_batched_tokens, 1, s);
	return any;
}

void case_shrink(struct random_case *c, struct shrink *s)
{
	for (bool any = true; any;) {
		any = drop_each(c, s);
		for (int32_t i = 0; i < c->n; i++)
			any |= shrink_request(c, i, s);
		any |= shrink_features(c, s);
		any |= shrink_limits(c, s);
		any |= shrink_costs(c, s);
	}
}
