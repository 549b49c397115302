/* The executor as a backend: its clock, what a step's time is made of, ends of sequences, and that a wrong page is
 * reported by name. */
#include <signal.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>

#include "exec/backend.h"
#include "exec/prompts.h"
#include "tests/support/sched.h"
#include "tests/support/suite.h"
#include "tests/support/tiny.h"

/* One policy over a few requests, on real kernels. */
struct stage {
	struct sched s;
	struct tiny tiny;
	struct runner *runner;
	struct sequences *sequences;
	struct exec_setup setup;
	struct backend backend;
};

static void stage_init(struct stage *g, const char *policy, const char *params)
{
	memset(g, 0, sizeof *g);
	sched_init(&g->s, policy, params);
	g->s.cfg.exact_walk = true;
	g->setup.check = true;
}

static void stage_open(struct stage *g)
{
	const struct engine_config *c = &g->s.cfg;
	CU_ASSERT_EQUAL_FATAL(sched_open(&g->s), ERR_NONE);
	tiny_open(&g->tiny, NULL, 1);
	g->runner = tiny_runner(
		&g->tiny, (struct runner_setup){.n_pages = c->num_blocks, .block_size = c->block_size, .check = true});
	CU_ASSERT_EQUAL_FATAL(sequences_create(&g->sequences, &g->s.w, TINY_VOCAB, 9, c->prefix_caching, &g->s.err), 0);
	g->setup.runner = g->runner;
	g->setup.sequences = g->sequences;
	CU_ASSERT_EQUAL_FATAL(exec_backend_create(&g->backend, &g->setup, &g->s.err), ERR_NONE);
}

static int stage_run(struct stage *g)
{
	return engine_run(g->s.engine, &g->backend, NULL, &g->s.err);
}

static void stage_close(struct stage *g)
{
	exec_backend_free(&g->backend);
	sched_close(&g->s);
	sequences_free(g->sequences);
	runner_free(g->runner);
	tiny_close(&g->tiny);
	sched_free(&g->s);
}

/* What request i says when it is served alone. */
static void alone(struct stage *g, int32_t i, int32_t n, int32_t *out)
{
	int32_t prompt[256];
	prompt_fill(&g->s.w, i, 9, TINY_VOCAB, prompt);
	tiny_alone(&g->tiny, NUM_F32, true, i, prompt, g->s.w.specs[i].prompt_tokens, n, out);
}

static int64_t wall_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * NS_PER_S + t.tv_nsec;
}

/* --- the clock ---------------------------------------------------------------------------------------------------- */

static void warp_skips_what_is_idle_and_nothing_else(void)
{
	struct stage g;
	stage_init(&g, "continuous", NULL);
	sched_add(&g.s, 0, 9, 4);
	sched_add(&g.s, 3600 * NS_PER_S, 9, 4);
	stage_open(&g);
	int64_t before_ns = wall_ns();
	CHECK_INT(stage_run(&g), ERR_NONE);
	int64_t took_ns = wall_ns() - before_ns;
	struct engine_stats t;
	engine_stats(g.s.engine, &t);
	CHECK_INT(t.finished, 2);
	CU_ASSERT(took_ns < 60 * NS_PER_S); /* and not an hour */
	CU_ASSERT(g.s.requests[1].first_token_ns > 3600 * NS_PER_S);
	/* The second is served at once when it comes, and what is called busy was really spent. */
	CHECK_INT(g.s.requests[1].first_sched_ns >= 3600 * NS_PER_S, 1);
	CU_ASSERT(t.busy_ns > 0 && t.busy_ns <= took_ns);
	CU_ASSERT(t.end_ns - 3600 * NS_PER_S <= took_ns);
	stage_close(&g);
}

static void wall_waits_for_arrivals(void)
{
	struct stage g;
	stage_init(&g, "continuous", NULL);
	g.setup.time = EXEC_WALL;
	sched_add(&g.s, 0, 5, 2);
	sched_add(&g.s, 150 * NS_PER_MS, 5, 2);
	stage_open(&g);
	int64_t before_ns = wall_ns();
	CHECK_INT(stage_run(&g), ERR_NONE);
	CU_ASSERT(wall_ns() - before_ns >= 150 * NS_PER_MS);
	CU_ASSERT(g.s.requests[1].first_sched_ns >= 150 * NS_PER_MS);
	stage_close(&g);
}

