/* Policies that are loaded: what is refused, and what becomes of a run whose policy crashes or does not come back. */
#include <libgen.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "analysis/guard.h"
#include "analysis/plugin.h"
#include "analysis/store.h"
#include "core/mem.h"
#include "policies/registry.h"
#include "tests/unit/analysis_fixture.h"

/* tests/plugins, as the Makefile built them: beside this program. */
static const char *built(const char *name)
{
	static char path[1200];
	char self[1024];
	ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
	self[n > 0 ? n : 0] = '\0';
	snprintf(path, sizeof path, "%s/plugins/%s.so", dirname(self), name);
	return path;
}

static void refused(const char *path, const char *text)
{
	const struct policy_desc *d;
	struct err e = {0};
	CHECK_INT(policy_or_plugin(&d, path, &e), ERR_INPUT);
	if (!strstr(e.text, text) || strchr(e.text, '\n'))
		CHECK_STR(e.text, text);
}

static void what_cannot_be_loaded_says_why(void)
{
	refused("./nothing_here.so", "cannot be opened: No such file");
	refused(temp_file("text.so", "int main;"), "is no policy that can be loaded");
	refused(temp_dir(), "cannot be read");
	refused(built("other_abi"), "version 2 of the policy interface");
	refused(built("other_size"), "has 88 bytes");
	refused(built("no_symbol"), "exports no policy");
	refused(built("not_linked"), "undefined symbol: nobody_has_this");
	refused(built("taken_name"), "a policy called \"orca\" is built in");
	refused(built("bad_pointer"), "its descriptor cannot be read: crashed in dlsym() (SIGSEGV)");
}

static void names_and_files_are_told_apart(void)
{
	CU_ASSERT_TRUE(plugin_is_path("./mine"));
	CU_ASSERT_TRUE(plugin_is_path("mine.so"));
	CU_ASSERT_FALSE(plugin_is_path("mine"));
	CU_ASSERT_FALSE(plugin_is_path(".so"));
	CHECK_INT(plugin_name_length("chunked"), 7);
	CHECK_INT(plugin_name_length("chunked:a=b:c"), 7);
	CHECK_INT(plugin_name_length("./mine.so"), 9);
	CHECK_INT(plugin_name_length("./mine.so:file=/tmp/x"), 9);
	CHECK_INT(plugin_name_length("/a:b/mine.so:x=1"), 12);
	CHECK_INT(plugin_name_length("/a:b/mine:x=1"), 9);
}

static void it_is_loaded_once(void)
{
	const struct plugin *a, *b;
	const struct policy_desc *d;
	struct err e = {0};
	CHECK_INT(plugin_load(&a, built("rogue"), &e), ERR_NONE);
	CHECK_INT(plugin_load(&b, built("../plugins/rogue"), &e), ERR_NONE);
	CU_ASSERT_PTR_EQUAL(a, b);
	CHECK_INT(strlen(a->digest), 16);
	CHECK_INT(a->path[0], '/');
	CHECK_STR(a->desc->name, "rogue");
	CU_ASSERT_PTR_EQUAL(plugin_of(a->desc), a);
	CHECK_INT(policy_or_plugin(&d, "orca", &e), ERR_NONE);
	CU_ASSERT_PTR_NULL(plugin_of(d));
}

static void settings(struct run_settings *s, const struct workload *w, const char *params)
{
	const struct plugin *p;
	struct err e = {0};
	small_settings(s, w);
	if (plugin_load(&p, built("rogue"), &e)) {
		fprintf(stderr, "%s\n", e.text);
		exit(1);
	}
	s->policy = p->desc->name;
	s->policy_path = p->path;
	s->policy_digest = p->digest;
	s->policy_params = params;
}

static void a_plug_in_that_behaves_runs_as_any_other(void)
{
	struct workload w;
	struct run_settings s;
	struct run_result r;
	struct store *store;
	struct err e = {0};
	struct store_recipe recipe;
	random_workload(&w, 200, 20, 1);
	settings(&s, &w, "how=nothing");
	unlink(temp_path("good.db"));
	CHECK_INT(store_open(&store, temp_path("good.db"), false, &e), ERR_NONE);
	must_run(&s, &w, store, &r);
	CHECK_INT(r.status, RUN_COMPLETE);
	CHECK_INT(r.metrics.completed, 200);
	CHECK_STR(r.policy_params, "how=nothing,where=plan,at=3");
	CHECK_INT(store_recipe(store, r.run_id, &recipe, &e), ERR_NONE);
	CHECK_STR(recipe.policy, "rogue");
	CHECK_STR(recipe.policy_path, s.policy_path);
	CHECK_STR(recipe.policy_digest, s.policy_digest);
	store_recipe_free(&recipe);
	store_close(store);
	run_result_free(&r);
	workload_free(&w);
}

