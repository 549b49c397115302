/* KV pages out of the runner's arena and into it, all layers of one page side by side: keys, values, their scales, tags. */
#include "core/err.h"
#include "core/mem.h"
#include "exec/runner_state.h"

/* One array of one layer: where page `page` of it lies, and how many bytes it has. */
struct part_of_page {
	void *device;
	size_t bytes;
};

enum { PARTS_OF_PAGE = 5 };

static void parts_of(const struct runner *r, int32_t layer, int32_t page, struct part_of_page p[PARTS_OF_PAGE])
{
	const struct kv_layer *l = &r->kv[layer];
	const struct kv_shape *s = &r->kv_shape;
	size_t slots = (size_t)s->block_size, scales = slots * (size_t)s->n_kv_heads * sizeof(float);
	size_t bytes = slots * (size_t)s->n_kv_heads * (size_t)s->head_dim * (size_t)num_bytes(s->type);
	p[0] = (struct part_of_page){(uint8_t *)l->k + (size_t)page * bytes, bytes};
	p[1] = (struct part_of_page){(uint8_t *)l->v + (size_t)page * bytes, bytes};
	p[2] = (struct part_of_page){(uint8_t *)l->k_scale + (size_t)page * scales, l->k_scale ? scales : 0};
	p[3] = (struct part_of_page){(uint8_t *)l->v_scale + (size_t)page * scales, l->v_scale ? scales : 0};
	p[4] = (struct part_of_page){(uint8_t *)l->tags + (size_t)page * slots * sizeof *l->tags,
				     l->tags ? slots * sizeof *l->tags : 0};
}

int64_t runner_page_bytes(const struct runner *r)
{
	struct part_of_page p[PARTS_OF_PAGE];
	int64_t bytes = 0;
	parts_of(r, 0, 0, p);
	for (int i = 0; i < PARTS_OF_PAGE; i++)
		bytes += (int64_t)p[i].bytes;
	return bytes * r->n_layers;
}

static int check_page(const struct runner *r, int32_t page, struct err *e)
{
	if (page >= 0 && page < r->kv_shape.n_pages)
		return ERR_NONE;
	return err_set(e, ERR_INVARIANT, "page %d of %d is to be copied", page, r->kv_shape.n_pages);
}

int runner_page_out(struct runner *r, int32_t page, void *host, struct err *e)
{
	uint8_t *to = host;
	int rc = check_page(r, page, e);
	for (int32_t l = 0; l < r->n_layers && !rc; l++) {
		struct part_of_page p[PARTS_OF_PAGE];
		parts_of(r, l, page, p);
		for (int i = 0; i < PARTS_OF_PAGE && !rc; to += p[i++].bytes)
			if (p[i].bytes && r->ops->download(r->set, to, p[i].device, p[i].bytes))
				rc = runner_kernel_failed(r, e);
	}
	return rc;
}

int runner_page_in(struct runner *r, int32_t page, const void *host, struct err *e)
{
	const uint8_t *from = host;
	int rc = check_page(r, page, e);
	for (int32_t l = 0; l < r->n_layers && !rc; l++) {
		struct part_of_page p[PARTS_OF_PAGE];
		parts_of(r, l, page, p);
		for (int i = 0; i < PARTS_OF_PAGE && !rc; from += p[i++].bytes)
			if (p[i].bytes && r->ops->upload(r->set, p[i].device, from, p[i].bytes))
				rc = runner_kernel_failed(r, e);
	}
	return rc;
}

void *runner_host_alloc(struct runner *r, size_t bytes)
{
	return r->ops->host_alloc ? r->ops->host_alloc(r->set, bytes) : mem_alloc(bytes);
}

void runner_host_free(struct runner *r, void *host)
{
	if (r->ops->host_release && host)
		r->ops->host_release(r->set, host);
	else
		mem_free(host);
}

/* All parts of the pages as one copy on the set's own stream. */
static int move_beside(struct runner *r, const int32_t *pages, uint8_t *const *host, int32_t n, bool out, struct err *e)
{
	int64_t ticket;
	int32_t n_parts = 0;
	bool done;
	struct page_part *parts = mem_alloc((size_t)n * (size_t)r->n_layers * PARTS_OF_PAGE * sizeof *parts);
	if (!parts)
		return err_no_memory(e, "a copy of KV pages");
	for (int32_t i = 0; i < n; i++) {
		uint8_t *at = host[i];
		for (int32_t l = 0; l < r->n_layers; l++) {
			struct part_of_page p[PARTS_OF_PAGE];
			parts_of(r, l, pages[i], p);
			for (int j = 0; j < PARTS_OF_PAGE; at += p[j++].bytes)
				if (p[j].bytes)
					parts[n_parts++] = (struct page_part){p[j].device, at, p[j].bytes};
		}
	}
	int failed = r->ops->pages_copy(r->set, parts, n_parts, out, &ticket);
	mem_free(parts);
	if (!failed)
		failed = out ? r->ops->pages_done(r->set, ticket, true, &done) : r->ops->pages_before(r->set, ticket);
	r->moving = out || failed ? 0 : ticket;
	return failed ? runner_kernel_failed(r, e) : ERR_NONE;
}

int runner_pages_settle(struct runner *r, struct err *e)
{
	bool done;
	int64_t ticket = r->moving;
	r->moving = 0;
	return ticket && r->ops->pages_done(r->set, ticket, true, &done) ? runner_kernel_failed(r, e) : ERR_NONE;
}

int runner_pages_move(struct runner *r, const int32_t *pages, uint8_t *const *host, int32_t n, bool out, struct err *e)
{
	int rc = ERR_NONE;
	for (int32_t i = 0; i < n && !rc; i++)
		rc = check_page(r, pages[i], e);
	if (!rc && n && r->ops->pages_copy)
		return move_beside(r, pages, host, n, out, e);
	for (int32_t i = 0; i < n && !rc; i++)
		rc = out ? runner_page_out(r, pages[i], host[i], e) : runner_page_in(r, pages[i], host[i], e);
	return rc;
}
