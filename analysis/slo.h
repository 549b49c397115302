/* slo.h: the highest request rate at which a share of all requests meets every service level objective (DistServe's
 * goodput: Zhong et al., OSDI 2024), by bisection over the rate. Every rate gets the same requests in the same pattern of
 * arrivals, played faster or slower (common random numbers), so that configurations differ by what they are and not by
 * what they were given. docs/slo.md says how the figures are to be read. */
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

/* One rate that was tried. */
struct slo_point {
	double rate; /* offered, requests/s */
	double attainment; /* share of all requests that met every objective; of one cut short: at most that */
	double margin; /* half of the 95 % interval of it, from 20 batches of requests in order of arrival; NAN: too few */
	bool passes; /* attainment >= what is asked */
	bool cut_short; /* ended as soon as it could not pass any more */
	int64_t n, good;
	double p99_ttft_ms, p99_tpot_ms, request_throughput; /* NAN of one cut short */
	enum slo_state state;
	enum slo_limit limit;
};

#define SLO_POINTS_MAX 40

struct slo_options {
	double attainment; /* (0, 1] */
	double precision; /* bracket: highest that fails / highest that passes - 1 */
	int32_t max_points; /* at most SLO_POINTS_MAX */
};

enum slo_outcome {
	SLO_BRACKETED, /* [low, high] */
	SLO_NEVER, /* not at the lowest rate tried either: high */
	SLO_ALWAYS, /* at any rate, all at once too: low */
	SLO_IMPOSSIBLE, /* the run itself fails: says why */
};

struct slo_result {
	enum slo_outcome outcome;
	double low, high; /* highest rate that passes with all lower ones that were tried; lowest that fails */
	/* The same of rates that pass and fail by more than their margins; 0 and INFINITY where none does. */
	double sure_low, sure_high;
	double again; /* a rate above high that passes all the same (attainment is not monotone); 0 = none does */
	int32_t at_low, at_high; /* places in points, -1 */
	struct slo_point points[SLO_POINTS_MAX]; /* in order of rate */
	int32_t n_points;
	double wall_s;
	char text[256]; /* SLO_IMPOSSIBLE: why */
};

/* s: one configuration with its objectives (s->slo). w's arrivals are set for each rate and are what they were on return.
 * `stop` polled: ERR_INTERRUPTED, *out holds what was tried. ERR_INPUT: nothing asked for, or a workload whose requests
 * all arrive at once. */
int slo_search(const struct run_settings *s, struct workload *w, const struct slo_options *o, const volatile int *stop,
	       struct slo_result *out, struct err *e);

/* Intended arrivals per second of requests that wait for no other: (n - 1) / (last - first); INFINITY: all at once. */
double slo_own_rate(const struct workload *w);

#endif
