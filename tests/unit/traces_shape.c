/* What --num-prompts, --request-rate, --replay-speedup, --length-scale and slices do to a workload. */
#include <math.h>
#include <string.h>

#include "core/err.h"
#include "core/mem.h"
#include "tests/support/suite.h"
#include "traces/shape.h"
#include "traces/subset.h"

static void add(struct workload *w, double arrival_s, int prompt, int output)
{
	struct spec s = {.arrival_ns = (int64_t)(arrival_s * 1e9 + 0.5),
			 .name_at = -1,
			 .prompt_tokens = prompt,
			 .output_tokens = output,
			 .session = -1,
			 .row = (int32_t)w->n + 1};
	CU_ASSERT_EQUAL_FATAL(workload_add(w, &s, NULL), ERR_NONE);
}

/* n requests, one a second. */
static struct workload steady(int n)
{
	struct workload w = {0};
	for (int i = 0; i < n; i++)
		add(&w, i, 100 + i, 10 + i);
	return w;
}

static int apply(struct workload *w, struct shape s)
{
	struct err e = {0};
	int code = shape_apply(w, &s, &e);
	if (code)
		CU_FAIL(e.text);
	return code;
}

static struct shape none(void)
{
	struct shape s;
	shape_default(&s);
	return s;
}

static void the_default_changes_nothing_but_max_tokens(void)
{
	struct workload w = steady(5);
	w.specs[1].max_tokens = 400;
	uint64_t before;
	for (int i = 0; i < 5; i++)
		if (i != 1)
			w.specs[i].max_tokens = 2048;
	before = workload_hash(&w);
	for (int i = 0; i < 5; i++)
		if (i != 1)
			w.specs[i].max_tokens = 0;
	apply(&w, none());
	CU_ASSERT_EQUAL(workload_hash(&w), before);
	workload_free(&w);
}

static void speedup_divides_every_time_to_the_nearest_nanosecond(void)
{
	struct workload w = steady(4);
	struct shape s = none();
	s.replay_speedup = 3;
	apply(&w, s);
	CHECK_INT(w.specs[0].arrival_ns, 0);
	CHECK_INT(w.specs[1].arrival_ns, 333333333);
	CHECK_INT(w.specs[2].arrival_ns, 666666667);
	CHECK_INT(w.specs[3].arrival_ns, 1000000000);
	workload_free(&w);
}

static void even_spacing_does_not_drift(void)
{
	struct workload w = steady(3001);
	struct shape s = none();
	s.request_rate = 3;
	s.burstiness = INFINITY;
	apply(&w, s);
	CHECK_INT(w.specs[1].arrival_ns, 333333333);
	CHECK_INT(w.specs[3].arrival_ns, 1000000000);
	CHECK_INT(w.specs[3000].arrival_ns, INT64_C(1000000000000));
	workload_free(&w);
}

static void an_unlimited_rate_puts_all_at_zero(void)
{
	struct workload w = steady(10);
	struct shape s = none();
	s.request_rate = INFINITY;
	s.burstiness = 0.5;
	apply(&w, s);
	for (int i = 0; i < 10; i++)
		CHECK_INT(w.specs[i].arrival_ns, 0);
	workload_free(&w);
}

static void gaps_have_the_asked_rate_and_burstiness(void)
{
	static const double burstiness[] = {0.5, 1, 4};
	for (int b = 0; b < 3; b++) {
		struct workload w = steady(50001);
		struct shape s = none();
		s.request_rate = 20;
		s.burstiness = burstiness[b];
		s.seed = 7;
		apply(&w, s);
		CHECK_INT(w.specs[0].arrival_ns, 0);
		double sum = 0, sum2 = 0;
		for (int i = 1; i < w.n; i++) {
			double gap = (double)(w.specs[i].arrival_ns - w.specs[i - 1].arrival_ns) / 1e9;
			CU_ASSERT_FATAL(gap >= 0);
			sum += gap;
			sum2 += gap * gap;
		}
		double mean = sum / 50000, var = sum2 / 50000 - mean * mean;
		CHECK_NEAR(mean, 0.05, 0.0015);
		CHECK_NEAR(mean * mean / var / burstiness[b], 1, 0.04);
		CHECK_INT(w.specs[50000].prompt_tokens, 50100); /* order kept */
		workload_free(&w);
	}
}

