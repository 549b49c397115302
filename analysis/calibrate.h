/* calibrate.h: fits the roofline's few parameters to what a real server did, by simulating the whole of the same workload
 * under candidate parameters. They are chosen on the first part of the log, in order of arrival; the rest only scores them.
 * docs/calibrate.md says what each parameter means, how they are searched and what their uncertainty is. */
#ifndef ANALYSIS_CALIBRATE_H
#define ANALYSIS_CALIBRATE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "analysis/measured.h"
#include "analysis/run.h"

struct err;
struct store;

enum calibrate_param {
	CALIBRATE_GEMM,
	CALIBRATE_ATTN,
	CALIBRATE_MEMORY,
	CALIBRATE_KV,
	CALIBRATE_MIXED,
	CALIBRATE_PROMPT,
	CALIBRATE_STEP,
	CALIBRATE_REQUEST,
	CALIBRATE_PARAMS
};

struct calibrate_param_info {
	const char *name; /* its word in --cost-model */
	const char *unit; /* "us", or "" for shares */
	const char *help; /* one line */
	double low, high; /* bounds, in that unit */
	double start; /* where the search begins when the device says 0; in that unit */
	double probe; /* the factor by which it is moved to see whether anything depends on it */
};
extern const struct calibrate_param_info calibrate_params[CALIBRATE_PARAMS];

/* "gemm,memory" -> a bit per parameter. ERR_INPUT lists near names. */
int calibrate_parse_params(const char *text, uint32_t *mask, struct err *e);

enum calibrate_metric {
	CALIBRATE_QUEUE,
	CALIBRATE_PREFILL,
	CALIBRATE_TTFT,
	CALIBRATE_TPOT,
	CALIBRATE_E2E,
	CALIBRATE_METRICS
};
enum calibrate_stat { CALIBRATE_MEAN, CALIBRATE_P50, CALIBRATE_P90, CALIBRATE_P99, CALIBRATE_STATS };
extern const char *const calibrate_metric_keys[]; /* "queue", "prefill", ... */
extern const char *const calibrate_metric_labels[];
extern const char *const calibrate_stat_keys[]; /* "mean", "p50", ... */

/* Simulated against measured, of one part of the log. NAN where the log does not tell, or a measured value is below 1 ms. */
struct calibrate_errors {
	int64_t n; /* requests */
	double measured_ns[CALIBRATE_METRICS][CALIBRATE_STATS];
	double simulated_ns[CALIBRATE_METRICS][CALIBRATE_STATS];
	double percent[CALIBRATE_METRICS][CALIBRATE_STATS]; /* (simulated / measured - 1) x 100 */
	double throughput_percent; /* output tokens/s from the first arrival to the last token of the part */
	double loss; /* mean |ln(simulated / measured)|, over its requests and the metrics that count */
};

/* One parameter, in its unit. */
struct calibrate_estimate {
	bool fitted;
	bool undetermined; /* asked for, but left as it was; `why` says why */
	double initial, value;
	double low, high; /* one standard deviation to either side; value where it was not fitted */
	double sensitivity; /* how much the requests' times change, relatively, when it is moved by its probe; NAN = not asked */
	char why[160];
};

enum calibrate_part { CALIBRATE_FIT, CALIBRATE_HELD, CALIBRATE_PARTS };

struct calibrate_options {
	const struct run_settings *settings; /* model, device, policy, limits; its cost is set here */
	const struct workload *workload; /* specs[i] is measured->at[i] */
	const struct measured *measured;
	double train_fraction; /* 0.5; 1 = nothing is held out */
	uint32_t params; /* bits; 0 = all of them */
	bool params_given; /* a parameter that was named and cannot be determined is an error, else it is left alone */
	bool force; /* fit them all the same */
	int32_t max_evals; /* simulations; 1000 */
	uint64_t seed;
	const volatile int *stop; /* polled; non-zero: the best so far is the result */
	void (*progress)(void *ctx, int64_t done, int64_t total);
	void *ctx;
};

struct calibrate_result {
	struct calibrate_estimate estimates[CALIBRATE_PARAMS];
	struct calibrate_errors before[CALIBRATE_PARTS], after[CALIBRATE_PARTS];
	char cost[256]; /* for --cost-model; `after` is of this very text */
	int64_t evals; /* simulations run */
	double wall_s; /* all of it */
	double each_s; /* one simulation, on average */
	double simulated_s; /* time the workload takes */
	bool interrupted;
	int64_t steps, preemptions; /* of the last simulation */
	struct engine_config engine; /* as resolved */
	int64_t calibration_id; /* 0 = not stored */
};

void calibrate_options_default(struct calibrate_options *o);

/* ERR_INPUT: settings that serve not all of the requests. ERR_STALL: the log cannot determine what was asked; the text says
 * what to do. Nothing to release. */
int calibrate(const struct calibrate_options *o, struct calibrate_result *r, struct err *e);

/* For people, and as one JSON object (release with mem_free). */
void calibrate_print(FILE *f, const struct calibrate_options *o, const struct calibrate_result *r);
int calibrate_json(const struct calibrate_options *o, const char *measured_path, const struct calibrate_result *r,
		   char **json, struct err *e);

/* store_calibration.c: tables calibrations, calibration_params, calibration_errors. */
int store_calibration(struct store *s, const struct calibrate_options *o, const char *measured_path,
		      struct calibrate_result *r, struct err *e);
/* The requests of a run as a measured log, its settings as hints. ERR_INPUT when its requests were not recorded. */
int store_measured(struct store *s, const char *run, struct measured *m, struct err *e);

#endif
