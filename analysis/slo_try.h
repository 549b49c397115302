/* slo_try.h: one search for what meets objectives, and the trying of a rate or a number of replicas in it; for the searches
 * (slo.c, slo_replicas.c) alone. */
#ifndef ANALYSIS_SLO_TRY_H
#define ANALYSIS_SLO_TRY_H

#include "analysis/slo.h"

struct engine;

struct slo_search {
	struct run_settings settings; /* replicas and router are those of the trial */
	struct workload *workload;
	int64_t *arrivals; /* [n] as they were: of dependents, delays */
	uint8_t *shares; /* [n] whose attainment each counts in */
	int64_t may_miss[GOODPUT_CLASSES + 1]; /* requests of each share */
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

/* Sets *out to nothing found; ERR_MEMORY. slo_search_end is right after a failure too, and puts w's arrivals back. */
int slo_search_begin(struct slo_search *s, const struct run_settings *settings, struct workload *w,
		     const struct slo_options *o, const volatile int *stop, struct slo_result *out, struct err *e);
void slo_search_end(struct slo_search *s);

/* So many replicas from the next trial on. */
void slo_search_replicas(struct slo_search *s, int32_t n);
/* Runs at that rate (0: the trace's own), stopping when it cannot pass any more, and adds the point to those of s->out. */
int slo_try(struct slo_search *s, double rate, bool *passes, struct err *e);
/* Requests/s when nobody waits for an arrival: about where a search begins. ERR_INPUT: nothing is ever finished. */
int slo_all_at_once(struct slo_search *s, double *throughput, struct err *e);
bool slo_room(const struct slo_search *s); /* for another point */

#endif
