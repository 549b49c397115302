/* prop_exec.c: what requests say does not depend on how they are served. Random workloads and settings under every policy run
 * on real kernels (a tiny random model, each KV read verified), with random block sizes, threads, kinds of KV pages and
 * sampling, with and without prefix caching, asynchronous scheduling and a KV cache; each request's tokens must be those it
 * has when it is served alone, and as many as are due. Times come from a made-up clock, so that a failing case fails
 * again.
 * Options: tests/support/prop.h. */
#include <stdlib.h>
#include <string.h>

#include "core/err.h"
#include "core/mem.h"
#include "core/source.h"
#include "exec/backend.h"
#include "exec/prompts.h"
#include "policies/registry.h"
#include "tests/support/fake_backend.h"
#include "tests/support/prop.h"
#include "tests/support/random_case.h"
#include "tests/support/tiny.h"

/* --- the executor on a made-up clock ------------------------------------------------------------------------------ */

struct timed {
	struct backend exec, clock;
	struct fake_backend fake;
};

static int timed_init(void *self, const struct engine *engine, struct err *e)
{
	struct timed *t = self;
	return t->exec.ops->init(t->exec.self, engine, e);
}

static int64_t timed_now(void *self)
{
	struct timed *t = self;
	return t->clock.ops->now(t->clock.self);
}

static int timed_wait_until(void *self, int64_t t_ns, struct err *e)
{
	struct timed *t = self;
	return t->clock.ops->wait_until(t->clock.self, t_ns, e);
}

static int timed_submit(void *self, const struct batch *b, struct err *e)
{
	struct timed *t = self;
	int rc = t->exec.ops->submit(t->exec.self, b, e);
	return rc ? rc : t->clock.ops->submit(t->clock.self, b, e);
}

static int timed_wait(void *self, struct step_result *out, struct err *e)
{
	struct timed *t = self;
	struct step_result real;
	int rc = t->exec.ops->wait(t->exec.self, &real, e);
	if (!rc)
		rc = t->clock.ops->wait(t->clock.self, out, e);
	if (!rc && out->steps != 1)
		rc = err_set(e, ERR_INVARIANT, "a walked step was to be taken %lld times", (long long)out->steps);
	if (!rc &&
	    (real.end_ns[0] <= real.start_ns || real.host_ns < 0 || real.host_ns > real.end_ns[0] - real.start_ns))
		rc = err_set(e, ERR_INVARIANT, "a step takes from %lld to %lld ns, %lld of them the host's",
			     (long long)real.start_ns, (long long)real.end_ns[0], (long long)real.host_ns);
	out->eos = real.eos;
	out->n_eos = real.n_eos;
	return rc;
}

static int timed_transfer(void *self, const struct transfer *t, struct err *e)
{
	struct timed *w = self;
	int rc = w->exec.ops->transfer(w->exec.self, t, e);
	if (rc)
		return rc;
	return w->clock.ops->transfer(w->clock.self, t, e);
}

static int timed_transfers_done(void *self, struct transfer_news *out, struct err *e)
{
	struct timed *w = self;
	int rc = w->exec.ops->transfers_done(w->exec.self, out, e);
	return rc ? rc : w->clock.ops->transfers_done(w->clock.self, out, e);
}

static int64_t timed_transfer_next_ns(void *self)
{
	struct timed *w = self;
	return w->clock.ops->transfer_next_ns(w->clock.self);
}

static const struct backend_ops timed_ops = {
	.name = "timed",
	.init = timed_init,
	.now = timed_now,
	.wait_until = timed_wait_until,
	.submit = timed_submit,
	.wait = timed_wait,
	.transfer = timed_transfer,
	.transfers_done = timed_transfers_done,
	.transfer_next_ns = timed_transfer_next_ns,
};

/* --- one case ----------------------------------------------------------------------------------------------------- */

/* What the seed says beyond tests/support/random_case.h. */
struct extra {
	int32_t threads, model;
	enum num kv_type;
	bool eos, greedy;
	bool begun; /* steps begin when a set of kernels that works by itself would begin them */
};

static const int32_t eos_tokens[] = {3, 50, 71};
static const char *const models[] = {NULL, "\"architectures\": [\"MistralForCausalLM\"], \"sliding_window\": 11"};
enum { N_MODELS = 2, N_EOS = 3, MODEL_WINDOW = 11 };

