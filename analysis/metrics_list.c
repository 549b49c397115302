/* metrics_list.c: names: of latencies and percentiles, and all metrics as one flat list. */
#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/metrics.h"
#include "core/err.h"

static const struct {
	const char *key, *label;
} latencies[LATENCY_COUNT] = {
	[LATENCY_TTFT] = {"ttft", "TTFT"},
	[LATENCY_TPOT] = {"tpot", "TPOT"},
	[LATENCY_ITL] = {"itl", "ITL"},
	[LATENCY_E2EL] = {"e2el", "E2E latency"},
	[LATENCY_NORMALIZED] = {"normalized_latency", "latency per token"},
	[LATENCY_QUEUE] = {"queue", "queue time"},
	[LATENCY_PREFILL] = {"prefill", "prefill time"},
	[LATENCY_DECODE] = {"decode", "decode time"},
	[LATENCY_PREEMPTED] = {"preempted", "preempted time"},
	[LATENCY_TRANSFER] = {"transfer", "transfer time"},
};

const char *latency_key(enum latency l)
{
	return latencies[l].key;
}

const char *latency_label(enum latency l)
{
	return latencies[l].label;
}

/* --- percentiles -------------------------------------------------------------------------------------------------- */

void percentiles_default(struct percentiles *p)
{
	*p = (struct percentiles){.p = {99}, .n = 1};
}

static bool has_percentile(const struct percentiles *p, double v)
{
	for (int32_t i = 0; i < p->n; i++)
		if (p->p[i] == v)
			return true;
	return false;
}

int percentiles_parse(struct percentiles *p, const char *text, struct err *e)
{
	*p = (struct percentiles){.n = 0};
	for (const char *at = text;;) {
		char *end;
		double v = strtod(at, &end);
		if (end == at || (*end && *end != ',') || !(v > 0 && v <= 100))
			return err_set(e, ERR_INPUT,
				       "metric percentiles: \"%s\" is not a list of numbers above 0 and up to 100, "
				       "like 50,90,99",
				       text);
		/* One place is kept for the 99 that has to be there. */
		if (!has_percentile(p, v)) {
			if (p->n == METRICS_MAX_PERCENTILES - 1)
				return err_set(e, ERR_INPUT, "metric percentiles: more than %d of them",
					       METRICS_MAX_PERCENTILES - 1);
			p->p[p->n++] = v;
		}
		if (!*end)
			break;
		at = end + 1;
	}
	if (!has_percentile(p, 99))
		p->p[p->n++] = 99;
	return ERR_NONE;
}

const char *percentile_name(double p, char buf[24])
{
	snprintf(buf, 24, "p%.10g", p);
	return buf;
}

bool percentile_is_thin(double p, int64_t n)
{
	return p < 100 && (double)n * (100 - p) < 100 * (1 - 1e-9);
}

/* --- the list ----------------------------------------------------------------------------------------------------- */

enum kind { M_DOUBLE, M_COUNT, M_SECONDS, S_COUNT, S_COUNT32 };

