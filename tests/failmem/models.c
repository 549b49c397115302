/* Every allocation of reading a model and a device, and of making each cost model, fails once. */
#include <stdio.h>
#include <string.h>

#include "core/err.h"
#include "sim/capacity.h"
#include "sim/cost_models.h"
#include "tests/support/failing_mem.h"
#include "tests/support/suite.h"

struct words {
	const char *model, *device, *cost;
};

static int open_all(void *ctx, char text[1024])
{
	const struct words *w = ctx;
	struct model m = {0};
	struct device d;
	struct cost *c = NULL;
	struct capacity_options o;
	struct capacity cap;
	struct err e = {0};
	int rc = model_load(&m, w->model, &e);
	if (rc == ERR_NONE)
		rc = device_load(&d, w->device, &e);
	if (rc == ERR_NONE) {
		struct cost_setup s;
		cost_setup_default(&s, &m, &d);
		rc = cost_open(&c, w->cost, &s, &e);
	}
	capacity_options_default(&o);
	if (rc == ERR_NONE)
		rc = capacity_compute(&cap, &m, &d, &o, &e);
	cost_free(c);
	model_free(&m);
	snprintf(text, 1024, "%s", e.text);
	return rc;
}

static void built_in_models_need_little_and_give_it_back(void)
{
	static const char *const costs[] = {"roofline:gemm=0.5", "linear:a=1ms", "constant:1ms"};
	for (int i = 0; i < 3; i++) {
		struct words w = {"gpt-oss-20b", "h100", costs[i]};
		/* the layers, the cost model, and roofline's three tables */
		CHECK_INT(failing_mem_each(open_all, &w, 0), i == 0 ? 5 : 2);
	}
}

static void files_are_read_without_leaks(void)
{
	struct words w = {.cost = "roofline"};
	w.model = temp_file("model.json", "{\"model_type\": \"llama\", \"hidden_size\": 8, \"num_hidden_layers\": 2, "
					  "\"num_attention_heads\": 2, \"vocab_size\": 32, \"intermediate_size\": 16, "
					  "\"max_position_embeddings\": 64}");
	w.device = temp_file("device.json", "{\"base\": \"h100-sxm\", \"step_us\": 5}");
	CU_ASSERT(failing_mem_each(open_all, &w, 0) >= 7);
}

int main(void)
{
	static const struct test tests[] = {
		{"built_in_models_need_little_and_give_it_back", built_in_models_need_little_and_give_it_back},
		{"files_are_read_without_leaks", files_are_read_without_leaks},
	};
	return SUITE_RUN("failmem_models", tests);
}
