/* Every allocation of generating, slicing, shaping and writing (in each format) a workload with sessions, links and
 * shared content fails once. */
#include <stdio.h>
#include <string.h>

#include "core/err.h"
#include "tests/support/failing_mem.h"
#include "tests/support/suite.h"
#include "traces/fetch.h"
#include "traces/generate.h"
#include "traces/generate_agents.h"
#include "traces/info.h"
#include "traces/shape.h"
#include "traces/subset.h"
#include "traces/writer.h"

static int make(struct workload *w, struct err *e)
{
	struct generate g;
	generate_default(&g);
	g.n = 40;
	g.input = (struct dist){.kind = DIST_UNIFORM, .a = 4, .b = 40};
	g.output = (struct dist){.kind = DIST_UNIFORM, .a = 4, .b = 40};
	g.turns = (struct dist){.kind = DIST_UNIFORM, .a = 1, .b = 4};
	g.think = (struct dist){.kind = DIST_EXPONENTIAL, .a = 1, .hi = 100};
	g.system_tokens = 10;
	return generate_workload(w, &g, e);
}

static int generating(void *ctx, char text[1024])
{
	(void)ctx;
	struct workload w = {0};
	struct err e = {0};
	int rc = make(&w, &e);
	CU_ASSERT(rc == ERR_NONE || w.n == 0);
	workload_free(&w);
	snprintf(text, 1024, "%s", e.text);
	return rc;
}

static int making_agents(void *ctx, char text[1024])
{
	(void)ctx;
	struct workload w = {0};
	struct generate_agents g;
	struct err e = {0};
	generate_agents_default(&g);
	g.workflows = 3;
	g.branches = g.depth = 2;
	int rc = generate_agents(&w, &g, &e);
	CU_ASSERT(rc == ERR_NONE || w.n == 0);
	workload_free(&w);
	snprintf(text, 1024, "%s", e.text);
	return rc;
}

static int shaping(void *ctx, char text[1024])
{
	(void)ctx;
	struct workload w = {0};
	struct slice part;
	struct shape shape;
	struct info info;
	struct err e = {0};
	slice_default(&part);
	part.start_ns = 3 * NS_PER_S;
	part.every = 2;
	shape_default(&shape);
	shape.num_prompts = 12;
	shape.length_scale = 0.3;
	shape.request_rate = 5;
	int rc = make(&w, &e);
	if (!rc)
		rc = slice_apply(&w, &part, NULL, &e);
	if (!rc)
		rc = shape_apply(&w, &shape, &e);
	if (!rc)
		rc = info_compute(&w, &info, &e);
	workload_free(&w);
	snprintf(text, 1024, "%s", e.text);
	return rc;
}

static int writing(void *ctx, char text[1024])
{
	enum writer_format format = *(enum writer_format *)ctx;
	struct workload w = {0};
	struct writer_loss loss;
	struct err e = {0};
	int rc = make(&w, &e);
	if (!rc)
		rc = writer_file(temp_path("failmem_out"), format, &w, &loss, &e);
	workload_free(&w);
	snprintf(text, 1024, "%s", e.text);
	return rc;
}

/* A file that is there already: no network, but paths and a checksum. */
static int checking(void *ctx, char text[1024])
{
	struct fetch_request q = {.url = "http://127.0.0.1:1/", .path = ctx};
	struct fetch_result r;
	struct err e = {0};
	int rc = fetch_file(&q, &r, &e);
	CU_ASSERT(rc != ERR_NONE || (r.existed && r.bytes == 6));
	snprintf(text, 1024, "%s", e.text);
	return rc;
}

static void checking_a_download_survives(void)
{
	char path[1024];
	snprintf(path, sizeof path, "%s", temp_file("failmem_trace", "a file"));
	CHECK_INT(failing_mem_each(checking, path, 0), 5);
}

static void generating_survives(void)
{
	CU_ASSERT(failing_mem_each(generating, NULL, 0) > 20);
}

static void making_agents_survives(void)
{
	CU_ASSERT(failing_mem_each(making_agents, NULL, 0) > 15);
}

static void shaping_survives(void)
{
	CU_ASSERT(failing_mem_each(shaping, NULL, 0) > 30);
}

static void writing_survives_in_every_format(void)
{
	for (int f = 0; f < WRITER_FORMATS; f++) {
		enum writer_format format = (enum writer_format)f;
		CU_ASSERT(failing_mem_each(writing, &format, 0) > 25);
	}
}

int main(void)
{
	static const struct test tests[] = {
		{"generating_survives", generating_survives},
		{"making_agents_survives", making_agents_survives},
		{"shaping_survives", shaping_survives},
		{"writing_survives_in_every_format", writing_survives_in_every_format},
		{"checking_a_download_survives", checking_a_download_survives},
	};
	return SUITE_RUN("failmem_trace_tools", tests);
}