#define M(field) offsetof(struct metrics, field)
#define S(field) offsetof(struct engine_stats, field)
static const struct scalar {
	const char *key, *label, *unit;
	enum metric_better better;
	bool headline;
	enum kind kind;
	size_t offset;
} scalars[] = {
	{"completed", "completed", "requests", METRIC_HIGHER, true, M_COUNT, M(completed)},
	{"rejected", "rejected", "requests", METRIC_LOWER, true, M_COUNT, M(rejected)},
	{"aborted", "aborted", "requests", METRIC_LOWER, true, M_COUNT, M(aborted)},
	{"unfinished", "unfinished", "requests", METRIC_LOWER, false, M_COUNT, M(unfinished)},
	{"zero_output", "without output", "requests", METRIC_NEUTRAL, false, M_COUNT, M(zero_output)},
	{"duration", "duration", "s", METRIC_LOWER, true, M_SECONDS, M(duration_ns)},
	{"total_input_tokens", "input tokens", "tokens", METRIC_NEUTRAL, false, M_COUNT, M(input_tokens)},
	{"total_output_tokens", "output tokens", "tokens", METRIC_NEUTRAL, false, M_COUNT, M(output_tokens)},
	{"offered_rate", "offered rate", "req/s", METRIC_NEUTRAL, true, M_DOUBLE, M(offered_rate)},
	{"request_throughput", "request throughput", "req/s", METRIC_HIGHER, true, M_DOUBLE, M(request_throughput)},
	{"request_goodput", "goodput", "req/s", METRIC_HIGHER, true, M_DOUBLE, M(request_goodput)},
	{"good_request_fraction", "good requests", "share", METRIC_HIGHER, false, M_DOUBLE, M(good_request_fraction)},
	{"output_throughput", "output throughput", "tok/s", METRIC_HIGHER, true, M_DOUBLE, M(output_throughput)},
	{"total_token_throughput", "total throughput", "tok/s", METRIC_HIGHER, true, M_DOUBLE,
	 M(total_token_throughput)},
	{"max_output_tokens_per_s", "peak output", "tok/s", METRIC_NEUTRAL, false, M_DOUBLE,
	 M(max_output_tokens_per_s)},
	{"max_concurrent_requests", "peak in flight", "requests", METRIC_NEUTRAL, false, M_COUNT,
	 M(max_concurrent_requests)},
	{"steps", "steps", "", METRIC_NEUTRAL, true, S_COUNT, S(steps)},
	{"preemptions", "preemptions", "", METRIC_LOWER, true, S_COUNT, S(preemptions)},
	{"preempted_requests", "requests preempted", "requests", METRIC_LOWER, false, M_COUNT, M(preempted_requests)},
	{"recomputed_tokens", "recomputed tokens", "tokens", METRIC_LOWER, true, S_COUNT, S(recomputed_tokens)},
	{"swaps", "swapped out", "", METRIC_NEUTRAL, false, S_COUNT, S(swaps)},
	{"swap_refused", "swaps refused", "", METRIC_LOWER, false, S_COUNT, S(swap_refused)},
	{"swap_out_bytes", "swapped out", "bytes", METRIC_NEUTRAL, false, M_COUNT, M(swap_out_bytes)},
	{"swap_in_bytes", "swapped in", "bytes", METRIC_NEUTRAL, false, M_COUNT, M(swap_in_bytes)},
	{"max_swap_used", "most host blocks used", "blocks", METRIC_NEUTRAL, false, S_COUNT32, S(max_swap_used)},
	{"saved_blocks", "prefix blocks saved", "blocks", METRIC_NEUTRAL, false, S_COUNT, S(saved_blocks)},
	{"saved_bytes", "prefixes to host memory", "bytes", METRIC_NEUTRAL, false, M_COUNT, M(saved_bytes)},
	{"host_hit_bytes", "prefixes from host memory", "bytes", METRIC_NEUTRAL, false, M_COUNT, M(host_hit_bytes)},
	{"disk_write_bytes", "prefixes to disk", "bytes", METRIC_NEUTRAL, false, M_COUNT, M(disk_write_bytes)},
	{"disk_read_bytes", "prefixes from disk", "bytes", METRIC_NEUTRAL, false, M_COUNT, M(disk_read_bytes)},
	{"prefetched_blocks", "prefix blocks read ahead", "blocks", METRIC_NEUTRAL, false, S_COUNT,
	 S(prefetched_blocks)},
	{"cold_dropped_blocks", "prefix blocks dropped", "blocks", METRIC_LOWER, false, S_COUNT,
	 S(cold_dropped_blocks)},
	{"unsaved_blocks", "prefix blocks not saved", "blocks", METRIC_LOWER, false, S_COUNT, S(unsaved_blocks)},
	{"cold_hit_ratio", "prefix hits behind the device", "share", METRIC_HIGHER, false, M_DOUBLE, M(cold_hit_ratio)},
	{"transfer_share", "steps waiting for copies", "share", METRIC_LOWER, false, M_DOUBLE, M(transfer_share)},
	{"pad_tokens", "padding", "tokens", METRIC_LOWER, false, S_COUNT, S(pad_tokens)},
	{"wasted_tokens", "computed past the end", "tokens", METRIC_LOWER, false, S_COUNT, S(wasted_tokens)},
	{"max_running", "most running", "requests", METRIC_NEUTRAL, false, S_COUNT32, S(max_running)},
	{"max_waiting", "most waiting", "requests", METRIC_LOWER, false, S_COUNT32, S(max_waiting)},
	{"mean_tokens_per_step", "tokens per step", "tokens", METRIC_HIGHER, false, M_DOUBLE, M(mean_tokens_per_step)},
	{"busy_share", "busy", "share", METRIC_NEUTRAL, false, M_DOUBLE, M(busy_share)},
	{"host_share", "host part of steps", "share", METRIC_LOWER, false, M_DOUBLE, M(host_share)},
	{"outside_steps", "extrapolated steps", "", METRIC_LOWER, false, S_COUNT, S(outside_steps)},
	{"prefix_hit_ratio", "prefix hits", "share", METRIC_HIGHER, true, M_DOUBLE, M(prefix_hit_ratio)},
	{"prefix_request_hit_ratio", "requests with prefix hits", "share", METRIC_HIGHER, false, M_DOUBLE,
	 M(prefix_request_hit_ratio)},
	{"prefix_block_hit_ratio", "prefix block hits", "share", METRIC_HIGHER, false, M_DOUBLE,
	 M(prefix_block_hit_ratio)},
	{"prefix_ideal_block_hit_ratio", "ideal prefix hits", "share", METRIC_NEUTRAL, false, M_DOUBLE,
	 M(prefix_ideal_block_hit_ratio)},
	{"cached_tokens", "tokens from cache", "tokens", METRIC_HIGHER, false, M_COUNT, M(cached_tokens)},
	{"evicted_blocks", "cached blocks evicted", "blocks", METRIC_NEUTRAL, false, S_COUNT, S(evicted_blocks)},
	{"duplicate_blocks", "blocks filled twice", "blocks", METRIC_LOWER, false, S_COUNT, S(duplicate_blocks)},
	{"forks", "forks that shared", "requests", METRIC_NEUTRAL, false, S_COUNT, S(forks)},
	{"forked_tokens", "tokens from parents", "tokens", METRIC_HIGHER, false, S_COUNT, S(forked_tokens)},
	{"copied_blocks", "shared blocks copied", "blocks", METRIC_NEUTRAL, false, S_COUNT, S(copied_blocks)},
	{"dropped_blocks", "blocks dropped", "blocks", METRIC_NEUTRAL, false, S_COUNT, S(dropped_blocks)},
	{"dropped_tokens", "tokens dropped", "tokens", METRIC_NEUTRAL, false, S_COUNT, S(dropped_tokens)},
	{"max_blocks_used", "most blocks used", "blocks", METRIC_LOWER, false, S_COUNT32, S(max_blocks_used)},
	{"kv_used", "KV memory used", "share", METRIC_NEUTRAL, true, M_DOUBLE, M(kv_used)},
	{"kv_sharing_saved", "KV saved by sharing", "share", METRIC_HIGHER, false, M_DOUBLE, M(kv_sharing_saved)},
	{"kv_internal_waste", "KV internal waste", "share", METRIC_LOWER, true, M_DOUBLE, M(kv_internal_waste)},
	{"kv_reserved_waste", "KV reserved", "share", METRIC_LOWER, true, M_DOUBLE, M(kv_reserved_waste)},
	{"kv_external_waste", "KV external waste", "share", METRIC_LOWER, false, M_DOUBLE, M(kv_external_waste)},
	{"price_per_hour", "price per hour", "$", METRIC_NEUTRAL, false, M_DOUBLE, M(price_per_hour)},
	{"dollars", "cost", "$", METRIC_LOWER, false, M_DOUBLE, M(dollars)},
	{"dollars_per_request", "cost per request", "$", METRIC_LOWER, false, M_DOUBLE, M(dollars_per_request)},
	{"dollars_per_good_request", "cost per good request", "$", METRIC_LOWER, false, M_DOUBLE,
	 M(dollars_per_good_request)},
	{"dollars_per_million_input_tokens", "cost/1M input", "$", METRIC_LOWER, false, M_DOUBLE,
	 M(dollars_per_million_input_tokens)},
	{"dollars_per_million_output_tokens", "cost/1M output", "$", METRIC_LOWER, true, M_DOUBLE,
	 M(dollars_per_million_output_tokens)},
	{"dollars_per_million_tokens", "cost/1M tokens", "$", METRIC_LOWER, false, M_DOUBLE,
	 M(dollars_per_million_tokens)},
	{"energy_joules", "energy", "J", METRIC_LOWER, false, M_DOUBLE, M(energy_joules)},
	{"energy_per_request_joules", "energy per request", "J", METRIC_LOWER, false, M_DOUBLE,
	 M(energy_per_request_joules)},
	{"energy_per_output_token_joules", "energy per output token", "J", METRIC_LOWER, false, M_DOUBLE,
	 M(energy_per_output_token_joules)},
	{"workflows", "workflows", "", METRIC_NEUTRAL, false, M_COUNT, M(workflows.n)},
	{"completed_workflows", "workflows completed", "", METRIC_HIGHER, false, M_COUNT, M(workflows.completed)},
	{"workflow_throughput", "workflow throughput", "1/s", METRIC_HIGHER, false, M_DOUBLE, M(workflows.throughput)},
	{"critical_requests", "requests on critical path", "requests", METRIC_NEUTRAL, false, M_DOUBLE,
	 M(workflows.critical_requests)},
	{"critical_queue_share", "queueing on critical path", "share", METRIC_LOWER, false, M_DOUBLE,
	 M(workflows.critical_queue_share)},
	{"critical_tool_share", "tools on critical path", "share", METRIC_NEUTRAL, false, M_DOUBLE,
	 M(workflows.critical_tool_share)},
	{"tenant_service_fairness", "Jain index of tenants' service", "", METRIC_HIGHER, false, M_DOUBLE,
	 M(tenant_service_fairness)},
	{"tenant_latency_fairness", "Jain index of tenants' latency", "", METRIC_HIGHER, false, M_DOUBLE,
	 M(tenant_latency_fairness)},
	{"tenant_fairness", "Jain index by tenant", "", METRIC_HIGHER, false, M_DOUBLE, M(tenant_fairness)},
	{"steady_requests", "steady: requests", "requests", METRIC_NEUTRAL, false, M_COUNT, M(steady.n)},
	{"steady_request_throughput", "steady: throughput", "req/s", METRIC_HIGHER, false, M_DOUBLE,
	 M(steady.request_throughput)},
	{"steady_output_throughput", "steady: output", "tok/s", METRIC_HIGHER, false, M_DOUBLE,
	 M(steady.output_throughput)},
	{"steady_total_token_throughput", "steady: total", "tok/s", METRIC_HIGHER, false, M_DOUBLE,
	 M(steady.total_token_throughput)},
};

