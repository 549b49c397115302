/* lockstep policy check as a library: what sound policies pass, what it finds in others, and how a failure is had again. */
#include <libgen.h>
#include <unistd.h>

#include "analysis/case_shrink.h"
#include "analysis/plugin.h"
#include "analysis/plugin_build.h"
#include "analysis/policy_check.h"
#include "analysis/policy_trial.h"
#include "policies/registry.h"
#include "tests/unit/analysis_fixture.h"

static const struct policy_desc *built(const char *name)
{
	char path[1200], self[1024];
	const struct policy_desc *d;
	struct err e = {0};
	ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
	self[n > 0 ? n : 0] = '\0';
	snprintf(path, sizeof path, "%s/plugins/%s.so", dirname(self), name);
	if (policy_or_plugin(&d, path, &e)) {
		fprintf(stderr, "%s\n", e.text);
		exit(1);
	}
	return d;
}

/* One check. */
static struct check_result run_one(const struct policy_desc *d, const char *check, const char *params)
{
	struct check_options o;
	struct check_report r;
	struct err e = {0};
	check_options_default(&o);
	o.seconds = 0;
	o.only = check;
	o.params = params;
	o.call_seconds = 0.3;
	CHECK_INT(policy_check(d, &o, &r, &e), ERR_NONE);
	CHECK_INT(r.n, 1);
	struct check_result one = r.results[0];
	one.file = one.replay = one.again = NULL;
	check_report_free(&r);
	return one;
}

static void finds(const char *plugin, const char *params, const char *check, enum check_verdict verdict,
		  const char *text)
{
	struct check_result r = run_one(built(plugin), check, params);
	CHECK_INT(r.verdict, verdict);
	if (!strstr(r.text, text))
		CHECK_STR(r.text, text);
}

static void built_in_policies_are_sound(void)
{
	for (int32_t i = 0; i < policy_count(); i += test_short() ? 5 : 1) {
		struct check_options o;
		struct check_report r;
		struct err e = {0};
		check_options_default(&o);
		o.seconds = 0;
		CHECK_INT(policy_check(policy_at(i), &o, &r, &e), ERR_NONE);
		CHECK_INT(r.failed + r.warned, 0);
		CHECK_INT(r.n, 13);
		CHECK_INT(strlen(r.decisions), 16);
		for (int32_t k = 0; k < r.n; k++) {
			if (r.results[k].verdict == CHECK_FAILED)
				printf("%s: %s: %s\n", policy_at(i)->name, r.results[k].name, r.results[k].text);
			/* Only one that has no parameters, or refuses them all, is let off something. */
			if (r.results[k].verdict == CHECK_SKIPPED)
				CHECK_STR(r.results[k].name, "parameters");
			else
				CU_ASSERT_TRUE(r.results[k].cases > 0);
		}
		check_report_free(&r);
	}
}

static void every_kind_of_fault_is_found(void)
{
	finds("rogue", "how=nothing", "memory", CHECK_PASSED, "");
	finds("rogue", "how=segv", "defaults", CHECK_FAILED, "step 3: policy rogue crashed in plan() (SIGSEGV)");
	finds("rogue", "how=segv,where=create", "random", CHECK_FAILED, "policy rogue crashed in create() (SIGSEGV)");
	finds("rogue", "how=segv,where=destroy", "limits", CHECK_FAILED, "crashed in destroy() (SIGSEGV)");
	finds("rogue", "how=abort", "memory", CHECK_FAILED, "step 3: policy rogue crashed in plan() (SIGABRT)");
	finds("rogue", "how=bad_call", "aborts", CHECK_FAILED, "ran a request that is not running");
	finds("rogue", "how=idle", "limits", CHECK_FAILED, "it plans nothing, again and again");
	finds("rogue", "how=fail", "forks", CHECK_FAILED, "step 3: policy rogue lost count");
	finds("cheat", NULL, "lengths", CHECK_FAILED, "it knows how long an answer will become");
	finds("static_state", NULL, "repeat", CHECK_FAILED, "run twice, it decides otherwise");
	finds("steady_lie", NULL, "walks", CHECK_FAILED, "is the trait");
	finds("passes_by", NULL, "starvation", CHECK_WARNED, "it would starve");
	finds("passes_by", NULL, "memory", CHECK_PASSED, "");
#ifndef __SANITIZE_THREAD__
	finds("rogue", "how=loop", "memory", CHECK_FAILED, "did not come back from plan() within");
#endif
}

