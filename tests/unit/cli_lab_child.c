/* Programs run for the grader: what they print, how they end, and that they end. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "cli/lab_child.h"
#include "core/err.h"
#include "tests/support/suite.h"

static struct child_result r;
static struct err e;

static int shell(const char *script, double seconds)
{
	const char *argv[] = {"sh", "-c", script, NULL};
	struct child c = {.argv = argv, .seconds = seconds};
	child_free(&r);
	e = (struct err){0};
	return child_run(&c, &r, &e);
}

static void both_outputs_and_the_status_are_told(void)
{
	CU_ASSERT_EQUAL_FATAL(shell("echo out; echo err >&2; exit 3", 10), ERR_NONE);
	CHECK_STR(r.out, "out\n");
	CHECK_STR(r.errors, "err\n");
	CHECK_INT(r.status, 3);
	CHECK_INT(r.signal, 0);
	CU_ASSERT_FALSE(r.timed_out);
}

static void a_crash_is_a_signal(void)
{
	CU_ASSERT_EQUAL_FATAL(shell("kill -SEGV $$", 10), ERR_NONE);
	CHECK_INT(r.signal, SIGSEGV);
	CHECK_INT(r.status, 128 + SIGSEGV);
	CHECK_STR(r.out, "");
}

static void what_loops_is_ended_with_all_it_started(void)
{
	/* The inner shell holds the pipe open: were it left, reading would never end. */
	CU_ASSERT_EQUAL_FATAL(shell("sh -c 'while :; do :; done' & while :; do :; done", 0.2), ERR_NONE);
	CU_ASSERT_TRUE(r.timed_out);
	CU_ASSERT_TRUE(r.seconds >= 0.2 && r.seconds < 5);
}

static void what_closes_its_output_and_goes_on_is_ended(void)
{
	CU_ASSERT_EQUAL_FATAL(shell("exec >&- 2>&-; while :; do :; done", 0.2), ERR_NONE);
	CU_ASSERT_TRUE(r.timed_out);
	CHECK_INT(r.signal, SIGKILL);
}

static void what_prints_without_end_is_ended(void)
{
	CU_ASSERT_EQUAL_FATAL(shell("yes", 20), ERR_NONE);
	CU_ASSERT_TRUE(r.too_much);
	CU_ASSERT_FALSE(r.timed_out);
}

static void a_program_that_is_not_there_says_so(void)
{
	const char *argv[] = {"no-such-program-at-all", NULL};
	struct child c = {.argv = argv, .seconds = 5};
	child_free(&r);
	CU_ASSERT_EQUAL_FATAL(child_run(&c, &r, &e), ERR_NONE);
	CHECK_INT(r.status, 127);
	CU_ASSERT_PTR_NOT_NULL(strstr(r.errors, "No such file"));
}

static void it_can_be_stopped(void)
{
	static const volatile int stop = 1;
	const char *argv[] = {"sleep", "60", NULL};
	struct child c = {.argv = argv, .seconds = 60, .stop = &stop};
	child_free(&r);
	e = (struct err){0};
	CU_ASSERT_EQUAL(child_run(&c, &r, &e), ERR_INTERRUPTED);
	CU_ASSERT_PTR_NULL(r.out);
}

static void it_cannot_fill_a_disk(void)
{
	CU_ASSERT_EQUAL_FATAL(shell("f=$(mktemp) && trap 'rm -f $f' EXIT; ulimit -f", 10), ERR_NONE);
	CU_ASSERT_TRUE(atol(r.out) > 0 && strcmp(r.out, "unlimited\n") != 0);
}

int main(void)
{
	static const struct test tests[] = {
		{"both_outputs_and_the_status_are_told", both_outputs_and_the_status_are_told},
		{"a_crash_is_a_signal", a_crash_is_a_signal},
		{"what_loops_is_ended_with_all_it_started", what_loops_is_ended_with_all_it_started},
		{"what_closes_its_output_and_goes_on_is_ended", what_closes_its_output_and_goes_on_is_ended},
		{"what_prints_without_end_is_ended", what_prints_without_end_is_ended},
		{"a_program_that_is_not_there_says_so", a_program_that_is_not_there_says_so},
		{"it_can_be_stopped", it_can_be_stopped},
		{"it_cannot_fill_a_disk", it_cannot_fill_a_disk},
	};
	int rc = SUITE_RUN("cli_lab_child", tests);
	child_free(&r);
	return rc;
}
