/* The decision log of every registered policy on three small workloads, compared with tests/golden/POLICY-WORKLOAD.log.
 * With --update the logs are written anew: read the diff before you commit it. */
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/decisions.h"
#include "core/engine.h"
#include "core/err.h"
#include "core/mem.h"
#include "core/rng.h"
#include "core/source.h"
#include "policies/registry.h"
#include "sim/backend.h"
#include "sim/cost_models.h"

#define LOG_MAX (1 << 20)

static struct {
	char text[LOG_MAX];
	size_t n;
} made;

static void log_line(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static void log_line(const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	made.n += (size_t)vsnprintf(made.text + made.n, LOG_MAX - made.n, fmt, ap);
	va_end(ap);
	if (made.n >= LOG_MAX) {
		fputs("a golden log is too long\n", stderr);
		exit(1);
	}
}

static void on_event(void *ctx, const struct event *ev)
{
	(void)ctx;
	char line[DECISION_LINE];
	log_line("%s", decision_line(ev, line));
}

/* --- the workloads -------------------------------------------------------------------------------------------- */

struct scenario {
	const char *name;
	int32_t max_num_seqs, budget, num_blocks;
	bool prefix_caching;
	void (*fill)(struct workload *w, struct rng *r, struct err *e);
};

/* Short and long prompts that come in bursts, too many for the memory: queueing, chunks, preemption. */
static void fill_crowded(struct workload *w, struct rng *r, struct err *e)
{
	int64_t t = 0;
	for (int i = 0; i < 24; i++) {
		t += i % 4 == 0 ? (int64_t)rng_below(r, 40) * NS_PER_MS : 0;
		struct spec s = {.arrival_ns = t, .name_at = -1, .session = -1, .row = i + 1};
		s.prompt_tokens = i % 5 == 0 ? 150 : 5 + (int32_t)rng_below(r, 40);
		s.output_tokens = (int32_t)rng_below(r, 24);
		s.priority = (int32_t)rng_below(r, 3);
		workload_add(w, &s, e);
	}
}

/* Every prompt begins with one of two system prompts of 64 tokens. */
static void fill_shared(struct workload *w, struct rng *r, struct err *e)
{
	w->hash_block = 16;
	for (int i = 0; i < 16; i++) {
		struct spec s = {.arrival_ns = i * 10 * NS_PER_MS, .name_at = -1, .session = -1, .row = i + 1};
		s.prompt_tokens = 64 + 16 * (int32_t)rng_below(r, 3);
		s.output_tokens = 1 + (int32_t)rng_below(r, 12);
		s.hash_at = w->n_hash_ids;
		s.n_hashes = s.prompt_tokens / 16;
		uint64_t system = 1000 + 100 * rng_below(r, 2);
		for (int k = 0; k < s.n_hashes; k++)
			workload_add_hash(w, k < 4 ? system + (uint64_t)k : 10000 + 100 * (uint64_t)i + (uint64_t)k, e);
		workload_add(w, &s, e);
	}
}

/* The edges: outputs of 0 and 1, a block exactly full, one token past it, a prompt that can never fit, ties, a gap. */
static void fill_edges(struct workload *w, struct rng *r, struct err *e)
{
	static const int32_t lengths[][3] = {{0, 16, 16}, {0, 17, 0},    {0, 15, 1},    {0, 1, 1},  {5, 2000, 4},
					     {5, 64, 33}, {900, 16, 17}, {900, 128, 2}, {901, 3, 0}};
	(void)r;
	for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
		struct spec s = {.arrival_ns = lengths[i][0] * NS_PER_MS, .name_at = -1, .session = -1};
		s.prompt_tokens = lengths[i][1];
		s.output_tokens = lengths[i][2];
		s.row = (int32_t)i + 1;
		workload_add(w, &s, e);
	}
}

static const struct scenario scenarios[] = {
	{"crowded", 6, 64, 14, false, fill_crowded},
	{"shared", 4, 128, 64, true, fill_shared},
	{"edges", 3, 64, 32, false, fill_edges},
};

/* --- one run ---------------------------------------------------------------------------------------------------- */

