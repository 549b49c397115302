#include "analysis/timeline.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/text.h"
#include "core/err.h"
#include "core/mem.h"

void timeline_options_default(struct timeline_options *o)
{
	*o = (struct timeline_options){.from_ns = 0, .to_ns = INT64_MAX, .max_requests = 1000, .max_steps = 100000};
}

void timeline_free(struct timeline *t)
{
	for (int32_t m = 0; t->steps && m < timeline_replicas(t); m++)
		step_groups_free(&t->steps[m]);
	mem_free(t->steps);
	mem_free(t->requests);
	mem_free(t->slot);
	mem_free(t->phases);
	mem_free(t->texts);
	mem_free(t->load);
	stored_run_free(&t->run);
	*t = (struct timeline){0};
}

/* --- which requests ----------------------------------------------------------------------------------------------- */

struct candidate {
	int64_t key; /* the larger goes first */
	int32_t index;
};

struct chooser {
	struct timeline *t;
	struct candidate *at;
	int64_t n, cap;
};

/* When it was gone; unfinished ones stay to the end. */
static int64_t end_of(const struct stored_request *q)
{
	if (stored_request_finished(q))
		return q->arrival_ns + stored_request_e2e_ns(q) + q->held_ns;
	return q->failed_ns >= 0 ? q->arrival_ns + q->failed_ns : INT64_MAX;
}

static bool overlaps(const struct timeline_options *o, int64_t start_ns, int64_t end_ns)
{
	return start_ns < o->to_ns && (end_ns > o->from_ns || start_ns >= o->from_ns);
}

static int consider(void *ctx, const struct stored_request *q, struct err *e)
{
	struct chooser *c = ctx;
	struct timeline *t = c->t;
	t->stored++;
	if (q->index < 0 || q->index >= t->run.requests || q->arrival_ns < 0)
		return ERR_NONE;
	int64_t end = end_of(q);
	if (end != INT64_MAX && end > t->last_ns)
		t->last_ns = end;
	if (q->arrival_ns > t->last_ns)
		t->last_ns = q->arrival_ns;
	if (!overlaps(&t->o, q->arrival_ns, end))
		return ERR_NONE;
	t->unfinished += end == INT64_MAX;
	if (mem_grow((void **)&c->at, &c->cap, c->n + 1, sizeof *c->at))
		return err_no_memory(e, "requests");
	c->at[c->n++] = (struct candidate){.key = t->o.slowest ? end == INT64_MAX ? end : end - q->arrival_ns : 0,
					   .index = q->index};
	return ERR_NONE;
}

static int larger_first(const void *x, const void *y)
{
	const struct candidate *a = x, *b = y;
	if (a->key != b->key)
		return a->key > b->key ? -1 : 1;
	return a->index < b->index ? -1 : a->index > b->index;
}

/* Marks those that are wanted in slot[]. */
static int choose(struct timeline *t, struct store *s, struct err *e)
{
	struct chooser c = {.t = t};
	t->slot = mem_alloc((size_t)(t->run.requests + 1) * sizeof *t->slot);
	if (!t->slot)
		return err_no_memory(e, "requests");
	for (int64_t i = 0; i < t->run.requests; i++)
		t->slot[i] = -1;
	int rc = store_each_request(s, t->run.run_id, consider, &c, e);
	if (rc == ERR_NONE) {
		if (t->o.slowest && c.n)
			qsort(c.at, (size_t)c.n, sizeof *c.at, larger_first);
		t->in_window = c.n;
		for (int64_t i = 0; i < c.n && i < t->o.max_requests; i++)
			t->slot[c.at[i].index] = 0;
	}
	mem_free(c.at);
	return rc;
}

/* --- their phases, from totals ------------------------------------------------------------------------------------ */

static int add_phase(struct timeline *t, const struct timeline_request *r, enum phase_kind kind, int64_t begin_ns,
		     int64_t end_ns, int64_t tokens, struct err *e)
{
	if (end_ns <= begin_ns)
		return ERR_NONE;
	if (mem_grow((void **)&t->phases, &t->cap_phases, t->n_phases + 1, sizeof *t->phases))
		return err_no_memory(e, "phases of requests");
	t->phases[t->n_phases++] = (struct phase){.req = r->q.index,
						  .kind = kind,
						  .begin_ns = begin_ns,
						  .end_ns = end_ns,
						  .first_step = -1,
						  .last_step = -1,
						  .tokens = tokens,
						  .by = -1};
	return ERR_NONE;
}

