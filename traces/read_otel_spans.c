/* The JSON of OpenTelemetry's spans. Attributes are those of the conventions for generative AI (gen_ai.*), with their
 * names before 2024-09 too (gen_ai.usage.prompt_tokens). Messages are [{role, content}] or [{role, parts: [{content}]}],
 * as JSON or as a text that holds JSON. */
#include <stdio.h>
#include <string.h>

#include "core/mem.h"
#include "traces/read_otel.h"
#include "traces/scan.h"

int otel_bad(struct trace_reader *r, int64_t span, const char *why, struct err *e)
{
	const struct otel *o = r->state;
	char text[240];
	if (span)
		snprintf(text, sizeof text, "element %lld: span %lld %s", (long long)o->element, (long long)span, why);
	else
		snprintf(text, sizeof text, "element %lld: %s", (long long)o->element, why);
	return trace_bad(r, input_line_number(r->in), NULL, NULL, 0, text, e);
}

void otel_free(struct otel *o)
{
	mem_free(o->calls);
	mem_free(o->messages);
	idmap_free(&o->ids);
}

static bool is_key(const char *key, size_t n, const char *name)
{
	return n == strlen(name) && !memcmp(key, name, n);
}

static char next_byte(struct json *j)
{
	json_space(j);
	return j->p < j->end ? *j->p : '\0';
}

/* A text, or *out stays as it is. */
static bool text_or_skip(struct json *j, struct trace_span *out)
{
	char *s;
	size_t n;
	if (next_byte(j) != '"')
		return json_skip(j);
	if (!json_text(j, &s, &n))
		return false;
	*out = (struct trace_span){s, n};
	return true;
}

static int broken(struct trace_reader *r, const struct otel_call *c, const struct json *j, struct err *e)
{
	char why[160];
	snprintf(why, sizeof why, "is not valid JSON: %s", j->why ? j->why : "something follows it");
	return otel_bad(r, c->number, why, e);
}

static int add_message(struct otel *o, struct otel_call *c, struct trace_span text, struct err *e)
{
	if (mem_grow((void **)&o->messages, &o->cap_messages, o->n_messages + 1, sizeof *o->messages))
		return err_no_memory(e, "messages");
	o->messages[o->n_messages++] = text;
	c->n_messages++;
	return ERR_NONE;
}

/* [{content} or {text}, ...]: what a message is made of. */
static int read_parts(struct otel *o, struct otel_call *c, struct json *j, struct err *e)
{
	bool first = true;
	while (json_item(j, &first)) {
		bool key_first = true;
		struct trace_span text = {NULL, 0};
		char *key;
		size_t n;
		if (next_byte(j) != '{') {
			if (!text_or_skip(j, &text))
				break;
		} else {
			while (json_key(j, &key_first, &key, &n)) {
				bool wanted = is_key(key, n, "content") || is_key(key, n, "text");
				if (!(wanted ? text_or_skip(j, &text) : json_skip(j)))
					break;
			}
		}
		if (!j->why && text.n && add_message(o, c, text, e))
			return ERR_MEMORY;
	}
	return ERR_NONE;
}

static int read_message(struct otel *o, struct otel_call *c, struct json *j, struct err *e)
{
	bool first = true;
	char *key;
	size_t n;
	while (json_key(j, &first, &key, &n)) {
		bool content = is_key(key, n, "content") || is_key(key, n, "parts");
		struct trace_span text = {NULL, 0};
		if (content && next_byte(j) == '[') {
			if (read_parts(o, c, j, e))
				return ERR_MEMORY;
		} else if (!(content ? text_or_skip(j, &text) : json_skip(j))) {
			break;
		}
		if (text.n && add_message(o, c, text, e))
			return ERR_MEMORY;
	}
	return ERR_NONE;
}

static int read_message_list(struct trace_reader *r, struct otel *o, struct otel_call *c, struct json *j, struct err *e)
{
	bool first = true;
	while (json_item(j, &first)) {
		if (next_byte(j) != '{')
			return otel_bad(r, c->number, "has a message that is no {role, content}", e);
		if (read_message(o, c, j, e))
			return ERR_MEMORY;
	}
	return j->why ? broken(r, c, j, e) : ERR_NONE;
}

