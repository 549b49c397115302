/* lockstep profile: measures this machine. (What is done with profiles: cmd_profile_db.c.) */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "analysis/profile_json.h"
#include "analysis/profile_measure.h"
#include "analysis/store.h"
#include "analysis/store_profile.h"
#include "cli/command.h"
#include "cli/profile_view.h"
#include "cli/progress.h"
#include "core/err.h"

struct profile_opts {
	struct profile_measure m;
	double kv_gib;
	const char *db;
	bool no_db, json, quiet;
};

#define OPT(name_, type_, field, arg_, min_, max_, help_)                                                              \
	{                                                                                                              \
		.name = name_, .type = type_, .offset = offsetof(struct profile_opts, field), .arg = arg_,             \
		.min = min_, .max = max_, .help = help_                                                                \
	}

static const struct opt opts[] = {
	{.name = "What is measured", .type = OPT_TITLE},
	OPT("backend", OPT_STRING, m.backend, "cpu|cuda", 0, 0, "What runs the kernels. Default cpu."),
	OPT("model", OPT_STRING, m.model, "MODEL", 0, 0,
	    "The model: a name (lockstep capacity --list) or the path of a Hugging Face config.json."),
	OPT("weights", OPT_STRING, m.weights, "SOURCE", 0, 0,
	    "Its weights: a .safetensors file or a folder with them, a llama2.c .bin, or random:SEED. Default "
	    "random:1, which takes the same time."),
	OPT("weight-dtype", OPT_STRING, m.weight_dtype, "TYPE", 0, 0,
	    "How the weights are held: auto (default), fp32, bf16 or int8; cuda: fp8 too."),
	OPT("kv-cache-dtype", OPT_STRING, m.kv_dtype, "TYPE", 0, 0,
	    "How the KV cache is held: auto (default), fp32, bf16 or int8; cuda: fp8 too."),
	OPT("block-size", OPT_INT32, m.block_size, "N", 1, 4096, "Tokens per KV block. Default 16."),
	OPT("threads", OPT_INT32, m.threads, "N", 0, 1024, "Threads. Default 0: all there are."),
	OPT("isa", OPT_STRING, m.isa, "base|avx2|avx512", 0, 0, "Instruction set. Default: the best there is."),
	OPT("batch-invariant", OPT_FLAG, m.batch_invariant, NULL, 0, 0,
	    "Only kernels whose results do not depend on what else is in the step."),
	OPT("enforce-eager", OPT_FLAG, m.eager, NULL, 0, 0, "cuda: start each kernel by itself, no graphs."),
	OPT("layers", OPT_INT32, m.layers, "N", 0, 1 << 16,
	    "Layers to run; the others are taken to be alike. Default 0: as few as do not fit the machine's caches."),
	{.name = "How far", .type = OPT_TITLE},
	OPT("max-tokens", OPT_INT32, m.max_tokens, "N", 1, 1 << 20, "Most tokens of a step. Default 2048."),
	OPT("max-context", OPT_INT32, m.max_context, "N", 1, 1 << 24,
	    "Longest context of a sequence. Default 4096, or what the model allows if that is less."),
	OPT("max-num-seqs", OPT_INT32, m.max_seqs, "N", 1, 1 << 16, "Most decodes of a step. Default 256."),
	OPT("kv-cache-gib", OPT_DOUBLE, kv_gib, "G", 0.001, 1e6,
	    "KV cache that runs will have, in GiB: bounds what the contexts of a step add up to. Default 4."),
	OPT("budget", OPT_DOUBLE, m.budget_s, "S", 0.01, 1e6,
	    "Seconds to measure for, loading apart. The range is spanned coarsely first, then finer, then repeated. "
	    "Default 60."),
	OPT("seed", OPT_UINT64, m.seed, "N", 0, 0, "Of the order of the measurements and of the tokens. Default 0."),
	{.name = "Where it goes", .type = OPT_TITLE},
	OPT("name", OPT_STRING, m.name, "NAME", 0, 0, "What to call it: --cost-model profiled:NAME takes it then."),
	OPT("device", OPT_STRING, m.device, "NAME", 0, 0, "What runs call this device. Default: as the backend."),
	OPT("db", OPT_STRING, db, "FILE", 0, 0, "The SQLite database. Default lockstep.db."),
	OPT("no-db", OPT_FLAG, no_db, NULL, 0, 0, "Store nothing."),
	OPT("json", OPT_FLAG, json, NULL, 0, 0, "Print the profile as JSON, as `lockstep profile export` does."),
	{.name = "quiet",
	 .type = OPT_FLAG,
	 .offset = offsetof(struct profile_opts, quiet),
	 .letter = 'q',
	 .help = "Print nothing but errors."},
};

