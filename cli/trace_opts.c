#include "cli/trace_opts.h"

#include <string.h>

#include "core/err.h"
#include "core/mem.h"
#include "core/near.h"
#include "exec/tokenizer.h"
#include "traces/generate.h"
#include "traces/reader.h"
#include "traces/samples.h"
#include "traces/shape.h"

const char *const trace_bad_row_choices[] = {"error", "skip", NULL};

#define SAMPLE_PREFIX "sample:"
#define RANDOM_PROMPTS 1000 /* vLLM's default of --num-prompts */

void trace_opts_default(struct trace_opts *o)
{
	struct trace_options r;
	struct shape s;
	trace_options_init(&r);
	shape_default(&s);
	*o = (struct trace_opts){
		.on_bad_row = (int32_t)r.on_bad_row,
		.sharegpt_min_turns = r.sharegpt.min_turns,
		.sharegpt_min_prompt = r.sharegpt.min_prompt,
		.sharegpt_min_output = r.sharegpt.min_output,
		.sharegpt_max_prompt = r.sharegpt.max_prompt,
		.sharegpt_max_total = r.sharegpt.max_total,
		.random_input_len = 1024,
		.random_output_len = 128,
		.burstiness = s.burstiness,
		.replay_speedup = s.replay_speedup,
		.length_scale = s.length_scale,
		.samples = s.samples,
		.beam_width = 1,
		.beam_every = s.beam_every,
	};
}

static bool is_random(const struct trace_opts *o)
{
	return o->dataset_name && !strcmp(o->dataset_name, "random");
}

static const char *sample_name(const struct trace_opts *o)
{
	bool yes = o->dataset_name && !strncmp(o->dataset_name, SAMPLE_PREFIX, strlen(SAMPLE_PREFIX));
	return yes ? o->dataset_name + strlen(SAMPLE_PREFIX) : NULL;
}

/* vLLM's names of data sets that are ours of formats: "custom" is a JSONL of prompts. */
static const char *format_of_dataset(const struct trace_opts *o)
{
	if (!o->dataset_name || is_random(o) || sample_name(o))
		return "auto";
	return !strcmp(o->dataset_name, "custom") ? "aiperf" : o->dataset_name;
}

/* A --dataset-name that is nothing: list what it could have been. */
static int check_name(const struct trace_opts *o, struct err *e)
{
	enum trace_format format;
	struct near_match near;
	char text[160], sample[32];
	const char *wanted = sample_name(o);
	if (wanted && !sample_find(wanted)) {
		near_begin(&near, wanted);
		for (int i = 0; sample_at(i); i++)
			near_offer(&near, sample_at(i)->name);
		return err_set(e, ERR_INPUT, "--dataset-name: there is no sample \"%s\"%s", wanted,
			       near_text(&near, text, sizeof text));
	}
	if (!trace_format_find(format_of_dataset(o), &format, NULL))
		return ERR_NONE;
	near_begin(&near, o->dataset_name);
	for (int i = 0; i < TRACE_FORMATS; i++)
		near_offer(&near, trace_formats[i].name);
	near_offer(&near, "random");
	near_offer(&near, "custom");
	snprintf(sample, sizeof sample, SAMPLE_PREFIX "%s", "azure");
	near_offer(&near, sample);
	return err_set(e, ERR_INPUT, "--dataset-name: \"%s\" is not known%s", o->dataset_name,
		       near_text(&near, text, sizeof text));
}

int trace_opts_reader(const struct trace_opts *o, struct trace_options *out, struct err *e)
{
	trace_options_init(out);
	int code = check_name(o, e);
	if (!code)
		code = trace_format_find(o->format ? o->format : format_of_dataset(o), &out->format, e);
	out->on_bad_row = (enum trace_bad_row)o->on_bad_row;
	out->hash_block = o->hash_block_size;
	out->keep_failed = o->keep_failed;
	out->sharegpt = (struct trace_sharegpt_options){
		.min_turns = o->sharegpt_min_turns,
		.min_prompt = o->sharegpt_min_prompt,
		.min_output = o->sharegpt_min_output,
		.max_prompt = o->sharegpt_max_prompt,
		.max_total = o->sharegpt_max_total,
		.multi_turn = o->sharegpt_multi_turn,
	};
	return code;
}

int trace_opts_shape(const struct trace_opts *o, struct shape *out, struct err *e)
{
	shape_default(out);
	out->num_prompts = o->num_prompts;
	out->request_rate = o->request_rate;
	out->burstiness = o->burstiness;
	out->replay_speedup = o->replay_speedup;
	out->length_scale = o->length_scale;
	out->samples = o->samples;
	out->beam_width = o->beam_width;
	out->beam_every = o->beam_every;
	out->seed = o->seed;
	return o->max_tokens_mode ? shape_parse_max_tokens(o->max_tokens_mode, out, e) : ERR_NONE;
}

