/* The checks: what each draws, and what it looks at. */
#include <string.h>

#include "analysis/decisions.h"
#include "analysis/policy_check_internal.h"
#include "policies/registry.h"

static int64_t between(struct rng *r, int64_t low, int64_t high)
{
	return low + (int64_t)rng_below(r, (uint64_t)(high - low + 1));
}

static enum case_verdict fails(struct case_words *w, const char *why)
{
	snprintf(w->why, sizeof w->why, "%.350s", why);
	return CASE_FAILS;
}

/* One trial; refused settings are no failure. */
static enum case_verdict try_way(const struct random_case *c, const struct trial_way *way, struct case_words *w)
{
	struct trial t;
	struct err e = {0};
	enum case_verdict v = CASE_HOLDS;
	int rc = trial_open(&t, c, way, &e);
	if (rc == ERR_INPUT) {
		snprintf(w->why, sizeof w->why, "%.350s", e.text);
		v = CASE_REFUSED;
	} else if (rc) {
		v = fails(w, e.text);
	} else if (!trial_run(&t)) {
		v = fails(w, t.why);
	}
	trial_close(&t);
	return v;
}

/* --- settings ----------------------------------------------------------------------------------------------------- */

static void plain_settings(struct random_case *c)
{
	struct engine_config *g = &c->cfg, was = *g;
	engine_config_default(g);
	g->block_size = was.block_size;
	g->num_blocks = was.num_blocks;
	g->max_num_seqs = was.max_num_seqs;
	g->max_num_batched_tokens = was.max_num_batched_tokens;
	g->seed = was.seed;
}

/* Memory behind the device's is not for these. */
static void no_tiers(struct random_case *c)
{
	c->cfg.swap_blocks = c->cfg.offload_host_blocks = c->cfg.offload_disk_blocks = c->cfg.kv_prefetch = 0;
	c->cfg.kv_transfer = KV_TRANSFER_SYNC;
}

static int32_t blocks_of_longest(const struct random_case *c)
{
	int64_t longest = 1;
	for (int32_t i = 0; i < c->n; i++) {
		int64_t tokens = (int64_t)c->reqs[i].prompt + c->reqs[i].max_tokens;
		longest = tokens > longest ? tokens : longest;
	}
	return (int32_t)((longest + c->cfg.block_size - 1) / c->cfg.block_size);
}

static void no_forks(struct random_case *c)
{
	for (int32_t i = 0; i < c->n; i++)
		c->reqs[i].fork_at = 0;
}

static bool shares(const struct random_case *c)
{
	int32_t n = 0;
	for (int32_t i = 0; i < c->n; i++)
		n += c->reqs[i].n_segments > 0;
	return n > 1;
}

static bool forks(const struct random_case *c)
{
	for (int32_t i = 0; i < c->n; i++)
		if (c->reqs[i].fork_at && c->reqs[i].n_parents == 1)
			return true;
	return false;
}

/* --- defaults, parameters ----------------------------------------------------------------------------------------- */

static void tune_plain(struct random_case *c, struct rng *r, int64_t k)
{
	(void)r;
	(void)k;
	plain_settings(c);
	c->cfg.num_blocks += 4 * blocks_of_longest(c);
	/* Where prompts are not cut, the longest fits a step. */
	c->cfg.max_num_batched_tokens = c->cfg.max_num_seqs + c->cfg.num_blocks * c->cfg.block_size;
	no_forks(c);
}

static enum case_verdict judge_once(const struct random_case *c, struct case_words *w)
{
	return try_way(c, &(struct trial_way){.tokens = true}, w);
}

static int32_t values_of(const struct policy_param *p)
{
	int32_t n = 0;
	if (p->type != PARAM_ENUM)
		return 2;
	while (p->choices[n])
		n++;
	return n;
}

static int64_t count_values(const struct policy_desc *d)
{
	int64_t n = 0;
	for (int32_t i = 0; i < d->n_params; i++)
		n += values_of(&d->params[i]);
	return n;
}

