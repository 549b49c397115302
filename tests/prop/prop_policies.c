/* prop_policies.c: what must hold for every registered policy, whatever its parameters, on random workloads with random
 * aborts; every invariant of the engine is verified after every step. Nobody has to add a policy to a list.
 * Options: tests/support/prop.h. */
#include <stdlib.h>
#include <string.h>

#include "core/err.h"
#include "core/source.h"
#include "policies/registry.h"
#include "tests/support/fake_backend.h"
#include "tests/support/prop.h"
#include "tests/support/random_case.h"
#include "tests/support/shadow_kv.h"

/* One run and what was seen of it. */
struct watch {
	const struct random_case *c;
	struct workload w;
	struct request *requests; /* [w.n] */
	int64_t *last_ns; /* [w.n] last token seen, -1 */
	int32_t *tokens; /* [w.n] seen */
	int32_t *ended; /* [w.n] how often it was said to have ended */
	int64_t gaps, gap_sum_ns, steps, rows_tokens;
	int64_t free_at_start;
	struct rng rng;
	bool aborting;
	struct source *source;
	struct policy policy;
	struct fake_backend fake;
	struct backend backend;
	struct recorder recorder;
	struct engine *engine;
	struct shadow_kv kv; /* with tokens: the rows are walked then */
	char why[256]; /* what is wrong, "" = nothing */
};

#define WRONG(s, ...)                                                                                                  \
	do {                                                                                                           \
		if (!(s)->why[0])                                                                                      \
			snprintf((s)->why, sizeof(s)->why, __VA_ARGS__);                                               \
	} while (0)

static void on_step(void *ctx, const struct step_row *row)
{
	struct watch *s = ctx;
	const struct engine_config *g = engine_config(s->engine);
	s->steps++;
	if (row->decodes + row->prefill_tokens < 1)
		WRONG(s, "step %lld computes nothing", (long long)row->step);
	if (row->blocks_used < 0 || (!g->kv_off && row->blocks_used > g->num_blocks) ||
	    row->blocks_used + row->blocks_cached > (g->kv_off ? 0 : g->num_blocks))
		WRONG(s, "step %lld uses %d blocks and caches %d of %d", (long long)row->step, row->blocks_used,
		      row->blocks_cached, g->num_blocks);
	if (!s->policy.traits.unbudgeted && row->decodes + row->prefill_tokens > g->max_num_batched_tokens)
		WRONG(s, "step %lld computes %lld tokens, the budget is %d", (long long)row->step,
		      (long long)(row->decodes + row->prefill_tokens), g->max_num_batched_tokens);
	if (row->running < 1 || row->running > g->max_num_seqs)
		WRONG(s, "step %lld has %d running", (long long)row->step, row->running);
	if (row->end_ns <= row->start_ns)
		WRONG(s, "step %lld takes no time", (long long)row->step);
}

static void on_gap(void *ctx, int64_t gap_ns, int64_t count)
{
	struct watch *s = ctx;
	if (gap_ns <= 0 || count < 1)
		WRONG(s, "%lld gaps of %lld ns", (long long)count, (long long)gap_ns);
	s->gaps += count;
	s->gap_sum_ns += gap_ns * count;
}

static void on_token(void *ctx, int32_t req, int32_t n, int64_t t_ns)
{
	struct watch *s = ctx;
	if (n != s->tokens[req])
		WRONG(s, "request %d: token %d comes after %d of them", req, n, s->tokens[req]);
	if (t_ns <= s->last_ns[req])
		WRONG(s, "request %d: two tokens at %lld ns", req, (long long)t_ns);
	s->tokens[req]++;
	s->last_ns[req] = t_ns;
}

static void on_ended(void *ctx, int32_t req)
{
	((struct watch *)ctx)->ended[req]++;
}

