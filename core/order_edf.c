/* edf: earliest deadline first. A request's first token is due its TTFT objective after its arrival; one that lost its memory
 * after having had tokens is due, for each of them, a TPOT objective later. */
#include "core/order.h"
#include "core/queue.h"

struct wait_key order_edf(const struct wait_queue *q, int32_t req)
{
	const struct spec *s = &q->w->specs[req];
	int64_t ttft_ns = s->slo_ttft_ms > 0 ? s->slo_ttft_ms * NS_PER_MS : q->params.slo_ttft_ns;
	int64_t due_ns = q->requests[req].arrival_ns + ttft_ns;
	return (struct wait_key){due_ns + q->requests[req].outputs * q->params.slo_tpot_ns,
				 q->requests[req].arrival_ns};
}
