/* What happened to each request: phases leave no gap, add up to the request's own accounts, and are those of schedules
 * solved by hand. */
#include <stdlib.h>
#include <unistd.h>

#include "analysis/history.h"
#include "analysis/store.h"
#include "policies/registry.h"
#include "tests/support/case_run.h"
#include "tests/support/sched.h"
#include "tests/unit/analysis_fixture.h"

/* --- by hand: a step takes 10 ns, a block holds 4 tokens ------------------------------------------------------------ */

struct hand {
	struct sched s;
	struct history *history;
	struct history_table table;
};

static void hand_init(struct hand *h, const char *policy, const char *params)
{
	memset(h, 0, sizeof *h);
	sched_init(&h->s, policy, params);
}

static void hand_run(struct hand *h)
{
	struct err e = {0};
	struct sched *s = &h->s;
	const struct history_sink sink = history_table_sink(&h->table);
	s->log = true;
	CHECK_INT(sched_open(s), ERR_NONE);
	/* The same once more, with ours instead of the test's own recorder. */
	engine_free(s->engine);
	source_free(s->source);
	s->engine = NULL;
	CHECK_INT(history_create(&h->history, s->w.n, &sink, &e), ERR_NONE);
	s->recorder = (struct recorder){.ctx = h->history, .step = history_step, .event = history_event};
	CHECK_INT(source_create(&s->source, &s->w, s->cfg.max_concurrency, &e), ERR_NONE);
	CHECK_INT(engine_create(&s->engine, &s->cfg, &s->w, s->requests, s->source, &s->instance, &s->recorder, &e),
		  ERR_NONE);
	history_engine(h->history, s->engine);
	CHECK_INT(sched_loop(s), ERR_NONE);
	CHECK_INT(history_finish(h->history, &e), ERR_NONE);
	sched_close(s);
	CHECK_INT(history_table_sort(&h->table, &e), ERR_NONE);
}

static void hand_free(struct hand *h)
{
	history_free(h->history);
	history_table_free(&h->table);
	sched_free(&h->s);
}

/* "queued 1-50, prefill 50-60 (4), ..." of one request. */
static void check_story(const struct hand *h, int32_t req, const char *expected)
{
	char text[1024] = "";
	size_t n = 0;
	for (int64_t i = 0; i < h->table.n; i++) {
		const struct phase *p = &h->table.phases[i];
		if (p->req != req)
			continue;
		n += (size_t)snprintf(text + n, sizeof text - n, "%s%s %lld-%lld", n ? ", " : "", phase_names[p->kind],
				      (long long)p->begin_ns, (long long)p->end_ns);
		if (p->tokens)
			n += (size_t)snprintf(text + n, sizeof text - n, " (%lld)", (long long)p->tokens);
		if (p->by >= 0)
			n += (size_t)snprintf(text + n, sizeof text - n, " for %d", p->by);
	}
	CHECK_STR(text, expected);
}

static void a_prompt_in_pieces_then_tokens(void)
{
	struct hand h;
	hand_init(&h, "vllm_v1", "");
	h.s.cfg.max_num_batched_tokens = 8;
	sched_add(&h.s, 0, 20, 3);
	sched_add(&h.s, 1, 4, 2);
	hand_run(&h);
	check_story(&h, 0, "prefill 0-10 (8), prefill 10-20 (8), prefill 20-30 (4), decode 30-50 (2)");
	check_story(&h, 1, "queued 1-20, prefill 20-30 (4), decode 30-40 (1)");
	CHECK_INT(h.table.phases[4].waited_ns[WAIT_ENTRY], 9);
	CHECK_INT(h.table.phases[4].waited_ns[WAIT_PREFILL], 10);
	hand_free(&h);
}

/* 4 blocks, two requests of 4 prompt tokens and 8 outputs: at 50 the second gives way to the first and is let in again at
 * 80, with 4 + 5 tokens to compute, 8 of them for the second time. */
static void who_lost_its_memory_to_whom(void)
{
	struct hand h;
	hand_init(&h, "vllm_v1", "");
	h.s.cfg.num_blocks = 4;
	sched_add(&h.s, 0, 4, 8);
	sched_add(&h.s, 0, 4, 8);
	hand_run(&h);
	check_story(&h, 0, "prefill 0-10 (4), decode 10-80 (7)");
	check_story(&h, 1,
		    "prefill 0-10 (4), decode 10-50 (4), preempted 50-80 for 0, recompute 80-90 (9), decode "
		    "90-110 (2)");
	CHECK_INT(h.table.phases[5].again, 8);
	hand_free(&h);
}

