/* A policy for lab 5: who has least left to compute goes first, and whoever waits gets closer to the front all the time.
 *
 * Serving the shortest prompt first gives the least mean TTFT there can be (every request waits for those before it: let them
 * be short), and lets long prompts starve while short ones keep coming. So waiting counts as tokens: a prompt that has waited
 * for a second is treated as if it were PATIENCE tokens shorter: about what a device computes in a quarter of a second, so that
 * nobody is overtaken for long.
 */
#include "core/err.h"
#include "core/mem.h"
#include "core/policy.h"
#include "policies/walk.h"

#define PATIENCE 8000 /* tokens a second */

static int create(void **self, const union policy_value *values, const struct policy_setup *setup,
		  struct policy_traits *traits, struct err *e)
{
	(void)values, (void)setup, (void)e;
	traits->victims = true;
	traits->no_order = "it orders the queue itself";
	traits->continues_prompts = true;
	*self = NULL;
	return ERR_NONE;
}

static void destroy(void *self)
{
	(void)self;
}

/* Tokens a request has left to compute, less what its waiting is worth. Smaller is sooner. */
static int64_t key(const struct plan *p, int32_t req)
{
	int64_t waited_ns = view_now_ns(p) - view_arrival_ns(p, req);
	return view_need(p, req) - waited_ns / 1000 * PATIENCE / 1000000;
}

/* Computes n tokens of a running request, others giving way until there is memory. False: it gave way itself. */
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

/* The one with the smallest key of the prompts that were begun and are not yet in this step. */
static int32_t next_prompt(const struct plan *p)
{
	int32_t best = -1;
	for (int32_t r = view_prefilling_first(p); r >= 0; r = view_prefilling_next(p, r))
		if (!view_is_scheduled(p, r) && view_need(p, r) > 0 && (best < 0 || key(p, r) < key(p, best)))
			best = r;
	return best;
}

static int32_t next_waiting(const struct plan *p)
{
	int32_t best = -1;
	for (int32_t r = view_waiting_first(p); r >= 0; r = view_waiting_next(p, r))
		if (best < 0 || key(p, r) < key(p, best))
			best = r;
	return best;
}

static void plan(void *self, struct plan *p)
{
	int32_t preempted = 0, req;
	(void)self;
	walk_decodes(p, 0, WALK_RECOMPUTE, &preempted);
	/* Everybody who is running gets its turn before anybody new: a prompt that was begun holds memory. */
	while (view_budget_left(p) > 0 && (req = next_prompt(p)) >= 0) {
		int64_t n = view_need(p, req) < view_budget_left(p) ? view_need(p, req) : view_budget_left(p);
		if (!run(p, req, (int32_t)n, &preempted))
			return;
	}
	while (preempted == 0 && view_budget_left(p) > 0 && view_places_left(p) > 0 && (req = next_waiting(p)) >= 0) {
		struct admit_options o = {.tokens = (int32_t)view_budget_left(p), .whole_must_fit = true};
		if (plan_admit(p, req, &o) != PLAN_OK)
			return;
	}
}

static const struct policy_desc shortest_first = {
	.abi = POLICY_ABI,
	.size = sizeof(struct policy_desc),
	.name = "shortest_first",
	.help = "the prompt with least left to compute first; waiting brings everybody forward",
	.create = create,
	.destroy = destroy,
	.plan = plan,
};

POLICY_PLUGIN(shortest_first);
