/* fcfs.h: an ordinary policy but for whom it lets in: for those of which only that is wrong. The includer defines
 * admit(struct plan *p) and may set `steady`. */
#include <stdlib.h>

#include "core/err.h"
#include "core/policy.h"
#include "policies/walk.h"

static void admit(struct plan *p);

static enum plan_status let_in(struct plan *p, int32_t req)
{
	struct admit_options o = {.tokens = (int32_t)view_budget_left(p), .whole_must_fit = true};
	return plan_admit(p, req, &o);
}

static bool has_room(const struct plan *p)
{
	return view_places_left(p) > 0 && view_budget_left(p) > 0;
}

static bool run(struct plan *p, int32_t req, int32_t *preempted)
{
	int64_t n = view_need(p, req) < view_budget_left(p) ? view_need(p, req) : view_budget_left(p);
	while (n > 0 && plan_run(p, req, (int32_t)n) == PLAN_NO_SPACE) {
		int32_t victim = view_victim(p);
		++*preempted;
		if (plan_preempt(p, victim) != PLAN_OK || victim == req)
			return false;
	}
	return true;
}

static void plan(void *self, struct plan *p)
{
	int32_t preempted = 0, next;
	(void)self;
	walk_decodes(p, 0, WALK_RECOMPUTE, &preempted);
	for (int32_t req = view_prefilling_first(p); req >= 0 && view_budget_left(p) > 0; req = next) {
		if (!run(p, req, &preempted))
			return;
		next = view_prefilling_next(p, req);
	}
	if (preempted == 0)
		admit(p);
}

static int create(void **self, const union policy_value *values, const struct policy_setup *setup,
		  struct policy_traits *traits, struct err *e)
{
	(void)values, (void)setup, (void)e;
	traits->victims = true;
#ifdef STEADY
	traits->steady = true;
#endif
	*self = NULL;
	return 0;
}

static void destroy(void *self)
{
	(void)self;
}

#define FCFS(id)                                                                                                       \
	static const struct policy_desc id = {.abi = POLICY_ABI,                                                       \
					      .size = sizeof(struct policy_desc),                                      \
					      .name = #id,                                                             \
					      .help = "one thing is wrong with it",                                    \
					      .create = create,                                                        \
					      .destroy = destroy,                                                      \
					      .plan = plan};                                                           \
	POLICY_PLUGIN(id)
