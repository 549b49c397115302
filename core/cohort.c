#include "core/cohort.h"

#include <string.h>

#include "core/engine_state.h"
#include "core/mem.h"
#include "core/order_fair.h"

int cohort_init(struct engine *g, struct err *e)
{
	struct cohort *c = &g->cohort;
	c->list = (struct slot_list){-1, -1, 0};
	c->wheel = mem_alloc((size_t)g->cfg.block_size * sizeof *c->wheel);
	if (!c->wheel)
		return err_no_memory(e, "decode wheel");
	for (int32_t i = 0; i < g->cfg.block_size; i++)
		c->wheel[i] = (struct slot_list){-1, -1, 0};
	return ERR_NONE;
}

void cohort_free(struct engine *g)
{
	mem_free(g->cohort.wheel);
	mem_free(g->cohort.fresh);
	tick_heap_free(&g->cohort.ends);
	tick_heap_free(&g->cohort.crossings);
	tick_heap_free(&g->cohort.branches);
}

/* --- the wheel -------------------------------------------------------------------------------------------------- */

/* The bucket that is due `ticks` from now. */
static int32_t bucket_in(const struct engine *g, int32_t ticks)
{
	int32_t bs = g->cfg.block_size, at = (g->cohort.due + ticks) % bs;
	return at < 0 ? at + bs : at;
}

static void wheel_add(struct engine *g, struct slot *s)
{
	/* Its next token goes to position computed + pad, one further with each tick: a new block is due when that is
	 * a multiple of the block size. */
	s->bucket = bucket_in(g, -((s->computed + s->pad) % g->cfg.block_size));
	struct slot_list *b = &g->cohort.wheel[s->bucket];
	int32_t id = (int32_t)(s - g->slots), after = b->tail;
	while (after >= 0 && g->slots[after].order > s->order)
		after = g->slots[after].bucket_prev;
	int32_t before = after < 0 ? b->head : g->bucket_next[after];
	s->bucket_prev = after;
	g->bucket_next[id] = before;
	*(after < 0 ? &b->head : &g->bucket_next[after]) = id;
	*(before < 0 ? &b->tail : &g->slots[before].bucket_prev) = id;
	b->n++;
}

static void wheel_drop(struct engine *g, struct slot *s)
{
	if (s->bucket < 0)
		return;
	struct slot_list *b = &g->cohort.wheel[s->bucket];
	int32_t prev = s->bucket_prev, next = g->bucket_next[s - g->slots];
	*(prev < 0 ? &b->head : &g->bucket_next[prev]) = next;
	*(next < 0 ? &b->tail : &g->slots[next].bucket_prev) = prev;
	b->n--;
	s->bucket = -1;
}

static bool lacks_block(const struct engine *g, const struct slot *s)
{
	return (int64_t)slot_table(g, s)->n * g->cfg.block_size <= slot_computed(g, s) + s->pad;
}

int32_t cohort_demand(const struct engine *g)
{
	int32_t n = 0;
	for (int32_t i = g->cohort.wheel[g->cohort.due].head; i >= 0; i = g->bucket_next[i])
		n += lacks_block(g, &g->slots[i]);
	return n;
}

/* One block for each member of a bucket where none holds one ahead and nothing is cached: how many, or -1. The pool's
 * fields stay in registers; this is what most of a long run's time goes to. */
static inline int32_t serve_plain(struct engine *g, int32_t head)
{
	struct block_table *tables = g->tables;
	const int32_t *ring = g->pool.ring, *next = g->bucket_next;
	int64_t at = g->pool.head, mask = g->pool.ring_mask;
	int32_t n = 0;
	for (int32_t i = head; i >= 0; i = next[i], n++) {
		struct block_table *t = &tables[i];
		if (t->n == t->cap && memory_table_room(g, &g->slots[i], 1))
			return -1;
		t->ids[t->n++] = ring[at++ & mask];
	}
	g->pool.head = at;
	g->pool.n_free -= n;
	return n;
}

static int32_t serve_any(struct engine *g, int32_t head)
{
	int32_t n = 0;
	for (int32_t i = head; i >= 0; i = g->bucket_next[i]) {
		struct slot *s = &g->slots[i];
		if (!lacks_block(g, s))
			continue;
		if (memory_append(g, s, 1))
			return -1;
		n++;
	}
	return n;
}

/* Gives the members of one bucket their blocks; how many, or -1. */
static inline int32_t serve_bucket(struct engine *g, int32_t head)
{
	return g->reserves_ahead || g->pool.ref || g->tiers.n_copies ? serve_any(g, head) : serve_plain(g, head);
}

