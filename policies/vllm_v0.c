/* vllm_v0: prompts first. A step computes either whole prompts of waiting requests or one token for each running one.
 * Follows: vLLM before its v1 engine (0.2 to 0.7; Kwon et al., SOSP'23), without its optional chunked prefill.
 * Differs: preempted requests are recomputed or swapped as preemption_mode says, by default recomputed, which it did where
 * a request was one sequence (it swapped groups of several); those swapped out come back by arrival (as up to 0.5); blocks that a prefix cache has count as there already when a prompt is let in; a preempted
 * request is never rejected by the watermark.
 * Parameters: delay_factor, watermark, preemption_mode. */
#include "core/err.h"
#include "core/mem.h"
#include "core/policy.h"
#include "policies/registry.h"
#include "policies/walk.h"

struct vllm_v0 {
	double delay_factor;
	int32_t watermark; /* blocks */
	enum walk_preempt preempt;
	/* For delay_factor: the last round, whether it computed prompts, and how long the last such step took. */
	int64_t last_ns, prompt_step_ns;
	bool prompts;
};

enum { DELAY_FACTOR, WATERMARK, PREEMPTION_MODE, N_PARAMS };

static const char *const preemption_modes[] = {[WALK_RECOMPUTE] = "recompute", [WALK_SWAP] = "swap", NULL};

static const struct policy_param params[N_PARAMS] = {
	[DELAY_FACTOR] =
		{"delay_factor", PARAM_FLOAT, "0", 0, 1000, NULL,
		 "let prompts wait, while others run, for so many times as long as the last step of prompts took"},
	[WATERMARK] = {"watermark", PARAM_FLOAT, "0.01", 0, 1, NULL, "share of all blocks that admission leaves free"},
	[PREEMPTION_MODE] =
		{"preemption_mode", PARAM_ENUM, "recompute", 0, 0, preemption_modes,
		 "what becomes of one that has to give way: computed again later, or swapped to host memory "
		 "(needs --swap-space)"},
};

static int create(void **self, const union policy_value *values, const struct policy_setup *setup,
		  struct policy_traits *traits, struct err *e)
{
	struct vllm_v0 *v = mem_zalloc(1, sizeof *v);
	if (!v)
		return err_no_memory(e, "policy vllm_v0");
	v->delay_factor = values[DELAY_FACTOR].f;
	v->watermark = (int32_t)(values[WATERMARK].f * setup->num_blocks);
	v->preempt = (enum walk_preempt)values[PREEMPTION_MODE].i;
	if (v->preempt == WALK_SWAP && !setup->swap_blocks) {
		mem_free(v);
		return err_set(
			e, ERR_INPUT,
			"policy vllm_v0: preemption_mode=swap needs host memory: give it some with --swap-space");
	}
	traits->swaps = v->preempt == WALK_SWAP;
	traits->whole_prompts = true;
	traits->victims = traits->yields = true;
	/* Not steady: that every sequence must find a free block, needed or not, is checked in each step. */
	*self = v;
	return ERR_NONE;
}

static void destroy(void *self)
{
	mem_free(self);
}

static int64_t oldest_ns(const struct plan *p)
{
	int64_t oldest = INT64_MAX;
	for (int32_t r = view_waiting_first(p); r >= 0; r = view_waiting_next(p, r))
		if (view_arrival_ns(p, r) < oldest)
			oldest = view_arrival_ns(p, r);
	return oldest;
}

static bool delay_is_over(struct vllm_v0 *v, const struct plan *p)
{
	int64_t now_ns = view_now_ns(p);
	if (v->prompts)
		v->prompt_step_ns = now_ns - v->last_ns;
	v->prompts = false;
	v->last_ns = now_ns;
	if (v->delay_factor == 0 || !view_running(p) || view_waiting_first(p) < 0)
		return true;
	return (double)(now_ns - oldest_ns(p)) > v->delay_factor * (double)v->prompt_step_ns;
}

/* True when some prompt was scheduled. */
static bool admit(const struct vllm_v0 *v, struct plan *p)
{
	int32_t r;
	while (view_places_left(p) > 0 && (r = view_waiting_first(p)) >= 0) {
		struct admit_options o = {
			.tokens = INT32_MAX,
			.whole = true,
			.keep_free = walk_keep_free(p, r, v->watermark),
		};
		enum plan_status status = o.keep_free < 0 ? plan_reject(p, r) : plan_admit(p, r, &o);
		if (status != PLAN_OK)
			break;
	}
	return view_planned_any(p);
}

/* Each comes back when, beside its blocks, one for its next token and the watermark are free. */
static void swap_in(const struct vllm_v0 *v, struct plan *p)
{
	const struct admit_options o = {.tokens = INT32_MAX, .whole = true};
	int32_t r;
	while ((r = view_swapped_first(p)) >= 0) {
		int32_t spare = view_running(p) ? v->watermark + 1 : 0; /* alone it needs to leave nobody anything */
		if (view_free_blocks(p) - view_swapped_blocks(p, r) < spare || plan_swap_in(p, r, &o) != PLAN_OK)
			return;
	}
}

static void plan(void *self, struct plan *p)
{
	struct vllm_v0 *v = self;
	int32_t preempted = 0;
	if (!view_swapped(p)) /* else nobody is let in for whom to make room */
		walk_yield(p);
	bool prompts = delay_is_over(v, p) && !view_swapped(p);
	if (prompts && admit(v, p)) {
		v->prompts = true;
		return;
	}
	walk_decodes(p, 1, v->preempt, &preempted);
	if (!preempted)
		swap_in(v, p);
}

static const struct policy_desc vllm_v0 = {
	.abi = POLICY_ABI,
	.size = sizeof(struct policy_desc),
	.name = "vllm_v0",
	.help = "prompts first: a step is either whole prompts or one token for each running request (vLLM v0)",
	.about = "When waiting prompts fit, a step computes them, whole, and nobody decodes; otherwise every running "
		 "request "
		 "gets a token. A request is let in only when the watermark stays free, and rejected when that can "
		 "never be. "
		 "A decode asks for a free block even when its last one has room; without one the last admitted "
		 "request is "
		 "recomputed later, or with preemption_mode=swap kept in host memory, if that has room: while any "
		 "is there no "
		 "prompt is let in, and it comes back when nobody had to give way and its blocks are free. Follows "
		 "vLLM's "
		 "first engine (up to 0.7), which swapped only requests of several sequences unless told to.",
	.params = params,
	.n_params = N_PARAMS,
	.create = create,
	.destroy = destroy,
	.plan = plan,
};

POLICY_REGISTER(vllm_v0);
