/* points.h: measured serving points (a model on a device under an engine, at a fixed concurrency, with these lengths: so long
 * a token), what the roofline says of them, and its parameters fitted to them. docs/calibrate.md tells the method. */
#ifndef ANALYSIS_POINTS_H
#define ANALYSIS_POINTS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "models/device.h"
#include "models/model.h"

struct err;

enum { POINTS_KINDS = 8 /* models, devices, engines in one file, of each */, POINTS_GROUPS = 128 };

struct point {
	int32_t group; /* of points.groups */
	int32_t isl, osl; /* prompt and output tokens, as they were asked for */
	int32_t concurrency;
	double ttft_ms, tpot_ms; /* ttft_ms NAN: not told */
};

/* Points that differ in lengths and concurrency alone: one cost model. */
struct point_group {
	int32_t model, device, engine; /* of the lists below */
	int32_t tp;
	bool fp8; /* weights of the layers; else as the model has them */
	int64_t kv_tokens; /* what the cache holds at 0.9 of memory */
};

struct points {
	struct point *at; /* [n] */
	int64_t n, cap;
	struct point_group groups[POINTS_GROUPS];
	int32_t n_groups;
	struct model models[POINTS_KINDS];
	struct device devices[POINTS_KINDS];
	char engines[POINTS_KINDS][32];
	int32_t n_models, n_devices, n_engines;
};

/* A CSV with the columns model, system, backend, isl, osl, concurrency, tp and tpot_ms, in any order, and perhaps gemm_quant
 * (empty or fp8) and ttft_ms. ERR_INPUT names the line. Release with points_free, also after an error. */
int points_read(struct points *p, const char *path, struct err *e);
void points_free(struct points *p);

/* What the roofline says of a point, ms. */
struct point_times {
	double tpot; /* closed loop, see points.c */
	double prefill; /* the step of the prompt, beside the others' decodes: the least a TTFT can be */
	double burst; /* mean TTFT when all begin at once, one prompt after the other */
};
/* All points, with devices[i] in place of points' i-th of engine j at [j * POINTS_KINDS + i]; out [n]. */
int points_predict(const struct points *p, const struct device *devices, struct point_times *out, struct err *e);

/* --- fit ----------------------------------------------------------------------------------------------------------- */

enum { POINT_PARAMS = 11 };

/* Who shares a value. Silicon and links are what they are whatever drives them; an engine's host work and collectives are its
 * own whatever they run on; what is reached of the memory's peak differs from device to device. */
enum point_scope { OF_ALL, OF_DEVICE, OF_ENGINE };

struct point_param {
	const char *key; /* in a device's description */
	size_t offset; /* in struct device */
	enum point_scope scope;
	double unit; /* ns of one, or 1 */
	double before, spread; /* what is believed before any point is seen, and how far off that may be */
	double low, high;
	const char *help;
};
extern const struct point_param point_params[POINT_PARAMS];

struct point_estimate {
	const struct point_param *param;
	int32_t of; /* device or engine; 0 for OF_ALL */
	double value, sd;
};

enum { POINT_VALUES = 40, POINT_LEFT_OUT = 16 };

/* Points that took no part in a fit, and how well it says them. */
struct point_left_out {
	char what[64]; /* "tensor parallel 8", "llama-3.1-70b" */
	int64_t n;
	double mape; /* TPOT, of those */
};

struct points_fit {
	struct point_estimate values[POINT_VALUES];
	int32_t n_values;
	struct device devices[POINTS_KINDS * POINTS_KINDS]; /* as points_predict wants them */
	struct point_times *times; /* [n] fitted */
	double mape; /* TPOT, all points */
	struct point_left_out left_out[POINT_LEFT_OUT];
	int32_t n_left_out;
	double *left_out_tp,
		*left_out_model; /* [n] TPOT, ms, as the fit without that point's degree, or model, has it; NAN */
};

struct points_options {
	int32_t max_evals; /* of each fit */
	bool leave_out; /* fit again without each degree of tensor parallelism, and without each model */
	uint64_t seed;
	const volatile int *stop; /* polled; non-zero: ERR_INTERRUPTED */
	void (*progress)(void *ctx, int64_t done, int64_t total);
	void *ctx;
};

/* Devices as their descriptions have them: the engine's section where there is one. */
int points_devices(const struct points *p, struct device devices[POINTS_KINDS * POINTS_KINDS], struct err *e);

int points_fit(struct points_fit *out, const struct points *p, const struct points_options *o, struct err *e);
void points_fit_free(struct points_fit *f);

/* TPOT's mean |predicted / measured - 1|, over those of a group (-1: all). */
double points_mape(const struct points *p, const struct point_times *t, int32_t group);

/* points_text.c: tables in Markdown. `as_is`: of the devices' own descriptions; fit may be NULL. */
int points_print(FILE *f, const struct points *p, const struct point_times *as_is, const struct points_fit *fit,
		 struct err *e);
int points_json(const struct points *p, const struct point_times *as_is, const struct points_fit *fit, char **json,
		struct err *e);

#endif