static bool watch_open(struct watch *s, const struct random_case *c, bool aborting, bool tokens, struct err *e)
{
	struct engine_config cfg = c->cfg;
	memset(s, 0, sizeof *s);
	s->c = c;
	s->aborting = aborting;
	rng_init(&s->rng, c->seed, 5);
	cfg.check = true;
	if (!random_case_workload(c, &s->w))
		return false;
	size_t n = (size_t)s->w.n + 1;
	s->requests = calloc(n, sizeof *s->requests);
	s->last_ns = calloc(n, sizeof *s->last_ns);
	s->tokens = calloc(n, sizeof *s->tokens);
	s->ended = calloc(n, sizeof *s->ended);
	for (size_t i = 0; i < n; i++)
		s->last_ns[i] = -1;
	fake_backend_init(&s->fake, &s->backend);
	s->fake.a = c->cost_a;
	s->fake.b = c->cost_b;
	s->fake.c = c->cost_c;
	s->fake.d = c->cost_d;
	links_init(&s->fake.links, &c->links);
	s->recorder = (struct recorder){.ctx = s, .step = on_step, .gap = on_gap, .ended = on_ended};
	if (tokens)
		s->recorder.token = on_token;
	int rc = engine_config_resolve(&cfg, e);
	struct policy_setup setup;
	engine_policy_setup(&cfg, &setup);
	if (!rc)
		rc = policy_open(&s->policy, c->policy, c->values, &setup, e);
	if (!rc)
		rc = source_create(&s->source, &s->w, cfg.max_concurrency, e);
	if (!rc)
		rc = engine_create(&s->engine, &cfg, &s->w, s->requests, s->source, &s->policy, &s->recorder, e);
	return rc == ERR_NONE;
}

static void watch_close(struct watch *s)
{
	engine_free(s->engine);
	source_free(s->source);
	policy_close(&s->policy);
	workload_free(&s->w);
	free(s->requests);
	free(s->last_ns);
	free(s->tokens);
	free(s->ended);
	shadow_kv_free(&s->kv);
	links_free(&s->fake.links);
}

/* Now and then ends some request that is waiting, running or preempted. */
static int maybe_abort(struct watch *s, int64_t now_ns, struct err *e)
{
	if (!s->aborting || rng_below(&s->rng, 4))
		return ERR_NONE;
	int32_t req = (int32_t)rng_below(&s->rng, (uint64_t)s->w.n);
	const struct request *r = &s->requests[req];
	if (r->state != REQUEST_WAITING && r->state != REQUEST_RUNNING && r->state != REQUEST_PREEMPTED)
		return ERR_NONE;
	return engine_abort(s->engine, req, now_ns, REQUEST_WHY_USER, e);
}

/* engine_run, with aborts before a plan and while a step runs. */
static int watch_run(struct watch *s, struct err *e)
{
	struct backend *b = &s->backend, copier;
	int64_t in_flight = 0, most = s->c->cfg.async_scheduling ? 2 : 1, idle = 0;
	int rc = b->ops->init(b->self, s->engine, e);
	s->kv.eager = s->c->seed % 4 == 0;
	shadow_kv_backend(&s->kv, b, engine_config(s->engine), &copier);
	while (!rc && !s->why[0]) {
		const struct batch *batch;
		enum engine_next next = ENGINE_IDLE;
		struct step_result res;
		int64_t until = INT64_MAX, now_ns = b->ops->now(b->self);
		rc = maybe_abort(s, now_ns, e);
		if (!rc)
			rc = engine_transfers_done(s->engine, &copier, now_ns, e);
		if (!rc)
			rc = engine_begin(s->engine, now_ns, &next, &batch, &until, e);
		if (!rc)
			rc = engine_start_transfers(s->engine, &copier, e);
		if (rc || next == ENGINE_DONE)
			return rc;
		if (next == ENGINE_BATCH) {
			idle = 0;
			in_flight++;
			if (s->recorder.token && !shadow_kv_step(&s->kv, s->engine, batch, s->why))
				break;
			rc = b->ops->submit(b->self, batch, e);
			if (!rc)
				rc = maybe_abort(s, now_ns, e);
		} else if (!in_flight) {
			bool moving = engine_transfers_open(s->engine);
			if (until == INT64_MAX && !moving && !s->aborting)
				WRONG(s, "idle for ever at %lld ns", (long long)now_ns);
			if (++idle > 1000)
				WRONG(s, "idle again and again at %lld ns", (long long)now_ns);
			if (until == INT64_MAX && !moving)
				continue;
			rc = b->ops->wait_until(b->self, until, e);
		}
		if (rc || !in_flight || (next == ENGINE_BATCH && in_flight < most))
			continue;
		rc = b->ops->wait(b->self, &res, e);
		if (!rc)
			rc = engine_end(s->engine, &res, e);
		in_flight--;
	}
	return rc;
}

