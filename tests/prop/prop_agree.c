/* prop_agree.c: the engine against the simple second implementation (tests/support/ref_engine.c), decision by decision,
 * on random workloads and settings; and against itself: fast and exact walk, steps taken at once and singly, one loop and
 * an event heap.
 * Options: tests/support/prop.h. */
#include <stdlib.h>
#include <string.h>

#include "analysis/case_shrink.h"
#include "core/err.h"
#include "core/source.h"
#include "policies/registry.h"
#include "sim/backend.h"
#include "sim/cluster.h"
#include "sim/cost_models.h"
#include "tests/support/prop.h"
#include "tests/support/random_case.h"
#include "tests/support/ref_engine.h"

enum { SKIPPED = -1, SAME = 0, DIFFERENT = 1 };

/* How the engine is driven. */
struct drive {
	const char *name;
	bool exact_walk, single_steps, check, events, steps, cluster, tables, runs;
};

static void on_event(void *ctx, const struct event *ev)
{
	ref_push_event(ctx, ev);
}

static void on_step(void *ctx, const struct step_row *row)
{
	ref_push_step(ctx, row);
}

static void on_gap(void *ctx, int64_t gap_ns, int64_t count)
{
	while (count-- > 0)
		ref_push_gap(ctx, gap_ns);
}

/* Uniform steps told in one call: as many gaps as if each had been. */
static void on_run(void *ctx, int64_t start_ns, const int64_t *end_ns, int64_t steps, int64_t count)
{
	for (int64_t i = 0; i < steps; i++)
		on_gap(ctx, end_ns[i] - (i ? end_ns[i - 1] : start_ns), count);
}

static int32_t route_first(void *ctx, int32_t req, int64_t now_ns)
{
	(void)ctx, (void)req, (void)now_ns;
	return 0;
}

struct machine { /* one engine with all it needs */
	struct source *source, *inbox;
	struct policy policy;
	struct cost *cost;
	struct backend backend;
	struct engine *engine;
	struct recorder recorder;
};

static int set_up(struct machine *m, const struct random_case *c, const struct workload *w, const struct drive *how,
		  struct ref_result *out, struct err *e)
{
	struct engine_config cfg = c->cfg;
	cfg.exact_walk = how->exact_walk;
	cfg.single_steps = how->single_steps;
	cfg.check = how->check;
	int rc = engine_config_resolve(&cfg, e);
	struct policy_setup setup;
	engine_policy_setup(&cfg, &setup);
	m->recorder = (struct recorder){.ctx = out, .gap = on_gap};
	m->recorder.event = how->events ? on_event : NULL;
	m->recorder.step = how->steps ? on_step : NULL;
	m->recorder.run = how->runs ? on_run : NULL;
	if (!rc)
		rc = policy_open(&m->policy, c->policy, c->values, &setup, e);
	if (!rc)
		rc = source_create(&m->source, w, cfg.max_concurrency, e);
	if (!rc && how->cluster)
		rc = source_create_inbox(&m->inbox, m->source, e);
	if (!rc)
		rc = cost_linear_create(&m->cost, (double)c->cost_a, (double)c->cost_b, (double)c->cost_c,
					(double)c->cost_d, e);
	if (!rc)
		rc = sim_backend_create(&m->backend, m->cost, e);
	if (!rc)
		sim_backend_links(&m->backend, &c->links);
	if (!rc)
		rc = engine_create(&m->engine, &cfg, w, out->requests, how->cluster ? m->inbox : m->source, &m->policy,
				   &m->recorder, e);
	return rc;
}

static void tear_down(struct machine *m)
{
	engine_free(m->engine);
	sim_backend_free(&m->backend);
	cost_free(m->cost);
	source_free(m->inbox);
	source_free(m->source);
	policy_close(&m->policy);
}

static void note_tables(const struct engine *g, const struct batch *b, struct ref_result *out)
{
	uint64_t digest = 0;
	for (int32_t i = 0; i < engine_workload(g)->n; i++) {
		int32_t n = 0;
		const int32_t *ids = engine_block_table(g, i, &n);
		for (int32_t k = 0; k < n; k++)
			digest = ref_digest(digest, i, k, ids[k]);
	}
	ref_push_table(out, ref_digest(digest, 0, b->window_growing, (int32_t)b->decode_ctx_window));
}

