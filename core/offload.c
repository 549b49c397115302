/* Contents that the prefix cache gives up go to host memory and on to disk, and come back when a lookup finds them. */
#include "core/engine_state.h"
#include "core/mem.h"

/* A page of host memory kept for contents, as copies number it. */
static int32_t host_id(const struct tiers *t, int32_t page)
{
	return t->swap.total + page;
}

/* --- out ---------------------------------------------------------------------------------------------------------- */

/* Host memory gives up a content, whose page is about to be filled anew. */
static int demote(struct engine *g, int32_t page, uint64_t key)
{
	struct tiers *t = &g->tiers;
	uint64_t gone;
	int32_t there = t->disk.total ? cold_find(&t->disk, key) : COLD_NONE;
	if (there != COLD_NONE) {
		cold_use(&t->disk, there);
		return ERR_NONE;
	}
	there = t->disk.total ? cold_add(&t->disk, key, &gone) : COLD_NONE;
	if (there == COLD_NONE) {
		g->stats.cold_dropped_blocks++;
		return ERR_NONE;
	}
	g->stats.cold_dropped_blocks += gone != 0;
	g->stats.demoted_blocks++;
	return tiers_plan_page(g, LINK_HOST_DISK, host_id(t, page), there);
}

/* *page: a host page for a content, whatever was in it going to disk; COLD_NONE: none can be had. */
static int host_page_for(struct engine *g, uint64_t key, int32_t *page)
{
	uint64_t old;
	*page = cold_add(&g->tiers.host, key, &old);
	return *page != COLD_NONE && old ? demote(g, *page, old) : ERR_NONE;
}

void offload_losing(void *ctx, int32_t block, uint64_t key)
{
	struct engine *g = ctx;
	struct tiers *t = &g->tiers;
	/* The pool must not be changed here, nor may this fail: what to do is noted. */
	if (mem_grow((void **)&t->lost, &t->cap_lost, t->n_lost + 1, sizeof *t->lost)) {
		err_no_memory(&g->fault, "what is kept of cold prefixes");
		return;
	}
	t->lost[t->n_lost++] = (struct lost){key, block, COLD_NONE};
}

int offload_save(struct engine *g)
{
	struct tiers *t = &g->tiers;
	/* All pages are found before anything is planned, so that what goes to disk goes in one copy. Those of this
	 * allocation stay until it is over. */
	for (int64_t i = 0; i < t->n_lost; i++) {
		struct lost *x = &t->lost[i];
		int32_t there = cold_find(&t->host, x->key);
		if (there != COLD_NONE) {
			cold_use(&t->host, there);
			continue;
		}
		if (host_page_for(g, x->key, &x->page))
			return ERR_MEMORY;
		if (x->page != COLD_NONE)
			cold_pin(&t->host, x->page, true);
		else
			g->stats.unsaved_blocks++;
	}
	for (int64_t i = 0; i < t->n_lost; i++) {
		const struct lost *x = &t->lost[i];
		if (x->page == COLD_NONE)
			continue;
		cold_pin(&t->host, x->page, false);
		g->stats.saved_blocks++;
		if (tiers_plan_page(g, LINK_DEVICE_HOST, x->block, host_id(t, x->page)))
			return ERR_MEMORY;
	}
	t->n_lost = 0;
	return ERR_NONE;
}

/* --- in ----------------------------------------------------------------------------------------------------------- */

int32_t offload_count(const struct engine *g, struct content_walk walk, int32_t n)
{
	const struct tiers *t = &g->tiers;
	for (int32_t i = 0; i < n; i++) {
		uint64_t key = content_next(&walk);
		if (cold_find(&t->host, key) == COLD_NONE && cold_find(&t->disk, key) == COLD_NONE)
			return i;
	}
	return n;
}

void offload_pin(struct engine *g, struct content_walk walk, int32_t n, bool pinned)
{
	struct tiers *t = &g->tiers;
	for (int32_t i = 0; i < n; i++) {
		uint64_t key = content_next(&walk);
		int32_t host = cold_find(&t->host, key), disk = cold_find(&t->disk, key);
		if (host != COLD_NONE)
			cold_pin(&t->host, host, pinned);
		if (disk != COLD_NONE && (host == COLD_NONE || !pinned))
			cold_pin(&t->disk, disk, pinned);
	}
}

/* One content on disk into host memory, unless no page can be had there; *there: is it? */
static int read_ahead(struct engine *g, uint64_t key, int32_t on_disk, bool *there)
{
	struct tiers *t = &g->tiers;
	int32_t page;
	cold_use(&t->disk, on_disk);
	cold_pin(&t->disk, on_disk, true); /* what makes room for it may go to disk */
	int code = host_page_for(g, key, &page);
	cold_pin(&t->disk, on_disk, false);
	*there = page != COLD_NONE;
	if (code || !*there)
		return code;
	return tiers_plan_page(g, LINK_DISK_HOST, on_disk, host_id(t, page));
}

/* The books move at once: who is admitted before the bytes are there finds them in host memory all the same, and its copy to
 * the device comes after those from disk. Half of host memory for one request at most, so that it does not push out
 * everybody's. */
