/* What `trace info` computes and prints. */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/err.h"
#include "tests/support/suite.h"
#include "traces/info.h"
#include "traces/reader.h"

static void add(struct workload *w, int64_t arrival_ns, int prompt, int output)
{
	struct spec s = {.arrival_ns = arrival_ns,
			 .name_at = -1,
			 .prompt_tokens = prompt,
			 .output_tokens = output,
			 .session = -1,
			 .row = (int32_t)w->n + 1};
	CU_ASSERT_EQUAL_FATAL(workload_add(w, &s, NULL), ERR_NONE);
}

static struct info compute(const struct workload *w)
{
	struct info o;
	struct err e = {0};
	if (info_compute(w, &o, &e))
		CU_FAIL_FATAL(e.text);
	return o;
}

static void percentiles_are_numpys(void)
{
	/* numpy.percentile([1, 2, 4, 8, 16], q): 25 -> 2, 50 -> 4, 90 -> 12.8, 99 -> 15.68 */
	static const double x[] = {1, 2, 4, 8, 16};
	CHECK_NEAR(info_percentile(x, 5, 0), 1, 0);
	CHECK_NEAR(info_percentile(x, 5, 25), 2, 1e-12);
	CHECK_NEAR(info_percentile(x, 5, 50), 4, 1e-12);
	CHECK_NEAR(info_percentile(x, 5, 90), 12.8, 1e-12);
	CHECK_NEAR(info_percentile(x, 5, 99), 15.68, 1e-12);
	CHECK_NEAR(info_percentile(x, 5, 100), 16, 0);
	CHECK_NEAR(info_percentile(x, 1, 99), 1, 0);
}

static void lengths_and_gaps_by_hand(void)
{
	struct workload w = {0};
	add(&w, 0, 10, 0);
	add(&w, NS_PER_S, 20, 5);
	add(&w, NS_PER_S, 30, 7);
	add(&w, 4 * NS_PER_S, 60, 4);
	struct info o = compute(&w);
	CHECK_INT(o.n, 4);
	CHECK_INT(o.input_total, 120);
	CHECK_NEAR(o.input.mean, 30, 1e-12);
	CHECK_NEAR(o.input.std, sqrt((400 + 100 + 0 + 900) / 4.0), 1e-12); /* of the population */
	CHECK_NEAR(o.input.p50, 25, 1e-12);
	CHECK_INT(o.zero_output, 1);
	CHECK_NEAR(o.duration_s, 4, 1e-12);
	CHECK_NEAR(o.rate, 0.75, 1e-12);
	/* gaps 1, 0, 3: mean 4/3, variance 14/9 */
	CHECK_INT(o.gap.n, 3);
	CHECK_INT(o.ties, 1);
	CHECK_NEAR(o.gap.mean, 4.0 / 3, 1e-12);
	CHECK_NEAR(o.gap_cv, sqrt(14.0 / 9) / (4.0 / 3), 1e-12);
	CHECK_NEAR(o.burstiness, 16.0 / 14, 1e-12);
	/* four bins of 1 s: 0; 1 and 1; none; 4 in the last */
	CHECK_INT(o.n_bins, 4);
	CHECK_INT(o.bin[0], 1);
	CHECK_INT(o.bin[1], 2);
	CHECK_INT(o.bin[2], 0);
	CHECK_INT(o.bin[3], 1);
	CU_ASSERT_EQUAL(o.hash, workload_hash(&w));
	workload_free(&w);
}

static void even_and_simultaneous_arrivals_have_no_strange_figures(void)
{
	struct workload w = {0};
	for (int i = 0; i < 200; i++)
		add(&w, i * (NS_PER_S / 3), 10, 1);
	struct info o = compute(&w);
	CU_ASSERT(isinf(o.burstiness));
	workload_free(&w);
	for (int i = 0; i < 3; i++)
		add(&w, 0, 10, 1);
	o = compute(&w);
	CU_ASSERT(isnan(o.burstiness) && isnan(o.rate) && isnan(o.gap_cv));
	CHECK_INT(o.n_bins, 0);
	CHECK_INT(o.ties, 2);
	workload_free(&w);
	add(&w, 0, 10, 1);
	o = compute(&w);
	CHECK_INT(o.gap.n, 0);
	CU_ASSERT(isnan(o.gap.mean) && isnan(o.ideal_hit_ratio));
	workload_free(&w);
}

static void sharing_sessions_and_chains_are_counted(void)
{
	struct workload w = {0};
	for (int i = 0; i < 5; i++) {
		add(&w, i * NS_PER_S, 100, 1);
		w.specs[i].session = i < 3 ? 4 : i == 3 ? 1 : -1;
		w.specs[i].hash_at = w.n_hash_ids;
		w.specs[i].n_hashes = 2;
		workload_add_hash(&w, 7, NULL);
		workload_add_hash(&w, (uint64_t)i, NULL);
	}
	w.hash_block = 64;
	CHECK_INT(workload_link(&w, (int32_t[]){0, 1, 0}, (int32_t[]){1, 2, 2}, 3, NULL), ERR_NONE);
	struct info o = compute(&w);
	CHECK_INT(o.blocks, 10);
	CHECK_INT(o.distinct_blocks, 6);
	CHECK_NEAR(o.ideal_hit_ratio, 0.4, 1e-12);
	CHECK_INT(o.hash_block, 64);
	CHECK_INT(o.sessions, 2);
	CHECK_INT(o.largest_session, 3);
	CHECK_INT(o.dependents, 2);
	CHECK_INT(o.links, 3);
	CHECK_INT(o.depth, 3);
	CHECK_INT(o.gap.n, 2); /* three roots */
	workload_free(&w);
}

