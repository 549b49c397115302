/* Comparison tables: what is marked, what is set against what, and that it fits the terminal. */
#include <math.h>

#include "analysis/compare.h"
#include "analysis/text.h"
#include "core/mem.h"
#include "tests/unit/analysis_fixture.h"

/* Runs of the same 200 requests under different limits, as the settings of n runs. */
struct several {
	struct workload w;
	struct run_settings s[8];
	struct run_result r[8];
	const struct run_settings *ps[8];
	const struct run_result *pr[8];
	int n;
};

static void run_several(struct several *x, int n)
{
	static const char *const labels[] = {"chunked",
					     "continuous",
					     "naive",
					     "max-num-seqs=8 kv-cache=on and more words",
					     "naive:pad=off,hold_finished=off",
					     "six",
					     "seven",
					     "eight"};
	static const char *const policies[] = {"chunked", "continuous", "naive"};
	random_workload(&x->w, 200, 20, 1);
	x->n = n;
	for (int i = 0; i < n; i++) {
		small_settings(&x->s[i], &x->w);
		x->s[i].policy = policies[i % 3];
		x->s[i].label = labels[i];
		x->s[i].engine.max_num_seqs = 64 >> (i / 3);
		must_run(&x->s[i], &x->w, NULL, &x->r[i]);
		run_result_drop_requests(&x->r[i]);
		x->ps[i] = &x->s[i];
		x->pr[i] = &x->r[i];
	}
}

static void free_several(struct several *x)
{
	for (int i = 0; i < x->n; i++)
		run_result_free(&x->r[i]);
	workload_free(&x->w);
}

static void build(struct compare_table *t, const struct several *x, bool all)
{
	struct err e = {0};
	CHECK_INT(compare_build(t, x->ps, x->pr, x->n, all, &e), ERR_NONE);
}

static const struct compare_cell *row(const struct compare_table *t, const char *key)
{
	for (int32_t i = 0; i < t->n_rows; i++)
		if (strcmp(t->rows[i].key, key) == 0)
			return t->cells + (size_t)i * (size_t)t->n_runs;
	return NULL;
}

/* Out of line: inlined, gcc 12 takes what open_memstream writes to `text` for a pointer to `text`. */
__attribute__((noinline)) static char *printed(const struct compare_table *t, int width, bool bold)
{
	char *text = NULL;
	size_t size;
	struct err e = {0};
	FILE *f = open_memstream(&text, &size);
	CHECK_INT(compare_print(t, f, width, bold, &e), ERR_NONE);
	fclose(f);
	return text;
}

static int longest_line(const char *text)
{
	int longest = 0;
	for (const char *at = text; *at; at += strcspn(at, "\n"), at += *at == '\n')
		if ((int)strcspn(at, "\n") > longest)
			longest = (int)strcspn(at, "\n");
	return longest;
}

static void values_ratios_and_the_best_of_each_row(void)
{
	struct several x;
	struct compare_table t;
	run_several(&x, 3);
	/* Known figures in place of what was measured. */
	static const double ttft[] = {20e6, 10e6, 40e6}, rate[] = {4, 5, 5};
	for (int i = 0; i < 3; i++) {
		x.r[i].metrics.latency[LATENCY_TTFT].mean = ttft[i];
		x.r[i].metrics.request_throughput = rate[i];
		x.r[i].stats.preemptions = 7;
	}
	build(&t, &x, false);
	const struct compare_cell *c = row(&t, "mean_ttft_ms");
	CU_ASSERT_PTR_NOT_NULL_FATAL(c);
	CHECK_NEAR(c[0].value, 20, 1e-12);
	CU_ASSERT_TRUE(isnan(c[0].ratio));
	CHECK_NEAR(c[1].ratio, 0.5, 1e-12);
	CHECK_NEAR(c[2].ratio, 2, 1e-12);
	CU_ASSERT_TRUE(!c[0].best && c[1].best && !c[2].best); /* lower is better */
	c = row(&t, "request_throughput");
	CU_ASSERT_TRUE(!c[0].best && c[1].best && c[2].best); /* higher; both that have it */
	c = row(&t, "preemptions");
	CU_ASSERT_TRUE(!c[0].best && !c[1].best && !c[2].best); /* all the same: none is best */
	c = row(&t, "offered_rate");
	CU_ASSERT_TRUE(!c[0].best && !c[1].best && !c[2].best); /* neither side is better */
	compare_free(&t);
	free_several(&x);
}

