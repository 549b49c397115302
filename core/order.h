/* order.h: the orders in which waiting requests are offered to a policy. Each is one small file, core/order_*.c; fcfs is the
 * queue's own list (core/queue.c). Ties go by arrival, then by workload index. */
#ifndef CORE_ORDER_H
#define CORE_ORDER_H

#include "core/wait_tree.h"

struct wait_queue;

/* An order by a key that is settled when a request begins to wait, and again when it comes back after a preemption. */
typedef struct wait_key order_key(const struct wait_queue *q, int32_t req);

order_key order_priority; /* the smallest priority, as the trace has it */
order_key order_sjf; /* the fewest outputs still to come, as the predictor says */
order_key order_edf; /* the earliest deadline */

#endif