static void the_seed_decides_arrivals(void)
{
	uint64_t hash[3];
	static const uint64_t seeds[] = {1, 1, 2};
	for (int i = 0; i < 3; i++) {
		struct workload w = steady(100);
		struct shape s = none();
		s.request_rate = 5;
		s.seed = seeds[i];
		apply(&w, s);
		hash[i] = workload_hash(&w);
		workload_free(&w);
	}
	CU_ASSERT_EQUAL(hash[0], hash[1]);
	CU_ASSERT_NOT_EQUAL(hash[0], hash[2]);
}

static void lengths_round_up_and_empty_outputs_stay_empty(void)
{
	struct workload w = {0};
	add(&w, 0, 100, 7);
	add(&w, 1, 1, 0);
	add(&w, 2, 3, 1);
	w.specs[2].max_tokens = 5;
	struct shape s = none();
	s.length_scale = 0.07; /* 0.07 x 100 in doubles is 7.000000000000001 */
	apply(&w, s);
	CHECK_INT(w.specs[0].prompt_tokens, 7);
	CHECK_INT(w.specs[0].output_tokens, 1);
	CHECK_INT(w.specs[1].prompt_tokens, 1);
	CHECK_INT(w.specs[1].output_tokens, 0);
	CHECK_INT(w.specs[2].max_tokens, 1);
	workload_free(&w);
}

static void ids(struct workload *w, int request, const uint64_t *list, int n)
{
	w->specs[request].hash_at = w->n_hash_ids;
	w->specs[request].n_hashes = n;
	for (int i = 0; i < n; i++)
		CU_ASSERT_EQUAL_FATAL(workload_add_hash(w, list[i], NULL), ERR_NONE);
}

/* Tokens of the prompts of a and b that are the same, by the rule of workload.h. */
static int64_t shared(const struct workload *w, int a, int b)
{
	const struct spec *x = &w->specs[a], *y = &w->specs[b];
	int64_t tokens = 0;
	for (int i = 0; i < x->n_hashes && i < y->n_hashes; i++) {
		if (w->hash_ids[x->hash_at + i] != w->hash_ids[y->hash_at + i])
			break;
		if (w->seg_tokens && w->seg_tokens[x->hash_at + i] != w->seg_tokens[y->hash_at + i])
			break;
		tokens += w->seg_tokens ? w->seg_tokens[x->hash_at + i] : w->hash_block;
	}
	int64_t least = x->prompt_tokens < y->prompt_tokens ? x->prompt_tokens : y->prompt_tokens;
	return tokens < least ? tokens : least;
}

static struct workload blocks(void)
{
	struct workload w = {0};
	add(&w, 0, 1300, 10);
	add(&w, 1, 1100, 10);
	add(&w, 2, 600, 10);
	w.hash_block = 512;
	ids(&w, 0, (uint64_t[]){1, 2, 3}, 3);
	ids(&w, 1, (uint64_t[]){1, 2, 4}, 3);
	ids(&w, 2, (uint64_t[]){1, 9}, 2);
	return w;
}

static void sharing_scales_with_the_lengths(void)
{
	static const double scales[] = {0.5, 2, 0.3, 1.37, 3.001};
	for (int i = 0; i < 5; i++) {
		struct workload w = blocks();
		struct shape s = none();
		s.length_scale = scales[i];
		apply(&w, s);
		CHECK_INT(w.specs[0].prompt_tokens, ceil(1300 * scales[i] - 1e-9));
		CHECK_INT(shared(&w, 0, 1), ceil(1024 * scales[i] - 1e-9));
		CHECK_INT(shared(&w, 1, 2), ceil(512 * scales[i] - 1e-9));
		CU_ASSERT_EQUAL(w.seg_tokens == NULL, i < 2); /* whole blocks stay blocks */
		workload_free(&w);
	}
}

