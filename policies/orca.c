/* orca, also called continuous: iteration-level batching. A request joins the running batch when a place is free and its whole
 * reservation fits, leaves it when it ends; whole prompts run beside decodes.
 * Follows: Orca (Yu et al., OSDI'22), with the reservations that the vLLM paper gave it for comparison.
 * Differs: `paged` is ours: blocks on demand, the last admitted request recomputed when they run out.
 * Parameters: reserve, paged. */
#include "core/err.h"
#include "core/mem.h"
#include "core/policy.h"
#include "policies/registry.h"
#include "policies/walk.h"

struct orca {
	bool paged;
	bool reserve_model_len;
};

enum { RESERVE, PAGED, N_PARAMS };

static const char *const reserve_choices[] = {"max_tokens", "max_model_len", NULL};

static const struct policy_param params[N_PARAMS] = {
	[RESERVE] = {"reserve", PARAM_ENUM, "max_tokens", 0, 0, reserve_choices,
		     "contiguous memory reserved per request: its prompt and most outputs, or the model's longest "
		     "sequence"},
	[PAGED] = {"paged", PARAM_BOOL, "off", 0, 0, NULL,
		   "take blocks on demand instead of a reservation; when they run out one request is recomputed, the "
		   "last admitted unless --victim says another"},
};

static int create(void **self, const union policy_value *values, const struct policy_setup *setup,
		  struct policy_traits *traits, struct err *e)
{
	(void)setup;
	struct orca *c = mem_zalloc(1, sizeof *c);
	if (!c)
		return err_no_memory(e, "policy orca");
	c->reserve_model_len = values[RESERVE].i == 1;
	c->paged = values[PAGED].i;
	traits->unbudgeted = true;
	traits->contiguous = !c->paged;
	traits->steady = true;
	traits->victims = traits->yields = c->paged;
	traits->no_victim = "it reserves memory and never takes any back; orca:paged=on does";
	traits->kv_off_ok = true;
	*self = c;
	return ERR_NONE;
}

static void destroy(void *self)
{
	mem_free(self);
}

/* False when memory had to be taken from someone: then nobody new comes in. */
static bool run_all(struct plan *p)
{
	bool fits = true;
	while (plan_decodes(p) == PLAN_NO_SPACE) {
		fits = false;
		if (plan_preempt(p, view_victim(p)) != PLAN_OK)
			return false;
	}
	/* Only without a KV cache: everything is computed again. */
	for (int32_t r = view_prefilling_first(p); r >= 0; r = view_prefilling_next(p, r))
		if (plan_run(p, r, view_need(p, r)) != PLAN_OK)
			return false;
	return fits;
}

static void plan(void *self, struct plan *p)
{
	const struct orca *c = self;
	walk_yield(p);
	if (!run_all(p))
		return;
	int32_t r;
	while (view_places_left(p) > 0 && (r = view_waiting_first(p)) >= 0) {
		struct admit_options o = {.tokens = INT32_MAX, .whole = true};
		if (!c->paged)
			o.reserve = c->reserve_model_len ? view_max_model_len(p)
							 : view_prompt(p, r) + view_max_tokens(p, r);
		if (plan_admit(p, r, &o) != PLAN_OK)
			return;
	}
}

static const char *const aliases[] = {"continuous", NULL};

static const struct policy_desc orca = {
	.abi = POLICY_ABI,
	.size = sizeof(struct policy_desc),
	.name = "orca",
	.aliases = aliases,
	.help = "iteration-level batching: requests join and leave a running batch (Orca)",
	.about = "A waiting request joins when one of max_num_seqs places is free and memory for its whole reservation "
		 "is; "
		 "prompts run whole, beside the decodes of the same step; nothing is ever preempted. With paged=on, "
		 "blocks "
		 "are taken on demand and the last admitted request is recomputed when they run out. Follows Orca "
		 "(OSDI'22). Also called continuous.",
	.params = params,
	.n_params = N_PARAMS,
	.create = create,
	.destroy = destroy,
	.plan = plan,
};

POLICY_REGISTER(orca);