struct machine {
	struct tiny tiny;
	struct workload w;
	struct request *requests;
	struct source *source;
	struct policy policy;
	struct runner *runner;
	struct sequences *sequences;
	struct timed timed;
	struct backend backend;
	struct engine *engine;
	bool lossy; /* it dropped tokens that rows would have read */
	char why[400];
};

#define WRONG(m, ...)                                                                                                  \
	do {                                                                                                           \
		if (!(m)->why[0])                                                                                      \
			snprintf((m)->why, sizeof(m)->why, __VA_ARGS__);                                               \
	} while (0)

static struct extra draw_extra(uint64_t seed)
{
	static const enum num kinds[] = {NUM_F32, NUM_F32, NUM_BF16, NUM_I8};
	struct rng r;
	rng_init(&r, seed, 4242);
	struct extra x = {.threads = 1 + (int32_t)rng_below(&r, 3), .model = (int32_t)rng_below(&r, 4) == 0};
	x.kv_type = kinds[rng_below(&r, 4)];
	x.eos = rng_below(&r, 4) == 0;
	x.greedy = rng_below(&r, 4) != 0;
	x.begun = rng_below(&r, 2);
	return x;
}

/* Block sizes of 1, 8, 16 and 32 for as much memory as was drawn. */
static struct engine_config draw_config(const struct random_case *c)
{
	static const int32_t sizes[] = {1, 8, 16, 32};
	struct engine_config cfg = c->cfg;
	struct rng r;
	rng_init(&r, c->seed, 4243);
	if (rng_below(&r, 2)) {
		int64_t tokens = (int64_t)cfg.num_blocks * cfg.block_size;
		cfg.block_size = sizes[rng_below(&r, 4)];
		cfg.num_blocks = (int32_t)((tokens + cfg.block_size - 1) / cfg.block_size);
	}
	/* Most of those that keep a window of the model that has one keep no less: then nothing may change. */
	if (cfg.kv_retention != RETAIN_FULL && draw_extra(c->seed).model && rng_below(&r, 4))
		cfg.kv_window = MODEL_WINDOW + (int32_t)rng_below(&r, 5);
	cfg.exact_walk = cfg.check = true;
	cfg.abort_after_ns = 0; /* real steps take as long as they take: nobody's patience decides */
	return cfg;
}

static bool open_scheduler(struct machine *m, const struct random_case *c, struct err *e)
{
	struct engine_config cfg = draw_config(c);
	if (!random_case_workload(c, &m->w))
		return false;
	m->requests = calloc((size_t)m->w.n + 1, sizeof *m->requests);
	int rc = engine_config_resolve(&cfg, e);
	struct policy_setup setup;
	engine_policy_setup(&cfg, &setup);
	if (!rc)
		rc = policy_open(&m->policy, c->policy, c->values, &setup, e);
	if (!rc)
		rc = source_create(&m->source, &m->w, cfg.max_concurrency, e);
	if (!rc)
		rc = engine_create(&m->engine, &cfg, &m->w, m->requests, m->source, &m->policy, NULL, e);
	return rc == ERR_NONE;
}

static bool open_executor(struct machine *m, const struct random_case *c, struct err *e)
{
	const struct engine_config *cfg = engine_config(m->engine);
	struct extra x = draw_extra(c->seed);
	tiny_open(&m->tiny, models[x.model], x.threads);
	m->tiny.kernels->asynchronous = x.begun;
	m->runner = tiny_runner(&m->tiny, (struct runner_setup){.kv_type = x.kv_type,
								.n_pages = cfg->kv_off ? 0 : cfg->num_blocks,
								.block_size = cfg->block_size,
								.kv_off = cfg->kv_off,
								.sampling = x.greedy ? SAMPLING_GREEDY : TINY_SAMPLING,
								.check = true});
	struct exec_setup s = {.runner = m->runner, .check = true};
	if (x.eos) {
		s.eos = eos_tokens;
		s.n_eos = N_EOS;
	}
	if (sequences_create(&m->sequences, &m->w, TINY_VOCAB, c->seed, cfg->prefix_caching, e))
		return false;
	s.sequences = m->sequences;
	fake_backend_init(&m->timed.fake, &m->timed.clock);
	m->timed.fake.a = c->cost_a;
	m->timed.fake.b = c->cost_b;
	m->timed.fake.c = c->cost_c;
	m->timed.fake.d = c->cost_d;
	links_init(&m->timed.fake.links, &c->links);
	m->backend = (struct backend){&timed_ops, &m->timed};
	return !exec_backend_create(&m->timed.exec, &s, e);
}

