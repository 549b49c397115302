/* How fast a prefix cache answers when it is full: bench_prefix BLOCKS [hash|radix] [RULE]
 *
 * Prefixes of 512 pages fill all blocks; then whole prefixes are looked up in random order, and new ones evict old ones.
 * Prints "key value" lines: best of five rounds. */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/content.h"
#include "core/err.h"
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
	content_fill(&walk, keys, PAGES);
}

/* A request comes, computes its pages and goes. */
static void serve(int32_t req)
{
	make_keys(req);
	kv_alloc(&pool, PAGES, ids);
	pool.cache->insert(&pool, ids, keys, 0, PAGES);
	kv_release(&pool, ids, PAGES);
}

static double look_up(struct rng *r, int32_t requests, int64_t *found)
{
	double began = now_s();
	for (int32_t k = 0; k < LOOKUPS; k++) {
		make_keys((int32_t)rng_below(r, (uint64_t)requests));
		*found += kv_lookup_run(&pool, keys, PAGES, ids);
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

/* As the C library counts them. */
static double bytes_in_use(void)
{
	struct mallinfo2 m = mallinfo2();
	return (double)m.uordblks + (double)m.hblkhd;
}

static int choice(const char *const *names, const char *word)
{
	for (int i = 0; names[i]; i++)
		if (strcmp(names[i], word) == 0)
			return i;
	return -1;
}

int main(int argc, char **argv)
{
	int32_t blocks = argc > 1 ? atoi(argv[1]) / PAGES * PAGES : 0, requests = blocks / PAGES;
	int cache = argc > 2 ? choice(prefix_cache_names, argv[2]) : PREFIX_HASH;
	int rule = argc > 3 ? choice(prefix_eviction_names, argv[3]) : PREFIX_EVICT_DEFAULT;
	struct err e = {0};
	struct rng r;
	double lookup = 1e9, turnover = 1e9;
	int64_t found = 0;
	if (blocks < PAGES || cache < 1 || rule < 0) {
		fputs("usage: bench_prefix BLOCKS [hash|radix] [lru|lfu|fifo|leaf-lru|cost-aware], 512 blocks at "
		      "least\n",
		      stderr);
		return 2;
	}
	workload_init(&work);
	for (int32_t i = 0; i < requests + 5 * LOOKUPS; i++) {
		struct spec s = {.prompt_tokens = PAGES * PAGE, .name_at = -1, .session = -1};
		if (workload_add(&work, &s, &e))
			return 1;
	}
	double before = bytes_in_use();
	if (kv_pool_init(&pool, blocks, PAGE, (enum prefix_cache)cache, (enum prefix_eviction)rule, &e)) {
		fprintf(stderr, "bench_prefix: %s\n", e.text);
		return 1;
	}
	double bytes = (bytes_in_use() - before) / blocks;
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
	printf("lookup_ns %.1f\nturnover_ns %.1f\nbytes_per_block %.1f\n", lookup, turnover, bytes);
	kv_pool_free(&pool);
	workload_free(&work);
	return 0;
}
