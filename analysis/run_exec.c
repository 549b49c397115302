#include "analysis/run_exec.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "analysis/executor.h"
#include "core/mem.h"
#include "exec/weights.h"

#define DEFAULT_KV_BYTES (INT64_C(4) << 30) /* vLLM's for its CPU backend */

int run_exec_formats(const char *backend, const struct weight_format *weights, enum kv_dtype kv, enum num *weight_type,
		     enum num *kv_type, struct err *e)
{
	bool f8 = strcmp(backend, "cuda") == 0;
	if (weights->dtype == DTYPE_FP32)
		*weight_type = NUM_F32;
	else if (weights->dtype == DTYPE_BF16)
		*weight_type = NUM_BF16;
	else if (weights->dtype == DTYPE_INT8)
		*weight_type = NUM_I8;
	else if (weights->dtype == DTYPE_FP8 && f8)
		*weight_type = NUM_F8;
	else
		return err_set(
			e, ERR_INPUT,
			"real kernels hold weights in fp32, bf16%s or int8, not in %s%s: choose with --weight-dtype",
			f8 ? ", fp8" : "", dtype_name(weights->dtype),
			weights->dtype == DTYPE_FP8 ? " (but for --backend cuda)" : "");
	if (kv == KV_FP32 || (kv == KV_AUTO && weights->dtype == DTYPE_FP32))
		*kv_type = NUM_F32;
	else if (kv == KV_INT8)
		*kv_type = NUM_I8;
	else if (kv == KV_AUTO || kv == KV_BF16)
		*kv_type = NUM_BF16;
	else if (kv == KV_FP8 && f8)
		*kv_type = NUM_F8;
	else
		return err_set(e, ERR_INPUT,
			       "real kernels hold the KV cache in fp32, bf16%s or int8, not in %s%s: choose with "
			       "--kv-cache-dtype",
			       f8 ? ", fp8" : "", kv_dtype_name(kv), kv == KV_FP8 ? " (but for --backend cuda)" : "");
	return ERR_NONE;
}

/* Memory nobody uses, as Linux counts it; 0 where it cannot be read. */
static int64_t available_bytes(void)
{
	char line[128];
	long long kb = 0;
	FILE *f = fopen("/proc/meminfo", "r");
	while (f && fgets(line, sizeof line, f))
		if (sscanf(line, "MemAvailable: %lld kB", &kb) == 1)
			break;
	if (f)
		fclose(f);
	return kb * 1024;
}

/* More than all that may run at once could ever fill is of no use, unless old content is kept for its prefix. 0: no limit. */
static int64_t most_useful(const struct run_settings *s, int32_t model_max_len)
{
	int64_t size = s->engine.block_size;
	if (s->kv_cache_memory_bytes || engine_config_caches(&s->engine) || model_max_len < 1)
		return 0;
	return (size - 1 + model_max_len) / size * s->engine.max_num_seqs;
}

/* What a GPU has free is asked when it is known. */
static int64_t memory_there(const struct run_settings *s, struct run_kept *kept)
{
	if (s->backend != BACKEND_CPU)
		return 0;
	if (!kept)
		return available_bytes();
	if (!kept->memory_bytes)
		kept->memory_bytes = available_bytes();
	return kept->memory_bytes;
}

int run_exec_blocks(const struct run_settings *s, int64_t kv_bytes_per_token, int32_t model_max_len,
		    struct run_kept *kept, int32_t *num_blocks, struct err *e)
{
	int64_t bytes = s->kv_cache_memory_bytes, there = memory_there(s, kept);
	int64_t block = kv_bytes_per_token * s->engine.block_size;
	if (!bytes)
		bytes = there && there / 4 < DEFAULT_KV_BYTES ? there / 4 : DEFAULT_KV_BYTES;
	int64_t n = bytes / block, most = most_useful(s, model_max_len);
	if (most && n > most)
		n = most;
	if (n < 1)
		return err_set(e, ERR_INPUT,
			       "%lld bytes do not hold one KV block of %lld: raise --kv-cache-memory-bytes",
			       (long long)bytes, (long long)block);
	if (there && n * block > there)
		return err_set(e, ERR_INPUT,
			       "a KV cache of %.1f GB does not fit: %.1f GB of memory are free; lower "
			       "--kv-cache-memory-bytes",
			       (double)(n * block) / 1e9, (double)there / 1e9);
	*num_blocks = n < INT32_MAX ? (int32_t)n : INT32_MAX;
	return ERR_NONE;
}