/* Tokens a request must have produced when it finished. */
static int32_t due(const struct watch *s, int32_t i)
{
	const struct spec *p = &s->w.specs[i];
	int32_t n = p->output_tokens, room = engine_config(s->engine)->max_model_len - p->prompt_tokens;
	n = n < p->max_tokens ? n : p->max_tokens;
	return n < room ? n : room;
}

static void judge_request(struct watch *s, int32_t i)
{
	const struct request *r = &s->requests[i];
	if (r->state != REQUEST_FINISHED && r->state != REQUEST_REJECTED && r->state != REQUEST_ABORTED)
		WRONG(s, "request %d ends as %s", i, request_state_name((enum request_state)r->state));
	if (s->ended[i] != 1)
		WRONG(s, "request %d was said to have ended %d times", i, s->ended[i]);
	if ((r->state == REQUEST_FINISHED) != (r->why == REQUEST_WHY_NONE))
		WRONG(s, "request %d: state %d, why %d", i, r->state, r->why);
	if (r->last_token_ns < r->arrival_ns)
		WRONG(s, "request %d ends before it arrives", i);
	if (r->state != REQUEST_FINISHED)
		return;
	if (r->outputs != due(s, i))
		WRONG(s, "request %d has %d outputs, the trace says %d", i, r->outputs, due(s, i));
	if (request_queue_ns(r) < 0 || request_prefill_ns(r) < 0 || request_decode_ns(r) < 0 || r->preempted_ns < 0 ||
	    r->preempted_in_prefill_ns < 0 || r->preempted_in_prefill_ns > r->preempted_ns ||
	    r->transfer_in_prefill_ns < 0 || r->transfer_in_prefill_ns > r->transfer_ns)
		WRONG(s, "request %d has a negative time", i);
	if (request_queue_ns(r) + request_prefill_ns(r) + request_decode_ns(r) + r->preempted_ns + r->transfer_ns !=
	    request_e2e_ns(r))
		WRONG(s, "request %d: its times do not add up", i);
	if (r->cached_tokens < 0 || r->cached_tokens >= s->w.specs[i].prompt_tokens)
		WRONG(s, "request %d: %d cached of %d", i, r->cached_tokens, s->w.specs[i].prompt_tokens);
	if (r->held_until_ns < r->last_token_ns || r->chunks < 1 || (r->preemptions == 0 && r->preempted_ns != 0))
		WRONG(s, "request %d: held until %lld, %d chunks, %d preemptions of %lld ns", i,
		      (long long)r->held_until_ns, r->chunks, r->preemptions, (long long)r->preempted_ns);
}

static void judge_totals(struct watch *s)
{
	struct engine_stats t;
	int64_t outputs = 0, gaps = 0, itl_ns = 0, cached = 0, preemptions = 0, recomputed = 0;
	engine_stats(s->engine, &t);
	for (int32_t i = 0; i < s->w.n; i++) {
		const struct request *r = &s->requests[i];
		outputs += r->outputs;
		cached += r->cached_tokens;
		preemptions += r->preemptions;
		recomputed += r->recomputed_tokens;
		gaps += r->outputs > 1 ? r->outputs - 1 : 0;
		if (r->state == REQUEST_FINISHED)
			itl_ns += r->last_token_ns - r->first_token_ns;
		if (s->recorder.token && s->tokens[i] != r->outputs)
			WRONG(s, "request %d: %d tokens were told of, %d are counted", i, s->tokens[i], r->outputs);
	}
	if (t.finished + t.rejected + t.aborted != s->w.n)
		WRONG(s, "%lld + %lld + %lld ended, of %lld", (long long)t.finished, (long long)t.rejected,
		      (long long)t.aborted, (long long)s->w.n);
	int64_t taken = t.prefix_hit_tokens + t.forked_tokens;
	if (t.output_tokens != outputs || taken != cached || t.preemptions != preemptions ||
	    t.recomputed_tokens != recomputed)
		WRONG(s,
		      "totals differ from the requests': %lld of %lld outputs, %lld of %lld cached, "
		      "%lld of %lld preemptions, %lld of %lld recomputed",
		      (long long)t.output_tokens, (long long)outputs, (long long)taken, (long long)cached,
		      (long long)t.preemptions, (long long)preemptions, (long long)t.recomputed_tokens,
		      (long long)recomputed);
	if (s->gaps != gaps)
		WRONG(s, "%lld gaps, %lld are due", (long long)s->gaps, (long long)gaps);
	if (!t.aborted && s->gap_sum_ns != itl_ns)
		WRONG(s, "gaps add up to %lld ns, last - first tokens to %lld", (long long)s->gap_sum_ns,
		      (long long)itl_ns);
	double share = t.kv_slot_ns > 0 ? (t.kv_token_ns + t.kv_internal_ns + t.kv_reserved_ns) / t.kv_slot_ns : 0;
	if (t.kv_token_ns < 0 || t.kv_internal_ns < 0 || t.kv_reserved_ns < 0 || t.kv_external_ns < 0 || share > 1)
		WRONG(s, "KV memory: tokens %g, internal %g, reserved %g, external %g of %g", t.kv_token_ns,
		      t.kv_internal_ns, t.kv_reserved_ns, t.kv_external_ns, t.kv_slot_ns);
	if (t.max_blocks_used > engine_config(s->engine)->num_blocks)
		WRONG(s, "%d blocks used of %d", t.max_blocks_used, engine_config(s->engine)->num_blocks);
}

