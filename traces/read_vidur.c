/* Vidur's processed traces: arrived_at (s), num_prefill_tokens, num_decode_tokens. Its length-only files, without
 * arrived_at, are read too. */
#include "traces/reader_impl.h"

enum { TIME, PROMPT, OUTPUT, N_FIELDS };

static const struct row_field fields[N_FIELDS] = {
	[TIME] = {"arrived_at", ROW_TIME_S, false},
	[PROMPT] = {"num_prefill_tokens", ROW_TOKENS, true},
	[OUTPUT] = {"num_decode_tokens", ROW_TOKENS, true},
};

static int accept(struct trace_reader *r, const struct row_cell *c, struct err *e)
{
	struct spec s;
	int code = row_lengths(r, fields[PROMPT].name, c[PROMPT].i, c[OUTPUT].i, &s, e);
	if (code)
		return code;
	/* The header has the column or not, so it is there in every row or in none. */
	if (r->report->rows == 0)
		r->report->has_arrivals = c[TIME].seen;
	if (c[TIME].seen != r->report->has_arrivals)
		return trace_bad(r, input_line_number(r->in), fields[TIME].name, NULL, 0,
				 c[TIME].seen ? "is there, but the first row has none" : "is empty", e);
	s.arrival_ns = c[TIME].seen ? c[TIME].i : 0;
	return workload_add(r->w, &s, e);
}

bool detect_vidur(const struct trace_head *h)
{
	return h->kind == TRACE_HEAD_CSV && trace_head_has(h, "num_prefill_tokens") &&
	       trace_head_has(h, "num_decode_tokens");
}

int read_vidur(struct trace_reader *r, struct err *e)
{
	static const struct row_format format = {fields, N_FIELDS, accept, NULL};
	int code = rows_csv(r, &format, e);
	return code ? code : trace_settle(r, NULL, e);
}
