/* prop_tape.c: a recorded run, played back, decides the same: byte for byte in its decision log, block for block in its
 * memory after every step. For every registered policy, on random workloads and on slices of real traces, under clocks
 * that jitter, with sequences that end by themselves, with asynchronous scheduling and prefix caching on and off, for
 * runs that were stopped as well. And a recording that was tampered with is noticed, or makes another log, but never a
 * crash.
 *
 * usage: prop_tape [--cases N] [--seed N] */
#include <stdlib.h>
#include <string.h>

#include "analysis/decisions.h"
#include "core/err.h"
#include "core/mem.h"
#include "core/source.h"
#include "exec/tape.h"
#include "policies/registry.h"
#include "tests/support/fake_backend.h"
#include "tests/support/jitter.h"
#include "tests/support/random_case.h"
#include "tests/support/suite.h"
#include "traces/reader.h"
#include "traces/shape.h"

/* What runs: settings, and a workload that lives outside. */
struct setting {
	const struct policy_desc *policy;
	const union policy_value *values;
	struct engine_config cfg;
	const struct workload *w;
};

/* What one run left behind. */
struct trail {
	char *log;
	int64_t n, cap;
	uint64_t *tables; /* [n_tables] of all block tables, after each step */
	int64_t n_tables, cap_tables;
	struct decision_hash hash;
	int rc;
	struct err err;
	struct request *requests; /* [w->n] */

	struct engine *engine;
	const struct workload *w;
	int64_t stop_after; /* steps; 0 = never */
	volatile int stop;
};

static void must(bool ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "prop_tape: %s\n", what);
	exit(1);
}

/* --- one run ------------------------------------------------------------------------------------------------------ */

static void on_event(void *ctx, const struct event *ev)
{
	struct trail *t = ctx;
	char line[DECISION_LINE];
	size_t len = strlen(decision_line(ev, line));
	must(mem_grow((void **)&t->log, &t->cap, t->n + (int64_t)len + 1, 1) == 0, "no memory");
	memcpy(t->log + t->n, line, len + 1);
	t->n += (int64_t)len;
	decision_hash_add(&t->hash, ev);
}

static uint64_t hash_tables(const struct trail *t)
{
	uint64_t h = 1;
	for (int32_t i = 0; i < t->w->n; i++) {
		int32_t n = 0;
		if (engine_request(t->engine, i)->state != REQUEST_RUNNING || engine_config(t->engine)->kv_off)
			continue;
		const int32_t *ids = engine_block_table(t->engine, i, &n);
		h = rng_mix(h ^ (uint64_t)i) + (uint64_t)n;
		for (int32_t k = 0; k < n; k++)
			h = rng_mix(h ^ (uint64_t)ids[k]);
	}
	return h;
}

static void on_step(void *ctx, const struct step_row *row)
{
	struct trail *t = ctx;
	(void)row;
	must(mem_grow((void **)&t->tables, &t->cap_tables, t->n_tables + 1, sizeof *t->tables) == 0, "no memory");
	t->tables[t->n_tables++] = hash_tables(t);
	if (t->n_tables == t->stop_after)
		t->stop = 1;
}

/* `walked` = with a decision log; without one, uniform steps may be taken several at a time. */
static void drive(const struct setting *s, struct backend *b, const volatile int *stop, bool walked, struct trail *t)
{
	struct engine_config cfg = s->cfg;
	struct policy policy = {0};
	struct source *source = NULL;
	const struct recorder rec = {.ctx = t, .step = walked ? on_step : NULL, .event = walked ? on_event : NULL};
	const struct run_hooks hooks = {.stop = stop ? stop : &t->stop};
	t->w = s->w;
	t->requests = calloc((size_t)s->w->n + 1, sizeof *t->requests);
	cfg.check = walked;
	t->rc = engine_config_resolve(&cfg, &t->err);
	struct policy_setup setup;
	engine_policy_setup(&cfg, &setup);
	if (!t->rc)
		t->rc = policy_open(&policy, s->policy, s->values, &setup, &t->err);
	if (!t->rc)
		t->rc = source_create(&source, s->w, cfg.max_concurrency, &t->err);
	if (!t->rc)
		t->rc = engine_create(&t->engine, &cfg, s->w, t->requests, source, &policy, &rec, &t->err);
	if (!t->rc)
		t->rc = engine_run(t->engine, b, &hooks, &t->err);
	engine_free(t->engine);
	source_free(source);
	policy_close(&policy);
	t->engine = NULL;
}

