/* AIPerf's and vLLM's custom JSONL: a prompt as text (`prompt`, `text`) or its length (`input_length`), the answer's
 * length (`output_tokens`, `output_length`), and when: `timestamp` (ms) or, within a `session_id`, `delay` (ms).
 *
 * If the first row has a timestamp, rows start at theirs, and a session's later row without one starts `delay` after the
 * row before it has finished. If it has none, nothing has arrivals, and all of a session's rows follow one another.
 * Rows without a session have nothing to do with each other.
 *
 * input_length is the whole prompt. A text in a session is the turn's own message: the prompt is the conversation so
 * far and then that text, as a client sends it. hash_ids may stand beside input_length (512 tokens each). */
#include <string.h>

#include "core/mem.h"
#include "core/rng.h"
#include "traces/reader_impl.h"

enum { PROMPT_TEXT, TEXT, TEXT_INPUT, INPUT, OUTPUT, OUTPUT_LENGTH, TIME, DELAY, SESSION, HASHES, N_FIELDS };
enum { USUAL_BLOCK = 512 };

static const struct row_field fields[N_FIELDS] = {
	[PROMPT_TEXT] = {"prompt", ROW_TEXT, false},     [TEXT] = {"text", ROW_TEXT, false},
	[TEXT_INPUT] = {"text_input", ROW_TEXT, false},  [INPUT] = {"input_length", ROW_TOKENS, false},
	[OUTPUT] = {"output_tokens", ROW_TOKENS, false}, [OUTPUT_LENGTH] = {"output_length", ROW_TOKENS, false},
	[TIME] = {"timestamp", ROW_TIME_MS, false},      [DELAY] = {"delay", ROW_DELAY_MS, false},
	[SESSION] = {"session_id", ROW_NAME, false},     [HASHES] = {"hash_ids", ROW_HASHES, false},
};

struct turns {
	int32_t *last; /* by session: its last request so far, -1: none */
	int64_t n, cap;
	enum { FIRST_ROW, BY_TIME, BY_TURN } schedule;
	int64_t times_ignored, delays_ignored;
};

static int bad(struct trace_reader *r, const char *field, const char *why, struct err *e)
{
	return trace_bad(r, input_line_number(r->in), field, NULL, 0, why, e);
}

static int find_last(struct turns *t, int32_t session, int32_t **last, struct err *e)
{
	if (mem_grow((void **)&t->last, &t->cap, session + 1, sizeof *t->last))
		return err_no_memory(e, "sessions");
	while (t->n <= session)
		t->last[t->n++] = -1;
	*last = &t->last[session];
	return ERR_NONE;
}

/* Content ids chain what came before, so equal ids are equal prefixes. */
static uint64_t chained(uint64_t before, uint64_t id)
{
	uint64_t h = rng_mix(before ^ rng_mix(id));
	return h ? h : 1;
}

/* The prompt of a text: the conversation before it, if any, and then its own segment. */
static int text_prompt(struct trace_reader *r, const struct row_cell *text, int32_t last, int64_t output,
		       struct spec *s, struct err *e)
{
	struct workload *w = r->w;
	int64_t tokens, at = w->n_hash_ids;
	uint64_t chain = 0;
	int code = trace_content_kind(r, true, "text", e);
	if (!code)
		code = trace_count_text(r, text->s, text->n, last < 0, &tokens, e);
	if (code)
		return code;
	int64_t before = 0;
	bool known = true; /* what the conversation so far holds */
	if (last >= 0) {
		struct spec p = w->specs[last];
		known = p.n_hashes > 0;
		for (int32_t k = 0; k < p.n_hashes; k++)
			if (workload_add_segment(w, w->hash_ids[p.hash_at + k], w->seg_tokens[p.hash_at + k], e))
				return ERR_MEMORY;
		chain = p.output_id;
		before = (int64_t)p.prompt_tokens + p.output_tokens;
		if (known && p.output_tokens && workload_add_segment(w, chain, p.output_tokens, e))
			return ERR_MEMORY;
	}
	chain = chained(chain, trace_text_id(text->s, text->n));
	if (before + tokens > TRACE_MAX_TOKENS)
		return bad(r, "text", "makes the conversation longer than 2^30 tokens", e);
	if (known && tokens && (workload_add_segment(w, chain, (int32_t)tokens, e) || trace_keep_text(r, chain, e)))
		return ERR_MEMORY;
	code = row_lengths(r, "text", before + tokens, output, s, e);
	if (code)
		return code;
	s->hash_at = at;
	s->n_hashes = (int32_t)(w->n_hash_ids - at);
	/* Known to this conversation alone, unless another row has the same words and the same answer's length. */
	if (known)
		s->output_id = chained(chain, (uint64_t)output | (uint64_t)1 << 40 | (uint64_t)(s->row) << 41);
	w->lengths_estimated = !r->o.tokenizer;
	return ERR_NONE;
}

