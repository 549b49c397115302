/* slo.h: the highest request rate at which a share of all requests meets every service level objective (DistServe's
 * goodput: Zhong et al., OSDI 2024), or the fewest replicas with which it does at a given rate, by bisection. Every rate gets
 * the same requests in the same pattern of arrivals, played faster or slower, and every number of replicas the same stream
 * (common random numbers), so that configurations differ by what they are and not by what they were given. docs/slo.md says
 * how the figures are to be read. */
#ifndef ANALYSIS_SLO_H
#define ANALYSIS_SLO_H

#include <stdbool.h>
#include <stdint.h>

#include "analysis/run.h"

struct err;

enum slo_state {
	SLO_STABLE, /* whoever came was soon let in */
	SLO_BACKLOGGED, /* a queue longer than what runs formed, and was worked off again */
	SLO_OVERLOADED, /* more than one in twenty had not begun when the last one came: the queue grows without end */
};
extern const char *const slo_state_names[]; /* "STABLE", "BACKLOGGED", "OVERLOADED", NULL */

/* What most of those that missed an objective would have needed more of. */
enum slo_limit {
	SLO_LIMIT_NONE, /* all met */
	SLO_LIMIT_MEMORY, /* waited while KV memory was full, or lost theirs */
	SLO_LIMIT_PLACES, /* waited while max_num_seqs ran */
	SLO_LIMIT_QUEUE, /* waited behind others' prompts: steps do not compute enough tokens */
	SLO_LIMIT_PREFILL, /* their own prompt took too long */
	SLO_LIMIT_DECODE, /* their tokens came too slowly */
	SLO_LIMIT_REFUSED, /* were rejected */
	SLO_LIMITS
};
extern const char *const slo_limit_names[]; /* "none", "memory", ..., NULL */

/* Requests of one class, and how many of them are good. */
struct slo_share {
	int64_t n, good;
};

/* One rate, or number of replicas, that was tried. */
struct slo_point {
	double rate; /* offered, requests/s */
	int32_t replicas;
	/* Share of all requests that met every objective; where classes have their own, of the class that is worst off. Of a
	 * run cut short: at most that. */
	double attainment;
	struct slo_share shares[GOODPUT_CLASSES + 1]; /* [slo.n_classes + 1] the last: those of no such class */
	int32_t worst; /* the one that attainment is of */
	double margin; /* half of the 95 % interval of it, from 20 batches of requests in order of arrival; NAN: too few */
	bool passes; /* attainment >= what is asked */
	bool cut_short; /* ended as soon as it could not pass any more */
	int64_t n, good; /* of all classes */
	double p99_ttft_ms, p99_tpot_ms, request_throughput; /* NAN of one cut short */
	double joules_per_good_request; /* at rated power while steps run; NAN likewise, or where power is not known */
	enum slo_state state;
	enum slo_limit limit;
};

#define SLO_POINTS_MAX 40
#define SLO_REPLICAS_MAX 1024

enum slo_find { SLO_FIND_RATE, SLO_FIND_REPLICAS };

struct slo_options {
	enum slo_find find;
	double rate; /* SLO_FIND_REPLICAS: what is offered, requests/s in the workload's pattern; 0 = as it is */
	int32_t max_replicas; /* SLO_FIND_REPLICAS: no more are tried */
	double attainment; /* (0, 1] */
	double precision; /* bracket: highest that fails / highest that passes - 1 */
	int32_t max_points; /* at most SLO_POINTS_MAX */
};

enum slo_outcome {
	SLO_BRACKETED, /* what passes and what fails lie beside each other */
	SLO_NEVER, /* not at the lowest rate tried, or with the most replicas */
	SLO_ALWAYS, /* at any rate, all at once too; with one replica */
	SLO_IMPOSSIBLE, /* the run itself fails: says why */
};
extern const char *const slo_outcome_names[]; /* "bracketed", "never", "always", "impossible", NULL */

struct slo_result {
	enum slo_outcome outcome;
	/* Rates: the highest that passes with all lower ones that were tried, and the lowest that fails. Replicas: the most
	 * below high that fail (0: none does), and the fewest that pass (INFINITY: none do). */
	double low, high;
	/* The same of those that pass and fail by more than their margins; 0 and INFINITY where none does. */
	double sure_low, sure_high;
	/* Attainment is not monotone: a rate above high that passes all the same; more replicas than high that fail. 0 = none. */
	double again;
	int32_t at_pass, at_fail; /* places of that bracket in points, -1 */
	struct slo_point points[SLO_POINTS_MAX]; /* in order of rate, then replicas */
	int32_t n_points;
	double wall_s;
	char text[256]; /* SLO_IMPOSSIBLE: why */
};

/* s: one configuration with its objectives (s->slo); its replicas are what is looked for with SLO_FIND_REPLICAS. w's arrivals are set for each rate and are what they were on return.
 * `stop` polled: ERR_INTERRUPTED, *out holds what was tried. ERR_INPUT: nothing asked for, or a workload whose requests
 * all arrive at once. */
int slo_search(const struct run_settings *s, struct workload *w, const struct slo_options *o, const volatile int *stop,
	       struct slo_result *out, struct err *e);

/* Intended arrivals per second of requests that wait for no other: (n - 1) / (last - first); INFINITY: all at once. */
double slo_own_rate(const struct workload *w);

#endif
