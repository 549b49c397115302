#include "analysis/run_policy.h"

#include "analysis/plugin.h"
#include "analysis/run.h"
#include "core/err.h"
#include "core/mem.h"
#include "policies/registry.h"

int run_policy_open(struct policy *out, const struct run_settings *s, const struct engine_config *config, char **params,
		    struct err *e)
{
	const struct policy_desc *d;
	int rc = policy_or_plugin(&d, s->policy_path ? s->policy_path : s->policy, e);
	if (rc)
		return rc;
	/* A policy is told the resolved configuration; the engine keeps the one that was asked for. */
	struct engine_config c = *config;
	rc = engine_config_resolve(&c, e);
	if (rc)
		return rc;
	struct policy_setup setup;
	engine_policy_setup(&c, &setup);
	union policy_value *values = mem_zalloc((size_t)d->n_params + 1, sizeof *values);
	if (!values)
		return err_no_memory(e, "policy parameters");
	rc = policy_parse_params(d, s->policy_params, values, e);
	if (rc == ERR_NONE && params) {
		*params = policy_format_params(d, values);
		rc = *params ? ERR_NONE : err_no_memory(e, "policy parameters");
	}
	if (rc == ERR_NONE)
		rc = plugin_policy_open(out, d, values, &setup, e);
	mem_free(values);
	return rc;
}
