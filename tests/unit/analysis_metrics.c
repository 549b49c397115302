/* Metrics against values computed by hand. */
#include <math.h>
#include <stdlib.h>

#include "analysis/gaps.h"
#include "analysis/metrics.h"
#include "core/mem.h"
#include "tests/unit/analysis_fixture.h"

struct bench {
	struct workload w;
	struct request r[64];
	struct engine_stats stats;
	struct engine_config config;
	struct gaps gaps;
	struct step_tally tally;
	struct metrics m;
	int32_t replicas;
	double price_per_hour, power_w;
};

static void set_up(struct bench *b)
{
	memset(b, 0, sizeof *b);
	workload_init(&b->w);
	engine_config_default(&b->config);
	gaps_init(&b->gaps);
	step_tally_init(&b->tally, 0);
}

/* A request that finished; times in ms. */
static struct request *finished(struct bench *b, int64_t arrival, int64_t sched, int64_t first, int64_t last,
				int32_t prompt, int32_t outputs)
{
	struct request *r = &b->r[b->w.n];
	add_spec(&b->w, arrival * MS, prompt, outputs);
	*r = (struct request){.arrival_ns = arrival * MS,
			      .first_sched_ns = sched * MS,
			      .first_token_ns = first * MS,
			      .last_token_ns = last * MS,
			      .held_until_ns = last * MS,
			      .outputs = outputs,
			      .chunks = 1,
			      .state = REQUEST_FINISHED};
	return r;
}

static void ended_badly(struct bench *b, int64_t arrival, enum request_state state, enum request_why why)
{
	struct request *r = &b->r[b->w.n];
	add_spec(&b->w, arrival * MS, 10, 10);
	*r = (struct request){.arrival_ns = arrival * MS,
			      .first_sched_ns = -1,
			      .first_token_ns = -1,
			      .last_token_ns = arrival * MS,
			      .state = (uint8_t)state,
			      .why = (uint8_t)why};
}

static void compute(struct bench *b, struct goodput_slo slo)
{
	struct err e = {0};
	struct metrics_input in = {.workload = &b->w,
				   .requests = b->r,
				   .stats = &b->stats,
				   .config = &b->config,
				   .gaps = &b->gaps,
				   .tally = &b->tally,
				   .slo = slo,
				   .replicas = b->replicas,
				   .price_per_hour = b->price_per_hour,
				   .power_w = b->power_w};
	CHECK_INT(percentiles_parse(&in.percentiles, "90,99", &e), ERR_NONE);
	CHECK_INT(gaps_finish(&b->gaps, &e), ERR_NONE);
	CHECK_INT(metrics_compute(&b->m, &in, &e), ERR_NONE);
}

static void tear_down(struct bench *b)
{
	workload_free(&b->w);
	gaps_free(&b->gaps);
}

/* Five requests: an ordinary one; one token; none; preempted twice; rejected. Milliseconds:
 *        arrival sched first last  n   queue prefill decode preempted   TTFT E2E TPOT
 *   0         0     0   100   500  5       0     100    400         0    100 500  100
 *   1       100   200   300   300  1     100     100      0         0    200 200    -
 *   2       200   200   400   400  0       0     200      0         0    200 200    -
 *   3       300   500   900  1300  3     200     300    350       150    600 1000 200
 *   4       400 rejected */
static void five(struct bench *b)
{
	set_up(b);
	finished(b, 0, 0, 100, 500, 10, 5);
	finished(b, 100, 200, 300, 300, 20, 1);
	finished(b, 200, 200, 400, 400, 30, 0);
	struct request *r = finished(b, 300, 500, 900, 1300, 40, 3);
	r->preempted_ns = 150 * MS;
	r->preempted_in_prefill_ns = 100 * MS;
	r->preemptions = 2;
	ended_badly(b, 400, REQUEST_REJECTED, REQUEST_WHY_NO_MEMORY);
	gaps_add(&b->gaps, 100 * MS, 4);
	gaps_add(&b->gaps, 200 * MS, 2);
}