static void ids_scaled_to_nothing_still_tell_prompts_apart(void)
{
	struct workload w = {0};
	add(&w, 0, 48, 1);
	add(&w, 1, 48, 1);
	w.hash_block = 16;
	ids(&w, 0, (uint64_t[]){1, 2, 3}, 3);
	ids(&w, 1, (uint64_t[]){1, 7, 3}, 3);
	struct shape s = none();
	s.length_scale = 0.05; /* 16, 32, 48 tokens end at 1, 2, 3: one each */
	apply(&w, s);
	CHECK_INT(shared(&w, 0, 1), 1);
	s.length_scale = 0.34; /* all end at 1, 1, 2: ids 2 and 7 have no tokens */
	apply(&w, s);
	CHECK_INT(w.specs[0].n_hashes, 2);
	CHECK_INT(w.specs[0].prompt_tokens, 2);
	CHECK_INT(shared(&w, 0, 1), 1); /* the last ids, both 3 before, differ now */
	workload_free(&w);
}

/* Two sessions of three turns (0 -> 2 -> 4, 1 -> 3 -> 5) with 1 s of thinking, the second one from 10 s on. */
static struct workload sessions(void)
{
	struct workload w = {0};
	add(&w, 0, 10, 1);
	add(&w, 1, 30, 1); /* dependents lie where their delay sorts them */
	add(&w, 1, 31, 1);
	add(&w, 1, 40, 1);
	add(&w, 1, 41, 1);
	add(&w, 10, 20, 1);
	CU_ASSERT_EQUAL_FATAL(workload_link(&w, (int32_t[]){0, 1, 5, 2}, (int32_t[]){1, 3, 2, 4}, 4, NULL), ERR_NONE);
	return w;
}

static void the_first_n_come_with_what_they_wait_for(void)
{
	struct workload w = sessions();
	struct shape s = none();
	s.num_prompts = 4; /* 0 s, 1 s, 2 s of the first session, then the second one's start: not its turns at "1 s" */
	apply(&w, s);
	CHECK_INT(w.n, 4);
	int roots = 0, turn3 = -1;
	for (int i = 0; i < w.n; i++) {
		CU_ASSERT(w.specs[i].prompt_tokens != 31 && w.specs[i].prompt_tokens != 41);
		roots += !w.n_parents[i];
		if (w.specs[i].prompt_tokens == 40)
			turn3 = i;
	}
	CHECK_INT(roots, 2);
	CU_ASSERT(turn3 >= 0 && w.n_parents[turn3] == 1);
	workload_free(&w);
}

static void rate_moves_the_roots_and_speedup_the_delays(void)
{
	struct workload w = sessions();
	struct shape s = none();
	s.request_rate = 0.5;
	s.burstiness = INFINITY;
	apply(&w, s);
	for (int i = 0; i < w.n; i++)
		CHECK_INT(w.specs[i].arrival_ns, w.n_parents[i]                   ? NS_PER_S
						 : w.specs[i].prompt_tokens == 10 ? 0
										  : 2 * NS_PER_S);
	/* 0, 1, 2 s and 2, 3, 4 s: in the order in which they could start */
	static const int prompts[] = {10, 30, 40, 20, 31, 41};
	for (int i = 0; i < 6; i++)
		CHECK_INT(w.specs[i].prompt_tokens, prompts[i]);
	workload_free(&w);
	w = sessions();
	s = none();
	s.replay_speedup = 2;
	apply(&w, s);
	for (int i = 0; i < w.n; i++)
		if (w.n_parents[i])
			CHECK_INT(w.specs[i].arrival_ns, NS_PER_S / 2);
	workload_free(&w);
}

