/* What the waiting wait for. While somebody waits, the time between two scheduling rounds goes to the one cause for which the
 * first of the queue was not let in at the earlier of them; a request has of each cause what has passed since it began to
 * wait. So what it costs does not depend on how many wait, and not on how many steps are taken at once. */
#include <stddef.h>

#include "core/engine_state.h"

const char *const wait_cause_names[] = {"entry", "memory", "place", "budget", "prefill", "policy", NULL};

void waits_clock(struct engine *g, int64_t now_ns)
{
	if (g->waiting.count)
		g->waits.sum_ns[g->waits.cause] += now_ns - g->waits.at_ns;
	g->waits.at_ns = now_ns;
}

void waits_begin(struct engine *g, int32_t req)
{
	for (int c = 0; c < WAIT_CAUSES; c++)
		g->requests[req].waited_ns[c] -= g->waits.sum_ns[c];
}

void waits_end(struct engine *g, int32_t req)
{
	for (int c = 0; c < WAIT_CAUSES; c++)
		g->requests[req].waited_ns[c] += g->waits.sum_ns[c];
}

/* A prompt goes on that an earlier step began, or begins and is not finished. */
static bool cuts_a_prompt(const struct engine *g, const struct step *st)
{
	for (int64_t i = 0; i < st->n_rows; i++)
		if (st->rows[i].slot >= 0 && st->rows[i].chunk >= 0 &&
		    (!st->rows[i].completes || g->slots[st->rows[i].slot].order < g->waits.first_new))
			return true;
	return false;
}

static enum wait_cause cause_of(const struct engine *g, const struct step *st)
{
	if (g->waits.told)
		return (enum wait_cause)(g->waits.told - 1);
	if (g->waits.refused == PLAN_NO_SPACE)
		return WAIT_MEMORY;
	if (g->waits.refused == PLAN_NO_PLACE)
		return WAIT_PLACE;
	if (g->waits.refused == PLAN_NO_BUDGET)
		return WAIT_BUDGET;
	if (st->preempted)
		return WAIT_MEMORY;
	if (g->n_running >= g->cfg.max_num_seqs)
		return WAIT_PLACE;
	return g->budget <= 0 ? WAIT_BUDGET : WAIT_POLICY;
}

void waits_blame(struct engine *g, const struct step *st)
{
	if (!g->waiting.count) /* who comes is followed by a plan at the same moment */
		return;
	g->waits.cause = cause_of(g, st);
	if (g->waits.cause == WAIT_BUDGET && cuts_a_prompt(g, st))
		g->waits.cause = WAIT_PREFILL;
}

enum plan_status plan_blocked(struct plan *p, enum wait_cause cause)
{
	plan_engine(p)->waits.told = (uint8_t)(cause + 1);
	return PLAN_OK;
}

void engine_waited(const struct engine *g, int64_t sum_ns[WAIT_CAUSES])
{
	for (int c = 0; c < WAIT_CAUSES; c++)
		sum_ns[c] = g->waits.sum_ns[c];
}

enum wait_cause engine_waits_for(const struct engine *g)
{
	return g->waits.cause;
}
