/* sjf: shortest job first, by the outputs that a request is predicted to still produce; nobody is stopped for a shorter one
 * (core/predict.h says how wrong the prediction is). One that came back after a preemption is taken by what is left of it,
 * and goes first when it has outlived its prediction. */
#include "core/order.h"
#include "core/queue.h"

struct wait_key order_sjf(const struct wait_queue *q, int32_t req)
{
	int32_t all = predict_outputs(q->predictor, req, queue_most_outputs(q, req));
	int32_t left = all - q->requests[req].outputs;
	return (struct wait_key){left > 0 ? left : 0, q->requests[req].arrival_ns};
}
