/* reader.h: from a trace file to a workload. One reader per format (read_*.c), found by looking at the content; the
 * file is read once, piece by piece, plain or gzip.
 *
 * What a reader promises. Arrivals are integer nanoseconds taken from the decimal text without floating point,
 * relative to the earliest request kept. Units are the format's own (see `help` of the table), never guessed. Columns
 * and keys go by name; unknown ones are ignored. A bad row is an error with file, line and reason, or counted under
 * trace_options.on_bad_row. Requests that generate 0 tokens are kept. Every row read is either kept or counted under
 * a rule.
 */
#ifndef TRACES_READER_H
#define TRACES_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct workload;

enum trace_format {
	TRACE_AUTO = -1,
	TRACE_SHAREGPT,
	TRACE_AZURE,
	TRACE_BURSTGPT,
	TRACE_VIDUR,
	TRACE_BAILIAN,
	TRACE_LOCKSTEP,
	TRACE_MOONCAKE,
	TRACE_AIPERF,
	TRACE_TOT,
	TRACE_OPENHANDS,
	TRACE_TRACELAB,
	TRACE_OTEL,
	TRACE_FORMATS
};

struct trace_head; /* reader_impl.h: the first row's columns or keys */
struct trace_reader; /* reader_impl.h: a read in progress */

struct trace_format_info {
	const char *name; /* "azure": what --format takes */
	const char *help; /* one line: what the file looks like and the unit of its times */
	bool (*detect)(const struct trace_head *head);
	int (*read)(struct trace_reader *r, struct err *e);
};

/* [TRACE_FORMATS], indexed by enum trace_format; detection asks in this order. */
extern const struct trace_format_info trace_formats[];

/* A format by name ("auto" is TRACE_AUTO). Unknown names are ERR_INPUT with the nearest ones. */
int trace_format_find(const char *name, enum trace_format *format, struct err *e);

enum trace_bad_row { TRACE_BAD_ROW_ERROR, TRACE_BAD_ROW_SKIP };

/* ShareGPT: vLLM's sampling filter. Lengths are tokens. Only min_turns applies in multi-turn mode. */
struct trace_sharegpt_options {
	int32_t min_turns; /* fewer messages: dropped (2) */
	int32_t min_prompt; /* shorter prompts: dropped (4) */
	int32_t min_output; /* shorter answers: dropped (4) */
	int32_t max_prompt; /* longer prompts: dropped (1024) */
	int32_t max_total; /* prompt + answer longer: dropped (2048) */
	bool multi_turn; /* every answer of a conversation is one request of a session, after the one before it,
	                       its prompt all the messages so far. Otherwise messages 0 and 1 are the only request. */
};

/* Makes tokens of text. encode appends the ids of s[0 .. n) to *ids (mem_grow'n: *count of them used, *cap room); `first`:
 * the text begins a prompt. */
struct trace_tokenizer {
	int (*encode)(void *ctx, const char *s, size_t n, bool first, int32_t **ids, int64_t *count, int64_t *cap,
		      struct err *e);
	void *ctx;
};

struct trace_options {
	enum trace_format format; /* TRACE_AUTO */
	enum trace_bad_row on_bad_row; /* TRACE_BAD_ROW_ERROR */
	int32_t hash_block; /* tokens per hash id; 0: the format's own (512; Bailian 16), or, where the data
	                                  contradicts it, the only power of two that fits all rows, and a note says so */
	int64_t num_prompts; /* the first so many requests kept, in the file's order; 0 = all */
	bool keep_failed; /* BurstGPT: keep rows with 0 response tokens */
	struct trace_sharegpt_options sharegpt;
	const struct trace_tokenizer *tokenizer; /* for formats with text: its lengths and tokens; NULL: lengths are
						    estimated */
};

/* The defaults named above. */
void trace_options_init(struct trace_options *o);

enum { TRACE_MAX_RULES = 16, TRACE_MAX_NOTES = 12 };

struct trace_rule {
	const char *name; /* static text: "bad row", "prompt too short" */
	int64_t rows;
};

/* What a read did. Owns nothing. */
struct trace_report {
	enum trace_format format;
	const char *format_name;
	int64_t rows; /* read: requests the file describes (ShareGPT: conversations, or answers in multi-turn mode) */
	int64_t kept; /* == workload.n */
	int64_t dropped; /* rows == kept + dropped */
	struct trace_rule rules[TRACE_MAX_RULES];
	int32_t n_rules;
	bool has_arrivals; /* false: the format or file has no times; all arrivals are 0 */
	bool unsorted; /* the file was not in arrival order; the workload is */
	bool lengths_estimated; /* text was counted without a tokenizer */
	bool stopped_early; /* num_prompts was reached before the end */
	int64_t first_ns; /* the earliest kept time as the file has it (Azure: since 1970 UTC); arrivals count from it */
	int64_t zero_outputs; /* kept requests with 0 output tokens */
	int32_t hash_block; /* tokens per hash id in effect; 0 = no hash ids */
	bool hash_floor; /* ids of full blocks only */
	int64_t bytes; /* of the file as it is, compressed or not */
	uint64_t source_hash; /* of those bytes; after an early stop on a pipe, of the ones read */
	char notes[TRACE_MAX_NOTES][240]; /* things to tell the user, one line each */
	int32_t n_notes;
	char first_bad[240]; /* the first bad row's error when they are skipped, else "" */
};

/* Reads `path` ("-": standard input) into *w, which must be empty; on failure *w is empty again. o may be NULL
 * (defaults), report too. A file with no request left is ERR_INPUT. */
int trace_load(const char *path, const struct trace_options *o, struct workload *w, struct trace_report *report,
	       struct err *e);
/* The same from memory; `name` stands for the path in errors. */
int trace_load_memory(const char *name, const void *bytes, size_t n, const struct trace_options *o, struct workload *w,
		      struct trace_report *report, struct err *e);

/* lockstep JSONL, one request a line; everything but input_tokens and output_tokens may be absent:
 *   id             text or number; default: the line number
 *   arrival_s      seconds, up to nanoseconds; roots have it all or none
 *   input_tokens, output_tokens, max_tokens, priority
 *   session        text or number. A row with a session but neither arrival_s nor after, other than the session's
 *                  first, waits for the row before it in the session
 *   after          id or [ids] anywhere in the file: starts when all of them have finished, plus
 *   delay_s        seconds of think or tool time
 *   prefix         [{id, tokens}] what the prompt begins with; id: text or number (a number is the content id itself,
 *                  text is hashed). Or, for traces of equal blocks:
 *   hash_ids       [numbers], each hash_block tokens (the last one the rest)
 *   hash_block     the same in all rows, default 512
 *   output_id      text or number: the generated tokens, as a later `prefix` names them
 *   slo_ttft_ms    the request's own objective for its first token, milliseconds; 0 or absent: none
 *   class          text: the tenant
 *   estimated      true: the lengths were estimated from text
 *   fork_of        id anywhere in the file: the prompt begins with that request's prompt and outputs (docs/forks.md). It
 *                  starts as soon as they are computed, plus delay_s; with after: [the same id], when that has finished
 *   fork_at        so many tokens of them; default: input_tokens, at most all there are
 * The content id of a text: */
uint64_t trace_text_id(const char *s, size_t n);

/* Tokens of a text, estimated without a tokenizer; see estimate.c for how well. */
int64_t trace_estimate_tokens(const char *s, size_t n);

#endif
