#include "analysis/metrics.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/gaps.h"
#include "analysis/waits.h"
#include "analysis/workflows.h"
#include "core/err.h"
#include "core/mem.h"

/* --- tokens per second, step by step ------------------------------------------------------------------------------ */

void step_tally_init(struct step_tally *t, int64_t origin_ns)
{
	*t = (struct step_tally){.origin_ns = origin_ns, .second_ends_ns = origin_ns + NS_PER_S};
}

void step_tally_free(struct step_tally *t)
{
	mem_free(t->seconds);
	t->seconds = NULL;
}

static void add_to_second(struct step_tally *t, int64_t end_ns, int64_t tokens)
{
	int64_t second = (end_ns - t->origin_ns) / NS_PER_S, had = t->cap;
	if (second >= t->cap) {
		if (mem_grow((void **)&t->seconds, &t->cap, second + 1, sizeof *t->seconds)) {
			t->no_memory = true;
			return;
		}
		memset(t->seconds + had, 0, (size_t)(t->cap - had) * sizeof *t->seconds);
	}
	t->seconds[second] += tokens;
	if (t->seconds[second] > t->most_in_second)
		t->most_in_second = t->seconds[second];
}

void step_tally_add(struct step_tally *t, int64_t end_ns, int64_t tokens)
{
	if (t->any_order) {
		add_to_second(t, end_ns, tokens);
		return;
	}
	if (end_ns >= t->second_ends_ns) {
		t->most_in_second = step_tally_most(t);
		t->in_second = 0;
		t->second_ends_ns = t->origin_ns + ((end_ns - t->origin_ns) / NS_PER_S + 1) * NS_PER_S;
	}
	t->in_second += tokens;
}

void step_tally_add_run(struct step_tally *t, const int64_t *end_ns, int64_t steps, int64_t tokens)
{
	if (!t->any_order && end_ns[steps - 1] < t->second_ends_ns) {
		t->in_second += tokens * steps;
		return;
	}
	for (int64_t i = 0; i < steps; i++)
		step_tally_add(t, end_ns[i], tokens);
}

int64_t step_tally_most(const struct step_tally *t)
{
	if (t->no_memory)
		return -1;
	return t->in_second > t->most_in_second ? t->in_second : t->most_in_second;
}

/* --- counts ------------------------------------------------------------------------------------------------------- */

static bool is_finished(const struct request *r)
{
	return r->state == REQUEST_FINISHED;
}

/* It came to the server (or to the client's queue before it). */
static bool has_arrived(const struct request *r)
{
	return r->state != REQUEST_PENDING && r->why != REQUEST_WHY_PARENT;
}

static void count_one(struct metrics *m, const struct spec *s, const struct request *r)
{
	m->cached_tokens += r->cached_tokens;
	if (r->preemptions > 0)
		m->preempted_requests++;
	if (r->preemptions > m->max_preemptions)
		m->max_preemptions = r->preemptions;
	switch (r->state) {
	case REQUEST_FINISHED:
		m->completed++;
		m->zero_output += r->outputs == 0;
		m->input_tokens += s->prompt_tokens;
		m->output_tokens += r->outputs;
		m->sum_queue_ns += request_queue_ns(r);
		m->sum_prefill_ns += request_prefill_ns(r);
		m->sum_decode_ns += request_decode_ns(r);
		m->sum_preempted_ns += r->preempted_ns;
		m->sum_transfer_ns += r->transfer_ns;
		m->sum_e2el_ns += request_e2e_ns(r);
		if (r->last_token_ns > m->last_finish_ns)
			m->last_finish_ns = r->last_token_ns;
		return;
	case REQUEST_REJECTED:
	case REQUEST_ABORTED:
		*(r->state == REQUEST_REJECTED ? &m->rejected : &m->aborted) += 1;
		m->failed++;
		m->rejected_why[r->why % REQUEST_WHYS]++;
		return;
	default:
		m->unfinished++;
	}
}

static void count(struct metrics *m, const struct metrics_input *in)
{
	int64_t n = in->workload->n, arrived = 0, first = INT64_MAX, last = INT64_MIN;
	m->requests = n;
	m->last_finish_ns = INT64_MIN;
	for (int64_t i = 0; i < n; i++) {
		const struct request *r = &in->requests[i];
		count_one(m, &in->workload->specs[i], r);
		if (!has_arrived(r))
			continue;
		arrived++;
		if (r->arrival_ns < first)
			first = r->arrival_ns;
		if (r->arrival_ns > last)
			last = r->arrival_ns;
	}
	m->offered_rate = NAN;
	if (arrived > 1)
		m->offered_rate = last > first ? (double)(arrived - 1) * 1e9 / (double)(last - first) : INFINITY;
	m->first_arrival_ns = arrived ? first : 0;
	if (m->completed)
		m->duration_ns = m->last_finish_ns - m->first_arrival_ns;
	else
		m->last_finish_ns = 0;
}