/* vllm_v0 lets prompts go first: whoever decodes has no turn meanwhile. */
static void no_turn_while_others_have_theirs(void)
{
	struct hand h;
	hand_init(&h, "vllm_v0", "");
	sched_add(&h.s, 0, 4, 4);
	sched_add(&h.s, 15, 4, 2);
	hand_run(&h);
	check_story(&h, 0, "prefill 0-10 (4), decode 10-20 (1), stalled 20-30, decode 30-50 (2)");
	check_story(&h, 1, "queued 15-20, prefill 20-30 (4), decode 30-40 (1)");
	hand_free(&h);
}

/* Static batching: the row of a request that has ended goes on until the batch has. */
static void a_row_goes_on_after_its_end(void)
{
	struct hand h;
	hand_init(&h, "static", "");
	sched_add(&h.s, 0, 4, 2);
	sched_add(&h.s, 0, 4, 4);
	sched_add(&h.s, 0, 4, 1);
	h.s.cfg.max_num_seqs = 2;
	hand_run(&h);
	check_story(&h, 0, "prefill 0-10 (4), decode 10-20 (1), held 20-40");
	check_story(&h, 2, "queued 0-40, prefill 40-50 (4)");
	hand_free(&h);
}

static void a_window_and_a_bound_leave_the_rest_out(void)
{
	struct hand h;
	hand_init(&h, "vllm_v1", "");
	h.table.from_ns = 25;
	h.table.to_ns = 35;
	h.table.most = 2;
	h.table.steps = true;
	h.s.cfg.max_num_batched_tokens = 8;
	sched_add(&h.s, 0, 20, 3);
	sched_add(&h.s, 1, 4, 2);
	hand_run(&h);
	/* prefill 20-30 of both, then a decode phase each. */
	CHECK_INT(h.table.n, 2);
	CHECK_INT(h.table.left_out, 2);
	CHECK_INT(h.table.n_steps, 2);
	hand_free(&h);
}

/* --- any case ------------------------------------------------------------------------------------------------------- */

struct any {
	struct history_table table;
	struct history *history;
};

static void on_engine(void *ctx, const struct engine *g)
{
	history_engine(((struct any *)ctx)->history, g);
}

static void on_turn(void *ctx, const struct turn *t)
{
	(void)ctx;
	CU_ASSERT(t->since_ns <= t->start_ns && t->start_ns <= t->end_ns && t->since_step < t->step);
	CU_ASSERT(t->again >= 0 && t->again <= t->tokens && t->tokens > 0);
}

static void on_phase(void *ctx, const struct phase *p)
{
	const struct history_sink keep = history_table_sink(ctx);
	keep.phase(ctx, p);
}

static int64_t total(const struct history_table *t, int64_t from, int64_t to, unsigned kinds)
{
	int64_t ns = 0;
	for (int64_t i = from; i < to; i++)
		if (kinds >> t->phases[i].kind & 1)
			ns += t->phases[i].end_ns - t->phases[i].begin_ns;
	return ns;
}

enum { WAITING_KINDS = 1u << PHASE_QUEUED | 1u << PHASE_PREEMPTED | 1u << PHASE_SWAPPED };

/* Phases i ... of one request; returns where they end. */
static int64_t check_one(const struct any *a, const struct request *r, int32_t req, int64_t from)
{
	const struct history_table *t = &a->table;
	int64_t to = from, at = r->arrival_ns, waited[WAIT_CAUSES] = {0};
	bool held = false;
	for (; to < t->n && t->phases[to].req == req; to++) {
		const struct phase *p = &t->phases[to];
		int64_t sum = 0;
		CHECK_INT(p->begin_ns, at);
		CU_ASSERT(!held && !p->open);
		at = p->end_ns;
		held = p->kind == PHASE_HELD;
		for (int c = 0; c < WAIT_CAUSES; c++) {
			waited[c] += p->waited_ns[c];
			sum += p->waited_ns[c];
		}
		if (WAITING_KINDS >> p->kind & 1)
			CHECK_INT(sum, p->end_ns - p->begin_ns);
	}
	CHECK_INT(at, held ? r->held_until_ns : r->last_token_ns);
	CHECK_INT(total(t, from, to, 1u << PHASE_QUEUED),
		  r->first_sched_ns >= 0 ? request_queue_ns(r) : r->last_token_ns - r->arrival_ns);
	CHECK_INT(total(t, from, to, 1u << PHASE_PREEMPTED | 1u << PHASE_SWAPPED), r->preempted_ns);
	CHECK_INT(total(t, from, to, 1u << PHASE_LOADING), r->transfer_ns);
	bool at_the_door = r->state == REQUEST_REJECTED && r->why != REQUEST_WHY_POLICY;
	for (int c = 0; c < WAIT_CAUSES && !at_the_door; c++)
		CHECK_INT(waited[c], r->waited_ns[c]);
	return to;
}

