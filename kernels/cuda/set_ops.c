/* set_ops.c: the operations on rows, attention and choosing, each started on the set's stream. */
#include <string.h>

#include "kernels/cuda/set.h"

static int set_embed(struct kernel_set *k, void *y, const void *table, enum num t, const int32_t *ids, int32_t rows,
		     int32_t dim)
{
	struct cuda_set *s = cuda_set_of(k);
	return cuda_check(s, cuda_embed(s->stream, k->act, y, table, t, ids, rows, dim), "embedding %d rows of %d",
			  rows, dim);
}

static int set_rms_norm(struct kernel_set *k, void *y, const void *x, const float *w, int32_t rows, int32_t dim,
			float eps)
{
	struct cuda_set *s = cuda_set_of(k);
	return cuda_check(s, cuda_rms_norm(s->stream, k->act, y, x, w, rows, dim, eps), "the norm of %d rows of %d",
			  rows, dim);
}

static int set_add_rms_norm(struct kernel_set *k, void *y, void *x, const void *delta, const float *w, int32_t rows,
			    int32_t dim, float eps)
{
	struct cuda_set *s = cuda_set_of(k);
	return cuda_check(s, cuda_add_rms_norm(s->stream, k->act, y, x, delta, w, rows, dim, eps),
			  "the sum and norm of %d rows of %d", rows, dim);
}

static int set_silu_mul(struct kernel_set *k, void *y, const void *gu, int32_t rows, int32_t width)
{
	struct cuda_set *s = cuda_set_of(k);
	return cuda_check(s, cuda_silu_mul(s->stream, k->act, y, gu, rows, width), "the gate of %d rows of %d", rows,
			  width);
}

static int set_gather(struct kernel_set *k, void *y, const void *x, const int32_t *index, int32_t n, int32_t dim)
{
	struct cuda_set *s = cuda_set_of(k);
	return cuda_check(s, cuda_gather(s->stream, k->act, y, x, index, n, dim), "gathering %d rows of %d", n, dim);
}

static int set_argmax(struct kernel_set *k, int32_t *tokens, const float *logits, int32_t rows, int32_t vocab)
{
	struct cuda_set *s = cuda_set_of(k);
	return cuda_check(s, cuda_argmax(s->stream, tokens, logits, rows, vocab), "the largest of %d x %d logits", rows,
			  vocab);
}

static int set_draw(struct kernel_set *k, int32_t *tokens, const float *logits, int32_t rows, int32_t vocab,
		    const struct draw *how)
{
	struct cuda_set *s = cuda_set_of(k);
	return cuda_check(s, cuda_draw(s->stream, tokens, logits, rows, vocab, how), "drawing from %d x %d logits",
			  rows, vocab);
}

static int set_copy_pages(struct kernel_set *k, const struct page_plane *planes, int32_t n_planes, const int32_t *pairs,
			  int32_t n)
{
	struct cuda_set *s = cuda_set_of(k);
	return cuda_check(s, cuda_copy_pages(s->stream, planes, n_planes, pairs, n), "copying %d pages of %d planes", n,
			  n_planes);
}

static int set_rope_kv(struct kernel_set *k, void *qkv, const struct step_rows *r, const struct attention_shape *a,
		       const struct rope *rope, const float *q_norm, const float *k_norm, float eps,
		       const struct kv_shape *s, const struct kv_layer *kv)
{
	struct cuda_set *c = cuda_set_of(k);
	return cuda_check(c, cuda_rope_kv(c->stream, k->act, qkv, r, a, rope, q_norm, k_norm, eps, s, kv),
			  "rotating and keeping %d rows of %d + 2 x %d heads of %d", r->n_rows, a->n_heads,
			  a->n_kv_heads, a->head_dim);
}

/* --- attention ------------------------------------------------------------------------------------------------------- */

static const char *set_refuses(struct kernel_set *k, const struct attention_shape *a, const struct kv_shape *s)
{
	return cuda_attention_refuses(k->act, a, s);
}

