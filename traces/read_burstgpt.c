/* BurstGPT: Timestamp (s), [Session ID], [Elapsed time], Model, Request tokens, Response tokens, Total tokens, Log Type.
 * Rows with 0 response tokens are requests that failed: dropped unless asked for. Sessions group requests; each still
 * arrives at its own recorded time. */
#include "traces/reader_impl.h"

enum { TIME, PROMPT, OUTPUT, SESSION, N_FIELDS };

static const struct row_field fields[N_FIELDS] = {
	[TIME] = {"Timestamp", ROW_TIME_S, true},
	[PROMPT] = {"Request tokens", ROW_TOKENS, true},
	[OUTPUT] = {"Response tokens", ROW_TOKENS, true},
	[SESSION] = {"Session ID", ROW_NAME, false},
};

static int accept(struct trace_reader *r, const struct row_cell *c, struct err *e)
{
	struct spec s;
	if (!c[OUTPUT].i && !r->o.keep_failed) {
		trace_drop(r, "failed (no response tokens)", 1);
		return ERR_NONE;
	}
	int code = row_lengths(r, fields[PROMPT].name, c[PROMPT].i, c[OUTPUT].i, &s, e);
	if (code)
		return code;
	s.arrival_ns = c[TIME].i;
	if (c[SESSION].seen && trace_session(r, c[SESSION].s, c[SESSION].n, &s.session, e))
		return ERR_MEMORY;
	return workload_add(r->w, &s, e);
}

bool detect_burstgpt(const struct trace_head *h)
{
	return h->kind == TRACE_HEAD_CSV && trace_head_has(h, "Request tokens") && trace_head_has(h, "Response tokens");
}

int read_burstgpt(struct trace_reader *r, struct err *e)
{
	static const struct row_format format = {fields, N_FIELDS, accept, NULL};
	r->report->has_arrivals = true;
	int code = rows_csv(r, &format, e);
	return code ? code : trace_settle(r, NULL, e);
}
