/* Every allocation of reading a profile and of asking it fails once. (Storing: SQLite's are in store.c's way.) */
#include <stdio.h>
#include <string.h>

#include "analysis/profile_import.h"
#include "analysis/profile_json.h"
#include "analysis/profile_measure.h"
#include "core/err.h"
#include "sim/cost_models.h"
#include "tests/support/failing_mem.h"
#include "tests/support/suite.h"

struct files {
	char *paths[2];
	int32_t n;
};

static int read_and_ask(void *ctx, char text[1024])
{
	const struct files *f = ctx;
	const struct profile_import o = {.model = "llama-2-7b", .device = "a100-80g", .fill = true};
	struct profile p;
	struct cost *c = NULL;
	struct cost_setup s;
	struct err e = {0};
	cost_setup_default(&s, NULL, NULL);
	s.profile = &p;
	int rc = profile_import_files(&p, f->paths, f->n, &o, &e);
	if (rc == ERR_NONE)
		rc = cost_open(&c, "profiled:x,step=1us", &s, &e);
	if (rc == ERR_NONE) {
		struct cost_time t;
		const struct batch b = {.decodes = 3, .decode_ctx = 300, .decode_ctx_window = 300, .sampled = 3};
		cost_step(c, &b, &t);
		cost_free(c);
	}
	profile_free(&p);
	snprintf(text, 1024, "%s", e.text);
	return rc;
}

static void tables_are_read_without_leaks(void)
{
	struct files f = {{(char *)"tests/corpus/profile/linear.csv", (char *)"tests/corpus/profile/attention.csv"}, 2};
	CU_ASSERT(failing_mem_each(read_and_ask, &f, 0) > 20);
}

static int read_back(void *ctx, char text[1024])
{
	const struct profile_import o = {0};
	struct profile p;
	struct err e = {0};
	char *paths[] = {ctx};
	int rc = profile_import_files(&p, paths, 1, &o, &e);
	profile_free(&p);
	snprintf(text, 1024, "%s", e.text);
	return rc;
}

static void exports_are_read_without_leaks(void)
{
	CU_ASSERT(failing_mem_each(read_back, (char *)"tests/corpus/profile/export.json", 0) >= 4);
}

static struct profiler_shot shots[40];

static int make_points(void *ctx, char text[1024])
{
	struct profile p = {.layers = 4};
	struct err e = {0};
	int rc = profile_from_samples(&p, ctx, &e);
	profile_free(&p);
	snprintf(text, 1024, "%s", e.text);
	return rc;
}

static void samples_become_points_without_leaks(void)
{
	struct profiler_result r = {.shots = shots, .n_shots = 40, .layers = 1};
	for (int i = 0; i < 40; i++)
		shots[i] = (struct profiler_shot){.decodes = i % 3 ? i : 0,
						  .decode_ctx = 5,
						  .chunk = i % 3 == 0 || i % 5 == 0 ? i + 1 : 0,
						  .head = true,
						  .n = 3,
						  .samples = {{.part_ns = {1, 2, 3, 4}, .total_ns = 20}}};
	CU_ASSERT(failing_mem_each(make_points, &r, 0) >= 5);
}

/* The kernels' own memory is theirs; the runner's and the profiler's is ours. */
static int measure(void *ctx, char text[1024])
{
	struct profile p;
	struct profile_measured did;
	struct profile_measure o;
	struct err e = {0};
	(void)ctx;
	profile_measure_default(&o);
	o.model = "stories-260k";
	o.threads = 1;
	o.max_tokens = o.max_seqs = 2;
	o.max_context = 16;
	o.budget_s = 0.05;
	int rc = profile_measure(&p, &did, &o, &e);
	profile_free(&p);
	snprintf(text, 1024, "%s", e.text);
	/* A busy machine may leave too little time to measure anything: not what is asked here. */
	return rc == ERR_INPUT && strstr(e.text, "budget") ? ERR_NONE : rc;
}

static void measuring_leaves_nothing_behind(void)
{
	CU_ASSERT(failing_mem_each(measure, NULL, 60) >= 40);
}

int main(void)
{
	static const struct test tests[] = {
		{"tables_are_read_without_leaks", tables_are_read_without_leaks},
		{"exports_are_read_without_leaks", exports_are_read_without_leaks},
		{"samples_become_points_without_leaks", samples_become_points_without_leaks},
		{"measuring_leaves_nothing_behind", measuring_leaves_nothing_behind},
	};
	return SUITE_RUN("failmem_profile", tests);
}