static volatile int stopped;

static void on_alarm(int signal)
{
	(void)signal;
	stopped = 1;
}

static void a_wait_ends_when_the_run_is_stopped(void)
{
	struct stage g;
	struct itimerval soon = {.it_value.tv_usec = 60000};
	stage_init(&g, "continuous", NULL);
	g.setup.time = EXEC_WALL;
	g.setup.stop = &stopped;
	sched_add(&g.s, 3600 * NS_PER_S, 5, 2);
	stage_open(&g);
	signal(SIGALRM, on_alarm);
	setitimer(ITIMER_REAL, &soon, NULL);
	CHECK_INT(stage_run(&g), ERR_INTERRUPTED);
	stage_close(&g);
}

/* Between a step's end and the next plan the clock stands still: busy steps follow each other without gaps, and planning is
 * inside. */
static void steps_follow_each_other_and_their_parts_add_up(void)
{
	for (int async = 0; async < 2; async++) {
		struct stage g;
		stage_init(&g, "chunked", NULL);
		g.s.cfg.async_scheduling = async;
		for (int i = 0; i < 5; i++)
			sched_add(&g.s, 0, 20, 12);
		stage_open(&g);
		int64_t before_ns = wall_ns();
		CHECK_INT(stage_run(&g), ERR_NONE);
		int64_t took_ns = wall_ns() - before_ns, sum_ns = 0, parts[STEP_PARTS] = {0};
		CU_ASSERT(g.s.n_steps > 10);
		for (int64_t i = 0; i < g.s.n_steps; i++) {
			const struct step_row *r = &g.s.steps[i];
			int64_t split_ns = r->host_ns;
			CHECK_INT(r->start_ns, i ? r[-1].end_ns : 0);
			for (int p = 0; p < STEP_PARTS; p++) {
				CU_ASSERT(r->part_ns[p] >= 0);
				split_ns += r->part_ns[p];
				parts[p] += r->part_ns[p];
			}
			CHECK_INT(split_ns, r->end_ns - r->start_ns);
			CU_ASSERT(r->host_ns > 0);
			sum_ns += r->end_ns - r->start_ns;
		}
		for (int p = 0; p < STEP_PARTS; p++)
			CU_ASSERT(parts[p] > 0);
		CU_ASSERT(sum_ns <= took_ns);
		stage_close(&g);
	}
}

static void nothing_to_wait_for_is_an_error_and_not_for_ever(void)
{
	struct stage g;
	stage_init(&g, "continuous", NULL);
	sched_add(&g.s, 0, 5, 2);
	for (int wall = 0; wall < 2; wall++) {
		g.setup.time = wall ? EXEC_WALL : EXEC_WARP;
		stage_open(&g);
		CHECK_INT(g.backend.ops->wait_until(g.backend.self, INT64_MAX, &g.s.err), ERR_STALL);
		exec_backend_free(&g.backend);
		sched_close(&g.s);
		sequences_free(g.sequences);
		runner_free(g.runner);
		tiny_close(&g.tiny);
	}
	sched_free(&g.s);
}

/* --- ends --------------------------------------------------------------------------------------------------------- */

/* The first of its tokens that did not come before, from the fourth on. */
static int32_t new_token(const int32_t *tokens, int32_t n)
{
	for (int32_t i = 3; i < n; i++) {
		bool old = false;
		for (int32_t k = 0; k < i; k++)
			old |= tokens[k] == tokens[i];
		if (!old)
			return i;
	}
	return -1;
}

