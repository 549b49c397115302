/* capacity.h: what fits on a device: weights, reserve, KV blocks, sessions. docs/capacity.md tells every formula. */
#ifndef SIM_CAPACITY_H
#define SIM_CAPACITY_H

#include <stdbool.h>
#include <stdint.h>

#include "models/device.h"
#include "models/model.h"

struct err;

struct capacity_options {
	double utilization; /* share of the device's memory the engine takes */
	int32_t block_size; /* tokens */
	int32_t max_num_seqs; /* these two size the activations, which the reserve counts */
	int32_t max_num_batched_tokens;
	int32_t max_model_len; /* 0 = the model's */
	struct weight_format weights;
	enum kv_dtype kv;
	int32_t tensor_parallel; /* devices the model is split over: figures are of one of them */
	bool nominal; /* the textbook's memory: decimal GB of the box, no reserve */
	int64_t assume_weight_bytes; /* 0 = count */
	int64_t assume_session_bytes; /* 0 = count; of one session, whatever its length */
};

/* 0.9, 16, 256, 2048, model's length, auto, auto, 1. */
void capacity_options_default(struct capacity_options *o);

struct capacity {
	int64_t device_bytes; /* driver's total, or nominal */
	int64_t budget_bytes; /* utilization x device_bytes */
	int64_t weight_bytes;
	int64_t activation_bytes; /* reserve, peak of a profiling step: forward pass or sampling, whichever is larger */
	int64_t buffer_bytes; /* reserve, kept all the time: rotary table */
	int64_t context_bytes; /* reserve, outside the allocator */
	int64_t kv_bytes; /* what is left for KV */
	int64_t kv_bytes_per_token;
	int32_t block_size;
	int32_t num_blocks;
	int64_t tokens; /* num_blocks x block_size */
	int32_t max_model_len;
	struct weight_format weights; /* resolved */
};

/* ERR_INPUT for options that cannot be. When no block fits, all is filled in all the same: num_blocks = 0, and kv_bytes
 * may be negative. */
int capacity_compute(struct capacity *out, const struct model *m, const struct device *d,
		     const struct capacity_options *o, struct err *e);

/* KV blocks of a run: capacity_compute's num_blocks. ERR_INPUT when none fits; the text has the figures. */
int capacity_blocks(const struct model *m, const struct device *d, const struct capacity_options *o,
		    int32_t *num_blocks, struct err *e);

/* Sessions of `tokens` tokens that fit at once: by whole blocks; with assume_session_bytes by that; nominal: by bytes. */
int64_t capacity_sessions(const struct capacity *c, const struct capacity_options *o, int64_t tokens);

#endif
