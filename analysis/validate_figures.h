/* validate_figures.h: from watched steps and served requests to errors and spreads. */
#ifndef ANALYSIS_VALIDATE_FIGURES_H
#define ANALYSIS_VALIDATE_FIGURES_H

#include <stdint.h>

#include "analysis/validate.h"
#include "analysis/validate_log.h"
#include "analysis/validate_watch.h"

struct err;

/* (a / b - 1) in percent; NAN where b is 0 or either is not known. */
double percent_off(double a, double b);

/* The same steps, watched several times. */
struct watched {
	const struct watch *first; /* executed */
	const struct watch *predicted; /* NULL: the recording could not be played */
	const struct watch *again[VALIDATE_EXECUTIONS]; /* [n_again] executed once more */
	int32_t n_again;
};
/* Fills r->steps, parts, outside_* and points. */
int figures_of_steps(struct validate_result *r, const struct watched *w, struct err *e);

/* What each request saw, by its index; NAN: not finished, or not defined. ns. */
struct request_times {
	int64_t n;
	double *of[VALIDATE_TIMES]; /* [n] each */
};
int times_of_requests(struct request_times *t, const struct request *requests, int64_t n, struct err *e);
void times_free(struct request_times *t);

/* What each request would have seen had every step of the first execution taken what it took in another one, decisions
 * kept: steps follow each other as they did, none begins before those it takes in have arrived. Arrivals after a
 * parent's end move with it. */
struct relay {
	const struct workload *workload;
	const struct request *requests; /* of the first execution */
	const struct event_log *log; /* its decisions */
	const struct watch *first, *again;
};
int times_relaid(struct request_times *t, int64_t *end_ns, const struct relay *in, struct err *e);

/* Gives the steps that w did not execute (from w->cut on) what they would have taken, had they differed from the first
 * execution as the earlier ones of their kind did, one after the other and over again. */
void figures_fill_rest(struct watch *w, const struct watch *first);

/* r->times, request_mape and samples; r->steps[VALIDATE_ALL] is there already. */
int figures_of_requests(struct validate_result *r, const struct request_times *measured,
			const struct request_times *simulated, const struct request_times *again, int32_t n_again,
			struct err *e);
/* r->rates; end_ns[n_again] are the last finishes of further executions. */
void figures_of_rates(struct validate_result *r, const int64_t *end_ns, int32_t n_again);

/* r->allowed, beyond and worst. */
void figures_judge(struct validate_result *r, double max_error);

#endif
