/* sarathi: stall-free batching. Every step gives each decoding request its token first; what is left of chunk_size goes to
 * prompts, in pieces, so that no prompt makes the others' next token wait.
 * Follows: Sarathi-Serve (Agrawal et al., OSDI'24) and the scheduler published with it.
 * Differs: when decodes alone reach chunk_size no prompt runs (the published code stops only at exactly zero tokens left);
 * the last admitted request gives way even when its prompt is half computed (there: the last that decodes); a prompt that
 * could never be let in beside the watermark is rejected instead of waiting for ever.
 * Parameters: chunk_size, watermark. */
#include "core/err.h"
#include "core/mem.h"
#include "core/policy.h"
#include "policies/registry.h"
#include "policies/walk.h"

struct sarathi {
	int64_t chunk_size; /* tokens of a step that prompts may fill up to */
	int32_t watermark; /* blocks */
};

enum { CHUNK_SIZE, WATERMARK, N_PARAMS };

static const struct policy_param params[N_PARAMS] = {
	[CHUNK_SIZE] =
		{"chunk_size", PARAM_INT, "512", 1, 1 << 30, NULL,
		 "tokens a step may reach with pieces of prompts, decodes counted; at most max_num_batched_tokens"},
	[WATERMARK] = {"watermark", PARAM_FLOAT, "0.01", 0, 1, NULL, "share of all blocks that admission leaves free"},
};

static int create(void **self, const union policy_value *values, const struct policy_setup *setup,
		  struct policy_traits *traits, struct err *e)
{
	struct sarathi *s = mem_zalloc(1, sizeof *s);
	if (!s)
		return err_no_memory(e, "policy sarathi");
	s->chunk_size = values[CHUNK_SIZE].i;
	if (s->chunk_size > setup->max_num_batched_tokens)
		s->chunk_size = setup->max_num_batched_tokens;
	s->watermark = (int32_t)(values[WATERMARK].f * setup->num_blocks);
	traits->steady = true;
	traits->victims = traits->yields = true;
	traits->continues_prompts = true;
	*self = s;
	return ERR_NONE;
}

static void destroy(void *self)
{
	mem_free(self);
}

/* Tokens that prompts may still get in this step. */
static int64_t room(const struct sarathi *s, const struct plan *p, int64_t budget)
{
	return s->chunk_size - (budget - view_budget_left(p));
}

static void run_prefills(const struct sarathi *s, struct plan *p, int64_t budget)
{
	for (int32_t r = view_prefilling_first(p); r >= 0 && room(s, p, budget) > 0; r = view_prefilling_next(p, r)) {
		int64_t n = room(s, p, budget) < view_need(p, r) ? room(s, p, budget) : view_need(p, r);
		if (n > 0 && plan_run(p, r, (int32_t)n) != PLAN_OK)
			return;
	}
}

/* Memory for the whole prompt is taken at once, though it is computed in pieces. */
static void admit(const struct sarathi *s, struct plan *p, int64_t budget)
{
	int32_t r;
	while (room(s, p, budget) > 0 && view_places_left(p) > 0 && (r = view_waiting_first(p)) >= 0) {
		struct admit_options o = {
			.tokens = (int32_t)room(s, p, budget),
			.reserve = view_tokens(p, r),
			.keep_free = walk_keep_free(p, r, s->watermark),
		};
		if (o.keep_free < 0) {
			if (plan_reject(p, r) != PLAN_OK)
				return;
		} else if (plan_admit(p, r, &o) != PLAN_OK) {
			return;
		}
	}
	if (room(s, p, budget) <= 0)
		plan_blocked(p, WAIT_BUDGET);
}

static void plan(void *self, struct plan *p)
{
	const struct sarathi *s = self;
	int64_t budget = view_budget_left(p);
	int32_t preempted = 0;
	walk_yield(p);
	walk_decodes(p, 0, WALK_RECOMPUTE, &preempted);
	run_prefills(s, p, budget);
	admit(s, p, budget);
}

static const struct policy_desc sarathi = {
	.abi = POLICY_ABI,
	.size = sizeof(struct policy_desc),
	.name = "sarathi",
	.help = "stall-free batching: decodes first, then pieces of prompts up to chunk_size (Sarathi-Serve)",
	.about = "Every step gives each decoding request its token; running prompts, then waiting ones, get pieces of "
		 "what is "
		 "left of chunk_size. A prompt's whole memory is taken when it is let in, with a watermark left free. "
		 "Follows "
		 "Sarathi-Serve (OSDI'24). Differs: decodes alone may exceed chunk_size, and then no prompt runs; a "
		 "prompt "
		 "that never fits beside the watermark is rejected.",
	.params = params,
	.n_params = N_PARAMS,
	.create = create,
	.destroy = destroy,
	.plan = plan,
};

POLICY_REGISTER(sarathi);