#define CHECK_MS(actual, ms) CHECK_NEAR((actual) / 1e6, ms, 1e-9)

static void latencies_by_hand(void)
{
	struct bench b;
	five(&b);
	compute(&b, GOODPUT_NONE);
	const struct dist *d = b.m.latency;
	CHECK_INT(d[LATENCY_TTFT].n, 4);
	CHECK_MS(d[LATENCY_TTFT].mean, 275);
	CHECK_MS(d[LATENCY_TTFT].median, 200);
	CHECK_MS(d[LATENCY_TTFT].min, 100);
	CHECK_MS(d[LATENCY_TTFT].max, 600);
	/* population: sqrt((175^2 + 75^2 + 75^2 + 325^2) / 4) */
	CHECK_MS(d[LATENCY_TTFT].std, 192.02864369671521);
	/* ranks 0..3: 2.7 -> 200 + 0.7 x 400, 2.97 -> 200 + 0.97 x 400 */
	CHECK_MS(d[LATENCY_TTFT].p[0], 480);
	CHECK_MS(d[LATENCY_TTFT].p[1], 588);
	CHECK_INT(d[LATENCY_TPOT].n, 2);
	CHECK_MS(d[LATENCY_TPOT].mean, 150);
	CHECK_MS(d[LATENCY_E2EL].mean, 475);
	CHECK_INT(d[LATENCY_ITL].n, 6);
	CHECK_MS(d[LATENCY_ITL].mean, 800.0 / 6);
	CHECK_MS(d[LATENCY_ITL].median, 100);
	/* 500/5, 200/1, 1000/3; the one without output has none */
	CHECK_INT(d[LATENCY_NORMALIZED].n, 3);
	CHECK_MS(d[LATENCY_NORMALIZED].mean, (100 + 200 + 1000.0 / 3) / 3);
	CHECK_MS(d[LATENCY_QUEUE].mean, 75);
	CHECK_MS(d[LATENCY_PREFILL].mean, 175);
	CHECK_MS(d[LATENCY_DECODE].mean, 187.5);
	CHECK_MS(d[LATENCY_PREEMPTED].mean, 37.5);
	tear_down(&b);
}

static void parts_add_up_to_the_whole(void)
{
	struct bench b;
	five(&b);
	compute(&b, GOODPUT_NONE);
	CHECK_INT(b.m.sum_queue_ns, 300 * MS);
	CHECK_INT(b.m.sum_prefill_ns, 700 * MS);
	CHECK_INT(b.m.sum_decode_ns, 750 * MS);
	CHECK_INT(b.m.sum_preempted_ns, 150 * MS);
	CHECK_INT(b.m.sum_e2el_ns, 1900 * MS);
	CHECK_INT(b.m.sum_queue_ns + b.m.sum_prefill_ns + b.m.sum_decode_ns + b.m.sum_preempted_ns, b.m.sum_e2el_ns);
	CHECK_INT(b.m.preempted_requests, 1);
	CHECK_INT(b.m.max_preemptions, 2);
	tear_down(&b);
}

static void counts_and_rates_by_hand(void)
{
	struct bench b;
	five(&b);
	compute(&b, GOODPUT_NONE);
	CHECK_INT(b.m.requests, 5);
	CHECK_INT(b.m.completed, 4);
	CHECK_INT(b.m.failed, 1);
	CHECK_INT(b.m.rejected, 1);
	CHECK_INT(b.m.rejected_why[REQUEST_WHY_NO_MEMORY], 1);
	CHECK_INT(b.m.zero_output, 1);
	CHECK_INT(b.m.input_tokens, 100);
	CHECK_INT(b.m.output_tokens, 9);
	CHECK_INT(b.m.duration_ns, 1300 * MS);
	CHECK_NEAR(b.m.request_throughput, 4 / 1.3, 1e-12);
	CHECK_NEAR(b.m.output_throughput, 9 / 1.3, 1e-12);
	CHECK_NEAR(b.m.total_token_throughput, 109 / 1.3, 1e-12);
	/* five arrivals, four gaps, 0.4 s: the rejected one was offered as well */
	CHECK_NEAR(b.m.offered_rate, 10, 1e-12);
	CU_ASSERT_TRUE(isnan(b.m.request_goodput));
	CHECK_INT(b.m.good, -1);
	tear_down(&b);
}

