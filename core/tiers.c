/* The books of tiers.h: pools, requests swapped out, copies. What a policy may do with them is in swap.c. */
#include "core/tiers.h"

#include <string.h>

#include "core/engine_state.h"
#include "core/mem.h"

const char *const kv_transfer_names[] = {"sync", "overlap", NULL};

/* --- pools -------------------------------------------------------------------------------------------------------- */

static int pool_init(struct tier_pool *p, int32_t total, struct err *e)
{
	p->free = mem_alloc((size_t)(total > 0 ? total : 1) * sizeof *p->free);
	if (!p->free)
		return err_no_memory(e, "host memory's books");
	p->total = p->n_free = total;
	for (int32_t i = 0; i < total; i++)
		p->free[i] = total - 1 - i;
	return ERR_NONE;
}

void tier_pool_take(struct tier_pool *p, int32_t n, int32_t *ids)
{
	for (int32_t i = 0; i < n; i++)
		ids[i] = p->free[--p->n_free];
}

void tier_pool_give(struct tier_pool *p, const int32_t *ids, int32_t n)
{
	while (n-- > 0)
		p->free[p->n_free++] = ids[n];
}

/* --- beginning and end -------------------------------------------------------------------------------------------- */

static int touched_init(struct tiers *t, enum tier tier, int64_t pages, struct err *e)
{
	t->touched[tier] = mem_zalloc((size_t)(pages > 0 ? pages : 1) * N_LINKS, sizeof *t->touched[tier]);
	return t->touched[tier] ? ERR_NONE : err_no_memory(e, "tiers of memory");
}

int tiers_init(struct engine *g, struct err *e)
{
	struct tiers *t = &g->tiers;
	const struct engine_config *c = &g->cfg;
	size_t n = (size_t)(g->w->n ? g->w->n : 1);
	t->first = t->last = t->free_place = -1;
	t->offload = c->offload_host_blocks > 0;
	t->on = c->swap_blocks > 0 || t->offload;
	if (!t->on)
		return ERR_NONE;
	t->swapped_of = mem_alloc(n * sizeof *t->swapped_of);
	if (!t->swapped_of)
		return err_no_memory(e, "tiers of memory");
	memset(t->swapped_of, 0xff, n * sizeof *t->swapped_of);
	if (touched_init(t, TIER_DEVICE, c->num_blocks, e) ||
	    touched_init(t, TIER_HOST, (int64_t)c->swap_blocks + c->offload_host_blocks, e) ||
	    touched_init(t, TIER_DISK, c->offload_disk_blocks, e) || cold_init(&t->host, c->offload_host_blocks, e) ||
	    cold_init(&t->disk, c->offload_disk_blocks, e))
		return ERR_MEMORY;
	if (t->offload)
		g->pool.watcher = (struct prefix_watcher){offload_losing, g};
	return pool_init(&t->swap, c->swap_blocks, e);
}

static void free_copy(struct copy *c)
{
	mem_free(c->src);
	mem_free(c->dst);
}

void tiers_free(struct engine *g)
{
	struct tiers *t = &g->tiers;
	for (int64_t i = 0; i < t->n_places; i++)
		mem_free(t->swapped[i].pages);
	for (int64_t i = 0; i < t->n_copies; i++)
		free_copy(&t->copies[i]);
	for (int i = 0; i <= TIER_DISK; i++)
		mem_free(t->touched[i]);
	cold_free(&t->host);
	cold_free(&t->disk);
	mem_free(t->lost);
	mem_free(t->swap.free);
	mem_free(t->swapped_of);
	mem_free(t->swapped);
	mem_free(t->copies);
}

/* --- copies ------------------------------------------------------------------------------------------------------- */

static enum tier from_of(enum link l)
{
	static const enum tier from[N_LINKS] = {TIER_DEVICE, TIER_HOST, TIER_HOST, TIER_DISK};
	return from[l];
}

static enum tier to_of(enum link l)
{
	static const enum tier to[N_LINKS] = {TIER_HOST, TIER_DEVICE, TIER_DISK, TIER_HOST};
	return to[l];
}

static int64_t *touches(const struct tiers *t, enum tier tier, int32_t page)
{
	return t->touched[tier] + (int64_t)page * N_LINKS;
}

