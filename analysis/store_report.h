/* store_report.h: what a report reads of a run: its figures, its requests and its steps, as they are stored. */
#ifndef ANALYSIS_STORE_REPORT_H
#define ANALYSIS_STORE_REPORT_H

#include <stdbool.h>
#include <stdint.h>

struct err;
struct jout;
struct store;

/* The numbers of all runs, ascending; *ids to be released with mem_free. */
int store_run_ids(struct store *s, int64_t **ids, int64_t *n, struct err *e);

/* A row of `runs`. Strings are "" where nothing is stored; they live until store_report_run_free. */
struct store_report_run {
	int64_t run_id;
	char *label, *status, *status_text, *started, *policy, *policy_params, *trace, *model, *device, *cost, *backend,
		*recorded, *weight_dtype, *kv_cache_dtype, *workload_hash;
	int64_t requests, replicas, tensor_parallel;
	int64_t num_gpu_blocks; /* 0 = not known */
	double sim_wall_s; /* NAN = not known */
};
int store_report_run(struct store *s, int64_t run_id, struct store_report_run *out, struct err *e);
void store_report_run_free(struct store_report_run *r);

/* One row of `metrics`; `value` is NAN where it is not defined. */
typedef void store_metric_fn(void *ctx, const char *name, double value, const char *unit, bool uncertain);
int store_report_metrics(struct store *s, int64_t run_id, store_metric_fn *each, void *ctx, struct err *e);

/* One row of `requests`, times in ns. The parts of the latency are 0 unless it finished. */
struct store_request {
	int32_t request; /* index in the workload */
	bool finished;
	int32_t prompt_tokens, output_tokens, preemptions;
	int64_t arrival_ns, queue_ns, prefill_ns, decode_ns, preempted_ns, preempted_in_prefill_ns, transfer_ns,
		transfer_in_prefill_ns;
	int64_t failed_ns; /* from arrival to rejection or abortion; -1 = it did not fail */
};
int64_t store_request_ttft_ns(const struct store_request *r);
int64_t store_request_e2e_ns(const struct store_request *r);
/* All of a run in order; *list to be released with mem_free. */
int store_report_requests(struct store *s, int64_t run_id, struct store_request **list, int64_t *n, struct err *e);
/* Its id in the trace, else its row there, else its number; to be released with mem_free. */
int store_report_request_name(struct store *s, int64_t run_id, int32_t request, char **name, struct err *e);

/* One row of `steps`. */
struct store_step {
	int64_t start_ns, duration_ns, host_ns;
	int64_t decodes, chunks, output_tokens, prefill_tokens, decode_ctx, running, waiting, preempted, blocks_used,
		blocks_cached;
};
/* All of a run, in order; stops where each() is not 0. */
typedef int store_step_fn(void *ctx, const struct store_step *step);
int store_report_steps(struct store *s, int64_t run_id, store_step_fn *each, void *ctx, struct err *e);
/* Every so many of them, the first included. */
int store_report_steps_every(struct store *s, int64_t run_id, int64_t every, store_step_fn *each, void *ctx,
			     struct err *e);

/* The first column of a query's first rows: numbers into ids[at_most]. */
int store_report_numbers(struct store *s, const char *sql, int64_t *ids, int64_t at_most, int64_t *n, struct err *e);
/* Every row of a query as an array of objects, one key for each column, into *j. The numbers ?1 and ?2 are bound. */
int store_report_rows(struct store *s, const char *sql, int64_t a, int64_t b, struct jout *j, const char *key,
		      struct err *e);
#endif
