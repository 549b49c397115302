/* OpenHands rounds: session,round,prompt_tokens,completion_tokens,tool_ms. A round's prompt is the whole conversation; the
 * next one starts when its tool has run.
 *
 * Where a prompt is shorter than what was said before it, the agent has condensed its history, and the file does not
 * say how. Such a prompt is taken to begin as the one before it if it is at least as long, otherwise as the session's
 * first one (the instructions and the task, which condensers keep). Times are each session's own, so that sessions
 * have no arrivals relative to one another. */
#include "traces/reader_impl.h"

enum { SESSION, ROUND, PROMPT, OUTPUT, WAIT, N_FIELDS };

static const struct row_field fields[N_FIELDS] = {
	[SESSION] = {"session", ROW_NAME, true},        [ROUND] = {"round", ROW_TOKENS, true},
	[PROMPT] = {"prompt_tokens", ROW_TOKENS, true}, [OUTPUT] = {"completion_tokens", ROW_TOKENS, true},
	[WAIT] = {"tool_ms", ROW_DELAY_MS, false}, /* empty behind the last tool */
};

struct rounds {
	struct trace_talks talks; /* first: trace_talk is given it */
	int64_t condensed;
};

static int64_t kept_of(const struct trace_talk *t, int64_t prompt)
{
	int64_t before = t->run.tokens, said = before + t->output;
	if (prompt >= said)
		return said;
	if (prompt >= before)
		return before;
	return prompt < t->first_prompt ? prompt : t->first_prompt;
}

static int accept(struct trace_reader *r, const struct row_cell *c, struct err *e)
{
	struct rounds *rounds = r->state;
	struct trace_talk *t;
	struct trace_round x = {
		.number = c[ROUND].i,
		.prompt = c[PROMPT].i,
		.output = c[OUTPUT].i,
		.wait_ns = c[WAIT].seen ? c[WAIT].i : 0,
	};
	int code = trace_talk(r, &rounds->talks, fields[SESSION].name, c[SESSION].s, c[SESSION].seen ? c[SESSION].n : 0,
			      &x.session, &t, e);
	if (code)
		return code;
	x.kept = kept_of(t, x.prompt);
	bool condensed = x.kept < t->run.tokens + t->output;
	code = trace_add_round(r, t, fields[PROMPT].name, &x, e);
	rounds->condensed += !code && condensed;
	return code;
}

bool detect_openhands(const struct trace_head *h)
{
	return h->kind == TRACE_HEAD_CSV && trace_head_has(h, "session") && trace_head_has(h, "completion_tokens") &&
	       trace_head_has(h, "tool_ms");
}

int read_openhands(struct trace_reader *r, struct err *e)
{
	static const struct row_format format = {fields, N_FIELDS, accept, NULL};
	struct rounds rounds = {0};
	r->state = &rounds;
	int code = rows_csv(r, &format, e);
	trace_talks_free(&rounds.talks);
	if (!code && rounds.condensed)
		trace_note(r,
			   "%lld prompts are shorter than what was said before them: they share the prompt before "
			   "them, or the session's first one",
			   (long long)rounds.condensed);
	return code ? code : trace_settle(r, NULL, e);
}
