/* Every allocation of an explanation fails once: history, causes, one request in detail, the ranking. */
#include <stdio.h>
#include <string.h>

#include "analysis/explain.h"
#include "analysis/explain_rank.h"
#include "analysis/explain_whatif.h"
#include "analysis/run.h"
#include "core/err.h"
#include "core/rng.h"
#include "tests/support/failing_mem.h"
#include "tests/support/suite.h"

static struct workload work;

static void make_work(void)
{
	struct rng r;
	struct err e = {0};
	workload_init(&work);
	rng_init(&r, 5, 0);
	for (int i = 0; i < 30; i++) {
		struct spec s = {.arrival_ns = i / 6 * 20 * NS_PER_MS, .name_at = -1, .session = -1, .row = i + 1};
		s.prompt_tokens = 8 + (int32_t)rng_below(&r, 64);
		s.output_tokens = 1 + (int32_t)rng_below(&r, 40);
		workload_add(&work, &s, &e);
	}
	workload_set_max_tokens(&work, MAX_TOKENS_MAX, 64);
	CHECK_INT(e.code, ERR_NONE);
}

struct told {
	struct history *h;
	struct explain x;
};

static void on_engine(void *ctx, const struct engine *g)
{
	history_engine(((struct told *)ctx)->h, g);
}

static void on_event(void *ctx, const struct event *ev)
{
	history_event(((struct told *)ctx)->h, ev);
}

static void on_step(void *ctx, const struct step_row *row)
{
	history_step(((struct told *)ctx)->h, row);
}

static int before(void *ctx, struct backend *b, struct err *e)
{
	return explain_stand_before(&((struct told *)ctx)->x, b, e);
}

static int tell(struct told *t, const struct run_settings *s, struct run_result *r, struct err *e)
{
	struct explain_rank rank;
	int rc = explain_init(&t->x, &work, 20, NULL, e);
	const struct history_sink sink = explain_sink(&t->x);
	if (rc == ERR_NONE)
		rc = history_create(&t->h, work.n, &sink, e);
	const struct run_io io = {
		.ctx = t, .engine = on_engine, .event = on_event, .step = on_step, .stand_before = before};
	if (rc == ERR_NONE)
		rc = run_execute(s, &work, &io, r, e);
	if (rc == ERR_NONE)
		rc = history_finish(t->h, e);
	if (rc == ERR_NONE)
		rc = explain_finish(&t->x, e);
	return rc ? rc : explain_rank(&t->x, r->requests, EXPLAIN_TTFT, 90, &rank, e);
}

static int once(void *ctx, char text[1024])
{
	struct told t = {.x.focus.req = -1};
	struct run_settings s;
	struct run_result r = {0};
	struct err e = {0};
	(void)ctx;
	run_settings_default(&s);
	s.policy = "vllm_v1";
	s.cost = "linear:a=5ms,b=20us,c=1ms";
	s.engine.max_num_seqs = 8;
	s.engine.queue_order = QUEUE_PRIORITY;
	s.num_gpu_blocks_override = 12;
	int rc = tell(&t, &s, &r, &e);
	history_free(t.h);
	explain_free(&t.x);
	run_result_free(&r);
	snprintf(text, 1024, "%s", e.text);
	return rc;
}

static void an_explanation_survives(void)
{
	make_work();
	CU_ASSERT(failing_mem_each(once, NULL, 0) > 10);
	workload_free(&work);
}

/* A what-if that finds no memory is no what-if that was refused. */
static int whatif_once(void *ctx, char text[1024])
{
	struct whatif w = {0};
	struct err e = {0};
	const struct run_io io = {0};
	(void)ctx;
	run_settings_default(&w.s);
	w.s.policy = "vllm_v1";
	w.s.cost = "constant:10ms";
	w.s.num_gpu_blocks_override = 12;
	int rc = whatif_run(&w, &work, 99, &io, &e);
	CU_ASSERT(rc != ERR_NONE || w.ran);
	snprintf(text, 1024, "%s", e.text);
	return rc;
}

static void a_what_if_survives(void)
{
	make_work();
	CU_ASSERT(failing_mem_each(whatif_once, NULL, 0) > 10);
	workload_free(&work);
}

int main(void)
{
	static const struct test tests[] = {
		{"an_explanation_survives", an_explanation_survives},
		{"a_what_if_survives", a_what_if_survives},
	};
	return SUITE_RUN("explain", tests);
}
