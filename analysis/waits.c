#include "analysis/waits.h"

#include <math.h>
#include <stdbool.h>

#include "analysis/metrics.h"
#include "core/err.h"
#include "core/mem.h"

static void causes(struct metrics *m, const struct metrics_input *in, double *scratch)
{
	double sums[WAIT_CAUSES] = {0}, all = 0;
	m->longest_wait_ns = NAN;
	for (int c = 0; c < WAIT_CAUSES; c++) {
		int64_t n = 0;
		for (int64_t i = 0; i < in->workload->n; i++)
			if (in->requests[i].state == REQUEST_FINISHED) {
				scratch[n] = (double)in->requests[i].waited_ns[c];
				sums[c] += scratch[n++];
			}
		dist_compute(&m->waited[c], scratch, n, &in->percentiles);
		all += sums[c];
	}
	for (int c = 0; c < WAIT_CAUSES; c++)
		m->waited_share[c] = all > 0 ? sums[c] / all : NAN;
	for (int64_t i = 0; i < in->workload->n; i++) {
		const struct request *r = &in->requests[i];
		double waited = (double)(request_queue_ns(r) + r->preempted_ns);
		if (r->state == REQUEST_FINISHED && !(waited <= m->longest_wait_ns))
			m->longest_wait_ns = waited;
	}
}

/* Jain's index of the values that are not 0; NAN below two. */
static double jain(const double *x, int32_t n)
{
	double sum = 0, squares = 0;
	int32_t counted = 0;
	for (int32_t i = 0; i < n; i++) {
		counted += x[i] > 0;
		sum += x[i];
		squares += x[i] * x[i];
	}
	return counted > 1 ? sum * sum / (counted * squares) : NAN;
}

/* What each tenant was given, and how slow it was. */
static int tenants(struct metrics *m, const struct metrics_input *in, struct err *e)
{
	int32_t n = in->workload->n_tenants;
	const struct order_params *o = &in->config->order;
	double input = o->input_weight, output = o->output_weight;
	m->tenant_service_fairness = m->tenant_latency_fairness = NAN;
	if (n < 2)
		return ERR_NONE;
	double *service = mem_zalloc((size_t)n, 3 * sizeof *service);
	if (!service)
		return err_no_memory(e, "metrics");
	double *latency = service + n, *requests = latency + n;
	for (int64_t i = 0; i < in->workload->n; i++) {
		const struct request *r = &in->requests[i];
		const struct spec *s = &in->workload->specs[i];
		if (r->state != REQUEST_FINISHED)
			continue;
		service[s->tenant] += input * s->prompt_tokens + output * r->outputs;
		if (r->outputs > 0) {
			latency[s->tenant] += (double)request_e2e_ns(r) / r->outputs;
			requests[s->tenant]++;
		}
	}
	for (int32_t t = 0; t < n; t++)
		latency[t] = requests[t] > 0 ? latency[t] / requests[t] : 0;
	m->tenant_service_fairness = jain(service, n);
	m->tenant_latency_fairness = jain(latency, n);
	mem_free(service);
	return ERR_NONE;
}

int waits_compute(struct metrics *m, const struct metrics_input *in, double *scratch, struct err *e)
{
	causes(m, in, scratch);
	return tenants(m, in, e);
}
