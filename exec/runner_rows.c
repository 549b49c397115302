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
	STAGED_INDICES,
	STAGED_SLOTS,
	STAGED_POSITIONS,
	STAGED_SAMPLED,
	STAGED_ROW_TAGS,
	STAGED_WANT_AT,
	STAGED_WANT_TAGS,
	N_STAGED
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
	    mem_grow((void **)&r->tokens, &r->cap_tokens, t->n_seqs, sizeof *r->tokens))
		return err_no_memory(e, "a step's rows");
	return ERR_NONE;
}

static void work_out(struct runner *r, const struct batch_tables *t)
{
	r->n_sampled = 0;
	for (int32_t s = 0; s < t->n_seqs; s++) {
		int32_t end = t->q_at[s + 1], position = t->ctx_len[s] - t->pad[s] - (end - t->q_at[s]);
		for (int32_t i = t->q_at[s]; i < end; i++, position++)
			r->positions[i] = position > 0 ? position : 0;
		if (t->samples[s] && !t->held[s])
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

/* Copies every array into the staging memory, each at a multiple of 64 bytes, and says where on the device it lies. */
static int stage(struct runner *r, const void *const from[], const size_t bytes[], const void *at[], struct err *e)
{
	struct staging *s = &r->staging;
	size_t offset[N_STAGED + 1] = {0};
	for (int i = 0; i < N_STAGED; i++)
		offset[i + 1] = (offset[i] + bytes[i] + 63) / 64 * 64;
	if (mem_grow((void **)&s->host, &s->cap, (int64_t)offset[N_STAGED], 1))
		return err_no_memory(e, "a step's tables");
	if (runner_fit(r, &s->device, offset[N_STAGED], "a step's tables", e))
		return ERR_MEMORY;
	for (int i = 0; i < N_STAGED; i++) {
		at[i] = from[i] ? (uint8_t *)s->device.at + offset[i] : NULL;
		if (from[i] && bytes[i])
			memcpy(s->host + offset[i], from[i], bytes[i]);
	}
	return r->ops->upload(r->set, s->device.at, s->host, offset[N_STAGED]) ? runner_kernel_failed(r, e) : ERR_NONE;
}

static void point(struct runner *r, const struct batch_tables *t, const void *const at[])
{
	r->row_tokens = at[STAGED_TOKENS];
	r->sampled_rows = at[STAGED_SAMPLED];
	r->rows = (struct step_rows){.n_seqs = t->n_seqs,
				     .n_rows = t->n_rows,
				     .n_decodes = t->n_decodes,
				     .max_ctx = t->max_ctx,
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
	size_t rows = (size_t)t->n_rows, seqs = (size_t)t->n_seqs;
	const void *from[N_STAGED] = {in->row_tokens, t->q_at,  t->ctx_len,   t->pad,    t->kv_indptr,
				      t->kv_indices,  t->slots, r->positions, r->sampled};
	size_t bytes[N_STAGED] = {[STAGED_TOKENS] = rows * sizeof *in->row_tokens,
				  [STAGED_Q_AT] = (seqs + 1) * sizeof *t->q_at,
				  [STAGED_CTX_LEN] = seqs * sizeof *t->ctx_len,
				  [STAGED_PAD] = seqs * sizeof *t->pad,
				  [STAGED_INDPTR] = (seqs + 1) * sizeof *t->kv_indptr,
				  [STAGED_INDICES] = (size_t)t->kv_indptr[seqs] * sizeof *t->kv_indices,
				  [STAGED_SLOTS] = rows * sizeof *t->slots,
				  [STAGED_POSITIONS] = rows * sizeof *r->positions,
				  [STAGED_SAMPLED] = (size_t)r->n_sampled * sizeof *r->sampled};
	if (r->check) {
		from[STAGED_ROW_TAGS] = in->row_tags;
		from[STAGED_WANT_AT] = in->want_at;
		from[STAGED_WANT_TAGS] = in->want_tags;
		bytes[STAGED_ROW_TAGS] = rows * sizeof *in->row_tags;
		bytes[STAGED_WANT_AT] = seqs * sizeof *in->want_at;
		bytes[STAGED_WANT_TAGS] = (size_t)count_wanted(t, in->want_at) * sizeof *in->want_tags;
	}
	const void *at[N_STAGED];
	rc = stage(r, from, bytes, at, e);
	if (!rc)
		point(r, t, at);
	return rc;
}
