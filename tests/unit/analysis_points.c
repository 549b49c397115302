/* Measured serving points: reading, the closed loop's arithmetic, and fits that find what points were made with. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analysis/points.h"
#include "core/err.h"
#include "core/mem.h"
#include "tests/support/suite.h"

#define HEADER "model,system,backend,backend_version,gemm_quant,isl,osl,concurrency,tp,ttft_ms,tpot_ms\n"

static void read_points(struct points *p, const char *path)
{
	struct err e = {0};
	int rc = points_read(p, path, &e);
	if (rc)
		fprintf(stderr, "%s\n", e.text);
	CU_ASSERT_EQUAL_FATAL(rc, ERR_NONE);
}

static void bad_files_say_where_and_what(void)
{
	static const struct {
		const char *text, *says;
	} bad[] = {
		{"", "is empty"},
		{HEADER, "has no points"},
		{"model,system\n", "no column \"backend\""},
		{HEADER "llama-3.1-8b,h100_sxm,vllm,1,,1024,128,8,1,9,7\nllama-3.1-8b,h100_sxm,vllm,1,,x,128,8,1,9,7\n",
		 ":3: isl: \"x\" is not a number"},
		{HEADER "llama-3.1-8b,h100_sxm,vllm,1,int3,1,128,8,1,9,7\n", ":2: gemm_quant: \"int3\""},
		{HEADER "llama-3.1-8b,h100_sxm,,1,,1,128,8,1,9,7\n", ":2: backend"},
		{HEADER "llama-3.1-8b,h100_sxm,vllm,1,,1,1,8,1,9,7\n", ":2: osl: \"1\""},
		{HEADER "llama-9,h100_sxm,vllm,1,,1,128,8,1,9,7\n", "llama-9"},
		{HEADER "llama-3.1-8b,h900,vllm,1,,1,128,8,1,9,7\n", "h900"},
		{HEADER "llama-3.1-8b,h100_sxm,vllm,1,,1,128,8,7,9,7\n", "7"},
	};
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		struct points p;
		struct err e = {0};
		CHECK_INT(points_read(&p, temp_file("bad.csv", bad[i].text), &e), ERR_INPUT);
		if (!strstr(e.text, bad[i].says))
			fprintf(stderr, "wanted \"%s\" in \"%s\"\n", bad[i].says, e.text);
		CU_ASSERT_PTR_NOT_NULL(strstr(e.text, bad[i].says));
		points_free(&p);
	}
}

/* Concurrency 1: no other's prompt is in the way, so TPOT does not depend on the outputs but for the context. An engine that
 * reserves memory runs no more than fit; one that preempts has all of them in its step. */
static void memory_limits_who_runs_where_it_is_reserved(void)
{
	struct points p;
	struct err e = {0};
	struct device devices[POINTS_KINDS * POINTS_KINDS];
	struct point_times t[4];
	read_points(&p, temp_file("few.csv", HEADER "llama-3.1-70b,h200_sxm,trtllm,1,fp8,8192,1024,64,1,,1\n"
						    "llama-3.1-70b,h200_sxm,trtllm,1,fp8,8192,1024,1000,1,,1\n"
						    "llama-3.1-70b,h200_sxm,vllm,1,fp8,8192,1024,64,1,,1\n"
						    "llama-3.1-70b,h200_sxm,vllm,1,fp8,8192,1024,1000,1,,1\n"));
	CHECK_INT(p.n_groups, 2);
	CU_ASSERT(isnan(p.at[0].ttft_ms));
	CHECK_INT(points_devices(&p, devices, &e), ERR_NONE);
	CHECK_INT(points_predict(&p, devices, t, &e), ERR_NONE);
	CHECK_NEAR(t[1].tpot, t[0].tpot, 1e-9);
	CU_ASSERT(t[3].tpot > 5 * t[2].tpot);
	CU_ASSERT(p.groups[0].kv_tokens / (8192 + 1024) < 64);
	points_free(&p);
}

/* Points made by devices with known parameters. */
static void write_made(const char *path, const struct points *p, const struct point_times *t)
{
	FILE *f = fopen(path, "w");
	CU_ASSERT_PTR_NOT_NULL_FATAL(f);
	fputs(HEADER, f);
	for (int64_t i = 0; i < p->n; i++) {
		const struct point *at = &p->at[i];
		const struct point_group *g = &p->groups[at->group];
		fprintf(f, "%s,%s,%s,1,%s,%d,%d,%d,%d,,%.9g\n", p->models[g->model].name, p->devices[g->device].name,
			p->engines[g->engine], g->fp8 ? "fp8" : "", at->isl, at->osl, at->concurrency, g->tp,
			t[i].tpot);
	}
	fclose(f);
}