static void a_failure_is_small_and_can_be_had_again(void)
{
	struct check_options o;
	struct check_report r;
	struct err e = {0};
	char text[4096] = "";
	check_options_default(&o);
	o.seconds = 0;
	o.only = "memory";
	o.params = "how=bad_call";
	o.dir = temp_dir();
	o.shown = "./it's here/rogue.so";
	CHECK_INT(policy_check(built("rogue"), &o, &r, &e), ERR_NONE);
	CHECK_INT(r.failed, 1);
	const struct check_result *c = &r.results[0];
	CU_ASSERT_PTR_NOT_NULL_FATAL(c->file);
	CU_ASSERT_PTR_NOT_NULL_FATAL(c->replay);
	FILE *f = fopen(c->file, "r");
	CU_ASSERT_PTR_NOT_NULL_FATAL(f);
	size_t n = fread(text, 1, sizeof text - 1, f);
	fclose(f);
	int lines = 0;
	for (size_t i = 0; i < n; i++)
		lines += text[i] == '\n';
	CU_ASSERT_TRUE(lines >= 1 && lines <= 2);
	CU_ASSERT_PTR_NOT_NULL(strstr(c->replay, "'./it'\\''s here/rogue.so:how=bad_call,where=plan,at=3'"));
	CU_ASSERT_PTR_NOT_NULL(strstr(c->replay, "--num-gpu-blocks-override"));
	CU_ASSERT_PTR_NOT_NULL(strstr(c->again, "--only memory --seed 1 --case 0 --policy-params how=bad_call"));
	check_report_free(&r);
}

static void the_same_seed_gives_the_same_report(void)
{
	struct check_options o;
	struct check_report a, b;
	struct err e = {0};
	check_options_default(&o);
	o.seconds = 0;
	o.only = "golden,memory";
	o.seed = 5;
	CHECK_INT(policy_check(policy_find("orca"), &o, &a, &e), ERR_NONE);
	o.seed = 6;
	CHECK_INT(policy_check(policy_find("orca"), &o, &b, &e), ERR_NONE);
	CHECK_STR(b.decisions, a.decisions); /* fixed workloads */
	CHECK_INT(a.results[0].cases, b.results[0].cases);
	o.golden = a.decisions;
	check_report_free(&b);
	CHECK_INT(policy_check(policy_find("orca"), &o, &b, &e), ERR_NONE);
	CHECK_INT(b.failed, 0);
	check_report_free(&b);
	CHECK_INT(policy_check(policy_find("sarathi"), &o, &b, &e), ERR_NONE);
	CHECK_INT(b.failed, 1);
	CU_ASSERT_PTR_NOT_NULL(strstr(b.results[1].text, "it decides otherwise"));
	check_report_free(&a);
	check_report_free(&b);
}

static void options_that_make_no_sense_are_refused(void)
{
	struct check_options o;
	struct check_report r;
	struct err e = {0};
	check_options_default(&o);
	o.only = "memory,memories";
	CHECK_INT(policy_check(policy_find("orca"), &o, &r, &e), ERR_INPUT);
	CU_ASSERT_PTR_NOT_NULL(strstr(e.text, "there is no check \"memories\""));
	err_clear(&e);
	o.only = NULL;
	o.params = "paged=perhaps";
	CHECK_INT(policy_check(policy_find("orca"), &o, &r, &e), ERR_INPUT);
	CU_ASSERT_PTR_NOT_NULL(strstr(e.text, "paged=\"perhaps\""));
	check_report_free(&r);
	CU_ASSERT_PTR_NULL(policy_check_name(13));
	CU_ASSERT_PTR_NULL(policy_check_about(-1));
}

