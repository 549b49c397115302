#include "tests/support/failing_mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <CUnit/CUnit.h>

#include "core/err.h"
#include "core/mem.h"
#include "tests/support/suite.h"

static int64_t countdown, held;
static bool failed;

void failing_mem_arm(int64_t n)
{
	countdown = n;
	failed = false;
}

bool failing_mem_failed(void)
{
	return failed;
}

int64_t failing_mem_held(void)
{
	return held;
}

static bool fails_now(void)
{
	if (countdown == 0 || --countdown > 0)
		return false;
	failed = true;
	return true;
}

void *mem_alloc(size_t bytes)
{
	void *p = fails_now() ? NULL : malloc(bytes ? bytes : 1);
	held += p != NULL;
	return p;
}

void *mem_zalloc(size_t count, size_t size)
{
	void *p = fails_now() ? NULL : calloc(count ? count : 1, size ? size : 1);
	held += p != NULL;
	return p;
}

void *mem_realloc(void *p, size_t bytes)
{
	if (fails_now())
		return NULL;
	void *moved = realloc(p, bytes ? bytes : 1);
	held += !p && moved;
	return moved;
}

void mem_free(void *p)
{
	held -= p != NULL;
	free(p);
}

/* All of the first ones; then, of what a call does again and again, ever fewer: each costs a call from the start. */
static int64_t next_one(int64_t n)
{
	int64_t dense = test_short() ? 32 : 128;
	return getenv("LOCKSTEP_THOROUGH") || n < dense ? n + 1 : n + n / dense;
}

int64_t failing_mem_each(int (*once)(void *ctx, char text[1024]), void *ctx, int64_t limit)
{
	char text[1024], what[1280];
	int64_t tried = 0;
	for (int64_t n = 1; limit == 0 || n <= limit; n = next_one(n), tried++) {
		int64_t before = held;
		text[0] = '\0';
		failing_mem_arm(n);
		int rc = once(ctx, text);
		bool did = failing_mem_failed();
		failing_mem_arm(0);
		snprintf(what, sizeof what, "allocation %lld failing: status %d (%s), %lld pieces kept", (long long)n,
			 rc, text, (long long)(held - before));
		bool fine = held == before && (rc == ERR_NONE || (did && rc == ERR_MEMORY && text[0]));
		CU_assertImplementation(fine, __LINE__, what, __FILE__, "", CU_FALSE);
		if (!did || !fine)
			return tried;
	}
	return tried;
}
