/* bootstrap.h: by how much a figure of one run differs from another's, and between what bounds that lies with 95 %
 * confidence.
 *
 * Requests that arrive near each other share their fate, so it is blocks of consecutive requests that are drawn again, with
 * replacement (Carlstein, 1986), as long as the correlation asks for (Politis and White, 2004; corrected by Patton, Politis
 * and White, 2009). Where both runs served the same requests, the same blocks are drawn of both: what the arrivals do to
 * both alike falls out. The interval is that of the percentiles of the redrawn effects, widened for few blocks (Hesterberg,
 * 2015, "expanded percentiles": as Student's t is wider than the normal distribution). Own random numbers: the same input
 * gives the same interval everywhere. docs/compare.md. */
#ifndef ANALYSIS_BOOTSTRAP_H
#define ANALYSIS_BOOTSTRAP_H

#include <stdbool.h>
#include <stdint.h>

struct err;

enum { BOOT_RESAMPLES = 1000, BOOT_STATS_MAX = 20 };

/* A figure of each request of a run, in order of arrival, made ready. All zero is an empty one. */
struct boot_series {
	int64_t n; /* requests */
	double *values; /* [n]; NAN: this one has none */
	int64_t n_values;
	double *sorted; /* [n_values] the largest first */
	int32_t *from; /* [n_values] whose each is */
	int64_t block; /* requests a block should have */
};
/* Copies values[n]; n below 2^31. ERR_MEMORY. */
int boot_series_make(struct boot_series *s, const double *values, int64_t n, struct err *e);
void boot_series_free(struct boot_series *s);

/* One statistic of two runs. Shares: 0.1 = 10 %. */
struct boot_effect {
	double a, b; /* the statistic of each; NAN: too little to tell */
	double effect; /* b / a - 1; NAN: not defined */
	double low, high; /* 95 % interval of it; NAN: too few samples for one */
	double noise; /* by so much, or more, two runs like the first differ one time in twenty; NAN as above */
	int64_t n; /* values it rests on, of the run that has fewer */
	int64_t blocks; /* independent pieces it rests on */
	bool thin; /* a percentile of fewer values than its tail takes: metrics.h, percentile_is_thin */
};

/* stats[n_stats]: percentiles in (0, 100], or 0 for the mean. paired: request i of both is the same. out[n_stats]. */
int boot_effects(const struct boot_series *a, const struct boot_series *b, bool paired, const double *stats,
		 int32_t n_stats, uint64_t seed, struct boot_effect *out, struct err *e);

/* The same of a figure that each of n runs of either side has (seeds, repetitions): a[i] and b[i] belong together if paired.
 * The statistic is the mean. From two runs on there is an interval, Student's of the paired differences below five. noise:
 * of two single runs like a's. */
int boot_runs(const double *a, const double *b, int32_t n, bool paired, uint64_t seed, struct boot_effect *out,
	      struct err *e);

/* Student's t: so many standard errors to either side hold 95 %. df >= 1. */
double boot_student(int64_t df);

#endif
