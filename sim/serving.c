#include "sim/serving.h"

#include <math.h>
#include <string.h>

static double step_ns(const struct cost *c, const struct batch *b)
{
	struct cost_time t;
	cost_step(c, b, &t);
	return (double)t.device_ns + (double)t.host_ns;
}

double serving_ttft_ns(const struct cost *c, const struct serving_load *l)
{
	double ns = 0;
	for (int64_t done = 0; done < l->prompt;) {
		int64_t len = l->prompt - done < l->budget ? l->prompt - done : l->budget;
		bool last = done + len == l->prompt;
		struct chunk chunk = {.start = (int32_t)done, .len = (int32_t)len, .samples = last};
		struct batch b = {
			.n_chunks = 1, .chunks = &chunk, .prefill_tokens = len, .sampled = last, .running = 1};
		ns += step_ns(c, &b);
		done += len;
	}
	return ns;
}

void serving_point(const struct cost *c, const struct serving_load *l, double price_per_hour, int32_t batch,
		   struct serving_point *out)
{
	int64_t each = l->prompt + l->output / 2, seen = l->window && each > l->window ? l->window : each;
	struct batch b = {.decodes = batch,
			  .decode_ctx = batch * each,
			  .decode_ctx_window = batch * seen,
			  .window_growing = seen < each ? 0 : batch,
			  .sampled = batch,
			  .running = batch};
	memset(out, 0, sizeof *out);
	out->batch = batch;
	out->tpot_ns = step_ns(c, &b);
	out->decode_tokens_s = batch / out->tpot_ns * 1e9;
	double output = (double)l->output;
	out->tokens_s = batch * output / (batch * serving_ttft_ns(c, l) + output * out->tpot_ns) * 1e9;
	out->dollars = price_per_hour > 0 ? price_per_hour / 3600 / out->tokens_s * 1e6 : -1;
}

enum serving_verdict serving_best(const struct cost *c, const struct serving_load *l, const struct serving_need *n,
				  double price_per_hour, int64_t sessions, struct serving_point *out)
{
	memset(out, 0, sizeof *out);
	int32_t most = sessions < n->max_batch ? (int32_t)sessions : n->max_batch;
	if (sessions < 1)
		return SERVING_NO_FIT;
	serving_point(c, l, price_per_hour, n->min_batch, out);
	if (most < n->min_batch)
		return SERVING_TOO_FEW;
	if (out->tpot_ns > n->max_tpot_ns)
		return SERVING_TOO_SLOW;
	int32_t low = n->min_batch, high = most; /* a larger batch never has a smaller TPOT */
	while (low < high) {
		int32_t mid = low + (high - low + 1) / 2;
		serving_point(c, l, price_per_hour, mid, out);
		if (out->tpot_ns <= n->max_tpot_ns)
			low = mid;
		else
			high = mid - 1;
	}
	serving_point(c, l, price_per_hour, low, out);
	return SERVING_OK;
}
