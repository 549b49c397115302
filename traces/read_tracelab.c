/* TraceLab: session_id,arrival_time,round_idx,prefix_len,input_len,output_len,tool_wait_after_ms. A round's prompt is the
 * first prefix_len tokens of what its session said before it, then input_len new ones; it starts when the round before
 * it has answered and that one's tool has run. */
#include "traces/reader_impl.h"

enum { SESSION, TIME, ROUND, PREFIX, INPUT, OUTPUT, WAIT, N_FIELDS };

static const struct row_field fields[N_FIELDS] = {
	[SESSION] = {"session_id", ROW_NAME, true},
	[TIME] = {"arrival_time", ROW_TIME_MS, true},
	[ROUND] = {"round_idx", ROW_TOKENS, true},
	[PREFIX] = {"prefix_len", ROW_TOKENS, true},
	[INPUT] = {"input_len", ROW_TOKENS, true},
	[OUTPUT] = {"output_len", ROW_TOKENS, true},
	[WAIT] = {"tool_wait_after_ms", ROW_DELAY_MS, false},
};

static int accept(struct trace_reader *r, const struct row_cell *c, struct err *e)
{
	struct trace_talk *t;
	struct trace_round x = {
		.number = c[ROUND].i,
		.kept = c[PREFIX].i,
		.prompt = c[PREFIX].i + c[INPUT].i,
		.output = c[OUTPUT].i,
		.arrival_ns = c[TIME].i,
		.wait_ns = c[WAIT].seen ? c[WAIT].i : 0,
	};
	int code = trace_talk(r, r->state, fields[SESSION].name, c[SESSION].s, c[SESSION].seen ? c[SESSION].n : 0,
			      &x.session, &t, e);
	if (code)
		return code;
	if (x.kept > t->run.tokens + t->output)
		return trace_bad(r, input_line_number(r->in), fields[PREFIX].name, NULL, 0,
				 "is more than the session said before", e);
	return trace_add_round(r, t, fields[INPUT].name, &x, e);
}

bool detect_tracelab(const struct trace_head *h)
{
	return h->kind == TRACE_HEAD_CSV && trace_head_has(h, "session_id") && trace_head_has(h, "round_idx") &&
	       trace_head_has(h, "prefix_len");
}

int read_tracelab(struct trace_reader *r, struct err *e)
{
	static const struct row_format format = {fields, N_FIELDS, accept, NULL};
	struct trace_talks talks = {0};
	r->state = &talks;
	r->report->has_arrivals = true;
	int code = rows_csv(r, &format, e);
	trace_talks_free(&talks);
	if (!code)
		trace_note(r, "arrival_time names no unit: taken as milliseconds, the unit of tool_wait_after_ms");
	return code ? code : trace_settle(r, NULL, e);
}