int profile_check_name(const char *name, struct err *e)
{
	size_t n = name ? strlen(name) : 0;
	bool digits = n > 0 && strspn(name, "0123456789") == n;
	if (!name || (n > 0 && n < 64 && !digits && strcmp(name, "latest") != 0 && !strpbrk(name, ",=: \t\n\"")))
		return ERR_NONE;
	return err_set(
		e, ERR_INPUT,
		"--name \"%.80s\": a name has 1 to 63 characters, is no number and not \"latest\", and holds no comma, "
		"colon, '=', quote or space",
		name);
}

static void print_all(const struct profile *p, const struct profile_measured *did, const struct profile_opts *o)
{
	profile_print_identity(stdout, p);
	printf("Took      %.1f s for %d of %d shapes of step, after %.1f s of loading%s\n", did->spent_s, did->measured,
	       did->shots, did->load_s,
	       did->interrupted ? "; interrupted"
	       : did->coarse    ? "; the budget did not reach beyond the coarsest grid"
				: "");
	profile_print_points(stdout, p, false);
	profile_print_steps(stdout, p);
	if (!o->no_db)
		printf("\nStored as profile %" PRId64 " in %s; runs take it with --cost-model profiled:%" PRId64
		       ", or profiled where it is the latest that fits.\n",
		       p->id, o->db, p->id);
}

static int measure(struct profile_opts *o, bool *interrupted, struct err *e)
{
	struct profile p;
	struct profile_measured did;
	struct progress bar;
	struct store *s = NULL;
	int rc = profile_check_name(o->m.name, e);
	if (rc == ERR_NONE && !o->no_db)
		rc = store_open(&s, o->db, false, e);
	if (rc)
		return rc;
	progress_begin(&bar, "profile", !o->quiet && !o->json);
	o->m.progress = progress_update;
	o->m.ctx = &bar;
	rc = profile_measure(&p, &did, &o->m, e);
	progress_end(&bar);
	*interrupted = did.interrupted;
	if (rc == ERR_NONE && s)
		rc = store_save_profile(s, &p, e);
	if (rc == ERR_NONE && o->json)
		rc = profile_write_json(stdout, &p, e);
	else if (rc == ERR_NONE && !o->quiet)
		print_all(&p, &did, o);
	profile_free(&p);
	store_close(s);
	return rc;
}

static int run(const struct command *c, int argc, char **argv)
{
	struct profile_opts o = {.db = "lockstep.db", .kv_gib = 4};
	struct err e = {0};
	int n;
	bool interrupted = false;
	profile_measure_default(&o.m);
	o.m.stop = stop_flag();
	int rc = opts_parse(opts, c->n_opts, &o, argc, argv, &n, NULL, &e);
	if (rc == ERR_NONE && n > 0)
		rc = err_set(&e, ERR_INPUT, "\"%s\" is not one of list, show, export, import and delete", argv[1]);
	o.m.kv_memory_bytes = (int64_t)(o.kv_gib * (double)(1 << 30));
	if (rc == ERR_NONE)
		rc = measure(&o, &interrupted, &e);
	if (rc)
		return command_fail(c, &e);
	return interrupted ? 130 : 0;
}

const struct command cmd_profile = {
	.name = "profile",
	.synopsis = "[OPTIONS] --model MODEL",
	.summary = "Measure what the parts of a step take on this machine",
	.about = "Runs steps of many shapes on real kernels (prompt pieces by tokens and context, decodes by number "
		 "and context, some of both) and stores how long their parts take: matrix products, attention, head, "
		 "the rest, and the host. The cost model `profiled` then predicts any step from them: `lockstep replay "
		 "--cost-model profiled`.\n\n"
		 "A few layers are run, enough that the machine's caches do not hold them; the others are taken to be "
		 "alike. Memory for all of the model's weights is not needed.\n\n"
		 "Ctrl-C ends it early: what is there is stored, marked partial. Anything else that runs on the "
		 "machine meanwhile is measured as well: the table shows the spread.\n\n"
		 "`lockstep profile list`, `show`, `export`, `import` and `delete` are for profiles that are there. "
		 "docs/profile.md has the method.\n\n"
		 "Exit status: 0, 1 when the database cannot be used, 2 for what cannot be measured, 130 when "
		 "interrupted.",
	.examples = "# a minute of measuring, weights made up\n"
		    "lockstep profile --backend cpu --model tinyllama-1.1b\n"
		    "# as a run will have it, with a name\n"
		    "lockstep profile --model llama-110m --weight-dtype fp32 --block-size 32 --budget 30 --name mine\n"
		    "# then\n"
		    "lockstep replay --cost-model profiled:mine --model llama-110m --device cpu --weight-dtype fp32 "
		    "--block-size 32 --dataset-name sample:azure\n",
	.opts = opts,
	.n_opts = sizeof opts / sizeof *opts,
	.run = run,
};
