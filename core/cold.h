/* cold.h: contents that the device had to give up, kept in one tier behind it: pages known by their identity
 * (core/content.h), the one used longest ago going first. Books only: bytes are moved by whoever plans the copies. */
#ifndef CORE_COLD_H
#define CORE_COLD_H

#include <stdbool.h>
#include <stdint.h>

struct err;

#define COLD_NONE (-1)

struct cold_tier {
	int32_t total, used; /* pages */
	uint64_t *key; /* [total] what each holds, 0 = nothing */
	int32_t *chain; /* [mask + 1] first page of those whose identities end alike, COLD_NONE */
	int32_t *chain_next; /* [total]; of empty pages: the next empty one */
	int32_t *newer, *older; /* [total] by last use */
	int32_t newest, oldest, empty;
	int64_t mask;
	uint8_t *pinned; /* [total] must stay for now */
};

/* total 0: nothing is ever there. */
int cold_init(struct cold_tier *t, int32_t total, struct err *e);
void cold_free(struct cold_tier *t);

int32_t cold_find(const struct cold_tier *t, uint64_t key); /* COLD_NONE = not there */
void cold_use(struct cold_tier *t, int32_t page); /* it is the last used now */
/* A page for a content that is not there, at the price of *dropped, the content used longest ago (0: there was an empty
 * one). COLD_NONE: all are pinned. */
int32_t cold_add(struct cold_tier *t, uint64_t key, uint64_t *dropped);
void cold_pin(struct cold_tier *t, int32_t page, bool pinned);

/* NULL, or what is wrong. */
const char *cold_check(const struct cold_tier *t);

#endif
