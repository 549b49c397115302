#include "policies/values.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/err.h"

__attribute__((format(printf, 3, 4))) static void put(char *buf, size_t size, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(buf, size, fmt, ap);
	va_end(ap);
}

static int refuse(const struct policy_desc *d, const struct policy_param *p, const char *text, const char *wanted,
		  struct err *e)
{
	return err_set(e, ERR_INPUT, "policy %s: %s=\"%s\": expected %s (default %s)", d->name, p->name, text, wanted,
		       p->fallback);
}

static int parse_number(const struct policy_desc *d, const struct policy_param *p, const char *text, double *out,
			struct err *e)
{
	char wanted[128], *end;
	double v = strtod(text, &end);
	put(wanted, sizeof wanted,
	    p->type == PARAM_FLOAT ? "a number from %g to %g" : "a whole number from %.0f to %.0f", p->min, p->max);
	if (end == text || *end || !(v >= p->min && v <= p->max))
		return refuse(d, p, text, wanted, e);
	if (p->type == PARAM_INT && v != (double)(int64_t)v)
		return refuse(d, p, text, wanted, e);
	*out = v;
	return ERR_NONE;
}

static int parse_bool(const struct policy_desc *d, const struct policy_param *p, const char *text,
		      union policy_value *out, struct err *e)
{
	static const char *const yes[] = {"on", "true", "1", "yes"}, *const no[] = {"off", "false", "0", "no"};
	for (int i = 0; i < 4; i++) {
		if (!strcmp(text, yes[i]) || !strcmp(text, no[i])) {
			out->i = !strcmp(text, yes[i]);
			return ERR_NONE;
		}
	}
	return refuse(d, p, text, "on or off", e);
}

static int parse_enum(const struct policy_desc *d, const struct policy_param *p, const char *text,
		      union policy_value *out, struct err *e)
{
	char wanted[256] = "one of";
	for (int i = 0; p->choices[i]; i++) {
		if (!strcmp(p->choices[i], text)) {
			out->i = i;
			return ERR_NONE;
		}
		size_t at = strlen(wanted);
		put(wanted + at, sizeof wanted - at, " %s", p->choices[i]);
	}
	return refuse(d, p, text, wanted, e);
}

static int parse_duration(const struct policy_desc *d, const struct policy_param *p, const char *text,
			  union policy_value *out, struct err *e)
{
	static const struct {
		const char *name;
		double ns;
	} units[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};
	char wanted[128], *end;
	double v = strtod(text, &end);
	put(wanted, sizeof wanted, "a time such as 20ms, from %gs to %gs", p->min, p->max);
	double ns = end != text && !*end && v == 0 ? 0 : -1;
	for (int i = 0; i < 4 && end != text; i++)
		if (!strcmp(end, units[i].name))
			ns = v * units[i].ns;
	if (!(ns >= p->min * 1e9 && ns <= p->max * 1e9))
		return refuse(d, p, text, wanted, e);
	out->i = (int64_t)(ns + 0.5);
	return ERR_NONE;
}

int value_parse(const struct policy_desc *d, const struct policy_param *p, const char *text, union policy_value *out,
		struct err *e)
{
	double v = 0;
	int code;
	switch (p->type) {
	case PARAM_BOOL:
		return parse_bool(d, p, text, out, e);
	case PARAM_ENUM:
		return parse_enum(d, p, text, out, e);
	case PARAM_DURATION:
		return parse_duration(d, p, text, out, e);
	case PARAM_INT:
		code = parse_number(d, p, text, &v, e);
		out->i = (int64_t)v;
		return code;
	case PARAM_FLOAT:
		code = parse_number(d, p, text, &v, e);
		out->f = v;
		return code;
	}
	return ERR_INPUT;
}

void value_format(const struct policy_param *p, const union policy_value *v, char *buf, size_t size)
{
	switch (p->type) {
	case PARAM_BOOL:
		put(buf, size, "%s", v->i ? "on" : "off");
		break;
	case PARAM_ENUM:
		put(buf, size, "%s", p->choices[v->i]);
		break;
	case PARAM_DURATION:
		put(buf, size, "%lldns", (long long)v->i);
		break;
	case PARAM_INT:
		put(buf, size, "%lld", (long long)v->i);
		break;
	case PARAM_FLOAT:
		put(buf, size, "%.17g", v->f);
		break;
	}
}