static void trail_free(struct trail *t)
{
	mem_free(t->log);
	mem_free(t->tables);
	free(t->requests);
}

/* Under a jittering clock, recorded; stopped after so many steps (0: not). */
static void record(const struct setting *s, uint64_t seed, int64_t stop_after, struct tape *tape, struct trail *t)
{
	struct jitter j;
	struct backend real, recorder;
	struct err e = {0};
	jitter_init(&j, seed, &real);
	*t = (struct trail){.stop_after = stop_after};
	must(tape_recorder_create(&recorder, &real, tape, &e) == ERR_NONE, e.text);
	drive(s, &recorder, NULL, true, t);
	tape->interrupted = t->rc == ERR_INTERRUPTED;
	tape_backend_free(&recorder);
	jitter_free(&j);
}

static void play(const struct setting *s, const struct tape *tape, struct trail *t)
{
	struct backend player;
	struct err e = {0};
	*t = (struct trail){0};
	must(tape_player_create(&player, tape, &e) == ERR_NONE, e.text);
	drive(s, &player, tape_player_stop(&player, NULL), true, t);
	if (t->rc == ERR_NONE)
		t->rc = tape_player_finish(&player, &t->err);
	tape_backend_free(&player);
}

/* --- the same again ----------------------------------------------------------------------------------------------- */

static bool same_requests(const struct trail *a, const struct trail *b)
{
	for (int64_t i = 0; i < a->w->n; i++)
		if (a->requests[i].state != b->requests[i].state || a->requests[i].outputs != b->requests[i].outputs ||
		    a->requests[i].first_token_ns != b->requests[i].first_token_ns ||
		    a->requests[i].last_token_ns != b->requests[i].last_token_ns ||
		    a->requests[i].preempted_ns != b->requests[i].preempted_ns)
			return false;
	return true;
}

/* NULL, or what differs. */
static const char *difference(const struct trail *a, const struct trail *b)
{
	if (a->rc != b->rc)
		return b->rc ? b->err.text : "it ends well, where the recorded run did not";
	if (a->n != b->n || (a->n && memcmp(a->log, b->log, (size_t)a->n) != 0))
		return "the decision logs differ";
	if (a->n_tables != b->n_tables ||
	    (a->n_tables && memcmp(a->tables, b->tables, (size_t)a->n_tables * sizeof *a->tables) != 0))
		return "the block tables differ";
	if (decision_hash_value(&a->hash) != decision_hash_value(&b->hash) ||
	    decision_hash_memory(&a->hash) != decision_hash_memory(&b->hash))
		return "the hashes differ";
	return same_requests(a, b) ? NULL : "the requests' times differ";
}

/* --- tampering ---------------------------------------------------------------------------------------------------- */

enum tampering { T_DROP, T_TWICE, T_SWAP, T_TIME, T_END, T_BATCH, T_EOS, T_CUT, T_KIND, TAMPERINGS };

static void copy_tape(struct tape *to, const struct tape *from)
{
	struct err e = {0};
	*to = (struct tape){.interrupted = from->interrupted};
	for (int64_t i = 0; i < from->n; i++)
		must(tape_add(to, &from->entries[i], &e) == ERR_NONE, e.text);
	if (from->n_eos)
		must(tape_add_eos(to, from->eos, (int32_t)from->n_eos, &e) == ERR_NONE, e.text);
}

