/* sample.cu: the next token of each row of logits: argmax, or drawn as exec/sampler.c draws. A block takes a row.
 *
 * Weights e^((logit - largest) / temperature) are kept as whole numbers of 2^-44, so that sums are exact in any order: the
 * row's total, the mass of the k most likely, the nucleus and the drawn point all come out of "which candidate, most likely
 * first, makes the sum reach this?", answered 11 bits of the weight at a time by a histogram in shared memory. */
#include <float.h>

#include "kernels/cuda/launch.cuh"

enum { SAMPLE_THREADS = 512, SAMPLE_WARPS = SAMPLE_THREADS / WARP, BITS = 11, BINS = 1 << BITS, ONE_BITS = 44 };

typedef unsigned long long mass;
static_assert(sizeof(mass) == DRAW_BYTES, "what a row works in");

/* --- the largest ------------------------------------------------------------------------------------------------------ */

struct best {
	float value;
	int32_t at;
};

static __device__ inline struct best better(struct best a, struct best b)
{
	return b.value > a.value || (b.value == a.value && b.at < a.at) ? b : a;
}

/* The lowest index of the largest of x[n]; 0 when nothing is larger than -infinity. The same in every thread; the room may
 * be used again after the next barrier. */
static __device__ inline struct best block_largest(const float *x, int32_t n, struct best *room)
{
	struct best b = {-INFINITY, INT32_MAX};
	for (int32_t i = threadIdx.x; i < n; i += blockDim.x) {
		struct best mine = {x[i], i};
		b = better(b, mine);
	}
	for (int by = WARP / 2; by; by /= 2) {
		struct best other;
		other.value = __shfl_xor_sync(ALL_LANES, b.value, by);
		other.at = __shfl_xor_sync(ALL_LANES, b.at, by);
		b = better(b, other);
	}
	if (threadIdx.x % WARP == 0)
		room[threadIdx.x / WARP] = b;
	__syncthreads();
	for (int i = 0; i < SAMPLE_WARPS; i++)
		b = better(b, room[i]);
	if (!(b.value > -INFINITY))
		b.at = 0;
	return b;
}

__global__ void argmax_kernel(int32_t *tokens, const float *logits, int32_t vocab)
{
	SHARED_ARRAY(struct best, room, SAMPLE_WARPS);
	struct best b = block_largest(logits + (int64_t)blockIdx.x * vocab, vocab, room);
	if (threadIdx.x == 0)
		tokens[blockIdx.x] = b.at;
}

int cuda_argmax(cuda_stream st, int32_t *tokens, const float *logits, int32_t rows, int32_t vocab)
{
	return rows < 1 ? 0 : LAUNCH(argmax_kernel, (unsigned)rows, SAMPLE_THREADS, 0, st, tokens, logits, vocab);
}

/* --- the random number: core/rng.c's, the first of a stream ------------------------------------------------------------ */

static __device__ inline uint64_t mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15u;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return x ^ (x >> 31);
}

/* 53 random bits. */
static __device__ inline uint64_t random_bits(uint64_t seed, uint64_t stream)
{
	/* The first number of xoshiro256** needs the second word of its state only, which is the seeding's second. */
	uint64_t x = mix(seed) ^ mix(stream ^ 0x6c6f636b73746570u);
	uint64_t s1 = mix(x + 2 * 0x9e3779b97f4a7c15u) * 5;
	return ((s1 << 7) | (s1 >> 57)) * 9 >> 11;
}

/* --- which candidate -------------------------------------------------------------------------------------------------- */

struct sample_memory {
	mass bins[BINS]; /* of weights */
	uint32_t counts[BINS];
	mass room[SAMPLE_WARPS];
	struct best best_room[SAMPLE_WARPS];
	mass found[4];
	int32_t at;
};

/* A place in the order of candidates: those that weigh more than `weight`, and the first `ties` that weigh the same. */
struct place_in_order {
	mass weight, above; /* above: mass of those that weigh more */
	int64_t ties;
};

/* Goes down the bins from the last; thread t has BINS / threads of them, the last thread the first to come. Leaves in
 * found[]: the bin in which count or mass reaches what is wanted (0 when none does), and the mass and count before it. */
