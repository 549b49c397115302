#include "tests/plugins/broken.h"

static const struct policy_desc d = {.abi = POLICY_ABI,
				     .size = sizeof(struct policy_desc),
				     .name = "not_linked",
				     .help = "-",
				     .create = create,
				     .destroy = destroy,
				     .plan = plan};
POLICY_PLUGIN(d);

void nobody_has_this(void);
void calls_it(void);
void calls_it(void)
{
	nobody_has_this();
}
