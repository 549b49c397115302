/* A batch's tables as kernels want them: checked against the arena, positions and sampled rows worked out, all of it on
 * the device in one copy. */
#include <string.h>

#include "core/err.h"
#include "core/mem.h"
#include "exec/runner_state.h"

enum staged {
	STAGED_TOKENS,
	STAGED_Q_AT,
	STAGED_CTX_LEN,
	STAGED_PAD,
	STAGED_INDPTR,
	STAGED_SLOTS,
	STAGED_POSITIONS,
	STAGED_SAMPLED,
	STAGED_STREAMS,
	STAGED_NTHS,
	STAGED_INDICES, /* after what a graph expects at places that depend on its rows alone */
	STAGED_COPIES,
	STAGED_ROW_TAGS,
	STAGED_WANT_AT,
	STAGED_WANT_TAGS,
	N_STAGED
};

/* An array on the host, and the bytes kept for it on the device: more than it has where dummy rows follow. */
struct staged_array {
	const void *from;
	size_t bytes, room;
};

/* What points outside the arena or the embedding table would reach into somebody else's memory: never let it through. */
static int check_tables(const struct runner *r, const struct step_input *in, struct err *e)
{
	const struct batch_tables *t = in->tables;
	int64_t n_slots = (int64_t)r->kv_shape.n_pages * r->kv_shape.block_size;
	for (int32_t i = 0; i < t->kv_indptr[t->n_seqs]; i++)
		if (t->kv_indices[i] < 0 || t->kv_indices[i] >= r->kv_shape.n_pages)
			return err_set(e, ERR_INVARIANT,
				       "step %lld: page %d of the block tables is not one of %d pages",
				       (long long)t->step, t->kv_indices[i], r->kv_shape.n_pages);
	for (int32_t i = 0; i < t->n_copies; i++)
		if (t->copies[i].src < 0 || t->copies[i].src >= r->kv_shape.n_pages || t->copies[i].dst < 0 ||
		    t->copies[i].dst >= r->kv_shape.n_pages)
			return err_set(e, ERR_INVARIANT, "step %lld: page %d is to be copied to page %d, there are %d",
				       (long long)t->step, t->copies[i].src, t->copies[i].dst, r->kv_shape.n_pages);
	for (int32_t i = 0; i < t->n_rows; i++)
		if (t->slots[i] < -1 || t->slots[i] >= n_slots)
			return err_set(e, ERR_INVARIANT, "step %lld: row %d writes to slot %lld, there are %lld",
				       (long long)t->step, i, (long long)t->slots[i], (long long)n_slots);
	for (int32_t i = 0; i < t->n_rows; i++)
		if (in->row_tokens[i] < 0 || in->row_tokens[i] >= r->model->vocab)
			return err_set(
				e, ERR_INPUT,
				"step %lld: row %d computes token %d, model %s knows 0 to %d: is the tokenizer the "
				"model's own?",
				(long long)t->step, i, in->row_tokens[i], r->model->name, r->model->vocab - 1);
	for (int32_t s = 0; s < t->n_seqs; s++) {
		int64_t pages = t->kv_indptr[s + 1] - t->kv_indptr[s];
		if (t->ctx_len[s] < t->q_at[s + 1] - t->q_at[s] || t->pad[s] < 0 ||
		    pages * r->kv_shape.block_size < t->ctx_len[s])
			return err_set(e, ERR_INVARIANT,
				       "step %lld: sequence %d has %d rows, %d tokens of context (%d padding) and %lld "
				       "pages",
				       (long long)t->step, s, t->q_at[s + 1] - t->q_at[s], t->ctx_len[s], t->pad[s],
				       (long long)pages);
	}
	return ERR_NONE;
}

static int room_for(struct runner *r, const struct batch_tables *t, struct err *e)
{
	if (mem_grow((void **)&r->positions, &r->cap_positions, t->n_rows, sizeof *r->positions) ||
	    mem_grow((void **)&r->sampled, &r->cap_sampled, t->n_seqs, sizeof *r->sampled) ||
	    mem_grow((void **)&r->streams, &r->cap_streams, t->n_seqs, sizeof *r->streams) ||
	    mem_grow((void **)&r->nths, &r->cap_nths, t->n_seqs, sizeof *r->nths) ||
	    mem_grow((void **)&r->tokens, &r->cap_tokens, t->n_seqs, sizeof *r->tokens))
		return err_no_memory(e, "a step's rows");
	return ERR_NONE;
}

