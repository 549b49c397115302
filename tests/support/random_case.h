/* random_case.h: random workloads and settings (analysis/random_case.h), for tests: what cannot be made ends the program or
 * is told on stderr. */
#ifndef TESTS_SUPPORT_RANDOM_CASE_H
#define TESTS_SUPPORT_RANDOM_CASE_H

#include "analysis/random_case.h"

void random_case_make(struct random_case *c, uint64_t seed, const struct policy_desc *policy, int32_t largest);
/* The workload it describes; false (and said on stderr) when it cannot be built. */
bool random_case_workload(const struct random_case *c, struct workload *w);

#endif
