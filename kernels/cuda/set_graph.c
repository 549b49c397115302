/* set_graph.c: work that is recorded once and replayed: launching a decode step's few hundred kernels one by one takes the
 * host longer than the device needs to run them.
 *
 * The first time a key is seen its work is done as it is called: memory grows, libraries make their choices. The second
 * time it is recorded. */
#include <stdlib.h>

#include "kernels/cuda/set.h"

static void forget(struct recorded *r)
{
	if (r->bare)
		cudaGraphExecDestroy(r->bare);
	if (r->marked)
		cudaGraphExecDestroy(r->marked);
	cuda_marks_free(&r->inside);
	free(r);
}

void cuda_graphs_drop(struct cuda_set *s)
{
	struct graphs *g = &s->graphs;
	if (!g->list)
		return;
	cudaStreamSynchronize(s->stream); /* one may be running; what comes of it is told by the next call */
	for (int i = 0; i < s->marks.n; i++)
		s->marks.list[i].graph = NULL; /* what it took counts as `other` */
	g->now = NULL;
	g->recording = g->marked = false;
	while (g->list) {
		struct recorded *r = g->list;
		g->list = r->next;
		forget(r);
	}
}

static struct recorded *find(struct cuda_set *s, uint64_t key)
{
	for (struct recorded *r = s->graphs.list; r; r = r->next)
		if (r->key == key)
			return r;
	struct recorded *r = calloc(1, sizeof *r);
	if (!r) {
		cuda_refuse(s, "out of memory for a graph");
		return NULL;
	}
	r->key = key;
	r->share[PART_OTHER] = 1;
	r->next = s->graphs.list;
	s->graphs.list = r;
	return r;
}

int cuda_graph_begin(struct kernel_set *k, uint64_t key, enum graph *how)
{
	struct cuda_set *s = cuda_set_of(k);
	struct graphs *g = &s->graphs;
	*how = GRAPH_NONE;
	g->now = NULL;
	g->recording = g->marked = false;
	if (g->off)
		return 0;
	struct recorded *r = find(s, key);
	if (!r)
		return -1;
	int32_t nth = r->seen++;
	if (nth == 0)
		return 0;
	g->now = r;
	g->marked = nth % MARKED_EVERY == 1;
	*how = (g->marked ? r->marked : r->bare) ? GRAPH_REPLAY : GRAPH_RECORD;
	if (*how == GRAPH_REPLAY)
		return 0;
	s->planned = false; /* what a graph needs it does itself */
	r->inside.n = g->marked ? 0 : r->inside.n;
	if (cuda_check(s, cudaStreamBeginCapture(s->stream, cudaStreamCaptureModeThreadLocal), "recording a graph"))
		return -1;
	g->recording = true;
	return 0;
}

/* The end of what is recorded becomes something that can be started. */
static int keep(struct cuda_set *s, struct recorded *r)
{
	cudaGraph_t graph = NULL;
	cudaGraphExec_t *to = s->graphs.marked ? &r->marked : &r->bare;
	int failed = s->graphs.marked ? cuda_marks_add(s, &r->inside, N_PARTS, true) : 0;
	s->graphs.recording = false;
	s->planned = false;
	int status = cudaStreamEndCapture(s->stream, &graph);
	if (failed || cuda_check(s, status, "recording a graph")) {
		if (graph)
			cudaGraphDestroy(graph);
		return -1;
	}
	status = cudaGraphInstantiate(to, graph, 0);
	cudaGraphDestroy(graph);
	if (status == cudaErrorMemoryAllocation) {
		cudaGetLastError();
		return cuda_refuse(s, "out of memory for a graph: use --enforce-eager, or a lower "
				      "--gpu-memory-utilization");
	}
	return cuda_check(s, status, "making a graph");
}

int cuda_graph_end(struct kernel_set *k)
{
	struct cuda_set *s = cuda_set_of(k);
	struct graphs *g = &s->graphs;
	struct recorded *r = g->now;
	if (!r)
		return 0;
	if (g->recording && keep(s, r)) {
		g->now = NULL;
		g->marked = false;
		return -1;
	}
	if (cuda_mark_graph(s, r))
		return -1;
	if (cuda_check(s, cudaGraphLaunch(g->marked ? r->marked : r->bare, s->stream), "starting a graph"))
		return -1;
	/* What follows is not the graph's. */
	return cuda_marks_add(s, &s->marks, PART_HEAD, false);
}
