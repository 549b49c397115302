#include "analysis/slo_judge.h"

#include <math.h>

const char *const slo_state_names[] = {"STABLE", "BACKLOGGED", "OVERLOADED", NULL};
const char *const slo_limit_names[] = {"none", "memory", "places", "queue", "prefill", "decode", "refused", NULL};

bool slo_met(const struct request *r, const struct goodput_slo *slo)
{
	if (r->state != REQUEST_FINISHED)
		return false;
	if (slo->ttft_ns >= 0 && request_ttft_ns(r) > slo->ttft_ns)
		return false;
	if (slo->e2el_ns >= 0 && request_e2e_ns(r) > slo->e2el_ns)
		return false;
	int64_t gaps = r->outputs - 1;
	return slo->tpot_ns < 0 || gaps < 1 ||
	       (double)(r->last_token_ns - r->first_token_ns) / (double)gaps <= (double)slo->tpot_ns;
}

/* Student's t for 19 degrees of freedom, 97.5 %. */
static const double T_19 = 2.093;
enum { BATCHES = 20 };

/* Requests near each other share their fate, so single ones are not independent samples; batches nearly are. */
static double margin_of(const struct run_result *r, const struct goodput_slo *slo)
{
	double sum = 0, squares = 0;
	if (r->n < 10 * BATCHES)
		return NAN;
	for (int64_t b = 0; b < BATCHES; b++) {
		int64_t from = r->n * b / BATCHES, to = r->n * (b + 1) / BATCHES, good = 0;
		for (int64_t i = from; i < to; i++)
			good += slo_met(&r->requests[i], slo);
		double share = (double)good / (double)(to - from);
		sum += share;
		squares += share * share;
	}
	double variance = (squares - sum * sum / BATCHES) / (BATCHES - 1);
	return T_19 * sqrt(variance > 0 ? variance / BATCHES : 0);
}

static enum slo_state state_of(const struct run_result *r)
{
	int64_t last_ns = 0, waiting = 0;
	for (int64_t i = 0; i < r->n; i++)
		if (r->requests[i].state != REQUEST_PENDING && r->requests[i].arrival_ns > last_ns)
			last_ns = r->requests[i].arrival_ns;
	for (int64_t i = 0; i < r->n; i++) {
		const struct request *q = &r->requests[i];
		bool came = q->state != REQUEST_PENDING && q->state != REQUEST_REJECTED;
		waiting += came && (q->first_sched_ns < 0 || q->first_sched_ns > last_ns);
	}
	if (waiting * 20 > r->n)
		return SLO_OVERLOADED;
	return r->stats.max_waiting > r->stats.max_running ? SLO_BACKLOGGED : SLO_STABLE;
}

/* Why a request had to wait: what was full at the fullest moment of the run. */
static enum slo_limit queue_limit(const struct run_result *r)
{
	if (r->stats.preemptions > 0 ||
	    (r->engine.num_blocks > 0 && r->stats.max_blocks_used >= r->engine.num_blocks - r->engine.num_blocks / 50))
		return SLO_LIMIT_MEMORY;
	return r->stats.max_running >= r->engine.max_num_seqs ? SLO_LIMIT_PLACES : SLO_LIMIT_QUEUE;
}

static enum slo_limit limit_of(const struct request *q, const struct run_settings *s, enum slo_limit queue)
{
	if (q->state == REQUEST_REJECTED)
		return SLO_LIMIT_REFUSED;
	if (q->state != REQUEST_FINISHED)
		return queue;
	bool late = s->slo.ttft_ns >= 0 && request_ttft_ns(q) > s->slo.ttft_ns;
	if (late || s->slo.tpot_ns < 0) {
		int64_t waited = request_queue_ns(q) + q->preempted_ns, own = request_prefill_ns(q);
		if (!late && request_decode_ns(q) > waited && request_decode_ns(q) > own)
			return SLO_LIMIT_DECODE;
		return waited > own ? queue : SLO_LIMIT_PREFILL;
	}
	return q->preempted_ns > 0 ? SLO_LIMIT_MEMORY : SLO_LIMIT_DECODE;
}

/* Of a run that was cut short only those that had ended count. */
static enum slo_limit main_limit(const struct run_settings *s, const struct run_result *r)
{
	int64_t by[SLO_LIMITS] = {0};
	enum slo_limit queue = queue_limit(r), most = SLO_LIMIT_NONE;
	for (int64_t i = 0; i < r->n; i++) {
		const struct request *q = &r->requests[i];
		bool ended = q->state >= REQUEST_FINISHED;
		if ((ended || r->status == RUN_COMPLETE) && !slo_met(q, &s->slo))
			by[limit_of(q, s, queue)]++;
	}
	for (int l = 1; l < SLO_LIMITS; l++)
		if (by[l] > by[most])
			most = (enum slo_limit)l;
	return most;
}

void slo_judge(struct slo_point *p, const struct run_settings *s, const struct run_result *r)
{
	p->n = r->n;
	p->good = 0;
	for (int64_t i = 0; i < r->n; i++)
		p->good += slo_met(&r->requests[i], &s->slo);
	p->limit = main_limit(s, r);
	p->attainment = r->n ? (double)p->good / (double)r->n : 0;
	p->margin = margin_of(r, &s->slo);
	p->state = state_of(r);
	p->p99_ttft_ms = p->p99_tpot_ms = p->request_throughput = NAN;
	if (r->status != RUN_COMPLETE)
		return;
	const struct metrics *m = &r->metrics;
	p->request_throughput = m->request_throughput;
	for (int32_t i = 0; i < m->percentiles.n; i++) {
		if (m->percentiles.p[i] != 99)
			continue;
		p->p99_ttft_ms = m->latency[LATENCY_TTFT].p[i] / 1e6;
		p->p99_tpot_ms = m->latency[LATENCY_TPOT].p[i] / 1e6;
	}
}
