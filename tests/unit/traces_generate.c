/* Generated workloads: arrivals, sessions, shared prefixes, and that a seed means the same everywhere. */
#include <math.h>
#include <string.h>

#include "core/err.h"
#include "tests/support/suite.h"
#include "traces/generate.h"
#include "traces/sha256.h"

static struct workload make(const struct generate *g)
{
	struct workload w = {0};
	struct err e = {0};
	if (generate_workload(&w, g, &e))
		CU_FAIL_FATAL(e.text);
	return w;
}

static struct dist dist(const char *text)
{
	struct dist d = {0};
	struct err e = {0};
	if (dist_parse(&d, text, "test", &e))
		CU_FAIL_FATAL(e.text);
	return d;
}

/* Of all that was drawn. */
static const char *digest(const struct workload *w)
{
	static char hex[65];
	struct sha256 s;
	sha256_begin(&s);
	for (int64_t i = 0; i < w->n; i++) {
		const struct spec *x = &w->specs[i];
		int64_t v[5] = {x->arrival_ns, x->prompt_tokens, x->output_tokens, x->session, x->n_hashes};
		sha256_add(&s, v, sizeof v);
		sha256_add(&s, w->hash_ids + x->hash_at, (size_t)x->n_hashes * sizeof *w->hash_ids);
	}
	sha256_end(&s, hex);
	return hex;
}

static void the_same_seed_gives_the_same_workload(void)
{
	struct generate g;
	generate_default(&g);
	g.seed = 11;
	g.turns = dist("uniform:1,4");
	g.think = dist("exponential:2");
	g.system_tokens = 100;
	g.system_prompts = 3;
	struct workload a = make(&g), b = make(&g);
	CU_ASSERT_EQUAL(workload_hash(&a), workload_hash(&b));
	CHECK_INT(a.n, 1000);
	/* the value itself: the same on every machine and with every compiler */
	CHECK_STR(digest(&a), "04b4796aed1716a25e079efdc339bb648dd51406f5f1e2f2aa374137a3f058f8");
	g.seed = 12;
	workload_free(&b);
	b = make(&g);
	CU_ASSERT_NOT_EQUAL(workload_hash(&a), workload_hash(&b));
	workload_free(&a);
	workload_free(&b);
}

static void arrivals_follow_the_asked_process(void)
{
	static const struct {
		enum arrivals kind;
		double burstiness, cv2, tol;
	} cases[] = {{ARRIVALS_POISSON, 1, 1, 0.05}, {ARRIVALS_GAMMA, 0.25, 4, 0.4}, {ARRIVALS_CONSTANT, 1, 0, 1e-9}};
	for (int c = 0; c < 3; c++) {
		struct generate g;
		generate_default(&g);
		g.n = 40001;
		g.arrivals = cases[c].kind;
		g.burstiness = cases[c].burstiness;
		g.rate = 50;
		struct workload w = make(&g);
		double sum = 0, sum2 = 0;
		for (int64_t i = 1; i < w.n; i++) {
			double gap = (double)(w.specs[i].arrival_ns - w.specs[i - 1].arrival_ns) / 1e9;
			sum += gap;
			sum2 += gap * gap;
		}
		double mean = sum / 40000;
		CHECK_INT(w.specs[0].arrival_ns, 0);
		CHECK_NEAR(mean, 0.02, 0.0006);
		CHECK_NEAR((sum2 / 40000 - mean * mean) / (mean * mean), cases[c].cv2, cases[c].tol);
		workload_free(&w);
	}
}