/* engine_run taken apart, looking at every block table after each plan. */
static int run_looking(struct machine *m, struct ref_result *out, struct err *e)
{
	struct backend *b = &m->backend;
	int64_t in_flight = 0, most = engine_config(m->engine)->async_scheduling ? 2 : 1;
	int rc = b->ops->init(b->self, m->engine, e);
	while (!rc) {
		const struct batch *batch;
		enum engine_next next = ENGINE_IDLE;
		struct step_result res;
		int64_t until = INT64_MAX;
		int64_t now_ns = b->ops->now(b->self);
		rc = engine_transfers_done(m->engine, b, now_ns, e);
		if (!rc)
			rc = engine_begin(m->engine, now_ns, &next, &batch, &until, e);
		if (!rc)
			rc = engine_start_transfers(m->engine, b, e);
		if (rc || next == ENGINE_DONE)
			return rc;
		if (next == ENGINE_BATCH) {
			note_tables(m->engine, batch, out);
			rc = b->ops->submit(b->self, batch, e);
			in_flight++;
		} else if (!in_flight) {
			rc = b->ops->wait_until(b->self, until, e);
		}
		if (rc || !in_flight || (next == ENGINE_BATCH && in_flight < most))
			continue;
		rc = b->ops->wait(b->self, &res, e);
		if (!rc)
			rc = engine_end(m->engine, &res, e);
		in_flight--;
	}
	return rc;
}

/* ERR_INPUT: these settings are refused, before anything ran. */
static int run_engine(const struct random_case *c, const struct workload *w, const struct drive *how,
		      struct ref_result *out, struct err *e)
{
	struct machine m = {0};
	memset(out, 0, sizeof *out);
	out->requests = calloc((size_t)w->n + 1, sizeof *out->requests);
	if (!out->requests)
		return err_no_memory(e, "the requests of a test");
	int rc = set_up(&m, c, w, how, out, e);
	if (!rc && how->cluster) {
		struct cluster_member member = {m.engine, m.inbox, &m.backend};
		rc = cluster_run(&member, 1, m.source, &(struct cluster_router){.route = route_first}, NULL, e);
	} else if (!rc && how->tables) {
		rc = run_looking(&m, out, e);
	} else if (!rc) {
		rc = engine_run(m.engine, &m.backend, NULL, e);
	}
	if (m.engine)
		engine_stats(m.engine, &out->stats);
	tear_down(&m);
	return rc;
}

/* --- comparing ------------------------------------------------------------------------------------------------ */

static void print_event(const char *who, const struct event *ev)
{
	printf("    %-9s %-8s step %lld at %lld req %d a %lld b %lld\n", who, event_name(ev->kind), (long long)ev->step,
	       (long long)ev->at_ns, ev->req, (long long)ev->a, (long long)ev->b);
}

static bool same_event(const struct event *x, const struct event *y)
{
	return x->kind == y->kind && x->step == y->step && x->at_ns == y->at_ns && x->req == y->req && x->a == y->a &&
	       x->b == y->b;
}

static bool same_events(const struct ref_result *x, const struct ref_result *y, bool talk)
{
	int64_t n = x->n_events < y->n_events ? x->n_events : y->n_events, i = 0;
	while (i < n && same_event(&x->events[i], &y->events[i]))
		i++;
	if (i == n && x->n_events == y->n_events)
		return true;
	if (talk) {
		printf("  decision logs differ at event %lld:\n", (long long)i);
		for (int64_t k = i > 6 ? i - 6 : 0; k < i; k++)
			print_event("both", &x->events[k]);
		for (int64_t k = i; k < i + 4; k++) {
			if (k < x->n_events)
				print_event("engine", &x->events[k]);
			if (k < y->n_events)
				print_event("reference", &y->events[k]);
		}
	}
	return false;
}

static int compare_gaps(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
	return (x > y) - (x < y);
}

static bool same_gaps(struct ref_result *x, struct ref_result *y, bool talk)
{
	if (x->n_gaps)
		qsort(x->gaps, (size_t)x->n_gaps, sizeof *x->gaps, compare_gaps);
	if (y->n_gaps)
		qsort(y->gaps, (size_t)y->n_gaps, sizeof *y->gaps, compare_gaps);
	bool same = x->n_gaps == y->n_gaps &&
		    (!x->n_gaps || memcmp(x->gaps, y->gaps, (size_t)x->n_gaps * sizeof *x->gaps) == 0);
	if (!same && talk)
		printf("  gaps between tokens differ: %lld against %lld of them\n", (long long)x->n_gaps,
		       (long long)y->n_gaps);
	return same;
}

#define FIELD(type, name)                                                                                              \
	{                                                                                                              \
#name, offsetof(type, name), sizeof(((type *)0)->name)                                                 \
	}
struct field {
	const char *name;
	size_t at, size;
};