static int load_executor(struct run_exec *x, const struct executor_setup *setup, const struct model *m,
			 const struct run_io *io, struct err *e)
{
	struct executor **place = io->kept ? &io->kept->executor : &x->own;
	if (x->x)
		return ERR_NONE;
	if (io->executor && executor_fits(io->executor, setup, m)) {
		x->x = io->executor;
		return ERR_NONE;
	}
	if (*place && !executor_fits(*place, setup, m)) {
		executor_close(*place); /* there may be no room for both */
		*place = NULL;
	}
	int rc = *place ? ERR_NONE : executor_open(place, setup, m, e);
	x->x = *place;
	return rc;
}

void run_kept_close(struct run_kept *k)
{
	executor_close(k->executor);
	*k = (struct run_kept){0};
}

/* Graphs of longer contexts than this are recorded when one is there. */
enum { READY_CTX = 16384 };

static int make_setup(struct executor_setup *out, const struct run_settings *s, const struct engine_config *c,
		      const struct model *m, const struct weight_format *weights, enum kv_dtype kv, struct err *e)
{
	int32_t longest = c->max_model_len ? c->max_model_len : m->max_len;
	int64_t most = most_useful(s, c->model_max_len ? c->model_max_len : m->max_len);
	*out = (struct executor_setup){.backend = run_backend_names[s->backend],
				       .model = s->model,
				       .weights = s->weights,
				       .tokenizer = s->tokenizer,
				       .threads = s->threads,
				       .isa = s->isa,
				       .batch_invariant = s->batch_invariant,
				       .num_blocks = c->num_blocks,
				       .block_size = c->block_size,
				       .kv_off = c->kv_off,
				       .check = c->check,
				       .ready_rows = c->max_num_batched_tokens,
				       .ready_seqs = c->max_num_seqs,
				       .ready_ctx = longest > 0 && longest < READY_CTX ? longest : READY_CTX,
				       .eager = s->enforce_eager,
				       .memory_share = s->backend == BACKEND_CUDA ? s->gpu_memory_utilization : 0,
				       .most_blocks = most < INT32_MAX ? (int32_t)most : INT32_MAX,
				       .sampling = s->sampling};
	return run_exec_formats(out->backend, weights, kv, &out->weight_type, &out->kv_type, e);
}

/* Are there as many blocks as the device has memory left for, which it knows when the model is loaded? */
static bool by_memory(const struct run_settings *s)
{
	return s->backend == BACKEND_CUDA && !s->kv_cache_memory_bytes && !s->num_gpu_blocks_override;
}

/* The model of settings, its formats and how many blocks there are: what a run does first, without the run. */
static int load_model(const struct run_settings *s, struct model *m, struct weight_format *weights, enum kv_dtype *kv,
		      struct engine_config *c, struct err *e)
{
	int rc = s->model ? model_load(m, s->model, e) : weights_model(s->weights, m, e);
	if (rc == ERR_NONE)
		rc = model_formats(m, s->weight_dtype, s->kv_dtype, weights, kv, e);
	*c = s->engine;
	c->num_blocks = s->num_gpu_blocks_override;
	if (rc || c->kv_off || c->num_blocks || by_memory(s))
		return rc;
	int32_t longest = c->model_max_len ? c->model_max_len : m->max_len;
	return run_exec_blocks(s, model_kv_bytes_per_token(m, *kv, weights), longest, NULL, &c->num_blocks, e);
}

