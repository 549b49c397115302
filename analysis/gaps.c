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
#define SELECT_BITS 13
#define SELECT (1 << SELECT_BITS)

void gaps_init(struct gaps *g)
{
	*g = (struct gaps){.limit = GAPS_EXACT_PAIRS, .min_ns = INT64_MAX, .max_ns = INT64_MIN};
}

void gaps_free(struct gaps *g)
{
	mem_free(g->pairs);
	mem_free(g->coarse);
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

void gaps_add_run(struct gaps *g, int64_t start_ns, const int64_t *end_ns, int64_t steps, int64_t count)
{
	int64_t i = 0;
	if (g->n + steps <= g->cap && g->n > g->merged) {
		/* There is room for all of them, and a pair before them to compare with. */
		struct gap_pair *last = &g->pairs[g->n - 1];
		for (; i < steps; i++) {
			int64_t gap_ns = end_ns[i] - start_ns;
			start_ns = end_ns[i];
			if (gap_ns == last->gap_ns)
				last->count += count;
			else
				*++last = (struct gap_pair){gap_ns, count};
		}
		g->n = last + 1 - g->pairs;
	}
	for (; i < steps; i++) {
		gaps_add(g, end_ns[i] - start_ns, count);
		start_ns = end_ns[i];
	}
}

/* Bits of the largest distance from min_ns. */
static int range_bits(const struct gaps *g)
{
	return 64 - __builtin_clzll((unsigned long long)(g->max_ns - g->min_ns) | 1);
}

/* Counts the pairs within 2^bits of low in SELECT buckets of equal width. */
static void count_range(const struct gaps *g, int64_t low, int bits, int64_t *counts)
{
	int shift = bits > SELECT_BITS ? bits - SELECT_BITS : 0;
	uint64_t width = UINT64_C(1) << bits;
	memset(counts, 0, SELECT * sizeof *counts);
	for (int64_t i = 0; i < g->n; i++) {
		uint64_t off = (uint64_t)(g->pairs[i].gap_ns - low);
		if (off < width)
			counts[off >> shift] += g->pairs[i].count;
	}
}

int gaps_finish(struct gaps *g, struct err *e)
{
	if (!g->out_of_memory && g->buckets)
		g->out_of_memory = fold(g) != 0;
	else if (!g->out_of_memory && !g->coarse)
		g->out_of_memory = !(g->coarse = mem_alloc(SELECT * sizeof *g->coarse));
	if (g->out_of_memory)
		return err_no_memory(e, "inter-token gaps");
	account(g); /* what folding has not accounted for */
	g->merged = g->n;
	if (!g->buckets && g->n)
		count_range(g, g->min_ns, range_bits(g), g->coarse);
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

/* The pairs' value of rank `rank`, and how many values up to it there are (*below_or_equal). The range that holds it
 * is narrowed by a histogram, of the whole range first, then of one of its buckets, until one value is left. No
 * sorting: that would cost as much as the whole run's steps. */
static int64_t pairs_at_rank(const struct gaps *g, int64_t rank, int64_t *below_or_equal)
{
	int64_t low = g->min_ns, below = 0, fine[SELECT];
	const int64_t *counts = g->coarse;
	*below_or_equal = g->count;
	for (int bits = range_bits(g); bits > 0; counts = fine) {
		int shift = bits > SELECT_BITS ? bits - SELECT_BITS : 0;
		if (counts == fine)
			count_range(g, low, bits, fine);
		int64_t k = 0;
		while (below + counts[k] <= rank)
			below += counts[k++];
		low += k << shift;
		bits = shift;
		*below_or_equal = below + counts[k];
	}
	return low;
}

static int64_t next_larger(const struct gaps *g, int64_t v)
{
	int64_t next = g->max_ns;
	for (int64_t i = 0; i < g->n; i++)
		if (g->pairs[i].gap_ns > v && g->pairs[i].gap_ns < next)
			next = g->pairs[i].gap_ns;
	return next;
}

static int64_t bucket_at_rank(const struct gaps *g, int64_t rank, int64_t *below_or_equal)
{
	int64_t b = bucket_of(g->min_ns);
	*below_or_equal = g->buckets[b];
	while (*below_or_equal <= rank)
		*below_or_equal += g->buckets[++b];
	return b;
}

static double bucket_value(const struct gaps *g, int64_t b)
{
	double v = bucket_middle(b), min = (double)g->min_ns, max = (double)g->max_ns;
	return v < min ? min : v > max ? max : v;
}

/* The values of ranks `rank` and `rank` + 1 (which must exist). */
static void two_ranks(const struct gaps *g, int64_t rank, double *a, double *b)
{
	int64_t up_to;
	if (g->buckets) {
		int64_t bucket = bucket_at_rank(g, rank, &up_to);
		*a = *b = bucket_value(g, bucket);
		if (up_to <= rank + 1)
			*b = bucket_value(g, bucket_at_rank(g, rank + 1, &up_to));
	} else {
		int64_t v = pairs_at_rank(g, rank, &up_to);
		*a = (double)v;
		*b = up_to <= rank + 1 ? (double)next_larger(g, v) : *a;
	}
}

double gaps_percentile_ns(const struct gaps *g, double p)
{
	if (!g->count)
		return NAN;
	double at = p / 100 * (double)(g->count - 1);
	int64_t low = (int64_t)at;
	if (low >= g->count - 1)
		return (double)g->max_ns;
	double a, b, t = at - (double)low;
	two_ranks(g, low, &a, &b);
	/* numpy's two forms, so that the last bit agrees with it. */
	return t >= 0.5 ? b - (b - a) * (1 - t) : a + (b - a) * t;
}
