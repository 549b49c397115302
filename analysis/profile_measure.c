#include "analysis/profile_measure.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "analysis/executor.h"
#include "analysis/profile_points.h"
#include "analysis/run_exec.h"
#include "analysis/validate.h"
#include "core/err.h"
#include "core/mem.h"
#include "exec/weights.h"

/* --- samples into points ------------------------------------------------------------------------------------------ */

/* The layers that were not run take what those did. */
static double scale_of(const struct profile *p, const struct profiler_result *r)
{
	return (double)p->layers / r->layers;
}

static double device_ns(const struct profiler_sample *s, double scale)
{
	double ns = 0;
	for (int part = 0; part < N_PARTS; part++)
		ns += (double)s->part_ns[part] * (part == PART_HEAD ? 1 : scale);
	return ns;
}

static int put_sample(struct timings *t, const struct profile *p, const struct profiler_shot *shot, int32_t i,
		      double scale, struct err *e)
{
	const struct profiler_sample *s = &shot->samples[i];
	bool warm_up = i == 0 && shot->n > 1, mixed = shot->chunk && shot->decodes;
	int64_t tokens = (int64_t)shot->decodes + shot->chunk, sequences = shot->decodes + (shot->chunk > 0);
	int64_t seen = p->window && shot->decode_ctx > p->window ? p->window : shot->decode_ctx;
	double attention = (double)s->part_ns[PART_ATTENTION] * scale;
	int rc = ERR_NONE;
	if (mixed) /* they are held against what the points say */
		return ERR_NONE;
	if (shot->head)
		rc = timings_add(t, PROFILE_HEAD, sequences, 0, (double)s->part_ns[PART_HEAD], warm_up, 0, e);
	if (rc == ERR_NONE)
		rc = timings_add(t, PROFILE_MATMUL, tokens, 0, (double)s->part_ns[PART_MATMUL] * scale, warm_up, 0, e);
	if (rc == ERR_NONE)
		rc = timings_add(t, PROFILE_OTHER, tokens, 0, (double)s->part_ns[PART_OTHER] * scale, warm_up, 0, e);
	if (rc == ERR_NONE)
		rc = timings_add(t, PROFILE_HOST, sequences, tokens, (double)s->total_ns - device_ns(s, 1), warm_up, 0,
				 e);
	if (rc == ERR_NONE)
		rc = shot->chunk ? timings_add(t, PROFILE_PREFILL, shot->chunk, shot->start, attention, warm_up, 0, e)
				 : timings_add(t, PROFILE_DECODE, shot->decodes, seen, attention, warm_up, 0, e);
	return rc;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return x < y ? -1 : x > y;
}

static int put_mixed(struct profile *p, const struct profiler_shot *shot, double scale, struct err *e)
{
	double ns[PROFILER_REPEATS] = {0};
	int32_t from = shot->n > 1, n = shot->n - from;
	for (int32_t i = 0; i < n; i++)
		ns[i] = device_ns(&shot->samples[from + i], scale);
	qsort(ns, (size_t)n, sizeof *ns, by_value);
	const struct profile_step step = {.decodes = shot->decodes,
					  .decode_mean = shot->decode_ctx,
					  .chunk = shot->chunk,
					  .chunk_start = shot->start,
					  .sampled = shot->head ? shot->decodes + 1 : 0,
					  .ns = timings_quantile(ns, n, 0.5),
					  .low_ns = timings_quantile(ns, n, 0.25),
					  .high_ns = timings_quantile(ns, n, 0.75),
					  .repeats = n};
	return profile_add_step(p, &step, e);
}

int profile_from_samples(struct profile *p, const struct profiler_result *r, struct err *e)
{
	struct timings t = {0};
	double scale = scale_of(p, r);
	int rc = ERR_NONE;
	for (int32_t k = 0; rc == ERR_NONE && k < r->n_shots; k++) {
		const struct profiler_shot *shot = &r->shots[k];
		for (int32_t i = 0; rc == ERR_NONE && i < shot->n; i++)
			rc = put_sample(&t, p, shot, i, scale, e);
		if (rc == ERR_NONE && shot->n && shot->chunk && shot->decodes)
			rc = put_mixed(p, shot, scale, e);
	}
	if (rc == ERR_NONE)
		rc = timings_reduce(p, &t, e);
	timings_free(&t);
	return rc;
}

/* --- what is measured --------------------------------------------------------------------------------------------- */

void profile_measure_default(struct profile_measure *o)
{
	*o = (struct profile_measure){.backend = "cpu",
				      .block_size = 16,
				      .max_tokens = 2048,
				      .max_seqs = 256,
				      .kv_memory_bytes = INT64_C(4) << 30,
				      .budget_s = 60};
}

/* Everything that is open while it is measured. */
struct bench {
	struct model model;
	struct weights *weights;
	struct kernel_set *kernels;
	struct weight_format format;
	enum kv_dtype kv;
	struct profiler_setup setup;
};

static int load_model(struct bench *b, const struct profile_measure *o, struct err *e)
{
	if (!o->model && !o->weights)
		return err_set(e, ERR_INPUT,
			       "what is to be measured? Give --model (`lockstep capacity --list` names them), or "
			       "--weights that say what they are of");
	int rc = o->model ? model_load(&b->model, o->model, e) : weights_model(o->weights, &b->model, e);
	if (rc == ERR_NONE)
		rc = model_formats(&b->model, o->weight_dtype, o->kv_dtype, &b->format, &b->kv, e);
	if (rc == ERR_NONE)
		rc = run_exec_formats(o->backend, &b->format, b->kv, &b->setup.weight_type, &b->setup.kv_type, e);
	return rc;
}

