/* Which format a file has, by its first row; the table of formats. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "traces/reader_impl.h"
#include "traces/scan.h"

const struct trace_format_info trace_formats[TRACE_FORMATS] = {
	[TRACE_SHAREGPT] = {"sharegpt", "ShareGPT JSON: [{id, conversations: [{from, value}]}]; text, no arrivals",
			    detect_sharegpt, read_sharegpt},
	[TRACE_AZURE] = {"azure", "Azure 2023/2024 CSV: TIMESTAMP,ContextTokens,GeneratedTokens; dates", detect_azure,
			 read_azure},
	[TRACE_BURSTGPT] = {"burstgpt", "BurstGPT CSV: Timestamp, Request tokens, Response tokens; seconds",
			    detect_burstgpt, read_burstgpt},
	[TRACE_VIDUR] = {"vidur", "Vidur CSV: [arrived_at],num_prefill_tokens,num_decode_tokens; seconds", detect_vidur,
			 read_vidur},
	[TRACE_BAILIAN] = {"bailian",
			   "Qwen-Bailian JSONL: chat_id, parent_chat_id, timestamp, lengths, hash_ids; seconds",
			   detect_bailian, read_bailian},
	[TRACE_LOCKSTEP] = {"lockstep", "lockstep JSONL: id, arrival_s, input_tokens, output_tokens, after; seconds",
			    detect_lockstep, read_lockstep},
	[TRACE_MOONCAKE] = {"mooncake",
			    "Mooncake JSONL: timestamp, input_length, output_length, hash_ids; milliseconds",
			    detect_mooncake, read_mooncake},
	[TRACE_AIPERF] = {"aiperf",
			  "AIPerf / vLLM custom JSONL: prompt, text or input_length, output_tokens or output_length, "
			  "timestamp or delay, session_id; milliseconds",
			  detect_aiperf, read_aiperf},
	[TRACE_TOT] = {"tot",
		       "Tree-of-Thoughts CSV: problem,node,parent_node,chars_new; characters, estimated as tokens; no "
		       "arrivals",
		       detect_tot, read_tot},
	[TRACE_OPENHANDS] = {"openhands",
			     "OpenHands rounds CSV: session,round,prompt_tokens,completion_tokens,tool_ms; "
			     "milliseconds, no arrivals",
			     detect_openhands, read_openhands},
	[TRACE_TRACELAB] = {"tracelab",
			    "TraceLab CSV: session_id,arrival_time,round_idx,prefix_len,input_len,output_len,"
			    "tool_wait_after_ms; milliseconds",
			    detect_tracelab, read_tracelab},
	[TRACE_OTEL] = {"otel", "OpenTelemetry spans of model calls, JSON: [{spans: [...]}]; text, dates", detect_otel,
			read_otel},
};

/* Levenshtein's distance, letter case apart, for names of up to 31 letters. */
static int distance(const char *a, const char *b)
{
	int row[32], n = (int)strlen(b);
	if (n > 31 || strlen(a) > 31)
		return 99;
	for (int j = 0; j <= n; j++)
		row[j] = j;
	for (int i = 1; a[i - 1]; i++) {
		int diagonal = row[0];
		row[0] = i;
		for (int j = 1; j <= n; j++) {
			int cost = diagonal + (strncasecmp(&a[i - 1], &b[j - 1], 1) != 0);
			diagonal = row[j];
			int best = row[j] < row[j - 1] ? row[j] + 1 : row[j - 1] + 1;
			row[j] = best < cost ? best : cost;
		}
	}
	return row[n];
}

int trace_format_find(const char *name, enum trace_format *format, struct err *e)
{
	char near[128] = "", all[256] = "auto";
	if (!strcasecmp(name, "auto")) {
		*format = TRACE_AUTO;
		return ERR_NONE;
	}
	for (int i = 0; i < TRACE_FORMATS; i++) {
		const char *known = trace_formats[i].name;
		if (!strcasecmp(name, known)) {
			*format = (enum trace_format)i;
			return ERR_NONE;
		}
		size_t at = strlen(all);
		snprintf(all + at, sizeof all - at, ", %s", known);
		at = strlen(near);
		if (distance(name, known) <= 2 || (strlen(name) >= 3 && !strncasecmp(name, known, strlen(name))))
			snprintf(near + at, sizeof near - at, "%s%s", at ? " or " : "; did you mean ", known);
	}
	return err_set(e, ERR_INPUT, "unknown trace format \"%.40s\"%s%s; formats: %s", name, near, near[0] ? "?" : "",
		       all);
}

