/* jitter.h: a backend as real as a test can have it: steps take random time, the clock has moved on whenever it is read,
 * waiting ends late, sampled tokens are an end-of-sequence now and then, some steps come with a measured split. The engine
 * must walk its rows. */
#ifndef TESTS_SUPPORT_JITTER_H
#define TESTS_SUPPORT_JITTER_H

#include "core/backend.h"
#include "core/links.h"
#include "core/rng.h"
#include "core/tables.h"

struct jitter_flight {
	int64_t submitted_ns, cost_ns, copied_ns;
	int32_t *eos; /* [n_eos] */
	int32_t n_eos;
	int64_t cap_eos;
};

struct jitter {
	struct rng rng;
	int32_t eos_in_1000; /* of the sampled tokens */
	int64_t step_ns, token_ns; /* a step's time: both, give or take */
	int64_t late_ns; /* how late the host is, at most */

	const struct engine *engine;
	int64_t clock_ns, free_ns;
	struct batch_tables tables;
	struct jitter_flight flights[2];
	int64_t submitted, waited;
	int64_t end_ns, part_ns[STEP_PARTS];
	struct links links;
};

/* What it does follows from the seed and from what the engine asks. Release with jitter_free. */
void jitter_init(struct jitter *j, uint64_t seed, struct backend *out);
void jitter_free(struct jitter *j);

#endif