static int open_kernels(struct bench *b, const struct profile_measure *o, struct err *e)
{
	const struct executor_setup s = {.backend = o->backend,
					 .weight_type = b->setup.weight_type,
					 .threads = o->threads,
					 .isa = o->isa,
					 .batch_invariant = o->batch_invariant,
					 .eager = o->eager};
	return executor_kernels(&b->kernels, &s, e);
}

static void set_limits(struct bench *b, const struct profile_measure *o)
{
	struct profiler_setup *s = &b->setup;
	const struct model *m = &b->model;
	int64_t longest = m->max_len > 0 ? m->max_len : 4096, each = model_kv_bytes_per_token(m, b->kv, &b->format);
	s->max_context = o->max_context ? o->max_context : longest < 4096 ? (int32_t)longest : 4096;
	s->max_tokens = o->max_tokens;
	s->max_seqs = o->max_seqs;
	s->kv_tokens = each > 0 ? o->kv_memory_bytes / each : s->max_context;
	/* No more than can be asked for: every sequence at its longest. */
	if (s->kv_tokens > (int64_t)s->max_context * s->max_seqs)
		s->kv_tokens = (int64_t)s->max_context * s->max_seqs;
}

static int open_bench(struct bench *b, const struct profile_measure *o, struct err *e)
{
	int rc = load_model(b, o, e);
	if (rc == ERR_NONE)
		rc = open_kernels(b, o, e);
	if (rc == ERR_NONE)
		rc = weights_open(&b->weights, o->weights ? o->weights : "random:1", &b->model, e);
	if (rc)
		return rc;
	set_limits(b, o);
	b->setup.model = &b->model;
	b->setup.weights = b->weights;
	b->setup.kernels = b->kernels;
	b->setup.block_size = o->block_size;
	b->setup.layers = o->layers;
	b->setup.budget_s = o->budget_s;
	b->setup.seed = o->seed;
	b->setup.stop = o->stop;
	b->setup.progress = o->progress;
	b->setup.ctx = o->ctx;
	return ERR_NONE;
}

static void close_bench(struct bench *b)
{
	weights_close(b->weights);
	if (b->kernels)
		b->kernels->ops->close(b->kernels);
	model_free(&b->model);
}

static void identify(struct profile *p, const struct bench *b, const struct profile_measure *o)
{
	const struct model *m = &b->model;
	struct validate_machine machine;
	time_t now = time(NULL);
	struct tm tm;
	validate_machine(&machine);
	snprintf(p->name, sizeof p->name, "%s", o->name ? o->name : "");
	snprintf(p->model, sizeof p->model, "%s", m->name);
	snprintf(p->weight_dtype, sizeof p->weight_dtype, "%s", profile_weight_name(&b->format));
	snprintf(p->kv_dtype, sizeof p->kv_dtype, "%s", profile_kv_name(b->kv, &b->format));
	snprintf(p->device, sizeof p->device, "%s", o->device ? o->device : o->backend);
	snprintf(p->machine, sizeof p->machine, "%.100s, %d CPUs", machine.cpu, machine.cpus);
	snprintf(p->library, sizeof p->library, "%s", b->kernels->what);
	snprintf(p->program, sizeof p->program, "%s", LOCKSTEP_VERSION);
	snprintf(p->source, sizeof p->source, "measured");
	if (gmtime_r(&now, &tm))
		strftime(p->created, sizeof p->created, "%Y-%m-%d %H:%M:%S", &tm);
	p->shape = profile_shape(m);
	p->layers = m->n_layers;
	p->threads = b->kernels->threads;
	p->block_size = o->block_size;
	p->tensor_parallel = 1;
	p->window = model_common_window(m);
}

/* A profile that cannot time a step is not worth keeping. */
static int check_usable(const struct profile *p, bool interrupted, struct err *e)
{
	struct profile_table *t;
	struct err why = {0};
	int rc = profile_table_create(&t, p, &why);
	profile_table_free(t);
	if (rc == ERR_INPUT && interrupted)
		return err_set(e, ERR_INTERRUPTED, "interrupted before there was enough to make a profile of");
	if (rc == ERR_INPUT)
		return err_set(e, ERR_INPUT,
			       "the budget was over before there was enough to make a profile of: raise --budget, or "
			       "lower --max-tokens");
	return rc ? err_set(e, (enum err_code)rc, "%s", why.text) : ERR_NONE;
}

int profile_measure(struct profile *out, struct profile_measured *did, const struct profile_measure *o, struct err *e)
{
	struct bench b = {.kv = KV_AUTO};
	struct profiler_result r = {0};
	*out = (struct profile){0};
	*did = (struct profile_measured){0};
	int rc = open_bench(&b, o, e);
	if (rc == ERR_NONE)
		rc = profiler_run(&r, &b.setup, e);
	if (rc == ERR_NONE) {
		identify(out, &b, o);
		out->measured_layers = r.layers;
		out->partial = r.interrupted || r.coarse;
		*did = (struct profile_measured){r.n_shots, r.n_measured, r.layers, r.interrupted,
						 r.coarse,  r.load_s,     r.spent_s};
		rc = profile_from_samples(out, &r, e);
	}
	if (rc == ERR_NONE) {
		timings_bound_products(out);
		timings_drop_headless(out);
		rc = check_usable(out, r.interrupted, e);
	}
	out->hash = profile_hash(out);
	profiler_result_free(&r);
	close_bench(&b);
	if (rc)
		profile_free(out);
	return rc;
}
