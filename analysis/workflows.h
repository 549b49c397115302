/* workflows.h: figures of what belongs together: requests that wait for one another or are of one session. */
#ifndef ANALYSIS_WORKFLOWS_H
#define ANALYSIS_WORKFLOWS_H

#include <stdint.h>

struct err;
struct metrics;
struct metrics_input;

/* Fills metrics.workflows and .tenant_fairness, the rest of *m being there; scratch is [workload->n]. A workload without
 * links and sessions has no workflows: n = 0, everything else NAN. */
int workflows_compute(struct metrics *m, const struct metrics_input *in, double *scratch, struct err *e);

#endif
