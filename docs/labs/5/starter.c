/* Lab 5: a scheduling policy. As it stands it serves first come, first served: it is sound, and slow for most. README.md says
 * what to reach; core/policy.h (`lockstep policy headers` says where) has all that a policy sees (view_...) and does (plan_...).
 */
#include "core/err.h"
#include "core/mem.h"
#include "core/policy.h"
#include "policies/walk.h"

static int create(void **self, const union policy_value *values, const struct policy_setup *setup,
		  struct policy_traits *traits, struct err *e)
{
	(void)values, (void)setup, (void)e;
	traits->victims = true; /* it asks view_victim() who gives way when memory runs out */
	traits->continues_prompts = true; /* every prompt that was begun gets its turn in each step */
	traits->no_order = "it orders the queue itself";
	*self = NULL; /* what it wants to remember: nothing yet */
	return ERR_NONE;
}

static void destroy(void *self)
{
	(void)self;
}

/* Computes n tokens of a running request. When there is no memory for them, others give way until there is. False: it gave way
 * itself, or the run is over. */
static bool run(struct plan *p, int32_t req, int32_t n, int32_t *preempted)
{
	while (plan_run(p, req, n) == PLAN_NO_SPACE) {
		int32_t victim = view_victim(p);
		++*preempted;
		if (plan_preempt(p, victim) != PLAN_OK || victim == req)
			return false;
	}
	return true;
}

/* Of the prompts that were begun and are not yet in this step, the one to go on with; -1: none. */
static int32_t next_prompt(const struct plan *p)
{
	for (int32_t r = view_prefilling_first(p); r >= 0; r = view_prefilling_next(p, r))
		if (!view_is_scheduled(p, r) && view_need(p, r) > 0)
			return r;
	return -1;
}

/* Of those who wait, the one to let in; -1: none.
 * TODO: first come, first served is fair and slow. Who else could be first? view_need(p, r) is how many tokens r has left to
 * compute, view_arrival_ns(p, r) since when it waits, view_now_ns(p) what time it is. view_waiting_next(p, r) is the one behind. */
static int32_t next_waiting(const struct plan *p)
{
	return view_waiting_first(p);
}

/* Called once a step. Every action is applied at once. */
static void plan(void *self, struct plan *p)
{
	int32_t preempted = 0, req;
	(void)self;
	/* One token for everybody who decodes. */
	walk_decodes(p, 0, WALK_RECOMPUTE, &preempted);
	/* Pieces of prompts that were begun: they hold memory already. */
	while (view_budget_left(p) > 0 && (req = next_prompt(p)) >= 0) {
		int64_t n = view_need(p, req) < view_budget_left(p) ? view_need(p, req) : view_budget_left(p);
		if (!run(p, req, (int32_t)n, &preempted))
			return;
	}
	/* Somebody new, unless somebody just lost memory. */
	while (preempted == 0 && view_budget_left(p) > 0 && view_places_left(p) > 0 && (req = next_waiting(p)) >= 0) {
		struct admit_options o = {.tokens = (int32_t)view_budget_left(p), .whole_must_fit = true};
		if (plan_admit(p, req, &o) != PLAN_OK)
			return;
	}
}

static const struct policy_desc mine = {
	.abi = POLICY_ABI,
	.size = sizeof(struct policy_desc),
	.name = "mine",
	.help = "lab 5",
	.create = create,
	.destroy = destroy,
	.plan = plan,
};

POLICY_PLUGIN(mine);