int32_t cohort_take_blocks(struct engine *g)
{
	return serve_bucket(g, g->cohort.wheel[g->cohort.due].head);
}

int cohort_turn_run(struct engine *g, int64_t start_ns, const int64_t *end_ns, int64_t steps, struct wheel_run *out)
{
	struct cohort *c = &g->cohort;
	const struct slot_list *wheel = c->wheel;
	int32_t due = c->due, size = g->cfg.block_size, taken = 0;
	int64_t tick = c->tick, last_ns = end_ns[steps - 1], block_ns = 0, elapsed_ns = 0;
	bool paged = !g->contiguous;
	for (int64_t i = 0; i < steps && paged; i++) {
		if (wheel[due].head >= 0) {
			c->tick = tick + i; /* who holds a block ahead is told by the tokens it has at this tick */
			int32_t n = serve_bucket(g, wheel[due].head);
			if (n < 0)
				return ERR_MEMORY;
			taken += n;
			block_ns += n * (last_ns - (i ? end_ns[i - 1] : start_ns));
		}
		if (++due == size)
			due = 0;
	}
	for (int64_t i = 0; i + 1 < steps; i++)
		elapsed_ns += end_ns[i] - start_ns;
	c->due = due;
	c->tick = tick + steps;
	/* Sum over the steps of (number of the step, from 1) x duration, by parts. */
	*out = (struct wheel_run){
		.taken = taken, .block_ns = block_ns, .step_ns = steps * (last_ns - start_ns) - elapsed_ns};
	return ERR_NONE;
}

/* --- joining and leaving ---------------------------------------------------------------------------------------- */

static void window_add(struct engine *g, struct slot *s)
{
	struct cohort *c = &g->cohort;
	int32_t window = g->cfg.window, next_ctx = s->computed + s->pad + 1;
	if (!window || next_ctx >= window) {
		c->ctx_window += window ? window : next_ctx;
		c->below += !window;
		return;
	}
	c->ctx_window += next_ctx;
	c->below++;
	if (!g->flat)
		tick_heap_put(&c->crossings, (int32_t)(s - g->slots), c->tick + window - next_ctx, s->order);
}

static void window_drop(struct engine *g, struct slot *s)
{
	struct cohort *c = &g->cohort;
	int32_t window = g->cfg.window, next_ctx = s->computed + s->pad + 1;
	bool below = !window || next_ctx < window;
	c->ctx_window -= below ? next_ctx : window;
	c->below -= below;
	tick_heap_take(&c->crossings, (int32_t)(s - g->slots));
}

void cohort_branch(struct engine *g, const struct slot *s)
{
	int32_t id = (int32_t)(s - g->slots), computed = slot_computed(g, s), next = fork_next(g, s->req, computed);
	if (next < INT32_MAX)
		tick_heap_put(&g->cohort.branches, id, g->cohort.tick + next - computed, s->order);
	else
		tick_heap_take(&g->cohort.branches, id);
}

void cohort_join(struct engine *g, struct slot *s)
{
	struct cohort *c = &g->cohort;
	int32_t id = (int32_t)(s - g->slots);
	slot_list_drop(g, &g->prefilling, id);
	s->part = PART_COHORT;
	s->base_tick = c->tick;
	slot_list_add(g, &c->list, id);
	c->ctx += s->computed + s->pad - s->dropped;
	window_add(g, s);
	if (g->flat)
		return;
	if (!g->contiguous)
		wheel_add(g, s);
	tick_heap_put(&c->ends, id, c->tick + s->bound - s->outputs, s->order);
	if (g->waiting.fair)
		fair_decodes(g->waiting.fair, s->req, 1);
	if (s->next_fork < INT32_MAX)
		cohort_branch(g, s);
}

void cohort_leave(struct engine *g, struct slot *s)
{
	struct cohort *c = &g->cohort;
	int32_t id = (int32_t)(s - g->slots);
	s->computed = slot_computed(g, s);
	s->outputs = slot_outputs(g, s);
	s->base_tick = c->tick;
	if (!g->flat)
		s->emitted = s->outputs;
	if (!g->flat && g->waiting.fair)
		fair_decodes(g->waiting.fair, s->req, -1);
	c->ctx -= s->computed + s->pad - s->dropped;
	window_drop(g, s);
	wheel_drop(g, s);
	tick_heap_take(&c->ends, id);
	if (g->forks.of)
		tick_heap_take(&c->branches, id);
	cohort_clear_fresh(g, s);
	slot_list_drop(g, &c->list, id);
}