static void a_slice_starts_at_zero_and_cuts_sessions_at_their_ready_time(void)
{
	struct workload w = sessions();
	struct slice s;
	int64_t cut;
	struct err e = {0};
	slice_default(&s);
	s.start_ns = NS_PER_S * 3 / 2; /* loses 0 s and 1 s: turn 3 of the first session is an orphan at 2 s */
	CHECK_INT(slice_apply(&w, &s, &cut, &e), ERR_NONE);
	CHECK_INT(w.n, 4);
	CHECK_INT(cut, 1);
	for (int i = 0; i < w.n; i++) {
		if (w.specs[i].prompt_tokens == 40) /* the first one kept */
			CHECK_INT(w.specs[i].arrival_ns, 0);
		if (w.specs[i].prompt_tokens == 20)
			CHECK_INT(w.specs[i].arrival_ns, NS_PER_S * 8);
		if (w.specs[i].prompt_tokens == 31)
			CHECK_INT(w.specs[i].arrival_ns, NS_PER_S);
		if (i && !w.n_parents[i] && !w.n_parents[i - 1])
			CU_ASSERT(w.specs[i - 1].arrival_ns <= w.specs[i].arrival_ns);
	}
	workload_free(&w);
}

static void slices_take_every_kth_and_samples(void)
{
	struct workload w = steady(1000);
	struct slice s;
	struct err e = {0};
	slice_default(&s);
	s.start_ns = 100 * NS_PER_S;
	s.end_ns = 900 * NS_PER_S;
	s.every = 4;
	CHECK_INT(slice_apply(&w, &s, NULL, &e), ERR_NONE);
	CHECK_INT(w.n, 200);
	CHECK_INT(w.specs[1].arrival_ns, 4 * NS_PER_S);
	CHECK_INT(w.specs[199].prompt_tokens, 100 + 896);
	slice_default(&s);
	s.sample = 0.5;
	s.seed = 3;
	CHECK_INT(slice_apply(&w, &s, NULL, &e), ERR_NONE);
	CU_ASSERT(w.n > 75 && w.n < 125);
	slice_default(&s);
	s.start_ns = 5000 * NS_PER_S;
	CHECK_INT(slice_apply(&w, &s, NULL, &e), ERR_INPUT);
	CU_ASSERT(strstr(e.text, "no request is left") != NULL);
	workload_free(&w);
}

static void sessions_and_classes_are_numbered_by_their_first_requests(void)
{
	static const int32_t session[] = {7, -1, 2, 7, 5};
	static const char *const class[] = {"c", "a", "", "b", "c"};
	struct workload w = steady(5);
	for (int i = 0; i < 5; i++) /* as a file that names them in another order would number them */
		CHECK_INT(workload_tenant(&w, (const char *[]){"a", "b", "c", "d", "e"}[i], &w.specs[i].tenant, NULL),
			  ERR_NONE);
	for (int i = 0; i < 5; i++) {
		w.specs[i].session = session[i];
		CHECK_INT(workload_tenant(&w, class[i], &w.specs[i].tenant, NULL), ERR_NONE);
	}
	CHECK_INT(subset_renumber(&w, NULL), ERR_NONE);
	static const int32_t want[] = {0, -1, 1, 0, 2}, tenant[] = {1, 2, 0, 3, 1};
	for (int i = 0; i < 5; i++) {
		CHECK_INT(w.specs[i].session, want[i]);
		CHECK_INT(w.specs[i].tenant, tenant[i]);
		CHECK_STR(w.tenants[w.specs[i].tenant], class[i]);
	}
	CHECK_INT(w.n_tenants, 4);
	workload_free(&w);
}

