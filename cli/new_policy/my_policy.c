/* my_policy: a scheduling policy for Lockstep, in one file.
 *
 * It serves first come, first served: who is running goes first, then prompts in pieces, then new requests, as long as the
 * step's token budget lasts. It is small but complete: build it, check it, run it, and then make it yours.
 *
 *     make                                    builds my_policy.so
 *     make check                              thousands of random workloads: is it sound?
 *     lockstep replay --policy ./my_policy.so --model llama-3.1-8b --device h100-sxm --dataset-name sample:azure
 *     lockstep compare --policies vllm_v1,./my_policy.so ...
 *
 * What a policy sees (view_...) and may do (plan_...) is in core/policy.h; read it, it is short. The rules that matter:
 *   - plan() is called once a step. Every action is applied at once: what you look at afterwards has changed.
 *   - A running request holds memory, a waiting one holds none. One that is preempted loses it and is computed again.
 *   - An action answers PLAN_NO_SPACE, PLAN_NO_PLACE or PLAN_NO_BUDGET when it is not possible now; that is no error.
 *     PLAN_BAD is one: the run ends and says what you did. Return at once.
 *   - How long an answer becomes cannot be known: only view_max_tokens().
 *   - Everything a policy remembers lives in its own struct. No static variables, clocks or rand(): the same input must give
 *     the same decisions (view_random() is there for chance).
 */
#include "core/err.h"
#include "core/mem.h"
#include "core/policy.h"
#include "policies/walk.h"

/* One instance of it: what its parameters say, and whatever you want to remember from step to step. */
struct my_policy {
	double prompt_share;
	int32_t spare_blocks;
};

/* --- parameters: --policy ./my_policy.so:prompt_share=0.5,spare_blocks=4 --------------------------------------------- */

enum { PROMPT_SHARE, SPARE_BLOCKS, N_PARAMS };

/* Name, type, default (as one would type it), least, most, choices (of a PARAM_ENUM), help with the unit. They are parsed and
 * checked for you, shown by `lockstep policies ./my_policy.so`, and stored with every run. */
static const struct policy_param params[N_PARAMS] = {
	[PROMPT_SHARE] = {"prompt_share", PARAM_FLOAT, "1", 0.01, 1, NULL,
			  "share of a step's tokens that prompts may take, beside those that decode"},
	[SPARE_BLOCKS] = {"spare_blocks", PARAM_INT, "0", 0, 1000000, NULL,
			  "KV blocks that stay free when a request is let in beside others"},
};

/* values[] are within their ranges; setup tells the run's limits. */
static int create(void **self, const union policy_value *values, const struct policy_setup *setup,
		  struct policy_traits *traits, struct err *e)
{
	(void)setup;
	struct my_policy *m = mem_zalloc(1, sizeof *m);
	if (!m)
		return err_no_memory(e, "policy my_policy");
	m->prompt_share = values[PROMPT_SHARE].f;
	m->spare_blocks = (int32_t)values[SPARE_BLOCKS].i;
	/* What it asks of the engine: core/policy.h has them all. When memory runs out, it asks view_victim() who gives way, so
	 * --victim works; it calls walk_yield() first, so --scheduling-policy mlfq does. */
	traits->victims = true;
	traits->yields = true;
	traits->continues_prompts = true;
	*self = m;
	return ERR_NONE;
}

static void destroy(void *self)
{
	mem_free(self);
}

/* --- one step ------------------------------------------------------------------------------------------------------- */

/* Computes n tokens of a running request. When there is no memory for them, others give way until there is. False: it gave
 * way itself, or the run is over. */
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

/* Prompts that were begun go on, the first admitted first. `left`: tokens that prompts may still take in this step. */
static void continue_prompts(struct plan *p, int64_t *left, int32_t *preempted)
{
	int32_t next;
	for (int32_t req = view_prefilling_first(p); req >= 0 && *left > 0; req = next) {
		int32_t n = view_need(p, req);
		if (n > *left)
			n = (int32_t)*left;
		if (n > 0 && !run(p, req, n, preempted))
			return;
		*left -= n;
		next = view_prefilling_next(p, req); /* asked for after the action on req, as core/policy.h wants it */
	}
}

/* New requests, in the queue's order (--scheduling-policy). The first that cannot come in ends it: whoever lets later ones pass
 * it may let it starve. */
static void admit(const struct my_policy *m, struct plan *p, int64_t left)
{
	int32_t req;
	while (left > 0 && view_places_left(p) > 0 && (req = view_waiting_first(p)) >= 0) {
		struct admit_options o = {
			.tokens = (int32_t)left, /* at most; a prefix hit costs nothing */
			.keep_free = view_running(p) > 0 ? m->spare_blocks : 0,
			.whole_must_fit = true, /* or half-computed prompts could block each other */
		};
		int64_t before = view_budget_left(p);
		if (plan_admit(p, req, &o) != PLAN_OK)
			return;
		left -= before - view_budget_left(p);
	}
}

static void plan(void *self, struct plan *p)
{
	const struct my_policy *m = self;
	int32_t preempted = 0;
	walk_yield(p);
	/* One token for everybody who decodes, others giving way where memory runs out. */
	walk_decodes(p, 0, WALK_RECOMPUTE, &preempted);
	int64_t budget = view_budget_left(p), left = (int64_t)((double)budget * m->prompt_share);
	if (left < 1 && budget > 0)
		left = 1; /* or prompts would never be done */
	continue_prompts(p, &left, &preempted);
	/* Who just took memory from somebody does not give it to somebody new. */
	if (preempted == 0)
		admit(m, p, left);
}

/* --- what it is ------------------------------------------------------------------------------------------------------ */

static const struct policy_desc my_policy = {
	.abi = POLICY_ABI,
	.size = sizeof(struct policy_desc),
	.name = "my_policy",
	.help = "first come, first served, prompts in pieces within a share of the budget",
	.about = "Written by `lockstep policy new`.",
	.params = params,
	.n_params = N_PARAMS,
	.create = create,
	.destroy = destroy,
	.plan = plan,
	/* .on_arrival and .on_finish may tell you of requests that come and go. */
};

POLICY_PLUGIN(my_policy);
