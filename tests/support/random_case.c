#include "tests/support/random_case.h"

#include <stdlib.h>

#include "core/err.h"

void random_case_make(struct random_case *c, uint64_t seed, const struct policy_desc *policy, int32_t largest)
{
	struct err e = {0};
	if (random_case_draw(c, seed, policy, largest, &e) == ERR_NONE)
		return;
	fprintf(stderr, "random_case: %s\n", e.text);
	exit(1);
}

bool random_case_workload(const struct random_case *c, struct workload *w)
{
	struct err e = {0};
	if (random_case_build(c, w, &e) == ERR_NONE)
		return true;
	fprintf(stderr, "random_case: %s\n", e.text);
	workload_free(w);
	return false;
}
