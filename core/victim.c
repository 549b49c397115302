/* Who gives way when memory runs out: --victim. Looked for over all running requests, which costs nothing while nobody has
 * to. What a request has is taken as it was before this step gave it something: that is what it would lose, since the
 * step's own part is taken back. Ties: the last admitted. */
#include <stddef.h>

#include "core/engine_state.h"
#include "core/order_mlfq.h"

const char *const victim_names[] = {"default",         "last", "shortest", "longest-left", "lowest-priority",
				    "least-work-lost", NULL};

/* What this step has added to a slot's fields. Decodes of a lazy cohort move on when the step is closed. */
static const struct row *row_now(const struct engine *g, const struct slot *s)
{
	const struct step *st = &g->steps[g->begun & 1];
	if (s->sched_step != g->begun || (s->part == PART_COHORT && !g->flat))
		return NULL;
	return &st->rows[s->sched_row];
}

static int64_t outputs_before(const struct engine *g, const struct slot *s)
{
	const struct row *r = row_now(g, s);
	return slot_outputs(g, s) - (r && r->samples);
}

static int64_t computed_before(const struct engine *g, const struct slot *s)
{
	const struct row *r = row_now(g, s);
	return slot_computed(g, s) - (r && !g->cfg.kv_off ? r->tokens : 0);
}

/* Tokens to be computed again: all but those in pages that a prefix cache knows and that others hold as well. What only the
 * victim holds is what somebody is waiting to overwrite, whatever the cache knows of it: were it taken for kept, requests
 * could take each other's memory for ever, each time for nothing. */
static int64_t work_lost(const struct engine *g, const struct slot *s)
{
	const struct block_table *t = slot_table(g, s);
	int64_t computed = computed_before(g, s), pages = computed / g->cfg.block_size, kept = 0;
	if (!g->cfg.prefix_caching)
		return computed;
	for (int32_t i = 0; i < pages && i < s->known_pages; i++)
		kept += t->ids[i] != KV_NO_BLOCK && g->pool.ref[t->ids[i]] > 1;
	return computed - kept * g->cfg.block_size;
}

static int64_t predicted_left(const struct engine *g, const struct slot *s)
{
	int64_t left = predict_outputs(&g->predictor, s->req, s->max_out) - outputs_before(g, s);
	return left > 0 ? left : 0;
}

/* By the tokens that have come out: one in flight would be lost, and with it all that it was let in for. */
static int32_t slot_level(const struct engine *g, const struct slot *s)
{
	int64_t computed = computed_before(g, s);
	return mlfq_level(g->waiting.mlfq, s->req, computed > s->peak ? (int32_t)computed : s->peak,
			  slot_emitted(g, s));
}

/* The smaller, the sooner it gives way. */
static int64_t worth(const struct engine *g, const struct slot *s)
{
	switch (g->cfg.victim) {
	case VICTIM_SHORTEST:
		return s->prompt + outputs_before(g, s);
	case VICTIM_LONGEST_LEFT:
		return -predicted_left(g, s);
	case VICTIM_LOWEST_PRIORITY:
		return -(int64_t)g->w->specs[s->req].priority;
	case VICTIM_LEAST_WORK_LOST:
		return work_lost(g, s);
	case VICTIM_DEFAULT: /* mlfq: the lowest level */
		return -slot_level(g, s);
	case VICTIM_LAST:
		break;
	}
	return 0;
}

/* Among the least important, the one that arrived last (vLLM). */
static bool arrived_later(const struct engine *g, int32_t a, int32_t b)
{
	int64_t x = g->requests[a].arrival_ns, y = g->requests[b].arrival_ns;
	return x != y ? x > y : a > b;
}

int32_t view_victim(const struct plan *p)
{
	const struct engine *g = plan_engine(p);
	int32_t victim = view_running_last(p);
	bool by_level = g->cfg.victim == VICTIM_DEFAULT && g->cfg.queue_order == QUEUE_MLFQ;
	if (victim < 0 || (g->cfg.victim <= VICTIM_LAST && !by_level))
		return victim;
	int64_t least = worth(g, &g->slots[g->slot_of[victim]]);
	for (int32_t r = view_running_prev(p, victim); r >= 0; r = view_running_prev(p, r)) {
		int64_t w = worth(g, &g->slots[g->slot_of[r]]);
		bool tie = w == least && g->cfg.victim == VICTIM_LOWEST_PRIORITY && arrived_later(g, r, victim);
		if (w < least || tie) {
			least = w;
			victim = r;
		}
	}
	return victim;
}

/* Blocks that the first of the queue lacks; 0 or less: none. */
static int64_t blocks_short(struct engine *g, int32_t head)
{
	int64_t tokens = (int64_t)g->w->specs[head].prompt_tokens + g->requests[head].outputs;
	int64_t need = g->cfg.kv_off ? 0 : kv_blocks_for(tokens, g->cfg.block_size);
	if (g->cfg.prefix_caching && !g->forks.share && !memory_look_up(g, head)) /* what a family holds comes on top */
		need -= g->hit.pages - g->hit.unreferenced;
	return need - (g->cfg.kv_off ? 0 : memory_free_blocks(g));
}

/* By levels. */
static int32_t outranked(struct engine *g)
{
	const struct plan *p = engine_plan(g);
	int32_t head = queue_first(&g->waiting);
	if (head < 0)
		return -1;
	int64_t lacks = blocks_short(g, head);
	if (lacks <= 0 && view_places_left(p) > 0)
		return -1;
	int32_t own = mlfq_waits_at(g->waiting.mlfq, head), lowest = own, victim = -1;
	for (int32_t i = view_running_last(p); i >= 0; i = view_running_prev(p, i)) {
		const struct slot *s = &g->slots[g->slot_of[i]];
		int32_t level = slot_level(g, s);
		if (level <= own)
			continue;
		lacks -= slot_table(g, s)->n;
		if (level > lowest) {
			lowest = level;
			victim = i;
		}
	}
	/* Nobody is stopped in vain. */
	return lacks <= 0 ? victim : -1;
}

int32_t view_outranked(struct plan *p)
{
	struct engine *g = plan_engine(p);
	return g->waiting.mlfq ? outranked(g) : -1; /* asked in every step, and mostly in vain */
}