/* Changes one thing; false: there was nothing to change. */
static bool tamper(struct tape *t, struct rng *r, enum tampering how, int32_t n_requests, struct err *e)
{
	if (t->n < 3)
		return false;
	int64_t at = (int64_t)rng_below(r, (uint64_t)t->n - 1);
	struct tape_entry *x = &t->entries[at], was = *x;
	int64_t by = (int64_t)rng_below(r, 1000000) - 500000;
	int32_t req = (int32_t)rng_below(r, (uint64_t)n_requests);
	switch (how) {
	case T_DROP:
		memmove(x, x + 1, (size_t)(t->n - at - 1) * sizeof *x);
		t->n--;
		return true;
	case T_TWICE:
		must(tape_add(t, &was, e) == ERR_NONE, e->text);
		x = &t->entries[at];
		memmove(x + 1, x, (size_t)(t->n - at - 1) * sizeof *x);
		return true;
	case T_SWAP:
		*x = x[1];
		x[1] = was;
		return true;
	case T_TIME:
		x->a_ns += by;
		return by != 0;
	case T_END:
		x->b_ns += by;
		return x->kind == TAPE_STEP && by != 0;
	case T_BATCH:
		x->batch ^= UINT64_C(1) << rng_below(r, 64);
		return x->kind == TAPE_STEP;
	case T_EOS:
		if (x->kind != TAPE_STEP || x->n_eos)
			return false;
		x->eos_at = t->n_eos;
		x->n_eos = 1;
		must(tape_add_eos(t, &req, 1, e) == ERR_NONE, e->text);
		return true;
	case T_CUT:
		t->n = at;
		return true;
	default:
		x->kind = x->kind == TAPE_NOW ? TAPE_STEP : TAPE_NOW;
		return true;
	}
}

/* Some changes change nothing: a reading of the clock at which nothing happened, an end that was one already, a swap of
 * equal readings. Then everything else must be as it was. */
static bool may_pass(const struct trail *was, const struct trail *is, enum tampering how)
{
	bool clock = how == T_TIME || how == T_DROP || how == T_TWICE || how == T_SWAP || how == T_EOS;
	return clock && difference(was, is) == NULL;
}

static const char *try_tampering(const struct setting *s, const struct tape *tape, const struct trail *was,
				 struct rng *r, int64_t *noticed, int64_t *unseen)
{
	static const char *const names[] = {"an entry dropped",   "an entry twice",   "two entries swapped",
					    "a time changed",     "an end changed",   "another batch",
					    "an end of sequence", "the rest cut off", "another kind"};
	enum tampering how = (enum tampering)rng_below(r, TAMPERINGS);
	struct tape bad;
	struct trail is;
	struct err e = {0};
	const char *wrong = NULL;
	copy_tape(&bad, tape);
	if (tamper(&bad, r, how, (int32_t)s->w->n, &e)) {
		play(s, &bad, &is);
		bool differs = is.rc != was->rc || decision_hash_value(&is.hash) != decision_hash_value(&was->hash);
		if (differs)
			++*noticed;
		else if (may_pass(was, &is, how))
			++*unseen;
		else
			wrong = names[how];
		trail_free(&is);
	}
	tape_free(&bad);
	return wrong;
}

/* --- random workloads --------------------------------------------------------------------------------------------- */

struct counts {
	int64_t runs, refused, interrupted, eos, noticed, unseen;
	int64_t accepted[2][2]; /* [async][prefix caching] */
};

/* *refused: these settings do not go together, and nothing was checked. */
static bool check(const struct setting *s, uint64_t seed, int64_t stop_after, struct counts *n, const char *name,
		  bool *refused)
{
	struct tape tape = {0};
	struct trail was, is;
	struct rng r;
	rng_init(&r, seed, 12);
	record(s, seed, stop_after, &tape, &was);
	*refused = was.rc == ERR_INPUT && tape.n == 0;
	if (*refused) {
		n->refused++;
		trail_free(&was);
		return true;
	}
	play(s, &tape, &is);
	const char *wrong = difference(&was, &is);
	for (int k = 0; !wrong && k < 3; k++)
		wrong = try_tampering(s, &tape, &was, &r, &n->noticed, &n->unseen);
	if (wrong)
		printf("FAILED: %s, policy %s, async %d, prefix caching %d: %s (recorded: %s; played: %s)\n", name,
		       s->policy->name, s->cfg.async_scheduling, s->cfg.prefix_caching, wrong,
		       was.rc ? was.err.text : "complete", is.rc ? is.err.text : "complete");
	n->runs++;
	n->interrupted += was.rc == ERR_INTERRUPTED;
	n->eos += tape.n_eos > 0;
	n->accepted[s->cfg.async_scheduling][s->cfg.prefix_caching]++;
	trail_free(&was);
	trail_free(&is);
	tape_free(&tape);
	return !wrong;
}

