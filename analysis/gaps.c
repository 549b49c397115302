#include "analysis/gaps.h"

#include <math.h>
#include <string.h>

#include "core/err.h"
#include "core/mem.h"

#define SUB (INT64_C(1) << GAPS_SUB_BITS)
#define N_BUCKETS ((64 - GAPS_SUB_BITS + 1) << GAPS_SUB_BITS)
#define FIRST_CAP 4096
#define DIGIT_BITS 11
#define DIGITS (1 << DIGIT_BITS)

void gaps_init(struct gaps *g)
{
	*g = (struct gaps){.limit = GAPS_EXACT_PAIRS, .min_ns = INT64_MAX, .max_ns = INT64_MIN};
}

void gaps_free(struct gaps *g)
{
	mem_free(g->pairs);
	mem_free(g->buckets);
	gaps_init(g);
}

/* --- buckets: values below SUB one each, then SUB per power of two ------------------------------------------------ */

static int64_t bucket_of(int64_t v)
{
	if (v < SUB)
		return v < 0 ? 0 : v;
	int shift = 63 - __builtin_clzll((unsigned long long)v) - GAPS_SUB_BITS;
	return ((int64_t)(shift + 1) << GAPS_SUB_BITS) + (v >> shift) - SUB;
}

static double bucket_middle(int64_t b)
{
	if (b < SUB)
		return (double)b;
	int shift = (int)(b >> GAPS_SUB_BITS) - 1;
	double low = (double)((SUB + (b & (SUB - 1))) << shift);
	return low + ((double)(INT64_C(1) << shift) - 1) / 2;
}

/* --- merging ------------------------------------------------------------------------------------------------------ */

/* Exact figures of the pairs that came since the last call. */
static void account(struct gaps *g)
{
	for (int64_t i = g->merged; i < g->n; i++) {
		struct gap_pair p = g->pairs[i];
		unsigned __int128 weighted = (unsigned __int128)p.gap_ns * (uint64_t)p.count;
		g->count += p.count;
		g->sum_ns += weighted;
		g->sum_sq += weighted * (uint64_t)p.gap_ns;
		if (p.gap_ns < g->min_ns)
			g->min_ns = p.gap_ns;
		if (p.gap_ns > g->max_ns)
			g->max_ns = p.gap_ns;
	}
}

/* One pass of a stable radix sort by the digit at `shift`; false when all pairs share that digit. */
static bool radix_pass(const struct gap_pair *from, struct gap_pair *to, int64_t n, int shift)
{
	int64_t at[DIGITS] = {0};
	for (int64_t i = 0; i < n; i++)
		at[(from[i].gap_ns >> shift) & (DIGITS - 1)]++;
	if (at[(from[0].gap_ns >> shift) & (DIGITS - 1)] == n)
		return false;
	int64_t sum = 0;
	for (int d = 0; d < DIGITS; d++) {
		int64_t c = at[d];
		at[d] = sum;
		sum += c;
	}
	for (int64_t i = 0; i < n; i++)
		to[at[(from[i].gap_ns >> shift) & (DIGITS - 1)]++] = from[i];
	return true;
}

static void sort_pairs(struct gap_pair *pairs, struct gap_pair *scratch, int64_t n, int64_t max_ns)
{
	struct gap_pair *from = pairs, *to = scratch;
	for (int shift = 0; shift < 63 && max_ns >> shift; shift += DIGIT_BITS) {
		if (!radix_pass(from, to, n, shift))
			continue;
		struct gap_pair *swap = from;
		from = to;
		to = swap;
	}
	if (from != pairs)
		memcpy(pairs, from, (size_t)n * sizeof *pairs);
}

/* Makes all pairs sorted and distinct. Steps of equal length repeat, so this often shrinks them. */
static int merge(struct gaps *g)
{
	if (g->n == g->merged)
		return 0;
	struct gap_pair *scratch = mem_alloc((size_t)g->n * sizeof *scratch);
	if (!scratch)
		return -1;
	account(g);
	sort_pairs(g->pairs, scratch, g->n, g->max_ns);
	mem_free(scratch);
	int64_t kept = 0;
	for (int64_t i = 1; i < g->n; i++) {
		if (g->pairs[i].gap_ns == g->pairs[kept].gap_ns)
			g->pairs[kept].count += g->pairs[i].count;
		else
			g->pairs[++kept] = g->pairs[i];
	}
	g->n = g->merged = kept + 1;
	return 0;
}

