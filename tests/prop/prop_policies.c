/* prop_policies.c: what must hold for every registered policy, whatever its parameters, on random workloads with random
 * aborts; every invariant of the engine is verified after every step. Nobody has to add a policy to a list.
 * Options: tests/support/prop.h. */
#include <stdlib.h>
#include <string.h>

#include "analysis/policy_trial.h"
#include "policies/registry.h"
#include "tests/support/prop.h"
#include "tests/support/random_case.h"
#include "tests/support/shadow_kv.h"

static bool on_batch(void *ctx, const struct engine *g, const struct batch *b, char why[256])
{
	return shadow_kv_step(ctx, g, b, why);
}

static void before_copies(void *ctx, const struct backend *inner, const struct engine_config *c, struct backend *out)
{
	shadow_kv_backend(ctx, inner, c, out);
}

/* "" or what is wrong. The shadow memory goes along where rows are walked. */
static bool holds(const struct random_case *c, bool aborting, bool tokens, char *why)
{
	struct trial t;
	struct err e = {0};
	struct shadow_kv kv = {.eager = c->seed % 4 == 0};
	const struct trial_way way = {.aborting = aborting,
				      .tokens = tokens,
				      .ctx = &kv,
				      .batch = tokens ? on_batch : NULL,
				      .copier = before_copies};
	why[0] = '\0';
	if (trial_open(&t, c, &way, &e) == ERR_NONE && !trial_run(&t))
		memcpy(why, t.why, sizeof t.why);
	trial_close(&t);
	shadow_kv_free(&kv);
	return !why[0];
}

static bool accepted(const struct random_case *c)
{
	struct trial t;
	struct err e = {0};
	bool ok = trial_open(&t, c, &(struct trial_way){0}, &e) == ERR_NONE;
	trial_close(&t);
	return ok;
}

/* The ways of running a case: with aborts, with every token told. */
struct way {
	bool aborting, tokens;
};

static bool fails(void *ctx, const struct random_case *c)
{
	const struct way *w = ctx;
	char why[TRIAL_WHY];
	return !holds(c, w->aborting, w->tokens, why);
}

static enum prop_verdict judge(void *ctx, const struct random_case *c)
{
	char why[TRIAL_WHY];
	(void)ctx;
	for (int k = 0; k < 4; k++) {
		struct way w = {k & 1, k & 2};
		if (holds(c, w.aborting, w.tokens, why))
			continue;
		struct random_case small;
		random_case_copy(&small, c);
		prop_drop_requests(&small, fails, &w);
		holds(&small, w.aborting, w.tokens, why);
		printf("FAILED: seed %llu, policy %s%s%s: %s\n", (unsigned long long)c->seed, c->policy->name,
		       w.aborting ? ", with aborts" : "", w.tokens ? ", tokens told" : "", why);
		random_case_print(&small, stdout);
		random_case_free(&small);
		return PROP_BROKEN;
	}
	return PROP_HOLDS;
}

static int32_t largest(int64_t k)
{
	(void)k;
	return 24;
}

int main(int argc, char **argv)
{
	const struct prop p = {.name = "prop_policies",
			       .seconds = 40,
			       .cases = 40000,
			       .largest = largest,
			       .refused = 20,
			       .accepted = accepted,
			       .judge = judge};
	return prop_main(&p, argc, argv);
}
