#include "analysis/step_groups.h"

#include "core/err.h"
#include "core/mem.h"

void step_groups_init(struct step_groups *g, int64_t most)
{
	*g = (struct step_groups){.most = most < 2 ? 2 : most, .per = 1};
}

void step_groups_free(struct step_groups *g)
{
	mem_free(g->at);
	*g = (struct step_groups){0};
}

#define KEEP_MOST(a, b) ((a) = (b) > (a) ? (b) : (a))

static void merge(struct step_group *a, const struct step_group *b)
{
	a->steps += b->steps;
	a->end_ns = b->end_ns;
	a->busy_ns += b->busy_ns;
	a->host_ns += b->host_ns;
	a->transfer_ns += b->transfer_ns;
	a->decodes += b->decodes;
	a->chunks += b->chunks;
	a->sampled += b->sampled;
	a->prefill_tokens += b->prefill_tokens;
	a->preempted += b->preempted;
	KEEP_MOST(a->longest_ns, b->longest_ns);
	KEEP_MOST(a->running, b->running);
	KEEP_MOST(a->waiting, b->waiting);
	KEEP_MOST(a->blocks_used, b->blocks_used);
	KEEP_MOST(a->blocks_cached, b->blocks_cached);
	KEEP_MOST(a->decodes_most, b->decodes_most);
	KEEP_MOST(a->prefill_most, b->prefill_most);
	a->running_ns += b->running_ns;
	a->waiting_ns += b->waiting_ns;
	a->used_ns += b->used_ns;
	a->cached_ns += b->cached_ns;
}

static struct step_group group_of(const struct step_row *t)
{
	double ns = (double)(t->end_ns - t->start_ns);
	return (struct step_group){
		.first = t->step,
		.steps = 1,
		.start_ns = t->start_ns,
		.end_ns = t->end_ns,
		.busy_ns = t->end_ns - t->start_ns,
		.longest_ns = t->end_ns - t->start_ns,
		.host_ns = t->host_ns,
		.transfer_ns = t->transfer_ns,
		.decodes = t->decodes,
		.chunks = t->chunks,
		.sampled = t->sampled,
		.prefill_tokens = t->prefill_tokens,
		.preempted = t->preempted,
		.running = t->running,
		.waiting = t->waiting,
		.blocks_used = t->blocks_used,
		.blocks_cached = t->blocks_cached,
		.decodes_most = t->decodes,
		.prefill_most = t->prefill_tokens,
		.running_ns = t->running * ns,
		.waiting_ns = t->waiting * ns,
		.used_ns = t->blocks_used * ns,
		.cached_ns = t->blocks_cached * ns,
	};
}

/* Every two become one. All but the last are full, so they stay so. */
static void halve(struct step_groups *g)
{
	int64_t n = 0;
	for (int64_t i = 0; i < g->n; i += 2) {
		if (i != n)
			g->at[n] = g->at[i];
		if (i + 1 < g->n)
			merge(&g->at[n], &g->at[i + 1]);
		n++;
	}
	g->n = n;
	g->per *= 2;
}

int step_groups_add(struct step_groups *g, const struct step_row *t, struct err *e)
{
	struct step_group one = group_of(t);
	g->steps++;
	if (g->n && g->at[g->n - 1].steps < g->per) {
		merge(&g->at[g->n - 1], &one);
		return ERR_NONE;
	}
	if (g->n == g->most) {
		halve(g);
		if (g->at[g->n - 1].steps < g->per) {
			merge(&g->at[g->n - 1], &one);
			return ERR_NONE;
		}
	}
	if (mem_grow((void **)&g->at, &g->cap, g->n + 1, sizeof *g->at))
		return err_no_memory(e, "steps");
	g->at[g->n++] = one;
	return ERR_NONE;
}