static double per_second(double amount, int64_t ns)
{
	return ns > 0 ? amount * 1e9 / (double)ns : NAN;
}

static double ratio(double a, double b)
{
	return b > 0 ? a / b : NAN;
}

/* --- latencies ---------------------------------------------------------------------------------------------------- */

/* One request's latency; NAN where it has none. */
static double latency_ns(const struct request *r, enum latency l)
{
	switch (l) {
	case LATENCY_TTFT:
		return (double)request_ttft_ns(r);
	case LATENCY_TPOT:
		return r->outputs < 2 ? NAN : (double)(r->last_token_ns - r->first_token_ns) / (double)(r->outputs - 1);
	case LATENCY_E2EL:
		return (double)request_e2e_ns(r);
	case LATENCY_NORMALIZED:
		return r->outputs < 1 ? NAN : (double)request_e2e_ns(r) / (double)r->outputs;
	case LATENCY_QUEUE:
		return (double)request_queue_ns(r);
	case LATENCY_PREFILL:
		return (double)request_prefill_ns(r);
	case LATENCY_DECODE:
		return (double)request_decode_ns(r);
	case LATENCY_PREEMPTED:
		return (double)r->preempted_ns;
	case LATENCY_TRANSFER:
		return (double)r->transfer_ns;
	case LATENCY_ITL: /* per token, not per request: gaps.h */
	case LATENCY_COUNT:
		break;
	}
	return NAN;
}

struct window {
	double from_ns, to_ns; /* finished after from, not after to */
};
static const struct window whole_run = {-INFINITY, INFINITY};

static bool in_window(const struct request *r, struct window w)
{
	return is_finished(r) && (double)r->last_token_ns > w.from_ns && (double)r->last_token_ns <= w.to_ns;
}

static void latency_dist(struct dist *d, const struct metrics_input *in, enum latency l, struct window w,
			 double *scratch)
{
	int64_t n = 0;
	for (int64_t i = 0; i < in->workload->n; i++) {
		if (!in_window(&in->requests[i], w))
			continue;
		double v = latency_ns(&in->requests[i], l);
		if (!isnan(v))
			scratch[n++] = v;
	}
	dist_compute(d, scratch, n, &in->percentiles);
}

static void goodput(struct metrics *m, const struct metrics_input *in)
{
	m->good = -1;
	m->request_goodput = NAN;
	if (!goodput_any(&in->slo))
		return;
	m->good = 0;
	for (int64_t i = 0; i < in->workload->n; i++) {
		struct goodput_limits l = goodput_limits(&in->slo, in->workload, &in->workload->specs[i]);
		m->good += goodput_met(&in->requests[i], &l);
	}
	m->request_goodput = per_second((double)m->good, m->duration_ns);
}

/* --- the steady part ---------------------------------------------------------------------------------------------- */

static struct window middle_of_run(const struct metrics *m, const struct metrics_input *in, double *scratch)
{
	struct window w = whole_run;
	int64_t n = 0, tenth = m->completed / 10;
	for (int64_t i = 0; i < in->workload->n; i++)
		if (is_finished(&in->requests[i]))
			scratch[n++] = (double)in->requests[i].last_token_ns;
	if (tenth > 0) {
		w.from_ns = dist_rank(scratch, n, tenth - 1);
		w.to_ns = dist_rank(scratch, n, n - 1 - tenth);
	}
	return w;
}

