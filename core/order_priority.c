/* priority: the smallest number first, then the earliest arrival (vLLM's sense). */
#include "core/order.h"
#include "core/queue.h"

struct wait_key order_priority(const struct wait_queue *q, int32_t req)
{
	return (struct wait_key){q->w->specs[req].priority, q->requests[req].arrival_ns};
}