static int fold(struct gaps *g)
{
	if (!g->buckets) {
		g->buckets = mem_zalloc(N_BUCKETS, sizeof *g->buckets);
		if (!g->buckets)
			return -1;
	}
	account(g); /* merged ones were accounted for already */
	for (int64_t i = 0; i < g->n; i++)
		g->buckets[bucket_of(g->pairs[i].gap_ns)] += g->pairs[i].count;
	g->n = g->merged = 0;
	return 0;
}

/* Makes room for more pairs: a larger array, then merging, then the histogram. */
static int make_room(struct gaps *g)
{
	if (g->cap < g->limit) {
		int64_t want = g->cap ? 2 * g->cap : FIRST_CAP;
		if (want > g->limit)
			want = g->limit;
		struct gap_pair *larger = mem_realloc(g->pairs, (size_t)want * sizeof *larger);
		if (!larger)
			return -1;
		g->pairs = larger;
		g->cap = want;
		return 0;
	}
	if (!g->buckets) {
		if (merge(g))
			return -1;
		if (g->n <= g->limit / 2)
			return 0;
	}
	return fold(g);
}

void gaps_add(void *ctx, int64_t gap_ns, int64_t count)
{
	struct gaps *g = ctx;
	/* Steps of one length in a row are one pair. */
	if (g->n > g->merged && g->pairs[g->n - 1].gap_ns == gap_ns) {
		g->pairs[g->n - 1].count += count;
		return;
	}
	if (g->n == g->cap && make_room(g)) {
		g->out_of_memory = true;
		return;
	}
	g->pairs[g->n++] = (struct gap_pair){gap_ns, count};
}

int gaps_finish(struct gaps *g, struct err *e)
{
	if (g->out_of_memory || (g->buckets ? fold(g) : merge(g)))
		return err_no_memory(e, "inter-token gaps");
	return ERR_NONE;
}

/* --- figures ------------------------------------------------------------------------------------------------------ */

bool gaps_exact(const struct gaps *g)
{
	return !g->buckets;
}

double gaps_mean_ns(const struct gaps *g)
{
	return g->count ? (double)g->sum_ns / (double)g->count : NAN;
}

/* Around a whole number near the mean, so that the squares are exact and nothing cancels. */
double gaps_std_ns(const struct gaps *g)
{
	if (!g->count)
		return NAN;
	__int128 n = g->count, sum = (__int128)g->sum_ns;
	__int128 m = sum / n;
	__int128 squares = (__int128)g->sum_sq - 2 * m * sum + n * m * m;
	double off = (double)(sum - n * m) / (double)n;
	double var = (double)squares / (double)n - off * off;
	return var > 0 ? sqrt(var) : 0;
}

/* The value of rank `rank` (from 0) in sorted order. */
static double at_rank(const struct gaps *g, int64_t rank)
{
	int64_t seen = 0;
	if (g->buckets) {
		int64_t b = bucket_of(g->min_ns);
		while ((seen += g->buckets[b]) <= rank)
			b++;
		double v = bucket_middle(b);
		return v < (double)g->min_ns ? (double)g->min_ns : v > (double)g->max_ns ? (double)g->max_ns : v;
	}
	int64_t i = 0;
	while ((seen += g->pairs[i].count) <= rank)
		i++;
	return (double)g->pairs[i].gap_ns;
}

double gaps_percentile_ns(const struct gaps *g, double p)
{
	if (!g->count)
		return NAN;
	double at = p / 100 * (double)(g->count - 1);
	int64_t low = (int64_t)at;
	if (low >= g->count - 1)
		return at_rank(g, g->count - 1);
	double a = at_rank(g, low), b = at_rank(g, low + 1), t = at - (double)low;
	/* numpy's two forms, so that the last bit agrees with it. */
	return t >= 0.5 ? b - (b - a) * (1 - t) : a + (b - a) * t;
}
