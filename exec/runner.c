/* The runner from the outside: made of weights, an arena of KV pages and rotary tables; runner_step stages the tables,
 * runs the layers, samples. */
#include "exec/runner.h"

#include <string.h>

#include "core/err.h"
#include "core/mem.h"
#include "exec/rope.h"
#include "exec/runner_state.h"

/* --- device memory ------------------------------------------------------------------------------------------------ */

void *runner_alloc(struct runner *r, size_t bytes, const char *what, struct err *e)
{
	void *p = r->ops->alloc(r->set, bytes ? bytes : 1);
	if (p)
		return p;
	/* A device of its own knows more: how much is free, or that nothing works any more. */
	if (r->ops->memory)
		err_set(e, ERR_MEMORY, "%.3f GB for %s: %s", (double)bytes / 1e9, what, r->ops->error(r->set));
	else
		err_set(e, ERR_MEMORY, "out of memory: %.3f GB for %s", (double)bytes / 1e9, what);
	return NULL;
}

int runner_fit(struct runner *r, struct buffer *b, size_t bytes, const char *what, struct err *e)
{
	if (bytes <= b->cap && b->at)
		return ERR_NONE;
	/* A little more than asked for, since steps grow slowly. */
	size_t cap = bytes + bytes / 4;
	if (b->at)
		r->ops->release(r->set, b->at);
	b->cap = 0;
	b->at = runner_alloc(r, cap, what, e);
	if (!b->at)
		return ERR_MEMORY;
	b->cap = cap;
	return ERR_NONE;
}

int runner_kernel_failed(const struct runner *r, struct err *e)
{
	return err_set(e, ERR_IO, "%s: %s", r->set->what, r->ops->error(r->set));
}

static void give_back(struct runner *r, const void *p)
{
	if (p)
		r->ops->release(r->set, (void *)(uintptr_t)p);
}

/* --- the arena ---------------------------------------------------------------------------------------------------- */

static void arena_release(struct runner *r)
{
	for (int32_t i = 0; r->kv && i < r->n_layers; i++) {
		give_back(r, r->kv[i].k);
		give_back(r, r->kv[i].v);
		give_back(r, r->kv[i].k_scale);
		give_back(r, r->kv[i].v_scale);
		give_back(r, r->kv[i].tags);
		r->kv[i] = (struct kv_layer){0};
	}
	give_back(r, r->planes);
	r->planes = NULL;
}

static size_t page_bytes(const struct runner *r)
{
	const struct kv_shape *s = &r->kv_shape;
	return (size_t)s->block_size * (size_t)s->n_kv_heads * (size_t)s->head_dim * (size_t)num_bytes(s->type);
}

static size_t page_scale_bytes(const struct runner *r)
{
	const struct kv_shape *s = &r->kv_shape;
	return s->type == NUM_I8 || s->type == NUM_F8 ? (size_t)s->block_size * (size_t)s->n_kv_heads * sizeof(float)
						      : 0;
}

static bool layer_make(struct runner *r, struct kv_layer *l, size_t pages)
{
	l->k = runner_alloc(r, pages * page_bytes(r), "KV pages", NULL);
	l->v = l->k ? runner_alloc(r, pages * page_bytes(r), "KV pages", NULL) : NULL;
	bool ok = l->v != NULL;
	if (ok && page_scale_bytes(r)) {
		l->k_scale = runner_alloc(r, pages * page_scale_bytes(r), "KV pages", NULL);
		l->v_scale = l->k_scale ? runner_alloc(r, pages * page_scale_bytes(r), "KV pages", NULL) : NULL;
		ok = l->v_scale != NULL;
	}
	if (ok && r->check) {
		l->tags = runner_alloc(r, pages * (size_t)r->kv_shape.block_size * sizeof *l->tags, "tags", NULL);
		ok = l->tags != NULL;
	}
	return ok;
}

static int arena_make(struct runner *r, int32_t n_pages, struct err *e)
{
	r->kv_shape.n_pages = n_pages;
	for (int32_t i = 0; i < r->n_layers; i++)
		if (!layer_make(r, &r->kv[i], (size_t)n_pages))
			return err_set(
				e, ERR_MEMORY,
				"out of memory: %d KV blocks of %d tokens are %.2f GB: give the KV cache less (fewer "
				"blocks, or bf16 or int8 ones)",
				n_pages, r->kv_shape.block_size, (double)runner_kv_bytes(r) / 1e9);
	return ERR_NONE;
}