/* Two devices at $3.60 an hour together: a dollar every 1,000 s. */
static void costs_are_shared_out(void)
{
	struct bench b;
	struct goodput_slo slo = {.ttft_ns = 200 * MS, .tpot_ns = -1, .e2el_ns = -1};
	five(&b);
	compute(&b, slo);
	CU_ASSERT(isnan(b.m.dollars) && isnan(b.m.energy_joules) && isnan(b.m.dollars_per_good_request));
	b.price_per_hour = 3.6;
	b.power_w = 1000;
	b.stats.busy_ns = 2 * S;
	b.replicas = 2;
	compute(&b, slo);
	const double seconds = (double)b.m.duration_ns / 1e9;
	CU_ASSERT(b.m.completed > 0 && b.m.good == 3);
	CHECK_NEAR(b.m.dollars, seconds / 1000, 1e-15);
	CHECK_NEAR(b.m.dollars_per_request, seconds / 1000 / (double)b.m.completed, 1e-15);
	CHECK_NEAR(b.m.dollars_per_good_request, seconds / 1000 / 3, 1e-15);
	CHECK_NEAR(b.m.dollars_per_million_output_tokens, seconds * 1000 / (double)b.m.output_tokens, 1e-9);
	CHECK_NEAR(b.m.dollars_per_million_input_tokens, seconds * 1000 / (double)b.m.input_tokens, 1e-9);
	CHECK_NEAR(b.m.dollars_per_million_tokens, seconds * 1000 / (double)(b.m.input_tokens + b.m.output_tokens),
		   1e-9);
	CHECK_NEAR(b.m.energy_joules, 1000, 1e-9); /* each busy for a second, at 500 W */
	CHECK_NEAR(b.m.energy_per_request_joules, 1000 / (double)b.m.completed, 1e-9);
	CHECK_NEAR(b.m.energy_per_output_token_joules, 1000 / (double)b.m.output_tokens, 1e-9);
	CHECK_NEAR(b.m.good_request_fraction, 3.0 / (double)b.m.requests, 1e-15);
	tear_down(&b);
}

static void goodput_counts_requests_that_meet_every_objective(void)
{
	struct bench b;
	struct goodput_slo slo = GOODPUT_NONE;
	struct err e = {0};
	CHECK_INT(goodput_parse(&slo, "ttft:200", &e), ERR_NONE);
	five(&b);
	compute(&b, slo);
	CHECK_INT(b.m.good, 3); /* 200 meets 200 */
	CHECK_NEAR(b.m.request_goodput, 3 / 1.3, 1e-12);
	/* Without a TPOT any TPOT is met: only the one with 100 ms falls out. */
	CHECK_INT(goodput_parse(&slo, "tpot:99.9", &e), ERR_NONE);
	compute(&b, slo);
	CHECK_INT(b.m.good, 2);
	CHECK_INT(goodput_parse(&slo, "e2el:199", &e), ERR_NONE);
	compute(&b, slo);
	CHECK_INT(b.m.good, 0);
	CHECK_NEAR(b.m.request_goodput, 0, 0);
	tear_down(&b);
}

static void one_token_has_no_tpot_and_no_token_none_either(void)
{
	struct bench b;
	set_up(&b);
	finished(&b, 0, 0, 10, 10, 5, 1);
	finished(&b, 0, 0, 10, 10, 5, 0);
	compute(&b, GOODPUT_NONE);
	CHECK_INT(b.m.latency[LATENCY_TPOT].n, 0);
	CU_ASSERT_TRUE(isnan(b.m.latency[LATENCY_TPOT].mean));
	CU_ASSERT_TRUE(isnan(b.m.latency[LATENCY_TPOT].p[0]));
	CHECK_INT(b.m.latency[LATENCY_TTFT].n, 2);
	CHECK_INT(b.m.zero_output, 1);
	tear_down(&b);
}

