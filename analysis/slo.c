#include "analysis/slo.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "analysis/slo_judge.h"
#include "core/err.h"
#include "core/mem.h"

struct search {
	const struct run_settings *settings;
	struct workload *workload;
	int64_t *arrivals; /* [n] as they were: of dependents, delays */
	double own_rate;
	const struct slo_options *o;
	const volatile int *stop;
	struct slo_result *out;
	/* The run going on. */
	const struct engine *engine;
	int64_t counted; /* requests that had ended when misses were last counted */
	volatile int cut; /* what the run polls: it cannot pass any more, or the user's stop */
	bool hopeless;
};

static double now_s(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

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

/* --- one rate ----------------------------------------------------------------------------------------------------- */

/* Those that wait for others keep their delays, which are somebody's thinking or a tool's work, whatever the load. */
static void set_rate(struct search *s, double rate)
{
	double scale = isinf(rate) ? 0 : s->own_rate / rate;
	for (int64_t i = 0; i < s->workload->n; i++)
		if (is_root(s->workload, i))
			s->workload->specs[i].arrival_ns = (int64_t)((double)s->arrivals[i] * scale + 0.5);
}

static void keep_engine(void *ctx, const struct engine *g)
{
	struct search *s = ctx;
	s->engine = g;
	s->counted = 0;
}

/* Counting costs a walk over all requests: once for every fiftieth of them that ended. */
static void look(void *ctx, int64_t ended, int64_t total)
{
	struct search *s = ctx;
	if (s->stop && *s->stop)
		s->cut = 1;
	if (ended - s->counted < total / 50 + 1)
		return;
	s->counted = ended;
	int64_t missed = 0, may_miss = total - (int64_t)ceil(s->o->attainment * (double)total - 1e-9);
	for (int64_t i = 0; i < total; i++) {
		const struct request *r = engine_request(s->engine, (int32_t)i);
		bool over = r->state >= REQUEST_FINISHED;
		missed += over && !slo_met(r, &s->settings->slo);
	}
	if (missed > may_miss) {
		s->hopeless = true;
		s->cut = 1;
	}
}

/* Runs at that rate; whole = to the end, whatever comes of it. */
static int run_at(struct search *s, double rate, bool whole, struct run_result *r, struct err *e)
{
	const struct run_io io = {.stop = &s->cut, .progress = whole ? NULL : look, .ctx = s, .engine = keep_engine};
	set_rate(s, rate);
	s->cut = s->hopeless = 0;
	if (s->stop && *s->stop)
		return err_set(e, ERR_INTERRUPTED, "interrupted");
	int rc = run_execute(s->settings, s->workload, &io, r, e);
	if (rc == ERR_NONE && s->stop && *s->stop)
		rc = err_set(e, ERR_INTERRUPTED, "interrupted");
	return rc;
}

/* Where p belongs among the points. */
static int32_t insert_point(struct slo_result *out, const struct slo_point *p)
{
	int32_t at = 0;
	while (at < out->n_points && out->points[at].rate < p->rate)
		at++;
	memmove(&out->points[at + 1], &out->points[at], (size_t)(out->n_points - at) * sizeof *p);
	out->points[at] = *p;
	out->n_points++;
	return at;
}

static int try_rate(struct search *s, double rate, bool *passes, struct err *e)
{
	struct run_result r = {0};
	struct slo_point p = {.rate = rate};
	int rc = run_at(s, rate, false, &r, e);
	if (rc == ERR_NONE) {
		slo_judge(&p, s->settings, &r);
		p.cut_short = s->hopeless;
		if (p.cut_short) { /* those that had not ended might all have met theirs */
			int64_t ended = r.stats.finished + r.stats.rejected + r.stats.aborted;
			p.attainment = 1 - (double)(ended - p.good) / (double)p.n;
		}
		p.passes = !p.cut_short && p.attainment >= s->o->attainment;
		*passes = p.passes;
		insert_point(s->out, &p);
	}
	run_result_free(&r);
	return rc;
}

/* --- the search --------------------------------------------------------------------------------------------------- */

/* Requests/s when nobody waits for an arrival: about where the search begins. */
static int all_at_once(struct search *s, double *throughput, struct err *e)
{
	struct run_result r = {0};
	int rc = run_at(s, INFINITY, true, &r, e);
	*throughput = rc == ERR_NONE ? r.metrics.request_throughput : NAN;
	run_result_free(&r);
	if (rc == ERR_NONE && !(*throughput > 0))
		rc = err_set(e, ERR_INPUT, "no request is ever finished");
	return rc;
}

static bool room(const struct search *s)
{
	return s->out->n_points < s->o->max_points;
}

/* From a rate in both directions until one passes and one fails. Either may not exist: 0 and INFINITY. */
static int find_bracket(struct search *s, double start, double *low, double *high, struct err *e)
{
	const double most = start * 64, least = start / 4096;
	bool passes;
	double rate = start;
	int rc = try_rate(s, rate, &passes, e);
	*low = 0;
	*high = INFINITY;
	while (rc == ERR_NONE) {
		*(passes ? low : high) = rate;
		if ((*low > 0 && *high < INFINITY) || !room(s))
			break;
		double next = passes ? rate * 1.25 : rate / 1.6;
		if (next > most || next < least)
			break;
		rate = next;
		rc = try_rate(s, rate, &passes, e);
	}
	return rc;
}

static int bisect(struct search *s, double *low, double *high, struct err *e)
{
	int rc = ERR_NONE;
	while (rc == ERR_NONE && *low > 0 && *high<INFINITY && * high / *low> 1 + s->o->precision && room(s)) {
		bool passes;
		double middle = sqrt(*low * *high);
		rc = try_rate(s, middle, &passes, e);
		if (rc == ERR_NONE)
			*(passes ? low : high) = middle;
	}
	return rc;
}

/* Attainment need not fall with the rate: a few lower rates are tried too, and where one of them fails the bracket is what
 * lies around it. */
static int look_below(struct search *s, double *low, double *high, struct err *e)
{
	static const double below[] = {0.95, 0.85, 0.7};
	int rc = ERR_NONE;
	for (size_t i = 0; rc == ERR_NONE && *low > 0 && i < sizeof below / sizeof *below && room(s); i++) {
		bool passes;
		double rate = *low * below[i];
		rc = try_rate(s, rate, &passes, e);
		if (rc || passes)
			continue;
		*high = rate;
		*low = 0;
		for (int32_t k = 0; k < s->out->n_points && s->out->points[k].rate < rate; k++)
			*low = s->out->points[k].passes ? s->out->points[k].rate : 0;
		while (rc == ERR_NONE && *low == 0 && room(s) && rate > *high / 64) {
			rate /= 1.25;
			rc = try_rate(s, rate, &passes, e);
			*(passes ? low : high) = rate;
		}
		if (rc == ERR_NONE)
			rc = bisect(s, low, high, e);
		i = 0;
	}
	return rc;
}

/* What the points that were tried say, whatever order they were tried in. */
static void conclude(struct slo_result *out, double asked)
{
	out->low = 0;
	out->high = out->sure_high = INFINITY;
	out->sure_low = out->again = 0;
	out->at_low = out->at_high = -1;
	for (int32_t i = 0; i < out->n_points; i++) {
		const struct slo_point *p = &out->points[i];
		double margin = isnan(p->margin) ? 0 : p->margin;
		bool surely = p->passes && p->attainment - margin >= asked;
		bool surely_not = !p->passes && (p->cut_short || p->attainment + margin < asked);
		if (out->at_high < 0 && p->passes) {
			out->low = p->rate;
			out->at_low = i;
		}
		if (out->at_high < 0 && !p->passes) {
			out->high = p->rate;
			out->at_high = i;
		}
		if (out->at_high >= 0 && p->passes)
			out->again = p->rate;
		if (surely && out->sure_high == INFINITY)
			out->sure_low = p->rate;
		if (surely_not && out->sure_high == INFINITY)
			out->sure_high = p->rate;
	}
	out->outcome = out->at_low < 0 ? SLO_NEVER : out->at_high < 0 ? SLO_ALWAYS : SLO_BRACKETED;
}

static int search_rates(struct search *s, struct err *e)
{
	double throughput, low, high;
	int rc = all_at_once(s, &throughput, e);
	if (rc == ERR_NONE)
		rc = find_bracket(s, throughput * 0.8, &low, &high, e);
	if (rc == ERR_NONE)
		rc = bisect(s, &low, &high, e);
	if (rc == ERR_NONE)
		rc = look_below(s, &low, &high, e);
	return rc;
}

static int check(const struct run_settings *s, const struct workload *w, const struct slo_options *o, struct err *e)
{
	if (!goodput_any(&s->slo))
		return err_set(e, ERR_INPUT, "no objective: give --goodput, for instance --goodput ttft:500 tpot:50");
	if (!(o->attainment > 0 && o->attainment <= 1))
		return err_set(e, ERR_INPUT, "attainment %g must be above 0 and at most 1", o->attainment);
	if (!(o->precision > 0))
		return err_set(e, ERR_INPUT, "precision %g must be above 0", o->precision);
	if (o->max_points < 4 || o->max_points > SLO_POINTS_MAX)
		return err_set(e, ERR_INPUT, "between 4 and %d rates can be tried, not %d", SLO_POINTS_MAX,
			       o->max_points);
	if (isinf(slo_own_rate(w)))
		return err_set(
			e, ERR_INPUT,
			"all requests arrive at once, so that there is no pattern of arrivals to play faster or slower "
			"(--request-rate 1 draws one)");
	return ERR_NONE;
}

int slo_search(const struct run_settings *settings, struct workload *w, const struct slo_options *o,
	       const volatile int *stop, struct slo_result *out, struct err *e)
{
	struct search s = {.settings = settings, .workload = w, .o = o, .stop = stop, .out = out};
	double began = now_s();
	*out = (struct slo_result){.at_low = -1, .at_high = -1};
	int rc = check(settings, w, o, e);
	if (rc)
		return rc;
	s.arrivals = mem_alloc((size_t)w->n * sizeof *s.arrivals);
	if (!s.arrivals)
		return err_no_memory(e, "arrivals");
	for (int64_t i = 0; i < w->n; i++)
		s.arrivals[i] = w->specs[i].arrival_ns;
	s.own_rate = slo_own_rate(w);
	rc = search_rates(&s, e);
	for (int64_t i = 0; i < w->n; i++)
		w->specs[i].arrival_ns = s.arrivals[i];
	mem_free(s.arrivals);
	conclude(out, o->attainment);
	out->wall_s = now_s() - began;
	if (rc == ERR_INPUT || rc == ERR_STALL) { /* this configuration cannot serve it; others may */
		out->outcome = SLO_IMPOSSIBLE;
		snprintf(out->text, sizeof out->text, "%.255s", e->text);
		err_clear(e);
		return ERR_NONE;
	}
	return rc;
}