/* --- making smaller ----------------------------------------------------------------------------------------------- */

/* "Fails" while request `wanted`, known by its prompt, is there and has more than 3 outputs, and two blocks are left. */
static bool needs_one(void *ctx, const struct random_case *c)
{
	int32_t prompt = *(const int32_t *)ctx;
	bool there = false;
	for (int32_t i = 0; i < c->n; i++)
		there |= c->reqs[i].prompt == prompt && c->reqs[i].output > 3;
	return there && c->cfg.num_blocks >= 2;
}

static void only_what_is_needed_stays(void)
{
	struct random_case c;
	struct err e = {0};
	CHECK_INT(random_case_draw(&c, 11, policy_find("orca"), 24, &e), ERR_NONE);
	int32_t prompt = 77;
	c.reqs[c.n - 1].prompt = prompt;
	c.reqs[c.n - 1].output = 50;
	struct shrink s = {.fails = needs_one, .ctx = &prompt, .tries = -1};
	case_shrink(&c, &s);
	CHECK_INT(c.n, 1);
	CHECK_INT(c.reqs[0].prompt, 77);
	CHECK_INT(c.reqs[0].output, 4);
	CHECK_INT(c.reqs[0].max_tokens, 1);
	CHECK_INT(c.reqs[0].n_segments, 0);
	CHECK_INT(c.cfg.num_blocks, 2);
	CHECK_INT(c.cfg.max_num_seqs, 1);
	CHECK_INT(c.cfg.prefix_caching, false);
	random_case_free(&c);
	/* And no longer than it may take. */
	CHECK_INT(random_case_draw(&c, 11, policy_find("orca"), 24, &e), ERR_NONE);
	c.reqs[c.n - 1].prompt = prompt;
	c.reqs[c.n - 1].output = 50;
	s.tries = 3;
	case_shrink(&c, &s);
	CHECK_INT(s.tries, 0);
	CU_ASSERT_TRUE(needs_one(&prompt, &c));
	random_case_free(&c);
}

static void compilers_complaints_are_passed_on(void)
{
	struct err e = {0};
	char dir[1024];
	if (plugin_headers(dir, sizeof dir, &e)) {
		test_skip("the source tree is not around this program");
		return;
	}
	CHECK_INT(plugin_build(temp_file("bad.c", "#include \"core/policy.h\"\nint x = nonsense;\n"),
			       temp_path("bad.so"), &e),
		  ERR_INPUT);
	CU_ASSERT_PTR_NOT_NULL(strstr(e.text, "does not compile"));
	CU_ASSERT_PTR_NOT_NULL(strstr(e.text, "nonsense"));
	err_clear(&e);
	CHECK_INT(plugin_build(temp_file("good.c", "#include \"core/policy.h\"\nint x;\n"), temp_path("good.so"), &e),
		  ERR_NONE);
	CHECK_INT(access(temp_path("good.so"), R_OK), 0);
	setenv("CC", "no-such-compiler-anywhere", 1);
	CHECK_INT(plugin_build(temp_path("good.c"), temp_path("good.so"), &e), ERR_INPUT);
	CU_ASSERT_PTR_NOT_NULL(strstr(e.text, "there is no C compiler (no-such-compiler-anywhere)"));
	unsetenv("CC");
}

int main(void)
{
	static const struct test tests[] = {
		{"built_in_policies_are_sound", built_in_policies_are_sound},
		{"every_kind_of_fault_is_found", every_kind_of_fault_is_found},
		{"a_failure_is_small_and_can_be_had_again", a_failure_is_small_and_can_be_had_again},
		{"the_same_seed_gives_the_same_report", the_same_seed_gives_the_same_report},
		{"options_that_make_no_sense_are_refused", options_that_make_no_sense_are_refused},
		{"only_what_is_needed_stays", only_what_is_needed_stays},
		{"compilers_complaints_are_passed_on", compilers_complaints_are_passed_on},
	};
	return SUITE_RUN("analysis_policy_check", tests);
}