static void what_makes_no_sense_is_refused(void)
{
	static const struct {
		struct shape s;
		const char *error;
	} bad[] = {
		{{.request_rate = 2, .burstiness = 1, .replay_speedup = 2, .length_scale = 1, .max_tokens_cap = 1},
		 "--request-rate 2 replaces the trace's arrivals, so --replay-speedup 2 has nothing to speed up: give "
		 "one of "
		 "them"},
		{{.burstiness = 2, .replay_speedup = 1, .length_scale = 1, .max_tokens_cap = 1},
		 "--burstiness 2 shapes the arrivals made by --request-rate: give that as well"},
		{{.burstiness = 1, .replay_speedup = 0, .length_scale = 1, .max_tokens_cap = 1},
		 "--replay-speedup 0: must be above 0"},
		{{.burstiness = 1, .replay_speedup = 1, .length_scale = NAN, .max_tokens_cap = 1},
		 "--length-scale nan: must be in 1e-6 .. 1e6"},
		{{.burstiness = 1, .replay_speedup = 1, .length_scale = 1e6, .max_tokens_cap = 1},
		 "row 1: a prompt of 100000 tokens scaled by 1000000 passes 2^31 - 1"},
	};
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		struct workload w = {0};
		struct err e = {0};
		add(&w, 0, 100000, 1);
		CHECK_INT(shape_apply(&w, &bad[i].s, &e), ERR_INPUT);
		CHECK_STR(e.text, bad[i].error);
		workload_free(&w);
	}
}

/* Two requests, the second waits for the first: of 3 samples each, whoever waited waits for all three; the second's own
 * samples fork off it. */
static void samples_are_forks_of_the_first(void)
{
	struct shape s = none();
	struct err e = {0};
	struct workload w = steady(2);
	int32_t parent = 0, child = 1, *of, prompt = w.specs[1].prompt_tokens;
	char buf[24];
	CHECK_INT(workload_link(&w, &parent, &child, 1, &e), ERR_NONE);
	w.specs[1].arrival_ns = 500;
	s.samples = 3;
	apply(&w, s);
	CHECK_INT(w.n, 6);
	CHECK_INT(workload_fork_parents(&w, &of, &e), ERR_NONE);
	static const int32_t parents[] = {0, 1, 1, 3, 1, 1}, forks[] = {-1, 0, 0, -1, 3, 3};
	for (int i = 0; i < 6; i++) {
		CHECK_INT(w.n_parents[i], parents[i]);
		CHECK_INT(of[i], forks[i]);
		CHECK_INT(w.specs[i].fork_at, i % 3 ? w.specs[i].prompt_tokens : 0);
		CHECK_INT(w.specs[i].hash_at, w.specs[i / 3 * 3].hash_at);
	}
	CHECK_INT(w.specs[3].arrival_ns, 500);
	CHECK_INT(w.specs[5].arrival_ns, 0);
	CHECK_INT(w.specs[5].prompt_tokens, prompt);
	CU_ASSERT_STRING_EQUAL(workload_name(&w, 5, buf), "2#3");
	CHECK_INT(shape_samples(&w, &s, &e), ERR_INPUT); /* they are forks already */
	mem_free(of);
	workload_free(&w);
}

/* At every token of every beam search as many beams live as are asked for; those that are alive at the end have all outputs; a
 * fork goes on from where its parent is. */
static void beams_are_dropped_and_forked(void)
{
	enum { WIDTH = 4, EVERY = 5, OUT = 23 };
	struct err e = {0};
	int64_t dropped = 0, forked = 0;
	for (uint64_t seed = 0; seed < 20; seed++) {
		struct shape s = none();
		struct workload w = steady(3);
		int32_t *of, alive[3][OUT] = {{0}}, full[3] = {0}, root = -1;
		for (int i = 0; i < 3; i++) {
			w.specs[i].prompt_tokens = 10;
			w.specs[i].output_tokens = OUT;
		}
		s.beam_width = WIDTH;
		s.beam_every = EVERY;
		s.seed = seed;
		apply(&w, s);
		CHECK_INT(workload_fork_parents(&w, &of, &e), ERR_NONE);
		for (int32_t i = 0; i < w.n; i++) {
			const struct spec *p = &w.specs[i];
			int32_t from = p->prompt_tokens - 10, to = from + p->output_tokens;
			root += of[i] < 0;
			CU_ASSERT(from % EVERY == 0 && (to % EVERY == 0 || to == OUT) && to > from &&
				  p->max_tokens >= to - from);
			for (int32_t k = from; k < to; k++)
				alive[root][k]++;
			full[root] += to == OUT;
			dropped += to < OUT;
			forked += from > 0;
			if (of[i] < 0)
				continue;
			const struct spec *parent = &w.specs[of[i]];
			CHECK_INT(p->fork_at, p->prompt_tokens);
			CU_ASSERT(p->prompt_tokens <= parent->prompt_tokens + parent->output_tokens);
		}
		for (int r = 0; r < 3; r++) {
			CHECK_INT(full[r], WIDTH);
			for (int k = 0; k < OUT; k++)
				CHECK_INT(alive[r][k], WIDTH);
		}
		mem_free(of);
		workload_free(&w);
	}
	CHECK_INT(dropped, forked);
	/* 4 choices x 4 beams x 3 x 20, each not drawn with chance (3/4)^4 = 0.32 */
	CU_ASSERT(dropped > 240 && dropped < 370);
}