static int timing(struct trace_reader *r, const struct row_cell *c, bool follows, struct spec *s, bool *linked,
		  struct err *e)
{
	struct turns *t = r->state;
	if (t->schedule == FIRST_ROW)
		t->schedule = c[TIME].seen ? BY_TIME : BY_TURN;
	*linked = follows && !(t->schedule == BY_TIME && c[TIME].seen);
	if (t->schedule == BY_TIME && !c[TIME].seen && !follows)
		return bad(r, "timestamp", "is missing, but the first row has one", e);
	t->times_ignored += t->schedule == BY_TURN && c[TIME].seen;
	t->delays_ignored += c[DELAY].seen && c[DELAY].i && !*linked;
	if (*linked)
		s->arrival_ns = c[DELAY].seen ? c[DELAY].i : 0;
	else
		s->arrival_ns = t->schedule == BY_TIME ? c[TIME].i : 0;
	return ERR_NONE;
}

static int prompt(struct trace_reader *r, const struct row_cell *c, int32_t last, struct spec *s, struct err *e)
{
	const struct row_cell *text = c[PROMPT_TEXT].seen ? &c[PROMPT_TEXT] : c[TEXT].seen ? &c[TEXT] : &c[TEXT_INPUT];
	const struct row_cell *output = c[OUTPUT].seen ? &c[OUTPUT] : &c[OUTPUT_LENGTH];
	if (!output->seen)
		return bad(r, "output_tokens", "is missing (or output_length)", e);
	if (!c[INPUT].seen && !text->seen)
		return bad(r, "input_length", "is missing (or prompt, or text)", e);
	if (!c[INPUT].seen)
		return text_prompt(r, text, last, output->i, s, e);
	int code = row_lengths(r, "input_length", c[INPUT].i, output->i, s, e);
	s->hash_at = c[HASHES].seen ? c[HASHES].at : 0;
	s->n_hashes = c[HASHES].seen ? (int32_t)c[HASHES].i : 0;
	return code;
}

static int accept(struct trace_reader *r, const struct row_cell *c, struct err *e)
{
	struct turns *t = r->state;
	struct spec s;
	int32_t session = -1, *last = NULL;
	bool linked;
	int code = c[SESSION].seen ? trace_session(r, c[SESSION].s, c[SESSION].n, &session, e) : ERR_NONE;
	if (!code && session >= 0)
		code = find_last(t, session, &last, e);
	if (!code)
		code = prompt(r, c, last ? *last : -1, &s, e);
	if (!code)
		code = timing(r, c, last && *last >= 0, &s, &linked, e);
	s.session = session;
	if (!code && last && linked)
		code = trace_link(r, *last, r->w->n, e);
	if (!code)
		code = workload_add(r->w, &s, e);
	if (!code && last)
		*last = (int32_t)r->w->n - 1;
	return code;
}

bool detect_aiperf(const struct trace_head *h)
{
	return h->kind == TRACE_HEAD_OBJECTS &&
	       (trace_head_has(h, "output_tokens") || trace_head_has(h, "output_length")) &&
	       (trace_head_has(h, "prompt") || trace_head_has(h, "text") || trace_head_has(h, "text_input") ||
		trace_head_has(h, "input_length"));
}

int read_aiperf(struct trace_reader *r, struct err *e)
{
	static const struct row_format format = {fields, N_FIELDS, accept, NULL};
	struct turns t = {0};
	r->state = &t;
	int code = rows_jsonl(r, &format, e);
	if (!code) {
		r->report->has_arrivals = t.schedule == BY_TIME;
		if (t.times_ignored)
			trace_note(r, "%lld timestamps are not used: the first row has none",
				   (long long)t.times_ignored);
		if (t.delays_ignored)
			trace_note(r,
				   "%lld delays are not used: no row of the same session before them, or a timestamp",
				   (long long)t.delays_ignored);
		code = trace_settle_hash_block(r, USUAL_BLOCK, e);
	}
	if (!code)
		code = trace_settle(r, NULL, e);
	mem_free(t.last);
	return code;
}
