/* device.h: what a device can do, read from specs/devices/NAME.json or a file of the user's. Every figure can be
 * overridden: a file may say {"base": "h100-sxm", "memory_bytes": 60e9, ...}. */
#ifndef MODELS_DEVICE_H
#define MODELS_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "models/dtype.h"

struct err;

struct device {
	char name[64]; /* "h100-sxm", "h100-sxm@trtllm" */
	char title[96]; /* "NVIDIA H100 SXM5 80 GB" */
	char engine[32]; /* whose times step_ns and the like are: "vllm"; "" = nobody's in particular */

	/* Memory has two meanings, kept apart. memory_bytes: what the driver reports to a program, of which an engine
	 * takes gpu_memory_utilization. nominal_bytes: what the box says, decimal GB ("80 GB" = 80e9), the textbook's. */
	int64_t memory_bytes;
	int64_t nominal_bytes;
	int64_t context_bytes; /* held by libraries outside the framework's allocator, counted by an engine's profiling */

	double bandwidth; /* memory, bytes/s, peak */
	double peak[DTYPE_COUNT]; /* dense FLOP/s with inputs of that type (fp32: on the vector units); 0 = none */
	double link_bandwidth; /* bytes/s to a peer, one direction; 0 = through the host */
	double link_efficiency; /* share of it that collectives reach */
	double host_bandwidth; /* bytes/s to the host, one direction */
	double power_w;
	double price_per_hour; /* US dollars; 0 = unknown */
	char price_source[160], price_date[16];

	/* Shares of the peaks that good kernels reach. */
	double gemm_efficiency; /* of peak FLOP/s, matrix products */
	double attention_efficiency; /* of peak FLOP/s, prefill attention */
	double memory_efficiency; /* of peak bandwidth */
	double kv_efficiency; /* of peak bandwidth, attention over the KV cache; 0 = as memory_efficiency */
	double mixed_efficiency; /* of what decode attention reaches alone, in a step that has prompts too */
	double unhidden; /* share of the shorter of an operator's compute and memory time that the longer does not hide:
	                  * 0 = perfect overlap, the plain roofline; 1 = one after the other */

	double step_ns; /* host, per step: scheduling, input preparation, sampling */
	double request_ns; /* host, per request in the step */
	double prompt_ns; /* device idle in each step with a piece of a prompt: such steps run outside full graphs */
	double launch_ns; /* host, per kernel, where kernels are launched one by one (eager mode) */
	double kernel_ns; /* device, per kernel: start and drain */
	double collective_ns, hop_ns; /* device, per all-reduce or all-gather, and per further device that takes part */
};

/* By name or alias, or by path (a slash, or ending in .json); "NAME@ENGINE": with that engine's figures, which the
 * description must have. Nothing to release. */
int device_load(struct device *out, const char *name_or_path, struct err *e);
int device_parse(struct device *out, const char *text, const char *where, struct err *e);
/* The i-th built-in name, written into buf; NULL past the last. */
const char *device_name_at(int32_t i, char *buf, size_t size);

/* FLOP/s for weights held in t: its own peak where the device has one, else bf16's (weights are expanded first). */
double device_peak(const struct device *d, enum dtype t);

#endif