void cohort_skipped(struct engine *g, struct slot *s)
{
	struct cohort *c = &g->cohort;
	int32_t id = (int32_t)(s - g->slots);
	int64_t end = c->ends.at[c->ends.place[id]].tick;
	/* The tick moved on without it: undo its share of the sums, then key it again at the present tick. */
	c->ctx -= slot_computed(g, s) + s->pad;
	s->computed = slot_computed(g, s);
	s->outputs = slot_outputs(g, s);
	s->base_tick = c->tick;
	window_drop(g, s);
	s->computed--;
	s->outputs--;
	g->hold.resident--;
	c->ctx += s->computed + s->pad;
	window_add(g, s);
	if (s->bucket >= 0) {
		wheel_drop(g, s);
		wheel_add(g, s);
	}
	tick_heap_put(&c->ends, id, end + 1, s->order);
	if (g->waiting.fair)
		fair_charge(g->waiting.fair, s->req, 0, -1);
	if (s->next_fork < INT32_MAX)
		cohort_branch(g, s);
}

/* --- ticking ---------------------------------------------------------------------------------------------------- */

/* The members for whom the next tick is due for a new block. */
int cohort_remember(struct engine *g, struct step *st)
{
	const struct slot_list *b = &g->cohort.wheel[bucket_in(g, 1)];
	for (int32_t i = b->head; i >= 0; i = g->bucket_next[i]) {
		struct slot *s = &g->slots[i];
		if (memory_remember(g, s, slot_computed(g, s) + 1, st))
			return ERR_MEMORY;
	}
	return ERR_NONE;
}

static void turn(struct engine *g)
{
	g->cohort.tick++;
	if (++g->cohort.due == g->cfg.block_size)
		g->cohort.due = 0;
}

void cohort_add_ticks(struct engine *g, int64_t ticks)
{
	struct cohort *c = &g->cohort;
	g->hold.resident += c->list.n * ticks;
	c->ctx += c->list.n * ticks;
	c->ctx_window += c->below * ticks;
	while (tick_heap_first(&c->crossings) <= c->tick) {
		tick_heap_take(&c->crossings, c->crossings.at[0].slot);
		c->below--;
	}
}

int cohort_advance(struct engine *g, struct step *st)
{
	if (st && g->cfg.prefix_caching && cohort_remember(g, st))
		return ERR_MEMORY;
	turn(g);
	cohort_add_ticks(g, 1);
	return ERR_NONE;
}

int64_t cohort_repeat(const struct engine *g, int64_t most)
{
	const struct cohort *c = &g->cohort;
	int64_t k = tick_heap_first(&c->ends) - c->tick + 1;
	if (k > most)
		k = most;
	if (c->crossings.n && k > tick_heap_first(&c->crossings) - c->tick + 1)
		k = tick_heap_first(&c->crossings) - c->tick + 1;
	if (c->branches.n && k > tick_heap_first(&c->branches) - c->tick + 1)
		k = tick_heap_first(&c->branches) - c->tick + 1;
	if (g->contiguous || k <= 1)
		return k;
	/* The first of them has its blocks already; each bucket passed after it asks for at most one per member. */
	int32_t free = g->pool.n_free, bs = g->cfg.block_size, taken = 0;
	if ((int64_t)c->list.n * (((int32_t)k - 1 + bs - 1) / bs) <= free)
		return k;
	for (int32_t i = 0; i < k - 1; i++) {
		taken += c->wheel[bucket_in(g, i)].n;
		if (taken > free)
			return i + 1;
	}
	return k;
}

/* --- last tokens ------------------------------------------------------------------------------------------------- */

int64_t cohort_last_ns(const struct engine *g, const struct slot *s)
{
	return s->fresh_at >= 0 ? s->last_ns : g->cohort.last_ns;
}

int cohort_set_fresh(struct engine *g, struct slot *s, int64_t last_ns)
{
	struct cohort *c = &g->cohort;
	s->last_ns = last_ns;
	if (s->fresh_at >= 0)
		return ERR_NONE;
	if (mem_grow((void **)&c->fresh, &c->cap_fresh, c->n_fresh + 1, sizeof *c->fresh))
		return err_no_memory(&g->fault, "token gaps");
	s->fresh_at = (int32_t)c->n_fresh;
	c->fresh[c->n_fresh++] = (int32_t)(s - g->slots);
	return ERR_NONE;
}

void cohort_clear_fresh(struct engine *g, struct slot *s)
{
	struct cohort *c = &g->cohort;
	if (s->fresh_at < 0)
		return;
	int32_t last = c->fresh[--c->n_fresh];
	c->fresh[s->fresh_at] = last;
	g->slots[last].fresh_at = s->fresh_at;
	s->fresh_at = -1;
}