static const struct field request_fields[] = {
	FIELD(struct request, state),          FIELD(struct request, why),
	FIELD(struct request, arrival_ns),     FIELD(struct request, first_sched_ns),
	FIELD(struct request, first_token_ns), FIELD(struct request, last_token_ns),
	FIELD(struct request, preempted_ns),   FIELD(struct request, preempted_in_prefill_ns),
	FIELD(struct request, held_until_ns),  FIELD(struct request, outputs),
	FIELD(struct request, cached_tokens),  FIELD(struct request, recomputed_tokens),
	FIELD(struct request, preemptions),    FIELD(struct request, chunks),
	FIELD(struct request, replica),        FIELD(struct request, transfer_ns),
	FIELD(struct request, swaps),          FIELD(struct request, transfer_in_prefill_ns),
};

/* Of those whom a cache helps the engine may remember that memory refused them where the step's tokens would as well. */
static const struct field wait_fields[] = {
	FIELD(struct request, waited_ns[WAIT_ENTRY]),   FIELD(struct request, waited_ns[WAIT_MEMORY]),
	FIELD(struct request, waited_ns[WAIT_PLACE]),   FIELD(struct request, waited_ns[WAIT_BUDGET]),
	FIELD(struct request, waited_ns[WAIT_PREFILL]), FIELD(struct request, waited_ns[WAIT_POLICY]),
};

static bool waits_add_up(const struct request *r, int64_t which, bool talk)
{
	int64_t sum = 0;
	for (int c = 0; c < WAIT_CAUSES; c++)
		sum += r->waited_ns[c];
	bool right = r->state != REQUEST_FINISHED || sum == request_queue_ns(r) + r->preempted_ns;
	if (!right && talk)
		printf("  request %lld waited %lld ns by cause, %lld in all\n", (long long)which, (long long)sum,
		       (long long)(request_queue_ns(r) + r->preempted_ns));
	return right;
}

static const struct field step_fields[] = {
	FIELD(struct step_row, step),          FIELD(struct step_row, start_ns),
	FIELD(struct step_row, end_ns),        FIELD(struct step_row, decodes),
	FIELD(struct step_row, chunks),        FIELD(struct step_row, sampled),
	FIELD(struct step_row, decode_ctx),    FIELD(struct step_row, prefill_tokens),
	FIELD(struct step_row, running),       FIELD(struct step_row, waiting),
	FIELD(struct step_row, preempted),     FIELD(struct step_row, blocks_used),
	FIELD(struct step_row, blocks_cached), FIELD(struct step_row, transfer_ns),
};

static const struct field stats_fields[] = {
	FIELD(struct engine_stats, steps),
	FIELD(struct engine_stats, busy_ns),
	FIELD(struct engine_stats, finished),
	FIELD(struct engine_stats, rejected),
	FIELD(struct engine_stats, aborted),
	FIELD(struct engine_stats, preemptions),
	FIELD(struct engine_stats, recomputed_tokens),
	FIELD(struct engine_stats, prompt_tokens_computed),
	FIELD(struct engine_stats, pad_tokens),
	FIELD(struct engine_stats, output_tokens),
	FIELD(struct engine_stats, wasted_tokens),
	FIELD(struct engine_stats, prefix_lookups_tokens),
	FIELD(struct engine_stats, prefix_hit_tokens),
	FIELD(struct engine_stats, prefix_lookups),
	FIELD(struct engine_stats, prefix_hits),
	FIELD(struct engine_stats, prefix_lookups_blocks),
	FIELD(struct engine_stats, duplicate_blocks),
	FIELD(struct engine_stats, evicted_blocks),
	FIELD(struct engine_stats, dropped_blocks),
	FIELD(struct engine_stats, dropped_tokens),
	FIELD(struct engine_stats, swaps),
	FIELD(struct engine_stats, swap_refused),
	FIELD(struct engine_stats, swap_out_blocks),
	FIELD(struct engine_stats, swap_in_blocks),
	FIELD(struct engine_stats, transfer_ns),
	FIELD(struct engine_stats, max_swap_used),
	FIELD(struct engine_stats, forks),
	FIELD(struct engine_stats, forked_tokens),
	FIELD(struct engine_stats, copied_blocks),
	FIELD(struct engine_stats, max_running),
	FIELD(struct engine_stats, max_waiting),
	FIELD(struct engine_stats, max_blocks_used),
};

/* Time-weighted, but whole numbers. */
static const struct field waste_fields[] = {
	FIELD(struct engine_stats, kv_slot_ns),     FIELD(struct engine_stats, kv_token_ns),
	FIELD(struct engine_stats, kv_internal_ns), FIELD(struct engine_stats, kv_reserved_ns),
	FIELD(struct engine_stats, kv_external_ns), FIELD(struct engine_stats, kv_shared_ns),
};