/* The thread sanitizer lets one signal handler be left by a jump, and no second one. */
#ifdef __SANITIZE_THREAD__
#define NO_CRASHES                                                                                                     \
	do {                                                                                                           \
		test_skip("the thread sanitizer keeps to itself what crashes");                                        \
		return;                                                                                                \
	} while (0)
#else
#define NO_CRASHES (void)0
#endif

/* Runs it, expects that text, and that the database says the same. */
static void fails(const char *params, const char *text)
{
	struct workload w;
	struct run_settings s;
	struct run_result r;
	struct store *store;
	struct store_list list;
	struct err e = {0};
	random_workload(&w, 60, 20, 1);
	settings(&s, &w, params);
	unlink(temp_path("bad.db"));
	CHECK_INT(store_open(&store, temp_path("bad.db"), false, &e), ERR_NONE);
	const struct run_io io = {.store = store};
	CHECK_INT(run_execute(&s, &w, &io, &r, &e), ERR_POLICY);
	CHECK_STR(e.text, text);
	CHECK_INT(r.status, RUN_FAILED);
	CHECK_INT(store_list(store, &list, &e), ERR_NONE);
	CHECK_INT(list.n, 1);
	if (list.n == 1) {
		CHECK_STR(list.runs[0].status, "failed");
		CHECK_STR(list.runs[0].status_text, text);
	}
	store_list_free(&list);
	store_close(store);
	run_result_free(&r);
	workload_free(&w);
}

static void a_crash_ends_the_run_and_names_the_policy(void)
{
	NO_CRASHES;
	fails("how=segv", "step 3: policy rogue crashed in plan() (SIGSEGV)");
	fails("how=fpe,at=0", "step 0: policy rogue crashed in plan() (SIGFPE)");
	fails("how=jump,at=7", "step 7: policy rogue crashed in plan() (SIGSEGV)");
	fails("how=wild", "step 3: policy rogue crashed in plan() (SIGSEGV)");
	fails("how=segv,where=arrival,at=0", "step 0: policy rogue crashed in on_arrival() (SIGSEGV)");
	fails("how=segv,where=destroy", "policy rogue crashed in destroy() (SIGSEGV), after the run's last step");
	fails("how=fail", "step 3: policy rogue lost count");
	fails("how=bad_call", "step 3: policy rogue ran a request that is not running (request none)");
}

static void a_crash_at_the_end_of_a_request_is_one_of_the_policy(void)
{
	NO_CRASHES;
	struct workload w;
	struct run_settings s;
	struct run_result r;
	struct err e = {0};
	random_workload(&w, 60, 20, 1);
	settings(&s, &w, "how=segv,where=finish,at=0");
	CHECK_INT(run_execute(&s, &w, NULL, &r, &e), ERR_POLICY);
	CU_ASSERT_PTR_NOT_NULL(strstr(e.text, "policy rogue crashed in on_finish() (SIGSEGV)"));
	run_result_free(&r);
	workload_free(&w);
}

static void one_that_cannot_be_made_starts_no_run(void)
{
	NO_CRASHES;
	struct workload w;
	struct run_settings s;
	struct run_result r;
	struct err e = {0};
	random_workload(&w, 10, 20, 1);
	settings(&s, &w, "how=segv,where=create");
	CHECK_INT(run_execute(&s, &w, NULL, &r, &e), ERR_POLICY);
	CHECK_STR(e.text, "policy rogue crashed in create() (SIGSEGV)");
	run_result_free(&r);
	workload_free(&w);
}

static void the_stack_may_run_over(void)
{
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
	fails("how=stack", "step 3: policy rogue crashed in plan() (SIGSEGV)");
#else
	test_skip("sanitized stacks");
#endif
}

static void one_that_loops_is_left(void)
{
#ifdef __SANITIZE_THREAD__
	test_skip("the thread sanitizer holds signals back");
#else
	guard_limit(0.2);
	fails("how=loop", "step 3: policy rogue did not come back from plan() within 0.2 s");
	guard_limit(10);
#endif
}

