/* The profiler: its grid, its batches, its budget; on the reference kernels with a model of a few numbers. */
#include <stdio.h>
#include <string.h>

#include "core/err.h"
#include "core/mem.h"
#include "exec/profiler.h"
#include "exec/profiler_grid.h"
#include "tests/support/suite.h"

static const char tiny[] = "{\"architectures\": [\"LlamaForCausalLM\"], \"hidden_size\": 8, \"num_hidden_layers\": 3, "
			   "\"num_attention_heads\": 2, \"num_key_value_heads\": 1, \"vocab_size\": 32, "
			   "\"intermediate_size\": 16, \"max_position_embeddings\": 64}";

struct bench {
	struct model model;
	struct weights *weights;
	struct kernel_set *kernels;
	struct profiler_setup setup;
};

static void set_up(struct bench *b)
{
	struct err e = {0};
	CU_ASSERT_EQUAL_FATAL(model_parse(&b->model, tiny, "tiny", &e), ERR_NONE);
	CU_ASSERT_EQUAL_FATAL(weights_open(&b->weights, "random:1", &b->model, &e), ERR_NONE);
	CU_ASSERT_EQUAL_FATAL(reference_kernels_open(&b->kernels), 0);
	b->setup = (struct profiler_setup){.model = &b->model,
					   .weights = b->weights,
					   .kernels = b->kernels,
					   .weight_type = NUM_F32,
					   .kv_type = NUM_F32,
					   .block_size = 4,
					   .max_tokens = 24,
					   .max_context = 64,
					   .max_seqs = 8,
					   .kv_tokens = 200,
					   .budget_s = 60,
					   .seed = 5};
}

static void tear_down(struct bench *b)
{
	b->kernels->ops->close(b->kernels);
	weights_close(b->weights);
	model_free(&b->model);
}

static void shots_stay_within_the_limits_and_span_them(void)
{
	struct bench b;
	struct profiler_result r = {0};
	struct err e = {0};
	set_up(&b);
	CU_ASSERT_EQUAL_FATAL(profiler_grid(&r, &b.setup, &e), ERR_NONE);
	int32_t rows = 0, tokens = 0, context = 0, behind = 0, mixed = 0;
	int64_t together = 0;
	for (int32_t i = 0; i < r.n_shots; i++) {
		const struct profiler_shot *s = &r.shots[i];
		int64_t ctx = (int64_t)s->decodes * s->decode_ctx + s->chunk + s->start;
		CU_ASSERT(s->decodes >= 0 && s->decodes <= 8 && s->chunk >= 0 && s->decodes + s->chunk <= 24);
		CU_ASSERT(s->decodes + s->chunk > 0 && s->decode_ctx <= 64 && s->chunk + s->start <= 64);
		CU_ASSERT(ctx <= 200 && s->level < PROFILER_LEVELS);
		CU_ASSERT(i == 0 || s->level >= r.shots[i - 1].level);
		CU_ASSERT(profiler_pages(s, 4) * 4 >= ctx);
		rows = s->decodes > rows ? s->decodes : rows;
		tokens = s->chunk > tokens ? s->chunk : tokens;
		context = s->decode_ctx > context ? s->decode_ctx : context;
		behind = s->start > behind ? s->start : behind;
		together =
			(int64_t)s->decodes * s->decode_ctx > together ? (int64_t)s->decodes * s->decode_ctx : together;
		mixed += s->chunk && s->decodes;
		for (int32_t k = 0; k < i; k++)
			CU_ASSERT(memcmp(s, &r.shots[k], offsetof(struct profiler_shot, head)) != 0);
	}
	CHECK_INT(rows, 8);
	CHECK_INT(tokens, 24);
	CHECK_INT(context, 64);
	CHECK_INT(behind, 63);
	CHECK_INT(together, 200);
	CU_ASSERT(mixed >= 1);
	/* The coarsest level alone spans the numbers of rows. */
	CHECK_INT(r.shots[0].level, 0);
	rows = tokens = 0;
	for (int32_t i = 0; i < r.n_shots && r.shots[i].level == 0; i++) {
		rows = r.shots[i].decodes > rows ? r.shots[i].decodes : rows;
		tokens = r.shots[i].chunk > tokens ? r.shots[i].chunk : tokens;
	}
	CHECK_INT(rows, 8);
	CHECK_INT(tokens, 24);
	profiler_result_free(&r);
	tear_down(&b);
}

