/* waits.h: what requests waited for, and how alike tenants were served. */
#ifndef ANALYSIS_WAITS_H
#define ANALYSIS_WAITS_H

struct err;
struct metrics;
struct metrics_input;

/* Fills metrics.waited, .waited_share, .longest_wait_ns and the tenants' indices; scratch is [workload->n]. */
int waits_compute(struct metrics *m, const struct metrics_input *in, double *scratch, struct err *e);

#endif
