/* trace_opts.h: the options with which every command that takes a trace reads and shapes it, and how they are applied.
 *
 * A command puts a struct trace_opts into its options struct, fills it with trace_opts_default(), and lists
 * TRACE_READ_OPTS(struct my_opts, trace) and, if it runs the trace, TRACE_SHAPE_OPTS(struct my_opts, trace) in its
 * option table. */
#ifndef CLI_TRACE_OPTS_H
#define CLI_TRACE_OPTS_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "cli/command.h"
#include "core/workload.h"

struct err;
struct shape;
struct trace_options;
struct trace_report;

struct trace_opts {
	/* reading */
	const char *dataset_name; /* vLLM's: sharegpt, azure, ..., custom, random, sample:azure; NULL = by content */
	const char *dataset_path; /* NULL: sample: and random need none */
	const char *format; /* reader's name; NULL = by content */
	int32_t on_bad_row; /* index into trace_bad_row_choices */
	int32_t hash_block_size; /* 0 = the format's own */
	int32_t sharegpt_min_turns, sharegpt_min_prompt, sharegpt_min_output, sharegpt_max_prompt, sharegpt_max_total;
	bool sharegpt_multi_turn;
	bool keep_failed;
	const char *tokenizer; /* path; NULL: lengths of text are estimated */
	int32_t random_input_len, random_output_len, random_prefix_len;
	double random_range_ratio;
	/* shaping */
	int64_t num_prompts;
	uint64_t seed;
	double request_rate, burstiness, replay_speedup, length_scale;
	int32_t samples, beam_width, beam_every;
	const char *max_tokens_mode;
};

extern const char *const trace_bad_row_choices[]; /* error, skip */

/* clang-format off */
#define TRACE_OPT(T, m, f) offsetof(T, m.f)
#define TRACE_READ_OPTS(T, m) \
	{.name = "dataset-name", .type = OPT_STRING, .offset = TRACE_OPT(T, m, dataset_name), .arg = "NAME", \
	 .help = "What the trace is, as in vLLM: sharegpt, azure, mooncake, burstgpt, bailian, vidur, tot, openhands, tracelab, " \
		 "otel, custom or lockstep " \
		 "(the file's format), random (made from --random-*), sample:azure or sample:sharegpt (bundled). Default: " \
		 "seen from the file's content."}, \
	{.name = "dataset-path", .type = OPT_STRING, .offset = TRACE_OPT(T, m, dataset_path), .arg = "FILE", \
	 .help = "The trace file; gzip is read as it is."}, \
	{.name = "format", .type = OPT_STRING, .offset = TRACE_OPT(T, m, format), .arg = "FORMAT", \
	 .help = "Forces the file's format instead of looking at its content."}, \
	{.name = "on-bad-row", .type = OPT_CHOICE, .offset = TRACE_OPT(T, m, on_bad_row), .arg = "error|skip", \
	 .choices = trace_bad_row_choices, \
	 .help = "A row that cannot be read stops the program (error, the default), or is left out and counted (skip)."}, \
	{.name = "hash-block-size", .type = OPT_INT32, .offset = TRACE_OPT(T, m, hash_block_size), .arg = "N", \
	 .min = 0, .max = 1 << 20, \
	 .help = "Tokens each hash id covers. Default: 512 for Mooncake, 16 for Qwen-Bailian."}, \
	{.name = "sharegpt-min-turns", .type = OPT_INT32, .offset = TRACE_OPT(T, m, sharegpt_min_turns), .arg = "N", \
	 .min = 0, .max = INT32_MAX, .help = "ShareGPT: drop conversations of fewer turns. Default 2."}, \
	{.name = "sharegpt-min-prompt", .type = OPT_INT32, .offset = TRACE_OPT(T, m, sharegpt_min_prompt), .arg = "N", \
	 .min = 0, .max = INT32_MAX, .help = "ShareGPT: drop prompts of fewer tokens. Default 4."}, \
	{.name = "sharegpt-min-output", .type = OPT_INT32, .offset = TRACE_OPT(T, m, sharegpt_min_output), .arg = "N", \
	 .min = 0, .max = INT32_MAX, .help = "ShareGPT: drop answers of fewer tokens. Default 4."}, \
	{.name = "sharegpt-max-prompt", .type = OPT_INT32, .offset = TRACE_OPT(T, m, sharegpt_max_prompt), .arg = "N", \
	 .min = 0, .max = INT32_MAX, .help = "ShareGPT: drop prompts of more tokens. Default 1024."}, \
	{.name = "sharegpt-max-total", .type = OPT_INT32, .offset = TRACE_OPT(T, m, sharegpt_max_total), .arg = "N", \
	 .min = 0, .max = INT32_MAX, .help = "ShareGPT: drop requests of more tokens in all. Default 2048."}, \
	{.name = "sharegpt-multi-turn", .type = OPT_FLAG, .offset = TRACE_OPT(T, m, sharegpt_multi_turn), \
	 .help = "ShareGPT: keep all turns of a conversation, as one session with a growing prefix, instead of the " \
		 "first two."}, \
	{.name = "keep-failed", .type = OPT_FLAG, .offset = TRACE_OPT(T, m, keep_failed), \
	 .help = "BurstGPT: keep the rows of failed requests (0 response tokens)."}, \
	{.name = "tokenizer", .type = OPT_STRING, .offset = TRACE_OPT(T, m, tokenizer), .arg = "FILE", \
	 .help = "Counts the tokens of formats with text (ShareGPT, AIPerf): tokenizer.bin of llama2.c or SentencePiece's " \
		 "tokenizer.model. Real kernels then compute that text. Default: lengths are estimated."}

