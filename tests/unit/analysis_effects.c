/* What is said of two configurations: who is paired with whom, in which words, with what warnings. */
#include <math.h>

#include "analysis/effects.h"
#include "analysis/jout.h"
#include "core/mem.h"
#include "tests/unit/analysis_fixture.h"

/* n finished requests: TTFT of `ms`, and a token every tenth of it; every tenth one as long again. */
static struct request *requests_of(int64_t n, double ms)
{
	struct request *q = mem_zalloc((size_t)n, sizeof *q);
	if (!q)
		abort();
	for (int64_t i = 0; i < n; i++) {
		double own = ms * (double)(10 + i % 7) / 10 * (i % 10 ? 1 : 2);
		q[i] = (struct request){.arrival_ns = i * S, .state = REQUEST_FINISHED, .outputs = 11};
		q[i].first_sched_ns = q[i].arrival_ns;
		q[i].first_token_ns = q[i].arrival_ns + (int64_t)(own * 1e6);
		q[i].last_token_ns = q[i].first_token_ns + (int64_t)(own * 1e6);
	}
	return q;
}

static void fill(struct effects_run *r, int64_t n, double ms, uint64_t hash)
{
	struct err e = {0};
	struct request *q = requests_of(n, ms);
	*r = (struct effects_run){.workload_hash = hash};
	CHECK_INT(effects_run_requests(r, q, n, &e), ERR_NONE);
	mem_free(q);
}

static void must_compare(struct effects *x, struct effects_run *a, int32_t n_a, struct effects_run *b, int32_t n_b)
{
	struct percentiles p;
	struct err e = {0};
	const struct effects_side sa = {"old", a, n_a}, sb = {"new", b, n_b};
	percentiles_default(&p);
	CU_ASSERT_EQUAL_FATAL(effects_between(x, &sa, &sb, &p, false, &e), ERR_NONE);
}

static const struct effect *find(const struct effects *x, const char *key)
{
	for (int32_t i = 0; i < x->n; i++)
		if (strcmp(x->list[i].key, key) == 0)
			return &x->list[i];
	CU_FAIL_FATAL("no such effect");
	return NULL;
}

static char *printed(const struct effects *x)
{
	static char text[8192];
	FILE *f = fmemopen(text, sizeof text, "w");
	CU_ASSERT_PTR_NOT_NULL_FATAL(f);
	effects_print(x, f);
	fclose(f);
	return text;
}

static bool warns(const struct effects *x, const char *part)
{
	for (int32_t i = 0; i < x->n_warnings; i++)
		if (strstr(x->warnings[i], part))
			return true;
	return false;
}

/* Two thirds of the time for each request: the interval of the pairs is as narrow as can be. */
static void requests_of_one_workload_are_paired(void)
{
	struct effects_run a, b;
	struct effects x;
	fill(&a, 1000, 100, 7);
	fill(&b, 1000, 66, 7);
	must_compare(&x, &a, 1, &b, 1);
	CU_ASSERT(x.paired && x.by_request);
	CHECK_INT(x.requests, 1000);
	CHECK_INT(x.n, 6); /* mean and p99 of three */
	const struct effect *ttft = find(&x, "mean_ttft_ms");
	CHECK_NEAR(ttft->x.effect, -0.34, 1e-6);
	CHECK_NEAR(ttft->x.low, -0.34, 1e-6);
	CHECK_NEAR(ttft->x.high, -0.34, 1e-6);
	CU_ASSERT(ttft->x.noise > 0);
	CHECK_INT(effect_verdict(&ttft->x), EFFECT_LOWERS);
	CU_ASSERT_PTR_NOT_NULL(strstr(printed(&x), "  lowers p99 TTFT by 34 % [34, 34]"));
	CHECK_INT(x.n_warnings, 0);
	effects_free(&x);
	/* The other way round; and against itself. */
	must_compare(&x, &b, 1, &a, 1);
	CU_ASSERT_PTR_NOT_NULL(strstr(printed(&x), "  raises mean TPOT by 52 % [52, 52]"));
	effects_free(&x);
	must_compare(&x, &a, 1, &a, 1);
	CHECK_INT(effect_verdict(&find(&x, "p99_e2el_ms")->x), EFFECT_SAME);
	CU_ASSERT_PTR_NOT_NULL(strstr(printed(&x), "  leaves as they are: mean TTFT, p99 TTFT, mean TPOT"));
	effects_free(&x);
	effects_run_free(&a);
	effects_run_free(&b);
}