static void undefined_figures_are_dashes_and_never_best(void)
{
	struct several x;
	struct compare_table t;
	run_several(&x, 2);
	x.r[0].metrics.latency[LATENCY_TPOT].mean = NAN;
	x.r[1].metrics.latency[LATENCY_TTFT].mean = NAN;
	build(&t, &x, false);
	const struct compare_cell *c = row(&t, "mean_tpot_ms");
	CU_ASSERT_TRUE(isnan(c[0].value) && !c[0].best);
	CU_ASSERT_TRUE(isnan(c[1].ratio));
	/* Without objectives nobody defines goodput: no row. */
	CU_ASSERT_PTR_NULL(row(&t, "request_goodput"));
	char *text = printed(&t, 100, false);
	CU_ASSERT_PTR_NULL(strstr(text, "nan"));
	const char *line = strstr(text, "TPOT mean");
	CU_ASSERT_PTR_NOT_NULL_FATAL(line);
	CU_ASSERT_PTR_NOT_NULL(strstr(line, " - "));
	free(text);
	compare_free(&t);
	free_several(&x);
}

static void three_runs_fit_a_hundred_columns(void)
{
	struct several x;
	struct compare_table t;
	run_several(&x, 3);
	build(&t, &x, false);
	char *text = printed(&t, 0, false);
	CU_ASSERT_TRUE(longest_line(text) <= 100);
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "chunked"));
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "naive"));
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "x = against chunked"));
	CU_ASSERT_PTR_NULL(strstr(text, "did not have the same input"));
	free(text);
	compare_free(&t);
	free_several(&x);
}

static int occurrences(const char *text, const char *what)
{
	int n = 0;
	for (; (text = strstr(text, what)); text++)
		n++;
	return n;
}

/* More runs than fit go into further blocks, each beginning with the run that the ratios are against. */
static void more_runs_wrap_into_blocks(void)
{
	struct several x;
	struct compare_table t;
	run_several(&x, 8);
	build(&t, &x, true);
	CU_ASSERT_TRUE(t.n_rows > 60);
	static const int widths[] = {10, 80, 100, 160, 1000};
	static const int blocks[] = {7, 7, 4, 2, 1};
	for (int i = 0; i < 5; i++) {
		char *text = printed(&t, widths[i], false);
		CHECK_INT(occurrences(text, "  chunked"), blocks[i]);
		CHECK_INT(occurrences(text, "\nTTFT mean"), blocks[i]);
		CHECK_INT(occurrences(text, "  eight"), 1);
		CU_ASSERT_TRUE(longest_line(text) <= (widths[i] < 80 ? 80 : widths[i]));
		free(text);
	}
	compare_free(&t);
	free_several(&x);
}

static void bold_is_only_for_terminals(void)
{
	struct several x;
	struct compare_table t;
	run_several(&x, 2);
	x.r[0].metrics.request_throughput *= 2;
	build(&t, &x, false);
	char *text = printed(&t, 100, false);
	CU_ASSERT_PTR_NULL(strchr(text, '\033'));
	free(text);
	text = printed(&t, 100, true);
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "\033[1m"));
	free(text);
	compare_free(&t);
	free_several(&x);
}