static int drive(const struct policy_desc *d, const struct scenario *sc, bool prefix_caching, const struct workload *w,
		 struct request *requests, struct err *e)
{
	const struct recorder rec = {.event = on_event};
	struct engine_config c;
	struct policy policy = {0};
	struct source *source = NULL;
	struct cost *cost = NULL;
	struct backend backend = {0};
	struct engine *engine = NULL;
	engine_config_default(&c);
	c.max_num_seqs = sc->max_num_seqs;
	c.max_num_batched_tokens = sc->budget;
	c.num_blocks = sc->num_blocks;
	c.prefix_caching = prefix_caching;
	c.check = true;
	int rc = engine_config_resolve(&c, e);
	struct policy_setup setup;
	engine_policy_setup(&c, &setup);
	union policy_value *values = mem_zalloc((size_t)d->n_params + 1, sizeof *values);
	if (rc == ERR_NONE)
		rc = policy_parse_params(d, NULL, values, e);
	if (rc == ERR_NONE)
		rc = policy_open(&policy, d, values, &setup, e);
	if (rc == ERR_NONE)
		rc = source_create(&source, w, 0, e);
	if (rc == ERR_NONE)
		rc = cost_linear_create(&cost, 2e6, 2e4, 1e5, 100, e);
	if (rc == ERR_NONE)
		rc = sim_backend_create(&backend, cost, e);
	if (rc == ERR_NONE)
		rc = engine_create(&engine, &c, w, requests, source, &policy, &rec, e);
	if (rc == ERR_NONE)
		rc = engine_run(engine, &backend, NULL, e);
	engine_free(engine);
	if (backend.ops)
		sim_backend_free(&backend);
	cost_free(cost);
	source_free(source);
	policy_close(&policy);
	mem_free(values);
	return rc;
}

static void log_request(int64_t i, const struct request *r)
{
	log_line("request %lld: %s, %d tokens, ", (long long)i, request_state_name((enum request_state)r->state),
		 r->outputs);
	if (r->state == REQUEST_FINISHED)
		log_line("first %.3f ms, last %.3f ms, preempted %d times\n", (double)r->first_token_ns / 1e6,
			 (double)r->last_token_ns / 1e6, r->preemptions);
	else
		log_line("%s\n", request_why_name((enum request_why)r->why));
}

static void make_log(const struct policy_desc *d, const struct scenario *sc)
{
	struct workload w;
	struct rng r;
	struct err e = {0};
	workload_init(&w);
	rng_init(&r, 7, 0);
	sc->fill(&w, &r, &e);
	workload_set_max_tokens(&w, MAX_TOKENS_MAX, 48);
	struct request *requests = mem_zalloc((size_t)w.n, sizeof *requests);
	made.n = 0;
	log_line("policy %s, workload %s\n", d->name, sc->name);
	struct scenario all = *sc;
	int rc = drive(d, &all, sc->prefix_caching, &w, requests, &e);
	if (rc == ERR_INPUT && strstr(e.text, "max_num_batched_tokens")) {
		log_line("with a budget for the longest prompt, since: %s\n", e.text);
		err_clear(&e);
		all.budget = sc->num_blocks * 16;
		rc = drive(d, &all, sc->prefix_caching, &w, requests, &e);
	}
	if (rc == ERR_INPUT && sc->prefix_caching) {
		log_line("without prefix caching, since: %s\n", e.text);
		err_clear(&e);
		rc = drive(d, &all, false, &w, requests, &e);
	}
	if (rc != ERR_NONE)
		log_line("ended with: %s\n", e.text);
	for (int64_t i = 0; i < w.n; i++)
		log_request(i, &requests[i]);
	mem_free(requests);
	workload_free(&w);
}

/* --- comparing ---------------------------------------------------------------------------------------------------- */

static bool same_as_file(const char *path)
{
	static char kept[LOG_MAX];
	FILE *f = fopen(path, "r");
	if (!f) {
		printf("  FAILED %s: %s (make golden-update writes it)\n", path, strerror(errno));
		return false;
	}
	size_t n = fread(kept, 1, sizeof kept, f), line = 1, at = 0, begin = 0;
	fclose(f);
	while (at < n && at < made.n && kept[at] == made.text[at]) {
		at++;
		if (kept[at - 1] == '\n')
			line++, begin = at;
	}
	if (at == n && at == made.n)
		return true;
	printf("  FAILED %s:%zu\n    is      %.*s\n    expected %.*s\n", path, line,
	       (int)strcspn(made.text + begin, "\n"), made.text + begin,
	       begin < n ? (int)(memchr(kept + begin, '\n', n - begin) ? strcspn(kept + begin, "\n") : n - begin) : 0,
	       kept + begin);
	return false;
}

static bool write_file(const char *path)
{
	FILE *f = fopen(path, "w");
	if (!f || fwrite(made.text, 1, made.n, f) != made.n || fclose(f) != 0) {
		fprintf(stderr, "%s: %s\n", path, strerror(errno));
		return false;
	}
	printf("wrote %s\n", path);
	return true;
}

int main(int argc, char **argv)
{
	bool update = argc > 1 && strcmp(argv[1], "--update") == 0;
	int passed = 0, failed = 0;
	for (int32_t i = 0; i < policy_count(); i++) {
		for (size_t k = 0; k < sizeof scenarios / sizeof *scenarios; k++) {
			char path[256];
			snprintf(path, sizeof path, "tests/golden/%s-%s.log", policy_at(i)->name, scenarios[k].name);
			make_log(policy_at(i), &scenarios[k]);
			if (update ? write_file(path) : same_as_file(path))
				passed++;
			else
				failed++;
		}
	}
	printf("decisions: %d passed, %d failed, 0 skipped\n", passed, failed);
	return failed != 0;
}
