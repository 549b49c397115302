#include "tests/support/model_world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/workload.h"

void *model_alloc(void *old, size_t bytes)
{
	void *p = realloc(old, bytes ? bytes : 1);
	if (!p) {
		fprintf(stderr, "model: out of memory\n");
		exit(1);
	}
	return p;
}

static void *zeroed(size_t n, size_t size)
{
	return memset(model_alloc(NULL, n * size), 0, n * size);
}

static const union policy_value *value(const struct world *w, const char *name)
{
	const struct policy_desc *d = w->c->policy;
	for (int32_t i = 0; i < d->n_params; i++)
		if (strcmp(d->params[i].name, name) == 0)
			return &w->c->values[i];
	fprintf(stderr, "model: policy %s has no parameter %s\n", d->name, name);
	exit(1);
}

int64_t model_value(const struct world *w, const char *name)
{
	return value(w, name)->i;
}

double model_fraction(const struct world *w, const char *name)
{
	return value(w, name)->f;
}

static void say(struct world *w, enum event_kind kind, int64_t step, int64_t at_ns, int32_t req, int64_t a, int64_t b)
{
	struct model_log *l = w->log;
	if (l->n == l->cap) {
		l->cap = l->cap ? 2 * l->cap : 256;
		l->events = model_alloc(l->events, (size_t)l->cap * sizeof *l->events);
	}
	l->events[l->n++] = (struct event){.kind = kind, .step = step, .at_ns = at_ns, .req = req, .a = a, .b = b};
}

/* --- lists -------------------------------------------------------------------------------------------------------- */

static void list_drop(int32_t *list, int32_t *n, int32_t value_)
{
	int32_t kept = 0;
	for (int32_t i = 0; i < *n; i++)
		if (list[i] != value_)
			list[kept++] = list[i];
	*n = kept;
}

static void list_insert(int32_t *list, int32_t *n, int32_t at, int32_t value_)
{
	for (int32_t i = *n; i > at; i--)
		list[i] = list[i - 1];
	list[at] = value_;
	++*n;
}

/* By (priority, arrival, row) where the queue has priorities; else to the back, or to the front for who was stopped. */
static void join_queue(struct world *w, int32_t req, bool front)
{
	int32_t at = front ? 0 : w->n_waiting;
	if (w->c->cfg.queue_order == QUEUE_PRIORITY) {
		const struct mreq *x = &w->q[req];
		for (at = 0; at < w->n_waiting; at++) {
			const struct mreq *y = &w->q[w->waiting[at]];
			if (y->priority != x->priority       ? y->priority > x->priority
			    : y->arrival_ns != x->arrival_ns ? y->arrival_ns > x->arrival_ns
							     : w->waiting[at] > req)
				break;
		}
	}
	w->q[req].waiting = true;
	list_insert(w->waiting, &w->n_waiting, at, req);
}

/* --- looking ------------------------------------------------------------------------------------------------------ */

int32_t world_tokens(const struct world *w, int32_t req)
{
	return w->q[req].prompt + w->q[req].promised;
}

int32_t world_need(const struct world *w, int32_t req)
{
	const struct mreq *q = &w->q[req];
	/* Its last token is under way: it is known to end. */
	if (q->promised >= q->most && q->promised > q->outputs)
		return 0;
	int32_t n = world_tokens(w, req) - q->computed;
	return n > 0 ? n : 0;
}

bool world_scheduled(const struct world *w, int32_t req)
{
	for (int32_t i = 0; i < w->plan->n; i++)
		if (w->plan->rows[i].req == req)
			return true;
	return false;
}

int32_t world_pages(const struct world *w, int64_t tokens)
{
	return (int32_t)((tokens + w->c->cfg.block_size - 1) / w->c->cfg.block_size);
}

int32_t world_common(const struct world *w, int32_t a, int32_t b)
{
	const struct mreq *x = &w->q[a], *y = &w->q[b];
	int32_t n = 0;
	while (n < x->prompt && n < y->prompt && x->tokens[n] == y->tokens[n])
		n++;
	return n;
}

