/* Devices: built-in figures, overriding, refusals. */
#include <stdio.h>
#include <string.h>

#include "core/err.h"
#include "models/device.h"
#include "tests/support/suite.h"

static struct device load(const char *name)
{
	struct device d;
	struct err e = {0};
	int rc = device_load(&d, name, &e);
	if (rc)
		fprintf(stderr, "%s\n", e.text);
	CU_ASSERT_EQUAL_FATAL(rc, ERR_NONE);
	return d;
}

static void every_device_asked_for_is_built_in(void)
{
	static const char *const names[] = {"a100-40g", "a100-80g",     "h100-sxm", "h100-pcie", "h200",
					    "b200",     "l40s",         "l4",       "a10g",      "rtx-3090",
					    "rtx-4090", "rtx-pro-6000", "mi300x",   "cpu"};
	char name[64];
	int32_t n = 0;
	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
		CHECK_STR(load(names[i]).name, names[i]);
	for (; device_name_at(n, name, sizeof name); n++) {
		struct device d = load(name);
		CU_ASSERT(d.memory_bytes > 0 && d.bandwidth > 0 && d.price_per_hour > 0 && d.power_w > 0);
		CU_ASSERT(*d.price_source && *d.price_date && *d.title);
		/* the box's decimal GB and what a program sees are not the same, but near */
		CHECK_NEAR((double)d.memory_bytes / (double)d.nominal_bytes, 1.03, 0.08);
	}
	CU_ASSERT(n >= 14);
}

static void units_of_the_files_become_si(void)
{
	struct device d = load("h100-sxm");
	CHECK_NEAR(d.bandwidth, 3.35e12, 1);
	CHECK_NEAR(d.peak[DTYPE_BF16], 989.4e12, 1e6);
	CHECK_NEAR(d.link_bandwidth, 450e9, 1);
	CHECK_NEAR(d.step_ns, 930e3, 1e-6);
	CHECK_INT(d.nominal_bytes, INT64_C(80000000000));
	CHECK_INT(load("rtx-4090").memory_bytes, INT64_C(25250627584));
}

static void aliases_and_spellings_work(void)
{
	CHECK_STR(load("H100").name, "h100-sxm");
	CHECK_STR(load("h100_sxm").name, "h100-sxm");
	CHECK_STR(load("a100-80gb").name, "a100-80g");
	CHECK_STR(load("RTX4090").name, "rtx-4090");
	struct device d;
	struct err e = {0};
	CHECK_INT(device_load(&d, "h100-smx", &e), ERR_INPUT);
	CU_ASSERT_PTR_NOT_NULL(strstr(e.text, "h100-sxm"));
}

static void a_file_overrides_what_it_names(void)
{
	const char *path =
		temp_file("mine.json", "{\"base\": \"h100-sxm\", \"memory_bytes\": 60e9, \"price_per_hour\": 1.5, "
				       "\"peak_tflops\": {\"bf16\": 500}, \"step_us\": 7}");
	struct device d = load(path), base = load("h100-sxm");
	CHECK_STR(d.name, "mine");
	CHECK_INT(d.memory_bytes, INT64_C(60000000000));
	CHECK_NEAR(d.peak[DTYPE_BF16], 500e12, 1);
	CHECK_NEAR(d.peak[DTYPE_FP8], base.peak[DTYPE_FP8], 0);
	CHECK_NEAR(d.bandwidth, base.bandwidth, 0);
	CHECK_NEAR(d.price_per_hour, 1.5, 1e-12);
	CHECK_NEAR(d.step_ns, 7000, 1e-9);
}

static void a_device_of_its_own_needs_three_figures(void)
{
	struct device d;
	struct err e = {0};
	CHECK_INT(device_parse(&d, "{\"memory_bytes\": 8e9, \"bandwidth_gb_s\": 100, \"peak_tflops\": {\"fp32\": 1}}",
			       "x", &e),
		  ERR_NONE);
	CHECK_INT(d.nominal_bytes, INT64_C(8000000000));
	CHECK_NEAR(device_peak(&d, DTYPE_FP8), 1e12, 0); /* no bf16, no fp8: what there is */
	CHECK_NEAR(device_peak(&d, DTYPE_BF16), 1e12, 0);
}

static void weights_without_native_arithmetic_run_at_bf16(void)
{
	struct device a100 = load("a100-80g"), h100 = load("h100-sxm");
	CHECK_NEAR(device_peak(&a100, DTYPE_FP8), a100.peak[DTYPE_BF16], 0);
	CHECK_NEAR(device_peak(&h100, DTYPE_FP8), h100.peak[DTYPE_FP8], 0);
	CHECK_NEAR(device_peak(&h100, DTYPE_INT4), h100.peak[DTYPE_BF16], 0);
}