static int64_t value_of(const void *p, const struct field *f)
{
	const char *at = (const char *)p + f->at;
	int64_t v = 0;
	if (f->size == 1)
		return *(const uint8_t *)at;
	if (f->size == 2)
		return *(const int16_t *)at;
	if (f->size == 4)
		return *(const int32_t *)at;
	memcpy(&v, at, sizeof v);
	return v;
}

static bool same_waste(const struct engine_stats *x, const struct engine_stats *y, bool talk)
{
	bool same = true;
	for (size_t i = 0; i < sizeof waste_fields / sizeof *waste_fields; i++) {
		double a, b;
		memcpy(&a, (const char *)x + waste_fields[i].at, sizeof a);
		memcpy(&b, (const char *)y + waste_fields[i].at, sizeof b);
		if (a != b && talk)
			printf("  %s is %.0f, the other says %.0f\n", waste_fields[i].name, a, b);
		same &= a == b;
	}
	return same;
}

static bool same_fields(const void *x, const void *y, const struct field *f, size_t n, const char *what, int64_t which,
			bool talk)
{
	bool same = true;
	for (size_t i = 0; i < n; i++)
		if (value_of(x, &f[i]) != value_of(y, &f[i])) {
			if (talk)
				printf("  %s %lld: %s is %lld, the other says %lld\n", what, (long long)which,
				       f[i].name, (long long)value_of(x, &f[i]), (long long)value_of(y, &f[i]));
			same = false;
		}
	return same;
}
#define SAME_FIELDS(x, y, fields, what, which, talk)                                                                   \
	same_fields(x, y, fields, sizeof(fields) / sizeof(fields)[0], what, which, talk)

static bool same_results(struct ref_result *x, struct ref_result *y, int64_t n, const struct drive *how, bool caching,
			 bool talk)
{
	bool same = !how->events || same_events(x, y, talk);
	for (int64_t i = 0; i < n && (same || talk); i++)
		same &= SAME_FIELDS(&x->requests[i], &y->requests[i], request_fields, "request", i, talk) &
			waits_add_up(&x->requests[i], i, talk) &
			(caching || SAME_FIELDS(&x->requests[i], &y->requests[i], wait_fields, "request", i, talk));
	for (int64_t i = 0; how->steps && i < x->n_steps && i < y->n_steps && same; i++)
		same &= SAME_FIELDS(&x->steps[i], &y->steps[i], step_fields, "step", i, talk);
	if (same && how->steps && x->n_steps != y->n_steps) {
		if (talk)
			printf("  %lld step rows, the other has %lld\n", (long long)x->n_steps, (long long)y->n_steps);
		same = false;
	}
	for (int64_t i = 0; how->tables && same && i < x->n_tables && i < y->n_tables; i++)
		if (x->tables[i] != y->tables[i]) {
			if (talk)
				printf("  block tables or window sums differ as step %lld was planned\n", (long long)i);
			same = false;
		}
	if (same || talk)
		same &= SAME_FIELDS(&x->stats, &y->stats, stats_fields, "run", 0, talk);
	if (same || talk)
		same &= same_waste(&x->stats, &y->stats, talk);
	return same && same_gaps(x, y, talk);
}

/* --- one case ------------------------------------------------------------------------------------------------- */

static const struct drive drives[] = {
	{"exact walk, single steps, checked", .exact_walk = true, .single_steps = true, .check = true, .events = true,
	 .steps = true},
	{"single steps, checked", .single_steps = true, .check = true, .events = true, .steps = true},
	{"events", .events = true, .steps = true},
	{"exact walk, no events, tables", .exact_walk = true, .steps = true, .tables = true},
	{"single steps, no events, tables", .single_steps = true, .steps = true, .tables = true},
	{"several steps at once", .steps = true},
	{"nothing recorded but gaps", .steps = false},
	{"runs of steps told at once", .runs = true},
	{"event heap", .events = true, .steps = true, .cluster = true},
	{"event heap, several steps at once", .steps = true, .cluster = true},
};
enum { DRIVES = sizeof drives / sizeof drives[0] };

static bool resolve(const struct random_case *c, struct ref_setup *s)
{
	s->cfg = c->cfg;
	s->cost_a = c->cost_a;
	s->cost_b = c->cost_b;
	s->cost_c = c->cost_c;
	s->cost_d = c->cost_d;
	s->links = c->links;
	if (engine_config_resolve(&s->cfg, NULL) || !ref_setup_policy(s, c->policy, c->values))
		return false;
	ref_setup_budget(s);
	return true;
}