/* --- acting ------------------------------------------------------------------------------------------------------- */

void world_admit(struct world *w, int32_t req, int32_t cached_pages)
{
	struct mreq *q = &w->q[req];
	struct model_end *end = &w->log->ends[req];
	int32_t cached = cached_pages * w->c->cfg.block_size;
	list_drop(w->waiting, &w->n_waiting, req);
	w->running[w->n_running++] = req;
	q->waiting = false;
	q->running = true;
	q->decoding = false;
	q->promised = q->outputs;
	q->computed = cached;
	q->remembered = cached_pages;
	q->keep = w->c->cfg.cache_prompts_only ? q->prompt : INT32_MAX;
	if (w->c->cfg.prefix_cache ==
	    PREFIX_RADIX) /* a tree takes in what is computed before it decodes, then all at its end */
		q->keep = q->prompt + (w->c->cfg.cache_prompts_only ? 0 : q->outputs);
	if (!q->again) {
		end->cached = cached;
		end->first_sched_ns = w->now_ns;
	}
	say(w, EVENT_ADMIT, w->begun, w->now_ns, req, cached, q->again);
	pages_share(w, req, cached_pages);
	w->acted = true;
}

void world_compute(struct world *w, int32_t req, int32_t n)
{
	struct mreq *q = &w->q[req];
	struct mstep *st = w->plan;
	struct mrow row = {.req = req, .start = q->computed, .len = n, .chunk = !q->decoding};
	row.completes = q->decoding || q->computed + n == world_tokens(w, req);
	row.samples = row.completes && q->promised < q->limit;
	q->computed += n;
	q->promised += row.samples;
	st->rows = model_alloc(st->rows, (size_t)(st->n + 1) * sizeof *st->rows);
	st->rows[st->n++] = row;
	if (row.chunk)
		say(w, EVENT_CHUNK, w->begun, w->now_ns, req, row.start, n);
	else
		say(w, EVENT_DECODE, w->begun, w->now_ns, req, row.start + 1, 0);
	pages_scheduled(w, req, q->computed);
	w->acted = true;
}

/* Its row of the step being planned, if any, is taken back. */
static void unschedule(struct world *w, int32_t req)
{
	struct mstep *st = w->plan;
	int32_t kept = 0;
	for (int32_t i = 0; i < st->n; i++) {
		if (st->rows[i].req != req) {
			st->rows[kept++] = st->rows[i];
			continue;
		}
		w->q[req].computed = st->rows[i].start;
		pages_unscheduled(w, req, st->rows[i].start);
	}
	st->n = kept;
}

static void stop_running(struct world *w, int32_t req)
{
	struct mreq *q = &w->q[req];
	list_drop(w->running, &w->n_running, req);
	q->running = false;
	pages_drop(w, req);
}

void world_preempt(struct world *w, int32_t req, bool to_back)
{
	struct mreq *q = &w->q[req];
	unschedule(w, req);
	say(w, EVENT_PREEMPT, w->begun, w->now_ns, req, q->computed, 0);
	stop_running(w, req);
	q->again = true;
	q->computed = 0;
	q->promised = q->outputs; /* what is under way for it comes to nothing */
	w->log->ends[req].preemptions++;
	join_queue(w, req, !to_back);
	w->acted = true;
}

/* --- arrivals ----------------------------------------------------------------------------------------------------- */

static void ends(struct world *w, int32_t req, int64_t at_ns, bool finished)
{
	const struct workload *t = w->c->w;
	struct mreq *q = &w->q[req];
	q->over = true;
	q->with_server = q->waiting = q->running = false;
	w->log->ends[req].finished = finished;
	w->log->ends[req].last_token_ns = at_ns;
	for (int64_t k = t->child_at ? t->child_at[req] : 0; t->child_at && k < t->child_at[req + 1]; k++) {
		struct mreq *child = &w->q[t->child[k]];
		if (!finished)
			child->orphan = true;
		else if (--child->parents_left == 0) {
			child->known = true;
			child->arrival_ns = at_ns + t->specs[t->child[k]].arrival_ns;
		}
	}
}

