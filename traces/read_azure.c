/* Azure's public LLM inference traces, 2023 and 2024: TIMESTAMP,ContextTokens,GeneratedTokens. Times are dates in UTC,
 * with a fraction of seven digits, fewer or none, and with or without "+00:00" or "Z". */
#include "traces/reader_impl.h"

enum { TIME, PROMPT, OUTPUT, N_FIELDS };

static const struct row_field fields[N_FIELDS] = {
	[TIME] = {"TIMESTAMP", ROW_DATE, true},
	[PROMPT] = {"ContextTokens", ROW_TOKENS, true},
	[OUTPUT] = {"GeneratedTokens", ROW_TOKENS, true},
};

static int accept(struct trace_reader *r, const struct row_cell *c, struct err *e)
{
	struct spec s;
	int code = row_lengths(r, fields[PROMPT].name, c[PROMPT].i, c[OUTPUT].i, &s, e);
	if (code)
		return code;
	s.arrival_ns = c[TIME].i;
	return workload_add(r->w, &s, e);
}

bool detect_azure(const struct trace_head *h)
{
	return h->kind == TRACE_HEAD_CSV && trace_head_has(h, "TIMESTAMP") && trace_head_has(h, "ContextTokens");
}

int read_azure(struct trace_reader *r, struct err *e)
{
	static const struct row_format format = {fields, N_FIELDS, accept, NULL};
	r->report->has_arrivals = true;
	int code = rows_csv(r, &format, e);
	return code ? code : trace_settle(r, NULL, e);
}
