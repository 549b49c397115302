/* slo_replicas.h: the fewest replicas that meet objectives at a given rate; called by slo_search. */
#ifndef ANALYSIS_SLO_REPLICAS_H
#define ANALYSIS_SLO_REPLICAS_H

#include "analysis/slo_try.h"

int slo_search_fewest(struct slo_search *s, struct err *e);
/* What the points that were tried say, whatever order they were tried in. */
void slo_conclude_fewest(struct slo_result *out, double asked);

#endif