/* Those who wait for one that failed fail as well, and theirs. */
static void fail_orphans(struct world *w)
{
	for (bool any = true; any;) {
		any = false;
		for (int32_t i = 0; i < w->n; i++)
			if (w->q[i].orphan && !w->q[i].over) {
				ends(w, i, w->now_ns, false);
				any = true;
			}
	}
}

/* Who would arrive next; -1: nobody, or the client has as many with the server as it may. */
static int32_t next_arrival(const struct world *w)
{
	int32_t best = -1, with = 0;
	for (int32_t i = 0; i < w->n; i++) {
		const struct mreq *q = &w->q[i];
		with += q->with_server;
		if (q->known && !q->with_server && !q->over && !q->orphan &&
		    (best < 0 || q->arrival_ns < w->q[best].arrival_ns))
			best = i;
	}
	return w->c->cfg.max_concurrency && with >= w->c->cfg.max_concurrency ? -1 : best;
}

static void take_arrivals(struct world *w)
{
	const struct engine_config *g = &w->c->cfg;
	int32_t i;
	for (fail_orphans(w); (i = next_arrival(w)) >= 0 && w->q[i].arrival_ns <= w->now_ns; fail_orphans(w)) {
		struct mreq *q = &w->q[i];
		q->with_server = true;
		q->turn = w->turns++;
		if (q->prompt >= g->max_model_len || world_pages(w, q->prompt) > g->num_blocks)
			ends(w, i, w->now_ns, false);
		else
			join_queue(w, i, false);
	}
}

/* When the first of them is given up by its client; *who, the one that came first of several. */
static int64_t next_given_up(const struct world *w, int32_t *who)
{
	int64_t best_ns = INT64_MAX;
	*who = -1;
	for (int32_t i = 0; i < w->n && w->c->cfg.abort_after_ns; i++) {
		const struct mreq *q = &w->q[i];
		int64_t at_ns = q->arrival_ns + w->c->cfg.abort_after_ns;
		if (q->with_server && (at_ns < best_ns || (at_ns == best_ns && q->turn < w->q[*who].turn))) {
			best_ns = at_ns;
			*who = i;
		}
	}
	return best_ns;
}

static void take_in(struct world *w)
{
	int32_t i;
	for (take_arrivals(w); next_given_up(w, &i) <= w->now_ns; take_arrivals(w)) {
		while (next_given_up(w, &i) <= w->now_ns) {
			say(w, EVENT_ABORT, w->begun, w->now_ns, i, REQUEST_WHY_TIMEOUT, 0);
			if (w->q[i].running)
				stop_running(w, i);
			list_drop(w->waiting, &w->n_waiting, i);
			ends(w, i, w->now_ns, false);
			fail_orphans(w);
		}
	}
}

/* --- steps -------------------------------------------------------------------------------------------------------- */

static int64_t duration(const struct world *w, const struct mstep *st)
{
	int64_t prefill = 0, decodes = 0, ctx = 0;
	for (int32_t i = 0; i < st->n; i++) {
		const struct mrow *r = &st->rows[i];
		prefill += r->chunk ? r->len : 0;
		decodes += !r->chunk;
		ctx += r->chunk ? 0 : r->start + 1;
	}
	return w->c->a + w->c->b * prefill + w->c->c * decodes + w->c->d * ctx;
}

static void token(struct world *w, int32_t req, int64_t at_ns)
{
	struct model_end *end = &w->log->ends[req];
	if (end->first_token_ns < 0)
		end->first_token_ns = at_ns;
	end->last_token_ns = at_ns;
	end->outputs = ++w->q[req].outputs;
}

static bool ends_with(const struct world *w, const struct mstep *st, int32_t req)
{
	for (int32_t i = 0; i < st->n; i++)
		if (st->rows[i].req == req && !st->rows[i].dropped && st->rows[i].completes)
			return w->q[req].outputs >= w->q[req].limit;
	return false;
}

