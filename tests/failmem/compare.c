/* Every allocation of a comparison and of a search for objectives fails once: intervals, effects, their JSON, the search's
 * runs, what is stored of it. */
#include <stdio.h>
#include <string.h>

#include "analysis/effects.h"
#include "analysis/jout.h"
#include "analysis/run.h"
#include "analysis/slo_rows.h"
#include "analysis/store.h"
#include "analysis/store_slo.h"
#include "core/err.h"
#include "core/mem.h"
#include "tests/support/failing_mem.h"
#include "tests/support/suite.h"

enum { REQUESTS = 60, RUNS = 6 };

static int make_run(struct effects_run *r, uint64_t hash, int64_t ms, struct err *e)
{
	struct request q[REQUESTS];
	static struct metrics m;
	static struct engine_stats stats;
	memset(q, 0, sizeof q);
	for (int64_t i = 0; i < REQUESTS; i++) {
		q[i].state = REQUEST_FINISHED;
		q[i].outputs = 3;
		q[i].first_token_ns = (ms + i % 5) * NS_PER_MS;
		q[i].last_token_ns = q[i].first_token_ns + ms * NS_PER_MS;
	}
	*r = (struct effects_run){.workload_hash = hash};
	percentiles_default(&m.percentiles);
	m.request_throughput = (double)ms;
	int rc = effects_run_requests(r, q, REQUESTS, e);
	return rc ? rc : effects_run_metrics(r, &m, &stats, e);
}

/* Sides of so many runs. */
static int compare(void *ctx, char text[1024])
{
	const int32_t n = *(const int32_t *)ctx;
	struct effects_run a[RUNS], b[RUNS];
	struct effects x = {0};
	struct percentiles p;
	struct err e = {0};
	int rc = ERR_NONE;
	memset(a, 0, sizeof a);
	memset(b, 0, sizeof b);
	percentiles_default(&p);
	for (int32_t i = 0; rc == ERR_NONE && i < n; i++) {
		rc = make_run(&a[i], (uint64_t)i + 1, 10 + i, &e);
		if (rc == ERR_NONE)
			rc = make_run(&b[i], (uint64_t)i + 1, 20 + i, &e);
	}
	const struct effects_side sa = {"a", a, n}, sb = {"b", b, n};
	if (rc == ERR_NONE)
		rc = effects_between(&x, &sa, &sb, &p, n == 1, &e);
	if (rc == ERR_NONE) {
		struct jout j;
		char *json = NULL;
		jout_open(&j, NULL);
		effects_json(&x, &j);
		rc = jout_close(&j, &json, &e);
		mem_free(json);
	}
	effects_free(&x);
	for (int32_t i = 0; i < n; i++) {
		effects_run_free(&a[i]);
		effects_run_free(&b[i]);
	}
	snprintf(text, 1024, "%s", e.text);
	return rc;
}

static void comparisons_survive(void)
{
	const int32_t one = 1, several = RUNS;
	CU_ASSERT(failing_mem_each(compare, (void *)&one, 0) > 20);
	CU_ASSERT(failing_mem_each(compare, (void *)&several, 0) > 20);
}

static struct workload work;

static int search(void *ctx, char text[1024])
{
	struct store *store = ctx; /* making one takes longest: store.c does */
	struct err e = {0};
	struct run_settings s;
	struct slo_row row = {.settings = &s, .output_tokens = 2, .max_replicas = 8};
	const struct slo_options o = {.find = SLO_FIND_REPLICAS,
				      .rate = 150,
				      .max_replicas = 8,
				      .attainment = 0.9,
				      .precision = 0.1,
				      .max_points = 4};
	int64_t id;
	run_settings_default(&s);
	s.policy = s.label = "chunked";
	s.cost = "constant:10ms";
	s.num_gpu_blocks_override = 100;
	s.engine.max_num_seqs = 1;
	s.record = RECORD_NONE;
	s.slo.ttft_ns = 30 * NS_PER_MS;
	int rc = slo_search(&s, &work, &o, NULL, &row.result, &e);
	const struct store_slo x = {.options = &o, .rows = &row, .n = 1, .requests = work.n, .own_rate = 1};
	slo_fronts(&row, 1);
	if (rc == ERR_NONE)
		rc = store_slo(store, &x, 0, &id, &e);
	/* Whatever happened, arrivals are what they were. */
	CHECK_INT(work.specs[5].arrival_ns, 5 * NS_PER_S);
	snprintf(text, 1024, "%s", e.text);
	return rc;
}

static void searches_survive(void)
{
	struct err e = {0};
	workload_init(&work);
	for (int i = 0; i < 30; i++) {
		struct spec s = {.arrival_ns = i * NS_PER_S,
				 .name_at = -1,
				 .session = -1,
				 .row = i + 1,
				 .prompt_tokens = 1,
				 .output_tokens = 1};
		CHECK_INT(workload_add(&work, &s, &e), ERR_NONE);
	}
	workload_set_max_tokens(&work, MAX_TOKENS_MAX, 64);
	struct store *store = NULL;
	CHECK_INT(store_open(&store, temp_path("search.db"), false, &e), ERR_NONE);
	CU_ASSERT_PTR_NOT_NULL_FATAL(store);
	CU_ASSERT(failing_mem_each(search, store, 0) > 20);
	store_close(store);
	workload_free(&work);
}

int main(void)
{
	static const struct test tests[] = {
		{"comparisons_survive", comparisons_survive},
		{"searches_survive", searches_survive},
	};
	return SUITE_RUN("failmem_compare", tests);
}