static void any_limits_make_a_grid_or_an_error(void)
{
	struct bench b;
	set_up(&b);
	static const int32_t numbers[] = {1, 2, 5, 17, 300, 4096};
	for (size_t i = 0; i < 6 * 6 * 6; i++) {
		struct profiler_result r = {0};
		struct err e = {0};
		struct profiler_setup s = b.setup;
		s.max_tokens = numbers[i % 6];
		s.max_context = numbers[i / 6 % 6];
		s.max_seqs = numbers[i / 36];
		s.kv_tokens = 1 + (int64_t)i * 7;
		CHECK_INT(profiler_grid(&r, &s, &e), ERR_NONE);
		CU_ASSERT(r.n_shots >= 2);
		for (int32_t k = 0; k < r.n_shots; k++) {
			const struct profiler_shot *t = &r.shots[k];
			CU_ASSERT(t->decodes == 0 || t->decode_ctx > 0);
			CU_ASSERT(t->decodes + t->chunk <= s.max_tokens && t->decode_ctx <= s.max_context);
			CU_ASSERT((int64_t)t->decodes * t->decode_ctx <= s.kv_tokens);
		}
		profiler_result_free(&r);
	}
	struct profiler_result r = {0};
	struct err e = {0};
	b.setup.max_tokens = 0;
	CHECK_INT(profiler_run(&r, &b.setup, &e), ERR_INPUT);
	CU_ASSERT(strstr(e.text, "nothing to measure") != NULL);
	tear_down(&b);
}

static void everything_is_measured_until_it_is_known(void)
{
	struct bench b;
	struct profiler_result r;
	struct err e = {0};
	set_up(&b);
	b.setup.budget_s = 20;
	b.setup.max_tokens = 8;
	CU_ASSERT_EQUAL_FATAL(profiler_run(&r, &b.setup, &e), ERR_NONE);
	CU_ASSERT(!r.interrupted && !r.coarse);
	CHECK_INT(r.n_measured, r.n_shots);
	CHECK_INT(r.layers, 3); /* all fit any cache */
	CU_ASSERT(r.spent_s < 20);
	for (int32_t i = 0; i < r.n_shots; i++) {
		const struct profiler_shot *s = &r.shots[i];
		CU_ASSERT(s->n >= 4 && s->n <= PROFILER_REPEATS);
		for (int32_t k = 0; k < s->n; k++) {
			int64_t parts = 0;
			for (int p = 0; p < N_PARTS; p++) {
				CU_ASSERT(s->samples[k].part_ns[p] >= 0);
				parts += s->samples[k].part_ns[p];
			}
			CU_ASSERT(parts > 0 && parts <= s->samples[k].total_ns);
			CU_ASSERT(s->samples[k].part_ns[PART_MATMUL] > 0);
			CU_ASSERT(!s->head || s->samples[k].part_ns[PART_HEAD] > 0);
		}
	}
	profiler_result_free(&r);
	tear_down(&b);
}

static void a_short_budget_still_gives_something(void)
{
	struct bench b;
	struct profiler_result r;
	struct err e = {0};
	set_up(&b);
	b.setup.budget_s = 1e-9;
	CU_ASSERT_EQUAL_FATAL(profiler_run(&r, &b.setup, &e), ERR_NONE);
	CU_ASSERT(r.coarse && !r.interrupted && r.n_measured == 0);
	profiler_result_free(&r);
	tear_down(&b);
}

struct stopper {
	int stop;
	int calls;
};

static void stop_after_ten(void *ctx, int64_t done, int64_t total)
{
	struct stopper *s = ctx;
	CU_ASSERT(done >= 0 && done <= total);
	if (++s->calls == 10)
		s->stop = 1;
}

static void a_stop_keeps_what_is_there(void)
{
	struct bench b;
	struct profiler_result r;
	struct stopper s = {0};
	struct err e = {0};
	set_up(&b);
	b.setup.stop = &s.stop;
	b.setup.progress = stop_after_ten;
	b.setup.ctx = &s;
	CU_ASSERT_EQUAL_FATAL(profiler_run(&r, &b.setup, &e), ERR_NONE);
	CU_ASSERT(r.interrupted);
	CU_ASSERT(r.n_measured > 0 && r.n_measured < 10 && r.n_measured < r.n_shots);
	profiler_result_free(&r);
	tear_down(&b);
}

static void layers_that_differ_are_all_run(void)
{
	struct model m;
	struct err e = {0};
	CU_ASSERT_EQUAL_FATAL(model_load(&m, "llama-3.1-8b", &e), ERR_NONE);
	/* 218 million numbers a layer: one or two of them outdo any cache a CPU has today. */
	CU_ASSERT(profiler_layers(&m, NUM_BF16) < 16);
	CU_ASSERT(profiler_layers(&m, NUM_F32) <= profiler_layers(&m, NUM_BF16));
	CU_ASSERT(profiler_layers(&m, NUM_F32) >= 1);
	m.layers[1].window = 512;
	CHECK_INT(profiler_layers(&m, NUM_F32), 32);
	model_free(&m);
}

int main(void)
{
	static const struct test tests[] = {
		{"shots_stay_within_the_limits_and_span_them", shots_stay_within_the_limits_and_span_them},
		{"any_limits_make_a_grid_or_an_error", any_limits_make_a_grid_or_an_error},
		{"everything_is_measured_until_it_is_known", everything_is_measured_until_it_is_known},
		{"a_short_budget_still_gives_something", a_short_budget_still_gives_something},
		{"a_stop_keeps_what_is_there", a_stop_keeps_what_is_there},
		{"layers_that_differ_are_all_run", layers_that_differ_are_all_run},
	};
	return SUITE_RUN("exec_profiler", tests);
}