static void what_was_not_the_same_workload_is_not_paired(void)
{
	struct effects_run a, b;
	struct effects x;
	fill(&a, 1000, 100, 7);
	fill(&b, 1000, 100.1, 8);
	must_compare(&x, &a, 1, &b, 1);
	CU_ASSERT(!x.paired && x.by_request);
	CHECK_INT(effect_verdict(&find(&x, "mean_ttft_ms")->x), EFFECT_NONE);
	CU_ASSERT_PTR_NOT_NULL(strstr(printed(&x), "no difference beyond noise in mean TTFT: 0.1 % ["));
	CU_ASSERT(warns(&x, "their workloads differ"));
	effects_free(&x);
	effects_run_free(&b);
	fill(&b, 60, 400, 7);
	b.workload_hash = 9;
	b.prefix_cache = true;
	must_compare(&x, &a, 1, &b, 1);
	CU_ASSERT(warns(&x, "percentiles of too few requests"));
	CU_ASSERT(warns(&x, "one has a prefix cache"));
	CU_ASSERT_PTR_NOT_NULL(strstr(printed(&x), "raises mean TTFT to "));
	effects_free(&x);
	effects_run_free(&a);
	effects_run_free(&b);
}

/* A run that has figures alone. */
static void figures(struct effects_run *r, uint64_t hash, double throughput)
{
	*r = (struct effects_run){.workload_hash = hash, .n = 1, .list = mem_zalloc(1, sizeof *r->list)};
	if (!r->list)
		abort();
	r->list[0] = (struct metric_value){.key = "request_throughput",
					   .label = "request throughput",
					   .unit = "req/s",
					   .better = METRIC_HIGHER,
					   .value = throughput,
					   .headline = true};
}

static void seeds_are_paired_by_what_they_served(void)
{
	enum { N = 6 };
	struct effects_run a[N], b[N];
	struct effects x;
	for (int i = 0; i < N; i++) {
		figures(&a[i], 100 + (uint64_t)i, 10 + i);
		/* Listed in another order: paired they differ by a tenth, each time. */
		int k = (i * 5 + 2) % N;
		figures(&b[i], 100 + (uint64_t)k, 1.1 * (10 + k));
	}
	must_compare(&x, a, N, b, N);
	CU_ASSERT(x.paired && !x.by_request);
	CHECK_INT(x.runs, N);
	const struct effect *f = find(&x, "request_throughput");
	CHECK_NEAR(f->x.effect, 0.1, 1e-12);
	CHECK_NEAR(f->x.low, 0.1, 1e-9);
	CHECK_NEAR(f->x.high, 0.1, 1e-9);
	CU_ASSERT(f->x.noise > 0.2);
	CU_ASSERT_PTR_NOT_NULL(strstr(printed(&x), "raises request throughput by 10 % [10, 10]"));
	CU_ASSERT_PTR_NOT_NULL(strstr(printed(&x), "! paired, it is sure"));
	CHECK_INT(x.n_warnings, 0);
	effects_free(&x);
	must_compare(&x, a, N, b, 3); /* three of them have a partner */
	CHECK_INT(x.runs, 3);
	CU_ASSERT(warns(&x, "3 of 6 and 3 runs served the same"));
	CU_ASSERT(warns(&x, "3 runs of each are few"));
	effects_free(&x);
	b[0].workload_hash = 999;
	must_compare(&x, a, N, b, 1);
	CU_ASSERT(!x.paired && warns(&x, "their workloads differ"));
	CU_ASSERT_PTR_NOT_NULL(strstr(printed(&x), "without an interval"));
	effects_free(&x);
	for (int i = 0; i < N; i++) {
		effects_run_free(&a[i]);
		effects_run_free(&b[i]);
	}
}

static void effects_are_json_too(void)
{
	struct effects_run a, b;
	struct effects x;
	struct jout j;
	struct err e = {0};
	char *text = NULL;
	fill(&a, 500, 100, 7);
	fill(&b, 500, 50, 7);
	must_compare(&x, &a, 1, &b, 1);
	jout_open(&j, NULL);
	effects_json(&x, &j);
	CHECK_INT(jout_close(&j, &text, &e), ERR_NONE);
	if (!text)
		abort();
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "\"label\": \"new\""));
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "\"metric\": \"mean_ttft_ms\""));
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "\"verdict\": \"lowers\""));
	mem_free(text);
	effects_free(&x);
	effects_run_free(&a);
	effects_run_free(&b);
}

int main(void)
{
	static const struct test tests[] = {
		{"requests_of_one_workload_are_paired", requests_of_one_workload_are_paired},
		{"what_was_not_the_same_workload_is_not_paired", what_was_not_the_same_workload_is_not_paired},
		{"seeds_are_paired_by_what_they_served", seeds_are_paired_by_what_they_served},
		{"effects_are_json_too", effects_are_json_too},
	};
	return SUITE_RUN("analysis_effects", tests);
}
