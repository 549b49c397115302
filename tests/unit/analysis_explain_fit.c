/* What a step costs, from the steps themselves. */
#include "analysis/explain_fit.h"
#include "core/err.h"
#include "core/rng.h"
#include "tests/support/suite.h"

static void add(struct explain_fit *f, int64_t ns, int64_t prefill, int32_t decodes, int64_t ctx)
{
	const struct step_row row = {.start_ns = 1000,
				     .end_ns = 1000 + ns + 77,
				     .transfer_ns = 77, /* what it waited for copies is none of its cost */
				     .prefill_tokens = prefill,
				     .decodes = decodes,
				     .decode_ctx = ctx};
	explain_fit_add(f, &row);
}

static void it_finds_what_the_steps_were_made_of(void)
{
	struct explain_fit f = {0};
	struct rng r;
	struct err e = {0};
	struct cost *c;
	struct cost_time t;
	rng_init(&r, 1, 0);
	for (int i = 0; i < 500; i++) {
		int64_t prefill = rng_below(&r, 3) ? 0 : (int64_t)rng_below(&r, 2048);
		int32_t decodes = (int32_t)rng_below(&r, 64);
		int64_t ctx = decodes * (int64_t)rng_below(&r, 1000);
		add(&f, 5000000 + 20000 * prefill + 1000 * decodes + 10 * ctx, prefill, decodes, ctx);
	}
	CHECK_INT(explain_fit_solve(&f, &c, &e), ERR_NONE);
	CHECK_NEAR(f.at[0], 5000000, 50);
	CHECK_NEAR(f.at[1], 20000, 0.1);
	CHECK_NEAR(f.at[2], 1000, 5);
	CHECK_NEAR(f.at[3], 10, 0.01);
	CU_ASSERT(f.error < 1e-4);
	const struct batch b = {.decodes = 10, .decode_ctx = 1000, .prefill_tokens = 100};
	cost_step(c, &b, &t);
	CHECK_NEAR((double)t.device_ns, 5000000 + 2000000 + 10000 + 10000, 100);
	cost_free(c);
}

/* Steps that get shorter with more decodes (chance): that costs nothing, it does not pay. */
static void no_work_has_a_negative_cost(void)
{
	struct explain_fit f = {0};
	struct err e = {0};
	struct cost *c;
	for (int i = 0; i < 50; i++)
		add(&f, 1000000 - 1000 * i + 100 * (i % 7), i % 7, i, 0);
	CHECK_INT(explain_fit_solve(&f, &c, &e), ERR_NONE);
	for (int i = 0; i < FIT_TERMS; i++)
		CU_ASSERT(f.at[i] >= 0);
	CHECK_NEAR(f.at[2], 0, 0);
	CHECK_NEAR(f.at[0], 975000, 3000);
	CU_ASSERT(f.error > 0.001 && f.error < 0.1);
	cost_free(c);
}

/* Nothing but one kind of step: what cannot be told apart stays together. */
static void steps_that_are_all_alike(void)
{
	struct explain_fit f = {0};
	struct err e = {0};
	struct cost *c;
	struct cost_time t;
	for (int i = 0; i < 5; i++)
		add(&f, 7000, 0, 4, 100);
	CHECK_INT(explain_fit_solve(&f, &c, &e), ERR_NONE);
	const struct batch b = {.decodes = 4, .decode_ctx = 100};
	cost_step(c, &b, &t);
	CHECK_INT(t.device_ns, 7000);
	cost_free(c);
	struct explain_fit none = {0};
	CHECK_INT(explain_fit_solve(&none, &c, &e), ERR_INPUT);
}

int main(void)
{
	static const struct test tests[] = {
		{"it_finds_what_the_steps_were_made_of", it_finds_what_the_steps_were_made_of},
		{"no_work_has_a_negative_cost", no_work_has_a_negative_cost},
		{"steps_that_are_all_alike", steps_that_are_all_alike},
	};
	return SUITE_RUN("analysis_explain_fit", tests);
}
