/* run_policy.h: the policy that settings name, for an engine of that configuration. */
#ifndef ANALYSIS_RUN_POLICY_H
#define ANALYSIS_RUN_POLICY_H

#include "core/engine.h"
#include "core/policy.h"

struct err;
struct run_settings;

/* *params (may be NULL) gets all parameters with their values as text, to be released with mem_free, also after an error.
 * ERR_INPUT. Release the policy with policy_close. */
int run_policy_open(struct policy *out, const struct run_settings *s, const struct engine_config *config, char **params,
		    struct err *e);

#endif