static void a_ramp_grows_from_one_rate_to_the_other(void)
{
	struct generate g;
	generate_default(&g);
	g.n = 60000;
	g.arrivals = ARRIVALS_RAMP;
	g.rate = 10;
	g.rate_end = 50;
	struct workload w = make(&g);
	/* 60,000 at a mean of 30/s: 2,000 s. First and last tenth hold 10 .. 14 and 46 .. 50 per second. */
	int64_t first = 0, last = 0;
	for (int64_t i = 0; i < w.n; i++) {
		first += w.specs[i].arrival_ns < 200 * NS_PER_S;
		last += w.specs[i].arrival_ns >= 1800 * NS_PER_S && w.specs[i].arrival_ns < 2000 * NS_PER_S;
	}
	CHECK_NEAR((double)first / 200, 12, 0.9);
	CHECK_NEAR((double)last / 200, 48, 1.8);
	CHECK_NEAR((double)w.specs[w.n - 1].arrival_ns / 1e9, 2000, 30);
	workload_free(&w);
	g.rate = 50; /* falling */
	g.rate_end = 10;
	w = make(&g);
	CHECK_NEAR((double)w.specs[w.n - 1].arrival_ns / 1e9, 2000, 60);
	workload_free(&w);
}

static void lengths_follow_their_distributions(void)
{
	struct generate g;
	generate_default(&g);
	g.n = 20001;
	g.input = dist("lognormal:1020,0.8,max=8000");
	g.output = dist("uniform:5,15");
	struct workload w = make(&g);
	int64_t below = 0, sum = 0;
	for (int64_t i = 0; i < w.n; i++) {
		CU_ASSERT_FATAL(w.specs[i].prompt_tokens >= 1 && w.specs[i].prompt_tokens <= 8000);
		CU_ASSERT_FATAL(w.specs[i].output_tokens >= 5 && w.specs[i].output_tokens <= 15);
		below += w.specs[i].prompt_tokens < 1020;
		sum += w.specs[i].output_tokens;
		CHECK_INT(w.specs[i].n_hashes, 0);
	}
	CHECK_NEAR((double)below / 20001, 0.5, 0.015);
	CHECK_NEAR((double)sum / 20001, 10, 0.1);
	workload_free(&w);
}

static void resampled_pairs_stay_pairs(void)
{
	struct workload from = {0};
	for (int i = 1; i <= 9; i++) {
		struct spec s = {.prompt_tokens = 100 * i, .output_tokens = i, .name_at = -1, .session = -1};
		workload_add(&from, &s, NULL);
	}
	struct generate g;
	generate_default(&g);
	g.input.kind = g.output.kind = DIST_RESAMPLE;
	g.input_from = g.output_from = &from;
	struct workload w = make(&g);
	int seen[10] = {0};
	for (int64_t i = 0; i < w.n; i++) {
		CHECK_INT(w.specs[i].prompt_tokens, 100 * w.specs[i].output_tokens);
		seen[w.specs[i].output_tokens]++;
	}
	for (int i = 1; i <= 9; i++)
		CU_ASSERT(seen[i] > 50);
	workload_free(&w);
	workload_free(&from);
}

static void turns_repeat_what_was_said_before(void)
{
	struct generate g;
	generate_default(&g);
	g.n = 90;
	g.turns = dist("3");
	g.think = dist("fixed:2.5");
	g.input = dist("fixed:20");
	g.output = dist("fixed:30");
	g.system_tokens = 100;
	struct workload w = make(&g);
	CHECK_INT(w.n, 90);
	int roots = 0;
	for (int64_t i = 0; i < w.n; i++) {
		const struct spec *s = &w.specs[i];
		int turn = (s->prompt_tokens - 120) / 50;
		CHECK_INT(s->prompt_tokens, 120 + 50 * turn);
		CHECK_INT(s->n_hashes, 2 + 2 * turn); /* system, text (, answer, text)* */
		CHECK_INT(w.n_parents[i], turn > 0);
		if (turn > 0)
			CHECK_INT(s->arrival_ns, NS_PER_S * 5 / 2);
		CU_ASSERT_EQUAL(s->output_id != 0, turn < 2);
		roots += turn == 0;
		int64_t tokens = 0;
		for (int k = 0; k < s->n_hashes; k++)
			tokens += w.seg_tokens[s->hash_at + k];
		CHECK_INT(tokens, s->prompt_tokens);
		for (int64_t c = w.child_at[i]; c < w.child_at[i + 1]; c++) {
			const struct spec *child = &w.specs[w.child[c]];
			CHECK_INT(child->session, s->session);
			CU_ASSERT(!memcmp(w.hash_ids + s->hash_at, w.hash_ids + child->hash_at,
					  (size_t)s->n_hashes * sizeof *w.hash_ids));
			CU_ASSERT_EQUAL(w.hash_ids[child->hash_at + s->n_hashes], s->output_id);
		}
	}
	CHECK_INT(roots, 30);
	workload_free(&w);
}