/* Without a KV cache the pages of one step are as many as its tokens need; nothing in them outlives it. */
static int arena_grow(struct runner *r, int32_t n_pages, struct err *e)
{
	if (n_pages <= r->kv_shape.n_pages)
		return ERR_NONE;
	arena_release(r);
	return arena_make(r, n_pages < INT32_MAX - n_pages / 4 ? n_pages + n_pages / 4 : n_pages, e);
}

/* --- rotary tables ------------------------------------------------------------------------------------------------ */

static int rope_upload(struct runner *r, int32_t len, float *cosines, float *sines, struct err *e)
{
	int32_t pairs = r->model->head_dim / 2;
	size_t bytes = (size_t)len * (size_t)pairs * sizeof(float);
	rope_fill(r->freq, pairs, 0, len, cosines, sines);
	give_back(r, r->rope.cos);
	give_back(r, r->rope.sin);
	r->rope = (struct rope){0};
	float *c = runner_alloc(r, bytes, "rotary tables", e);
	r->rope.cos = c;
	float *s = c ? runner_alloc(r, bytes, "rotary tables", e) : NULL;
	r->rope.sin = s;
	if (!s)
		return ERR_MEMORY;
	if (r->ops->upload(r->set, c, cosines, bytes) || r->ops->upload(r->set, s, sines, bytes))
		return runner_kernel_failed(r, e);
	r->rope.max_len = len;
	return ERR_NONE;
}

static int rope_grow(struct runner *r, int64_t len, struct err *e)
{
	if (len <= r->rope.max_len)
		return ERR_NONE;
	if (len < 2 * (int64_t)r->rope.max_len)
		len = 2 * (int64_t)r->rope.max_len;
	size_t n = (size_t)len * (size_t)(r->model->head_dim / 2);
	float *cosines = mem_alloc(n * sizeof *cosines), *sines = mem_alloc(n * sizeof *sines);
	int rc = cosines && sines ? rope_upload(r, (int32_t)len, cosines, sines, e) : err_no_memory(e, "rotary tables");
	mem_free(cosines);
	mem_free(sines);
	return rc;
}

/* All positions a sequence can have, so that no step has to make them: what the arena holds and the model allows. */
static int rope_make(struct runner *r, struct err *e)
{
	int64_t len = (int64_t)r->kv_shape.n_pages * r->kv_shape.block_size;
	if (r->model->max_len > 0 && len > r->model->max_len)
		len = r->model->max_len;
	r->freq = mem_alloc((size_t)(r->model->head_dim / 2) * sizeof *r->freq);
	if (!r->freq)
		return err_no_memory(e, "rotary tables");
	rope_frequencies(r->model, r->freq);
	return rope_grow(r, len > 256 ? len : 256, e);
}

/* --- making one --------------------------------------------------------------------------------------------------- */

static int check_setup(const struct runner_setup *s, struct err *e)
{
	const struct model *m = s->model;
	if (m->numerics.unsupported[0])
		return err_set(e, ERR_INPUT,
			       "model %s cannot be run (%s): the executor runs dense decoders of the Llama kind; the "
			       "simulator takes this model",
			       m->name, m->numerics.unsupported);
	if (m->head_dim % 2 || m->n_kv_heads < 1 || m->n_heads % m->n_kv_heads)
		return err_set(e, ERR_INPUT, "model %s cannot be run: %d heads of %d, %d KV heads", m->name, m->n_heads,
			       m->head_dim, m->n_kv_heads);
	if (s->weight_type == NUM_F16)
		return err_set(e, ERR_INPUT, "weights are held as f32, bf16 or int8, not as f16");
	if (s->kv_type == NUM_F16)
		return err_set(e, ERR_INPUT, "KV pages are f32, bf16 or int8, not f16");
	if (s->layers < 0 || s->layers > m->n_layers)
		return err_set(e, ERR_INPUT, "model %s has %d layers, not %d", m->name, m->n_layers, s->layers);
	if (s->block_size < 1 || s->n_pages < 0 || (!s->kv_off && s->n_pages < 1 && !(s->memory_share > 0)))
		return err_set(e, ERR_INPUT, "%d KV pages of %d tokens hold nothing", s->n_pages, s->block_size);
	return ERR_NONE;
}