static __device__ inline void find_bin(struct sample_memory *m, mass before, mass count_before, mass want_mass,
				       mass want_count)
{
	enum { EACH = BINS / SAMPLE_THREADS };
	int from = BINS - 1 - (int)threadIdx.x * EACH, lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
	mass sum = 0, count = 0, sums, counts;
	for (int i = 0; i < EACH; i++) {
		sum += m->bins[from - i];
		count += m->counts[from - i];
	}
	sums = sum;
	counts = count;
	for (int by = 1; by < WARP; by *= 2) {
		mass s = __shfl_up_sync(ALL_LANES, sums, by), c = __shfl_up_sync(ALL_LANES, counts, by);
		sums += lane >= by ? s : 0;
		counts += lane >= by ? c : 0;
	}
	if (lane == WARP - 1) {
		m->room[warp] = sums;
		m->best_room[warp].at = (int32_t)counts;
	}
	if (threadIdx.x == 0)
		m->found[3] = 0;
	__syncthreads();
	for (int i = 0; i < warp; i++) {
		sums += m->room[i];
		counts += (mass)m->best_room[i].at;
	}
	sums += before;
	counts += count_before;
	/* Where the line is crossed; it is crossed once. */
	bool reached = sums >= want_mass || counts >= want_count;
	sums -= sum;
	counts -= count;
	bool reached_before = sums >= want_mass || counts >= want_count;
	if (reached && !reached_before) {
		int i = 0;
		while (sums + m->bins[from - i] < want_mass && counts + m->counts[from - i] < want_count) {
			sums += m->bins[from - i];
			counts += m->counts[from - i];
			i++;
		}
		m->found[0] = (mass)(from - i);
		m->found[1] = sums;
		m->found[2] = counts;
		m->found[3] = 1;
	}
	__syncthreads();
}

/* Most likely first: the place up to which candidates are taken until their mass reaches want_mass or their number
 * want_count, whichever is first; both at least 1. Candidates that weigh nothing are never counted. */
static __device__ inline struct place_in_order find_place(struct sample_memory *m, const mass *w, int32_t n, mass want_mass,
							  mass want_count)
{
	struct place_in_order p = {0, 0, 0};
	mass count = 0;
	for (int shift = BITS * 4; shift >= 0; shift -= BITS) {
		for (int i = threadIdx.x; i < BINS; i += SAMPLE_THREADS)
			m->bins[i] = m->counts[i] = 0;
		__syncthreads();
		for (int32_t i = threadIdx.x; i < n; i += SAMPLE_THREADS) {
			mass x = w[i];
			if (x >> shift >> BITS != p.weight || (x >> shift & (BINS - 1)) == 0)
				continue; /* the first bin is what remains: it need not be counted */
			atomicAdd(&m->bins[x >> shift & (BINS - 1)], x);
			atomicAdd(&m->counts[x >> shift & (BINS - 1)], 1u);
		}
		__syncthreads();
		find_bin(m, p.above, count, want_mass, want_count);
		if (m->found[3]) {
			p.weight = p.weight << BITS | m->found[0];
			p.above = m->found[1];
			count = m->found[2];
		} else { /* in the first bin: all the others are taken */
			mass sum = 0;
			for (int i = 1 + threadIdx.x; i < BINS; i += SAMPLE_THREADS)
				sum += m->bins[i];
			p.above += block_sum(sum, m->room);
			sum = 0;
			for (int i = 1 + threadIdx.x; i < BINS; i += SAMPLE_THREADS)
				sum += m->counts[i];
			count += block_sum(sum, m->room);
			p.weight <<= BITS;
		}
	}
	if (p.weight == 0)
		return p;
	mass by_mass = (want_mass - p.above + p.weight - 1) / p.weight, by_count = want_count - count;
	p.ties = (int64_t)(by_mass < by_count ? by_mass : by_count);
	return p;
}

