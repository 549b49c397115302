/* validate.h: the executor against the simulator on the same workload, layer by layer, because errors cancel in end-to-end
 * figures: block tables, decisions, step times and their parts, requests. docs/validation.md says what each figure means.
 *
 * One validation of one policy is
 *   execute    the workload runs on the executor and everything the engine took from it is recorded;
 *   replay     the recording drives the engine again: the same decisions, the same block tables?
 *   predict    the recording drives it once more, and the cost model is asked for every batch that was executed;
 *   again      and once more, each batch really executed: the executor against itself, decision by decision;
 *   simulate   the workload runs on the simulator with as much memory, deciding by its own clock.
 *
 * Percent errors are (simulated / measured - 1) x 100. What is not defined is NAN here, null in JSON and SQL. */
#ifndef ANALYSIS_VALIDATE_H
#define ANALYSIS_VALIDATE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "analysis/decisions.h"
#include "analysis/run.h"
#include "analysis/text.h"
#include "core/backend.h"
#include "core/err.h"
#include "core/workload.h"

struct executor;
struct jout;
struct store;

enum validate_time { VALIDATE_QUEUE, VALIDATE_PREFILL, VALIDATE_TTFT, VALIDATE_TPOT, VALIDATE_E2E, VALIDATE_TIMES };
extern const char *const validate_time_keys[VALIDATE_TIMES]; /* "queue", "prefill", "ttft", "tpot", "e2e" */
extern const char *const validate_time_labels[VALIDATE_TIMES];

enum validate_stat { VALIDATE_MEAN, VALIDATE_P50, VALIDATE_P90, VALIDATE_P99, VALIDATE_STATS };
extern const char *const validate_stat_keys[VALIDATE_STATS]; /* "mean", "p50", "p90", "p99" */

/* Steps by what they compute: prompt pieces alone, decodes alone, both. */
enum validate_kind { VALIDATE_ALL, VALIDATE_PREFILLS, VALIDATE_DECODES, VALIDATE_MIXED, VALIDATE_KINDS };
extern const char *const validate_kind_keys[VALIDATE_KINDS]; /* "all", "prefill", "decode", "mixed" */

enum { VALIDATE_PARTS = STEP_PARTS + 1 }; /* step_part_names and the host */
extern const char *const validate_part_keys[VALIDATE_PARTS];

enum validate_rate { VALIDATE_REQUESTS_PER_S, VALIDATE_OUTPUT_PER_S, VALIDATE_RATES };
extern const char *const validate_rate_keys[VALIDATE_RATES]; /* "request_throughput", "output_throughput" */

/* One number of the executed run and of the simulated one. */
struct validate_figure {
	double measured, simulated; /* ns; throughputs: per second */
	double error; /* percent */
	double spread; /* percent: by how much further executions differed from the first, |again / first - 1|, mean over them;
	                  NAN where there was none */
	int64_t n; /* samples of the measured side */
	bool thin; /* a percentile of too few samples */
	bool below_step; /* a queue time that is shorter than a step on both sides: where in a step a request happens to
	                    arrive decides it, and no error of a model. Never judged */
};

/* Predicted against measured durations of the executed steps. */
struct validate_steps {
	int64_t n;
	double mape; /* mean of |predicted / measured - 1|, percent */
	double bias; /* mean of predicted / measured - 1 */
	double total; /* sum of the predicted / sum of the measured - 1: what it does to a whole run */
	double p90; /* nine in ten steps are no further off than that */
	double spread; /* MAPE between two executions of the same steps, mean over the further ones; NAN: not measured */
	double measured_ns, predicted_ns; /* sums */
};

/* One part of all steps. */
struct validate_part {
	double measured_ns, predicted_ns; /* sums */
	double share; /* of the steps' measured time, percent */
	double error; /* of the sums, percent */
	double absolute; /* sum of |predicted - measured| over the steps, in percent of the steps' measured time */
	double spread; /* of the sums, between executions */
};

/* Where two logs part. */
struct validate_parting {
	int64_t step; /* -1: they do not */
	int64_t line; /* from 1, in the decision log; block tables: 0 */
	char executed[DECISION_LINE], replayed[DECISION_LINE]; /* the lines; "" where a log has ended */
};

/* What else went on on the machine while the executor ran. */
struct validate_contention {
	double load; /* load average over a minute, before; NAN: not told */
	double others; /* share of all CPU time that other processes took, percent; NAN: not told */
	double steal; /* share that the hypervisor kept back, percent */
	bool busy; /* enough of either to spoil timings */
};

/* One step, for plots. */
struct validate_point {
	double measured_ns, predicted_ns, again_ns; /* NAN: not known */
	enum validate_kind kind;
};

struct validate_result {
	int64_t id; /* in the database; 0 = not stored */
	char *label; /* policy, with its parameters where given */
	const char *cost; /* what predicted, as --cost-model has it; the caller's */
	double load; /* share of the capacity asked for; 0 = not asked */
	double capacity; /* requests/s, as simulated; with `load` */
	double offered_rate; /* requests/s */
	enum run_status status; /* complete: all passes that were asked for; interrupted: some are missing */
	char status_text[512];
	struct run_settings settings; /* of the executed run; its strings are the caller's */
	struct run_result executed, simulated; /* per-request arrays dropped; store_err says whether they are stored */
	struct err store_err; /* of the validation itself */

	bool replayed; /* the recording was played: what follows is known */
	bool decisions_identical, memory_identical;
	char replay_text[512]; /* what stopped the replay, "" = nothing did */
	struct validate_parting decisions, memory;
	int64_t log_lines;

