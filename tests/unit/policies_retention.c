/* Which pages of a running request stay: windows, sinks and dropping by a policy, solved by hand. Unless a test says
 * otherwise a step takes 10 ns, a block holds 4 tokens and a step may compute 64. */
#include <string.h>

#include "core/mem.h"
#include "tests/support/sched.h"
#include "tests/support/suite.h"

static void begin(struct sched *s, enum kv_retention how, int32_t window, int32_t sink)
{
	sched_init(s, "vllm_v1", "");
	s->cfg.kv_retention = how;
	s->cfg.kv_window = window;
	s->cfg.kv_sink = sink;
	s->cfg.check = true;
}

/* Prompt 4, 13 outputs: tokens at places 4 to 15 are decoded. At places 8 and 12 a new page is needed, and the page goes
 * whose last token lies 4 or more behind: 0, then 1. So two pages are in use, and a row sees 5 to 8 tokens. The same when
 * every row is walked. */
static void window_keeps_the_last_pages(void)
{
	static const int64_t seen[] = {0, 5, 6, 7, 8, 5, 6, 7, 8, 5, 6, 7, 8};
	for (int walked = 0; walked < 2; walked++) {
		struct sched s;
		begin(&s, RETAIN_WINDOW, 4, 0);
		s.log = walked;
		sched_add(&s, 0, 4, 13);
		CHECK_INT(sched_run(&s), ERR_NONE);
		CHECK_INT(s.stats.dropped_blocks, 2);
		CHECK_INT(s.stats.dropped_tokens, 8);
		CHECK_INT(s.stats.max_blocks_used, 2);
		CHECK_INT(s.n_steps, 13);
		for (int i = 0; i < s.n_steps && i < 13; i++)
			CHECK_INT(s.steps[i].decode_ctx, seen[i]);
		if (walked) {
			CHECK_INT(sched_event(&s, EVENT_DROP, 0, 0).a, 0);
			CHECK_INT(sched_event(&s, EVENT_DROP, 0, 1).a, 1);
			CHECK_INT(sched_event(&s, EVENT_DROP, 0, 1).step, 9);
		}
		sched_free(&s);
	}
}

/* One sink token keeps page 0: at place 12 page 1 goes, and 12 - 4 tokens and the new one are seen. */
static void sinks_stay(void)
{
	struct sched s;
	begin(&s, RETAIN_SINK_WINDOW, 4, 1);
	s.log = true;
	sched_add(&s, 0, 4, 13);
	CHECK_INT(sched_run(&s), ERR_NONE);
	CHECK_INT(s.stats.dropped_blocks, 1);
	CHECK_INT(sched_event(&s, EVENT_DROP, 0, 0).a, 1);
	CHECK_INT(s.stats.max_blocks_used, 3);
	CHECK_INT(s.steps[8].decode_ctx, 12); /* place 11 */
	CHECK_INT(s.steps[9].decode_ctx, 9);
	sched_free(&s);
}

/* 24 tokens in pieces of 8, a window of 4: before the second piece page 0 goes, before the third 1 and 2. Three pages are in
 * use, not six. */
static void prompts_let_go_piece_by_piece(void)
{
	struct sched s;
	begin(&s, RETAIN_WINDOW, 4, 0);
	s.cfg.max_num_batched_tokens = 8;
	s.log = true;
	sched_add(&s, 0, 24, 1);
	CHECK_INT(sched_run(&s), ERR_NONE);
	for (int i = 0; i < 3; i++)
		CHECK_INT(sched_event(&s, EVENT_CHUNK, 0, i).a, 8 * i);
	CHECK_INT(sched_count(&s, EVENT_DROP, 0), 3);
	CHECK_INT(sched_event(&s, EVENT_DROP, 0, 0).step, 1);
	CHECK_INT(sched_event(&s, EVENT_DROP, 0, 2).a, 2);
	CHECK_INT(s.stats.max_blocks_used, 3);
	sched_free(&s);
}

/* Two requests of 8 + 12 tokens in 5 blocks: with everything kept the second has to give way and is computed again; with a
 * window of 4 each of them needs two blocks, three at most. */
static void a_window_saves_a_preemption(void)
{
	for (int kept = 0; kept < 2; kept++) {
		struct sched s;
		begin(&s, kept ? RETAIN_FULL : RETAIN_WINDOW, kept ? 0 : 4, 0);
		s.cfg.num_blocks = 5;
		sched_add(&s, 0, 8, 12);
		sched_add(&s, 0, 8, 12);
		CHECK_INT(sched_run(&s), ERR_NONE);
		CU_ASSERT((s.requests[1].preemptions > 0) == kept);
		CHECK_INT(s.stats.finished, 2);
		sched_free(&s);
	}
}

