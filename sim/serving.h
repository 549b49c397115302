/* serving.h: what an ideal engine would reach: always a full batch, no queue, no preemption. An upper bound to measure
 * schedulers against, and a way to compare devices. */
#ifndef SIM_SERVING_H
#define SIM_SERVING_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/capacity.h"
#include "sim/cost.h"

struct serving_load {
	int64_t prompt, output; /* tokens of every request */
	int32_t budget; /* tokens a step may compute: prompts are prefilled in such chunks */
	int32_t window; /* the model's sliding window, 0 = none */
};

struct serving_point {
	int32_t batch;
	double tpot_ns; /* one decode step, at the mean context prompt + output / 2 */
	double decode_tokens_s; /* batch / tpot: nothing but decoding */
	double tokens_s; /* output tokens, the batch's prefills included: batch x output / (batch x TTFT + output x
	                          TPOT) */
	double dollars; /* per million output tokens at that rate; < 0 = price unknown */
};

/* Time to prefill one prompt that is alone: the ideal TTFT. */
double serving_ttft_ns(const struct cost *c, const struct serving_load *l);
void serving_point(const struct cost *c, const struct serving_load *l, double price_per_hour, int32_t batch,
		   struct serving_point *out);

/* What a device is asked for. */
struct serving_need {
	double max_tpot_ns; /* INFINITY = any */
	int32_t min_batch;
	int32_t max_batch; /* at most: the engine's max_num_seqs */
};

enum serving_verdict { SERVING_OK, SERVING_NO_FIT, SERVING_TOO_FEW, SERVING_TOO_SLOW };

/* The largest batch whose sessions fit (`sessions` of them do) and whose TPOT keeps the bound. Not OK: *out is the point at
 * min_batch, where one can be told. */
enum serving_verdict serving_best(const struct cost *c, const struct serving_load *l, const struct serving_need *n,
				  double price_per_hour, int64_t sessions, struct serving_point *out);

#endif
