/* vllm_v1, also called chunked: no phases, every request is so many tokens short; a step's budget goes to the running ones first, then to new
 * ones, long prompts in pieces.
 * Follows: vLLM v1's scheduler (Kwon et al., SOSP'23; chunked prefill: Agrawal et al., OSDI'24).
 * Differs: swap is never used (nor is it in v1); encoder inputs, speculation and LoRA do not exist here.
 * Ours: shortage=drop, which takes pages from the middle of long contexts before anybody gives way.
 * Parameters: long_prefill_token_threshold, enable_chunked_prefill, reserve_full_prompt, watermark, shortage, drop_keep. */
#include "core/err.h"
#include "core/mem.h"
#include "core/policy.h"
#include "policies/registry.h"
#include "policies/walk.h"

struct vllm_v1 {
	int64_t threshold; /* most tokens of one prompt per step; 0 = no cap */
	bool chunking;
	bool whole_must_fit;
	bool least_important; /* gives way; else whom --victim says */
	int32_t watermark; /* blocks */
	bool drops;
	int32_t keep_pages; /* of each request, when pages are dropped */
};

enum { THRESHOLD, CHUNKING, RESERVE, WATERMARK, SHORTAGE, DROP_KEEP, N_PARAMS };

static const char *const shortage_names[] = {"preempt", "drop", NULL};

static const struct policy_param params[N_PARAMS] = {
	[THRESHOLD] = {"long_prefill_token_threshold", PARAM_INT, "0", 0, 1 << 30, NULL,
		       "tokens of one prompt per step at most, so that a long one leaves room for others; 0 = no cap"},
	[CHUNKING] = {"enable_chunked_prefill", PARAM_BOOL, "on", 0, 0, NULL,
		      "prompts may be computed in pieces; off: whole or not at all in a step"},
	[RESERVE] = {"reserve_full_prompt", PARAM_BOOL, "on", 0, 0, NULL,
		     "admit only when memory for the whole prompt is free, though it is taken piece by piece"},
	[WATERMARK] = {"watermark", PARAM_FLOAT, "0", 0, 1, NULL,
		       "share of all blocks that admission leaves free once something is scheduled"},
	[SHORTAGE] =
		{"shortage", PARAM_ENUM, "preempt", 0, 0, shortage_names,
		 "when memory runs out: preempt, or first drop the oldest page but the first of whoever holds most"},
	[DROP_KEEP] = {"drop_keep", PARAM_INT, "256", 1, 1 << 30, NULL,
		       "shortage=drop: tokens each request keeps at least, rounded up to pages"},
};

static int create(void **self, const union policy_value *values, const struct policy_setup *setup,
		  struct policy_traits *traits, struct err *e)
{
	if (values[THRESHOLD].i && !values[CHUNKING].i)
		return err_set(e, ERR_INPUT,
			       "policy vllm_v1: long_prefill_token_threshold %lld cuts prompts, which "
			       "enable_chunked_prefill=off "
			       "forbids",
			       (long long)values[THRESHOLD].i);
	struct vllm_v1 *c = mem_zalloc(1, sizeof *c);
	if (!c)
		return err_no_memory(e, "policy vllm_v1");
	c->threshold = values[THRESHOLD].i;
	c->chunking = values[CHUNKING].i;
	c->whole_must_fit = values[RESERVE].i;
	c->least_important = setup->queue_order == QUEUE_PRIORITY && setup->victim == VICTIM_DEFAULT;
	traits->victims = traits->yields = true;
	c->watermark = (int32_t)(values[WATERMARK].f * setup->num_blocks);
	c->drops = values[SHORTAGE].i;
	c->keep_pages = (int32_t)((values[DROP_KEEP].i + setup->block_size - 1) / setup->block_size);
	traits->steady = true;
	traits->drops = c->drops;
	traits->continues_prompts = c->chunking;
	traits->whole_prompts = !c->chunking;
	*self = c;
	return ERR_NONE;
}

static void destroy(void *self)
{
	mem_free(self);
}

/* The running request that gives way: with --scheduling-policy priority the least important (latest among equals), as in
 * vLLM. */
static int32_t victim(const struct vllm_v1 *c, const struct plan *p)
{
	if (!c->least_important)
		return view_victim(p);
	int32_t worst = view_running_last(p);
	for (int32_t r = view_running_prev(p, worst); r >= 0; r = view_running_prev(p, r)) {
		int32_t a = view_priority(p, r), b = view_priority(p, worst);
		int64_t x = view_arrival_ns(p, r), y = view_arrival_ns(p, worst);
		if (a != b ? a > b : x != y ? x > y : r > worst)
			worst = r;
	}
	return worst;
}

static int32_t piece(const struct vllm_v1 *c, const struct plan *p, int32_t req)
{
	int64_t n = view_need(p, req), room = (int64_t)view_max_model_len(p) - 1 - view_computed(p, req);
	if (c->threshold > 0 && n > c->threshold)
		n = c->threshold;
	if (n > view_budget_left(p))
		n = view_budget_left(p);
	return (int32_t)(n < room ? n : room);
}

