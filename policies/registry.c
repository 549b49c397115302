#include "policies/registry.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "core/err.h"
#include "core/mem.h"
#include "core/near.h"
#include "policies/values.h"

/* Collected by the linker: one pointer per POLICY_REGISTER. */
extern const struct policy_desc *const __start_lockstep_policies[];
extern const struct policy_desc *const __stop_lockstep_policies[];

int32_t policy_count(void)
{
	return (int32_t)(__stop_lockstep_policies - __start_lockstep_policies);
}

const struct policy_desc *policy_at(int32_t i)
{
	/* The linker's order is no order to show: the i-th is the one with i smaller names. */
	for (int32_t k = 0; k < policy_count(); k++) {
		int32_t smaller = 0;
		for (int32_t j = 0; j < policy_count(); j++)
			smaller += strcmp(__start_lockstep_policies[j]->name, __start_lockstep_policies[k]->name) < 0;
		if (smaller == i)
			return __start_lockstep_policies[k];
	}
	return NULL;
}

static bool is_called(const struct policy_desc *d, const char *name)
{
	if (!strcmp(d->name, name))
		return true;
	for (int32_t i = 0; d->aliases && d->aliases[i]; i++)
		if (!strcmp(d->aliases[i], name))
			return true;
	return false;
}

const struct policy_desc *policy_find(const char *name)
{
	for (int32_t i = 0; i < policy_count(); i++)
		if (is_called(__start_lockstep_policies[i], name))
			return __start_lockstep_policies[i];
	return NULL;
}

static void add_name(char *text, size_t size, const char *name)
{
	size_t at = strlen(text);
	if (at + strlen(name) + 3 > size)
		return;
	if (at) {
		memcpy(text + at, ", ", 3);
		at += 2;
	}
	memcpy(text + at, name, strlen(name) + 1);
}

int policy_lookup(const char *name, const struct policy_desc **out, struct err *e)
{
	*out = policy_find(name);
	if (*out)
		return ERR_NONE;
	char near[256], all[256] = "";
	struct near_match m;
	near_begin(&m, name);
	for (int32_t i = 0; i < policy_count(); i++) {
		const struct policy_desc *d = policy_at(i);
		add_name(all, sizeof all, d->name);
		near_offer(&m, d->name);
		for (int32_t k = 0; d->aliases && d->aliases[k]; k++)
			near_offer(&m, d->aliases[k]);
	}
	if (m.n)
		return err_set(e, ERR_INPUT, "no policy is called \"%s\"%s", name, near_text(&m, near, sizeof near));
	return err_set(e, ERR_INPUT, "no policy is called \"%s\"; there are %s", name, all);
}

static int32_t find_param(const struct policy_desc *d, const char *name, size_t len)
{
	for (int32_t i = 0; i < d->n_params; i++)
		if (strlen(d->params[i].name) == len && !memcmp(d->params[i].name, name, len))
			return i;
	return -1;
}

static int unknown_param(const struct policy_desc *d, const char *name, size_t len, struct err *e)
{
	char all[512] = "";
	for (int32_t i = 0; i < d->n_params; i++)
		add_name(all, sizeof all, d->params[i].name);
	return err_set(e, ERR_INPUT, "policy %s has no parameter \"%.*s\"; it has %s", d->name, (int)len, name,
		       all[0] ? all : "none");
}

/* One "name=value" of len bytes. */
static int parse_one(const struct policy_desc *d, const char *text, size_t len, union policy_value *values,
		     struct err *e)
{
	const char *eq = memchr(text, '=', len);
	size_t name_len = eq ? (size_t)(eq - text) : len;
	int32_t i = find_param(d, text, name_len);
	if (i < 0)
		return unknown_param(d, text, name_len, e);
	if (!eq)
		return err_set(e, ERR_INPUT, "policy %s: parameter %s needs a value: %s=%s", d->name, d->params[i].name,
			       d->params[i].name, d->params[i].fallback);
	char value[128];
	size_t value_len = len - name_len - 1;
	if (value_len >= sizeof value)
		return err_set(e, ERR_INPUT, "policy %s: the value of %s is too long", d->name, d->params[i].name);
	memcpy(value, eq + 1, value_len);
	value[value_len] = '\0';
	return value_parse(d, &d->params[i], value, &values[i], e);
}

int policy_parse_params(const struct policy_desc *d, const char *text, union policy_value *values, struct err *e)
{
	for (int32_t i = 0; i < d->n_params; i++) {
		int code = value_parse(d, &d->params[i], d->params[i].fallback, &values[i], e);
		if (code)
			return code;
	}
	while (text && *text) {
		size_t len = strcspn(text, ",");
		int code = len ? parse_one(d, text, len, values, e) : ERR_NONE;
		if (code)
			return code;
		text += len;
		text += *text == ',';
	}
	return ERR_NONE;
}

char *policy_format_params(const struct policy_desc *d, const union policy_value *values)
{
	size_t size = 16;
	for (int32_t i = 0; i < d->n_params; i++)
		size += strlen(d->params[i].name) + 64;
	char *text = mem_alloc(size);
	if (!text)
		return NULL;
	text[0] = '\0';
	for (int32_t i = 0; i < d->n_params; i++) {
		size_t at = strlen(text);
		if (i)
			text[at++] = ',';
		size_t name_len = strlen(d->params[i].name);
		memcpy(text + at, d->params[i].name, name_len);
		text[at + name_len] = '=';
		value_format(&d->params[i], &values[i], text + at + name_len + 1, size - at - name_len - 1);
	}
	return text;
}

int policy_open(struct policy *out, const struct policy_desc *d, const union policy_value *values,
		const struct policy_setup *setup, struct err *e)
{
	memset(out, 0, sizeof *out);
	if (d->abi != POLICY_ABI || d->size != sizeof *d)
		return err_set(
			e, ERR_INPUT,
			"policy %s was built for another interface (%u, %u bytes; this program has %d, %zu): build "
			"it again",
			d->name, d->abi, d->size, POLICY_ABI, sizeof *d);
	int code = d->create(&out->self, values, setup, &out->traits, e);
	if (!code)
		out->desc = d;
	return code;
}

void policy_close(struct policy *p)
{
	if (p->desc)
		p->desc->destroy(p->self);
	memset(p, 0, sizeof *p);
}
