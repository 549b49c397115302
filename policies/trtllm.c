/* trtllm: in-flight batching with a capacity scheduler. One of two promises decides who may run: guaranteed_no_evict lets a
 * request in only when its memory up to the last token it may produce is sure; max_utilization lets in whoever fits now and
 * pauses the last started when it no longer does. Then the token budget is shared out, decodes first.
 * Follows: TensorRT-LLM's capacity and micro batch schedulers (0.9 to 0.20).
 * Differs: a prompt that the prefix cache has a part of asks for tokens and memory only for the rest (there the split is
 * made before the lookup).
 * Parameters: capacity_scheduler, enable_chunked_context, context_chunking, chunk_unit. */
#include "core/err.h"
#include "core/mem.h"
#include "core/policy.h"
#include "policies/registry.h"
#include "policies/walk.h"

enum capacity { NO_EVICT, MAX_UTILIZATION };

struct trtllm {
	enum capacity capacity;
	bool chunking, equal_progress, reuse;
	int32_t unit; /* tokens */
	int32_t *reqs; /* [max_num_seqs] prompts of this step, in order, and */
	int32_t *left, *share; /* their tokens to compute and what each gets */
	int32_t n;
};

enum { CAPACITY, CHUNKED, CHUNKING, UNIT, N_PARAMS };

static const char *const capacities[] = {"guaranteed_no_evict", "max_utilization", NULL};
static const char *const chunkings[] = {"fcfs", "equal_progress", NULL};

static const struct policy_param params[N_PARAMS] = {
	[CAPACITY] =
		{"capacity_scheduler", PARAM_ENUM, "guaranteed_no_evict", 0, 0, capacities,
		 "who may run: those whose largest output fits for sure, or all who fit now, the last started being "
		 "paused when memory runs out"},
	[CHUNKED] = {"enable_chunked_context", PARAM_BOOL, "on", 0, 0, NULL,
		     "prompts may be computed in pieces; off: whole or not at all in a step"},
	[CHUNKING] = {"context_chunking", PARAM_ENUM, "fcfs", 0, 0, chunkings,
		      "how prompts share what decodes leave of the budget: first come, first served, or one unit each "
		      "in turn"},
	[UNIT] = {"chunk_unit", PARAM_INT, "0", 0, 1 << 20, NULL,
		  "tokens; a piece that does not end its prompt is a multiple of it. 0: a block; at most "
		  "max_num_batched_tokens"},
};

static void destroy(void *self)
{
	struct trtllm *t = self;
	mem_free(t->reqs);
	mem_free(t->left);
	mem_free(t->share);
	mem_free(t);
}

static int create(void **self, const union policy_value *values, const struct policy_setup *setup,
		  struct policy_traits *traits, struct err *e)
{
	struct trtllm *t = mem_zalloc(1, sizeof *t);
	if (!t)
		return err_no_memory(e, "policy trtllm");
	t->capacity = (enum capacity)values[CAPACITY].i;
	t->chunking = values[CHUNKED].i;
	t->equal_progress = values[CHUNKING].i == 1;
	t->unit = values[UNIT].i ? (int32_t)values[UNIT].i : setup->block_size;
	if (t->unit > setup->max_num_batched_tokens)
		t->unit = setup->max_num_batched_tokens;
	t->reuse = setup->prefix_caching;
	t->reqs = mem_alloc((size_t)setup->max_num_seqs * sizeof *t->reqs);
	t->left = mem_alloc((size_t)setup->max_num_seqs * sizeof *t->left);
	t->share = mem_alloc((size_t)setup->max_num_seqs * sizeof *t->share);
	if (!t->reqs || !t->left || !t->share) {
		destroy(t);
		return err_no_memory(e, "policy trtllm");
	}
	traits->steady = true;
	traits->victims = traits->yields = t->capacity == MAX_UTILIZATION;
	traits->no_victim = "guaranteed_no_evict never takes memory back; "
			    "trtllm:capacity_scheduler=max_utilization does";
	traits->whole_prompts = !t->chunking;
	*self = t;
	return ERR_NONE;
}