/* What ends the program: run in a child, whose last words come through a pipe. */
static int to_parent;

static void tell(const struct guard_words *words)
{
	ssize_t n = write(to_parent, words->text, strlen(words->text));
	n += write(to_parent, "|", 1) + write(to_parent, words->db, strlen(words->db));
	n += write(to_parent, "|", 1) + write(to_parent, words->run_id, strlen(words->run_id));
	_exit(n > 0 ? 77 : 78);
}

static void last_words(const char *params, const char *expected)
{
	int pipes[2], status = 0;
	char text[1024] = "", want[1024];
	size_t n = 0;
	CHECK_INT(pipe(pipes), 0);
	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0) {
		struct workload w;
		struct run_settings s;
		struct run_result r;
		struct store *store;
		struct err e = {0};
		to_parent = pipes[1];
		guard_on_fatal(tell);
		guard_limit(0.1);
		random_workload(&w, 60, 20, 1);
		settings(&s, &w, params);
		store_open(&store, temp_path("dead.db"), false, &e);
		const struct run_io io = {.store = store};
		run_execute(&s, &w, &io, &r, &e);
		_exit(79);
	}
	close(pipes[1]);
	for (ssize_t got; n < sizeof text - 1 && (got = read(pipes[0], text + n, sizeof text - 1 - n)) > 0;)
		n += (size_t)got;
	text[n] = '\0';
	close(pipes[0]);
	CHECK_INT(waitpid(pid, &status, 0), pid);
	CHECK_INT(WIFEXITED(status) ? WEXITSTATUS(status) : -1, 77);
	snprintf(want, sizeof want, "%s|%s|1", expected, temp_path("dead.db"));
	CHECK_STR(text, want);
	/* Another process says what became of it, once. */
	struct store *store;
	struct store_list list;
	struct err e = {0};
	char *json = NULL;
	CHECK_INT(store_open(&store, temp_path("dead.db"), false, &e), ERR_NONE);
	CHECK_INT(store_fail_run(store, 1, expected, &e), ERR_NONE);
	CHECK_INT(store_fail_run(store, 1, "not again", &e), ERR_NONE);
	CHECK_INT(store_list(store, &list, &e), ERR_NONE);
	CHECK_INT(list.n, 1);
	if (list.n == 1) {
		CHECK_STR(list.runs[0].status, "failed");
		CHECK_STR(list.runs[0].status_text, expected);
	}
	CHECK_INT(store_run_json(store, 1, &json, &e), ERR_NONE);
	CU_ASSERT_PTR_NOT_NULL(json ? strstr(json, "\"status\":\"failed\"") : NULL);
	mem_free(json);
	store_list_free(&list);
	store_close(store);
	unlink(temp_path("dead.db"));
}

static void where_the_program_cannot_go_on_it_says_who_it_was(void)
{
	last_words("how=abort", "step 3: policy rogue crashed in plan() (SIGABRT)");
	last_words("how=exit", "step 3: policy rogue called exit() in plan()");
	last_words("how=abort,where=destroy", "policy rogue crashed in destroy() (SIGABRT)");
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* which have allocators and words of their own */
	last_words("how=twice", "step 3: policy rogue crashed in plan() (SIGABRT)");
#endif
#ifndef __SANITIZE_THREAD__
	last_words("how=sleep", "step 3: policy rogue does not come back from plan()");
#endif
}

int main(void)
{
	static const struct test tests[] = {
		{"what_cannot_be_loaded_says_why", what_cannot_be_loaded_says_why},
		{"names_and_files_are_told_apart", names_and_files_are_told_apart},
		{"it_is_loaded_once", it_is_loaded_once},
		{"a_plug_in_that_behaves_runs_as_any_other", a_plug_in_that_behaves_runs_as_any_other},
		{"a_crash_ends_the_run_and_names_the_policy", a_crash_ends_the_run_and_names_the_policy},
		{"a_crash_at_the_end_of_a_request_is_one_of_the_policy",
		 a_crash_at_the_end_of_a_request_is_one_of_the_policy},
		{"one_that_cannot_be_made_starts_no_run", one_that_cannot_be_made_starts_no_run},
		{"the_stack_may_run_over", the_stack_may_run_over},
		{"one_that_loops_is_left", one_that_loops_is_left},
		{"where_the_program_cannot_go_on_it_says_who_it_was",
		 where_the_program_cannot_go_on_it_says_who_it_was},
	};
	return SUITE_RUN("analysis_plugin", tests);
}