static void work_out(struct runner *r, const struct batch_tables *t)
{
	r->n_sampled = 0;
	for (int32_t s = 0; s < t->n_seqs; s++) {
		int32_t end = t->q_at[s + 1], position = t->ctx_len[s] - t->pad[s] - (end - t->q_at[s]);
		position += t->dropped ? t->dropped[s] : 0;
		for (int32_t i = t->q_at[s]; i < end; i++, position++)
			r->positions[i] = position > 0 ? position : 0;
		if (!t->samples[s] || t->held[s])
			continue;
		r->streams[r->n_sampled] = (uint64_t)t->req[s];
		r->nths[r->n_sampled] = r->nth ? r->nth[s] : 0;
		r->sampled[r->n_sampled++] = end - 1;
	}
}

static int64_t count_wanted(const struct batch_tables *t, const int64_t *want_at)
{
	int64_t n = 0;
	for (int32_t s = 0; s < t->n_seqs; s++)
		if (want_at[s] >= 0 && want_at[s] + t->ctx_len[s] > n)
			n = want_at[s] + t->ctx_len[s];
	return n;
}

/* The rows that fill up a graph: each a sequence of its own with no context, whose K and V go nowhere. */
static void fill_up(const struct runner *r, const struct batch_tables *t, uint8_t *const at[])
{
	int32_t *tokens = (int32_t *)(void *)at[STAGED_TOKENS], *q_at = (int32_t *)(void *)at[STAGED_Q_AT],
		*ctx_len = (int32_t *)(void *)at[STAGED_CTX_LEN], *pad = (int32_t *)(void *)at[STAGED_PAD],
		*indptr = (int32_t *)(void *)at[STAGED_INDPTR], *positions = (int32_t *)(void *)at[STAGED_POSITIONS],
		*sampled = (int32_t *)(void *)at[STAGED_SAMPLED];
	int64_t *slots = (int64_t *)(void *)at[STAGED_SLOTS];
	size_t unsampled = (size_t)(r->n_head - r->n_sampled);
	for (int32_t i = t->n_rows; i < r->graph.rows; i++) {
		tokens[i] = ctx_len[i] = pad[i] = positions[i] = 0;
		slots[i] = -1;
		q_at[i + 1] = i + 1;
		indptr[i + 1] = t->kv_indptr[t->n_seqs];
	}
	memset(sampled + r->n_sampled, 0, unsampled * sizeof *sampled);
	if (r->draws) {
		memset(at[STAGED_STREAMS] + (size_t)r->n_sampled * sizeof(uint64_t), 0, unsampled * sizeof(uint64_t));
		memset(at[STAGED_NTHS] + (size_t)r->n_sampled * sizeof(int64_t), 0, unsampled * sizeof(int64_t));
	}
}

/* Copies every array into the staging memory, each at a multiple of 64 bytes, and says where on the device it lies. */
static int stage(struct runner *r, const struct batch_tables *t, const struct staged_array arrays[], const void *at[],
		 struct err *e)
{
	struct staging *s = &r->staging;
	uint8_t *host[N_STAGED];
	size_t offset[N_STAGED + 1] = {0};
	for (int i = 0; i < N_STAGED; i++)
		offset[i + 1] = (offset[i] + arrays[i].room + 63) / 64 * 64;
	if (mem_grow((void **)&s->host, &s->cap, (int64_t)offset[N_STAGED], 1))
		return err_no_memory(e, "a step's tables");
	if (runner_fit(r, &s->device, offset[N_STAGED], "a step's tables", e))
		return ERR_MEMORY;
	for (int i = 0; i < N_STAGED; i++) {
		host[i] = s->host + offset[i];
		at[i] = arrays[i].from ? (uint8_t *)s->device.at + offset[i] : NULL;
		if (arrays[i].from && arrays[i].bytes)
			memcpy(host[i], arrays[i].from, arrays[i].bytes);
	}
	fill_up(r, t, host);
	return r->ops->upload(r->set, s->device.at, s->host, offset[N_STAGED]) ? runner_kernel_failed(r, e) : ERR_NONE;
}

