/* schema.h: is a descriptor that somebody else compiled one that this program can use? */
#ifndef POLICIES_SCHEMA_H
#define POLICIES_SCHEMA_H

#include "core/policy.h"

struct err;

enum { POLICY_NAME_MAX = 48, POLICY_PARAMS_MAX = 32 };

/* Interface version and size first; then its name, its functions, and every parameter: names, types, ranges, choices, and
 * defaults that lie within them. `where` begins the line that says what is wrong ("./mine.so"). ERR_INPUT. */
int policy_check_desc(const struct policy_desc *d, const char *where, struct err *e);

#endif
