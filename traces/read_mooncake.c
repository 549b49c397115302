/* Mooncake: {"timestamp": ms, "input_length": , "output_length": , "hash_ids": [...]}, one id for each block of 512 tokens
 * (the last one begun, or only full ones: what the rows agree with). */
#include "traces/reader_impl.h"

enum { TIME, PROMPT, OUTPUT, HASHES, N_FIELDS };
enum { USUAL_BLOCK = 512 };

static const struct row_field fields[N_FIELDS] = {
	[TIME] = {"timestamp", ROW_TIME_MS, true},
	[PROMPT] = {"input_length", ROW_TOKENS, true},
	[OUTPUT] = {"output_length", ROW_TOKENS, true},
	[HASHES] = {"hash_ids", ROW_HASHES, false},
};

static int accept(struct trace_reader *r, const struct row_cell *c, struct err *e)
{
	struct spec s;
	int code = row_lengths(r, fields[PROMPT].name, c[PROMPT].i, c[OUTPUT].i, &s, e);
	if (code)
		return code;
	s.arrival_ns = c[TIME].i;
	s.hash_at = c[HASHES].seen ? c[HASHES].at : 0;
	s.n_hashes = c[HASHES].seen ? (int32_t)c[HASHES].i : 0;
	return workload_add(r->w, &s, e);
}

bool detect_mooncake(const struct trace_head *h)
{
	return h->kind == TRACE_HEAD_OBJECTS && trace_head_has(h, "timestamp") && trace_head_has(h, "input_length") &&
	       trace_head_has(h, "hash_ids") && !trace_head_has(h, "session_id") && !trace_head_has(h, "delay") &&
	       !trace_head_has(h, "output_tokens");
}

int read_mooncake(struct trace_reader *r, struct err *e)
{
	static const struct row_format format = {fields, N_FIELDS, accept, NULL};
	r->report->has_arrivals = true;
	int code = rows_jsonl(r, &format, e);
	if (!code)
		code = trace_settle_hash_block(r, USUAL_BLOCK, e);
	return code ? code : trace_settle(r, NULL, e);
}