static double scalar_value(const struct scalar *s, const struct metrics *m, const struct engine_stats *stats)
{
	const char *from = s->kind == S_COUNT || s->kind == S_COUNT32 ? (const char *)stats : (const char *)m;
	const void *at = from + s->offset;
	switch (s->kind) {
	case M_DOUBLE:
		return *(const double *)at;
	case M_SECONDS:
		return m->completed ? (double)*(const int64_t *)at / 1e9 : NAN;
	case S_COUNT32:
		return (double)*(const int32_t *)at;
	case M_COUNT:
	case S_COUNT:
		break;
	}
	return (double)*(const int64_t *)at;
}

static void add(struct metric_value *out, int32_t *n, const char *prefix, const char *key, const char *label,
		const char *what, double ns, bool headline)
{
	struct metric_value *v = &out[(*n)++];
	*v = (struct metric_value){.unit = "ms", .better = METRIC_LOWER, .value = ns / 1e6, .headline = headline};
	snprintf(v->key, sizeof v->key, "%s%s_%s_ms", prefix, what, key);
	snprintf(v->label, sizeof v->label, "%s%s %s", *prefix ? "steady: " : "", label, what);
}

static void add_named_dist(struct metric_value *out, int32_t *n, const struct dist *d, const struct percentiles *p,
			   const char *prefix, const char *key, const char *label, bool headline, bool all)
{
	add(out, n, prefix, key, label, "mean", d->mean, headline);
	add(out, n, prefix, key, label, "median", d->median, all);
	add(out, n, prefix, key, label, "std", d->std, false);
	out[*n - 1].better = METRIC_NEUTRAL;
	for (int32_t i = 0; i < p->n; i++) {
		char name[24];
		add(out, n, prefix, key, label, percentile_name(p->p[i], name), d->p[i], all);
		out[*n - 1].thin = percentile_is_thin(p->p[i], d->n);
	}
}

