/* subset.h: keeping part of a workload, with what depends on what. */
#ifndef TRACES_SUBSET_H
#define TRACES_SUBSET_H

#include <stdbool.h>
#include <stdint.h>

#include "core/workload.h"

struct err;

/* When each request could start at the earliest, were serving instantaneous: its arrival, or the latest of its parents'
 * plus its delay. ready_ns is [w->n], the caller's. order (may be NULL), [w->n]: the requests by (ready_ns, index),
 * parents always before children. */
int subset_ready(const struct workload *w, int64_t *ready_ns, int32_t *order, struct err *e);

/* Drops every request i with !keep[i]. Links to dropped requests go; a request left without any parent arrives at its
 * ready time (subset_ready) instead. Then sorted as by subset_sort. *cut (may be NULL): how many lost all their parents. */
int subset_keep(struct workload *w, const bool *keep, int64_t *cut, struct err *e);

/* The parents of each request: of i they are parent[at[i] .. at[i + 1]), ascending. Both are the caller's to mem_free;
 * both NULL when no request has any. */
int subset_parents(const struct workload *w, int64_t **at, int32_t **parent, struct err *e);

/* Sorts a workload by ready time, as readers do, links included, then subset_renumber. */
int subset_sort(struct workload *w, struct err *e);

/* Numbers sessions and classes in the order of their first requests, so that equal workloads have equal hashes whatever
 * they were called or came from; forgets classes without requests. */
int subset_renumber(struct workload *w, struct err *e);

/* Which part `trace slice` keeps. */
struct slice {
	int64_t start_ns, end_ns; /* ready times in [start, end); end INT64_MAX = to the last */
	int64_t num_prompts; /* then at most so many of the first; 0 = all */
	int64_t every; /* then each k-th, the first one included; 1 = all */
	double sample; /* then each with this probability; 1 = all */
	uint64_t seed; /* of the sample */
};

void slice_default(struct slice *s);
/* The first request kept then arrives at 0. ERR_INPUT when nothing is left or a value is out of range. *cut as in subset_keep. */
int slice_apply(struct workload *w, const struct slice *s, int64_t *cut, struct err *e);

#endif
