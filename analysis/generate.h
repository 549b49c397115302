/* generate.h: one prompt continued on real kernels, timed; and what holding weights or KV in fewer bits changes. */
#ifndef ANALYSIS_GENERATE_H
#define ANALYSIS_GENERATE_H

#include "analysis/executor.h"

struct err;

struct generate_setup {
	const struct model *model;
	struct executor_setup executor; /* num_blocks is worked out here */
	const int32_t *prompt;
	int32_t n_prompt; /* at least 1 */
	int32_t n_new; /* most tokens to be sampled; at least 1 */
	const int32_t *eos; /* [n_eos] tokens that end it */
	int32_t n_eos;
	int32_t chunk; /* prompt tokens per step */
	int32_t kv_window, kv_sink; /* tokens that stay (core/retention.h); kv_window 0 = all */
	const volatile int *stop; /* ends it when it becomes non-zero; may be NULL */
	/* Told that the model is there and the prompt begins; of each sampled token, but the one that ends it. May be NULL. */
	void (*loaded)(void *ctx);
	void (*token)(void *ctx, int32_t token);
	void *ctx;
};

enum generation_end { END_LENGTH, END_EOS, END_STOPPED };
extern const char *const generation_end_names[]; /* "length", "eos", "stopped" */

struct generation {
	int32_t *tokens; /* [n] sampled, without the one that ended it */
	int32_t n;
	enum generation_end end;
	int32_t prefill_tokens, decode_tokens; /* computed before the first sampled token, and after it */
	double load_s, prefill_s, decode_s;
	char what[192], weights_what[160]; /* kernels, weights */
	int64_t weight_bytes, kv_bytes; /* as held */
};

int generate(const struct generate_setup *s, struct generation *out, struct err *e);
void generation_free(struct generation *g);

/* How near a model held in some types, some of its context dropped, is to the same one held in others with all of it, step by step along the other one's greedy tokens,
 * so that both see the same context. */
struct likeness {
	int32_t steps;
	int32_t agree; /* steps in which both would take the same token greedily */
	double error; /* ‖x - r‖ / ‖r‖ over the logits of all steps */
	double worst; /* the largest of one step */
	int32_t *tokens; /* [steps] the other one's */
	char weights_what[160];
};
/* s against the same with these types and, unless it drops the same, everything kept. Logits of as many steps as fit 1 GiB are kept. */
int generate_compare(const struct generate_setup *s, enum num weight_type, enum num kv_type, bool keep_all,
		     struct likeness *out, struct err *e);
void likeness_free(struct likeness *l);

#endif
