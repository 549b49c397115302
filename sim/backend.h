/* backend.h: the simulator as a backend: a virtual clock that a cost model drives. */
#ifndef SIM_BACKEND_H
#define SIM_BACKEND_H

#include <stdbool.h>

#include "core/backend.h"
#include "core/links.h"
#include "sim/cost.h"

/* The cost model stays the caller's and must outlive it. */
int sim_backend_create(struct backend *out, const struct cost *cost, struct err *e);
void sim_backend_free(struct backend *b);

/* With tiers of memory behind the device's; before init. */
void sim_backend_links(struct backend *b, const struct link_speeds *speeds);

/* What copying one KV page within the device takes, nanoseconds; before init. 0: nothing. */
void sim_backend_copies(struct backend *b, double page_ns);

/* Where the device time of batch goes, by b's cost model, in nanoseconds. False: b is no simulator, or its cost model knows no
 * parts. */
bool sim_backend_parts(const struct backend *b, const struct batch *batch, double part_ns[STEP_PARTS]);

/* b's cost model; NULL: b is no simulator. */
const struct cost *sim_backend_cost(const struct backend *b);

#endif
