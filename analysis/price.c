#include "analysis/price.h"

#include "analysis/fleet.h"
#include "core/err.h"
#include "core/mem.h"
#include "models/device.h"

struct price price_of(const struct device *d, int32_t devices)
{
	return (struct price){.per_hour = d->price_per_hour * devices, .power_w = d->power_w * devices};
}

/* Power is of equal devices alone; see run.c. */
static int fleet_price(struct price *out, const struct run_settings *s, struct err *e)
{
	struct fleet *f = mem_zalloc(1, sizeof *f);
	struct device d;
	bool known = true;
	int rc = f ? fleet_parse(f, s->fleet, s, e) : err_no_memory(e, "replicas");
	for (int32_t i = 0; rc == ERR_NONE && i < f->n; i++) {
		const struct fleet_group *g = &f->groups[i];
		rc = device_load(&d, g->settings.device, e);
		known &= d.price_per_hour > 0;
		out->per_hour += price_of(&d, g->settings.tensor_parallel * g->count).per_hour;
	}
	if (!known)
		out->per_hour = 0;
	mem_free(f);
	return rc;
}

int run_price(struct price *out, const struct run_settings *s, struct err *e)
{
	struct device d;
	*out = (struct price){0};
	if (s->fleet)
		return fleet_price(out, s, e);
	if (!s->device)
		return ERR_NONE;
	int rc = device_load(&d, s->device, e);
	if (rc)
		return rc;
	*out = price_of(&d, s->tensor_parallel * s->replicas);
	return ERR_NONE;
}
