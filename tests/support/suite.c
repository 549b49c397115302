#include "tests/support/suite.h"

#include <CUnit/TestRun.h>
#include <ftw.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool skipped_now;
static int skipped, passed, failed;
static char dir[256];

void test_skip(const char *why)
{
	skipped_now = true;
	printf("  skipped: %s\n", why);
}

bool test_short(void)
{
	return getenv("LOCKSTEP_TEST_SHORT") != NULL;
}

const char *shared_data(const char *relative)
{
	static char paths[4][1024];
	static int turn;
	const char *base = getenv("LOCKSTEP_SHARED");
	char *path = paths[turn++ & 3];
	snprintf(path, sizeof paths[0], "%s/%s", base ? base : "../shared/data", relative);
	return access(path, R_OK) == 0 ? path : NULL;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *f)
{
	(void)st, (void)type, (void)f;
	return remove(path);
}

static void remove_dir(void)
{
	nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

const char *temp_dir(void)
{
	if (!dir[0]) {
		const char *tmp = getenv("TMPDIR");
		snprintf(dir, sizeof dir, "%s/lockstep-test-XXXXXX", tmp ? tmp : "/tmp");
		if (!mkdtemp(dir)) {
			perror(dir);
			exit(1);
		}
		atexit(remove_dir);
	}
	return dir;
}

const char *temp_path(const char *name)
{
	static char paths[8][512];
	static int turn;
	char *path = paths[turn++ & 7];
	snprintf(path, sizeof paths[0], "%s/%s", temp_dir(), name);
	return path;
}

const char *temp_file(const char *name, const char *text)
{
	const char *path = temp_path(name);
	FILE *f = fopen(path, "w");
	if (!f || fputs(text, f) < 0 || fclose(f)) {
		perror(path);
		exit(1);
	}
	return path;
}

void check_int(long long actual, long long expected, const char *what, const char *file, int line)
{
	char text[256];
	snprintf(text, sizeof text, "%s is %lld, expected %lld", what, actual, expected);
	CU_assertImplementation(actual == expected, (unsigned)line, text, file, "", CU_FALSE);
}

void check_near(double actual, double expected, double tol, const char *what, const char *file, int line)
{
	char text[256];
	snprintf(text, sizeof text, "%s is %.17g, expected %.17g within %g", what, actual, expected, tol);
	CU_assertImplementation(fabs(actual - expected) <= tol, (unsigned)line, text, file, "", CU_FALSE);
}

void check_str(const char *actual, const char *expected, const char *what, const char *file, int line)
{
	char text[2048];
	snprintf(text, sizeof text, "%s is \"%s\", expected \"%s\"", what, actual ? actual : "(null)", expected);
	CU_assertImplementation(actual && strcmp(actual, expected) == 0, (unsigned)line, text, file, "", CU_FALSE);
}

static void on_test_done(const CU_pTest test, const CU_pSuite suite, const CU_pFailureRecord failure)
{
	(void)suite;
	if (failure) {
		failed++;
		printf("  FAILED %s\n", test->pName);
		for (CU_pFailureRecord f = failure; f; f = f->pNext)
			printf("    %s:%u: %s\n", f->strFileName, f->uiLineNumber, f->strCondition);
	} else if (skipped_now) {
		skipped++;
	} else {
		passed++;
	}
	skipped_now = false;
	fflush(stdout);
}

int suite_run(const char *name, const struct test *tests, int n)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	CU_pSuite suite = CU_initialize_registry() == CUE_SUCCESS ? CU_add_suite(name, NULL, NULL) : NULL;
	if (!suite)
		return 1;
	for (int i = 0; i < n; i++)
		if (!CU_add_test(suite, tests[i].name, tests[i].fn))
			return 1;
	CU_set_test_complete_handler(on_test_done);
	CU_run_all_tests();
	CU_cleanup_registry();
	printf("%s: %d passed, %d failed, %d skipped\n", name, passed, failed, skipped);
	return failed != 0;
}
