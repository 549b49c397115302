/* ShareGPT: [{"id", "conversations": [{"from", "value"}, ...]}, ...], or such objects one after the other. One element is
 * in memory at a time.
 *
 * As vLLM samples it, messages 0 and 1 are one request, whoever they are from. In multi-turn mode every answer of the
 * assistant that follows something new is a request of the conversation's session; its prompt is all messages before it.
 *
 * Texts are counted by trace_count_text. Each message is one content segment, its id chained over the messages
 * before it: two prompts share as many whole messages as are equal from the start. */
#include <stdio.h>
#include <string.h>

#include "core/mem.h"
#include "core/rng.h"
#include "traces/reader_impl.h"
#include "traces/scan.h"

struct message {
	struct trace_span from, value;
};

struct talk {
	struct message *messages;
	int64_t n, cap;
	int64_t element; /* from 1 */
	int32_t n_sessions;
	int64_t unanswered; /* conversations whose last words got no answer */
};

static int bad_element(struct trace_reader *r, const char *what, const char *why, struct err *e)
{
	const struct talk *t = r->state;
	char text[200];
	snprintf(text, sizeof text, "element %lld: %s%s", (long long)t->element, what, why);
	return trace_bad(r, input_line_number(r->in), NULL, NULL, 0, text, e);
}

static bool is_key(const char *key, size_t n, const char *name)
{
	return n == strlen(name) && !memcmp(key, name, n);
}

/* A text; null or anything else is left empty by *known = false. */
static bool text_or_skip(struct json *j, struct trace_span *out, bool *known)
{
	char *s;
	json_space(j);
	*known = j->p < j->end && *j->p == '"';
	if (!*known)
		return json_skip(j);
	if (!json_text(j, &s, &out->n))
		return false;
	out->s = s;
	return true;
}

static bool read_message(struct json *j, struct message *m, bool *has_value)
{
	bool first = true, known;
	char *key;
	size_t n;
	*has_value = false;
	*m = (struct message){{"", 0}, {"", 0}};
	while (json_key(j, &first, &key, &n)) {
		bool ok;
		if (is_key(key, n, "value"))
			ok = text_or_skip(j, &m->value, has_value);
		else if (is_key(key, n, "from"))
			ok = text_or_skip(j, &m->from, &known);
		else
			ok = json_skip(j);
		if (!ok)
			return false;
	}
	return !j->why;
}

static int read_messages(struct trace_reader *r, struct talk *t, struct json *j, struct err *e)
{
	bool first = true, has_value;
	t->n = 0;
	while (json_item(j, &first)) {
		if (mem_grow((void **)&t->messages, &t->cap, t->n + 1, sizeof *t->messages))
			return err_no_memory(e, "messages");
		json_space(j);
		if (j->p >= j->end || *j->p != '{')
			return bad_element(r, "conversations: ", "holds something that is no {from, value}", e);
		if (!read_message(j, &t->messages[t->n], &has_value))
			return bad_element(r, "not valid JSON: ", j->why, e);
		if (!has_value)
			return bad_element(r, "conversations: ", "a message has no text as its value", e);
		t->n++;
	}
	return j->why ? bad_element(r, "not valid JSON: ", j->why, e) : ERR_NONE;
}

static int read_element(struct trace_reader *r, struct talk *t, char *text, size_t n, struct err *e)
{
	struct json j;
	bool first = true, found = false;
	char *key;
	json_begin(&j, text, n);
	while (json_key(&j, &first, &key, &n)) {
		if (is_key(key, n, "conversations") && !found) {
			int code = read_messages(r, t, &j, e);
			if (code)
				return code;
			found = true;
		} else if (!json_skip(&j)) {
			break;
		}
	}
	if (j.why)
		return bad_element(r, "not valid JSON: ", j.why, e);
	return found ? ERR_NONE : bad_element(r, "has no conversations", "", e);
}

static uint64_t chained(uint64_t before, const struct message *m)
{
	uint64_t h = rng_mix(before ^ trace_text_id(m->value.s, m->value.n));
	return h ? h : 1;
}

/* Messages 0 and 1 through vLLM's filter. */
static int accept_pair(struct trace_reader *r, struct talk *t, struct err *e)
{
	const struct trace_sharegpt_options *o = &r->o.sharegpt;
	const struct message *ask = &t->messages[0], *answer = &t->messages[1];
	int64_t prompt, output;
	/* The prompt last: its tokens are the ones kept. */
	int code = trace_count_text(r, answer->value.s, answer->value.n, false, &output, e);
	if (!code)
		code = trace_count_text(r, ask->value.s, ask->value.n, true, &prompt, e);
	if (code)
		return code;
	const char *rule = prompt < o->min_prompt           ? "prompt too short"
			   : output < o->min_output         ? "answer too short"
			   : prompt > o->max_prompt         ? "prompt too long"
			   : prompt + output > o->max_total ? "prompt and answer too long"
			   : prompt < 1                     ? "prompt is empty"
							    : NULL;
	if (rule) {
		trace_drop(r, rule, 1);
		return ERR_NONE;
	}
	struct spec s;
	int64_t at = r->w->n_hash_ids;
	code = row_lengths(r, "value", prompt, output, &s, e);
	if (!code)
		code = workload_add_segment(r->w, chained(0, ask), (int32_t)prompt, e);
	if (!code)
		code = trace_keep_text(r, chained(0, ask), e);
	s.hash_at = at;
	s.n_hashes = 1;
	s.row = (int32_t)t->element;
	return code ? code : workload_add(r->w, &s, e);
}

