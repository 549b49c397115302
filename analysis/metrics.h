/* metrics.h: from the requests of a run to its figures. docs/metrics.md has every formula.
 *
 * All latencies count from a request's intended arrival. Only finished requests enter latencies; rejected, aborted and
 * unfinished ones are counted apart. A figure that is not defined is NAN here, null in JSON and SQL, "-" in tables:
 * never 0. Times are nanoseconds as double, rates are per second. */
#ifndef ANALYSIS_METRICS_H
#define ANALYSIS_METRICS_H

#include <stdbool.h>
#include <stdint.h>

#include "analysis/goodput.h"
#include "core/engine.h"
#include "core/request.h"
#include "core/workload.h"

struct err;
struct gaps;

#define METRICS_MAX_PERCENTILES 16

/* Percentiles to report: 99 alone by default (median is always there). */
struct percentiles {
	double p[METRICS_MAX_PERCENTILES]; /* each in (0, 100], as given */
	int32_t n;
};
void percentiles_default(struct percentiles *p);
/* "50,90,99.9" -> *p. ERR_INPUT. 99 is added when missing: the result file always has p99. */
int percentiles_parse(struct percentiles *p, const char *text, struct err *e);
/* "p99", "p99.9" into buf. */
const char *percentile_name(double p, char buf[24]);

/* One latency's distribution. n = 0: everything else is NAN. */
struct dist {
	int64_t n;
	double mean, median, std, min, max; /* std: population */
	double p[METRICS_MAX_PERCENTILES]; /* in the order of struct percentiles */
};

enum latency {
	LATENCY_TTFT,
	LATENCY_TPOT,
	LATENCY_ITL,
	LATENCY_E2EL,
	LATENCY_NORMALIZED, /* E2EL / outputs: ns per token */
	LATENCY_QUEUE,
	LATENCY_PREFILL,
	LATENCY_DECODE,
	LATENCY_PREEMPTED,
	LATENCY_TRANSFER,
	LATENCY_COUNT
};
const char *latency_key(enum latency l); /* "ttft": as in mean_ttft_ms */
const char *latency_label(enum latency l); /* "TTFT" */

/* p99 of fewer samples than this is marked as uncertain: 100 for p99, 1000 for p99.9. */
bool percentile_is_thin(double p, int64_t n);

/* The middle of the run: what finished after the first tenth of the finished requests had, and not after nine tenths
 * had. Start-up and drain are cut off at either end, whatever the arrivals look like. */
struct steady {
	int64_t from_ns, to_ns;
	int64_t n; /* requests that finished in (from, to] */
	double request_throughput, output_throughput, total_token_throughput;
	struct dist ttft, tpot, e2el, queue;
};

/* Of workflows: requests that wait for one another, or are of one session, together. The critical path leads back from a
 * workflow's last finish, each time to the parent that finished last. Only workflows all of whose requests finished
 * count but in n. */
struct workflow_figures {
	int64_t n, completed;
	double throughput; /* completed per second of the run */
	struct dist makespan; /* from its first arrival to its last finish */
	double critical_requests; /* requests on the critical path, mean */
	double critical_queue_share,
		critical_tool_share; /* of all makespans: queueing, waiting for tools on that path */
};

struct metrics {
	struct percentiles percentiles;
	struct goodput_slo slo;

	int64_t requests; /* in the workload */
	int64_t completed, rejected, aborted, unfinished;
	int64_t failed; /* rejected + aborted */
	int64_t zero_output; /* completed without any output: TTFT is the end of their prefill; no TPOT */
	int64_t rejected_why[REQUEST_WHYS]; /* by enum request_why: rejected and aborted ones */

	int64_t first_arrival_ns, last_finish_ns, duration_ns; /* duration 0 when nothing completed */
	int64_t input_tokens, output_tokens; /* of completed requests */
	double request_throughput, output_throughput, total_token_throughput; /* achieved */
	double offered_rate; /* intended arrivals per second: (n - 1) / (last - first); INFINITY when all are at one time */
	double request_goodput; /* NAN without SLOs */
	int64_t good; /* requests that met every SLO; -1 without SLOs */

	double max_output_tokens_per_s; /* most tokens in one second of the run, as vllm bench counts them */
	int64_t max_concurrent_requests; /* most requests in flight in one second of it, as vllm bench counts them */

	struct dist latency[LATENCY_COUNT];
	bool itl_exact;
	/* Sums over completed requests; queue + prefill + decode + preempted + transfer = e2el, exactly. */
	int64_t sum_queue_ns, sum_prefill_ns, sum_decode_ns, sum_preempted_ns, sum_transfer_ns, sum_e2el_ns;
	int64_t preempted_requests, max_preemptions; /* of one request */

	/* Found / looked up, first admissions; NAN without a cache. In blocks, partial last ones of prompts are looked up. */
	double prefix_hit_ratio; /* tokens */
	double prefix_request_hit_ratio, prefix_block_hit_ratio;
	double prefix_ideal_block_hit_ratio; /* what an endless cache would find; NAN when the trace has no hashes */
	int64_t cached_tokens;

