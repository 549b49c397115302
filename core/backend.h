/* backend.h: what runs a batch: the simulator's virtual clock (sim/backend.h), real kernels (exec/), or a recording.
 * The clock belongs to the backend: integer nanoseconds since the run's start, never going back. */
#ifndef CORE_BACKEND_H
#define CORE_BACKEND_H

#include <stdint.h>

#include "core/batch.h"

struct err;
struct engine;

/* What a step's device time was spent on (kernels/ops.h has the same): matrix products, attention, the head (final norm,
 * logits, sampling), the rest. */
enum { STEP_PARTS = 4 };
extern const char *const step_part_names[]; /* "matmul", "attention", "head", "other", NULL */

/* What came of one submitted batch. Arrays belong to the backend and live until its next call. */
struct step_result {
	int64_t steps; /* how often it was run: 1 .. batch.repeat */
	const int64_t *end_ns; /* [steps] when each of them ended */
	int64_t start_ns; /* when the first began */
	int64_t host_ns; /* host part of each one's duration */
	const int64_t *part_ns; /* [STEP_PARTS] of the device's part; NULL where not measured. Then steps = 1 */
	const int32_t *eos; /* [n_eos] requests whose token in the last of them was an end-of-sequence */
	int32_t n_eos;
	double outside; /* how far the query lay outside what was measured; 0 = inside (sim/cost.h) */
	int64_t transfer_ns; /* part of the first one's duration in which it only waited for copies between tiers */
};

/* Memory tiers of transfer(). */
enum tier { TIER_DEVICE, TIER_HOST, TIER_DISK, TIER_PEER };
extern const char *const tier_names[]; /* "device", "host", "disk", "peer", NULL */

/* The ways between them, one in each direction. */
enum link { LINK_DEVICE_HOST, LINK_HOST_DEVICE, LINK_HOST_DISK, LINK_DISK_HOST, N_LINKS };
extern const char *const link_names[]; /* "device_to_host", ..., NULL */

/* One copy of n KV pages from one tier to another. Copies over one link are done in the order they were started.
 * The arrays are valid during the call. */
struct transfer {
	int64_t ticket; /* the engine's number for it: from 1, growing */
	int64_t after[N_LINKS]; /* on each link, the last copy that must be done before it begins; 0 = none */
	enum tier from, to;
	const int32_t *src, *dst; /* [n] pages, each numbered within its tier */
	int32_t n;
};

/* Tickets that are done, in the order they were, each told once. The array lives until the next call. */
struct transfer_news {
	const int64_t *done; /* [n] */
	int32_t n;
};

struct backend_ops {
	const char *name;
	/* The engine is given so that a backend may ask it for page tables. */
	int (*init)(void *self, const struct engine *engine, struct err *e);
	int64_t (*now)(void *self);
	/* Returns when the clock has reached t_ns (the simulator jumps there), or when a copy between tiers that nobody was
	 * told of is done, whichever comes first. */
	int (*wait_until)(void *self, int64_t t_ns, struct err *e);
	/* Starts b, which stays as it is until it has been waited for. At most two batches are in flight (two only with asynchronous scheduling). */
	int (*submit)(void *self, const struct batch *b, struct err *e);
	/* Waits for the oldest batch in flight. */
	int (*wait)(void *self, struct step_result *out, struct err *e);
	/* Starts a copy, after the batches submitted before and before those submitted later that name its ticket
	 * (batch.after). NULL: no tiers. */
	int (*transfer)(void *self, const struct transfer *t, struct err *e);
	/* Which copies are done at the present clock reading. Asked once a round while any is under way. */
	int (*transfers_done)(void *self, struct transfer_news *out, struct err *e);
	/* When the next one will be, as far as can be known; INT64_MAX = unknown, or none is under way. For event heaps. */
	int64_t (*transfer_next_ns)(void *self);
	void (*close)(void *self);
};

struct backend {
	const struct backend_ops *ops;
	void *self;
};

#endif