static bool check_case(struct random_case *c, struct counts *n)
{
	struct workload w;
	char name[48];
	bool ok = true;
	if (!random_case_workload(c, &w))
		return false;
	for (int k = 0; ok && k < 4; k++) {
		bool refused = true;
		/* Not all settings go with prefix caching or asynchronous scheduling: others are drawn then. */
		for (int32_t attempt = 0; ok && refused && attempt < 40; attempt++) {
			if (attempt)
				random_case_settings(c, attempt);
			struct setting s = {c->policy, c->values, c->cfg, &w};
			s.cfg.async_scheduling = k & 1;
			s.cfg.prefix_caching = k & 2;
			if (!(k & 2)) {
				s.cfg.prefix_cache = PREFIX_OFF;
				s.cfg.prefix_eviction = PREFIX_EVICT_DEFAULT;
			}
			s.cfg.kv_off = k == 0 && c->cfg.kv_off;
			snprintf(name, sizeof name, "seed %llu", (unsigned long long)c->seed);
			ok = check(&s, c->seed * 4 + (uint64_t)k, c->seed % 4 == 0 ? 1 + (int64_t)(c->seed % 23) : 0, n,
				   name, &refused);
		}
		if (!ok)
			random_case_print(c, stdout);
	}
	workload_free(&w);
	return ok;
}

static bool check_policy(const struct policy_desc *d, long long cases, uint64_t seed)
{
	struct counts n = {0};
	int64_t failed = 0;
	for (long long k = 0; k < cases && failed < 3; k++) {
		struct random_case c;
		random_case_make(&c, seed + (uint64_t)k, d, 20);
		failed += !check_case(&c, &n);
		random_case_free(&c);
	}
	printf("%s: %lld runs (%lld refused, %lld stopped, %lld with ends of sequences), %lld + %lld tampered with\n",
	       d->name, (long long)n.runs, (long long)n.refused, (long long)n.interrupted, (long long)n.eos,
	       (long long)n.noticed, (long long)n.unseen);
	/* So that nothing goes untested because everything is refused. */
	bool enough = n.noticed > 5 * n.unseen && n.eos * 10 > n.runs;
	for (int k = 0; k < 4; k++)
		enough = enough && n.accepted[k & 1][k >> 1] * 10 >= cases * 9;
	if (!enough && cases >= 100)
		printf("FAILED: too little was tested: %lld, %lld, %lld, %lld accepted\n", (long long)n.accepted[0][0],
		       (long long)n.accepted[1][0], (long long)n.accepted[0][1], (long long)n.accepted[1][1]);
	return failed == 0 && (enough || cases < 100);
}

/* Recorded as several uniform steps at once, played one by one, and the other way round. */
static bool check_repeats(const struct policy_desc *d, uint64_t seed)
{
	struct random_case c;
	struct workload w;
	random_case_make(&c, seed, d, 20);
	c.cfg.async_scheduling = false;
	if (!random_case_workload(&c, &w))
		return false;
	const struct setting s = {d, c.values, c.cfg, &w};
	struct trail direct = {0}, quick = {0}, slow = {0};
	struct tape tape = {0};
	struct fake_backend fake[2];
	struct backend b, recorder, player;
	struct err e = {0};
	fake_backend_init(&fake[0], &b);
	fake[0].a = c.cost_a, fake[0].b = c.cost_b, fake[0].c = c.cost_c, fake[0].d = c.cost_d;
	fake[1] = fake[0];
	drive(&s, &b, NULL, true, &direct);
	b.self = &fake[1];
	must(tape_recorder_create(&recorder, &b, &tape, &e) == ERR_NONE, e.text);
	drive(&s, &recorder, NULL, false, &quick);
	tape_backend_free(&recorder);
	bool ok = quick.rc == direct.rc;
	if (quick.rc == ERR_NONE) {
		play(&s, &tape, &slow);
		must(tape_player_create(&player, &tape, &e) == ERR_NONE, e.text);
		struct trail again = {0};
		drive(&s, &player, NULL, false, &again);
		ok = !difference(&direct, &slow) && again.rc == ERR_NONE && same_requests(&direct, &again) &&
		     tape_player_finish(&player, &e) == ERR_NONE;
		tape_backend_free(&player);
		trail_free(&again);
	}
	if (!ok)
		printf("FAILED: repeats, seed %llu, policy %s: %s; %s\n", (unsigned long long)seed, d->name,
		       quick.err.text, slow.err.text);
	trail_free(&direct);
	trail_free(&quick);
	trail_free(&slow);
	tape_free(&tape);
	workload_free(&w);
	random_case_free(&c);
	return ok;
}