static int choose_products(struct runner *r, int32_t rows, int32_t seqs, struct err *e)
{
	const struct layer_weights *l = &r->layers[0];
	const struct matrix *const all[] = {l->qkv, l->o, l->gate_up, l->down};
	int failed = 0;
	if (!r->ops->tune)
		return ERR_NONE;
	for (size_t i = 0; i < sizeof all / sizeof *all && !failed; i++)
		failed = r->ops->tune(r->set, all[i], rows);
	if (!failed)
		failed = r->ops->tune(r->set, r->head, seqs);
	return failed ? runner_kernel_failed(r, e) : ERR_NONE;
}

static int get_ready(struct runner *r, const struct runner_setup *s, struct err *e)
{
	int rc = runner_fit_buffers(r, s->ready_rows, s->ready_seqs, e);
	return rc ? rc : choose_products(r, s->ready_rows, s->ready_seqs, e);
}

/* Not every set runs every model. */
static int check_set(const struct runner *r, const struct runner_setup *s, struct err *e)
{
	const struct model *m = s->model;
	const struct attention_shape a = {m->n_heads, m->n_kv_heads, m->head_dim, 1, 0};
	const struct kv_shape kv = {s->kv_type, 1, s->block_size, m->n_kv_heads, m->head_dim};
	const char *why = r->ops->refuses ? r->ops->refuses(r->set, &a, &kv) : NULL;
	return why ? err_set(e, ERR_INPUT, "model %s cannot be run on %s: %s", m->name, r->set->what, why) : ERR_NONE;
}

/* What is still to come beside pages: rotary tables are small; graphs take some megabytes each, attention's parts some
 * hundred. */
#define SPARE_BYTES (INT64_C(512) << 20)
#define GRAPH_BYTES (INT64_C(6) << 20)

/* How many pages fit, now that everything else is there. */
static int count_pages(struct runner *r, const struct runner_setup *s, int32_t *n, struct err *e)
{
	int64_t there, all, page = (int64_t)r->n_layers * 2 * (int64_t)(page_bytes(r) + page_scale_bytes(r));
	*n = s->n_pages;
	if (s->n_pages || s->kv_off)
		return ERR_NONE;
	if (!r->ops->memory)
		return err_set(e, ERR_INVARIANT, "%s does not say how much memory there is", r->set->what);
	if (r->ops->memory(r->set, &there, &all))
		return runner_kernel_failed(r, e);
	if (r->check)
		page += (int64_t)r->n_layers * s->block_size * (int64_t)sizeof(uint64_t);
	int64_t spare = SPARE_BYTES + GRAPH_BYTES * runner_graphs(r, s->ready_seqs, s->ready_ctx);
	int64_t left = (int64_t)(s->memory_share * (double)all) - (all - there) - spare, fit = left / page;
	if (left < page)
		return err_set(
			e, ERR_INPUT,
			"no memory is left for a KV cache: of the device's %.2f GB, %.2f are used (weights %.2f) "
			"and %.2f kept for graphs and attention, which reaches the share of %g: raise "
			"--gpu-memory-utilization, hold the weights in fewer bits, or lower "
			"--max-num-batched-tokens",
			(double)all / 1e9, (double)(all - there) / 1e9, (double)r->weight_bytes / 1e9,
			(double)spare / 1e9, s->memory_share);
	if (s->most_pages && fit > s->most_pages)
		fit = s->most_pages;
	*n = fit < INT32_MAX / s->block_size ? (int32_t)fit : INT32_MAX / s->block_size;
	return ERR_NONE;
}

/* Who chooses tokens: the device where it can, so that they and not their logits come to the host. */
static int make_choice(struct runner *r, const struct sampling *s, struct err *e)
{
	if (!(s->temperature > 0))
		return ERR_NONE;
	if (!r->ops->draw)
		return sampler_create(&r->sampler, s, r->model->vocab, e);
	r->draws = true;
	r->draw = (struct draw){.temperature = s->temperature, .top_k = s->top_k, .top_p = s->top_p, .seed = s->seed};
	return sampling_check(s, e);
}

