/* OpenTelemetry: {"trace_id", "spans": [{span_id, start_time, end_time, attributes: {...}, status}, ...]}, one such object
 * or an array of them. Each object is a workflow (a session), each span of a model call in it a request; other spans are
 * dropped. read_otel_spans.c takes an object apart, this file makes requests of its calls.
 *
 * What waits for what is seen from the times: a call comes after every call that had ended when it began, less those
 * that others of them came after already; and as long after the last one as it did. So with the recorded durations every
 * call starts when it started. The text says what prompts share: each message is a piece of content, chained over the
 * messages before it, and an answer is the piece that a later prompt has where it repeats the same messages and it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "core/rng.h"
#include "traces/read_otel.h"

enum { MOST_CALLS = 10000 }; /* of one workflow: two rounds of half as many each have 25 million links */

static uint64_t chained(uint64_t before, struct trace_span text)
{
	uint64_t h = rng_mix(before ^ trace_text_id(text.s, text.n));
	return h ? h : 1;
}

static int by_start(const void *a, const void *b)
{
	const struct otel_call *x = a, *y = b;
	if (x->start_ns != y->start_ns)
		return x->start_ns < y->start_ns ? -1 : 1;
	return x->number < y->number ? -1 : 1;
}

/* The messages as content, and how many tokens they are. */
static int add_prompt(struct trace_reader *r, const struct otel *o, const struct otel_call *c, struct trace_run *run,
		      uint64_t *chain, struct err *e)
{
	int64_t prompt = 0;
	for (int64_t i = 0; i < c->n_messages; i++) {
		struct trace_span text = o->messages[c->message_at + i];
		int64_t tokens;
		int code = trace_count_text(r, text.s, text.n, i == 0, &tokens, e);
		if (code)
			return code;
		*chain = chained(*chain, text);
		prompt += tokens;
		if (prompt > TRACE_MAX_TOKENS)
			return otel_bad(r, c->number, "has a prompt of more than 2^30 tokens", e);
		if (!tokens)
			continue;
		code = trace_run_add(r, run, *chain, tokens, e);
		if (!code)
			code = trace_keep_text(r, *chain, e);
		if (code)
			return code;
	}
	/* What the service counted is what counts. */
	return c->prompt >= 0 && c->prompt < prompt ? trace_run_cut(r, run, c->prompt, e) : ERR_NONE;
}

static int name_call(struct trace_reader *r, const struct otel *o, const struct otel_call *c, struct spec *s,
		     struct err *e)
{
	size_t room = c->id.n + 48;
	char *name = mem_alloc(room);
	if (!name)
		return err_no_memory(e, "names");
	int n = c->id.n ? snprintf(name, room, "%lld/%.*s", (long long)o->element, (int)c->id.n, c->id.s)
			: snprintf(name, room, "%lld/#%lld", (long long)o->element, (long long)c->number);
	int code = workload_add_name(r->w, name, n, &s->name_at, e);
	mem_free(name);
	return code;
}

/* Calls are in order of their start. Those it comes after: ended, and not before the latest start among the ended. */
static int link_call(struct trace_reader *r, const struct otel *o, int64_t me, int64_t first, struct spec *s,
		     struct err *e)
{
	const struct otel_call *c = &o->calls[me];
	int64_t latest_start = -1, latest_end = -1;
	for (int64_t i = 0; i < me; i++)
		if (o->calls[i].end_ns <= c->start_ns && o->calls[i].start_ns > latest_start)
			latest_start = o->calls[i].start_ns;
	for (int64_t i = 0; i < me; i++) {
		int64_t end = o->calls[i].end_ns;
		if (end > c->start_ns || end <= latest_start)
			continue;
		if (trace_link(r, first + i, r->w->n, e))
			return ERR_MEMORY;
		latest_end = end > latest_end ? end : latest_end;
	}
	s->arrival_ns = latest_end < 0 ? c->start_ns : c->start_ns - latest_end;
	if (latest_end >= 0 && s->arrival_ns > TRACE_MAX_DELAY_NS)
		return otel_bad(r, c->number, "starts more than 115 days after what came before it", e);
	return ERR_NONE;
}

