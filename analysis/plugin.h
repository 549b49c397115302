/* plugin.h: policies that are not compiled in: --policy ./mine.so.
 *
 * A plug-in is loaded once and stays loaded; it is found by its path wherever a policy's name is taken, and called through
 * analysis/guard.h. docs/plugin-policies.md is for those who write one. */
#ifndef ANALYSIS_PLUGIN_H
#define ANALYSIS_PLUGIN_H

#include <stdbool.h>

#include "core/policy.h"

struct err;

/* Is it a file's name and not a policy's? It has a slash, or ends in .so. */
bool plugin_is_path(const char *name);
/* Where the parameters of "./mine.so:depth=2" begin: the length of what stands before the colon. Of a policy's name too. */
int plugin_name_length(const char *text);

struct plugin {
	const struct policy_desc *desc; /* what it declares */
	char *path; /* absolute */
	char digest[24]; /* of the file, hexadecimal */
};

/* Loads it, or finds it loaded. ERR_INPUT in one line: no such file, not a shared object, no descriptor, another interface
 * version, a parameter that makes no sense, code that crashes while it is loaded. */
int plugin_load(const struct plugin **out, const char *path, struct err *e);
/* A policy by its name, or a plug-in by its path. */
int policy_or_plugin(const struct policy_desc **out, const char *name, struct err *e);
/* The plug-in whose descriptor that is; NULL: it is built in. */
const struct plugin *plugin_of(const struct policy_desc *d);

/* policy_open for either. A plug-in's instance is called with care: when it crashes or does not come back, the run ends
 * with ERR_POLICY and a line that names it ("step 17: policy mine crashed in plan() (SIGSEGV)"). Release with
 * policy_close. */
int plugin_policy_open(struct policy *out, const struct policy_desc *d, const union policy_value *values,
		       const struct policy_setup *setup, struct err *e);
/* The run is over: a plug-in's instance is destroyed now, while it can still be said that this failed. Nothing for others.
 * ERR_POLICY. policy_close remains to be called. */
int plugin_policy_end(struct policy *p, struct err *e);

#endif
