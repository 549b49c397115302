/* shape.h: what `replay` and `compare` do to a loaded workload before a run: keep the first N requests, give it new
 * arrivals, play it faster, make it longer, and settle what policies may assume about its outputs. Everything here
 * is exact and seeded: the same workload, shape and seed give the same requests on every machine. */
#ifndef TRACES_SHAPE_H
#define TRACES_SHAPE_H

#include <stdint.h>

#include "core/workload.h"

struct err;

struct shape {
	int64_t num_prompts; /* the first N requests to become ready; 0 = all of them */
	double request_rate; /* requests/s; 0 = the trace's own arrivals; INFINITY = all at time 0 */
	double burstiness; /* shape of the gamma gaps: 1 = Poisson, < 1 burstier, INFINITY = even spacing */
	double replay_speedup; /* trace time runs this many times faster: 2 = twice */
	double length_scale; /* prompt and output lengths times this, rounded up; to 1e-9 */
	enum max_tokens_mode max_tokens_mode;
	int32_t max_tokens_cap; /* for MAX_TOKENS_MAX */
	int32_t samples; /* of each prompt (vLLM's n): the others are forks of the first; 0 and 1: one */
	int32_t beam_width; /* beams of every request; 0 and 1: no beam search */
	int32_t beam_every; /* outputs between two choices of beams, at least 1 */
	uint64_t seed;
};

/* All requests, the trace's own arrivals and lengths, --max-tokens-mode max with 2048, seed 0. */
void shape_default(struct shape *s);

/* Applies *s to w, in this order: num_prompts, length_scale, replay_speedup or request_rate, max_tokens, samples or beam_width.
 *
 * num_prompts: requests count in the order in which they could start if serving took no time, so one that waits for
 *   others never comes in without them.
 * length_scale: ceil(tokens x scale), prompts at least 1, outputs of 0 stay 0; a max_tokens of the trace is scaled too.
 *   Content ids keep their place: an id that covered tokens [a, b) of a prompt covers [ceil(a x scale),
 *   ceil(b x scale)), which depends on nothing but the prefix before it, so prompts share after scaling what they
 *   shared before. An id left without tokens is mixed into the next one.
 * replay_speedup: arrivals and the delays of dependents are divided by it, to the nearest nanosecond (think and tool
 *   time are trace time as well).
 * request_rate: requests without parents arrive in their old order, the first at 0, with gaps drawn from a gamma
 *   distribution of shape `burstiness` and mean 1/rate, each to the nearest nanosecond (burstiness INFINITY: request
 *   i at i/rate). Unlike `vllm bench serve` the gaps are not rescaled to a total of n/rate. Delays of dependents stay.
 *
 * samples: sample k of a request is called ID#k (from 2); it has the same prompt, lengths, priority, tenant and session, and an
 *   output of its own. What waited for the request waits for all of its samples. Not for traces that fork themselves.
 *
 * beam_width: as many samples; after every beam_every outputs each of the next beams goes on from one drawn of the present ones,
 *   all alike, by the seed. A beam that is not drawn is a request that ends there; one drawn more than once is forked there.
 *
 * ERR_INPUT: a value out of range; a request_rate together with a replay_speedup (there is nothing left to speed up);
 * a burstiness without a request_rate; lengths past 2^31 - 1. */
int shape_apply(struct workload *w, const struct shape *s, struct err *e);

enum { SHAPE_SAMPLES = 1024 }; /* of one prompt at most */
/* The last step of shape_apply (shape_samples.c). */
int shape_samples(struct workload *w, const struct shape *s, struct err *e);

/* Parses --max-tokens-mode: "max", "pow2", "oracle" or a whole number (max with that cap). */
int shape_parse_max_tokens(const char *text, struct shape *s, struct err *e);

#endif