int run_exec_load(struct executor **out, const struct run_settings *s, struct err *e)
{
	struct model m = {0};
	struct weight_format weights;
	enum kv_dtype kv = KV_AUTO;
	struct engine_config c;
	struct executor_setup setup;
	if (!s->model && !s->weights)
		return err_set(e, ERR_INPUT, "what is to be run? Give --model, or --weights that say what they are of");
	int rc = load_model(s, &m, &weights, &kv, &c, e);
	if (rc == ERR_NONE)
		rc = make_setup(&setup, s, &c, &m, &weights, kv, e);
	if (rc == ERR_NONE)
		rc = executor_open(out, &setup, &m, e);
	model_free(&m);
	return rc;
}

int run_exec_count(struct run_exec *x, const struct run_settings *s, const struct model *m,
		   const struct weight_format *weights, enum kv_dtype kv, const struct run_io *io,
		   struct engine_config *c, struct err *e)
{
	struct executor_setup setup;
	if (!by_memory(s))
		return run_exec_blocks(s, model_kv_bytes_per_token(m, kv, weights), c->model_max_len, io->kept,
				       &c->num_blocks, e);
	int rc = make_setup(&setup, s, c, m, weights, kv, e);
	if (rc == ERR_NONE)
		rc = load_executor(x, &setup, m, io, e);
	if (rc == ERR_NONE)
		c->num_blocks = runner_pages(x->x->runner);
	return rc;
}

int run_exec_open(struct run_exec *x, const struct run_settings *s, const struct model *m,
		  const struct weight_format *weights, enum kv_dtype kv, const struct engine_config *c,
		  const struct workload *w, const struct run_io *io, struct run_result *r, struct backend *out,
		  struct err *e)
{
	struct executor_setup setup;
	int rc = make_setup(&setup, s, c, m, weights, kv, e);
	if (rc == ERR_NONE)
		rc = load_executor(x, &setup, m, io, e);
	if (rc == ERR_NONE)
		rc = sequences_create(&x->sequences, w, m->vocab, s->seed, engine_config_caches(c), e);
	if (rc)
		return rc;
	memcpy(r->backend_what, x->x->what, sizeof r->backend_what);
	memcpy(r->weights_what, x->x->weights_what, sizeof r->weights_what);
	struct exec_setup es = {.runner = x->x->runner,
				.sequences = x->sequences,
				.time = s->exec_time,
				.check = c->check,
				.page_dir = s->kv_offload_dir,
				.stop = io->stop};
	if (!s->ignore_eos) {
		es.eos = m->numerics.eos;
		es.n_eos = m->numerics.n_eos;
	}
	return exec_backend_create(out, &es, e);
}

int run_exec_outputs(const struct run_exec *x, struct run_result *r, struct err *e)
{
	r->output_at = mem_alloc((size_t)(r->n + 1) * sizeof *r->output_at);
	if (!r->output_at)
		return err_no_memory(e, "output tokens");
	int64_t total = 0;
	for (int64_t i = 0; i < r->n; i++) {
		int32_t n;
		sequences_outputs(x->sequences, (int32_t)i, &n);
		r->output_at[i] = total;
		total += n;
	}
	r->output_at[r->n] = total;
	r->output_ids = mem_alloc((size_t)(total + 1) * sizeof *r->output_ids);
	if (!r->output_ids)
		return err_no_memory(e, "output tokens");
	for (int64_t i = 0; i < r->n; i++) {
		int32_t n;
		const int32_t *ids = sequences_outputs(x->sequences, (int32_t)i, &n);
		if (n)
			memcpy(r->output_ids + r->output_at[i], ids, (size_t)n * sizeof *ids);
	}
	return ERR_NONE;
}

void run_exec_close(struct run_exec *x)
{
	sequences_free(x->sequences);
	executor_close(x->own);
	*x = (struct run_exec){0};
}