static void without_success_nothing_is_zero(void)
{
	struct bench b;
	struct metric_value *list = mem_alloc(METRICS_MAX_VALUES * sizeof *list);
	CU_ASSERT_PTR_NOT_NULL_FATAL(list);
	set_up(&b);
	ended_badly(&b, 0, REQUEST_REJECTED, REQUEST_WHY_PROMPT_TOO_LONG);
	ended_badly(&b, 5, REQUEST_ABORTED, REQUEST_WHY_USER);
	struct goodput_slo slo = {.ttft_ns = 1, .tpot_ns = -1, .e2el_ns = -1};
	compute(&b, slo);
	CHECK_INT(b.m.completed, 0);
	CHECK_INT(b.m.failed, 2);
	CHECK_INT(b.m.aborted, 1);
	static const char *const undefined[] = {"duration",
						"request_throughput",
						"output_throughput",
						"request_goodput",
						"mean_ttft_ms",
						"p99_ttft_ms",
						"std_e2el_ms",
						"median_itl_ms",
						"max_output_tokens_per_s",
						"steady_mean_ttft_ms",
						"steady_request_throughput",
						"kv_used"};
	int32_t n = metrics_list(&b.m, &b.stats, list);
	for (size_t i = 0; i < sizeof undefined / sizeof *undefined; i++) {
		bool found = false;
		for (int32_t k = 0; k < n; k++) {
			if (strcmp(list[k].key, undefined[i]))
				continue;
			found = true;
			if (!isnan(list[k].value))
				printf("    %s is %g\n", undefined[i], list[k].value);
			CU_ASSERT_TRUE(isnan(list[k].value));
		}
		CU_ASSERT_TRUE(found);
	}
	mem_free(list);
	tear_down(&b);
}

static void what_was_interrupted_is_counted_apart(void)
{
	struct bench b;
	set_up(&b);
	finished(&b, 0, 0, 10, 20, 5, 2);
	ended_badly(&b, 1, REQUEST_RUNNING, REQUEST_WHY_NONE);
	ended_badly(&b, 2, REQUEST_PENDING, REQUEST_WHY_NONE);
	compute(&b, GOODPUT_NONE);
	CHECK_INT(b.m.unfinished, 2);
	CHECK_INT(b.m.failed, 0);
	CHECK_INT(b.m.latency[LATENCY_E2EL].n, 1);
	/* What had not arrived was not offered: two arrivals, 1 ms. */
	CHECK_NEAR(b.m.offered_rate, 1000, 1e-9);
	tear_down(&b);
}

/* Latency counts from the intended arrival: a full client's queue shows (a 1 s wait before service is 1 s of TTFT). */
static void waiting_at_the_client_counts(void)
{
	struct bench b;
	set_up(&b);
	b.config.max_concurrency = 1;
	finished(&b, 0, 0, 500, 1000, 5, 2);
	finished(&b, 0, 1000, 1500, 2000, 5, 2);
	compute(&b, GOODPUT_NONE);
	CHECK_MS(b.m.latency[LATENCY_TTFT].max, 1500);
	CHECK_MS(b.m.latency[LATENCY_QUEUE].max, 1000);
	/* ... but it was not in flight with the other one. */
	CHECK_INT(b.m.max_concurrent_requests, 1);
	CU_ASSERT_TRUE(isinf(b.m.offered_rate));
	tear_down(&b);
}

