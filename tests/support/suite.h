/* suite.h: what every CUnit program of ours shares. A test is a function; a program lists its tests and returns
 * suite_run(). The last line it prints is `NAME: P passed, F failed, S skipped`, which the runner adds up. */
#ifndef TESTS_SUPPORT_SUITE_H
#define TESTS_SUPPORT_SUITE_H

#include <CUnit/CUnit.h>
#include <stdbool.h>

struct test {
	const char *name; /* says what it protects: preempted_request_returns_first */
	void (*fn)(void);
};

int suite_run(const char *name, const struct test *tests, int n);
#define SUITE_RUN(name, tests) suite_run(name, tests, (int)(sizeof(tests) / sizeof(tests)[0]))

/* Marks the running test as skipped; the test then returns. */
void test_skip(const char *why);

/* LOCKSTEP_TEST_SHORT is set: the program is slow (sanitized), and long tables may be thinned. */
bool test_short(void);

/* The path of a file below shared/data, or NULL when it is not there (the test then calls test_skip). Looks in
 * $LOCKSTEP_SHARED, then ../shared/data. The string lives until the next call but three. */
const char *shared_data(const char *relative);

/* A new empty folder below $TMPDIR or /tmp, removed at exit; and a path in it. */
const char *temp_dir(void);
const char *temp_path(const char *name);
/* Writes a file and returns its path (temp_path). */
const char *temp_file(const char *name, const char *text);

/* CUnit's equality with a message that shows both sides. */
#define CHECK_INT(actual, expected) check_int((long long)(actual), (long long)(expected), #actual, __FILE__, __LINE__)
#define CHECK_NEAR(actual, expected, tol) check_near((actual), (expected), (tol), #actual, __FILE__, __LINE__)
#define CHECK_STR(actual, expected) check_str((actual), (expected), #actual, __FILE__, __LINE__)
void check_int(long long actual, long long expected, const char *what, const char *file, int line);
void check_near(double actual, double expected, double tol, const char *what, const char *file, int line);
void check_str(const char *actual, const char *expected, const char *what, const char *file, int line);

#endif
