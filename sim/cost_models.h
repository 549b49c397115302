/* cost_models.h: how the cost models are made. Each is used by one run (roofline keeps a table that fills as it is
 * asked; two threads need two of them). */
#ifndef SIM_COST_MODELS_H
#define SIM_COST_MODELS_H

#include "sim/cost.h"
#include "models/device.h"
#include "models/model.h"
#include "sim/profile.h"

enum attention_algorithm {
	ATTENTION_FLASH, /* tiled: scores never leave the chip, causal half only */
	ATTENTION_STANDARD, /* scores written and read in memory, the whole rectangle computed and masked */
};

/* What a step runs on. Model and device must outlive the cost model. */
struct cost_setup {
	const struct model *model;
	const struct device *device;
	struct weight_format weights; /* automatic: the model's own */
	enum kv_dtype kv;
	enum attention_algorithm attention;
	int32_t tensor_parallel; /* devices the model is split over (models/shard.h); profiled: as was measured */
	bool eager; /* no CUDA graphs: each kernel costs the host launch_ns */
	const struct profile *profile; /* profiled: what was measured; needed until it is made. NULL: none */
	int32_t threads, block_size; /* profiled: what the run says, to be what was measured; 0 = does not say */
};

/* bf16 as the model says, auto, flash, 1. */
void cost_setup_default(struct cost_setup *s, const struct model *m, const struct device *d);

/* From text:
 *   roofline[:attention=flash|standard,eager=on|off,gemm=0.7,attn=0.5,memory=0.8,step=300us,
 *            request=2us,launch=4us,kernel=1us,link=0.6,collective=8us,hop=1us]
 *   linear:a=5ms,b=20us,c=1ms,d=10ns      (each optional, 0 when absent)
 *   constant:10ms                          (or constant:time=10ms)
 *   profiled[:WHICH][,step=50us,request=1us,any=on]   (WHICH is for whoever finds s->profile: cost_profile_which)
 * A time is a number with ns, us, ms or s behind it; plain numbers are nanoseconds. `s` may be NULL except for roofline
 * and profiled.
 * ERR_INPUT says which word is wrong. Release with cost_free. */
int cost_open(struct cost **out, const char *text, const struct cost_setup *s, struct err *e);
/* The words above, one model a line, for --help. */
extern const char cost_help[];

/* FLOPs and bytes counted per operator, against the device's peaks: docs/cost-model.md. */
int cost_roofline_create(struct cost **out, const struct cost_setup *s, struct err *e);

/* What was measured (s->profile), refused when it is of something else than s says. */
struct profiled_options {
	double step_ns, request_ns; /* host time on top of what was measured, per step and per request in it */
	bool any; /* take the profile whatever it is of */
};
int cost_profiled_create(struct cost **out, const struct cost_setup *s, const struct profiled_options *o,
			 struct err *e);
/* Is text a "profiled..."? Then which: its number or name into buf, "" when it does not say. Too long a name is cut. */
bool cost_profile_which(const char *text, char *buf, size_t size);

/* a + b x prefill tokens (padding included) + c x decodes + d x decode_ctx, nanoseconds, all of it device time; rounded
 * to the nearest. Exact while everything is below 2^53. */
int cost_linear_create(struct cost **out, double a, double b, double c, double d, struct err *e);

/* Every step takes ns. */
int cost_constant_create(struct cost **out, int64_t ns, struct err *e);

/* One line of the operator table: one step's total over all layers. */
struct cost_op {
	const char *name; /* "qkv", "attention", ... */
	double flops, bytes;
	double ns;
	bool compute_bound;
	int32_t kernels;
};
enum { COST_OPS_MAX = 16 };

/* What roofline would do with b, operator by operator, in order of execution; returns how many. Their ns add up to
 * device_ns (before rounding). */
int32_t cost_roofline_ops(const struct cost *c, const struct batch *b, struct cost_op out[COST_OPS_MAX]);

#endif