struct copy *tiers_begin_copy(struct engine *g, enum link link)
{
	struct tiers *t = &g->tiers;
	if (mem_grow((void **)&t->copies, &t->cap_copies, t->n_copies + 1, sizeof *t->copies)) {
		err_no_memory(&g->fault, "copies between tiers");
		return NULL;
	}
	struct copy *c = &t->copies[t->n_copies++];
	*c = (struct copy){.ticket = ++t->last_ticket, .link = link, .slot = -1, .alone = true};
	return c;
}

int tiers_add_page(struct engine *g, struct copy *c, int32_t src, int32_t dst)
{
	struct tiers *t = &g->tiers;
	int64_t *of[2] = {touches(t, from_of(c->link), src), touches(t, to_of(c->link), dst)};
	if (mem_grow((void **)&c->src, &c->cap_src, c->n + 1, sizeof *c->src) ||
	    mem_grow((void **)&c->dst, &c->cap_dst, c->n + 1, sizeof *c->dst))
		return err_no_memory(&g->fault, "copies between tiers");
	c->src[c->n] = src;
	c->dst[c->n++] = dst;
	for (int i = 0; i < 2; i++) {
		for (int l = 0; l < N_LINKS; l++)
			if (l != (int)c->link && of[i][l] > c->after[l])
				c->after[l] = of[i][l];
		of[i][c->link] = c->ticket;
	}
	return ERR_NONE;
}

/* May a copy of src to dst be a part of c? All that it has to come after must have been planned before c. */
static bool may_join(const struct tiers *t, const struct copy *c, int32_t src, int32_t dst)
{
	const int64_t *a = touches(t, from_of(c->link), src), *b = touches(t, to_of(c->link), dst);
	if (c->started || c->alone)
		return false;
	for (int l = 0; l < N_LINKS; l++)
		if (a[l] >= c->ticket || b[l] >= c->ticket)
			return false;
	return true;
}

int tiers_plan_page(struct engine *g, enum link link, int32_t src, int32_t dst)
{
	struct tiers *t = &g->tiers;
	int64_t i = t->n_copies;
	while (i > 0 && !t->copies[i - 1].started && t->copies[i - 1].link != link)
		i--;
	struct copy *c = i > 0 && may_join(t, &t->copies[i - 1], src, dst) ? &t->copies[i - 1] : NULL;
	if (!c && (c = tiers_begin_copy(g, link)))
		c->alone = false;
	return c ? tiers_add_page(g, c, src, dst) : ERR_MEMORY;
}

void tiers_load_into(struct copy *c, const struct slot *s, const struct engine *g)
{
	c->slot = (int32_t)(s - g->slots);
	c->epoch = s->epoch;
}

void tiers_taken(struct engine *g, const int32_t *ids, int32_t n)
{
	struct tiers *t = &g->tiers;
	for (int32_t i = 0; i < n; i++) {
		const int64_t *last = touches(t, TIER_DEVICE, ids[i]);
		if (last[LINK_DEVICE_HOST] > t->after_out)
			t->after_out = last[LINK_DEVICE_HOST];
		if (last[LINK_HOST_DEVICE] > t->after_in)
			t->after_in = last[LINK_HOST_DEVICE];
	}
}

void tiers_close(struct engine *g, struct batch *b)
{
	struct tiers *t = &g->tiers;
	for (int64_t i = 0; i < t->n_copies && !g->cfg.kv_transfer; i++) {
		if (t->copies[i].link == LINK_DEVICE_HOST)
			t->after_out = t->copies[i].ticket;
		if (t->copies[i].link == LINK_HOST_DEVICE)
			t->after_in = t->copies[i].ticket;
	}
	b->after_out = t->after_out;
	b->after_in = t->after_in;
	t->after_out = t->after_in = 0;
}

int engine_start_transfers(struct engine *g, struct backend *b, struct err *e)
{
	struct tiers *t = &g->tiers;
	int64_t first = t->n_copies;
	while (first > 0 && !t->copies[first - 1].started)
		first--;
	for (int64_t i = first; i < t->n_copies; i++) {
		struct copy *c = &t->copies[i];
		struct transfer x = {.ticket = c->ticket,
				     .from = from_of(c->link),
				     .to = to_of(c->link),
				     .src = c->src,
				     .dst = c->dst,
				     .n = c->n};
		memcpy(x.after, c->after, sizeof x.after);
		if (!b->ops->transfer)
			return err_set(
				e, ERR_INPUT,
				"backend %s has one tier of memory: do without --swap-space and --kv-offload-host",
				b->ops->name);
		int code = b->ops->transfer(b->self, &x, e);
		if (code)
			return code;
		c->started = true;
	}
	return ERR_NONE;
}