/* Nothing is left behind: what the engine describes of itself when all is over. */
static void judge_leaks(struct watch *s)
{
	char text[512], want[64];
	const struct engine_config *g = engine_config(s->engine);
	engine_describe(s->engine, text, sizeof text);
	snprintf(want, sizeof want, "0 running, 0 waiting, %d of %d blocks free", g->kv_off ? 0 : g->num_blocks,
		 g->num_blocks);
	if (strncmp(text, want, strlen(want)) != 0)
		WRONG(s, "left behind: %.200s", text);
}

/* "" or what is wrong. */
static bool holds(const struct random_case *c, bool aborting, bool tokens, char *why)
{
	struct watch s;
	struct err e = {0};
	why[0] = '\0';
	if (watch_open(&s, c, aborting, tokens, &e)) {
		if (watch_run(&s, &e))
			WRONG(&s, "%.250s", e.text);
		for (int32_t i = 0; i < s.w.n && !s.why[0]; i++)
			judge_request(&s, i);
		if (!s.why[0])
			judge_totals(&s);
		if (!s.why[0])
			judge_leaks(&s);
		memcpy(why, s.why, sizeof s.why);
	}
	watch_close(&s);
	return !why[0];
}

static bool accepted(const struct random_case *c)
{
	struct watch s;
	struct err e = {0};
	bool ok = watch_open(&s, c, false, false, &e);
	watch_close(&s);
	return ok;
}

/* The ways of running a case: with aborts, with every token told. */
struct way {
	bool aborting, tokens;
};

static bool fails(void *ctx, const struct random_case *c)
{
	const struct way *w = ctx;
	char why[256];
	return !holds(c, w->aborting, w->tokens, why);
}

static enum prop_verdict judge(void *ctx, const struct random_case *c)
{
	char why[256];
	(void)ctx;
	for (int k = 0; k < 4; k++) {
		struct way w = {k & 1, k & 2};
		if (holds(c, w.aborting, w.tokens, why))
			continue;
		struct random_case small;
		random_case_copy(&small, c);
		prop_drop_requests(&small, fails, &w);
		holds(&small, w.aborting, w.tokens, why);
		printf("FAILED: seed %llu, policy %s%s%s: %s\n", (unsigned long long)c->seed, c->policy->name,
		       w.aborting ? ", with aborts" : "", w.tokens ? ", tokens told" : "", why);
		random_case_print(&small, stdout);
		random_case_free(&small);
		return PROP_BROKEN;
	}
	return PROP_HOLDS;
}

static int32_t largest(int64_t k)
{
	(void)k;
	return 24;
}

int main(int argc, char **argv)
{
	const struct prop p = {.name = "prop_policies",
			       .seconds = 40,
			       .cases = 40000,
			       .largest = largest,
			       .refused = 20,
			       .accepted = accepted,
			       .judge = judge};
	return prop_main(&p, argc, argv);
}
