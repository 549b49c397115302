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
};

/* Memory tiers of transfer(). */
enum tier { TIER_DEVICE, TIER_HOST, TIER_DISK, TIER_PEER };

struct backend_ops {
	const char *name;
	/* The engine is given so that a backend may ask it for page tables. */
	int (*init)(void *self, const struct engine *engine, struct err *e);
	int64_t (*now)(void *self);
	/* Returns when the clock has reached t_ns (the simulator jumps there). */
	int (*wait_until)(void *self, int64_t t_ns, struct err *e);
	/* Starts b. At most two batches are in flight (two only with asynchronous scheduling). */
	int (*submit)(void *self, const struct batch *b, struct err *e);
	/* Waits for the oldest batch in flight. */
	int (*wait)(void *self, struct step_result *out, struct err *e);
	/* Starts copying n pages; its completion is reported with `ticket` by a later step. NULL: no tiers. */
	int (*transfer)(void *self, enum tier from, enum tier to, const int32_t *src, const int32_t *dst, int32_t n,
			int64_t *ticket, struct err *e);
	void (*close)(void *self);
};

struct backend {
	const struct backend_ops *ops;
	void *self;
};

#endif
