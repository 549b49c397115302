/* analysis_fixture.h: small workloads and runs for the analysis tests. */
#ifndef TESTS_UNIT_ANALYSIS_FIXTURE_H
#define TESTS_UNIT_ANALYSIS_FIXTURE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/run.h"
#include "core/err.h"
#include "core/rng.h"
#include "core/workload.h"
#include "tests/support/suite.h"

#define MS NS_PER_MS
#define S NS_PER_S

static inline void add_spec(struct workload *w, int64_t arrival_ns, int32_t prompt, int32_t output)
{
	struct err e = {0};
	const struct spec s = {.arrival_ns = arrival_ns,
			       .name_at = -1,
			       .prompt_tokens = prompt,
			       .output_tokens = output,
			       .session = -1,
			       .row = (int32_t)w->n + 2};
	if (workload_add(w, &s, &e)) {
		fprintf(stderr, "%s\n", e.text);
		exit(1);
	}
}

/* n requests, every gap_ms on average, up to 300 tokens in and 60 out (0 and 1 among them). */
static inline void random_workload(struct workload *w, int64_t n, int64_t gap_ms, uint64_t seed)
{
	struct rng r;
	int64_t t = 0;
	rng_init(&r, seed, 7);
	workload_init(w);
	for (int64_t i = 0; i < n; i++) {
		t += (int64_t)rng_below(&r, (uint64_t)(2 * gap_ms * MS));
		add_spec(w, t, 1 + (int32_t)rng_below(&r, 300), (int32_t)rng_below(&r, 60));
	}
	workload_set_max_tokens(w, MAX_TOKENS_MAX, 100);
}

/* Settings that need no model: 5 ms a step and a little for each token. */
static inline void small_settings(struct run_settings *s, const struct workload *w)
{
	run_settings_default(s);
	s->policy = "chunked";
	s->cost = "linear:a=5ms,b=20us,c=100us,d=10ns";
	s->num_gpu_blocks_override = 200;
	s->trace_path = "folder/small.csv";
	s->trace_format = "azure";
	s->workload_hash = workload_hash(w);
	s->started_unix_s = 1700000000;
}

/* Runs it and stops the program if that fails: for tests of what comes after. */
static inline void must_run(const struct run_settings *s, const struct workload *w, struct store *store,
			    struct run_result *r)
{
	struct err e = {0};
	const struct run_io io = {.store = store};
	if (run_execute(s, w, &io, r, &e)) {
		fprintf(stderr, "run_execute: %s\n", e.text);
		exit(1);
	}
}

#endif
