/* The recorder keeps what the engine took from outside, in order; the player gives it back, and names the step where the
 * engine asks for something else. */
#include <string.h>

#include "exec/tape.h"
#include "tests/support/sched.h"
#include "tests/support/suite.h"

/* Six requests, more than fit at once: queueing, preemption, an idle gap. */
static void small_work(struct sched *s)
{
	sched_init(s, "chunked", NULL);
	s->cfg.num_blocks = 8;
	s->a = 100;
	s->b = 7;
	s->c = 3;
	s->host_ns = 20;
	s->log = true;
	for (int i = 0; i < 5; i++)
		sched_add(s, 10 * i, 5 + i, 6);
	sched_add(s, 100000, 4, 3);
}

static void record(struct sched *s, struct tape *t)
{
	struct backend recorder;
	*t = (struct tape){0};
	CHECK_INT(sched_open(s), ERR_NONE);
	CHECK_INT(tape_recorder_create(&recorder, &s->backend, t, &s->err), ERR_NONE);
	CHECK_INT(engine_run(s->engine, &recorder, NULL, &s->err), ERR_NONE);
	tape_backend_free(&recorder);
	sched_close(s);
}

/* Plays t; the error, if any, is in s->err. */
static int play(struct sched *s, const struct tape *t)
{
	struct backend player;
	int rc = sched_open(s);
	if (rc == ERR_NONE)
		rc = tape_player_create(&player, t, &s->err);
	if (rc == ERR_NONE) {
		const struct run_hooks hooks = {.stop = tape_player_stop(&player, NULL)};
		rc = engine_run(s->engine, &player, &hooks, &s->err);
		if (rc == ERR_NONE)
			rc = tape_player_finish(&player, &s->err);
		tape_backend_free(&player);
	}
	sched_close(s);
	return rc;
}

static void expect(int rc, const struct sched *s, enum err_code code, const char *words)
{
	CHECK_INT(rc, code);
	if (!strstr(s->err.text, words))
		CHECK_STR(s->err.text, words);
}

/* b has the same events as a, as far as a goes. */
static bool begins(const struct sched *a, const struct sched *b)
{
	bool same = a->n_events <= b->n_events;
	for (int64_t i = 0; same && i < a->n_events; i++) {
		const struct event *x = &a->events[i], *y = &b->events[i];
		same = x->kind == y->kind && x->step == y->step && x->at_ns == y->at_ns && x->req == y->req &&
		       x->a == y->a && x->b == y->b;
	}
	return same;
}

static void what_was_recorded_plays_back(void)
{
	static const char *const policies[] = {"naive", "continuous", "chunked"};
	for (int k = 0; k < 6; k++) {
		struct sched a, b;
		struct tape t;
		small_work(&a);
		small_work(&b);
		a.policy = b.policy = policies[k % 3];
		a.cfg.async_scheduling = b.cfg.async_scheduling = k >= 3;
		record(&a, &t);
		CHECK_INT(play(&b, &t), ERR_NONE);
		CU_ASSERT_TRUE(a.n_events > 50 && a.n_events == b.n_events && begins(&a, &b));
		tape_free(&t);
		sched_free(&a);
		sched_free(&b);
	}
}

/* The clock is read for a second plan while the first step runs: readings and steps in the order they were asked for. */
static void asynchronous_scheduling_keeps_the_order_of_calls(void)
{
	struct sched s;
	struct tape t;
	sched_init(&s, "chunked", NULL);
	s.cfg.async_scheduling = true;
	s.log = true;
	sched_add(&s, 0, 4, 3);
	record(&s, &t);
	static const uint8_t kinds[] = {TAPE_NOW,  TAPE_NOW, TAPE_STEP, TAPE_NOW,
					TAPE_STEP, TAPE_NOW, TAPE_STEP, TAPE_NOW};
	CU_ASSERT_TRUE(t.n >= (int64_t)sizeof kinds);
	for (int64_t i = 0; i < (int64_t)sizeof kinds && i < t.n; i++)
		CHECK_INT(t.entries[i].kind, kinds[i]);
	tape_free(&t);
	sched_free(&s);
}

