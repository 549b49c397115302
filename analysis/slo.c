#include "analysis/slo.h"

#include <math.h>
#include <stdio.h>
#include <time.h>

#include "analysis/slo_replicas.h"
#include "analysis/slo_try.h"
#include "core/err.h"

const char *const slo_outcome_names[] = {"bracketed", "never", "always", "impossible", NULL};

static double now_s(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* --- the search --------------------------------------------------------------------------------------------------- */

/* From a rate in both directions until one passes and one fails. Either may not exist: 0 and INFINITY. */
static int find_bracket(struct slo_search *s, double start, double *low, double *high, struct err *e)
{
	const double most = start * 64, least = start / 4096;
	bool passes;
	double rate = start;
	int rc = slo_try(s, rate, &passes, e);
	*low = 0;
	*high = INFINITY;
	while (rc == ERR_NONE) {
		*(passes ? low : high) = rate;
		if ((*low > 0 && *high < INFINITY) || !slo_room(s))
			break;
		double next = passes ? rate * 1.25 : rate / 1.6;
		if (next > most || next < least)
			break;
		rate = next;
		rc = slo_try(s, rate, &passes, e);
	}
	return rc;
}

static int bisect(struct slo_search *s, double *low, double *high, struct err *e)
{
	int rc = ERR_NONE;
	while (rc == ERR_NONE && *low > 0 && *high<INFINITY && * high / *low> 1 + s->o->precision && slo_room(s)) {
		bool passes;
		double middle = sqrt(*low * *high);
		rc = slo_try(s, middle, &passes, e);
		if (rc == ERR_NONE)
			*(passes ? low : high) = middle;
	}
	return rc;
}

/* Attainment need not fall with the rate: a few lower rates are tried too, and where one of them fails the bracket is what
 * lies around it. */
static int look_below(struct slo_search *s, double *low, double *high, struct err *e)
{
	static const double below[] = {0.95, 0.85, 0.7};
	int rc = ERR_NONE;
	for (size_t i = 0; rc == ERR_NONE && *low > 0 && i < sizeof below / sizeof *below && slo_room(s); i++) {
		bool passes;
		double rate = *low * below[i];
		rc = slo_try(s, rate, &passes, e);
		if (rc || passes)
			continue;
		*high = rate;
		*low = 0;
		for (int32_t k = 0; k < s->out->n_points && s->out->points[k].rate < rate; k++)
			*low = s->out->points[k].passes ? s->out->points[k].rate : 0;
		while (rc == ERR_NONE && *low == 0 && slo_room(s) && rate > *high / 64) {
			rate /= 1.25;
			rc = slo_try(s, rate, &passes, e);
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
	bool passing = true; /* all so far do, by more than their margins */
	out->low = 0;
	out->high = out->sure_high = INFINITY;
	out->sure_low = out->again = 0;
	out->at_pass = out->at_fail = -1;
	for (int32_t i = 0; i < out->n_points; i++) {
		const struct slo_point *p = &out->points[i];
		double margin = isnan(p->margin) ? 0 : p->margin;
		bool surely = p->passes && p->attainment - margin >= asked;
		bool surely_not = !p->passes && (p->cut_short || p->attainment + margin < asked);
		if (out->at_fail < 0 && p->passes) {
			out->low = p->rate;
			out->at_pass = i;
		}
		if (out->at_fail < 0 && !p->passes) {
			out->high = p->rate;
			out->at_fail = i;
		}
		if (out->at_fail >= 0 && p->passes)
			out->again = p->rate;
		passing = passing && surely;
		if (passing)
			out->sure_low = p->rate;
		if (surely_not && out->sure_high == INFINITY)
			out->sure_high = p->rate;
	}
	out->outcome = out->at_pass < 0 ? SLO_NEVER : out->at_fail < 0 ? SLO_ALWAYS : SLO_BRACKETED;
}

static int search_rates(struct slo_search *s, struct err *e)
{
	double throughput, low, high;
	int rc = slo_all_at_once(s, &throughput, e);
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
	if (o->find == SLO_FIND_REPLICAS && (o->max_replicas < 1 || o->max_replicas > SLO_REPLICAS_MAX))
		return err_set(e, ERR_INPUT, "between 1 and %d replicas can be tried, not %d", SLO_REPLICAS_MAX,
			       o->max_replicas);
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
	struct slo_search s;
	double began = now_s();
	*out = (struct slo_result){.at_pass = -1, .at_fail = -1};
	int rc = check(settings, w, o, e);
	if (rc)
		return rc;
	rc = slo_search_begin(&s, settings, w, o, stop, out, e);
	if (rc == ERR_NONE)
		rc = o->find == SLO_FIND_RATE ? search_rates(&s, e) : slo_search_fewest(&s, e);
	slo_search_end(&s);
	if (o->find == SLO_FIND_RATE)
		conclude(out, o->attainment);
	else
		slo_conclude_fewest(out, o->attainment);
	out->wall_s = now_s() - began;
	if (rc == ERR_INPUT || rc == ERR_STALL) { /* this configuration cannot serve it; others may */
		out->outcome = SLO_IMPOSSIBLE;
		snprintf(out->text, sizeof out->text, "%.255s", e->text);
		err_clear(e);
		return ERR_NONE;
	}
	return rc;
}