static void different_input_is_said(void)
{
	struct several x;
	struct compare_table t;
	run_several(&x, 2);
	x.s[1].workload_hash++;
	build(&t, &x, false);
	char *text = printed(&t, 100, false);
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "did not have the same input"));
	free(text);
	compare_free(&t);
	free_several(&x);
}

__attribute__((noinline)) static char *printed_run(const struct run_settings *s, const struct run_result *r)
{
	char *text = NULL;
	size_t size;
	struct err e = {0};
	FILE *f = open_memstream(&text, &size);
	CHECK_INT(compare_print_run(f, s, r, &e), ERR_NONE);
	fclose(f);
	return text;
}

static void one_run_as_text(void)
{
	struct several x;
	run_several(&x, 1);
	x.r[0].oracle = true;
	x.r[0].lengths_estimated = true;
	char *text = printed_run(&x.s[0], &x.r[0]);
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "200 completed"));
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "policies are told the true output lengths"));
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "estimated from text"));
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "without start-up and drain (160 requests"));
	CU_ASSERT_TRUE(longest_line(text) <= 120);
	free(text);
	free_several(&x);
}

/* A run in which everything was rejected: the reason, and no zeros in place of latencies. */
static void a_run_without_success_as_text(void)
{
	struct workload w;
	struct run_settings s;
	struct run_result r;
	workload_init(&w);
	add_spec(&w, 0, 9999, 5);
	workload_set_max_tokens(&w, MAX_TOKENS_MAX, 100);
	small_settings(&s, &w);
	must_run(&s, &w, NULL, &r);
	char *text = printed_run(&s, &r);
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "0 completed, 1 rejected (1 no_memory)"));
	CU_ASSERT_PTR_NULL(strstr(text, "nan"));
	const char *ttft = strstr(text, "\n  TTFT");
	CU_ASSERT_PTR_NOT_NULL_FATAL(ttft);
	CU_ASSERT_PTR_NULL(strstr(ttft, "0.000"));
	free(text);
	run_result_free(&r);
	workload_free(&w);
}

static void numbers_as_people_read_them(void)
{
	char buf[TEXT_NUMBER];
	CHECK_STR(text_value(0, "ms", buf), "0.000");
	CHECK_STR(text_value(0.01234, "ms", buf), "0.0123");
	CHECK_STR(text_value(3.14159, "ms", buf), "3.142");
	CHECK_STR(text_value(27.184, "ms", buf), "27.18");
	CHECK_STR(text_value(99.996, "ms", buf), "100.0");
	CHECK_STR(text_value(314.15, "ms", buf), "314.1");
	CHECK_STR(text_value(999.96, "ms", buf), "1,000");
	CHECK_STR(text_value(19366, "requests", buf), "19,366");
	CHECK_STR(text_value(7, "", buf), "7");
	CHECK_STR(text_value(0.5, "share", buf), "50.00");
	CHECK_STR(text_value(NAN, "ms", buf), "-");
	CHECK_STR(text_value(INFINITY, "req/s", buf), "inf");
	CHECK_STR(text_count(-1234567, buf), "-1,234,567");
	CHECK_STR(text_count(INT64_MIN, buf), "-9,223,372,036,854,775,808");
}

int main(void)
{
	static const struct test tests[] = {
		{"values_ratios_and_the_best_of_each_row", values_ratios_and_the_best_of_each_row},
		{"undefined_figures_are_dashes_and_never_best", undefined_figures_are_dashes_and_never_best},
		{"three_runs_fit_a_hundred_columns", three_runs_fit_a_hundred_columns},
		{"more_runs_wrap_into_blocks", more_runs_wrap_into_blocks},
		{"bold_is_only_for_terminals", bold_is_only_for_terminals},
		{"different_input_is_said", different_input_is_said},
		{"one_run_as_text", one_run_as_text},
		{"a_run_without_success_as_text", a_run_without_success_as_text},
		{"numbers_as_people_read_them", numbers_as_people_read_them},
	};
	return SUITE_RUN("analysis_compare", tests);
}
