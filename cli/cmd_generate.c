/* lockstep generate: continues one prompt on real kernels, and says how fast. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analysis/generate.h"
#include "analysis/jout.h"
#include "analysis/run_exec.h"
#include "analysis/text.h"
#include "cli/command.h"
#include "core/err.h"
#include "core/mem.h"
#include "exec/tokenizer.h"
#include "exec/weights.h"

enum { DEFAULT_NEW = 256, PROMPT_CHUNK = 512 };

struct generate_opts {
	const char *weights, *model, *tokenizer, *prompt, *prompt_ids;
	int32_t steps, max_tokens;
	double temperature, top_p;
	int32_t top_k;
	uint64_t seed;
	const char *weight_dtype, *kv_cache_dtype, *compare_weights, *compare_kv;
	bool kv_cache, ignore_eos, batch_invariant;
	int32_t block_size, threads;
	const char *isa;
	bool json, quiet;
};

#define AT(f) .offset = offsetof(struct generate_opts, f)

static const struct opt opts[] = {
	{.name = "The model", .type = OPT_TITLE},
	{.name = "weights",
	 .type = OPT_STRING,
	 AT(weights),
	 .arg = "WEIGHTS",
	 .help = "A .bin of llama2.c, a file of safetensors or a folder with such files, or random:SEED. Default "
		 "random:1."},
	{.name = "model",
	 .type = OPT_STRING,
	 AT(model),
	 .arg = "MODEL",
	 .help = "A name (`lockstep capacity --list`) or the path of a config.json. Default: what the weights say "
		 "themselves (the .bin's header, config.json beside the safetensors)."},
	{.name = "tokenizer",
	 .type = OPT_STRING,
	 AT(tokenizer),
	 .arg = "FILE",
	 .help = "tokenizer.bin of llama2.c or SentencePiece's tokenizer.model. Default: tokenizer.model beside the "
		 "safetensors, if there; else token ids are printed."},
	{.name = "weight-dtype",
	 .type = OPT_STRING,
	 AT(weight_dtype),
	 .arg = "TYPE",
	 .help = "How matrices are held: auto (default: as the model's config says; fp16 becomes bf16), fp32, bf16 or "
		 "int8 (one scale per output channel)."},
	{.name = "kv-cache-dtype",
	 .type = OPT_STRING,
	 AT(kv_cache_dtype),
	 .arg = "TYPE",
	 .help = "How the KV cache is held: auto (default: fp32 for fp32 weights, else bf16), fp32, bf16 or int8 (one "
		 "scale per token and head)."},
	{.name = "What it says", .type = OPT_TITLE},
	{.name = "prompt",
	 .type = OPT_STRING,
	 AT(prompt),
	 .arg = "TEXT",
	 .help = "Text to go on from; needs a tokenizer, whose beginning-of-text token comes first. Default: nothing "
		 "but "
		 "that token."},
	{.name = "prompt-ids",
	 .type = OPT_STRING,
	 AT(prompt_ids),
	 .arg = "ID,ID,...",
	 .help = "Token ids to go on from, exactly these."},
	{.name = "steps",
	 .letter = 'n',
	 .type = OPT_INT32,
	 AT(steps),
	 .arg = "N",
	 .min = 1,
	 .max = 1 << 30,
	 .help = "Positions to compute, the prompt's included, as llama2.c's run -n counts them."},
	{.name = "max-tokens",
	 .type = OPT_INT32,
	 AT(max_tokens),
	 .arg = "N",
	 .min = 1,
	 .max = 1 << 30,
	 .help = "Tokens to sample, instead of --steps. Default 256, or as many as the model has positions for."},
	{.name = "ignore-eos",
	 .type = OPT_FLAG,
	 AT(ignore_eos),
	 .help = "Go on after tokens that end a text (for llama2.c's models also the one that begins the next)."},
	{.name = "temperature",
	 .type = OPT_DOUBLE,
	 AT(temperature),
	 .arg = "T",
	 .min = 0,
	 .max = 100,
	 .help = "0 (default): the likeliest token, always. Logits are divided by T."},
	{.name = "top-k",
	 .type = OPT_INT32,
	 AT(top_k),
	 .arg = "N",
	 .min = 0,
	 .max = 1 << 30,
	 .help = "Sample from the N likeliest. Default 0: all."},
	{.name = "top-p",
	 .type = OPT_DOUBLE,
	 AT(top_p),
	 .arg = "P",
	 .min = 1e-9,
	 .max = 1,
	 .help = "Sample from the likeliest that together have probability P. Default 1: all."},
	{.name = "seed", .type = OPT_UINT64, AT(seed), .arg = "N", .help = "Of the sampling. Default 0."},
	{.name = "How it runs", .type = OPT_TITLE},
	{.name = "kv-cache",
	 .type = OPT_ONOFF,
	 AT(kv_cache),
	 .help = "off computes the whole text again for every token. Default on."},
	{.name = "block-size",
	 .type = OPT_INT32,
	 AT(block_size),
	 .arg = "N",
	 .min = 1,
	 .max = 4096,
	 .help = "Tokens per page of the KV cache. Default 16."},
	{.name = "threads",
	 .type = OPT_INT32,
	 AT(threads),
	 .arg = "N",
	 .min = 0,
	 .max = 1024,
	 .help = "Default 0: all there are."},
	{.name = "isa",
	 .type = OPT_STRING,
	 AT(isa),
	 .arg = "base|avx2|avx512",
	 .help = "Instruction set of our kernels. Default: the best this machine has."},
	{.name = "batch-invariant",
	 .type = OPT_FLAG,
	 AT(batch_invariant),
	 .help = "Use kernels whose results do not depend on how many tokens are computed at once, to the last bit."},
	{.name = "What it costs", .type = OPT_TITLE},
	{.name = "compare-weights",
	 .type = OPT_STRING,
	 AT(compare_weights),
	 .arg = "TYPE",
	 .help = "Also run with weights held so, and tell how much logits and greedy tokens differ: what "
		 "--weight-dtype "
		 "int8 costs against bf16, say."},
	{.name = "compare-kv",
	 .type = OPT_STRING,
	 AT(compare_kv),
	 .arg = "TYPE",
	 .help = "The same for the KV cache. Of the two, what is not given is as in the run itself."},
	{.name = "json", .type = OPT_FLAG, AT(json), .help = "Print one JSON object instead of the text."},
	{.name = "quiet", .letter = 'q', .type = OPT_FLAG, AT(quiet), .help = "Say nothing on stderr but errors."},
};

/* All of one call. */
struct job {
	const struct generate_opts *o;
	struct model model;
	struct tokenizer *tokenizer; /* NULL: ids */
	int32_t *prompt;
	int64_t n_prompt, cap_prompt;
	struct generate_setup setup;
	struct generation g;
	struct likeness like;
	bool compared;
	const char *compare_weights, *compare_kv; /* as resolved */
	int32_t previous; /* the token printed last; -1 = none */
	char *text; /* [n_text] for JSON */
	int64_t n_text, cap_text;
	bool no_memory;
};