static int phases_of_totals(struct timeline *t, const struct timeline_request *r, struct err *e)
{
	const struct stored_request *q = &r->q;
	int64_t at = q->arrival_ns;
	if (!stored_request_finished(q))
		return ERR_NONE;
	int64_t scheduled = at + q->queue_ns, first = at + stored_request_ttft_ns(q),
		last = at + stored_request_e2e_ns(q);
	int rc = add_phase(t, r, PHASE_QUEUED, at, scheduled, 0, e);
	if (rc == ERR_NONE)
		rc = add_phase(t, r, PHASE_PREFILL, scheduled, first, 0, e);
	if (rc == ERR_NONE)
		rc = add_phase(t, r, PHASE_DECODE, first, last, q->output_tokens, e);
	return rc ? rc : add_phase(t, r, PHASE_HELD, last, last + q->held_ns, 0, e);
}

static int keep_text(struct timeline *t, const char *text, int64_t *at, struct err *e)
{
	char clean[TEXT_CLEAN];
	text_clean(text, clean, sizeof clean);
	int64_t size = (int64_t)strlen(clean) + 1;
	if (mem_grow((void **)&t->texts, &t->cap_texts, t->n_texts + size, 1))
		return err_no_memory(e, "names of requests");
	memcpy(t->texts + t->n_texts, clean, (size_t)size);
	*at = t->n_texts;
	t->n_texts += size;
	return ERR_NONE;
}

static int keep(void *ctx, const struct stored_request *q, struct err *e)
{
	struct timeline *t = ctx;
	if (q->index < 0 || q->index >= t->run.requests || t->slot[q->index] < 0)
		return ERR_NONE;
	struct timeline_request r = {.q = *q, .tenant_at = -1, .first = t->n_phases};
	int64_t end = end_of(q);
	r.end_ns = end == INT64_MAX ? t->last_ns : end;
	int rc = keep_text(t, q->name, &r.name_at, e);
	if (rc == ERR_NONE && q->tenant)
		rc = keep_text(t, q->tenant, &r.tenant_at, e);
	r.q.name = r.q.tenant = NULL;
	if (rc == ERR_NONE)
		rc = phases_of_totals(t, &r, e);
	r.n = t->n_phases - r.first;
	if (rc == ERR_NONE && mem_grow((void **)&t->requests, &t->cap_requests, t->n + 1, sizeof *t->requests))
		rc = err_no_memory(e, "requests");
	if (rc)
		return rc;
	t->slot[q->index] = (int32_t)t->n;
	t->requests[t->n++] = r;
	return ERR_NONE;
}

static int make_steps(struct timeline *t, struct err *e)
{
	int32_t n = timeline_replicas(t);
	t->steps = mem_zalloc((size_t)n, sizeof *t->steps);
	if (!t->steps)
		return err_no_memory(e, "steps");
	for (int32_t m = 0; m < n; m++)
		step_groups_init(&t->steps[m], t->o.max_steps / n);
	return ERR_NONE;
}

int64_t timeline_steps(const struct timeline *t, int64_t *per)
{
	int64_t n = 0, most = 1;
	for (int32_t m = 0; m < timeline_replicas(t); m++) {
		n += t->steps[m].steps;
		most = t->steps[m].per > most ? t->steps[m].per : most;
	}
	if (per)
		*per = most;
	return n;
}

int timeline_read(struct timeline *t, struct store *s, int64_t run_id, const struct timeline_options *o, struct err *e)
{
	*t = (struct timeline){.o = *o};
	int rc = store_run(s, run_id, &t->run, e);
	if (rc == ERR_NONE)
		rc = make_steps(t, e);
	if (rc == ERR_NONE)
		rc = choose(t, s, e);
	return rc ? rc : store_each_request(s, run_id, keep, t, e);
}

/* --- steps, or how many waited and ran ---------------------------------------------------------------------------- */

static int keep_step(void *ctx, const struct step_row *row, struct err *e)
{
	struct timeline *t = ctx;
	if (row->end_ns > t->last_ns)
		t->last_ns = row->end_ns;
	return step_groups_add(&t->steps[0], row, e); /* of several none are stored */
}