static void close_all(struct machine *m)
{
	exec_backend_free(&m->timed.exec);
	links_free(&m->timed.fake.links);
	sequences_free(m->sequences);
	runner_free(m->runner);
	if (m->tiny.kernels)
		tiny_close(&m->tiny);
	engine_free(m->engine);
	source_free(m->source);
	policy_close(&m->policy);
	workload_free(&m->w);
	free(m->requests);
}

/* --- what is due -------------------------------------------------------------------------------------------------- */

/* Tokens a request has when nothing but the trace, max_tokens and the model's length limit it. */
static int32_t due(const struct machine *m, int32_t i)
{
	const struct spec *p = &m->w.specs[i];
	int32_t n = p->output_tokens, room = engine_config(m->engine)->max_model_len - p->prompt_tokens;
	n = n < p->max_tokens ? n : p->max_tokens;
	return n < room ? n : room;
}

static int32_t until_eos(const int32_t *tokens, int32_t n)
{
	for (int32_t i = 0; i < n; i++)
		for (int k = 0; k < N_EOS; k++)
			if (tokens[i] == eos_tokens[k])
				return i + 1;
	return n;
}

static int32_t least(int32_t a, int32_t b)
{
	return a < b ? a : b;
}

static void judge_request(struct machine *m, const struct random_case *c, struct tiny *alone, int32_t i)
{
	struct extra x = draw_extra(c->seed);
	const struct spec *p = &m->w.specs[i];
	const struct request *r = &m->requests[i];
	int32_t prompt[512], expected[512], n, want = r->state == REQUEST_FINISHED ? due(m, i) : 0;
	const int32_t *got = sequences_outputs(m->sequences, i, &n);
	if (p->prompt_tokens > 512 || want > 512) {
		WRONG(m, "request %d is longer than this test takes", i);
		return;
	}
	prompt_fill(&m->w, i, c->seed, TINY_VOCAB, prompt);
	if (p->output_id) {
		for (int32_t k = 0; k < want; k++)
			expected[k] = prompt_token(&m->w, c->seed, p->output_id, k, TINY_VOCAB);
	} else {
		tiny_alone(alone, x.kv_type, x.greedy, i, prompt, p->prompt_tokens, want, expected);
		if (x.eos)
			want = until_eos(m->lossy ? got : expected, m->lossy ? least(n, want) : want);
	}
	if (r->outputs != want || n != want)
		WRONG(m, "request %d has %d outputs and %d tokens, %d are due", i, r->outputs, n, want);
	for (int32_t k = 0; k < want && k < n && !m->lossy; k++)
		if (got[k] != expected[k])
			WRONG(m, "request %d says %d as token %d of %d; alone it says %d", i, got[k], k, want,
			      expected[k]);
}

/* What was seen, so that a run says what it was a test of. */
struct seen {
	int64_t tokens, preempted, recomputed, hit, padded, wasted, kv_off, eos, dropped, exactly, forked, copied;
	int64_t swapped, from_host, from_disk, ahead; /* pages */
};

static void count(const struct machine *m, struct seen *seen)
{
	struct engine_stats t;
	engine_stats(m->engine, &t);
	seen->tokens += t.output_tokens;
	seen->preempted += t.preemptions;
	seen->recomputed += t.recomputed_tokens;
	seen->hit += t.prefix_hit_tokens;
	seen->padded += t.pad_tokens;
	seen->forked += t.forked_tokens;
	seen->copied += t.copied_blocks;
	seen->swapped += t.swap_in_blocks;
	seen->from_host += t.host_hit_blocks;
	seen->from_disk += t.disk_hit_blocks;
	seen->ahead += t.prefetched_blocks;
	seen->wasted += t.wasted_tokens;
	seen->dropped += t.dropped_tokens;
	seen->exactly += m->lossy ? 0 : t.dropped_tokens;
	seen->kv_off += engine_config(m->engine)->kv_off;
	for (int32_t i = 0; i < m->w.n; i++)
		seen->eos += m->requests[i].state == REQUEST_FINISHED && m->requests[i].outputs < due(m, i);
}