/* Whether these settings go together at all. */
static bool accepted(const struct random_case *c)
{
	struct ref_result none = {0};
	struct machine m = {0};
	struct workload w;
	struct err e = {0};
	if (!random_case_workload(c, &w))
		return false;
	none.requests = calloc((size_t)w.n + 1, sizeof *none.requests);
	int rc = none.requests ? set_up(&m, c, &w, &drives[0], &none, &e) : ERR_MEMORY;
	tear_down(&m);
	ref_result_free(&none);
	workload_free(&w);
	return rc == ERR_NONE;
}

/* Copies of generated pages in a hash cache that makes them visible at once: whether the earlier one goes just before or
 * just after the later one comes, within one step, is not the same in all ways of driving. */
static bool copies_are_vague(const struct random_case *c)
{
	bool generated = false;
	for (int32_t i = 0; i < c->n; i++)
		generated |= c->reqs[i].output_id != 0;
	return generated && c->cfg.prefix_cache == PREFIX_HASH && c->cfg.hit_visible == HIT_VISIBLE_ALLOC;
}

/* Compares one way of driving with the reference. */
static int compare_one(const struct random_case *c, const struct workload *w, const struct drive *how,
		       struct ref_result *ref, bool talk)
{
	struct ref_result got;
	struct err e = {0};
	int rc = run_engine(c, w, how, &got, &e), verdict = SAME;
	if (copies_are_vague(c))
		got.stats.duplicate_blocks = ref->stats.duplicate_blocks;
	if (rc || ref->stalled)
		verdict = DIFFERENT;
	else if (!same_results(&got, ref, w->n, how, c->cfg.prefix_caching, talk))
		verdict = DIFFERENT;
	if (verdict == DIFFERENT && talk)
		printf("  driven by: %s%s%s%s\n", how->name, rc ? ": " : "", rc ? e.text : "",
		       ref->stalled ? " (the reference stalls)" : "");
	ref_result_free(&got);
	return verdict;
}

static int judge(const struct random_case *c, bool talk, int only)
{
	struct ref_setup setup = {0};
	struct ref_result ref;
	struct workload w;
	int verdict = SAME;
	if (!accepted(c) || !resolve(c, &setup) || !random_case_workload(c, &w))
		return SKIPPED;
	struct err e = {0};
	if (!c->cfg.offload_host_blocks) {
		ref_run(&ref, &setup, &w);
	} else if (run_engine(c, &w, &drives[0], &ref,
			      &e)) { /* the reference knows none: the exact walk stands for it */
		if (talk)
			printf("  %s\n", e.text);
		verdict = DIFFERENT;
	}
	for (int i = 0; i < DRIVES && verdict == SAME; i++)
		if (only < 0 || only == i)
			verdict = compare_one(c, &w, &drives[i], &ref, talk);
	ref_result_free(&ref);
	workload_free(&w);
	return verdict;
}

/* --- shrinking ------------------------------------------------------------------------------------------------ */

static bool still_fails(void *ctx, const struct random_case *c)
{
	(void)ctx;
	return judge(c, false, -1) == DIFFERENT;
}

static void report(const struct random_case *c)
{
	struct random_case small;
	random_case_copy(&small, c);
	printf("FAILED: seed %llu, policy %s: the smallest case found:\n", (unsigned long long)c->seed,
	       c->policy->name);
	case_shrink(&small, &(struct shrink){.fails = still_fails, .tries = -1});
	random_case_print(&small, stdout);
	judge(&small, true, -1);
	random_case_free(&small);
}

/* A policy without a reference is left to the other properties. */
static bool applies(const struct policy_desc *d)
{
	struct ref_setup known = {0};
	union policy_value values[CASE_PARAMS];
	return !policy_parse_params(d, "", values, NULL) && ref_setup_policy(&known, d, values);
}

static enum prop_verdict judge_case(void *ctx, const struct random_case *c)
{
	(void)ctx;
	int verdict = judge(c, false, -1);
	if (verdict != DIFFERENT)
		return verdict == SAME ? PROP_HOLDS : PROP_REFUSED;
	report(c);
	return PROP_BROKEN;
}

static int32_t largest(int64_t k)
{
	return k % 10 == 9 ? 120 : 24;
}

int main(int argc, char **argv)
{
	const struct prop p = {.name = "prop_agree",
			       .seconds = 45,
			       .cases = 20000,
			       .largest = largest,
			       .refused = 20,
			       .applies = applies,
			       .accepted = accepted,
			       .judge = judge_case};
	return prop_main(&p, argc, argv);
}
