/* generate_print.h: what one call of `lockstep generate` is about, and how it is told: text as it comes, what ran, JSON. */
#ifndef CLI_GENERATE_PRINT_H
#define CLI_GENERATE_PRINT_H

#include <stdbool.h>
#include <stdint.h>

#include "analysis/generate.h"
#include "exec/tokenizer.h"
#include "models/model.h"

struct err;

struct generate_opts {
	const char *backend, *weights, *model, *tokenizer, *prompt, *prompt_ids;
	int32_t steps, max_tokens;
	double temperature, top_p;
	int32_t top_k;
	uint64_t seed;
	const char *weight_dtype, *kv_cache_dtype, *compare_weights, *compare_kv;
	bool kv_cache, ignore_eos, batch_invariant, eager;
	int32_t block_size, threads;
	int32_t kv_retention, kv_window, kv_sink; /* enum kv_retention; tokens */
	bool compare_full;
	const char *isa;
	bool json, quiet;
};

/* All of one call. */
struct generate_job {
	const struct generate_opts *o;
	struct model model;
	struct tokenizer *tokenizer; /* NULL: ids */
	int32_t *prompt;
	int64_t n_prompt, cap_prompt;
	struct generate_setup setup;
	struct generation g;
	struct likeness like;
	bool compared;
	const char *compare_weights, *compare_kv; /* as resolved */
	int32_t previous; /* the token printed last; -1 = none */
	char *text; /* [n_text] for JSON */
	int64_t n_text, cap_text;
	bool no_memory;
};

/* For struct generate_setup; ctx is the job. The text begins with the prompt, as llama2.c's run prints it; the token that
 * begins a text is none of it. */
void generate_tell_prompt(void *ctx);
void generate_tell(void *ctx, int32_t token);
/* To a file goes the text and nothing else. */
void generate_end_text(const struct generate_job *j);

/* To stderr. */
void generate_print_summary(const struct generate_job *j);
void generate_print_likeness(const struct generate_job *j);
/* One object to stdout. */
int generate_print_json(struct generate_job *j, struct err *e);

#endif
