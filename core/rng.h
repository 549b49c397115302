/* rng.h: our own random numbers (xoshiro256**, seeded by splitmix64; Blackman and Vigna, 2018), the same on every
 * machine. No libm: the distributions that need logarithms live in traces/dist.h. */
#ifndef CORE_RNG_H
#define CORE_RNG_H

#include <stdint.h>

struct rng {
	uint64_t s[4];
};

/* Different streams of one seed are independent: give each use its own stream number. */
void rng_init(struct rng *r, uint64_t seed, uint64_t stream);
uint64_t rng_next(struct rng *r);
uint64_t rng_below(struct rng *r, uint64_t n); /* uniform in [0, n), unbiased; n > 0 */
double rng_unit(struct rng *r); /* uniform in [0, 1), 53 bits */

/* One round of a strong 64-bit mixer; used for content hashes as well. */
uint64_t rng_mix(uint64_t x);

#endif
