/* sched.h: one policy over a handful of requests on the fake backend: what a test of scheduling needs, in few words.
 *
 *   struct sched s;
 *   sched_init(&s, "chunked", "long_prefill_token_threshold=4");
 *   s.cfg.num_blocks = 8;
 *   sched_add(&s, 0, 4, 3);          arrives at 0 ns, 4 prompt tokens, 3 output tokens
 *   CHECK_INT(sched_run(&s), ERR_NONE);
 *   CHECK_INT(s.requests[0].last_token_ns, 30);
 *   sched_free(&s); */
#ifndef TESTS_SUPPORT_SCHED_H
#define TESTS_SUPPORT_SCHED_H

#include <stdio.h>

#include "core/engine.h"
#include "core/err.h"
#include "core/policy.h"
#include "core/source.h"
#include "core/workload.h"
#include "tests/support/fake_backend.h"

enum { SCHED_REQUESTS = 64, SCHED_LINKS = 64 };

struct sched {
	const char *policy, *params;
	const struct policy_desc *desc; /* instead of a registered one; no parameters */
	struct engine_config cfg; /* blocks of 4, 64 of them, 8 sequences, 64 tokens a step */
	int64_t a, b, c, d, host_ns; /* cost; 10 ns a step when nothing is set */
	struct workload w;
	int32_t parent[SCHED_LINKS], child[SCHED_LINKS];
	int32_t n_links;
	struct link_speeds links; /* tiers: their speeds; all zero = there are none */
	bool log; /* collect events: every step is walked then */
	bool untold; /* no steps are collected: several may be taken at once without a word */

	/* After sched_run: */
	struct request requests[SCHED_REQUESTS];
	struct step_row *steps; /* [n_steps] */
	int64_t n_steps, cap_steps;
	struct event *events; /* [n_events] */
	int64_t n_events, cap_events;
	int64_t gaps, gap_sum_ns; /* between consecutive tokens of one request */
	struct engine_stats stats;
	struct err err;

	/* Between sched_open and sched_close, for tests that drive the engine themselves. */
	struct fake_backend fake;
	struct backend backend;
	struct source *source;
	struct policy instance;
	struct recorder recorder;
	struct engine *engine;
};

void sched_init(struct sched *s, const char *policy, const char *params);
/* Returns its index. max_tokens is the true length. */
int32_t sched_add(struct sched *s, int64_t arrival_ns, int32_t prompt, int32_t output);
/* The request added last has these tokens of this content at the end of what is known of its prompt so far. */
void sched_share(struct sched *s, uint64_t id, int32_t tokens);
/* `child` arrives its arrival_ns after `parent` has finished. */
void sched_after(struct sched *s, int32_t parent, int32_t child);

int sched_open(struct sched *s);
int sched_loop(struct sched *s); /* engine_run */
void sched_close(struct sched *s);
int sched_run(struct sched *s); /* all three; the error is in s->err */
void sched_free(struct sched *s);

/* How many events of a kind there are (of one request, or of any with -1), and the k-th of them (from 0; its kind is 0
 * when there is none). */
int64_t sched_count(const struct sched *s, enum event_kind kind, int32_t req);
struct event sched_event(const struct sched *s, enum event_kind kind, int32_t req, int64_t k);

/* The decision log as text, one event a line. */
void sched_write(const struct sched *s, FILE *f);

/* When request i was first scheduled, had its first and its last token (suite.h has CHECK_INT). */
#define TIMES(s, i, sched, first, last)                                                                                \
	do {                                                                                                           \
		CHECK_INT((s).requests[i].first_sched_ns, sched);                                                      \
		CHECK_INT((s).requests[i].first_token_ns, first);                                                      \
		CHECK_INT((s).requests[i].last_token_ns, last);                                                        \
	} while (0)

#endif