static int make(struct runner *r, const struct runner_setup *s, struct err *e)
{
	int32_t pages = 0;
	int rc = check_setup(s, e);
	if (!rc)
		rc = check_set(r, s, e);
	if (rc)
		return rc;
	r->n_layers = s->layers ? s->layers : s->model->n_layers;
	r->kv = mem_zalloc((size_t)r->n_layers, sizeof *r->kv);
	r->faults = mem_zalloc((size_t)r->n_layers, sizeof *r->faults);
	if (!r->kv || !r->faults)
		return err_no_memory(e, "a model runner");
	r->kv_shape = (struct kv_shape){s->kv_type, 0, s->block_size, s->model->n_kv_heads, s->model->head_dim};
	rc = make_choice(r, &s->sampling, e);
	if (!rc)
		rc = runner_load(r, s->weights, e);
	if (!rc && s->ready_rows)
		rc = get_ready(r, s, e);
	if (!rc)
		rc = count_pages(r, s, &pages, e);
	if (!rc)
		rc = arena_make(r, pages, e);
	if (!rc)
		rc = rope_make(r, e);
	return rc || !s->ready_ctx ? rc : runner_graph_ready(r, s->ready_rows, s->ready_seqs, s->ready_ctx, e);
}

int runner_create(struct runner **out, const struct runner_setup *s, struct err *e)
{
	struct runner *r = mem_zalloc(1, sizeof *r);
	if (!r)
		return err_no_memory(e, "a model runner");
	r->set = s->kernels;
	r->ops = s->kernels->ops;
	r->model = s->model;
	r->weight_type = s->weight_type;
	r->check = s->check;
	int rc = make(r, s, e);
	if (rc) {
		runner_free(r);
		return rc;
	}
	*out = r;
	return ERR_NONE;
}

void runner_free(struct runner *r)
{
	if (!r)
		return;
	struct buffer *const buffers[] = {&r->staging.device, &r->x,       &r->normed, &r->delta,    &r->qkv,
					  &r->attended,       &r->gate_up, &r->gated,  &r->last_x,   &r->last_delta,
					  &r->last_normed,    &r->logits,  &r->picked, &r->draw_room};
	for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
		give_back(r, buffers[i]->at);
	runner_unload(r);
	arena_release(r);
	give_back(r, r->rope.cos);
	give_back(r, r->rope.sin);
	sampler_free(r->sampler);
	mem_free(r->kv);
	mem_free(r->faults);
	mem_free(r->freq);
	mem_free(r->staging.host);
	mem_free(r->positions);
	mem_free(r->sampled);
	mem_free(r->streams);
	mem_free(r->nths);
	mem_free(r->tokens);
	mem_free(r->host_picked);
	mem_free(r->host_logits);
	mem_free(r);
}

/* --- a step ------------------------------------------------------------------------------------------------------- */

static int fetch_logits(struct runner *r, struct err *e)
{
	int64_t n = (int64_t)r->n_sampled * r->model->vocab;
	if (r->logits_here || !n)
		return ERR_NONE;
	if (mem_grow((void **)&r->host_logits, &r->cap_logits, n, sizeof *r->host_logits))
		return err_no_memory(e, "logits");
	if (r->ops->download(r->set, r->host_logits, r->logits.at, (size_t)n * sizeof *r->host_logits))
		return runner_kernel_failed(r, e);
	r->logits_here = true;
	return ERR_NONE;
}

/* What the sampled tokens are made of begins its way to the host. Nothing that can fail comes after it in runner_begin: the
 * arrays stay where they are until it has arrived. */
static int fetch_choice(struct runner *r, struct err *e)
{
	int64_t n = r->n_sampled, logits = n * r->model->vocab;
	if (!n)
		return ERR_NONE;
	if (r->sampler ? mem_grow((void **)&r->host_logits, &r->cap_logits, logits, sizeof *r->host_logits)
		       : mem_grow((void **)&r->host_picked, &r->cap_picked, n, sizeof *r->host_picked))
		return err_no_memory(e, "sampled tokens");
	int failed = r->sampler ? r->ops->download_later(r->set, r->host_logits, r->logits.at,
							 (size_t)logits * sizeof *r->host_logits)
				: r->ops->download_later(r->set, r->host_picked, r->picked.at,
							 (size_t)n * sizeof *r->host_picked);
	return failed ? runner_kernel_failed(r, e) : ERR_NONE;
}