static void an_end_of_sequence_ends_a_request_that_may_end(void)
{
	for (int async = 0; async < 2; async++) {
		struct stage g;
		int32_t said[30], n;
		stage_init(&g, "continuous", NULL);
		g.s.cfg.async_scheduling = async;
		sched_add(&g.s, 0, 14, 30);
		sched_add(&g.s, 0, 14, 30);
		sched_add(&g.s, 0, 14, 30);
		g.s.w.specs[1].output_id = 99; /* the trace tells its output */
		stage_open(&g);
		alone(&g, 0, 30, said);
		int32_t end = new_token(said, 30);
		CU_ASSERT_FATAL(end > 0);
		/* Its own fourth or later token ends it, and two that the told output has. */
		int32_t eos[3] = {said[end], prompt_token(&g.s.w, 9, 99, 2, TINY_VOCAB),
				  prompt_token(&g.s.w, 9, 99, 20, TINY_VOCAB)};
		exec_backend_free(&g.backend);
		g.setup.eos = eos;
		g.setup.n_eos = 1;
		for (int k = 1; k < 3; k++) { /* those of the told output, unless they would end the first one sooner */
			bool said_before = false;
			for (int32_t i = 0; i < end; i++)
				said_before |= said[i] == eos[k];
			if (!said_before)
				eos[g.setup.n_eos++] = eos[k];
		}
		CU_ASSERT_EQUAL_FATAL(exec_backend_create(&g.backend, &g.setup, &g.s.err), ERR_NONE);
		CHECK_INT(stage_run(&g), ERR_NONE);
		CHECK_INT(g.s.requests[0].outputs, end + 1);
		CHECK_INT(g.s.requests[1].outputs, 30);
		const int32_t *out = sequences_outputs(g.sequences, 0, &n);
		CHECK_INT(n, end + 1);
		CHECK_INT(memcmp(out, said, (size_t)n * sizeof *out), 0);
		struct engine_stats t;
		engine_stats(g.s.engine, &t);
		CHECK_INT(t.wasted_tokens > 0, async);
		stage_close(&g);
	}
}

static void without_ends_given_the_trace_decides(void)
{
	struct stage g;
	int32_t n;
	stage_init(&g, "naive", NULL);
	sched_add(&g.s, 0, 3, 40);
	sched_add(&g.s, 0, 30, 2); /* held until the other has finished */
	sched_add(&g.s, 0, 8, 0); /* says nothing at all */
	stage_open(&g);
	CHECK_INT(stage_run(&g), ERR_NONE);
	sequences_outputs(g.sequences, 0, &n);
	CHECK_INT(n, 40);
	sequences_outputs(g.sequences, 1, &n);
	CHECK_INT(n, 2);
	sequences_outputs(g.sequences, 2, &n);
	CHECK_INT(n, 0);
	stage_close(&g);
}

/* --- a request taken out while its rows are in flight ------------------------------------------------------------- */

static void an_abort_in_flight_is_survived(void)
{
	struct stage g;
	int32_t said[20], n;
	stage_init(&g, "continuous", NULL);
	g.s.cfg.async_scheduling = true;
	sched_add(&g.s, 0, 10, 20);
	sched_add(&g.s, 0, 10, 20);
	stage_open(&g);
	struct backend *b = &g.backend;
	CHECK_INT(b->ops->init(b->self, g.s.engine, &g.s.err), ERR_NONE);
	for (int64_t k = 0, in_flight = 0; k < 200; k++) {
		const struct batch *batch;
		enum engine_next next;
		struct step_result res;
		int64_t until;
		CU_ASSERT_EQUAL_FATAL(engine_begin(g.s.engine, b->ops->now(b->self), &next, &batch, &until, &g.s.err),
				      0);
		if (next == ENGINE_DONE)
			break;
		if (next == ENGINE_BATCH) {
			CU_ASSERT_EQUAL_FATAL(b->ops->submit(b->self, batch, &g.s.err), ERR_NONE);
			in_flight++;
		}
		if (k == 6) /* two steps with rows of it are in flight */
			CU_ASSERT_EQUAL_FATAL(engine_abort(g.s.engine, 1, b->ops->now(b->self), REQUEST_WHY_USER, NULL),
					      0);
		if (in_flight < 2 && next == ENGINE_BATCH)
			continue;
		CU_ASSERT_EQUAL_FATAL(b->ops->wait(b->self, &res, &g.s.err), ERR_NONE);
		CU_ASSERT_EQUAL_FATAL(engine_end(g.s.engine, &res, &g.s.err), ERR_NONE);
		in_flight--;
	}
	CHECK_INT(g.s.requests[0].state, REQUEST_FINISHED);
	CHECK_INT(g.s.requests[1].state, REQUEST_ABORTED);
	alone(&g, 0, 20, said);
	const int32_t *out = sequences_outputs(g.sequences, 0, &n);
	CHECK_INT(n, 20);
	CHECK_INT(memcmp(out, said, sizeof said), 0);
	stage_close(&g);
}

