/* What is left to do when all rows are read: check the hash ids' block size, order the requests, link them. */
#include <stdio.h>
#include <string.h>

#include "core/mem.h"
#include "traces/reader_impl.h"
#include "traces/subset.h"

/* ---- the block size of hash ids ---- */

static int64_t blocks_up(int64_t tokens, int64_t block)
{
	return (tokens + block - 1) / block;
}

/* How many rows with ids have as many as blocks of this size begun (up) or filled (full). */
struct block_fit {
	int64_t rows, up, full;
};

static struct block_fit fit(const struct workload *w, int64_t block)
{
	struct block_fit f = {0, 0, 0};
	for (int64_t i = 0; i < w->n; i++) {
		const struct spec *s = &w->specs[i];
		if (!s->n_hashes)
			continue;
		f.rows++;
		f.up += s->n_hashes == blocks_up(s->prompt_tokens, block);
		f.full += s->n_hashes == s->prompt_tokens / block;
	}
	return f;
}

static bool fits_all(struct block_fit f)
{
	return f.up == f.rows || f.full == f.rows;
}

/* Those that wait for dropped requests go too. Links are in the order of their children, parents before them. */
static void drop_followers(struct trace_reader *r, bool *drop)
{
	int64_t n = 0;
	for (int64_t i = 0; i < r->n_links; i++)
		if (drop[r->links[i].parent] && !drop[r->links[i].child]) {
			drop[r->links[i].child] = true;
			n++;
		}
	if (n)
		trace_drop(r, "waits for a request left out", n);
}

/* Removes the requests whose drop[] is set, and the links to them. */
static int remove_dropped(struct trace_reader *r, const bool *drop, struct err *e)
{
	struct workload *w = r->w;
	int64_t kept = 0, links = 0;
	int32_t *moved_to = mem_zalloc((size_t)w->n, sizeof *moved_to);
	if (!moved_to)
		return err_no_memory(e, "checking hash ids");
	for (int64_t i = 0; i < w->n; i++) {
		moved_to[i] = (int32_t)kept;
		if (!drop[i])
			w->specs[kept++] = w->specs[i];
	}
	w->n = kept;
	for (int64_t i = 0; i < r->n_links; i++) {
		struct trace_link l = r->links[i];
		if (!drop[l.child])
			r->links[links++] = (struct trace_link){moved_to[l.parent], moved_to[l.child]};
	}
	r->n_links = links;
	mem_free(moved_to);
	return ERR_NONE;
}

/* Most rows agree with the block size, some do not: those are bad rows. */
static int drop_misfits(struct trace_reader *r, int64_t block, bool full, struct err *e)
{
	struct workload *w = r->w;
	bool *drop = NULL;
	int code = ERR_NONE;
	if (r->o.on_bad_row == TRACE_BAD_ROW_SKIP && !(drop = mem_zalloc((size_t)w->n, sizeof *drop)))
		return err_no_memory(e, "checking hash ids");
	for (int64_t i = 0; i < w->n; i++) {
		const struct spec *s = &w->specs[i];
		int64_t want = full ? s->prompt_tokens / block : blocks_up(s->prompt_tokens, block);
		if (!s->n_hashes || s->n_hashes == want)
			continue;
		char why[160];
		snprintf(why, sizeof why,
			 "%d ids, but %d tokens in blocks of %lld make %lld; --hash-block-size sets the size",
			 s->n_hashes, s->prompt_tokens, (long long)block, (long long)want);
		struct err bad = {ERR_NONE, ""};
		trace_bad(r, s->row, "hash_ids", NULL, 0, why, &bad);
		if (!drop)
			return err_set(e, bad.code, "%s", bad.text);
		drop[i] = true;
		trace_drop(r, "bad row", 1);
		if (!r->report->first_bad[0])
			snprintf(r->report->first_bad, sizeof r->report->first_bad, "%.239s", bad.text);
	}
	if (drop) {
		drop_followers(r, drop);
		code = remove_dropped(r, drop, e);
	}
	mem_free(drop);
	return code;
}