/* The oldest page of a request that may go: all but the first, where attention sinks are, and the last keep_pages. -1: none.
 * *held: how many it holds. */
static int32_t oldest_page(const struct vllm_v1 *c, const struct plan *p, int32_t req, int32_t *held)
{
	int32_t pages = view_pages(p, req), oldest = -1;
	*held = view_resident(p, req) / view_block_size(p);
	if (*held <= c->keep_pages)
		return -1;
	for (int32_t i = 1; i < pages && oldest < 0; i++)
		if (!view_is_dropped(p, req, i))
			oldest = i;
	return oldest;
}

/* Takes a page from the request that holds most of them, the last admitted among equals. Without a page of its own to
 * lose, or with a place in this step already, it is left alone. False: nobody can lose one. */
static bool drop_page(const struct vllm_v1 *c, struct plan *p)
{
	int32_t from = -1, page = -1, most = 0, held;
	for (int32_t r = view_running_first(p); r >= 0; r = view_running_next(p, r)) {
		int32_t oldest = view_is_scheduled(p, r) ? -1 : oldest_page(c, p, r, &held);
		if (oldest < 0 || held < most)
			continue;
		from = r;
		page = oldest;
		most = held;
	}
	return from >= 0 && plan_drop(p, from, page, 1) == PLAN_OK;
}

/* Runs one request, preempting others until it fits; false when it had to give way itself. */
static bool run(const struct vllm_v1 *c, struct plan *p, int32_t req, int32_t n, bool *preempted)
{
	while (plan_run(p, req, n) == PLAN_NO_SPACE) {
		if (c->drops && drop_page(c, p))
			continue;
		int32_t v = victim(c, p);
		*preempted = true;
		if (plan_preempt(p, v) != PLAN_OK || v == req)
			return false;
	}
	return true;
}

/* Running requests in admission order; false when the walk ended with one preempting itself. */
static void walk_running(const struct vllm_v1 *c, struct plan *p, bool *preempted)
{
	int32_t next;
	for (int32_t r = view_running_first(p); r >= 0 && view_budget_left(p) > 0; r = next) {
		int32_t n = view_is_scheduled(p, r) ? 0 : piece(c, p, r);
		if (n > 0 && !run(c, p, r, n, preempted))
			return;
		next = view_running_next(p, r);
	}
}

/* Where the whole cohort goes first anyway and fits, it is scheduled as one; only prompts are walked. */
static void walk_prefilling(const struct vllm_v1 *c, struct plan *p, bool *preempted)
{
	int32_t next;
	for (int32_t r = view_prefilling_first(p); r >= 0 && view_budget_left(p) > 0; r = next) {
		int32_t n = piece(c, p, r);
		if (n > 0 && !run(c, p, r, n, preempted))
			return;
		next = view_prefilling_next(p, r);
	}
}

static void admit(const struct vllm_v1 *c, struct plan *p)
{
	int32_t r;
	while (view_budget_left(p) > 0 && view_places_left(p) > 0 && (r = view_waiting_first(p)) >= 0) {
		int64_t most = view_budget_left(p);
		if (c->threshold > 0 && most > c->threshold)
			most = c->threshold;
		struct admit_options o = {
			.tokens = (int32_t)most,
			.whole = !c->chunking,
			.keep_free = view_planned_any(p) ? c->watermark : 0,
			.whole_must_fit = c->whole_must_fit,
		};
		if (plan_admit(p, r, &o) != PLAN_OK)
			return;
	}
}

static void plan(void *self, struct plan *p)
{
	const struct vllm_v1 *c = self;
	bool preempted = false;
	walk_yield(p);
	if (view_decodes_lead(p) && plan_decodes(p) == PLAN_OK)
		walk_prefilling(c, p, &preempted);
	else
		walk_running(c, p, &preempted);
	if (!preempted)
		admit(c, p);
}

static const char *const aliases[] = {"chunked", NULL};

static const struct policy_desc vllm_v1 = {
	.abi = POLICY_ABI,
	.size = sizeof(struct policy_desc),
	.name = "vllm_v1",
	.aliases = aliases,
	.help = "chunked prefill: running requests first, then new ones, within one token budget (vLLM v1)",
	.about = "Every step spends max_num_batched_tokens: first on the running requests in admission order (one "
		 "token for "
		 "each that decodes, a piece of its prompt for the others), then on waiting ones. When memory runs out "
		 "the "
		 "last admitted request (or the least important, with --scheduling-policy priority) loses its blocks "
		 "and "
		 "is computed again later. Follows the scheduler of vLLM v1 (2025). Also called chunked.",
	.params = params,
	.n_params = N_PARAMS,
	.create = create,
	.destroy = destroy,
	.plan = plan,
};

POLICY_REGISTER(vllm_v1);