/* --- --check ------------------------------------------------------------------------------------------------------ */

/* Runs until step 5 is planned, then makes request 1 read request 0's second page for its own. */
static int run_with_a_wrong_page(struct stage *g)
{
	struct backend *b = &g->backend;
	int rc = b->ops->init(b->self, g->s.engine, &g->s.err);
	for (int64_t k = 0; !rc && k < 100; k++) {
		const struct batch *batch;
		enum engine_next next;
		struct step_result res;
		int64_t until;
		rc = engine_begin(g->s.engine, b->ops->now(b->self), &next, &batch, &until, &g->s.err);
		if (rc || next == ENGINE_DONE)
			return rc;
		if (k == 5) {
			int32_t n;
			const int32_t *mine = engine_block_table(g->s.engine, 1, &n);
			const int32_t *others = engine_block_table(g->s.engine, 0, &n);
			((int32_t *)(uintptr_t)mine)[1] = others[1];
		}
		rc = b->ops->submit(b->self, batch, &g->s.err);
		if (!rc)
			rc = b->ops->wait(b->self, &res, &g->s.err);
		if (!rc)
			rc = engine_end(g->s.engine, &res, &g->s.err);
	}
	return rc;
}

static void a_wrong_page_is_reported_by_step_request_and_token(void)
{
	struct stage g;
	stage_init(&g, "chunked", NULL);
	sched_add(&g.s, 0, 10, 20);
	sched_add(&g.s, 0, 10, 20);
	stage_open(&g);
	CHECK_INT(run_with_a_wrong_page(&g), ERR_INVARIANT);
	/* Blocks of 4: its tokens 4 .. 7. */
	CU_ASSERT_PTR_NOT_NULL(strstr(g.s.err.text, "step 5, layer 0: request 2 reads prompt token 4 from page"));
	CU_ASSERT_PTR_NOT_NULL(strstr(g.s.err.text, "slot 0, which holds the KV of something else"));
	CU_ASSERT_PTR_NOT_NULL(strstr(g.s.err.text, "4 such reads"));
	stage_close(&g);
}

static void an_engine_that_does_not_walk_is_refused(void)
{
	struct stage g;
	stage_init(&g, "continuous", NULL);
	g.s.cfg.exact_walk = g.s.log = false;
	sched_add(&g.s, 0, 10, 20);
	stage_open(&g);
	CHECK_INT(stage_run(&g), ERR_INVARIANT);
	CU_ASSERT_PTR_NOT_NULL(strstr(g.s.err.text, "walks its rows"));
	stage_close(&g);
}

int main(void)
{
	static const struct test tests[] = {
		{"warp_skips_what_is_idle_and_nothing_else", warp_skips_what_is_idle_and_nothing_else},
		{"wall_waits_for_arrivals", wall_waits_for_arrivals},
		{"a_wait_ends_when_the_run_is_stopped", a_wait_ends_when_the_run_is_stopped},
		{"steps_follow_each_other_and_their_parts_add_up", steps_follow_each_other_and_their_parts_add_up},
		{"nothing_to_wait_for_is_an_error_and_not_for_ever", nothing_to_wait_for_is_an_error_and_not_for_ever},
		{"an_end_of_sequence_ends_a_request_that_may_end", an_end_of_sequence_ends_a_request_that_may_end},
		{"without_ends_given_the_trace_decides", without_ends_given_the_trace_decides},
		{"an_abort_in_flight_is_survived", an_abort_in_flight_is_survived},
		{"a_wrong_page_is_reported_by_step_request_and_token",
		 a_wrong_page_is_reported_by_step_request_and_token},
		{"an_engine_that_does_not_walk_is_refused", an_engine_that_does_not_walk_is_refused},
	};
	return SUITE_RUN("exec_backend", tests);
}