/* A and B begin with the same 12 tokens. When A decodes its first token, at place 12, pages 0 and 1 go; B still finds
 * them, lets go of them at once, and computes one token over page 2. */
static void dropped_pages_are_found_again(void)
{
	struct sched s;
	begin(&s, RETAIN_WINDOW, 4, 0);
	s.cfg.prefix_cache = PREFIX_HASH;
	s.log = true;
	for (int i = 0; i < 2; i++) {
		sched_add(&s, 25 * i, 13 - !i, 4);
		sched_share(&s, 7, 12);
	}
	CHECK_INT(sched_run(&s), ERR_NONE);
	CHECK_INT(sched_count(&s, EVENT_DROP, 0), 2);
	CHECK_INT(s.requests[1].cached_tokens, 12);
	CHECK_INT(sched_count(&s, EVENT_DROP, 1), 2);
	CHECK_INT(sched_event(&s, EVENT_DROP, 1, 0).step, sched_event(&s, EVENT_ADMIT, 1, 0).step);
	CHECK_INT(sched_event(&s, EVENT_DECODE, 1, 0).a, 13 - 8 + 1);
	sched_free(&s);
}

/* shortage=drop with drop_keep=4, two requests of 8 + 12 tokens in 6 blocks. At place 12 all are taken: both hold 3 pages,
 * so the last admitted, B, loses its page 1 to A; A has its place in the step, so B loses page 2 for itself. At place 16 A
 * holds 4 pages, B 2: A loses page 1, then B page 3. The last step sees 19 - 4 and 19 - 12 tokens. */
static void pages_are_dropped_before_anybody_gives_way(void)
{
	static const int32_t lost[][2] = {{1, 1}, {1, 2}, {0, 1}, {1, 3}};
	for (int drop = 0; drop < 2; drop++) {
		struct sched s;
		sched_init(&s, "vllm_v1", drop ? "shortage=drop,drop_keep=4" : "");
		s.cfg.check = s.log = true;
		s.cfg.num_blocks = 6;
		sched_add(&s, 0, 8, 12);
		sched_add(&s, 0, 8, 12);
		CHECK_INT(sched_run(&s), ERR_NONE);
		CHECK_INT(s.stats.preemptions, !drop);
		CHECK_INT(s.stats.dropped_blocks, drop ? 4 : 0);
		for (int i = 0; drop && i < 4; i++) {
			CHECK_INT(sched_event(&s, EVENT_DROP, -1, i).req, lost[i][0]);
			CHECK_INT(sched_event(&s, EVENT_DROP, -1, i).a, lost[i][1]);
		}
		if (drop)
			CHECK_INT(s.steps[s.n_steps - 1].decode_ctx, 15 + 7);
		sched_free(&s);
	}
}

/* --- a policy that drops what it may not ------------------------------------------------------------------------- */

struct wrong_drop {
	bool says, late;
	int32_t first, n;
};
static struct wrong_drop wrong;

static int wrong_create(void **self, const union policy_value *values, const struct policy_setup *setup,
			struct policy_traits *traits, struct err *e)
{
	(void)values;
	(void)setup;
	(void)e;
	*self = NULL;
	traits->unbudgeted = true;
	traits->drops = wrong.says;
	return ERR_NONE;
}

static void wrong_destroy(void *self)
{
	(void)self;
}

static void wrong_plan(void *self, struct plan *p)
{
	struct admit_options o = {.tokens = 64};
	int32_t r = view_running_first(p);
	(void)self;
	if (view_waiting(p))
		plan_admit(p, view_waiting_first(p), &o);
	if (r < 0)
		return;
	if (wrong.late)
		plan_decodes(p);
	CHECK_INT(view_pages(p, r), view_computed(p, r) / 4);
	plan_drop(p, r, wrong.first, wrong.n);
	plan_decodes(p);
}

