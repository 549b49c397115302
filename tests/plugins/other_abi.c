#include "tests/plugins/broken.h"

static const struct policy_desc d = {.abi = POLICY_ABI + 1,
				     .size = sizeof(struct policy_desc),
				     .name = "other_abi",
				     .help = "-",
				     .create = create,
				     .destroy = destroy,
				     .plan = plan};
POLICY_PLUGIN(d);
