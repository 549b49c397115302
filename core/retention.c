#include "core/retention.h"

#include <stddef.h>

#include "core/engine_state.h"

const char *const kv_retention_names[] = {"full", "window", "sink-window", NULL};

static int check_sizes(const struct engine_config *c, struct err *e)
{
	const char *name = kv_retention_names[c->kv_retention];
	if (c->kv_window < 0 || c->kv_sink < 0)
		return err_set(e, ERR_INPUT, "--kv-window %d and --kv-sink %d must not be negative", c->kv_window,
			       c->kv_sink);
	if (c->kv_retention == RETAIN_FULL && (c->kv_window || c->kv_sink))
		return err_set(e, ERR_INPUT, "--kv-%s %d does nothing when every token is kept: add --kv-retention %s",
			       c->kv_window ? "window" : "sink", c->kv_window ? c->kv_window : c->kv_sink,
			       c->kv_sink ? "sink-window" : "window");
	if (c->kv_retention != RETAIN_FULL && !c->kv_window)
		return err_set(e, ERR_INPUT, "--kv-retention %s: give the tokens to keep with --kv-window", name);
	if (c->kv_retention == RETAIN_WINDOW && c->kv_sink)
		return err_set(e, ERR_INPUT,
			       "--kv-retention window keeps no first tokens: --kv-sink %d goes with sink-window",
			       c->kv_sink);
	if (c->kv_retention == RETAIN_SINK_WINDOW && !c->kv_sink)
		return err_set(e, ERR_INPUT,
			       "--kv-retention sink-window: give the first tokens to keep with "
			       "--kv-sink, or take --kv-retention window");
	return ERR_NONE;
}

/* What drops pages cannot do with the rest. */
static int check_rest(const struct engine_config *c, const char *what, const char *name, struct err *e)
{
	if (c->kv_off)
		return err_set(e, ERR_INPUT, "%s%s drops pages of the KV cache, and --kv-cache off leaves none", what,
			       name);
	if (c->prefix_cache == PREFIX_RADIX)
		return err_set(e, ERR_INPUT,
			       "%s%s drops pages that --prefix-cache radix needs: a page of a tree stays as long as "
			       "those after it; use --prefix-cache hash or off",
			       what, name);
	return ERR_NONE;
}

int retention_check(const struct engine_config *c, struct err *e)
{
	if (check_sizes(c, e))
		return ERR_INPUT;
	return c->kv_retention == RETAIN_FULL
		       ? ERR_NONE
		       : check_rest(c, "--kv-retention ", kv_retention_names[c->kv_retention], e);
}

int retention_fits_policy(const struct engine_config *c, const struct policy_traits *t, const char *name, struct err *e)
{
	if (t->contiguous && (c->kv_retention != RETAIN_FULL || t->drops))
		return err_set(e, ERR_INPUT,
			       "policy %s reserves contiguous memory, of which no page can be dropped: turn its "
			       "reservation off or take --kv-retention full",
			       name);
	if (t->pads && (c->kv_retention != RETAIN_FULL || t->drops))
		return err_set(e, ERR_INPUT,
			       "policy %s pads prompts, which moves the tokens that --kv-retention %s goes by: turn "
			       "its padding off",
			       name, kv_retention_names[c->kv_retention]);
	return t->drops ? check_rest(c, "policy ", name, e) : ERR_NONE;
}

/* A cohort's contexts are capped at the model's window by the ticks at which they reach it, as if nothing were dropped:
 * that is right when no less than the window stays. */
bool retention_needs_walk(const struct engine_config *c, const struct policy_traits *t)
{
	if (!c->window)
		return false;
	return t->drops || (c->kv_retention != RETAIN_FULL && c->kv_window < c->window);
}

void retention_expire_slot(struct engine *g, struct slot *s)
{
	int32_t size = g->cfg.block_size, from = kv_blocks_for(g->cfg.kv_sink, size);
	int32_t outside = slot_computed(g, s) - g->cfg.kv_window + 1, to = outside > 0 ? outside / size : 0;
	if (from < s->expired)
		from = s->expired;
	if (from >= to)
		return;
	memory_drop(g, s, from, to);
	s->expired = to;
}

void retention_expire(struct engine *g)
{
	const struct cohort *c = &g->cohort;
	if (g->cfg.kv_retention == RETAIN_FULL)
		return;
	/* Those that need a page for their next token stand in the bucket that is due. */
	for (int32_t i = g->flat ? -1 : c->wheel[c->due].head; i >= 0; i = g->bucket_next[i])
		retention_expire_slot(g, &g->slots[i]);
	for (int32_t i = g->flat ? c->list.head : -1; i >= 0; i = g->slots[i].part_next)
		if (g->slots[i].computed % g->cfg.block_size == 0)
			retention_expire_slot(g, &g->slots[i]);
	for (int32_t i = g->prefilling.head; i >= 0; i = g->slots[i].part_next)
		retention_expire_slot(g, &g->slots[i]);
}
