/* Who holds what, in words: for stall reports and debuggers. */
#include <stdarg.h>
#include <stdio.h>

#include "core/engine_state.h"

struct text {
	char *at;
	int64_t left;
};

__attribute__((format(printf, 2, 3))) static void say(struct text *t, const char *fmt, ...)
{
	if (t->left <= 1)
		return;
	va_list ap;
	va_start(ap, fmt);
	int n = vsnprintf(t->at, (size_t)t->left, fmt, ap);
	va_end(ap);
	if (n < 0)
		return;
	if (n >= t->left)
		n = (int)t->left - 1;
	t->at += n;
	t->left -= n;
}

static void say_slot(struct text *t, const struct engine *g, const struct slot *s)
{
	static const char *const doing[] = {"", "prefilling", "decoding", "held", "waiting for its pages"};
	char buf[24];
	say(t, "; request %s %s, %d of %d tokens computed, holds %d blocks", workload_name(g->w, s->req, buf),
	    doing[s->part], slot_computed(g, s), s->prompt + slot_outputs(g, s),
	    slot_table(g, s)->n - s->dropped / g->cfg.block_size);
}

void engine_describe(const struct engine *g, char *buf, int64_t size)
{
	enum { SHOWN = 6 };
	struct text t = {buf, size};
	char name[24];
	if (size > 0)
		buf[0] = '\0';
	say(&t, "%d running, %d waiting, %d of %d blocks free", g->n_running, g->waiting.count,
	    g->cfg.kv_off ? 0 : memory_free_blocks(g), g->cfg.num_blocks);
	if (g->tiers.n_swapped)
		say(&t, "; %d swapped out, %d of %d host blocks free", g->tiers.n_swapped, g->tiers.swap.n_free,
		    g->tiers.swap.total);
	int shown = 0;
	for (int32_t i = g->running.head; i >= 0 && shown < SHOWN; i = g->slots[i].run_next, shown++)
		say_slot(&t, g, &g->slots[i]);
	if (g->n_running > shown)
		say(&t, "; and %d more", g->n_running - shown);
	int32_t head = queue_first(&g->waiting);
	if (head >= 0)
		say(&t, "; first in the queue: request %s, %d tokens to compute", workload_name(g->w, head, name),
		    g->w->specs[head].prompt_tokens + g->requests[head].outputs);
}