int offload_prefetch(struct engine *g, int32_t req)
{
	struct tiers *t = &g->tiers;
	int32_t pages = (g->w->specs[req].prompt_tokens - 1) / g->cfg.block_size, most = (t->host.total + 1) / 2, n = 0;
	struct content_walk walk;
	bool on_device = true, there = true;
	content_begin_salted(&walk, g->w, req, g->cfg.block_size, g->cfg.cache_salt);
	for (int32_t i = 0; i < pages && n < most && there; i++) {
		uint64_t key = content_next(&walk);
		int32_t block;
		on_device = on_device && kv_lookup_run(&g->pool, &key, 1, &block) == 1;
		if (on_device)
			continue;
		int32_t on_host = cold_find(&t->host, key), on_disk = cold_find(&t->disk, key);
		if (on_host != COLD_NONE)
			cold_use(&t->host, on_host);
		else if (on_disk == COLD_NONE)
			break;
		else if (read_ahead(g, key, on_disk, &there))
			return ERR_MEMORY;
		else
			n += there;
	}
	g->stats.prefetched_blocks += n;
	if (n)
		engine_event(g, EVENT_PREFETCH, g->now_ns, req, n, 0);
	return ERR_NONE;
}

/* One content of host memory into the block at `place` of the table. */
static int load_page(struct engine *g, struct copy **c, const struct slot *s, int32_t page, int32_t place)
{
	if (!*c && !(*c = tiers_begin_copy(g, LINK_HOST_DEVICE)))
		return ERR_MEMORY;
	return tiers_add_page(g, *c, host_id(&g->tiers, page), slot_table(g, s)->ids[place]);
}

/* Those of the walk's n contents that are in host memory; *loaded: how many it was. */
static int load_from_host(struct engine *g, struct slot *s, struct content_walk walk, int32_t from, int32_t n,
			  int32_t *loaded)
{
	struct tiers *t = &g->tiers;
	struct copy *c = NULL;
	for (int32_t i = 0; i < n; i++) {
		int32_t page = cold_find(&t->host, content_next(&walk));
		if (page == COLD_NONE)
			continue;
		cold_pin(&t->host, page, false);
		cold_use(&t->host, page);
		if (load_page(g, &c, s, page, from + i))
			return ERR_MEMORY;
		++*loaded;
	}
	if (c && *loaded == n && g->cfg.kv_transfer)
		tiers_load_into(c, s, g);
	return ERR_NONE;
}

/* One content on disk into host memory; *page is where. */
static int read_page(struct engine *g, uint64_t key, int32_t *page)
{
	struct tiers *t = &g->tiers;
	int32_t there = cold_find(&t->disk, key);
	cold_use(&t->disk, there);
	if (host_page_for(g, key, page))
		return ERR_MEMORY;
	if (*page == COLD_NONE)
		return err_set(&g->fault, ERR_INVARIANT, "no host page can be had for a content on disk");
	cold_pin(&t->host, *page, true); /* until it was read from there */
	cold_pin(&t->disk, there, false);
	return tiers_plan_page(g, LINK_DISK_HOST, there, host_id(t, *page));
}

/* The n contents that are on disk alone go through host memory, as many at once as that holds, each to its place in the
 * table. */
static int load_from_disk(struct engine *g, struct slot *s, const uint64_t *keys, const int32_t *places, int32_t n)
{
	struct tiers *t = &g->tiers;
	int32_t most = t->host.total;
	for (int32_t at = 0; at < n; at += most) {
		int32_t end = n - at < most ? n : at + most;
		struct copy *c = NULL;
		for (int32_t i = at; i < end; i++) {
			int32_t page;
			if (read_page(g, keys[i], &page))
				return ERR_MEMORY;
		}
		for (int32_t i = at; i < end; i++) {
			int32_t page = cold_find(&t->host, keys[i]);
			cold_pin(&t->host, page, false);
			if (load_page(g, &c, s, page, places[i]))
				return ERR_MEMORY;
		}
		if (c && end == n && g->cfg.kv_transfer)
			tiers_load_into(c, s, g);
	}
	return ERR_NONE;
}

/* What is on disk of the walk's n contents: their identities and places, while host memory does not have them. */
static int32_t list_disk(const struct engine *g, struct content_walk walk, int32_t from, int32_t n, uint64_t *keys,
			 int32_t *places)
{
	int32_t found = 0;
	for (int32_t i = 0; i < n; i++) {
		uint64_t key = content_next(&walk);
		if (cold_find(&g->tiers.host, key) != COLD_NONE)
			continue;
		keys[found] = key;
		places[found++] = from + i;
	}
	return found;
}

int offload_load(struct engine *g, struct slot *s, struct content_walk walk, int32_t from, int32_t n)
{
	int64_t out = g->tiers.after_out, in = g->tiers.after_in;
	int32_t on_host = 0;
	uint64_t *keys = mem_alloc((size_t)n * sizeof *keys);
	int32_t *places = mem_alloc((size_t)n * sizeof *places);
	int code = keys && places ? ERR_NONE : err_no_memory(&g->fault, "a prefix that comes back");
	int32_t on_disk = code ? 0 : list_disk(g, walk, from, n, keys, places);
	if (!code)
		code = load_from_host(g, s, walk, from, n, &on_host);
	if (!code && on_disk)
		code = load_from_disk(g, s, keys, places, on_disk);
	mem_free(keys);
	mem_free(places);
	if (code)
		return ERR_MEMORY;
	offload_pin(g, walk, n, false);
	engine_event(g, EVENT_LOAD, g->now_ns, s->req, on_host, on_disk);
	g->stats.host_hit_blocks += on_host;
	g->stats.disk_hit_blocks += on_disk;
	s->load_pages = n;
	if (!g->cfg.kv_transfer)
		return slot_back(g, s) ? ERR_MEMORY : memory_loaded(g, s);
	g->tiers.after_out = out;
	g->tiers.after_in = in;
	slot_wait_for_pages(g, s);
	return ERR_NONE;
}