/* The only power of two that every row agrees with, or 0. */
static int64_t only_block_that_fits(const struct workload *w)
{
	int64_t found = 0;
	for (int64_t block = 1; block <= 65536; block *= 2)
		if (fits_all(fit(w, block))) {
			if (found)
				return 0;
			found = block;
		}
	return found;
}

int trace_settle_hash_block(struct trace_reader *r, int32_t usual, struct err *e)
{
	struct workload *w = r->w;
	if (!w->n_hash_ids || w->seg_tokens)
		return ERR_NONE;
	int64_t block = r->o.hash_block > 0 ? r->o.hash_block : usual;
	struct block_fit f = fit(w, block);
	int64_t other = r->o.hash_block > 0 || fits_all(f) ? 0 : only_block_that_fits(w);
	if (other) {
		trace_note(r,
			   "hash ids: every row fits blocks of %lld tokens and none of the usual %d: taken as %lld "
			   "(--hash-block-size sets it)",
			   (long long)other, usual, (long long)other);
		block = other;
		f = fit(w, block);
	}
	bool full = f.full > f.up;
	w->hash_block = (int32_t)block;
	r->report->hash_block = (int32_t)block;
	r->report->hash_floor = full;
	if (full)
		trace_note(r, "hash ids: of full blocks only; the tokens behind them are shared with nobody");
	return fits_all(f) ? ERR_NONE : drop_misfits(r, block, full, e);
}

/* ---- order and links ---- */

static bool roots_are_sorted(const struct workload *w, const int32_t *n_parents)
{
	int64_t last = INT64_MIN;
	for (int64_t i = 0; i < w->n; i++) {
		if (n_parents && n_parents[i])
			continue;
		if (w->specs[i].arrival_ns < last)
			return false;
		last = w->specs[i].arrival_ns;
	}
	return true;
}

/* Arrivals count from the earliest. */
static void make_relative(struct trace_reader *r, const int32_t *n_parents)
{
	struct workload *w = r->w;
	int64_t first = INT64_MAX;
	for (int64_t i = 0; i < w->n; i++)
		if (!(n_parents && n_parents[i]) && w->specs[i].arrival_ns < first) {
			first = w->specs[i].arrival_ns;
			if (!r->report->unsorted)
				break;
		}
	if (first == INT64_MAX)
		return;
	r->report->first_ns = first;
	for (int64_t i = 0; first && i < w->n; i++)
		if (!(n_parents && n_parents[i]))
			w->specs[i].arrival_ns -= first;
}

/* The graph while it is being put in order. Everything is indexed by request as read. */
struct graph {
	int64_t n;
	int64_t *child_at; /* [n + 1] into child */
	int32_t *child;
	int32_t *n_parents; /* [n] */
	int32_t *left; /* [n] parents not yet passed */
	int32_t *queue; /* [n] in an order where parents come first */
	int64_t *soonest; /* [n] no arrival is earlier: the latest parent's, plus the delay */
	int32_t *moved_to; /* [n] index in the finished workload, -1: dropped */
	int32_t *rows; /* [n] */
	bool *drop; /* [n] */
};

static void graph_free(struct graph *g)
{
	mem_free(g->child_at);
	mem_free(g->child);
	mem_free(g->n_parents);
	mem_free(g->left);
	mem_free(g->queue);
	mem_free(g->soonest);
	mem_free(g->moved_to);
	mem_free(g->rows);
	mem_free(g->drop);
}

