/* price.h: what the devices that serve a run cost and draw. docs/metrics.md says what is made of it. */
#ifndef ANALYSIS_PRICE_H
#define ANALYSIS_PRICE_H

#include "analysis/run.h"

struct price {
	double per_hour; /* US dollars, of all devices; 0 = not known */
	double power_w; /* rated, of all devices together; 0 = not known */
};

struct device;
struct price price_of(const struct device *d, int32_t devices);
/* Of s->replicas times s->tensor_parallel devices; nothing is known without a device. ERR_INPUT: no such device. */
int run_price(struct price *out, const struct run_settings *s, struct err *e);

#endif
