/* gaps.h: inter-token gaps of a run, gathered once per step and asked for percentiles at the end.
 *
 * Gaps come as (gap, count) pairs: one pair a step for the whole decoding cohort. They are kept as they are while they
 * fit (GAPS_EXACT_PAIRS different pairs after merging); a longer run is folded into a log-linear histogram, whose
 * percentiles then lie within GAPS_PRECISION of the true ones. Count, sum, spread, smallest and largest stay exact. */
#ifndef ANALYSIS_GAPS_H
#define ANALYSIS_GAPS_H

#include <stdbool.h>
#include <stdint.h>

struct err;

#define GAPS_EXACT_PAIRS (1 << 20) /* 16 MB; at most half of them merged ones */
#define GAPS_SUB_BITS 12 /* sub-buckets per power of two: 4096 */
#define GAPS_PRECISION (1.0 / (1 << GAPS_SUB_BITS)) /* largest relative error of a folded percentile: 0.025 % */

struct gap_pair {
	int64_t gap_ns;
	int64_t count;
};

struct gaps {
	struct gap_pair *pairs; /* [cap]; [0, merged) accounted for below, [merged, n) not yet */
	int64_t n, cap, merged;
	int64_t limit; /* pairs kept at most; GAPS_EXACT_PAIRS unless a test sets it */
	int64_t *coarse; /* exact ones: a first histogram from min_ns to max_ns, made by gaps_finish */
	int64_t *buckets; /* counts per bucket, once folded; NULL before */
	int64_t count; /* of all gaps; complete after gaps_finish, as are the next */
	unsigned __int128 sum_ns, sum_sq; /* exact */
	int64_t min_ns, max_ns;
	bool out_of_memory; /* a pair was lost: every figure is void */
};

void gaps_init(struct gaps *g);
void gaps_free(struct gaps *g);

/* recorder.gap has this shape; ctx is the struct gaps. A few nanoseconds. */
void gaps_add(void *ctx, int64_t gap_ns, int64_t count);
/* `count` gaps for each of a run of steps: end_ns[0] - start_ns, end_ns[1] - end_ns[0], ... */
void gaps_add_run(struct gaps *g, int64_t start_ns, const int64_t *end_ns, int64_t steps, int64_t count);

/* Call once after the run, before the functions below. ERR_MEMORY when a pair had to be dropped. */
int gaps_finish(struct gaps *g, struct err *e);

bool gaps_exact(const struct gaps *g);
double gaps_mean_ns(const struct gaps *g); /* NAN when there are none, as in the next two */
double gaps_std_ns(const struct gaps *g); /* population */
/* Linear interpolation between order statistics (numpy's default) of the weighted values; p in [0, 100]. */
double gaps_percentile_ns(const struct gaps *g, double p);

#endif