/* Each parameter at both ends of its range, or with each of its choices, the others as they are by default. */
static void tune_parameter(struct random_case *c, struct rng *r, int64_t k)
{
	const struct policy_desc *d = c->policy;
	tune_plain(c, r, k);
	policy_parse_params(d, "", c->values, NULL);
	for (int32_t i = 0; i < d->n_params; i++) {
		const struct policy_param *p = &d->params[i];
		if (k >= values_of(p)) {
			k -= values_of(p);
			continue;
		}
		double end = k ? p->max : p->min;
		if (p->type == PARAM_FLOAT)
			c->values[i].f = end;
		else if (p->type == PARAM_DURATION)
			c->values[i].i = (int64_t)(end * 1e9);
		else
			c->values[i].i = p->type == PARAM_INT ? (int64_t)end : k;
		return;
	}
}

/* --- random, memory, limits, aborts, prefix, forks ---------------------------------------------------------------- */

static void tune_random(struct random_case *c, struct rng *r, int64_t k)
{
	(void)r;
	(void)k;
	c->cfg.window = 0;
}

static enum case_verdict judge_four_ways(const struct random_case *c, struct case_words *w)
{
	enum case_verdict v = CASE_HOLDS;
	for (int k = 0; k < 4 && v == CASE_HOLDS; k++)
		v = try_way(c, &(struct trial_way){.aborting = k & 1, .tokens = k & 2}, w);
	return v;
}

/* What the longest needs, or a block more. */
static void tune_memory(struct random_case *c, struct rng *r, int64_t k)
{
	(void)k;
	c->cfg.window = c->cfg.max_model_len = 0;
	c->cfg.kv_off = false;
	no_tiers(c);
	for (int32_t i = 0; i < c->n; i++)
		c->reqs[i].max_tokens = c->reqs[i].output > 0 ? c->reqs[i].output : 1;
	c->cfg.num_blocks = blocks_of_longest(c) + (int32_t)(between(r, 0, 2) == 0);
}

static enum case_verdict judge_two_ways(const struct random_case *c, struct case_words *w)
{
	enum case_verdict v = try_way(c, &(struct trial_way){.tokens = true}, w);
	return v == CASE_HOLDS ? try_way(c, &(struct trial_way){0}, w) : v;
}

static void tune_limits(struct random_case *c, struct rng *r, int64_t k)
{
	(void)k;
	c->cfg.window = 0;
	no_tiers(c);
	c->cfg.max_num_seqs = (int32_t)between(r, 1, 3);
	c->cfg.max_num_batched_tokens = c->cfg.max_num_seqs + (int32_t)between(r, 0, 2);
}

static void tune_aborts(struct random_case *c, struct rng *r, int64_t k)
{
	(void)k;
	c->cfg.window = 0;
	if (between(r, 0, 1))
		c->cfg.abort_after_ns = between(r, 1, 40 * (c->cost_a + c->cost_b * 20));
}

static enum case_verdict judge_aborts(const struct random_case *c, struct case_words *w)
{
	enum case_verdict v = try_way(c, &(struct trial_way){.aborting = true}, w);
	return v == CASE_HOLDS ? try_way(c, &(struct trial_way){.aborting = true, .tokens = true}, w) : v;
}

static void tune_prefix(struct random_case *c, struct rng *r, int64_t k)
{
	c->cfg.window = 0;
	no_tiers(c);
	c->cfg.kv_off = false;
	c->cfg.prefix_caching = true;
	c->cfg.prefix_cache = k % 2 && c->cfg.kv_retention == RETAIN_FULL ? PREFIX_RADIX : PREFIX_HASH;
	c->cfg.prefix_eviction = PREFIX_EVICT_DEFAULT;
	c->cfg.hit_visible = between(r, 0, 1) ? HIT_VISIBLE_COMMIT : HIT_VISIBLE_ALLOC;
}

