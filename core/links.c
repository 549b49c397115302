#include "core/links.h"

#include <string.h>

#include "core/err.h"
#include "core/mem.h"

const char *const link_names[] = {"device_to_host", "host_to_device", "host_to_disk", "disk_to_host", NULL};

void links_init(struct links *l, const struct link_speeds *speeds)
{
	memset(l, 0, sizeof *l);
	l->speeds = *speeds;
}

void links_free(struct links *l)
{
	mem_free(l->open);
	mem_free(l->done);
	memset(l, 0, sizeof *l);
}

enum link link_between(enum tier from, enum tier to)
{
	if (from == TIER_DEVICE)
		return to == TIER_HOST ? LINK_DEVICE_HOST : N_LINKS;
	if (from == TIER_HOST)
		return to == TIER_DEVICE ? LINK_HOST_DEVICE : to == TIER_DISK ? LINK_HOST_DISK : N_LINKS;
	return from == TIER_DISK && to == TIER_HOST ? LINK_DISK_HOST : N_LINKS;
}

int64_t link_copy_ns(const struct link_speeds *s, enum link link, int64_t n)
{
	const struct link_speed *v = &s->of[link];
	__int128 bytes = (__int128)n * s->page_bytes;
	return v->latency_ns + (int64_t)((bytes * 1000000000 + v->bytes_per_s - 1) / v->bytes_per_s);
}

int64_t links_end_of(const struct links *l, int64_t ticket)
{
	for (int64_t i = 0; i < l->n_open; i++)
		if (l->open[i].ticket == ticket)
			return l->open[i].end_ns;
	return 0;
}

int links_start(struct links *l, const struct transfer *t, int64_t now_ns, struct err *e)
{
	enum link link = link_between(t->from, t->to);
	if (link == N_LINKS || !l->speeds.of[link].bytes_per_s)
		return err_set(e, ERR_INPUT, "there is no link from %s to %s memory", tier_names[t->from],
			       tier_names[t->to]);
	if (mem_grow((void **)&l->open, &l->cap_open, l->n_open + 1, sizeof *l->open))
		return err_no_memory(e, "copies between tiers");
	int64_t start_ns = l->free_ns[link] > now_ns ? l->free_ns[link] : now_ns;
	for (int i = 0; i < N_LINKS; i++) {
		int64_t after_ns = t->after[i] ? links_end_of(l, t->after[i]) : 0;
		if (after_ns > start_ns)
			start_ns = after_ns;
	}
	int64_t end_ns = start_ns + link_copy_ns(&l->speeds, link, t->n);
	l->free_ns[link] = end_ns;
	l->open[l->n_open++] = (struct open_copy){t->ticket, end_ns, link};
	return ERR_NONE;
}

int64_t links_next_ns(const struct links *l)
{
	int64_t next_ns = INT64_MAX;
	for (int64_t i = 0; i < l->n_open; i++)
		if (l->open[i].end_ns < next_ns)
			next_ns = l->open[i].end_ns;
	return next_ns;
}

static bool comes_before(const struct open_copy *a, const struct open_copy *b)
{
	return a->end_ns != b->end_ns ? a->end_ns < b->end_ns : a->ticket < b->ticket;
}

/* Moves those that are done to the front, in their order; how many. */
static int64_t sort_done(struct links *l, int64_t now_ns)
{
	int64_t n = 0;
	for (int64_t i = 0; i < l->n_open; i++) {
		struct open_copy c = l->open[i];
		if (c.end_ns > now_ns)
			continue;
		int64_t at = n++;
		memmove(l->open + at + 1, l->open + at, (size_t)(i - at) * sizeof c);
		for (; at > 0 && comes_before(&c, &l->open[at - 1]); at--)
			l->open[at] = l->open[at - 1];
		l->open[at] = c;
	}
	return n;
}

int links_done(struct links *l, int64_t now_ns, struct transfer_news *out, struct err *e)
{
	int64_t n = sort_done(l, now_ns);
	if (mem_grow((void **)&l->done, &l->cap_done, n, sizeof *l->done))
		return err_no_memory(e, "copies between tiers");
	for (int64_t i = 0; i < n; i++)
		l->done[i] = l->open[i].ticket;
	l->n_open -= n;
	memmove(l->open, l->open + n, (size_t)l->n_open * sizeof *l->open);
	*out = (struct transfer_news){l->done, (int32_t)n};
	return ERR_NONE;
}
