/* registry.h: finds policies by name, parses their parameters, makes instances. A built-in policy is one file that
 * ends with POLICY_REGISTER(descriptor): nothing else needs an edit. */
#ifndef POLICIES_REGISTRY_H
#define POLICIES_REGISTRY_H

#include "core/policy.h"

struct err;

/* Ends a policy's file: puts its descriptor into the table that the linker collects. */
#define POLICY_REGISTER(desc)                                                                                          \
	static const struct policy_desc *const desc##_entry __attribute__((used, section("lockstep_policies"))) =      \
		&(desc)

/* How many there are, and the i-th by name order (a policy once, by the name it is published under). */
int32_t policy_count(void);
const struct policy_desc *policy_at(int32_t i);
/* By its name or an alias; NULL when unknown. */
const struct policy_desc *policy_find(const char *name);
/* The same, with an error that lists near matches. */
int policy_lookup(const char *name, const struct policy_desc **out, struct err *e);

/* Parses "a=1,b=off" (NULL or "" = defaults only) into values[desc->n_params]; every parameter gets a value. */
int policy_parse_params(const struct policy_desc *d, const char *text, union policy_value *values, struct err *e);
/* All parameters as "a=1,b=off" in declaration order, for the database; release with mem_free. */
char *policy_format_params(const struct policy_desc *d, const union policy_value *values);

/* Makes an instance; release with policy_close. */
int policy_open(struct policy *out, const struct policy_desc *d, const union policy_value *values,
		const struct policy_setup *setup, struct err *e);
void policy_close(struct policy *p);

#endif
