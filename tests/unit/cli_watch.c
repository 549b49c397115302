/* The live view's lines: they say what the engine says, never wider than the terminal, whatever the label. */
#include <stdio.h>
#include <string.h>

#include "analysis/run.h"
#include "cli/watch.h"
#include "core/err.h"
#include "tests/support/suite.h"
#include "tests/unit/analysis_fixture.h"

static int columns(const char *s)
{
	int n = 0;
	for (; *s; s++)
		n += ((unsigned char)*s & 0xc0) != 0x80;
	return n;
}

static void lines_say_how_it_stands(void)
{
	char lines[WATCH_LINES][WATCH_LINE];
	struct watch w = {.label = "chunked", .style = {.width = 80, .ascii = true}, .began_s = 100};
	CHECK_INT(watch_lines(&w, 100, 0, 10, lines), 0); /* nothing seen yet */
	w.kept[0] = (struct watch_look){.at_s = 100};
	w.kept[1] = (struct watch_look){.at_s = 102,
					.now = {.now_ns = 500 * NS_PER_S,
						.running = 31,
						.waiting = 12,
						.blocks_used = 3000,
						.blocks_cached = 17,
						.num_blocks = 12000,
						.finished = 2500,
						.output_tokens = 50000,
						.prompt_tokens = 1000000,
						.preemptions = 4}};
	w.n_kept = 2;
	CHECK_INT(watch_lines(&w, 102, 2500, 10000, lines), WATCH_LINES);
	CHECK_STR(lines[0], "chunked   [#####.............]  25 %  2,500 of 10,000 requests  6.0 s left");
	CHECK_STR(lines[1], "time      8.3 min simulated in 2.0 s, 250 times as fast");
	CHECK_STR(lines[2], "waiting   12      _#");
	CHECK_STR(lines[3], "running   31      _#");
	CHECK_STR(lines[4], "KV memory [#####.............]  25 %  3,000 of 12,000 blocks, 17 more cached");
	CHECK_STR(lines[5], "per s     5.000 requests, 2,000 prompt + 100.0 output tokens; 4 preempted");
	w.real = true;
	w.kept[1].now.num_blocks = 0;
	watch_lines(&w, 102, 10000, 10000, lines);
	CU_ASSERT_PTR_NULL(strstr(lines[0], "left"));
	CHECK_STR(lines[1], "time      8.3 min of the run's clock, 2.0 s went by");
	CHECK_STR(lines[4], "KV memory none");
}

static void no_line_is_wider_than_the_terminal(void)
{
	char lines[WATCH_LINES][WATCH_LINE];
	for (int ascii = 0; ascii < 2; ascii++) {
		for (int width = 40; width <= 240; width += 25) {
			struct watch w = {.label = "evil\033[2J\n\xff label that goes on and on and on and on and on",
					  .style = {.width = width, .ascii = ascii}};
			for (; w.n_kept < 200; w.n_kept++)
				w.kept[w.n_kept % WATCH_KEPT].now =
					(struct engine_glance){.now_ns = INT64_MAX / 2 + w.n_kept,
							       .running = (int32_t)w.n_kept,
							       .waiting = INT32_MAX,
							       .blocks_used = INT32_MAX,
							       .blocks_cached = INT32_MAX,
							       .num_blocks = 1,
							       .finished = INT64_MAX / 2,
							       .preemptions = INT64_MAX};
			CHECK_INT(watch_lines(&w, 1e9, INT64_MAX / 3, INT64_MAX, lines), WATCH_LINES);
			for (int i = 0; i < WATCH_LINES; i++) {
				CU_ASSERT_TRUE(columns(lines[i]) < width);
				CU_ASSERT_PTR_NULL(strpbrk(lines[i], "\033\n\xff"));
			}
		}
	}
}

/* What is looked at adds up to what the run reports, with one replica and several; whoever looks changes nothing. */
struct seen {
	int64_t looks, ended;
	struct engine_glance last;
	int32_t most_running;
};

static void see(void *ctx, int64_t ended, int64_t total, const struct engine_glance *now)
{
	struct seen *x = ctx;
	CHECK_INT(total, 2000);
	CU_ASSERT_TRUE(ended > x->ended && now->now_ns >= x->last.now_ns && now->finished >= x->last.finished);
	CU_ASSERT_TRUE(now->output_tokens >= x->last.output_tokens && now->running >= 0 && now->waiting >= 0);
	CU_ASSERT_TRUE(now->blocks_used >= 0 && now->blocks_used <= now->num_blocks);
	CHECK_INT(now->finished, ended); /* none is rejected */
	x->most_running = now->running > x->most_running ? now->running : x->most_running;
	x->looks++;
	x->ended = ended;
	x->last = *now;
}

static void who_looks_changes_nothing(void)
{
	for (int32_t replicas = 1; replicas <= 3; replicas += 2) {
		struct workload w;
		struct run_settings s;
		struct run_result plain, looked;
		struct err e = {0};
		struct seen x = {0};
		random_workload(&w, 2000, 12, 4);
		small_settings(&s, &w);
		s.replicas = replicas;
		s.router = replicas > 1 ? "round_robin" : NULL;
		must_run(&s, &w, NULL, &plain);
		const struct run_io io = {.look = see, .ctx = &x};
		CHECK_INT(run_execute(&s, &w, &io, &looked, &e), ERR_NONE);
		CU_ASSERT_TRUE(x.looks >= 15 && x.looks <= 2000 / 64);
		CHECK_INT(x.last.num_blocks, 200 * replicas);
		CU_ASSERT_TRUE(x.most_running > 0 && x.most_running <= replicas * looked.stats.max_running);
		CU_ASSERT_TRUE(x.last.steps <= looked.stats.steps &&
			       x.last.output_tokens <= looked.stats.output_tokens);
		CHECK_INT(memcmp(plain.requests, looked.requests, (size_t)w.n * sizeof *plain.requests), 0);
		CHECK_INT(plain.stats.steps, looked.stats.steps);
		run_result_free(&plain);
		run_result_free(&looked);
		workload_free(&w);
	}
}

int main(void)
{
	static const struct test tests[] = {
		{"lines_say_how_it_stands", lines_say_how_it_stands},
		{"no_line_is_wider_than_the_terminal", no_line_is_wider_than_the_terminal},
		{"who_looks_changes_nothing", who_looks_changes_nothing},
	};
	return SUITE_RUN("cli_watch", tests);
}
