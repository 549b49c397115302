/* measured.h: what a real server did with each request, read from a log: when it came, was first scheduled, had its first
 * and its last token. Three sources are known: JSON lines of an engine's own time stamps, the JSON file of
 * `vllm bench serve --save-detailed`, and executed runs in the database (analysis/store.h).
 *
 * Times are nanoseconds since the first arrival. What a source does not tell is -1 and has no say in anything. */
#ifndef ANALYSIS_MEASURED_H
#define ANALYSIS_MEASURED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/workload.h"

struct err;

enum measured_format {
	MEASURED_TIMESTAMPS, /* JSON lines: input_toks, output_toks, queued_ts, scheduled_ts, first_token_ts, last_token_ts */
	MEASURED_BENCH, /* input_lens, output_lens, ttfts, itls, start_times, errors */
	MEASURED_RUN, /* an executed run of ours */
};

struct measured_request {
	int32_t prompt_tokens, output_tokens;
	int32_t row; /* line or element of the source, from 1 */
	int64_t arrival_ns;
	int64_t scheduled_ns; /* -1 = not told */
	int64_t first_token_ns;
	int64_t last_token_ns;
};

/* What is said beside the log about the server's settings. 0 (or "") = not said. */
struct measured_hints {
	char from[512]; /* the file they stand in */
	char model[128]; /* as the server calls it */
	char device[128];
	char version[32]; /* of vLLM: decides what is on where nothing else is said */
	int32_t max_num_seqs, max_num_batched_tokens, max_model_len, block_size, num_gpu_blocks;
	bool has_prefix_caching, prefix_caching;
	bool has_async_scheduling, async_scheduling;
	double gpu_memory_utilization;
};

struct measured {
	enum measured_format format;
	struct measured_request *at; /* [n], in the source's order */
	int64_t n, cap;
	int64_t failed; /* requests that the source says had failed: left out */
	bool has_scheduled; /* every request tells it */
	struct measured_hints hints;
};

extern const char *const measured_format_names[]; /* "engine time stamps", ... */

/* Reads the log (format by content) and, where one lies in the same folder, meta.json. ERR_INPUT names file, line and
 * reason. Release with measured_free, also after an error. */
int measured_load(struct measured *m, const char *path, struct err *e);
/* The same from memory, without hints; `name` stands for the path. */
int measured_parse(struct measured *m, const char *name, const char *text, size_t size, struct err *e);
/* The settings in the text of a meta.json. ERR_INPUT when it is not JSON. */
int measured_parse_hints(struct measured_hints *h, const char *name, const char *text, struct err *e);
void measured_free(struct measured *m);

/* Appends one request; times must not go backwards. `where` names its place in errors ("log.jsonl:3"). */
int measured_add(struct measured *m, const struct measured_request *r, const char *where, struct err *e);

/* A workload of the log's own lengths and arrivals; prompts share nothing. *m is sorted by arrival, as the workload is. */
int measured_make_workload(struct measured *m, struct workload *w, struct err *e);
/* Gives the requests of a trace the measured arrivals. Request i of the trace is request i of the log: ERR_INPUT where their
 * lengths differ. Both ways specs[i] is m->at[i] afterwards, in arrival order (*m is sorted along), and the output length is
 * what the client asked for: a log shows no request that was cut short. */
int measured_apply(struct measured *m, struct workload *w, const char *trace, struct err *e);

#endif
