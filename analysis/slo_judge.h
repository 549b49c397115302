/* slo_judge.h: what one run says of its objectives. */
#ifndef ANALYSIS_SLO_JUDGE_H
#define ANALYSIS_SLO_JUDGE_H

#include "analysis/slo.h"

/* Did it finish and meet every objective? One without a TPOT meets any of those. */
bool slo_met(const struct request *r, const struct goodput_slo *slo);
/* Everything of *p but rate, passes and cut_short. */
void slo_judge(struct slo_point *p, const struct run_settings *s, const struct run_result *r);

#endif