	/* Copies between tiers of memory. */
	int64_t swap_out_bytes, swap_in_bytes;
	int64_t saved_bytes, host_hit_bytes; /* prefixes evicted to host memory, and back from host memory and disk */
	int64_t disk_write_bytes, disk_read_bytes;
	double cold_hit_ratio; /* of the prompt tokens looked up, those found behind the device; NAN without offloading */
	double transfer_share; /* of the steps' time in which they only waited for copies */

	/* Shares of KV slots x busy time; they and free space add up to 1. NAN when no step ran. */
	double kv_sharing_saved; /* of the blocks that requests would hold if none were shared, the share that sharing saves */
	double kv_used, kv_internal_waste, kv_reserved_waste, kv_external_waste;

	double busy_share; /* of the run's duration that steps took */
	double host_share; /* of the steps' time that the host took */
	double mean_step_ns, mean_tokens_per_step; /* output tokens per step */

	struct workflow_figures workflows;
	struct dist waited[WAIT_CAUSES]; /* of completed requests, by cause, returns after preemptions included */
	double waited_share[WAIT_CAUSES]; /* of all their waiting; NAN when nobody waited */
	double longest_wait_ns; /* queue + preempted time of one request; NAN when none completed */
	double tenant_service_fairness, tenant_latency_fairness; /* Jain's index; NAN below two tenants */
	double tenant_fairness; /* Jain's index of tenants' output tokens per second of latency; NAN below two */

	/* What it costs: NAN without a price. Devices are paid from the first arrival to the last finish. */
	double price_per_hour; /* US dollars, of all devices */
	double dollars, dollars_per_request, dollars_per_good_request;
	double dollars_per_million_input_tokens,
		dollars_per_million_output_tokens; /* each bears the whole cost alone */
	double dollars_per_million_tokens; /* input and output alike */
	/* Rated power x the time in which steps run: an estimate from above of what devices draw in them; what they draw
	 * between is not in it. NAN where the power is not known. Joules. */
	double energy_joules, energy_per_request_joules, energy_per_output_token_joules;
	double good_request_fraction; /* of all requests, those that met every SLO; NAN without SLOs */

	struct steady steady;
};

/* What the run gathers step by step for metrics_compute. */
struct step_tally {
	int64_t origin_ns; /* first arrival: seconds count from here */
	int64_t second_ends_ns; /* of the second being counted */
	int64_t in_second, most_in_second; /* tokens */
	/* Steps of several replicas do not come in order: every second has its own count. */
	bool any_order;
	int64_t *seconds; /* [cap] */
	int64_t cap;
	bool no_memory; /* a count was lost: the most is not known */
};
void step_tally_free(struct step_tally *t); /* only with any_order is there anything to release */
void step_tally_init(struct step_tally *t, int64_t origin_ns);
void step_tally_add(struct step_tally *t, int64_t end_ns, int64_t tokens); /* in order of end_ns */
void step_tally_add_run(struct step_tally *t, const int64_t *end_ns, int64_t steps, int64_t tokens); /* each */
int64_t step_tally_most(const struct step_tally *t); /* -1: not known */

/* Everything metrics_compute reads. */
struct metrics_input {
	const struct workload *workload;
	const struct request *requests; /* [workload->n] */
	const struct engine_stats *stats;
	int32_t replicas; /* the stats are of so many together; 0 = 1 */
	const struct engine_config *config; /* as resolved by the engine */
	int64_t page_bytes; /* a KV block's; 0 = not known */
	const struct gaps *gaps; /* finished */
	const struct step_tally *tally; /* may be NULL: max_output_tokens_per_s is NAN */
	struct percentiles percentiles;
	struct goodput_slo slo;
	double price_per_hour; /* of all devices, US dollars; 0 = not known */
	double power_w; /* of all devices, rated; 0 = not known */
};
int metrics_compute(struct metrics *m, const struct metrics_input *in, struct err *e);

/* values[n] -> *d; reorders values. NAN-free input. Percentiles as numpy's, to the last bit. Linear time. */
void dist_compute(struct dist *d, double *values, int64_t n, const struct percentiles *p);
void dist_of_gaps(struct dist *d, const struct gaps *g, const struct percentiles *p);
/* The value of the given rank (from 0) in sorted order; reorders values. */
double dist_rank(double *values, int64_t n, int64_t rank);

/* Metrics as a flat list: what the store keeps, compare shows. */
enum metric_better { METRIC_NEUTRAL, METRIC_HIGHER, METRIC_LOWER };
struct metric_value {
	char key[40]; /* "mean_ttft_ms", "request_throughput" */
	char label[40]; /* "TTFT mean" */
	const char *unit; /* "ms", "req/s", "tok/s", "" */
	enum metric_better better;
	double value; /* NAN = not defined */
	bool thin; /* a percentile of too few samples */
	bool headline; /* one of the short list that compare shows unless asked for all */
};
#define METRICS_MAX_VALUES 512
/* Fills out[METRICS_MAX_VALUES], returns how many; the order is fixed. */
int32_t metrics_list(const struct metrics *m, const struct engine_stats *stats, struct metric_value *out);

#endif