static void steady_part_leaves_out_the_first_and_last_tenth(void)
{
	struct bench b;
	set_up(&b);
	/* Finish at 1, 2, ... 20 s; start-up and drain are twice as slow as the rest. */
	for (int i = 1; i <= 20; i++)
		finished(&b, 1000 * i - (i <= 2 || i > 18 ? 800 : 400), 1000 * i - 300, 1000 * i - 200, 1000 * i, 7, 3);
	compute(&b, GOODPUT_NONE);
	CHECK_INT(b.m.steady.from_ns, 2 * S);
	CHECK_INT(b.m.steady.to_ns, 18 * S);
	CHECK_INT(b.m.steady.n, 16);
	CHECK_NEAR(b.m.steady.request_throughput, 1, 1e-12);
	CHECK_NEAR(b.m.steady.output_throughput, 3, 1e-12);
	CHECK_NEAR(b.m.steady.total_token_throughput, 10, 1e-12);
	CHECK_MS(b.m.steady.ttft.max, 200);
	CHECK_MS(b.m.latency[LATENCY_TTFT].max, 600);
	CHECK_INT(b.m.steady.tpot.n, 16);
	tear_down(&b);
}

static void peaks_are_counted_by_the_second(void)
{
	struct bench b;
	set_up(&b);
	/* Seconds touched: 0-1, 1-1, 1-2, 3-3. */
	finished(&b, 0, 0, 100, 1100, 5, 2);
	finished(&b, 1000, 1000, 1100, 1200, 5, 2);
	finished(&b, 1900, 1900, 1950, 2100, 5, 2);
	finished(&b, 3000, 3000, 3100, 3200, 5, 2);
	step_tally_add(&b.tally, 999999999, 5);
	step_tally_add(&b.tally, S, 3);
	step_tally_add(&b.tally, 2 * S - 1, 4);
	step_tally_add(&b.tally, 3 * S + 1, 6);
	compute(&b, GOODPUT_NONE);
	CHECK_INT(b.m.max_concurrent_requests, 3);
	CHECK_NEAR(b.m.max_output_tokens_per_s, 7, 0);
	tear_down(&b);
}

static void seconds_count_from_the_first_arrival(void)
{
	struct step_tally t;
	step_tally_init(&t, 500 * MS);
	step_tally_add(&t, 600 * MS, 1);
	step_tally_add(&t, 1499 * MS, 1);
	step_tally_add(&t, 1500 * MS, 1);
	CHECK_INT(step_tally_most(&t), 2);
}

static void a_run_of_steps_counts_as_its_steps(void)
{
	static const int64_t ends[] = {100 * MS, 900 * MS, 1000 * MS, 1100 * MS, 1200 * MS, 2500 * MS};
	struct step_tally one, run;
	step_tally_init(&one, 0);
	step_tally_init(&run, 0);
	for (int i = 0; i < 6; i++)
		step_tally_add(&one, ends[i], 7);
	step_tally_add_run(&run, ends, 2, 7);
	step_tally_add_run(&run, ends + 2, 4, 7);
	CHECK_INT(step_tally_most(&one), 21);
	CHECK_INT(step_tally_most(&run), 21);
}

static void ratios_of_memory_and_prefixes(void)
{
	struct bench b;
	five(&b);
	b.stats = (struct engine_stats){.steps = 10,
					.busy_ns = 650 * MS,
					.end_ns = 1300 * MS,
					.host_ns = 65 * MS,
					.output_tokens = 9,
					.prefix_lookups_tokens = 100,
					.prefix_hit_tokens = 25,
					.kv_slot_ns = 1000,
					.kv_token_ns = 500,
					.kv_internal_ns = 125,
					.kv_reserved_ns = 250,
					.kv_external_ns = 0};
	compute(&b, GOODPUT_NONE);
	CHECK_NEAR(b.m.prefix_hit_ratio, 0.25, 0);
	CU_ASSERT_TRUE(isnan(b.m.prefix_ideal_block_hit_ratio));
	CHECK_NEAR(b.m.kv_used, 0.5, 0);
	CHECK_NEAR(b.m.kv_internal_waste, 0.125, 0);
	CHECK_NEAR(b.m.kv_reserved_waste, 0.25, 0);
	CHECK_NEAR(b.m.kv_external_waste, 0, 0);
	CHECK_NEAR(b.m.busy_share, 0.5, 1e-12);
	CHECK_NEAR(b.m.host_share, 0.1, 1e-12);
	CHECK_NEAR(b.m.mean_step_ns, 65e6, 1e-6);
	CHECK_NEAR(b.m.mean_tokens_per_step, 0.9, 1e-12);
	/* With the cache off its memory has no shares, rather than shares of 0. */
	b.config.kv_off = true;
	compute(&b, GOODPUT_NONE);
	CU_ASSERT_TRUE(isnan(b.m.kv_used) && isnan(b.m.kv_internal_waste));
	tear_down(&b);
}

