#include "core/queue.h"

#include <string.h>

#include "core/err.h"
#include "core/mem.h"

const char *const queue_order_names[] = {"fcfs", "priority", "sjf", NULL};

static order_key *const keys[] = {[QUEUE_PRIORITY] = order_priority, [QUEUE_SJF] = order_sjf};

int queue_init(struct wait_queue *q, struct err *e)
{
	q->count = 0;
	q->head = q->tail = -1;
	q->key = keys[q->order];
	if (q->key)
		return wait_tree_init(&q->tree, q->w->n, e);
	q->next = mem_alloc((size_t)q->w->n * sizeof *q->next);
	q->prev = mem_alloc((size_t)q->w->n * sizeof *q->prev);
	return q->next && q->prev ? ERR_NONE : err_no_memory(e, "waiting queue");
}

void queue_free(struct wait_queue *q)
{
	mem_free(q->next);
	mem_free(q->prev);
	wait_tree_free(&q->tree);
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

void queue_arrive(struct wait_queue *q, int32_t req)
{
	q->count++;
	if (q->key)
		wait_tree_add(&q->tree, req, q->key(q, req));
	else
		insert_after(q, req, q->tail);
}

void queue_return(struct wait_queue *q, int32_t req)
{
	q->count++;
	if (q->key)
		wait_tree_add(&q->tree, req, q->key(q, req));
	else
		insert_after(q, req, -1);
}

void queue_remove(struct wait_queue *q, int32_t req)
{
	q->count--;
	if (q->key) {
		wait_tree_take(&q->tree, req);
		return;
	}
	int32_t prev = q->prev[req], next = q->next[req];
	*(prev < 0 ? &q->head : &q->next[prev]) = next;
	*(next < 0 ? &q->tail : &q->prev[next]) = prev;
}

int32_t queue_first(const struct wait_queue *q)
{
	return q->key ? wait_tree_first(&q->tree) : q->head;
}

int32_t queue_next(const struct wait_queue *q, int32_t req)
{
	return q->key ? wait_tree_next(&q->tree, req) : q->next[req];
}

int32_t queue_most_outputs(const struct wait_queue *q, int32_t req)
{
	const struct spec *s = &q->w->specs[req];
	int32_t most = s->max_tokens > 0 ? s->max_tokens : s->output_tokens, room = q->max_model_len - s->prompt_tokens;
	return most < room ? most : room;
}