#define TRACE_RANDOM_OPTS(T, m) \
	{.name = "random-input-len", .type = OPT_INT32, .offset = TRACE_OPT(T, m, random_input_len), .arg = "N", \
	 .min = 1, .max = INT32_MAX, .help = "random: prompt tokens. Default 1024."}, \
	{.name = "random-output-len", .type = OPT_INT32, .offset = TRACE_OPT(T, m, random_output_len), .arg = "N", \
	 .min = 0, .max = INT32_MAX, .help = "random: output tokens. Default 128."}, \
	{.name = "random-range-ratio", .type = OPT_DOUBLE, .offset = TRACE_OPT(T, m, random_range_ratio), .arg = "R", \
	 .min = 0, .max = 1, .help = "random: lengths are uniform within (1 - R) to (1 + R) times those. Default 0."}, \
	{.name = "random-prefix-len", .type = OPT_INT32, .offset = TRACE_OPT(T, m, random_prefix_len), .arg = "N", \
	 .min = 0, .max = INT32_MAX, .help = "random: tokens of a prefix all prompts share, before the input. Default 0."}

#define TRACE_SHAPE_OPTS(T, m) \
	{.name = "num-prompts", .type = OPT_INT64, .offset = TRACE_OPT(T, m, num_prompts), .arg = "N", \
	 .min = 0, .max = INT32_MAX - 1, \
	 .help = "Only the first N requests. Default: all (random: 1000)."}, \
	{.name = "seed", .type = OPT_UINT64, .offset = TRACE_OPT(T, m, seed), .arg = "N", \
	 .help = "Seed of everything drawn at random. Default 0."}, \
	{.name = "request-rate", .type = OPT_DOUBLE, .offset = TRACE_OPT(T, m, request_rate), .arg = "R", \
	 .min = 0, .max = INFINITY, \
	 .help = "New arrivals at R requests/s instead of the trace's own; inf: all at once. Default 0: the trace's own."}, \
	{.name = "burstiness", .type = OPT_DOUBLE, .offset = TRACE_OPT(T, m, burstiness), .arg = "B", \
	 .min = 1e-3, .max = INFINITY, \
	 .help = "With --request-rate: shape of the gamma distributed gaps. 1 is a Poisson process (default), less is " \
		 "burstier, inf is evenly spaced."}, \
	{.name = "replay-speedup", .type = OPT_DOUBLE, .offset = TRACE_OPT(T, m, replay_speedup), .arg = "X", \
	 .min = 1e-6, .max = 1e9, \
	 .help = "Plays the trace X times faster, waiting times of sessions included. Default 1."}, \
	{.name = "length-scale", .type = OPT_DOUBLE, .offset = TRACE_OPT(T, m, length_scale), .arg = "F", \
	 .min = 1e-6, .max = 1e6, \
	 .help = "Multiplies prompt and output lengths, rounded up. Default 1."}, \
	{.name = "n", .type = OPT_INT32, .offset = TRACE_OPT(T, m, samples), .arg = "N", .min = 1, .max = 1024, \
	 .help = "Samples of every prompt, vLLM's n: the prompt is computed once, all share its KV blocks, the first to write " \
		 "into the last one copies it. Each counts as a request. Default 1."}, \
	{.name = "beam-width", .type = OPT_INT32, .offset = TRACE_OPT(T, m, beam_width), .arg = "N", .min = 1, .max = 1024, \
	 .help = "As many beams of every request: at every --beam-every tokens some are dropped and others forked, drawn by the " \
		 "seed. Default 1: no beam search."}, \
	{.name = "beam-every", .type = OPT_INT32, .offset = TRACE_OPT(T, m, beam_every), .arg = "N", .min = 1, .max = 1e6, \
	 .help = "With --beam-width: output tokens from one choice of beams to the next. Default 8."}, \
	{.name = "max-tokens-mode", .type = OPT_STRING, .offset = TRACE_OPT(T, m, max_tokens_mode), \
	 .arg = "max|pow2|oracle|N", \
	 .help = "What policies assume as a request's largest output, where the trace does not say: max (2048), N, the " \
		 "next power of two of the true length, or the true length itself (oracle: no real server knows it)."}
/* clang-format on */

/* vLLM's and FORMATS' defaults. */
void trace_opts_default(struct trace_opts *o);

/* The reader's options and the shape they mean; for whoever does it in steps. */
int trace_opts_reader(const struct trace_opts *o, struct trace_options *out, struct err *e);
int trace_opts_shape(const struct trace_opts *o, struct shape *out, struct err *e);

/* What the trace is called in tables and the database: its path, "random" or "sample:azure". */
const char *trace_opts_name(const struct trace_opts *o);

/* Reads (or makes) the trace as it is; *report is filled (zeroed for made ones). */
int trace_opts_read(const struct trace_opts *o, struct workload *w, struct trace_report *report, struct err *e);

/* trace_opts_read, then shape_apply: the workload of a run. On an error *w is empty. */
int trace_opts_load(const struct trace_opts *o, struct workload *w, struct trace_report *report, struct err *e);

#endif
