/* order_mlfq.h: levels of priority that a request sinks through as it is served: the skip-join multi-level feedback queue of
 * FastServe (Wu et al., "Fast Distributed Inference Serving for Large Language Models", 2023), for an engine that decodes
 * everybody it has in every step.
 *
 *   Service   input_weight per prompt token computed, output_weight per output token; what is computed again after a
 *             preemption does not count.
 *   Joining   a request begins at the first level whose quantum covers its prompt (skip-join): quantum at level 0, twice that
 *             at the next, and so on; the last level has no end. So no request sinks before its first token.
 *   Sinking   one that has used up its level's quantum is a level lower. While it runs that alone changes nothing.
 *   Stopping  when the first of the queue finds no place or no memory, running requests of lower levels than its own give
 *             way, the lowest first and of those the last admitted, if that makes room enough: view_outranked().
 *   Waiting   by level, within it by when they began to wait, wherever they came from.
 *   Rising    one that has waited for `promote` goes to level 0 with a fresh quantum; 0 = never. */
#ifndef CORE_ORDER_MLFQ_H
#define CORE_ORDER_MLFQ_H

#include <stdint.h>

#include "core/choices.h"
#include "core/workload.h"

struct err;
struct mlfq;

int mlfq_create(struct mlfq **out, const struct workload *w, const struct order_params *o, struct err *e);
void mlfq_free(struct mlfq *m);

/* The level of a request of which so many prompt tokens have been computed at most, and which has so many outputs. */
int32_t mlfq_level(const struct mlfq *m, int32_t req, int32_t computed, int32_t outputs);

/* At the back of its level. */
void mlfq_wait(struct mlfq *m, int32_t req, int32_t computed, int32_t outputs, int64_t now_ns);
void mlfq_remove(struct mlfq *m, int32_t req);
int32_t mlfq_first(const struct mlfq *m);
int32_t mlfq_waits_at(const struct mlfq *m, int32_t req); /* the level it waits at */
int32_t mlfq_next(const struct mlfq *m, int32_t req);
/* Those who have waited long enough rise. */
void mlfq_promote(struct mlfq *m, int64_t now_ns);

#endif