/* ---- what is asked for ------------------------------------------------------------------------------------------- */

static int load_model(struct job *j, struct err *e)
{
	const struct generate_opts *o = j->o;
	if (!o->model && !o->weights)
		return err_set(e, ERR_INPUT,
			       "of what? Give --weights (a .bin of llama2.c, safetensors), or --model for random ones");
	int rc = o->model ? model_load(&j->model, o->model, e) : weights_model(o->weights, &j->model, e);
	if (!rc && j->model.numerics.unsupported[0])
		rc = err_set(e, ERR_INPUT, "%s cannot be run here: %s (it can be simulated)", j->model.name,
			     j->model.numerics.unsupported);
	return rc;
}

/* --tokenizer, or tokenizer.model where the weights are. */
static int open_tokenizer(struct job *j, struct err *e)
{
	char path[1024];
	struct stat st;
	const char *given = j->o->tokenizer, *weights = j->o->weights;
	if (given)
		return tokenizer_open(&j->tokenizer, given, j->model.vocab, e);
	if (!weights || j->o->prompt_ids || stat(weights, &st) != 0 || !S_ISDIR(st.st_mode) ||
	    snprintf(path, sizeof path, "%s/tokenizer.model", weights) >= (int)sizeof path || access(path, R_OK) != 0)
		return ERR_NONE;
	return tokenizer_open(&j->tokenizer, path, j->model.vocab, e);
}

static int add_id(struct job *j, int32_t id, struct err *e)
{
	if (mem_grow((void **)&j->prompt, &j->cap_prompt, j->n_prompt + 1, sizeof *j->prompt))
		return err_no_memory(e, "the prompt");
	j->prompt[j->n_prompt++] = id;
	return ERR_NONE;
}