static void system_prompts_are_shared_and_nothing_else(void)
{
	struct generate g;
	generate_default(&g);
	g.n = 300;
	g.system_tokens = 64;
	g.system_prompts = 5;
	struct workload w = make(&g);
	int64_t total, distinct;
	CHECK_INT(workload_ideal_hits(&w, &total, &distinct, NULL), ERR_NONE);
	CHECK_INT(total, 300);
	CHECK_INT(distinct, 5);
	for (int64_t i = 0; i < w.n; i++)
		CHECK_INT(w.seg_tokens[w.specs[i].hash_at], 64);
	workload_free(&w);
}

static void sessions_end_at_the_longest_context(void)
{
	struct generate g;
	generate_default(&g);
	g.n = 100;
	g.turns = dist("10");
	g.input = dist("fixed:100");
	g.output = dist("fixed:100");
	g.max_context = 450; /* two turns of 200; a third would make 600 */
	struct workload w = make(&g);
	CHECK_INT(w.n, 20);
	workload_free(&w);
	g.max_context = 150; /* the first turn itself is cut */
	w = make(&g);
	CHECK_INT(w.n, 10);
	CHECK_INT(w.specs[0].prompt_tokens, 50);
	CHECK_INT(w.specs[0].output_tokens, 100);
	workload_free(&w);
}

static void what_is_out_of_range_is_named(void)
{
	struct generate g;
	struct workload w = {0};
	struct err e = {0};
	generate_default(&g);
	g.rate = 0;
	CHECK_INT(generate_workload(&w, &g, &e), ERR_INPUT);
	CHECK_STR(e.text, "generate: the request rate must be at least 1e-6 requests/s");
	err_clear(&e);
	generate_default(&g);
	g.system_tokens = 100;
	g.max_context = 101;
	CHECK_INT(generate_workload(&w, &g, &e), ERR_INPUT);
	CHECK_STR(e.text, "generate: the longest context leaves no room after the system prompt");
	err_clear(&e);
	generate_default(&g);
	g.input.kind = DIST_RESAMPLE;
	CHECK_INT(generate_workload(&w, &g, &e), ERR_INPUT);
	CHECK_STR(e.text, "generate: the input lengths have no trace to be resampled from");
}

int main(void)
{
	static const struct test tests[] = {
		{"the_same_seed_gives_the_same_workload", the_same_seed_gives_the_same_workload},
		{"arrivals_follow_the_asked_process", arrivals_follow_the_asked_process},
		{"a_ramp_grows_from_one_rate_to_the_other", a_ramp_grows_from_one_rate_to_the_other},
		{"lengths_follow_their_distributions", lengths_follow_their_distributions},
		{"resampled_pairs_stay_pairs", resampled_pairs_stay_pairs},
		{"turns_repeat_what_was_said_before", turns_repeat_what_was_said_before},
		{"system_prompts_are_shared_and_nothing_else", system_prompts_are_shared_and_nothing_else},
		{"sessions_end_at_the_longest_context", sessions_end_at_the_longest_context},
		{"what_is_out_of_range_is_named", what_is_out_of_range_is_named},
	};
	return SUITE_RUN("traces_generate", tests);
}
