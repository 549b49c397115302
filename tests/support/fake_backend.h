/* fake_backend.h: a virtual clock with a cost that can be worked out by hand: a + b x prefill tokens + c x decodes +
 * d x context, in whole nanoseconds. For tests of layers below sim/. */
#ifndef TESTS_SUPPORT_FAKE_BACKEND_H
#define TESTS_SUPPORT_FAKE_BACKEND_H

#include "core/backend.h"
#include "core/links.h"

enum { FAKE_REPEATS = 64 };

struct fake_backend {
	int64_t a, b, c, d; /* ns */
	int64_t host_ns; /* of each step, before the rest */
	/* the clock */
	int64_t now_ns, free_ns;
	struct batch flight[2];
	int64_t submitted_ns[2];
	int64_t submitted, waited;
	int64_t end_ns[FAKE_REPEATS];
	/* what the backend says of the next step's tokens: requests at an end-of-sequence */
	const int32_t *eos;
	int32_t n_eos;
	int64_t eos_step;
	struct links links; /* links_init() it where there are tiers; whoever does releases it */
};

/* Nothing to release, but for its links. */
void fake_backend_init(struct fake_backend *f, struct backend *out);

#endif
