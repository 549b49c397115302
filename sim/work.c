#include "sim/work.h"

#include "core/err.h"
#include "core/mem.h"
#include "models/shard.h"
#include "sim/cost_ops.h"

enum { TOKENS_KEPT = 1 << 14 };

struct work {
	struct model model;
	struct op_shapes shapes;
	double window, n_full, n_window;
	double flops_per_s, bytes_per_s;
	enum dtype weights;
	struct op_work *tokens; /* [TOKENS_KEPT] of all operators that depend on the tokens alone; bytes = 0: not yet */
};

int work_create(struct work **out, const struct cost_setup *s, struct err *e)
{
	struct weight_format f;
	struct model part;
	*out = NULL;
	int rc = model_weight_format(s->model, &s->weights, &f, e);
	if (rc == ERR_NONE)
		rc = model_shard(&part, s->model, s->tensor_parallel, e);
	if (rc)
		return rc;
	struct work *w = mem_zalloc(1, sizeof *w);
	if (!w || !(w->tokens = mem_zalloc(TOKENS_KEPT, sizeof *w->tokens))) {
		mem_free(w);
		return err_no_memory(e, "a roofline");
	}
	w->model = part;
	op_shapes_init(&w->shapes, &w->model, &f, s->kv, s->attention);
	w->shapes.sampled_vocab = s->model->vocab;
	w->model.layers = NULL;
	w->window = w->model.window;
	w->n_full = w->shapes.n_full;
	w->n_window = w->shapes.n_window;
	w->weights = f.scope == SCOPE_EXPERTS && !w->shapes.n_moe ? DTYPE_BF16 : f.dtype;
	w->flops_per_s = device_peak(s->device, w->weights);
	w->bytes_per_s = s->device->bandwidth;
	*out = w;
	return ERR_NONE;
}

void work_free(struct work *w)
{
	if (w)
		mem_free(w->tokens);
	mem_free(w);
}

static void add(struct op_work *to, const struct op_work *one, double times)
{
	to->flops += times * one->flops;
	to->bytes += times * one->bytes;
}

static struct op_work count_tokens(const struct work *w, double tokens)
{
	struct op_work sum = {0}, one;
	for (int op = 0; op < TOKEN_OPS; op++) {
		op_tokens(&w->shapes, (enum token_op)op, tokens, &one);
		add(&sum, &one, 1);
	}
	return sum;
}

static struct op_work tokens_work(struct work *w, int64_t tokens)
{
	if (tokens >= TOKENS_KEPT)
		return count_tokens(w, (double)tokens);
	if (w->tokens[tokens].bytes == 0 && tokens > 0)
		w->tokens[tokens] = count_tokens(w, (double)tokens);
	return w->tokens[tokens];
}

static void add_decodes(const struct work *w, const struct work_totals *t, struct op_work *sum)
{
	struct op_work one;
	double rows = (double)t->decodes, ctx = (double)t->decode_ctx;
	op_decode_attention(&w->shapes, rows, ctx, &one);
	add(sum, &one, w->n_full);
	if (w->n_window > 0) {
		double seen = rows * w->window;
		op_decode_attention(&w->shapes, rows, ctx < seen ? ctx : seen, &one);
		add(sum, &one, w->n_window);
	}
}

static void add_chunks(const struct work *w, const struct work_totals *t, struct op_work *sum)
{
	struct op_work one;
	double each = (double)t->prefill_tokens / (double)t->chunks;
	op_prefill_attention(&w->shapes, 0, each, 0, &one);
	add(sum, &one, w->n_full * (double)t->chunks);
	if (w->n_window > 0) {
		op_prefill_attention(&w->shapes, 0, each, w->window, &one);
		add(sum, &one, w->n_window * (double)t->chunks);
	}
}

void work_step(struct work *w, const struct work_totals *t, double *flops, double *bytes)
{
	struct op_work sum = tokens_work(w, t->decodes + t->prefill_tokens), one;
	if (t->decodes > 0)
		add_decodes(w, t, &sum);
	if (t->chunks > 0)
		add_chunks(w, t, &sum);
	if (t->sampled > 0) {
		op_lm_head(&w->shapes, (double)t->sampled, &one);
		add(&sum, &one, 1);
		op_sample(&w->shapes, (double)t->sampled, &one);
		add(&sum, &one, 1);
	}
	*flops = sum.flops;
	*bytes = sum.bytes;
}

void work_roofs(const struct work *w, double *flops_per_s, double *bytes_per_s, enum dtype *weights)
{
	*flops_per_s = w->flops_per_s;
	*bytes_per_s = w->bytes_per_s;
	*weights = w->weights;
}