static void uniform_steps_taken_at_once_are_one_entry_each(void)
{
	struct sched s;
	struct tape t;
	small_work(&s);
	s.log = false;
	record(&s, &t);
	int64_t steps = 0;
	for (int64_t i = 0; i < t.n; i++) {
		const struct tape_entry *x = &t.entries[i];
		steps += x->kind == TAPE_STEP;
		if (i && x->kind == TAPE_STEP && x[-1].kind == TAPE_STEP)
			CHECK_INT(x->a_ns, x[-1].b_ns);
	}
	CHECK_INT(steps, s.stats.steps);
	/* Played with every step walked. */
	s.log = true;
	CHECK_INT(play(&s, &t), ERR_NONE);
	CHECK_INT(s.stats.steps, steps);
	tape_free(&t);
	sched_free(&s);
}

static void parts_host_time_and_extrapolation_are_played_back(void)
{
	struct sched s;
	struct tape t;
	small_work(&s);
	record(&s, &t);
	int64_t nth = 0;
	for (int64_t i = 0; i < t.n; i++) {
		struct tape_entry *x = &t.entries[i];
		if (x->kind != TAPE_STEP)
			continue;
		x->measured = nth % 2;
		x->host_ns = nth;
		x->outside = (double)nth / 8;
		for (int k = 0; k < STEP_PARTS; k++)
			x->part_ns[k] = 10 * nth + k;
		nth++;
	}
	CHECK_INT(play(&s, &t), ERR_NONE);
	CHECK_INT(s.n_steps, nth);
	for (int64_t i = 0; i < s.n_steps; i++) {
		CHECK_INT(s.steps[i].host_ns, i);
		CHECK_NEAR(s.steps[i].outside, (double)i / 8, 0);
		for (int k = 0; k < STEP_PARTS; k++)
			CHECK_INT(s.steps[i].part_ns[k], i % 2 ? 10 * i + k : 0);
	}
	tape_free(&t);
	sched_free(&s);
}

static void another_workload_is_noticed_at_its_step(void)
{
	struct sched a, b;
	struct tape t;
	small_work(&a);
	small_work(&b);
	record(&a, &t);
	b.w.specs[5].prompt_tokens = 6; /* the one after the gap */
	int64_t step = 0;
	for (int64_t i = 0; i < a.n_events; i++)
		if (a.events[i].kind == EVENT_ADMIT && a.events[i].req == 5)
			step = a.events[i].step;
	char words[80];
	snprintf(words, sizeof words, "step %lld: the engine runs another batch than was recorded", (long long)step);
	expect(play(&b, &t), &b, ERR_INPUT, words);
	tape_free(&t);
	sched_free(&a);
	sched_free(&b);
}

static void the_end_of_the_recording_is_the_end_of_a_stopped_run(void)
{
	struct sched s, whole;
	struct tape t;
	small_work(&s);
	small_work(&whole);
	record(&s, &t);
	int64_t full = t.n;
	CHECK_INT(play(&whole, &t), ERR_NONE);
	/* Cut after every entry in turn: a stopped run stops there, having decided nothing else. */
	for (int64_t n = 0; n < full; n++) {
		t.n = n;
		t.interrupted = true;
		/* Stopped between two calls of the loop: never after a reading that a batch followed. */
		bool between = n == 0 || t.entries[n - 1].kind == TAPE_STEP;
		int rc = play(&s, &t);
		CHECK_INT(rc, ERR_INTERRUPTED);
		if (between)
			CU_ASSERT_TRUE(begins(&s, &whole));
		t.interrupted = false;
		if (n < full - 1)
			expect(play(&s, &t), &s, ERR_INPUT, "the recording ends here, but the engine goes on");
	}
	tape_free(&t);
	sched_free(&s);
	sched_free(&whole);
}

static void a_recording_that_goes_on_is_noticed(void)
{
	struct sched s;
	struct tape t;
	small_work(&s);
	record(&s, &t);
	const struct tape_entry more = {.kind = TAPE_NOW, .a_ns = t.entries[t.n - 1].a_ns + 1};
	CHECK_INT(tape_add(&t, &more, &s.err), ERR_NONE);
	expect(play(&s, &t), &s, ERR_INPUT, "the engine is done, but the recording goes on");
	tape_free(&t);
	sched_free(&s);
}

