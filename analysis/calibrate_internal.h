/* calibrate_internal.h: shared by calibrate's own files. */
#ifndef ANALYSIS_CALIBRATE_INTERNAL_H
#define ANALYSIS_CALIBRATE_INTERNAL_H

#include "analysis/calibrate.h"

/* What a simulation says of one request, or a log: NAN where it does not. ns. */
struct seen {
	double ns[CALIBRATE_METRICS];
};

/* Everything that the simulations of one calibration have in common. */
struct trials {
	const struct calibrate_options *o;
	struct run_settings settings; /* its cost points into `cost` */
	char cost[256];
	int64_t n, n_fit;
	struct seen *measured; /* [n] */
	struct seen *simulated; /* [n] of the last one */
	int64_t *intake_ns; /* [n] clock readings that took the requests in */
	int64_t taken; /* so many have been */
	struct backend inner; /* the simulator, behind the clock's watcher */
	bool counts[CALIBRATE_METRICS]; /* which metrics enter the loss */
	const volatile int *stop;
	/* Candidates are judged by the fitted part alone: their simulations end with its last request, which changes nothing of
	 * what came before and halves the time. */
	bool whole;
	const struct engine *engine_of; /* of the run in progress */
	int64_t ended; /* so many requests of the fitted part have, from the first on */
	volatile int halt; /* what the run polls */
	int64_t evals;
	double busy_s; /* in simulations */
	int64_t steps, preemptions;
	struct engine_config engine;
	double simulated_s, throughput[2]; /* of the last one, by part */
	double measured_throughput[2];
};

/* calibrate_trial.c. ERR_INPUT when some request was not served. */
int trials_open(struct trials *t, const struct calibrate_options *o, struct err *e);
void trials_free(struct trials *t);
/* "roofline:gemm=0.7,...": the words of the parameters in `mask`; values [CALIBRATE_PARAMS] in their units. */
void trials_cost_text(char *buf, size_t size, const double *values, uint32_t mask);
/* Simulates with t->cost. */
int trials_run(struct trials *t, struct err *e);
/* |ln(simulated / measured)| of request i, averaged over the metrics that count and are told. */
double trials_request_loss(const struct trials *t, int64_t i);
double trials_loss(const struct trials *t); /* mean of the fitted part */
int trials_errors(const struct trials *t, enum calibrate_part part, struct calibrate_errors *out, struct err *e);

/* calibrate_spread.c: every candidate that was simulated, kept to tell how sure the best one is.
 *
 * The requests are the sample: had others of their kind come, another candidate would have been best. So requests are drawn
 * anew many times (with replacement, in groups that follow one another, since neighbours share their steps), each time the
 * candidate with the least loss wins, and the winners' spread is the uncertainty. To it is added the spread of the
 * candidates that are as good as the best: what the search cannot tell apart. */
struct spread {
	int n; /* variables */
	int64_t n_fit;
	int32_t groups;
	double *x; /* [n_rows][SEARCH_MAX] */
	double *loss; /* [n_rows][groups], means */
	int64_t n_rows, cap_x, cap_loss;
};
int spread_open(struct spread *s, int n, int64_t n_fit, struct err *e);
void spread_free(struct spread *s);
/* The candidate of the last trials_run. */
int spread_add(struct spread *s, const double *x, const struct trials *t, struct err *e);
/* Standard deviation of each variable around `best`. */
void spread_measure(const struct spread *s, const double *best, uint64_t seed, double *sd);

/* calibrate_search.c: minimises a noisy function of few variables without derivatives: an evolution strategy that adapts
 * its covariance (CMA-ES; Hansen, "The CMA Evolution Strategy: A Tutorial", 2016), restarted from the best point. */
enum { SEARCH_MAX = 40 };
struct search {
	int n; /* variables */
	double low[SEARCH_MAX], high[SEARCH_MAX];
	double start[SEARCH_MAX], spread[SEARCH_MAX]; /* first point; standard deviations around it */
	int32_t evals; /* at most */
	uint64_t seed;
	/* *f at x. Non-zero ends the search with that code. */
	int (*ask)(void *ctx, const double *x, double *f, struct err *e);
	void *ctx;
	double best[SEARCH_MAX], best_f; /* the result; also after an error */
};
int search_run(struct search *s, struct err *e);

/* Eigenvalues d[n] and vectors (columns of v) of the symmetric a[n][SEARCH_MAX], which is overwritten (Jacobi). */
void search_eigen(int n, double a[][SEARCH_MAX], double *d, double v[][SEARCH_MAX]);

#endif