/* At t_ns so many more wait and run on a replica. */
struct change {
	int64_t t_ns;
	int32_t replica;
	int8_t waiting, running;
};

struct changes {
	struct change *at;
	int64_t n, cap;
};

static int add_change(struct changes *c, int64_t t_ns, int32_t replica, int waiting, int running, struct err *e)
{
	if (mem_grow((void **)&c->at, &c->cap, c->n + 1, sizeof *c->at))
		return err_no_memory(e, "a queue");
	c->at[c->n++] = (struct change){t_ns, replica, (int8_t)waiting, (int8_t)running};
	return ERR_NONE;
}

static int changes_of(void *ctx, const struct stored_request *q, struct err *e)
{
	struct changes *c = ctx;
	if (!stored_request_finished(q))
		return ERR_NONE;
	int64_t scheduled = q->arrival_ns + q->queue_ns, end = end_of(q);
	int rc = add_change(c, q->arrival_ns, q->replica, 1, 0, e);
	if (rc == ERR_NONE)
		rc = add_change(c, scheduled, q->replica, -1, 1, e);
	return rc ? rc : add_change(c, end, q->replica, 0, -1, e);
}

static int earlier_first(const void *x, const void *y)
{
	const struct change *a = x, *b = y;
	if (a->replica != b->replica)
		return a->replica < b->replica ? -1 : 1;
	return a->t_ns < b->t_ns ? -1 : a->t_ns > b->t_ns;
}

/* What one replica's changes add up to; `per` moments become one point that has the most of them. */
struct adder {
	int64_t per, in; /* moments in the last point */
	struct timeline_load now;
};

static int add_point(struct timeline *t, struct adder *a, int64_t t_ns, struct err *e)
{
	struct timeline_load *last = t->n_load ? &t->load[t->n_load - 1] : NULL;
	if (a->in && last) {
		last->waiting = a->now.waiting > last->waiting ? a->now.waiting : last->waiting;
		last->running = a->now.running > last->running ? a->now.running : last->running;
	} else {
		if (mem_grow((void **)&t->load, &t->cap_load, t->n_load + 1, sizeof *t->load))
			return err_no_memory(e, "a queue");
		t->load[t->n_load] = a->now;
		t->load[t->n_load++].t_ns = t_ns;
	}
	a->in = (a->in + 1) % a->per;
	return ERR_NONE;
}

/* c[0 .. n) are of one replica. What was before the window is its first point. */
static int load_of(struct timeline *t, const struct change *c, int64_t n, int64_t per, struct err *e)
{
	struct adder a = {.per = per, .now = {.replica = c[0].replica}};
	int64_t i = 0;
	int rc = ERR_NONE;
	for (; i < n && c[i].t_ns < t->o.from_ns; i++) {
		a.now.waiting += c[i].waiting;
		a.now.running += c[i].running;
	}
	if (i && (i == n || c[i].t_ns > t->o.from_ns))
		rc = add_point(t, &a, t->o.from_ns, e);
	for (; rc == ERR_NONE && i < n && c[i].t_ns < t->o.to_ns; i++) {
		a.now.waiting += c[i].waiting;
		a.now.running += c[i].running;
		if (i + 1 == n || c[i + 1].t_ns != c[i].t_ns)
			rc = add_point(t, &a, c[i].t_ns, e);
	}
	return rc;
}

static int read_load(struct timeline *t, struct store *s, struct err *e)
{
	struct changes c = {0};
	int rc = store_each_request(s, t->run.run_id, changes_of, &c, e);
	if (rc == ERR_NONE && c.n)
		qsort(c.at, (size_t)c.n, sizeof *c.at, earlier_first);
	int64_t per = (c.n + t->o.max_steps - 1) / t->o.max_steps;
	for (int64_t i = 0, n; rc == ERR_NONE && i < c.n; i += n) {
		for (n = 1; i + n < c.n && c.at[i + n].replica == c.at[i].replica;)
			n++;
		rc = load_of(t, c.at + i, n, per, e);
	}
	mem_free(c.at);
	return rc;
}

int timeline_read_steps(struct timeline *t, struct store *s, struct err *e)
{
	if (!t->run.has_steps)
		return read_load(t, s, e);
	return store_each_step(s, t->run.run_id, t->o.from_ns, t->o.to_ns, keep_step, t, e);
}