static struct tape_entry *nth_of(struct tape *t, uint8_t kind, int nth)
{
	for (int64_t i = 0; i < t->n; i++)
		if (t->entries[i].kind == kind && nth-- == 0)
			return &t->entries[i];
	return NULL;
}

static void impossible_times_are_refused(void)
{
	struct sched s;
	struct tape t;
	small_work(&s);
	record(&s, &t);
	struct tape_entry *x = nth_of(&t, TAPE_STEP, 2), was = *x;
	x->b_ns = x->a_ns - 1;
	expect(play(&s, &t), &s, ERR_INPUT, "step 2: its times");
	*x = was;
	x->b_ns = INT64_MAX;
	expect(play(&s, &t), &s, ERR_INPUT, "step 2: its times");
	*x = was;
	x->host_ns = -5;
	expect(play(&s, &t), &s, ERR_INPUT, "step 2: its times");
	*x = was;
	x = nth_of(&t, TAPE_NOW, 2);
	x->a_ns = 0;
	expect(play(&s, &t), &s, ERR_INPUT, "step 2: the clock goes");
	tape_free(&t);
	sched_free(&s);
}

static void ends_of_sequences_are_played_back_and_checked(void)
{
	struct sched s;
	struct tape t;
	small_work(&s);
	record(&s, &t);
	int32_t first = 0, last = 5;
	/* Step 3: request 0 is decoding, request 5 has not arrived. */
	struct tape_entry *x = nth_of(&t, TAPE_STEP, 3);
	x->eos_at = t.n_eos;
	x->n_eos = 1;
	CHECK_INT(tape_add_eos(&t, &last, 1, &s.err), ERR_NONE);
	expect(play(&s, &t), &s, ERR_INPUT, "step 3: request 5 ended without having had a token");
	t.eos[0] = first;
	/* It ends earlier than was recorded: the next batch is another. */
	expect(play(&s, &t), &s, ERR_INPUT, "step 4: the engine runs another batch");
	CHECK_INT(s.requests[0].state, REQUEST_FINISHED);
	x->n_eos = 7;
	expect(play(&s, &t), &s, ERR_INPUT, "step 3: its ends of sequences are missing");
	tape_free(&t);
	sched_free(&s);
}

/* The user's own stop reaches the engine through the player's. */
static void a_users_stop_is_heard(void)
{
	struct sched s;
	struct tape t;
	struct backend player;
	volatile int stop = 0;
	small_work(&s);
	record(&s, &t);
	CHECK_INT(sched_open(&s), ERR_NONE);
	CHECK_INT(tape_player_create(&player, &t, &s.err), ERR_NONE);
	const struct run_hooks hooks = {.stop = tape_player_stop(&player, &stop)};
	CHECK_INT(*hooks.stop, 0);
	stop = 2;
	CHECK_INT(engine_run(s.engine, &player, &hooks, &s.err), ERR_INTERRUPTED);
	tape_backend_free(&player);
	sched_close(&s);
	tape_free(&t);
	sched_free(&s);
}

int main(void)
{
	static const struct test tests[] = {
		{"what_was_recorded_plays_back", what_was_recorded_plays_back},
		{"asynchronous_scheduling_keeps_the_order_of_calls", asynchronous_scheduling_keeps_the_order_of_calls},
		{"uniform_steps_taken_at_once_are_one_entry_each", uniform_steps_taken_at_once_are_one_entry_each},
		{"parts_host_time_and_extrapolation_are_played_back",
		 parts_host_time_and_extrapolation_are_played_back},
		{"another_workload_is_noticed_at_its_step", another_workload_is_noticed_at_its_step},
		{"the_end_of_the_recording_is_the_end_of_a_stopped_run",
		 the_end_of_the_recording_is_the_end_of_a_stopped_run},
		{"a_recording_that_goes_on_is_noticed", a_recording_that_goes_on_is_noticed},
		{"impossible_times_are_refused", impossible_times_are_refused},
		{"ends_of_sequences_are_played_back_and_checked", ends_of_sequences_are_played_back_and_checked},
		{"a_users_stop_is_heard", a_users_stop_is_heard},
	};
	return SUITE_RUN("exec_tape", tests);
}
