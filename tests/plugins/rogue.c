/* rogue: a policy that serves first come, first served, and at a given step does what no policy should. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/err.h"
#include "core/mem.h"
#include "core/policy.h"
#include "policies/walk.h"

enum how { NOTHING, SEGV, FPE, ABORT, LOOP, SLEEP, TWICE, SMASH, STACK, WILD, BAD_CALL, IDLE, FAIL, JUMP, EXIT };
enum where { PLAN, CREATE, DESTROY, ARRIVAL, FINISH };

struct rogue {
	enum how how;
	enum where where;
	int64_t at;
	volatile char *big;
};

enum { HOW, WHERE, AT, N_PARAMS };

static const char *const hows[] = {"nothing", "segv", "fpe",      "abort", "loop", "sleep", "twice", "smash",
				   "stack",   "wild", "bad_call", "idle",  "fail", "jump",  "exit",  NULL};
static const char *const wheres[] = {"plan", "create", "destroy", "arrival", "finish", NULL};

static const struct policy_param params[N_PARAMS] = {
	[HOW] = {"how", PARAM_ENUM, "nothing", 0, 0, hows, "what it does"},
	[WHERE] = {"where", PARAM_ENUM, "plan", 0, 0, wheres, "in which function"},
	[AT] = {"at", PARAM_INT, "3", 0, 1e9, NULL, "from which step on"},
};

static volatile int zero, sink;

__attribute__((noinline)) static int deep(int n)
{
	volatile char room[4096];
	memset((char *)room, n, sizeof room);
	return zero ? 0 : deep(n + 1) + room[n & 4095];
}

static void misbehave(struct rogue *r)
{
	volatile char *volatile p = NULL;
	switch (r->how) {
	case SEGV:
		*p = 1;
		break;
	case FPE:
		sink = 1000 / zero;
		break;
	case ABORT:
		abort();
	case LOOP:
		while (!zero)
			sink++;
		break;
	case SLEEP:
		while (!zero)
			pause();
		break;
	case TWICE:
		p = malloc(100);
		free((void *)p);
		free((void *)p);
		break;
	case SMASH: {
		volatile char *q = malloc(100);
		for (int i = -32; i < 4096; i++)
			q[i] = (char)0xa5;
		free((void *)q);
		break;
	}
	case STACK:
		sink = deep(1);
		break;
	case EXIT:
		exit(0);
	case JUMP:
		((void (*)(void))(uintptr_t)(8 + (uintptr_t)zero))();
		break;
	default:
		break;
	}
}

static int create(void **self, const union policy_value *values, const struct policy_setup *setup,
		  struct policy_traits *traits, struct err *e)
{
	(void)setup;
	(void)traits;
	struct rogue *r = mem_zalloc(1, sizeof *r);
	if (!r)
		return err_no_memory(e, "policy rogue");
	r->how = (enum how)values[HOW].i;
	r->where = (enum where)values[WHERE].i;
	r->at = values[AT].i;
	*self = r;
	if (r->where == CREATE)
		misbehave(r);
	return ERR_NONE;
}

static void destroy(void *self)
{
	struct rogue *r = self;
	if (r->where == DESTROY)
		misbehave(r);
	mem_free(r);
}

static void on_arrival(void *self, struct plan *p, int32_t req)
{
	struct rogue *r = self;
	(void)req;
	if (r->where == ARRIVAL && view_step(p) >= r->at)
		misbehave(r);
}

static void on_finish(void *self, struct plan *p, int32_t req)
{
	struct rogue *r = self;
	(void)req;
	if (r->where == FINISH && view_step(p) >= r->at)
		misbehave(r);
}

static void plan(void *self, struct plan *p)
{
	struct rogue *r = self;
	int32_t preempted = 0, req;
	if (r->where == PLAN && view_step(p) >= r->at) {
		misbehave(r);
		if (r->how == WILD)
			plan_admit(p, view_waiting_first(p), (const struct admit_options *)8);
		if (r->how == BAD_CALL)
			plan_run(p, 1 << 30, 1);
		if (r->how == FAIL)
			plan_fail(p, "lost count");
		if (r->how == IDLE) {
			plan_wake_at(p, view_now_ns(p) + 1);
			return;
		}
	}
	walk_decodes(p, 0, WALK_RECOMPUTE, &preempted);
	for (req = view_prefilling_first(p); req >= 0 && view_budget_left(p) > 0; req = view_prefilling_next(p, req)) {
		int64_t n = view_need(p, req) < view_budget_left(p) ? view_need(p, req) : view_budget_left(p);
		if (plan_run(p, req, (int32_t)n) != PLAN_OK)
			return;
	}
	while (!preempted && view_places_left(p) > 0 && view_budget_left(p) > 0 && (req = view_waiting_first(p)) >= 0) {
		struct admit_options o = {.tokens = (int32_t)view_budget_left(p), .whole_must_fit = true};
		if (plan_admit(p, req, &o) != PLAN_OK)
			return;
	}
}

static const struct policy_desc rogue = {
	.abi = POLICY_ABI,
	.size = sizeof(struct policy_desc),
	.name = "rogue",
	.help = "misbehaves as it is told",
	.params = params,
	.n_params = N_PARAMS,
	.create = create,
	.destroy = destroy,
	.on_arrival = on_arrival,
	.on_finish = on_finish,
	.plan = plan,
};

POLICY_PLUGIN(rogue);
