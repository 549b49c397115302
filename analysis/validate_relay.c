/* validate_relay.c: the steps of one execution laid along the schedule of another. */
#include <math.h>
#include <stdlib.h>

#include "analysis/validate_figures.h"
#include "core/err.h"
#include "core/mem.h"

/* A moment of the first execution and where it lies in the other. */
struct knot {
	int64_t from_ns, to_ns;
};

/* When a request was first scheduled. */
struct start {
	int64_t at_ns;
	int64_t req;
};

struct timeline {
	const struct relay *in;
	struct knot *knots; /* [n] both sides never go back */
	int64_t n;
	struct start *starts; /* [n_starts] in order of time */
	int64_t n_starts, next;
};

static int64_t moved(const struct timeline *t, int64_t at_ns)
{
	int64_t low = 0, high = t->n;
	while (low < high) { /* the first knot after it */
		int64_t mid = (low + high) / 2;
		if (t->knots[mid].from_ns <= at_ns)
			low = mid + 1;
		else
			high = mid;
	}
	if (low == 0)
		return at_ns;
	const struct knot *a = &t->knots[low - 1];
	if (low == t->n || a->from_ns == at_ns)
		return a->to_ns + (at_ns - a->from_ns);
	const struct knot *b = &t->knots[low];
	double share = (double)(at_ns - a->from_ns) / (double)(b->from_ns - a->from_ns);
	return a->to_ns + (int64_t)floor(share * (double)(b->to_ns - a->to_ns) + 0.5);
}

static void add_knot(struct timeline *t, int64_t from_ns, int64_t to_ns)
{
	/* Planned ahead, a step may begin before the one before it has ended: its end tells all. */
	if (t->n && (from_ns <= t->knots[t->n - 1].from_ns || to_ns < t->knots[t->n - 1].to_ns))
		return;
	t->knots[t->n++] = (struct knot){from_ns, to_ns};
}

/* When a request comes in the other execution: a dependent one follows its parents. */
static int64_t arrival(const struct timeline *t, int64_t i)
{
	const struct workload *w = t->in->workload;
	int64_t at_ns = t->in->requests[i].arrival_ns;
	if (!w->n_parents || !w->n_parents[i])
		return at_ns;
	int64_t delay_ns = w->specs[i].arrival_ns;
	return moved(t, at_ns - delay_ns) + delay_ns;
}

/* The latest arrival of those that a step which begins at start_ns takes in for the first time. */
static int64_t newest(struct timeline *t, int64_t start_ns)
{
	int64_t latest = INT64_MIN;
	for (; t->next < t->n_starts && t->starts[t->next].at_ns <= start_ns; t->next++) {
		int64_t at_ns = arrival(t, t->starts[t->next].req);
		latest = at_ns > latest ? at_ns : latest;
	}
	return latest;
}

static void lay_steps(struct timeline *t)
{
	const struct watch *a = t->in->first, *b = t->in->again;
	int64_t end_ns = 0; /* of the step before, in the other execution */
	for (int64_t k = 0; k < a->n; k++) {
		const struct watch_step *s = &a->steps[k];
		int64_t start_ns = s->start_ns, earliest = newest(t, s->start_ns);
		if (k > 0) {
			int64_t after = end_ns + (s->start_ns - a->steps[k - 1].end_ns);
			start_ns = s->idle_before ? (end_ns > s->start_ns ? end_ns : s->start_ns) : after;
		}
		if (start_ns < earliest)
			start_ns = earliest;
		end_ns = start_ns + b->steps[k].took_ns;
		add_knot(t, s->start_ns, start_ns);
		add_knot(t, s->end_ns, end_ns);
	}
}

static int by_time(const void *a, const void *b)
{
	const struct start *x = a, *y = b;
	return x->at_ns != y->at_ns ? (x->at_ns > y->at_ns) - (x->at_ns < y->at_ns)
				    : (x->req > y->req) - (x->req < y->req);
}

static int make_timeline(struct timeline *t, const struct relay *in, struct err *e)
{
	int64_t n = in->workload->n;
	*t = (struct timeline){.in = in};
	t->knots = mem_alloc((2 * (size_t)in->first->n + 1) * sizeof *t->knots);
	t->starts = mem_alloc(((size_t)n + 1) * sizeof *t->starts);
	if (!t->knots || !t->starts)
		return err_no_memory(e, "a schedule");
	for (int64_t i = 0; i < n; i++)
		if (in->requests[i].first_sched_ns >= 0)
			t->starts[t->n_starts++] = (struct start){in->requests[i].first_sched_ns, i};
	qsort(t->starts, (size_t)t->n_starts, sizeof *t->starts, by_time);
	lay_steps(t);
	return ERR_NONE;
}

/* How long each request was out of memory before its first token: lost_ns[n], zeroed. */
static int lost_before_first_token(const struct timeline *t, int64_t *lost_ns, struct err *e)
{
	const struct event_log *log = t->in->log;
	int64_t *since_ns = mem_zalloc((size_t)t->in->workload->n + 1, sizeof *since_ns);
	if (!since_ns)
		return err_no_memory(e, "a schedule");
	for (int64_t i = 0; i < log->n; i++) {
		const struct event *ev = &log->at[i];
		if (ev->kind == EVENT_PREEMPT)
			since_ns[ev->req] = ev->at_ns;
		if (ev->kind == EVENT_ADMIT && ev->b == 1 && ev->at_ns < t->in->requests[ev->req].first_token_ns)
			lost_ns[ev->req] += moved(t, ev->at_ns) - moved(t, since_ns[ev->req]);
	}
	mem_free(since_ns);
	return ERR_NONE;
}

int times_relaid(struct request_times *out, int64_t *end_ns, const struct relay *in, struct err *e)
{
	struct timeline t;
	int64_t n = in->workload->n;
	struct request *moved_to = mem_alloc(((size_t)n + 1) * sizeof *moved_to);
	int64_t *lost_ns = mem_zalloc((size_t)n + 1, sizeof *lost_ns);
	*out = (struct request_times){0};
	int rc = make_timeline(&t, in, e);
	if (rc == ERR_NONE && (!moved_to || !lost_ns))
		rc = err_no_memory(e, "a schedule");
	if (rc == ERR_NONE)
		rc = lost_before_first_token(&t, lost_ns, e);
	*end_ns = 0;
	for (int64_t i = 0; rc == ERR_NONE && i < n; i++) {
		struct request *q = &moved_to[i];
		*q = in->requests[i];
		if (q->state != REQUEST_FINISHED)
			continue;
		q->arrival_ns = arrival(&t, i);
		q->first_sched_ns = moved(&t, q->first_sched_ns);
		q->first_token_ns = moved(&t, q->first_token_ns);
		q->last_token_ns = moved(&t, q->last_token_ns);
		q->preempted_in_prefill_ns = lost_ns[i];
		*end_ns = q->last_token_ns > *end_ns ? q->last_token_ns : *end_ns;
	}
	if (rc == ERR_NONE)
		rc = times_of_requests(out, moved_to, n, e);
	mem_free(moved_to);
	mem_free(lost_ns);
	mem_free(t.knots);
	mem_free(t.starts);
	return rc;
}