/* Where on the device the call's findings go, and who is told of them at the end of the step. */
static int fault_place(struct cuda_set *s, struct tag_fault *bad, struct tag_fault **at)
{
	if (s->graphs.recording)
		return cuda_refuse(s, "reads are not verified in a graph");
	if (s->n_faults == FAULTS)
		return cuda_refuse(s, "more than %d attentions of one step are verified", FAULTS);
	if (s->n_faults == 0 && cuda_check(s, cudaMemsetAsync(s->faults, 0, FAULTS * sizeof *s->faults, s->stream),
					   "zeroing what is found wrong"))
		return -1;
	*at = s->faults + s->n_faults;
	s->told[s->n_faults++] = bad;
	return 0;
}

static bool same_plan(const struct cuda_attention_plan *a, const struct cuda_attention_plan *b)
{
	return a->n_seqs == b->n_seqs && a->n_rows == b->n_rows && a->n_decodes == b->n_decodes &&
	       a->max_ctx == b->max_ctx && a->lines == b->lines && a->groups == b->groups && a->splits == b->splits &&
	       a->tile_lines == b->tile_lines && a->max_tiles == b->max_tiles && a->tensor_cores == b->tensor_cores &&
	       a->workspace == b->workspace;
}

static int set_attention(struct kernel_set *k, void *out, const void *qkv, const struct step_rows *r,
			 const struct attention_shape *a, const struct kv_shape *s, const struct kv_layer *kv,
			 struct tag_fault *bad)
{
	struct cuda_set *c = cuda_set_of(k);
	struct cuda_attention_plan p = {0};
	struct tag_fault *found = NULL;
	const char *why = cuda_attention_refuses(k->act, a, s);
	if (why)
		return cuda_refuse(c, "%s", why);
	if (r->n_rows < 1)
		return 0;
	cuda_plan_attention(&p, c->sms, k->act, a, s, r->n_seqs, r->n_rows, r->n_decodes, r->max_ctx, 0);
	if (cuda_fit(c, &c->attention, p.workspace, "attention") || (r->want_tags && fault_place(c, bad, &found)))
		return -1;
	bool prepared = c->planned && c->plan_rows == r->q_at && same_plan(&p, &c->plan);
	c->plan = p;
	c->plan_rows = r->q_at;
	c->planned = true;
	return cuda_check(
		c, cuda_attention(c->stream, k->act, out, qkv, r, a, s, kv, found, &p, c->attention.at, prepared),
		"attention of %d rows of %d sequences, the longest context %d", r->n_rows, r->n_seqs, r->max_ctx);
}

/* --- the table ------------------------------------------------------------------------------------------------------- */

const struct kernel_ops cuda_ops = {
	.name = "cuda",
	.error = cuda_error,
	.close = cuda_close,
	.alloc = cuda_alloc,
	.release = cuda_release,
	.upload = cuda_upload,
	.download = cuda_download,
	.download_later = cuda_download_later,
	.memory = cuda_memory,
	.host_alloc = cuda_host_alloc,
	.host_release = cuda_host_release,
	.pages_copy = cuda_pages_copy,
	.pages_done = cuda_pages_done,
	.pages_before = cuda_pages_before,
	.refuses = set_refuses,
	.pack = cuda_pack,
	.unpack_free = cuda_unpack_free,
	.matrix_bytes = cuda_matrix_bytes,
	.matmul = cuda_matmul,
	.matmul_f32 = cuda_matmul_f32,
	.embed = set_embed,
	.rms_norm = set_rms_norm,
	.add_rms_norm = set_add_rms_norm,
	.rope_kv = set_rope_kv,
	.attention = set_attention,
	.silu_mul = set_silu_mul,
	.gather = set_gather,
	.argmax = set_argmax,
	.draw = set_draw,
	.copy_pages = set_copy_pages,
	.graph_begin = cuda_graph_begin,
	.graph_end = cuda_graph_end,
	.mark = cuda_mark,
	.finish = cuda_finish,
};