/* Pages outside of the window of every layer are read by nobody. */
static bool is_lossy(const struct machine *m)
{
	const struct engine_config *c = engine_config(m->engine);
	int32_t window = m->tiny.model.window;
	struct engine_stats t;
	engine_stats(m->engine, &t);
	return t.dropped_blocks && (m->policy.traits.drops || !window || c->kv_window < window);
}

/* "" or what is wrong. */
static bool holds(const struct random_case *c, struct tiny alone[N_MODELS], struct seen *seen, char *why)
{
	struct machine m = {0};
	struct err e = {0};
	why[0] = '\0';
	if (!open_scheduler(&m, c, &e) || !open_executor(&m, c, &e) || engine_run(m.engine, &m.backend, NULL, &e))
		WRONG(&m, "%.390s", e.text);
	if (m.engine)
		m.lossy = is_lossy(&m);
	for (int32_t i = 0; i < m.w.n && !m.why[0]; i++)
		judge_request(&m, c, &alone[draw_extra(c->seed).model], i);
	if (!m.why[0])
		count(&m, seen);
	memcpy(why, m.why, sizeof m.why);
	close_all(&m);
	return !why[0];
}

static bool accepted(const struct random_case *c)
{
	struct machine m = {0};
	struct err e = {0};
	bool ok = open_scheduler(&m, c, &e);
	close_all(&m);
	return ok;
}

struct trial {
	struct tiny alone[N_MODELS];
	struct seen seen;
};

static bool fails(void *ctx, const struct random_case *c)
{
	struct trial *t = ctx;
	char why[400];
	return !holds(c, t->alone, &t->seen, why);
}

static enum prop_verdict judge(void *ctx, const struct random_case *c)
{
	struct trial *t = ctx;
	char why[400];
	if (holds(c, t->alone, &t->seen, why))
		return PROP_HOLDS;
	struct random_case small;
	struct extra x = draw_extra(c->seed);
	random_case_copy(&small, c);
	prop_drop_requests(&small, fails, t);
	holds(&small, t->alone, &t->seen, why);
	struct engine_config cfg = draw_config(&small);
	printf("FAILED: seed %llu, policy %s: %s\n", (unsigned long long)c->seed, c->policy->name, why);
	printf("# %d threads, model %d, KV pages of %s, %d blocks of %d, eos %d, greedy %d\n", x.threads, x.model,
	       num_names[x.kv_type], cfg.num_blocks, cfg.block_size, x.eos, x.greedy);
	random_case_print(&small, stdout);
	random_case_free(&small);
	return PROP_BROKEN;
}

static void sum_up(void *ctx)
{
	const struct seen *s = &((struct trial *)ctx)->seen;
	printf("%lld tokens, %lld preemptions (%lld tokens computed again), %lld tokens from the prefix cache, %lld of "
	       "padding, %lld of parents of forks (%lld pages copied), %lld wasted, %lld runs without a KV cache, %lld "
	       "requests ended by a token, %lld tokens dropped (%lld of them without any change)\n",
	       (long long)s->tokens, (long long)s->preempted, (long long)s->recomputed, (long long)s->hit,
	       (long long)s->padded, (long long)s->forked, (long long)s->copied, (long long)s->wasted,
	       (long long)s->kv_off, (long long)s->eos, (long long)s->dropped, (long long)s->exactly);
	printf("pages that came back: %lld swapped in, %lld of prefixes from host memory, %lld from disk; %lld read "
	       "ahead\n",
	       (long long)s->swapped, (long long)s->from_host, (long long)s->from_disk, (long long)s->ahead);
}

static int32_t largest(int64_t k)
{
	(void)k;
	return 10;
}

int main(int argc, char **argv)
{
	struct trial t = {0};
	const struct prop p = {.name = "prop_exec",
			       .seconds = 12,
			       .cases = 100000,
			       .largest = largest,
			       .refused = 10,
			       .accepted = accepted,
			       .judge = judge,
			       .sum_up = sum_up,
			       .ctx = &t};
	for (int i = 0; i < N_MODELS; i++)
		tiny_open(&t.alone[i], models[i], 1);
	int status = prop_main(&p, argc, argv);
	for (int i = 0; i < N_MODELS; i++)
		tiny_close(&t.alone[i]);
	return status;
}