static void steady(struct metrics *m, const struct metrics_input *in, double *scratch)
{
	struct steady *st = &m->steady;
	struct window w = middle_of_run(m, in, scratch);
	int64_t input = 0, output = 0;
	for (int64_t i = 0; i < in->workload->n; i++) {
		const struct request *r = &in->requests[i];
		if (!in_window(r, w))
			continue;
		st->n++;
		input += in->workload->specs[i].prompt_tokens;
		output += r->outputs;
	}
	st->from_ns = isinf(w.from_ns) ? m->first_arrival_ns : (int64_t)w.from_ns;
	st->to_ns = isinf(w.to_ns) ? m->last_finish_ns : (int64_t)w.to_ns;
	int64_t ns = st->to_ns - st->from_ns;
	st->request_throughput = per_second((double)st->n, ns);
	st->output_throughput = per_second((double)output, ns);
	st->total_token_throughput = per_second((double)(input + output), ns);
	latency_dist(&st->ttft, in, LATENCY_TTFT, w, scratch);
	latency_dist(&st->tpot, in, LATENCY_TPOT, w, scratch);
	latency_dist(&st->e2el, in, LATENCY_E2EL, w, scratch);
	latency_dist(&st->queue, in, LATENCY_QUEUE, w, scratch);
}

/* --- most requests at once ---------------------------------------------------------------------------------------- */

static void sort_u32(uint32_t *v, uint32_t *scratch, int64_t n)
{
	for (int shift = 0; shift < 32; shift += 8) {
		int64_t at[257] = {0};
		for (int64_t i = 0; i < n; i++)
			at[((v[i] >> shift) & 255) + 1]++;
		for (int d = 0; d < 256; d++)
			at[d + 1] += at[d];
		for (int64_t i = 0; i < n; i++)
			scratch[at[(v[i] >> shift) & 255]++] = v[i];
		memcpy(v, scratch, (size_t)n * sizeof *v);
	}
}

/* vllm bench counts a request in every second (from the first arrival) that it touches, the last one included. */
static int most_in_a_second(struct metrics *m, const struct metrics_input *in, struct err *e)
{
	int64_t n = 0, most = 0;
	uint32_t *starts = mem_alloc((size_t)(3 * m->completed + 1) * sizeof *starts);
	if (!starts)
		return err_no_memory(e, "metrics");
	uint32_t *ends = starts + m->completed, *scratch = ends + m->completed;
	for (int64_t i = 0; i < in->workload->n; i++) {
		const struct request *r = &in->requests[i];
		if (!is_finished(r))
			continue;
		starts[n] = (uint32_t)((r->arrival_ns - m->first_arrival_ns) / NS_PER_S);
		ends[n++] = (uint32_t)((r->last_token_ns - m->first_arrival_ns) / NS_PER_S);
	}
	sort_u32(starts, scratch, n);
	sort_u32(ends, scratch, n);
	for (int64_t begun = 1, ended = 0; begun <= n; begun++) {
		while (ends[ended] < starts[begun - 1])
			ended++;
		if (begun - ended > most)
			most = begun - ended;
	}
	mem_free(starts);
	/* What the client holds back is not in flight. */
	int32_t cap = in->config->max_concurrency;
	m->max_concurrent_requests = cap > 0 && most > cap ? cap : most;
	return ERR_NONE;
}

/* --- everything --------------------------------------------------------------------------------------------------- */

static void rates(struct metrics *m)
{
	m->request_throughput = per_second((double)m->completed, m->duration_ns);
	m->output_throughput = per_second((double)m->output_tokens, m->duration_ns);
	m->total_token_throughput = per_second((double)(m->input_tokens + m->output_tokens), m->duration_ns);
}

static void from_stats(struct metrics *m, const struct engine_stats *s, const struct engine_config *c, int32_t replicas)
{
	double slots = c->kv_off ? 0 : s->kv_slot_ns; /* without a KV cache there are no shares of it */
	m->prefix_hit_ratio = ratio((double)s->prefix_hit_tokens, (double)s->prefix_lookups_tokens);
	m->prefix_request_hit_ratio = ratio((double)s->prefix_hits, (double)s->prefix_lookups);
	m->prefix_block_hit_ratio =
		ratio((double)s->prefix_hit_tokens / c->block_size, (double)s->prefix_lookups_blocks);
	double held = s->kv_token_ns + s->kv_internal_ns + s->kv_reserved_ns;
	m->kv_sharing_saved = ratio(s->kv_shared_ns, slots > 0 ? held + s->kv_shared_ns : 0);
	m->kv_used = ratio(s->kv_token_ns, slots);
	m->kv_internal_waste = ratio(s->kv_internal_ns, slots);
	m->kv_reserved_waste = ratio(s->kv_reserved_ns, slots);
	m->kv_external_waste = ratio(s->kv_external_ns, slots);
	m->busy_share = ratio((double)s->busy_ns, (double)(s->end_ns - m->first_arrival_ns) * replicas);
	m->host_share = ratio((double)s->host_ns, (double)s->busy_ns);
	m->mean_step_ns = ratio((double)s->busy_ns, (double)s->steps);
	m->mean_tokens_per_step = ratio((double)s->output_tokens, (double)s->steps);
}