static void commit(struct world *w, struct mstep *st, struct mstep *other)
{
	int64_t start_ns = st->planned_ns > w->device_free_ns ? st->planned_ns : w->device_free_ns;
	int64_t end_ns = start_ns + duration(w, st);
	w->now_ns = w->device_free_ns = end_ns;
	for (int32_t i = 0; i < st->n; i++)
		if (!st->rows[i].dropped)
			pages_written(w, st->rows[i].req, st->rows[i].start + st->rows[i].len);
	for (int32_t i = 0; i < st->n; i++) {
		const struct mrow *r = &st->rows[i];
		if (!r->dropped && r->samples)
			token(w, r->req, end_ns);
		else if (!r->dropped && r->chunk && r->completes) /* nothing is asked of it */
			w->log->ends[r->req].first_token_ns = end_ns;
	}
	for (int32_t k = 0; k < w->n_running;) {
		int32_t req = w->running[k];
		if (!ends_with(w, st, req)) {
			k++;
			continue;
		}
		say(w, EVENT_FINISH, st->number, end_ns, req, w->q[req].outputs, 0);
		pages_ends(w, req, w->q[req].prompt + w->q[req].outputs - 1);
		stop_running(w, req);
		for (int32_t i = 0; i < other->n; i++)
			other->rows[i].dropped |= other->rows[i].req == req;
		ends(w, req, end_ns, true);
	}
	say(w, EVENT_STEP, st->number, end_ns, -1, start_ns, end_ns);
}

/* --- a run -------------------------------------------------------------------------------------------------------- */

struct scheduler {
	const char *name;
	void (*plan)(struct world *w);
};

static const struct scheduler schedulers[] = {
	{"vllm_v1", plan_vllm_v1},
	{"sglang", plan_sglang},
	{"trtllm", plan_trtllm},
};

static const struct scheduler *scheduler_of(const struct policy_desc *d)
{
	for (size_t i = 0; i < sizeof schedulers / sizeof schedulers[0]; i++)
		if (strcmp(schedulers[i].name, d->name) == 0)
			return &schedulers[i];
	return NULL;
}

bool model_knows(const struct policy_desc *d)
{
	return scheduler_of(d) != NULL;
}

/* Rows of a step under way whose request was preempted or given up before this one is run come to nothing. */
static void drop_rows(const struct world *w, struct mstep *under_way, int64_t log_from)
{
	for (int64_t e = log_from; e < w->log->n; e++)
		for (int32_t i = 0; i < under_way->n; i++)
			under_way->rows[i].dropped |=
				under_way->rows[i].req == w->log->events[e].req &&
				(w->log->events[e].kind == EVENT_PREEMPT || w->log->events[e].kind == EVENT_ABORT);
}

/* False when there is nothing to compute. A plan that only stopped someone is followed by another. */
static bool plan(struct world *w, const struct scheduler *s, struct mstep *st, struct mstep *under_way)
{
	int64_t from = w->log->n;
	take_in(w);
	*st = (struct mstep){.number = w->begun, .planned_ns = w->now_ns, .rows = st->rows};
	w->plan = st;
	do {
		w->acted = false;
		s->plan(w);
	} while (w->acted && !st->n);
	drop_rows(w, under_way, from);
	for (int32_t i = 0; i < st->n; i++)
		w->q[st->rows[i].req].decoding |= st->rows[i].completes;
	w->begun += st->n > 0;
	return st->n > 0;
}

static bool all_over(const struct world *w)
{
	for (int32_t i = 0; i < w->n; i++)
		if (!w->q[i].over)
			return false;
	return true;
}

