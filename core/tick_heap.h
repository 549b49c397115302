/* tick_heap.h: slots ordered by the decode tick at which something happens to them (they finish, they reach the window),
 * ties by admission order. A slot can be moved or taken out: its place is kept. */
#ifndef CORE_TICK_HEAP_H
#define CORE_TICK_HEAP_H

#include <stdint.h>

struct err;

struct tick_entry {
	int64_t tick;
	int64_t order;
	int32_t slot;
};

struct tick_heap {
	struct tick_entry *at; /* [n] */
	int32_t *place; /* [slots] index in at[], -1 = not in it */
	int64_t n;
};

/* Room for slots 0 .. slots - 1. */
int tick_heap_resize(struct tick_heap *h, int32_t old_slots, int32_t slots, struct err *e);
void tick_heap_free(struct tick_heap *h);

void tick_heap_put(struct tick_heap *h, int32_t slot, int64_t tick, int64_t order); /* in, or moved */
void tick_heap_take(struct tick_heap *h, int32_t slot); /* out, if it is in */

static inline int64_t tick_heap_first(const struct tick_heap *h)
{
	return h->n ? h->at[0].tick : INT64_MAX;
}

#endif
