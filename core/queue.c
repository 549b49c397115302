#include "core/queue.h"

#include <string.h>

#include "core/err.h"
#include "core/mem.h"
#include "core/order_fair.h"
#include "core/order_mlfq.h"

const char *const queue_order_names[] = {"fcfs", "priority", "sjf", "edf", "fair", "mlfq", NULL};

static order_key *const keys[] = {
	[QUEUE_PRIORITY] = order_priority, [QUEUE_SJF] = order_sjf, [QUEUE_EDF] = order_edf, [QUEUE_MLFQ] = NULL};

int queue_init(struct wait_queue *q, struct err *e)
{
	q->count = 0;
	q->head = q->tail = -1;
	q->key = keys[q->order];
	if (q->key)
		return wait_tree_init(&q->tree, q->w->n, e);
	if (q->order == QUEUE_FAIR)
		return fair_create(&q->fair, q->w, q->requests, &q->params, q->tick, e);
	if (q->order == QUEUE_MLFQ)
		return mlfq_create(&q->mlfq, q->w, &q->params, e);
	q->next = mem_alloc((size_t)q->w->n * sizeof *q->next);
	q->prev = mem_alloc((size_t)q->w->n * sizeof *q->prev);
	return q->next && q->prev ? ERR_NONE : err_no_memory(e, "waiting queue");
}

void queue_free(struct wait_queue *q)
{
	mem_free(q->next);
	mem_free(q->prev);
	wait_tree_free(&q->tree);
	fair_free(q->fair);
	mlfq_free(q->mlfq);
	memset(q, 0, sizeof *q);
}

static void insert_after(struct wait_queue *q, int32_t req, int32_t after)
{
	int32_t before = after < 0 ? q->head : q->next[after];
	q->prev[req] = after;
	q->next[req] = before;
	*(after < 0 ? &q->head : &q->next[after]) = req;
	*(before < 0 ? &q->tail : &q->prev[before]) = req;
}

/* Into the books of the orders that keep their own; false: the queue's own list. */
static bool enter(struct wait_queue *q, int32_t req, bool to_front)
{
	const struct request *r = &q->requests[req];
	q->count++;
	if (q->key)
		wait_tree_add(&q->tree, req, q->key(q, req));
	else if (q->fair && to_front)
		fair_return(q->fair, req);
	else if (q->fair)
		fair_arrive(q->fair, req);
	else if (q->mlfq)
		mlfq_wait(q->mlfq, req, r->state == REQUEST_PREEMPTED ? (*q->peak)[req] : 0, r->outputs, *q->now_ns);
	else
		return false;
	return true;
}

void queue_arrive(struct wait_queue *q, int32_t req)
{
	if (!enter(q, req, false))
		insert_after(q, req, q->tail);
}

void queue_return(struct wait_queue *q, int32_t req)
{
	if (!enter(q, req, true))
		insert_after(q, req, -1);
}

void queue_follow(struct wait_queue *q, int32_t req, int32_t after)
{
	q->count++;
	insert_after(q, req, after);
}

void queue_remove(struct wait_queue *q, int32_t req)
{
	q->count--;
	if (q->key) {
		wait_tree_take(&q->tree, req);
		return;
	}
	if (q->fair || q->mlfq) {
		if (q->fair)
			fair_remove(q->fair, req);
		else
			mlfq_remove(q->mlfq, req);
		return;
	}
	int32_t prev = q->prev[req], next = q->next[req];
	*(prev < 0 ? &q->head : &q->next[prev]) = next;
	*(next < 0 ? &q->tail : &q->prev[next]) = prev;
}

int32_t queue_first(const struct wait_queue *q)
{
	switch (q->order) {
	case QUEUE_FCFS:
		return q->head;
	case QUEUE_FAIR:
		return fair_first(q->fair);
	case QUEUE_MLFQ:
		return mlfq_first(q->mlfq);
	default:
		return wait_tree_first(&q->tree);
	}
}

int32_t queue_next(const struct wait_queue *q, int32_t req)
{
	switch (q->order) {
	case QUEUE_FCFS:
		return q->next[req];
	case QUEUE_FAIR:
		return fair_next(q->fair, req);
	case QUEUE_MLFQ:
		return mlfq_next(q->mlfq, req);
	default:
		return wait_tree_next(&q->tree, req);
	}
}

int32_t queue_most_outputs(const struct wait_queue *q, int32_t req)
{
	const struct spec *s = &q->w->specs[req];
	int32_t most = s->max_tokens > 0 ? s->max_tokens : s->output_tokens, room = q->max_model_len - s->prompt_tokens;
	return most < room ? most : room;
}
