/* work.h: what a step of a run computes and moves, from the totals that are kept of it: where it lies under a roofline
 * (Williams, Waterman, Patterson, 2009). Counted as the cost model roofline counts (docs/cost-model.md); of one device, where a
 * model is split over several. */
#ifndef SIM_WORK_H
#define SIM_WORK_H

#include <stdint.h>

#include "sim/cost_models.h"

struct err;
struct work;

struct work_totals {
	int64_t decodes, decode_ctx; /* rows; tokens they attend to, together */
	int64_t chunks, prefill_tokens; /* pieces of prompts; their tokens, together */
	int64_t sampled; /* output tokens */
};

/* s's model and device may go once it is made. ERR_INPUT, ERR_MEMORY. */
int work_create(struct work **out, const struct cost_setup *s, struct err *e);
void work_free(struct work *w); /* NULL is fine */

/* Where pieces of prompts begin and how long each is, is not among the totals: they are taken to be equally long and to stand at
 * the beginning of their prompts, which is the least that their attention may take; with a sliding window each decode to attend
 * to as much as the mean one. All else is exact. */
void work_step(struct work *w, const struct work_totals *t, double *flops, double *bytes);

/* The roofs, without efficiencies: FLOP/s of products with the layers' weights, bytes/s. */
void work_roofs(const struct work *w, double *flops_per_s, double *bytes_per_s, enum dtype *weights);

#endif