static void bad_files_say_what_is_wrong(void)
{
	static const struct {
		const char *text, *says;
	} bad[] = {
		{"{\"base\": \"h100-sxm\", \"bandwith_gb_s\": 1}", "unknown key \"bandwith_gb_s\""},
		{"{\"base\": \"h100-sxm\", \"bandwidth_gb_s\": \"fast\"}", "bandwidth_gb_s must be a number"},
		{"{\"base\": \"h100-sxm\", \"bandwidth_gb_s\": 0}", "bandwidth_gb_s is 0"},
		{"{\"base\": \"h100-sxm\", \"bandwidth_gb_s\": -5}", "bandwidth_gb_s is -5"},
		{"{\"base\": \"h100-sxm\", \"memory_bytes\": 1e300}", "memory_bytes is 1e+300"},
		{"{\"base\": \"h100-sxm\", \"memory_bytes\": 0}", "memory_bytes is 0"},
		{"{\"base\": \"h100-sxm\", \"gemm_efficiency\": 1.5}", "gemm_efficiency is 1.5"},
		{"{\"base\": \"h100-sxm\", \"peak_tflops\": 3}", "peak_tflops must be an object"},
		{"{\"base\": \"h100-sxm\", \"peak_tflops\": {\"fp9\": 3}}", "unknown type \"fp9\""},
		{"{\"base\": \"h100-sxm\", \"title\": 3}", "title must be a string"},
		{"{\"base\": \"h100-smx\"}", "h100-sxm"},
		{"{\"base\": \"./self.json\"}", "base must be the name"},
		{"{}", "memory_bytes is missing"},
		{"{\"memory_bytes\": 1e9}", "bandwidth_gb_s is missing"},
		{"{\"memory_bytes\": 1e9, \"bandwidth_gb_s\": 1}", "peak_tflops"},
		{"{\"memory_bytes\": 1e9, \"memory_bytes\": 2e9}", "duplicate"},
		{"{", "not valid JSON"},
		{"{\"base\": \"h100-sxm\", \"engines\": 3}", "engines must be an object"},
		{"{\"base\": \"h100-sxm\", \"engines\": {\"x\": 3}}", "the engine x must be an object"},
		{"{\"base\": \"h100-sxm\", \"engines\": {\"x\": {\"step\": 3}}}", "unknown key \"step\""},
		{"{\"base\": \"h100-sxm\", \"engines\": {\"x\": {\"step_us\": -3}}}", "step_us is -3"},
		{"{\"base\": \"h100-sxm\", \"engines\": {\"x\": {\"title\": \"y\"}}}", "unknown key \"title\""},
	};
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		struct device d;
		struct err e = {0};
		CHECK_INT(device_parse(&d, bad[i].text, "dev.json", &e), ERR_INPUT);
		if (!strstr(e.text, bad[i].says))
			fprintf(stderr, "wanted \"%s\" in \"%s\"\n", bad[i].says, e.text);
		CU_ASSERT_PTR_NOT_NULL(strstr(e.text, bad[i].says));
	}
}

/* Silicon is the same whoever drives it; the host's work and the collectives are not. */
static void engines_have_their_own_times(void)
{
	struct device plain = load("h100-sxm"), vllm = load("h100-sxm@vllm"), trtllm = load("H100@trtllm"), mine;
	struct err e = {0};
	CHECK_STR(plain.engine, "vllm");
	CHECK_STR(trtllm.engine, "trtllm");
	CHECK_STR(plain.name, "h100-sxm");
	CHECK_STR(trtllm.name, "h100-sxm@trtllm");
	CHECK_NEAR(vllm.step_ns, plain.step_ns, 0);
	CHECK_NEAR(vllm.collective_ns, plain.collective_ns, 0);
	CU_ASSERT(trtllm.step_ns < plain.step_ns);
	CU_ASSERT(trtllm.collective_ns < plain.collective_ns);
	CHECK_NEAR(trtllm.gemm_efficiency, plain.gemm_efficiency, 0);
	CHECK_INT(device_load(&mine, "h100-sxm@sglang", &e), ERR_INPUT);
	CU_ASSERT_PTR_NOT_NULL(strstr(e.text, "known: vllm trtllm"));
	err_clear(&e);
	CHECK_INT(device_load(&mine, "l4@vllm", &e), ERR_INPUT);
	CU_ASSERT_PTR_NOT_NULL(strstr(e.text, "leave out the @"));
	err_clear(&e);
	CHECK_INT(device_load(&mine, "h1000@vllm", &e), ERR_INPUT);
	const char *path =
		temp_file("of@mine.json", "{\"base\": \"h100-sxm@trtllm\", \"engines\": {\"own\": {\"step_us\": 7}}}");
	char own[300];
	mine = load(path);
	CHECK_NEAR(mine.step_ns, trtllm.step_ns, 0);
	CHECK_STR(mine.engine, "trtllm");
	snprintf(own, sizeof own, "%s@own", path);
	mine = load(own);
	CHECK_NEAR(mine.step_ns, 7e3, 1e-9);
	CHECK_NEAR(mine.request_ns, trtllm.request_ns, 0);
}

int main(void)
{
	static const struct test tests[] = {
		{"every_device_asked_for_is_built_in", every_device_asked_for_is_built_in},
		{"units_of_the_files_become_si", units_of_the_files_become_si},
		{"aliases_and_spellings_work", aliases_and_spellings_work},
		{"a_file_overrides_what_it_names", a_file_overrides_what_it_names},
		{"a_device_of_its_own_needs_three_figures", a_device_of_its_own_needs_three_figures},
		{"weights_without_native_arithmetic_run_at_bf16", weights_without_native_arithmetic_run_at_bf16},
		{"engines_have_their_own_times", engines_have_their_own_times},
		{"bad_files_say_what_is_wrong", bad_files_say_what_is_wrong},
	};
	return SUITE_RUN("models_device", tests);
}
