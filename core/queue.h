/* queue.h: the waiting requests, in the order they are offered to the policy.
 *
 * fcfs: arrivals at the back, preempted requests at the front: a list. fair and mlfq keep books of their own. The others
 * stand in a tree by their key (core/order.h), wherever they come from. */
#ifndef CORE_QUEUE_H
#define CORE_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/choices.h"
#include "core/order.h"
#include "core/predict.h"
#include "core/request.h"
#include "core/workload.h"

struct err;

struct fair;
struct mlfq;

struct wait_queue {
	const struct workload *w;
	const struct request *requests;
	const struct predictor *predictor;
	int32_t max_model_len;
	enum queue_order order;
	struct order_params params;
	const int64_t *tick; /* the lazy cohort's clock */
	const int64_t *now_ns;
	int32_t *const *peak; /* by request: most tokens computed before a preemption; NULL before the first one */
	int32_t count;
	/* fcfs */
	int32_t head, tail; /* -1 = empty */
	int32_t *next, *prev; /* [w->n] */
	struct fair *fair; /* fair alone: core/order_fair.h */
	struct mlfq *mlfq; /* mlfq alone: core/order_mlfq.h */
	/* the others */
	order_key *key;
	struct wait_tree tree;
};

/* All but the orders' own parts are filled in by the caller; what they point at outlives it. */
int queue_init(struct wait_queue *q, struct err *e);
void queue_free(struct wait_queue *q);

void queue_arrive(struct wait_queue *q, int32_t req);
void queue_return(struct wait_queue *q, int32_t req); /* a preempted one */
void queue_follow(struct wait_queue *q, int32_t req, int32_t after); /* fcfs: right after that one, -1 = at the front */
void queue_remove(struct wait_queue *q, int32_t req);
int32_t queue_first(const struct wait_queue *q); /* -1 = empty */
int32_t queue_next(const struct wait_queue *q, int32_t req);

/* Outputs at most, as far as a policy may know. */
int32_t queue_most_outputs(const struct wait_queue *q, int32_t req);

#endif
