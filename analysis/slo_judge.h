/* slo_judge.h: what one run says of its objectives. */
#ifndef ANALYSIS_SLO_JUDGE_H
#define ANALYSIS_SLO_JUDGE_H

#include "analysis/slo.h"

/* Everything of *p but rate, replicas and passes; reads cut_short. */
void slo_judge(struct slo_point *p, const struct run_settings *s, const struct workload *w, const struct run_result *r);

#endif
