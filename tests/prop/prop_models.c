/* prop_models.c: vllm_v1, sglang and trtllm, as the engine runs them, against plain models of the published schedulers and
 * their memory (tests/support/model.h), decision by decision, on random workloads: prefix caching off, hash and radix,
 * memory down to the least that can make progress.
 * Options: tests/support/prop.h. */
#include <stdlib.h>
#include <string.h>

#include "core/err.h"
#include "core/source.h"
#include "policies/registry.h"
#include "tests/support/fake_backend.h"
#include "tests/support/model.h"
#include "tests/support/prop.h"
#include "tests/support/random_case.h"

/* One engine with all it needs, and what it decided. */
struct served {
	struct workload w;
	struct request *requests;
	struct source *source;
	struct policy policy;
	struct fake_backend fake;
	struct backend backend;
	struct recorder recorder;
	struct engine *engine;
	struct event *events; /* [n] those a model tells of as well */
	int64_t n, cap;
};

static void on_event(void *ctx, const struct event *ev)
{
	struct served *s = ctx;
	if (ev->kind != EVENT_ADMIT && ev->kind != EVENT_CHUNK && ev->kind != EVENT_DECODE &&
	    ev->kind != EVENT_PREEMPT && ev->kind != EVENT_FINISH && ev->kind != EVENT_ABORT && ev->kind != EVENT_STEP)
		return;
	if (s->n == s->cap) {
		s->cap = s->cap ? 2 * s->cap : 256;
		s->events = realloc(s->events, (size_t)s->cap * sizeof *s->events);
		if (!s->events)
			exit(1);
	}
	s->events[s->n++] = *ev;
}

/* Which cache a case has is drawn from its seed: the case itself only knows whether there is one. */
static struct engine_config config_of(const struct random_case *c)
{
	struct engine_config cfg = c->cfg;
	cfg.prefix_cache = !cfg.prefix_caching ? PREFIX_OFF : c->seed % 3 ? PREFIX_HASH : PREFIX_RADIX;
	cfg.prefix_eviction = PREFIX_EVICT_DEFAULT;
	cfg.cache_salt = CACHE_SALT_NONE;
	/* The models know the published orders and victims. */
	cfg.victim = VICTIM_DEFAULT;
	if (cfg.queue_order != QUEUE_PRIORITY)
		cfg.queue_order = QUEUE_FCFS;
	cfg.cache_prompts_only = c->seed % 5 == 0;
	cfg.kv_off = false;
	/* And they keep every page. */
	cfg.kv_retention = RETAIN_FULL;
	cfg.kv_window = cfg.kv_sink = 0;
	/* On the device alone. */
	cfg.swap_blocks = cfg.offload_host_blocks = cfg.offload_disk_blocks = cfg.kv_prefetch = 0;
	return cfg;
}

static bool served_open(struct served *s, const struct random_case *c, bool events, struct err *e)
{
	struct engine_config cfg = config_of(c);
	memset(s, 0, sizeof *s);
	cfg.check = events;
	if (!random_case_workload(c, &s->w))
		return false;
	s->requests = calloc((size_t)s->w.n + 1, sizeof *s->requests);
	fake_backend_init(&s->fake, &s->backend);
	s->fake.a = c->cost_a;
	s->fake.b = c->cost_b;
	s->fake.c = c->cost_c;
	s->fake.d = c->cost_d;
	s->recorder = (struct recorder){.ctx = s, .event = events ? on_event : NULL};
	union policy_value values[CASE_PARAMS];
	memcpy(values, c->values, sizeof values);
	for (int32_t i = 0; i < c->policy->n_params; i++)
		if (strcmp(c->policy->params[i].name, "shortage") == 0)
			values[i].i = 0; /* the model drops nothing */
	int rc = s->requests ? engine_config_resolve(&cfg, e) : ERR_MEMORY;
	struct policy_setup setup;
	engine_policy_setup(&cfg, &setup);
	if (!rc)
		rc = policy_open(&s->policy, c->policy, values, &setup, e);
	if (!rc)
		rc = source_create(&s->source, &s->w, cfg.max_concurrency, e);
	if (!rc)
		rc = engine_create(&s->engine, &cfg, &s->w, s->requests, s->source, &s->policy, &s->recorder, e);
	return rc == ERR_NONE;
}

