/* random: whom to serve next and who gives way is left to chance. For classrooms: what a good order and a good choice of
 * victim are worth is the distance to this.
 * Follows: nobody. Steps are filled as in vllm_v1; the same --seed draws the same.
 * Differs: the first admitted request never gives way, so that something always ends.
 * Parameters: none. */
#include "core/err.h"
#include "core/mem.h"
#include "core/policy.h"
#include "policies/registry.h"

static int create(void **self, const union policy_value *values, const struct policy_setup *setup,
		  struct policy_traits *traits, struct err *e)
{
	(void)values;
	(void)setup;
	/* Not steady: who waits is drawn anew in every step. */
	traits->no_victim = "it draws at random who gives way";
	traits->no_order = "it draws at random who is served next";
	(void)e;
	*self = NULL;
	return ERR_NONE;
}

static void destroy(void *self)
{
	(void)self;
}

/* Any of the running ones but the first admitted; that one when it is alone. */
static int32_t draw_victim(struct plan *p)
{
	int32_t n = view_running(p), r = view_running_first(p);
	for (uint64_t k = n > 1 ? 1 + view_random(p) % (uint64_t)(n - 1) : 0; k > 0; k--)
		r = view_running_next(p, r);
	return r;
}

static int32_t draw_waiting(struct plan *p)
{
	int32_t r = view_waiting_first(p);
	for (uint64_t k = view_random(p) % (uint64_t)view_waiting(p); k > 0; k--)
		r = view_waiting_next(p, r);
	return r;
}

/* Runs one request, others giving way until it fits, and returns the next. */
static int32_t run(struct plan *p, int32_t req, bool *preempted)
{
	int64_t n = view_need(p, req) < view_budget_left(p) ? view_need(p, req) : view_budget_left(p);
	if (view_is_scheduled(p, req))
		n = 0;
	while (n > 0 && plan_run(p, req, (int32_t)n) == PLAN_NO_SPACE) {
		int32_t victim = draw_victim(p), next = view_running_next(p, req);
		*preempted = true;
		if (plan_preempt(p, victim) != PLAN_OK)
			return -1;
		if (victim == req)
			return next;
	}
	return view_running_next(p, req);
}

static void plan(void *self, struct plan *p)
{
	bool preempted = false;
	(void)self;
	for (int32_t r = view_running_first(p); r >= 0 && view_budget_left(p) > 0;)
		r = run(p, r, &preempted);
	while (!preempted && view_budget_left(p) > 0 && view_places_left(p) > 0 && view_waiting(p) > 0) {
		struct admit_options o = {.tokens = (int32_t)view_budget_left(p), .whole_must_fit = true};
		if (plan_admit(p, draw_waiting(p), &o) != PLAN_OK)
			return;
	}
}

static const struct policy_desc random_choice = {
	.abi = POLICY_ABI,
	.size = sizeof(struct policy_desc),
	.name = "random",
	.help = "for classrooms: whom to serve next and who gives way is drawn at random",
	.about = "Steps are filled as in vllm_v1, but the next waiting request, and the one that gives way when memory "
		 "runs out, "
		 "are drawn at random, by --seed; only the first admitted never gives way. Follows nobody: it shows "
		 "what an "
		 "order is worth.",
	.create = create,
	.destroy = destroy,
	.plan = plan,
};

POLICY_REGISTER(random_choice);