static void make_grid(struct points *p)
{
	char path[300];
	snprintf(path, sizeof path, "%s", temp_path("grid.csv"));
	FILE *f = fopen(path, "w");
	CU_ASSERT_PTR_NOT_NULL_FATAL(f);
	fputs(HEADER, f);
	for (int engine = 0; engine < 2; engine++)
		for (int tp = 1; tp <= 8; tp *= 2)
			for (int c = 4; c <= 64; c *= 4)
				for (int isl = 1024; isl <= 8192; isl *= 8)
					fprintf(f, "llama-3.1-8b,%s,%s,1,,%d,%d,%d,%d,,1\n",
						engine ? "h200" : "h100-sxm", engine ? "trtllm" : "vllm", isl,
						9216 - isl, c, tp);
	fclose(f);
	read_points(p, path);
}

static void a_fit_finds_what_points_were_made_with(void)
{
	struct points p;
	struct err e = {0};
	struct device devices[POINTS_KINDS * POINTS_KINDS];
	struct point_times t[64];
	struct points_fit fit;
	make_grid(&p);
	CHECK_INT(p.n, 48);
	CHECK_INT(points_devices(&p, devices, &e), ERR_NONE);
	for (int i = 0; i < POINTS_KINDS * POINTS_KINDS; i++) {
		devices[i].memory_efficiency = i % POINTS_KINDS ? 0.7 : 0.6;
		devices[i].step_ns = i / POINTS_KINDS ? 100e3 : 2e6;
		devices[i].collective_ns = 15e3;
	}
	CHECK_INT(points_predict(&p, devices, t, &e), ERR_NONE);
	char path[300];
	snprintf(path, sizeof path, "%s", temp_path("made.csv"));
	write_made(path, &p, t);
	points_free(&p);
	read_points(&p, path);
	const struct points_options o = {.max_evals = 3000, .leave_out = true};
	CHECK_INT(points_fit(&fit, &p, &o, &e), ERR_NONE);
	printf("made points: %.2f %%\n", 100 * fit.mape);
	CU_ASSERT(fit.mape < 0.01);
	CHECK_INT(fit.n_left_out, 4); /* one model: nothing to leave out */
	for (int32_t i = 0; i < fit.n_left_out; i++)
		CU_ASSERT(fit.left_out[i].mape < 0.06);
	for (int32_t v = 0; v < fit.n_values; v++) {
		const struct point_estimate *x = &fit.values[v];
		CU_ASSERT(x->sd >= 0 && x->value >= x->param->low && x->value <= x->param->high);
		/* Others stand in for a part of it, where they are believed no less. */
		if (strcmp(x->param->key, "memory_efficiency") == 0)
			CHECK_NEAR(x->value, x->of ? 0.7 : 0.6, 0.1);
	}
	points_fit_free(&fit);
	points_free(&p);
}

/* What the descriptions say they are good for: 354 measured points. */
static void h100_and_h200_are_within_a_few_percent_of_measured_servers(void)
{
	const char *path = shared_data("measured/silicon_h100_h200.csv");
	struct points p;
	struct err e = {0};
	struct device devices[POINTS_KINDS * POINTS_KINDS];
	struct points_fit fit;
	if (!path) {
		test_skip("no measurements here");
		return;
	}
	read_points(&p, path);
	CHECK_INT(p.n, 354);
	struct point_times *t = mem_zalloc((size_t)p.n, sizeof *t);
	CU_ASSERT_PTR_NOT_NULL_FATAL(t);
	CHECK_INT(points_devices(&p, devices, &e), ERR_NONE);
	CHECK_INT(points_predict(&p, devices, t, &e), ERR_NONE);
	printf("TPOT of %lld measured points: mean error %.1f %%\n", (long long)p.n, 100 * points_mape(&p, t, -1));
	CU_ASSERT(points_mape(&p, t, -1) < 0.06);
	for (int32_t g = 0; g < p.n_groups; g++)
		CU_ASSERT(points_mape(&p, t, g) < 0.12);
	const struct points_options o = {.max_evals = test_short() ? 100 : 1200, .leave_out = !test_short()};
	CHECK_INT(points_fit(&fit, &p, &o, &e), ERR_NONE);
	CU_ASSERT(fit.mape < 0.08);
	CHECK_INT(fit.n_left_out, test_short() ? 0 : 6);
	for (int32_t i = 0; i < fit.n_left_out; i++) {
		printf("fitted without %s: %.1f %% of it\n", fit.left_out[i].what, 100 * fit.left_out[i].mape);
		CU_ASSERT(fit.left_out[i].mape < 0.12);
	}
	points_fit_free(&fit);
	mem_free(t);
	points_free(&p);
}

int main(void)
{
	static const struct test tests[] = {
		{"bad_files_say_where_and_what", bad_files_say_where_and_what},
		{"memory_limits_who_runs_where_it_is_reserved", memory_limits_who_runs_where_it_is_reserved},
		{"a_fit_finds_what_points_were_made_with", a_fit_finds_what_points_were_made_with},
		{"h100_and_h200_are_within_a_few_percent_of_measured_servers",
		 h100_and_h200_are_within_a_few_percent_of_measured_servers},
	};
	return SUITE_RUN("analysis_points", tests);
}
