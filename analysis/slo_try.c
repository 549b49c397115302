#include "analysis/slo_try.h"

#include <math.h>
#include <string.h>

#include "analysis/slo_judge.h"
#include "core/err.h"
#include "core/mem.h"

static bool is_root(const struct workload *w, int64_t i)
{
	return !w->n_parents || w->n_parents[i] == 0;
}

double slo_own_rate(const struct workload *w)
{
	int64_t n = 0, first = 0, last = 0;
	for (int64_t i = 0; i < w->n; i++) {
		if (!is_root(w, i))
			continue;
		int64_t at = w->specs[i].arrival_ns;
		first = n == 0 || at < first ? at : first;
		last = n == 0 || at > last ? at : last;
		n++;
	}
	return last > first ? (double)(n - 1) / (double)(last - first) * 1e9 : INFINITY;
}

/* Each class must reach the attainment, and so must those of none. */
static void count_shares(struct slo_search *s)
{
	const struct goodput_slo *slo = &s->settings.slo;
	int64_t n[GOODPUT_CLASSES + 1] = {0};
	for (int64_t i = 0; i < s->workload->n; i++) {
		int32_t c = goodput_class_of(slo, s->workload, &s->workload->specs[i]);
		s->shares[i] = (uint8_t)(c < 0 ? slo->n_classes : c);
		n[s->shares[i]]++;
	}
	for (int32_t c = 0; c <= slo->n_classes; c++)
		s->may_miss[c] = n[c] - (int64_t)ceil(s->o->attainment * (double)n[c] - 1e-9);
}

int slo_search_begin(struct slo_search *s, const struct run_settings *settings, struct workload *w,
		     const struct slo_options *o, const volatile int *stop, struct slo_result *out, struct err *e)
{
	*s = (struct slo_search){.settings = *settings, .workload = w, .o = o, .stop = stop, .out = out};
	*out = (struct slo_result){.at_pass = -1, .at_fail = -1};
	s->arrivals = mem_alloc((size_t)w->n * sizeof *s->arrivals);
	if (!s->arrivals)
		return err_no_memory(e, "arrivals");
	for (int64_t i = 0; i < w->n; i++)
		s->arrivals[i] = w->specs[i].arrival_ns;
	s->shares = mem_alloc((size_t)w->n);
	if (!s->shares)
		return err_no_memory(e, "arrivals");
	s->own_rate = slo_own_rate(w);
	count_shares(s);
	return ERR_NONE;
}

void slo_search_end(struct slo_search *s)
{
	mem_free(s->shares);
	s->shares = NULL;
	for (int64_t i = 0; s->arrivals && i < s->workload->n; i++)
		s->workload->specs[i].arrival_ns = s->arrivals[i];
	mem_free(s->arrivals);
	s->arrivals = NULL;
}

void slo_search_replicas(struct slo_search *s, int32_t n)
{
	s->settings.replicas = n;
	if (n > 1 && !s->settings.router)
		s->settings.router = "round_robin";
}

/* Those that wait for others keep their delays, which are somebody's thinking or a tool's work, whatever the load. */
static void set_rate(struct slo_search *s, double rate)
{
	double scale = isinf(rate) ? 0 : s->own_rate / rate;
	for (int64_t i = 0; i < s->workload->n; i++)
		if (is_root(s->workload, i))
			s->workload->specs[i].arrival_ns =
				rate > 0 ? (int64_t)((double)s->arrivals[i] * scale + 0.5) : s->arrivals[i];
}

static void keep_engine(void *ctx, const struct engine *g)
{
	struct slo_search *s = ctx;
	s->engine = g;
	s->counted = 0;
}

/* Counting costs a walk over all requests: once for every fiftieth of them that ended. */
static void look(void *ctx, int64_t ended, int64_t total)
{
	struct slo_search *s = ctx;
	if (s->stop && *s->stop)
		s->cut = 1;
	if (ended - s->counted < total / 50 + 1)
		return;
	s->counted = ended;
	int64_t missed[GOODPUT_CLASSES + 1] = {0};
	for (int64_t i = 0; i < total; i++) {
		const struct request *r = engine_request(s->engine, (int32_t)i);
		if (r->state < REQUEST_FINISHED)
			continue;
		struct goodput_limits l = goodput_limits(&s->settings.slo, s->workload, &s->workload->specs[i]);
		missed[s->shares[i]] += !goodput_met(r, &l);
	}
	for (int32_t c = 0; c <= s->settings.slo.n_classes; c++)
		s->hopeless |= missed[c] > s->may_miss[c];
	s->cut |= s->hopeless;
}

/* Runs at that rate; whole = to the end, whatever comes of it. */
static int run_at(struct slo_search *s, double rate, bool whole, struct run_result *r, struct err *e)
{
	const struct run_io io = {.stop = &s->cut, .progress = whole ? NULL : look, .ctx = s, .engine = keep_engine};
	set_rate(s, rate);
	s->cut = s->hopeless = 0;
	if (s->stop && *s->stop)
		return err_set(e, ERR_INTERRUPTED, "interrupted");
	int rc = run_execute(&s->settings, s->workload, &io, r, e);
	if (rc == ERR_NONE && s->stop && *s->stop)
		rc = err_set(e, ERR_INTERRUPTED, "interrupted");
	return rc;
}

static bool before(const struct slo_point *a, const struct slo_point *b)
{
	return a->rate != b->rate ? a->rate < b->rate : a->replicas < b->replicas;
}

/* Puts p where it belongs among the points. */
static void insert_point(struct slo_result *out, const struct slo_point *p)
{
	int32_t at = 0;
	while (at < out->n_points && before(&out->points[at], p))
		at++;
	memmove(&out->points[at + 1], &out->points[at], (size_t)(out->n_points - at) * sizeof *p);
	out->points[at] = *p;
	out->n_points++;
}

int slo_try(struct slo_search *s, double rate, bool *passes, struct err *e)
{
	struct run_result r = {0};
	struct slo_point p = {.rate = rate > 0 ? rate : s->own_rate, .replicas = s->settings.replicas};
	int rc = run_at(s, rate, false, &r, e);
	if (rc == ERR_NONE) {
		p.cut_short = s->hopeless;
		slo_judge(&p, &s->settings, s->workload, &r);
		p.passes = !p.cut_short && p.attainment >= s->o->attainment;
		*passes = p.passes;
		insert_point(s->out, &p);
	}
	run_result_free(&r);
	return rc;
}

int slo_all_at_once(struct slo_search *s, double *throughput, struct err *e)
{
	struct run_result r = {0};
	int rc = run_at(s, INFINITY, true, &r, e);
	*throughput = rc == ERR_NONE ? r.metrics.request_throughput : NAN;
	run_result_free(&r);
	if (rc == ERR_NONE && !(*throughput > 0))
		rc = err_set(e, ERR_INPUT, "no request is ever finished");
	return rc;
}

bool slo_room(const struct slo_search *s)
{
	return s->out->n_points < s->o->max_points;
}
