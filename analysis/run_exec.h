/* run_exec.h: the parts of a run that only an executor has: a loaded model, the requests' tokens, the tape. */
#ifndef ANALYSIS_RUN_EXEC_H
#define ANALYSIS_RUN_EXEC_H

#include "analysis/run.h"
#include "core/backend.h"
#include "models/model.h"

struct run_exec {
	struct executor *own; /* opened for this run alone; NULL when the caller's is used, or kept */
	const struct executor *x;
	struct sequences *sequences;
};

/* How weights and KV are held by an executor: what the settings' formats come to. ERR_INPUT for a format that real kernels
 * have not. */
int run_exec_formats(const char *backend, const struct weight_format *weights, enum kv_dtype kv, enum num *weight_type,
		     enum num *kv_type, struct err *e);
/* KV blocks of its arena: what kv_cache_memory_bytes hold. model_max_len: 0 = no limit. kept: knows what was free, or is
 * told now; may be NULL. */
int run_exec_blocks(const struct run_settings *s, int64_t kv_bytes_per_token, int32_t model_max_len,
		    struct run_kept *kept, int32_t *num_blocks, struct err *e);

/* An executor for runs with settings like s, to be offered to each of them (run_io.executor); executor_close releases it. Its
 * setup.num_blocks is what the runs should be given as num_gpu_blocks_override: how much memory is free may change. */
int run_exec_load(struct executor **out, const struct run_settings *s, struct err *e);

/* c->num_blocks of a run that was told no number: the CPU's as above; a GPU's by the memory it has left, so that its model is
 * loaded here (into x, as run_exec_open would). */
int run_exec_count(struct run_exec *x, const struct run_settings *s, const struct model *m,
		   const struct weight_format *weights, enum kv_dtype kv, const struct run_io *io,
		   struct engine_config *c, struct err *e);
/* Makes *out, a backend that runs kernels (exec_backend_free). All zero x is nothing yet; release with run_exec_close in
 * any case, after the backend. c has num_blocks. */
int run_exec_open(struct run_exec *x, const struct run_settings *s, const struct model *m,
		  const struct weight_format *weights, enum kv_dtype kv, const struct engine_config *c,
		  const struct workload *w, const struct run_io *io, struct run_result *r, struct backend *out,
		  struct err *e);
/* After the run: its requests' tokens, into r->output_ids. */
int run_exec_outputs(const struct run_exec *x, struct run_result *r, struct err *e);
void run_exec_close(struct run_exec *x);

#endif
