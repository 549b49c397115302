#include "core/cold.h"

#include <string.h>

#include "core/err.h"
#include "core/mem.h"

int cold_init(struct cold_tier *t, int32_t total, struct err *e)
{
	size_t n = (size_t)total, chains = 16;
	*t = (struct cold_tier){.newest = COLD_NONE, .oldest = COLD_NONE, .empty = COLD_NONE};
	if (!total)
		return ERR_NONE;
	while (chains < n)
		chains *= 2;
	t->key = mem_zalloc(n, sizeof *t->key);
	t->chain = mem_alloc(chains * sizeof *t->chain);
	t->chain_next = mem_alloc(n * sizeof *t->chain_next);
	t->newer = mem_alloc(n * sizeof *t->newer);
	t->older = mem_alloc(n * sizeof *t->older);
	t->pinned = mem_zalloc(n, 1);
	if (!t->key || !t->chain || !t->chain_next || !t->newer || !t->older || !t->pinned) {
		cold_free(t);
		return err_no_memory(e, "what is kept of cold prefixes");
	}
	t->total = total;
	t->mask = (int64_t)chains - 1;
	memset(t->chain, 0xff, chains * sizeof *t->chain);
	for (int32_t i = total; i-- > 0; t->empty = i)
		t->chain_next[i] = t->empty;
	return ERR_NONE;
}

void cold_free(struct cold_tier *t)
{
	mem_free(t->key);
	mem_free(t->chain);
	mem_free(t->chain_next);
	mem_free(t->newer);
	mem_free(t->older);
	mem_free(t->pinned);
	*t = (struct cold_tier){.newest = COLD_NONE, .oldest = COLD_NONE, .empty = COLD_NONE};
}

static int32_t *chain_of(const struct cold_tier *t, uint64_t key)
{
	return &t->chain[key & (uint64_t)t->mask];
}

int32_t cold_find(const struct cold_tier *t, uint64_t key)
{
	if (!t->used)
		return COLD_NONE;
	int32_t page = *chain_of(t, key);
	while (page != COLD_NONE && t->key[page] != key)
		page = t->chain_next[page];
	return page;
}

static void unlink_use(struct cold_tier *t, int32_t page)
{
	int32_t newer = t->newer[page], older = t->older[page];
	*(newer == COLD_NONE ? &t->newest : &t->older[newer]) = older;
	*(older == COLD_NONE ? &t->oldest : &t->newer[older]) = newer;
}

static void link_newest(struct cold_tier *t, int32_t page)
{
	t->newer[page] = COLD_NONE;
	t->older[page] = t->newest;
	*(t->newest == COLD_NONE ? &t->oldest : &t->newer[t->newest]) = page;
	t->newest = page;
}

void cold_use(struct cold_tier *t, int32_t page)
{
	unlink_use(t, page);
	link_newest(t, page);
}

static void forget(struct cold_tier *t, int32_t page)
{
	int32_t *at = chain_of(t, t->key[page]);
	while (*at != page)
		at = &t->chain_next[*at];
	*at = t->chain_next[page];
	unlink_use(t, page);
	t->key[page] = 0;
	t->used--;
}

int32_t cold_add(struct cold_tier *t, uint64_t key, uint64_t *dropped)
{
	int32_t page = t->empty;
	*dropped = 0;
	if (page != COLD_NONE) {
		t->empty = t->chain_next[page];
	} else {
		page = t->oldest;
		while (page != COLD_NONE && t->pinned[page])
			page = t->newer[page];
		if (page == COLD_NONE)
			return COLD_NONE;
		*dropped = t->key[page];
		forget(t, page);
	}
	t->key[page] = key;
	t->chain_next[page] = *chain_of(t, key);
	*chain_of(t, key) = page;
	link_newest(t, page);
	t->used++;
	return page;
}

void cold_pin(struct cold_tier *t, int32_t page, bool pinned)
{
	t->pinned[page] = pinned;
}

const char *cold_check(const struct cold_tier *t)
{
	int32_t used = 0, empty = 0, last = COLD_NONE;
	for (int32_t i = t->oldest; i != COLD_NONE; i = t->newer[i], used++) {
		if (!t->key[i] || cold_find(t, t->key[i]) != i)
			return "a content cannot be found";
		if (t->older[i] != last || used >= t->total)
			return "the order of use is broken";
		if (t->pinned[i])
			return "a page is still pinned";
		last = i;
	}
	for (int32_t i = t->empty; i != COLD_NONE && empty <= t->total; i = t->chain_next[i], empty++)
		if (t->key[i])
			return "an empty page holds something";
	if (last != t->newest)
		return "the order of use has another end";
	return used == t->used && used + empty == t->total ? NULL : "pages in use and empty ones are not all";
}