static char *printed(const struct info *o, const struct trace_report *r, bool json)
{
	char *text = NULL;
	size_t n;
	FILE *f = open_memstream(&text, &n);
	struct err e = {0};
	if (json)
		CHECK_INT(info_print_json(f, "t.csv", o, r, &e), ERR_NONE);
	else
		info_print(f, "t.csv", o, r);
	fclose(f);
	return text;
}

static void people_and_programs_see_the_same(void)
{
	struct workload w = {0};
	for (int i = 0; i < 30; i++)
		add(&w, i * i * NS_PER_MS, 1000 + i, i);
	struct trace_report r = {.format_name = "azure", .rows = 33, .kept = 30, .dropped = 3, .n_rules = 1};
	r.rules[0] = (struct trace_rule){"bad row", 3};
	struct info o = compute(&w);
	char *text = printed(&o, &r, false);
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "requests       30 kept of 33\n"));
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "dropped      3: bad row"));
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "total        30,435 input, 435 output"));
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "(p99 of fewer than 100)"));
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "empty        1 requests generate nothing"));
	char hash[20];
	snprintf(hash, sizeof hash, "%016llx", (unsigned long long)o.hash);
	CU_ASSERT_PTR_NOT_NULL(strstr(text, hash));
	free(text);
	text = printed(&o, &r, true);
	json_t *j = json_loads(text, 0, NULL);
	CU_ASSERT_PTR_NOT_NULL_FATAL(j);
	CHECK_STR(json_string_value(json_object_get(j, "workload_hash")), hash);
	CHECK_INT(json_integer_value(json_object_get(j, "requests")), 30);
	CHECK_INT(json_integer_value(json_object_get(j, "dropped")), 3);
	CHECK_NEAR(json_real_value(json_object_get(json_object_get(j, "input_tokens"), "p90")), o.input.p90, 1e-9);
	CHECK_INT(json_array_size(json_object_get(json_object_get(j, "rate_over_time"), "requests")), 30);
	CU_ASSERT(json_is_null(json_object_get(j, "prefix_ideal_block_hit_ratio")));
	json_decref(j);
	free(text);
	workload_free(&w);
}

static void estimated_lengths_are_said(void)
{
	struct workload w = {0};
	add(&w, 0, 1, 1);
	w.lengths_estimated = true;
	struct info o = compute(&w);
	char *text = printed(&o, NULL, false);
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "ESTIMATED"));
	free(text);
	text = printed(&o, NULL, true);
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "\"lengths_estimated\": true"));
	free(text);
	workload_free(&w);
}

/* The published ideal hit ratios: they tell whether ids, partial last blocks included, are counted as others count. */
static void mooncakes_ideal_hit_ratios_are_the_published_ones(void)
{
	static const struct {
		const char *file;
		double ratio;
		int64_t blocks, distinct, n;
	} known[] = {{"traces/mooncake_conversation.jsonl", 0.366, 0, 0, 12031},
		     {"traces/mooncake_synthetic.jsonl", 0.640, 0, 0, 3993},
		     {"traces/sharegpt_300_hashed.jsonl", 1220.0 / 15942, 15942, 15942 - 1220, 300}};
	for (int i = 0; i < 3; i++) {
		const char *path = shared_data(known[i].file);
		if (!path) {
			test_skip("shared data is not here");
			return;
		}
		struct workload w = {0};
		struct err e = {0};
		if (trace_load(path, NULL, &w, NULL, &e))
			CU_FAIL_FATAL(e.text);
		struct info o = compute(&w);
		CHECK_INT(o.n, known[i].n);
		CHECK_NEAR(o.ideal_hit_ratio, known[i].ratio, 5e-4);
		if (known[i].blocks) {
			CHECK_INT(o.blocks, known[i].blocks);
			CHECK_INT(o.distinct_blocks, known[i].distinct);
		}
		workload_free(&w);
	}
}

int main(void)
{
	static const struct test tests[] = {
		{"percentiles_are_numpys", percentiles_are_numpys},
		{"lengths_and_gaps_by_hand", lengths_and_gaps_by_hand},
		{"even_and_simultaneous_arrivals_have_no_strange_figures",
		 even_and_simultaneous_arrivals_have_no_strange_figures},
		{"sharing_sessions_and_chains_are_counted", sharing_sessions_and_chains_are_counted},
		{"people_and_programs_see_the_same", people_and_programs_see_the_same},
		{"estimated_lengths_are_said", estimated_lengths_are_said},
		{"mooncakes_ideal_hit_ratios_are_the_published_ones",
		 mooncakes_ideal_hit_ratios_are_the_published_ones},
	};
	return SUITE_RUN("traces_info", tests);
}