static void tune_forks(struct random_case *c, struct rng *r, int64_t k)
{
	(void)r;
	(void)k;
	c->cfg.window = 0;
	no_tiers(c);
	c->cfg.kv_off = false;
}

/* --- repeat, lengths ---------------------------------------------------------------------------------------------- */

/* Where two logs part: *at, or no event there. */
static void tell_parting(struct case_words *w, const struct trial *a, const struct trial *b, int64_t at,
			 const char *what)
{
	const struct event *x = at < a->n_events ? &a->events[at] : NULL, *y = at < b->n_events ? &b->events[at] : NULL;
	char first[96], second[96];
	trial_event_text(x, first, sizeof first);
	trial_event_text(y, second, sizeof second);
	snprintf(w->why, sizeof w->why, "step %lld: request %d: %s: %s the first time, %s the second",
		 (long long)(x   ? x->step
			     : y ? y->step
				 : 0),
		 (x && x->req >= 0   ? x->req
		  : y && y->req >= 0 ? y->req
				     : 0) +
			 1,
		 what, first, second);
}

/* Two cases, or one twice, with their logs; *v is CASE_HOLDS when both could be run. */
static enum case_verdict run_both(struct trial *a, const struct random_case *first, struct trial *b,
				  const struct random_case *second, struct case_words *w)
{
	const struct trial_way logged = {.events = true};
	struct err e = {0};
	int rc = trial_open(a, first, &logged, &e);
	if (rc == ERR_NONE && !trial_run(a))
		return fails(w, a->why);
	/* Something else between them: what is left in a policy's own variables shows. */
	if (rc == ERR_NONE && try_way(first, &(struct trial_way){.aborting = true}, w) == CASE_FAILS)
		return CASE_FAILS;
	if (rc == ERR_NONE)
		rc = trial_open(b, second, &logged, &e);
	if (rc == ERR_NONE && !trial_run(b))
		return fails(w, b->why);
	if (rc)
		snprintf(w->why, sizeof w->why, "%.350s", e.text);
	return rc == ERR_INPUT ? CASE_REFUSED : rc ? CASE_FAILS : CASE_HOLDS;
}

static enum case_verdict judge_repeat(const struct random_case *c, struct case_words *w)
{
	struct trial a = {0}, b = {0};
	enum case_verdict v = run_both(&a, c, &b, c, w);
	int64_t at = v == CASE_HOLDS ? trial_events_differ(&a, &b, INT64_MAX) : -1;
	if (at >= 0) {
		tell_parting(w, &a, &b, at, "run twice, it decides otherwise");
		v = CASE_FAILS;
	}
	trial_close(&a);
	trial_close(&b);
	return v;
}

/* Nothing may be known of true lengths, by the engine's own predictor either. */
static void tune_lengths(struct random_case *c, struct rng *r, int64_t k)
{
	(void)k;
	c->cfg.window = 0;
	no_forks(c);
	c->cfg.predictor.kind = PREDICT_MAX;
	for (int32_t i = 0; i < c->n; i++)
		c->reqs[i].max_tokens = c->reqs[i].output + (int32_t)between(r, 1, 20);
}

/* One request's answer becomes longer. Until the moment when it would have ended, nothing may change. */
static enum case_verdict judge_lengths(const struct random_case *c, struct case_words *w)
{
	struct random_case longer;
	struct trial a = {0}, b = {0};
	struct rng r;
	rng_init(&r, c->seed, 9);
	int32_t req = (int32_t)between(&r, 0, c->n - 1);
	/* A request that wants nothing is another kind of request. */
	if (c->reqs[req].max_tokens <= c->reqs[req].output || c->reqs[req].output < 1 || random_case_copy(&longer, c))
		return CASE_HOLDS;
	longer.reqs[req].output = c->reqs[req].max_tokens;
	enum case_verdict v = run_both(&a, c, &b, &longer, w);
	int64_t end = 0;
	while (v == CASE_HOLDS && end < a.n_events && !(a.events[end].kind == EVENT_FINISH && a.events[end].req == req))
		end++;
	int64_t at = v == CASE_HOLDS && end < a.n_events ? trial_events_differ(&a, &b, end) : -1;
	if (at >= 0) {
		char what[160];
		snprintf(what, sizeof what,
			 "it knows how long an answer will become (request %d has not ended yet, and has %d outputs or "
			 "%d)",
			 req + 1, c->reqs[req].output, longer.reqs[req].output);
		tell_parting(w, &a, &b, at, what);
		v = CASE_FAILS;
	}
	trial_close(&a);
	trial_close(&b);
	random_case_free(&longer);
	return v;
}

