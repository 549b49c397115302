#include "core/tick_heap.h"

#include <stdbool.h>
#include <string.h>

#include "core/err.h"
#include "core/mem.h"

int tick_heap_resize(struct tick_heap *h, int32_t old_slots, int32_t slots, struct err *e)
{
	struct tick_entry *at = mem_realloc(h->at, (size_t)slots * sizeof *at);
	if (at)
		h->at = at;
	int32_t *place = mem_realloc(h->place, (size_t)slots * sizeof *place);
	if (place)
		h->place = place;
	if (!at || !place)
		return err_no_memory(e, "running requests");
	for (int32_t i = old_slots; i < slots; i++)
		place[i] = -1;
	return ERR_NONE;
}

void tick_heap_free(struct tick_heap *h)
{
	mem_free(h->at);
	mem_free(h->place);
	memset(h, 0, sizeof *h);
}

static bool before(const struct tick_entry *a, const struct tick_entry *b)
{
	return a->tick != b->tick ? a->tick < b->tick : a->order < b->order;
}

static void settle(struct tick_heap *h, int64_t k, struct tick_entry x)
{
	h->at[k] = x;
	h->place[x.slot] = (int32_t)k;
}

static void sift_up(struct tick_heap *h, int64_t k, struct tick_entry x)
{
	for (; k > 0 && before(&x, &h->at[(k - 1) / 2]); k = (k - 1) / 2)
		settle(h, k, h->at[(k - 1) / 2]);
	settle(h, k, x);
}

static void sift_down(struct tick_heap *h, int64_t k, struct tick_entry x)
{
	for (int64_t child; (child = 2 * k + 1) < h->n; k = child) {
		if (child + 1 < h->n && before(&h->at[child + 1], &h->at[child]))
			child++;
		if (!before(&h->at[child], &x))
			break;
		settle(h, k, h->at[child]);
	}
	settle(h, k, x);
}

static void place_at(struct tick_heap *h, int64_t k, struct tick_entry x)
{
	if (k > 0 && before(&x, &h->at[(k - 1) / 2]))
		sift_up(h, k, x);
	else
		sift_down(h, k, x);
}

void tick_heap_put(struct tick_heap *h, int32_t slot, int64_t tick, int64_t order)
{
	int64_t k = h->place[slot];
	struct tick_entry x = {tick, order, slot};
	if (k < 0)
		sift_up(h, h->n++, x);
	else
		place_at(h, k, x);
}

void tick_heap_take(struct tick_heap *h, int32_t slot)
{
	int64_t k = h->place[slot];
	if (k < 0)
		return;
	h->place[slot] = -1;
	struct tick_entry last = h->at[--h->n];
	if (k < h->n)
		place_at(h, k, last);
}
