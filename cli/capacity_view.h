/* capacity_view.h: everything `lockstep capacity` has worked out, for its two printers. */
#ifndef CLI_CAPACITY_VIEW_H
#define CLI_CAPACITY_VIEW_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/capacity.h"
#include "sim/cost_models.h"
#include "sim/serving.h"

struct err;

enum { CONTEXTS_MAX = 12, POINTS_MAX = 16, RANKS_MAX = 64 };

struct context_row {
	int64_t tokens;
	int64_t kv_bytes; /* of one session */
	int64_t sessions; /* at once, as asked */
	int64_t textbook_sessions; /* with the box's decimal GB, no reserve, no block rounding */
};

struct operator_table {
	struct cost_op ops[COST_OPS_MAX];
	int32_t n;
	struct cost_time time;
};

struct rank_row {
	struct device device;
	struct capacity capacity;
	enum serving_verdict verdict;
	int64_t sessions; /* of prompt + output tokens that fit */
	double ttft_ns;
	struct serving_point point;
};

struct capacity_view {
	struct model model;
	struct device device;
	struct cost_setup setup;
	struct capacity_options options, textbook;
	struct capacity capacity;
	struct serving_load load;
	int64_t kv_sessions; /* "KV of N sessions" column */
	const char *cost_text;

	struct context_row contexts[CONTEXTS_MAX];
	int32_t n_contexts;
	struct operator_table prefill, decode;
	int32_t decode_batch;
	int64_t decode_context;
	double ttft_ns;
	struct serving_point points[POINTS_MAX];
	int32_t n_points;

	bool ranking; /* --max-latency or --min-batch */
	struct serving_need need;
	struct rank_row ranks[RANKS_MAX]; /* best first */
	int32_t n_ranks;
};

void capacity_print(const struct capacity_view *v);
int capacity_print_json(const struct capacity_view *v, struct err *e);

#endif
