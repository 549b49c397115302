#include "sim/network.h"

/* Bytes/s between two devices; without a link of their own through the host's memory, each byte in and out again. */
static double peer_bandwidth(const struct device *d)
{
	return d->link_bandwidth > 0 ? d->link_bandwidth : d->host_bandwidth / 2;
}

void network_init(struct network *n, const struct device *d, int32_t ranks)
{
	double rate = peer_bandwidth(d) * d->link_efficiency / 1e9, others = ranks - 1;
	*n = (struct network){0};
	if (ranks <= 1)
		return;
	n->all_reduce_ns = d->collective_ns + others * d->hop_ns;
	n->all_gather_ns = n->all_reduce_ns;
	n->all_reduce_byte_ns = 2 * others / ranks / rate;
	n->all_gather_byte_ns = others / ranks / rate;
}
