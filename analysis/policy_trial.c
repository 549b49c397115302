#include "analysis/policy_trial.h"

#include <string.h>

#include "analysis/plugin.h"
#include "core/mem.h"
#include "core/source.h"
#include "policies/registry.h"
#include "sim/backend.h"
#include "sim/cost_models.h"

#define WRONG(t, ...)                                                                                                  \
	do {                                                                                                           \
		if (!(t)->why[0])                                                                                      \
			snprintf((t)->why, sizeof(t)->why, __VA_ARGS__);                                               \
	} while (0)

/* --- what is told while it runs ---------------------------------------------------------------------------------- */

static void on_step(void *ctx, const struct step_row *row)
{
	struct trial *t = ctx;
	const struct engine_config *g = engine_config(t->engine);
	long long step = row->step, tokens = row->decodes + row->prefill_tokens;
	t->step = row->step;
	if (tokens < 1)
		WRONG(t, "step %lld: it computes nothing", step);
	if (row->blocks_used < 0 || (!g->kv_off && row->blocks_used > g->num_blocks) ||
	    row->blocks_used + row->blocks_cached > (g->kv_off ? 0 : g->num_blocks))
		WRONG(t, "step %lld: it uses %d blocks and caches %d of %d", step, row->blocks_used, row->blocks_cached,
		      g->num_blocks);
	if (!t->policy.traits.unbudgeted && tokens > g->max_num_batched_tokens)
		WRONG(t, "step %lld: it computes %lld tokens, the budget (max_num_batched_tokens) is %d", step, tokens,
		      g->max_num_batched_tokens);
	if (row->running < 1 || row->running > g->max_num_seqs)
		WRONG(t, "step %lld: %d requests are running, max_num_seqs is %d", step, row->running, g->max_num_seqs);
	if (row->end_ns <= row->start_ns)
		WRONG(t, "step %lld: it takes no time", step);
}

static void on_gap(void *ctx, int64_t gap_ns, int64_t count)
{
	struct trial *t = ctx;
	if (gap_ns <= 0 || count < 1)
		WRONG(t, "step %lld: %lld gaps of %lld ns between tokens", (long long)t->step + 1, (long long)count,
		      (long long)gap_ns);
	t->gaps += count;
	t->gap_sum_ns += gap_ns * count;
}

static void on_token(void *ctx, int32_t req, int32_t n, int64_t t_ns)
{
	struct trial *t = ctx;
	if (n != t->tokens[req])
		WRONG(t, "step %lld: request %d: token %d comes after %d of them", (long long)t->step + 1, req + 1, n,
		      t->tokens[req]);
	if (t_ns <= t->last_ns[req])
		WRONG(t, "step %lld: request %d: two tokens at %lld ns", (long long)t->step + 1, req + 1,
		      (long long)t_ns);
	t->tokens[req]++;
	t->last_ns[req] = t_ns;
}

static void on_ended(void *ctx, int32_t req)
{
	((struct trial *)ctx)->ended[req]++;
}

static void on_event(void *ctx, const struct event *ev)
{
	struct trial *t = ctx;
	if (mem_grow((void **)&t->events, &t->cap_events, t->n_events + 1, sizeof *t->events))
		WRONG(t, "out of memory (a decision log)");
	else
		t->events[t->n_events++] = *ev;
}

/* --- making one --------------------------------------------------------------------------------------------------- */

static int make_arrays(struct trial *t, struct err *e)
{
	size_t n = (size_t)t->w.n + 1;
	t->requests = mem_zalloc(n, sizeof *t->requests);
	t->last_ns = mem_zalloc(n, sizeof *t->last_ns);
	t->tokens = mem_zalloc(n, sizeof *t->tokens);
	t->ended = mem_zalloc(n, sizeof *t->ended);
	if (!t->requests || !t->last_ns || !t->tokens || !t->ended)
		return err_no_memory(e, "a trial");
	for (size_t i = 0; i < n; i++)
		t->last_ns[i] = -1;
	return ERR_NONE;
}

static int make_machine(struct trial *t, struct engine_config *cfg, struct err *e)
{
	const struct random_case *c = t->c;
	struct policy_setup setup;
	engine_policy_setup(cfg, &setup);
	int rc = plugin_policy_open(&t->policy, c->policy, c->values, &setup, e);
	if (!rc)
		rc = source_create(&t->source, &t->w, cfg->max_concurrency, e);
	if (!rc)
		rc = cost_linear_create(&t->cost, (double)c->cost_a, (double)c->cost_b, (double)c->cost_c,
					(double)c->cost_d, e);
	if (!rc)
		rc = sim_backend_create(&t->backend, t->cost, e);
	if (!rc) {
		sim_backend_links(&t->backend, &c->links);
		rc = engine_create(&t->engine, cfg, &t->w, t->requests, t->source, &t->policy, &t->recorder, e);
	}
	return rc;
}

