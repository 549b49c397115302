/* How fast a prefix cache answers when it is full: bench_prefix BLOCKS [hash|radix]
 *
 * Prefixes of 512 pages fill all blocks; then whole prefixes are looked up in random order, and new ones evict old ones.
 * Prints "key value" lines: best of five rounds. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/content.h"
#include "core/err.h"
#include "core/kv_radix.h"
#include "core/kv_pool.h"
#include "core/rng.h"

enum { PAGES = 512, PAGE = 16, LOOKUPS = 2000 };

static struct kv_pool pool;
static struct workload work;
static uint64_t keys[PAGES];
static int32_t ids[PAGES];

static double now_s(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void make_keys(int32_t req)
{
	struct content_walk walk;
	content_begin(&walk, &work, req, PAGE);
	for (int32_t i = 0; i < PAGES; i++)
		keys[i] = content_next(&walk);
}

/* A request comes, computes its pages and goes. */
static void serve(int32_t req)
{
	make_keys(req);
	kv_alloc(&pool, PAGES, ids);
	if (pool.radix)
		kv_radix_insert(&pool, ids, keys, 0, PAGES);
	else
		kv_remember_all(&pool, ids, keys, PAGES);
	kv_release(&pool, ids, PAGES);
}

static double look_up(struct rng *r, int32_t requests, int64_t *found)
{
	double began = now_s();
	for (int32_t k = 0; k < LOOKUPS; k++) {
		make_keys((int32_t)rng_below(r, (uint64_t)requests));
		for (int32_t i = 0; i < PAGES; i++)
			*found += kv_lookup(&pool, keys[i]) != KV_NO_BLOCK;
	}
	return (now_s() - began) * 1e9 / LOOKUPS / PAGES;
}

static double replace(int32_t first)
{
	double began = now_s();
	for (int32_t k = 0; k < LOOKUPS; k++)
		serve(first + k);
	return (now_s() - began) * 1e9 / LOOKUPS / PAGES;
}

static double bytes_per_block(void)
{
	double n = pool.num_blocks, bytes = n * (4 + 8 + 4) + 4 * (double)(pool.chain_mask + 1);
	if (pool.radix)
		return (bytes + n * 6 * 4) / n;
	return (bytes + n * 4 + 4 * (double)(pool.ring_mask + 1)) / n;
}

int main(int argc, char **argv)
{
	int32_t blocks = argc > 1 ? atoi(argv[1]) / PAGES * PAGES : 0, requests = blocks / PAGES;
	bool radix = argc > 2 && strcmp(argv[2], "radix") == 0;
	struct err e = {0};
	struct rng r;
	double lookup = 1e9, turnover = 1e9;
	int64_t found = 0;
	if (blocks < PAGES) {
		fputs("usage: bench_prefix BLOCKS [hash|radix], 512 blocks at least\n", stderr);
		return 2;
	}
	workload_init(&work);
	for (int32_t i = 0; i < requests + 5 * LOOKUPS; i++) {
		struct spec s = {.prompt_tokens = PAGES * PAGE, .name_at = -1, .session = -1};
		if (workload_add(&work, &s, &e))
			return 1;
	}
	if (kv_pool_init(&pool, blocks, PAGE, radix ? PREFIX_RADIX : PREFIX_HASH, &e))
		return 1;
	for (int32_t i = 0; i < requests; i++)
		serve(i);
	rng_init(&r, 1, 0);
	for (int k = 0; k < 5; k++) {
		double ns = look_up(&r, requests, &found);
		lookup = ns < lookup ? ns : lookup;
	}
	if (found != INT64_C(5) * LOOKUPS * PAGES) {
		fputs("bench_prefix: a cached page was not found\n", stderr);
		return 1;
	}
	for (int k = 0; k < 5; k++) {
		double ns = replace(requests + k * LOOKUPS);
		turnover = ns < turnover ? ns : turnover;
	}
	printf("lookup_ns %.1f\nturnover_ns %.1f\nbytes_per_block %.1f\n", lookup, turnover, bytes_per_block());
	kv_pool_free(&pool);
	workload_free(&work);
	return 0;
}
