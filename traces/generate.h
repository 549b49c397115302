/* generate.h: synthetic workloads: lengths x arrivals x sessions with shared prefixes. */
#ifndef TRACES_GENERATE_H
#define TRACES_GENERATE_H

#include <stdint.h>

#include "core/workload.h"
#include "traces/dist.h"

struct err;

enum arrivals { ARRIVALS_POISSON, ARRIVALS_GAMMA, ARRIVALS_CONSTANT, ARRIVALS_RAMP, ARRIVALS_AT_ONCE };
extern const char *const arrivals_names[]; /* "poisson" ..., NULL-terminated */

struct generate {
	int64_t n; /* requests (turns of sessions count each); fewer come out when max_context ends sessions */
	uint64_t seed;
	struct dist input; /* tokens of the user's new text, per turn */
	struct dist output; /* tokens; with input and output both resampled from one file, a pair stays a pair */
	const struct workload *input_from, *output_from; /* for DIST_RESAMPLE: the loaded files */

	enum arrivals arrivals; /* of sessions (a request alone is a session of one turn) */
	double rate; /* sessions/s; ramp: at the start */
	double rate_end; /* ramp: at the end; the rate grows linearly in time */
	double burstiness; /* gamma: shape */

	struct dist turns; /* per session; fixed 1: independent requests */
	struct dist think; /* seconds between an answer and the next turn */
	int32_t system_tokens; /* shared prefix before every session's first text; 0 = none */
	int32_t system_prompts; /* how many different ones, each session picks one at random */
	int32_t max_context; /* a session ends before prompt + output would pass it (its first turn is cut to fit); 0 = no
	                           limit */
};

/* 1,000 independent Poisson requests at 1/s: input lognormal with median 512, output with median 128. */
void generate_default(struct generate *g);

/* Fills w (empty). Turn k of a session waits for turn k - 1, thinks, and its prompt is the system prompt, all earlier
 * texts and answers, and the new text: shared content is named by ids. Lengths are at least 1 (outputs: at least 0).
 * ERR_INPUT names the parameter that is out of range. */
int generate_workload(struct workload *w, const struct generate *g, struct err *e);

/* The arrivals alone: when n sessions start, by g's seed, arrivals, rates and burstiness. */
int generate_arrivals(const struct generate *g, int64_t n, int64_t *start_ns, struct err *e);
/* What is wrong with g, if anything. */
int generate_check(const struct generate *g, struct err *e);

#endif