static int parse_ids(struct job *j, const char *text, struct err *e)
{
	for (const char *at = text;;) {
		char *end;
		errno = 0;
		long id = strtol(at, &end, 10);
		if (end == at || errno || id < 0 || id >= j->model.vocab || (*end && *end != ','))
			return err_set(e, ERR_INPUT,
				       "--prompt-ids \"%.100s\": write ids from 0 to %d with commas between them", text,
				       j->model.vocab - 1);
		int rc = add_id(j, (int32_t)id, e);
		if (rc || !*end)
			return rc;
		at = end + 1;
	}
}

static int make_prompt(struct job *j, struct err *e)
{
	const struct generate_opts *o = j->o;
	if (o->prompt && o->prompt_ids)
		return err_set(e, ERR_INPUT, "--prompt and --prompt-ids are both given: which of them?");
	if (o->prompt_ids)
		return parse_ids(j, o->prompt_ids, e);
	if (o->prompt && !j->tokenizer)
		return err_set(e, ERR_INPUT, "--prompt needs a --tokenizer (or give --prompt-ids)");
	if (j->tokenizer) {
		int rc = tokenizer_encode(j->tokenizer, o->prompt ? o->prompt : "", true, &j->prompt, &j->n_prompt,
					  &j->cap_prompt, e);
		if (rc || j->n_prompt)
			return rc;
	}
	if (!j->tokenizer && j->model.numerics.bos >= 0)
		return add_id(j, j->model.numerics.bos, e);
	return err_set(e, ERR_INPUT, "there is no token that begins a text: give --prompt%s",
		       j->tokenizer ? "" : "-ids");
}

/* How many tokens to sample: positions of the model are the limit. */
static int count_new(struct job *j, int32_t *n_new, struct err *e)
{
	const struct generate_opts *o = j->o;
	int64_t room = (int64_t)j->model.max_len - j->n_prompt + 1;
	if (o->steps && o->max_tokens)
		return err_set(e, ERR_INPUT, "--steps and --max-tokens are both given: which of them?");
	if (room < 1)
		return err_set(e, ERR_INPUT, "the prompt has %lld tokens, and %s %d positions", (long long)j->n_prompt,
			       j->model.name, j->model.max_len);
	int64_t want = o->steps ? o->steps - j->n_prompt + 1 : o->max_tokens ? o->max_tokens : DEFAULT_NEW;
	if (want < 1)
		return err_set(e, ERR_INPUT, "-n %d is less than the prompt's %lld tokens", o->steps,
			       (long long)j->n_prompt);
	if (want > room && (o->steps || o->max_tokens))
		return err_set(e, ERR_INPUT, "%s has %d positions, the prompt %lld tokens: at most %s %lld",
			       j->model.name, j->model.max_len, (long long)j->n_prompt,
			       o->steps ? "-n" : "--max-tokens", (long long)(o->steps ? j->model.max_len : room));
	*n_new = (int32_t)(want < room ? want : room);
	return ERR_NONE;
}

static int formats(const struct model *m, const char *weights, const char *kv, enum num *weight_type, enum num *kv_type,
		   struct err *e)
{
	struct weight_format asked, w;
	enum kv_dtype k;
	int rc = weight_format_parse(weights, &asked, e);
	if (!rc)
		rc = model_weight_format(m, &asked, &w, e);
	if (!rc)
		rc = kv_dtype_parse(kv, &k, e);
	return rc ? rc : run_exec_formats(&w, k, weight_type, kv_type, e);
}

static void tell_prompt(void *ctx);
static void tell(void *ctx, int32_t token);

