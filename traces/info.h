/* info.h: what a workload is like: lengths, arrivals, sharing. `trace info` prints it; nothing here decides a run. */
#ifndef TRACES_INFO_H
#define TRACES_INFO_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "core/workload.h"

struct err;
struct trace_report;

#define INFO_BINS 48

struct info_stat {
	int64_t n;
	double mean, std, min, p50, p90, p99, max; /* std: population; percentiles: linear interpolation */
};

struct info {
	int64_t n, zero_output, with_max_tokens;
	struct info_stat input, output; /* tokens */
	int64_t input_total, output_total;

	double duration_s; /* from the first to the last arrival of requests without parents */
	double rate; /* (roots - 1) / duration; NAN when there is no duration */
	struct info_stat gap; /* seconds between arrivals of requests without parents */
	double gap_cv; /* std / mean; NAN without gaps */
	double burstiness; /* 1 / cv^2: the shape of the gamma distribution of that cv; INFINITY when even */
	int64_t ties; /* gaps of 0 */
	int64_t bin[INFO_BINS]; /* arrivals per bin of duration / n_bins */
	int32_t n_bins;

	int64_t blocks, distinct_blocks; /* content ids */
	double ideal_hit_ratio; /* 1 - distinct / blocks; NAN without ids */
	int64_t with_ids; /* requests that have content ids */
	int32_t hash_block; /* tokens per id; 0 = each has its own length */

	int64_t sessions, largest_session; /* conversations, requests in the largest */
	int64_t dependents, links, depth; /* requests with parents; longest chain of requests, 1 = no links */
	int64_t tenants;

	uint64_t hash;
	bool lengths_estimated;
};

int info_compute(const struct workload *w, struct info *out, struct err *e);

/* Percentile p in [0, 100] of x[0 .. n), ascending; numpy's linear interpolation. n > 0. */
double info_percentile(const double *x, int64_t n, double p);

/* For people. `name` is the file; report may be NULL (a generated workload). */
void info_print(FILE *f, const char *name, const struct info *in, const struct trace_report *report);

/* The same as one documented JSON object (docs/manual); ERR_IO or ERR_MEMORY. */
int info_print_json(FILE *f, const char *name, const struct info *in, const struct trace_report *report, struct err *e);

#endif