static void served_close(struct served *s)
{
	engine_free(s->engine);
	source_free(s->source);
	policy_close(&s->policy);
	workload_free(&s->w);
	free(s->requests);
	free(s->events);
}

/* --- comparing ---------------------------------------------------------------------------------------------------- */

static void print_event(const char *who, const struct event *ev)
{
	printf("    %-7s step %lld at %lld: %s request %d, %lld %lld\n", who, (long long)ev->step, (long long)ev->at_ns,
	       event_name(ev->kind), ev->req, (long long)ev->a, (long long)ev->b);
}

static bool same_event(const struct event *x, const struct event *y)
{
	return x->kind == y->kind && x->step == y->step && x->at_ns == y->at_ns && x->req == y->req && x->a == y->a &&
	       x->b == y->b;
}

static bool same_schedule(const struct served *s, const struct model_log *m, bool talk)
{
	int64_t i = 0;
	while (i < s->n && i < m->n && same_event(&s->events[i], &m->events[i]))
		i++;
	if (i == s->n && i == m->n)
		return true;
	for (int64_t k = i > 8 ? i - 8 : 0; k < i && talk; k++)
		print_event("both", &s->events[k]);
	for (int64_t k = i; k < i + 3 && talk; k++) {
		if (k < s->n)
			print_event("engine", &s->events[k]);
		if (k < m->n)
			print_event("model", &m->events[k]);
	}
	return false;
}

static bool same_end(const struct request *r, const struct model_end *m)
{
	if ((r->state == REQUEST_FINISHED) != m->finished)
		return false;
	return !m->finished || (r->first_sched_ns == m->first_sched_ns && r->first_token_ns == m->first_token_ns &&
				r->last_token_ns == m->last_token_ns && r->outputs == m->outputs &&
				r->cached_tokens == m->cached && r->preemptions == m->preemptions);
}

static bool same_ends(const struct served *s, const struct model_log *m, bool talk)
{
	for (int32_t i = 0; i < s->w.n; i++) {
		const struct request *r = &s->requests[i];
		if (same_end(r, &m->ends[i]))
			continue;
		if (talk)
			printf("    request %d: engine: %s, scheduled %lld, tokens %lld to %lld, %d of them, %d "
			       "cached, "
			       "preempted %d times\n"
			       "    model: %s, %lld, %lld to %lld, %d, %d, %d\n",
			       i, request_state_name((enum request_state)r->state), (long long)r->first_sched_ns,
			       (long long)r->first_token_ns, (long long)r->last_token_ns, r->outputs, r->cached_tokens,
			       r->preemptions, m->ends[i].finished ? "finished" : "failed",
			       (long long)m->ends[i].first_sched_ns, (long long)m->ends[i].first_token_ns,
			       (long long)m->ends[i].last_token_ns, m->ends[i].outputs, m->ends[i].cached,
			       m->ends[i].preemptions);
		return false;
	}
	return true;
}

/* Driven with a decision log, so that every step is walked, and without, so that steps are taken at the cost of what
 * changed and several at once. */
static bool holds(const struct random_case *c, bool events, bool talk)
{
	struct served s;
	struct model_log m;
	struct err e = {0};
	bool same = true;
	if (served_open(&s, c, events, &e)) {
		const struct model_case mc = {*engine_config(s.engine),
					      &s.w,
					      c->policy,
					      c->values,
					      c->cost_a,
					      c->cost_b,
					      c->cost_c,
					      c->cost_d};
		model_run(&m, &mc);
		int rc = engine_run(s.engine, &s.backend, NULL, &e);
		same = rc == ERR_NONE && !m.stuck && (!events || same_schedule(&s, &m, talk)) &&
		       same_ends(&s, &m, talk);
		if (talk && (rc || m.stuck))
			printf("    engine: %s; model: %s\n", rc ? e.text : "done", m.stuck ? "stuck" : "done");
		model_log_free(&m);
	}
	served_close(&s);
	return same;
}

