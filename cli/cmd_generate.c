/* lockstep generate: continues one prompt on real kernels, and says how fast. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analysis/run_exec.h"
#include "cli/command.h"
#include "cli/generate_print.h"
#include "core/engine.h"
#include "core/err.h"
#include "core/mem.h"
#include "exec/tokenizer.h"
#include "exec/weights.h"

enum { DEFAULT_NEW = 256, PROMPT_CHUNK = 512 };

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
	{.name = "backend",
	 .type = OPT_STRING,
	 AT(backend),
	 .arg = "cpu|cuda",
	 .help = "What runs the kernels: the CPU (default), or an NVIDIA GPU (docs/gpu.md)."},
	{.name = "enforce-eager",
	 .type = OPT_FLAG,
	 AT(eager),
	 .help = "cuda: start each kernel by itself instead of replaying recorded graphs."},
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
	{.name = "kv-retention",
	 .type = OPT_CHOICE,
	 AT(kv_retention),
	 .arg = "full|window|sink-window",
	 .choices = kv_retention_names,
	 .help = "Which tokens stay in the KV cache: all (default), the last ones, or the first and the last ones "
		 "(docs/kv-compression.md)."},
	{.name = "kv-window",
	 .type = OPT_INT32,
	 AT(kv_window),
	 .arg = "N",
	 .min = 1,
	 .max = INT32_MAX,
	 .help = "How many last tokens. Default: the model's sliding window, where all of its layers have one."},
	{.name = "kv-sink",
	 .type = OPT_INT32,
	 AT(kv_sink),
	 .arg = "N",
	 .min = 1,
	 .max = INT32_MAX,
	 .help = "sink-window: how many first tokens."},
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
	{.name = "compare-full",
	 .type = OPT_FLAG,
	 AT(compare_full),
	 .help = "The same against a KV cache that keeps every token: what --kv-retention costs."},
	{.name = "json", .type = OPT_FLAG, AT(json), .help = "Print one JSON object instead of the text."},
	{.name = "quiet", .letter = 'q', .type = OPT_FLAG, AT(quiet), .help = "Say nothing on stderr but errors."},
};

/* ---- what is asked for ------------------------------------------------------------------------------------------- */

static int load_model(struct generate_job *j, struct err *e)
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
static int open_tokenizer(struct generate_job *j, struct err *e)
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

static int add_id(struct generate_job *j, int32_t id, struct err *e)
{
	if (mem_grow((void **)&j->prompt, &j->cap_prompt, j->n_prompt + 1, sizeof *j->prompt))
		return err_no_memory(e, "the prompt");
	j->prompt[j->n_prompt++] = id;
	return ERR_NONE;
}

static int parse_ids(struct generate_job *j, const char *text, struct err *e)
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

static int make_prompt(struct generate_job *j, struct err *e)
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
static int count_new(struct generate_job *j, int32_t *n_new, struct err *e)
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

static int formats(const char *backend, const struct model *m, const char *weights, const char *kv,
		   enum num *weight_type, enum num *kv_type, struct err *e)
{
	struct weight_format w;
	enum kv_dtype k;
	int rc = model_formats(m, weights, kv, &w, &k, e);
	return rc ? rc : run_exec_formats(backend, &w, k, weight_type, kv_type, e);
}

/* What the config says; else the tokenizer. */
static void set_eos(struct generate_job *j)
{
	struct model_numerics *n = &j->model.numerics;
	if (n->n_eos == 0 && j->tokenizer && tokenizer_eos(j->tokenizer) >= 0)
		n->eos[n->n_eos++] = tokenizer_eos(j->tokenizer);
	j->setup.eos = n->eos;
	j->setup.n_eos = j->o->ignore_eos ? 0 : n->n_eos;
}

