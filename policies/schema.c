#include "policies/schema.h"

#include <string.h>

#include "core/err.h"
#include "policies/values.h"

static bool is_name_char(char c, const char *more)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || (c && strchr(more, c));
}

/* What a name can be typed in, stored in and drawn with. */
static bool is_name(const char *name, const char *more)
{
	size_t n = 0;
	while (n <= POLICY_NAME_MAX && is_name_char(name[n], more))
		n++;
	return n > 0 && n <= POLICY_NAME_MAX && !name[n];
}

static int check_interface(const struct policy_desc *d, const char *where, struct err *e)
{
	if (d->abi != POLICY_ABI)
		return err_set(e, ERR_INPUT,
			       "%s: it was built for version %u of the policy interface, this program has version %d: "
			       "build it again with this program's headers (`lockstep policy headers`)",
			       where, d->abi, POLICY_ABI);
	if (d->size != sizeof *d)
		return err_set(e, ERR_INPUT,
			       "%s: its struct policy_desc has %u bytes, this program's has %zu: set .size = "
			       "sizeof(struct policy_desc), and build it again with this program's headers",
			       where, d->size, sizeof *d);
	return ERR_NONE;
}

static int check_names(const struct policy_desc *d, const char *where, struct err *e)
{
	if (!d->name || !is_name(d->name, "_-."))
		return err_set(e, ERR_INPUT,
			       "%s: .name must be 1 to %d letters, digits, '_', '-' or '.'; it is %s%.60s%s", where,
			       POLICY_NAME_MAX, d->name ? "\"" : "", d->name ? d->name : "missing",
			       d->name ? "\"" : "");
	for (int32_t i = 0; d->aliases && d->aliases[i]; i++)
		if (!is_name(d->aliases[i], "_-."))
			return err_set(e, ERR_INPUT, "%s: .aliases[%d] is no name: \"%.60s\"", where, i, d->aliases[i]);
	if (!d->help || !*d->help)
		return err_set(e, ERR_INPUT, "%s: .help is missing: one line that says what policy %s does", where,
			       d->name);
	return ERR_NONE;
}

static int check_functions(const struct policy_desc *d, const char *where, struct err *e)
{
	const char *missing = !d->create ? "create" : !d->destroy ? "destroy" : !d->plan ? "plan" : NULL;
	if (!missing)
		return ERR_NONE;
	return err_set(e, ERR_INPUT, "%s: .%s is NULL: policy %s must have create, destroy and plan", where, missing,
		       d->name);
}

static int check_choices(const struct policy_desc *d, const struct policy_param *p, const char *where, struct err *e)
{
	if (!p->choices || !p->choices[0])
		return err_set(e, ERR_INPUT, "%s: parameter %s of policy %s is a PARAM_ENUM without .choices", where,
			       p->name, d->name);
	for (int i = 0; p->choices[i]; i++) {
		if (!is_name(p->choices[i], "_-."))
			return err_set(e, ERR_INPUT, "%s: parameter %s of policy %s: choice \"%.60s\" is no name",
				       where, p->name, d->name, p->choices[i]);
		for (int k = 0; k < i; k++)
			if (strcmp(p->choices[i], p->choices[k]) == 0)
				return err_set(e, ERR_INPUT,
					       "%s: parameter %s of policy %s has the choice \"%s\" twice", where,
					       p->name, d->name, p->choices[i]);
	}
	return ERR_NONE;
}

/* Comparisons that are false for NAN as well. */
static int check_range(const struct policy_desc *d, const struct policy_param *p, const char *where, struct err *e)
{
	static const double most = 9007199254740992.0; /* 2^53: whole numbers up to there are exact */
	double limit = p->type == PARAM_FLOAT ? 1e300 : p->type == PARAM_DURATION ? 9e9 : most;
	if (p->type == PARAM_BOOL || p->type == PARAM_ENUM)
		return ERR_NONE;
	if (!(p->min <= p->max))
		return err_set(e, ERR_INPUT, "%s: parameter %s of policy %s: .min %g is not at most .max %g", where,
			       p->name, d->name, p->min, p->max);
	if (!(p->min >= -limit && p->max <= limit))
		return err_set(e, ERR_INPUT, "%s: parameter %s of policy %s: its range %g to %g goes beyond %g", where,
			       p->name, d->name, p->min, p->max, limit);
	if (p->type == PARAM_DURATION && p->min < 0)
		return err_set(e, ERR_INPUT, "%s: parameter %s of policy %s: a duration's .min cannot be %g", where,
			       p->name, d->name, p->min);
	return ERR_NONE;
}

static int check_param(const struct policy_desc *d, int32_t i, const char *where, struct err *e)
{
	const struct policy_param *p = &d->params[i];
	union policy_value v;
	struct err own = {0};
	if (!p->name || !is_name(p->name, "_"))
		return err_set(e, ERR_INPUT, "%s: .params[%d].name must be letters, digits and '_'; it is %.60s", where,
			       i, p->name ? p->name : "missing");
	for (int32_t k = 0; k < i; k++)
		if (strcmp(d->params[k].name, p->name) == 0)
			return err_set(e, ERR_INPUT, "%s: policy %s has two parameters called %s", where, d->name,
				       p->name);
	if ((int)p->type < PARAM_INT || p->type > PARAM_DURATION)
		return err_set(e, ERR_INPUT, "%s: parameter %s of policy %s has no known .type: %d", where, p->name,
			       d->name, (int)p->type);
	if (!p->help || !*p->help)
		return err_set(e, ERR_INPUT, "%s: parameter %s of policy %s has no .help: one line, with the unit",
			       where, p->name, d->name);
	if (p->type == PARAM_ENUM && check_choices(d, p, where, e))
		return ERR_INPUT;
	if (check_range(d, p, where, e))
		return ERR_INPUT;
	if (!p->fallback)
		return err_set(e, ERR_INPUT, "%s: parameter %s of policy %s has no default: set .fallback", where,
			       p->name, d->name);
	if (value_parse(d, p, p->fallback, &v, &own))
		return err_set(e, ERR_INPUT, "%s: the default is not a value itself: %.700s", where, own.text);
	return ERR_NONE;
}

int policy_check_desc(const struct policy_desc *d, const char *where, struct err *e)
{
	if (check_interface(d, where, e) || check_names(d, where, e) || check_functions(d, where, e))
		return ERR_INPUT;
	if (d->n_params < 0 || d->n_params > POLICY_PARAMS_MAX || (d->n_params && !d->params))
		return err_set(e, ERR_INPUT, "%s: policy %s: .n_params is %d, with%s .params; at most %d are possible",
			       where, d->name, d->n_params, d->params ? "" : "out", POLICY_PARAMS_MAX);
	for (int32_t i = 0; i < d->n_params; i++)
		if (check_param(d, i, where, e))
			return ERR_INPUT;
	return ERR_NONE;
}