static bool accepted(const struct random_case *c)
{
	struct served s;
	struct err e = {0};
	bool ok = served_open(&s, c, true, &e);
	served_close(&s);
	return ok;
}

/* --- shrinking ---------------------------------------------------------------------------------------------------- */

static bool fails(void *ctx, const struct random_case *c)
{
	const bool *events = ctx;
	return !holds(c, *events, false);
}

static bool shrink_number(struct random_case *c, int32_t *at, int32_t least, bool events)
{
	int32_t was = *at;
	for (int32_t k = 0; k < 3; k++) {
		*at = k == 0 ? least : k == 1 ? was / 2 : was - 1;
		if (*at >= least && *at < was && !holds(c, events, false))
			return true;
	}
	*at = was;
	return false;
}

static bool forget_patience(struct random_case *c, bool events)
{
	int64_t was = c->cfg.abort_after_ns;
	c->cfg.abort_after_ns = 0;
	if (was && !holds(c, events, false))
		return true;
	c->cfg.abort_after_ns = was;
	return false;
}

static void shrink(struct random_case *c, bool events)
{
	for (bool any = true; any;) {
		prop_drop_requests(c, fails, &events);
		any = false;
		for (int32_t i = 0; i < c->n; i++) {
			struct case_req *q = &c->reqs[i];
			any |= shrink_number(c, &q->prompt, 1, events);
			any |= shrink_number(c, &q->output, 0, events);
			any |= shrink_number(c, &q->max_tokens, 1, events);
			any |= shrink_number(c, &q->priority, 0, events);
			any |= shrink_number(c, &q->n_segments, 0, events);
		}
		any |= forget_patience(c, events);
		any |= shrink_number(c, &c->cfg.max_num_seqs, 1, events);
		any |= shrink_number(c, &c->cfg.num_blocks, 1, events);
		any |= shrink_number(c, &c->cfg.max_num_batched_tokens, 1, events);
		any |= shrink_number(c, &c->cfg.max_concurrency, 0, events);
	}
}

static void report(const struct random_case *c, bool events)
{
	struct random_case small;
	struct engine_config cfg = config_of(c);
	random_case_copy(&small, c);
	shrink(&small, events);
	printf("FAILED: seed %llu, policy %s, prefix cache %s%s, %s: the smallest case found:\n",
	       (unsigned long long)c->seed, c->policy->name,
	       cfg.prefix_cache == PREFIX_OFF    ? "off"
	       : cfg.prefix_cache == PREFIX_HASH ? "hash"
						 : "radix",
	       cfg.cache_prompts_only ? " (prompts only)" : "", events ? "decision log" : "no decision log");
	random_case_print(&small, stdout);
	holds(&small, events, true);
	random_case_free(&small);
}

static enum prop_verdict judge(void *ctx, const struct random_case *c)
{
	(void)ctx;
	for (int k = 0; k < 2; k++)
		if (!holds(c, k == 0, false)) {
			report(c, k == 0);
			return PROP_BROKEN;
		}
	return PROP_HOLDS;
}

static int32_t largest(int64_t k)
{
	return k % 10 == 9 ? 60 : 16;
}

int main(int argc, char **argv)
{
	const struct prop p = {.name = "prop_models",
			       .seconds = 10,
			       .cases = 20000,
			       .largest = largest,
			       .refused = 20,
			       .no_forks = true,
			       .applies = model_knows,
			       .accepted = accepted,
			       .judge = judge};
	return prop_main(&p, argc, argv);
}
