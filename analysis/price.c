#include "analysis/price.h"

#include "models/device.h"

struct price price_of(const struct device *d, int32_t devices)
{
	return (struct price){.per_hour = d->price_per_hour * devices, .power_w = d->power_w * devices};
}

int run_price(struct price *out, const struct run_settings *s, struct err *e)
{
	struct device d;
	*out = (struct price){0};
	if (!s->device)
		return ERR_NONE;
	int rc = device_load(&d, s->device, e);
	if (rc)
		return rc;
	*out = price_of(&d, s->tensor_parallel * s->replicas);
	return ERR_NONE;
}
