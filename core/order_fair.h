/* order_fair.h: fair among tenants: the virtual token counters of "Fairness in Serving Large Language Models" (Sheng et al.,
 * OSDI'24), algorithms 2 and 3.
 *
 * A counter per tenant says what it has been served: input_weight per prompt token when one of its requests is first let in,
 * those left out that a prefix cache had, and output_weight per output token as it comes out; what a preemption makes to be
 * computed again is not charged. The next request is the first of the waiting tenant with the smallest counter; ties go by
 * its arrival. A tenant of whom nobody waited is lifted to the smallest counter among those who wait, or, when nobody does,
 * to that of the tenant who was the last to wait, so that having been idle earns nothing.
 *
 * Decoding requests of a lazy cohort get one token with every tick: their charges are added up when the queue is next
 * asked, at the cost of the tenants that decode. */
#ifndef CORE_ORDER_FAIR_H
#define CORE_ORDER_FAIR_H

#include <stdint.h>

#include "core/choices.h"
#include "core/request.h"
#include "core/workload.h"

struct err;
struct fair;

/* *tick: the lazy cohort's clock. Everything given outlives it. */
int fair_create(struct fair **out, const struct workload *w, const struct request *requests,
		const struct order_params *o, const int64_t *tick, struct err *e);
void fair_free(struct fair *f);

void fair_arrive(struct fair *f, int32_t req); /* at the back of its tenant's; lifts it, unless it was preempted */
void fair_return(struct fair *f, int32_t req); /* at the front */
void fair_remove(struct fair *f, int32_t req);
int32_t fair_first(struct fair *f); /* -1 = nobody waits */
/* Who would come next if those up to `req` were let in one after the other, each charged its whole prompt. */
int32_t fair_next(struct fair *f, int32_t req);

/* So many tokens of a request were served; negative: were not, after all. */
void fair_charge(struct fair *f, int32_t req, int64_t input_tokens, int64_t output_tokens);
/* It joins (1) or leaves (-1) those who get a token with every tick. */
void fair_decodes(struct fair *f, int32_t req, int32_t more);
/* What a tenant has been charged. */
int64_t fair_counter(struct fair *f, int32_t tenant);

#endif
