#include "tests/support/fuzz_trace.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/err.h"
#include "core/workload.h"

#define MUST(condition) must((condition), #condition, __LINE__)

static void must(bool holds, const char *what, int line)
{
	if (holds)
		return;
	fprintf(stderr, "fuzz_trace.c:%d: does not hold: %s\n", line, what);
	abort();
}

static void check_spec(const struct workload *w, int64_t i)
{
	const struct spec *s = &w->specs[i];
	MUST(s->prompt_tokens >= 1 && s->output_tokens >= 0 && s->max_tokens >= 0);
	MUST(s->arrival_ns >= 0 && s->session >= -1 && s->tenant >= 0);
	MUST(s->n_hashes >= 0 && s->hash_at >= 0 && s->hash_at + s->n_hashes <= w->n_hash_ids);
	MUST(s->name_at < w->names_len);
	MUST(s->n_hashes == 0 || w->seg_tokens || w->hash_block > 0);
	int64_t covered = 0;
	for (int64_t k = s->hash_at; w->seg_tokens && k < s->hash_at + s->n_hashes; k++) {
		MUST(w->seg_tokens[k] > 0);
		covered += w->seg_tokens[k];
	}
	MUST(covered <= s->prompt_tokens);
}

static void check_workload(const struct workload *w, const struct trace_report *p)
{
	int64_t last = 0, roots = 0;
	MUST(w->n > 0 && p->kept == w->n && p->rows == p->kept + p->dropped);
	for (int64_t i = 0; i < w->n; i++) {
		check_spec(w, i);
		if (w->n_parents && w->n_parents[i])
			continue;
		MUST(w->specs[i].arrival_ns >= last);
		MUST(roots++ || !w->specs[i].arrival_ns);
		last = w->specs[i].arrival_ns;
	}
	MUST(roots > 0);
	int64_t dropped = 0, total, distinct;
	for (int32_t k = 0; k < p->n_rules; k++)
		dropped += p->rules[k].rows;
	MUST(dropped == p->dropped);
	workload_ideal_hits(w, &total, &distinct, NULL);
	MUST(distinct <= total);
}

static uint64_t read_once(const struct trace_options *o, const uint8_t *data, size_t size)
{
	struct workload w;
	struct trace_report report;
	struct err e = {0};
	uint64_t hash = 0;
	workload_init(&w);
	int code = trace_load_memory("fuzz", data, size, o, &w, &report, &e);
	MUST(code == (int)e.code);
	if (code) {
		MUST(code == ERR_INPUT && e.text[0] && !strchr(e.text, '\n') && w.n == 0 && !w.specs);
	} else {
		check_workload(&w, &report);
		hash = workload_hash(&w);
	}
	workload_free(&w);
	return hash;
}

int fuzz_trace(enum trace_format format, const uint8_t *data, size_t size)
{
	struct trace_options o;
	trace_options_init(&o);
	o.format = format;
	uint64_t strict = read_once(&o, data, size);
	MUST(read_once(&o, data, size) == strict);
	/* What has no bad row is the same when they are skipped. */
	o.on_bad_row = TRACE_BAD_ROW_SKIP;
	uint64_t lenient = read_once(&o, data, size);
	MUST(!strict || lenient == strict);
	o.num_prompts = 2;
	o.hash_block = 16;
	o.keep_failed = true;
	o.sharegpt.multi_turn = true;
	read_once(&o, data, size);
	o.num_prompts = 0;
	o.format = TRACE_AUTO;
	read_once(&o, data, size);
	return 0;
}