static void ideal_hits_come_from_the_traces_hashes(void)
{
	struct bench b;
	struct err e = {0};
	five(&b);
	static const uint64_t ids[] = {1, 2, 1, 2, 3, 1, 9, UINT64_MAX};
	for (size_t i = 0; i < sizeof ids / sizeof *ids; i++)
		CHECK_INT(workload_add_hash(&b.w, ids[i], &e), ERR_NONE);
	b.w.specs[0].n_hashes = 8;
	compute(&b, GOODPUT_NONE);
	CHECK_NEAR(b.m.prefix_ideal_block_hit_ratio, 1 - 5.0 / 8, 1e-12);
	tear_down(&b);
}

/* --- distributions ------------------------------------------------------------------------------------------------ */

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return x < y ? -1 : x > y;
}

static void percentiles_equal_those_of_the_sorted_list(void)
{
	static double v[5000], sorted[5000];
	struct percentiles p;
	struct err e = {0};
	struct rng r;
	rng_init(&r, 1, 0);
	CHECK_INT(percentiles_parse(&p, "0.5,10,25,50,75,90,99,99.9,100", &e), ERR_NONE);
	for (int round = 0; round < 200; round++) {
		int64_t n = 1 + (int64_t)rng_below(&r, round % 10 ? 100 : 5000);
		/* few values, many ties; sorted already; all different */
		for (int64_t i = 0; i < n; i++)
			v[i] = round % 3 == 0 ? (double)rng_below(&r, 5) : round % 3 == 1 ? (double)i : rng_unit(&r);
		memcpy(sorted, v, (size_t)n * sizeof *v);
		qsort(sorted, (size_t)n, sizeof *v, by_value);
		struct dist d;
		dist_compute(&d, v, n, &p);
		for (int32_t k = 0; k < p.n; k++) {
			double at = p.p[k] / 100 * (double)(n - 1), t = at - floor(at);
			int64_t low = (int64_t)at, high = low + 1 < n ? low + 1 : low;
			double a = sorted[low], b = sorted[high];
			CHECK_NEAR(d.p[k], low == high ? a : t >= 0.5 ? b - (b - a) * (1 - t) : a + (b - a) * t, 0);
		}
		CHECK_NEAR(d.min, sorted[0], 0);
		CHECK_NEAR(d.max, sorted[n - 1], 0);
		CHECK_NEAR(dist_rank(v, n, n / 2), sorted[n / 2], 0);
	}
}

/* numpy.percentile([1, 2, 4, 8, 16], [10, 50, 90]) and std: by numpy. */
static void numpys_figures(void)
{
	double v[] = {16, 1, 8, 2, 4};
	struct percentiles p;
	struct err e = {0};
	struct dist d;
	CHECK_INT(percentiles_parse(&p, "10,90", &e), ERR_NONE);
	dist_compute(&d, v, 5, &p);
	CHECK_NEAR(d.mean, 6.2, 1e-15);
	CHECK_NEAR(d.median, 4, 0);
	CHECK_NEAR(d.std, 5.4552726787943421, 1e-14);
	CHECK_NEAR(d.p[0], 1.4, 1e-15);
	CHECK_NEAR(d.p[1], 12.8, 1e-14);
}

static void a_million_equal_values_are_quick(void)
{
	int64_t n = 1000000;
	double *v = mem_alloc((size_t)n * sizeof *v);
	CU_ASSERT_PTR_NOT_NULL_FATAL(v);
	for (int64_t i = 0; i < n; i++)
		v[i] = 0.1;
	struct percentiles p;
	struct dist d;
	percentiles_default(&p);
	dist_compute(&d, v, n, &p);
	CHECK_NEAR(d.mean, 0.1, 0); /* a plain sum of a million would be off in the 12th digit */
	CHECK_NEAR(d.std, 0, 0);
	CHECK_NEAR(d.p[0], 0.1, 0);
	mem_free(v);
}

