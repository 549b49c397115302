#include "analysis/slo_replicas.h"

#include <math.h>

#include "core/err.h"

/* Was it tried already? Then *passes says what came of it. */
static bool known(const struct slo_search *s, int32_t n, bool *passes)
{
	for (int32_t i = 0; i < s->out->n_points; i++) {
		if (s->out->points[i].replicas != n)
			continue;
		*passes = s->out->points[i].passes;
		return true;
	}
	return false;
}

static int try_replicas(struct slo_search *s, int32_t n, bool *passes, struct err *e)
{
	if (known(s, n, passes))
		return ERR_NONE;
	slo_search_replicas(s, n);
	return slo_try(s, s->o->rate, passes, e);
}

/* About as many as it takes when each is busy most of the time. */
static int guess(struct slo_search *s, int32_t *n, struct err *e)
{
	double throughput, rate = s->o->rate > 0 ? s->o->rate : s->own_rate;
	slo_search_replicas(s, 1);
	int rc = slo_all_at_once(s, &throughput, e);
	double wanted = rc == ERR_NONE ? ceil(rate / (0.8 * throughput)) : 1;
	*n = wanted < s->o->max_replicas ? (int32_t)wanted : s->o->max_replicas;
	return rc;
}

/* Doubles or halves from n until one passes and one fails. *fails = 0: one replica is enough; *passes = 0: not with the most
 * that may be. */
static int find_bracket(struct slo_search *s, int32_t n, int32_t *fails, int32_t *passes, struct err *e)
{
	int rc = ERR_NONE;
	*fails = *passes = 0;
	while (rc == ERR_NONE && slo_room(s)) {
		bool good;
		rc = try_replicas(s, n, &good, e);
		if (rc)
			break;
		*(good ? passes : fails) = n;
		if ((*fails && *passes) || (good && n == 1) || (!good && n == s->o->max_replicas))
			break;
		n = good ? n / 2 : n > s->o->max_replicas / 2 ? s->o->max_replicas : 2 * n;
	}
	return rc;
}

static int bisect(struct slo_search *s, int32_t *fails, int32_t *passes, struct err *e)
{
	int rc = ERR_NONE;
	while (rc == ERR_NONE && *passes - *fails > 1 && slo_room(s)) {
		bool good;
		int32_t middle = *fails + (*passes - *fails) / 2;
		rc = try_replicas(s, middle, &good, e);
		if (rc == ERR_NONE)
			*(good ? passes : fails) = middle;
	}
	return rc;
}

/* Attainment need not rise with every replica: who shares requests out may do it less well among more. Two fewer and one more
 * are tried too. */
static int look_around(struct slo_search *s, int32_t passes, struct err *e)
{
	int rc = ERR_NONE;
	for (int32_t i = 2; rc == ERR_NONE && i <= 3 && passes > i && slo_room(s); i++) {
		bool good;
		rc = try_replicas(s, passes - i, &good, e);
		if (rc == ERR_NONE && good) {
			passes -= i;
			i = 0;
		}
	}
	bool good;
	if (rc == ERR_NONE && passes < s->o->max_replicas && slo_room(s))
		rc = try_replicas(s, passes + 1, &good, e);
	return rc;
}

int slo_search_fewest(struct slo_search *s, struct err *e)
{
	int32_t n, fails = 0, passes = 0;
	int rc = guess(s, &n, e);
	if (rc == ERR_NONE)
		rc = find_bracket(s, n, &fails, &passes, e);
	if (rc == ERR_NONE && passes)
		rc = bisect(s, &fails, &passes, e);
	if (rc == ERR_NONE && passes)
		rc = look_around(s, passes, e);
	return rc;
}

void slo_conclude_fewest(struct slo_result *out, double asked)
{
	bool failing = true; /* all so far do, by more than their margins */
	out->low = out->sure_low = out->again = 0;
	out->high = out->sure_high = INFINITY;
	out->at_pass = out->at_fail = -1;
	for (int32_t i = 0; i < out->n_points; i++) {
		const struct slo_point *p = &out->points[i];
		double margin = isnan(p->margin) ? 0 : p->margin;
		bool surely_not = !p->passes && (p->cut_short || p->attainment + margin < asked);
		if (out->at_pass < 0 && p->passes)
			out->at_pass = i;
		else if (out->at_pass < 0)
			out->at_fail = i;
		else if (!p->passes)
			out->again = p->replicas;
		failing = failing && surely_not;
		if (failing)
			out->sure_low = p->replicas;
		if (out->sure_high == INFINITY && p->passes && p->attainment - margin >= asked)
			out->sure_high = p->replicas;
	}
	if (out->at_pass >= 0)
		out->high = out->points[out->at_pass].replicas;
	if (out->at_fail >= 0)
		out->low = out->points[out->at_fail].replicas;
	out->outcome = out->at_pass < 0 ? SLO_NEVER : out->at_fail < 0 ? SLO_ALWAYS : SLO_BRACKETED;
}
