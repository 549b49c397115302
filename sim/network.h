/* network.h: what devices that share a model tell each other in a step, and how long it takes.
 *
 * A ring moves 2 (p - 1) / p of the data over each link for an all-reduce and (p - 1) / p for an all-gather (Thakur,
 * Rabenseifner, Gropp, 2005), and something is paid per collective and per device that takes part, however little is said:
 * t = base + (p - 1) x step + factor x bytes / (link bandwidth x link efficiency). docs/cost-model.md has the errors of
 * that against measured all-reduces. */
#ifndef SIM_NETWORK_H
#define SIM_NETWORK_H

#include "models/device.h"

struct network {
	double all_reduce_ns, all_gather_ns; /* fixed part of each */
	double all_reduce_byte_ns,
		all_gather_byte_ns; /* per byte: of the vector reduced; of the whole that is gathered */
};

/* Of `ranks` devices of a kind. One alone: all zero. */
void network_init(struct network *n, const struct device *d, int32_t ranks);

#endif