static int add_call(struct trace_reader *r, const struct otel *o, int64_t i, int64_t first, struct err *e)
{
	const struct otel_call *c = &o->calls[i];
	struct trace_run run = {0};
	struct spec s;
	uint64_t chain = 0;
	int64_t output = c->output;
	/* The answer first, since the tokens counted last are the ones kept. */
	int code = output < 0 ? trace_count_text(r, c->answer.s, c->answer.n, false, &output, e) : ERR_NONE;
	if (!code)
		code = add_prompt(r, o, c, &run, &chain, e);
	if (!code)
		code = row_lengths(r, c->prompt >= 0 ? "gen_ai.usage.input_tokens" : "gen_ai.input.messages",
				   c->prompt >= 0 ? c->prompt : run.tokens, output, &s, e);
	if (!code)
		code = link_call(r, o, i, first, &s, e);
	if (!code)
		code = name_call(r, o, c, &s, e);
	if (code)
		return code;
	r->w->lengths_estimated |= !r->o.tokenizer && (c->prompt < 0 || c->output < 0);
	s.hash_at = run.at;
	s.n_hashes = run.n;
	s.output_id = c->answer.n ? chained(chain, c->answer) : 0;
	s.max_tokens = (int32_t)c->max_tokens;
	s.session = o->n_sessions;
	s.row = (int32_t)(o->rows_before + c->number < INT32_MAX ? o->rows_before + c->number : INT32_MAX);
	return workload_add(r->w, &s, e);
}

/* The calls that are asked for stay, in order of their start. */
static void choose(struct trace_reader *r, struct otel *o)
{
	int64_t kept = 0, others = 0, failed = 0;
	for (int64_t i = 0; i < o->n_calls; i++) {
		const struct otel_call *c = &o->calls[i];
		bool fails = c->is_call && c->failed && !r->o.keep_failed;
		others += !c->is_call;
		failed += fails;
		if (c->is_call && !fails)
			o->calls[kept++] = *c;
	}
	o->n_calls = kept;
	o->n_others = others;
	o->n_failed = failed;
	if (kept)
		qsort(o->calls, (size_t)kept, sizeof *o->calls, by_start);
}

static int accept(struct trace_reader *r, struct otel *o, char *text, size_t n, struct err *e)
{
	int64_t first = r->w->n, room = r->o.num_prompts > 0 ? r->o.num_prompts - first : INT64_MAX;
	int code = otel_parse(r, o, text, n, e);
	if (code)
		return code;
	int64_t spans = o->n_calls, i;
	choose(r, o);
	if (o->n_calls > MOST_CALLS)
		return otel_bad(r, 0, "has more than 10,000 model calls: too many for one workflow", e);
	for (i = 0; i < o->n_calls && i < room; i++) {
		code = add_call(r, o, i, first, e);
		if (code)
			return code;
	}
	o->cut |= i < o->n_calls;
	trace_drop(r, "not a model call", o->n_others);
	trace_drop(r, "failed call", o->n_failed);
	/* A row is a span here; row_end counts one of them. */
	o->n_sessions += i > 0;
	o->rows_before += spans;
	r->report->rows += i + o->n_others + o->n_failed - 1;
	return ERR_NONE;
}

bool detect_otel(const struct trace_head *h)
{
	return h->kind != TRACE_HEAD_CSV && trace_head_has(h, "spans");
}

int read_otel(struct trace_reader *r, struct err *e)
{
	struct otel o = {0};
	char *text;
	size_t n;
	bool stop = false;
	int code = ERR_NONE;
	r->state = &o;
	r->report->has_arrivals = true;
	while (!code && !stop) {
		code = input_element(r->in, &text, &n, e);
		if (code || !text)
			break;
		o.element++;
		struct row_mark m = row_begin(r);
		code = row_end(r, m, accept(r, &o, text, n, e), &stop, e);
	}
	r->report->stopped_early |= o.cut;
	otel_free(&o);
	return code ? code : trace_settle(r, NULL, e);
}
