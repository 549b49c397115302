/* Copies of pages within the arena: who first writes to a page that others read as well gets one of its own. */
#include "core/err.h"
#include "core/mem.h"
#include "exec/runner_state.h"

/* K, V, scales and tags of every layer, for the device to read. */
static int make_planes(struct runner *r, struct err *e)
{
	const struct kv_shape *s = &r->kv_shape;
	int64_t slots = s->block_size, heads = slots * s->n_kv_heads, values = heads * s->head_dim * num_bytes(s->type);
	struct page_plane *planes = mem_alloc((size_t)r->n_layers * 5 * sizeof *planes);
	int32_t n = 0;
	if (!planes)
		return err_no_memory(e, "copies of pages");
	for (int32_t i = 0; i < r->n_layers; i++) {
		const struct kv_layer *l = &r->kv[i];
		const struct page_plane of[] = {{l->k, l->k, values},
						{l->v, l->v, values},
						{l->k_scale, l->k_scale, heads * (int64_t)sizeof(float)},
						{l->v_scale, l->v_scale, heads * (int64_t)sizeof(float)},
						{l->tags, l->tags, slots * (int64_t)sizeof *l->tags}};
		for (size_t k = 0; k < sizeof of / sizeof *of; k++)
			if (of[k].to)
				planes[n++] = of[k];
	}
	r->planes = runner_alloc(r, (size_t)n * sizeof *planes, "copies of pages", e);
	int rc = r->planes ? ERR_NONE : ERR_MEMORY;
	if (!rc && r->ops->upload(r->set, r->planes, planes, (size_t)n * sizeof *planes))
		rc = runner_kernel_failed(r, e);
	r->n_planes = n;
	mem_free(planes);
	return rc;
}

/* How many copies from the i-th on touch different pages: they may be done in any order. */
static int32_t apart(const struct page_copy *c, int32_t i, int32_t n)
{
	int32_t end = i + 1;
	for (; end < n; end++)
		for (int32_t k = i; k < end; k++)
			if (c[end].src == c[k].dst || c[end].dst == c[k].src || c[end].dst == c[k].dst)
				return end - i;
	return end - i;
}

int runner_copy(struct runner *r, struct err *e)
{
	const struct batch_tables *t = r->tables;
	if (!t->n_copies)
		return ERR_NONE;
	if (!r->planes && make_planes(r, e))
		return e ? (int)e->code : ERR_MEMORY;
	if (r->ops->mark(r->set, PART_OTHER))
		return runner_kernel_failed(r, e);
	for (int32_t i = 0, n; i < t->n_copies; i += n) {
		n = apart(t->copies, i, t->n_copies);
		if (r->ops->copy_pages(r->set, r->planes, r->n_planes, r->copies + 2 * (int64_t)i, n))
			return runner_kernel_failed(r, e);
	}
	return ERR_NONE;
}