static void serve(struct world *w)
{
	const struct scheduler *s = scheduler_of(w->c->policy);
	struct mstep steps[2] = {{0}};
	int64_t under_way = 0, oldest = 0, newest = 0;
	for (;;) {
		bool planned = plan(w, s, &steps[newest & 1], &steps[(newest + 1) & 1]);
		under_way += planned;
		newest += planned;
		if (!planned && !under_way) {
			int32_t next = next_arrival(w), who;
			int64_t at_ns = next_given_up(w, &who);
			w->log->stuck = next < 0 && who < 0 && !all_over(w);
			if (next < 0 && who < 0)
				break;
			w->now_ns = next < 0 || at_ns < w->q[next].arrival_ns ? at_ns : w->q[next].arrival_ns;
			continue;
		}
		/* Asynchronous scheduling leaves one step under way while the next is planned. */
		if (planned && w->c->cfg.async_scheduling && under_way < 2)
			continue;
		commit(w, &steps[oldest & 1], &steps[(oldest + 1) & 1]);
		steps[oldest++ & 1].n = 0;
		under_way--;
	}
	free(steps[0].rows);
	free(steps[1].rows);
}

/* Tokens are equal when they come from the same place of the same content. */
static uint64_t token_id(uint64_t content, int64_t offset, uint64_t kind)
{
	uint64_t x = content * UINT64_C(0x9e3779b97f4a7c15) + (uint64_t)offset * UINT64_C(0xbf58476d1ce4e5b9) + kind;
	x = (x ^ x >> 31) * UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 29;
}

static void write_tokens(const struct world *w, int32_t i)
{
	const struct workload *t = w->c->w;
	const struct spec *s = &t->specs[i];
	struct mreq *q = &w->q[i];
	int32_t n = 0, all = q->prompt + q->limit + 2;
	q->tokens = model_alloc(NULL, (size_t)all * sizeof *q->tokens);
	for (int32_t k = 0; k < s->n_hashes; k++) {
		int32_t len = t->seg_tokens ? t->seg_tokens[s->hash_at + k] : t->hash_block;
		for (int32_t o = 0; o < len && n < q->prompt; o++)
			q->tokens[n++] = token_id(t->hash_ids[s->hash_at + k], o, 0);
	}
	for (int32_t o = 0; n < q->prompt; o++)
		q->tokens[n++] = token_id((uint64_t)i, o, 1);
	for (int32_t o = 0; n < all; o++)
		q->tokens[n++] = s->output_id ? token_id(s->output_id, o, 0) : token_id((uint64_t)i, o, 2);
}

static int32_t smaller(int32_t a, int32_t b)
{
	return a < b ? a : b;
}

static void read_requests(struct world *w)
{
	const struct workload *t = w->c->w;
	for (int32_t i = 0; i < w->n; i++) {
		const struct spec *s = &t->specs[i];
		struct mreq *q = &w->q[i];
		int32_t room = w->c->cfg.max_model_len - s->prompt_tokens;
		q->prompt = s->prompt_tokens;
		q->priority = s->priority;
		q->most = smaller(s->max_tokens, room > 0 ? room : 0);
		q->limit = smaller(s->output_tokens, q->most);
		q->parents_left = t->n_parents ? t->n_parents[i] : 0;
		q->known = !q->parents_left;
		q->arrival_ns = s->arrival_ns;
		write_tokens(w, i);
		w->log->ends[i] = (struct model_end){.first_sched_ns = -1, .first_token_ns = -1, .last_token_ns = -1};
	}
}

void model_run(struct model_log *out, const struct model_case *c)
{
	size_t n = (size_t)c->w->n;
	struct world w = {.c = c, .log = out, .n = (int32_t)n, .total = c->cfg.num_blocks};
	memset(out, 0, sizeof *out);
	out->ends = zeroed(n, sizeof *out->ends);
	w.q = zeroed(n, sizeof *w.q);
	w.running = zeroed(n, sizeof *w.running);
	w.waiting = zeroed(n, sizeof *w.waiting);
	read_requests(&w);
	pages_start(&w);
	serve(&w);
	pages_stop(&w);
	for (size_t i = 0; i < n; i++) {
		free(w.q[i].tokens);
		free(w.q[i].blocks);
	}
	free(w.q);
	free(w.running);
	free(w.waiting);
	free(w.policy);
}

void model_log_free(struct model_log *l)
{
	free(l->events);
	free(l->ends);
	*l = (struct model_log){0};
}