/* The same rules as a served request's (core/retention.h). */
static int set_retention(struct generate_job *j, struct err *e)
{
	const struct generate_opts *o = j->o;
	struct engine_config c = {.kv_retention = (enum kv_retention)o->kv_retention,
				  .kv_window = o->kv_window,
				  .kv_sink = o->kv_sink,
				  .kv_off = !o->kv_cache};
	if (c.kv_retention != RETAIN_FULL && !c.kv_window)
		c.kv_window = model_common_window(&j->model);
	j->setup.kv_window = c.kv_window;
	j->setup.kv_sink = c.kv_sink;
	return retention_check(&c, e);
}

static int prepare(struct generate_job *j, struct err *e)
{
	const struct generate_opts *o = j->o;
	struct generate_setup *s = &j->setup;
	int rc = load_model(j, e);
	if (!rc)
		rc = open_tokenizer(j, e);
	if (!rc)
		rc = make_prompt(j, e);
	*s = (struct generate_setup){.model = &j->model,
				     .executor = {.backend = o->backend,
						  .eager = o->eager,
						  .weights = o->weights,
						  .threads = o->threads,
						  .isa = o->isa,
						  .batch_invariant = o->batch_invariant,
						  .block_size = o->block_size,
						  .kv_off = !o->kv_cache,
						  .sampling = {o->temperature, o->top_k, o->top_p, o->seed}},
				     .prompt = j->prompt,
				     .n_prompt = (int32_t)j->n_prompt,
				     .chunk = PROMPT_CHUNK,
				     .stop = stop_flag(),
				     .loaded = generate_tell_prompt,
				     .token = generate_tell,
				     .ctx = j};
	set_eos(j);
	if (!rc)
		rc = count_new(j, &s->n_new, e);
	if (!rc)
		rc = formats(o->backend, &j->model, o->weight_dtype, o->kv_cache_dtype, &s->executor.weight_type,
			     &s->executor.kv_type, e);
	return rc ? rc : set_retention(j, e);
}

/* ---- the command ------------------------------------------------------------------------------------------------- */

static int compare(struct generate_job *j, struct err *e)
{
	const struct generate_opts *o = j->o;
	enum num w, kv;
	int rc = formats(o->backend, &j->model, o->compare_weights ? o->compare_weights : o->weight_dtype,
			 o->compare_kv ? o->compare_kv : o->kv_cache_dtype, &w, &kv, e);
	if (!o->compare_kv)
		kv = j->setup.executor.kv_type; /* not what "auto" means for the other weights */
	if (!rc)
		rc = generate_compare(&j->setup, w, kv, o->compare_full, &j->like, e);
	j->compared = !rc;
	if (!rc) {
		j->compare_weights = num_names[w];
		j->compare_kv = num_names[kv];
	}
	return rc;
}

static int act(struct generate_job *j, struct err *e)
{
	const struct generate_opts *o = j->o;
	int rc = prepare(j, e);
	if (!rc && (o->compare_weights || o->compare_kv || o->compare_full))
		rc = compare(j, e);
	if (rc)
		return rc;
	rc = generate(&j->setup, &j->g, e);
	if (!rc || j->g.n > 0)
		generate_end_text(j);
	if (rc)
		return rc;
	if (o->json)
		rc = generate_print_json(j, e);
	if (!rc && !o->quiet)
		generate_print_summary(j);
	if (!rc && !o->quiet && j->compared)
		generate_print_likeness(j);
	return rc;
}

static int run(const struct command *c, int argc, char **argv)
{
	struct generate_opts o = {.backend = "cpu",
				  .weight_dtype = "auto",
				  .kv_cache_dtype = "auto",
				  .kv_cache = true,
				  .block_size = 16,
				  .top_p = 1};
	struct generate_job j = {.o = &o, .previous = -1};
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
		 "after token and prints the text as it comes, beginning with the prompt. Without a tokenizer, token "
		 "ids are printed. Speeds and what ran go to stderr.\n\n"
		 "Weights come from safetensors (bf16, f16 or f32; several files too), from a .bin of llama2.c, or "
		 "are random, which is enough to measure with. They may be held in fewer bits than they came in; "
		 "--compare-weights and --compare-kv tell what that costs: how far the logits move along the same "
		 "text, in relative norm, and how often the greedy token stays the same.\n\n"
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