/* Messages as JSON, as a text that holds JSON, or as plain text. */
static int read_messages(struct trace_reader *r, struct otel *o, struct otel_call *c, struct json *j, struct err *e)
{
	struct trace_span text = {NULL, 0};
	if (next_byte(j) == '[')
		return read_message_list(r, o, c, j, e);
	if (!text_or_skip(j, &text))
		return broken(r, c, j, e);
	if (!text.n)
		return ERR_NONE;
	struct json inner;
	json_begin(&inner, (char *)text.s, text.n);
	if (next_byte(&inner) != '[')
		return add_message(o, c, text, e);
	return read_message_list(r, o, c, &inner, e);
}

/* The answer as messages: the last of its texts. */
static int read_answer(struct trace_reader *r, struct otel *o, struct otel_call *c, struct json *j, struct err *e)
{
	int64_t n = o->n_messages, of_call = c->n_messages;
	int code = read_messages(r, o, c, j, e);
	if (code)
		return code;
	if (o->n_messages > n && !c->answer.n)
		c->answer = o->messages[o->n_messages - 1];
	o->n_messages = n;
	c->n_messages = of_call;
	return ERR_NONE;
}

static int read_count(struct trace_reader *r, struct otel_call *c, struct json *j, const char *key, size_t len,
		      int64_t *out, struct err *e)
{
	char *s;
	size_t n;
	char why[160];
	if (!(next_byte(j) == '"' ? json_text(j, &s, &n) : json_bare(j, &s, &n)))
		return broken(r, c, j, e);
	if (n == 4 && !memcmp(s, "null", 4))
		return ERR_NONE;
	const char *wrong = scan_int(s, n, 0, TRACE_MAX_TOKENS, out);
	if (!wrong)
		return ERR_NONE;
	snprintf(why, sizeof why, "has a wrong %.*s: it %s", (int)len, key, wrong);
	return otel_bad(r, c->number, why, e);
}

static bool names_a_model_call(struct trace_span operation)
{
	static const char *const names[] = {"chat", "text_completion", "generate_content", "completion"};
	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
		if (is_key(operation.s, operation.n, names[i]))
			return true;
	return false;
}

static int64_t *count_named(struct otel_call *c, const char *key, size_t n)
{
	if (is_key(key, n, "gen_ai.usage.input_tokens") || is_key(key, n, "gen_ai.usage.prompt_tokens"))
		return &c->prompt;
	if (is_key(key, n, "gen_ai.usage.output_tokens") || is_key(key, n, "gen_ai.usage.completion_tokens"))
		return &c->output;
	return is_key(key, n, "gen_ai.request.max_tokens") ? &c->max_tokens : NULL;
}

static int read_attributes(struct trace_reader *r, struct otel *o, struct otel_call *c, struct json *j, struct err *e)
{
	struct trace_span operation = {NULL, 0};
	bool first = true;
	char *key;
	size_t n;
	while (json_key(j, &first, &key, &n)) {
		int64_t *count = count_named(c, key, n);
		int code = ERR_NONE;
		bool ok = true;
		if (count) {
			code = read_count(r, c, j, key, n, count, e);
		} else if (is_key(key, n, "gen_ai.input.messages") && !c->has_input) {
			c->has_input = true;
			c->message_at = o->n_messages;
			code = read_messages(r, o, c, j, e);
		} else if (is_key(key, n, "gen_ai.output.messages")) {
			c->has_answer = true;
			code = read_answer(r, o, c, j, e);
		} else if (is_key(key, n, "gen_ai.output.text")) {
			c->has_answer = true;
			ok = text_or_skip(j, &c->answer);
		} else {
			ok = is_key(key, n, "gen_ai.operation.name") ? text_or_skip(j, &operation) : json_skip(j);
		}
		if (code)
			return code;
		if (!ok)
			break;
	}
	c->is_call = operation.n ? names_a_model_call(operation) : c->has_input;
	return j->why ? broken(r, c, j, e) : ERR_NONE;
}

/* {"code": 2} is an error. */
static bool read_status(struct otel_call *c, struct json *j)
{
	bool first = true;
	char *key, *s;
	size_t n;
	while (json_key(j, &first, &key, &n)) {
		if (!is_key(key, n, "code")) {
			if (!json_skip(j))
				return false;
			continue;
		}
		if (!(next_byte(j) == '"' ? json_text(j, &s, &n) : json_bare(j, &s, &n)))
			return false;
		c->failed = is_key(s, n, "2") || is_key(s, n, "ERROR") || is_key(s, n, "STATUS_CODE_ERROR");
	}
	return !j->why;
}