static void max_tokens_modes_are_parsed(void)
{
	struct shape s = none();
	struct err e = {0};
	CHECK_INT(shape_parse_max_tokens("pow2", &s, &e), ERR_NONE);
	CHECK_INT(s.max_tokens_mode, MAX_TOKENS_POW2);
	CHECK_INT(shape_parse_max_tokens("4096", &s, &e), ERR_NONE);
	CHECK_INT(s.max_tokens_mode, MAX_TOKENS_MAX);
	CHECK_INT(s.max_tokens_cap, 4096);
	struct workload w = steady(3);
	s.max_tokens_mode = MAX_TOKENS_ORACLE;
	apply(&w, s);
	CU_ASSERT(w.oracle);
	CHECK_INT(w.specs[2].max_tokens, 12);
	workload_free(&w);
	static const char *const bad[] = {"0", "-4", "12k", "", "orcale", "99999999999"};
	for (int i = 0; i < 6; i++) {
		err_clear(&e);
		CHECK_INT(shape_parse_max_tokens(bad[i], &s, &e), ERR_INPUT);
	}
}

int main(void)
{
	static const struct test tests[] = {
		{"the_default_changes_nothing_but_max_tokens", the_default_changes_nothing_but_max_tokens},
		{"speedup_divides_every_time_to_the_nearest_nanosecond",
		 speedup_divides_every_time_to_the_nearest_nanosecond},
		{"even_spacing_does_not_drift", even_spacing_does_not_drift},
		{"an_unlimited_rate_puts_all_at_zero", an_unlimited_rate_puts_all_at_zero},
		{"gaps_have_the_asked_rate_and_burstiness", gaps_have_the_asked_rate_and_burstiness},
		{"the_seed_decides_arrivals", the_seed_decides_arrivals},
		{"lengths_round_up_and_empty_outputs_stay_empty", lengths_round_up_and_empty_outputs_stay_empty},
		{"sharing_scales_with_the_lengths", sharing_scales_with_the_lengths},
		{"ids_scaled_to_nothing_still_tell_prompts_apart", ids_scaled_to_nothing_still_tell_prompts_apart},
		{"the_first_n_come_with_what_they_wait_for", the_first_n_come_with_what_they_wait_for},
		{"rate_moves_the_roots_and_speedup_the_delays", rate_moves_the_roots_and_speedup_the_delays},
		{"a_slice_starts_at_zero_and_cuts_sessions_at_their_ready_time",
		 a_slice_starts_at_zero_and_cuts_sessions_at_their_ready_time},
		{"slices_take_every_kth_and_samples", slices_take_every_kth_and_samples},
		{"sessions_and_classes_are_numbered_by_their_first_requests",
		 sessions_and_classes_are_numbered_by_their_first_requests},
		{"what_makes_no_sense_is_refused", what_makes_no_sense_is_refused},
		{"samples_are_forks_of_the_first", samples_are_forks_of_the_first},
		{"beams_are_dropped_and_forked", beams_are_dropped_and_forked},
		{"max_tokens_modes_are_parsed", max_tokens_modes_are_parsed},
	};
	return SUITE_RUN("traces_shape", tests);
}
