/* The places of running requests and the lists they stand in. */
#include "core/engine_state.h"
#include "core/mem.h"

#include <string.h>

static const struct slot_list empty_list = {-1, -1, 0};

static int grow(struct engine *g, int32_t slots, struct err *e)
{
	struct slot *grown = mem_realloc(g->slots, (size_t)slots * sizeof *grown);
	if (!grown)
		return err_no_memory(e, "running requests");
	g->slots = grown;
	int32_t *next = mem_realloc(g->bucket_next, (size_t)slots * sizeof *next);
	if (!next)
		return err_no_memory(e, "running requests");
	g->bucket_next = next;
	struct block_table *tables = mem_realloc(g->tables, (size_t)slots * sizeof *tables);
	if (!tables)
		return err_no_memory(e, "running requests");
	g->tables = tables;
	struct content_walk *contents = mem_realloc(g->contents, (size_t)slots * sizeof *contents);
	if (!contents)
		return err_no_memory(e, "running requests");
	g->contents = contents;
	if (tick_heap_resize(&g->cohort.ends, g->n_slots, slots, e) ||
	    tick_heap_resize(&g->cohort.crossings, g->n_slots, slots, e) ||
	    (g->forks.of && tick_heap_resize(&g->cohort.branches, g->n_slots, slots, e)))
		return ERR_MEMORY;
	memset(grown + g->n_slots, 0, (size_t)(slots - g->n_slots) * sizeof *grown);
	memset(tables + g->n_slots, 0, (size_t)(slots - g->n_slots) * sizeof *tables);
	for (int32_t i = slots; i-- > g->n_slots;) {
		grown[i].run_next = g->free_slot;
		g->free_slot = i;
	}
	g->n_slots = slots;
	return ERR_NONE;
}

int slots_init(struct engine *g, struct err *e)
{
	g->running = g->prefilling = g->held = empty_list;
	g->free_slot = -1;
	g->slot_of = mem_alloc((size_t)g->w->n * sizeof *g->slot_of);
	if (!g->slot_of)
		return err_no_memory(e, "running requests");
	memset(g->slot_of, 0xff, (size_t)g->w->n * sizeof *g->slot_of);
	return grow(g, g->cfg.max_num_seqs < 256 ? g->cfg.max_num_seqs : 256, e);
}

void slots_free(struct engine *g)
{
	for (int32_t i = 0; i < g->n_slots; i++)
		mem_free(g->tables[i].ids);
	mem_free(g->slots);
	mem_free(g->bucket_next);
	mem_free(g->tables);
	mem_free(g->contents);
	mem_free(g->slot_of);
}

int32_t slot_take(struct engine *g, int32_t req)
{
	if (g->free_slot < 0 && grow(g, g->n_slots * 2, &g->fault))
		return -1;
	int32_t id = g->free_slot;
	struct slot *s = &g->slots[id];
	g->free_slot = s->run_next;
	g->slot_of[req] = id;
	s->req = req;
	s->order = g->next_order++;
	s->part = PART_PREFILL;
	s->sched_step = -1;
	s->bucket = -1;
	s->fresh_at = -1;
	s->computed = s->outputs = s->emitted = s->pad = s->peak = s->known_pages = s->dropped = s->expired = 0;
	s->load_pages = 0;
	s->inherited = 0;
	s->next_fork = s->most_bequeathed = INT32_MAX;
	s->tail_shared = false;
	g->n_running++;
	s->run_prev = g->running.tail;
	s->run_next = -1;
	*(g->running.tail < 0 ? &g->running.head : &g->slots[g->running.tail].run_next) = id;
	g->running.tail = id;
	g->running.n++;
	slot_list_add(g, &g->prefilling, id);
	return id;
}

void slot_give(struct engine *g, int32_t id)
{
	struct slot *s = &g->slots[id];
	*(s->run_prev < 0 ? &g->running.head : &g->slots[s->run_prev].run_next) = s->run_next;
	*(s->run_next < 0 ? &g->running.tail : &g->slots[s->run_next].run_prev) = s->run_prev;
	g->running.n--;
	g->n_running--;
	g->slot_of[s->req] = -1;
	s->part = PART_FREE;
	s->epoch++;
	s->run_next = g->free_slot;
	g->free_slot = id;
}

void slot_list_add(struct engine *g, struct slot_list *l, int32_t id)
{
	struct slot *s = &g->slots[id];
	int32_t after = l->tail;
	while (after >= 0 && g->slots[after].order > s->order)
		after = g->slots[after].part_prev;
	int32_t before = after < 0 ? l->head : g->slots[after].part_next;
	s->part_prev = after;
	s->part_next = before;
	*(after < 0 ? &l->head : &g->slots[after].part_next) = id;
	*(before < 0 ? &l->tail : &g->slots[before].part_prev) = id;
	l->n++;
}

void slot_list_drop(struct engine *g, struct slot_list *l, int32_t id)
{
	struct slot *s = &g->slots[id];
	*(s->part_prev < 0 ? &l->head : &g->slots[s->part_prev].part_next) = s->part_next;
	*(s->part_next < 0 ? &l->tail : &g->slots[s->part_next].part_prev) = s->part_prev;
	l->n--;
}
