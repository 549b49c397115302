/* writer.h: workloads as files.
 *
 * Lockstep JSONL, the native format, holds all of a workload and nothing twice; reading what was written gives an
 * equal workload_hash, and writing that again gives the same bytes. One object a line, keys in this order, each left
 * out when it says nothing:
 *   id             string; left out when it is the line's number and nobody waits for it
 *   arrival_s      seconds, as many decimals as it takes to be exact (up to 9); left out for dependents
 *   input_tokens   whole
 *   output_tokens  whole
 *   max_tokens     whole, when the trace gave one
 *   session        whole number or string
 *   after          array of ids (strings) that must have finished, and
 *   delay_s        how long after the last of them it starts
 *   prefix         array of {"id", "tokens"}: content ids (whole numbers 0 .. 2^64-1, or strings) from the start of the
 *                  prompt and the tokens each covers, together no more than the prompt
 *   hash_ids       array of whole numbers 0 .. 2^64-1, each covering hash_block tokens (the last one the rest); instead
 *                  of prefix
 *   hash_block     whole; on each line that has hash_ids
 *   output_id      whole number: the content id of what it generates, for later prompts that hold it
 *   priority       whole; smaller is served first
 *   slo_ttft_ms    whole: the request's own objective for its first token
 *   class          string: tenant
 *   estimated      true, when lengths were estimated from text
 */
#ifndef TRACES_WRITER_H
#define TRACES_WRITER_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "core/workload.h"

struct err;

enum writer_format {
	WRITER_LOCKSTEP, /* native JSONL: everything */
	WRITER_VIDUR, /* CSV: arrived_at,num_prefill_tokens,num_decode_tokens */
	WRITER_AZURE, /* CSV: TIMESTAMP,ContextTokens,GeneratedTokens, to 100 ns, from a fixed date */
	WRITER_MOONCAKE, /* JSONL: timestamp (ms), input_length, output_length, hash_ids of one block size */
	WRITER_SHAREGPT, /* JSON with invented text of these lengths; one conversation a session */
	WRITER_FORMATS
};
extern const char *const writer_names[WRITER_FORMATS + 1]; /* NULL-terminated */

/* What the target could not hold, in requests. */
struct writer_loss {
	int64_t ids, hashes, links, sessions, priorities, classes, max_tokens, outputs_id;
	int64_t arrivals; /* sharegpt: had an arrival other than 0 */
	int64_t rounded; /* arrivals rounded to the target's resolution */
	int64_t lengths; /* sharegpt: text of that exact length could not be made */
	int32_t hash_block; /* mooncake: the block size, which the file cannot say, when it is not 512; else 0 */
};

/* Writes w to f; *loss is filled. ERR_IO on a write error. */
int writer_write(FILE *f, enum writer_format format, const struct workload *w, struct writer_loss *loss, struct err *e);

/* The same to a file, by way of FILE.tmp, so that a failure leaves no half of one. "-" is stdout. */
int writer_file(const char *path, enum writer_format format, const struct workload *w, struct writer_loss *loss,
		struct err *e);

/* One line for each thing lost: "dropped: hash ids of 12,031 requests". Calls line() for each; false: nothing lost. */
bool writer_explain(const struct writer_loss *loss, void (*line)(void *ctx, const char *text), void *ctx);

#endif