static int prepare(struct job *j, struct err *e)
{
	const struct generate_opts *o = j->o;
	struct generate_setup *s = &j->setup;
	int rc = load_model(j, e);
	if (!rc)
		rc = open_tokenizer(j, e);
	if (!rc)
		rc = make_prompt(j, e);
	*s = (struct generate_setup){.model = &j->model,
				     .executor = {.backend = "cpu",
						  .weights = o->weights,
						  .threads = o->threads,
						  .isa = o->isa,
						  .batch_invariant = o->batch_invariant,
						  .block_size = o->block_size,
						  .kv_off = !o->kv_cache,
						  .sampling = {o->temperature, o->top_k, o->top_p, o->seed}},
				     .prompt = j->prompt,
				     .n_prompt = (int32_t)j->n_prompt,
				     .eos = j->model.numerics.eos,
				     .n_eos = o->ignore_eos ? 0 : j->model.numerics.n_eos,
				     .chunk = PROMPT_CHUNK,
				     .stop = stop_flag(),
				     .loaded = tell_prompt,
				     .token = tell,
				     .ctx = j};
	if (!rc)
		rc = count_new(j, &s->n_new, e);
	if (!rc)
		rc = formats(&j->model, o->weight_dtype, o->kv_cache_dtype, &s->executor.weight_type,
			     &s->executor.kv_type, e);
	return rc;
}

/* ---- what is printed --------------------------------------------------------------------------------------------- */

/* Text as the terminal may have it: of control characters only white space. */
static void put_text(struct job *j, const char *p, int32_t n)
{
	for (int32_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)p[i];
		if ((c < ' ' && c != '\n' && c != '\t' && c != '\r') || c == 0x7f)
			continue;
		if (!j->o->json)
			putchar(c);
		else if (mem_grow((void **)&j->text, &j->cap_text, j->n_text + 2, 1))
			j->no_memory = true;
		else
			j->text[j->n_text++] = (char)c;
	}
}

static void tell(void *ctx, int32_t token)
{
	struct job *j = ctx;
	int32_t len = 0;
	const char *p = j->tokenizer ? tokenizer_piece(j->tokenizer, j->previous, token, &len) : NULL;
	if (p)
		put_text(j, p, len);
	else if (!j->o->json)
		printf("%s%d", j->previous < 0 ? "" : " ", token);
	if (!j->o->json)
		fflush(stdout);
	j->previous = token;
}

/* The text begins with the prompt, as llama2.c's run prints it; the token that begins a text is none of it. */
static void tell_prompt(void *ctx)
{
	struct job *j = ctx;
	for (int64_t i = 0; i < j->n_prompt; i++) {
		if (j->tokenizer && i == 0 && j->prompt[0] == tokenizer_bos(j->tokenizer))
			j->previous = j->prompt[0];
		else
			tell(j, j->prompt[i]);
	}
}

/* To a file goes the text and nothing else. */
static void end_text(const struct job *j)
{
	if (!j->o->json && (!j->tokenizer || isatty(STDOUT_FILENO)))
		putchar('\n');
	fflush(stdout);
}

static double rate(int32_t n, double s)
{
	return s > 0 ? n / s : 0;
}

static void print_summary(const struct job *j)
{
	const struct generation *g = &j->g;
	const struct executor_setup *x = &j->setup.executor;
	char a[TEXT_NUMBER], b[TEXT_NUMBER], c[TEXT_NUMBER], d[TEXT_NUMBER];
	fprintf(stderr, "%s: %s, held in %s (%.1f MB), KV in %s; %s\n", j->model.name, g->weights_what,
		num_names[x->weight_type], (double)g->weight_bytes / 1e6, num_names[x->kv_type], g->what);
	fprintf(stderr, "prompt: %d tokens in %s ms, %s tokens/s", g->prefill_tokens,
		text_value(g->prefill_s * 1e3, "ms", a),
		text_value(rate(g->prefill_tokens, g->prefill_s), "tokens/s", b));
	if (g->decode_tokens > 0)
		fprintf(stderr, "; then %d in %s ms, %s tokens/s", g->decode_tokens,
			text_value(g->decode_s * 1e3, "ms", c),
			text_value(rate(g->decode_tokens, g->decode_s), "tokens/s", d));
	fprintf(stderr, "%s\n", g->end == END_EOS ? "; ended by itself" : g->end == END_STOPPED ? "; interrupted" : "");
}

/* The two, each going its own way: how many tokens are the same until they part; -1: they were not run so. */
static int32_t alike(const struct job *j)
{
	const struct likeness *l = &j->like;
	int32_t n = 0;
	if (j->o->temperature > 0)
		return -1;
	while (n < l->steps && n < j->g.n && l->tokens[n] == j->g.tokens[n])
		n++;
	return n;
}