	int32_t executions; /* the first included */
	int64_t again_steps; /* steps that each further one executed, at least: below n_points where it was cut short */
	struct validate_steps steps[VALIDATE_KINDS];
	bool has_parts; /* both sides tell them */
	struct validate_part parts[VALIDATE_PARTS];
	struct validate_figure times[VALIDATE_TIMES][VALIDATE_STATS];
	double request_mape
		[VALIDATE_TIMES]; /* mean over requests of |simulated / measured - 1|, each with itself, percent */
	struct validate_figure rates[VALIDATE_RATES];
	int64_t outside_steps; /* executed steps that the cost model had to extrapolate */
	double outside_max;

	double allowed; /* --max-error: percent; NAN = no limit */
	int32_t beyond; /* judged figures that are off by more than `allowed` and their own spread */
	char worst[96]; /* the worst of them: "ttft p99 +12.3 %" */

	struct validate_contention contention;
	double executed_s; /* wall clock of all executions */

	struct validate_point *points; /* [n_points] */
	int64_t n_points;
	double *samples[VALIDATE_TIMES][2]; /* [n_samples[]] of finished requests, ascending, ns: measured, simulated */
	int64_t n_samples[VALIDATE_TIMES][2];
};

enum { VALIDATE_EXECUTIONS = 16 }; /* at most */

struct validate_setup {
	struct run_settings executed; /* what runs it: backend, weights, memory */
	struct run_settings
		simulated; /* the same but BACKEND_SIM, with a cost model; its memory is made the executed one's */
	int32_t executions; /* 1 .. VALIDATE_EXECUTIONS; 1 = no spread is measured */
	double spread_s; /* seconds that each further execution may take; the steps beyond are taken to differ as those
	                    before did. 0 = no limit; negative: a tenth of the first one's time, 2 s to 20 s */
	double max_error; /* percent; NAN = no limit */
	double load, capacity; /* for the record: what the workload's arrivals were made for; 0 */
};

struct validate_io {
	const volatile int *stop; /* polled; non-zero: what there is is kept, as interrupted. May be NULL */
	/* What is being done, and how far it is (0 .. 1). May be NULL. */
	void (*progress)(void *ctx, const char *what, double share);
	void *ctx;
	struct store *store; /* NULL: not stored */
	struct executor *executor; /* as in struct run_io */
	/* Put before the backend of every execution, as run_io.stand_before: how tests make executors. May be NULL. */
	int (*stand_before)(void *ctx, struct backend *b, struct err *e);
	void *before_ctx;
};

/* ERR_NONE: *r is filled, to be released with validate_free, and stored if it could be (store_err says why not). Its status may be stalled, failed (status_text) or interrupted: then figures are missing. Anything else: *e says
 * what is wrong and *r is empty. */
int validate_policy(const struct validate_setup *s, const struct workload *w, const struct validate_io *io,
		    struct validate_result *r, struct err *e);
void validate_free(struct validate_result *r);

/* How long one execution will take by the cost model, seconds: time in steps, or with arrivals that are waited for
 * (EXEC_WALL) all of it. `blocks` KV blocks (0: as the settings say). Also *steps, may be NULL. */
int validate_estimate(const struct validate_setup *s, const struct workload *w, int32_t blocks, double *seconds,
		      int64_t *steps, struct err *e);
/* Requests/s that the simulator serves when all are there at once: what a load is a share of. */
int validate_capacity(const struct run_settings *simulated, const struct workload *w, int32_t blocks, double *rate,
		      struct err *e);
/* How much faster w's arrivals have to be played for `rate` requests/s to arrive (--replay-speedup). ERR_INPUT when they all
 * come at once. */
int validate_speedup(const struct workload *w, double rate, double *speedup, struct err *e);

/* Does it pass? Decisions and memory identical, nothing beyond what is allowed, complete. */
bool validate_passed(const struct validate_result *r);

/* --- how it is shown ---------------------------------------------------------------------------------------------- */

void validate_print(FILE *f, const struct validate_result *r);
/* Milliseconds of a time; below half a microsecond it is 0. */
const char *validate_ms(double ns, char buf[TEXT_NUMBER]);
/* One object. */
void validate_put_json(struct jout *j, const struct validate_result *r);
/* The figures as a flat list: what the database keeps. */
struct validate_row {
	const char *what; /* "step", "part", "queue", ..., "request_throughput" */
	const char *of; /* steps: their kind; parts: which; else "" */
	const char *
		statistic; /* steps: "mape", "bias", "total", "p90"; parts: "sum", "absolute"; times: "mean", "p50", "p90",
	                          "p99", "request"; throughputs: "value" */
	double measured, simulated, error, spread; /* ns or per second; percent */
	int64_t n;
	bool uncertain;
};
enum { VALIDATE_ROWS = 64 };
int32_t validate_rows(const struct validate_result *r, struct validate_row rows[VALIDATE_ROWS]);

/* What the machine is, for reports. */
struct validate_machine {
	char cpu[128], os[160];
	int32_t cpus;
	double memory_bytes;
};
void validate_machine(struct validate_machine *m);

struct validate_report {
	const char *path; /* FILE.md; plots lie beside it as FILE-N-steps.svg, ... */
	const char *command; /* as typed */
	const char *workload; /* what was served, in a line or a few */
	const char *cost; /* what predicted: "profiled (profile 3: ...)" */
	const struct validate_result *results;
	int32_t n;
};
int validate_write_report(const struct validate_report *p, struct err *e);

#endif