int trial_open(struct trial *t, const struct random_case *c, const struct trial_way *way, struct err *e)
{
	struct engine_config cfg = c->cfg;
	*t = (struct trial){.c = c, .way = *way, .step = -1};
	workload_init(&t->w);
	rng_init(&t->rng, c->seed, 5);
	cfg.check = !way->unchecked;
	cfg.exact_walk = way->exact_walk;
	cfg.single_steps = way->single_steps;
	t->recorder = (struct recorder){.ctx = t, .step = on_step, .gap = on_gap, .ended = on_ended};
	t->recorder.token = way->tokens ? on_token : NULL;
	t->recorder.event = way->events ? on_event : NULL;
	int rc = random_case_build(c, &t->w, e);
	if (!rc)
		rc = make_arrays(t, e);
	if (!rc)
		rc = engine_config_resolve(&cfg, e);
	return rc ? rc : make_machine(t, &cfg, e);
}

void trial_close(struct trial *t)
{
	engine_free(t->engine);
	if (t->backend.ops)
		sim_backend_free(&t->backend);
	cost_free(t->cost);
	source_free(t->source);
	policy_close(&t->policy);
	workload_free(&t->w);
	mem_free(t->requests);
	mem_free(t->last_ns);
	mem_free(t->tokens);
	mem_free(t->ended);
	mem_free(t->events);
	*t = (struct trial){0};
}

/* --- running it --------------------------------------------------------------------------------------------------- */

/* Now and then ends some request that is waiting, running or preempted. */
static int maybe_abort(struct trial *t, int64_t now_ns, struct err *e)
{
	if (!t->way.aborting || rng_below(&t->rng, 4))
		return ERR_NONE;
	int32_t req = (int32_t)rng_below(&t->rng, (uint64_t)t->w.n);
	const struct request *r = &t->requests[req];
	if (r->state != REQUEST_WAITING && r->state != REQUEST_RUNNING && r->state != REQUEST_PREEMPTED)
		return ERR_NONE;
	return engine_abort(t->engine, req, now_ns, REQUEST_WHY_USER, e);
}

/* More steps than anybody needs who gets anywhere. */
static int64_t most_steps(const struct trial *t)
{
	int64_t tokens = 0;
	for (int64_t i = 0; i < t->w.n; i++)
		tokens += t->w.specs[i].prompt_tokens + t->w.specs[i].output_tokens + 1;
	return 10000 + 100 * tokens;
}

/* Nothing was planned, and nothing is in flight. */
static int wait_on(struct trial *t, int64_t until_ns, int64_t now_ns, int64_t *idle, struct err *e)
{
	bool moving = engine_transfers_open(t->engine);
	if (until_ns == INT64_MAX && !moving && !t->way.aborting)
		WRONG(t, "after step %lld: idle for ever at %lld ns", (long long)t->step, (long long)now_ns);
	if (++*idle > 1000)
		WRONG(t, "after step %lld: it plans nothing, again and again, at %lld ns", (long long)t->step,
		      (long long)now_ns);
	if (until_ns == INT64_MAX && !moving)
		return ERR_NONE;
	return t->backend.ops->wait_until(t->backend.self, until_ns, e);
}

static int submit(struct trial *t, const struct batch *batch, int64_t now_ns, struct err *e)
{
	char why[256] = "";
	if (t->way.batch && !t->way.batch(t->way.ctx, t->engine, batch, why)) {
		WRONG(t, "%s", why);
		return ERR_NONE;
	}
	int rc = t->backend.ops->submit(t->backend.self, batch, e);
	return rc ? rc : maybe_abort(t, now_ns, e);
}

static int plan(struct trial *t, int64_t now_ns, enum engine_next *next, const struct batch **batch, int64_t *until,
		struct err *e)
{
	int rc = maybe_abort(t, now_ns, e);
	if (!rc)
		rc = engine_transfers_done(t->engine, &t->copier, now_ns, e);
	if (!rc)
		rc = engine_begin(t->engine, now_ns, next, batch, until, e);
	return rc ? rc : engine_start_transfers(t->engine, &t->copier, e);
}