const char *trace_opts_name(const struct trace_opts *o)
{
	if (is_random(o) || sample_name(o))
		return o->dataset_name;
	return o->dataset_path ? o->dataset_path : "";
}

/* vLLM's random data set: lengths uniform around the asked ones, after a prefix all prompts share. */
static int make_random(const struct trace_opts *o, struct workload *w, struct trace_report *report, struct err *e)
{
	double r = o->random_range_ratio;
	struct generate g;
	generate_default(&g);
	g.n = o->num_prompts ? o->num_prompts : RANDOM_PROMPTS;
	g.seed = o->seed;
	g.arrivals = ARRIVALS_AT_ONCE;
	g.system_tokens = o->random_prefix_len;
	g.input = (struct dist){
		.kind = DIST_UNIFORM, .a = o->random_input_len * (1 - r), .b = o->random_input_len * (1 + r)};
	g.output = (struct dist){
		.kind = DIST_UNIFORM, .a = o->random_output_len * (1 - r), .b = o->random_output_len * (1 + r)};
	report->format_name = "random";
	int code = generate_workload(w, &g, e);
	report->rows = report->kept = w->n;
	return code;
}

/* Reads a file no further than its first num_prompts requests, if they are the first to arrive for sure: files without
 * times keep their order, and any other is read whole. (A pipe cannot be read twice.) */
static int read_file(const struct trace_opts *o, const struct trace_options *r, struct workload *w,
		     struct trace_report *report, struct err *e)
{
	if (o->num_prompts && strcmp(o->dataset_path, "-") != 0) {
		struct trace_options some = *r;
		some.num_prompts = o->num_prompts;
		if (!trace_load(o->dataset_path, &some, w, report, NULL)) {
			if (!report->has_arrivals || !report->stopped_early)
				return ERR_NONE;
			workload_free(w);
		}
		memset(report, 0, sizeof *report);
	}
	return trace_load(o->dataset_path, r, w, report, e);
}

static int read_trace(const struct trace_opts *o, const struct trace_options *r, struct workload *w,
		      struct trace_report *report, struct err *e)
{
	const char *sample = sample_name(o);
	memset(report, 0, sizeof *report);
	if (o->dataset_path && (is_random(o) || sample))
		return err_set(e, ERR_INPUT, "--dataset-name %s needs no file, but \"%s\" is given", o->dataset_name,
			       o->dataset_path);
	if (is_random(o))
		return make_random(o, w, report, e);
	if (sample) {
		const struct sample *s = sample_find(sample);
		return trace_load_memory(o->dataset_name, s->bytes, s->size, r, w, report, e);
	}
	if (!o->dataset_path)
		return err_set(
			e, ERR_INPUT,
			"no trace given: name a file, or use --dataset-name random or --dataset-name sample:azure");
	return read_file(o, r, w, report, e);
}

/* A tokenizer as readers want it; they hand over text without an end. */
struct counting {
	struct tokenizer *tokenizer;
	char *text;
	int64_t cap;
};

static int encode(void *ctx, const char *s, size_t n, bool first, int32_t **ids, int64_t *count, int64_t *cap,
		  struct err *e)
{
	struct counting *c = ctx;
	if (mem_grow((void **)&c->text, &c->cap, (int64_t)n + 1, 1))
		return err_no_memory(e, "text to tokenize");
	memcpy(c->text, s, n);
	c->text[n] = '\0';
	return tokenizer_encode(c->tokenizer, c->text, first, ids, count, cap, e);
}

int trace_opts_read(const struct trace_opts *o, struct workload *w, struct trace_report *report, struct err *e)
{
	struct trace_options r;
	struct counting c = {0};
	const struct trace_tokenizer t = {.encode = encode, .ctx = &c};
	int code = trace_opts_reader(o, &r, e);
	if (!code && o->tokenizer) {
		code = tokenizer_open(&c.tokenizer, o->tokenizer, 0, e);
		r.tokenizer = &t;
	}
	if (!code)
		code = read_trace(o, &r, w, report, e);
	tokenizer_close(c.tokenizer);
	mem_free(c.text);
	return code;
}

int trace_opts_load(const struct trace_opts *o, struct workload *w, struct trace_report *report, struct err *e)
{
	struct shape s;
	int code = trace_opts_shape(o, &s, e);
	if (!code)
		code = trace_opts_read(o, w, report, e);
	if (!code)
		code = shape_apply(w, &s, e);
	if (code)
		workload_free(w);
	return code;
}