static void point(struct runner *r, const struct batch_tables *t, const void *const at[])
{
	r->row_tokens = at[STAGED_TOKENS];
	r->sampled_rows = at[STAGED_SAMPLED];
	r->draw.stream = at[STAGED_STREAMS];
	r->draw.nth = at[STAGED_NTHS];
	r->copies = at[STAGED_COPIES];
	const struct graph_shape *g = &r->graph;
	r->rows = (struct step_rows){.n_seqs = g->rows ? g->rows : t->n_seqs,
				     .n_rows = g->rows ? g->rows : t->n_rows,
				     .n_decodes = g->rows ? g->rows : t->n_decodes,
				     .max_ctx = g->rows ? g->ctx : t->max_ctx,
				     .sum_ctx = t->sum_ctx,
				     .q_at = at[STAGED_Q_AT],
				     .ctx_len = at[STAGED_CTX_LEN],
				     .pad = at[STAGED_PAD],
				     .kv_indptr = at[STAGED_INDPTR],
				     .kv_indices = at[STAGED_INDICES],
				     .slots = at[STAGED_SLOTS],
				     .positions = at[STAGED_POSITIONS],
				     .row_tags = at[STAGED_ROW_TAGS],
				     .want_tags = at[STAGED_WANT_TAGS],
				     .want_at = at[STAGED_WANT_AT]};
}

/* n values of an array, and room for `more`. */
static struct staged_array array(const void *from, size_t n, size_t more, size_t size)
{
	return (struct staged_array){from, n * size, (n + more) * size};
}

static void list_arrays(const struct runner *r, const struct step_input *in, struct staged_array a[N_STAGED])
{
	const struct batch_tables *t = in->tables;
	size_t rows = (size_t)t->n_rows, seqs = (size_t)t->n_seqs, sampled = (size_t)r->n_sampled;
	size_t more = r->graph.rows ? (size_t)r->graph.rows - rows : 0;
	a[STAGED_TOKENS] = array(in->row_tokens, rows, more, sizeof *in->row_tokens);
	a[STAGED_Q_AT] = array(t->q_at, seqs + 1, more, sizeof *t->q_at);
	a[STAGED_CTX_LEN] = array(t->ctx_len, seqs, more, sizeof *t->ctx_len);
	a[STAGED_PAD] = array(t->pad, seqs, more, sizeof *t->pad);
	a[STAGED_INDPTR] = array(t->kv_indptr, seqs + 1, more, sizeof *t->kv_indptr);
	a[STAGED_SLOTS] = array(t->slots, rows, more, sizeof *t->slots);
	a[STAGED_POSITIONS] = array(r->positions, rows, more, sizeof *r->positions);
	a[STAGED_SAMPLED] = array(r->sampled, sampled, (size_t)r->n_head - sampled, sizeof *r->sampled);
	if (r->draws) {
		a[STAGED_STREAMS] = array(r->streams, sampled, (size_t)r->n_head - sampled, sizeof *r->streams);
		a[STAGED_NTHS] = array(r->nths, sampled, (size_t)r->n_head - sampled, sizeof *r->nths);
	}
	a[STAGED_INDICES] = array(t->kv_indices, (size_t)t->kv_indptr[seqs], 0, sizeof *t->kv_indices);
	a[STAGED_COPIES] = array(t->copies, 2 * (size_t)t->n_copies, 0, sizeof t->copies->src);
	if (!r->check)
		return;
	a[STAGED_ROW_TAGS] = array(in->row_tags, rows, 0, sizeof *in->row_tags);
	a[STAGED_WANT_AT] = array(in->want_at, seqs, 0, sizeof *in->want_at);
	a[STAGED_WANT_TAGS] = array(in->want_tags, (size_t)count_wanted(t, in->want_at), 0, sizeof *in->want_tags);
}

int runner_rows(struct runner *r, const struct step_input *in, struct err *e)
{
	const struct batch_tables *t = in->tables;
	if (r->check && (!in->row_tags || !in->want_tags || !in->want_at))
		return err_set(e, ERR_INVARIANT, "step %lld: the runner checks tags and was given none",
			       (long long)t->step);
	int rc = check_tables(r, in, e);
	if (!rc)
		rc = room_for(r, t, e);
	if (rc)
		return rc;
	work_out(r, t);
	r->graph = runner_graph_shape(r, t);
	r->n_head = r->graph.rows ? r->graph.rows : r->n_sampled;
	struct staged_array arrays[N_STAGED] = {{0}};
	list_arrays(r, in, arrays);
	const void *at[N_STAGED];
	rc = stage(r, t, arrays, at, e);
	if (!rc)
		point(r, t, at);
	return rc;
}
