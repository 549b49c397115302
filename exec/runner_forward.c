/* The forward pass. The residual stream x is added to by the norms, so that each sum and the norm after it are one pass
 * over the rows. In every layer rope_kv has stored all rows' K and V before attention reads the first of them: rows of one
 * step may see each other (chunks of one prompt, prefixes shared within the step). */
#include "core/err.h"
#include "exec/runner_state.h"

static size_t act_bytes(const struct runner *r, int64_t rows, int64_t width)
{
	return (size_t)rows * (size_t)width * (size_t)num_bytes(r->set->act);
}

int runner_fit_buffers(struct runner *r, int64_t rows, int64_t n, struct err *e)
{
	const struct model *m = r->model;
	int64_t wide = rows < MLP_ROWS ? rows : MLP_ROWS;
	struct {
		struct buffer *b;
		size_t bytes;
	} const all[] = {
		{&r->x, act_bytes(r, rows, m->hidden)},
		{&r->normed, act_bytes(r, rows, m->hidden)},
		{&r->delta, act_bytes(r, rows, m->hidden)},
		{&r->qkv, act_bytes(r, rows, runner_qkv_width(r))},
		{&r->attended, act_bytes(r, rows, runner_q_width(r))},
		{&r->gate_up, act_bytes(r, wide, 2 * (int64_t)m->intermediate)},
		{&r->gated, act_bytes(r, wide, m->intermediate)},
		{&r->last_x, act_bytes(r, n, m->hidden)},
		{&r->last_delta, act_bytes(r, n, m->hidden)},
		{&r->last_normed, act_bytes(r, n, m->hidden)},
		{&r->logits, (size_t)n * (size_t)m->vocab * sizeof(float)},
		{&r->picked, (size_t)n * sizeof(int32_t)},
		{&r->draw_room, r->draws ? (size_t)n * (size_t)m->vocab * DRAW_BYTES : 0},
	};
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		if (runner_fit(r, all[i].b, all[i].bytes, "a step's activations", e))
			return ERR_MEMORY;
	return ERR_NONE;
}

/* The first norm of layer i, of x and what the layer before adds to it. */
static bool norm_first(struct runner *r, int32_t i)
{
	const struct model *m = r->model;
	const float *w = r->layers[i].attention_norm;
	float eps = (float)m->numerics.norm_eps;
	if (i == 0)
		return !r->ops->rms_norm(r->set, r->normed.at, r->x.at, w, r->rows.n_rows, m->hidden, eps);
	return !r->ops->add_rms_norm(r->set, r->normed.at, r->x.at, r->delta.at, w, r->rows.n_rows, m->hidden, eps);
}

static bool attend(struct runner *r, int32_t i)
{
	const struct kernel_ops *k = r->ops;
	const struct model *m = r->model;
	const struct layer_weights *l = &r->layers[i];
	const struct attention_shape shape = {m->n_heads, m->n_kv_heads, m->head_dim,
					      1 / __builtin_sqrtf((float)m->head_dim), m->layers[i].window};
	int32_t rows = r->rows.n_rows;
	return !k->mark(r->set, PART_MATMUL) && !k->matmul(r->set, r->qkv.at, r->normed.at, rows, l->qkv) &&
	       !k->mark(r->set, PART_OTHER) &&
	       !k->rope_kv(r->set, r->qkv.at, &r->rows, &shape, &r->rope, l->q_norm, l->k_norm,
			   (float)m->numerics.norm_eps, &r->kv_shape, &r->kv[i]) &&
	       !k->mark(r->set, PART_ATTENTION) &&
	       !k->attention(r->set, r->attended.at, r->qkv.at, &r->rows, &shape, &r->kv_shape, &r->kv[i],
			     &r->faults[i]) &&
	       !k->mark(r->set, PART_MATMUL) && !k->matmul(r->set, r->delta.at, r->attended.at, rows, l->o) &&
	       !k->mark(r->set, PART_OTHER) &&
	       !k->add_rms_norm(r->set, r->normed.at, r->x.at, r->delta.at, l->mlp_norm, rows, m->hidden,
				(float)m->numerics.norm_eps);
}

static bool mlp(struct runner *r, int32_t i)
{
	const struct kernel_ops *k = r->ops;
	const struct layer_weights *l = &r->layers[i];
	int32_t rows = r->rows.n_rows, width = r->model->intermediate;
	for (int32_t from = 0; from < rows; from += MLP_ROWS) {
		int32_t n = rows - from < MLP_ROWS ? rows - from : MLP_ROWS;
		size_t at = act_bytes(r, from, r->model->hidden);
		const void *in = (const char *)r->normed.at + at;
		void *out = (char *)r->delta.at + at;
		if (k->mark(r->set, PART_MATMUL) || k->matmul(r->set, r->gate_up.at, in, n, l->gate_up) ||
		    k->mark(r->set, PART_OTHER) || k->silu_mul(r->set, r->gated.at, r->gate_up.at, n, width) ||
		    k->mark(r->set, PART_MATMUL) || k->matmul(r->set, out, r->gated.at, n, l->down))
			return false;
	}
	return !k->mark(r->set, PART_OTHER);
}

/* The tokens, unless the host is to choose them. */
static bool choose(struct runner *r)
{
	int32_t n = r->n_head, vocab = r->model->vocab;
	if (r->sampler)
		return true;
	r->draw.room = r->draw_room.at;
	return r->draws ? !r->ops->draw(r->set, r->picked.at, r->logits.at, n, vocab, &r->draw)
			: !r->ops->argmax(r->set, r->picked.at, r->logits.at, n, vocab);
}

/* Of the rows that sample alone. */
static bool head(struct runner *r)
{
	const struct kernel_ops *k = r->ops;
	const struct model *m = r->model;
	int32_t n = r->n_head;
	return !k->mark(r->set, PART_HEAD) &&
	       !k->gather(r->set, r->last_x.at, r->x.at, r->sampled_rows, n, m->hidden) &&
	       !k->gather(r->set, r->last_delta.at, r->delta.at, r->sampled_rows, n, m->hidden) &&
	       !k->add_rms_norm(r->set, r->last_normed.at, r->last_x.at, r->last_delta.at, r->final_norm, n, m->hidden,
				(float)m->numerics.norm_eps) &&
	       !k->matmul_f32(r->set, r->logits.at, r->last_normed.at, n, r->head) && choose(r);
}

/* All of it. */
static bool run_layers(struct runner *r)
{
	bool ok = !r->ops->mark(r->set, PART_OTHER) && !r->ops->embed(r->set, r->x.at, r->embed, r->embed_type,
								      r->row_tokens, r->rows.n_rows, r->model->hidden);
	for (int32_t i = 0; i < r->n_layers && ok; i++)
		ok = norm_first(r, i) && attend(r, i) && mlp(r, i);
	return ok && (!r->n_head || head(r));
}

static bool run_graph(struct runner *r)
{
	enum graph how;
	if (r->ops->graph_begin(r->set, runner_graph_key(r), &how))
		return false;
	bool ok = how == GRAPH_REPLAY || run_layers(r);
	/* In any case, so that nothing stays half recorded. */
	return !r->ops->graph_end(r->set) && ok;
}

int runner_forward(struct runner *r, struct err *e)
{
	if (runner_fit_buffers(r, r->rows.n_rows, r->n_head, e))
		return ERR_MEMORY;
	bool ok = r->graph.rows ? run_graph(r) : run_layers(r);
	return ok ? ERR_NONE : runner_kernel_failed(r, e);
}