static void what_may_not_be_dropped_ends_the_run(void)
{
	static const struct policy_desc desc = {.abi = POLICY_ABI,
						.size = sizeof(struct policy_desc),
						.name = "wrong",
						.create = wrong_create,
						.destroy = wrong_destroy,
						.plan = wrong_plan};
	static const struct {
		struct wrong_drop how;
		const char *says;
	} cases[] = {
		{{false, false, 0, 1}, "dropped pages without having said that it would"},
		{{true, true, 0, 1}, "dropped pages of a request that it has scheduled in this step"},
		{{true, false, 0, 3}, "dropped pages that the request has not computed"}, /* 8 tokens: two pages */
		{{true, false, 2, 1}, "dropped pages that the request has not computed"},
		{{true, false, -1, 1}, "dropped pages that the request has not computed"},
		{{true, false, 0, INT32_MAX}, "dropped pages that the request has not computed"},
		{{true, false, 0, 2}, NULL},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct sched s;
		wrong = cases[i].how;
		sched_init(&s, "wrong", "");
		s.desc = &desc;
		s.cfg.check = true;
		sched_add(&s, 0, 8, 5);
		CHECK_INT(sched_run(&s), cases[i].says ? ERR_POLICY : ERR_NONE);
		CHECK_INT(s.stats.dropped_blocks, cases[i].says ? 0 : 2);
		if (cases[i].says && !strstr(s.err.text, cases[i].says))
			CHECK_STR(s.err.text, cases[i].says);
		sched_free(&s);
	}
}

/* --- what does not go together ------------------------------------------------------------------------------------- */

static void what_does_not_go_together_is_refused(void)
{
	static const struct {
		const char *policy, *params;
		enum kv_retention how;
		int32_t window, sink;
		enum prefix_cache cache;
		bool kv_off;
		const char *says;
	} cases[] = {
		{"vllm_v1", "", RETAIN_FULL, 8, 0, 0, 0, "--kv-window 8 does nothing when every token is kept"},
		{"vllm_v1", "", RETAIN_FULL, 0, 8, 0, 0, "--kv-sink 8 does nothing when every token is kept"},
		{"vllm_v1", "", RETAIN_WINDOW, 0, 0, 0, 0, "give the tokens to keep with --kv-window"},
		{"vllm_v1", "", RETAIN_WINDOW, 8, 4, 0, 0, "--kv-sink 4 goes with sink-window"},
		{"vllm_v1", "", RETAIN_SINK_WINDOW, 8, 0, 0, 0, "give the first tokens to keep with --kv-sink"},
		{"vllm_v1", "", RETAIN_WINDOW, 8, 0, PREFIX_RADIX, 0, "use --prefix-cache hash or off"},
		{"vllm_v1", "shortage=drop", RETAIN_FULL, 0, 0, PREFIX_RADIX, 0,
		 "policy vllm_v1 drops pages that --prefix-cache radix needs"},
		{"orca", "", RETAIN_WINDOW, 8, 0, 0, true, "--kv-cache off leaves none"},
		{"orca", "", RETAIN_WINDOW, 8, 0, 0, 0, "policy orca reserves contiguous memory"},
		{"static", "reserve=off", RETAIN_WINDOW, 8, 0, 0, 0, "turn its padding off"},
		{"static", "reserve=off,pad=off", RETAIN_WINDOW, 8, 0, 0, 0, NULL},
		{"orca", "paged=on", RETAIN_SINK_WINDOW, 8, 4, PREFIX_HASH, 0, NULL},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct sched s;
		begin(&s, cases[i].how, cases[i].window, cases[i].sink);
		s.policy = cases[i].policy;
		s.params = cases[i].params;
		s.cfg.prefix_cache = cases[i].cache;
		s.cfg.kv_off = cases[i].kv_off;
		sched_add(&s, 0, 20, 20);
		CHECK_INT(sched_run(&s), cases[i].says ? ERR_INPUT : ERR_NONE);
		if (cases[i].says && !strstr(s.err.text, cases[i].says))
			CHECK_STR(s.err.text, cases[i].says);
		sched_free(&s);
	}
}

static const struct test tests[] = {
	{"window_keeps_the_last_pages", window_keeps_the_last_pages},
	{"sinks_stay", sinks_stay},
	{"prompts_let_go_piece_by_piece", prompts_let_go_piece_by_piece},
	{"a_window_saves_a_preemption", a_window_saves_a_preemption},
	{"dropped_pages_are_found_again", dropped_pages_are_found_again},
	{"pages_are_dropped_before_anybody_gives_way", pages_are_dropped_before_anybody_gives_way},
	{"what_may_not_be_dropped_ends_the_run", what_may_not_be_dropped_ends_the_run},
	{"what_does_not_go_together_is_refused", what_does_not_go_together_is_refused},
};

int main(void)
{
	return SUITE_RUN("policies_retention", tests);
}
