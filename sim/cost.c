#include "sim/cost.h"

void cost_free(struct cost *c)
{
	if (c)
		c->ops->destroy(c);
}
