#include "tests/plugins/broken.h"

static const struct policy_desc d = {.abi = POLICY_ABI,
				     .size = sizeof(struct policy_desc),
				     .name = "other_abi",
				     .help = "-",
				     .create = create,
				     .destroy = destroy,
				     .plan = plan};
const struct policy_desc *unused(void);
const struct policy_desc *unused(void)
{
	return &d;
}
