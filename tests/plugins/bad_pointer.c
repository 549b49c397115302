#include "tests/plugins/broken.h"

static const struct policy_desc d = {.abi = POLICY_ABI,
				     .size = sizeof(struct policy_desc),
				     .name = (const char *)16,
				     .help = "-",
				     .create = create,
				     .destroy = destroy,
				     .plan = plan};
POLICY_PLUGIN(d);