/* --- walks -------------------------------------------------------------------------------------------------------- */

static const char *differing(const struct request *x, const struct request *y, int64_t *was, int64_t *is)
{
	const struct {
		const char *what;
		int64_t x, y;
	} of[] = {{"state", x->state, y->state},
		  {"first scheduled at (ns)", x->first_sched_ns, y->first_sched_ns},
		  {"first token at (ns)", x->first_token_ns, y->first_token_ns},
		  {"last token at (ns)", x->last_token_ns, y->last_token_ns},
		  {"preempted for (ns)", x->preempted_ns, y->preempted_ns},
		  {"outputs", x->outputs, y->outputs},
		  {"cached tokens", x->cached_tokens, y->cached_tokens},
		  {"recomputed tokens", x->recomputed_tokens, y->recomputed_tokens},
		  {"preemptions", x->preemptions, y->preemptions},
		  {"chunks", x->chunks, y->chunks}};
	for (size_t i = 0; i < sizeof of / sizeof *of; i++)
		if (of[i].x != of[i].y) {
			*was = of[i].x;
			*is = of[i].y;
			return of[i].what;
		}
	return NULL;
}

static bool same_ends(const struct trial *a, const struct trial *b, const char *how, struct case_words *w)
{
	int64_t was = 0, is = 0;
	for (int32_t i = 0; i < a->w.n; i++) {
		const char *what = differing(&a->requests[i], &b->requests[i], &was, &is);
		if (!what)
			continue;
		snprintf(w->why, sizeof w->why,
			 "in the end: request %d: %s is %lld when every step is walked, and %lld %s: is the trait "
			 "`steady` true of it?",
			 i + 1, what, (long long)was, (long long)is, how);
		return false;
	}
	if (a->stats.steps == b->stats.steps)
		return true;
	snprintf(w->why, sizeof w->why, "in the end: %lld steps when each is walked, and %lld %s",
		 (long long)a->stats.steps, (long long)b->stats.steps, how);
	return false;
}

static enum case_verdict judge_walks(const struct random_case *c, struct case_words *w)
{
	static const struct {
		struct trial_way way;
		const char *how;
	} others[] = {{{.single_steps = true}, "when the engine takes its short cuts"},
		      {{.unchecked = true}, "when it takes several steps at once"}};
	struct trial a = {0};
	struct err e = {0};
	int rc = trial_open(&a, c, &(struct trial_way){.exact_walk = true, .single_steps = true}, &e);
	enum case_verdict v = rc == ERR_INPUT ? CASE_REFUSED : rc ? fails(w, e.text) : CASE_HOLDS;
	if (v == CASE_HOLDS && !trial_run(&a))
		v = fails(w, a.why);
	for (size_t i = 0; v == CASE_HOLDS && i < sizeof others / sizeof *others; i++) {
		struct trial b = {0};
		rc = trial_open(&b, c, &others[i].way, &e);
		if (rc)
			v = fails(w, e.text);
		else if (!trial_run(&b))
			v = fails(w, b.why);
		else if (!same_ends(&a, &b, others[i].how, w))
			v = CASE_FAILS;
		trial_close(&b);
	}
	trial_close(&a);
	return v;
}

/* --- starvation --------------------------------------------------------------------------------------------------- */

enum { STREAM = 160, PATIENT = 10 };