bool trace_head_has(const struct trace_head *h, const char *name)
{
	for (int i = 0; i < h->n_names; i++)
		if (h->kind == TRACE_HEAD_CSV ? !strcasecmp(h->names[i], name) : !strcmp(h->names[i], name))
			return true;
	return false;
}

static void add_name(struct trace_head *h, const char *s, size_t n)
{
	if (h->n_names == 64)
		return;
	while (n && (*s == ' ' || *s == '"'))
		s++, n--;
	while (n && (s[n - 1] == ' ' || s[n - 1] == '"' || s[n - 1] == '\r'))
		n--;
	snprintf(h->names[h->n_names++], sizeof h->names[0], "%.*s", (int)(n < 63 ? n : 63), s);
}

/* The end of the string that starts at the quote p, or NULL when the text ends first. */
static const char *string_end(const char *p, const char *end)
{
	for (p++; p < end; p++) {
		if (*p == '\\')
			p++;
		else if (*p == '"')
			return p;
	}
	return NULL;
}

/* Keys of the object at p, as far as the text goes: a prompt may be longer than what is there to see. */
static void head_keys(struct trace_head *h, const char *p, const char *end)
{
	int depth = 0;
	bool key_next = false;
	for (; p < end; p++) {
		if (*p == '"') {
			const char *q = string_end(p, end);
			if (!q)
				return;
			if (depth == 1 && key_next)
				add_name(h, p + 1, (size_t)(q - p - 1));
			key_next = false;
			p = q;
		} else if (*p == '{' || *p == '[') {
			depth++;
			key_next = depth == 1;
		} else if (*p == '}' || *p == ']') {
			if (--depth <= 0)
				return;
		} else if (*p == ',' && depth == 1) {
			key_next = true;
		}
	}
}

static void head_columns(struct trace_head *h, const char *p, const char *end)
{
	const char *stop = memchr(p, '\n', (size_t)(end - p));
	if (stop)
		end = stop;
	while (p <= end && h->n_names < 64) {
		const char *comma = memchr(p, ',', (size_t)(end - p));
		const char *to = comma ? comma : end;
		add_name(h, p, (size_t)(to - p));
		p = to + 1;
	}
}

static const char *skip_space(const char *p, const char *end)
{
	while (p < end && (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t'))
		p++;
	return p;
}

static int unknown(const struct input *in, const struct trace_head *h, struct err *e)
{
	char names[200] = "";
	for (int i = 0; i < h->n_names; i++) {
		size_t at = strlen(names);
		char clean[64];
		size_t k = 0;
		for (; h->names[i][k]; k++)
			clean[k] = (unsigned char)h->names[i][k] < ' ' ? '?' : h->names[i][k];
		clean[k] = '\0';
		snprintf(names + at, sizeof names - at, "%s%s", i ? ", " : "", clean);
	}
	return err_set(e, ERR_INPUT,
		       "%s: no trace format is recognized by its first row (%s: %s); --format names one: %s",
		       input_name(in), h->kind == TRACE_HEAD_CSV ? "columns" : "keys", names,
		       "sharegpt, azure, burstgpt, vidur, bailian, lockstep, mooncake, aiperf, tot, openhands, "
		       "tracelab, otel");
}

int trace_detect(struct input *in, enum trace_format *format, struct err *e)
{
	const char *p;
	size_t n;
	int code = input_peek(in, &p, &n, e);
	if (code)
		return code;
	const char *end = p + n;
	p = skip_space(p, end);
	if (p == end)
		return err_set(e, ERR_INPUT, "%s: the file is empty", input_name(in));
	struct trace_head h = {.kind = TRACE_HEAD_CSV};
	if (*p == '[') {
		h.kind = TRACE_HEAD_ARRAY;
		head_keys(&h, skip_space(p + 1, end), end);
	} else if (*p == '{') {
		h.kind = TRACE_HEAD_OBJECTS;
		head_keys(&h, p, end);
	} else {
		head_columns(&h, p, end);
	}
	for (int i = 0; i < TRACE_FORMATS; i++)
		if (trace_formats[i].detect(&h)) {
			*format = (enum trace_format)i;
			return ERR_NONE;
		}
	return unknown(in, &h, e);
}
