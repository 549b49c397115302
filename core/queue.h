/* queue.h: the waiting requests, in the order they are offered to the policy.
 *
 * fcfs: arrivals at the back, preempted requests at the front. priority: by (priority, arrival, index), one list per
 * distinct priority; insertion looks from the end nearest to its place. */
#ifndef CORE_QUEUE_H
#define CORE_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/request.h"
#include "core/workload.h"

struct err;

struct wait_level {
	int32_t priority;
	int32_t head, tail; /* -1 = empty */
};

struct wait_queue {
	const struct workload *w;
	const struct request *requests; /* their arrival times order a level */
	bool by_priority;
	int32_t count;
	int32_t *next, *prev; /* [w->n] */
	struct wait_level *levels; /* [n_levels] smallest priority first; fcfs has one */
	int64_t n_levels, cap_levels;
};

int queue_init(struct wait_queue *q, const struct workload *w, const struct request *requests, bool by_priority,
	       struct err *e);
void queue_free(struct wait_queue *q);

int queue_arrive(struct wait_queue *q, int32_t req, struct err *e);
void queue_return(struct wait_queue *q, int32_t req); /* a preempted one: its level exists */
void queue_remove(struct wait_queue *q, int32_t req);
int32_t queue_first(const struct wait_queue *q); /* -1 = empty */
int32_t queue_next(const struct wait_queue *q, int32_t req);

#endif