static int64_t blocks(const struct plan *p, int64_t tokens)
{
	return (tokens + view_block_size(p) - 1) / view_block_size(p);
}

/* Blocks that running requests may still ask for, each up to its longest end: a prompt's were taken with its first piece, but
 * for pages that forks share and are going to copy. */
static int64_t still_promised(const struct plan *p)
{
	int64_t sum = view_copies_due(p);
	for (int32_t r = view_running_first(p); r >= 0; r = view_running_next(p, r)) {
		int32_t prompt = view_prompt(p, r), has = view_computed(p, r);
		sum += blocks(p, (int64_t)prompt + view_max_tokens(p, r)) - blocks(p, has > prompt ? has : prompt);
	}
	return sum;
}

/* --- who may have a piece of prompt computed ---------------------------------------------------------------------- */

/* Is a longer beginning of its prompt than the cache has now being computed for another? Then it gains by waiting. */
static bool gains_by_waiting(const struct trtllm *t, struct plan *p, int32_t req, int32_t hit)
{
	int32_t most = (view_tokens(p, req) - 1) / view_block_size(p) * view_block_size(p);
	for (int32_t i = 0; i < t->n && hit < most; i++)
		if (view_shared_prefix(p, req, t->reqs[i]) > hit)
			return true;
	return false;
}

static void add_prompt(struct trtllm *t, int32_t req, int32_t left)
{
	t->reqs[t->n] = req;
	t->left[t->n] = left;
	t->share[t->n++] = 0;
}

/* Memory it must find to be let in. */
static int64_t blocks_needed(const struct trtllm *t, const struct plan *p, int32_t req)
{
	if (t->capacity == NO_EVICT)
		return blocks(p, (int64_t)view_prompt(p, req) + view_max_tokens(p, req));
	return blocks(p, view_tokens(p, req));
}

/* Blocks of its hit that nobody holds, those left out that one chosen before it will hold: they are free ones no longer. */
static int64_t idle_hit(const struct trtllm *t, struct plan *p, int32_t req, int32_t hit)
{
	int64_t end = hit / view_block_size(p), held = end - view_prefix_idle(p, req);
	for (int32_t i = 0; i < t->n && held < end; i++) {
		int64_t same = view_shared_blocks(p, req, t->reqs[i], (int32_t)end);
		held = same > held ? same : held;
	}
	return held < end ? end - held : 0;
}

/* Waiting requests in order, while the memory that is not promised suffices; the first that does not fit ends it. */
static void collect_waiting(struct trtllm *t, struct plan *p, int64_t free_blocks)
{
	int32_t places = view_places_left(p);
	for (int32_t r = view_waiting_first(p); r >= 0 && places > 0; r = view_waiting_next(p, r)) {
		int32_t hit = t->reuse ? view_prefix_hit(p, r) : 0;
		if (t->reuse && gains_by_waiting(t, p, r, hit))
			continue;
		free_blocks -= blocks_needed(t, p, r) - hit / view_block_size(p) + (hit ? idle_hit(t, p, r, hit) : 0);
		if (free_blocks < 0) {
			plan_blocked(p, WAIT_MEMORY);
			return;
		}
		add_prompt(t, r, view_tokens(p, r) - hit);
		places--;
	}
}

/* --- sharing out the budget --------------------------------------------------------------------------------------- */

static void share_whole(struct trtllm *t, int64_t budget)
{
	for (int32_t i = 0; i < t->n && t->left[i] <= budget; i++) {
		t->share[i] = t->left[i];
		budget -= t->left[i];
	}
}

static void share_in_order(struct trtllm *t, int64_t budget)
{
	for (int32_t i = 0; i < t->n; i++) {
		t->share[i] = t->left[i] <= budget ? t->left[i] : (int32_t)(budget / t->unit * t->unit);
		budget -= t->share[i];
	}
}