static void run_case(const struct random_case *c, int64_t *ran)
{
	struct workload w;
	struct err e = {0};
	struct any a = {0};
	if (!random_case_workload(c, &w))
		return;
	struct request *requests = calloc((size_t)w.n + 1, sizeof *requests);
	const struct history_sink sink = {.ctx = &a, .turn = on_turn, .phase = on_phase};
	CHECK_INT(history_create(&a.history, w.n, &sink, &e), ERR_NONE);
	const struct case_watch watch = {.recorder = {.ctx = a.history, .step = history_step, .event = history_event},
					 .ctx = &a,
					 .engine = on_engine};
	int rc = case_run(c, &w, &watch, requests, &e);
	if (rc == ERR_NONE) {
		int64_t at = 0;
		CHECK_INT(history_finish(a.history, &e), ERR_NONE);
		CHECK_INT(history_table_sort(&a.table, &e), ERR_NONE);
		for (int32_t i = 0; i < w.n; i++)
			at = check_one(&a, &requests[i], i, at);
		CHECK_INT(at, a.table.n);
		++*ran;
	}
	history_free(a.history);
	history_table_free(&a.table);
	free(requests);
	workload_free(&w);
}

static void phases_add_up_in_random_cases(void)
{
	int64_t ran = 0, cases = test_short() ? 60 : 400;
	for (int64_t k = 0; k < cases; k++)
		for (int32_t i = 0; i < policy_count(); i++) {
			struct random_case c;
			unsigned before = CU_get_number_of_failures();
			random_case_make(&c, (uint64_t)(1000 * k + i), policy_at(i), 12);
			run_case(&c, &ran);
			if (CU_get_number_of_failures() > before && before == 0)
				random_case_print(&c, stdout);
			random_case_free(&c);
		}
	CU_ASSERT(ran > cases);
}

/* --- of a stored run ------------------------------------------------------------------------------------------------ */

static void a_stored_run_is_told_again(void)
{
	struct workload w;
	struct run_settings s;
	struct run_result r, again;
	struct store *store;
	struct store_recipe recipe;
	struct err e = {0};
	struct history_table t = {.steps = true};
	random_workload(&w, 300, 5, 3);
	small_settings(&s, &w);
	s.num_gpu_blocks_override = 60;
	unlink(temp_path("history.db"));
	CHECK_INT(store_open(&store, temp_path("history.db"), false, &e), ERR_NONE);
	must_run(&s, &w, store, &r);
	CHECK_INT(store_recipe(store, r.run_id, &recipe, &e), ERR_NONE);
	const struct history_sink sink = history_table_sink(&t);
	const struct run_io io = {0};
	CHECK_INT(history_rerun(&recipe, &s, &w, &sink, &io, &again, &e), ERR_NONE);
	CHECK_INT(history_table_sort(&t, &e), ERR_NONE);
	CHECK_INT(t.n_steps, r.stats.steps);
	int64_t waiting = 0, all = 0, queue = 0, e2e = 0;
	for (int64_t i = 0; i < w.n; i++) {
		queue += request_queue_ns(&r.requests[i]) + r.requests[i].preempted_ns;
		e2e += request_e2e_ns(&r.requests[i]);
	}
	waiting = total(&t, 0, t.n, WAITING_KINDS);
	all = total(&t, 0, t.n, ~0u);
	CU_ASSERT(r.stats.preemptions > 0);
	CHECK_INT(waiting, queue);
	CHECK_INT(all, e2e);
	history_table_free(&t);
	store_recipe_free(&recipe);
	store_close(store);
	run_result_free(&r);
	run_result_free(&again);
	workload_free(&w);
}

int main(void)
{
	static const struct test tests[] = {
		{"a_prompt_in_pieces_then_tokens", a_prompt_in_pieces_then_tokens},
		{"who_lost_its_memory_to_whom", who_lost_its_memory_to_whom},
		{"no_turn_while_others_have_theirs", no_turn_while_others_have_theirs},
		{"a_row_goes_on_after_its_end", a_row_goes_on_after_its_end},
		{"a_window_and_a_bound_leave_the_rest_out", a_window_and_a_bound_leave_the_rest_out},
		{"phases_add_up_in_random_cases", phases_add_up_in_random_cases},
		{"a_stored_run_is_told_again", a_stored_run_is_told_again},
	};
	return SUITE_RUN("analysis_history", tests);
}
