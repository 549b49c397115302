#include "policies/walk.h"

static enum plan_status decode_one(struct plan *p, int32_t req, int32_t spare)
{
	/* One that is alone needs to leave nobody anything. */
	return view_free_blocks(p) < spare && view_running(p) > 1 ? PLAN_NO_SPACE : plan_run(p, req, 1);
}

static enum plan_status give_way(struct plan *p, int32_t victim, enum walk_preempt how)
{
	enum plan_status status = how == WALK_SWAP ? plan_swap_out(p, victim) : PLAN_NO_SPACE;
	return status == PLAN_NO_SPACE ? plan_preempt(p, victim) : status;
}

/* False when the run has failed. *next: who comes after it; it may give way as well. */
static bool decode(struct plan *p, int32_t req, int32_t spare, enum walk_preempt how, int32_t *preempted, int32_t *next)
{
	enum plan_status status;
	while ((status = decode_one(p, req, spare)) == PLAN_NO_SPACE) {
		int32_t victim = view_victim(p);
		if (victim == *next)
			*next = view_running_next(p, victim);
		if (give_way(p, victim, how) != PLAN_OK)
			return false;
		++*preempted;
		if (victim == req)
			return true;
	}
	return status == PLAN_OK;
}

void walk_decodes(struct plan *p, int32_t spare, enum walk_preempt how, int32_t *preempted)
{
	int32_t next;
	/* Where each of them could even take a block, all go at once. */
	if ((int64_t)view_decoding(p) * spare <= view_free_blocks(p) && plan_decodes(p) == PLAN_OK)
		return;
	for (int32_t r = view_running_first(p); r >= 0; r = next) {
		next = view_running_next(p, r);
		if (view_is_decoding(p, r) && view_need(p, r) > 0 && !decode(p, r, spare, how, preempted, &next))
			return;
	}
}

int32_t walk_keep_free(const struct plan *p, int32_t req, int32_t watermark)
{
	int64_t need = ((int64_t)view_tokens(p, req) + view_block_size(p) - 1) / view_block_size(p);
	if (view_total_blocks(p) - need < watermark && !view_was_preempted(p, req))
		return -1;
	return view_running(p) ? watermark : 0;
}

void walk_yield(struct plan *p)
{
	int32_t r;
	while ((r = view_outranked(p)) >= 0)
		if (plan_preempt(p, r) != PLAN_OK)
			return;
}
