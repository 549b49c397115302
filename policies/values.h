/* values.h: text <-> typed parameter values. */
#ifndef POLICIES_VALUES_H
#define POLICIES_VALUES_H

#include <stdbool.h>
#include <stddef.h>

#include "core/policy.h"

struct err;

/* Parses one value within its parameter's range; the error names policy, parameter, value and range.
 * BOOL: on|off|true|false|1|0. DURATION: a number with ns, us, ms or s ("0" needs no unit). */
int value_parse(const struct policy_desc *d, const struct policy_param *p, const char *text, union policy_value *out,
		struct err *e);
/* The text that parses to it. */
void value_format(const struct policy_param *p, const union policy_value *v, char *buf, size_t size);

#endif