/* Money and energy; nothing is per something that there is none of. */
static void costs(struct metrics *m, const struct metrics_input *in)
{
	int32_t replicas = in->replicas > 1 ? in->replicas : 1;
	m->price_per_hour = in->price_per_hour > 0 ? in->price_per_hour : NAN;
	m->dollars = m->price_per_hour / 3600 * ((double)m->duration_ns / 1e9);
	if (!m->completed)
		m->dollars = NAN;
	m->dollars_per_request = ratio(m->dollars, (double)m->completed);
	m->dollars_per_good_request = ratio(m->dollars, (double)m->good);
	m->dollars_per_million_input_tokens = 1e6 * ratio(m->dollars, (double)m->input_tokens);
	m->dollars_per_million_output_tokens = 1e6 * ratio(m->dollars, (double)m->output_tokens);
	m->dollars_per_million_tokens = 1e6 * ratio(m->dollars, (double)(m->input_tokens + m->output_tokens));
	/* Busy times of replicas are added up; each draws its part of the power. */
	double watts = in->power_w > 0 ? in->power_w / replicas : NAN;
	m->energy_joules = watts * (double)in->stats->busy_ns / 1e9;
	m->energy_per_request_joules = ratio(m->energy_joules, (double)m->completed);
	m->energy_per_output_token_joules = ratio(m->energy_joules, (double)m->output_tokens);
	m->good_request_fraction = m->good < 0 ? NAN : ratio((double)m->good, (double)m->requests);
}

static int ideal_hits(struct metrics *m, const struct workload *w, struct err *e)
{
	int64_t total, distinct;
	m->prefix_ideal_block_hit_ratio = NAN;
	if (w->n_hash_ids == 0)
		return ERR_NONE;
	int rc = workload_ideal_hits(w, &total, &distinct, e);
	if (rc == ERR_NONE && total > 0)
		m->prefix_ideal_block_hit_ratio = 1 - (double)distinct / (double)total;
	return rc;
}

int metrics_compute(struct metrics *m, const struct metrics_input *in, struct err *e)
{
	*m = (struct metrics){.percentiles = in->percentiles, .slo = in->slo};
	double *scratch = mem_alloc((size_t)(in->workload->n + 1) * sizeof *scratch);
	if (!scratch)
		return err_no_memory(e, "metrics");
	count(m, in);
	rates(m);
	goodput(m, in);
	costs(m, in);
	from_stats(m, in->stats, in->config, in->replicas > 1 ? in->replicas : 1);
	m->swap_out_bytes = in->stats->swap_out_blocks * in->page_bytes;
	m->swap_in_bytes = in->stats->swap_in_blocks * in->page_bytes;
	m->saved_bytes = in->stats->saved_blocks * in->page_bytes;
	m->host_hit_bytes = (in->stats->host_hit_blocks + in->stats->disk_hit_blocks) * in->page_bytes;
	m->disk_write_bytes = in->stats->demoted_blocks * in->page_bytes;
	m->disk_read_bytes = (in->stats->disk_hit_blocks + in->stats->prefetched_blocks) * in->page_bytes;
	m->cold_hit_ratio = in->config->offload_host_blocks ? ratio((double)in->stats->cold_hit_tokens,
								    (double)in->stats->prefix_lookups_tokens)
							    : NAN;
	m->transfer_share = ratio((double)in->stats->transfer_ns, (double)in->stats->busy_ns);
	for (int l = 0; l < LATENCY_COUNT; l++)
		if (l != LATENCY_ITL)
			latency_dist(&m->latency[l], in, (enum latency)l, whole_run, scratch);
	dist_of_gaps(&m->latency[LATENCY_ITL], in->gaps, &in->percentiles);
	m->itl_exact = gaps_exact(in->gaps);
	steady(m, in, scratch);
	int rc = workflows_compute(m, in, scratch, e);
	if (!rc)
		rc = waits_compute(m, in, scratch, e);
	mem_free(scratch);
	if (rc)
		return rc;
	m->max_output_tokens_per_s =
		in->tally && m->completed && step_tally_most(in->tally) >= 0 ? (double)step_tally_most(in->tally) : NAN;
	rc = most_in_a_second(m, in, e);
	return rc ? rc : ideal_hits(m, in->workload, e);
}