/* --- real traces -------------------------------------------------------------------------------------------------- */

static const char *const traces[] = {"traces/AzureLLMInferenceTrace_code.csv", "traces/AzureLLMInferenceTrace_conv.csv",
				     "traces/mooncake_conversation.jsonl",     "traces/mooncake_synthetic.jsonl",
				     "traces/sharegpt_300_hashed.jsonl",       "traces/sharegpt_format_fixture.json",
				     "traces/sharegpt_lengths_llama2.csv"};

static bool load_slice(const char *path, struct workload *w)
{
	struct trace_options o;
	struct shape shape;
	struct err e = {0};
	trace_options_init(&o);
	shape_default(&shape);
	shape.num_prompts = 24;
	shape.length_scale = 0.25;
	if (trace_load(path, &o, w, NULL, &e) == ERR_NONE && shape_apply(w, &shape, &e) == ERR_NONE)
		return true;
	printf("FAILED: %s\n", e.text);
	return false;
}

/* With its own parameters, with those that go with prefix caching, or with a budget for the longest whole prompt. */
static bool check_slice(const char *path, const struct policy_desc *d, const struct workload *w, int k,
			struct counts *n)
{
	static const struct {
		const char *params;
		int32_t budget;
	} tries[] = {{NULL, 2048}, {"paged=on", 2048}, {"pad=off,reserve=off", 2048}, {NULL, 64000}};
	bool refused = true, ok = true;
	for (size_t i = 0; ok && refused && i < sizeof tries / sizeof *tries; i++) {
		union policy_value values[CASE_PARAMS];
		struct setting s = {d, values, {0}, w};
		if (policy_parse_params(d, tries[i].params, values, NULL) != ERR_NONE)
			continue;
		engine_config_default(&s.cfg);
		s.cfg.num_blocks = 4000;
		s.cfg.max_num_batched_tokens = tries[i].budget;
		s.cfg.max_num_seqs = 12;
		s.cfg.async_scheduling = k & 1;
		s.cfg.prefix_caching = k & 2;
		ok = check(&s, 1000 + (uint64_t)k, 0, n, path, &refused);
	}
	if (ok && refused)
		printf("FAILED: %s: policy %s takes no settings tried here\n", path, d->name);
	return ok && !refused;
}

static bool check_trace(const char *path)
{
	struct workload w;
	struct counts n = {0};
	bool ok;
	workload_init(&w);
	ok = load_slice(path, &w);
	for (int32_t p = 0; ok && p < policy_count(); p++)
		for (int k = test_short() ? p % 4 : 0; ok && k < 4; k += test_short() ? 4 : 1)
			ok = check_slice(path, policy_at(p), &w, k, &n);
	printf("%s: %lld runs, %lld refused\n", strrchr(path, '/') + 1, (long long)n.runs, (long long)n.refused);
	workload_free(&w);
	return ok && n.runs > 0;
}

/* --- the program -------------------------------------------------------------------------------------------------- */

int main(int argc, char **argv)
{
	long long cases = test_short() ? 25 : 200, seed = 1;
	int passed = 0, failed = 0, skipped = 0;
	for (int i = 1; i + 1 < argc; i += 2) {
		if (strcmp(argv[i], "--cases") == 0)
			cases = atoll(argv[i + 1]);
		else if (strcmp(argv[i], "--seed") == 0)
			seed = atoll(argv[i + 1]);
	}
	for (int32_t i = 0; i < policy_count(); i++) {
		bool ok = check_policy(policy_at(i), cases, (uint64_t)seed);
		for (long long k = 0; ok && k < cases; k++)
			ok = check_repeats(policy_at(i), (uint64_t)(seed + k));
		ok ? passed++ : failed++;
	}
	for (size_t i = 0; i < sizeof traces / sizeof *traces; i++) {
		const char *path = shared_data(traces[i]);
		if (!path)
			skipped++;
		else
			check_trace(path) ? passed++ : failed++;
	}
	printf("tape: %d passed, %d failed, %d skipped\n", passed, failed, skipped);
	return failed != 0;
}
