#include "analysis/workflows.h"

#include <math.h>
#include <stdbool.h>

#include "analysis/metrics.h"
#include "core/err.h"
#include "core/mem.h"

/* Indexed by request: its tree in the union-find, whose root stands for the workflow. */
struct groups {
	int32_t *up; /* [n] */
	int32_t *late_parent; /* [n] the parent that finished last, -1: none */
	int64_t *first_ns; /* [n] of a root: first arrival of the workflow */
	int32_t *last; /* [n] of a root: its request that finished last; -1: not all have finished */
};

static int32_t root_of(struct groups *g, int32_t i)
{
	while (g->up[i] != i) {
		g->up[i] = g->up[g->up[i]];
		i = g->up[i];
	}
	return i;
}

/* The smaller index becomes the root. */
static void join(struct groups *g, int32_t a, int32_t b)
{
	a = root_of(g, a);
	b = root_of(g, b);
	g->up[a > b ? a : b] = a > b ? b : a;
}

static void join_links(struct groups *g, const struct metrics_input *in)
{
	const struct workload *w = in->workload;
	const struct request *r = in->requests;
	for (int32_t i = 0; w->child_at && i < w->n; i++)
		for (int64_t k = w->child_at[i]; k < w->child_at[i + 1]; k++) {
			int32_t c = w->child[k], *late = &g->late_parent[c];
			join(g, i, c);
			if (*late < 0 || r[i].last_token_ns > r[*late].last_token_ns)
				*late = i;
		}
}

static int join_sessions(struct groups *g, const struct workload *w, struct err *e)
{
	int32_t sessions = 0;
	for (int64_t i = 0; i < w->n; i++)
		sessions = w->specs[i].session >= sessions ? w->specs[i].session + 1 : sessions;
	int32_t *first = mem_zalloc((size_t)sessions + 1, sizeof *first); /* its first request + 1 */
	if (!first)
		return err_no_memory(e, "metrics");
	for (int32_t i = 0; i < w->n; i++) {
		int32_t s = w->specs[i].session;
		if (s >= 0 && first[s])
			join(g, first[s] - 1, i);
		else if (s >= 0)
			first[s] = i + 1;
	}
	mem_free(first);
	return ERR_NONE;
}

static void find_ends(struct groups *g, const struct metrics_input *in)
{
	const struct request *r = in->requests;
	for (int32_t i = 0; i < in->workload->n; i++) {
		int32_t root = root_of(g, i);
		if (root == i) {
			g->first_ns[i] = r[i].arrival_ns;
			g->last[i] = i;
		}
		if (r[i].state != REQUEST_FINISHED) {
			g->last[root] = -1;
			continue;
		}
		if (r[i].arrival_ns < g->first_ns[root])
			g->first_ns[root] = r[i].arrival_ns;
		if (g->last[root] >= 0 && r[i].last_token_ns > r[g->last[root]].last_token_ns)
			g->last[root] = i;
	}
}

/* Back from the last request, each time to the parent it had to wait for longest. */
static void walk_critical(const struct groups *g, const struct metrics_input *in, int32_t i, double *requests,
			  double *queue_ns, double *tool_ns)
{
	for (; i >= 0; i = g->late_parent[i]) {
		*requests += 1;
		*queue_ns += (double)request_queue_ns(&in->requests[i]);
		if (g->late_parent[i] >= 0)
			*tool_ns +=
				(double)(in->requests[i].arrival_ns - in->requests[g->late_parent[i]].last_token_ns);
	}
}

static void sum_up(struct metrics *m, struct groups *g, const struct metrics_input *in, double *scratch)
{
	struct workflow_figures *f = &m->workflows;
	double total = 0, requests = 0, queue = 0, tool = 0;
	for (int32_t i = 0; i < in->workload->n; i++) {
		if (g->up[i] != i)
			continue;
		f->n++;
		if (g->last[i] < 0)
			continue;
		scratch[f->completed] = (double)(in->requests[g->last[i]].last_token_ns - g->first_ns[i]);
		total += scratch[f->completed++];
		walk_critical(g, in, g->last[i], &requests, &queue, &tool);
	}
	if (f->completed && m->duration_ns > 0)
		f->throughput = (double)f->completed * 1e9 / (double)m->duration_ns;
	if (f->completed)
		f->critical_requests = requests / (double)f->completed;
	if (total > 0) {
		f->critical_queue_share = queue / total;
		f->critical_tool_share = tool / total;
	}
	dist_compute(&f->makespan, scratch, f->completed, &in->percentiles);
}

/* Jain's index over tenants of how fast their tokens came: outputs per second between arrival and last token. */
static int fairness(struct metrics *m, const struct metrics_input *in, struct err *e)
{
	int32_t n = in->workload->n_tenants, served = 0;
	double sum = 0, squares = 0;
	m->tenant_fairness = NAN;
	if (n < 2)
		return ERR_NONE;
	double *of = mem_zalloc((size_t)n, 2 * sizeof *of);
	if (!of)
		return err_no_memory(e, "metrics");
	double *ns = of + n;
	for (int64_t i = 0; i < in->workload->n; i++) {
		const struct request *r = &in->requests[i];
		if (r->state != REQUEST_FINISHED)
			continue;
		of[in->workload->specs[i].tenant] += (double)r->outputs;
		ns[in->workload->specs[i].tenant] += (double)request_e2e_ns(r);
	}
	for (int32_t t = 0; t < n; t++) {
		double rate = ns[t] > 0 ? of[t] / ns[t] * 1e9 : 0;
		served += ns[t] > 0;
		sum += rate;
		squares += rate * rate;
	}
	mem_free(of);
	if (served > 1 && squares > 0)
		m->tenant_fairness = sum * sum / ((double)served * squares);
	return ERR_NONE;
}

static bool has_workflows(const struct workload *w)
{
	if (w->child_at)
		return true;
	for (int64_t i = 0; i < w->n; i++)
		if (w->specs[i].session >= 0)
			return true;
	return false;
}

int workflows_compute(struct metrics *m, const struct metrics_input *in, double *scratch, struct err *e)
{
	size_t n = (size_t)in->workload->n;
	m->workflows = (struct workflow_figures){
		.throughput = NAN, .critical_requests = NAN, .critical_queue_share = NAN, .critical_tool_share = NAN};
	dist_compute(&m->workflows.makespan, scratch, 0, &in->percentiles);
	int code = fairness(m, in, e);
	if (code || !has_workflows(in->workload))
		return code;
	struct groups g = {.up = mem_alloc(n * sizeof *g.up),
			   .late_parent = mem_alloc(n * sizeof *g.late_parent),
			   .first_ns = mem_alloc(n * sizeof *g.first_ns),
			   .last = mem_alloc(n * sizeof *g.last)};
	if (!g.up || !g.late_parent || !g.first_ns || !g.last)
		code = err_no_memory(e, "metrics");
	for (int32_t i = 0; !code && i < (int32_t)n; i++) {
		g.up[i] = i;
		g.late_parent[i] = -1;
	}
	if (!code) {
		join_links(&g, in);
		code = join_sessions(&g, in->workload, e);
	}
	if (!code) {
		find_ends(&g, in);
		sum_up(m, &g, in, scratch);
	}
	mem_free(g.up);
	mem_free(g.late_parent);
	mem_free(g.first_ns);
	mem_free(g.last);
	return code;
}
