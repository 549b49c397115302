/* Every allocation of a trial of `lockstep policy check` fails once: drawing a case, making it smaller, running it under a
 * built-in policy and under one that was loaded. */
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analysis/case_shrink.h"
#include "analysis/plugin.h"
#include "analysis/policy_check_internal.h"
#include "core/err.h"
#include "policies/registry.h"
#include "tests/support/failing_mem.h"
#include "tests/support/suite.h"

static const struct policy_desc *rogue(void)
{
	char path[1200], self[1024];
	const struct policy_desc *d;
	struct err e = {0};
	ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
	self[n > 0 ? n : 0] = '\0';
	snprintf(path, sizeof path, "%s/../plugins/rogue.so", dirname(self));
	if (policy_or_plugin(&d, path, &e)) {
		fprintf(stderr, "%s\n", e.text);
		exit(1);
	}
	return d;
}

static int one_trial(void *ctx, char text[1024])
{
	struct random_case c = {0};
	struct trial t = {0};
	struct err e = {0};
	int rc = random_case_draw(&c, 4, ctx, 16, &e);
	c.cfg.victim = VICTIM_DEFAULT;
	c.cfg.queue_order = QUEUE_FCFS;
	c.cfg.kv_off = false;
	if (rc == ERR_NONE)
		rc = policy_parse_params(c.policy, "", c.values, &e);
	if (rc == ERR_NONE)
		rc = trial_open(&t, &c, &(struct trial_way){.events = true, .tokens = true}, &e);
	if (rc == ERR_NONE && !trial_run(&t))
		rc = err_set(&e, strstr(t.why, "out of memory") ? ERR_MEMORY : ERR_INVARIANT, "%s", t.why);
	trial_close(&t);
	random_case_free(&c);
	snprintf(text, 1024, "%s", e.text);
	return rc;
}

static void trials_survive(void)
{
	CU_ASSERT(failing_mem_each(one_trial, (void *)(uintptr_t)policy_find("vllm_v1"), 0) > 10);
}

static void a_policy_that_was_loaded_survives(void)
{
	/* It stays loaded, and what names it stays held. */
	const struct policy_desc *d = rogue();
	CU_ASSERT(failing_mem_each(one_trial, (void *)(uintptr_t)d, 0) > 10);
}

static bool any(void *ctx, const struct random_case *c)
{
	(void)ctx;
	return c->n > 1;
}

static int smaller(void *ctx, char text[1024])
{
	struct random_case c = {0};
	struct err e = {0};
	struct shrink s = {.fails = any, .tries = -1};
	(void)ctx;
	int rc = random_case_draw(&c, 4, policy_find("orca"), 16, &e);
	if (rc == ERR_NONE)
		case_shrink(&c, &s);
	CU_ASSERT(rc || c.n >= 2);
	random_case_free(&c);
	snprintf(text, 1024, "%s", e.text);
	return rc;
}

static void making_smaller_survives(void)
{
	CU_ASSERT(failing_mem_each(smaller, NULL, 0) > 3);
}

static int keeping(void *ctx, char text[1024])
{
	struct check_options o;
	struct check_result r = {0};
	struct check_report report = {0};
	struct random_case c = {0};
	struct err e = {0};
	const struct policy_desc *d = policy_find("vllm_v1");
	(void)ctx;
	check_options_default(&o);
	o.dir = temp_dir();
	int rc = check_draw(&policy_checks[3], d, &o, 0, 0, &c, &e);
	if (rc == ERR_NONE)
		rc = check_keep_case(&r, &policy_checks[3], &o, d, &c, 0, &e);
	report.results[0] = r;
	check_report_free(&report);
	random_case_free(&c);
	snprintf(text, 1024, "%s", e.text);
	return rc;
}

static void telling_how_to_have_it_again_survives(void)
{
	CU_ASSERT(failing_mem_each(keeping, NULL, 0) > 3);
}

int main(void)
{
	static const struct test tests[] = {
		{"trials_survive", trials_survive},
		{"a_policy_that_was_loaded_survives", a_policy_that_was_loaded_survives},
		{"making_smaller_survives", making_smaller_survives},
		{"telling_how_to_have_it_again_survives", telling_how_to_have_it_again_survives},
	};
	return SUITE_RUN("failmem/policy", tests);
}