/* --- words -------------------------------------------------------------------------------------------------------- */

static void percentile_lists(void)
{
	struct percentiles p;
	struct err e = {0};
	char name[24];
	CHECK_INT(percentiles_parse(&p, "50,99.9", &e), ERR_NONE);
	CHECK_INT(p.n, 3); /* 99 is always there */
	CHECK_STR(percentile_name(p.p[1], name), "p99.9");
	CHECK_STR(percentile_name(p.p[2], name), "p99");
	CHECK_INT(percentiles_parse(&p, "99,99", &e), ERR_NONE);
	CHECK_INT(p.n, 1);
	static const char *const bad[] = {"", "0", "101", "50,", "fifty", "50;90", "nan"};
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		err_clear(&e);
		CHECK_INT(percentiles_parse(&p, bad[i], &e), ERR_INPUT);
	}
	err_clear(&e);
	CHECK_INT(percentiles_parse(&p, "1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16", &e), ERR_INPUT);
}

static void thin_percentiles(void)
{
	CU_ASSERT_TRUE(percentile_is_thin(99, 99));
	CU_ASSERT_FALSE(percentile_is_thin(99, 100));
	CU_ASSERT_TRUE(percentile_is_thin(99.9, 999));
	CU_ASSERT_FALSE(percentile_is_thin(99.9, 1000));
	CU_ASSERT_FALSE(percentile_is_thin(50, 2));
}

static void objectives(void)
{
	struct goodput_slo slo = GOODPUT_NONE;
	struct err e = {0};
	CU_ASSERT_FALSE(goodput_any(&slo));
	CHECK_INT(goodput_parse(&slo, "tpot:12.5", &e), ERR_NONE);
	CHECK_INT(slo.tpot_ns, 12500000);
	CU_ASSERT_TRUE(goodput_any(&slo));
	static const char *const bad[] = {"ttft", "ttft:", "ttft:fast", "itl:50", "ttft:-1", "TTFT:5", ":5"};
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		err_clear(&e);
		CHECK_INT(goodput_parse(&slo, bad[i], &e), ERR_INPUT);
	}
	err_clear(&e);
	goodput_parse(&slo, "itl:50", &e);
	CHECK_STR(e.text, "goodput: \"itl:50\" is not an objective; they are ttft:MS, tpot:MS and e2el:MS");
}

/* A: 0 -> (1, 2) -> 3 with tools of 5, 0 and 2 ms; B: 4 and 5 of one session; milliseconds, makespans 50 and 40. */
static void workflows_end_with_their_last_request(void)
{
	static const int32_t parents[] = {0, 0, 1, 2}, children[] = {1, 2, 3, 3};
	struct bench b;
	struct err e = {0};
	set_up(&b);
	finished(&b, 0, 1, 5, 10, 10, 2);
	finished(&b, 15, 16, 20, 30, 10, 2);
	finished(&b, 10, 12, 15, 20, 10, 2);
	finished(&b, 32, 35, 40, 50, 10, 2);
	finished(&b, 20, 24, 30, 40, 10, 2);
	finished(&b, 45, 45, 50, 60, 10, 2);
	for (int i = 0; i < 6; i++)
		b.w.specs[i].session = i < 4 ? -1 : 0;
	CHECK_INT(workload_link(&b.w, parents, children, 4, &e), ERR_NONE);
	compute(&b, GOODPUT_NONE);
	const struct workflow_figures *f = &b.m.workflows;
	CHECK_INT(f->n, 2);
	CHECK_INT(f->completed, 2);
	CHECK_NEAR(f->makespan.mean, 45e6, 0);
	CHECK_NEAR(f->makespan.max, 50e6, 0);
	CHECK_NEAR(f->makespan.median, 45e6, 0);
	CHECK_NEAR(f->throughput, 2 / 0.06, 1e-9);
	CHECK_NEAR(f->critical_requests, 2, 0); /* 3, 1 and 0; 5 */
	CHECK_NEAR(f->critical_queue_share, (3 + 1 + 1 + 0) / 90.0, 1e-12);
	CHECK_NEAR(f->critical_tool_share, (2 + 5) / 90.0, 1e-12);
	/* One that did not finish leaves its workflow out. */
	b.r[5].state = REQUEST_ABORTED;
	gaps_free(&b.gaps);
	gaps_init(&b.gaps);
	compute(&b, GOODPUT_NONE);
	CHECK_INT(f->n, 2);
	CHECK_INT(f->completed, 1);
	CHECK_NEAR(f->makespan.mean, 50e6, 0);
	tear_down(&b);
}