/* Its pages are there: it may run. */
static int loaded(struct engine *g, const struct copy *c)
{
	struct slot *s = &g->slots[c->slot];
	if (s->epoch != c->epoch)
		return ERR_NONE;
	struct request *r = &g->requests[s->req];
	int64_t waited_ns = g->now_ns - s->load_ns;
	r->transfer_ns += waited_ns;
	if (r->first_token_ns < 0)
		r->transfer_in_prefill_ns += waited_ns;
	engine_event(g, EVENT_LOADED, g->now_ns, s->req, c->n, 0);
	return slot_go_on(g, s);
}

static int copy_done(struct engine *g, int64_t ticket)
{
	struct tiers *t = &g->tiers;
	int64_t at = 0;
	while (at < t->n_copies && t->copies[at].ticket != ticket)
		at++;
	if (at == t->n_copies)
		return err_set(&g->fault, ERR_INVARIANT, "the backend tells of copy %lld, which is not under way",
			       (long long)ticket);
	struct copy c = t->copies[at];
	t->n_copies--;
	memmove(t->copies + at, t->copies + at + 1, (size_t)(t->n_copies - at) * sizeof *t->copies);
	if (c.gives_back)
		tier_pool_give(&t->swap, c.link == LINK_HOST_DEVICE ? c.src : c.dst, c.n);
	int code = c.slot >= 0 ? loaded(g, &c) : ERR_NONE;
	free_copy(&c);
	return code;
}

bool engine_transfers_open(const struct engine *g)
{
	return g->tiers.n_copies > 0;
}

int engine_transfers_done(struct engine *g, struct backend *b, int64_t now_ns, struct err *e)
{
	struct transfer_news news;
	if (!g->tiers.n_copies)
		return ERR_NONE;
	int code = b->ops->transfers_done(b->self, &news, e);
	g->now_ns = now_ns;
	g->event_step = g->begun;
	for (int32_t i = 0; i < news.n && !code; i++)
		if (copy_done(g, news.done[i]))
			code = err_set(e, g->fault.code, "%s", g->fault.text);
	return code;
}

/* --- requests swapped out ------------------------------------------------------------------------------------------ */

static bool goes_before(const struct engine *g, int32_t a, int32_t b)
{
	const struct request *x = &g->requests[a], *y = &g->requests[b];
	int32_t p = g->w->specs[a].priority, q = g->w->specs[b].priority;
	if (g->cfg.queue_order == QUEUE_PRIORITY && p != q)
		return p < q;
	return x->arrival_ns != y->arrival_ns ? x->arrival_ns < y->arrival_ns : a < b;
}

struct swapped *tiers_add_swapped(struct engine *g, int32_t req, int32_t n)
{
	struct tiers *t = &g->tiers;
	int32_t *pages = mem_alloc((size_t)(n > 0 ? n : 1) * sizeof *pages);
	if (!pages || (t->free_place < 0 &&
		       mem_grow((void **)&t->swapped, &t->cap_swapped, t->n_places + 1, sizeof *t->swapped))) {
		mem_free(pages);
		err_no_memory(&g->fault, "requests swapped out");
		return NULL;
	}
	int32_t id = t->free_place;
	if (id < 0)
		id = (int32_t)t->n_places++;
	else
		t->free_place = t->swapped[id].next;
	int32_t after = t->last;
	while (after >= 0 && goes_before(g, req, t->swapped[after].req))
		after = t->swapped[after].prev;
	int32_t before = after < 0 ? t->first : t->swapped[after].next;
	t->swapped[id] = (struct swapped){.req = req, .next = before, .prev = after, .pages = pages, .n = n};
	*(after < 0 ? &t->first : &t->swapped[after].next) = id;
	*(before < 0 ? &t->last : &t->swapped[before].prev) = id;
	t->n_swapped++;
	t->swapped_of[req] = id;
	tier_pool_take(&t->swap, n, pages);
	return &t->swapped[id];
}

