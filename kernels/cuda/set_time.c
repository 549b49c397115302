/* set_time.c: what the device's time was spent on, by events in the stream, and the end of a step. */
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/set.h"

void cuda_marks_free(struct marks *m)
{
	for (int i = 0; i < m->cap; i++)
		if (m->list[i].event)
			cudaEventDestroy(m->list[i].event);
	free(m->list);
	*m = (struct marks){0};
}

/* The next one to be used, with an event. */
static struct mark *next_mark(struct cuda_set *s, struct marks *m)
{
	if (m->n == m->cap) {
		int cap = 2 * m->cap + 16;
		struct mark *more = realloc(m->list, (size_t)cap * sizeof *more);
		if (!more) {
			cuda_refuse(s, "out of memory for events");
			return NULL;
		}
		memset(more + m->cap, 0, (size_t)(cap - m->cap) * sizeof *more);
		m->list = more;
		m->cap = cap;
	}
	struct mark *mark = &m->list[m->n];
	if (!mark->event && cuda_check(s, cudaEventCreate(&mark->event), "making an event"))
		return NULL;
	return mark;
}

int cuda_marks_add(struct cuda_set *s, struct marks *m, enum part p, bool external)
{
	struct mark *mark = next_mark(s, m);
	if (!mark)
		return -1;
	mark->part = p;
	mark->graph = NULL;
	m->n++;
	return cuda_check(s,
			  cudaEventRecordWithFlags(mark->event, s->stream,
						   external ? cudaEventRecordExternal : cudaEventRecordDefault),
			  "recording an event");
}

int cuda_mark(struct kernel_set *k, enum part p)
{
	struct cuda_set *s = cuda_set_of(k);
	struct graphs *g = &s->graphs;
	if (g->recording)
		return g->marked ? cuda_marks_add(s, &g->now->inside, p, true) : 0;
	/* The same part goes on. */
	if (s->marks.n && s->marks.list[s->marks.n - 1].part == p && !s->marks.list[s->marks.n - 1].graph)
		return 0;
	return cuda_marks_add(s, &s->marks, p, false);
}

int cuda_mark_graph(struct cuda_set *s, struct recorded *g)
{
	if (cuda_marks_add(s, &s->marks, PART_OTHER, false))
		return -1;
	s->marks.list[s->marks.n - 1].graph = g;
	return 0;
}

/* Nanoseconds between two events that have happened. */
static int between(struct cuda_set *s, cudaEvent_t from, cudaEvent_t to, double *ns)
{
	float ms = 0;
	if (cuda_check(s, cudaEventElapsedTime(&ms, from, to), "reading the device's clock"))
		return -1;
	*ns = ms > 0 ? (double)ms * 1e6 : 0;
	return 0;
}

/* A marked replay: how its time splits. What lies before its first mark and after its last goes with those. */
static int learn_shares(struct cuda_set *s, struct recorded *g)
{
	double ns[N_PARTS] = {0}, all = 0;
	for (int i = 0; i + 1 < g->inside.n; i++) {
		double span;
		if (between(s, g->inside.list[i].event, g->inside.list[i + 1].event, &span))
			return -1;
		if (g->inside.list[i].part != N_PARTS)
			ns[g->inside.list[i].part] += span;
	}
	for (int p = 0; p < N_PARTS; p++)
		all += ns[p];
	for (int p = 0; p < N_PARTS && all > 0; p++)
		g->share[p] = ns[p] / all;
	return 0;
}

static void add_span(const struct mark *m, double span, double ns[N_PARTS])
{
	if (m->graph)
		for (int p = 0; p < N_PARTS; p++)
			ns[p] += span * m->graph->share[p];
	else if (m->part != N_PARTS)
		ns[m->part] += span;
}

static int read_marks(struct cuda_set *s, double ns[N_PARTS])
{
	struct marks *m = &s->marks;
	for (int i = 0; i + 1 < m->n; i++) {
		double span;
		if (between(s, m->list[i].event, m->list[i + 1].event, &span))
			return -1;
		add_span(&m->list[i], span, ns);
	}
	return 0;
}

static int read_faults(struct cuda_set *s)
{
	struct tag_fault found[64];
	for (int at = 0; at < s->n_faults;) {
		int n = s->n_faults - at < 64 ? s->n_faults - at : 64;
		if (cuda_download(&s->base, found, s->faults + at, (size_t)n * sizeof *found))
			return -1;
		for (int i = 0; i < n; i++) {
			struct tag_fault *told = s->told[at + i];
			if (found[i].n && !told->n)
				*told = found[i];
			else
				told->n += found[i].n;
		}
		at += n;
	}
	s->n_faults = 0;
	return 0;
}

int cuda_finish(struct kernel_set *k, int64_t part_ns[N_PARTS])
{
	struct cuda_set *s = cuda_set_of(k);
	double ns[N_PARTS] = {0};
	struct recorded *replayed = s->graphs.marked ? s->graphs.now : NULL;
	if (s->marks.n && cuda_marks_add(s, &s->marks, N_PARTS, false))
		return -1;
	if (cuda_check(s, cudaStreamSynchronize(s->stream), "waiting for the step's end") || read_faults(s))
		return -1;
	cuda_downloads_deliver(s);
	s->planned = false;
	if (replayed && learn_shares(s, replayed))
		return -1;
	s->graphs.now = NULL;
	s->graphs.marked = false;
	if (read_marks(s, ns))
		return -1;
	s->marks.n = 0;
	for (int p = 0; p < N_PARTS && part_ns; p++)
		part_ns[p] = (int64_t)ns[p];
	return 0;
}