static void choose(struct runner *r)
{
	const struct batch_tables *t = r->tables;
	int32_t k = 0;
	for (int32_t s = 0; s < t->n_seqs; s++) {
		r->tokens[s] = -1;
		if (!t->samples[s] || t->held[s])
			continue;
		const float *logits = r->host_logits + (int64_t)k * r->model->vocab;
		r->tokens[s] = r->sampler
				       ? sampler_next(r->sampler, logits, (uint64_t)t->req[s], r->nth ? r->nth[s] : 0)
				       : r->host_picked[k];
		k++;
	}
	r->logits_here = r->sampler != NULL;
}

static int tell_fault(const struct runner *r, int64_t step, struct err *e)
{
	int32_t layer;
	const struct tag_fault *f = runner_fault(r, &layer);
	if (!f)
		return ERR_NONE;
	return err_set(
		e, ERR_INVARIANT,
		"step %lld, layer %d: sequence %d of the batch reads token %d of its context and finds another's "
		"(tag %016llx, wanted %016llx; %lld such reads)",
		(long long)step, layer, f->seq, f->token, (unsigned long long)f->found, (unsigned long long)f->wanted,
		(long long)f->n);
}

int runner_begin(struct runner *r, const struct step_input *in, struct err *e)
{
	const struct batch_tables *t = in->tables;
	memset(r->faults, 0, (size_t)r->n_layers * sizeof *r->faults);
	r->logits_here = false;
	r->tables = t;
	r->nth = in->nth;
	int rc = arena_grow(r, t->scratch_blocks, e);
	if (!rc)
		rc = rope_grow(r, t->max_ctx, e);
	if (!rc)
		rc = runner_rows(r, in, e);
	if (!rc)
		rc = runner_copy(r, e);
	if (!rc)
		rc = runner_forward(r, e);
	if (!rc)
		rc = fetch_choice(r, e);
	if (rc)
		r->ops->finish(r->set, NULL); /* what it had begun; the error is told already */
	return rc;
}

/* Choosing on the host belongs to the head: it is done within its time where the logits are there already. */
int runner_finish(struct runner *r, struct step_output *out, struct err *e)
{
	if (!r->set->asynchronous)
		choose(r);
	if (r->ops->finish(r->set, out->part_ns))
		return runner_kernel_failed(r, e);
	if (r->set->asynchronous)
		choose(r);
	out->tokens = r->tokens;
	return tell_fault(r, r->tables->step, e);
}

int runner_step(struct runner *r, const struct step_input *in, struct step_output *out, struct err *e)
{
	int rc = runner_begin(r, in, e);
	return rc ? rc : runner_finish(r, out, e);
}

int runner_forget(struct runner *r, struct err *e)
{
	size_t slots = (size_t)r->kv_shape.n_pages * (size_t)r->kv_shape.block_size;
	if (!r->check || !slots)
		return ERR_NONE;
	uint64_t *none = mem_zalloc(slots, sizeof *none);
	if (!none)
		return err_no_memory(e, "tags of KV slots");
	int rc = ERR_NONE;
	for (int32_t i = 0; i < r->n_layers && !rc; i++)
		if (r->ops->upload(r->set, r->kv[i].tags, none, slots * sizeof *none))
			rc = runner_kernel_failed(r, e);
	mem_free(none);
	return rc;
}

/* --- looking at it ------------------------------------------------------------------------------------------------ */

const struct tag_fault *runner_fault(const struct runner *r, int32_t *layer)
{
	for (int32_t i = 0; i < r->n_layers; i++)
		if (r->faults[i].n) {
			*layer = i;
			return &r->faults[i];
		}
	return NULL;
}

int runner_logits(struct runner *r, const float **logits, int32_t *rows, struct err *e)
{
	int rc = fetch_logits(r, e);
	*logits = r->host_logits;
	*rows = r->n_sampled;
	return rc;
}

int32_t runner_pages(const struct runner *r)
{
	return r->kv_shape.n_pages;
}

bool runner_asynchronous(const struct runner *r)
{
	return r->set->asynchronous;
}

int64_t runner_weight_bytes(const struct runner *r)
{
	return r->weight_bytes;
}

int64_t runner_kv_bytes(const struct runner *r)
{
	return (int64_t)r->n_layers * r->kv_shape.n_pages * 2 * (int64_t)(page_bytes(r) + page_scale_bytes(r));
}