static void fairness_compares_the_speed_tenants_saw(void)
{
	struct bench b;
	struct err e = {0};
	int32_t one, two;
	set_up(&b);
	finished(&b, 0, 0, 50, 100, 10, 10); /* 100 tokens a second */
	finished(&b, 0, 0, 50, 200, 10, 10); /* 50 */
	compute(&b, GOODPUT_NONE);
	CU_ASSERT_TRUE(isnan(b.m.tenant_fairness));
	CHECK_INT(b.m.workflows.n, 0);
	CU_ASSERT_TRUE(isnan(b.m.workflows.makespan.mean));
	CHECK_INT(workload_tenant(&b.w, "one", &one, &e) + workload_tenant(&b.w, "two", &two, &e), 0);
	b.w.specs[0].tenant = one;
	b.w.specs[1].tenant = two;
	gaps_free(&b.gaps);
	gaps_init(&b.gaps);
	compute(&b, GOODPUT_NONE);
	CHECK_NEAR(b.m.tenant_fairness, 150.0 * 150 / (2 * (100.0 * 100 + 50 * 50)), 1e-12);
	tear_down(&b);
}

int main(void)
{
	static const struct test tests[] = {
		{"workflows_end_with_their_last_request", workflows_end_with_their_last_request},
		{"fairness_compares_the_speed_tenants_saw", fairness_compares_the_speed_tenants_saw},
		{"latencies_by_hand", latencies_by_hand},
		{"parts_add_up_to_the_whole", parts_add_up_to_the_whole},
		{"counts_and_rates_by_hand", counts_and_rates_by_hand},
		{"costs_are_shared_out", costs_are_shared_out},
		{"goodput_counts_requests_that_meet_every_objective",
		 goodput_counts_requests_that_meet_every_objective},
		{"one_token_has_no_tpot_and_no_token_none_either", one_token_has_no_tpot_and_no_token_none_either},
		{"without_success_nothing_is_zero", without_success_nothing_is_zero},
		{"what_was_interrupted_is_counted_apart", what_was_interrupted_is_counted_apart},
		{"waiting_at_the_client_counts", waiting_at_the_client_counts},
		{"steady_part_leaves_out_the_first_and_last_tenth", steady_part_leaves_out_the_first_and_last_tenth},
		{"peaks_are_counted_by_the_second", peaks_are_counted_by_the_second},
		{"seconds_count_from_the_first_arrival", seconds_count_from_the_first_arrival},
		{"a_run_of_steps_counts_as_its_steps", a_run_of_steps_counts_as_its_steps},
		{"ratios_of_memory_and_prefixes", ratios_of_memory_and_prefixes},
		{"ideal_hits_come_from_the_traces_hashes", ideal_hits_come_from_the_traces_hashes},
		{"percentiles_equal_those_of_the_sorted_list", percentiles_equal_those_of_the_sorted_list},
		{"numpys_figures", numpys_figures},
		{"a_million_equal_values_are_quick", a_million_equal_values_are_quick},
		{"percentile_lists", percentile_lists},
		{"thin_percentiles", thin_percentiles},
		{"objectives", objectives},
	};
	return SUITE_RUN("analysis_metrics", tests);
}
