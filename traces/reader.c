#include "traces/reader.h"

#include <endian.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/mem.h"
#include "core/rng.h"
#include "traces/reader_impl.h"

void trace_options_init(struct trace_options *o)
{
	*o = (struct trace_options){
		.format = TRACE_AUTO,
		.on_bad_row = TRACE_BAD_ROW_ERROR,
		.sharegpt = {.min_turns = 2, .min_prompt = 4, .min_output = 4, .max_prompt = 1024, .max_total = 2048},
	};
}

uint64_t trace_text_id(const char *s, size_t n)
{
	uint64_t h = 0x746578746964u ^ (uint64_t)n, word;
	for (; n >= 8; s += 8, n -= 8) {
		memcpy(&word, s, 8);
		h = (h ^ le64toh(word)) * 0x9fb21c651e98df25u;
		h ^= h >> 29;
	}
	word = 0;
	for (size_t k = 0; k < n; k++)
		word |= (uint64_t)(unsigned char)s[k] << 8 * k;
	h = rng_mix(rng_mix(h) ^ word);
	return h ? h : 1;
}

void trace_drop(struct trace_reader *r, const char *rule, int64_t n)
{
	struct trace_report *p = r->report;
	int32_t i = 0;
	while (i < p->n_rules && strcmp(p->rules[i].name, rule) != 0)
		i++;
	if (i == p->n_rules && i < TRACE_MAX_RULES)
		p->rules[p->n_rules++] = (struct trace_rule){rule, 0};
	if (i < TRACE_MAX_RULES)
		p->rules[i].rows += n;
	p->dropped += n;
}

void trace_note(struct trace_reader *r, const char *fmt, ...)
{
	struct trace_report *p = r->report;
	va_list ap;
	if (p->n_notes == TRACE_MAX_NOTES)
		return;
	va_start(ap, fmt);
	vsnprintf(p->notes[p->n_notes++], sizeof p->notes[0], fmt, ap);
	va_end(ap);
}

/* Text from a file as it may be shown: at most 40 bytes, no control characters. */
static void shown(const char *s, size_t n, char out[64])
{
	size_t k = 0;
	for (; k < n && k < 40; k++)
		out[k] = (unsigned char)s[k] < ' ' || s[k] == 127 ? '?' : s[k];
	/* Not in the middle of a character of several bytes. */
	while (k < n && k > 0 && ((unsigned char)s[k] & 0xc0) == 0x80)
		k--;
	strcpy(out + k, k < n ? "..." : "");
}

int trace_bad(struct trace_reader *r, int64_t line, const char *field, const char *text, size_t n, const char *why,
	      struct err *e)
{
	char value[64];
	if (!n)
		text = NULL;
	if (text)
		shown(text, n, value);
	return err_set(e, ERR_INPUT, "%s:%lld: %s%s%s%s%s%s (use --on-bad-row skip to leave such rows out)",
		       input_name(r->in), (long long)line, field ? field : "", field ? ": " : "", text ? "\"" : "",
		       text ? value : "", text ? "\" " : "", why);
}

int trace_link(struct trace_reader *r, int64_t parent, int64_t child, struct err *e)
{
	if (mem_grow((void **)&r->links, &r->cap_links, r->n_links + 1, sizeof *r->links))
		return err_no_memory(e, "dependencies");
	r->links[r->n_links++] = (struct trace_link){(int32_t)parent, (int32_t)child};
	return ERR_NONE;
}

int trace_content_kind(struct trace_reader *r, bool segments, const char *field, struct err *e)
{
	const struct workload *w = r->w;
	if (segments ? w->n_hash_ids && !w->seg_tokens : w->seg_tokens != NULL)
		return trace_bad(r, input_line_number(r->in), field, NULL, 0,
				 segments ? "cannot stand in a file whose earlier rows have hash_ids"
					  : "cannot stand in a file whose earlier rows have text or prefix",
				 e);
	return ERR_NONE;
}