static int read_date(struct trace_reader *r, const struct otel_call *c, const char *name, struct trace_span text,
		     int64_t *ns, struct err *e)
{
	char why[200];
	const char *wrong = text.n ? scan_date(text.s, text.n, ns) : "";
	if (!wrong)
		return ERR_NONE;
	if (*wrong)
		snprintf(why, sizeof why, "has a wrong %s: it %s", name, wrong);
	else
		snprintf(why, sizeof why, "has no %s", name);
	return otel_bad(r, c->number, why, e);
}

/* A call must say how long its prompt and its answer were, one way or the other. */
static int check_call(struct trace_reader *r, struct otel *o, struct otel_call *c, struct trace_span start,
		      struct trace_span end, struct err *e)
{
	int32_t id;
	int64_t known = o->ids.n;
	if (!c->is_call)
		return ERR_NONE;
	int code = read_date(r, c, "start_time", start, &c->start_ns, e);
	if (!code)
		code = read_date(r, c, "end_time", end, &c->end_ns, e);
	if (code)
		return code;
	if (c->end_ns < c->start_ns || c->start_ns < 0)
		return otel_bad(r, c->number, c->start_ns < 0 ? "is from before 1970" : "ends before it starts", e);
	c->end_ns += c->end_ns == c->start_ns;
	if (c->prompt < 0 && !c->has_input)
		return otel_bad(r, c->number, "has neither gen_ai.input.messages nor gen_ai.usage.input_tokens", e);
	if (c->output < 0 && !c->has_answer && !c->failed)
		return otel_bad(r, c->number, "has neither gen_ai.output.* nor gen_ai.usage.output_tokens", e);
	if (!c->id.n)
		return ERR_NONE;
	if (idmap_number(&o->ids, c->id.s, (int64_t)c->id.n, &id, e))
		return ERR_MEMORY;
	return id == known ? ERR_NONE : otel_bad(r, c->number, "has the span_id of one before it", e);
}

static int read_span(struct trace_reader *r, struct otel *o, struct otel_call *c, struct json *j, struct err *e)
{
	struct trace_span start = {NULL, 0}, end = {NULL, 0};
	bool first = true;
	char *key;
	size_t n;
	*c = (struct otel_call){.number = o->n_calls + 1, .answer = {"", 0}, .prompt = -1, .output = -1};
	while (json_key(j, &first, &key, &n)) {
		bool ok;
		if (is_key(key, n, "attributes") && next_byte(j) == '{') {
			int code = read_attributes(r, o, c, j, e);
			if (code)
				return code;
			ok = true;
		} else if (is_key(key, n, "status") && next_byte(j) == '{') {
			ok = read_status(c, j);
		} else {
			struct trace_span *text = is_key(key, n, "span_id")      ? &c->id
						  : is_key(key, n, "start_time") ? &start
						  : is_key(key, n, "end_time")   ? &end
										 : NULL;
			ok = text ? text_or_skip(j, text) : json_skip(j);
		}
		if (!ok)
			break;
	}
	return j->why ? broken(r, c, j, e) : check_call(r, o, c, start, end, e);
}

static int read_spans(struct trace_reader *r, struct otel *o, struct json *j, struct err *e)
{
	bool first = true;
	while (json_item(j, &first)) {
		if (mem_grow((void **)&o->calls, &o->cap_calls, o->n_calls + 1, sizeof *o->calls))
			return err_no_memory(e, "spans");
		if (next_byte(j) != '{')
			return otel_bad(r, o->n_calls + 1, "is no object", e);
		int code = read_span(r, o, &o->calls[o->n_calls], j, e);
		if (code)
			return code;
		o->n_calls++;
	}
	return ERR_NONE;
}

int otel_parse(struct trace_reader *r, struct otel *o, char *text, size_t n, struct err *e)
{
	struct json j;
	bool first = true, found = false;
	char *key;
	o->n_calls = o->n_messages = 0;
	idmap_free(&o->ids);
	o->ids = (struct idmap){0};
	json_begin(&j, text, n);
	while (json_key(&j, &first, &key, &n)) {
		if (is_key(key, n, "spans") && next_byte(&j) == '[' && !found) {
			int code = read_spans(r, o, &j, e);
			if (code)
				return code;
			found = true;
		} else if (!json_skip(&j)) {
			break;
		}
	}
	if (j.why) {
		char why[160];
		snprintf(why, sizeof why, "not valid JSON: %s", j.why);
		return otel_bad(r, 0, why, e);
	}
	return found ? ERR_NONE : otel_bad(r, 0, "has no spans", e);
}
