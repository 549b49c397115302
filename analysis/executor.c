#include "analysis/executor.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "core/err.h"
#include "core/mem.h"
#include "exec/kernels.h"
#include "exec/weights.h"

static double seconds(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

int executor_kernels(struct kernel_set **out, const struct executor_setup *s, struct err *e)
{
	const struct exec_kernels k = {.backend = s->backend,
				       .weight_type = s->weight_type,
				       .threads = s->threads,
				       .isa = s->isa,
				       .batch_invariant = s->batch_invariant,
				       .eager = s->eager};
	return exec_kernels_open(out, &k, e);
}

static int open_kernels(struct executor *x, struct err *e)
{
	int rc = executor_kernels(&x->kernels, &x->setup, e);
	if (rc == ERR_NONE)
		snprintf(x->what, sizeof x->what, "%s", x->kernels->what);
	return rc;
}

static int open_runner(struct executor *x, const struct model *m, struct err *e)
{
	const struct executor_setup *s = &x->setup;
	struct weights *w;
	int rc = weights_open(&w, s->weights ? s->weights : "random:1", m, e);
	if (rc)
		return rc;
	snprintf(x->weights_what, sizeof x->weights_what, "%s", weights_describe(w));
	const struct runner_setup r = {.model = m,
				       .weights = w,
				       .kernels = x->kernels,
				       .weight_type = s->weight_type,
				       .kv_type = s->kv_type,
				       .n_pages = s->num_blocks,
				       .block_size = s->block_size,
				       .kv_off = s->kv_off,
				       .check = s->check,
				       .layers = s->layers,
				       .ready_rows = s->ready_rows,
				       .ready_seqs = s->ready_seqs,
				       .ready_ctx = s->ready_ctx,
				       .memory_share = s->memory_share,
				       .most_pages = s->most_blocks,
				       .sampling = s->sampling};
	rc = runner_create(&x->runner, &r, e);
	weights_close(w);
	if (rc == ERR_NONE && !s->kv_off)
		x->setup.num_blocks = runner_pages(x->runner);
	return rc;
}

static int copy_model(struct model *to, const struct model *m)
{
	*to = *m;
	to->layers = mem_alloc((size_t)m->n_layers * sizeof *m->layers);
	if (!to->layers)
		return ERR_MEMORY;
	memcpy(to->layers, m->layers, (size_t)m->n_layers * sizeof *m->layers);
	return ERR_NONE;
}

int executor_open(struct executor **out, const struct executor_setup *s, const struct model *m, struct err *e)
{
	double began = seconds();
	struct executor *x = mem_zalloc(1, sizeof *x);
	if (!x)
		return err_no_memory(e, "an executor");
	x->setup = *s;
	if (copy_model(&x->model, m)) {
		mem_free(x);
		return err_no_memory(e, "an executor");
	}
	m = &x->model;
	int rc = s->tokenizer ? tokenizer_open(&x->tokenizer, s->tokenizer, m->vocab, e) : ERR_NONE;
	if (rc == ERR_NONE)
		rc = open_kernels(x, e);
	if (rc == ERR_NONE)
		rc = open_runner(x, m, e);
	if (rc) {
		executor_close(x);
		return rc;
	}
	x->load_s = seconds() - began;
	*out = x;
	return ERR_NONE;
}

void executor_close(struct executor *x)
{
	if (!x)
		return;
	runner_free(x->runner);
	tokenizer_close(x->tokenizer);
	if (x->kernels)
		x->kernels->ops->close(x->kernels);
	model_free(&x->model);
	mem_free(x);
}

static bool same_text(const char *a, const char *b)
{
	return a == b || (a && b && strcmp(a, b) == 0);
}

static bool same_sampling(const struct sampling *a, const struct sampling *b)
{
	if (a->temperature == 0 && b->temperature == 0)
		return true; /* greedy, whatever the rest says */
	return a->temperature == b->temperature && a->top_k == b->top_k && a->top_p == b->top_p && a->seed == b->seed;
}

bool executor_fits(const struct executor *x, const struct executor_setup *s, const struct model *m)
{
	const struct executor_setup *h = &x->setup;
	/* Where memory says how many blocks there are, it must have been asked for as much. */
	bool room = s->num_blocks > 0 || s->kv_off ||
		    (h->memory_share == s->memory_share && h->most_blocks >= s->most_blocks);
	return room && same_text(h->model, s->model) && strcmp(x->model.name, m->name) == 0 &&
	       x->model.n_layers == m->n_layers && x->model.hidden == m->hidden && x->model.vocab == m->vocab &&
	       same_text(h->backend, s->backend) && same_text(h->weights, s->weights) &&
	       same_text(h->tokenizer, s->tokenizer) && same_text(h->isa, s->isa) && h->weight_type == s->weight_type &&
	       h->kv_type == s->kv_type && h->threads == s->threads && h->batch_invariant == s->batch_invariant &&
	       h->eager == s->eager && h->num_blocks >= s->num_blocks && h->block_size == s->block_size &&
	       h->kv_off == s->kv_off && h->check == s->check && h->layers == s->layers &&
	       same_sampling(&h->sampling, &s->sampling);
}
