/* tiers.h: memory behind the device's: whose pages lie there, and the copies that bring them there and back. The engine
 * decides, the backend moves (core/backend.h).
 *
 * Two things go there. A request that is swapped out takes its KV with it and comes back (core/swap.c). What the prefix
 * cache evicts is kept: in host memory, from where the contents used longest ago go on to the disk, and there they are
 * dropped in the end; a later lookup finds them by their identity and brings them back (core/offload.c). What comes back
 * stays where it was as well, so that evicting it again costs nothing.
 *
 * The books move at once, the bytes later: each page of each tier knows the last copy on each link that touches it, and
 * whoever uses the page next comes after those: a copy by transfer.after, a batch by batch.after_out and after_in. Only the
 * host pages of a request that comes back stay its copy's until that is done.
 *
 * How a request waits for its pages is a choice (engine_config.kv_transfer):
 *   sync     it goes on in the step that brings them back, and the whole step waits for every copy begun before it
 *   overlap  it holds its place and its pages, but runs only once a later round hears that the copy is done */
#ifndef CORE_TIERS_H
#define CORE_TIERS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/backend.h"
#include "core/cold.h"

struct engine;
struct slot;
struct content_walk;
struct err;

/* Pages of one tier that nobody holds; the one given back last is taken first. */
struct tier_pool {
	int32_t total, n_free;
	int32_t *free; /* [n_free] */
};

/* A request whose KV lies in host memory. */
struct swapped {
	int32_t req;
	int32_t next, prev; /* by arrival, or by priority and arrival; next also chains empty places */
	int32_t computed, outputs, emitted, pad, peak, keep_tokens; /* its slot's, as it left */
	bool decodes; /* its prompt was computed */
	int32_t *pages; /* [n] in host memory */
	int32_t n;
	int64_t ticket; /* of the copy that brought them there */
};

/* A copy that is planned or under way. */
struct copy {
	int64_t ticket, after[N_LINKS];
	enum link link;
	int32_t n;
	int32_t *src, *dst; /* [n] */
	int64_t cap_src, cap_dst;
	bool started; /* the backend has it */
	bool alone; /* no other pages may join it */
	bool gives_back; /* its host pages are nobody's once it is done */
	int32_t slot; /* that waits for it (overlap); -1 = none */
	uint32_t epoch;
};

struct lost { /* what an allocation evicts */
	uint64_t key;
	int32_t block, page; /* on the device; in host memory, cold.h's number */
};

struct tiers {
	bool on;
	bool offload; /* evicted contents are kept */
	struct tier_pool swap; /* host pages for requests swapped out */

	int32_t *swapped_of; /* [w->n] place in swapped, -1 */
	struct swapped *swapped; /* [n_places] */
	int64_t n_places, cap_swapped;
	int32_t first, last, n_swapped, free_place;

	struct copy *copies; /* [n_copies] by ticket */
	int64_t n_copies, cap_copies;
	int64_t last_ticket;
	int32_t n_loading; /* slots that wait for a copy */

	struct cold_tier host, disk; /* host page i is number swap.total + i there */
	struct lost *lost; /* [n_lost] while an allocation goes on */
	int64_t n_lost, cap_lost;

	/* The last copy on each link that touches a page; 0 = none did. */
	int64_t *touched[TIER_DISK + 1]; /* [pages x N_LINKS] */
	int64_t after_out, after_in; /* what the pages given away since the last batch have to wait for */
};

int tiers_init(struct engine *g, struct err *e);
void tiers_free(struct engine *g);

/* Somebody was given these device pages. */
void tiers_taken(struct engine *g, const int32_t *ids, int32_t n);
/* What a batch planned now has to wait for. */
void tiers_close(struct engine *g, struct batch *b);

static inline bool tiers_swapped(const struct tiers *t, int32_t req)
{
	return t->on && t->swapped_of[req] >= 0;
}

void tier_pool_take(struct tier_pool *p, int32_t n, int32_t *ids); /* the caller checked that n are free */
void tier_pool_give(struct tier_pool *p, const int32_t *ids, int32_t n);

/* A copy over a link, of no page yet, which nobody else adds to. NULL: out of memory, in g->fault. The result lives until
 * the next one is planned. */
struct copy *tiers_begin_copy(struct engine *g, enum link link);
/* ERR_MEMORY, in g->fault. */
int tiers_add_page(struct engine *g, struct copy *c, int32_t src, int32_t dst);
/* One page, in the last copy over that link if it has not begun and nothing stands against it, else in a new one. */
int tiers_plan_page(struct engine *g, enum link link, int32_t src, int32_t dst);
void tiers_load_into(struct copy *c, const struct slot *s, const struct engine *g); /* slot s waits for c */

/* offload.c */
void offload_losing(void *ctx, int32_t block, uint64_t key); /* prefix_watcher.losing; ctx: the engine */
int offload_save(struct engine *g); /* right after the allocation; ERR_MEMORY in g->fault */
/* How many contents of the walk, at most n, are behind the device, one after the other. */
int32_t offload_count(const struct engine *g, struct content_walk walk, int32_t n);
/* They stay there until offload_load. */
void offload_pin(struct engine *g, struct content_walk walk, int32_t n, bool pinned);
/* A request has come: what its prompt begins with and is on disk is read into host memory while it waits. ERR_MEMORY, in
 * g->fault. */
int offload_prefetch(struct engine *g, int32_t req);
/* Pages from ... from + n - 1 of s's table are filled with the contents of the walk. */
int offload_load(struct engine *g, struct slot *s, struct content_walk walk, int32_t from, int32_t n);

/* A request joins those swapped out, with n host pages. NULL: out of memory, in g->fault. */
struct swapped *tiers_add_swapped(struct engine *g, int32_t req, int32_t n);
/* It leaves them; its host pages are somebody else's by now. */
void tiers_forget_swapped(struct engine *g, int32_t req);
/* It leaves them for good. Its host pages go back, once nobody copies to them. */
void tiers_drop_swapped(struct engine *g, int32_t req);

int tiers_check(const struct engine *g, struct err *e);

#endif
