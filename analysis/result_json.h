/* result_json.h: a run as JSON. Keys come in a fixed order; numbers in the shortest form that reads back the same; what is
 * not defined is null. */
#ifndef ANALYSIS_RESULT_JSON_H
#define ANALYSIS_RESULT_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct err;
struct run_result;
struct run_settings;
struct workload;

/* The object of one run for `--json` and the database: the keys of vllm bench serve, then Lockstep's own (policy, run_id,
 * status, steps, preemptions, rejected, sim_wall_s, workload_hash, steady_state, settings, ...). Text without a
 * newline at the end; release with mem_free. */
int result_json(const struct run_settings *s, const struct run_result *r, char **text, struct err *e);

/* What is known before it has run: run_id, status, label, policy and the settings. */
int result_json_begun(const struct run_settings *s, const struct run_result *r, char **text, struct err *e);

/* --save-result FILE: exactly the keys of vllm bench serve; with settings.save_detailed also the arrays input_lens,
 * output_lens, ttfts, itls, start_times, errors (seconds). Written beside and renamed: never half a file. */
int result_save(const char *path, const struct run_settings *s, const struct workload *w, const struct run_result *r,
		struct err *e);
/* The same into a stream. */
int result_write(FILE *f, const struct run_settings *s, const struct workload *w, const struct run_result *r,
		 struct err *e);

/* {"runs": [ ... ]} from the n objects result_json made, into f. */
int result_json_runs(FILE *f, char *const *texts, int32_t n, struct err *e);

/* v in the shortest decimal form that reads back as v; "null" for NAN and infinities. */
const char *json_number(double v, char buf[32]);

#endif
