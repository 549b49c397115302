/* ref_engine.h: a second, deliberately simple implementation of the scheduler loop, the three first policies and vllm_v0, for
 * checking the first one against. It walks every request in every step and keeps nothing but plain arrays: no wheel, no
 * heap, no cohort, no step taken several at once. It shares no code with core/ or policies/, only the structs in which
 * both report. */
#ifndef TESTS_SUPPORT_REF_ENGINE_H
#define TESTS_SUPPORT_REF_ENGINE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/engine.h"
#include "core/links.h"
#include "core/policy.h"

enum ref_policy { REF_NAIVE, REF_CONTINUOUS, REF_CHUNKED, REF_PROMPTS_FIRST };

struct ref_setup {
	struct engine_config cfg; /* max_model_len resolved */
	bool budget_caps_len; /* max_model_len is what a budget without chunking leaves */
	enum ref_policy policy;
	/* naive */
	int64_t batch_timeout_ns;
	bool pad, hold_finished, reserve;
	/* continuous */
	bool reserve_model_len, paged;
	/* chunked */
	int64_t threshold;
	bool chunking, reserve_full_prompt;
	double watermark;
	bool drop_first; /* shortage=drop */
	int64_t drop_keep;
	/* vllm_v0 (and watermark) */
	double delay_factor;
	bool swap;
	struct link_speeds links;
	/* ns: a + b x prefill tokens + c x decodes + d x context */
	int64_t cost_a, cost_b, cost_c, cost_d;
};

/* Where prompts are not chunked and nobody gave a max_model_len, the budget limits it. */
void ref_setup_budget(struct ref_setup *s);
/* Fills the policy's part from parsed parameters, by their names. False: a policy it does not know. */
bool ref_setup_policy(struct ref_setup *s, const struct policy_desc *d, const union policy_value *values);

struct ref_result {
	struct event *events; /* [n_events] */
	int64_t n_events, cap_events;
	struct step_row *steps; /* [n_steps] */
	int64_t n_steps, cap_steps;
	uint64_t *tables; /* [n_tables] a digest of all block tables as each step was planned, then of its
			    batch's window_growing and decode_ctx_window as if they were a block */
	int64_t n_tables, cap_tables;
	int64_t *gaps; /* [n_gaps] between consecutive tokens, in the order they came */
	int64_t n_gaps, cap_gaps;
	struct request *requests; /* [w->n] */
	struct engine_stats stats;
	bool stalled;
};

/* Serves w to the end. Aborts the program when memory runs out: this is a test. */
void ref_run(struct ref_result *out, const struct ref_setup *s, const struct workload *w);
void ref_result_free(struct ref_result *r);

/* Appends to a growing array; for whoever collects the same from the engine. */
void ref_push_event(struct ref_result *r, const struct event *ev);
void ref_push_step(struct ref_result *r, const struct step_row *row);
void ref_push_gap(struct ref_result *r, int64_t gap_ns);
void ref_push_table(struct ref_result *r, uint64_t digest);
/* One more block of one request's table into a digest that starts at 0; in order of request, then of table. */
uint64_t ref_digest(uint64_t digest, int32_t req, int32_t index, int32_t block);

#endif