static void print_likeness(const struct job *j)
{
	const struct likeness *l = &j->like;
	const struct executor_setup *x = &j->setup.executor;
	int32_t same = alike(j);
	fprintf(stderr,
		"%s weights and %s KV against %s and %s: logits differ by %.3g (relative norm; in the worst step "
		"%.3g), the "
		"greedy token is the same in %d of %d steps (%.1f %%)",
		num_names[x->weight_type], num_names[x->kv_type], j->compare_weights, j->compare_kv, l->error, l->worst,
		l->agree, l->steps, 100.0 * l->agree / l->steps);
	if (same >= 0)
		fprintf(stderr, "; each by itself, the first %d tokens are the same", same);
	fputc('\n', stderr);
}

/* Bytes that are no UTF-8 become U+FFFD. */
static bool make_valid(struct job *j)
{
	char *out = mem_alloc((size_t)j->n_text * 3 + 1);
	int64_t n = 0, len;
	if (!out)
		return false;
	for (int64_t at = 0; at < j->n_text; at += len) {
		const unsigned char *c = (const unsigned char *)j->text + at;
		int64_t want = c[0] < 0x80                   ? 1
			       : c[0] >= 0xc2 && c[0] < 0xe0 ? 2
			       : c[0] >= 0xe0 && c[0] < 0xf0 ? 3
			       : c[0] >= 0xf0 && c[0] < 0xf5 ? 4
							     : 0;
		for (len = 1; len < want && at + len < j->n_text && (c[len] & 0xc0) == 0x80; len++)
			;
		bool valid = len == want &&
			     !(want == 3 && ((c[0] == 0xe0 && c[1] < 0xa0) || (c[0] == 0xed && c[1] >= 0xa0))) &&
			     !(want == 4 && ((c[0] == 0xf0 && c[1] < 0x90) || (c[0] == 0xf4 && c[1] >= 0x90)));
		memcpy(out + n, valid ? (const char *)c : "\xef\xbf\xbd", valid ? (size_t)len : 3);
		n += valid ? len : 3;
		len = valid ? len : 1;
	}
	out[n] = '\0';
	mem_free(j->text);
	j->text = out;
	return true;
}

static void json_ids(struct jout *o, const char *key, const int32_t *ids, int64_t n)
{
	jout_begin(o, key, '[');
	for (int64_t i = 0; i < n; i++)
		jout_int(o, NULL, ids[i]);
	jout_end(o, ']');
}

static void json_speed(struct jout *o, const char *key, int32_t n, double s)
{
	jout_begin(o, key, '{');
	jout_int(o, "tokens", n);
	jout_real(o, "seconds", s);
	jout_real(o, "tokens_per_s", rate(n, s));
	jout_end(o, '}');
}

static void json_likeness(struct jout *o, const struct job *j)
{
	const struct likeness *l = &j->like;
	jout_begin(o, "compared", '{');
	jout_text(o, "weight_dtype", j->compare_weights);
	jout_text(o, "kv_cache_dtype", j->compare_kv);
	jout_int(o, "steps", l->steps);
	jout_int(o, "greedy_agree", l->agree);
	jout_real(o, "logit_error", l->error);
	jout_real(o, "worst_logit_error", l->worst);
	if (alike(j) >= 0)
		jout_int(o, "alike_until", alike(j));
	else
		jout_null(o, "alike_until");
	jout_end(o, '}');
}

static int print_json(struct job *j, struct err *e)
{
	struct jout o;
	char *unused;
	const struct generation *g = &j->g;
	if (j->no_memory || (j->tokenizer && !make_valid(j)))
		return err_no_memory(e, "the text");
	jout_open(&o, stdout);
	jout_begin(&o, NULL, '{');
	jout_text(&o, "model", j->model.name);
	jout_text(&o, "weights", g->weights_what);
	jout_text(&o, "backend", g->what);
	jout_text(&o, "weight_dtype", num_names[j->setup.executor.weight_type]);
	jout_text(&o, "kv_cache_dtype", num_names[j->setup.executor.kv_type]);
	jout_int(&o, "weight_bytes", g->weight_bytes);
	jout_int(&o, "kv_bytes", g->kv_bytes);
	json_ids(&o, "prompt_tokens", j->prompt, j->n_prompt);
	json_ids(&o, "tokens", g->tokens, g->n);
	jout_text(&o, "text", j->tokenizer ? j->text : NULL);
	jout_text(&o, "end", generation_end_names[g->end]);
	jout_real(&o, "load_seconds", g->load_s);
	json_speed(&o, "prefill", g->prefill_tokens, g->prefill_s);
	json_speed(&o, "decode", g->decode_tokens, g->decode_s);
	if (j->compared)
		json_likeness(&o, j);
	jout_end(&o, '}');
	int rc = jout_close(&o, &unused, e);
	putchar('\n');
	return rc;
}