int trace_session(struct trace_reader *r, const char *s, size_t n, int32_t *session, struct err *e)
{
	*session = -1;
	return n ? idmap_number(&r->sessions, s, (int64_t)n, session, e) : ERR_NONE;
}

/* "no requests are left: 12 rows read; bad row: 12" */
static int nothing_left(const struct trace_reader *r, struct err *e)
{
	char rules[512] = "";
	size_t at = 0;
	for (int32_t i = 0; i < r->report->n_rules && at < sizeof rules; i++)
		at += (size_t)snprintf(rules + at, sizeof rules - at, "%s %s: %lld", i ? "," : ";",
				       r->report->rules[i].name, (long long)r->report->rules[i].rows);
	return err_set(e, ERR_INPUT, "%s: no requests are left: %lld rows read%s%s%s", input_name(r->in),
		       (long long)r->report->rows, rules, r->report->first_bad[0] ? "; the first bad one: " : "",
		       r->report->first_bad);
}

static int read_all(struct trace_reader *r, struct err *e)
{
	struct trace_report *p = r->report;
	p->format = r->o.format;
	int code = p->format == TRACE_AUTO ? trace_detect(r->in, &p->format, e) : ERR_NONE;
	if (code)
		return code;
	p->format_name = trace_formats[p->format].name;
	code = trace_formats[p->format].read(r, e);
	if (!code)
		code = input_drain(r->in, e);
	if (code)
		return code;
	p->kept = r->w->n;
	p->zero_outputs = r->zero_outputs;
	if (r->w->n != r->n_added) {
		p->zero_outputs = 0;
		for (int64_t i = 0; i < r->w->n; i++)
			p->zero_outputs += r->w->specs[i].output_tokens == 0;
	}
	p->lengths_estimated = r->w->lengths_estimated;
	p->bytes = input_bytes(r->in);
	p->source_hash = input_hash(r->in);
	return r->w->n ? ERR_NONE : nothing_left(r, e);
}

int trace_count_text(struct trace_reader *r, const char *s, size_t n, bool first, int64_t *tokens, struct err *e)
{
	const struct trace_tokenizer *t = r->o.tokenizer;
	r->n_tokens = 0;
	if (!t) {
		*tokens = trace_estimate_tokens(s, n);
		return ERR_NONE;
	}
	int code = t->encode(t->ctx, s, n, first, &r->tokens, &r->n_tokens, &r->cap_tokens, e);
	*tokens = r->n_tokens;
	return code;
}

int trace_keep_text(struct trace_reader *r, uint64_t id, struct err *e)
{
	return r->o.tokenizer ? workload_add_text(r->w, id, r->tokens, r->n_tokens, e) : ERR_NONE;
}

static int load(struct input *in, const struct trace_options *o, struct workload *w, struct trace_report *report,
		struct err *e)
{
	struct trace_report unused;
	struct trace_reader r = {.in = in, .w = w, .report = report ? report : &unused};
	struct err local = {ERR_NONE, ""};
	if (o)
		r.o = *o;
	else
		trace_options_init(&r.o);
	memset(r.report, 0, sizeof *r.report);
	/* Rows that are skipped need an error to clear, whether the caller gave one or not. */
	int code = read_all(&r, &local);
	if (code) {
		err_set(e, local.code, "%s", local.text);
		workload_free(w);
	}
	idmap_free(&r.sessions);
	mem_free(r.links);
	mem_free(r.names);
	mem_free(r.tokens);
	workload_sort_texts(w);
	input_close(in);
	return code;
}

int trace_load(const char *path, const struct trace_options *o, struct workload *w, struct trace_report *report,
	       struct err *e)
{
	struct input *in;
	int code = input_open(&in, path, e);
	return code ? code : load(in, o, w, report, e);
}

int trace_load_memory(const char *name, const void *bytes, size_t n, const struct trace_options *o, struct workload *w,
		      struct trace_report *report, struct err *e)
{
	struct input *in;
	int code = input_open_memory(&in, name, bytes, n, e);
	return code ? code : load(in, o, w, report, e);
}