/* A steady stream of short requests that takes half of what can be served (8 at once, 4 steps of 10 ns each), and one that needs most of the memory. */
static void tune_stream(struct random_case *c, struct rng *r, int64_t k)
{
	(void)k;
	plain_settings(c);
	c->cfg.block_size = 4;
	c->cfg.num_blocks = 20;
	c->cfg.max_num_seqs = 8;
	c->cfg.max_num_batched_tokens = 128;
	c->cost_a = 10;
	c->cost_b = c->cost_c = c->cost_d = 0;
	for (int32_t i = 0; i < c->n; i++) {
		c->reqs[i] = (struct case_req){.arrival_ns = 9 * (int64_t)i, .output = 4, .max_tokens = 4};
		c->reqs[i].prompt = i == PATIENT ? 66 : (int32_t)between(r, 3, 4);
	}
}

static bool is_stream(const struct random_case *c)
{
	return c->n > PATIENT + 100;
}

static enum case_verdict judge_stream(const struct random_case *c, struct case_words *w)
{
	struct trial t;
	struct err e = {0};
	int rc = trial_open(&t, c, &(struct trial_way){.tokens = true}, &e);
	enum case_verdict v = rc == ERR_INPUT ? CASE_REFUSED : rc ? fails(w, e.text) : CASE_HOLDS;
	if (v == CASE_REFUSED)
		snprintf(w->why, sizeof w->why, "%.350s", e.text);
	if (v == CASE_HOLDS && !trial_run(&t))
		v = fails(w, t.why);
	int32_t patient = -1, before = 0, after = 0;
	for (int32_t i = 0; v == CASE_HOLDS && i < c->n; i++)
		if (c->reqs[i].prompt >= 40)
			patient = i;
	const struct request *p = patient >= 0 ? &t.requests[patient] : NULL;
	for (int32_t i = patient + 1; p && p->first_sched_ns >= 0 && i < c->n; i++) {
		before += t.requests[i].first_sched_ns < p->first_sched_ns;
		after += t.requests[i].first_sched_ns >= p->first_sched_ns;
	}
	if (before > 100 && after < 8) {
		snprintf(w->why, sizeof w->why,
			 "request %d, which needs most of the memory, was let in when the stream of small ones had "
			 "dried up: %d that came later went before it; it would starve",
			 patient + 1, before);
		v = CASE_WARNS;
	}
	trial_close(&t);
	return v;
}

/* --- golden ------------------------------------------------------------------------------------------------------- */

static enum case_verdict judge_golden(const struct random_case *c, struct case_words *w)
{
	struct trial t;
	struct err e = {0};
	struct decision_hash h = {0};
	int rc = trial_open(&t, c, &(struct trial_way){.events = true}, &e);
	enum case_verdict v = rc == ERR_INPUT ? CASE_REFUSED : rc ? fails(w, e.text) : CASE_HOLDS;
	if (v == CASE_HOLDS && !trial_run(&t))
		v = fails(w, t.why);
	for (int64_t i = 0; v == CASE_HOLDS && i < t.n_events; i++)
		decision_hash_add(&h, &t.events[i]);
	w->hash = decision_hash_value(&h);
	trial_close(&t);
	return v;
}

/* --- all of them -------------------------------------------------------------------------------------------------- */