static int graph_create(struct graph *g, const struct trace_reader *r, struct err *e)
{
	size_t n = (size_t)r->w->n, m = (size_t)r->n_links;
	*g = (struct graph){
		.n = r->w->n,
		.child_at = mem_zalloc(n + 1, sizeof *g->child_at),
		.child = mem_zalloc(m, sizeof *g->child),
		.n_parents = mem_zalloc(n, sizeof *g->n_parents),
		.left = mem_zalloc(n, sizeof *g->left),
		.queue = mem_zalloc(n, sizeof *g->queue),
		.soonest = mem_zalloc(n, sizeof *g->soonest),
		.moved_to = mem_zalloc(n, sizeof *g->moved_to),
		.rows = mem_zalloc(n, sizeof *g->rows),
		.drop = mem_zalloc(n, sizeof *g->drop),
	};
	if (!g->child_at || !g->child || !g->n_parents || !g->left || !g->queue || !g->soonest || !g->moved_to ||
	    !g->rows || !g->drop)
		return err_no_memory(e, "dependencies");
	for (int64_t i = 0; i < r->n_links; i++) {
		g->child_at[r->links[i].parent]++;
		g->n_parents[r->links[i].child]++;
	}
	int64_t sum = 0;
	for (int64_t i = 0; i <= g->n; i++) {
		sum += g->child_at[i];
		g->child_at[i] = sum; /* for now where the row ends */
	}
	for (int64_t i = r->n_links; i-- > 0;)
		g->child[--g->child_at[r->links[i].parent]] = r->links[i].child;
	return ERR_NONE;
}

/* Whatever waits for a dead request is dead. */
static void spread_death(struct graph *g, const bool *dead)
{
	int64_t head = 0, tail = 0;
	for (int64_t i = 0; dead && i < g->n; i++)
		if (dead[i]) {
			g->drop[i] = true;
			g->queue[tail++] = (int32_t)i;
		}
	while (head < tail) {
		int32_t i = g->queue[head++];
		for (int64_t k = g->child_at[i]; k < g->child_at[i + 1]; k++)
			if (!g->drop[g->child[k]]) {
				g->drop[g->child[k]] = true;
				g->queue[tail++] = g->child[k];
			}
	}
}

/* Kahn's algorithm over what lives; returns how many it reached. */
static int64_t walk_order(struct graph *g, const struct workload *w)
{
	int64_t head = 0, tail = 0;
	memcpy(g->left, g->n_parents, (size_t)g->n * sizeof *g->left);
	for (int64_t i = 0; i < g->n; i++)
		if (!g->left[i] && !g->drop[i]) {
			g->soonest[i] = w->specs[i].arrival_ns;
			g->queue[tail++] = (int32_t)i;
		}
	while (head < tail) {
		int32_t i = g->queue[head++];
		for (int64_t k = g->child_at[i]; k < g->child_at[i + 1]; k++) {
			int32_t c = g->child[k];
			if (g->drop[c])
				continue;
			if (g->soonest[c] < g->soonest[i])
				g->soonest[c] = g->soonest[i];
			if (--g->left[c])
				continue;
			if (__builtin_add_overflow(g->soonest[c], w->specs[c].arrival_ns, &g->soonest[c]))
				g->soonest[c] = INT64_MAX;
			g->queue[tail++] = c;
		}
	}
	return tail;
}

static int refuse_circle(struct trace_reader *r, struct graph *g, struct err *e)
{
	char buf[24];
	for (int64_t i = 0; i < g->n; i++) {
		if (g->drop[i] || !g->left[i])
			continue;
		if (r->o.on_bad_row == TRACE_BAD_ROW_ERROR)
			return trace_bad(r, r->w->specs[i].row, NULL, workload_name(r->w, i, buf),
					 strlen(workload_name(r->w, i, buf)),
					 "can never start: what it waits for leads round in a circle", e);
		g->drop[i] = true;
		trace_drop(r, "waits in a circle", 1);
	}
	return ERR_NONE;
}