void tiers_forget_swapped(struct engine *g, int32_t req)
{
	struct tiers *t = &g->tiers;
	int32_t id = t->swapped_of[req];
	struct swapped *x = &t->swapped[id];
	*(x->prev < 0 ? &t->first : &t->swapped[x->prev].next) = x->next;
	*(x->next < 0 ? &t->last : &t->swapped[x->next].prev) = x->prev;
	mem_free(x->pages);
	*x = (struct swapped){.req = -1, .next = t->free_place};
	t->free_place = id;
	t->n_swapped--;
	t->swapped_of[req] = -1;
}

void tiers_drop_swapped(struct engine *g, int32_t req)
{
	struct tiers *t = &g->tiers;
	const struct swapped *x = &t->swapped[t->swapped_of[req]];
	bool under_way = false;
	for (int64_t i = 0; i < t->n_copies; i++)
		if (t->copies[i].ticket == x->ticket)
			under_way = t->copies[i].gives_back = true;
	if (!under_way)
		tier_pool_give(&t->swap, x->pages, x->n);
	tiers_forget_swapped(g, req);
}

/* --- invariants ---------------------------------------------------------------------------------------------------- */

#define EXPECT(ok, ...)                                                                                                \
	do {                                                                                                           \
		if (!(ok))                                                                                             \
			return err_set(e, ERR_INVARIANT, __VA_ARGS__);                                                 \
	} while (0)

static int note_holder(const struct tiers *t, uint8_t *seen, int32_t page, const char *who, struct err *e)
{
	EXPECT(page >= 0 && page < t->swap.total, "%s holds host page %d of %d", who, page, t->swap.total);
	EXPECT(!seen[page], "host page %d is held twice, the second time by %s", page, who);
	seen[page] = 1;
	return ERR_NONE;
}

static int check_swap_pages(const struct engine *g, uint8_t *seen, struct err *e)
{
	const struct tiers *t = &g->tiers;
	int64_t held = 0;
	int32_t n = 0, last = -1;
	int code = ERR_NONE;
	for (int32_t i = 0; i < t->swap.n_free && !code; i++)
		code = note_holder(t, seen, t->swap.free[i], "the free list", e);
	for (int32_t id = t->first; id >= 0 && !code; id = t->swapped[id].next, n++) {
		const struct swapped *x = &t->swapped[id];
		EXPECT(t->swapped_of[x->req] == id && g->slot_of[x->req] < 0 &&
			       g->requests[x->req].state == REQUEST_PREEMPTED,
		       "a request swapped out is somewhere else, too");
		EXPECT(last < 0 || goes_before(g, last, x->req), "requests swapped out are out of order");
		last = x->req;
		held += x->n;
		for (int32_t i = 0; i < x->n && !code; i++)
			code = note_holder(t, seen, x->pages[i], "a request swapped out", e);
	}
	for (int64_t i = 0; i < t->n_copies && !code; i++) {
		const struct copy *c = &t->copies[i];
		held += c->gives_back ? c->n : 0;
		for (int32_t k = 0; k < c->n && c->gives_back && !code; k++)
			code = note_holder(t, seen, c->link == LINK_HOST_DEVICE ? c->src[k] : c->dst[k], "a copy", e);
	}
	if (code)
		return code;
	EXPECT(n == t->n_swapped, "%d requests are swapped out, %d counted", n, t->n_swapped);
	EXPECT(held + t->swap.n_free == t->swap.total, "%lld held + %d free host pages are not %d", (long long)held,
	       t->swap.n_free, t->swap.total);
	return ERR_NONE;
}

int tiers_check(const struct engine *g, struct err *e)
{
	int32_t loading = 0;
	if (!g->tiers.on)
		return ERR_NONE;
	for (int32_t i = g->running.head; i >= 0; i = g->slots[i].run_next)
		loading += g->slots[i].part == PART_LOADING;
	EXPECT(loading == g->tiers.n_loading, "%d requests wait for their pages, %d counted", loading,
	       g->tiers.n_loading);
	const char *wrong = cold_check(&g->tiers.host), *deep = cold_check(&g->tiers.disk);
	EXPECT(!wrong && !deep, "contents kept %s: %s", wrong ? "in host memory" : "on disk", wrong ? wrong : deep);
	uint8_t *seen = mem_zalloc((size_t)g->tiers.swap.total + 1, 1);
	if (!seen)
		return err_no_memory(e, "checking invariants");
	int code = check_swap_pages(g, seen, e);
	mem_free(seen);
	return code;
}
