#include "analysis/explain_rank.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/err.h"
#include "core/mem.h"

const char *const explain_metric_names[] = {"ttft", "tpot", "e2el", NULL};
const char *const explain_metric_labels[] = {"TTFT", "TPOT", "E2E latency"};

struct value {
	double ns;
	int32_t req;
};

/* Slowest first, then by request. */
static int by_value(const void *x, const void *y)
{
	const struct value *a = x, *b = y;
	if (a->ns != b->ns)
		return a->ns > b->ns ? -1 : 1;
	return a->req < b->req ? -1 : 1;
}

static bool value_of(const struct request *r, enum explain_metric metric, double *ns)
{
	if (r->state != REQUEST_FINISHED || (metric == EXPLAIN_TPOT && r->outputs < 2))
		return false;
	if (metric == EXPLAIN_TTFT)
		*ns = (double)request_ttft_ns(r);
	else if (metric == EXPLAIN_E2EL)
		*ns = (double)request_e2e_ns(r);
	else
		*ns = (double)(r->last_token_ns - r->first_token_ns) / (r->outputs - 1);
	return true;
}

static void add_causes(const struct explain *x, const struct request *r, int32_t req, enum explain_metric metric,
		       double by[CAUSES])
{
	const struct explained *k = &x->each[req];
	double tokens = metric == EXPLAIN_TPOT ? r->outputs - 1 : 1;
	for (int c = 0; c < CAUSES; c++) {
		int64_t ns = metric == EXPLAIN_TTFT   ? k->first[c]
			     : metric == EXPLAIN_TPOT ? k->after[c]
						      : k->first[c] + k->after[c];
		by[c] += (double)ns / tokens;
	}
}

static void order_causes(struct explain_rank *out)
{
	for (int c = 0; c < CAUSES; c++) {
		int at = c;
		for (; at > 0 && out->slow_by[out->order[at - 1]] < out->slow_by[c]; at--)
			out->order[at] = out->order[at - 1];
		out->order[at] = c;
	}
}

static void take_means(struct explain_rank *out)
{
	for (int c = 0; c < CAUSES; c++) {
		out->all_by[c] /= (double)out->n;
		out->slow_by[c] /= (double)out->slow;
	}
	out->all_ns /= (double)out->n;
	out->slow_ns /= (double)out->slow;
}

int explain_rank(const struct explain *x, const struct request *requests, enum explain_metric metric, double percentile,
		 struct explain_rank *out, struct err *e)
{
	*out = (struct explain_rank){.at_ns = NAN};
	struct value *v = mem_alloc(((size_t)x->n + 1) * sizeof *v);
	if (!v)
		return err_no_memory(e, "the ranking of causes");
	for (int32_t i = 0; i < x->n; i++)
		if (value_of(&requests[i], metric, &v[out->n].ns))
			v[out->n++].req = i;
	if (out->n == 0) {
		mem_free(v);
		return ERR_NONE;
	}
	qsort(v, (size_t)out->n, sizeof *v, by_value);
	int64_t rank = (int64_t)ceil(percentile / 100 * (double)out->n - 1e-9);
	rank = rank < 1 ? 1 : rank > out->n ? out->n : rank;
	out->slow = out->n - rank + 1;
	out->at_ns = v[out->slow - 1].ns;
	for (int64_t i = 0; i < out->n; i++) {
		add_causes(x, &requests[v[i].req], v[i].req, metric, i < out->slow ? out->slow_by : out->all_by);
		*(i < out->slow ? &out->slow_ns : &out->all_ns) += v[i].ns;
		if (i < EXPLAIN_SLOWEST && i < out->slow)
			out->slowest[out->n_slowest++] = v[i].req;
	}
	for (int c = 0; c < CAUSES; c++)
		out->all_by[c] += out->slow_by[c];
	out->all_ns += out->slow_ns;
	take_means(out);
	order_causes(out);
	mem_free(v);
	return ERR_NONE;
}
