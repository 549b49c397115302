#include "tests/support/sched.h"

#include <stdlib.h>
#include <string.h>

#include "policies/registry.h"

static void must(bool ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "sched: %s\n", what);
	exit(1);
}

void sched_init(struct sched *s, const char *policy, const char *params)
{
	memset(s, 0, sizeof *s);
	s->policy = policy;
	s->params = params;
	engine_config_default(&s->cfg);
	s->cfg.max_num_seqs = 8;
	s->cfg.max_num_batched_tokens = 64;
	s->cfg.block_size = 4;
	s->cfg.num_blocks = 64;
	s->cfg.check = true;
	s->log = true;
	workload_init(&s->w);
}

int32_t sched_add(struct sched *s, int64_t arrival_ns, int32_t prompt, int32_t output)
{
	struct spec spec = {.arrival_ns = arrival_ns,
			    .hash_at = s->w.n_hash_ids,
			    .name_at = -1,
			    .prompt_tokens = prompt,
			    .output_tokens = output,
			    .max_tokens = output > 0 ? output : 1,
			    .session = -1,
			    .row = (int32_t)s->w.n + 1};
	must(s->w.n < SCHED_REQUESTS && workload_add(&s->w, &spec, NULL) == ERR_NONE, "no room for a request");
	return (int32_t)s->w.n - 1;
}

void sched_share(struct sched *s, uint64_t id, int32_t tokens)
{
	must(workload_add_segment(&s->w, id, tokens, NULL) == ERR_NONE, "no room for a content id");
	s->w.specs[s->w.n - 1].n_hashes++;
}

void sched_after(struct sched *s, int32_t parent, int32_t child)
{
	must(s->n_links < SCHED_LINKS, "no room for a link");
	s->parent[s->n_links] = parent;
	s->child[s->n_links++] = child;
}

static void on_event(void *ctx, const struct event *ev)
{
	struct sched *s = ctx;
	if (s->n_events == s->cap_events) {
		s->cap_events = s->cap_events ? 2 * s->cap_events : 256;
		s->events = realloc(s->events, (size_t)s->cap_events * sizeof *s->events);
		must(s->events, "no memory");
	}
	s->events[s->n_events++] = *ev;
}

static void on_step(void *ctx, const struct step_row *row)
{
	struct sched *s = ctx;
	if (s->n_steps == s->cap_steps) {
		s->cap_steps = s->cap_steps ? 2 * s->cap_steps : 256;
		s->steps = realloc(s->steps, (size_t)s->cap_steps * sizeof *s->steps);
		must(s->steps, "no memory");
	}
	s->steps[s->n_steps++] = *row;
}

static void on_gap(void *ctx, int64_t gap_ns, int64_t count)
{
	struct sched *s = ctx;
	s->gaps += count;
	s->gap_sum_ns += gap_ns * count;
}

static int open_policy(struct sched *s)
{
	static const struct policy_desc none;
	union policy_value values[32];
	const struct policy_desc *d = s->desc ? s->desc : policy_find(s->policy);
	struct engine_config c = s->cfg;
	must(d != NULL && d != &none && d->n_params <= 32, "no such policy");
	int rc = engine_config_resolve(&c, &s->err);
	struct policy_setup setup;
	engine_policy_setup(&c, &setup);
	if (!rc)
		rc = policy_parse_params(d, s->params, values, &s->err);
	return rc ? rc : policy_open(&s->instance, d, values, &setup, &s->err);
}

int sched_open(struct sched *s)
{
	memset(s->requests, 0, sizeof s->requests);
	err_clear(&s->err);
	s->n_steps = s->n_events = s->gaps = s->gap_sum_ns = 0;
	fake_backend_init(&s->fake, &s->backend);
	bool free_of_charge = !(s->a | s->b | s->c | s->d | s->host_ns);
	s->fake.a = free_of_charge ? 10 : s->a;
	s->fake.b = s->b;
	s->fake.c = s->c;
	s->fake.d = s->d;
	s->fake.host_ns = s->host_ns;
	links_init(&s->fake.links, &s->links);
	s->recorder = (struct recorder){
		.ctx = s, .step = s->untold ? NULL : on_step, .gap = on_gap, .event = s->log ? on_event : NULL};
	if (s->n_links && !s->w.child_at && workload_link(&s->w, s->parent, s->child, s->n_links, &s->err))
		return (int)s->err.code;
	int rc = open_policy(s);
	if (!rc)
		rc = source_create(&s->source, &s->w, s->cfg.max_concurrency, &s->err);
	if (!rc)
		rc = engine_create(&s->engine, &s->cfg, &s->w, s->requests, s->source, &s->instance, &s->recorder,
				   &s->err);
	return rc;
}

int sched_loop(struct sched *s)
{
	return engine_run(s->engine, &s->backend, NULL, &s->err);
}

void sched_close(struct sched *s)
{
	if (s->engine)
		engine_stats(s->engine, &s->stats);
	engine_free(s->engine);
	links_free(&s->fake.links);
	source_free(s->source);
	policy_close(&s->instance);
	s->engine = NULL;
	s->source = NULL;
	s->instance = (struct policy){0};
}

int sched_run(struct sched *s)
{
	int rc = sched_open(s);
	if (!rc)
		rc = sched_loop(s);
	sched_close(s);
	return rc;
}

void sched_free(struct sched *s)
{
	workload_free(&s->w);
	free(s->steps);
	free(s->events);
	s->steps = NULL;
	s->events = NULL;
}

int64_t sched_count(const struct sched *s, enum event_kind kind, int32_t req)
{
	int64_t n = 0;
	for (int64_t i = 0; i < s->n_events; i++)
		n += s->events[i].kind == kind && (req < 0 || s->events[i].req == req);
	return n;
}

struct event sched_event(const struct sched *s, enum event_kind kind, int32_t req, int64_t k)
{
	for (int64_t i = 0; i < s->n_events; i++)
		if (s->events[i].kind == kind && (req < 0 || s->events[i].req == req) && k-- == 0)
			return s->events[i];
	return (struct event){0};
}

void sched_write(const struct sched *s, FILE *f)
{
	for (int64_t i = 0; i < s->n_events; i++) {
		const struct event *ev = &s->events[i];
		fprintf(f, "%lld %lld %s %d %lld %lld\n", (long long)ev->step, (long long)ev->at_ns,
			event_name(ev->kind), ev->req, (long long)ev->a, (long long)ev->b);
	}
}