const struct check policy_checks[] = {
	{.name = "defaults",
	 .about = "with its default parameters it serves what every server serves",
	 .least = 30,
	 .largest = 24,
	 .plain = true,
	 .tune = tune_plain,
	 .judge = judge_once,
	 .replays = true},
	{.name = "parameters",
	 .about = "every parameter at both ends of its range and every choice: it works, or says why not",
	 .least = 1000,
	 .most = -1,
	 .count = count_values,
	 .largest = 16,
	 .tune = tune_parameter,
	 .judge = judge_once,
	 .replays = true},
	{.name = "random",
	 .about = "random traffic, settings and parameters, the books verified after every step",
	 .least = 100,
	 .largest = 24,
	 .tune = tune_random,
	 .judge = judge_four_ways},
	{.name = "memory",
	 .about = "just the memory that the longest request needs: everybody gets on, nothing stalls",
	 .least = 100,
	 .largest = 24,
	 .tune = tune_memory,
	 .judge = judge_two_ways,
	 .replays = true},
	{.name = "limits",
	 .about = "one to three requests at once, a budget of hardly more tokens",
	 .least = 100,
	 .largest = 24,
	 .tune = tune_limits,
	 .judge = judge_two_ways,
	 .replays = true},
	{.name = "aborts",
	 .about = "clients that give up at any moment",
	 .least = 100,
	 .largest = 24,
	 .tune = tune_aborts,
	 .judge = judge_aborts},
	{.name = "prefix",
	 .about = "a hash and a radix prefix cache under prompts that begin alike",
	 .least = 100,
	 .largest = 24,
	 .wants = shares,
	 .tune = tune_prefix,
	 .judge = judge_two_ways,
	 .replays = true},
	{.name = "forks",
	 .about = "several samples of a prompt, branches of what is still running",
	 .least = 100,
	 .largest = 24,
	 .wants = forks,
	 .tune = tune_forks,
	 .judge = judge_two_ways,
	 .replays = true},
	{.name = "repeat",
	 .about = "the same input and seed: the same decisions, whatever ran before",
	 .least = 100,
	 .largest = 24,
	 .tune = tune_random,
	 .judge = judge_repeat},
	{.name = "lengths",
	 .about = "nothing it decides depends on how long an answer will become",
	 .least = 100,
	 .largest = 24,
	 .tune = tune_lengths,
	 .judge = judge_lengths},
	{.name = "walks",
	 .about = "the engine's short cuts change nothing",
	 .least = 300,
	 .largest = 24,
	 .tune = tune_random,
	 .judge = judge_walks},
	{.name = "starvation",
	 .about = "a large request gets its turn while small ones keep coming",
	 .least = 2,
	 .most = 2,
	 .largest = STREAM,
	 .plain = true,
	 .wants = is_stream,
	 .tune = tune_stream,
	 .judge = judge_stream,
	 .replays = true},
	{.name = "golden",
	 .about = "what it decides on 24 fixed workloads, as one number to compare builds by",
	 .least = 24,
	 .most = 24,
	 .largest = 24,
	 .fixed = true,
	 .plain = true,
	 .tune = tune_plain,
	 .judge = judge_golden,
	 .replays = true},
};
const int32_t n_policy_checks = sizeof policy_checks / sizeof *policy_checks;

/* Settings as random_case draws them, then what the check wants of them. */
int check_draw(const struct check *c, const struct policy_desc *d, const struct check_options *o, int64_t k,
	       int32_t attempt, struct random_case *out, struct err *e)
{
	struct rng r;
	uint64_t seed = rng_mix((c->fixed ? 1 : o->seed) ^ rng_mix((uint64_t)k * 64 + (uint64_t)(c - policy_checks)));
	int rc = random_case_draw(out, seed, d, c->largest, e);
	for (int i = 0; !rc && c->wants && !c->wants(out) && i < 400; i++) {
		random_case_free(out);
		rc = random_case_draw(out, ++seed, d, c->largest, e);
	}
	if (rc)
		return rc;
	if (attempt)
		random_case_settings(out, attempt);
	rng_init(&r, seed, 4000 + (uint64_t)attempt);
	if (c->plain)
		rc = policy_parse_params(d, "", out->values, e);
	c->tune(out, &r, k);
	/* What forks share is lost to nobody: by this rule two may take each other's memory for ever, whatever the policy. */
	if (forks(out) && out->cfg.victim == VICTIM_LEAST_WORK_LOST)
		out->cfg.victim = VICTIM_DEFAULT;
	if (!rc && o->params)
		rc = policy_parse_params(d, o->params, out->values, e);
	return rc;
}