/* engine_run, with aborts before a plan and while a step runs. */
static int run(struct trial *t, struct err *e)
{
	struct backend *b = &t->backend;
	int64_t in_flight = 0, most = t->c->cfg.async_scheduling ? 2 : 1, idle = 0, steps_left = most_steps(t);
	int rc = b->ops->init(b->self, t->engine, e);
	while (!rc && !t->why[0]) {
		const struct batch *batch;
		enum engine_next next = ENGINE_IDLE;
		struct step_result res;
		int64_t until = INT64_MAX, now_ns = b->ops->now(b->self);
		rc = plan(t, now_ns, &next, &batch, &until, e);
		if (rc || next == ENGINE_DONE)
			return rc;
		if (next == ENGINE_BATCH) {
			idle = 0;
			in_flight++;
			rc = submit(t, batch, now_ns, e);
			if (--steps_left == 0)
				WRONG(t,
				      "step %lld: no end in sight: every token could have been computed a hundred "
				      "times by now",
				      (long long)t->step);
		} else if (!in_flight) {
			rc = wait_on(t, until, now_ns, &idle, e);
		}
		if (rc || !in_flight || (next == ENGINE_BATCH && in_flight < most))
			continue;
		rc = b->ops->wait(b->self, &res, e);
		if (!rc)
			rc = engine_end(t->engine, &res, e);
		in_flight--;
	}
	return rc;
}

/* --- judging ------------------------------------------------------------------------------------------------------ */

/* Tokens a request must have produced when it finished. */
static int32_t due(const struct trial *t, int32_t i)
{
	const struct spec *p = &t->w.specs[i];
	int32_t n = p->output_tokens, room = engine_config(t->engine)->max_model_len - p->prompt_tokens;
	n = n < p->max_tokens ? n : p->max_tokens;
	return n < room ? n : room;
}

static void judge_times(struct trial *t, int32_t i)
{
	const struct request *r = &t->requests[i];
	if (request_queue_ns(r) < 0 || request_prefill_ns(r) < 0 || request_decode_ns(r) < 0 || r->preempted_ns < 0 ||
	    r->preempted_in_prefill_ns < 0 || r->preempted_in_prefill_ns > r->preempted_ns ||
	    r->transfer_in_prefill_ns < 0 || r->transfer_in_prefill_ns > r->transfer_ns)
		WRONG(t, "in the end: request %d has a negative time", i + 1);
	if (request_queue_ns(r) + request_prefill_ns(r) + request_decode_ns(r) + r->preempted_ns + r->transfer_ns !=
	    request_e2e_ns(r))
		WRONG(t, "in the end: request %d: its times do not add up", i + 1);
	if (r->held_until_ns < r->last_token_ns || r->chunks < 1 || (r->preemptions == 0 && r->preempted_ns != 0))
		WRONG(t, "in the end: request %d: held until %lld, %d chunks, %d preemptions of %lld ns", i + 1,
		      (long long)r->held_until_ns, r->chunks, r->preemptions, (long long)r->preempted_ns);
}

static void judge_request(struct trial *t, int32_t i)
{
	const struct request *r = &t->requests[i];
	if (r->state != REQUEST_FINISHED && r->state != REQUEST_REJECTED && r->state != REQUEST_ABORTED)
		WRONG(t, "in the end: request %d is left %s", i + 1, request_state_name((enum request_state)r->state));
	if (t->ended[i] != 1)
		WRONG(t, "in the end: request %d was said to have ended %d times", i + 1, t->ended[i]);
	if ((r->state == REQUEST_FINISHED) != (r->why == REQUEST_WHY_NONE))
		WRONG(t, "in the end: request %d: state %d, why %d", i + 1, r->state, r->why);
	if (r->last_token_ns < r->arrival_ns)
		WRONG(t, "in the end: request %d ended before it arrived", i + 1);
	if (r->state != REQUEST_FINISHED)
		return;
	if (r->outputs != due(t, i))
		WRONG(t, "in the end: request %d has %d outputs, the trace says %d", i + 1, r->outputs, due(t, i));
	judge_times(t, i);
	if (r->cached_tokens < 0 || r->cached_tokens >= t->w.specs[i].prompt_tokens)
		WRONG(t, "in the end: request %d: %d tokens cached of %d", i + 1, r->cached_tokens,
		      t->w.specs[i].prompt_tokens);
}

