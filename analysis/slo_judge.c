#include "analysis/slo_judge.h"

#include <math.h>
#include <string.h>

const char *const slo_state_names[] = {"STABLE", "BACKLOGGED", "OVERLOADED", NULL};
const char *const slo_limit_names[] = {"none", "memory", "places", "queue", "prefill", "decode", "refused", NULL};

/* Student's t for 19 degrees of freedom, 97.5 %. */
static const double T_19 = 2.093;
enum { BATCHES = 20 };

static bool met(const struct run_settings *s, const struct workload *w, const struct run_result *r, int64_t i)
{
	struct goodput_limits l = goodput_limits(&s->slo, w, &w->specs[i]);
	return goodput_met(&r->requests[i], &l);
}

/* Which share of a point a request counts in. */
static int32_t share_of(const struct run_settings *s, const struct workload *w, int64_t i)
{
	int32_t c = s->slo.n_classes ? goodput_class_of(&s->slo, w, &w->specs[i]) : -1;
	return c < 0 ? s->slo.n_classes : c;
}

/* Requests near each other share their fate, so single ones are not independent samples; batches nearly are. Of the requests
 * of one share. */
static double margin_of(const struct run_settings *s, const struct workload *w, const struct run_result *r,
			int32_t share, int64_t n)
{
	double sum = 0, squares = 0;
	int64_t good[BATCHES] = {0}, of[BATCHES] = {0}, k = 0;
	if (n < 10 * BATCHES)
		return NAN;
	for (int64_t i = 0; i < r->n; i++) {
		if (share_of(s, w, i) != share)
			continue;
		int64_t b = k++ * BATCHES / n;
		of[b]++;
		good[b] += met(s, w, r, i);
	}
	for (int b = 0; b < BATCHES; b++) {
		double x = (double)good[b] / (double)of[b];
		sum += x;
		squares += x * x;
	}
	double variance = (squares - sum * sum / BATCHES) / (BATCHES - 1);
	return T_19 * sqrt(variance > 0 ? variance / BATCHES : 0);
}

/* How many of each class are good, and how the class that is worst off does. */
static void count(struct slo_point *p, const struct run_settings *s, const struct workload *w,
		  const struct run_result *r)
{
	int64_t missed[GOODPUT_CLASSES + 1] = {0};
	p->n = r->n;
	p->good = 0;
	memset(p->shares, 0, sizeof p->shares);
	for (int64_t i = 0; i < r->n; i++) {
		struct slo_share *x = &p->shares[share_of(s, w, i)];
		bool good = met(s, w, r, i);
		p->good += good;
		x->n++;
		x->good += good;
		missed[x - p->shares] += !good && r->requests[i].state >= REQUEST_FINISHED;
	}
	p->attainment = INFINITY;
	for (int32_t c = 0; c <= s->slo.n_classes; c++) {
		const struct slo_share *x = &p->shares[c];
		/* Those of a run cut short that had not ended might all have met theirs. */
		double share = p->cut_short ? 1 - (double)missed[c] / (double)x->n : (double)x->good / (double)x->n;
		if (x->n == 0 || share >= p->attainment)
			continue;
		p->attainment = share;
		p->worst = c;
	}
	p->margin = margin_of(s, w, r, p->worst, p->shares[p->worst].n);
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

static enum slo_limit limit_of(const struct request *q, const struct goodput_limits *l, enum slo_limit queue)
{
	if (q->state == REQUEST_REJECTED)
		return SLO_LIMIT_REFUSED;
	if (q->state != REQUEST_FINISHED)
		return queue;
	bool late = l->ttft_ns >= 0 && request_ttft_ns(q) > l->ttft_ns;
	if (late || l->tpot_ns < 0) {
		int64_t waited = request_queue_ns(q) + q->preempted_ns, own = request_prefill_ns(q);
		if (!late && request_decode_ns(q) > waited && request_decode_ns(q) > own)
			return SLO_LIMIT_DECODE;
		return waited > own ? queue : SLO_LIMIT_PREFILL;
	}
	return q->preempted_ns > 0 ? SLO_LIMIT_MEMORY : SLO_LIMIT_DECODE;
}

/* Of a run that was cut short only those that had ended count. */
static enum slo_limit main_limit(const struct run_settings *s, const struct workload *w, const struct run_result *r)
{
	int64_t by[SLO_LIMITS] = {0};
	enum slo_limit queue = queue_limit(r), most = SLO_LIMIT_NONE;
	for (int64_t i = 0; i < r->n; i++) {
		const struct request *q = &r->requests[i];
		struct goodput_limits l = goodput_limits(&s->slo, w, &w->specs[i]);
		bool ended = q->state >= REQUEST_FINISHED;
		if ((ended || r->status == RUN_COMPLETE) && !goodput_met(q, &l))
			by[limit_of(q, &l, queue)]++;
	}
	for (int l = 1; l < SLO_LIMITS; l++)
		if (by[l] > by[most])
			most = (enum slo_limit)l;
	return most;
}

void slo_judge(struct slo_point *p, const struct run_settings *s, const struct workload *w, const struct run_result *r)
{
	count(p, s, w, r);
	p->limit = main_limit(s, w, r);
	p->state = state_of(r);
	p->p99_ttft_ms = p->p99_tpot_ms = p->request_throughput = p->joules_per_good_request = NAN;
	if (r->status != RUN_COMPLETE)
		return;
	const struct metrics *m = &r->metrics;
	p->request_throughput = m->request_throughput;
	p->joules_per_good_request = p->good > 0 ? m->energy_joules / (double)p->good : NAN;
	for (int32_t i = 0; i < m->percentiles.n; i++) {
		if (m->percentiles.p[i] != 99)
			continue;
		p->p99_ttft_ms = m->latency[LATENCY_TTFT].p[i] / 1e6;
		p->p99_tpot_ms = m->latency[LATENCY_TPOT].p[i] / 1e6;
	}
}
