/* vLLM v1 (POLICIES, vllm_v1): running requests in order of admission, then waiting ones, all from one budget. */
#include "tests/support/model_world.h"

static int32_t smallest(int64_t a, int64_t b, int64_t c)
{
	int64_t m = a < b ? a : b;
	return (int32_t)(m < c ? m : c);
}

static int32_t capped(const struct world *w, int32_t n)
{
	int64_t threshold = model_value(w, "long_prefill_token_threshold");
	return threshold > 0 && n > threshold ? (int32_t)threshold : n;
}

/* The tail, or the largest (priority, arrival). */
static int32_t victim(const struct world *w)
{
	int32_t v = w->running[w->n_running - 1];
	for (int32_t i = 0; i < w->n_running && w->c->cfg.queue_order == QUEUE_PRIORITY; i++) {
		const struct mreq *x = &w->q[w->running[i]], *y = &w->q[v];
		if (x->priority != y->priority       ? x->priority > y->priority
		    : x->arrival_ns != y->arrival_ns ? x->arrival_ns > y->arrival_ns
						     : w->running[i] > v)
			v = w->running[i];
	}
	return v;
}

static int32_t tokens_of_row(const struct world *w, int32_t req)
{
	for (int32_t i = 0; i < w->plan->n; i++)
		if (w->plan->rows[i].req == req)
			return w->plan->rows[i].len;
	return 0;
}

static int32_t place_of(const struct world *w, int32_t req)
{
	int32_t i = 0;
	while (w->running[i] != req)
		i++;
	return i;
}

/* Whether anybody was preempted. */
static bool run_running(struct world *w, int32_t *budget)
{
	bool preempted = false;
	for (int32_t i = 0; i<w->n_running && * budget> 0; i++) {
		int32_t req = w->running[i], v = -1;
		struct mreq *q = &w->q[req];
		int32_t n = smallest(capped(w, world_need(w, req)), *budget, w->c->cfg.max_model_len - 1 - q->computed);
		if (n <= 0)
			continue;
		while (!pages_take(w, req, q->computed + n)) {
			v = victim(w);
			*budget += tokens_of_row(w, v);
			world_preempt(w, v, false);
			preempted = true;
			if (v == req)
				return true;
		}
		world_compute(w, req, n);
		*budget -= n;
		i = place_of(w, req); /* one before it may have gone */
	}
	return preempted;
}

/* Memory for what is computed now; room for the whole prompt and above the watermark has to be seen. */
static bool fits(const struct world *w, int32_t req, int32_t hit, int32_t idle_hits, int32_t n)
{
	int64_t keep = w->plan->n ? (int64_t)(model_fraction(w, "watermark") * w->total) : 0;
	int32_t now = world_pages(w, (int64_t)hit * w->c->cfg.block_size + n);
	int32_t whole = world_pages(w, world_tokens(w, req));
	if (model_value(w, "reserve_full_prompt") && whole > now)
		now = whole;
	return now - hit + idle_hits + keep <= pages_idle(w);
}

static void run_waiting(struct world *w, int32_t *budget)
{
	while (w->n_waiting > 0 && *budget > 0 && w->n_running < w->c->cfg.max_num_seqs) {
		int32_t req = w->waiting[0], idle = 0, hit = pages_hit(w, req, &idle);
		int32_t n = capped(w, world_tokens(w, req) - hit * w->c->cfg.block_size);
		if (n > *budget && !model_value(w, "enable_chunked_prefill"))
			return;
		n = n < *budget ? n : *budget;
		if (!fits(w, req, hit, idle, n))
			return;
		world_admit(w, req, hit);
		pages_take(w, req, w->q[req].computed + n);
		world_compute(w, req, n);
		*budget -= n;
	}
}

void plan_vllm_v1(struct world *w)
{
	int32_t budget = w->c->cfg.max_num_batched_tokens;
	if (!run_running(w, &budget))
		run_waiting(w, &budget);
}