static void judge_sums(struct trial *t)
{
	const struct engine_stats *s = &t->stats;
	int64_t outputs = 0, gaps = 0, itl_ns = 0, cached = 0, preemptions = 0, recomputed = 0;
	for (int32_t i = 0; i < t->w.n; i++) {
		const struct request *r = &t->requests[i];
		outputs += r->outputs;
		cached += r->cached_tokens;
		preemptions += r->preemptions;
		recomputed += r->recomputed_tokens;
		gaps += r->outputs > 1 ? r->outputs - 1 : 0;
		if (r->state == REQUEST_FINISHED)
			itl_ns += r->last_token_ns - r->first_token_ns;
		if (t->recorder.token && t->tokens[i] != r->outputs)
			WRONG(t, "in the end: request %d: %d tokens were told of, %d are counted", i + 1, t->tokens[i],
			      r->outputs);
	}
	int64_t taken = s->prefix_hit_tokens + s->forked_tokens;
	if (s->output_tokens != outputs || taken != cached || s->preemptions != preemptions ||
	    s->recomputed_tokens != recomputed)
		WRONG(t,
		      "in the end: totals differ from the requests': %lld of %lld outputs, %lld of %lld cached, "
		      "%lld of %lld preemptions, %lld of %lld recomputed",
		      (long long)s->output_tokens, (long long)outputs, (long long)taken, (long long)cached,
		      (long long)s->preemptions, (long long)preemptions, (long long)s->recomputed_tokens,
		      (long long)recomputed);
	if (t->gaps != gaps)
		WRONG(t, "in the end: %lld gaps between tokens, %lld are due", (long long)t->gaps, (long long)gaps);
	if (!s->aborted && t->gap_sum_ns != itl_ns)
		WRONG(t, "in the end: gaps add up to %lld ns, last - first tokens to %lld", (long long)t->gap_sum_ns,
		      (long long)itl_ns);
}

static void judge_totals(struct trial *t)
{
	const struct engine_stats *s = &t->stats;
	if (s->finished + s->rejected + s->aborted != t->w.n)
		WRONG(t, "in the end: %lld finished + %lld rejected + %lld aborted, of %lld", (long long)s->finished,
		      (long long)s->rejected, (long long)s->aborted, (long long)t->w.n);
	double share = s->kv_slot_ns > 0 ? (s->kv_token_ns + s->kv_internal_ns + s->kv_reserved_ns) / s->kv_slot_ns : 0;
	if (s->kv_token_ns < 0 || s->kv_internal_ns < 0 || s->kv_reserved_ns < 0 || s->kv_external_ns < 0 || share > 1)
		WRONG(t, "in the end: KV memory: tokens %g, internal %g, reserved %g, external %g of %g",
		      s->kv_token_ns, s->kv_internal_ns, s->kv_reserved_ns, s->kv_external_ns, s->kv_slot_ns);
	if (s->max_blocks_used > engine_config(t->engine)->num_blocks)
		WRONG(t, "in the end: %d blocks used of %d", s->max_blocks_used, engine_config(t->engine)->num_blocks);
}

/* Nothing is left behind: what the engine describes of itself when all is over. */
static void judge_leaks(struct trial *t)
{
	char text[512], want[64];
	const struct engine_config *g = engine_config(t->engine);
	engine_describe(t->engine, text, sizeof text);
	snprintf(want, sizeof want, "0 running, 0 waiting, %d of %d blocks free", g->kv_off ? 0 : g->num_blocks,
		 g->num_blocks);
	if (strncmp(text, want, strlen(want)) != 0)
		WRONG(t, "in the end: left behind: %.200s", text);
}

bool trial_run(struct trial *t)
{
	struct err e = {0};
	t->copier = t->backend;
	if (t->way.copier)
		t->way.copier(t->way.ctx, &t->backend, engine_config(t->engine), &t->copier);
	if (run(t, &e))
		WRONG(t, "%.350s", e.text);
	engine_stats(t->engine, &t->stats);
	for (int32_t i = 0; i < t->w.n && !t->why[0]; i++)
		judge_request(t, i);
	if (!t->why[0])
		judge_sums(t);
	if (!t->why[0])
		judge_totals(t);
	if (!t->why[0])
		judge_leaks(t);
	err_clear(&e);
	if (plugin_policy_end(&t->policy, &e))
		WRONG(t, "in the end: %.300s", e.text);
	return !t->why[0];
}

/* --- decision logs ------------------------------------------------------------------------------------------------ */

int64_t trial_events_differ(const struct trial *a, const struct trial *b, int64_t n)
{
	for (int64_t i = 0; i < n && (i < a->n_events || i < b->n_events); i++) {
		if (i >= a->n_events || i >= b->n_events)
			return i;
		const struct event *x = &a->events[i], *y = &b->events[i];
		if (x->kind != y->kind || x->step != y->step || x->at_ns != y->at_ns || x->req != y->req ||
		    x->a != y->a || x->b != y->b)
			return i;
	}
	return -1;
}

void trial_event_text(const struct event *ev, char *text, int64_t size)
{
	if (!ev)
		snprintf(text, (size_t)size, "nothing more");
	else if (ev->kind == EVENT_STEP)
		snprintf(text, (size_t)size, "\"step ends at %lld ns\"", (long long)ev->b);
	else if (ev->kind == EVENT_CHUNK)
		snprintf(text, (size_t)size, "\"chunk of request %d, %lld tokens from %lld on\"", ev->req + 1,
			 (long long)ev->b, (long long)ev->a);
	else
		snprintf(text, (size_t)size, "\"%s request %d\"", event_name(ev->kind), ev->req + 1);
}
