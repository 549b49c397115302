#include "core/kv_contig.h"

#include <string.h>

#include "core/err.h"
#include "core/mem.h"

int kv_contig_init(struct kv_contig *c, int32_t num_blocks, struct err *e)
{
	memset(c, 0, sizeof *c);
	if (mem_grow((void **)&c->holes, &c->cap_holes, 1, sizeof *c->holes))
		return err_no_memory(e, "contiguous KV memory");
	c->num_blocks = c->n_free = num_blocks;
	c->holes[0] = (struct kv_hole){0, num_blocks};
	c->n_holes = num_blocks > 0;
	return ERR_NONE;
}

void kv_contig_free(struct kv_contig *c)
{
	mem_free(c->holes);
	memset(c, 0, sizeof *c);
}

static void drop_hole(struct kv_contig *c, int64_t i)
{
	memmove(&c->holes[i], &c->holes[i + 1], (size_t)(c->n_holes - i - 1) * sizeof *c->holes);
	c->n_holes--;
}

int32_t kv_contig_take(struct kv_contig *c, int32_t n)
{
	for (int64_t i = 0; i < c->n_holes; i++) {
		struct kv_hole *h = &c->holes[i];
		if (h->len < n)
			continue;
		int32_t start = h->start;
		h->start += n;
		h->len -= n;
		if (!h->len)
			drop_hole(c, i);
		c->n_free -= n;
		return start;
	}
	return -1;
}

int kv_contig_give(struct kv_contig *c, int32_t start, int32_t n, struct err *e)
{
	if (mem_grow((void **)&c->holes, &c->cap_holes, c->n_holes + 1, sizeof *c->holes))
		return err_no_memory(e, "contiguous KV memory");
	int64_t i = 0; /* the first hole behind it */
	while (i < c->n_holes && c->holes[i].start < start)
		i++;
	struct kv_hole *before = i > 0 ? &c->holes[i - 1] : NULL;
	struct kv_hole *after = i < c->n_holes ? &c->holes[i] : NULL;
	int joins_before = before && before->start + before->len == start;
	int joins_after = after && start + n == after->start;
	c->n_free += n;
	if (joins_before && joins_after) {
		before->len += n + after->len;
		drop_hole(c, i);
	} else if (joins_before) {
		before->len += n;
	} else if (joins_after) {
		after->start = start;
		after->len += n;
	} else {
		memmove(&c->holes[i + 1], &c->holes[i], (size_t)(c->n_holes - i) * sizeof *c->holes);
		c->holes[i] = (struct kv_hole){start, n};
		c->n_holes++;
	}
	return ERR_NONE;
}

int32_t kv_contig_largest(const struct kv_contig *c)
{
	int32_t most = 0;
	for (int64_t i = 0; i < c->n_holes; i++)
		if (c->holes[i].len > most)
			most = c->holes[i].len;
	return most;
}