static void add_dist(struct metric_value *out, int32_t *n, const struct dist *d, const struct percentiles *p,
		     const char *prefix, enum latency l, bool headline)
{
	add_named_dist(out, n, d, p, prefix, latency_key(l), latency_label(l), headline, headline && l <= LATENCY_E2EL);
}

/* "p99_wait_memory_ms", and "wait_memory_share". */
static void add_wait(struct metric_value *out, int32_t *n, const struct metrics *m, enum wait_cause c)
{
	char key[32], label[32];
	snprintf(key, sizeof key, "wait_%s", wait_cause_names[c]);
	snprintf(label, sizeof label, "waiting: %s", wait_cause_names[c]);
	add_named_dist(out, n, &m->waited[c], &m->percentiles, "", key, label, false, false);
	add(out, n, "", key, label, "max", m->waited[c].max, false);
	struct metric_value *v = &out[(*n)++];
	*v = (struct metric_value){.unit = "share", .better = METRIC_NEUTRAL, .value = m->waited_share[c]};
	snprintf(v->key, sizeof v->key, "%s_share", key);
	snprintf(v->label, sizeof v->label, "%s", label);
}

int32_t metrics_list(const struct metrics *m, const struct engine_stats *stats, struct metric_value *out)
{
	int32_t n = 0;
	for (size_t i = 0; i < sizeof scalars / sizeof *scalars; i++) {
		const struct scalar *s = &scalars[i];
		struct metric_value *v = &out[n++];
		*v = (struct metric_value){.unit = s->unit,
					   .better = s->better,
					   .value = scalar_value(s, m, stats),
					   .headline = s->headline};
		snprintf(v->key, sizeof v->key, "%s", s->key);
		snprintf(v->label, sizeof v->label, "%s", s->label);
	}
	for (int l = 0; l < LATENCY_COUNT; l++)
		add_dist(out, &n, &m->latency[l], &m->percentiles, "", (enum latency)l,
			 l <= LATENCY_E2EL || l == LATENCY_QUEUE);
	add(out, &n, "", "queue", "queue time", "max", m->latency[LATENCY_QUEUE].max, false);
	add(out, &n, "", "wait", "longest wait", "max", m->longest_wait_ns, false);
	for (int c = 0; c < WAIT_CAUSES; c++)
		add_wait(out, &n, m, (enum wait_cause)c);
	add_named_dist(out, &n, &m->workflows.makespan, &m->percentiles, "", "makespan", "makespan", false, false);
	add(out, &n, "", "makespan", "makespan", "max", m->workflows.makespan.max, false);
	const struct steady *st = &m->steady;
	add_dist(out, &n, &st->ttft, &m->percentiles, "steady_", LATENCY_TTFT, false);
	add_dist(out, &n, &st->tpot, &m->percentiles, "steady_", LATENCY_TPOT, false);
	add_dist(out, &n, &st->e2el, &m->percentiles, "steady_", LATENCY_E2EL, false);
	add_dist(out, &n, &st->queue, &m->percentiles, "steady_", LATENCY_QUEUE, false);
	return n;
}