/* Drops, orders by the soonest arrival, and gives back delays and rows: rows serve as the way to find the new place. */
static int reorder(struct trace_reader *r, struct graph *g, struct err *e)
{
	struct workload *w = r->w;
	int64_t kept = 0;
	for (int64_t i = 0; i < g->n; i++) {
		g->rows[i] = w->specs[i].row;
		g->moved_to[i] = -1;
		if (g->drop[i])
			continue;
		struct spec s = w->specs[i];
		int64_t delay = s.arrival_ns;
		s.arrival_ns = g->soonest[i];
		g->soonest[i] = delay;
		s.row = (int32_t)i;
		w->specs[kept++] = s;
	}
	w->n = kept;
	if (workload_sort(w, NULL, e))
		return ERR_MEMORY;
	for (int64_t k = 0; k < kept; k++) {
		int32_t i = w->specs[k].row;
		g->moved_to[i] = (int32_t)k;
		w->specs[k].row = g->rows[i];
		w->specs[k].arrival_ns = g->soonest[i];
	}
	return ERR_NONE;
}

/* Links what is left, moved_to (NULL: nothing moved) telling where requests are now. The links are not needed again. */
static int link_all(struct trace_reader *r, const int32_t *moved_to, struct err *e)
{
	int64_t m = 0;
	int32_t *pairs = mem_zalloc((size_t)r->n_links, 2 * sizeof *pairs);
	if (!pairs)
		return err_no_memory(e, "dependencies");
	int32_t *parents = pairs, *children = pairs + r->n_links;
	for (int64_t i = 0; i < r->n_links; i++) {
		int32_t p = r->links[i].parent, c = r->links[i].child;
		parents[m] = moved_to ? moved_to[p] : p;
		children[m] = moved_to ? moved_to[c] : c;
		m += parents[m] >= 0 && children[m] >= 0;
	}
	mem_free(r->links);
	r->links = NULL;
	r->n_links = r->cap_links = 0;
	int code = workload_link(r->w, parents, children, m, e);
	mem_free(pairs);
	return code;
}

/* Conversations without times, turn after turn: they are in order as they are, so the graph need not be drawn up. */
static bool in_order_already(const struct trace_reader *r)
{
	if (r->report->has_arrivals)
		return false;
	for (int64_t i = 0; i < r->w->n; i++)
		if (r->w->specs[i].arrival_ns)
			return false;
	for (int64_t i = 0; i < r->n_links; i++)
		if (r->links[i].parent >= r->links[i].child)
			return false;
	return true;
}

static int settle_graph(struct trace_reader *r, const bool *dead, struct err *e)
{
	struct graph g;
	int code = graph_create(&g, r, e);
	if (code)
		goto out;
	spread_death(&g, dead);
	int64_t n_dead = 0;
	for (int64_t i = 0; i < g.n; i++)
		n_dead += g.drop[i];
	if (n_dead)
		trace_drop(r, "waits for a request left out", n_dead);
	r->report->unsorted = r->report->has_arrivals && !roots_are_sorted(r->w, g.n_parents);
	if (walk_order(&g, r->w) + n_dead < g.n)
		code = refuse_circle(r, &g, e);
	if (!code)
		code = reorder(r, &g, e);
	if (!code) {
		/* Linking takes room of its own: give back what it does not need. */
		int32_t *moved_to = g.moved_to;
		g.moved_to = NULL;
		graph_free(&g);
		g = (struct graph){0};
		code = link_all(r, moved_to, e);
		mem_free(moved_to);
	}
	if (!code && r->report->has_arrivals)
		make_relative(r, r->w->n_parents);
out:
	graph_free(&g);
	return code;
}

static int settle_list(struct trace_reader *r, struct err *e)
{
	if (!r->report->has_arrivals)
		return ERR_NONE;
	r->report->unsorted = r->unsorted && !roots_are_sorted(r->w, NULL);
	int code = r->report->unsorted ? workload_sort(r->w, NULL, e) : ERR_NONE;
	make_relative(r, NULL);
	return code;
}

int trace_settle(struct trace_reader *r, bool *dead, struct err *e)
{
	int code = !r->n_links && !dead           ? settle_list(r, e)
		   : !dead && in_order_already(r) ? link_all(r, NULL, e)
						  : settle_graph(r, dead, e);
	/* sessions and classes were numbered as they came in the file */
	return code || (!r->grouped && !r->w->n_tenants) ? code : subset_renumber(r->w, e);
}