/* ---- the command ------------------------------------------------------------------------------------------------- */

static int compare(struct job *j, struct err *e)
{
	const struct generate_opts *o = j->o;
	enum num w, kv;
	int rc = formats(&j->model, o->compare_weights ? o->compare_weights : o->weight_dtype,
			 o->compare_kv ? o->compare_kv : o->kv_cache_dtype, &w, &kv, e);
	if (!o->compare_kv)
		kv = j->setup.executor.kv_type; /* not what "auto" means for the other weights */
	if (!rc)
		rc = generate_compare(&j->setup, w, kv, &j->like, e);
	j->compared = !rc;
	if (!rc) {
		j->compare_weights = num_names[w];
		j->compare_kv = num_names[kv];
	}
	return rc;
}

static int act(struct job *j, struct err *e)
{
	const struct generate_opts *o = j->o;
	int rc = prepare(j, e);
	if (!rc && (o->compare_weights || o->compare_kv))
		rc = compare(j, e);
	if (rc)
		return rc;
	rc = generate(&j->setup, &j->g, e);
	if (!rc || j->g.n > 0)
		end_text(j);
	if (rc)
		return rc;
	if (o->json)
		rc = print_json(j, e);
	if (!rc && !o->quiet)
		print_summary(j);
	if (!rc && !o->quiet && j->compared)
		print_likeness(j);
	return rc;
}

static int run(const struct command *c, int argc, char **argv)
{
	struct generate_opts o = {
		.weight_dtype = "auto", .kv_cache_dtype = "auto", .kv_cache = true, .block_size = 16, .top_p = 1};
	struct job j = {.o = &o, .previous = -1};
	struct err e = {0};
	int n, status;
	if (opts_parse(opts, c->n_opts, &o, argc, argv, &n, NULL, &e) == ERR_NONE && n > 0)
		err_set(&e, ERR_INPUT, "\"%.60s\" is not an option (text to go on from is --prompt TEXT)", argv[1]);
	if (e.code || act(&j, &e) != ERR_NONE)
		status = command_fail(c, &e);
	else
		status = j.g.end == END_STOPPED ? 130 : 0;
	generation_free(&j.g);
	likeness_free(&j.like);
	tokenizer_close(j.tokenizer);
	model_free(&j.model);
	mem_free(j.prompt);
	mem_free(j.text);
	return status;
}

const struct command cmd_generate = {
	.name = "generate",
	.synopsis = "[OPTIONS] --weights WEIGHTS",
	.summary = "Continue a prompt on real kernels",
	.about = "Loads a model of the Llama kind (Llama, Mistral, Qwen2, Qwen3), computes the prompt, samples token "
		 "after "
		 "token and prints the text as it comes, beginning with the prompt. Without a tokenizer, token ids are "
		 "printed. Speeds and what ran go to stderr.\n\n"
		 "Weights come from safetensors (bf16, f16 or f32; several files too), from a .bin of llama2.c, or are "
		 "random, which is enough to measure with. They may be held in fewer bits than they came in; "
		 "--compare-weights and --compare-kv tell what that costs: how far the logits move along the same "
		 "text, in "
		 "relative norm, and how often the greedy token stays the same.\n\n"
		 "Exit status: 0; 2 when the input is at fault; 130 when interrupted (what has been said until then "
		 "stays).",
	.examples = "# llama2.c's smallest model, greedily\n"
		    "lockstep generate --weights stories260K.bin --tokenizer tok512.bin -n 200\n"
		    "# a folder as downloaded, sampled\n"
		    "lockstep generate --weights ./TinyLlama-1.1B --prompt \"The sea\" --temperature 0.8 --top-p 0.95 "
		    "--seed 7\n"
		    "# what int8 weights cost\n"
		    "lockstep generate --weights ./TinyLlama-1.1B --weight-dtype int8 --compare-weights bf16\n"
		    "# how fast is a shape here?\n"
		    "lockstep generate --model tinyllama-1.1b --max-tokens 32 --json\n",
	.opts = opts,
	.n_opts = sizeof opts / sizeof *opts,
	.run = run,
};