/* In order of ids: where the sum of weights (equal: of 1 for each that weighs `equal`) first exceeds `passed`. */
static __device__ inline int32_t find_id(struct sample_memory *m, const mass *w, int32_t n, mass equal, mass passed)
{
	int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
	int32_t each = (n + SAMPLE_THREADS - 1) / SAMPLE_THREADS * WARP, from = warp * each;
	int32_t to = from + each < n ? from + each : n;
	mass sum = 0;
	for (int32_t i = from + lane; i < to; i += WARP)
		sum += equal ? (mass)(w[i] == equal) : w[i];
	for (int by = WARP / 2; by; by /= 2)
		sum += __shfl_xor_sync(ALL_LANES, sum, by);
	if (lane == 0)
		m->room[warp] = sum;
	if (threadIdx.x == 0)
		m->at = 0;
	__syncthreads();
	mass before = 0;
	for (int i = 0; i < warp; i++)
		before += m->room[i];
	if (before <= passed && before + sum > passed)
		for (int32_t base = from; base < to; base += WARP) {
			int32_t i = base + lane;
			mass mine = i >= to ? 0 : equal ? (mass)(w[i] == equal) : w[i], end = mine;
			for (int by = 1; by < WARP; by *= 2) {
				mass x = __shfl_up_sync(ALL_LANES, end, by);
				end += lane >= by ? x : 0;
			}
			if (before + end > passed && before + end - mine <= passed)
				m->at = i;
			before += __shfl_sync(ALL_LANES, end, WARP - 1);
		}
	__syncthreads();
	return m->at;
}

/* --- drawing ---------------------------------------------------------------------------------------------------------- */

/* Fills w[n]; returns the total, and in *candidates how many the host would take up. */
static __device__ inline mass weigh(struct sample_memory *m, mass *w, const float *logits, int32_t n, float largest,
				    double temperature, int32_t *candidates)
{
	mass sum = 0, count = 0;
	for (int32_t i = threadIdx.x; i < n; i += SAMPLE_THREADS) {
		double x = exp(((double)logits[i] - (double)largest) / temperature);
		w[i] = x > 0 ? (mass)(x * (double)(1ull << ONE_BITS) + 0.5) : 0;
		sum += w[i];
		count += x >= DBL_MIN;
	}
	*candidates = (int32_t)block_sum(count, m->room);
	return block_sum(sum, m->room);
}

static __device__ inline mass place_mass(const struct place_in_order *p)
{
	return p->above + (mass)p->ties * p->weight;
}

__global__ void sample_kernel(int32_t *tokens, const float *logits, int32_t vocab, const struct draw how)
{
	SHARED_ARRAY(struct sample_memory, m, 1);
	const float *x = logits + (int64_t)blockIdx.x * vocab;
	mass *w = (mass *)how.room + (int64_t)blockIdx.x * vocab;
	struct best b = block_largest(x, vocab, m->best_room);
	int32_t token = b.at;
	if (isfinite(b.value)) {
		int32_t candidates;
		mass total = weigh(m, w, x, vocab, b.value, how.temperature, &candidates), all = ~0ull >> 1;
		bool cut = how.top_k > 0 && how.top_k < candidates;
		if (cut) {
			struct place_in_order p = find_place(m, w, vocab, all, (mass)how.top_k);
			total = p.weight ? place_mass(&p) : total;
		}
		if (how.top_p < 1) {
			struct place_in_order p = find_place(m, w, vocab, (mass)ceil(how.top_p * (double)total), all);
			total = p.weight ? place_mass(&p) : total;
			cut = true;
		}
		uint64_t bits = random_bits(how.seed, mix(how.stream[blockIdx.x]) + (uint64_t)how.nth[blockIdx.x]);
		mass at = __umul64hi(bits << 11, total);
		if (cut) { /* the host goes from the least likely upwards */
			struct place_in_order p = find_place(m, w, vocab, total - at, all);
			if (p.weight)
				token = find_id(m, w, vocab, p.weight, (mass)p.ties - 1);
		} else {
			token = find_id(m, w, vocab, 0, at);
		}
	}
	if (threadIdx.x == 0)
		tokens[blockIdx.x] = token;
}

int cuda_draw(cuda_stream st, int32_t *tokens, const float *logits, int32_t rows, int32_t vocab, const struct draw *how)
{
	return rows < 1 ? 0 : LAUNCH(sample_kernel, (unsigned)rows, SAMPLE_THREADS, 0, st, tokens, logits, vocab, *how);
}