/* Rounds of one unit each, until nobody can have another. */
static void share_equally(struct trtllm *t, int64_t budget)
{
	for (bool any = true; any && budget > 0;) {
		any = false;
		for (int32_t i = 0; i < t->n; i++) {
			int32_t more = t->left[i] - t->share[i];
			if (more > t->unit)
				more = t->unit;
			if (more == 0 || more > budget)
				continue;
			t->share[i] += more;
			budget -= more;
			any = true;
		}
	}
}

static void share_budget(struct trtllm *t, const struct plan *p)
{
	if (!t->chunking)
		share_whole(t, view_budget_left(p));
	else if (t->equal_progress)
		share_equally(t, view_budget_left(p));
	else
		share_in_order(t, view_budget_left(p));
}

/* Those who got nothing keep what they would have needed free: they come first again in the next step. */
static void run_prompts(struct trtllm *t, struct plan *p, int64_t promised)
{
	for (int32_t i = 0; i < t->n; i++) {
		int32_t r = t->reqs[i];
		int64_t need = blocks_needed(t, p, r), prompt = blocks(p, view_tokens(p, r));
		bool running = view_computed(p, r) > 0;
		if (t->share[i] == 0) {
			promised += running ? 0 : need;
			continue;
		}
		if (running) {
			if (plan_run(p, r, t->share[i]) != PLAN_OK)
				return;
			continue;
		}
		promised += need - prompt;
		struct admit_options o = {
			.tokens = t->chunking ? t->share[i] : INT32_MAX,
			.whole = !t->chunking,
			.reserve = view_tokens(p, r),
			.keep_free = promised < INT32_MAX ? (int32_t)promised : INT32_MAX,
		};
		if (plan_admit(p, r, &o) != PLAN_OK)
			return;
	}
}

static void plan(void *self, struct plan *p)
{
	struct trtllm *t = self;
	walk_yield(p);
	bool may_admit = view_waiting_first(p) >= 0 && view_places_left(p) > 0;
	/* Before anybody is scheduled: then what is computed tells the blocks that are held. */
	int64_t promised = may_admit && t->capacity == NO_EVICT ? still_promised(p) : 0;
	int64_t free_blocks = view_free_blocks(p) - promised;
	int32_t preempted = 0;
	walk_decodes(p, 0, WALK_RECOMPUTE, &preempted);
	t->n = 0;
	for (int32_t r = view_prefilling_first(p); r >= 0; r = view_prefilling_next(p, r))
		add_prompt(t, r, view_need(p, r));
	if (t->capacity == NO_EVICT)
		promised = view_free_blocks(p) - free_blocks;
	else
		free_blocks = view_free_blocks(p);
	if (may_admit && !preempted)
		collect_waiting(t, p, free_blocks);
	share_budget(t, p);
	run_prompts(t, p, promised);
}

static const struct policy_desc trtllm = {
	.abi = POLICY_ABI,
	.size = sizeof(struct policy_desc),
	.name = "trtllm",
	.help = "in-flight batching under guaranteed_no_evict or max_utilization (TensorRT-LLM)",
	.about = "guaranteed_no_evict lets a waiting request in only when memory for its prompt and its longest output "
		 "is "
		 "sure beside what the running ones may still need; nobody is ever paused. max_utilization asks only "
		 "for what "
		 "this step needs, and pauses the last started request when memory runs out. Then every decode gets "
		 "its token, "
		 "and prompts share the rest of the budget, in order or in equal pieces. A prompt whose beginning is "
		 "being "
		 "computed for another one waits for it under prefix caching. Follows TensorRT-LLM (0.9 to 0.20). "
		 "Differs: "
		 "cached beginnings are known when pieces are cut.",
	.params = params,
	.n_params = N_PARAMS,
	.create = create,
	.destroy = destroy,
	.plan = plan,
};

POLICY_REGISTER(trtllm);