static bool is_assistant(const struct message *m)
{
	static const char *const names[] = {"gpt", "assistant", "chatgpt", "bing", "bard", "model", "bot"};
	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
		if (is_key(m->from.s, m->from.n, names[i]))
			return true;
	return false;
}

/* One answer: a request after the conversation's one before it. */
static int add_turn(struct trace_reader *r, const struct talk *t, int64_t prompt, int64_t output, int64_t at,
		    int64_t *turn, struct err *e)
{
	struct workload *w = r->w;
	struct spec s;
	char name[48];
	int code = row_lengths(r, "value", prompt, output, &s, e);
	if (code)
		return code;
	int n = snprintf(name, sizeof name, "%lld/%lld", (long long)t->element, (long long)*turn + 1);
	if (workload_add_name(w, name, n, &s.name_at, e) || (*turn > 0 && trace_link(r, w->n - 1, w->n, e)))
		return ERR_MEMORY;
	s.hash_at = at;
	s.n_hashes = (int32_t)(w->n_hash_ids - at);
	s.session = t->n_sessions;
	s.row = (int32_t)t->element;
	(*turn)++;
	return workload_add(w, &s, e);
}

static bool enough(const struct trace_reader *r)
{
	return r->o.num_prompts > 0 && r->w->n >= r->o.num_prompts;
}

/* All turns of a conversation share one run of segments: each prompt is a longer beginning of it. */
static int accept_session(struct trace_reader *r, struct talk *t, struct err *e)
{
	struct workload *w = r->w;
	int64_t at = w->n_hash_ids, prompt = 0, turn = 0;
	uint64_t chain = 0;
	bool news = false; /* something was said since the last answer */
	for (int64_t i = 0; i < t->n && !enough(r); i++) {
		const struct message *m = &t->messages[i];
		int64_t tokens;
		if (trace_count_text(r, m->value.s, m->value.n, i == 0, &tokens, e))
			return e->code;
		bool answer = is_assistant(m) && news && prompt > 0;
		chain = chained(chain, m);
		if (prompt + tokens > TRACE_MAX_TOKENS)
			return bad_element(r, "conversations: ", "are longer than 2^30 tokens", e);
		if (answer) {
			int code = add_turn(r, t, prompt, tokens, at, &turn, e);
			if (code)
				return code;
			w->specs[w->n - 1].output_id = chain;
		}
		news = !is_assistant(m);
		prompt += tokens;
		if (tokens && (workload_add_segment(w, chain, (int32_t)tokens, e) || trace_keep_text(r, chain, e)))
			return ERR_MEMORY;
	}
	t->unanswered += news && turn > 0;
	if (turn)
		t->n_sessions++;
	else
		trace_drop(r, "no answer in the conversation", 1);
	/* A row is a request here; row_end counts one of them. */
	r->report->rows += turn > 1 ? turn - 1 : 0;
	return ERR_NONE;
}

static int accept(struct trace_reader *r, struct talk *t, char *text, size_t n, struct err *e)
{
	int code = read_element(r, t, text, n, e);
	if (code)
		return code;
	if (t->n < r->o.sharegpt.min_turns || t->n < 1 || (t->n < 2 && !r->o.sharegpt.multi_turn)) {
		trace_drop(r, "too few turns", 1);
		return ERR_NONE;
	}
	return r->o.sharegpt.multi_turn ? accept_session(r, t, e) : accept_pair(r, t, e);
}

bool detect_sharegpt(const struct trace_head *h)
{
	return h->kind != TRACE_HEAD_CSV && trace_head_has(h, "conversations");
}

int read_sharegpt(struct trace_reader *r, struct err *e)
{
	struct talk t = {0};
	char *text;
	size_t n;
	bool stop = false;
	int code = ERR_NONE;
	r->state = &t;
	r->w->lengths_estimated = !r->o.tokenizer;
	while (!code && !stop) {
		code = input_element(r->in, &text, &n, e);
		if (code || !text)
			break;
		t.element++;
		struct row_mark m = row_begin(r);
		code = row_end(r, m, accept(r, &t, text, n, e), &stop, e);
	}
	if (!code && t.unanswered)
		trace_note(r, "%lld conversations end with words that got no answer; those are no requests",
			   (long long)t.unanswered);
	mem_free(t.messages);
	return code ? code : trace_settle(r, NULL, e);
}
