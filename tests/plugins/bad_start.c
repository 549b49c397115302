#include "tests/plugins/broken.h"

static const struct policy_desc d = {.abi = POLICY_ABI,
				     .size = sizeof(struct policy_desc),
				     .name = "bad_start",
				     .help = "-",
				     .create = create,
				     .destroy = destroy,
				     .plan = plan};
POLICY_PLUGIN(d);

__attribute__((constructor)) static void start(void)
{
	*(volatile int *)4 = 1;
}
