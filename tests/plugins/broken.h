/* broken.h: the rest of a policy of which one thing is wrong. */
#include <stddef.h>

#include "core/policy.h"

static int create(void **self, const union policy_value *values, const struct policy_setup *setup,
		  struct policy_traits *traits, struct err *e)
{
	(void)values, (void)setup, (void)traits, (void)e;
	*self = NULL;
	return 0;
}

static void destroy(void *self)
{
	(void)self;
}

static void plan(void *self, struct plan *p)
{
	(void)self, (void)p;
}
